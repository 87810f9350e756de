"""Nodes by topology domain: the tree that the labels of the levels make."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from app.explain.facts.nodes import Node

Path = tuple[str, ...]
"""The label values of a domain, the broadest level first. () is the whole cluster."""


@dataclass(frozen=True, slots=True)
class Domain:
    """`nodes` are positions in the list of nodes that the tree was made of."""

    path: Path
    nodes: tuple[int, ...]

    def __str__(self) -> str:
        return "/".join(self.path) or "the cluster"


class Domains:
    """The domains that `keys` (broadest first) make of `nodes`.

    A node that lacks one of the keys is outside, as in KAI. Domains of the same name in different
    parents are different domains. Those of `earlier` nodes are taken over if every position has the
    same path.
    """

    def __init__(
        self, nodes: Sequence[Node], keys: Sequence[str], earlier: "Domains | None" = None
    ) -> None:
        self.nodes = nodes
        self.keys = tuple(keys)
        self.paths: list[Path | None] = [_path(node, self.keys) for node in nodes]
        same = earlier is not None and (earlier.keys, earlier.paths) == (self.keys, self.paths)
        self._grouped: dict[tuple[int, int], dict[Path, list[Domain]]] = (
            earlier._grouped if same and earlier else {}
        )

    def depth(self, key: str) -> int | None:
        """1 for the broadest level; None for a key that is no level."""
        return self.keys.index(key) + 1 if key in self.keys else None

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """By node name."""
        return {node.name: position for position, node in enumerate(self.nodes)}

    @cached_property
    def outside(self) -> tuple[int, ...]:
        """The nodes that lack a key, none if there are no levels."""
        return tuple(position for position, path in enumerate(self.paths) if path is None)

    @cached_property
    def inside(self) -> Domain:
        """All nodes of the tree, as one domain."""
        return Domain(
            (), tuple(position for position, path in enumerate(self.paths) if path is not None)
        )

    @cached_property
    def everywhere(self) -> Domain:
        """All nodes, also those outside."""
        return Domain((), tuple(range(len(self.nodes))))

    def at(self, depth: int) -> list[Domain]:
        """The domains of one level, by name."""
        return self.within(depth, ())

    def within(self, depth: int, parent: Path) -> list[Domain]:
        """The domains of one level inside a broader domain, or that domain itself; by name."""
        if (depth, len(parent)) not in self._grouped:
            self._grouped[depth, len(parent)] = self._group(depth, len(parent))
        return self._grouped[depth, len(parent)].get(parent, [])

    def domain_of(self, position: int, depth: int) -> Path | None:
        path = self.paths[position]
        return None if path is None else path[:depth]

    def _group(self, depth: int, prefix: int) -> dict[Path, list[Domain]]:
        """The domains of a level, by the first steps of their path."""
        domains: dict[Path, list[Domain]] = {}
        if prefix:
            for domain in self.at(depth):
                domains.setdefault(domain.path[:prefix], []).append(domain)
            return domains
        members: dict[Path, list[int]] = {}
        for position, path in enumerate(self.paths):
            if path is not None:
                members.setdefault(path[:depth], []).append(position)
        return {(): [Domain(path, tuple(members[path])) for path in sorted(members)]}


def _path(node: Node, keys: tuple[str, ...]) -> Path | None:
    labels = node.labels
    try:
        return tuple([labels[key] for key in keys])
    except KeyError:
        return None
