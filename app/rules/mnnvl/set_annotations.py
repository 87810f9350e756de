"""Validation of our MNNVL annotations in a PodCliqueSet. Its PodCliques inherit them, and would be rejected one by one.

Grove's own annotation is validated in `grove_groups`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from app.objects.fields import FieldError, invalid, not_supported
from app.rules.labels import MNNVL_DEVICE_CLASS, MNNVL_SCOPE
from app.rules.mnnvl.plan import DEFAULT_DEVICE_CLASS, SCOPES, is_device_class
from app.rules.mnnvl.template import CliqueTemplate, Layer, Template, read_template


def validate_annotations(template: Template, old: Mapping[str, Any] | None) -> tuple[list[FieldError], list[str]]:
    """Returns findings and warnings about the scopes and DeviceClasses that count
    for cliques with GPUs for which MNNVL is enabled. `old` is the object that an
    UPDATE replaces, None at CREATE. Findings that `old` has too are warnings."""
    findings = list(_findings(template))
    if not findings or old is None:
        return findings, []
    stored = {str(finding) for finding in _findings(read_template(old, template.namespace))}
    remaining = [str(finding) for finding in findings if str(finding) in stored]
    return [finding for finding in findings if str(finding) not in stored], [
        f"stored before, and allowed to stay: {text}" for text in remaining
    ]


def _findings(template: Template) -> Iterator[FieldError]:
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
