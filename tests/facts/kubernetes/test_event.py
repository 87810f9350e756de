"""When an event was seen first and last, in all forms in which API servers return events."""

from typing import Any

import pytest

from app.facts.kubernetes.event import read_event

ONE, TWO = "1970-01-01T00:01:00Z", "1970-01-01T00:02:00.000000Z"


@pytest.mark.parametrize(
    ("times", "first", "last"),
    [
        pytest.param({"firstTimestamp": ONE, "lastTimestamp": TWO}, 60, 120, id="a core event"),
        pytest.param(
            {"deprecatedFirstTimestamp": ONE, "deprecatedLastTimestamp": TWO},
            60,
            120,
            id="a core event of events.k8s.io",
        ),
        pytest.param(
            {"eventTime": ONE, "firstTimestamp": None, "lastTimestamp": None},
            60,
            60,
            id="a new one",
        ),
        pytest.param(
            {"eventTime": ONE, "series": {"count": 9, "lastObservedTime": TWO}},
            60,
            120,
            id="a series, as kube-scheduler writes it",
        ),
        pytest.param({}, None, None, id="no time"),
    ],
)
def test_the_times_of_an_event(
    times: dict[str, Any], first: float | None, last: float | None
) -> None:
    event = read_event({"reason": "r", "note": "m", **times})
    assert (event.first, event.time) == (first, last)
