"""Warnings on Pods of units: several of them on a node, and nothing that keeps them together.

Tests `app/rules/mnnvl/colocation.py`.
"""

from typing import Any

import pytest

from app.facts.grove.unit_member import read_carrier_of_pod
from app.facts.unit_owners import UnitSize
from app.rules.mnnvl.claim import CliqueFacts, inject
from app.rules.mnnvl.colocation import OwnGroup, read_bounds, read_own_group
from app.rules.mnnvl.warnings import NvlinkDomains, unit_warnings
from app.rules.topology.coverage import Nodes
from tests import pods
from tests.builders import Object
from tests.pods import owner, pod
from tests.rules.topology.test_capacity import node
from tests.said import Said

HOST = "kubernetes.io/hostname"
CLIQUE = "nvidia.com/gpu.clique"
EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
REQUIRED = "kai.scheduler/topology-required-placement"
STORED = {obj["metadata"]["uid"]: obj for obj in pods.owners()}

LOOSE = 'MNNVL of unit "lws-a-2": nothing keeps its pods within one NVLink domain (node label nvidia.com/gpu.clique): pods in different domains have no NVLink between them. Annotate the LeaderWorkerSet with leaderworkerset.sigs.k8s.io/exclusive-topology: nvidia.com/gpu.clique or kai.scheduler/topology-required-placement: nvidia.com/gpu.clique'
SEVERAL = LOOSE.replace(
    "them. Annotate",
    "them. They stay within one domain of k/rack, which can have several NVLink domains. Annotate",
)
ON_ONE_NODE = 'unit "lws-a-2": its pods must run on one node ("kubernetes.io/hostname"), but only one pod per node can hold an NVLink channel: the other pods will stay pending'
HALF = 'unit "lws-a-2": each pod requests 4 of a node\'s 8 GPUs, but only one pod per node can hold an NVLink channel, so these pods cannot use the other 4 GPUs'
SINGLE = 'unit "lws-a-2": each of its pods requests one GPU and needs its own node, because only one pod per node can hold an NVLink channel. Request all GPUs of a node in one pod'


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


# PodGroups that are made by hand, and sizes of units.


SKIPPED = {"kai.scheduler/skip-podgrouper": "true"}


def own_group(**constraints: str) -> Object:
    """A PodGroup whose SubGroup `w` is below `above`. The keys are "" (`whole`), `above`, `w`."""

    def level(name: str) -> Object:
        key = constraints.get(name)
        return {"topologyConstraint": {"requiredTopologyLevel": key}} if key else {}

    subgroups = [
        {"name": "above", **level("above")},
        {"name": "w", "parent": "above", **level("w")},
    ]
    return {"spec": {**level("whole"), "subGroups": subgroups}}


@pytest.mark.parametrize(
    ("group", "subgroup", "levels"),
    [
        (own_group(), "w", set()),
        (own_group(whole=CLIQUE), "", {CLIQUE}),
        (own_group(w="rack"), "w", {"rack"}),
        (own_group(w="rack"), "above", set()),
        (own_group(above="zone", w="rack"), "w", {"zone", "rack"}),
        ({"spec": {"subGroups": [{"name": "w", "parent": "w"}]}}, "w", set()),
    ],
)
def test_what_an_own_group_requires(group: Object, subgroup: str, levels: set[str]) -> None:
    obj = worker(annotations={"pod-group-name": "own"})
    obj["metadata"]["labels"]["kai.scheduler/subgroup-name"] = subgroup
    read = read_own_group(obj, group)
    assert read == OwnGroup("own", frozenset(levels))


@pytest.mark.parametrize(
    ("annotations", "group", "known", "levels", "named"),
    [
        pytest.param({}, OwnGroup("own", frozenset({CLIQUE})), True, set(), "", id="not skipped"),
        pytest.param(
            SKIPPED, OwnGroup("own", frozenset({CLIQUE})), True, {CLIQUE}, "own", id="skipped"
        ),
        pytest.param(SKIPPED, OwnGroup("own", None), False, set(), "own", id="not readable"),
        pytest.param(SKIPPED, None, True, set(), None, id="nobody groups it"),
        pytest.param(
            {**SKIPPED, REQUIRED: "rack"},
            OwnGroup("own", frozenset()),
            True,
            set(),
            "own",
            id="KAI reads no annotation of what it skips",
        ),
    ],
)
def test_bounds_of_an_own_group(
    annotations: Any, group: OwnGroup | None, known: bool, levels: set[str], named: str | None
) -> None:
    obj = worker(annotations=annotations)
    obj["metadata"].pop("ownerReferences")
    bounds = read_bounds(obj, [], group)
    assert (bounds.is_known, set(bounds.levels), bounds.group) == (known, levels, named)


