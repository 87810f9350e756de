"""What the packer knows of each domain, kept up to date while pods are placed and taken away."""

import bisect
from collections.abc import Callable, Sequence

from app.explain.known.domains import Domains, Path
from app.explain.placing.ground import Vector, capacity_of, kinds_of


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
        """Return the domains as they are now."""
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


class DomainSums:
    """The sum of what the nodes of each domain have, as `measure` sees what is free on one.

    `nothing` is the sum of a domain without nodes.
    """

    def __init__(
        self,
        domains: Domains,
        free: Sequence[Vector],
        measure: Callable[[Vector], Vector],
        nothing: Vector,
    ) -> None:
        self._domains = domains
        self._free = free
        self._measure = measure
        self._nothing = nothing
        self._by_path: dict[Path, Vector] = {}

    def of(self, path: Path) -> Vector:
        """Return the sum of a domain."""
        total = self._by_path.get(path)
        if total is None:
            kinds = kinds_of(self._free, self._domains.called(path))
            vectors = [
                [count * amount for amount in self._measure(free)] for free, count in kinds.items()
            ]
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
        had = self._measure(before)
        has = self._measure(after)
        for path in around:
            total = self._by_path.get(path)
            if total is not None:
                changed = zip(total, had, has, strict=True)
                self._by_path[path] = tuple([old - less + more for old, less, more in changed])


def sums(
    domains: Domains,
    free: Sequence[Vector],
    length: int,
) -> DomainSums:
    """Tally what is free, of `length` resources."""
    return DomainSums(domains, free, lambda have: have, (0,) * length)


def pod_counts(
    domains: Domains,
    free: Sequence[Vector],
    asks: Vector,
) -> DomainSums:
    """Tally for how many pods of one size there is room."""
    known: dict[Vector, Vector] = {}

    def measure(have: Vector) -> Vector:
        if have not in known:
            known[have] = (capacity_of(have, asks),)
        return known[have]

    return DomainSums(domains, free, measure, (0,))
