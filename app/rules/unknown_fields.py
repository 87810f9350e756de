"""Warn about fields in the document of a PodCliqueSet that are probably typos.

An API server drops fields that the CRD lacks before it calls a webhook, so only documents have
them. Unknown fields that resemble no known field may belong to a later release of Grove.
"""

from collections.abc import Iterator

from app.base.spelling import Comparisons
from app.objects.fields import FieldPath
from app.objects.shape import JsonMap, list_of, map_at, map_of

_TEMPLATE = FieldPath("spec.template")
_OF_TEMPLATE = ("topologyConstraint", "podCliqueScalingGroups", "cliques")
_OF_GROUP = ("topologyConstraint", "cliqueNames", "minAvailable", "replicas", "annotations")
_OF_CLIQUE = ("topologyConstraint", "annotations", "labels", "spec")
_OF_CLIQUE_SPEC = ("minAvailable", "replicas", "podSpec", "startsAfter", "roleName")
_OF_CONSTRAINT = ("packDomain", "topologyName", "pack")
_OF_PACK = ("required", "preferred")

Parts = list[tuple[FieldPath, JsonMap]]
"""Maps in a document, each with its path."""


def unknown_field_warnings(document: JsonMap) -> list[str]:
    """Return warnings about fields of a PodCliqueSet that the API server would drop.

    In constraints, these are all unknown fields. Elsewhere, they are only those that are similar to
    known ones.
    """
    template = map_at(document, "spec", "template")
    whole: Parts = [(_TEMPLATE, template)]
    groups = _entries(template, "podCliqueScalingGroups")
    cliques = _entries(template, "cliques")
    specs = [(path.child("spec"), map_at(clique, "spec")) for path, clique in cliques]
    constraints = [
        (path.child("topologyConstraint"), map_at(part, "topologyConstraint"))
        for path, part in (*whole, *groups, *cliques)
    ]
    packs = [(path.child("pack"), map_at(constraint, "pack")) for path, constraint in constraints]
    names = Comparisons()
    return [
        *_misspelt(whole, _OF_TEMPLATE, names),
        *_misspelt(groups, _OF_GROUP, names),
        *_misspelt(cliques, _OF_CLIQUE, names),
        *_misspelt(specs, _OF_CLIQUE_SPEC, names),
        *_unknown(constraints, _OF_CONSTRAINT, names),
        *_unknown(packs, _OF_PACK, names),
    ]


def _entries(template: JsonMap, field: str) -> Parts:
    at = _TEMPLATE.child(field)
    entries = enumerate(list_of(template.get(field)))
    return [(at.index(position), map_of(entry)) for position, entry in entries]


def _misspelt(parts: Parts, known: tuple[str, ...], names: Comparisons) -> Iterator[str]:
    """Yield warnings about unknown fields of `parts` whose names are similar to `known` ones."""
    for path, part in parts:
        for field in part:
            if field not in known and (meant := names.nearest(field, known)):
                yield _warning(path.child(field), meant)


def _unknown(parts: Parts, known: tuple[str, ...], names: Comparisons) -> Iterator[str]:
    """Yield warnings about all fields of `parts` that are not `known`."""
    for path, part in parts:
        for field in sorted(part.keys() - set(known)):
            yield _warning(path.child(field), names.nearest(field, known))


def _warning(at: FieldPath, meant: str) -> str:
    question = f". Did you mean {meant}?" if meant else ""
    return f"{at}: unknown field, which the API server drops{question}"
