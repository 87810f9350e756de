"""The effects of edits as lines of text, and as maps that become JSON."""

from collections.abc import Iterator, Sequence

from msgspec import to_builtins

from app.base.safe_text import visible
from app.base.wrapping import table
from app.explain.answers.whatif.effects import Effects, Fate, How
from app.explain.answers.whatif.gangs_to_place import MOST_ALONE
from app.explain.reasons.reason import counted, listed
from app.facts.identity import Ref
from app.objects.shape import Object

MOST = 40
_WORDS: dict[How, str] = {
    "fits": "fits again",
    "restarts": "all of it fits again",
    "shrinks": "has no place for these pods; enough others stay",
    "breaks": "breaks, there is no place",
    "starts": "would start",
    "held": "would have a place",
    "waits": "would wait",
}
MEANING = (
    "A place means that there is a placement of all these together. Which one KAI chooses, and"
    " when, is its own decision."
)
DOUBT = "Not every arrangement was tried: for what has a ? there may be a place that was not found."


def effects_text(effects: Effects, *, everything: bool) -> str:
    """Return what edits would do; at most 40 gangs of each kind unless `everything`."""
    most = None if everything else MOST
    return "\n".join(map(visible, _lines(effects, most)))


def effects_headline(effects: Effects) -> str:
    """Return the answer in one line: what breaks, what gets worse, and what gets a place."""
    lost = [fate for fate in effects.moves if fate.how in ("breaks", "shrinks")]
    worse = len(lost) + len(effects.worse)
    breaks = counted(worse, "workload would be worse", "workloads would be worse")
    parts = [breaks if worse else "Nothing breaks"]
    if effects.moves:
        parts.append(counted(effects.moves, "gang must move", "gangs must move"))
    placed = _placed(effects)
    if placed:
        parts.append(counted(placed, "gang gets a place", "gangs get a place"))
    waiting = [fate for fate in effects.waits if fate.how == "waits" and fate not in placed]
    if waiting:
        parts.append(counted(waiting, "gang still waits", "gangs still wait"))
    return "; ".join(parts)


def _lines(effects: Effects, most: int | None) -> Iterator[str]:
    yield from (f"if: {line}" for line in effects.lines)
    yield from _section("gang must move", "gangs must move", effects.moves, most)
    if effects.others:
        yield f"{counted(effects.others, 'pod')} without a gang must move too: not examined"
    yield from _cut_lines(effects)
    yield from _worse_lines(effects, most)
    placed = _placed(effects)
    yield from _section("gang gets a place", "gangs get a place", placed, most)
    yield from _still_waiting(effects, placed)

    yield from (f"! {reason.text}  {reason.id}" for reason in effects.topology)
    if not (effects.moves or placed or effects.worse or effects.others):
        yield "nothing must move, nothing breaks, and nothing that waits gets a place"
    yield MEANING
    if any(not fate.certain for fate in (*effects.moves, *effects.waits)):
        yield DOUBT


def _still_waiting(effects: Effects, placed: Sequence[Fate]) -> Iterator[str]:
    waiting = [fate for fate in effects.waits if fate.how == "waits" and fate not in placed]
    if waiting:
        yield f"{counted(waiting, 'gang')} would still wait for room{_doubt(waiting)}"


def _placed(effects: Effects) -> list[Fate]:
    """Return the gangs that get a place that they did not have, then others that are made."""
    starting = [fate for fate in effects.waits if fate.how != "waits" and not fate.had_place]
    made = [fate for fate in effects.waits if fate.workload in effects.made]
    return [*starting, *(fate for fate in made if fate not in starting)]


def _cut_lines(effects: Effects) -> Iterator[str]:
    """Yield what was left out, and what that means."""
    moving, waiting = effects.cut
    if moving:
        yield (
            f"! {counted(moving, 'more pod')} without a gang must move too, and may have no place:"
            f" only the first {MOST_ALONE}, by priority and age, were looked at. So room that is"
            " said to be there may be theirs"
        )
    if waiting:
        yield (
            f"{counted(waiting, 'more pod')} without a gang would wait or get a place: only the"
            f" first {MOST_ALONE}, by priority and age, were looked at"
        )


def _section(singular: str, plural: str, fates: Sequence[Fate], most: int | None) -> Iterator[str]:
    if not fates:
        return
    yield f"{counted(fates, singular, plural)}:"
    yield from table([_cells(fate) for fate in fates[:most]])
    if most is not None and len(fates) > most:
        yield f"… {len(fates) - most} more: --all"


def _cells(fate: Fate) -> tuple[str, ...]:
    mark = "!" if fate.how in ("breaks", "shrinks") else " "
    pods = counted(fate.pods, "pod")
    return f"{mark} {called(fate.gang)}", pods, f"{_WORDS[fate.how]}{_after(fate)}"


def _after(fate: Fate) -> str:
    """Where a gang would go, or the first reason why it would not."""
    where = f" in {listed(fate.where)}" if fate.where else ""
    if not fate.reasons:
        taken = ": those before it take the room" if fate.how in ("breaks", "waits") else ""
        return f"{where}{taken}{_doubt([fate])}"
    still = ", and still waits" if fate.how == "held" else ""
    first = fate.reasons[0]
    return f"{where}{still}: {first.text} ({first.id}){_doubt([fate])}"


def _doubt(fates: Sequence[Fate]) -> str:
    return "" if all(fate.certain for fate in fates) else " ?"


def _worse_lines(effects: Effects, most: int | None) -> Iterator[str]:
    if not effects.worse:
        return
    yield f"{counted(effects.worse, 'workload')} would be worse:"
    rows = [
        (f"! {called(worse.workload)}", f"{reason.text} ({reason.id})")
        for worse in effects.worse[:most]
        for reason in worse.reasons
    ]
    yield from table(rows)
    if most is not None and len(effects.worse) > most:
        yield f"… {len(effects.worse) - most} more: --all"


def called(ref: Ref) -> str:
    """Return the short name of a workload, which begins with its namespace."""
    return f"{ref.namespace}/{ref.name}" if ref.kind != "Pod" else f"{ref.namespace}/pod/{ref.name}"


def effects_document(effects: Effects) -> Object:
    """Return the effects as a map: `how` and ids of reasons are stable."""
    return {
        "edits": list(effects.lines),
        "moves": to_builtins(effects.moves),
        "waits": to_builtins(effects.waits),
        "worse": to_builtins(effects.worse),
        "topology": to_builtins(effects.topology),
        "podsNotExamined": effects.others,
        "podsCut": {"moving": effects.cut[0], "waiting": effects.cut[1]},
    }
