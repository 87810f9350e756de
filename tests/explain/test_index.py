"""An index that follows an earlier one gives what a new index gives.

Tests `app/explain/state/`.
"""

import gc
import random
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.answers.topology import domain_reports, find_room, survey
from app.explain.gangs.assembly import gang_of_pod_group, gangs_of_set
from app.explain.placing.demand import Demand, Ground
from app.explain.placing.placements import EMPTY, Assumption, Placements
from app.explain.placing.trial_placement import Trial
from app.explain.reasons.obstacle import obstacle_of
from app.explain.state.index import MOST_OF_A_KIND, Index
from app.explain.state.levels import topology_of
from app.explain.state.lookup import GroupedBy, change
from app.explain.state.snapshot import Snapshot
from app.facts.grove.podclique import PodClique
from app.facts.grove.podgang import PodGang
from app.facts.identity import NOWHERE
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kubernetes.event import read_event
from app.facts.kubernetes.kueue import KueueWorkload
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod
from app.facts.labels import NODE_POOL
from tests.explain import fleet
from tests.explain.fleet import (
    NAMESPACE,
    SET_REF,
    facts,
    fill,
    nodes,
    occupant,
    placed,
    pods,
    shape,
)
from tests.explain.table.row import event

NUMBERS: GroupedBy[int, str] = GroupedBy("pods", lambda text: [int(digit) for digit in text], str)


ONE = "1"
TWO = "2"
THREE = "3"
MANY = [str(number) for number in range(3000)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([ONE, TWO], [ONE, TWO], ([], [])),
        ([ONE, TWO], [ONE, THREE], ([TWO], [THREE])),
        ([ONE, TWO], [TWO], ([ONE], [])),
        ([ONE], [ONE, THREE], ([], [THREE])),
        ([ONE, TWO], [TWO, ONE], ([ONE, TWO], [TWO, ONE])),
        ([ONE, *MANY], [*MANY, TWO], ([ONE], [TWO])),
        ([*MANY], [*reversed(MANY)], ([], [])),
    ],
    ids=[
        "the same",
        "one replaced",
        "one gone",
        "one more",
        "moved",
        "all but one moved",
        "turned round",
    ],
)
def test_a_change_names_what_is_gone_and_what_has_come(
    before: Any, after: Any, expected: Any
) -> None:
    assert change(before, after) == expected


def test_groups_follow_facts_that_come_and_go() -> None:
    groups = NUMBERS.over(["12", "2", "3"])
    assert groups.by_key == {1: ["12"], 2: ["12", "2"], 3: ["3"]}
    assert groups.each(len) == {1: 1, 2: 2, 3: 1}

    groups.follow(change(["12", "2", "3"], ["2", "34"]))
    assert groups.by_key == {2: ["2"], 3: ["34"], 4: ["34"]}
    assert groups.each(len) == {2: 1, 3: 1, 4: 1}


def everything(index: Index) -> list[Any]:
    """All that pages show, and every lookup."""
    topology = topology_of(index)
    return [
        explain(index, SET_REF),
        survey(index),
        [domain_reports(topology, depth) for depth in range(1, len(topology.keys) + 1)],
        [find_room(topology, level, 3, 8000) for level in topology.levels],
        [_tree(index, pool) for pool in (None, "", "h100")],
        index.free(("nvidia.com/gpu", "cpu")),
        index.used,
        index.used_by_lasting,
        index.pods_on,
        index.pods_of_group,
        index.pods_of_claim,
        index.open_nodes,
        index.gpus,
        index.free_gpus,
        index.soon_free_gpus,
        index.cliques_of_set,
        index.gangs_of_set,
        index.events,
        index.pods,
        [index.pods_of_clique(NAMESPACE, clique.name) for clique in index.facts.cliques],
    ]


def _tree(index: Index, pool: str | None) -> list[Any]:
    domains = index.domains(fleet.KEYS, pool)
    return [domains.everywhere, domains.inside, dict(domains.positions), domains.has_gpus]


