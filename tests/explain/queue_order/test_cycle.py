"""The next cycle of KAI, one gang after the other.

Tests `app/explain/queue_order/queues.py` and `app/explain/queue_order/usage.py`.
"""

import sys
from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.placing.demand import Demand
from app.explain.placing.packer import Packer
from app.explain.queue_order.cycle import line_of
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.constraint import SchedulerConstraint
from app.facts.identity import Ref
from app.facts.kai.podgroup import KaiPodGroup, SubGroup
from app.facts.kai.queue import Queue
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.claim import DeviceClass, ResourceClaim
from app.facts.kubernetes.gpu_sharing import MEMORY_LABEL, GpuPart
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod, PodClaim
from app.facts.kubernetes.workload import PriorityClass
from app.facts.labels import NODE_POOL
from tests.explain.fleet import shape

HAS = {"nvidia.com/gpu": 8000, "cpu": 64_000, "memory": 10**15, "pods": 110_000}
QUEUES = (Queue("root"), Queue("a", "root"), Queue("b", "root"))


def node(name: str, rack: str = "r1", **more: Any) -> Node:
    return Node(name, {"rack": rack, **more.pop("labels", {})}, HAS, **more)


class Gangs:
    """Gangs with their pods: of each, so many of so many GPUs, and a minimum."""

    def __init__(self) -> None:
        self.groups: list[KaiPodGroup] = []
        self.pods: list[Pod] = []

    def add(self, name: str, *gpus: int, **more: Any) -> None:
        """Add a gang that is younger than those before it; `nodes` are of its first pods."""
        nodes = [*more.pop("nodes", ()), *("" for _ in gpus)]
        sub = more.pop("sub", "")
        of_pods = more.pop("pod", {})
        fields = {"queue": "a", "minimum": len(gpus), "created": float(len(self.groups)), **more}
        self.groups.append(KaiPodGroup("ns", name, f"uid-{name}", **fields))
        for number, size in enumerate(gpus):
            made = Pod(
                "ns",
                f"{name}-{number}",
                uid=f"uid-{name}-{number}",
                node=nodes[number],
                scheduler="kai-scheduler",
                shape=shape(size),
                group=name,
                subgroup=sub,
                created=0.0,
                **of_pods,
            )
            self.pods.append(made)

    def index(self, *nodes: Node, **more: Any) -> Index:
        facts: dict[str, Any] = {
            "kai_topologies": (KaiTopology("t", ("rack",)),),
            "nodes": nodes,
            "queues": QUEUES,
            "priorities": (PriorityClass("high", 75), PriorityClass("fixed", 200)),
            "pods": tuple(self.pods),
            "pod_groups": tuple(self.groups),
            **more,
        }
        return Index(Snapshot(**facts))

    def placed(self, *nodes: Node, **more: Any) -> list[str]:
        """Return the gangs that get a place, in their order."""
        line = line_of(self.index(*nodes, **more)).values()
        return [turn.gang.name for turn in line if turn.used]


def test_the_older_one_of_a_queue_is_first_and_the_number_says_so() -> None:
    gangs = Gangs()
    gangs.add("old", 8)
    gangs.add("young", 8)
    gangs.add("small", 4, queue="b")
    line = line_of(gangs.index(node("n1")))
    seen = {ref.name: (turn.number, turn.count, bool(turn.used)) for ref, turn in line.items()}
    assert seen == {"old": (1, 2, False), "young": (2, 2, False), "small": (1, 1, True)}


def test_a_higher_priority_comes_before_age() -> None:
    gangs = Gangs()
    gangs.add("old", 8)
    gangs.add("urgent", 8, priority_class="high")
    assert gangs.placed(node("n1")) == ["urgent"]


def test_what_finds_no_place_holds_nothing_and_blocks_nobody() -> None:
    gangs = Gangs()
    gangs.add("large", 8, 8)
    gangs.add("small", 8)
    assert gangs.placed(node("n1")) == ["small"]


def test_what_kai_has_given_up_is_in_no_line_and_counts_in_no_queue() -> None:
    gangs = Gangs()
    gangs.add("given-up", 8, given_up=True)
    gangs.add("tried", 8)
    assert gangs.placed(node("n1")) == ["tried"]

    gangs = Gangs()
    gangs.add("runs", 4, nodes=("n1",), given_up=True)
    gangs.add("a1", 2, created=9.0)
    gangs.add("b1", 2, queue="b")
    assert gangs.placed(node("n1")) == ["a1", "b1"]


