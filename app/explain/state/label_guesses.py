"""Guess missing topology labels of nodes from the nodes before and after them by name."""

import re
from collections.abc import Mapping

from app.base.groups import by_key
from app.explain.state.levels import Topology
from app.facts.grove.topology import HOSTNAME_KEY
from app.facts.kubernetes.node import Labels, Node
from app.facts.labels import NODE_POOL

_NUMBER = re.compile(r"(.*?[^0-9]|)([0-9]{1,18})")


def guessed_labels(topology: Topology) -> Mapping[str, Labels]:
    """Return the probable values of missing level labels, by node name.

    Nodes whose names differ only in the number at their end are compared. A value is guessed for a
    node that lacks the label of exactly one level. The nearest nodes before and after it that have
    all labels must both have this value, and must have the node's pool and its other levels, except
    the hostname.
    """
    matches = ((_NUMBER.fullmatch(node.name), node) for node in topology.index.nodes)
    series = by_key((match[1], (int(match[2]), node)) for match, node in matches if match)
    guesses: dict[str, Labels] = {}
    for members in series.values():
        ordered = [
            node for _, node in sorted(members, key=lambda member: (member[0], member[1].name))
        ]
        guesses |= _guesses_in(ordered, topology.keys)

    return guesses


def _guesses_in(nodes: list[Node], keys: tuple[str, ...]) -> dict[str, Labels]:
    """Return the guesses for `nodes`, which are sorted by the number at the end of their names."""
    following = _labelled_before(list(reversed(nodes)), keys)
    neighbours = zip(nodes, _labelled_before(nodes, keys), reversed(following), strict=True)

    guesses: dict[str, Labels] = {}
    for node, before, after in neighbours:
        missing = [key for key in keys if key not in node.labels]
        if len(missing) == 1 and before and after:
            key = missing[0]
            if _agree(node, before, after, keys, key):
                guesses[node.name] = {key: before.labels[key]}

    return guesses


def _labelled_before(nodes: list[Node], keys: tuple[str, ...]) -> list[Node | None]:
    """Return for each node the last node before it with all labels `keys`, or None."""
    before: list[Node | None] = []
    last: Node | None = None
    for node in nodes:
        before.append(last)
        if all(key in node.labels for key in keys):
            last = node
    return before


def _agree(node: Node, before: Node, after: Node, keys: tuple[str, ...], missing: str) -> bool:
    """Return whether `before` and `after` have the same value of the label `missing`.

    Both must also have the node pool and the other levels of `node`, except the hostname.
    """
    if before.labels[missing] != after.labels[missing]:
        return False
    compared = [key for key in (*keys, NODE_POOL) if key not in (missing, HOSTNAME_KEY)]
    return all(
        node.labels.get(key) == other.labels.get(key)
        for key in compared
        for other in (before, after)
    )
