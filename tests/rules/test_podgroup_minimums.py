"""Minimums of a PodGroup for which KAI rejects it."""

from typing import Any

import pytest

from app.rules.podgroup_minimums import minimum_warnings
from tests.said import Said


def group(*subgroups: Any, **spec: Any) -> dict[str, Any]:
    return {"spec": {"subGroups": list(subgroups), **spec}}


@pytest.mark.parametrize(
    ("obj", "starts"),
    [
        pytest.param({"spec": {"minMember": 2}}, [], id="no SubGroups"),
        pytest.param(
            group({"name": "a", "minSubGroup": 1}, {"name": "b", "parent": "a", "minMember": 0}),
            [],
            id="a minimum of each kind",
        ),
        pytest.param(
            group({"name": "a"}, {"name": "b", "parent": "a", "minMember": 1}),
            [],
            id="no minimum above SubGroups",
        ),
        pytest.param(
            group(minMember=1, minSubGroup=1), ["spec.minSubGroup"], id="both of the PodGroup"
        ),
        pytest.param(
            group({"name": "a", "minMember": 1, "minSubGroup": 1}),
            ["spec.subGroups[0].minSubGroup"],
            id="both of a SubGroup",
        ),
        pytest.param(
            group({"name": "a", "minMember": 1}, {"name": "b", "parent": "a"}),
            ["spec.subGroups[0].minMember", "spec.subGroups[1].minMember"],
            id="pods above SubGroups, and none below",
        ),
        pytest.param(
            group({"name": "a", "minSubGroup": 0}),
            ["spec.subGroups[0].minSubGroup"],
            id="SubGroups that do not exist",
        ),
        pytest.param(group(7), ["spec.subGroups[0].minMember"], id="odd values"),
    ],
)
def test_warnings(obj: dict[str, Any], starts: list[str], said: Said) -> None:
    found = minimum_warnings(obj)
    assert len(found) == len(starts), found
    assert all(text.startswith(start) for text, start in zip(found, starts, strict=True)), found
    said(found)


def test_an_update_may_keep_pods_above_subgroups() -> None:
    stored = group({"name": "a", "minMember": 1}, {"name": "b", "parent": "a", "minMember": 1})
    assert len(minimum_warnings(stored)) == 1
    assert minimum_warnings(stored, is_new=False) == []
