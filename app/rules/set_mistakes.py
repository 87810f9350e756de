"""Mistakes in a PodCliqueSet that Grove or an API server would refuse, or that nobody reads.

Grove's webhook has the same rules about minAvailable and schedulerName. Names are compared with
those that are known here, so that a misspelt one is told with the nearest. Source:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/webhook/admission/pcs/validation
"""

import difflib
from collections.abc import Collection, Iterator

from app.facts.labels import (
    KAI_QUEUE,
    KAI_SCHEDULER,
    KAI_TOPOLOGY_NAME,
    MNNVL_DEVICE_CLASS,
    MNNVL_ENABLED,
    MNNVL_GROUP,
    MNNVL_SCOPE,
    TOPOLOGY_NAME,
)
from app.facts.unit_owners import OWNER_KINDS
from app.objects.fields import FieldPath, Findings, invalid
from app.objects.shape import (
    JsonMap,
    annotations_of,
    labels_of,
    list_of,
    map_at,
    map_of,
    text_at,
)
from app.rules.workload.kai_podgroup import TOPOLOGY_REQUIRED

SCHEDULERS = (KAI_SCHEDULER, "default-scheduler", "volcano", "lpx-scheduler", "kueue")
"""The schedulers that Grove has a backend for. Its configuration may name others."""

_ABOUT_MNNVL = (MNNVL_ENABLED, MNNVL_SCOPE, MNNVL_DEVICE_CLASS, MNNVL_GROUP)
_ANNOTATIONS = (
    *_ABOUT_MNNVL,
    TOPOLOGY_NAME,
    KAI_QUEUE,
    KAI_TOPOLOGY_NAME,
    TOPOLOGY_REQUIRED,
    *(kind.together for kind in OWNER_KINDS if kind.together),
)

_CONSTRAINT = ("packDomain", "topologyName", "pack")
_PACK = ("required", "preferred")
_OF_TEMPLATE = ("topologyConstraint", "podCliqueScalingGroups", "cliques")
_OF_GROUP = ("topologyConstraint", "cliqueNames", "minAvailable", "replicas", "annotations")
_OF_CLIQUE = ("topologyConstraint", "annotations", "labels", "spec")
_OF_CLIQUE_SPEC = ("minAvailable", "replicas", "podSpec", "startsAfter", "roleName")

_ALIKE = 0.8
"""How alike a misspelt name and the right one are, of 1."""

MOST_ALIKE = 63
"""The longest name that is compared: others take too long."""

_TEMPLATE = FieldPath("spec.template")


def minimum_findings(obj: JsonMap) -> Findings:
    """Return a finding for each clique and scaling group whose minAvailable exceeds its replicas.

    Fewer replicas exist than have to be placed at once, so that none ever is.
    """
    findings: Findings = []
    template = map_at(obj, "spec", "template")
    cliques = _parts(template, "cliques")
    groups = _parts(template, "podCliqueScalingGroups")
    holders = [(at.child("spec"), map_at(clique, "spec")) for at, clique in cliques]
    for at, holder in (*holders, *groups):
        minimum = holder.get("minAvailable")
        replicas = holder.get("replicas", 1)
        if isinstance(minimum, int) and isinstance(replicas, int) and minimum > replicas:
            text = (
                f"must not be greater than replicas ({replicas}): so many pods must start together,"
                " and fewer exist. Lower minAvailable or raise replicas"
            )
            findings.append(invalid(at.child("minAvailable"), minimum, text))
    return findings


