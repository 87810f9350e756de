"""Write the answer about one object for people, as lines of text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from msgspec.structs import replace

from app.base.groups import by_key
from app.base.safe_text import visible
from app.base.sentences import upper_first
from app.base.wrapping import fitted, narrowed, table
from app.explain.answers.answer import Answer
from app.explain.answers.branch import Branch, State
from app.explain.output.rights import how_to_get
from app.explain.reasons.reason import Reason, listed
from app.explain.state.snapshot import TITLES
from app.facts.rows import CHANNELS, ROOM
from app.facts.workload_of_pod import WORKLOAD_KINDS

MOST_LINES = 40
"""The number of lines of an answer above which its tree is cut."""
MOST_WORDS = 5
"""The maximum number of KAI's messages, and of gangs with a position, that are shown."""
_IDS_FROM = 88
"""The first column of the ids of reasons, unless the text before an id is longer."""
_COLOURS: dict[State, int] = {"well": 32, "waits": 33, "warning": 33, "problem": 31, "unknown": 90}
_PRODUCTS = {
    "sets": "Grove",
    "gangs": "Grove",
    "pod_groups": "KAI",
    "queues": "KAI",
    "kai_topologies": "KAI",
}


def text(answer: Answer, *, everything: bool = False, colour: bool = False, width: int = 0) -> str:
    """Return the whole answer, for a terminal of `width` columns if that is not 0.

    Unless `everything`, equal siblings are folded, most pods are omitted, and the tree is cut if
    there are more than MOST_LINES lines. With `colour`, states have terminal colours.
    """
    head = _fitted([visible(answer.headline)], width)
    if colour:
        head = [_coloured(line, answer.state) for line in head]
    said = map(visible, (*_in_line(answer), *_said(answer)))
    head += _fitted([*reason_lines(answer.reasons), *said], width)
    foot = _fitted(map(visible, _foot(answer)), width)
    tree = tree_lines(answer.tree, everything=everything, colour=colour, width=width)
    room = MOST_LINES - len(head) - len(foot)
    if not everything and len(tree) > room:
        kept = max(1, room - 1)
        tree = [*tree[:kept], f"… {len(tree) - kept} more lines (--all shows them)"]
    return "\n".join([*head, *tree, *foot])


def _fitted(lines: Iterable[str], width: int) -> list[str]:
    return fitted("\n".join(lines), width).splitlines()


def reason_lines(reasons: Sequence[Reason]) -> Iterator[str]:
    """Return numbered reasons with their remedies and commands, as lines that are safe to show."""
    return map(visible, _reason_lines(reasons))


def _reason_lines(reasons: Sequence[Reason]) -> Iterator[str]:
    for number, reason in enumerate(reasons, 1):
        objects = len(reason.objects)
        count = f" ({objects} objects)" if objects > 1 and not reason.text[:1].isdigit() else ""
        end = "" if reason.text.endswith("?") else "."
        line = f"  {number}  {reason.text}{end}{count}"
        yield f"{line:{_IDS_FROM}}  {reason.id}"
        if reason.follows:
            yield "     This follows from the reasons above."
            continue
        yield f"     fix: {reason.remedy}{_who(reason)}"
        yield from (f"          {command}" for command in reason.commands)


def _who(reason: Reason) -> str:
    """Return ` (platform team)` if that team must act and the remedy does not name it, or ""."""
    is_said = "platform team" in reason.remedy
    return " (platform team)" if reason.who == "platform" and not is_said else ""


def _in_line(answer: Answer) -> Iterator[str]:
    silent = {ref for cause in answer.causes if cause.id == "KaiSilent" for ref in cause.objects}
    for own in answer.line[:MOST_WORDS]:
        name = f"{own.ref.name}: " if len(answer.line) > 1 else ""
        words = f"{name}{own.words_while_silent if own.ref in silent else own.words}"
        yield f"  {words if name else upper_first(words)}"


def _said(answer: Answer) -> Iterator[str]:
    """Yield the outlook of a pending object that no reason explains, and KAI's messages."""
    if answer.outlook:
        yield f"  {answer.outlook}"
    if answer.said:
        old = answer.said_earlier
        yield "  KAI said earlier, about an older state:" if old else "  KAI says:"
        yield from (f"     {words}" for words in answer.said[:MOST_WORDS])
        if len(answer.said) > MOST_WORDS:
            yield f"     … {len(answer.said) - MOST_WORDS} more (--output json shows them)"


def _foot(answer: Answer) -> Iterator[str]:
    products = dict.fromkeys(_PRODUCTS[kind] for kind in answer.absent if kind in _PRODUCTS)
    if products:
        yield f"{listed(products)} {'is' if len(products) == 1 else 'are'} not installed"
    yield from not_seen(answer.unseen, [unknown.id for unknown in answer.unknown])
    yield from how_to_get(answer.unseen, answer.ref.namespace)
    if answer.skipped:
        yield f"not checked: {listed(answer.skipped, 40)}"
    kinds = [TITLES[kind] for kind in answer.lacking if kind in TITLES and kind not in _PARTS]
    if answer.lacks_room and _is_without_room(set(answer.lacking)):
        ref = answer.ref
        command = f"grove-admission explain {ref.kind.lower()}/{ref.name} -n {ref.namespace}"
        yield f"room was not examined, because that needs all nodes and pods. Run: {command}"
    elif kinds:
        yield (
            f"missing from the files: {listed(kinds, 20)}, which some reasons need. Add these"
            " objects, or use a file written with --record"
        )