def test_the_line_ends_if_pods_of_a_subgroup_that_is_not_needed_are_missing() -> None:
    """As after KAI has evicted what ran of it, and nobody makes it again."""
    gangs = Gangs()
    subgroups = (SubGroup("lost", minimum=1), SubGroup("other", minimum=1))
    gangs.add("w", 2, 2, 2, minimum=0, needed=1, subgroups=subgroups, sub="other", nodes=("n1",))
    assert gangs.placed(node("n1")) == ["w"]


def test_after_each_gang_the_queue_that_has_less_is_next() -> None:
    gangs = Gangs()
    for name in ("a1", "a2", "a3"):
        gangs.add(name, 4)
    for name in ("b1", "b2", "b3"):
        gangs.add(name, 4, queue="b")
    assert gangs.placed(node("n1"), node("n2")) == ["a1", "b1", "a2", "b2"]


def test_a_quota_that_is_kept_comes_first() -> None:
    gangs = Gangs()
    gangs.add("beyond", 8)
    gangs.add("promised", 8, queue="b")
    queues = (Queue("root"), Queue("a", "root", quota=0), Queue("b", "root", quota=8000))
    assert gangs.placed(node("n1"), queues=queues) == ["promised"]


def test_the_minimum_of_all_comes_before_more_than_the_minimum_of_one() -> None:
    gangs = Gangs()
    gangs.add("elastic", 2, 2, 2, 2, minimum=1)
    gangs.add("other", 4, 2, minimum=2)
    assert gangs.placed(node("n1")) == ["elastic", "other"]
    assert gangs.placed(node("n1"), queues=(Queue("a"),)) == ["elastic", "other"]


def test_more_than_the_minimum_of_a_higher_priority_comes_before_others() -> None:
    gangs = Gangs()
    gangs.add("other", 2)
    gangs.add("elastic", 2, 2, 2, 2, minimum=1, priority_class="high")
    assert gangs.placed(node("n1")) == ["elastic"]


def test_what_joins_its_own_pods_goes_where_they_are_placed() -> None:
    """The rest of an elastic gang may only use the rack in which its minimum is placed."""
    gangs = Gangs()
    told = SchedulerConstraint("rack")
    gangs.add("elastic", 8, 8, minimum=1, topology="t", told=told, priority_class="high")
    gangs.add("other", 8)
    fleet = (node("n1", "r1"), node("n2", "r2"))
    assert gangs.placed(*fleet) == ["elastic", "other"]


def test_a_limit_that_those_before_it_fill() -> None:
    gangs = Gangs()
    gangs.add("first", 4)
    gangs.add("second", 4)
    gangs.add("alone", 8, queue="b")
    queues = (Queue("root"), Queue("a", "root", limit=6000), Queue("b", "root", limit=6000))
    line = line_of(gangs.index(node("n1"), node("n2"), queues=queues)).values()
    seen = {turn.gang.name: (turn.full, turn.after) for turn in line if turn.full}
    assert seen == {"second": ("a", 3), "alone": ("b", 0)}


def test_what_is_not_preemptible_keeps_the_quota_and_what_is_may_exceed_it() -> None:
    gangs = Gangs()
    gangs.add("fixed", 8, priority_class="fixed")
    gangs.add("soft", 8)
    queues = (Queue("root"), Queue("a", "root", quota=4000))
    assert gangs.placed(node("n1"), node("n2"), queues=queues) == ["soft"]


def test_each_node_pool_has_a_line_of_its_own() -> None:
    gangs = Gangs()
    gangs.add("in-pool", 8, pool="p")
    gangs.add("in-none", 8)
    pooled = node("n1", labels={NODE_POOL: "p"})
    assert gangs.placed(pooled) == []
    queues = (*QUEUES, Queue("p", pool="p"))
    gangs = Gangs()
    gangs.add("in-pool", 8, pool="p", queue="p")
    gangs.add("in-none", 8)
    assert gangs.placed(pooled, queues=queues) == ["in-pool"]
    assert sorted(gangs.placed(pooled, node("n2"), queues=queues)) == ["in-none", "in-pool"]


def test_gates_missing_pods_and_unusable_queues_keep_out_of_the_line() -> None:
    gangs = Gangs()
    gangs.add("gated", 1, pod={"gates": ("g",)})
    gangs.add("incomplete", 1, minimum=2)
    gangs.add("not-a-leaf", 1, queue="root")
    gangs.add("lost", 1, queue="nowhere")
    gangs.add("waits", 1)
    assert gangs.placed(node("n1")) == ["waits"]


