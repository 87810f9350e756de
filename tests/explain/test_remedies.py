"""What explain says that helps, does help: carried out literally, the gang has a place."""

from functools import cache

import pytest

from app.explain.reasons.reason import Reason
from tests.explain.decisions.judge import preventing
from tests.explain.decisions.recording import Recording, recordings
from tests.explain.decisions.remedies import Cluster, alternatives, carry_out

pytestmark = pytest.mark.untraced

OPEN = {"GangIncomplete", "QueueMissing", "RequiredViolated", "LevelUnknown", "DomainsJoined"}
"""Reasons whose remedies leave open what exactly to do."""
ONE_AFTER_THE_OTHER = {
    "random-pools-1194": "a pool without nodes, a selector that matches none, and a domain that all nodes share: explain names the last one when the others are mended",
}
"""Recordings in which several things are in the way, and why one remedy is not enough."""
QUEUES = {"QueueLimit", "QueueQuota"}
"""Reasons that hold beside those of room: both have to be mended."""


@cache
def waiting() -> list[tuple[Recording, tuple[Reason, ...]]]:
    """The recordings that stay pending, with what prevents their placement."""
    pending = [recording for recording in recordings() if recording.outcome == "pending"]
    judged = [
        (recording, tuple(preventing(recording.answer(recording.items).reasons)))
        for recording in pending
    ]
    return [
        (recording, reasons)
        for recording, reasons in judged
        if not OPEN & {reason.id for reason in reasons} and not recording.case.get("only_after")
    ]


def left_after(
    recording: Recording, reasons: tuple[Reason, ...], reason: Reason, words: str
) -> str:
    """What still prevents the placement if this is done, and what queues ask for."""
    cluster = Cluster(recording)
    if not carry_out(cluster, reason, words):
        return f"nobody knows what to do for {words!r}"
    for other in reasons:
        if other.id in QUEUES and other is not reason:
            carry_out(cluster, other, alternatives(other)[0])
    left = preventing(recording.answer(cluster.items).reasons)
    if reason.id in QUEUES:
        left = [known for known in left if known.id in QUEUES]
    return "; ".join(f"{known.id}: {known.text}" for known in left)


def test_each_remedy_leads_to_a_placement() -> None:
    wrong: dict[str, str] = {}
    tried = 0
    for recording, reasons in waiting():
        for reason in reasons:
            for words in alternatives(reason):
                if words.lower().startswith("do nothing"):
                    continue
                tried += 1
                left = left_after(recording, reasons, reason, words)
                if left and recording.name not in ONE_AFTER_THE_OTHER:
                    wrong[f"{recording.name}, {reason.id}: {words}"] = left
    print(f"\n{tried} remedies")
    assert wrong == {}
    assert tried > 200


def test_a_remedy_that_does_not_help_is_found() -> None:
    """What is not done changes nothing: each gang that waits goes on to wait."""
    for recording, reasons in waiting()[:20]:
        assert preventing(recording.answer(Cluster(recording).items).reasons) == list(reasons)
