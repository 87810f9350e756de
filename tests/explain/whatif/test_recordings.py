"""Drained domains and added nodes on the recorded decisions of the KAI scheduler."""

import pytest

from app.explain.answers.whatif.edits import Addition, Drain, Labelling, Supposition
from app.explain.answers.whatif.effects import Effects, Fate, effects
from app.explain.state.index import Index
from app.explain.state.read import facts_of
from app.explain.state.snapshot import Snapshot
from tests.explain.decisions.recording import NOW, Recording, some_recordings

pytestmark = [pytest.mark.slow, pytest.mark.untraced]


def asked_about(recording: Recording, result: Effects) -> list[Fate]:
    """The fates of the gang that the recording is about."""
    fates = (*result.moves, *result.waits)
    return [
        fate
        for fate in fates
        if recording.ref.name in (fate.gang.name, fate.workload.name)
        and fate.gang.namespace == recording.ref.namespace
    ]


def without_effect(facts: Snapshot) -> list[Supposition]:
    return [Labelling((facts.nodes[0].name,), (("example.com/nothing", "1"),))]


def test_what_kai_placed_has_a_place() -> None:
    """Whatever KAI found room for without evicting, there is a placement of it."""
    tried = 0
    for recording in some_recordings():
        facts = facts_of(recording.items, NOW)
        if recording.outcome != "placed" or recording.kai["evicted"] or not facts.nodes:
            continue
        fates = asked_about(recording, effects(Index(facts), without_effect(facts)))
        for fate in fates:
            tried += 1
            assert fate.how in ("starts", "held"), (recording.name, fate)
            assert fate.had_place, recording.name
    assert tried > 50


def test_drained_nodes_keep_none_of_what_kai_placed() -> None:
    """Each node that KAI used is drained by itself: what is said to fit has its place elsewhere."""
    counts = {"fits": 0, "restarts": 0, "shrinks": 0, "breaks": 0}
    for recording in some_recordings():
        if recording.outcome != "placed" or recording.kai["evicted"]:
            continue
        facts = facts_of(recording.items_after, NOW)
        for name in sorted(set(recording.kai["placed"].values()))[:2]:
            for fate in asked_about(recording, effects(Index(facts), [Drain((name,))])):
                counts[fate.how] += 1
                assert fate.certain, recording.name
                assert bool(fate.where) is (fate.how in ("fits", "restarts")), recording.name
                assert name not in fate.where, recording.name
    print(f"\n{counts}")
    assert min(counts["fits"], counts["breaks"]) > 20


def test_added_nodes_take_no_place_away_and_enough_of_them_start_what_fits_on_one() -> None:
    """A copy of every node leaves as much room as there was before anybody came."""
    started = 0
    for recording in some_recordings():
        facts = facts_of(recording.items, NOW)
        if recording.outcome != "pending" or recording.kai["evicted"] or not facts.nodes:
            continue
        before = asked_about(recording, effects(Index(facts), without_effect(facts)))
        more = [Addition(2, node.name) for node in facts.nodes]
        after = asked_about(recording, effects(Index(facts), more))
        for now, then in zip(before, after, strict=True):
            assert then.how != "waits" or now.how == "waits", recording.name
            started += now.how == "waits" != then.how
    assert started > 20
