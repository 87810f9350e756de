"""What documents cost is known before anything is made of them.

Tests `app/base/unusable.py` and `app/dry_run/budget.py`.
"""

import time
from collections.abc import Iterator
from itertools import count

import pytest
import yaml
from msgspec.structs import replace

from app.base.unusable import UnusableInput
from app.dry_run.budget import MIB, OF_FILE, OF_REQUEST, Budget, ReadingLimits, spend_yaml
from app.dry_run.documents import read_documents
from tests.dry_run.attacks import (
    BASE_60,
    FEW_LAUGHS,
    LONG_ALIASES,
    MANY_LAUGHS,
    MERGED_LAUGHS,
    laughs,
)

VALUES = "the text has more than {:,} values, counting each use of an alias"
TEXT = "the text has more than {} MiB of text, counting each use of an alias"
ENOUGH = ReadingLimits(documents=10, values=100, size=1000, seconds=10.0)


class Spent(Budget):
    """A budget that adds up what is spent."""

    def __init__(self) -> None:
        super().__init__(OF_FILE)
        self.values = 0
        self.size = 0

    def spend(self, values: int, size: int) -> None:
        self.values += values
        self.size += size
        super().spend(values, size)


def events_until_refused(text: str) -> Iterator[yaml.Event]:
    """The events of a text, of which at most 100 may be asked for."""
    for number, event in enumerate(yaml.parse(text)):
        assert number < 100, "it reads on"
        yield event


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("text", "limits", "reason"),
    [
        pytest.param(LONG_ALIASES, OF_REQUEST, TEXT.format(4), id="a long text"),
        pytest.param(LONG_ALIASES, OF_FILE, TEXT.format(64), id="a long text, in a file"),
        pytest.param(MANY_LAUGHS, OF_REQUEST, VALUES.format(250_000), id="many documents"),
        pytest.param(MANY_LAUGHS, OF_FILE, VALUES.format(2_000_000), id="many, in a file"),
        pytest.param(FEW_LAUGHS, OF_REQUEST, VALUES.format(250_000), id="all together"),
        pytest.param(MERGED_LAUGHS, OF_REQUEST, VALUES.format(250_000), id="merged maps"),
        pytest.param(
            f"[{','.join(['1'] * 250_000)}]", OF_REQUEST, VALUES.format(250_000), id="JSON"
        ),
        pytest.param(
            "--- {}\n" * 1001, OF_REQUEST, "the text has more than 1000 doc", id="documents"
        ),
        pytest.param(
            f"kind: List\nitems: [{'{}, ' * 1001}]",
            OF_REQUEST,
            "the text has more than 1000 documents",
            id="items",
        ),
        pytest.param("a: &a {b: [*a]}", OF_REQUEST, 'the alias "a" refers to a value', id="itself"),
        pytest.param(
            "a: &a " + "[" * 150 + "]" * 150 + "\nb: " + "[" * 150 + "*a" + "]" * 150,
            OF_REQUEST,
            "the text is nested too deeply: more than 200 levels",
            id="deep by an alias",
        ),
    ],
)
def test_what_costs_too_much_is_refused(text: str, limits: ReadingLimits, reason: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        read_documents(text, Budget(limits))
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize(
    ("text", "values", "size"),
    [
        pytest.param("a: b", 3, 2, id="a map"),
        pytest.param("a: &x {b: c}\nd: *x", 9, 6, id="an alias counts again"),
        pytest.param("a: &x [c]\nd: &y [*x, *x]\ne: *y", 16, 8, id="aliases of aliases"),
        pytest.param("a: &x c\n---\na: &x dd\nb: *x", 8, 8, id="anchors of another document"),
        pytest.param("a: ä", 3, 3, id="bytes"),
        pytest.param('{"a": ["b", {"ä": 1}]}', 7, 4, id="JSON"),
    ],
)
def test_aliases_are_counted_where_they_are_used(text: str, values: int, size: int) -> None:
    spent = Spent()
    read_documents(text, spent)
    assert (spent.values, spent.size) == (values, size)


def test_it_is_refused_before_the_rest_is_looked_at() -> None:
    text = laughs() + "\n" + "b: c\n" * 1000
    budget = Budget(ReadingLimits(documents=1, values=60, size=MIB, seconds=1.0))
    with budget, pytest.raises(UnusableInput):
        spend_yaml(events_until_refused(text), budget)


def test_texts_share_what_they_may_cost() -> None:
    budget = Budget(ENOUGH)
    read_documents("a: [" + "1, " * 60 + "]", budget)
    with pytest.raises(UnusableInput):
        read_documents("a: [" + "1, " * 60 + "]", budget)
    assert len(read_documents("a: [" + "1, " * 60 + "]", Budget(ENOUGH))) == 1


def test_only_the_time_of_reading_counts() -> None:
    # of each: the begin, three looks at the clock, and the end
    seconds = iter([0.0, 0.0, 1.0, 4.0, 50.0, 50.0, 51.0, 52.0, 90.0, 90.0, 95.0, 96.0])
    budget = Budget(ENOUGH, clock=lambda: next(seconds))
    read_documents("a: b", budget)  # 4 s
    read_documents("a: b", budget)  # 2 s
    with pytest.raises(UnusableInput, match="the text takes more than 10 s to read"):
        read_documents("a: b", budget)
    assert list(seconds) == []


def test_time_in_which_the_processor_is_not_used_does_not_count() -> None:
    with Budget(replace(ENOUGH, seconds=0.1)) as budget:
        time.sleep(0.2)
        budget.check_time()
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass
        with pytest.raises(UnusableInput, match=r"the text takes more than 0\.1 s to read"):
            budget.check_time()


def test_a_long_text_is_looked_at_again_and_again() -> None:
    ticks = count()
    budget = Budget(OF_REQUEST, clock=lambda: float(next(ticks)))
    with pytest.raises(UnusableInput, match="the text takes more than 5 s to read"):
        read_documents("a:\n" + "- b\n" * 10_000, budget)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-0x10", -16),
        ("0o17", "0o17"),
        ("017", 15),
        ("1_000", 1000),
        ("12:30", "12:30"),
        ("12:30.5", "12:30.5"),
        ("2001-01-01", "2001-01-01"),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("-9223372036854775809", -(2.0**63)),
        ("0x" + "f" * 400, "0x" + "f" * 400),
        ("1.5", 1.5),
        ("!!int 7", 7),
        ("!!float 7", 7.0),
    ],
)
def test_numbers_are_those_of_kubernetes(text: str, value: object) -> None:
    (document,) = read_documents(f"a: {text}")
    assert document == {"a": value}
    assert type(document["a"]) is type(value)


def test_a_number_to_the_base_of_60_is_text() -> None:
    (document,) = read_documents(BASE_60)
    assert document == {"a": BASE_60.removeprefix("a: ")}


@pytest.mark.parametrize(
    "text",
    [
        '!!int ""',
        '!!float ""',
        "!!float x",
        "!!bool 7",
        "!!timestamp x",
        "!!timestamp 2026-99-99",
        "!!binary ä",
        "!!omap [1]",
        "!!pairs x",
        "!!set [1]",
        "!!python/name:os.system x",
        "9" * 5000,
        "*missing",
    ],
)
def test_a_value_that_does_not_fit_its_tag_can_not_be_read(text: str) -> None:
    with pytest.raises(UnusableInput, match="not valid YAML or JSON"):
        read_documents(f"a: {text}")
