"""Find mistakes in a PodCliqueSet that Grove would reject, or that silently have no effect.

Grove's webhook has the same rules about minAvailable and schedulerName. Annotations are compared
with the known ones, and a warning about a misspelt annotation suggests the nearest known one.
Source:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/webhook/admission/pcs/validation
"""

from collections.abc import Iterator

from app.base.spelling import Comparisons, nearest
from app.facts.grove.template import CliqueTemplate, Template
from app.facts.labels import (
    KAI_QUEUE,
    KAI_SCHEDULER,
    KAI_TOPOLOGY_NAME,
    KUEUE,
    MNNVL_DEVICE_CLASS,
    MNNVL_ENABLED,
    MNNVL_GROUP,
    MNNVL_SCOPE,
    TOPOLOGY_NAME,
)
from app.facts.unit_owners import OWNER_KINDS
from app.objects.fields import FieldError, FieldPath, Findings, invalid
from app.objects.shape import JsonMap
from app.rules.workload.kai_podgroup import TOPOLOGY_REQUIRED

SCHEDULERS = (KAI_SCHEDULER, "default-scheduler", "volcano", "lpx-scheduler", KUEUE)
"""The schedulers for which Grove has a backend. Its configuration may name others."""

_ABOUT_MNNVL = (MNNVL_ENABLED, MNNVL_SCOPE, MNNVL_DEVICE_CLASS, MNNVL_GROUP)
_ANNOTATIONS = (
    *_ABOUT_MNNVL,
    TOPOLOGY_NAME,
    KAI_QUEUE,
    KAI_TOPOLOGY_NAME,
    TOPOLOGY_REQUIRED,
    *(kind.together for kind in OWNER_KINDS if kind.together),
)


def minimum_findings(template: Template, *, is_stored: bool = False) -> Findings:
    """Return a finding for each clique and scaling group whose minAvailable exceeds its replicas.

    If there are fewer replicas than must be placed together, none is ever placed. Grove does not
    allow a change of minAvailable in a stored set (`is_stored`).
    """
    remedy = "Raise replicas" if is_stored else "Lower minAvailable or raise replicas"
    cliques = [
        _minimum(clique.parts[0].path.child("spec"), clique.min_available, clique.pods, remedy)
        for clique in template.cliques
        if clique.min_available > clique.pods
    ]
    groups = [
        _minimum(group.part.path, group.min_available, group.replicas, remedy)
        for group in template.groups
        if group.min_available > group.replicas
    ]
    return [*cliques, *groups]


def _minimum(at: FieldPath, minimum: int, replicas: int, remedy: str) -> FieldError:
    return invalid(
        at.child("minAvailable"),
        minimum,
        f"must not be greater than replicas ({replicas}), because fewer than minAvailable replicas"
        f" are never scheduled. {remedy}",
    )


def mistake_warnings(template: Template) -> list[str]:
    """Return warnings about misspelt annotations, misplaced labels and schedulers."""
    warnings: list[str] = []
    names = Comparisons()
    for part in template.parts:
        if part.all_annotations or part.labels:
            warnings += misspelt_annotations(
                part.all_annotations, part.labels, part.metadata_path, names
            )
    return warnings + _scheduler_warnings(template)


def misspelt_annotations(
    annotations: JsonMap, labels: JsonMap, at: FieldPath, names: Comparisons
) -> Iterator[str]:
    """Yield warnings about misspelt annotations, and about labels that must be annotations.

    `at` is the path of the object that has both.
    """
    for key in sorted(annotations):
        if key not in _ANNOTATIONS and (meant := names.nearest(key, _ANNOTATIONS)):
            yield (
                f"{at.child('annotations').key(key)}: unknown annotation, probably misspelt. Did"
                f" you mean {meant}?"
            )
    for key in sorted(labels):
        if key in _ABOUT_MNNVL:
            yield f"{at.child('labels').key(key)}: has no effect as a label. Make it an annotation"


def _scheduler_warnings(template: Template) -> list[str]:
    schedulers: dict[str, CliqueTemplate] = {}
    for clique in template.cliques:
        if clique.scheduler:
            schedulers.setdefault(clique.scheduler, clique)
    if not schedulers:
        return []
    warnings = [
        unknown_scheduler(name, clique.parts[0].path.child("spec.podSpec.schedulerName"))
        for name, clique in sorted(schedulers.items())
        if name not in SCHEDULERS
    ]
    if len(schedulers) > 1:
        warnings.append(
            f"the cliques use several schedulers ({', '.join(sorted(schedulers))}): Grove rejects a"
            " PodCliqueSet with more than one. Use one schedulerName"
        )
    return warnings


def unknown_scheduler(name: str, at: FieldPath) -> str:
    """Return the warning that Grove does not know the scheduler `name` in the field `at`."""
    meant = nearest(name, SCHEDULERS)
    question = f" Did you mean {meant}?" if meant else ""
    return (
        f'{at}: unknown scheduler "{name}". These pods are never scheduled unless a scheduler with'
        f" this name runs in the cluster.{question}"
    )
