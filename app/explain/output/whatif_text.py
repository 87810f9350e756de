"""Write the effects of edits as lines of text for people, and as maps for JSON."""

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
"""The maximum number of gangs or workloads that are listed in a section without --all."""
_WORDS: dict[How, str] = {
    "fits": "fits again",
    "restarts": "fits again, but the whole gang restarts",
    "shrinks": "keeps its minimum, but not all of these pods fit",
    "breaks": "breaks: not all of its pods fit",
    "starts": "would start",
    "held": "would fit",
    "waits": "would stay pending",
}
MEANING = (
    '"Fits" means that there is a placement of all these gangs together. KAI may choose another'
    " placement, or place a gang later."
)
DOUBT = "Not every arrangement was tried: a gang marked with ? may fit after all."


def effects_text(effects: Effects, *, everything: bool) -> str:
    """Return the effects of edits, with at most MOST entries per section unless `everything`."""
    most = None if everything else MOST
    return "\n".join(map(visible, _lines(effects, most)))


def effects_headline(effects: Effects) -> str:
    """Return the effects in one line: what gets worse, moves, starts to fit or stays pending."""
    lost = [fate for fate in effects.moves if fate.how in ("breaks", "shrinks")]
    worse = len(lost) + len(effects.worse)
    breaks = counted(worse, "workload would be worse", "workloads would be worse")
    parts = [breaks if worse else "Nothing breaks"]
    if effects.moves:
        parts.append(counted(effects.moves, "gang must move", "gangs must move"))
    placed = _placed(effects)
    if placed:
        parts.append(counted(placed, "pending gang would fit", "pending gangs would fit"))
    waiting = [fate for fate in effects.waits if fate.how == "waits"]
    if waiting:
        parts.append(counted(waiting, "gang stays pending", "gangs stay pending"))
    return "; ".join(parts)


def _lines(effects: Effects, most: int | None) -> Iterator[str]:
    yield from (f"if: {line}" for line in effects.lines)
    yield from _section("gang must move", "gangs must move", effects.moves, most)
    if effects.others:
        yield f"{counted(effects.others, 'pod')} without a gang must move too (not examined)"
    yield from _cut_lines(effects)
    yield from _worse_lines(effects, most)
    placed = _placed(effects)
    yield from _section("pending gang would fit", "pending gangs would fit", placed, most)
    made = [fate for fate in effects.waits if fate.how == "waits" and fate.workload in effects.made]
    singular = "gang of an applied PodCliqueSet would stay pending"
    plural = "gangs of applied PodCliqueSets would stay pending"
    yield from _section(singular, plural, made, most)
    yield from _still_waiting(effects)

    yield from (f"! {reason.text}  {reason.id}" for reason in effects.topology)
    if not (effects.moves or placed or made or effects.worse or effects.others):
        yield "no gang must move, none breaks, and no pending gang would fit"
    yield MEANING
    if any(not fate.certain for fate in (*effects.moves, *effects.waits)):
        yield DOUBT


def _still_waiting(effects: Effects) -> Iterator[str]:
    """Yield how many gangs would stay pending, without the gangs of applied PodCliqueSets."""
    unmade = (fate for fate in effects.waits if fate.workload not in effects.made)
    waiting = [fate for fate in unmade if fate.how == "waits"]
    if waiting:
        yield f"{counted(waiting, 'gang')} would stay pending for lack of room{_doubt(waiting)}"


def _placed(effects: Effects) -> list[Fate]:
    """Return the gangs that fit only after the edits, and the gangs of applied sets that fit."""
    return [
        fate
        for fate in effects.waits
        if fate.how != "waits" and (not fate.had_place or fate.workload in effects.made)
    ]


def _cut_lines(effects: Effects) -> Iterator[str]:
    """Yield how many pods without a gang were not examined, and why the answer may be wrong."""
    moving, waiting = effects.cut
    if moving:
        yield (
            f"! {counted(moving, 'more pod')} without a gang must move too, and may not fit: only"
            f" the first {MOST_ALONE}, by priority and age, were examined. The other pods may take"
            " room that is listed here as free"
        )
    if waiting:
        yield (
            f"{counted(waiting, 'more pending pod')} without a gang may or may not fit: only the"
            f" first {MOST_ALONE}, by priority and age, were examined"
        )


def _section(singular: str, plural: str, fates: Sequence[Fate], most: int | None) -> Iterator[str]:
    if not fates:
        return
    yield f"{counted(fates, singular, plural)}:"
    yield from table([_cells(fate) for fate in fates[:most]])
    if most is not None and len(fates) > most:
        yield f"… {len(fates) - most} more (--all lists them)"


def _cells(fate: Fate) -> tuple[str, ...]:
    mark = "!" if fate.how in ("breaks", "shrinks") else " "
    pods = counted(fate.pods, "pod")
    return f"{mark} {called(fate.gang)}", pods, f"{_WORDS[fate.how]}{_after(fate)}"


def _after(fate: Fate) -> str:
    """Return where a gang would be placed, and the first reason that keeps it from starting."""
    where = f" in {listed(fate.where)}" if fate.where else ""
    if not fate.reasons:
        taken = ", because gangs ahead of it take the room"
        taken = taken if fate.how in ("breaks", "waits") else ""
        return f"{where}{taken}{_doubt([fate])}"
    still = ", but stays pending" if fate.how == "held" else ""
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
        yield f"… {len(effects.worse) - most} more (--all lists them)"


def called(ref: Ref) -> str:
    """Return NAMESPACE/NAME, or NAMESPACE/pod/NAME for a pod."""
    return f"{ref.namespace}/{ref.name}" if ref.kind != "Pod" else f"{ref.namespace}/pod/{ref.name}"


def effects_document(effects: Effects) -> Object:
    """Return the effects as a map. The values of `how` and the ids of reasons are stable."""
    return {
        "edits": list(effects.lines),
        "moves": to_builtins(effects.moves),
        "waits": to_builtins(effects.waits),
        "worse": to_builtins(effects.worse),
        "topology": to_builtins(effects.topology),
        "podsNotExamined": effects.others,
        "podsCut": {"moving": effects.cut[0], "waiting": effects.cut[1]},
    }
