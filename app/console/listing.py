"""The list of what waits, kept from page to page.

An explanation of each of thousands of workloads takes seconds, so a page explains only those for
which something has changed, and only for a short time. The pages after it go on.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count

from app.base.value import Value
from app.explain.answers.answer import Answer, explain
from app.explain.answers.waiting import WorkloadRow, place, row_of, workloads
from app.explain.known.index import Index
from app.explain.known.snapshot import Snapshot
from app.explain.line.cycle import line_of
from app.facts.named import Ref

SECONDS = 0.05
"""CPU seconds that a page may take for explanations of the list."""

Parts = tuple[object, ...]
"""What belongs to a workload; equal if each is the same object as before."""


class _KeptRow(Value):
    """A row of the list, and what it was made of.

    It has the parts that it was made of, and the number of the state of the cluster, 0 if the
    workload has only been counted.
    """

    row: WorkloadRow
    parts: Parts
    state: int


class WaitingList:
    """The rows of all workloads. `complete` says whether all are of the facts that were seen last.

    Used by one thread. `clock` gives its CPU seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self.complete = True
        self._clock = clock
        self._kept: dict[Ref, _KeptRow] = {}
        self._states = count(1)
        self._state = 0

    @property
    def rows(self) -> list[WorkloadRow]:
        """What waits first, in the order of KAI's line."""
        return sorted((kept.row for kept in self._kept.values()), key=place)

    @property
    def waiting(self) -> int:
        return sum(kept.row.state == "waits" for kept in self._kept.values())

    def follow(self, index: Index, *, reasons: bool = True) -> None:
        """Explain what has changed: first workloads whose own parts have, then those that wait.

        Without `reasons`, only workloads whose own parts have changed: that is enough to know which
        of them wait.
        """
        self._state = index.remembered(
            "state of the list", self._states.__next__, Snapshot.__struct_fields__
        )
        parts = dict(_parts(index))
        self._kept = {
            ref: self._kept.get(ref) or _KeptRow(_counted(index, ref), (), 0) for ref in parts
        }
        self.complete = False
        to_explain = self._to_explain(parts, reasons=reasons)
        if to_explain:
            # every explanation needs it, so it must not use up the time of the first
            line_of(index)
        end = self._clock() + SECONDS
        for done, ref in enumerate(to_explain):
            if done and self._clock() > end:
                return
            answer = answered(index, ref)
            if answer:
                self._kept[ref] = _KeptRow(row_of(index, answer), parts[ref], self._state)
        self.complete = True

    def _to_explain(self, parts: Mapping[Ref, Parts], *, reasons: bool) -> list[Ref]:
        changed = {
            ref
            for ref, after in parts.items()
            if list(map(id, self._kept[ref].parts)) != list(map(id, after))
        }
        kept = self._kept.items() if reasons else ()
        others = {ref for ref, row in kept if row.state != self._state} - changed
        return [*sorted(changed, key=self._urgency), *sorted(others, key=self._urgency)]

    def _urgency(self, ref: Ref) -> tuple[bool, int, Ref]:
        kept = self._kept[ref]
        return kept.row.state != "waits", kept.state, ref


def answered(index: Index, ref: Ref) -> Answer | None:
    """Return the explanation of an object, made once for each state of the cluster."""
    return index.remembered(("answer", ref), lambda: explain(index, ref))


def _parts(index: Index) -> Iterator[tuple[Ref, Parts]]:
    """Yield the workloads with what belongs to each."""
    of_sets = (index.gangs_of_set, index.cliques_of_set, index.pods_of_set)
    for ref in workloads(index):
        key = ref.key
        if ref.kind == "PodCliqueSet":
            yield ref, (index.sets[key], *(part.get(key) for part in of_sets))
        else:
            yield ref, (index.pod_groups[key], index.pods_of_group.get(key))


def _counted(index: Index, ref: Ref) -> WorkloadRow:
    """Return a row without a reason, until there is time for an explanation."""
    key = ref.key
    pods = index.pods_of_set.get(key, ()) or index.pods_of_group.get(key, ())
    placed = sum(bool(pod.node) for pod in pods)
    replicas = sum(clique.replicas for clique in index.cliques_of_set.get(key, ()))
    total = max(replicas, len(pods))
    return WorkloadRow(ref, "well" if placed == total > 0 else "waits", None, placed, total)
