"""Any value of an object may be anything: no command, page, server or leader ends because of it.

`./scripts/fuzz` does the same for longer, led by coverage.

Tests `app/objects/shape.py`.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.cluster import leader_rows
from app.facts import explain_rows, rows
from app.facts.rows import Row
from tests.effort import tries
from tests.fuzz.clusters import NUMBERS, TEXTS, objects_in, read_cluster, stored
from tests.fuzz.mutation import dump
from tests.fuzz.targets import TARGETS
from tests.webhooks.test_odd_values import places, with_odd

Object = dict[str, Any]

PRINTABLE = st.text(st.characters(codec="utf-8"), max_size=20)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | PRINTABLE
    | st.sampled_from((*TEXTS, *NUMBERS)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PRINTABLE, inner, max_size=3),
    max_leaves=6,
)
EXAMPLES = {
    "explain": tries(40, 120),
    "audit": tries(50, 150),
    "doctor": tries(50, 150),
    "console": tries(6, 12),
}
"""How many changed clusters each is tried on, by how long that takes."""

ROWS: dict[str, Row[Any]] = {
    str(row.resource): row
    for row in (
        *rows.FOR_VERDICTS,
        *vars(leader_rows).values(),
        leader_rows.pods_of_scheduler("kai-scheduler"),
    )
    if isinstance(row, Row)
}
OURS: Object = {
    "objects": [
        {
            "apiVersion": "grove-admission.grove.io/v1",
            "kind": "QueueNames",
            "metadata": {"name": "grove-admission"},
            "spec": {"names": {"train": ""}},
        }
    ]
}
"""What we write for ourselves, which no other cluster here has."""

FOR_PEOPLE = [
    row for row in (vars(rows) | vars(explain_rows)).values() if isinstance(row, Row) and row.title
]
"""The rows that commands read from files too, whose metadata no API server has checked."""


@cache
def clusters(name: str) -> list[Object]:
    return [read_cluster(data) for data in TARGETS[name].corpus()]


@cache
def objects_of_kind(group: str, kind: str) -> list[Object]:
    return [
        obj
        for name in ("audit", "explain")
        for cluster in (*clusters(name), OURS)
        for obj in objects_in(cluster)
        if (obj["apiVersion"].rpartition("/")[0], obj["kind"]) == (group, kind)
    ]


@st.composite
def changed(draw: Callable[..., Any], objects: list[Object]) -> tuple[int, Object]:
    """One of the objects, with another value at one or two places."""
    position = draw(st.integers(0, len(objects) - 1))
    obj = objects[position]
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.sampled_from(list(places(obj)) or [()]))
        obj = with_odd(obj, at, draw(ANYTHING))
    return position, obj


@pytest.mark.untraced
@pytest.mark.parametrize("name", EXAMPLES)
def test_no_value_ends_a_command_or_a_page(name: str) -> None:
    @settings(
        max_examples=EXAMPLES[name],
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.data())
    def check(data: st.DataObject) -> None:
        cluster = data.draw(st.sampled_from(clusters(name)))
        objects = objects_in(cluster)
        position, obj = data.draw(changed(objects))
        objects = [*objects[:position], obj, *objects[position + 1 :]]
        TARGETS[name].run(dump({**cluster, "objects": objects}))

    check()


@pytest.mark.parametrize("name", ROWS)
def test_metadata_that_is_no_map_ends_no_watch(name: str) -> None:
    row = ROWS[name]
    typed = {"apiVersion": row.resource.api_version(), "kind": row.resource.kind}
    for obj in objects_of_kind(row.resource.group, row.resource.kind):
        kept = row.read({**stored({**obj, "metadata": None}), **typed})
        assert kept is None or all(len(key) == 2 for key in _keys(row, kept))


@pytest.mark.parametrize("row", FOR_PEOPLE, ids=lambda row: row.title)
def test_metadata_of_a_file_may_be_no_texts(row: Row[Any]) -> None:
    odd = {"name": {"a": [1]}, "namespace": ["ns"], "uid": ["u"], "creationTimestamp": [1]}
    kept = row.read({"metadata": odd})
    texts = [getattr(kept, name, "") for name in ("namespace", "name", "uid")]
    assert [type(text) for text in texts] == [str, str, str]


@pytest.mark.untraced
@pytest.mark.parametrize("name", ROWS)
def test_no_value_ends_a_watch_of_the_server_or_of_the_leader(name: str) -> None:
    row = ROWS[name]
    objects = objects_of_kind(row.resource.group, row.resource.kind)
    assert objects

    @settings(max_examples=tries(20, 60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        _, obj = data.draw(changed(objects))
        typed = {"apiVersion": row.resource.api_version(), "kind": row.resource.kind}
        kept = row.read({**stored(obj), **typed})
        assert kept is None or all(len(key) == 2 for key in _keys(row, kept))

    check()


def _keys(row: Row[Any], kept: Any) -> Iterator[Any]:
    for keys in row.lookups.values():
        yield from keys(kept)