_PARTS = {ROOM, CHANNELS}
"""Needs of reasons that stand for the pods or the claims of all namespaces."""


def _is_without_room(lacking: set[str]) -> bool:
    """Return whether `lacking` has only facts about room, as with --no-room."""
    of_room = {*_PARTS, "nodes"}
    return not lacking or (not lacking.isdisjoint(of_room) and lacking <= {*of_room, "slices"})


def not_seen(unseen: Mapping[str, str], unknown: Sequence[str]) -> Iterator[str]:
    """Yield lines about facts that could not be read, and reasons that can't be ruled out."""
    if unseen:
        of_facts = "Reasons that need these facts were not checked"
        yield f"could not read: {unseen_words(unseen)}. {of_facts}"
    if unknown:
        yield f"not ruled out: {listed(unknown, 40)}"


def unseen_words(unseen: Mapping[str, str]) -> str:
    """Return the unread kinds of facts by cause: `nodes and queues (no permission to list)`."""
    causes = by_key((cause, TITLES[kind]) for kind, cause in unseen.items())
    return "; ".join(f"{listed(kinds, 20)} ({cause})" for cause, kinds in causes.items())


def tree_lines(root: Branch, *, everything: bool, colour: bool, width: int) -> list[str]:
    """Return the tree as lines of a table, whose first column draws the branches."""
    drawn = list(_rows(root if everything else without_pods(root), "", "", everything))
    parts = narrowed([cells for _, cells in drawn], width)
    rows = [
        (*cells, _coloured(last, state) if colour else last)
        for (state, _), lines in zip(drawn, parts, strict=True)
        for *cells, last in lines
    ]
    return list(table(rows))


def _coloured(words: str, state: State) -> str:
    return f"\x1b[{_COLOURS[state]}m{words}\x1b[0m" if words else words


def _rows(
    branch: Branch, first: str, rest: str, everything: bool, parent: str = ""
) -> Iterator[tuple[State, tuple[str, ...]]]:
    yield branch.state, tuple(map(visible, _cells(branch, first, parent)))
    shown = (
        list(folded(branch.children))
        if not everything
        else [(child, 0) for child in branch.children]
    )
    for position, (child, more) in enumerate(shown):
        last = position == len(shown) - 1
        own, below = ("└─ ", "   ") if last and not more else ("├─ ", "│  ")
        yield from _rows(child, rest + own, rest + below, everything, branch.ref.name)
        if more:
            own = "└─ " if last else "├─ "
            yield child.state, (f"{rest}{own}{more} more like it", "", "", "", "")


def _cells(branch: Branch, drawn: str, parent: str) -> tuple[str, ...]:
    kind, name = branch.label(parent)
    numbers = _reason_words(branch.reasons)
    says_why = bool(numbers) and branch.state == "waits"
    words = "" if says_why else branch.words
    mark = " *" if branch.marked and parent else ""

    return (
        f"{drawn}{kind} {name}{mark}",
        branch.asked or "-",
        branch.where or "-",
        _pods_cell(branch),
        ", ".join(filter(None, (words, numbers))) or branch.words,
    )


def _reason_words(numbers: Sequence[int]) -> str:
    """Return a text such as `reasons 1 and 3`, or "" if there are no numbers."""
    if not numbers:
        return ""
    noun = "reason" if len(numbers) == 1 else "reasons"
    return f"{noun} {listed(map(str, numbers), 8)}"


def _pods_cell(branch: Branch) -> str:
    if branch.placed is None and branch.state != "unknown":
        return ""
    if branch.placed is None and branch.total is None:
        return "?"
    return f"{branch.placed}/{branch.total}"


_PLACES_ONE_BY_ONE = {resource.kind for resource in WORKLOAD_KINDS}
"""The kinds whose pods may be placed one by one, without a gang."""


def without_pods(branch: Branch) -> Branch:
    """Return a tree without most pods. The reasons of a removed pod move to its parent.

    The requested pod is kept, and so are the pods directly below a workload such as a
    LeaderWorkerSet, because they may be placed one by one.
    """
    kept = []
    numbers = set(branch.reasons)
    is_gang = branch.ref.kind not in _PLACES_ONE_BY_ONE
    for child in branch.children:
        if is_gang and child.ref.kind == "Pod" and not child.marked:
            numbers |= set(child.reasons)
        else:
            kept.append(without_pods(child))
    return replace(branch, children=tuple(kept), reasons=tuple(sorted(numbers)))


def folded(children: Sequence[Branch]) -> Iterator[tuple[Branch, int]]:
    """Yield each child that looks different from the previous one, and how many like it follow."""
    for _, same in groupby(children, _look):
        child, *more = same
        yield child, len(more)


def _look(branch: Branch) -> tuple[object, ...]:
    """Return a key that is equal for branches that differ only in their names."""
    below = tuple(_look(child) for child in branch.children)
    seen = (
        branch.asked,
        branch.where,
        branch.placed,
        branch.total,
        branch.words,
        branch.reasons,
        branch.marked,
    )
    return (branch.ref.kind, *seen, below)
