"""Conditions are merged by type."""

from typing import Any

import pytest

from app.objects.conditions import Condition, condition_patch, with_condition

NOW = "2026-11-21T12:00:00Z"
BEFORE = "2026-01-01T00:00:00Z"
OTHER = {"type": "Other", "status": "True"}
READY = Condition("Ready", "True", "Fine", "all is well", 3)
WRITTEN = {
    "type": "Ready",
    "status": "True",
    "observedGeneration": 3,
    "lastTransitionTime": NOW,
    "reason": "Fine",
    "message": "all is well",
}


def stored(**changes: Any) -> dict[str, Any]:
    return {**WRITTEN, "lastTransitionTime": BEFORE, **changes}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(None, [WRITTEN], id="the first one"),
        pytest.param("nonsense", [WRITTEN], id="what is no list counts as empty"),
        pytest.param([OTHER, "nonsense"], [OTHER, WRITTEN], id="others stay, in their places"),
        pytest.param(
            [stored(status="False"), OTHER], [WRITTEN, OTHER], id="another status is a transition"
        ),
        pytest.param([stored(message="x", reason="Y")], [stored()], id="another message is none"),
        pytest.param(
            [{"type": "Ready", "status": "True"}],
            [WRITTEN],
            id="one that nobody timed is timed now",
        ),
    ],
)
def test_a_condition_is_put_in_its_place(before: Any, after: list[Any]) -> None:
    assert with_condition(before, READY, NOW) == after


@pytest.mark.parametrize(
    ("before", "desired", "after"),
    [
        pytest.param([OTHER, WRITTEN], None, [OTHER], id="one is removed alone"),
        pytest.param([WRITTEN], None, None, id="without conditions, there is no list"),
        pytest.param(None, None, None, id="there was none"),
        pytest.param([OTHER], READY, [OTHER, WRITTEN], id="one is put in its place"),
    ],
)
def test_a_patch_of_a_condition(before: Any, desired: Condition | None, after: Any) -> None:
    obj = {"metadata": {"resourceVersion": "7"}, "status": {"conditions": before}}
    assert condition_patch(obj, "Ready", desired, NOW) == {
        "metadata": {"resourceVersion": "7"},
        "status": {"conditions": after},
    }


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        pytest.param([OTHER, stored()], True, id="whenever it began"),
        pytest.param([stored(observedGeneration=2)], False, id="of another generation"),
        pytest.param([stored(message="")], False, id="in other words"),
        pytest.param([OTHER], False, id="not at all"),
    ],
)
def test_what_is_said_already(conditions: Any, said: bool) -> None:
    assert (with_condition(conditions, READY, NOW) == conditions) is said
