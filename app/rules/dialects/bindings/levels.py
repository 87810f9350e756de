"""Validate ClusterTopologyBindings.

A binding is rejected if Grove's own webhook would reject it, if it would make Grove's operator exit
or retry forever, or if a change of it would remove constraints from workloads. Sources:
https://github.com/ai-dynamo/grove/tree/fcc3b3bb/operator/internal/webhook/admission/clustertopology/validation,
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/scheduler/kai/topology.go (the
start of the operator), and the CRD of KAI's Topology (at most 16 levels, `kubernetes.io/hostname`
last).
"""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.grove.topology import HOSTNAME_KEY
from app.facts.identity import read_name
from app.facts.kai.topology import KaiTopology
from app.facts.kinds import CLUSTER_TOPOLOGY_BINDING, KAI_TOPOLOGY
from app.facts.labels import KAI_SCHEDULER
from app.objects import fields
from app.objects.fields import FieldError, FieldPath, Findings
from app.objects.shape import JsonMap, annotations_of, map_at, maps_at
from app.rules.topology.levels import TextRule, validate_levels

ALLOW_IN_USE = "grove.io/allow-topology-in-use"
"""With this annotation set to "true", a level or a binding can be removed while in use."""

MAX_KAI_LEVELS = 16
MAX_DOMAIN = 63

WITHOUT_KAI_TOPOLOGY = (
    "Grove's operator could not create the KAI Topology, would exit at its next start and block"
    " every PodCliqueSet"
)
"""The consequence of a binding from which no KAI Topology can be created."""

_DOMAIN = re.compile(r"[a-z][a-z0-9-]*")
_SPEC = FieldPath("spec")
_LEVELS = FieldPath("spec.levels")
_SHOWN = 5


def validate_binding(
    obj: JsonMap, old: JsonMap | None, kai: KaiTopology | None, users: Sequence[PodCliqueSet]
) -> tuple[Findings, list[str]]:
    """Return findings and warnings about a ClusterTopologyBinding that is written.

    `old` is the object that an UPDATE replaces, None at CREATE. `kai` is the KAI Topology with the
    same name, and `users` are the PodCliqueSets that refer to the binding. If an update does not
    change the spec, its problems are only warnings, except wrong types.
    """
    levels, findings = _validate_spec(obj)
    if levels is None:
        return findings, []

    warnings: list[str] = []
    if not _refers_to_kai(obj):
        findings += _validate_for_kai(levels)
        may_stay = old is not None and not _refers_to_kai(old)
        _validate_name(obj, kai, findings, warnings, may_stay=may_stay)

    if findings and old is not None and old.get("spec") == obj.get("spec"):
        stored = [f"already stored, so still allowed: {finding}" for finding in findings]
        return [], [*stored, *warnings]

    loss = _loss(obj, _domains(old) - _domains(obj), users)
    if loss is None:
        return findings, warnings
    if _allows_loss(obj):
        return findings, [*warnings, loss]
    return [*findings, fields.forbidden(_LEVELS, f"{loss}. {_how_to_allow(obj)}")], warnings


def _validate_spec(obj: JsonMap) -> tuple[list[Any] | None, Findings]:
    """Return the levels and the findings about the spec.

    The levels are None if the spec has the wrong shape.
    """
    spec = fields.CheckedMap(obj).child("spec")
    levels = spec.list_at("levels")
    references = spec.list_at("schedulerTopologyBindings")
    if spec.findings:
        return None, spec.findings

    findings = validate_levels(levels, _LEVELS, _DOMAIN_RULE, sys.maxsize)
    return levels, [*findings, *_validate_references(references)]


def _validate_name(
    obj: JsonMap,
    kai: KaiTopology | None,
    findings: Findings,
    warnings: list[str],
    *,
    may_stay: bool,
) -> None:
    """Add a finding if Grove can't create the KAI Topology of the binding, because `kai` exists.

    With `may_stay`, add a warning instead.
    """
    metadata = map_at(obj, "metadata")
    conflict = _name_conflict(kai, str(metadata.get("uid", "")))
    if conflict is None:
        return
    if may_stay:
        warnings.append(f"metadata.name: {conflict}")
    else:
        name = metadata.get("name", "")
        findings.append(fields.invalid(FieldPath("metadata.name"), name, conflict))


def refusal_to_delete(obj: JsonMap, users: Sequence[PodCliqueSet]) -> tuple[str | None, list[str]]:
    """Return why the binding `obj` may not be deleted (None if it may), and warnings.

    It may not be deleted if one of `users`, the PodCliqueSets that refer to it, has a constraint on
    its levels, unless the annotation ALLOW_IN_USE allows it.
    """
    loss = _loss(obj, _domains(obj), users)
    if loss is None:
        return None, []
    if _allows_loss(obj):
        return None, [loss]
    name = read_name(obj)
    text = f'ClusterTopologyBinding "{name}" cannot be deleted: {loss}. {_how_to_allow(obj)}'
    return text, []