def _with(node: Node) -> Snapshot:
    """The facts with another first node."""
    return facts(nodes=(node, *nodes()[1:]))


WAITING = pods()
RUNNING = placed("gpu-00", "gpu-01", "gpu-02", "gpu-03")
OTHERS = fill("rack-a1", "rack-b1")
STATES: dict[str, Snapshot] = {
    "waiting": facts(),
    "others came": facts(pods=(*WAITING, *OTHERS)),
    "one of them ends": facts(pods=(*WAITING, replace(OTHERS[0], deleting=fleet.NOW), *OTHERS[1:])),
    "one has ended": facts(pods=(*WAITING, replace(OTHERS[0], phase="Succeeded"), *OTHERS[1:])),
    "one moved": facts(pods=(*WAITING, replace(OTHERS[0], node="gpu-15"), *OTHERS[1:])),
    "placed": facts(pods=RUNNING),
    "a node is cordoned": facts(nodes=(replace(nodes()[0], unschedulable=True), *nodes()[1:])),
    "a node has lost its GPUs": _with(replace(nodes()[0], allocatable={"cpu": 1000, "pods": 1000})),
    "a node is in a pool": _with(
        replace(nodes()[0], labels={**nodes()[0].labels, NODE_POOL: "h100"})
    ),
    "another node is in place of one": _with(replace(nodes()[0], name="gpu-000")),
    "a node is gone": facts(nodes=nodes()[1:], pods=(*WAITING, *OTHERS)),
    "a label is gone": facts(nodes=(replace(nodes()[0], labels={}), *nodes()[1:])),
    "no topology": facts(topologies=(), kai_topologies=()),
    "no right to nodes": facts(unseen={"nodes": "no permission to list"}, nodes=()),
    "no right to room": facts(
        unseen={"room": "no permission to list pods"}, pods=(*WAITING, *OTHERS)
    ),
    "owned, without the label": facts(
        pods=tuple(
            replace(p, place=replace(p.place, clique=""), owner="uid-workers") for p in WAITING
        )
    ),
    "an event": facts(events=(event("uid-group", "NotReady", "Waiting"),)),
    "a clique is gone": facts(cliques=fleet.cliques()[:1]),
    "nothing": Snapshot(),
}


@pytest.mark.parametrize("name", [name for name in STATES if "node " in name or "label" in name])
def test_an_index_follows_nodes_alone(name: str) -> None:
    changed = replace(STATES["waiting"], nodes=STATES[name].nodes)
    index = Index(STATES["waiting"])
    everything(index)
    index.follow(changed)
    assert everything(index) == everything(Index(changed))


@pytest.mark.untraced
@pytest.mark.parametrize("seed", range(4))
def test_an_index_that_follows_is_as_good_as_a_new_one(seed: int) -> None:
    order = [*STATES, *STATES]
    random.Random(seed).shuffle(order)
    index = Index(STATES[order[0]])
    for name in order:
        index.follow(STATES[name])
        assert everything(index) == everything(Index(STATES[name])), name


def test_what_did_not_change_is_not_made_again() -> None:
    before = facts(pods=(*WAITING, *OTHERS))
    index = Index(before)
    everything(index)
    nodes_before = index.nodes
    domains_before = index.domains(fleet.KEYS)
    on_before = dict(index.pods_on)

    index.follow(replace(before, pods=(*before.pods, occupant("gpu-15"))))
    assert index.nodes is nodes_before
    assert index.domains(fleet.KEYS) is domains_before
    assert [node for node in index.pods_on if index.pods_on[node] is not on_before.get(node)] == [
        "gpu-15"
    ]