def test_a_pod_may_name_a_group_that_is_not_read_or_that_the_leader_creates() -> None:
    """The webhook reads no PodGroup. Pods of Workloads are skipped until they have theirs."""
    named = worker(annotations={**SKIPPED, "pod-group-name": "own"})
    named["metadata"].pop("ownerReferences")
    bounds = read_bounds(named, [])
    assert (bounds.group, bounds.is_known) == ("own", False)

    of_workload = worker(annotations=SKIPPED, schedulingGroup={"podGroupName": "g"})
    assert read_bounds(of_workload, []).group == ""


@pytest.mark.parametrize(
    ("name", "scope", "bind", "apart"),
    [
        pytest.param("lws-worker", None, True, True, id="a group"),
        pytest.param("lws-worker", "subgroup", True, False, id="a part of a group"),
        pytest.param("jobset", None, False, False, id="all Jobs of a JobSet"),
        pytest.param("jobset", "replicatedJob", False, False, id="several Jobs of a JobSet"),
        pytest.param("jobset", "job", True, True, id="a Job of a JobSet"),
    ],
)
def test_the_controllers_annotation_is_advised_only_for_what_it_keeps_together(
    name: str, scope: str | None, bind: bool, apart: bool
) -> None:
    """JobSet's controller gives each Job its own domain, and that of LeaderWorkerSets each group."""
    obj = pod(name, {"leaderworkerset.sigs.k8s.io/subgroup-index": "0"}, scope=scope)
    plan = inject(read_carrier_of_pod(obj, "ns"), None, CliqueFacts(), "template").plan
    assert plan is not None
    assert plan.scope == (scope or plan.member.scopes[0])
    bounds = read_bounds(obj, above(obj), size=UnitSize(2, 2))
    loose, *_, shared = unit_warnings(plan, bounds, Nodes(()))
    assert "nothing keeps its pods" in loose
    assert "kai.scheduler/topology-required-placement" in loose
    assert ("exclusive-topology" in loose) == bind
    assert "issue 892" in shared
    assert ("exclusive-topology" in shared) == apart
    assert ("so large that no two fit" in shared) == (not apart)


EXCLUSIVE_JOBS = "alpha.jobset.sigs.k8s.io/exclusive-topology"


@pytest.mark.parametrize(
    ("scope", "jobs", "key", "split", "loose"),
    [
        pytest.param(None, {"global": "2"}, CLIQUE, True, False, id="two Jobs"),
        pytest.param(None, {"global": "9"}, "k/rack", True, False, id="nine, in separate racks"),
        pytest.param("replicatedJob", {"global": "4", "own": "3"}, CLIQUE, True, False, id="three"),
        pytest.param("replicatedJob", {"global": "4", "own": "1"}, CLIQUE, False, False, id="own"),
        pytest.param("job", {"global": "4", "own": "4"}, CLIQUE, False, False, id="each Job alone"),
        pytest.param(None, {"global": "1"}, CLIQUE, False, False, id="one Job"),
        pytest.param(None, {}, CLIQUE, False, False, id="a JobSet release without the label"),
        pytest.param(None, {"global": "2"}, HOST, False, False, id="by node"),
        pytest.param(None, {"global": "2"}, None, False, True, id="no annotation"),
    ],
)
def test_exclusive_topology_splits_a_unit_of_several_jobs(
    scope: str | None, jobs: dict[str, str], key: str | None, split: bool, loose: bool, said: Said
) -> None:
    names = {"global": "global-replicas", "own": "replicatedjob-replicas"}
    labels = {f"jobset.sigs.k8s.io/{names[name]}": value for name, value in jobs.items()}
    obj = pod("jobset", labels, scope=scope)
    if key:
        obj["metadata"]["annotations"][EXCLUSIVE_JOBS] = key
    plan = inject(read_carrier_of_pod(obj, "ns"), None, CliqueFacts(), "template").plan
    assert plan is not None
    bounds = read_bounds(obj, above(obj), scope=plan.scope)
    found = [text for text in unit_warnings(plan, bounds, Nodes(())) if text.startswith("MNNVL")]
    assert any("each of its Jobs into a separate domain" in text for text in found) == split
    assert any("nothing keeps its pods" in text for text in found) == loose
    said(found)


def of_size(annotations: Any, size: UnitSize, nodes: Any, group: OwnGroup | None = None) -> str:
    obj = worker(annotations=annotations)
    plan = inject(read_carrier_of_pod(obj, "ns"), None, CliqueFacts(), "template").plan
    assert plan is not None
    bounds = read_bounds(obj, above(obj), group, size)
    return "\n".join(unit_warnings(plan, bounds, Nodes(nodes), NvlinkDomains(spare=1)))


