"""Values that objects rarely have, as the rows of the table read them.

Tests `app/facts/explain_rows.py`, `app/facts/kai/podgroup.py`, `app/facts/kai/queue.py`,
`app/facts/grove/podgang.py`, `app/facts/kubernetes/claim.py`, `app/facts/nvidia/computedomain.py`
and `app/facts/identity.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.cluster import leader_rows
from app.cluster.leader_rows import POD_GROUPS
from app.explain.state import snapshot
from app.explain.state.index import Index
from app.facts import explain_rows, rows
from app.facts.grove.podgang import read_pod_gang, read_stored_gang
from app.facts.identity import read_name
from app.facts.kai.podgroup import Said, read_kai_pod_group
from app.facts.kai.queue import Share, read_queue
from app.facts.kubernetes.claim import read_resource_claim
from app.facts.kubernetes.node import Node, read_node
from app.facts.kubernetes.pod import read_pod, read_rest_of_pod
from app.facts.kubernetes.workload import PriorityClass, read_priority_class
from app.facts.nvidia.computedomain import DomainNode, read_domain_clique
from app.facts.quantity import MOST_THOUSANDTHS
from app.facts.rows import GANGS, Row
from app.kube.api import WatchEvent
from app.stores.stores import Stores, fill

NAMED: dict[str, Any] = {"metadata": {"namespace": "ns", "name": "a"}}
SCHEDULED = {
    "type": "PodScheduled",
    "status": "True",
    "lastTransitionTime": "2027-01-15T08:00:00Z",
}


TWO_READERS = {
    *("ComputeDomain", "ResourceClaim"),  # ours, of which verdicts need owners; all, with devices
    *("DeviceClass", "Node", "PodGang", "PodCliqueSet", "PriorityClass", "Queue", "ResourceSlice"),
    *(
        "Pod",
        "PodClique",
        "PodGroup",
        "Workload",
    ),  # of the leader, which writes what belongs to them
    *("ClusterTopology", "ClusterTopologyBinding"),  # of the leader, which repairs their statuses
}
"""Kinds of which a server that keeps all of them needs less than an explanation of one workload."""


def test_each_kind_has_one_reader_or_one_for_verdicts_and_one_for_explanations() -> None:
    readers: dict[str, set[str]] = {}
    kinds: dict[str, str] = {}
    for module in (rows, explain_rows, leader_rows, snapshot):
        for row in vars(module).values():
            if isinstance(row, Row):
                readers.setdefault(str(row.resource), set()).add(row.read.__qualname__)
                kinds[str(row.resource)] = row.resource.kind

    assert len(readers) > 20
    assert max(map(len, readers.values())) == 2
    assert {kinds[name] for name, of_kind in readers.items() if len(of_kind) == 2} == TWO_READERS


@pytest.mark.parametrize(
    ("gang", "view", "cliques"),
    [
        pytest.param(NAMED, {"metadata": {}}, (), id="no spec"),
        pytest.param({**NAMED, "spec": 3}, {"metadata": {}, "spec": 3}, (), id="a number as spec"),
        pytest.param(
            {**NAMED, "spec": {"other": 1}}, {"metadata": {}, "spec": {}}, (), id="no podgroups"
        ),
        pytest.param(
            {**NAMED, "spec": {"podgroups": 3}},
            {"metadata": {}, "spec": {"podgroups": 3}},
            (),
            id="a number as podgroups",
        ),
        pytest.param(
            {
                "metadata": {
                    **NAMED["metadata"],
                    "annotations": {"grove.io/topology-name": "t", "other": "x"},
                },
                "spec": {"podgroups": [{"name": "p", "minReplicas": 2}, 3], "other": 1},
            },
            {
                "metadata": {"annotations": {"grove.io/topology-name": "t"}},
                "spec": {"podgroups": [{"name": "p"}, 3]},
            },
            ("p",),
            id="what is kept",
        ),
    ],
)
def test_what_is_kept_of_a_podgang(gang: Any, view: Any, cliques: tuple[str, ...]) -> None:
    opened = read_stored_gang(gang).opened()
    assert (opened.view, opened.cliques) == (view, cliques)


@pytest.mark.parametrize("row", [GANGS, POD_GROUPS], ids=["PodGang", "PodGroup"])
def test_a_row_has_the_newest_version_although_nothing_that_is_kept_changed(row: Row[Any]) -> None:
    """The reconciler writes with a precondition on it."""
    store = Stores((row,))[row]
    told: list[Any] = []
    for version in ("5", "6"):
        metadata = {**NAMED["metadata"], "uid": "u", "resourceVersion": version}
        stored = {"apiVersion": "v1", "metadata": metadata, "status": {"phase": version}}
        store.apply(WatchEvent("MODIFIED", stored))
        store.subscribe(lambda *change: told.append(change))

    kept = store.get("ns", "a")
    assert kept is not None
    assert (kept.resource_version, told) == ("6", [])


def test_words_of_kai_without_reasons() -> None:
    conditions = [
        {"type": "Other", "message": "no"},
        {"type": "UnschedulableOnNodePool", "reason": "R", "message": "no room"},
    ]
    group = read_kai_pod_group({**NAMED, "status": {"schedulingConditions": conditions}})
    assert group.said == (Said("R", "no room"),)


def test_parts_that_name_a_topology_and_no_level_of_it() -> None:
    topology = {"topology": "t"}
    subgroups = [
        {"name": "b", "topologyConstraint": topology},
        {"name": "c", "topologyConstraint": {**topology, "preferredTopologyLevel": "rack"}},
        {"name": "d"},
    ]
    spec = {"topologyConstraint": topology, "subGroups": subgroups}
    group = read_kai_pod_group({**NAMED, "spec": spec})
    assert group.without_level == ("a", "b")
    assert [subgroup.topology for subgroup in group.subgroups] == ["t", "t", ""]


def test_a_bound_that_is_no_number_of_devices() -> None:
    """KAI reads only -1 as unlimited, and a bound that is not set as 0."""
    gpu = {"quota": "8", "limit": -1}
    queue = read_queue({**NAMED, "spec": {"resources": {"gpu": gpu, "cpu": {"quota": 5}}}})
    assert (queue.quota, queue.limit, queue.unset) == (0, None, ())
    assert queue.cpu == Share(5, 0, weight=0, unset=("limit",))
    assert queue.memory == Share(0, 0, weight=0, unset=("quota", "limit"))


def test_a_queue_is_of_the_node_pool_whose_label_it_has() -> None:
    labels = {"labels": {"kai.scheduler/node-pool": "h100"}}
    assert read_queue({"metadata": {**NAMED["metadata"], **labels}}).pool == "h100"
    assert read_queue(NAMED).pool == ""


@pytest.mark.parametrize("bound", [1e308, 10**400], ids=["1e308", "400 digits"])
def test_a_bound_beyond_all_quantities(bound: float) -> None:
    resources = {name: {"quota": bound, "limit": bound} for name in ("gpu", "cpu", "memory")}
    queue = read_queue({**NAMED, "spec": {"resources": resources}})
    shares = queue.shares.values()
    assert {(share.quota, share.limit) for share in shares} == {(MOST_THOUSANDTHS,) * 2}


def test_the_weight_of_a_queue_is_that_of_its_bounds() -> None:
    """KAI reads a weight that is not set as 0."""
    resources = {"gpu": {"quota": 8, "overQuotaWeight": 2.5}, "cpu": {"quota": 1000}}
    queue = read_queue({**NAMED, "spec": {"resources": resources, "priority": 5}})
    assert [share.weight for share in queue.shares.values()] == [2.5, 0, 0]
    assert (queue.priority, read_queue(NAMED).priority) == (5, 100)


def test_a_request_without_a_class_asks_for_no_device() -> None:
    requests = [{"name": "a"}, {"exactly": {"deviceClassName": "c", "count": 2}}]
    claim = read_resource_claim({**NAMED, "spec": {"devices": {"requests": requests}}})
    assert claim.classes == ("c", "c")


def test_labels_of_a_file_may_be_no_texts() -> None:
    assert read_node({"metadata": {"name": "n", "labels": {"a": 1}}}).labels == {"a": "1"}


@pytest.mark.parametrize(
    ("type_", "status", "pressure"),
    [
        ("DiskPressure", "True", "DiskPressure"),
        ("NetworkUnavailable", "Unknown", "NetworkUnavailable"),
        ("DiskPressure", "False", ""),
        ("FrequentKubeletRestart", "True", ""),
    ],
)
def test_a_condition_that_keeps_kai_away_from_a_node(
    type_: str, status: str, pressure: str
) -> None:
    conditions = [{"type": "Ready", "status": "True"}, {"type": type_, "status": status}]
    node = read_node({"metadata": {"name": "n"}, "status": {"conditions": conditions}})
    assert (node.ready, node.pressure, node.takes_pods) == (True, pressure, not pressure)


def test_a_pod_with_a_part_of_a_gpu_that_is_gated() -> None:
    conditions = [
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"},
        {"type": "Ready", "status": "False"},
    ]
    metadata = {**NAMED["metadata"], "annotations": {"gpu-fraction": "0.5"}}
    pod = read_pod({"metadata": metadata, "status": {"conditions": conditions}})
    assert (pod.shape.requests, pod.unscheduled) == (
        (("nvidia.com/gpu", 500), ("pods", 1000)),
        "",
    )


def test_small_kinds() -> None:
    daemons = [{"nodeName": "n", "status": "Ready"}, {"name": "m"}]
    nodes = (DomainNode("n", True), DomainNode("m", None))
    assert read_domain_clique({**NAMED, "daemons": daemons}).nodes == nodes
    assert read_priority_class({**NAMED, "value": 7}) == PriorityClass("a", 7)
    assert read_name(NAMED) == "a"


@pytest.mark.parametrize(
    ("backoff", "conditions", "given_up"),
    [
        pytest.param(1, [("default", "1")], True, id="tried once"),
        pytest.param(1, [], False, id="not tried yet"),
        pytest.param(None, [("default", "1")], False, id="tried in each cycle by default"),
        pytest.param(-1, [("default", "1")], False, id="tried in each cycle"),
        pytest.param(1, [("gold", "2"), ("default", "1")], False, id="tried in another pool since"),
        pytest.param(1, [("gold", ""), ("default", "1")], True, id="a condition without a number"),
        pytest.param(1, [("gold", "9"), ("default", "1" * 5000)], True, id="a long number"),
    ],
)
def test_a_pod_group_that_is_tried_once_is_given_up(
    backoff: int | None, conditions: list[tuple[str, str]], given_up: bool
) -> None:
    stored = [{"nodePool": pool, "transitionID": number} for pool, number in conditions]
    group = read_kai_pod_group(
        {
            **NAMED,
            "spec": {"schedulingBackoff": backoff},
            "status": {"schedulingConditions": stored},
        }
    )
    assert group.given_up is given_up


@pytest.mark.parametrize(
    ("status", "bound"),
    [
        pytest.param({"phase": "Pending"}, None, id="without a node"),
        pytest.param({"phase": "Pending", "conditions": [SCHEDULED]}, 1_800_000_000.0, id="bound"),
        pytest.param({"phase": "Running", "conditions": [SCHEDULED]}, None, id="started"),
        pytest.param(
            {"phase": "Pending", "conditions": [{**SCHEDULED, "status": "False"}]},
            None,
            id="no node was found",
        ),
    ],
)
def test_when_a_pod_got_its_node_is_kept_until_it_starts(
    status: dict[str, Any], bound: float | None
) -> None:
    assert read_pod({**NAMED, "status": status}).bound == bound


def test_a_claim_names_its_compute_domain_in_its_configuration() -> None:
    other = {"opaque": {"driver": "gpu.nvidia.com", "parameters": {"kind": "GpuConfig"}}}
    channel = {"opaque": {"parameters": {"kind": "ComputeDomainChannelConfig", "domainID": "u1"}}}
    spec = {"devices": {"config": [other, channel]}}
    assert read_resource_claim({**NAMED, "spec": spec}).domain == "u1"
    assert read_resource_claim(NAMED).domain == ""


@pytest.mark.parametrize(
    ("status", "scheduled"),
    [
        pytest.param({}, None, id="a release that notes nothing"),
        pytest.param({"conditions": [{"type": "Scheduled"}]}, False, id="not scheduled yet"),
        pytest.param({"lastScheduled": "2027-01-15T08:00:00Z"}, True, id="scheduled once"),
    ],
)
def test_whether_a_pod_gang_was_ever_scheduled(
    status: dict[str, Any], scheduled: bool | None
) -> None:
    assert read_pod_gang({**NAMED, "status": status}).scheduled is scheduled


def test_a_pod_of_which_too_much_is_decoded_is_not_read() -> None:
    of_pods = (explain_rows.PODS, leader_rows.UNIT_PODS, leader_rows.pods_of_scheduler("kai"))
    assert [row.most_decoded for row in of_pods] == [rows.MOST_OF_POD] * 3

    row = explain_rows.PODS
    store = Stores((row,))[row]
    containers = [{"name": f"c{number}"} for number in range(40_000)]
    for name, number in (("a", 1000), ("b", 40_000)):
        pod = {"metadata": {"name": name}, "spec": {"containers": containers[:number]}}
        store.apply(WatchEvent("ADDED", pod, length=2**20))
    assert ([pod.name for pod in store.values()], set(store.too_large)) == (["a"], {("", "b")})


SELECTORS = {f"example.com/label-{number}": "x" * 60 for number in range(400)}
TOLERATIONS = [{"key": f"example.com/taint-{number}"} for number in range(8000)]
MANY = {f"example.com/{number}": "0" for number in range(60_000)}
"""Requests that every node can meet."""


def bound_pod(name: str, spec: dict[str, Any], size: int = 0) -> dict[str, Any]:
    """A Pod of 4 CPUs on a node."""
    annotations = {"pod-group-name": "x" * size} if size else {}
    container = {"name": "c", "resources": {"requests": {"cpu": "4", "nvidia.com/gpu": "2"}}}
    return {
        "metadata": {"namespace": "t", "name": name, "uid": name, "annotations": annotations},
        "spec": {"nodeName": "n", "containers": [container]} | spec,
        "status": {"phase": "Running"},
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"tolerations": TOLERATIONS[:800]},
        {"tolerations": TOLERATIONS},
        {"nodeSelector": SELECTORS, "priority": 5},
        {"schedulerName": "x" * 40_000},
        {"overhead": MANY},
    ],
)
def test_a_node_is_used_by_a_pod_that_is_too_large(spec: dict[str, Any]) -> None:
    """Otherwise, the leader would tell other tenants that the node is free."""
    row = replace(explain_rows.PODS, most_of_namespace=4000)
    store = Stores((row,))[row]
    pods = [bound_pod("a", spec), bound_pod("b", spec, 40_000)]
    fill(store, pods)
    assert store.too_large.keys() == {("t", "a"), ("t", "b")}
    facts = snapshot.Snapshot(nodes=(Node("n"),), pods=tuple(store.values()))
    assert dict(Index(facts).used["n"]) == {"cpu": 8000, "nvidia.com/gpu": 4000, "pods": 2000}

    pods[0]["status"] = {"phase": "Succeeded"}
    del pods[1]["spec"]["nodeName"]
    fill(store, pods)
    assert store.values() == []


def test_the_rest_of_a_pod_has_its_gang_its_part_of_a_gpu_and_when_it_ends() -> None:
    obj = bound_pod("a", {"initContainers": [], "priority": 7})
    obj["metadata"] |= {
        "labels": {"grove.io/podclique": "c", "runai-gpu-group": "g", "app": "x", "other": "y"},
        "annotations": {"gpu-fraction": "0.5", "pod-group-name": "group"},
        "deletionTimestamp": "2027-01-15T08:00:00Z",
    }
    rest = read_rest_of_pod(obj)
    assert rest == read_pod(obj)
    assert rest is not None
    assert rest.shape.part is not None


def test_reading_the_rest_of_a_pod_takes_a_bounded_time() -> None:
    """A tenant may change such a Pod many times a second."""
    containers = [{"name": f"c{number}", "resources": {"limits": MANY}} for number in range(2)]
    containers += [{"resources": {"limits": {"cpu": "1"}}}] * 50_000
    rest = read_rest_of_pod(bound_pod("a", {"containers": containers}))
    assert rest is not None
    assert rest.shape.requests == (("cpu", 998_000), ("pods", 1000))


def test_devices_are_used_by_a_claim_that_is_too_large() -> None:
    gpus = [{"driver": "gpu.nvidia.com", "pool": "n", "device": f"gpu-{n}"} for n in range(4)]
    claim = {
        "metadata": {"namespace": "t", "name": "a"},
        "spec": {},
        "status": {
            "allocation": {"devices": {"results": gpus}},
            "reservedFor": [{"name": "x" * 250, "uid": str(number)} for number in range(256)],
        },
    }
    waiting = {"metadata": {"namespace": "t", "name": "b"}, "status": {"reservedFor": [{}] * 9000}}
    row = replace(explain_rows.WIDE_CLAIMS, most_of_namespace=4000)
    store = Stores((row,))[row]
    fill(store, [claim, waiting])
    assert [(kept.name, len(kept.devices), kept.allocated) for kept in store.values()] == [
        ("a", 4, True)
    ]
