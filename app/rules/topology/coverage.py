"""Check the levels of a topology against the labels of nodes, and compute the room in domains.

The scheduler places pods by the values of these labels. If no node has the label of a level, pods
that require the level stay pending.
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
from app.rules.topology.levels import KNOWN, is_documented, labels_hint, yaml_of_levels

LEVELS_COVERED = "LevelsCovered"

_SHOWN = 3

NodeGroup = tuple[Mapping[str, str], int]
"""The labels of a group of nodes, and the number of its nodes."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


MOST_RESULTS = 1000
"""The maximum number of cached results. Tenants can name any node label in an annotation."""


def _once(compute: Callable[["Nodes", *Ts], T]) -> Callable[["Nodes", *Ts], T]:
    """Cache the results of a method of Nodes, so that a verdict need not visit every node."""

    def kept(nodes: "Nodes", *arguments: *Ts) -> T:
        key = (compute, arguments)
        if key not in nodes.results:
            if len(nodes.results) >= MOST_RESULTS:
                nodes.results.clear()
            nodes.results[key] = compute(nodes, *arguments)
        result: T = nodes.results[key]
        return result

    return kept


class Nodes:
    """All nodes of the cluster, as groups with equal labels and the number of nodes in each.

    `kubernetes.io/hostname` is left out of the labels, because it differs for each node.
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
    def room_at(self, keys: tuple[str, ...]) -> "Room | None":
        """Return the GPU capacity of the domains of a level, or None if it is not known.

        It is not known if no node has all labels `keys`, or if the GPUs of all nodes are unknown.
        `keys` are the labels of the level and of all broader levels.
        """
        domains = self._domains([key for key in keys if key != HOSTNAME_KEY])
        if not domains or not self.most_gpus():
            return None
        if HOSTNAME_KEY in keys:
            domains = [Counter([max(map(max, domains))])]
        # most domains of a cluster are equal, and a verdict compares its pods with each
        different = {frozenset(nodes.items()): nodes for nodes in domains}
        return Room(tuple(different.values()))

    def _domains(self, keys: Sequence[str]) -> list[Counter[int]]:
        """Return the number of nodes by GPUs per node, for each domain of the labels `keys`."""
        domains: dict[tuple[str, ...], Counter[int]] = defaultdict(Counter)
        for labels, count in self.with_labels(keys):
            domains[tuple(labels[key] for key in keys)][_gpus(labels)] += count
        return list(domains.values())

    def with_labels(self, keys: Sequence[str]) -> list[NodeGroup]:
        """Return the groups of nodes that have all labels in `keys`."""
        return [group for group in self if all(key in group[0] for key in keys)]

    @_once
    def most_with_equal(self, key: str) -> int:
        """Return the number of nodes with the most frequent value of the label `key`.

        Return 0 if no node has the label.
        """
        counts: dict[str, int] = defaultdict(int)
        for labels, count in self:
            if key in labels:
                counts[labels[key]] += count
        return max(counts.values(), default=0)

    @_once
    def shared_levels(self, keys: tuple[str, ...]) -> int:
        """Count the levels, from the broadest one down, at which all nodes are in the same domain.

        `keys` are the labels of all levels, broadest first. Only nodes with all these labels count.
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
        """Return whether all nodes of each domain of `level` have the same value of label `key`.

        Return None if no node has both labels.
        """
        values: dict[str, set[str]] = defaultdict(set)
        for labels, _ in self:
            if key in labels and level.key in labels:
                values[labels[level.key]].add(labels[key])
        return all(len(within) == 1 for within in values.values()) if values else None

    @_once
    def most_gpus(self, *keys: str) -> int:
        """Return the largest GPU count of a node with the labels `keys`, or 0 if none is known."""
        return max((_gpus(labels) for labels, _ in self.with_labels(keys)), default=0)


NO_NODES = Nodes()


class LevelProblem(Value):
    """A problem of one or two levels of a topology."""

    reason: str
    """The reason for programs, one CamelCase word, as in a condition."""
    text: str
    """The message for people."""


NodesWith = Callable[[Collection[str]], Nodes]
"""A function that returns the nodes, grouped by their values of the given labels."""


def coverage_problems(levels: Sequence[Level], nodes_with: NodesWith) -> list[LevelProblem]:
    """Return the problems of `levels` (broadest first) according to the labels of the nodes.

    If no nodes are known, only the order of the levels is checked: it must be the order that the
    cloud provider or Topograph documents for these labels.
    """
    nodes = nodes_with([level.key for level in levels])
    total = _number_of(nodes)
    shared = [level for level in levels if level.key != HOSTNAME_KEY]
    if not total:
        return list(_against_documentation(shared))

    problems: list[LevelProblem] = []
    for level in shared:
        number = _number_of(nodes.with_labels([level.key]))
        if number == 0:
            problems.append(_without_nodes(level, nodes_with(KNOWN)))
        elif number < total:
            have = "has" if number == 1 else "have"
            text = (
                f'level "{level.domain}": only {number} of {total} nodes {have} the label'
                f" {level.key}; for pods with a constraint of this topology, KAI ignores the other"
                " nodes"
            )
            problems.append(LevelProblem("NodesLackLevel", text))

    order = right_order(levels, [labels for labels, _ in nodes])
    right = f": {yaml_of_levels(order)}" if order is not None else ""
    for broader, narrower in itertools.pairwise(shared):
        problems += _order_problems(broader, narrower, nodes, right)

    return problems