def _loss(obj: JsonMap, domains: set[str], users: Sequence[PodCliqueSet]) -> str | None:
    """Return what Grove does if the levels `domains` are removed from the binding `obj`.

    Return None if no set in `users` has a constraint on them.
    """
    using = [pcs for pcs in users if not pcs.deleting and not pcs.levels.isdisjoint(domains)]
    if not using:
        return None
    names = fields.listed([f"{pcs.namespace}/{pcs.name}" for pcs in using], _SHOWN)
    used = sorted(set().union(*(pcs.levels & domains for pcs in using)))
    levels = ", ".join(f'"{domain}"' for domain in used)
    return (
        f"Grove {'will' if _allows_loss(obj) else 'would'} remove the constraints on {levels} from"
        f" the PodGangs of these PodCliqueSets: {names}"
    )


def _allows_loss(obj: JsonMap) -> bool:
    return annotations_of(obj).get(ALLOW_IN_USE) == "true"


def _how_to_allow(obj: JsonMap) -> str:
    return (
        "Delete these PodCliqueSets first, because Grove allows no change of their constraints, or"
        f" run: kubectl annotate --overwrite {CLUSTER_TOPOLOGY_BINDING} {read_name(obj)}"
        f" {ALLOW_IN_USE}=true"
    )


def _validate_domain(at: FieldPath, domain: str) -> FieldError | None:
    if _DOMAIN.fullmatch(domain) and len(domain) <= MAX_DOMAIN:
        return None
    text = (
        "must consist of lowercase letters, digits and '-', start with a letter, and have at most"
        f" {MAX_DOMAIN} characters"
    )
    return fields.invalid(at, domain, text)


_DOMAIN_RULE = TextRule("set a name for this level, such as rack", _validate_domain)


def _validate_references(references: Sequence[Any]) -> Findings:
    findings: Findings = []
    seen: set[str] = set()
    for position, reference in enumerate(references):
        at = _SPEC.child("schedulerTopologyBindings").index(position)
        if not isinstance(reference, dict):
            findings.append(fields.wrong_type(at, reference, "a map"))
            continue
        name = reference.get("schedulerName")
        if isinstance(name, str) and name in seen:
            findings.append(fields.duplicate(at.child("schedulerName"), name))
        elif isinstance(name, str):
            seen.add(name)
    return findings


def _validate_for_kai(levels: Sequence[Any]) -> Iterator[FieldError]:
    """Yield findings about levels that a KAI Topology cannot have.

    Grove creates the KAI Topology from the binding, and its operator exits if that fails.
    """
    if len(levels) > MAX_KAI_LEVELS:
        text = f"KAI allows at most {MAX_KAI_LEVELS} levels: {WITHOUT_KAI_TOPOLOGY}"
        yield fields.invalid(_LEVELS, len(levels), text)

    for position, level in enumerate(levels[:-1]):
        if isinstance(level, dict) and level.get("key") == HOSTNAME_KEY:
            text = f"KAI allows this key only in the last level: {WITHOUT_KAI_TOPOLOGY}"
            yield fields.invalid(_LEVELS.index(position).child("key"), HOSTNAME_KEY, text)


def _name_conflict(kai: KaiTopology | None, uid: str) -> str | None:
    """Return why Grove cannot create the KAI Topology of the binding `uid`, or None if it can.

    An existing KAI Topology is harmless if it is being deleted, or if the garbage collector will
    delete it together with an earlier binding of the same name.
    """
    if kai is None or kai.deleting:
        return None

    owner = kai.controller
    if owner is not None and uid and owner.uid == uid:
        return None
    if owner is not None and (owner.kind, owner.name) == (CLUSTER_TOPOLOGY_BINDING.kind, kai.name):
        return None

    controller = (
        f"is controlled by {owner.kind} {owner.name}" if owner is not None else "has no controller"
    )
    return (
        f'KAI Topology "{kai.name}" already exists and {controller}: Grove\'s operator would not'
        " take it over, would exit at its next start and block every PodCliqueSet. Delete that KAI"
        f" Topology (kubectl delete {KAI_TOPOLOGY} {kai.name}), give the binding another name, or"
        f" add {{schedulerName: {KAI_SCHEDULER}, topologyReference: {kai.name}}} to"
        " spec.schedulerTopologyBindings"
    )


def _refers_to_kai(obj: JsonMap) -> bool:
    """Return whether the binding names a KAI Topology.

    Grove then creates none, and only compares the levels.
    """
    references = maps_at(obj, "spec", "schedulerTopologyBindings")
    return any(reference.get("schedulerName") == KAI_SCHEDULER for reference in references)


def _domains(obj: JsonMap | None) -> set[str]:
    levels = maps_at(obj or {}, "spec", "levels")
    return {level["domain"] for level in levels if isinstance(level.get("domain"), str)}
