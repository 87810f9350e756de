"""Text of others is shown without what nobody sees, and JSON says exactly what it did."""

import json
import sys
import unicodedata
from typing import Any

import pytest

from app.base.safe_text import visible, visible_json


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("zone-a/rack 1 (80 %)", "zone-a/rack 1 (80 %)", id="plain"),
        pytest.param("Größe … 大 ├─ 🙂", "Größe … 大 ├─ 🙂", id="letters of all languages"),
        pytest.param("e\u0301", "e\u0301", id="an accent"),
        pytest.param(r"C:\x1b", r"C:\x1b", id="backslashes stay"),
        pytest.param("\x1b[31m\x07\x7f\x9b0m", r"\x1b[31m\x07\x7f\x9b0m", id="escapes"),
        pytest.param("a\r\nb\tc\v\f\x85", r"a\x0d\x0ab\x09c\x0b\x0c\x85", id="lines and tabs"),
        pytest.param("\u2028\u2029\xa0\u3000", r"\u2028\u2029\xa0\u3000", id="other separators"),
        pytest.param("\u202e\u202a\u2066\u2069", r"\u202e\u202a\u2066\u2069", id="directions"),
        pytest.param("\u200e\u200f\u061c", r"\u200e\u200f\u061c", id="marks of direction"),
        pytest.param(
            "\u200b\u200d\u2060\ufeff\xad", r"\u200b\u200d\u2060\ufeff\xad", id="no width"
        ),
        pytest.param("\u115f\u3164\ufe0f\u034f", r"\u115f\u3164\ufe0f\u034f", id="unseen letters"),
        pytest.param("\U000e0041\U000e0100", r"\U000e0041\U000e0100", id="tags and variants"),
        pytest.param("\ud800", r"\ud800", id="half a character"),
        pytest.param("\uffff\ue000", r"\uffff\ue000", id="no character"),
    ],
)
def test_what_is_not_seen_is_shown_by_its_code(text: str, expected: str) -> None:
    assert visible(text) == expected
    assert visible(expected) == expected


def test_some_characters_may_be_kept() -> None:
    assert visible("a\n\tb\x1b", kept="\n\t") == "a\n\tb\\x1b"


@pytest.mark.untraced
def test_no_character_of_unicode_gets_through_that_is_not_seen() -> None:
    categories = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    every = map(chr, range(sys.maxunicode + 1))
    unseen = [char for char in every if unicodedata.category(char) in categories]
    assert set(visible("".join(unseen))).isdisjoint(unseen)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param({"a": [1, "b"]}, '{"a":[1,"b"]}', id="plain"),
        pytest.param("Größe\u2026", '"Größe\u2026"', id="letters"),
        pytest.param("\x1b\n\x7f\x9b", r'"\u001b\n\u007f\u009b"', id="escapes"),
        pytest.param("\u202e\U000e0041", r'"\u202e\udb40\udc41"', id="hidden"),
        pytest.param("\x7f", r'"\u007f"', id="the only one in ASCII"),
        pytest.param("\ud800", r'"\ud800"', id="half a character"),
        pytest.param([2**70], "[1180591620717411303424]", id="a large number"),
    ],
)
def test_json_says_exactly_what_it_did(value: Any, written: str) -> None:
    assert visible_json(value).replace(", ", ",").replace(": ", ":") == written
    assert json.loads(visible_json(value)) == value
    assert json.loads(visible_json(value, indented=True)) == value


def test_json_may_be_indented() -> None:
    assert visible_json({"a": ["\u202e"]}, indented=True) == ('{\n  "a": [\n    "\\u202e"\n  ]\n}')
    assert visible_json({"a": "\ud800"}, indented=True) == '{\n  "a": "\\ud800"\n}'
