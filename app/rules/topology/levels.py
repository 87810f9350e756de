"""Topology domains, the levels of a ClusterTopology and their validation.

Source: `rules/README.md`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.objects.fields import (
    FieldError,
    FieldPath,
    as_map,
    duplicate,
    invalid,
    not_supported,
    required,
    walk_list,
    walk_map,
    wrong_type,
)
from app.objects.names import label_key_problem

DOMAINS = ("region", "zone", "datacenter", "block", "rack", "host", "numa")
"""Broadest first: the semantic order."""

MAX_LEVELS = 7
MAX_KEY = 63
HOSTNAME_KEY = "kubernetes.io/hostname"

_RANK = {domain: rank for rank, domain in enumerate(DOMAINS)}


@dataclass(frozen=True, slots=True)
class Level:
    domain: str
    key: str


@dataclass(frozen=True, slots=True)
class Topology:
    """The managed ClusterTopology, as the rules see it: `levels` broadest first. Not `enabled` means that topology
    support is switched off in the configuration; enabled without levels, that the object isn't there (yet)."""

    name: str
    enabled: bool
    levels: tuple[Level, ...] = ()

    def key_of(self, domain: str) -> str | None:
        return next((level.key for level in self.levels if level.domain == domain), None)

    @property
    def strictest_key(self) -> str | None:
        return self.levels[-1].key if self.levels else None

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(level.key for level in self.levels)


def rank(domain: str) -> int:
    """The place of `domain` in the semantic order: 0 for region, the broadest. KeyError for an unknown one."""
    return _RANK[domain]


def broadest_first(levels: Iterable[Level]) -> tuple[Level, ...]:
    return tuple(sorted(levels, key=lambda level: _RANK[level.domain]))


def desired_levels(levels: Iterable[Level]) -> list[dict[str, str]]:
    """`spec.levels` of a ClusterTopology."""
    return [{"domain": level.domain, "key": level.key} for level in levels]


def read_levels(spec_levels: Any) -> tuple[Level, ...]:
    """The usable levels of a stored ClusterTopology's `spec.levels`, broadest first; what the CRD doesn't allow is
    left out."""
    if not isinstance(spec_levels, list):
        return ()
    found = {
        item["domain"]: Level(item["domain"], item["key"])
        for item in spec_levels
        if isinstance(item, dict)
        and isinstance(item.get("domain"), str)
        and item["domain"] in _RANK
        and isinstance(item.get("key"), str)
    }
    return broadest_first(found.values())


def validate_cluster_topology(obj: Mapping[str, Any]) -> list[FieldError]:
    """Findings about a ClusterTopology: domains of the seven and unique, keys qualified label names and unique. Any
    order of levels is valid. Not checked here: who may write it (`authorization`)."""
    findings: list[FieldError] = []
    root = FieldPath("")
    spec = walk_map(obj, "spec", root, findings)
    levels = walk_list(spec, "levels", root.child("spec"), findings)
    if not findings:
        findings = validate_levels(levels, root.child("spec", "levels"))
    return findings


def validate_levels(levels: Sequence[Any], path: FieldPath) -> list[FieldError]:
    """Findings about a list of `{domain, key}`; `path` is where it stands."""
    findings: list[FieldError] = []
    if not levels:
        return [required(path, "at least one level is needed, such as {domain: host, key: kubernetes.io/hostname}")]
    if len(levels) > MAX_LEVELS:
        findings.append(invalid(path, len(levels), f"must have at most {MAX_LEVELS} levels"))
    seen: dict[str, set[str]] = {"domain": set(), "key": set()}
    for position, item in enumerate(levels):
        at = path.index(position)
        level = as_map(item, at, findings)
        if level is not None:
            _validate_domain(level, at.child("domain"), seen["domain"], findings)
            validate_key(level, at.child("key"), seen["key"], findings)
    return findings


def _validate_domain(level: dict[str, Any], at: FieldPath, seen: set[str], findings: list[FieldError]) -> None:
    domain = level.get("domain")
    if domain is None or domain == "":
        findings.append(required(at, f"one of {', '.join(DOMAINS)}"))
    elif not isinstance(domain, str):
        findings.append(wrong_type(at, domain, "a string"))
    elif domain not in _RANK:
        findings.append(not_supported(at, domain, DOMAINS))
    elif domain in seen:
        findings.append(duplicate(at, domain))
    else:
        seen.add(domain)


def validate_key(level: dict[str, Any], at: FieldPath, seen: set[str], findings: list[FieldError]) -> None:
    """Adds what is wrong with the key of `level` to `findings`, and a key that is right to `seen`."""
    key = level.get("key")
    if key is None or key == "":
        findings.append(required(at, "the node label that holds this level, such as topology.kubernetes.io/rack"))
    elif not isinstance(key, str):
        findings.append(wrong_type(at, key, "a string"))
    elif len(key) > MAX_KEY:
        findings.append(invalid(at, key, f"must be no more than {MAX_KEY} characters"))
    elif (problem := label_key_problem(key)) is not None:
        findings.append(invalid(at, key, problem))
    elif key in seen:
        findings.append(duplicate(at, key))
    else:
        seen.add(key)
