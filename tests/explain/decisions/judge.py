"""What an answer must hold beside a recorded decision of the KAI scheduler.

The rules are those of `tests/testdata/kai-decisions/README.md`.
"""

import re
from collections.abc import Iterator

from app.explain.answers.answer import Answer
from app.explain.reasons.reason import Reason
from tests.explain.decisions.recording import Recording

HARMLESS = {
    "LevelLabelMissing",
    "NotATree",
    "TopologyDiffers",
    "GangUnconstrained",
    "NotAsPreferred",
}
"""Reasons that prevent nothing."""
PASSING = {
    "NoDomainFits",
    "OtherResource",
    "FairShare",
    "BoundToDomain",
    "NodesUnfit",
    "QueueShare",
    "LowerPriority",
    "PreemptionDelay",
    "SizesDiffer",
}
"""Reasons that can end by themselves, which KAI may end by evicting others."""
VIOLATION = {"RequiredViolated", "LevelWithoutTopology", "DomainsJoined"}
"""Reasons that say that a required level is not kept."""
HELD_BY_OTHERS = {"NoDomainFits", "OtherResource", "FairShare"}
"""Reasons that nothing but other pods stand in the way."""
_INSTEAD_OF = re.compile(r'[Rr]equire "(\S+)" instead of')
_LIMITS = {"OverLimit": "QueueLimit", "NonPreemptibleOverQuota": "QueueQuota"}


def disagreements(recording: Recording) -> list[str]:
    """Return in what explain and KAI differ, before and after KAI's decision."""
    try:
        before = recording.answer(recording.items)
        after = recording.answer(recording.items_after)
    except LookupError as problem:
        return [str(problem)]

    problems = list(_always(recording, before, after))
    if not recording.case.get("only_after"):
        problems += [f"before: {problem}" for problem in _before(recording, before)]
        if recording.outcome == "pending":
            problems += [f"before: {problem}" for problem in _contradictions(recording, before)]
            problems += [f"limit: {problem}" for problem in _limits(recording, before, after)]
    problems += [f"after: {problem}" for problem in _after(recording, after)]
    return problems


def lines(answer: Answer) -> str:
    """Return the reasons as lines, as the patterns of a case expect them."""
    return "\n".join(
        f"{reason.id}: {reason.text} [{reason.remedy}] [{reason.who}]" for reason in answer.reasons
    )


def preventing(reasons: tuple[Reason, ...]) -> list[Reason]:
    """Return the reasons that say that something prevents the placement."""
    return [reason for reason in reasons if reason.id not in HARMLESS]


def _before(recording: Recording, answer: Answer) -> Iterator[str]:
    prevents = preventing(answer.reasons)
    if recording.outcome == "pending":
        accepted = set(recording.case.get("accepts", ()))
        if not prevents and not accepted & {reason.id for reason in answer.reasons}:
            yield "pending, and no reason says why"
        return

    allowed = set[str]()
    if recording.kai["evicted"]:
        allowed |= PASSING
    if recording.kai["violated"]:
        allowed |= VIOLATION
    for reason in prevents:
        if reason.id not in allowed:
            yield f"{recording.outcome}, but {reason.id}: {reason.text}"


def _contradictions(recording: Recording, answer: Answer) -> Iterator[str]:
    ids = {reason.id for reason in preventing(answer.reasons)}
    emptied = recording.kai.get("emptied")
    if "NeverFits" in ids and emptied == "placed":
        yield "NeverFits, but it is placed on empty nodes"
    if ids and ids <= HELD_BY_OTHERS and emptied == "pending":
        yield f"nothing but {sorted(ids)}, but it is not placed on empty nodes either"
    if "GangIncomplete" in ids and _was_tried(recording):
        yield "GangIncomplete, but KAI has tried to place it"
    wider = recording.kai.get("wider") or {}
    for level in _INSTEAD_OF.findall(lines(answer)):
        if wider.get(level) == "pending":
            yield f"it is told to ask for {level}, which KAI refuses too"


def _was_tried(recording: Recording) -> bool:
    tried = [event for event in recording.kai["events"] if event["reason"] == "Unschedulable"]
    return bool(recording.kai["conditions"] or tried)


def _limits(recording: Recording, before: Answer, after: Answer) -> Iterator[str]:
    """If KAI speaks of a limit or a quota, that is the reason to name."""
    said = {
        reason["reason"]
        for conditions in recording.kai["conditions"].values()
        for condition in conditions
        for reason in condition.get("reasons", ())
    }
    named = {reason.id for answer in (before, after) for reason in answer.reasons}
    for word in sorted(said & set(_LIMITS)):
        if _LIMITS[word] not in named:
            yield f"KAI says {word}, explain does not say {_LIMITS[word]}"


def _after(recording: Recording, answer: Answer) -> Iterator[str]:
    kept = answer.state == "well" or "placed as requested" in answer.headline
    if recording.outcome == "pending":
        if answer.exit_code == 0:
            yield f"pending, with exit code 0: {answer.headline}"
        return

    if kept and recording.kai["violated"]:
        yield f"a required level is not kept, but {answer.headline}"
    if kept and recording.outcome == "partly":
        yield f"only a part is placed, but {answer.headline}"
    if recording.outcome == "placed" and not recording.kai["violated"]:
        for reason in preventing(answer.reasons):
            yield f"all is placed, but {reason.id}: {reason.text}"
        if answer.placed != answer.total or answer.placed is None:
            yield f"all is placed, but {answer.headline}"


def _always(recording: Recording, before: Answer, after: Answer) -> Iterator[str]:
    for moment, answer in (("before", before), ("after", after)):
        if recording.case.get("only_after") and moment == "before":
            continue
        told = lines(answer)
        for pattern, why in recording.case.get("never_says", ()):
            if re.search(pattern, told, re.IGNORECASE):
                yield f"{moment}: says {pattern!r}, which is false: {why}"
        for pattern in recording.case.get("must_say", ()):
            if moment == "before" and not re.search(pattern, told, re.IGNORECASE):
                yield f"{moment}: does not say {pattern!r}"
