"""The search for any placement: what it finds, and the work after which it gives up.

Tests `app/explain/placing/arrangement.py`.
"""

import pytest

from app.explain.placing.arrangement import MOST_PODS, Arrangement, Exhausted, Search, Wish
from app.explain.placing.demand import Demand, Ground, Run, Vector
from app.explain.state.domains import Domains
from app.explain.state.index import Index
from tests.explain import fleet
from tests.explain.fleet import GPU, facts, shape

EIGHT = shape(8)
SIX = shape(6)
NODES = len(Index(facts()).nodes)
Freed = tuple[tuple[int, Vector], ...]


def search(most: int, **counts: int) -> Search:
    """A search for places of so many pods with eight GPUs, and with six, in an empty fleet."""
    index = Index(facts())
    domains = index.domains(fleet.KEYS)
    names = (GPU,)
    fit = {each: [True] * NODES for each in (EIGHT, SIX)}
    ground = Ground(domains, names, index.free(names), fit)
    runs = tuple(
        (each, counts[name]) for name, each in (("eight", EIGHT), ("six", SIX)) if counts.get(name)
    )
    return Search([(ground, Demand("", "", pods=runs))], most)


def test_it_looks_once_at_each_node_and_once_at_each_pod_that_it_places() -> None:
    found = search(10_000, eight=3)
    (nodes,) = found.find() or [frozenset()]
    assert len(nodes) == 3
    assert found.looked == NODES + 3


def test_it_gives_up_after_the_most_looks_and_not_before() -> None:
    assert search(NODES + 3, eight=3).find() is not None
    with pytest.raises(Exhausted):
        search(NODES + 2, eight=3).find()


def test_that_there_is_no_place_is_certain_only_if_everything_was_tried() -> None:
    assert search(10_000, eight=NODES + 1).find() is None
    with pytest.raises(Exhausted):
        search(NODES, eight=NODES, six=1).find()


def test_the_most_pods_have_places_in_parts_of_parts_of_as_many_demands() -> None:
    """No depth of calls bounds the search: each pod is in a part of a part of its own demand."""
    index = Index(facts())
    domains = index.domains(fleet.KEYS)
    one = shape(1)
    ground = Ground(domains, (GPU,), index.free((GPU,)), {one: [True] * NODES})
    zone, rack, host = fleet.KEYS
    clique = Demand("clique", host, pods=((one, 1),))
    gang = Demand("gang", zone, parts=(Demand("group", rack, parts=(clique,)),))
    found = Search([(ground, gang)] * MOST_PODS, 1_000_000).find()
    assert found is not None
    assert [len(nodes) for nodes in found] == [1] * MOST_PODS


def arrangement(monkeypatch: pytest.MonkeyPatch) -> tuple[Arrangement, Domains, list[str]]:
    """An arrangement in an empty fleet, and the names of the demands that it tries to place."""
    index = Index(facts())
    tried: list[str] = []
    place = Arrangement._place_as_kai

    def noted(self: Arrangement, wish: Wish) -> bool:
        tried.append(wish.demand.name)
        return place(self, wish)

    monkeypatch.setattr(Arrangement, "_place_as_kai", noted)
    return Arrangement((GPU,), index.free((GPU,))), index.domains(fleet.KEYS), tried


def test_what_has_no_place_is_not_tried_again_for_an_equal_demand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arranged, domains, tried = arrangement(monkeypatch)
    fit = {EIGHT: [True] * NODES, SIX: [True] * NODES}

    def has_place(name: str, *pods: Run, freed: Freed = ()) -> tuple[bool, bool]:
        added = arranged.add(Wish(Demand(name, "", pods=pods), domains, fit, freed))
        return added, arranged.is_certain

    assert has_place("all", (EIGHT, NODES)) == (True, True)
    assert has_place("first", (EIGHT, 1)) == (False, True)
    assert has_place("second", (EIGHT, 1)) == (False, True)
    assert has_place("other", (SIX, 1)) == (False, True)
    assert tried == ["all", "first", "other"]
    # two nodes become free, of which it takes one itself
    assert has_place("moves", (SIX, 1), freed=((0, (8000,)), (1, (8000,)))) == (True, True)
    assert has_place("third", (EIGHT, 1)) == (True, True)


def test_that_not_everything_was_tried_is_said_for_an_equal_demand_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arranged, domains, tried = arrangement(monkeypatch)
    one = shape(1)
    fit = {one: [True] * NODES}
    zone = fleet.KEYS[0]
    # a third of the cluster's GPUs, in one zone: one fits in each zone, and two have too many pods
    third = NODES * 8 // 3
    found = []
    for name, count in (("a", third), ("b", third), ("c", third), ("small", 1), ("d", third)):
        wish = Wish(Demand(name, zone, pods=((one, count),)), domains, fit, ())
        found.append((arranged.add(wish), arranged.is_certain))
    assert found == [(True, True), (True, True), (False, False), (True, True), (False, False)]
    assert tried == ["a", "b", "c", "small"]
