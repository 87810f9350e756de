"""Who may use which queue: every way to name one, in each kind."""

import copy
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from app.config.schema import Configuration
from app.facts.kinds import POD_CLIQUE, POD_CLIQUE_SET, POD_GANG, POD_GROUP, WORKLOAD
from app.objects.resource import POD, Resource
from app.webhooks.policies import queue_policies
from tests.policies.asked import Policies
from tests.policies.ways import (
    CONFIG_MAP,
    CRON_JOB,
    GROUP,
    KAI,
    QUEUE,
    REVISION,
    TEMPLATED,
    binding,
    cliques,
    controlled,
    cron_job,
    groups,
    metadata,
    pod,
    projects,
    revision,
    steps,
    ways,
)

pytestmark = pytest.mark.untraced

Object = dict[str, Any]

JOB = TEMPLATED[0]
QUEUES = [{"metadata": {"name": name}} for name in ("a", "b", "b-fast")]
_OBJECTS = [
    obj
    for obj in queue_policies(Configuration(), "refuse", KAI)
    if obj["metadata"]["name"].startswith("queue-guard-")
]


def may_do(access: dict[str, str]) -> bool:
    """Ann may use queue and PodGroup `a`, and no others."""
    kind = {"group": "scheduling.run.ai", "verb": "use", "name": "a"}
    return access in [{**kind, "resource": plural} for plural in ("queues", "podgroups")]


said = Policies(_OBJECTS, {"Queue": QUEUES}, may_do).said
"""What the policies say against a write, in a cluster with the Queues `QUEUES`."""


def refusal(queue: str) -> list[str]:
    text = f'queue "{queue}": user "ann" may not use it. Ask for the verb use on'
    return [f"{text} queues.scheduling.run.ai/{queue}"]


def of_project(queue: str) -> list[str]:
    text = f'label "project": KAI reads it as queue "{queue}", and user "ann" may not use that'
    return [f"{text} queue. Add the label kai.scheduler/queue with a queue"]


def refusals(obj: Object) -> list[str]:
    """What is said of an object that names queue `b`, in its label `project` or elsewhere."""
    if '"project"' in json.dumps(obj):
        return refusal("b") + of_project("b") + of_project("b-fast")
    return refusal("b")


@pytest.mark.parametrize("way", ways("a"))
def test_a_tenant_uses_the_own_queue_and_no_other(way: str) -> None:
    own = ways("a")[way]
    assert said(own.resource, own.obj) == []
    other = ways("b")[way]
    assert said(other.resource, other.obj) == refusals(other.obj)


@pytest.mark.parametrize("way", projects("a"))
def test_a_project_of_an_owner_leads_to_no_queue_of_others(way: str) -> None:
    """Whoever makes a Pod names its owner, and KAI reads the label of that."""
    own = projects("a")[way]
    assert said(own.resource, own.obj) == []
    other = projects("b")[way]
    assert said(other.resource, other.obj) == of_project("b") + of_project("b-fast")
    assert said(other.resource, other.obj, other.obj) == []
    project = '"project": "b"'
    text = json.dumps(other.obj).replace(project, f'{project}, "{QUEUE}": "a"')
    beside = json.loads(text)
    assert said(other.resource, beside) == []
    assert of_project("b")[0] in said(other.resource, other.obj, beside)


def test_a_project_without_a_queue_is_nobodys_business_in_what_makes_no_pods() -> None:
    """Other programs have labels of this name. A pool of nodes is part of the name of a queue."""
    assert said(CONFIG_MAP, {"metadata": metadata({"project": "website"})}) == []
    pool = {"metadata": metadata({"project": "b-fa"})}
    assert said(CONFIG_MAP, pool) == []


PROJECT = {"project": "b"}
OWN = {QUEUE: "a"}


@pytest.mark.parametrize(
    ("resource", "obj"),
    [
        (POD, pod({**PROJECT, **OWN})),
        (JOB, controlled(JOB, {**PROJECT, **OWN})),
        (JOB, controlled(JOB, OWN, pod({**PROJECT, **OWN}))),
        (POD_CLIQUE_SET, cliques({"labels": {**PROJECT, **OWN}})),
        (CRON_JOB, cron_job(pod(), {"labels": {**PROJECT, **OWN}})),
        (CONFIG_MAP, {"metadata": metadata({**PROJECT, QUEUE: ""})}),
        (POD_CLIQUE_SET, cliques({"labels": {**PROJECT, QUEUE: ""}})),
    ],
)
def test_a_project_does_not_count_beside_the_label_of_a_queue(
    resource: Resource, obj: Object
) -> None:
    """KAI looks for that label first, and takes the empty one too."""
    assert said(resource, obj) == []


