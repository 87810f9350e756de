"""The first letter of a sentence, when sentences are joined."""

import pytest

from app.base.sentences import lower_first, upper_first


@pytest.mark.parametrize(
    ("sentence", "lower", "upper"),
    [
        ("Delete it", "delete it", "Delete it"),
        ("delete It", "delete It", "Delete It"),
        ("ÄB", "äB", "ÄB"),
        ("", "", ""),
    ],
)
def test_only_the_first_letter_changes(sentence: str, lower: str, upper: str) -> None:
    assert (lower_first(sentence), upper_first(sentence)) == (lower, upper)
