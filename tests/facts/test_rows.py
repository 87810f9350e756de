"""Values that objects rarely have, as the rows of the table read them.

Tests `app/facts/explain_rows.py`, `app/facts/kai/podgroup.py`, `app/facts/kai/queue.py`,
`app/facts/grove/podgang.py`, `app/facts/kubernetes/claim.py`, `app/facts/nvidia/computedomain.py`
and `app/facts/identity.py`.
"""

from typing import Any

import pytest

from app.cluster import leader_rows
from app.cluster.leader_rows import POD_GROUPS
from app.explain.state import snapshot
from app.facts import explain_rows, rows
from app.facts.grove.podgang import read_pod_gang, read_stored_gang
from app.facts.identity import read_name
from app.facts.kai.podgroup import Said, read_kai_pod_group
from app.facts.kai.queue import Share, read_queue
from app.facts.kubernetes.claim import read_resource_claim
from app.facts.kubernetes.node import read_node
from app.facts.kubernetes.pod import read_pod
from app.facts.kubernetes.workload import PriorityClass, read_priority_class
from app.facts.nvidia.computedomain import DomainNode, read_domain_clique
from app.facts.quantity import MOST_THOUSANDTHS
from app.facts.rows import GANGS, Row
from app.kube.api import WatchEvent
from app.stores.stores import Stores

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
    nodes = (DomainNode("n", True), DomainNode("m", False))
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
