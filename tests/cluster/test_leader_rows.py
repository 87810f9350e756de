"""What the leader keeps of Pods, Workloads and PodGroups of Kubernetes, and how it finds them."""

import json
from typing import Any

import pytest

from app.cluster.leader_rows import (
    BY_GROUP,
    BY_POD_GROUP,
    BY_SHARED,
    BY_WORKLOAD,
    INSTANCES,
    LISTED_QUEUES,
    POD_GROUPS,
    PRIORITY_CLASSES,
    UNIT_PODS,
    TopologyStatus,
    WorkloadCaches,
    pods_of_scheduler,
    read_stored_instance,
    read_stored_pod,
    read_stored_pod_group,
    read_stored_workload,
    read_topology_status,
    read_unit_pod,
)
from app.facts.rows import KAI_TOPOLOGIES
from app.kube.api import Object
from app.rules.workload.kai_podgroup import WORKLOAD_GROUP
from app.stores.stores import Stores, fill
from tests.pods import pod as recorded_pod


def pod(name: str, workload: str = "w", group: str = "g", **fields: Any) -> Object:
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}", **fields.pop("metadata", {})}
    reference = {"name": workload, "podGroup": group, **fields.pop("reference", {})}
    spec = {"schedulerName": "kai-scheduler", "workloadRef": reference, **fields.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **fields}


MARKED = {"kai.scheduler/skip-podgrouper": "true", "pod-group-name": "pg"}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(pod("p"), ("", False, False, False), id="new"),
        pytest.param(
            pod("p", metadata={"annotations": MARKED}), ("pg", True, False, False), id="marked"
        ),
        pytest.param(
            pod("p", metadata={"annotations": {"pod-group-name": "pg"}}),
            ("", False, False, False),
            id="named and not marked",
        ),
        pytest.param(pod("p", spec={"nodeName": "n"}), ("", False, True, False), id="bound"),
        pytest.param(pod("p", status={"phase": "Failed"}), ("", False, False, True), id="finished"),
        pytest.param(
            pod("p", metadata={"deletionTimestamp": "2026-11-28T12:00:00Z"}),
            ("", False, False, True),
            id="being deleted",
        ),
    ],
)
def test_a_pod_of_a_group_is_kept_with_its_state(
    obj: Object, expected: tuple[str, bool, bool, bool]
) -> None:
    kept = read_stored_pod(obj)
    assert kept is not None
    assert (kept.settled_group, kept.marked, kept.bound, kept.ending) == expected
    assert (kept.namespace, kept.name, kept.uid) == ("ns", "p", "u-p")


def test_what_groups_are_made_from_is_kept_of_a_pod() -> None:
    labels, annotations = {"app": "a"}, {"note": "n"}
    made = pod("p", metadata={"labels": labels, "annotations": annotations, "generation": 3})
    kept = read_stored_pod(made)
    assert kept is not None
    assert json.loads(kept.content) == {"metadata": {"labels": labels, "annotations": annotations}}


OPTED_OUT = {"kai.scheduler/ignore-workload-api": "true"}


@pytest.mark.parametrize(
    ("obj", "is_kept"),
    [
        pytest.param(pod("p", workload=""), False, id="no Workload"),
        pytest.param(pod("p", group=""), False, id="no group"),
        pytest.param(pod("p", metadata={"annotations": OPTED_OUT}), False, id="opted out"),
        pytest.param(
            pod("p", metadata={"annotations": {**OPTED_OUT, **MARKED}}),
            True,
            id="opted out and still marked",
        ),
    ],
)
def test_a_pod_without_a_group_is_not_kept(obj: Object, is_kept: bool) -> None:
    assert (read_stored_pod(obj) is not None) is is_kept


def workload(policy: Object, *groups: str) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "ns", "uid": "w", "resourceVersion": "1"},
        "spec": {"podGroups": [{"name": name, "policy": policy} for name in groups or ("g",)]},
    }


def caches(*objects: Object) -> WorkloadCaches:
    filled = WorkloadCaches("kai-scheduler", Stores((KAI_TOPOLOGIES,))[KAI_TOPOLOGIES])
    fill(filled.topologies, [])
    stores = {
        "Workload": filled.workloads,
        "Pod": filled.pods,
        "PodGroup": filled.instances,
    }
    for _, store in filled.stores:
        fill(store, [obj for obj in objects if stores[obj["kind"]] is store])
    return filled


def instance(name: str, policy: Object, workload: str = "w") -> Object:
    """A PodGroup of Kubernetes 1.36, made from the template "g" of a Workload, or of none."""
    template = {"workload": {"workloadName": workload, "podGroupTemplateName": "g"}}
    spec = {"podGroupTemplateRef": template} if workload else {}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"},
        "spec": {**spec, "schedulingPolicy": policy},
    }


