"""Validation of ClusterTopologyBindings: what Grove's own webhook checks, what makes Grove's operator exit or retry for
ever, and what takes constraints away from workloads.

Sources: https://github.com/ai-dynamo/grove/tree/fcc3b3bb/operator/internal/webhook/admission/clustertopology/validation,
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/scheduler/kai/topology.go (what the operator does at
its start), and the CRD of KAI's Topology (at most 16 levels, `kubernetes.io/hostname` last).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.objects.fields import (
    FieldError,
    FieldPath,
    as_map,
    duplicate,
    forbidden,
    invalid,
    required,
    walk_list,
    walk_map,
    wrong_type,
)
from app.objects.metadata import annotations_of
from app.rules.kinds import CLUSTER_TOPOLOGY_BINDING
from app.rules.podcliqueset import PodCliqueSet
from app.rules.topology.kai import level_labels
from app.rules.topology.levels import HOSTNAME_KEY, validate_key

ALLOW_IN_USE = "grove.io/allow-topology-in-use"
"""The annotation, "true", with which a level or a binding may be removed while PodCliqueSets use it."""

KAI_SCHEDULER = "kai-scheduler"
MAX_KAI_LEVELS = 16
MAX_DOMAIN = 63

_DOMAIN = re.compile(r"[a-z][a-z0-9-]*")
_SPEC = FieldPath("spec")
_LEVELS = FieldPath("spec.levels")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class KaiTopology:
    """A stored KAI Topology: `keys` are its node labels, broadest first; the controller's fields are "" without one."""

    name: str
    keys: tuple[str, ...] = ()
    deleting: bool = False
    controller_kind: str = ""
    controller_name: str = ""
    controller_uid: str = ""


def read_kai_topology(obj: Mapping[str, Any]) -> KaiTopology:
    """Reads a stored KAI Topology. Aliases of levels are people's, and are left out."""
    metadata = obj["metadata"]
    references = [ref for ref in metadata.get("ownerReferences") or [] if isinstance(ref, dict)]
    controller = next((ref for ref in references if ref.get("controller") is True), {})
    return KaiTopology(
        str(metadata.get("name", "")),
        level_labels(obj),
        metadata.get("deletionTimestamp") is not None,
        str(controller.get("kind", "")),
        str(controller.get("name", "")),
        str(controller.get("uid", "")),
    )


def validate_binding(
    obj: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    kai: KaiTopology | None,
    users: Sequence[PodCliqueSet],
) -> tuple[list[FieldError], list[str]]:
    """Findings and warnings about a ClusterTopologyBinding that is written. `old` is what an UPDATE replaces, None at
    CREATE; `kai` the KAI Topology of the same name; `users` the PodCliqueSets that refer to the binding.

    What an update leaves as it was is only warned about.
    """
    findings: list[FieldError] = []
    spec = walk_map(obj, "spec", FieldPath(""), findings)
    levels = walk_list(spec, "levels", _SPEC, findings)
    references = walk_list(spec, "schedulerTopologyBindings", _SPEC, findings)
    if findings:
        return findings, []
    findings = [*_validate_levels(levels), *_validate_references(references)]
    warnings: list[str] = []
    if not _refers_to_kai(references):
        findings += _validate_for_kai(levels)
        taken = _taken_by(kai, str(obj["metadata"].get("uid", "")))
        if taken is not None and (old is None or _refers_to_kai(_references(old))):
            findings.append(invalid(FieldPath("metadata.name"), obj["metadata"].get("name", ""), taken))
        elif taken is not None:
            warnings.append(f"metadata.name: {taken}")
    if findings and old is not None and old.get("spec") == obj.get("spec"):
        return [], [*(f"stored before, and allowed to stay: {finding}" for finding in findings), *warnings]
    removed = _domains(_spec_levels(old)) - _domains(levels)
    refusal = in_use(removed, users)
    if refusal is not None and is_allowed_in_use(obj):
        warnings.append(refusal)
    elif refusal is not None:
        findings.append(forbidden(_LEVELS, f"{refusal}. {_how_to_allow()}"))
    return findings, warnings


def refusal_to_delete(obj: Mapping[str, Any], users: Sequence[PodCliqueSet]) -> tuple[str | None, list[str]]:
    """(the reason why the binding `obj` may not be deleted, warnings): PodCliqueSets use it."""
    text = in_use(_domains(_spec_levels(obj)), users)
    if text is None:
        return None, []
    if is_allowed_in_use(obj):
        return None, [text]
    name = obj["metadata"].get("name", "")
    return f'ClusterTopologyBinding "{name}" cannot be deleted: {text}. {_how_to_allow()}', []


def in_use(domains: set[str], users: Sequence[PodCliqueSet]) -> str | None:
    """What would happen to the sets of `users` if the levels `domains` went; None if no set uses one of them."""
    using = [pcs for pcs in users if not pcs.deleting and not pcs.levels.isdisjoint(domains)]
    if not using:
        return None
    named = ", ".join(f"{pcs.namespace}/{pcs.name}" for pcs in using[:_SHOWN])
    rest = f" and {len(using) - _SHOWN} more" if len(using) > _SHOWN else ""
    used = sorted(set().union(*(pcs.levels & domains for pcs in using)))
    levels = ", ".join(f'"{domain}"' for domain in used)
    return f"the constraints on {levels} would vanish from the PodGangs of PodCliqueSets {named}{rest}"


