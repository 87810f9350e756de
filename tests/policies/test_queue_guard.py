"""Who may use which queue: every way to name one, in each kind."""

import copy
from typing import Any

import pytest

from app.config.schema import Configuration
from app.sandbox.admission.policies import findings_of
from app.webhooks.policies import queue_policies

Object = dict[str, Any]

QUEUE = "kai.scheduler/queue"
TENANT = {"username": "ann", "groups": ["system:authenticated"]}
KAI = "kai-scheduler"
_OBJECTS = queue_policies(Configuration(), "refuse", KAI)
POLICIES = list(zip(_OBJECTS[::2], _OBJECTS[1::2], strict=True))


def may_do(access: dict[str, str]) -> bool:
    """Ann may use queue `a`, and no other."""
    queues = {"group": "scheduling.run.ai", "resource": "queues", "verb": "use"}
    return access == {**queues, "name": "a"}


def said(plural: str, obj: Object, old: Object | None = None, user: Object = TENANT) -> list[str]:
    """What the policies say against a write of `obj`."""
    request = {
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": user,
        "object": obj,
        "oldObject": old,
    }
    return [
        finding.message
        for policy, binding in POLICIES
        if any(_matches(rule, plural) for rule in _rules(policy))
        for finding in findings_of(policy, binding, request, [None], may_do)
    ]


def _rules(policy: Object) -> list[Object]:
    rules: list[Object] = policy["spec"]["matchConstraints"]["resourceRules"]
    return rules


def _matches(rule: Object, plural: str) -> bool:
    """Whether a rule matches a kind. PodGroups are those of KAI here."""
    is_other = plural == "podgroups" and rule["apiGroups"] == ["scheduling.k8s.io"]
    return plural in rule["resources"] and not is_other


def refusal(queue: str) -> list[str]:
    text = f'queue "{queue}": user "ann" may not use it, and needs the verb use on'
    return [f"{text} queues.scheduling.run.ai/{queue}"]


def named(queue: str, field: str = "labels", key: str = QUEUE) -> Object:
    return {"metadata": {"name": "x", field: {key: queue}}}


def pod(metadata: Object, scheduler: str = KAI) -> Object:
    return {**metadata, "spec": {"schedulerName": scheduler, "containers": []}}


PLAIN: Object = {"metadata": {"name": "x"}}


def controlled(metadata: Object, template: Object) -> Object:
    return {**metadata, "spec": {"template": template}}


def clique(**metadata: Any) -> Object:
    return {**PLAIN, "spec": {"template": {"cliques": [{"name": "w", **metadata}]}}}


def ways(queue: str) -> dict[str, tuple[str, Object]]:
    """Each way to name a queue, as the plural of the kind and the object."""
    found = {
        "the spec of a PodGroup": ("podgroups", {**PLAIN, "spec": {"queue": queue}}),
        "a label of a PodGroup": ("podgroups", {**named(queue), "spec": {}}),
        "a label of a PodCliqueSet": ("podcliquesets", {**clique(), **named(queue)}),
        "an annotation of one": ("podcliquesets", {**clique(), **named(queue, "annotations")}),
        "a label of a clique": ("podcliquesets", clique(labels={QUEUE: queue})),
        "an annotation of a clique": ("podcliquesets", clique(annotations={QUEUE: queue})),
        "a PodClique": ("podcliques", {**named(queue), "spec": {}}),
        "a label of a Workload": ("workloads", {**named(queue), "spec": {}}),
        "an annotation of a Workload": ("workloads", {**named(queue, "annotations"), "spec": {}}),
        "a label of a Pod": ("pods", pod(named(queue))),
        "a project": ("pods", pod(named(queue, key="project"))),
        "a CronJob": (
            "cronjobs",
            {**PLAIN, "spec": {"jobTemplate": {"spec": {"template": pod(named(queue))}}}},
        ),
    }
    for plural in ("jobs", "deployments", "replicasets", "statefulsets", "daemonsets"):
        found[f"a label of {plural}"] = (plural, controlled(named(queue), pod(PLAIN)))
        found[f"a template of {plural}"] = (plural, controlled(PLAIN, pod(named(queue))))
        owned = controlled(named(queue, key="project"), pod(PLAIN))
        found[f"a project of {plural}"] = (plural, owned)
    return found