def test_what_is_remembered_lasts_until_a_field_of_it_changes() -> None:
    before = facts()
    index = Index(before)
    index.remembered("of all", lambda: 1)
    index.remembered("of nodes", lambda: 1, ["nodes"])
    index.follow(replace(before, pods=(*before.pods, occupant("gpu-15"))))
    assert index.remembered("of all", lambda: 2) == 2
    assert index.remembered("of nodes", lambda: 2, ["nodes"]) == 1

    index.follow(replace(before, nodes=before.nodes[1:]))
    assert index.remembered("of nodes", lambda: 3, ["nodes"]) == 3

    index.follow(replace(index.facts, unseen={"events": "no permission to list"}))
    assert index.remembered("of nodes", lambda: 4, ["nodes"]) == 4


@pytest.fixture
def collector_stopped() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("collector_stopped")
def test_what_was_tried_for_an_earlier_state_is_freed_without_the_collector() -> None:
    index = Index(facts())
    (gang,) = gangs_of_set(index, index.facts.sets[0])
    tried = weakref.ref(gang.placements), weakref.ref(gang.placements.now)
    del gang
    index.follow(STATES["a node is cordoned"])
    assert [each() for each in tried] == [None, None]


@pytest.mark.usefixtures("collector_stopped")
def test_a_trial_is_freed_without_the_collector() -> None:
    index = Index(facts())
    trial = Trial(Ground(index.domains(fleet.KEYS), ("pods",), index.free(("pods",)), {}))
    tree = trial.tree(Demand("", ""))
    assert len(tree.order((1000,), ())) == len(index.domains(fleet.KEYS).at(1))
    freed = weakref.ref(trial)
    del trial
    assert freed() is None


def test_an_index_follows_the_time_alone() -> None:
    """KAI gives up on the room of a pod that should have ended two minutes ago."""
    ending = replace(OTHERS[0], phase="Running", deleting=fleet.NOW)
    before = facts(pods=(*WAITING, ending, *OTHERS[1:]))
    later = replace(before, now=fleet.NOW + 300)
    index = Index(before)
    everything(index)
    soon = index.soon_free(index.gpu_names)
    index.follow(later)
    assert everything(index) == everything(Index(later))
    assert index.soon_free(index.gpu_names) != soon


def test_pods_of_a_clique_are_in_order_whether_labelled_or_owned() -> None:
    first, *others = (fleet.pod(fleet.WORKERS, number) for number in range(3))
    owned = replace(first, place=replace(first.place, clique=""), owner="uid-workers")
    stranger = replace(owned, name="stranger", uid="s", owner="uid-other")
    index = Index(facts(pods=(*others, stranger, owned)))
    found = index.pods_of_clique(NAMESPACE, fleet.WORKERS)
    assert [pod.name for pod in found] == [f"{fleet.WORKERS}-{number}" for number in range(3)]


def test_objects_of_an_owner_are_in_its_namespace() -> None:
    """Anybody may write the uid of any object into an owner reference."""
    clique = PodClique(NAMESPACE, "serve-0-decode", uid="c")
    gang = PodGang(NAMESPACE, "serve-0", uid="g")
    index = Index(
        Snapshot(
            gangs=(gang,),
            cliques=(clique,),
            pods=(Pod("attacker", "p", owner="c"), Pod(NAMESPACE, "q", owner="c")),
            pod_groups=(KaiPodGroup("attacker", "pg", owners=("g",)),),
            kueue_workloads=(KueueWorkload("attacker", "w", owners=("g",)),),
        )
    )
    assert [pod.name for pod in index.pods_of_clique(*clique.key)] == ["q"]
    assert index.pod_group_of(gang, ()) is None
    assert not index.kueue_of_owner.get((NAMESPACE, "g"))


@pytest.mark.parametrize(
    ("own", "named", "counts_for"),
    [
        pytest.param("inference", "inference", "inference", id="about an object next to it"),
        pytest.param("attacker", "inference", "attacker", id="about an object elsewhere"),
        pytest.param("attacker", None, "attacker", id="about a cluster-scoped object, elsewhere"),
        pytest.param("default", None, "", id="about a cluster-scoped object"),
        pytest.param(None, "inference", "inference", id="without a namespace, in a file"),
    ],
)
def test_an_event_counts_only_in_its_namespace(
    own: str | None, named: str | None, counts_for: str
) -> None:
    about = {"kind": "Pod", "namespace": named, "name": "p", "uid": "u"}
    told = read_event({"metadata": {"namespace": own}, "regarding": about})
    index = Index(Snapshot(events=(told,)))
    spaces = ("", "inference", "attacker")
    assert [space for space in spaces if index.events_about(space, "u")] == [counts_for]


