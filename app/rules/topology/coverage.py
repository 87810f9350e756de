"""The labels of nodes for the levels of a topology, and the room of domains.

The scheduler places pods by the values of these labels. If no node has the label of a level, a
required constraint on it can't be met.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, TypeVarTuple

from app.base.value import Value
from app.facts.grove.topology import DOMAINS, HOSTNAME_KEY, Level
from app.facts.kubernetes.node import GPUS
from app.facts.labels import GPU_COUNT
from app.objects.conditions import Condition
from app.objects.fields import listed
from app.rules.topology.levels import KNOWN, instead, is_documented, pasted

LEVELS_COVERED = "LevelsCovered"

_SHOWN = 3

NodeGroup = tuple[Mapping[str, str], int]
"""The labels of nodes, and how many nodes have them."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def _once(compute: Callable[["Nodes", *Ts], T]) -> Callable[["Nodes", *Ts], T]:
    """Make a method of Nodes keep its results.

    A verdict then doesn't have to look at thousands of nodes.
    """

    def kept(nodes: "Nodes", *arguments: *Ts) -> T:
        key = (compute, arguments)
        if key not in nodes.results:
            nodes.results[key] = compute(nodes, *arguments)
        result: T = nodes.results[key]
        return result

    return kept


class Nodes:
    """Groups of nodes with equal labels, each with the number of its nodes.

    `kubernetes.io/hostname` is left out, because it differs for each node.
    """

    def __init__(self, groups: Iterable[NodeGroup] = ()) -> None:
        self._groups = tuple(groups)
        self.results: dict[Hashable, Any] = {}

    def __iter__(self) -> Iterator[NodeGroup]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def keys(self) -> set[str]:
        """Return the keys of all labels that nodes have."""
        return {key for labels, _ in self for key in labels}

    @_once
    def largest_room(self, keys: tuple[str, ...]) -> "Room | None":
        """Return the room of the largest domain of a level.

        This is the one with the most GPUs, or with the most nodes if GPUs are not known. `keys` are
        those of the level and of all broader ones. None if no node has all of them.
        """
        domains = self._domains([key for key in keys if key != HOSTNAME_KEY])
        if not domains:
            return None
        if HOSTNAME_KEY in keys:
            domains = [Counter([max(map(max, domains))])]

        largest = max(domains, key=lambda gpus: (_total(gpus), gpus.total()))
        most = max(gpus.total() for gpus in domains)

        return Room(most, largest if self.most_gpus() else None)

    def _domains(self, keys: Sequence[str]) -> list[Counter[int]]:
        """Return the numbers of nodes by their GPUs, for each domain whose nodes have `keys`."""
        domains: dict[tuple[str, ...], Counter[int]] = defaultdict(Counter)
        for labels, count in self.with_labels(keys):
            domains[tuple(labels[key] for key in keys)][_gpus(labels)] += count
        return list(domains.values())

    def with_labels(self, keys: Sequence[str]) -> list[NodeGroup]:
        """Return the groups of nodes that have the labels `keys`, with their numbers."""
        return [group for group in self if all(key in group[0] for key in keys)]

    @_once
    def most_with_equal(self, key: str) -> int:
        """Return how many nodes have the most frequent value of the label `key`.

        0 if no node has that label.
        """
        counts: dict[str, int] = defaultdict(int)
        for labels, count in self:
            if key in labels:
                counts[labels[key]] += count
        return max(counts.values(), default=0)

    @_once
    def shared_levels(self, keys: tuple[str, ...]) -> int:
        """Return of how many levels, from the broadest on, all nodes are in the same domain.

        `keys` are those of all levels, broadest first. Only nodes with all of them count.
        """
        labelled = self.with_labels([key for key in keys if key != HOSTNAME_KEY])
        for depth, key in enumerate(keys):
            if key == HOSTNAME_KEY:
                domains = _number_of(labelled)
            else:
                domains = len({labels[key] for labels, _ in labelled})
            if domains != 1:
                return depth
        return len(keys)

    @_once
    def is_within(self, level: Level, key: str) -> bool | None:
        """Return whether all nodes of each domain of `level` have the same value of the label.

        None if no node has it.
        """
        values: dict[str, set[str]] = defaultdict(set)
        for labels, _ in self:
            if key in labels and level.key in labels:
                values[labels[level.key]].add(labels[key])
        return all(len(within) == 1 for within in values.values()) if values else None

    @_once
    def most_gpus(self, *keys: str) -> int:
        """Return the largest number of GPUs of a node that has the labels `keys`.

        0 if no such node is known to have any.
        """
        return max((_gpus(labels) for labels, _ in self.with_labels(keys)), default=0)


class LevelProblem(Value):
    """A problem of a level. `reason` is one CamelCase word, and `text` is for people."""

    reason: str
    text: str


NodesWith = Callable[[Collection[str]], Nodes]
"""Returns the nodes grouped by their labels of the given keys."""


def coverage_problems(levels: Sequence[Level], nodes_with: NodesWith) -> list[LevelProblem]:
    """Return the problems of `levels` by the labels of the nodes.

    The levels are listed broadest first. Empty if there are no nodes.
    """
    nodes = nodes_with([level.key for level in levels])
    total = _number_of(nodes)
    if not total:
        return []

    problems: list[LevelProblem] = []
    shared = [level for level in levels if level.key != HOSTNAME_KEY]
    for level in shared:
        number = _number_of(nodes.with_labels([level.key]))
        if number == 0:
            problems.append(_without_nodes(level, nodes_with(KNOWN)))
        elif number < total:
            text = (
                f'level "{level.domain}": the label {level.key} is on {number} of {total} nodes,'
                " and pods with a required constraint on it are never placed on the others"
            )
            problems.append(LevelProblem("NodesLackLevel", text))

    order = broadest_first(levels, [labels for labels, _ in nodes])
    right = f": {pasted(order)}" if order is not None else ""
    for broader, narrower in itertools.pairwise(shared):
        problems += _order_problems(broader, narrower, nodes, right)

    return problems


