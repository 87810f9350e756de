"""Show the page Workloads: the list of `explain -A`, and the explanation of one object."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar
from urllib.parse import urlencode

from app.base.groups import by_key
from app.console import stored
from app.console.listing import NOT_EXAMINED, WaitingList, answered
from app.console.page import ConsolePage, Query, Values, ref_in_address, reference
from app.explain.answers.answer import Answer
from app.explain.answers.branch import Branch
from app.explain.answers.pending import WorkloadRow
from app.explain.output.text import folded, without_pods
from app.explain.output.waiting_text import COLUMNS, STATES, cells, first_reason
from app.explain.placing.room import DomainRoom
from app.explain.reasons.reason import listed
from app.explain.state.index import Index
from app.explain.state.snapshot import TITLES, Snapshot
from app.facts.identity import Ref
from app.stores.related_lists import ASKED

T = TypeVar("T")

PATH = "workloads"
MOST_ROWS = 200
"""The maximum number of rows in the list and in the tree.

The filter also finds workloads beyond this limit.
"""
MOST_EQUAL = 20
"""The maximum number of rows that are shown for a group of equal workloads.

The other workloads are only counted, except for the selected one.
"""
FOLDED = 3
"""The minimum number of equal workloads in a group. All its rows except the first are folded."""
MOST_CAUSES = 6
"""The number of most frequent causes that get a link to filter the list.

The selected cause always gets one.
"""
OPTIONS = ("namespace", "who", "cause")
"""The options that filter the list: only rows with the value of the option are shown."""
MOST_ROOMS = 256
"""The maximum number of domains to show. Of more, only the 24 with the most room are shown."""
MOST_NAMED = 32
"""The maximum number of domains to show with their names."""
LONGEST_NAME = 14
"""The maximum length of the domains' names to show. If any name is longer, none is shown."""
_DETAILED = 60
"""The maximum number of rows of a tree with pods. A larger tree is shown without most pods."""
_WORDS = {
    "well": "nothing to report",
    "waits": "pending",
    "warning": "has remarks",
    "problem": "has problems",
    "unknown": "unknown",
}


def page(listing: WaitingList) -> ConsolePage:
    """Return the page Workloads, which shows the rows of `listing`."""
    return ConsolePage(PATH, "Workloads", partial(_read, listing))


def printed(index: Index, text: str, form: Callable[[Answer], T]) -> T | None:
    """Return the explanation of the object `text` (`Kind/namespace/name`) in the format of `form`.

    Return None if there is no such object.
    """
    ref = reference(text, ASKED)
    answer = answered(index, ref) if ref else None
    return None if answer is None else form(answer)


def _read(listing: WaitingList, index: Index, query: Query) -> Values:
    facts = index.facts
    all_rows = listing.rows
    namespaces = sorted({row.ref.namespace for row in all_rows})
    asked = query.get("object", "")
    ref = reference(asked, ASKED)
    narrowed = _Narrowed(all_rows, query)
    if not asked:
        ref = listing.selected(narrowed.rows)
    means = {name: name in narrowed.options for name in OPTIONS}

    return {
        **_of_list(narrowed.rows, ref, facts),
        "total": len(all_rows),
        "complete": listing.complete,
        "namespaces": namespaces,
        "narrowed": narrowed.options,
        "chips": narrowed.chips,
        "q": query.get("q", ""),
        "asked": bool(asked),
        **_of_object(index, ref, asked),
        "sees_sets": facts.unseen.get("sets", ""),
        "absent": "sets" in facts.absent,
        "options": {**means, "object": ref is not None, "q": True},
    }


class Chip(NamedTuple):
    """A link that filters the list, or removes this filter if it is `current`."""

    words: str
    """The text of the link."""
    number: int
    """The number of workloads that the link selects."""
    query: str
    """The query of the link, without the filter if it is `current`."""
    current: bool
    """Is the filter of the link already selected?"""


