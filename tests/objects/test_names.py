"""The names that Kubernetes accepts, for every short text of the characters that matter."""

import itertools

import pytest

from app.objects.names import is_label, is_subdomain

ALPHANUMERIC = set("az09")
SHORT = [
    "".join(characters)
    for length in range(6)
    for characters in itertools.product("a9-. A\n", repeat=length)
]


def is_label_of_the_standard(text: str) -> bool:
    """Return whether `text` is a label of RFC 1123, read character by character."""
    allowed = ALPHANUMERIC | {"-"}
    ends = {text[:1], text[-1:]}
    return 1 <= len(text) <= 63 and set(text) <= allowed and ends <= ALPHANUMERIC


def test_every_short_text_is_a_label_if_the_standard_says_so() -> None:
    wrong = [text for text in SHORT if is_label(text) != is_label_of_the_standard(text)]
    assert wrong == []


def test_every_short_text_is_a_subdomain_if_its_parts_are_labels() -> None:
    wrong = [
        text
        for text in SHORT
        if is_subdomain(text) != all(map(is_label_of_the_standard, text.split(".")))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "label", "subdomain"),
    [
        ("a" * 63, True, True),
        ("a" * 64, False, True),
        ("a" * 62 + "-", False, False),
        ("-" + "a" * 62, False, False),
        ("a" * 63 + "-", False, False),
        ("a." * 126 + "a", False, True),
        ("a." * 126 + "aa", False, False),
    ],
)
def test_names_have_a_greatest_length(text: str, label: bool, subdomain: bool) -> None:
    assert (is_label(text), is_subdomain(text)) == (label, subdomain)
