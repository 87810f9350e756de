"""One trial of placing pods on nodes: what is free then, and the way back."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from heapq import nsmallest

from app.explain.known.amounts import is_gpu
from app.explain.known.domains import Path
from app.explain.placing.ground import Board, Ground, Taker, Vector, takers
from app.explain.placing.tallies import DomainSums, Order, pod_counts, sums
from app.facts.kubernetes.pod import Shape

Scores = Mapping[int, int] | None
"""KAI's rank of each node by its preferred domain; None if there is no such rank."""


class Trial(Board):
    """Pods on nodes, and what each domain has left."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        names = ground.names
        self._gpus = [position for position, name in enumerate(names) if is_gpu(name)]
        self._cpus = [position for position, name in enumerate(names) if name == "cpu"]
        self._counted = [position for position, name in enumerate(names) if name != "pods"]
        self._tallies: dict[Vector, DomainSums] = {}
        self._sums = sums(self._domains, self._free, len(names))
        self._orders: dict[Path, dict[Vector, Order]] = {}

    @property
    def free(self) -> list[Vector]:
        """What each node has left."""
        return list(self._free)

    @property
    def used(self) -> frozenset[int]:
        """The nodes on which something was placed."""
        return frozenset(position for position, _ in self._journal)

    def tally(self, largest: Vector) -> DomainSums:
        """For how many pods of this size each domain has room."""
        if largest not in self._tallies:
            self._tallies[largest] = pod_counts(self._domains, self._free, largest)
        return self._tallies[largest]

    def order(
        self,
        asked: Vector,
        path: Path,
    ) -> list[Path]:
        """Return the children of a domain, those first that `asked` would fill most."""
        orders = self._orders.setdefault(path, {})
        if asked not in orders:
            children = [child.path for child in self._domains.children(path)]
            orders[asked] = Order(children, self.tightness(asked))
        return orders[asked].paths()

    def tightness(self, asked: Vector) -> Callable[[Path], float]:
        """Return the largest part of what a domain has free that is asked for, by the domain.

        Pods are not counted.
        """
        # A function that knew the trial, which keeps it, would be freed long after its use.
        left = self._sums
        counted = self._counted

        def of(path: Path) -> float:
            free = left.of(path)
            parts = (_part(asked[position], free[position]) for position in counted)
            return max(parts, default=0.0)

        return of

    def fill(
        self,
        shape: Shape,
        count: int,
        nodes: Sequence[int],
        scores: Scores,
    ) -> bool:
        """Put pods of one shape on nodes, the fullest nodes first. False if not all have room."""
        asks = self._ground.asks[shape]
        able = takers(self._free, asks, self._ground.fit[shape], nodes, {})
        return not self._put(self._ranked(asks, able, scores, count), asks, count)

    def _ranked(
        self,
        asks: Vector,
        able: list[Taker],
        scores: Scores,
        most: int,
    ) -> list[Taker]:
        """Return the first nodes in KAI's order, at most `most`, as each takes a pod.

        The order is by score, without GPUs for pods without, and the fullest first.
        """
        for_gpus = any(asks[position] for position in self._gpus)
        main = self._gpus if for_gpus else self._cpus
        free = self._free
        has_gpus = self._domains.has_gpus

        def rank(taker: Taker) -> tuple[int, bool, int, int]:
            position = taker[1]
            have = sum([free[position][index] for index in main])
            score = scores.get(position, 0) if scores is not None else 0
            return -score, has_gpus[position] and not for_gpus, have, position

        return nsmallest(most, able, key=rank)

    def _set(
        self,
        position: int,
        have: Vector,
    ) -> None:
        before = self._free[position]
        super()._set(position, have)
        around = self._domains.around(position)

        for tally in self._tallies.values():
            tally.change(around, before, have)
        self._sums.change(around, before, have)
        for parent, child in itertools.pairwise(around):
            for order in self._orders.get(parent, {}).values():
                order.changed.add(child)


def _part(ask: int, have: int) -> float:
    """Return what part of an amount is asked for."""
    if not ask:
        return 0.0
    return ask / have if have > 0 else math.inf
