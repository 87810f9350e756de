"""What explain says of each gang that waits, beside what KAI did with it in the next cycle."""

from collections.abc import Iterable, Iterator, Sequence

from app.base.value import Value
from app.explain.answers.answer import Answer, explain
from app.explain.state.index import Index
from app.facts.identity import Key, Ref
from tests.explain.decisions.judge import HARMLESS, PASSING
from tests.explain.lines.recording import LineRecording, Moment

TRUE_BESIDE = HARMLESS | {"GateForeign"}
"""Reasons that hold although pods of the gang are placed: others of its pods have gates."""
LIMITS = {"QueueLimit", "QueueQuota"}
OVER = {"OverLimit", "NonPreemptibleOverQuota", "PreemptionDelayNotElapsed"}
"""KAI looks at limits first: if it says something else, none is exceeded."""


class GangVerdict(Value):
    """What was found of one gang in one cycle: `problem` is "" if explain agrees.

    `false` says which reason is false, `unnamed` is true if it waits and there is none.
    """

    name: str
    cycle: int
    gang: str
    tags: tuple[str, ...]
    placed: bool
    problem: str = ""
    false: str = ""
    unnamed: bool = False


def judged_lines(recordings: Iterable[LineRecording]) -> list[GangVerdict]:
    """Return a verdict on each gang that waits before each cycle."""
    return [
        verdict
        for recording in recordings
        if "otherwise" not in recording.document["kai"]
        for number, moment in enumerate(recording.moments())
        for verdict in _verdicts(recording, number, moment)
    ]


def _verdicts(recording: LineRecording, number: int, moment: Moment) -> Iterator[GangVerdict]:
    index = moment.index
    for key in sorted(_waiting(index)):
        name = key[1]
        is_placed = name in moment.placed
        answer = explain(index, Ref("PodGroup", *key))
        assert answer
        expected = any(own.next == "next" for own in answer.line)
        problem = "" if expected == is_placed else f"placed: {is_placed}, expected: {expected}"
        false, unnamed = _reasons(recording, moment, name, answer)
        tags = tuple(recording.tags)
        yield GangVerdict(recording.name, number, name, tags, is_placed, problem, false, unnamed)


def _waiting(index: Index) -> set[Key]:
    """Return the PodGroups that have pods that KAI may place."""
    pods = (pod for pod in index.facts.pods if pod.is_alive and not pod.node and not pod.gates)
    keys = {(pod.namespace, pod.group) for pod in pods}
    return keys & index.pod_groups.keys()


def _reasons(
    recording: LineRecording, moment: Moment, name: str, answer: Answer
) -> tuple[str, bool]:
    """Return the reason that is false, "" if none is, and whether one is missing."""
    ids = {reason.id for reason in answer.reasons if reason.severity == "problem"} - TRUE_BESIDE
    if name in moment.placed:
        wrong = ids - PASSING if moment.cycle["evicted"] else ids
        return ", ".join(sorted(wrong)), False
    if "NeverFits" in ids and any(name in later.placed for later in recording.moments()):
        return "NeverFits", False

    conditions = moment.cycle["conditions"].get(name, ())
    said = {reason["reason"] for each in conditions for reason in each.get("reasons", ())}
    wrong = ids & LIMITS if said and not said & OVER else set()
    return ", ".join(sorted(wrong)), not ids


def table_of_lines(verdicts: Sequence[GangVerdict]) -> str:
    """Return the agreement as a Markdown table: a row for each kind of situation."""
    heads = ["situation", "gangs", "placed or not", "reason not false", "waits without a reason"]
    rows = [heads, ["---"] * len(heads)]
    tags = sorted({tag for verdict in verdicts for tag in verdict.tags})
    for tag in [*tags, ""]:
        own = [verdict for verdict in verdicts if tag in ("", *verdict.tags)]
        agrees = sum(not verdict.problem for verdict in own)
        is_true = sum(not verdict.false for verdict in own)
        unnamed = sum(verdict.unnamed for verdict in own)
        shares = (f"{100 * count / len(own):.1f} %" for count in (agrees, is_true))
        rows.append([tag or "all", str(len(own)), *shares, str(unnamed)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