def mistake_warnings(obj: JsonMap) -> list[str]:
    """Return warnings about names in a PodCliqueSet that nobody answers to."""
    template = map_at(obj, "spec", "template")
    groups = _parts(template, "podCliqueScalingGroups")
    cliques = _parts(template, "cliques")
    specs = [(at.child("spec"), map_at(clique, "spec")) for at, clique in cliques]
    return [
        *_unknown_fields([(_TEMPLATE, template)], _OF_TEMPLATE),
        *_unknown_fields(groups, _OF_GROUP),
        *_unknown_fields(cliques, _OF_CLIQUE),
        *_unknown_fields(specs, _OF_CLIQUE_SPEC),
        *_unknown_in_constraints([(_TEMPLATE, template), *groups, *cliques]),
        *misspelt_annotations(map_at(obj, "metadata"), FieldPath("metadata")),
        *(text for at, part in (*groups, *cliques) for text in misspelt_annotations(part, at)),
        *_scheduler_warnings(specs),
    ]


Part = tuple[FieldPath, JsonMap]
"""A map in the document, and its path."""


def _parts(template: JsonMap, field: str) -> list[Part]:
    at = _TEMPLATE.child(field)
    entries = enumerate(list_of(template.get(field)))
    return [(at.index(position), map_of(entry)) for position, entry in entries]


def nearest(name: str, known: Collection[str]) -> str:
    """Return the known name that `name` was probably meant to be, "" if there is none."""
    if name in known or len(name) > MOST_ALIKE:
        return ""
    lowered = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), lowered, 1, _ALIKE)
    return lowered[found[0]] if found else ""


def _unknown_fields(parts: Collection[Part], known: Collection[str]) -> Iterator[str]:
    """Yield warnings about fields that are nearly those that rules read.

    Other unknown fields may be those of a later release of Grove.
    """
    for at, part in parts:
        for field in part:
            meant = nearest(field, known)
            if meant:
                yield _unknown(at, field, meant)


def _unknown_in_constraints(parts: Collection[Part]) -> Iterator[str]:
    for at, part in parts:
        constraint = map_at(part, "topologyConstraint")
        path = at.child("topologyConstraint")
        for field in constraint.keys() - set(_CONSTRAINT):
            yield _unknown(path, field, nearest(field, _CONSTRAINT))
        for field in map_at(constraint, "pack").keys() - set(_PACK):
            yield _unknown(path.child("pack"), field, nearest(field, _PACK))


def _unknown(at: FieldPath, field: str, meant: str) -> str:
    question = f". Did you mean {meant}?" if meant else ""
    return (
        f"{at.child(field)}: unknown field. An API server drops it, so it has no effect{question}"
    )


def misspelt_annotations(metadata: JsonMap, at: FieldPath) -> Iterator[str]:
    """Yield warnings about annotations that are nearly those that are read, or that are labels."""
    holder = {"metadata": metadata}
    for key in annotations_of(holder):
        meant = nearest(key, _ANNOTATIONS)
        if meant:
            yield (
                f"{at.child('annotations').key(key)}: no component reads this annotation. Did you"
                f" mean {meant}?"
            )
    for key in labels_of(holder).keys() & set(_ABOUT_MNNVL):
        yield (
            f"{at.child('labels').key(key)}: a label of this name has no effect: write it as an"
            " annotation"
        )


# Schedulers.


def _scheduler_warnings(specs: Collection[Part]) -> Iterator[str]:
    named = {
        text_at(map_at(spec, "podSpec"), "schedulerName"): at.child("podSpec.schedulerName")
        for at, spec in reversed(list(specs))
    }
    named.pop("", None)
    for name in sorted(named.keys() - set(SCHEDULERS)):
        yield unknown_scheduler(name, named[name])
    if len(named) > 1:
        yield (
            f"the cliques name several schedulers ({', '.join(sorted(named))}): Grove refuses a"
            " PodCliqueSet whose pods have different ones"
        )


def unknown_scheduler(name: str, at: FieldPath) -> str:
    """Return the warning about a scheduler that nothing known here answers to."""
    meant = nearest(name, SCHEDULERS)
    question = f" Did you mean {meant}?" if meant else ""
    return (
        f'{at}: no scheduler is known that answers to "{name}". Unless one runs in this cluster,'
        f" these pods are never placed.{question}"
    )
