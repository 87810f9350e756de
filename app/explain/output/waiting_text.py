"""The list of what waits for people, as lines of text, and for programs, as maps."""

import itertools
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import to_builtins

from app.base.groups import by_key
from app.base.safe_text import visible
from app.base.wrapping import narrowed, table
from app.explain.answers.branch import State
from app.explain.answers.pending import WorkloadRow
from app.explain.output.rights import how_to_get
from app.explain.output.text import not_seen
from app.explain.reasons.reason import ago, counted, listed, short
from app.explain.state.snapshot import Snapshot
from app.objects.shape import Object

COLUMNS = ("namespace", "object", "since", "placed", "state", "next", "who", "first reason")
"""The titles of the columns, in the list of the command and in that of the console."""

STATES: Mapping[State, str] = {
    "waits": "waits",
    "problem": "problem",
    "unknown": "not known",
    "warning": "placed",
    "well": "placed",
}
_SHORT = {"PodCliqueSet": "pcs", "LeaderWorkerSet": "lws"}
_NARROWEST = 44
"""If fewer columns are left for the reason, it has lines of its own."""


def list_text(
    rows: Sequence[WorkloadRow], facts: Snapshot, namespace: str, *, everything: bool, width: int
) -> str:
    """Return what waits as a table, after one line that says how much it is.

    `namespace` is "" for all. Unless `everything`, workloads that are in order are only counted.
    `width` are the columns of the terminal, 0 for as many as are needed.
    """
    shown = [row for row in rows if everything or row.state != "well"]
    lines = [*outages(rows, facts), headline(rows, facts, namespace), *_by_cause(rows)]
    if shown:
        lines += _table(shown, facts, width)
    if len(shown) < len(rows):
        more = counted(len(rows) - len(shown), "more workload is", "more workloads are")
        lines.append(f"{more} placed as requested (--all lists all)")
    lines += map(visible, not_seen(dict(sorted(facts.unseen.items())), ()))
    lines += map(visible, how_to_get(facts.unseen, namespace))
    return "\n".join(lines)


_OUTAGES: Mapping[str, str] = {
    "KaiMissing": "KAI is not installed: {} for it",
    "KaiSilent": "KAI's scheduler may not run: {}, and it is silent",
    "NotGrouped": "KAI's pod-grouper may not run: {} without a PodGroup",
    "SchedulerSilent": "A scheduler may not run: {}, and it is silent",
}
"""What reasons for which the platform can act mean for the whole cluster."""


def outages(rows: Sequence[WorkloadRow], facts: Snapshot) -> Iterator[str]:
    """Yield what keeps all workloads of a cluster waiting: it comes before everything else."""
    for id, words in _OUTAGES.items():
        held = [row for row in rows if row.id == id and row.who == "platform"]
        times = [row.since for row in held if row.since is not None]
        if held:
            wait = counted(held, "workload waits", "workloads wait")
            since = f" for up to {ago(facts.now - min(times))}" if times and facts.now else ""
            yield visible(words.format(f"{wait}{since}"))


def _by_cause(rows: Sequence[WorkloadRow]) -> Iterator[str]:
    """Yield how many workloads wait for each reason, the most frequent first."""
    causes = Counter(row.id or "no reason" for row in rows if row.state == "waits")
    if sum(causes.values()) > 1:
        in_order = sorted(causes.items(), key=lambda cause: (-cause[1], cause[0]))
        yield visible(f"by cause: {listed((f'{count} {id}' for id, count in in_order), 8)}")


def headline(rows: Sequence[WorkloadRow], facts: Snapshot, namespace: str) -> str:
    """Return the answer in one line: how many workloads wait."""
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    if not rows:
        return visible(_without_rows(facts, namespace, where))

    workloads = counted(rows, "workload")
    counts = Counter(row.state for row in rows)
    of_all = f"of {workloads} {where}"
    if counts["waits"]:
        return visible(counted(counts["waits"], f"{of_all} waits", f"{of_all} wait"))
    if counts["unknown"]:
        wait = counted(counts["unknown"], f"{of_all} waits", f"{of_all} wait")
        return visible(f"whether {wait} is not known")
    if counts["problem"]:
        return visible(f"nothing waits {where}; {counts['problem']:,} of {workloads} not in order")
    return visible(f"nothing waits {where}: {workloads} placed")


