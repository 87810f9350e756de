"""Explain agrees with recorded decisions of the KAI scheduler, but for those listed here."""

from app.explain.reasons import RULES
from tests.explain.decisions.judge import HARMLESS, HELD_BY_OTHERS
from tests.explain.decisions.recording import Recording, recordings
from tests.explain.decisions.table import COLUMNS, judged, table

NOT_AGREED: dict[str, str] = dict.fromkeys(
    [
        "dra-004a",
        "elastic-005a",
        "grove-040a",
        "d1-clique-restarts",
        "d1-leaf-of-unit-restarts",
        "d1-two-hosts",
        "d1-zone-not-kept",
        "d10-no-topology-host",
        "d11-units-in-racks",
        "d12-gpu-fraction",
        "d12-limit-below-gang",
        "d12-podgroup-incomplete",
        "d12-workload-incomplete",
        "d14-dots-host",
        "d15-alone-incomplete",
        "d15-alone-workload",
        "d2-grove-in-rack",
        "d2-rack",
        "d2-webhook-preferred",
        "d3-grove",
        "d3-host-rack",
        "d3-subgroup",
        "d4-big-launcher",
        "d4-workload-big-launcher",
        "d5-grove",
        "d5-one-rack",
        "d5-subgroup-broader",
        "d6-grove",
        "d6-inference-racks",
        "d7-no-constraint",
        "d7-set",
        "d8-one-runs",
        "d8-units",
        "d9-one-bound-one-free",
        "minsub-003a",
        "minsub-006a",
        "mixed-000a",
        "mixed-003a",
        "mixed-004a",
        "mixed-004b",
        "mixed-004c",
        "mixed-008b",
        "podgang-008a",
        "pools-009b",
        "pref-005a",
        "pref-019a",
        "pref-022a",
        "running-022a",
        "running-024a",
        "submixed-002a",
        "submixed-016a",
        "subs-006a",
        "subs-032a",
        "workload-014a",
        "workload-015a",
    ],
    "not judged as KAI does yet",
)
"""Recordings that explain does not agree with, and why: names may only be removed."""


def test_explain_agrees_with_what_kai_decided() -> None:
    verdicts = judged(recordings())
    print(f"\n{table(verdicts)}")
    different = {verdict.name: verdict.problems for verdict in verdicts if verdict.problems}
    assert {name: different[name] for name in sorted(different.keys() - NOT_AGREED.keys())} == {}
    assert sorted(NOT_AGREED.keys() - different.keys()) == []


def test_every_recording_is_of_a_known_outcome_and_has_a_name_of_its_own() -> None:
    all_of_them = list(recordings())
    assert len({recording.name for recording in all_of_them}) == len(all_of_them) == 339
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
