"""What the reasons about labels say of a gang whose SubGroups name two topologies.

A part `net` of two Pods asks for a leaf of the network, and one Pod of `room` for a rack. Each
state was given to KAI's whole scheduler, which placed the gang, or not, as is said here.
"""

from typing import NamedTuple

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import Answer, explain
from app.explain.state.index import Index
from app.facts.constraint import SchedulerConstraint
from app.facts.identity import Ref
from app.facts.kai.podgroup import SubGroup
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.node import Node
from tests.explain.queue_order.test_cycle import Gangs, node
from tests.explain.table.recorded import whole
from tests.said import Said

LEAF = SubGroup("net", minimum=2, told=SchedulerConstraint("leaf"), topology="network")
RACK = SubGroup("room", minimum=1, told=SchedulerConstraint("rack"), topology="rooms")
TOPOLOGIES = (KaiTopology("network", ("spine", "leaf")), KaiTopology("rooms", ("zone", "rack")))
ABOUT_LABELS = {"LevelLabelMissing", "NotATree", "DomainsJoined", "RequiredViolated"}
Texts = tuple[tuple[str, str], ...]


def fleet(*places: str) -> tuple[Node, ...]:
    """Nodes n1, n2 and so on, each at `zone/rack spine/leaf`; `-` is a label that it lacks."""
    keys = ("zone", "rack", "spine", "leaf")
    values = [place.replace(" ", "/").split("/") for place in places]
    labels = [dict(zip(keys, own, strict=True)) for own in values]
    found = [{key: value for key, value in own.items() if value != "-"} for own in labels]
    return tuple(
        replace(node(f"n{number}"), labels=own) for number, own in enumerate(found, start=1)
    )


def index_of(
    nodes: tuple[Node, ...],
    placed: tuple[str, ...] = (),
    subgroups: tuple[SubGroup, ...] = (LEAF, RACK),
    topologies: tuple[KaiTopology, ...] = TOPOLOGIES,
) -> Index:
    """Return the index of a gang with its first pods on nodes."""
    gangs = Gangs()
    named = subgroups[0].topology
    where = iter(placed)
    count = sum(sub.minimum for sub in subgroups)
    gangs.add("w", *(8,) * count, minimum=count, subgroups=subgroups, topology=named)
    names = [sub.name for sub in subgroups for _ in range(sub.minimum)]
    gangs.pods = [
        replace(pod, subgroup=name, node=next(where, ""))
        for pod, name in zip(gangs.pods, names, strict=True)
    ]
    return gangs.index(*nodes, kai_topologies=topologies)


def answer(index: Index) -> Answer:
    found = explain(index, Ref("PodGroup", "ns", "w"))
    assert found
    return found


def about_labels(found: Answer) -> Texts:
    return tuple((reason.id, reason.text) for reason in found.reasons if reason.id in ABOUT_LABELS)


class Case(NamedTuple):
    name: str
    nodes: tuple[Node, ...]
    said: Texts
    fits: bool = False
    placed: tuple[str, ...] = ()


