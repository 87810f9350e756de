"""The search for any placement: what it finds, and the work after which it gives up.

Tests `app/explain/placing/arrangement.py`.
"""

import pytest

from app.explain.placing.arrangement import MOST_PODS, Exhausted, Search
from app.explain.placing.demand import Demand, Ground
from app.explain.state.index import Index
from tests.explain import fleet
from tests.explain.fleet import GPU, facts, shape

EIGHT = shape(8)
SIX = shape(6)
NODES = len(Index(facts()).nodes)


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
