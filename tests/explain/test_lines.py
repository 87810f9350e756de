"""Explain agrees with recorded cycles of the KAI scheduler in which several gangs wait."""

from itertools import islice

import pytest

from tests.effort import tries
from tests.explain.lines.judge import judged_lines, table_of_lines
from tests.explain.lines.recording import LineRecording, line_recordings


def some_lines() -> list[LineRecording]:
    """Every twentieth of the recordings, or all if the tests are to be thorough."""
    return list(islice(line_recordings(), 0, None, tries(20, 1)))


@pytest.mark.untraced
def test_explain_knows_what_kai_places_next_and_names_no_false_reason() -> None:
    verdicts = judged_lines(some_lines())
    print(f"\n{table_of_lines(verdicts)}")
    agreeing = sum(not verdict.problem for verdict in verdicts)
    true = sum(not verdict.false for verdict in verdicts)
    assert len(verdicts) > 200
    assert agreeing / len(verdicts) >= 0.99
    assert true / len(verdicts) >= 0.99


def test_explain_knows_what_kai_does_with_subgroups_of_two_topologies() -> None:
    verdicts = judged_lines(line_recordings("two-topologies"))
    assert [verdict for verdict in verdicts if verdict.problem or verdict.false] == []
    assert [verdict for verdict in verdicts if verdict.unnamed] == []
    assert sum(verdict.placed for verdict in verdicts) == 100
    assert len(verdicts) == 282


@pytest.mark.untraced
def test_explain_knows_what_kai_does_with_parts_of_gpus_mig_and_shards() -> None:
    verdicts = judged_lines(line_recordings("shared"))
    print(f"\n{table_of_lines(verdicts)}")
    agreeing = sum(not verdict.problem for verdict in verdicts)
    true = sum(not verdict.false for verdict in verdicts)
    assert len(verdicts) > 1000
    assert agreeing / len(verdicts) >= 0.99
    assert true / len(verdicts) >= 0.99


def test_a_prediction_that_contradicts_kai_is_found() -> None:
    """Recordings are judged as if KAI had bound nothing in any cycle."""
    chosen = list(islice(line_recordings(), 5, 20))
    turned = [
        LineRecording(
            {
                **recording.document,
                "kai": {"cycles": [{**cycle, "placed": {}} for cycle in recording.cycles[:1]]},
            }
        )
        for recording in chosen
    ]
    placed = {
        (verdict.name, verdict.gang)
        for verdict in judged_lines(chosen)
        if verdict.cycle == 0 and verdict.placed and not verdict.problem
    }
    wrong = {(verdict.name, verdict.gang) for verdict in judged_lines(turned) if verdict.problem}
    assert placed
    assert placed <= wrong


def test_every_recording_has_a_seed_of_its_own() -> None:
    seeds = [recording.document["case"]["seed"] for recording in line_recordings()]
    assert seeds == list(range(0, 1000, 2))
    seeds = [each.document["case"]["seed"] for each in line_recordings("two-topologies")]
    assert seeds == list(range(5030, 5090))
    seeds = [each.document["case"]["seed"] for each in line_recordings("shared")]
    assert seeds == sorted({*seeds})
    assert len(seeds) == 227
