"""Who may use which queue: every way to name one, in each kind."""

import copy
from typing import Any

import pytest

from app.config.schema import Configuration
from app.facts.kinds import POD_CLIQUE_SET, POD_GROUP
from app.objects.resource import POD, Resource
from app.sandbox.admission.policies import findings_of
from app.sandbox.objects.selectors import object_selector
from app.webhooks.policies import queue_policies
from tests.policies.ways import KAI, QUEUE, TEMPLATED, cliques, controlled, pod, ways

Object = dict[str, Any]

JOB = TEMPLATED[0]
TENANT = {"username": "ann", "groups": ["system:authenticated"]}
_OBJECTS = queue_policies(Configuration(), "refuse", KAI)
POLICIES = list(zip(_OBJECTS[::2], _OBJECTS[1::2], strict=True))


def may_do(access: dict[str, str]) -> bool:
    """Ann may use queue `a`, and no other."""
    queues = {"group": "scheduling.run.ai", "resource": "queues", "verb": "use"}
    return access == {**queues, "name": "a"}


def said(
    resource: Resource, obj: Object, old: Object | None = None, user: Object = TENANT
) -> list[str]:
    """What the policies say against a write of `obj`."""
    request = {
        "operation": "CREATE" if old is None else "UPDATE",
        "resource": {"group": resource.group, "resource": resource.plural},
        "userInfo": user,
        "object": obj,
        "oldObject": old,
    }
    return [
        finding.message
        for policy, binding in POLICIES
        if _matches(policy["spec"]["matchConstraints"], resource, (obj, old or {}))
        for finding in findings_of(policy, binding, request, [None], may_do)
    ]


def _matches(constraints: Object, resource: Resource, objects: tuple[Object, ...]) -> bool:
    """Whether a policy is about a kind, and about one of the objects."""
    selects = object_selector(constraints.get("objectSelector"))
    is_listed = any(
        {"*", resource.group} & set(rule["apiGroups"])
        and {"*", resource.plural} & set(rule["resources"])
        for rule in constraints["resourceRules"]
    )
    return is_listed and any(selects(obj) for obj in objects if obj)


def refusal(queue: str) -> list[str]:
    text = f'queue "{queue}": user "ann" may not use it, and needs the verb use on'
    return [f"{text} queues.scheduling.run.ai/{queue}"]


@pytest.mark.parametrize("way", ways("a"))
def test_a_tenant_uses_the_own_queue_and_no_other(way: str) -> None:
    own = ways("a")[way]
    assert said(own.resource, own.obj) == []
    other = ways("b")[way]
    assert said(other.resource, other.obj) == refusal("b")


CONTROLLERS = {
    "Grove's operator": ["system:serviceaccounts", "system:serviceaccounts:grove-system"],
    "KAI's podgrouper": ["system:serviceaccounts", "system:serviceaccounts:kai-scheduler"],
    "the controller of Jobs": ["system:serviceaccounts", "system:serviceaccounts:kube-system"],
}


@pytest.mark.parametrize("groups", CONTROLLERS.values(), ids=CONTROLLERS)
def test_a_controller_copies_any_queue(groups: list[str]) -> None:
    user = {"username": "system:serviceaccount:n:s", "groups": groups}
    refused = {
        name: said(way.resource, way.obj, user=user)
        for name, way in ways("b").items()
        if said(way.resource, way.obj, user=user)
    }
    assert refused == {}


def test_the_controllers_of_kubernetes_may_have_no_service_accounts() -> None:
    user = {"username": "system:kube-controller-manager"}
    assert said(POD, pod({QUEUE: "b"}), user=user) == []


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
    assert said(own.resource, changed, own.obj) == refusal("b")
    changed["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert said(own.resource, changed, own.obj) == refusal("b")


def test_a_project_counts_as_soon_as_kai_schedules_the_pod() -> None:
    assert said(POD, pod({"project": "b"}), pod({"project": "b"}, "x")) == refusal("b")


def test_two_queues_are_asked_for_one_by_one_and_more_are_refused() -> None:
    assert said(JOB, controlled(JOB, {QUEUE: "a"}, pod({QUEUE: "b"}))) == refusal("b")
    many = cliques(*({"labels": {QUEUE: queue}} for queue in ("a", "b", "c")))
    assert said(POD_CLIQUE_SET, many) == [
        "names more than two queues (a, b, c): name one",
        *refusal("b"),
    ]


def test_a_project_with_a_pool_of_nodes_is_another_queue() -> None:
    labels = {"project": "a", "kai.scheduler/node-pool": "fast"}
    assert said(POD, pod(labels)) == refusal("a-fast")


def test_what_names_no_queue_of_kai_is_nobodys_business() -> None:
    assert said(POD, pod()) == []
    assert said(POD, pod({"project": "b"}, "default-scheduler")) == []
    assert said(POD_GROUP, {"metadata": {"name": "x"}, "spec": {}}) == []


def test_the_mode_that_warns_refuses_nothing_and_fails_open() -> None:
    objects = queue_policies(Configuration(), "warn", KAI)
    assert {obj["spec"]["failurePolicy"] for obj in objects[::2]} == {"Ignore"}
    actions = [obj["spec"]["validationActions"] for obj in objects[1::2]]
    assert actions == [["Warn", "Audit"]] * len(actions)
    assert {obj["spec"]["failurePolicy"] for obj in _OBJECTS[::2]} == {"Fail"}
