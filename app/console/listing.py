"""Keep the list of workloads between requests for pages.

Explaining thousands of workloads takes seconds. After startup, `examine` explains each workload
once. Later, each request explains only workloads for which something has changed, and only for a
short time. The next requests continue.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from math import inf
from operator import attrgetter

from app.base.value import Value
from app.explain.answers.answer import Answer, explain
from app.explain.answers.branch import State
from app.explain.answers.pending import (
    WorkloadRow,
    place,
    row_of,
    waiting_alone,
    waiting_without_pods,
    workloads,
)
from app.explain.queue_order.cycle import line_of
from app.explain.state.index import Index
from app.explain.state.makers import said_about
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kubernetes.pod import Pod

SECONDS = 0.05
"""The CPU time that one request for a page spends on explaining workloads, in seconds."""
SLICE = 0.2
"""The CPU seconds after which a call of `examine` ends. A page waits for at most one call."""
NOT_EXAMINED = "not examined yet"
"""The reason in the row of a workload that is not explained yet."""

Parts = tuple[object, ...]
"""The facts about one workload. They are unchanged as long as all are the same Python objects."""


class _KeptRow(Value):
    """A row of the list, with the facts from which it was made."""

    row: WorkloadRow
    parts: Parts
    """The facts from which the row was made, or () if the workload is not explained yet."""
    state: int
    """The number of the cluster's state in which the workload was explained, or 0 if it was not."""
    order: float = inf
    """The workload's position in KAI's order if it is not explained yet, otherwise infinity."""

    @property
    def place(self) -> tuple[int, float, float, Ref]:
        """The sort key of the row."""
        state, order, since, ref = place(self.row)
        return state, min(order, self.order), since, ref


class WaitingList:
    """The rows of all workloads, kept between requests.

    Only one thread may use the list. `clock` returns the CPU seconds of this thread.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self.complete = True
        """Did the last call of `follow` have time for all workloads?"""
        self._clock = clock
        self._kept: dict[Ref, _KeptRow] = {}
        self._states = count(1)
        self._state = 0
        """The number of the cluster's current state."""
        self._selected: Ref | None = None

    @property
    def rows(self) -> list[WorkloadRow]:
        """All rows, pending workloads first, in KAI's order."""
        return [kept.row for kept in sorted(self._kept.values(), key=attrgetter("place"))]

    @property
    def waiting(self) -> int:
        """The number of pending workloads."""
        return sum(kept.row.state == "waits" for kept in self._kept.values())

    def selected(self, rows: Sequence[WorkloadRow]) -> Ref | None:
        """Return the workload to show if the user has selected none, or None if there are no rows.

        This workload is the first of `rows`. It remains selected as long as it is pending and among
        `rows`, because otherwise the page would jump while workloads are examined.
        """
        stays = any(row.ref == self._selected and row.state == "waits" for row in rows)
        if not stays:
            self._selected = rows[0].ref if rows else None
        return self._selected

    def follow(self, index: Index, *, reasons: bool = True) -> None:
        """Explain workloads again for SECONDS, starting with workloads whose facts have changed.

        The other workloads follow, pending ones first, because the rest of the cluster may have
        changed. Without `reasons`, they are left out, because only their reasons can have changed,
        not whether they are pending.
        """
        parts = self._counted_all(index)
        to_explain = self._to_explain(parts, reasons=reasons)
        self.complete = self._explain(index, to_explain, parts, SECONDS)

    def examine(self, index: Index) -> bool:
        """Explain workloads that are not explained yet, for SLICE seconds.

        Return whether any are left.
        """
        parts = self._counted_all(index)
        new = [ref for ref in self._to_explain(parts, reasons=False) if not self._kept[ref].state]
        return not self._explain(index, new, parts, SLICE)

    def _counted_all(self, index: Index) -> Mapping[Ref, Parts]:
        """Add rows for new workloads, and remove the rows of deleted ones.

        Return the facts of each workload.
        """
        self._state = index.remembered(
            "state of the list", self._states.__next__, Snapshot.__struct_fields__
        )
        parts = dict(_parts(index))
        self._kept = {
            ref: self._kept.get(ref) or _KeptRow(_counted(index, ref), (), 0, _order(index, ref))
            for ref in parts
        }
        return parts

    def _explain(
        self, index: Index, refs: Sequence[Ref], parts: Mapping[Ref, Parts], seconds: float
    ) -> bool:
        """Explain `refs` for up to `seconds` of CPU, at least one. Return whether all were done."""
        if refs:
            # computed before the clock starts, because every explanation needs KAI's order
            line_of(index)
        end = self._clock() + seconds
        for done, ref in enumerate(refs):
            if done and self._clock() > end:
                return False
            answer = answered(index, ref)
            if answer:
                self._kept[ref] = _KeptRow(row_of(index, answer), parts[ref], self._state)
        return True

    def _to_explain(self, parts: Mapping[Ref, Parts], *, reasons: bool) -> list[Ref]:
        """Return the workloads to explain, starting with workloads whose own facts have changed.

        With `reasons`, all that were explained in an earlier state of the cluster follow.
        """
        changed = {
            ref
            for ref, after in parts.items()
            if list(map(id, self._kept[ref].parts)) != list(map(id, after))
        }
        kept = self._kept.items() if reasons else ()
        others = {ref for ref, row in kept if row.state != self._state} - changed
        return [*sorted(changed, key=self._urgency), *sorted(others, key=self._urgency)]

    def _urgency(self, ref: Ref) -> tuple[bool, int, float, Ref]:
        """Return a sort key: pending workloads first, then the workloads explained longest ago."""
        kept = self._kept[ref]
        return kept.row.state != "waits", kept.state, kept.order, ref


