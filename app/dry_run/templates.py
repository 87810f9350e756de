"""What Pods of a workload would get, from the Pod templates in its document.

No controller has made these Pods: they get the labels that it would write, with index 0.
"""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from app.admission.verdict import Effect, Verdict, judged, patched
from app.facts.carrier import Carrier, read_pod
from app.facts.kinds import COMPUTE_DOMAIN
from app.facts.labels import MNNVL_ENABLED
from app.facts.unit_owners import OWNER_KINDS, OwnerKind
from app.kube.api import Object
from app.objects.fields import FieldPath, Findings
from app.objects.resource import Resource
from app.objects.shape import annotations_of, map_at, text_at
from app.rules.mnnvl.claim import inject
from app.rules.mnnvl.plan import desired_resource
from app.rules.mnnvl.wanted import CliqueFacts
from app.rules.topology.families import NVLINK_DOMAIN
from app.rules.workload.kai_podgroup import TOPOLOGY_REQUIRED

KEPT_TOGETHER = (
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    TOPOLOGY_REQUIRED,
)
"""The annotations of workloads that keep their Pods within a level of a topology."""

_LOOSE = (
    "nothing keeps the Pods that share a ComputeDomain within one NVLink domain (node label"
    f" {NVLINK_DOMAIN}): pods in different domains have no NVLink between them"
)


def judge_templates(workload: Object, resource: Resource) -> Verdict | None:
    """Return the verdict on the Pods of a workload.

    None if it is no such workload, or if nothing in it asks for MNNVL.
    """
    kind = next((kind for kind in OWNER_KINDS if resource in kind.resources), None)
    if kind is None:
        return None

    findings: Findings = []
    warnings = list(_warnings_of(workload))

    effects: dict[str, Effect] = {}
    for path, pod in _pods(workload, kind):
        injection = inject(pod, None, CliqueFacts(), "template")
        findings += (replace(found, field=f"{path}.{found.field}") for found in injection.findings)
        warnings += injection.warnings
        if injection.plan is not None:
            domain = desired_resource(injection.plan, COMPUTE_DOMAIN, COMPUTE_DOMAIN.versions[0])
            effects[injection.plan.compute_domain] = Effect("create", domain)

    if effects:
        warnings += _looseness(workload)
    if findings:
        return judged(findings, warnings)
    told = [*warnings, *effects]
    return patched([], warnings=warnings, effects=[*effects.values()]) if told else None


def _warnings_of(workload: Object) -> Iterator[str]:
    if MNNVL_ENABLED in annotations_of(workload):
        yield (
            f"{MNNVL_ENABLED} has no effect in the metadata of a {workload['kind']}, because no"
            " controller copies it to Pods: write it into the metadata of their templates"
        )


def _looseness(workload: Object) -> Iterator[str]:
    if annotations_of(workload).keys().isdisjoint(KEPT_TOGETHER):
        yield f"{_LOOSE}. Annotate the {workload['kind']} with {' or '.join(KEPT_TOGETHER)}"


def _pods(workload: Object, kind: OwnerKind) -> Iterator[tuple[FieldPath, Carrier]]:
    """Yield a Pod of each template, with the path of the template."""
    of_workload = map_at(workload, "metadata")
    namespace = text_at(of_workload, "namespace") or "default"
    for path, part, template in _templates(workload, FieldPath(""), ""):
        labels = {key: "0" if key.endswith("-index") else part for key in kind.keys}
        labels[kind.key] = text_at(of_workload, "name")
        metadata = {"annotations": annotations_of(template), "labels": labels, "name": part}
        yield path, read_pod({**template, "metadata": metadata}, namespace)


def _templates(value: Any, path: FieldPath, part: str) -> Iterator[tuple[FieldPath, str, Object]]:
    """Yield the Pod templates in a part of a workload, with their path and the name of the part."""
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _templates(item, path.index(position), part)
    elif isinstance(value, dict) and "containers" in map_at(value, "spec"):
        yield path, part, value
    elif isinstance(value, dict):
        part = text_at(value, "groupName") or text_at(value, "name") or part
        for key, item in value.items():
            yield from _templates(item, path.child(key), part)
