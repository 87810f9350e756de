"""A fact is read from its object field by field; what is missing or has another type counts as
absent.
"""

from dataclasses import dataclass
from typing import Any

import pytest

from app.explain.facts.fields import each, number, read, reader, texts_at


@dataclass(frozen=True)
class Part:
    name: str = read("name")
    count: int = read("size", "count", of=number(1))


@dataclass(frozen=True)
class Whole:
    name: str = read("metadata", "name")
    parts: tuple[Part, ...] = read("spec", "parts", of=each(Part))
    hosts: tuple[str, ...] = read("spec", "hosts", of=texts_at("name"))
    keys: int = read(of=lambda obj: len(obj or ()))


NAME: dict[str, Any] = {"metadata": {"name": "a"}}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param({}, Whole(), id="nothing"),
        pytest.param(NAME, Whole("a", keys=1), id="a field"),
        pytest.param({"metadata": ["name"]}, Whole(keys=1), id="a list in the path"),
        pytest.param({"metadata": {"name": 1}}, Whole(keys=1), id="a number for a text"),
        pytest.param({**NAME, "spec": {"parts": {}}}, Whole("a", keys=2), id="a map for a list"),
        pytest.param(
            {
                "spec": {
                    "parts": [{"name": "p", "size": {"count": 3}}, 1, {}],
                    "hosts": [{"name": "h"}, {"name": 2}],
                }
            },
            Whole("", (Part("p", 3), Part("", 1)), ("h", ""), 1),
            id="lists",
        ),
    ],
)
def test_a_fact_is_read_from_its_object(obj: dict[str, Any], expected: Whole) -> None:
    assert reader(Whole)(obj) == expected
