"""Mistakes in a PodCliqueSet that Grove would reject, or that have no effect without an error.

Grove's webhook has the same rules about minAvailable and schedulerName. Names are compared with the
known ones, and a warning about a misspelt name suggests the nearest. Source:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/webhook/admission/pcs/validation
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from app.base.value import Value
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
    list_of,
    map_at,
    map_of,
    text_at,
)
from app.rules.workload.kai_podgroup import TOPOLOGY_REQUIRED

SCHEDULERS = (KAI_SCHEDULER, "default-scheduler", "volcano", "lpx-scheduler", "kueue")
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

_NO_LABELS = frozenset(_ABOUT_MNNVL)
_KNOWN_SCHEDULERS = frozenset(SCHEDULERS)

_CONSTRAINT = ("packDomain", "topologyName", "pack")
_PACK = ("required", "preferred")
_CONSTRAINT_FIELDS = frozenset(_CONSTRAINT)
_PACK_FIELDS = frozenset(_PACK)
_OF_TEMPLATE = ("topologyConstraint", "podCliqueScalingGroups", "cliques")
_OF_GROUP = ("topologyConstraint", "cliqueNames", "minAvailable", "replicas", "annotations")
_OF_CLIQUE = ("topologyConstraint", "annotations", "labels", "spec")
_OF_CLIQUE_SPEC = ("minAvailable", "replicas", "podSpec", "startsAfter", "roleName")

_ALIKE = 0.8
"""The least similarity, from 0 to 1, of a misspelt name to the suggested one."""

MOST_ALIKE = 63
"""The longest name that is compared, because longer ones take too long."""

MOST_COMPARED = 100
"""The most different unknown names that are compared for one object.

A comparison takes up to 0.1 ms, and an object of 1.5 MB has 40,000 annotations.
"""

_TEMPLATE = FieldPath("spec.template")


class Comparisons:
    """The unknown names of one object, of which the first ones are compared with known names."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def nearest(self, name: str, known: tuple[str, ...]) -> str:
        """Return what `nearest` does, but "" after MOST_COMPARED other names."""
        if len(self._seen) >= MOST_COMPARED and name not in self._seen:
            return ""
        self._seen.add(name)
        return nearest(name, known)


class _Part(Value):
    """A map in the template of a PodCliqueSet."""

    content: JsonMap
    of: str = ""
    """The list in the template that has the map, or "" for the template itself."""
    position: int | None = None
    """The index of the entry in that list."""
    field: str = ""
    """The field of the entry that is the map, or "" for the entry itself."""

    def at(self, *names: str) -> FieldPath:
        """Return the path of a field of this map. It is built only for a finding."""
        path = _TEMPLATE
        if self.position is not None:
            path = path.child(self.of).index(self.position)
        for name in filter(None, (self.field, *names)):
            path = path.child(name)
        return path


def minimum_findings(obj: JsonMap) -> Findings:
    """Return a finding for each clique and scaling group whose minAvailable exceeds its replicas.

    Then fewer replicas exist than must be placed together, so none is ever placed.
    """
    template = map_at(obj, "spec", "template")
    cliques = list_of(template.get("cliques"))
    groups = list_of(template.get("podCliqueScalingGroups"))
    # most sets have none, and paths are built only for a finding
    if not any(map(_exceeds, (*(map_at(map_of(clique), "spec") for clique in cliques), *groups))):
        return []
    return [
        invalid(
            part.at("minAvailable"),
            part.content["minAvailable"],
            f"must not be greater than replicas ({part.content.get('replicas', 1)}), because that"
            " many must start together. Lower minAvailable or raise replicas",
        )
        for part in (
            *_specs(_parts(template, "cliques")),
            *_parts(template, "podCliqueScalingGroups"),
        )
        if _exceeds(part.content)
    ]


def _exceeds(part: Any) -> bool:
    """Return whether minAvailable of a clique's spec or a scaling group exceeds its replicas."""
    content = map_of(part)
    minimum = content.get("minAvailable")
    replicas = content.get("replicas", 1)
    return isinstance(minimum, int) and isinstance(replicas, int) and minimum > replicas


def mistake_warnings(obj: JsonMap) -> list[str]:
    """Return warnings about unknown fields, annotations and schedulers in a PodCliqueSet."""
    if _has_usual_names(obj):
        return []
    template = map_at(obj, "spec", "template")
    whole = _Part(template)
    groups = _parts(template, "podCliqueScalingGroups")
    cliques = _parts(template, "cliques")
    specs = _specs(cliques)
    names = Comparisons()
    return [
        *_unknown_fields([whole], _OF_TEMPLATE, names),
        *_unknown_fields(groups, _OF_GROUP, names),
        *_unknown_fields(cliques, _OF_CLIQUE, names),
        *_unknown_fields(specs, _OF_CLIQUE_SPEC, names),
        *_unknown_in_constraints([whole, *groups, *cliques], names),
        *misspelt_annotations(map_at(obj, "metadata"), FieldPath("metadata"), names),
        *(
            text
            for part in (*groups, *cliques)
            if "annotations" in part.content or "labels" in part.content
            for text in misspelt_annotations(part.content, part.at(), names)
        ),
        *_scheduler_warnings(specs),
    ]


# The names that most sets use. Looking for mistakes takes longer than all other rules together (50
# of 86 us), so a set with only these names is not searched.

_USUAL_IN_TEMPLATE = frozenset(
    {*_OF_TEMPLATE, "cliqueStartupType", "headlessServiceConfig", "terminationDelay"}
    | {"priorityClassName"}
)
_USUAL_IN_GROUP = frozenset({*_OF_GROUP, "name", "scaleConfig"})
_USUAL_IN_CLIQUE = frozenset({*_OF_CLIQUE, "name"})
_USUAL_IN_SPEC = frozenset({*_OF_CLIQUE_SPEC, "autoScalingConfig", "scaleConfig"})
_USUAL_ANNOTATIONS = frozenset({*_ANNOTATIONS, "kubectl.kubernetes.io/last-applied-configuration"})


