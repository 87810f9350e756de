"""Explain agrees with recorded decisions of the KAI scheduler, but for those listed here."""

import pytest

from app.explain.reasons.table import RULES
from tests.explain.decisions.judge import HARMLESS, HELD_BY_OTHERS
from tests.explain.decisions.recording import Recording, recordings
from tests.explain.decisions.table import COLUMNS, judged, table

NOT_AGREED: dict[str, str] = {}
"""Recordings that explain does not agree with, and why: names may only be removed."""


@pytest.mark.untraced
def test_explain_agrees_with_what_kai_decided() -> None:
    verdicts = judged(recordings())
    print(f"\n{table(verdicts)}")
    different = {verdict.name: verdict.problems for verdict in verdicts if verdict.problems}
    assert {name: different[name] for name in sorted(different.keys() - NOT_AGREED.keys())} == {}
    assert sorted(NOT_AGREED.keys() - different.keys()) == []


def test_every_recording_is_of_a_known_outcome_and_has_a_name_of_its_own() -> None:
    all_of_them = list(recordings())
    assert len({recording.name for recording in all_of_them}) == len(all_of_them) == 650
    assert {recording.outcome for recording in all_of_them} == set(COLUMNS)


def test_the_judge_knows_only_reasons_that_exist() -> None:
    assert {rule.id for rule in RULES} >= HARMLESS | HELD_BY_OTHERS


def test_an_answer_that_contradicts_kai_is_found() -> None:
    """Each placed recording is judged as if KAI had left it pending, and the other way round."""
    pending: dict[str, object] = {"outcome": "pending", "placed": {}, "evicted": [], "violated": []}
    names: dict[str, dict[str, object]] = {
        "right-rack": pending,
        "right-full": {"outcome": "placed", "evicted": []},
    }
    chosen = [recording for recording in recordings() if recording.name in names]
    turned = [
        Recording(
            {**recording.document, "kai": {**recording.kai, **names[recording.name]}},
        )
        for recording in chosen
    ]
    assert [bool(verdict.problems) for verdict in judged(chosen)] == [False, False]
    assert [bool(verdict.problems) for verdict in judged(turned)] == [True, True]