def test_a_controllerrevision_takes_no_queue_away_from_beside_a_project() -> None:
    """The StatefulSet, which merges it with its template, may have both."""
    merged = revision(pod())
    for labels in ({"$retainKeys": ["project"]}, {QUEUE: None}):
        merged["data"]["spec"]["template"] = {"metadata": {"labels": labels}}
        assert said(REVISION, merged) != []


def test_other_data_of_a_controllerrevision_is_nobodys_business() -> None:
    """Controllers of other kinds write what they like."""
    for data in ({}, {"spec": {"leaderWorkerTemplate": {QUEUE: "b"}}}):
        assert said(REVISION, {"metadata": metadata(), "revision": 1, "data": data}) == []


def test_a_project_counts_beside_a_queue_of_another_object() -> None:
    """A Job may have an owner, whose labels are not known here, and then its own don't count."""
    way = controlled(JOB, OWN, pod(PROJECT))
    assert said(JOB, way) == refusals(way)


@pytest.mark.parametrize(
    "kind", ["Namespace", "PriorityClass", "PersistentVolumeClaim", "ResourceClaim"]
)
def test_no_podgroup_belongs_to_what_nobody_is_asked_about(kind: str) -> None:
    """Not even if KAI's pod-grouper makes it."""
    user = {"username": "p", "groups": [f"system:serviceaccounts:{KAI}"]}
    owner = {"kind": kind, "name": "b"}
    group = {"metadata": {"name": "x", "ownerReferences": [owner]}, "spec": {}}
    assert said(POD_GROUP, group, user=user) == [
        f"owner {kind} b: its labels were never checked and would choose the queue. Remove it from the owners of the Pod"
    ]
    owner["kind"] = "Job"
    assert said(POD_GROUP, group, user=user) == []


def test_writes_of_the_status_are_asked_about_too() -> None:
    """API servers take labels of Pods and Jobs from them, and no template."""
    others = ("shared-owners", "template-projects", "clique-projects", "revisions")
    for policy in _OBJECTS[::2]:
        if policy["metadata"]["name"].removeprefix("queue-guard-").startswith(others):
            continue
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]:
            asked = set(rule["resources"])
            plurals = {plural for plural in asked if "/" not in plural}
            assert asked - {"pods/binding"} == plurals | {f"{plural}/status" for plural in plurals}


def of_group(group: str) -> list[str]:
    return [
        f'annotation "pod-group-name": KAI may take PodGroup "{group}" of any namespace, and its queue. User "ann" needs the verb use on podgroups.scheduling.run.ai/{group} in all namespaces'
    ]


@pytest.mark.parametrize("way", groups("a"))
def test_a_tenant_puts_no_pod_into_the_podgroup_of_another_namespace(way: str) -> None:
    own = groups("a")[way]
    assert said(own.resource, own.obj) == []
    other = groups("b")[way]
    assert said(other.resource, other.obj) == of_group("b")
    assert said(other.resource, other.obj, own.obj) == of_group("b")
    assert said(other.resource, other.obj, other.obj) == []


def test_the_pods_of_two_cliques_do_not_name_two_podgroups() -> None:
    two = cliques(*({"annotations": {GROUP: group}} for group in ("a", "b")))
    assert said(POD_CLIQUE_SET, two) == [
        'annotation "pod-group-name": names more than one PodGroup (a, b). Use only one'
    ]


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (binding({QUEUE: "a", "project": "b"}, {GROUP: "a"}), []),
        (binding({QUEUE: "b"}, {}), refusal("b")),
        (binding({"project": "b"}, {}), of_project("b") + of_project("b-fast")),
        (binding({}, {GROUP: "b"}), of_group("b")),
    ],
)
@pytest.mark.parametrize("plural", ["pods/binding", "bindings"])
def test_a_binding_gives_its_pod_no_queue_of_others(
    plural: str, obj: Object, expected: list[str]
) -> None:
    """API servers copy its labels and annotations."""
    resource = Resource("", plural, "Binding", True, ("v1",))
    assert said(resource, obj) == expected