@pytest.mark.parametrize("way", ways("a"))
def test_a_tenant_uses_the_own_queue_and_no_other(way: str) -> None:
    plural, own = ways("a")[way]
    assert said(plural, own) == []
    _, other = ways("b")[way]
    assert said(plural, other) == refusal("b")


CONTROLLERS = {
    "Grove's operator": ["system:serviceaccounts", "system:serviceaccounts:grove-system"],
    "KAI's podgrouper": ["system:serviceaccounts", "system:serviceaccounts:kai-scheduler"],
    "the controller of Jobs": ["system:serviceaccounts", "system:serviceaccounts:kube-system"],
}


@pytest.mark.parametrize("groups", CONTROLLERS.values(), ids=CONTROLLERS)
def test_a_controller_copies_any_queue(groups: list[str]) -> None:
    user = {"username": "system:serviceaccount:n:s", "groups": groups}
    assert [said(plural, obj, user=user) for plural, obj in ways("b").values()] == [[]] * len(
        ways("b")
    )


def test_the_controllers_of_kubernetes_may_have_no_service_accounts() -> None:
    user = {"username": "system:kube-controller-manager"}
    assert said("pods", pod(named("b")), user=user) == []


@pytest.mark.parametrize("way", ways("b"))
def test_an_update_may_keep_a_queue(way: str) -> None:
    """Whoever scales a workload need not be allowed to use its queue."""
    plural, obj = ways("b")[way]
    scaled = copy.deepcopy(obj)
    scaled["metadata"]["generation"] = 2
    assert said(plural, scaled, obj) == []


def test_an_update_may_not_change_to_a_queue_of_others() -> None:
    assert said("podcliquesets", clique(labels={QUEUE: "b"}), clique(labels={QUEUE: "a"})) == (
        refusal("b")
    )
    assert said("pods", pod(named("b", key="project")), pod(named("b", key="project"), "x")) == (
        refusal("b")
    )


def test_two_queues_are_asked_for_one_by_one_and_more_are_refused() -> None:
    assert said("jobs", controlled(named("a"), pod(named("b")))) == refusal("b")
    cliques = [{"name": queue, "labels": {QUEUE: queue}} for queue in ("a", "b", "c")]
    many = {**PLAIN, "spec": {"template": {"cliques": cliques}}}
    assert said("podcliquesets", many) == [
        "names more than two queues (a, b, c): name one",
        *refusal("b"),
    ]


def test_a_project_with_a_pool_of_nodes_is_another_queue() -> None:
    labels = {"project": "a", "kai.scheduler/node-pool": "fast"}
    assert said("pods", pod({"metadata": {"name": "x", "labels": labels}})) == refusal("a-fast")


def test_what_names_no_queue_of_kai_is_nobodys_business() -> None:
    assert said("pods", pod(PLAIN)) == []
    assert said("pods", pod(named("b", key="project"), "default-scheduler")) == []
    assert said("podgroups", {**PLAIN, "spec": {}}) == []


def test_the_mode_that_warns_refuses_nothing_and_fails_open() -> None:
    objects = queue_policies(Configuration(), "warn", KAI)
    assert {obj["spec"]["failurePolicy"] for obj in objects[::2]} == {"Ignore"}
    actions = [obj["spec"]["validationActions"] for obj in objects[1::2]]
    assert actions == [["Warn", "Audit"]] * len(actions)
    assert {obj["spec"]["failurePolicy"] for obj in _OBJECTS[::2]} == {"Fail"}
