"""Merge patch (RFC 7386)."""

from typing import Any

import pytest

from app.objects.jsonpatch import apply_merge_patch


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": 1, "b": 2}, {"a": None, "c": 3}, {"b": 2, "c": 3}),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({"a": 1}, 7, 7),
    ],
)
def test_a_merge_patch(target: Any, patch: Any, result: Any) -> None:
    assert apply_merge_patch(target, patch) == result