CONTROLLERS = {
    "Grove's operator": ["system:serviceaccounts", "system:serviceaccounts:grove-system"],
    "KAI's pod-grouper": ["system:serviceaccounts", "system:serviceaccounts:kai-scheduler"],
    "the controller of Jobs": ["system:serviceaccounts", "system:serviceaccounts:kube-system"],
}


@pytest.mark.parametrize("member_of", CONTROLLERS.values(), ids=CONTROLLERS)
def test_a_controller_copies_any_queue(member_of: list[str]) -> None:
    user = {"username": "system:serviceaccount:n:s", "groups": member_of}
    every = [*ways("b").items(), *projects("b").items(), *groups("b").items()]
    refused = {
        name: said(way.resource, way.obj, user=user)
        for name, way in every
        if said(way.resource, way.obj, user=user)
    }
    assert refused == {}


def test_the_controllers_of_kubernetes_may_have_no_service_accounts() -> None:
    user = {"username": "system:kube-controller-manager"}
    assert said(POD, pod({QUEUE: "b"}), user=user) == []


def test_the_operator_of_grove_may_be_in_another_namespace_than_ours() -> None:
    operator = "system:serviceaccount:elsewhere:grove-operator"
    configuration = Configuration.model_validate({"authorization": {"authorizedUsers": [operator]}})
    policies = queue_policies(configuration, "refuse", KAI)
    guards = [obj for obj in policies if obj["metadata"]["name"].startswith("queue-guard-")]
    ask = Policies(guards, {"Queue": QUEUES}, may_do).said
    groups = ["system:serviceaccounts:elsewhere"]

    assert ask(POD, pod({QUEUE: "b"}), user={"username": operator, "groups": groups}) == []
    another = {"username": "system:serviceaccount:elsewhere:another", "groups": groups}
    assert ask(POD, pod({QUEUE: "b"}), user=another) != []


@pytest.mark.parametrize("way", ways("b"))
def test_an_update_may_keep_a_queue(way: str) -> None:
    """Whoever scales a workload need not be allowed to use its queue."""
    stored = ways("b")[way]
    scaled = copy.deepcopy(stored.obj)
    scaled["metadata"]["generation"] = 2
    assert said(stored.resource, scaled, stored.obj) == []


@pytest.mark.parametrize("way", ways("a"))
def test_an_update_may_not_change_to_a_queue_of_others(way: str) -> None:
    """Nor while the object is being deleted: KAI looks at what is still there."""
    own = ways("a")[way]
    changed = copy.deepcopy(ways("b")[way].obj)
    assert said(own.resource, changed, own.obj) == refusals(changed)
    changed["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert said(own.resource, changed, own.obj) == refusals(changed)


@pytest.mark.parametrize("case", steps("b", "a"))
def test_several_writes_lead_to_no_queue_of_others(case: str) -> None:
    way = steps("b", "a")[case]
    before = None if not way.is_copied else way.objects[0]
    for obj in way.objects[way.is_copied : -1]:
        assert said(way.resource, obj, before) == []
        before = obj
    assert said(way.resource, way.objects[-1], before) != []


Place = tuple[str | int, ...]

_METADATA: tuple[Place, ...] = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
)
_OF_TEMPLATE = tuple(("spec", "template", *path) for path in _METADATA)
_OF_JOBS = tuple(("spec", "jobTemplate", *path) for path in (*_METADATA, *_OF_TEMPLATE))
_OF_CLIQUE = tuple(("spec", "template", "cliques", 0, name) for name in ("labels", "annotations"))

PLACES: dict[str, tuple[Resource, Object, tuple[Place, ...]]] = {
    "ConfigMap": (CONFIG_MAP, {"metadata": {}}, _METADATA),
    "PodGang": (POD_GANG, {"metadata": {}, "spec": {}}, _METADATA),
    "PodGroup": (POD_GROUP, {"metadata": {}, "spec": {}}, (*_METADATA, ("spec",))),
    "Pod": (POD, pod(), _METADATA),
    "CronJob": (CRON_JOB, cron_job(pod(), {}), (*_METADATA, *_OF_JOBS)),
    "PodCliqueSet": (POD_CLIQUE_SET, cliques({}), (*_METADATA, *_OF_CLIQUE)),
    "PodClique": (POD_CLIQUE, ways("a")["a PodClique"].obj, _METADATA),
    "Workload": (WORKLOAD, {"metadata": {}, "spec": {}}, _METADATA),
    **{
        resource.kind: (resource, controlled(resource), (*_METADATA, *_OF_TEMPLATE))
        for resource in TEMPLATED
    },
}
"""Everywhere in an object of a kind where a queue can be named."""


