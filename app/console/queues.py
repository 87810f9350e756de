"""Show the page Queues: limits and usage of each queue of KAI, and its first pending gangs."""

from collections.abc import Iterator
from functools import partial

from app.base.groups import by_key
from app.base.sentences import upper_first
from app.console.listing import WaitingList
from app.console.page import ConsolePage, Query, Values, ref_in_address
from app.explain.answers.gpu_users import GpuUser
from app.explain.answers.queues import QueueRow, queue_rows
from app.explain.output.queues_text import (
    NUMBERS,
    SHOWN,
    front_words,
    queue_cells,
    queue_problems,
    queues_headline,
    user_cells,
)
from app.explain.output.whatif_text import called
from app.explain.state.index import Index
from app.explain.state.snapshot import TITLES
from app.stores.related_lists import ASKED

PATH = "queues"
MOST_ROWS = 300
"""The maximum number of queues on the page."""
_BAR = 400
"""The width of a bar, in the units of its viewBox."""


def page(listing: WaitingList) -> ConsolePage:
    """Return the page Queues, which takes the positions of gangs from the rows of `listing`."""
    return ConsolePage(PATH, "Queues", partial(_read, listing))


def _read(listing: WaitingList, index: Index, query: Query) -> Values:
    known = {own.ref: own for row in listing.rows for own in row.line}
    rows = queue_rows(index, known)
    pools = by_key((row.pool, row) for row in rows[:MOST_ROWS])
    unseen = index.facts.unseen
    return {
        "headline": upper_first(queues_headline(rows, index.facts)),
        "pools": [(name, list(map(_shown, inside))) for name, inside in pools.items()],
        "more": max(0, len(rows) - MOST_ROWS),
        "unseen": [f"{TITLES[kind]} ({unseen[kind]})" for kind in NUMBERS if kind in unseen],
        "options": {},
    }


def _shown(row: QueueRow) -> Values:
    """Return the template's values for a queue."""
    _, *numbers = queue_cells(row)
    front = [
        {
            "ref": ref_in_address(gang.ref),
            "name": called(gang.ref),
            "place": f"{gang.number} of {gang.count}",
            "words": front_words(gang),
        }
        for gang in row.front
    ]
    return {
        "row": row,
        "numbers": numbers,
        "bar": list(_marks(row)) if row.exists else [],
        "front": front,
        "users": [_user(user) for user in (row.users or ())[:SHOWN]],
        "problems": list(queue_problems(row)),
    }


def _user(user: GpuUser) -> tuple[str, str, str]:
    """Return the name of a workload, its reference in addresses, and its GPUs.

    The reference is "" if `explain` does not know the kind.
    """
    ref = user.workload
    name, gpus, _ = user_cells(user)
    return name, ref_in_address(ref) if ref.kind in ASKED else "", gpus


def _marks(row: QueueRow) -> Iterator[tuple[str, int, int]]:
    """Yield the CSS class, the start and the width of each part of a queue's bar.

    The end of the bar stands for the largest of usage, quota, fair share and limit. Yield nothing
    if the usage is not known, or if all these numbers are 0 or unlimited.
    """
    bounds = {"quota": row.quota, "fair": row.fair, "limit": row.limit}
    known = [amount for amount in (row.used, *bounds.values()) if amount]
    most = max(known, default=0)
    if not most or row.used is None:
        return
    yield "has", 0, round(_BAR * row.used / most)
    for name, amount in bounds.items():
        if amount is not None:
            yield name, min(_BAR - 6, max(0, round(_BAR * amount / most) - 3)), 6