def answered(index: Index, ref: Ref) -> Answer | None:
    """Return the explanation of an object, or None if it does not exist.

    It is computed once for each state of the cluster.
    """
    return index.remembered(("answer", ref), lambda: explain(index, ref))


def _parts(index: Index) -> Iterator[tuple[Ref, Parts]]:
    """Yield each workload with the facts about it."""
    of_sets = (index.gangs_of_set, index.cliques_of_set, index.pods_of_set)
    for ref in workloads(index):
        key = ref.key
        if ref.kind == "PodCliqueSet":
            yield ref, (index.sets[key], *(part.get(key) for part in of_sets))
        else:
            yield ref, (index.pod_groups[key], index.pods_of_group.get(key))
    for ref, pods in waiting_alone(index).items():
        yield ref, tuple(pods)
    for ref in waiting_without_pods(index):
        yield ref, tuple(said_about(index, ref))


def _order(index: Index, ref: Ref) -> float:
    """Return the first position of a workload's gangs in KAI's order, or infinity without one."""
    gangs = [gang.ref for gang in index.gangs_of_set.get(ref.key, ())]
    line = line_of(index)
    own = gangs if ref.kind == "PodCliqueSet" else [ref]
    return min((line[gang].order for gang in own if gang in line), default=inf)


def _counted(index: Index, ref: Ref) -> WorkloadRow:
    """Return the row of a workload that is not explained yet.

    The pods of PodCliqueSets and PodGroups are counted. Other workloads are listed only if they are
    pending.
    """
    pods: Sequence[Pod] = ()
    replicas = 0
    if ref.kind == "PodCliqueSet":
        pods = index.pods_of_set.get(ref.key, ())
        replicas = sum(clique.replicas for clique in index.cliques_of_set.get(ref.key, ()))
    elif ref.kind == "PodGroup":
        pods = index.pods_of_group.get(ref.key, ())
    placed = sum(bool(pod.node) for pod in pods)
    total = max(replicas, len(pods))
    state: State = "well" if placed == total > 0 else "waits"
    return WorkloadRow(ref, state, None, placed, total, reason=NOT_EXAMINED)