def holder(obj: Any, place: Place) -> Object:
    """The map of `obj` that has an entry with the name of a queue."""
    for step in place:
        obj = obj[step] if isinstance(step, int) else obj.setdefault(step, {})
    found: Object = obj
    return found


def named_in(obj: Object, places: Iterable[Place]) -> frozenset[Place]:
    """The places that name a queue of others."""
    return frozenset(place for place in places if "b" in holder(obj, place).values())


@pytest.mark.parametrize("kind", PLACES)
def test_no_number_of_writes_moves_a_queue_of_others_to_another_place(kind: str) -> None:
    """Wherever somebody else has named it, and if nobody has: every sequence of writes, each of one
    place, is tried.
    """
    resource, base, places = PLACES[kind]
    cliques_are_one = set(_OF_CLIQUE) & set(places)
    for start in (None, *places):
        first = copy.deepcopy(base)
        for place in places:
            holder(first, place).pop(QUEUE, None)
        if start is not None:
            holder(first, start)[_key(start)] = "b"
        allowed = {start} | (cliques_are_one if start in cliques_are_one else set())
        if resource in (CONFIG_MAP, POD_GANG):
            allowed |= {("metadata", "annotations")}  # which nobody reads
        assert reached(resource, first, places) - allowed == set()


def reached(resource: Resource, first: Object, places: Sequence[Place]) -> set[Place]:
    """The places that name a queue of others after any allowed writes of `first`."""
    seen = {json.dumps(first, sort_keys=True)}
    waiting = [first]
    found: set[Place] = set()
    while waiting:
        obj = waiting.pop()
        found |= named_in(obj, places)
        for place, queue in itertools.product(places, (None, "b")):
            changed = copy.deepcopy(obj)
            entries = holder(changed, place)
            entries.pop(_key(place), None)
            if queue is not None:
                entries[_key(place)] = queue
            text = json.dumps(changed, sort_keys=True)
            if text not in seen and not said(resource, changed, obj):
                seen.add(text)
                waiting.append(changed)
    return found


def _key(place: Place) -> str:
    return "queue" if place == ("spec",) else QUEUE


def test_a_project_counts_as_soon_as_kai_schedules_the_pod() -> None:
    assert said(POD, pod({"project": "b"}), pod({"project": "b"}, "x")) == refusal("b")


def test_two_queues_are_asked_for_one_by_one_and_more_are_refused() -> None:
    assert said(JOB, controlled(JOB, {QUEUE: "a"}, pod({QUEUE: "b"}))) == refusal("b")
    many = cliques(*({"labels": {QUEUE: queue}} for queue in ("a", "b", "c")))
    assert said(POD_CLIQUE_SET, many) == [
        "names more than two queues (a, b, c). Use only one",
        *refusal("b"),
    ]


def test_a_project_with_a_pool_of_nodes_is_another_queue() -> None:
    labels = {"project": "a", "kai.scheduler/node-pool": "fast"}
    assert said(POD, pod(labels)) == refusal("a-fast")


def test_what_names_no_queue_of_kai_is_nobodys_business() -> None:
    assert said(POD, pod()) == []
    assert said(POD, pod({"project": "website"}, "default-scheduler")) == []
    assert said(POD_GROUP, {"metadata": {"name": "x"}, "spec": {}}) == []


def test_the_mode_that_warns_refuses_nothing_and_fails_open() -> None:
    objects = queue_policies(Configuration(), "warn", KAI)
    assert {obj["spec"]["failurePolicy"] for obj in objects[::2]} == {"Ignore"}
    actions = [obj["spec"]["validationActions"] for obj in objects[1::2]]
    assert actions == [["Warn", "Audit"]] * len(actions)
    open_ones = [
        obj["metadata"]["name"].partition(".")[0]
        for obj in _OBJECTS[::2]
        if obj["spec"]["failurePolicy"] != "Fail"
    ]
    assert open_ones == [
        "queue-guard-projects",
        "queue-guard-template-projects",
        "queue-guard-clique-projects",
    ]
