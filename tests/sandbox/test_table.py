"""Tables: what `kubectl get` prints of a resource."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.sandbox.objects.resources import Served, custom_resources
from app.sandbox.requests.table import age, table
from tests.sandbox.api import CONFIGMAPS, WIDGETS, Api, Object, configmap, definition, widget

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def served(*columns: Object) -> Served:
    return custom_resources(definition(additionalPrinterColumns=list(columns)))[0]


def column(name: str, path: str, type_: str = "string", **more: Any) -> Object:
    return {"name": name, "jsonPath": path, "type": type_, **more}


ONE = {**widget("one", size=3), "metadata": {"name": "one", "creationTimestamp": "2026-07-01T11:59:15Z"}}


def test_a_table_as_a_whole() -> None:
    of = served(column("Size", ".spec.size", "integer"), column("Note", ".spec.note", priority=1))
    assert table(of, [ONE], "Metadata", {"resourceVersion": "7"}, NOW) == {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "7"},
        "columnDefinitions": [
            {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
            {"name": "Size", "type": "integer", "format": "", "description": "", "priority": 0},
            {"name": "Note", "type": "string", "format": "", "description": "", "priority": 1},
        ],
        "rows": [
            {
                "cells": ["one", 3, None],
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": ONE["metadata"],
                },
            }
        ],
    }


def test_a_definition_without_columns_has_an_age() -> None:
    shown = table(served(), [ONE], "Metadata", {}, NOW)
    assert [definition["name"] for definition in shown["columnDefinitions"]] == ["Name", "Age"]
    assert shown["rows"][0]["cells"] == ["one", "45s"]


@pytest.mark.parametrize(
    ("include", "kind"),
    [
        pytest.param("Metadata", "PartialObjectMetadata", id="the metadata"),
        pytest.param("", "PartialObjectMetadata", id="the metadata unless told"),
        pytest.param("Object", "Widget", id="the object"),
    ],
)
def test_what_a_row_carries(include: str, kind: str) -> None:
    assert table(served(), [ONE], include, {}, NOW)["rows"][0]["object"]["kind"] == kind


LONG_AGO = "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("type_", "value", "cell"),
    [
        pytest.param("string", "s", "s", id="a text"),
        pytest.param("string", 7, "7", id="a number as a text"),
        pytest.param("string", True, "true", id="a truth as a text"),
        pytest.param("string", {"b": 1, "a": [1.5]}, '{"a":[1.5],"b":1}', id="a map as a text, its keys sorted"),
        pytest.param("string", [], "[]", id="an empty list as a text"),
        pytest.param("string", None, None, id="a null"),
        pytest.param("integer", 5, 5, id="an integer"),
        pytest.param("number", 1.5, 1.5, id="a number"),
        pytest.param("boolean", False, False, id="a truth"),
        pytest.param("date", LONG_AGO, "2373d", id="a date"),
        pytest.param("date", "soon", "<invalid>", id="a text that is no date"),
        pytest.param("date", 5, None, id="a number is no date"),
    ],
)
def test_cells(type_: str, value: Any, cell: Any) -> None:
    shown = table(served(column("C", ".spec.c", type_)), [{**ONE, "spec": {"c": value}}], "Metadata", {}, NOW)
    assert shown["rows"][0]["cells"] == ["one", cell]


def test_the_first_of_several_values_is_shown() -> None:
    obj = {**ONE, "spec": {"l": [{"a": "x"}, {"a": "y"}]}}
    assert table(served(column("C", ".spec.l[*].a")), [obj], "Metadata", {}, NOW)["rows"][0]["cells"] == ["one", "x"]


MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (2 * HOUR - 1, "119m"),
        (2 * HOUR, "2h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY + 3 * HOUR, "2d"),
    ],
)
def test_ages(seconds: int, expected: str) -> None:
    assert age((NOW - timedelta(seconds=seconds)).isoformat(), NOW) == expected


def test_an_age_without_a_zone_is_none() -> None:
    assert age("2026-07-01T11:59:15", NOW) == "<invalid>"


# Over HTTP.


async def test_kubectl_gets_a_table(api: Api) -> None:
    await api.sandbox.apply([definition(additionalPrinterColumns=[column("Size", ".spec.size", "integer")])])
    await api.done("POST", WIDGETS, widget("one", size=3))
    await api.done("POST", WIDGETS, widget("two", size=4))
    listed = await api.done("GET", WIDGETS, headers={"Accept": TABLE})
    assert [row["cells"] for row in listed["rows"]] == [["one", 3], ["two", 4]]
    single = await api.done("GET", f"{WIDGETS}/two", headers={"Accept": TABLE}, includeObject="Object")
    assert [row["object"]["spec"] for row in single["rows"]] == [{"size": 4, "colour": "grey"}]


async def test_a_table_of_a_built_in_kind(api: Api) -> None:
    await api.done("POST", CONFIGMAPS, configmap("one"))
    shown = await api.done("GET", CONFIGMAPS, headers={"Accept": TABLE})
    assert [definition["name"] for definition in shown["columnDefinitions"]] == ["Name", "Age"]
