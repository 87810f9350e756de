"""The owners of topology constraints in a PodCliqueSet.

These are the set, its scaling groups and its cliques.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from app.objects.fields import FieldError, FieldPath, walk_list, walk_map, walk_maps

Owner = tuple[str, str]
"""("set", ""), ("group", name) or ("clique", name), whatever the order of the lists."""

SET: Owner = ("set", "")

_TEMPLATE = FieldPath("spec.template")


def walk_owners(
    obj: Mapping[str, Any], findings: list[FieldError]
) -> Iterator[tuple[Owner, FieldPath, dict[str, Any]]]:
    """Yield the owners in the PodCliqueSet `obj`, each with its path and content.

    For a part that doesn't have the CRD's shape, adds a finding.
    """
    spec = walk_map(obj, "spec", FieldPath(""), findings)
    template = walk_map(spec, "template", FieldPath("spec"), findings)
    yield SET, _TEMPLATE, template
    for kind, field in (("group", "podCliqueScalingGroups"), ("clique", "cliques")):
        items = walk_list(template, field, _TEMPLATE, findings)
        for at, content in walk_maps(items, _TEMPLATE.child(field), findings):
            yield (kind, str(content.get("name", ""))), at, content


def owners_above(owner: Owner, groups_of: Mapping[str, Sequence[str]]) -> list[Owner]:
    """Return the set, and for a clique then its scaling groups.

    `groups_of` has these by the name of a clique.
    """
    kind, name = owner
    groups = [("group", group) for group in groups_of.get(name, ())] if kind == "clique" else []
    return [] if kind == "set" else [SET, *groups]


def owner_text(owner: Owner) -> str:
    """Return `owner` for people."""
    kind, name = owner
    return {
        "set": "the PodCliqueSet",
        "group": f'scaling group "{name}"',
        "clique": f'clique "{name}"',
    }[kind]


def is_broader(domain: str, other: str, domains: Sequence[str]) -> bool:
    """Return whether `domain` is the broader one.

    Both must be in `domains`, which are listed broadest first.
    """
    return domain in domains and other in domains and domains.index(domain) < domains.index(other)


def narrowest_above(
    domain: str, above: Iterable[tuple[Owner, str]], domains: Sequence[str]
) -> tuple[Owner, str] | None:
    """Return the owner in `above` with the narrowest domain, and that domain.

    None unless it is narrower than `domain`. `domains` are listed broadest first.
    """
    narrower = [(owner, other) for owner, other in above if is_broader(domain, other, domains)]
    return max(narrower, key=lambda pair: domains.index(pair[1]), default=None)