def _number_of(nodes: Iterable[NodeGroup]) -> int:
    return sum(count for _, count in nodes)


def coverage_condition(problems: Sequence[LevelProblem], generation: int) -> Condition:
    """Return the condition LevelsCovered of a topology with `problems`."""
    if not problems:
        return Condition(
            LEVELS_COVERED,
            "True",
            "NodesHaveLevels",
            "The labels of the nodes carry all levels",
            generation,
        )

    return Condition(
        LEVELS_COVERED,
        "False",
        problems[0].reason,
        "; ".join(problem.text for problem in problems),
        generation,
    )


def _without_nodes(level: Level, nodes: Nodes) -> LevelProblem:
    text = (
        f'level "{level.domain}": no node has the label {level.key}, so a required constraint on it'
        f" is never met{instead(level.key, nodes.keys())}"
    )
    return LevelProblem("NoNodeHasLevel", text)


def broadest_first(
    levels: Sequence[Level], nodes: Iterable[Mapping[str, str]]
) -> list[Level] | None:
    """Return the levels in the right order, if they are listed in a wrong one.

    If their names are in the usual order, only the keys are swapped, and the names stay. `nodes`
    are the labels of each node. None if the order is right, if the labels make no tree in any
    order, or if a level has no labels.
    """
    shared = [level for level in levels if level.key != HOSTNAME_KEY]
    keys = [level.key for level in shared]
    paths = {tuple(labels[key] for key in keys) for labels in nodes if labels.keys() >= set(keys)}
    numbers = [len({path[position] for path in paths}) for position in range(len(keys))]
    order = sorted(range(len(keys)), key=numbers.__getitem__)  # equal ones stay as they are
    if not paths or order == list(range(len(keys))):
        return None
    for above, below in itertools.pairwise(order):
        if len({(path[above], path[below]) for path in paths}) != numbers[below]:
            return None
        # one name of a rack in two zones may be two racks, unless the cloud says which is broader
        is_moved = above > below
        if is_moved and numbers[above] < 2 and not is_documented(keys[above], keys[below]):
            return None

    right = [shared[position] for position in order]
    names = [level.domain for level in shared]
    if names == [name for name in DOMAINS if name in names]:
        right = [Level(name, level.key) for name, level in zip(names, right, strict=True)]
    return [*right, *(level for level in levels if level.key == HOSTNAME_KEY)]


def _order_problems(
    broader: Level, narrower: Level, nodes: Nodes, right: str
) -> Iterator[LevelProblem]:
    parents: dict[str, set[str]] = defaultdict(set)
    children: dict[str, set[str]] = defaultdict(set)
    for labels, _ in nodes:
        above = labels.get(broader.key)
        below = labels.get(narrower.key)
        if above is not None and below is not None:
            parents[below].add(above)
            children[above].add(below)

    torn = sorted(value for value, above in parents.items() if len(above) > 1)
    if not torn:
        return
    if len(children) > len(parents) and {*map(len, children.values())} == {1}:
        text = (
            f'level "{broader.domain}" is listed above "{narrower.domain}", but by the labels of'
            f" the nodes each {broader.domain} is in one {narrower.domain}: list the broadest level"
            f" first{right}"
        )
        yield LevelProblem("LevelsNotBroadestFirst", text)
        return

    shown = [f'"{value}" is in {listed(sorted(parents[value]), _SHOWN, " and ")}' for value in torn]
    text = (
        f'levels "{broader.domain}" and "{narrower.domain}" are not a tree: {narrower.domain}'
        f" {listed(shown, _SHOWN)}; the scheduler takes these for different domains"
    )
    yield LevelProblem("LevelsNotATree", text)


class Room(Value):
    """The room in the largest domain of a level.

    `nodes` is the largest number of nodes in a domain. `nodes_by_gpus` has how many nodes of the
    largest domain have how many GPUs, or is None if no node is known to have any.
    """

    nodes: int
    nodes_by_gpus: Mapping[int, int] | None

    @property
    def gpus(self) -> int | None:
        """The GPUs of the largest domain, None if they are not known."""
        return None if self.nodes_by_gpus is None else _total(self.nodes_by_gpus)

    def pods(self, gpus_per_pod: int) -> int | None:
        """Return how many pods with `gpus_per_pod` GPUs each fit into the domain.

        None if that is not known.
        """
        if self.nodes_by_gpus is None or gpus_per_pod <= 0:
            return None
        return sum(gpus // gpus_per_pod * nodes for gpus, nodes in self.nodes_by_gpus.items())


def _total(nodes_by_gpus: Mapping[int, int]) -> int:
    return sum(gpus * nodes for gpus, nodes in nodes_by_gpus.items())


_MOST_DIGITS = 9
"""Of the GPUs of a node."""


def _gpus(labels: Mapping[str, str]) -> int:
    """Return the GPUs of a node: those of its label, or else those that it can allocate."""
    for key in (GPU_COUNT, GPUS):
        count = labels.get(key, "")
        if count.isdecimal() and len(count) <= _MOST_DIGITS:
            return int(count)
    return 0
