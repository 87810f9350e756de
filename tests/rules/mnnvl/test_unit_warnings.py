"""Warnings on Pods of units: several of them on a node, and nothing that keeps them together."""

from typing import Any

import pytest

from app.facts.carrier import read_carrier_of_pod
from app.rules.mnnvl.bounds import read_bounds
from app.rules.mnnvl.claim import inject
from app.rules.mnnvl.wanted import CliqueFacts
from app.rules.mnnvl.warnings import unit_warnings
from app.rules.topology.coverage import Nodes
from tests import pods
from tests.builders import Object
from tests.pods import owner, pod
from tests.rules.topology.test_capacity import node

HOST = "kubernetes.io/hostname"
CLIQUE = "nvidia.com/gpu.clique"
EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
REQUIRED = "kai.scheduler/topology-required-placement"
STORED = {obj["metadata"]["uid"]: obj for obj in pods.owners()}

LOOSE = 'MNNVL of unit "lws-a-2": nothing keeps its pods within one NVLink domain (node label nvidia.com/gpu.clique): pods in different domains have no NVLink between them. Annotate the LeaderWorkerSet with leaderworkerset.sigs.k8s.io/exclusive-topology or kai.scheduler/topology-required-placement'
SEVERAL = LOOSE.replace("them. Annotate", "them (a domain of k/rack has several). Annotate")
ON_ONE_NODE = 'unit "lws-a-2": its pods must be on one node ("kubernetes.io/hostname"), but a node has one NVLink channel and takes one of them: the others will stay pending'
HALF = 'unit "lws-a-2": its pods ask for 4 of 8 GPUs of a node, but a node has one NVLink channel and takes one pod with such a claim: they can\'t use the other GPUs'
SINGLE = 'unit "lws-a-2": each of its pods asks for one GPU and needs a node of its own, because a node has one NVLink channel; ask for all GPUs of a node in one pod'


def above(obj: Object) -> list[Object]:
    """Return the controllers of a recorded Pod."""
    references = obj["metadata"].get("ownerReferences", [])
    known = [STORED[item["uid"]] for item in references if item["uid"] in STORED]
    return [*known, *(top for stored in known for top in above(stored))]


def warned(obj: Object, controllers: list[Object], nodes: Any = ()) -> list[str]:
    plan = inject(read_carrier_of_pod(obj, "ns"), None, CliqueFacts(), "template").plan
    assert plan is not None
    return list(unit_warnings(plan, read_bounds(obj, controllers), Nodes(nodes)))


def worker(gpus: int = 4, annotations: Any = None, **spec: Any) -> Object:
    obj = pod("lws-worker")
    obj["metadata"]["annotations"] |= annotations or {}
    obj["spec"] |= spec
    obj["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    return obj


def affinity(kind: str, *keys: str) -> Object:
    terms = [{"topologyKey": key} for key in keys]
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def selecting(key: str, operator: str, *values: str) -> Object:
    expression = {"key": key, "operator": operator, "values": list(values)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


KEPT = {EXCLUSIVE: CLIQUE}
RACKS = [node(2, rack="r", clique="a"), node(2, rack="r", clique="b")]


@pytest.mark.parametrize(
    ("obj", "nodes", "warnings"),
    [
        pytest.param(worker(), [], [LOOSE], id="nothing keeps them together"),
        pytest.param(worker(annotations=KEPT), [], [], id="the annotation of its controller"),
        pytest.param(worker(annotations={REQUIRED: "zone"}), [], [], id="KAI's annotation"),
        pytest.param(
            worker(annotations={REQUIRED: "k/rack"}),
            RACKS,
            [SEVERAL],
            id="a level that is broader than an NVLink domain",
        ),
        pytest.param(worker(nodeSelector={CLIQUE: "c.1"}), [], [], id="a selector of one domain"),
        pytest.param(worker(nodeSelector={"gpu": "gb200"}), [], [LOOSE], id="another selector"),
        pytest.param(
            worker(affinity=selecting(CLIQUE, "In", "c.1")), [], [], id="affinity to one domain"
        ),
        pytest.param(
            worker(affinity=selecting(CLIQUE, "In", "c.1", "c.2")),
            [],
            [LOOSE],
            id="affinity to one of two domains",
        ),
        pytest.param(
            worker(affinity=selecting(HOST, "NotIn", "n")), [], [LOOSE], id="not a certain node"
        ),
        pytest.param(
            worker(affinity=affinity("podAffinity", CLIQUE)), [], [], id="affinity to Pods"
        ),
        pytest.param(
            worker(annotations={EXCLUSIVE: HOST}), [], [ON_ONE_NODE], id="all on one node"
        ),
        pytest.param(worker(nodeSelector={HOST: "n"}), [], [ON_ONE_NODE], id="on a certain node"),
        pytest.param(
            worker(annotations=KEPT), [node(4, clique="a", count="8")], [HALF], id="half a node"
        ),
        pytest.param(
            worker(annotations=KEPT, affinity=affinity("podAntiAffinity", HOST)),
            [node(4, clique="a", count="8")],
            [],
            id="half a node, and one Pod on each is meant",
        ),
        pytest.param(
            worker(annotations=KEPT),
            [node(4, count="8"), node(4, clique="a", count="4")],
            [],
            id="only nodes without NVLink have more GPUs",
        ),
        pytest.param(worker(1, KEPT), [], [SINGLE], id="single GPUs"),
        pytest.param(worker(1, KEPT), [node(1, clique="a", count="1")], [], id="nodes with one"),
    ],
)
def test_warnings_on_a_pod(obj: Object, nodes: Any, warnings: list[str]) -> None:
    assert warned(obj, above(obj), nodes) == warnings


def test_an_annotation_of_the_top_owner_counts() -> None:
    obj = worker()
    top = owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "a")
    top["metadata"]["annotations"] = {REQUIRED: CLIQUE}
    assert warned(obj, [*above(obj)[:-1], top]) == []


def test_nothing_is_said_if_an_owner_cannot_be_read() -> None:
    obj = worker()
    assert warned(obj, above(obj)[:1]) == []
    assert warned(obj, []) == []


def test_the_constraints_of_a_group_of_kubernetes_are_not_judged() -> None:
    assert warned(pod("workload-group"), []) == []