def member(name: str, of: str) -> Object:
    """A Pod that names a PodGroup of Kubernetes."""
    obj = pod(name, metadata={"resourceVersion": "1"})
    obj["spec"] = {"schedulerName": "kai-scheduler", "schedulingGroup": {"podGroupName": of}}
    return obj


BASIC: Object = {"basic": {}}
GANG: Object = {"gang": {"minCount": 1}}


@pytest.mark.parametrize(
    ("objects", "together"),
    [
        pytest.param([instance("i", BASIC), instance("j", BASIC)], True, id="of one basic group"),
        pytest.param([instance("i", GANG), instance("j", GANG)], False, id="of gangs"),
        pytest.param([instance("i", BASIC, ""), instance("j", BASIC, "")], False, id="of nothing"),
        pytest.param([], False, id="not known yet"),
    ],
)
def test_pods_of_podgroups_are_together_if_their_group_is_basic(
    objects: list[Object], together: bool
) -> None:
    cached = caches(*objects, member("a", "i"), member("b", "j"))
    for name, other in ("ab", "ba"):
        kept = cached.pods.get("ns", name)
        assert kept is not None
        found = {each.name for each in cached.pods_of(cached.key_of(kept))}
        assert found == ({name, other} if together else {name})


def replica(name: str, key: str) -> Object:
    return pod(name, reference={"podGroupReplicaKey": key}, metadata={"resourceVersion": "1"})


def test_caches_are_synced_once_all_of_them_are_filled() -> None:
    empty = WorkloadCaches("kai-scheduler", Stores((KAI_TOPOLOGIES,))[KAI_TOPOLOGIES])
    assert not empty.synced
    assert caches().synced
    partly = WorkloadCaches("kai-scheduler", empty.topologies)
    for _, store in partly.stores:
        fill(store, [])
    assert not partly.synced


def test_replicas_of_a_gang_have_keys_of_their_own() -> None:
    cached = caches(workload({"gang": {"minCount": 1}}), replica("a", "0"), replica("b", "1"))
    a, b = (cached.pods.get("ns", name) for name in "ab")
    assert a is not None
    assert b is not None
    assert cached.key_of(a) != cached.key_of(b)
    assert [pod.name for pod in cached.pods_of(cached.key_of(a))] == ["a"]
    assert [pod.name for pod in cached.pods_of(cached.key_of(b))] == ["b"]


def test_replicas_of_a_basic_group_have_one_key() -> None:
    cached = caches(workload({"basic": {}}), replica("a", "0"), replica("b", "1"))
    a, b = (cached.pods.get("ns", name) for name in "ab")
    assert a is not None
    assert b is not None
    assert cached.key_of(a) == cached.key_of(b)
    assert {pod.name for pod in cached.pods_of(cached.key_of(a))} == {"a", "b"}
    # the key that a replica would have in a gang is that of no group
    assert list(cached.pods_of(("ns", a.ref.key))) == []


def test_a_pod_with_the_claim_of_a_unit_is_kept_while_it_lasts() -> None:
    obj = recorded_pod("lws-worker")
    entry = {"name": "mnnvl", "resourceClaimTemplateName": "lws-a-2-mnnvl-template"}
    obj["spec"]["resourceClaims"] = [entry]
    kept = read_unit_pod(obj)
    assert kept is not None
    assert (kept.namespace, kept.base_name, kept.mode) == ("ns", "lws-a-2", "template")
    assert read_unit_pod({**obj, "status": {"phase": "Succeeded"}}) is None
    del obj["spec"]["resourceClaims"]
    assert read_unit_pod(obj) is None


@pytest.mark.parametrize(
    ("pods", "has_pods"),
    [
        pytest.param([], False, id="none"),
        pytest.param([replica("a", "")], True, id="one that names its group"),
        pytest.param(
            [pod("a", "other", metadata={"annotations": MARKED, "resourceVersion": "1"})],
            True,
            id="one of another group that is annotated with it",
        ),
        pytest.param([pod("a", "other", metadata={"resourceVersion": "1"})], False, id="another"),
    ],
)
def test_a_podgroup_is_kept_while_any_pod_is_in_it(pods: list[Object], has_pods: bool) -> None:
    metadata = {"name": "pg", "namespace": "ns", "uid": "pg", "resourceVersion": "1"}
    stored = read_stored_pod_group(
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {**metadata, "annotations": {WORKLOAD_GROUP: "w/g/"}},
            "spec": {},
        }
    )
    assert caches(workload({"gang": {"minCount": 1}}), *pods).has_pods(stored) is has_pods


