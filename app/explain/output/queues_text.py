"""Write KAI's queues as lines of text for people, and as maps for JSON."""

import itertools
from collections.abc import Iterator, Sequence

from msgspec import to_builtins

from app.base.safe_text import visible
from app.base.wrapping import narrowed, table
from app.explain.answers.gpu_users import GpuUser
from app.explain.answers.positions import NEXT, settings_of
from app.explain.answers.queues import InFront, QueueRow, queues_are_known
from app.explain.output.json import gpus_number, user_document
from app.explain.output.rights import how_to_get
from app.explain.output.text import unseen_words
from app.explain.output.whatif_text import called
from app.explain.reasons.reason import amount, counted, listed, plain
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.kubernetes.gpus import GPU
from app.facts.labels import KAI_QUEUE
from app.facts.rows import ROOM
from app.objects.shape import Object

COLUMNS = ("queue", "quota", "limit", "used", "fixed", "fair", "pending")
MEANING = (
    "All amounts are GPUs. used: by pods in the queue and in queues below it; fixed: used by pods"
    " that are not preemptible; fair: the current fair share of the queue, at most what its pods"
    " request; pending: gangs with pods that have no node."
)
SHOWN = 3
"""The maximum number of workloads that are shown as users of a queue's GPUs."""
NUMBERS = (
    "queues",
    "nodes",
    "pods",
    "pod_groups",
    ROOM,
    "priorities",
    "claims",
    "claim_templates",
)
"""The kinds of facts from which the numbers of a row are computed."""


def queues_headline(rows: Sequence[QueueRow], facts: Snapshot) -> str:
    """Return one line: the numbers of queues and pending gangs, and the names of unusable queues.

    If there are no rows, the line says why.
    """
    if "queues" in facts.unseen:
        return f"could not read queues: {facts.unseen['queues']}"
    if "queues" in facts.skipped:
        return "there are no Queues in these files"
    if not rows:
        return "KAI has no queues" if "queues" not in facts.absent else "KAI is not installed"

    there = [row for row in rows if row.exists]
    front = f"{counted(there, 'queue')}; {_waiting(rows)}"
    unusable = [row.name for row in rows if row.unusable]
    return f"{front}; KAI places nothing in {listed(unusable)}" if unusable else front


def _waiting(rows: Sequence[QueueRow]) -> str:
    top = [row.waiting for row in rows if row.depth == 1]
    if None in top:
        return "pending gangs are not known"
    return counted(sum(filter(None, top)), "pending gang")


def queues_text(rows: Sequence[QueueRow], facts: Snapshot, width: int = 0) -> str:
    """Return a table of the queues, their first gangs in KAI's order, GPU users, and problems."""
    lines = [queues_headline(rows, facts)]
    if rows:
        lines += _table(rows, width)
        lines += _front(rows, width)
        lines += _may_differ(rows, facts)
        lines += _users(rows, width)
        lines += _problems(rows)
        lines.append(MEANING)
    lines += _not_known(rows, facts)
    return "\n".join(map(visible, lines))


def _table(rows: Sequence[QueueRow], width: int) -> Iterator[str]:
    many = len({row.pool for row in rows}) > 1
    texts: list[Sequence[str]] = [[title.upper() for title in COLUMNS]]
    pool = None
    for row in rows:
        if many and row.pool != pool:
            pool = row.pool
            name = f"pool {pool}" if pool else "no pool"
            texts.append([f"({name})", *[""] * (len(COLUMNS) - 1)])
        texts.append(queue_cells(row))
    return table(list(itertools.chain.from_iterable(narrowed(texts, width))))


def queue_cells(row: QueueRow) -> tuple[str, ...]:
    """Return the cells of a queue, with `?` for unknown values.

    The amounts of a queue that does not exist are `-`.
    """
    name = "  " * (row.depth - 1) + row.name
    waiting = "?" if row.waiting is None else f"{row.waiting:,}"
    if not row.exists:
        return name, *["-"] * 5, waiting
    bounds = ("unlimited" if bound is None else plain(bound) for bound in (row.quota, row.limit))
    amounts = ("?" if amount is None else plain(amount) for amount in row.amounts)
    return name, *bounds, *amounts, waiting


def front_words(gang: InFront) -> str:
    """Return the prediction for a gang, such as `KAI should place it next in r3`."""
    if gang.next is None:
        return "not examined yet"
    where = f" in {listed(gang.where)}" if gang.where else ""
    return f"{NEXT[gang.next]}{where}"


