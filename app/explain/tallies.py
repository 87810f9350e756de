"""What the packer knows of each domain, kept up to date while pods are placed and taken away."""

import bisect
from collections.abc import Callable, Sequence

from app.explain.domains import Domains, Path
from app.explain.ground import Vector, capacity_of, kinds_of


class Order:
    """Domains in the order in which KAI tries them: the fullest first, then by name."""

    def __init__(
        self,
        children: Sequence[Path],
        tightness: Callable[[Path], float],
    ) -> None:
        self._tightness = tightness
        self._keys = {child: self._key(child) for child in children}
        self._sorted = sorted(self._keys.values())
        self.changed: set[Path] = set()

    def paths(self) -> list[Path]:
        """The domains as they are now."""
        for child in self.changed & self._keys.keys():
            before = self._keys[child]
            after = self._keys[child] = self._key(child)
            if after != before:
                del self._sorted[bisect.bisect_left(self._sorted, before)]
                bisect.insort(self._sorted, after)

        self.changed.clear()
        return [child for _, _, child in self._sorted]

    def _key(self, child: Path) -> tuple[float, str, Path]:
        return -self._tightness(child), ".".join(child), child


class PodCounts:
    """For how many pods of one size each domain has room."""

    def __init__(
        self,
        domains: Domains,
        free: Sequence[Vector],
        asks: Vector,
    ) -> None:
        self._domains = domains
        self._free = free
        self._asks = asks
        self._known: dict[Vector, int] = {}
        self._by_path: dict[Path, int] = {}

    def of(self, path: Path) -> int:
        """For how many pods a domain has room."""
        total = self._by_path.get(path)
        if total is None:
            kinds = kinds_of(self._free, self._domains.called(path))
            total = sum(count * self._capacity(free) for free, count in kinds.items())
            self._by_path[path] = total
        return total

    def change(
        self,
        around: Sequence[Path],
        before: Vector,
        after: Vector,
    ) -> None:
        """Take notice of a change of a node in the domains `around` it."""
        difference = self._capacity(after) - self._capacity(before)
        for path in around:
            if path in self._by_path:
                self._by_path[path] += difference

    def _capacity(self, free: Vector) -> int:
        if free not in self._known:
            self._known[free] = capacity_of(free, self._asks)
        return self._known[free]


class Sums:
    """What is free in each domain."""

    def __init__(
        self,
        domains: Domains,
        free: Sequence[Vector],
        length: int,
    ) -> None:
        self._domains = domains
        self._free = free
        self._nothing = (0,) * length
        self._by_path: dict[Path, Vector] = {}

    def of(self, path: Path) -> Vector:
        """What is free in a domain, of each resource."""
        total = self._by_path.get(path)
        if total is None:
            kinds = kinds_of(self._free, self._domains.called(path))
            vectors = [[count * have for have in free] for free, count in kinds.items()]
            total = tuple(map(sum, zip(*vectors, strict=True))) or self._nothing
            self._by_path[path] = total
        return total

    def change(
        self,
        around: Sequence[Path],
        before: Vector,
        after: Vector,
    ) -> None:
        """Take notice of a change of a node in the domains `around` it."""
        for path in around:
            total = self._by_path.get(path)
            if total is not None:
                changed = zip(total, before, after, strict=True)
                self._by_path[path] = tuple([old - had + has for old, had, has in changed])