def test_parts_of_a_gang_get_nodes_of_their_own() -> None:
    gangs = Gangs()
    told = SchedulerConstraint("rack")
    parts = (SubGroup("s", minimum=1, told=told), SubGroup("t", minimum=0))
    gangs.add("parts", 8, 8, minimum=1, topology="t", subgroups=parts, sub="s")
    gangs.add("other", 8)
    assert gangs.placed(node("n1", "r1"), node("n2", "r2")) == ["parts", "other"]


LEAF = SchedulerConstraint("leaf")
TOPOLOGIES = (KaiTopology("t", ("rack",)), KaiTopology("net", ("leaf",)))


def crossed(*leaves: str) -> tuple[Node, ...]:
    """Two racks of two nodes, each in one of these leaves of the network."""
    return tuple(
        node(f"n{number}", f"r{number // 2}", labels={"leaf": leaf})
        for number, leaf in enumerate(leaves)
    )


@pytest.mark.parametrize(
    ("leaves", "where"),
    [
        pytest.param(("l0", "l1", "l1", "l1"), ("r1",), id="a rack has two nodes of a leaf"),
        pytest.param(("l0", "l1", "l0", "l1"), (), id="each rack has one node of each leaf"),
        pytest.param(("l0", "l1", "l0", ""), (), id="a node is in no leaf"),
    ],
)
def test_a_subgroup_is_in_one_domain_of_the_topology_that_it_names(
    leaves: tuple[str, ...], where: tuple[str, ...]
) -> None:
    """A leaf of the network, inside of a rack of the other topology, which the whole gang names."""
    gangs = Gangs()
    sub = SubGroup("s", minimum=2, told=LEAF, topology="net")
    rack = SchedulerConstraint("rack")
    gangs.add("w", 8, 8, minimum=0, topology="t", told=rack, subgroups=(sub,), sub="s")
    index = gangs.index(*crossed(*leaves), kai_topologies=TOPOLOGIES)
    answer = explain(index, Ref("PodGroup", "ns", "w"))
    assert answer
    assert [(own.next, own.where) for own in answer.line] == [("next" if where else "never", where)]


def test_gangs_of_two_topologies_leave_each_other_what_they_do_not_take() -> None:
    gangs = Gangs()
    rack = SchedulerConstraint("rack")
    gangs.add("rack", 8, 8, topology="t", told=rack)
    gangs.add("leaf", 8, 8, topology="net", told=LEAF)
    gangs.add("other", 8)
    fleet = crossed("l0", "l1", "l0", "l1")
    assert gangs.placed(*fleet, kai_topologies=TOPOLOGIES) == ["rack", "other"]
    more = (*fleet, node("n4", "r3", labels={"leaf": "l0"}))
    assert gangs.placed(*more, kai_topologies=TOPOLOGIES) == ["rack", "leaf", "other"]


def test_queues_may_be_nested_more_deeply_than_functions() -> None:
    depth = 2 * sys.getrecursionlimit()
    queues = [Queue(f"q{n}", f"q{n - 1}" if n else "") for n in range(depth)]
    gangs = Gangs()
    gangs.add("deep", 8, queue=f"q{depth - 1}")
    index = gangs.index(node("n1"), queues=tuple(queues))
    answer = explain(index, Ref("PodGroup", "ns", "deep"))
    assert answer
    assert [own.next for own in answer.line] == ["next"]


def test_queues_that_are_below_themselves_keep_no_others_out_of_the_line() -> None:
    gangs = Gangs()
    gangs.add("in-a-cycle", 8, queue="x")
    gangs.add("below-it", 8, queue="z")
    gangs.add("waits", 8)
    cycle = (Queue("x", "y"), Queue("y", "x"), Queue("z", "x"))
    assert gangs.placed(node("n1"), queues=(*QUEUES, *cycle)) == ["waits"]


def test_a_queue_without_a_name_is_none() -> None:
    gangs = Gangs()
    gangs.add("gang", 8)
    assert gangs.placed(node("n1"), queues=(*QUEUES, Queue(""))) == ["gang"]


def test_pods_of_other_schedulers_are_not_divided_between_queues() -> None:
    """With them, queue a would be promised more than its share and come last."""
    gangs = Gangs()
    gangs.add("runs", 4, nodes=("n1",))
    gangs.add("waits", 2)
    foreign = Pod("ns", "foreign", uid="f", node="n1", shape=shape(2), phase="Running")
    index = gangs.index(node("n1"), pods=(*gangs.pods, foreign))
    assert [turn.gang.name for turn in line_of(index).values() if turn.used] == ["waits"]


