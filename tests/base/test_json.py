"""JSON: bytes to values and back."""

import datetime
import json
from typing import Any

import pytest

from app.base.json import NotJson, from_json, pretty_json, to_json


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "truncated", id="nothing"),
        pytest.param(b"{} {}", "trailing characters", id="two documents"),
        pytest.param(b"NaN", "invalid character", id="not a number"),
        # "can't decode byte 0xff" up to msgspec 0.22, then "Invalid UTF-8 encoded string".
        pytest.param(b'"\xff"', "can't decode byte|UTF-8", id="not UTF-8"),
        pytest.param('"\ud800"', "surrogates not allowed", id="a lone surrogate as text"),
        pytest.param(rb'"\ud800"', "truncated", id="a lone surrogate as an escape"),
        pytest.param(b"9" * 5000, "out of range", id="thousands of digits"),
        pytest.param(b"1e999", "out of range", id="infinite"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, "nested too deeply", id="deep lists"),
        pytest.param(
            b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply", id="deep maps"
        ),
    ],
)
def test_what_is_not_json_is_an_error(content: bytes | str, message: str) -> None:
    with pytest.raises(NotJson, match=message):
        from_json(content)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param({"a": "\ud800"}, b'{"a":"\\ud800"}', id="a lone surrogate"),
        pytest.param({"\udfff": 1}, b'{"\\udfff":1}', id="a lone surrogate as a key"),
        pytest.param(2**70, b"1180591620717411303424", id="a long number"),
        pytest.param([{1: 2}], b'[{"1":2}]', id="a number as a key"),
        pytest.param(float("nan"), b"null", id="not a number"),
        pytest.param(("é", None), '["é",null]'.encode(), id="text is not escaped"),
        pytest.param(datetime.date(2026, 1, 2), b'"2026-01-02"', id="a date"),
        pytest.param(complex(1, 2), b'"(1+2j)"', id="what JSON lacks, as text"),
    ],
)
def test_every_value_is_written(value: Any, text: bytes) -> None:
    assert to_json(value) == text
    assert json.loads(pretty_json(value)) == json.loads(text)


def test_indented_json_has_a_field_in_each_line() -> None:
    assert pretty_json({"a": [], "b": {"c": 1}}) == b'{\n  "a": [],\n  "b": {\n    "c": 1\n  }\n}'