def test_what_nobody_asks_for_any_more_is_forgotten() -> None:
    """Tenants choose the names of topologies, and the leader follows a cluster for weeks."""
    state = facts()
    index = Index(state)
    for round_ in range(5):
        for number in range(100):
            topology_of(index, f"t{round_}-{number}")
        topology_of(index, "grove-topology")
        index.follow(replace(state, pods=pods(created=fleet.NOW - round_)))
    assert len(index._memory) <= 101
    kept = topology_of(index, "grove-topology")
    index.follow(state)
    assert topology_of(index, "grove-topology") is kept
    assert len(index._memory) == 1


def test_node_pools_without_nodes_share_one_tree() -> None:
    """Tenants choose the label of a PodGroup that names its node pool."""
    index = Index(facts(nodes=(*nodes(), replace(nodes()[0], name="n", labels={NODE_POOL: "a"}))))
    trees = {id(index.domains(fleet.KEYS, f"pool-{number}")) for number in range(100)}
    assert len(trees) == 1
    assert index.domains(fleet.KEYS, "pool-1").everywhere.nodes == ()
    assert len(index.domains(fleet.KEYS, "a").everywhere.nodes) == 1
    assert len(index._domains) == 2


def test_few_lists_of_all_nodes_are_kept() -> None:
    """Tenants choose the number of different gangs, and each has several such lists."""
    own = [replace(pod, name=f"p{n}", shape=shape(n)) for n, pod in enumerate(pods()[:1] * 200)]
    groups = tuple(KaiPodGroup(NAMESPACE, f"g{n}", queue="team-llm") for n in range(len(own)))
    alone = tuple(
        replace(pod, uid=pod.name, group=group.name, place=NOWHERE)
        for pod, group in zip(own, groups, strict=True)
    )
    index = Index(facts(pods=(*alone, *fill("rack-a1", "rack-a2")), pod_groups=groups))
    for group in groups:
        obstacle_of(gang_of_pod_group(index, group))
    kinds = Counter(key[0] for key in index._memory if isinstance(key, tuple))
    assert kinds["placements"] == kinds["obstacle"] == MOST_OF_A_KIND
    assert max(kinds["free"], kinds["allocatable"]) <= MOST_OF_A_KIND


def test_resources_that_no_node_has_are_counted_as_one() -> None:
    """A tenant may request thousands of resources, and each would be a number for each node."""
    many = tuple((f"example.com/r{number:04}", 1000) for number in range(1000))
    asks = replace(shape(8), requests=(*many, *shape(8).requests))
    index = Index(facts())
    placements = Placements(topology_of(index), Demand("", "", ((asks, 1),)))
    assert len(placements.names) == len(shape(8).requests) + 1
    assert not placements.under(EMPTY).fits
    assert Placements(topology_of(index), Demand("", "", ((shape(8), 1),))).under(EMPTY).fits
    assert not placements.under(Assumption(without=many[0][0])).fits
    one = replace(shape(8), requests=tuple(sorted((*many[:1], *shape(8).requests))))
    lacking = Placements(topology_of(index), Demand("", "", ((one, 1),)))
    assert lacking.under(Assumption(free="empty", without=many[0][0])).fits


def test_a_value_of_objects_is_not_that_of_others_which_are_gone() -> None:
    """A new object may have the address of one that is gone."""
    index = Index(Snapshot())
    values = [
        index.one_of_few_of("a", (object(),), lambda number=number: number)  # type: ignore[misc]
        for number in range(10)
    ]
    assert values == list(range(10))