def test_without_the_right_to_see_queues_there_is_no_line() -> None:
    gangs = Gangs()
    gangs.add("waits", 8)
    index = gangs.index(node("n1"), unseen={"queues": "no permission to list"})
    assert line_of(index) == {}


@pytest.mark.parametrize("topology", ["", "t"])
def test_without_the_topologies_that_podgroups_name_there_is_no_line(topology: str) -> None:
    gangs = Gangs()
    gangs.add("waits", 8, topology=topology, told=SchedulerConstraint("rack" if topology else ""))
    index = gangs.index(node("n1"), kai_topologies=(), skipped=frozenset({"kai_topologies"}))
    assert bool(line_of(index)) is not bool(topology)


@pytest.mark.parametrize("devices", ["", "gpu.nvidia.com"])
def test_without_the_slices_of_claimed_gpus_there_is_no_line(devices: str) -> None:
    asked = (devices,) if devices else ()
    gangs = Gangs()
    gangs.add("waits", 0, pod={"claims": (PodClaim("t", "c"),)})
    index = gangs.index(
        node("n1"),
        claims=(ResourceClaim("ns", "c", classes=asked),),
        device_classes=(DeviceClass("gpu.nvidia.com", "gpu.nvidia.com"),),
        skipped=frozenset({"slices"}),
    )
    assert bool(line_of(index)) is not bool(devices)


SMALL = node("n1", labels={MEMORY_LABEL: "40000"})
CLOSED = node("n2", labels={MEMORY_LABEL: "80000"}, unschedulable=True)


def of_memory(gangs: Gangs, **asked: int) -> None:
    """Add gangs of one pod that requests so many MiB of GPU memory, as a fraction of a GPU."""
    for name, memory in asked.items():
        gangs.add(name, 0, queue="b" if name.startswith("free") else "a")
        part = GpuPart(0.0, memory=memory)
        gangs.pods[-1] = replace(gangs.pods[-1], shape=replace(shape(0), part=part))


def limited(limit: int) -> tuple[Queue, ...]:
    return (Queue("root"), Queue("a", "root", limit=limit, priority=200), Queue("b", "root"))


def test_a_limit_that_counts_after_placing_keeps_out_only_gangs_of_its_queue() -> None:
    """GPU memory counts by the GPU that a pod gets: here a whole one, where half is the limit."""
    gangs = Gangs()
    of_memory(gangs, limited=40_000, free=40_000)
    line = line_of(gangs.index(SMALL, CLOSED, queues=limited(500)))
    turns = {ref.name: turn for ref, turn in line.items()}
    assert (turns["limited"].used, turns["limited"].full) == (frozenset(), "a")
    assert turns["free"].used == {0}


@pytest.mark.parametrize(
    ("limit", "is_blamed"),
    [
        pytest.param(600, False, id="a whole GPU never fits, half of a GPU does"),
        pytest.param(900, False, id="a whole GPU never fits"),
        pytest.param(1100, True, id="a whole GPU fits alone"),
    ],
)
def test_gangs_ahead_are_blamed_only_if_the_limit_has_room_without_them(
    limit: int, is_blamed: bool
) -> None:
    gangs = Gangs()
    of_memory(gangs, ahead=10_000, waits=40_000)
    index = gangs.index(SMALL, CLOSED, queues=limited(limit))
    answer = explain(index, Ref("PodGroup", "ns", "waits"))
    assert answer is not None
    assert line_of(index)[Ref("PodGroup", "ns", "waits")].full == "a"
    assert any(reason.id == "AfterOthers" for reason in answer.reasons) is is_blamed


def test_equal_gangs_that_a_limit_keeps_out_are_not_placed_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tenant decides how many there are, and placing one of them looks at all nodes."""
    placed: list[Demand] = []
    places = Packer.places

    def noted(packer: Packer, demand: Demand) -> bool:
        placed.append(demand)
        return places(packer, demand)

    monkeypatch.setattr(Packer, "places", noted)
    gangs = Gangs()
    of_memory(gangs, **{f"waits-{number}": 40_000 for number in range(30)}, free=40_000)
    turns = line_of(gangs.index(SMALL, CLOSED, queues=limited(500))).values()
    assert [turn.full for turn in turns].count("a") == 30
    assert len(placed) == 2
