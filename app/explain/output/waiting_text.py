"""Write the list of workloads as lines of text for people, and as maps for JSON."""

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
from app.facts.kubernetes.pod import Pod
from app.objects.shape import Object

COLUMNS = ("namespace", "object", "since", "placed", "state", "next", "who", "first reason")
"""The column titles of the list, in the command and in the console."""

STATES: Mapping[State, str] = {
    "waits": "pending",
    "problem": "problem",
    "unknown": "not known",
    "warning": "placed",
    "well": "placed",
}
_SHORT = {"PodCliqueSet": "pcs", "LeaderWorkerSet": "lws"}
_NARROWEST = 44
"""The minimum width of the last column. If it is narrower, reasons get separate lines."""


def list_text(
    rows: Sequence[WorkloadRow],
    facts: Snapshot,
    namespace: str,
    *,
    others: Sequence[Pod] = (),
    everything: bool,
    width: int,
) -> str:
    """Return the workloads as a table, after lines with outages and the number of pending ones.

    `namespace` is "" for all namespaces. `others` are pending pods in none of the rows. Unless
    `everything`, workloads without findings are only counted. `width` is the width of the terminal
    in columns, or 0 for unlimited.
    """
    shown = [row for row in rows if everything or row.state != "well"]
    lines = [*outages(rows, facts), headline(rows, facts, namespace, others), *_by_cause(rows)]
    if shown:
        lines += _table(shown, facts, width)
    if len(shown) < len(rows):
        more = counted(len(rows) - len(shown), "more workload is", "more workloads are")
        lines.append(f"{more} placed as requested (use --all to list everything)")
    if rows and others:
        pending = counted(others, "pod without GPUs is", "pods without GPUs are")
        lines.append(visible(f"{pending} pending too: {_to_explain(others)}"))
    lines += map(visible, not_seen(dict(sorted(facts.unseen.items())), ()))
    lines += map(visible, how_to_get(facts.unseen, namespace))
    return "\n".join(lines)


_OUTAGES: Mapping[str, str] = {
    "KaiMissing": "KAI is not installed, but needed by {}",
    "KaiSilent": "KAI's scheduler may be down: it has said nothing about {}",
    "NotGrouped": "KAI's pod-grouper may be down: it has created no PodGroup for {}",
    "SchedulerSilent": "A scheduler may be down: it has said nothing about {}",
}
"""The outages that reasons point to, by the id of the reason.

They are shown if the platform team can act on the reason.
"""


def outages(rows: Sequence[WorkloadRow], facts: Snapshot) -> Iterator[str]:
    """Yield the outages that reasons point to, which are printed before everything else."""
    for id, words in _OUTAGES.items():
        held = [row for row in rows if row.id == id and row.who == "platform"]
        times = [row.since for row in held if row.since is not None]
        if held:
            pending = counted(held, "pending workload")
            oldest = f" (oldest: {ago(facts.now - min(times))})" if times and facts.now else ""
            yield visible(words.format(f"{pending}{oldest}"))


def _by_cause(rows: Sequence[WorkloadRow]) -> Iterator[str]:
    """Yield how many workloads are pending for each reason, if several workloads are pending."""
    causes = Counter(row.id or "no reason" for row in rows if row.state == "waits")
    if sum(causes.values()) > 1:
        in_order = sorted(causes.items(), key=lambda cause: (-cause[1], cause[0]))
        yield visible(f"by cause: {listed((f'{count} {id}' for id, count in in_order), 8)}")


def headline(
    rows: Sequence[WorkloadRow], facts: Snapshot, namespace: str, others: Sequence[Pod] = ()
) -> str:
    """Return the answer in one line: how many workloads are pending."""
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    if not rows:
        return visible(_without_rows(facts, namespace, others))

    workloads = counted(rows, "workload")
    counts = Counter(row.state for row in rows)
    of_all = f"of {workloads} {where}"
    if counts["waits"]:
        return visible(counted(counts["waits"], f"{of_all} is pending", f"{of_all} are pending"))
    if counts["unknown"]:
        return visible(f"the state of {counts['unknown']:,} {of_all} is not known")
    none = f"no workload{' with GPUs' if others else ''} is pending {_anywhere(namespace)}"
    if counts["problem"]:
        has = "has" if counts["problem"] == 1 else "have"
        return visible(f"{none}; {counts['problem']:,} of {workloads} {has} problems")
    return visible(f"{none}: {workloads} placed")