CASES = (
    Case(
        "all have their labels",
        fleet("z/r1 s/l1", "z/r1 s/l1", "z/r2 s/l2"),
        (),
        fits=True,
    ),
    Case(
        "nodes lack the leaf, which only a SubGroup asks for",
        fleet("z/r1 s/l1", "z/r1 s/-", "z/r2 s/l2", "z/r2 s/-"),
        (("LevelLabelMissing", "2 nodes (16 GPUs) lack the label leaf, so KAI ignores them for every part with a constraint of topology network"),),
    ),
    Case(
        "a node between others lacks the leaf, and with it the gang fits",
        fleet("z/r1 s/l1", "z/r1 s/-", "z/r2 s/l1", "z/r2 s/l2"),
        (("LevelLabelMissing", "Node n2 (8 GPUs) lacks the label leaf, so KAI ignores it for every part with a constraint of topology network. Once it is labelled, this gang fits"),),
        placed=("n1", "", "n3"),
    ),
    Case(
        "no node has the label of the level that only a SubGroup asks for",
        fleet("z/r1 s/-", "z/r1 s/-", "z/r2 s/-"),
        (("LevelLabelMissing", "No node has the label leaf (level leaf), so KAI ignores all 3 nodes for every part with a constraint of topology network"),),
    ),
    Case(
        "nodes lack the rack, and the part of the network has its place there",
        fleet("z/- s/l1", "z/- s/l1", "z/r1 s/l2", "z/r2 s/l2"),
        (("LevelLabelMissing", "2 nodes lack the label of a level, so KAI ignores them for parts with a constraint of topology rooms. This gang has room without them"),),
        fits=True,
    ),
    Case(
        "one node lacks the leaf, another one the rack",
        fleet("z/r1 s/l1", "z/r1 s/-", "z/- s/l2"),
        (
            ("LevelLabelMissing", "Node n2 (8 GPUs) lacks the label leaf, so KAI ignores it for every part with a constraint of topology network"),
            ("LevelLabelMissing", "Node n3 (8 GPUs) lacks the label rack, so KAI ignores it for every part with a constraint of topology rooms"),
        ),
    ),
    Case(
        "one leaf of six is below two spines",
        fleet("z/r1 s/l1", "z/r1 t/l1", "z/r2 s/l2", "z/r3 s/l3", "z/r4 s/l4", "z/r5 s/l5", "z/r6 s/l6"),
        (("NotATree", "l1 is in s and t of topology network, so KAI counts 2 leafs of 1 node"),),
    ),
    Case(
        "most leaves are below two spines",
        fleet("z/r1 s/l1", "z/r1 t/l1", "z/r2 s/l2"),
        (("NotATree", "1 of 2 leaf names occurs in more than one spine of topology network, such as l1. KAI counts a separate leaf in each of them"),),
    ),
    Case(
        "dots in the names of the network",
        fleet("z/r1 a/b.c", "z/r1 a.b/c", "z/r2 a/d"),
        (("DomainsJoined", "KAI joins names with dots, so it treats a.b/c and a/b.c as one leaf of topology network (2 nodes)"),),
        fits=True,
    ),
    Case(
        "dots in the names of racks, of which each part has one",
        fleet("a/b.c s/l1", "a/b.c s/l1", "a.b/c s/l2"),
        (),
        fits=True,
    ),
    Case(
        "pods run in two leaves that KAI takes for one",
        fleet("z/r1 a/b.c", "z/r1 a.b/c", "z/r2 a/d"),
        (
            ("RequiredViolated", "net must stay in one leaf, but its 2 pods are in 2 leafs (a.b/c and a/b.c)"),
            ("DomainsJoined", "KAI joins names with dots, so it treats a.b/c and a/b.c as one leaf of topology network (2 nodes)"),
        ),
        placed=("n1", "n2", "n3"),
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_labels_of_each_topology_are_looked_at(case: Case, said: Said) -> None:
    found = answer(index_of(case.nodes, case.placed))
    said(whole(found))
    assert about_labels(found) == case.said
    assert [own.next == "next" for own in found.line] == [case.fits] * len(found.line)


def test_a_gang_of_one_topology_is_told_nothing_of_another_one(said: Said) -> None:
    nodes = fleet("z/- s/l1", "z/- s/-", "z/- t/l1")
    only = replace(RACK, told=LEAF.told, topology="network")
    found = answer(index_of(nodes, subgroups=(LEAF, only)))
    said(whole(found))
    assert about_labels(found) == (
        (
            "LevelLabelMissing",
            "Node n2 (8 GPUs) lacks the label leaf, so KAI ignores it for every gang with a constraint",
        ),
        (
            "NotATree",
            "The only leaf name, l1, occurs in more than one spine. KAI counts a separate leaf in each of them",
        ),
    )


def test_topologies_with_equal_levels_are_told_once(said: Said) -> None:
    copy = KaiTopology("copy", ("spine", "leaf"))
    nodes = fleet("z/r1 s/l1", "z/r1 s/-", "z/r2 s/l2")
    parts = (LEAF, replace(RACK, told=LEAF.told, topology="copy"))
    found = answer(index_of(nodes, subgroups=parts, topologies=(*TOPOLOGIES, copy)))
    said(whole(found))
    assert [text for _, text in about_labels(found)] == [
        "Node n2 (8 GPUs) lacks the label leaf, so KAI ignores it for every gang with a constraint"
    ]


@pytest.mark.parametrize("first", [LEAF, RACK], ids=["its own", "of a SubGroup"])
def test_dots_are_the_cause_in_whatever_topology_they_are(first: SubGroup, said: Said) -> None:
    """The gang's own topology is the one that its first SubGroup names."""
    nodes = fleet("z/r1 a/b.c", "z/r1 a.b/c", "z/r2 a/d")
    second = RACK if first is LEAF else LEAF
    placed = ("n1", "n2", "n3") if first is LEAF else ("n3", "n1", "n2")
    found = answer(index_of(nodes, placed, subgroups=(first, second)))
    said(whole(found))
    [violated] = [reason for reason in found.reasons if reason.id == "RequiredViolated"]
    assert violated.remedy.startswith(
        "Ask the platform team to rename the domains so that their names have no dots"
    )
