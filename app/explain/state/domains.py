"""Group nodes into a tree of topology domains, by their labels for the levels."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from app.base.groups import by_key
from app.base.value import Value
from app.explain.state.amounts import gpus_of
from app.facts.kubernetes.node import Node
from app.facts.labels import NODE_POOL

Path = tuple[str, ...]
"""The label values of a domain, broadest level first. () is the whole cluster."""


class Domain(Value):
    """A topology domain, or all nodes of a tree."""

    path: Path
    nodes: tuple[int, ...]
    """The positions of its nodes in the list of nodes of the tree."""

    def __str__(self) -> str:
        return "/".join(self.path) or "the cluster"


class Domains:
    """The tree of `nodes` by the labels `keys`, broadest level first.

    A node that lacks one of the labels is outside the tree, as in KAI. With a node pool `pool`,
    nodes outside the pool do not exist, as for the scheduler of the pool.

    Domains with the same name in different parents are different domains. But KAI joins the names
    of all levels with dots, so it mistakes rack `c` of zone `a.b` for rack `b.c` of zone `a`. Such
    domains are called joined here.
    """

    def __init__(self, nodes: Sequence[Node], keys: Sequence[str], pool: str | None = None) -> None:
        self.nodes = nodes
        self.keys = tuple(keys)
        self._pool = pool
        self.paths: list[Path | None] = [
            self._path_of(node) if self._is_visible(node) else None for node in nodes
        ]
        """The path of each node, or None for a node outside the tree or the pool."""
        self._grouped: dict[tuple[int, int], dict[Path, list[Domain]]] = {}
        self._others: dict[tuple[str, ...], Domains] = {}

    def by(self, levels: tuple[str, ...] | None) -> "Domains":
        """Return the tree of the same nodes by `levels`, or this tree if `levels` is None."""
        if levels in (None, self.keys):
            return self
        if levels not in self._others:
            self._others[levels] = Domains(self.nodes, levels, self._pool)
        return self._others[levels]

    def follow(self, nodes: Sequence[Node]) -> bool:
        """Use `nodes` from now on and return True, if they have the same tree and resources.

        Otherwise, change nothing and return False.
        """
        if nodes is self.nodes:
            return True
        if len(nodes) != len(self.nodes):
            return False
        pairs = zip(nodes, self.nodes, strict=True)
        if any(
            node is not other and self._seen(node) != self._seen(other) for node, other in pairs
        ):
            return False
        self.nodes = nodes
        self._others.clear()
        return True

    def _path_of(self, node: Node) -> Path | None:
        """Return the path of a node, or None if it lacks one of the labels."""
        labels = node.labels
        try:
            return tuple([labels[key] for key in self.keys])
        except KeyError:
            return None

    def _seen(self, node: Node) -> tuple[object, ...]:
        """Return everything about a node on which this object depends."""
        return node.name, node.allocatable, self._path_of(node), self._is_visible(node)

    def _is_visible(self, node: Node) -> bool:
        return self._pool is None or node.labels.get(NODE_POOL, "") == self._pool

    def nodes_at(self, positions: Iterable[int]) -> list[Node]:
        """Return the nodes at `positions`."""
        return [self.nodes[position] for position in positions]

    def depth(self, key: str) -> int | None:
        """Return the depth of a level, 1 for the broadest, or None if `key` is not a level."""
        return self.keys.index(key) + 1 if key in self.keys else None

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position of each node by its name."""
        return {node.name: position for position, node in enumerate(self.nodes)}

    @cached_property
    def outside(self) -> tuple[int, ...]:
        """The positions of the nodes that lack a level's label. Empty if there are no levels."""
        return tuple(position for position in self.everywhere.nodes if self.paths[position] is None)

    @cached_property
    def inside(self) -> Domain:
        """All nodes inside the tree, as one domain."""
        return Domain(
            (), tuple(position for position, path in enumerate(self.paths) if path is not None)
        )

    @cached_property
    def everywhere(self) -> Domain:
        """All nodes inside and outside the tree, as one domain."""
        nodes = enumerate(self.nodes)
        return Domain((), tuple(position for position, node in nodes if self._is_visible(node)))

    @cached_property
    def has_gpus(self) -> list[bool]:
        """For each node, whether it has GPUs or MIG devices."""
        # Equal nodes share one `allocatable`, so each is examined once.
        kinds = {id(node.allocatable): node.allocatable for node in self.nodes}
        having = {kind: gpus_of(allocatable) > 0 for kind, allocatable in kinds.items()}
        return [having[id(node.allocatable)] for node in self.nodes]

    @cached_property
    def joined(self) -> Mapping[Path, Path]:
        """The path of each joined domain, mapped to the path that KAI mistakes it for."""
        parents = {path[:-1] for path in self.paths if path}
        if not any("." in value for value in itertools.chain.from_iterable(parents)):
            return {}
        called: dict[tuple[int, str], Path] = {}
        paths = {path[: depth + 1] for path in self.paths if path for depth in range(len(path))}
        return {
            path: first
            for path in sorted(paths)
            if (first := called.setdefault((len(path), ".".join(path)), path)) != path
        }

    def at(self, depth: int) -> list[Domain]:
        """Return the domains of the level at `depth`, sorted by path."""
        return self.within(depth, ())

    def paths_at(self, depth: int) -> set[Path]:
        """Return the paths of all domains of one level, including joined ones."""
        if not self.joined:
            return {domain.path for domain in self.at(depth)}
        return {path[:depth] for path in self.paths if path is not None}

    def within(self, depth: int, parent: Path) -> list[Domain]:
        """Return the domains of the level at `depth` inside `parent`, sorted by path.

        If `parent` is of this level, return only `parent` itself.
        """
        if (depth, len(parent)) not in self._grouped:
            self._grouped[depth, len(parent)] = self._group(depth, len(parent))
        return self._grouped[depth, len(parent)].get(self.known(parent), [])

    def has(self, domain: Domain) -> bool:
        """Return whether a domain is one of this tree, or its `inside` or `everywhere`."""
        path = domain.path
        return domain in (self.everywhere, self.inside, *self.within(len(path), path))

    def part(self, path: Path, scope: Domain) -> Domain:
        """Return the part of the domain `path` that is inside `scope`.

        `scope` may be a domain of another tree. In the same tree, one of the two must contain the
        other.
        """
        domain = self.called(path)
        if self.joined or not self.has(scope):
            within = set(scope.nodes)
            return Domain(path, tuple(position for position in domain.nodes if position in within))
        return scope if len(path) < len(scope.path) else domain

    def called(self, path: Path) -> Domain:
        """Return the domain with an existing path, or all nodes inside the tree for ()."""
        return self.within(len(path), path)[0] if path else self.inside

    def children(self, path: Path) -> list[Domain]:
        """Return the domains of the next level inside a domain. The last level has none."""
        return self.within(len(path) + 1, path) if len(path) < len(self.keys) else []

    def domain_of(self, position: int, depth: int) -> Path | None:
        """Return the path of a node's domain at a level, as KAI sees it.

        Return None for a node outside the tree.
        """
        path = self.paths[position]
        return None if path is None else self.known(path[:depth])

    def domains_of(self, names: Iterable[str], depth: int) -> set[Path | None]:
        """Return the paths of the domains of nodes at a level.

        None stands for nodes outside the tree, and for names of unknown nodes.
        """
        positions = map(self.positions.get, names)
        return {None if at is None else self.domain_of(at, depth) for at in positions}

    def paths_of(self, names: Iterable[str]) -> list[Path]:
        """Return the paths of the nodes `names`, without unknown nodes and nodes outside the tree.

        Several nodes may have the same path.
        """
        positions = (self.positions[name] for name in names if name in self.positions)
        return [path for path in map(self.paths.__getitem__, positions) if path is not None]

    def around(self, position: int) -> tuple[Path, ...]:
        """Return the paths of a node's domains, from the whole tree to the narrowest domain.

        Return () for a node outside the tree.
        """
        path = self.paths[position]
        prefixes = [path[:depth] for depth in range(len(path) + 1)] if path is not None else []
        return tuple(map(self.known, prefixes))

    def known(self, path: Path) -> Path:
        """Return the domain that KAI takes `path` for: `path` itself, unless it is joined."""
        return self.joined.get(path, path) if self.joined else path

    def _group(self, depth: int, prefix: int) -> dict[Path, list[Domain]]:
        """Return the domains of a level, by the first `prefix` names of their path."""
        if prefix:
            return self._by_parent(depth, prefix)
        paths = enumerate(self.paths)
        members = by_key((self.known(path[:depth]), at) for at, path in paths if path is not None)
        return {(): [Domain(path, tuple(nodes)) for path, nodes in sorted(members.items())]}

    def _by_parent(self, depth: int, prefix: int) -> dict[Path, list[Domain]]:
        if not self.joined:
            return by_key((domain.path[:prefix], domain) for domain in self.at(depth))
        parents = (
            (self.known(path[:prefix]), domain)
            for domain in self.at(depth)
            for path in map(self.paths.__getitem__, domain.nodes)
            if path
        )
        return by_key(dict.fromkeys(parents))


def joined_names(domains: Domains) -> Mapping[Path, list[Path]]:
    """Return the joined domains, by the domain that KAI mistakes them for."""
    return by_key((first, path) for path, first in sorted(domains.joined.items()))


def shared_depth(paths: Sequence[Path]) -> int:
    """Return the number of levels, from the broadest on, at which all paths agree."""
    levels = zip(*paths, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda level: len(set(level)) == 1, levels))