class _Narrowed:
    """The rows that a query selects, and links that filter the rows by who can act and by cause."""

    def __init__(self, rows: Sequence[WorkloadRow], query: Query) -> None:
        text = query.get("q", "")
        self.options = {"q": text} if text else {}
        """The valid options of the query."""
        found = [
            row for row in rows if text.lower() in f"{row.ref.namespace}/{row.ref.name}".lower()
        ]
        found = self._only("namespace", found, query, {row.ref.namespace for row in rows})
        within = [row for row in found if row.id]
        found = self._only("who", found, query, set().union(*(row.actors for row in rows)))
        self.rows = self._only("cause", found, query, {row.id for row in rows if row.id})
        self.chips = [*self._by_who(within), *self._by_cause(within)]

    def _only(
        self, option: str, rows: list[WorkloadRow], query: Query, values: Collection[str]
    ) -> list[WorkloadRow]:
        """Return the rows with the query's value of `option`, and add this value to `options`.

        Return all rows if that value is not one of `values`.
        """
        value = query.get(option, "")
        if value not in values:
            return rows
        self.options[option] = value
        return [row for row in rows if value in _values(row)[option]]

    def _by_who(self, rows: Sequence[WorkloadRow]) -> Iterator[Chip]:
        mine = sum("you" in row.actors for row in rows)
        if mine or self.options.get("who"):
            yield self._chip("who", "you", "What I can do", mine)

    def _by_cause(self, rows: Sequence[WorkloadRow]) -> Iterator[Chip]:
        """Yield links for the most frequent causes, and for the selected one."""
        who = self.options.get("who", "")
        counts = Counter(row.id for row in rows if not who or who in row.actors)
        most = counts.most_common(MOST_CAUSES)
        chosen = self.options.get("cause", "")
        if chosen and chosen not in dict(most):
            most.append((chosen, counts[chosen]))
        if len(counts) > 1 or chosen:
            yield from (self._chip("cause", cause, cause, number) for cause, number in most)

    def _chip(self, option: str, value: str, words: str, count: int) -> Chip:
        current = self.options.get(option) == value
        others = {name: known for name, known in self.options.items() if name != option}
        query = others if current else {**others, option: value}
        return Chip(words, count, urlencode(sorted(query.items())), current)


def _values(row: WorkloadRow) -> Mapping[str, Collection[str]]:
    """Return, for each of OPTIONS, the values with which the option shows this row."""
    return {"namespace": (row.ref.namespace,), "who": row.actors, "cause": (row.id,)}


def _of_object(index: Index, ref: Ref | None, asked: str) -> Values:
    """Return the template's values for the explanation of `ref`.

    `asked` is the object in the query, or "" if the query names none.
    """
    answer = answered(index, ref) if ref else None
    return {
        "object": asked or (ref_in_address(ref) if ref else ""),
        "answer": answer,
        **(_shown(answer) if answer else {}),
        "missing": str(ref or asked) if asked and answer is None else "",
    }


# The list.


def _of_list(rows: Sequence[WorkloadRow], chosen: Ref | None, facts: Snapshot) -> Values:
    """Return the template's values for the list, in which equal rows are grouped."""
    groups = list(_groups(rows, chosen))
    return {
        "list": [
            ([_listed(row, facts) for row in shown], more, _alike(shown[0]))
            for shown, more in groups
        ],
        "left": len(rows) - sum(len(shown) + more for shown, more in groups),
        "count": len(rows),
        "unexamined": sum(row.reason == NOT_EXAMINED for row in rows),
    }


def _alike(row: WorkloadRow) -> str:
    """Return the words after the number of workloads folded below `row`."""
    if row.reason == NOT_EXAMINED:
        return f"more {NOT_EXAMINED}"
    if not row.reason:
        return f"more {STATES[row.state]}"
    if row.id:
        return "more with the same reason"
    return "more that KAI should place next" if _is_next(row) else "more like it"


def _is_next(row: WorkloadRow) -> bool:
    """Return whether KAI should place a workload in its next cycle."""
    return bool(row.turn and row.turn.next == "next" and not row.id)