def _has_usual_names(obj: JsonMap) -> bool:
    """Return whether all names are known, so that there is no mistake."""
    try:
        template = obj["spec"]["template"]
        cliques = template.get("cliques") or ()
        groups = template.get("podCliqueScalingGroups") or ()
        schedulers = {clique["spec"]["podSpec"].get("schedulerName") for clique in cliques}
        return (
            template.keys() <= _USUAL_IN_TEMPLATE
            and all(group.keys() <= _USUAL_IN_GROUP for group in groups)
            and all(
                clique.keys() <= _USUAL_IN_CLIQUE and clique["spec"].keys() <= _USUAL_IN_SPEC
                for clique in cliques
            )
            and len(schedulers) < 2
            and schedulers <= _NO_OR_KNOWN_SCHEDULER
            and all(map(_is_usual, (obj["metadata"], template, *groups, *cliques)))
        )
    except (AttributeError, KeyError, TypeError):
        return False  # it does not match the CRD


def _is_usual(holder: JsonMap) -> bool:
    """Return whether the constraint, annotations and labels of a part have usual names."""
    constraint = holder.get("topologyConstraint") or _EMPTY
    return (
        constraint.keys() <= _CONSTRAINT_FIELDS
        and (constraint.get("pack") or _EMPTY).keys() <= _PACK_FIELDS
        and (holder.get("annotations") or _EMPTY).keys() <= _USUAL_ANNOTATIONS
        and (holder.get("labels") or _EMPTY).keys().isdisjoint(_NO_LABELS)
    )


_EMPTY: JsonMap = {}
_NO_OR_KNOWN_SCHEDULER = _KNOWN_SCHEDULERS | {None, ""}


def _parts(template: JsonMap, field: str) -> list[_Part]:
    entries = enumerate(list_of(template.get(field)))
    return [_Part(map_of(entry), field, position) for position, entry in entries]


def _specs(cliques: Iterable[_Part]) -> list[_Part]:
    """Return the specs of cliques."""
    return [
        _Part(map_at(clique.content, "spec"), clique.of, clique.position, "spec")
        for clique in cliques
    ]


def nearest(name: str, known: tuple[str, ...]) -> str:
    """Return the known name for which `name` is probably a typo, or ""."""
    return "" if name in known or len(name) > MOST_ALIKE else _nearest(name, known)


@lru_cache(4096)  # almost all sets have the same few names, and a comparison takes 20 us
def _nearest(name: str, known: tuple[str, ...]) -> str:
    lowered = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), lowered, 1, _ALIKE)
    return lowered[found[0]] if found else ""


def _unknown_fields(
    parts: Iterable[_Part], known: tuple[str, ...], names: Comparisons
) -> Iterator[str]:
    """Yield warnings about fields that are probably typos of known ones.

    Other unknown fields may belong to a later release of Grove.
    """
    for part in parts:
        for field in part.content:
            if field not in known and (meant := names.nearest(field, known)):
                yield _unknown(part.at(), field, meant)


def _unknown_in_constraints(parts: Iterable[_Part], names: Comparisons) -> Iterator[str]:
    for part in parts:
        constraint = map_at(part.content, "topologyConstraint")
        if not constraint:
            continue
        for field in sorted(constraint.keys() - _CONSTRAINT_FIELDS):
            meant = names.nearest(field, _CONSTRAINT)
            yield _unknown(part.at("topologyConstraint"), field, meant)
        for field in sorted(map_at(constraint, "pack").keys() - _PACK_FIELDS):
            meant = names.nearest(field, _PACK)
            yield _unknown(part.at("topologyConstraint", "pack"), field, meant)


def _unknown(at: FieldPath, field: str, meant: str) -> str:
    question = f". Did you mean {meant}?" if meant else ""
    return f"{at.child(field)}: unknown field, which the API server drops{question}"


def misspelt_annotations(metadata: JsonMap, at: FieldPath, names: Comparisons) -> Iterator[str]:
    """Yield warnings about misspelt annotations, and about labels that must be annotations."""
    for key in map_at(metadata, "annotations"):
        if key not in _ANNOTATIONS and (meant := names.nearest(key, _ANNOTATIONS)):
            yield (
                f"{at.child('annotations').key(key)}: no component reads this annotation. Did you"
                f" mean {meant}?"
            )
    for key in map_at(metadata, "labels").keys() & _NO_LABELS:
        yield (f"{at.child('labels').key(key)}: has no effect as a label. Make it an annotation")


# Schedulers.


def _scheduler_warnings(specs: Sequence[_Part]) -> Iterator[str]:
    named = {
        text_at(map_at(spec.content, "podSpec"), "schedulerName"): spec for spec in reversed(specs)
    }
    named.pop("", None)
    for name in sorted(named.keys() - _KNOWN_SCHEDULERS):
        yield unknown_scheduler(name, named[name].at("podSpec", "schedulerName"))
    if len(named) > 1:
        yield (
            f"the cliques use several schedulers ({', '.join(sorted(named))}): Grove rejects a"
            " PodCliqueSet with more than one. Use one schedulerName"
        )


def unknown_scheduler(name: str, at: FieldPath) -> str:
    """Return the warning about an unknown scheduler."""
    meant = nearest(name, SCHEDULERS)
    question = f" Did you mean {meant}?" if meant else ""
    return (
        f'{at}: unknown scheduler "{name}". These pods are never scheduled unless a scheduler with'
        f" this name runs in the cluster.{question}"
    )