def _anywhere(namespace: str) -> str:
    return f"in namespace {namespace}" if namespace else "in any namespace"


def _to_explain(pods: Sequence[Pod]) -> str:
    """Return the command that explains the first of some pods."""
    return f"grove-admission explain pod/{pods[0].name} -n {pods[0].namespace}"


def _without_rows(facts: Snapshot, namespace: str, others: Sequence[Pod]) -> str:
    """Return why there is nothing to list, and what to do."""
    if "sets" in facts.unseen:
        if namespace:
            return f"PodCliqueSets in namespace {namespace} could not be read"
        return (
            "PodCliqueSets in all namespaces could not be read. Use -n NAMESPACE to read only one"
            " namespace"
        )
    if others:
        are = counted(others, "other pod is", "other pods are")
        anywhere = _anywhere(namespace)
        return f"no workload with GPUs is pending {anywhere}, but {are}: {_to_explain(others)}"
    if "sets" in facts.skipped:
        return _without_sets(facts, namespace)
    if namespace:
        return f"there are no workloads in namespace {namespace}. Use -A to list all namespaces"
    return "there are no workloads in any namespace"


def _without_sets(facts: Snapshot, namespace: str) -> str:
    """Return words for files without PodCliqueSets, and a command for another object in them."""
    if "pods" in facts.skipped:
        none = "there are no PodCliqueSets and no pods in these files"
    else:
        none = "there are no PodCliqueSets in these files, and no pod is pending"
        none += f" {_anywhere(namespace)}"
    refs = [*sorted(own.ref for own in facts.workload_statuses), *sorted(p.ref for p in facts.pods)]
    ref = next((ref for ref in refs if namespace in ("", ref.namespace)), None)
    if ref is None:
        return none
    ask = f"grove-admission explain {ref.kind.lower()}/{ref.name} -n {ref.namespace}"
    return f"{none}. To ask about {ref}: {ask} --offline FILES"


def exit_code(rows: Sequence[WorkloadRow], facts: Snapshot, others: Sequence[Pod] = ()) -> int:
    """Return 2 if facts are missing, 1 if anything is pending or has a problem, otherwise 0.

    Facts are missing if PodCliqueSets could not be read, if the files have none and there are no
    rows, if a state is unknown, or if a row is pending without a reason and some kinds were not
    read. `others` are pending pods in none of the rows.
    """
    states = {row.state for row in rows}
    if "unknown" in states or "sets" in facts.unseen:
        return 2
    if not rows and "sets" in facts.skipped:
        return 2
    if _is_unexplained(rows) and (facts.unseen or facts.skipped):
        return 2
    return 1 if others or {"waits", "problem"} & states else 0


def _is_unexplained(rows: Sequence[WorkloadRow]) -> bool:
    return any(row.state == "waits" and not row.id for row in rows)


def _table(rows: Sequence[WorkloadRow], facts: Snapshot, width: int) -> Iterator[str]:
    """Yield the rows, with reasons in the last column, or below if the terminal is narrow."""
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
    """Yield the last cell of each row. A reason that rows share is shown in the first of them."""
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
    more = f" (and {row.more} more)" if row.more else ""
    return f"{row.reason}{more}"


def list_document(
    rows: Sequence[WorkloadRow], facts: Snapshot, others: Sequence[Pod] = ()
) -> Object:
    """Return the list as a map for JSON, in which unknown values are null.

    `others` are the pending pods in none of the rows, which `totals` counts.
    """
    states = Counter(row.state for row in rows)
    reasons = Counter(row.id for row in rows if row.id)
    return {
        "totals": {
            "workloads": len(rows),
            "states": dict(states.most_common()),
            "reasons": dict(reasons.most_common()),
            "otherPendingPods": len(others),
        },
        "workloads": [_map(row, facts) for row in rows],
        "unseen": dict(facts.unseen),
    }


def _map(row: WorkloadRow, facts: Snapshot) -> Object:
    age = None if row.since is None else max(0, int(facts.now - row.since))
    return {
        "object": to_builtins(row.ref),
        "state": row.state,
        "ageSeconds": age,
        "placed": row.placed,
        "total": row.total,
        "reason": {
            "id": row.id,
            "text": row.reason,
            "who": row.who,
            "remedy": row.remedy,
            "commands": list(row.commands),
        },
        "more": row.more,
        "line": to_builtins(row.turn),
    }