def _groups(
    rows: Sequence[WorkloadRow], chosen: Ref | None
) -> Iterator[tuple[Sequence[WorkloadRow], int]]:
    """Yield each group of equal rows at the position of its first row.

    A group is (the rows to show, the number of rows that are only counted). Rows are equal if they
    have the same outcome for the same reason. The row `chosen` is always shown.
    """
    equal = by_key((_outcome(row), row) for row in rows)
    left = MOST_ROWS
    for row in rows:
        same = equal[_outcome(row)]
        if len(same) < FOLDED:
            same = [row]
        if left <= 0 or row is not same[0]:
            continue

        most = min(left, MOST_EQUAL)
        shown = [*same[:most], *(other for other in same[most:] if other.ref == chosen)]
        left -= len(shown)
        yield shown, len(same) - len(shown)


def _outcome(row: WorkloadRow) -> object:
    return row.state, row.turn and row.turn.next, row.who, first_reason(row)


def _listed(row: WorkloadRow, facts: Snapshot) -> Values:
    """Return the template's values for a row of the list.

    `columns` has the texts of the columns that `explain -A` shows, by column.
    """
    values = dict(zip(COLUMNS, (*cells(row, facts), first_reason(row)), strict=True))
    turn = row.turn.words if row.turn else ""
    position = turn.partition(";")[0]
    return {
        "columns": values,
        "glyph": row.state,
        "ref": ref_in_address(row.ref),
        "position": position,
        # the reason says why KAI doesn't place it next
        "turn": position if row.id else turn,
        # `turn` then already says that KAI should place it next, and where
        "is_next": _is_next(row),
    }


# The explanation.


def _shown(answer: Answer) -> Values:
    """Return the template's values that are derived from an answer, such as its tree's rows."""
    rows = list(_rows(answer.tree))
    if len(rows) > _DETAILED:
        rows = list(_rows(without_pods(answer.tree)))

    return {
        "rows": rows[:MOST_ROWS],
        "more": max(0, len(rows) - MOST_ROWS),
        "words": _WORDS,
        "explained": ASKED,
        "kinds": stored.KINDS,
        "rooms": _rooms(answer.room),
        "rooms_named": _are_named(answer.room),
        "unseen": [f"{TITLES[kind]} ({cause})" for kind, cause in answer.unseen.items()],
        "unknown": listed((unknown.id for unknown in answer.unknown), 40),
    }


class TreeRow(NamedTuple):
    """A row of the tree: a branch, or a count of further branches like the one above."""

    level: int
    """The depth in the tree, from 1."""
    branch: Branch
    reasons: Sequence[int] = ()
    """The numbers of the reasons that concern the branch."""
    more: int = 0
    """The number of branches that the row stands for, or 0 if it shows one branch."""


def _rows(branch: Branch, level: int = 1) -> Iterator[TreeRow]:
    """Yield the rows of a branch and its descendants from top to bottom.

    Of consecutive equal siblings, only the first one is shown, followed by a count of the others.
    """
    yield TreeRow(level, branch, _numbers(branch))
    for child, more in folded(branch.children):
        yield from _rows(child, level + 1)
        if more:
            yield TreeRow(level + 1, child, more=more)


def _numbers(branch: Branch) -> Sequence[int]:
    """Return the numbers of a branch's reasons. For a PodGang, include its children's reasons."""
    if branch.ref.kind != "PodGang":
        return branch.reasons
    inside = (number for child in branch.children for number in child.reasons)
    return sorted({*branch.reasons, *inside})


# Room.


def _are_named(rooms: Sequence[DomainRoom]) -> bool:
    """Return whether to show names: at most MOST_NAMED domains, none longer than LONGEST_NAME."""
    if not all(room.domain.path for room in rooms):
        return False  # without levels, the only domain is the cluster
    names = [room.domain.path[-1] for room in rooms]
    return len(names) <= MOST_NAMED and max(map(len, names), default=0) <= LONGEST_NAME


def _rooms(rooms: Sequence[DomainRoom]) -> Mapping[str, Sequence[DomainRoom]]:
    """Return domains with their room, by the path of their parent ("all" for the cluster).

    If there are more than MOST_ROOMS, return only the 24 with the most room, as "most room".
    """
    if len(rooms) > MOST_ROOMS:
        return {"most room": rooms[:24]}

    in_order = sorted(rooms, key=lambda room: room.domain.path)
    return by_key(("/".join(room.domain.path[:-1]) or "all", room) for room in in_order)
