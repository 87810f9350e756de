"""Values that are kept once, however often they are read."""

from collections.abc import Callable
from typing import Any

import pytest

from app.base.value import shared
from app.facts.kubernetes.claim import awaited_classes
from app.facts.kubernetes.node import read_node_labels
from app.facts.kubernetes.requests import read_requests


def test_equal_values_are_one_object() -> None:
    name = "gpu"
    assert shared((name, "rack")) is shared((str(name), "rack"))


CLAIM = {"spec": {"devices": {"requests": [{"exactly": {"deviceClassName": "gpu"}}]}}}


@pytest.mark.parametrize(
    ("read", "obj"),
    [
        pytest.param(read_requests, {"containers": []}, id="requests of pods"),
        pytest.param(awaited_classes, CLAIM, id="classes of a claim"),
        pytest.param(
            lambda node: read_node_labels(node).keys,
            {"metadata": {"labels": {"rack": "r1"}}},
            id="keys of the labels of nodes",
        ),
    ],
)
def test_what_many_objects_have_is_kept_once(
    read: Callable[[dict[str, Any]], object], obj: dict[str, Any]
) -> None:
    assert read(obj) is read(dict(obj))


def test_a_large_value_is_not_kept() -> None:
    """8,192 requests of pods with 60,000 resources each would take 80 GB."""
    first = tuple(f"e.c/{number}" for number in range(1000))
    second = tuple(f"e.c/{number}" for number in range(1000))
    assert shared(first) is first
    assert shared(second) is second
