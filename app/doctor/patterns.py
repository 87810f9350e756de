"""What the rules of webhooks and policies name: groups, resources and operations, or "*" for all.

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#matching-requests-rules
"""

from collections.abc import Iterable


def overlap(patterns: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether two lists of a rule have something in common.

    A resource may have a subresource: `*` stands for all resources without these, `pods/*` for Pods
    with all of theirs, and `*/*` for everything.
    """
    listed = list(others)
    return any(_have_common(pattern, other) for pattern in patterns for other in listed)


def _have_common(pattern: str, other: str) -> bool:
    pairs = zip(_parts(pattern), _parts(other), strict=True)
    return all(part == another or "*" in (part, another) for part, another in pairs)


def _parts(pattern: str) -> tuple[str, str]:
    resource, _, subresource = pattern.partition("/")
    return resource, subresource