def is_allowed_in_use(obj: Mapping[str, Any]) -> bool:
    return annotations_of(obj).get(ALLOW_IN_USE) == "true"


def _how_to_allow() -> str:
    return f'Change these first, or annotate the binding with {ALLOW_IN_USE}: "true"'


def _validate_levels(levels: Sequence[Any]) -> list[FieldError]:
    findings: list[FieldError] = []
    if not levels:
        return [required(_LEVELS, "at least one level is needed, such as {domain: host, key: kubernetes.io/hostname}")]
    domains: set[str] = set()
    keys: set[str] = set()
    for position, item in enumerate(levels):
        at = _LEVELS.index(position)
        level = as_map(item, at, findings)
        if level is not None:
            _validate_domain(level, at.child("domain"), domains, findings)
            validate_key(level, at.child("key"), keys, findings)
    return findings


def _validate_domain(level: dict[str, Any], at: FieldPath, seen: set[str], findings: list[FieldError]) -> None:
    domain = level.get("domain")
    if domain is None or domain == "":
        findings.append(required(at, "a name for this level, such as rack"))
    elif not isinstance(domain, str):
        findings.append(wrong_type(at, domain, "a string"))
    elif not _DOMAIN.fullmatch(domain) or len(domain) > MAX_DOMAIN:
        text = (
            f"must be lowercase letters, digits and '-', begin with a letter, and have at most {MAX_DOMAIN} characters"
        )
        findings.append(invalid(at, domain, text))
    elif domain in seen:
        findings.append(duplicate(at, domain))
    else:
        seen.add(domain)


def _validate_references(references: Sequence[Any]) -> list[FieldError]:
    findings: list[FieldError] = []
    seen: set[str] = set()
    for position, item in enumerate(references):
        at = _SPEC.child("schedulerTopologyBindings").index(position)
        reference = as_map(item, at, findings)
        name = reference.get("schedulerName") if reference is not None else None
        if isinstance(name, str) and name in seen:
            findings.append(duplicate(at.child("schedulerName"), name))
        elif isinstance(name, str):
            seen.add(name)
    return findings


def _validate_for_kai(levels: Sequence[Any]) -> list[FieldError]:
    """What KAI's Topology doesn't take. Grove makes it from the levels, and its operator exits if it can't."""
    findings: list[FieldError] = []
    exits = (
        "Grove's operator could not make the KAI Topology, would exit at its next start and block every PodCliqueSet"
    )
    if len(levels) > MAX_KAI_LEVELS:
        findings.append(invalid(_LEVELS, len(levels), f"KAI allows at most {MAX_KAI_LEVELS} levels: {exits}"))
    for position, level in enumerate(levels[:-1]):
        if isinstance(level, dict) and level.get("key") == HOSTNAME_KEY:
            text = f"KAI allows this key only at the last level: {exits}"
            findings.append(invalid(_LEVELS.index(position).child("key"), HOSTNAME_KEY, text))
    return findings


def _taken_by(kai: KaiTopology | None, uid: str) -> str | None:
    """Why Grove can't make the KAI Topology of the binding `uid`; None if it can. One that is being deleted, or that
    the garbage collector will delete with its former binding, is no obstacle."""
    if kai is None or kai.deleting or (uid and kai.controller_uid == uid):
        return None
    former = CLUSTER_TOPOLOGY_BINDING.kind
    if (kai.controller_kind, kai.controller_name) == (former, kai.name):
        return None
    owner = f"{kai.controller_kind} {kai.controller_name}" if kai.controller_kind else "nobody"
    return (
        f'KAI Topology "{kai.name}" exists and is controlled by {owner}: Grove\'s operator would not take it over, '
        f"would exit at its next start and block every PodCliqueSet. Delete it first, use another name, or refer to it "
        f"in spec.schedulerTopologyBindings"
    )


def _references(obj: Mapping[str, Any]) -> list[Any]:
    spec = obj.get("spec")
    references = spec.get("schedulerTopologyBindings") if isinstance(spec, dict) else None
    return references if isinstance(references, list) else []


def _refers_to_kai(references: Sequence[Any]) -> bool:
    """Whether the KAI Topology is somebody else's, which Grove then only compares."""
    return any(isinstance(ref, dict) and ref.get("schedulerName") == KAI_SCHEDULER for ref in references)


def _spec_levels(obj: Mapping[str, Any] | None) -> list[Any]:
    spec = (obj or {}).get("spec")
    levels = spec.get("levels") if isinstance(spec, dict) else None
    return levels if isinstance(levels, list) else []


def _domains(levels: Sequence[Any]) -> set[str]:
    return {level["domain"] for level in levels if isinstance(level, dict) and isinstance(level.get("domain"), str)}
