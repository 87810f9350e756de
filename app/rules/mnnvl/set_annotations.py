"""Validation of the MNNVL annotations of a PodCliqueSet, in both vocabularies. Its PodCliques inherit
them, and would be rejected one by one. `grove_groups` has the findings about Grove's own annotation."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.objects.fields import FieldError, invalid, not_supported
from app.rules.labels import MNNVL_DEVICE_CLASS, MNNVL_SCOPE
from app.rules.mnnvl.grove_groups import group_findings
from app.rules.mnnvl.plan import DEFAULT_DEVICE_CLASS, SCOPES, is_device_class
from app.rules.mnnvl.template import CliqueTemplate, Layer, Template, read_template
from app.rules.podcliqueset import PodCliqueSet


def validate_annotations(
    template: Template, old: Mapping[str, Any] | None, others: Sequence[PodCliqueSet] | None
) -> tuple[list[FieldError], list[str]]:
    """Returns findings and warnings about the MNNVL annotations of a PodCliqueSet. `old` is the object
    that an UPDATE replaces, None at CREATE. `others` are the stored sets of its namespace, or None if
    Grove does not read its own annotation. Findings that `old` has too are warnings."""
    findings = _findings(template, others)
    stored = {str(finding) for finding in _findings(read_template(old), others)} if findings and old else set()
    return (
        [finding for finding in findings if str(finding) not in stored],
        [f"stored before, and allowed to stay: {finding}" for finding in findings if str(finding) in stored],
    )


def _findings(template: Template, others: Sequence[PodCliqueSet] | None) -> list[FieldError]:
    return [*_value_findings(template), *([] if others is None else group_findings(template, others))]


def _value_findings(template: Template) -> Iterator[FieldError]:
    """Yields findings about the scopes and DeviceClasses that count for cliques with
    GPUs for which MNNVL is enabled, each once."""
    reported: set[tuple[int, str]] = set()
    for clique in template.cliques:
        for key, problem_of in ((MNNVL_SCOPE, _scope_problem), (MNNVL_DEVICE_CLASS, _device_class_problem)):
            layer = next((layer for layer in clique.layers if key in layer.annotations), None)
            if layer is None or clique.enabling is None or not clique.gpus or (id(layer), key) in reported:
                continue
            problem = problem_of(layer, clique)
            if problem is not None:
                reported.add((id(layer), key))
                yield problem


def _scope_problem(layer: Layer, clique: CliqueTemplate) -> FieldError | None:
    scope, path = layer.annotations.get(MNNVL_SCOPE) or "replica", layer.path.key(MNNVL_SCOPE)
    if scope not in SCOPES:
        return not_supported(path, scope, SCOPES)
    if scope == "scalingGroupReplica" and not clique.group:
        return invalid(path, scope, f'clique "{clique.name}" is in no scaling group; give it another scope')
    return None


def _device_class_problem(layer: Layer, clique: CliqueTemplate) -> FieldError | None:
    device_class = layer.annotations.get(MNNVL_DEVICE_CLASS) or DEFAULT_DEVICE_CLASS
    if is_device_class(device_class):
        return None
    text = f"must be the name of a DeviceClass, such as {DEFAULT_DEVICE_CLASS}"
    return invalid(layer.path.key(MNNVL_DEVICE_CLASS), device_class, text)
