"""The tree of a PodGroup's SubGroups, however their parents are named.

Tests `app/explain/gangs/assembly.py` and `app/explain/gangs/gang.py`.
"""

from collections.abc import Iterator

import pytest

from app.explain.gangs import assembly
from app.explain.gangs.assembly import MOST_DEPTH, gang_of_pod_group
from app.explain.gangs.gang import Member, Unit
from app.explain.state.index import Index
from app.facts.kai.podgroup import KaiPodGroup, SubGroup
from app.facts.kubernetes.pod import NO_SHAPE
from tests.explain.fleet import NAMESPACE, facts

Tree = dict[str, "Tree"]


def tree_of(unit: Unit) -> Tree:
    leaves: Tree = {member.name: {} for member in unit.members}
    return leaves | {inner.name: tree_of(inner) for inner in unit.units}


@pytest.mark.parametrize(
    ("subgroups", "tree"),
    [
        pytest.param([], {"train": {}}, id="none"),
        pytest.param(["a", "b:a", "c:a"], {"a": {"b": {}, "c": {}}}, id="a parent"),
        pytest.param(["a:b", "b:a", "c"], {"c": {}}, id="a cycle"),
        pytest.param(["a:a", "c"], {"c": {}}, id="its own parent"),
        pytest.param(["", "a"], {"a": {}}, id="no name"),
        pytest.param(["a", "a:a", "b:a"], {"a": {"b": {}}}, id="a repeated name below itself"),
        pytest.param(["a", "a", "b:a", "b:a"], {"a": {"b": {}}}, id="repeated names"),
        pytest.param(["a:missing"], {}, id="a parent that does not exist"),
    ],
)
def test_each_subgroup_is_at_one_place(subgroups: list[str], tree: Tree) -> None:
    parts = [subgroup.partition(":") for subgroup in subgroups]
    parsed = tuple(SubGroup(name, parent) for name, _, parent in parts)
    group = KaiPodGroup(NAMESPACE, "train", subgroups=parsed)
    assert tree_of(gang_of_pod_group(Index(facts()), group).whole) == tree


def test_the_tree_has_a_bounded_depth() -> None:
    chain = tuple(SubGroup(f"g{n}", f"g{n - 1}" if n else "") for n in range(5000))
    unit = gang_of_pod_group(Index(facts()), KaiPodGroup(NAMESPACE, "t", subgroups=chain)).whole
    names = []
    while unit.units:
        (unit,) = unit.units
        names.append(unit.name)
    assert names == [f"g{n}" for n in range(MOST_DEPTH - 1)]
    assert [member.name for member in unit.members] == [f"g{MOST_DEPTH - 1}"]


@pytest.mark.parametrize("minimum", [0, 3, 2**31 - 1, 2**63 - 1])
def test_pods_to_come_are_counted_and_not_listed(minimum: int) -> None:
    member = Member("train", minimum, minimum, NO_SHAPE, ())
    assert member.demand().pods == (((NO_SHAPE, minimum),) if minimum else ())


class Counted(tuple[SubGroup, ...]):
    """SubGroups that count how often somebody goes through all of them."""

    times = 0

    def __iter__(self) -> Iterator[SubGroup]:
        Counted.times += 1
        return super().__iter__()


def test_the_work_grows_with_the_number_of_subgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    """40,000 of them fit into a PodGroup, and half of them may be parents."""
    parents = [SubGroup(f"p{number}") for number in range(500)]
    children = [SubGroup(f"c{number}", f"p{number}") for number in range(500)]
    distinct = assembly._distinct
    monkeypatch.setattr(assembly, "_distinct", lambda given: Counted(distinct(given)))
    Counted.times = 0
    group = KaiPodGroup(NAMESPACE, "t", subgroups=(*parents, *children))
    assert len(gang_of_pod_group(Index(facts()), group).whole.units) == 500
    assert Counted.times <= 3