@pytest.mark.parametrize(
    ("annotations", "size", "nodes", "words"),
    [
        pytest.param(KEPT, UnitSize(3, 1), RACKS, "3 pods need 3 nodes", id="too many"),
        pytest.param(
            KEPT, UnitSize(2, 1), RACKS, "leaves 1 node for such pods", id="none is spare"
        ),
        pytest.param(KEPT, UnitSize(1, 1), RACKS, "", id="one pod"),
        pytest.param({}, UnitSize(1, 1), RACKS, "", id="one pod, which nothing must keep"),
        pytest.param({REQUIRED: HOST}, UnitSize(1, 1), RACKS, "", id="one pod on one node"),
        pytest.param(
            {REQUIRED: "k/none"}, UnitSize(1, 1), RACKS, "k/none, which no node has", id="no level"
        ),
        pytest.param(
            {REQUIRED: "k/rack"},
            UnitSize(5, 1),
            [node(4, rack="r", clique="a", count="4")],
            "its 5 pods with 4 GPUs each",
            id="a level that is too small",
        ),
        pytest.param(
            {REQUIRED: CLIQUE},
            UnitSize(2, 2),
            [node(8, rack="r", clique="a")],
            "issue 892",
            id="two units in one domain",
        ),
        pytest.param(
            KEPT, UnitSize(2, 2), [node(8, rack="r", clique="a")], "", id="each has its own"
        ),
    ],
)
def test_sizes_of_units(
    annotations: Any, size: UnitSize, nodes: Any, words: str, said: Said
) -> None:
    found = of_size(annotations, size, nodes)
    assert (words in found) if words else found == ""
    said([found] if found else [])


def test_the_remedy_for_an_own_group_is_in_the_group(said: Said) -> None:
    group = OwnGroup("own", frozenset())
    found = of_size(SKIPPED, UnitSize(2, 1), [], group)
    assert 'topologyConstraint.requiredTopologyLevel of the PodGroup "own"' in found
    assert "Annotate" not in found
    alone = of_size(SKIPPED, UnitSize(2, 1), [])
    assert "KAI never schedules them" in alone
    said([found, alone])


def test_the_remedy_for_a_disaggregated_set_begins_with_its_field() -> None:
    obj = pod("disagg-slice", scope="slice")
    (found,) = [text for text in warned(obj, above(obj)) if "nothing keeps" in text]
    assert found.endswith(
        "Set spec.placementPolicy: {type: ExclusiveSlice, topology: nvidia.com/gpu.clique}, or"
        " annotate the DisaggregatedSet with kai.scheduler/topology-required-placement:"
        " nvidia.com/gpu.clique"
    )


@pytest.mark.parametrize("key", ["k" * 2_000_000, "not a key", "k/rack\n"])
def test_what_no_node_label_can_be_called_keeps_no_pods_together(key: str) -> None:
    """An annotation in a review may have megabytes, which would stay in the results about nodes."""
    obj = worker(annotations={REQUIRED: key}, affinity=affinity("podAffinity", key, "k/rack"))
    assert read_bounds(obj, above(obj)).levels == {"k/rack"}


A, B = ({"key": CLIQUE, "operator": "In", "values": [name]} for name in ("a", "b"))


@pytest.mark.parametrize(
    ("terms", "selector", "kept"),
    [
        pytest.param([[A]], {}, True, id="one domain"),
        pytest.param([[A], [B]], {}, False, id="either of two"),
        pytest.param([[A], [A]], {}, True, id="the same one twice"),
        pytest.param([[A], [{"key": "gpu", "operator": "Exists"}]], {}, False, id="it or others"),
        pytest.param([[A], []], {}, True, id="a term without requirements, which no node meets"),
        pytest.param([[A], [B]], {CLIQUE: "a"}, True, id="the nodeSelector chooses"),
    ],
)
def test_a_selected_domain_keeps_pods_together(terms: Any, selector: Any, kept: bool) -> None:
    selected = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": selected}
    obj = worker(affinity={"nodeAffinity": required}, nodeSelector=selector)
    assert (CLIQUE in read_bounds(obj, above(obj)).levels) is kept


def test_pods_for_which_no_domain_has_nodes_are_not_told_to_stay_within_one() -> None:
    """They would stay pending: a required level that is too small is worse than none."""
    found = of_size({}, UnitSize(3, 1), RACKS)
    assert "3 pods need 3 nodes" in found
    assert "nothing keeps its pods" not in found
    assert "nothing keeps its pods" in of_size({}, UnitSize(2, 1), RACKS)
