"""Show the page What if: the effects that edits of the cluster would have on gangs."""

import asyncio
import shlex
import time
from collections.abc import Callable, Mapping, Sequence

from app.console.page import ConsolePage, Query, Values
from app.explain.answers.whatif.edits import Supposition, UnusableEdit, is_file, parse
from app.explain.answers.whatif.effects import effects
from app.explain.output.whatif_text import effects_headline, effects_text
from app.explain.state.index import Index
from app.explain.state.snapshot import TITLES, Snapshot

SECONDS = 60.0
"""The time limit for one answer, in seconds. The command has no limit."""
MOST_EDITS = 10
"""The maximum number of edits in one request."""
MOST_TEXT = 2000
"""The maximum number of characters of the edits that are read."""
EXAMPLES = ("drain rack=r7", "cordon n1", "add 4 like n12", "label n1 rack=r2")


class TooLongError(Exception):
    """An answer takes more than SECONDS."""


class WhatIf:
    """A function that computes the effects of edits: one answer at a time, in a thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()

    async def __call__(self, facts: Snapshot | None, query: Mapping[str, str]) -> Values:
        """Return the template's values for the edits in a query, or {} if it has no edits.

        If the edits can't be previewed, the values have the `problem` instead of an answer.
        `facts` are the facts of the cluster, or None until all of them have been read.
        """
        text = query.get("if", "").replace("\r\n", "\n")[:MOST_TEXT]
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        if not lines:
            return {}
        shown: Values = {"text": text, "command_line": _command(lines)}
        try:
            edits = parsed(lines)
            if facts is None:
                raise UnusableEdit("the cluster is still being read; try again in a moment")
            async with self._lock:
                answer = await asyncio.to_thread(self._answer, facts, edits)
        except UnusableEdit as problem:
            return {**shown, "headline": "This edit can't be previewed", "problem": str(problem)}
        except TooLongError:
            words = f"No answer within {SECONDS:g} s. Run this command, which has no time limit:"
            return {**shown, "headline": "The preview takes too long", "problem": words}
        return {**shown, **answer}

    def _answer(self, facts: Snapshot, edits: Sequence[Supposition]) -> Values:
        """Return the template's values for the effects of edits.

        Raise TooLongError after SECONDS, and UnusableEdit if an edit cannot be applied.
        """
        end = self._clock() + SECONDS

        def tick() -> None:
            if self._clock() > end:
                raise TooLongError

        # a new index, because the edits change its facts, and the pages still need theirs
        index = Index(facts)
        if index.unread_for_room:
            kinds = [TITLES[kind] for kind in sorted(index.unread_for_room)]
            problem = f"Free capacity is not known. Could not be read: {', '.join(kinds)}."
            return {"headline": "The effects are not known", "problem": problem}
        found = effects(index, edits, tick=tick)
        return {
            "headline": effects_headline(found),
            "answer": effects_text(found, everything=False),
            "unseen": [f"{TITLES[kind]} ({why})" for kind, why in sorted(facts.unseen.items())],
        }


def parsed(lines: Sequence[str]) -> list[Supposition]:
    """Return the edits in `lines`, one per line.

    Raise UnusableEdit if a line is invalid or names a file, or if there are more than MOST_EDITS.
    """
    if len(lines) > MOST_EDITS:
        raise UnusableEdit(f"there are {len(lines)} edits, but at most {MOST_EDITS} are accepted")
    for line in filter(is_file, lines):
        raise UnusableEdit(f"{line!r} is a file, which only the command accepts")
    return list(map(parse, lines))


def _command(lines: Sequence[str]) -> str:
    """Return the command line that previews the edits in `lines`."""
    edits = [word for line in lines for word in ("--if", line)]
    return shlex.join(["grove-admission", "topology", *edits])


def _read(index: Index, query: Query) -> Values:
    """Return the values of the page's template without an answer."""
    return {
        "headline": "What if the cluster changed?",
        "text": "",
        "command_line": "",
        "problem": "",
        "answer": "",
        "unseen": [],
        "examples": EXAMPLES,
        "options": {"if": True},
    }


PAGE = ConsolePage("what-if", "What if", _read, watched=False)