def _number_of(nodes: Iterable[NodeGroup]) -> int:
    return sum(count for _, count in nodes)


def coverage_condition(problems: Sequence[LevelProblem], generation: int) -> Condition:
    """Return the condition LevelsCovered of a topology with `problems`."""
    if not problems:
        return Condition(
            type=LEVELS_COVERED,
            status="True",
            reason="NodesHaveLevels",
            message="Nodes have the labels of all levels",
            generation=generation,
        )

    return Condition(
        type=LEVELS_COVERED,
        status="False",
        reason=problems[0].reason,
        message="; ".join(problem.text for problem in problems),
        generation=generation,
    )


def _without_nodes(level: Level, nodes: Nodes) -> LevelProblem:
    text = (
        f'level "{level.domain}": no node has the label {level.key}, so pods that require this'
        f" level stay pending{labels_hint(level.key, nodes.keys())}"
    )
    return LevelProblem("NoNodeHasLevel", text)


def right_order(levels: Sequence[Level], nodes: Iterable[Mapping[str, str]]) -> list[Level] | None:
    """Return `levels` in the right order, or None if the order is right or cannot be derived.

    `nodes` are the labels of nodes. Only nodes with the labels of all levels count, and their
    labels must form a tree. A level with a single value moves up only if the order is documented.
    If the names of the levels are in the usual order, the names stay and only the keys are swapped.
    """
    shared = [level for level in levels if level.key != HOSTNAME_KEY]
    keys = [level.key for level in shared]
    paths = {tuple(labels[key] for key in keys) for labels in nodes if labels.keys() >= set(keys)}
    numbers = [len({path[position] for path in paths}) for position in range(len(keys))]
    order = sorted(range(len(keys)), key=numbers.__getitem__)  # stable: equal levels keep places
    if not paths or order == list(range(len(keys))):
        return None
    for above, below in itertools.pairwise(order):
        if len({(path[above], path[below]) for path in paths}) != numbers[below]:
            return None
        # a rack name that occurs in two zones may mean two racks, unless the cloud documents the
        # order
        is_moved = above > below
        if is_moved and numbers[above] < 2 and not is_documented(keys[above], keys[below]):
            return None

    right = [shared[position] for position in order]
    names = [level.domain for level in shared]
    if names == [name for name in DOMAINS if name in names]:
        right = [Level(name, level.key) for name, level in zip(names, right, strict=True)]
    return [*right, *(level for level in levels if level.key == HOSTNAME_KEY)]


def _against_documentation(levels: Sequence[Level]) -> Iterator[LevelProblem]:
    for broader, narrower in itertools.pairwise(levels):
        if is_documented(narrower.key, broader.key):
            text = (
                f'level "{broader.domain}" is listed above "{narrower.domain}", but the label'
                f" {narrower.key} is documented as broader than {broader.key}: list"
                f' "{narrower.domain}" above "{broader.domain}"'
            )
            yield LevelProblem("LevelsNotBroadestFirst", text)


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
            f'level "{broader.domain}" is listed above "{narrower.domain}", but according to the'
            f" node labels each {broader.domain} is in one {narrower.domain}: list"
            f' "{narrower.domain}" above "{broader.domain}"{right}'
        )
        yield LevelProblem("LevelsNotBroadestFirst", text)
        return

    shown = [f'"{value}" is in {listed(sorted(parents[value]), _SHOWN, " and ")}' for value in torn]
    text = (
        f'levels "{broader.domain}" and "{narrower.domain}" are not a tree: {narrower.domain}'
        f" {listed(shown, _SHOWN)}; the scheduler treats such a {narrower.domain} as a separate"
        f" domain in each {broader.domain}"
    )
    yield LevelProblem("LevelsNotATree", text)


class Room(Value):
    """The GPU capacity of the domains of a level, including GPUs in use."""

    domains: tuple[Mapping[int, int], ...]
    """The number of nodes by GPUs per node, for each domain. Equal domains are listed once."""

    @property
    def gpus(self) -> int:
        """The GPUs of the domain that has the most."""
        return max(map(_total, self.domains))

    def pods(self, gpus_per_pod: int) -> int | None:
        """Return how many pods with `gpus_per_pod` GPUs fit into the domain that has room for most.

        Return None if the pods request no GPUs.
        """
        if gpus_per_pod <= 0:
            return None
        return max(
            sum(gpus // gpus_per_pod * number for gpus, number in nodes.items())
            for nodes in self.domains
        )


def pods_with(number: int, gpus: int) -> str:
    """Return a number of pods with their GPUs, such as `1 pod with 8 GPUs`."""
    of_each = f"{gpus} GPU{'s' if gpus != 1 else ''}"
    return f"1 pod with {of_each}" if number == 1 else f"{number} pods with {of_each} each"


def _total(nodes_by_gpus: Mapping[int, int]) -> int:
    return sum(gpus * nodes for gpus, nodes in nodes_by_gpus.items())


_MOST_DIGITS = 9
"""The maximum number of digits in a node's GPU count. Longer counts are ignored."""


def _gpus(labels: Mapping[str, str]) -> int:
    """Return the GPUs of a node: the count in its label, else the value of GPUS, else 0."""
    for key in (GPU_COUNT, GPUS):
        count = labels.get(key, "")
        if count.isdecimal() and len(count) <= _MOST_DIGITS:
            return int(count)
    return 0
