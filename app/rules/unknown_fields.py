"""Warn about fields in the document of a PodCliqueSet that are misspelt or misplaced.

An API server drops fields that the CRD lacks before it calls a webhook, so only documents have
them. Unknown fields that resemble no known field may belong to a later release of Grove. Source:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/api/core/v1alpha1/crds/grove.io_podcliquesets.yaml
"""

from collections.abc import Iterator, Mapping

from app.base.spelling import Comparisons
from app.objects.fields import FieldPath
from app.objects.shape import JsonMap, list_of, map_at, map_of

_TEMPLATE = FieldPath("spec.template")
_OF_SET = ("replicas", "template", "updateStrategy")
_OF_TEMPLATE = (
    "topologyConstraint",
    "podCliqueScalingGroups",
    "cliques",
    "cliqueStartupType",
    "headlessServiceConfig",
    "priorityClassName",
    "resourceClaimTemplates",
    "resourceSharing",
    "terminationDelay",
)
_OF_GROUP = (
    "topologyConstraint",
    "cliqueNames",
    "minAvailable",
    "replicas",
    "annotations",
    "name",
    "resourceSharing",
    "scaleConfig",
)
_OF_CLIQUE = ("topologyConstraint", "annotations", "labels", "spec", "name", "resourceSharing")
_OF_CLIQUE_SPEC = (
    "minAvailable",
    "replicas",
    "podSpec",
    "startsAfter",
    "roleName",
    "autoScalingConfig",
)
_OF_PODS = (
    "affinity",
    "containers",
    "imagePullSecrets",
    "initContainers",
    "nodeSelector",
    "priorityClassName",
    "resourceClaims",
    "runtimeClassName",
    "schedulerName",
    "serviceAccountName",
    "tolerations",
    "volumes",
)
"""Fields of the pod spec that people put into the enclosing map by mistake."""

_OF_REQUEST = ("name", "exactly", "firstAvailable")
_OF_EXACT_REQUEST = (
    "adminAccess",
    "allocationMode",
    "capacity",
    "count",
    "deviceClassName",
    "selectors",
    "tolerations",
)
_OF_CONSTRAINT = ("packDomain", "topologyName", "pack")
_OF_PACK = ("required", "preferred")

Parts = list[tuple[FieldPath, JsonMap]]
"""Maps in a document, each with its path."""

Places = Mapping[str, tuple[str, ...]]
"""Fields that people expect in a part, by the path where they belong.

In a path, {at} stands for the path of the part, and {above} for that of the enclosing one.
"""

_OF_ANY_CLIQUE = "spec.template.cliques[]"
_INSTEAD_IN_SET: Places = {"{at}.template": _OF_TEMPLATE}
_INSTEAD_IN_TEMPLATE: Places = {
    "{above}": _OF_SET,
    f"{_OF_ANY_CLIQUE}.spec": _OF_CLIQUE_SPEC,
    f"{_OF_ANY_CLIQUE}.spec.podSpec": _OF_PODS,
}
_INSTEAD_IN_GROUP: Places = {_OF_ANY_CLIQUE: ("labels",)}
_INSTEAD_IN_CLIQUE: Places = {
    "{at}.spec": _OF_CLIQUE_SPEC,
    "{at}.spec.podSpec": _OF_PODS,
    "{at}.topologyConstraint": _OF_CONSTRAINT,
}
_INSTEAD_IN_REQUEST: Places = {"{at}.exactly": _OF_EXACT_REQUEST}
_INSTEAD_IN_SPEC: Places = {"{at}.podSpec": _OF_PODS, "{above}": _OF_CLIQUE}

_MEANT = {
    "startupType": "cliqueStartupType",
    "podCliqueScalingGroupConfigs": "podCliqueScalingGroups",
    "scalingGroups": "podCliqueScalingGroups",
    "scaleConfig": "autoScalingConfig",
    "autoScalingConfig": "scaleConfig",
    "cliques": "cliqueNames",
}
"""Known fields that are meant by other names, in a part that has the known field."""


def unknown_field_warnings(document: JsonMap) -> list[str]:
    """Return warnings about fields of a PodCliqueSet that the API server would drop.

    In constraints, these are all unknown fields. Elsewhere, they are only those that are similar to
    known ones, or that belong to another part.
    """
    spec = map_at(document, "spec")
    template = map_at(spec, "template")
    whole: Parts = [(_TEMPLATE, template)]
    groups = _entries(template, "podCliqueScalingGroups")
    cliques = _entries(template, "cliques")
    specs = [(path.child("spec"), map_at(clique, "spec")) for path, clique in cliques]
    constraints = [
        (path.child("topologyConstraint"), map_at(part, "topologyConstraint"))
        for path, part in (*whole, *groups, *cliques)
    ]
    packs = [(path.child("pack"), map_at(constraint, "pack")) for path, constraint in constraints]
    requests = [
        (path.child("templateSpec.spec.devices.requests").index(position), map_of(request))
        for path, claim in _entries(template, "resourceClaimTemplates")
        for position, request in enumerate(
            list_of(map_at(claim, "templateSpec", "spec", "devices").get("requests"))
        )
    ]
    names = Comparisons()
    return [
        *_mistaken([(FieldPath("spec"), spec)], _OF_SET, _INSTEAD_IN_SET, names),
        *_mistaken(whole, _OF_TEMPLATE, _INSTEAD_IN_TEMPLATE, names),
        *_mistaken(groups, _OF_GROUP, _INSTEAD_IN_GROUP, names),
        *_mistaken(cliques, _OF_CLIQUE, _INSTEAD_IN_CLIQUE, names),
        *_mistaken(specs, _OF_CLIQUE_SPEC, _INSTEAD_IN_SPEC, names),
        *_mistaken(requests, _OF_REQUEST, _INSTEAD_IN_REQUEST, names),
        *_unknown(constraints, _OF_CONSTRAINT, names),
        *_unknown(packs, _OF_PACK, names),
    ]


def _entries(template: JsonMap, field: str) -> Parts:
    at = _TEMPLATE.child(field)
    entries = enumerate(list_of(template.get(field)))
    return [(at.index(position), map_of(entry)) for position, entry in entries]


def _mistaken(
    parts: Parts, known: tuple[str, ...], instead: Places, names: Comparisons
) -> Iterator[str]:
    """Yield warnings about unknown fields of `parts` that stand for known ones.

    Their names are similar to `known` ones, or they belong to one of the places `instead`.
    """
    for path, part in parts:
        for field in part:
            if field in known:
                continue
            meant = _MEANT.get(field, "")
            if meant not in known:
                meant = (
                    _placed(path, field, instead)
                    or _placed(path, meant, instead)
                    or names.nearest(field, known)
                )
            if meant:
                yield _warning(path.child(field), meant)


def _placed(path: FieldPath, field: str, instead: Places) -> str:
    """Return the path where `field` of the part at `path` belongs, or ""."""
    for place, fields in instead.items():
        if field in fields:
            return f"{place.format(at=path, above=path.parent or 'spec')}.{field}"
    return ""


def _unknown(parts: Parts, known: tuple[str, ...], names: Comparisons) -> Iterator[str]:
    """Yield warnings about all fields of `parts` that are not `known`."""
    for path, part in parts:
        for field in sorted(part.keys() - set(known)):
            yield _warning(path.child(field), names.nearest(field, known))


def _warning(at: FieldPath, meant: str) -> str:
    question = f". Did you mean {meant}?" if meant else ""
    return f"{at}: unknown field, which the API server drops{question}"
