"""Check names and label keys by the rules of Kubernetes."""

import re

# possessive quantifiers (`++`, `*+`) never backtrack, so that no text makes them slow
_LABEL = re.compile(r"(?!-)[-a-z0-9]{1,63}+(?<!-)")
_SUBDOMAIN = re.compile(r"[a-z0-9]++(?:(?:-++|\.)[a-z0-9]++)*+")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")

MAX_LABEL = 63
MAX_SUBDOMAIN = 253
_MAX_INDEX_DIGITS = 10
"""The number of digits of the largest number of replicas in Kubernetes, 2,147,483,647."""

LABEL_RULE = (
    "must consist of lowercase alphanumeric characters or '-', must start and end with an"
    " alphanumeric character"
)


def is_label(name: str) -> bool:
    """Return whether `name` is a DNS-1123 label."""
    return _LABEL.fullmatch(name) is not None


def label_problem(name: str) -> str | None:
    """Return the reason why `name` is not a DNS-1123 label, or None if it is one."""
    if is_label(name):
        return None
    if not name:
        return "name cannot be empty"
    if len(name) > MAX_LABEL:
        return f"name must be no more than {MAX_LABEL} characters"
    return LABEL_RULE


def is_subdomain(name: str) -> bool:
    """Return whether `name` is a DNS-1123 subdomain, as the names of most objects must be."""
    return len(name) <= MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(name) is not None


def is_index(text: str, count: int) -> bool:
    """Return whether `text` is a number from 0 to `count` - 1, without leading zeros."""
    if not (text.isascii() and text.isdecimal()) or len(text) > _MAX_INDEX_DIGITS:
        return False

    index = int(text)
    return text == str(index) and index < count


def label_key_problem(key: str) -> str | None:
    """Return the reason why `key` is not a valid label key (`[prefix/]name`), or None if it is."""
    prefix, slash, name = key.rpartition("/")
    if slash and not is_subdomain(prefix):
        return (
            "the prefix must be a lowercase DNS subdomain of at most 253 characters, such as"
            " topology.kubernetes.io"
        )

    if len(name) > MAX_LABEL:
        return f"the name part must be no more than {MAX_LABEL} characters"
    if not _QUALIFIED.fullmatch(name):
        return (
            "must be a qualified label name: alphanumeric characters, '-', '_' or '.', starting and"
            " ending with an alphanumeric character, with an optional DNS subdomain prefix and '/',"
            " such as topology.kubernetes.io/rack"
        )

    return None