def _without_rows(facts: Snapshot, namespace: str, where: str) -> str:
    """Return why there is nothing to list, and what helps."""
    if "sets" in facts.unseen:
        helps = "" if namespace else "; -n NAMESPACE lists one that you may view"
        return f"what waits {where} is not known: PodCliqueSets can't be read{helps}"
    if "sets" in facts.skipped:
        return f"what waits {where} is not known: there is no PodCliqueSet in these files"
    others = [
        pod
        for pod in facts.pods
        if pod.is_alive and not pod.node and namespace in ("", pod.namespace)
    ]
    if others:
        first = min(others, key=lambda pod: pod.key)
        are = counted(others, "other pod is", "other pods are")
        return (
            f"no workload with GPUs waits {where}; {are} pending:"
            f" grove-admission explain pod/{first.name} -n {first.namespace}"
        )
    return f"there is no workload {where}" + ("; -A lists all namespaces" if namespace else "")


def exit_code(rows: Sequence[WorkloadRow], facts: Snapshot) -> int:
    """Return 0 if all is placed, 1 if something waits or is not in order, 2 if not all is known."""
    states = {row.state for row in rows}
    if "unknown" in states or "sets" in facts.unseen:
        return 2
    if not rows and "sets" in facts.skipped:
        return 2
    if _is_unexplained(rows) and (facts.unseen or facts.skipped):
        return 2
    return 1 if {"waits", "problem"} & states else 0


def _is_unexplained(rows: Sequence[WorkloadRow]) -> bool:
    return any(row.state == "waits" and not row.id for row in rows)


def _table(rows: Sequence[WorkloadRow], facts: Snapshot, width: int) -> Iterator[str]:
    """Yield the rows with their reasons beside them, or below them if there is too little space."""
    texts = [[title.upper() for title in COLUMNS]]
    reasons = map(visible, _reasons_once(rows))
    texts += [
        [*map(visible, cells(row, facts)), reason]
        for row, reason in zip(rows, reasons, strict=True)
    ]

    without = [text[:-1] for text in texts]
    left = max(map(len, table(without))) + 2
    if not width or width - left >= _NARROWEST:
        yield from table(list(itertools.chain.from_iterable(narrowed(texts, width))))
        return

    blocks = list(narrowed(without, width))
    lines = table(list(itertools.chain.from_iterable(blocks)))
    for (*_, reason), block in zip(texts, blocks, strict=True):
        yield from itertools.islice(lines, len(block))
        if block is not blocks[0]:
            yield from textwrap.wrap(reason, width, initial_indent="  ", subsequent_indent="  ")


def _reasons_once(rows: Sequence[WorkloadRow]) -> Iterator[str]:
    """Yield the last cell of each row: a reason that several have is only with the first."""
    same = by_key((first_reason(row), row) for row in rows)
    for row in rows:
        first, *others = same[first_reason(row)]
        if row is not first and row.reason:
            space, name = first.ref.key
            named = name if space == row.ref.namespace else f"{space}/{name}"
            yield f"same reason as {named}"
        else:
            like_it = f" (the same for {counted(others, 'other workload')})"
            yield first_reason(row) + (like_it if others and row.reason else "")


def cells(row: WorkloadRow, facts: Snapshot) -> tuple[str, ...]:
    """Return the cells of a row, without the last column, its reason."""
    name = f"{_SHORT.get(row.ref.kind, row.ref.kind.lower())}/{row.ref.name}"
    known = row.since is not None and facts.now
    since = short(facts.now - (row.since or 0.0)) if known else "?"
    placed = "?" if row.total is None else f"{row.placed}/{row.total}"
    turn = row.turn.next if row.turn else "-"
    return row.ref.namespace, name, since, placed, STATES[row.state], turn, row.who or "-"


def first_reason(row: WorkloadRow) -> str:
    """Return the last cell of a row: the first reason, and how many more there are."""
    more = f" (+{row.more})" if row.more else ""
    return f"{row.reason}{more}"


def list_document(rows: Sequence[WorkloadRow], facts: Snapshot) -> Object:
    """Return the list for programs. `waitingSeconds`, `placed` and `total` may be null."""
    return {"workloads": [_map(row, facts) for row in rows], "unseen": dict(facts.unseen)}


def _map(row: WorkloadRow, facts: Snapshot) -> Object:
    age = None if row.since is None else max(0, int(facts.now - row.since))
    return {
        "object": to_builtins(row.ref),
        "state": row.state,
        "ageSeconds": age,
        "placed": row.placed,
        "total": row.total,
        "reason": {"id": row.id, "text": row.reason, "who": row.who},
        "more": row.more,
        "line": to_builtins(row.turn),
    }