def test_the_fields_that_a_podgroup_is_made_from_are_kept_of_a_workload() -> None:
    obj = workload(GANG, "a")
    obj["spec"]["podGroups"].append({"name": "b", "policy": BASIC})
    obj["metadata"] |= {"labels": {"app": "a"}, "generation": 3}
    kept = read_stored_workload({**obj, "status": {"phase": "new"}})
    assert (kept.namespace, kept.name, kept.basic) == ("ns", "w", frozenset("b"))
    assert kept.view() == {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "metadata": {"name": "w", "namespace": "ns", "uid": "w", "labels": {"app": "a"}},
        "spec": obj["spec"],
    }


@pytest.mark.parametrize(
    ("obj", "workload", "template", "basic", "shared"),
    [
        pytest.param(instance("i", BASIC), "w", "g", True, True, id="basic"),
        pytest.param(instance("i", GANG), "w", "g", False, True, id="a gang"),
        pytest.param(instance("i", BASIC, ""), "", "", True, False, id="of no Workload"),
    ],
)
def test_a_podgroup_of_kubernetes_is_kept_with_its_workload(
    obj: Object, workload: str, template: str, basic: bool, shared: bool
) -> None:
    kept = read_stored_instance(obj)
    assert (kept.namespace, kept.name, kept.workload, kept.template, kept.basic) == (
        *("ns", "i", workload, template),
        basic,
    )
    assert (kept.composite, bool(kept.shared_key)) == ("", shared)
    assert kept.view()["spec"] == obj["spec"]


def condition(kind: str, status: str = "True") -> Object:
    return {"type": kind, "status": status, "reason": "R", "message": "m"}


@pytest.mark.parametrize(
    ("status", "written", "is_managed"),
    [
        pytest.param({}, [[{}, {}], {}], False, id="nothing"),
        pytest.param(
            {"conditions": [condition("LevelsCovered"), condition("Ready"), condition("Theirs")]},
            [[condition("Ready"), condition("LevelsCovered")], {}],
            True,
            id="our conditions",
        ),
        pytest.param(
            {"conditions": [condition("LevelsCovered")], "observedGeneration": 2, "lastErrors": []},
            [[{}, condition("LevelsCovered")], {"observedGeneration": 2, "lastErrors": []}],
            False,
            id="of a topology that is not managed",
        ),
        pytest.param({"theirs": 1}, [[{}, {}], {}], False, id="the status of another writer"),
    ],
)
def test_only_what_the_leader_writes_is_kept_of_the_status_of_a_topology(
    status: Object, written: list[Any], is_managed: bool
) -> None:
    kept = read_topology_status({"metadata": {"name": "t", "uid": "u"}, "status": status})
    expected = TopologyStatus(name="t", uid="u", content=kept.content, is_managed=is_managed)
    assert (kept, json.loads(kept.content)) == (expected, written)


def test_only_objects_that_the_leader_needs_are_watched() -> None:
    assert pods_of_scheduler("kai-scheduler").fields == "spec.schedulerName=kai-scheduler"
    assert POD_GROUPS.labels == "app.kubernetes.io/managed-by=grove-admission"
    assert UNIT_PODS.labels == "grove.io/mnnvl-unit"
    assert PRIORITY_CLASSES.metadata_only
    assert not LISTED_QUEUES.metadata_only


def test_pods_of_a_namespace_may_take_more_memory_than_other_kinds() -> None:
    row = pods_of_scheduler("kai-scheduler")
    assert (row.most, row.most_of_namespace, row.most_decoded) == (65536, 16777216, 524288)
    assert UNIT_PODS.most_decoded == 524288


def test_groups_and_their_pods_are_found_by_their_keys() -> None:
    obj = pod("p", metadata={"annotations": MARKED}, reference={"podGroupReplicaKey": "0"})
    kept = read_stored_pod(obj)
    assert kept is not None
    lookups = pods_of_scheduler("kai-scheduler").lookups
    assert {name: list(keys(kept)) for name, keys in lookups.items()} == {
        BY_GROUP: [("ns", "w/w/g/0")],
        BY_SHARED: [("ns", "b/w/g")],
        BY_WORKLOAD: [("ns", "w")],
        BY_POD_GROUP: [("ns", "pg")],
    }
    created = read_stored_instance(instance("i", GANG))
    assert {name: list(keys(created)) for name, keys in INSTANCES.lookups.items()} == {
        BY_SHARED: [("ns", "b/w/g")],
        BY_WORKLOAD: [("ns", "w")],
    }