def _front(rows: Sequence[QueueRow], width: int) -> Iterator[str]:
    texts = [
        (row.name, f"{gang.number} of {gang.count}", called(gang.ref), front_words(gang))
        for row in rows
        for gang in row.front
    ]
    if texts:
        yield "first in each queue:"
        yield from table(list(itertools.chain.from_iterable(narrowed(texts, width))))


def _may_differ(rows: Sequence[QueueRow], facts: Snapshot) -> Iterator[str]:
    for pool in dict.fromkeys(row.pool for row in rows if row.front):
        for settings in settings_of(facts.shards, pool):
            yield f"  KAI may order these gangs differently: {settings}"


def _users(rows: Sequence[QueueRow], width: int) -> Iterator[str]:
    texts = [(row.name, *user_cells(user)) for row in rows for user in (row.users or ())[:SHOWN]]
    if texts:
        yield "most GPUs in use:"
        yield from table(list(itertools.chain.from_iterable(narrowed(texts, width))))


def user_cells(user: GpuUser) -> tuple[str, str, str]:
    """Return the cells of a workload that uses GPUs: its name, its GPUs, its pods and nodes."""
    places = f"{counted(user.pods, 'pod')} on {counted(user.nodes, 'node')}"
    return called(user.workload), amount(GPU, user.gpus), places


def _problems(rows: Sequence[QueueRow]) -> Iterator[str]:
    yield from (f"! queue {row.name} {problem}" for row in rows for problem in queue_problems(row))


def queue_problems(row: QueueRow) -> Iterator[str]:
    """Yield the problems of a queue, each with its remedy."""
    if not row.exists and row.unusable == "does not exist":
        yield (
            "does not exist, but PodGroups name it. Create the queue, or set the label"
            f" {KAI_QUEUE} of their workloads and spec.queue of the PodGroups to another queue"
        )
    elif row.unusable:
        yield row.unusable
    if row.unset:
        bounds = " and no ".join(row.unset)
        yield f"has no {bounds}, which KAI reads as 0. For unlimited, set -1 in spec.resources"


def _not_known(rows: Sequence[QueueRow], facts: Snapshot) -> Iterator[str]:
    unread = _unread(rows, facts)
    if unread:
        yield f"could not read: {unseen_words(unread)}; values that need them are unknown (?)"
    yield from how_to_get(unread)


def _unread(rows: Sequence[QueueRow], facts: Snapshot) -> dict[str, str]:
    """Return the unread kinds that the unknown numbers of `rows` may need, each with the cause.

    Return {} if there are rows, and all numbers of existing queues are known.
    """
    numbers = [(*row.amounts, row.waiting, row.in_line) for row in rows if row.exists]
    if rows and not any(None in of_row for of_row in numbers):
        return {}
    unread = dict.fromkeys(sorted(facts.skipped.intersection(NUMBERS)), "missing from the files")
    return unread | {kind: cause for kind, cause in facts.unseen.items() if kind in NUMBERS}


def queues_exit_code(rows: Sequence[QueueRow], index: Index) -> int:
    """Return 2 if not everything is known, else 1 if a queue has a problem, else 0."""
    there = [row for row in rows if row.exists]
    if not queues_are_known(index) or any(
        None in (*row.amounts, row.waiting, row.in_line) for row in there
    ):
        return 2
    return 1 if any(True for row in rows for _ in queue_problems(row)) else 0


def queues_document(rows: Sequence[QueueRow], facts: Snapshot) -> Object:
    """Return the queues as a map.

    GPUs are whole numbers or fractions. An unlimited quota or limit of an existing queue is null.
    Any other null value is not known or was not examined.
    """
    return {
        "headline": queues_headline(rows, facts),
        "queues": [_document(row) for row in rows],
        "unseen": {**facts.unseen, **_unread(rows, facts)},
    }


def _document(row: QueueRow) -> Object:
    gpus = ("quota", "limit", "used", "fixed", "fair")
    problems = [f"queue {row.name} {problem}" for problem in queue_problems(row)]
    users = None if row.users is None else list(map(user_document, row.users))
    return {
        **to_builtins(row),
        "users": users,
        **{name: gpus_number(getattr(row, name)) for name in gpus},
        "problems": problems,
    }
