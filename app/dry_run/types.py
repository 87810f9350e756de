"""Find values in documents whose type API servers do not accept.

An API server rejects such an object before it calls a webhook, so only documents have them. In
YAML, values such as `true`, `yes` and 1 need quotes where a string is expected. Sources:
https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.35/ and
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/api/core/v1alpha1/crds/grove.io_podcliquesets.yaml
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from app.base.json import to_json
from app.facts.kinds import POD_CLIQUE_SET
from app.objects.fields import REASON_TYPE, FieldError, FieldPath, Findings
from app.objects.shape import JsonMap, map_at, maps_at, text_at

Check = Callable[[Any], str]
"""Returns what a value must be, or "" if the value is accepted."""

Shape = Check | list[Any] | Mapping[str, Any]
"""The expected type: a check, a list with the shape of all items, or a map with those of fields.

The only field `*` stands for every key. Fields that a map does not name are not checked.
"""

_MOST_INT32 = 2**31 - 1


def _text(value: Any) -> str:
    if isinstance(value, bool | int | float):
        return f"a string: put {to_json(value).decode()} in quotes"
    return "" if isinstance(value, str) else "a string"


def _integer(value: Any) -> str:
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        return "an integer: remove the quotes"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "" if is_number and float(value).is_integer() else "an integer"


def _int32(value: Any) -> str:
    expected = _integer(value)
    if not expected and abs(value) > _MOST_INT32:
        return "an integer that fits into 32 bits"
    return expected


def _boolean(value: Any) -> str:
    return "" if isinstance(value, bool) else "true or false, without quotes"


def _quantity(value: Any) -> str:
    accepted = isinstance(value, str | int | float) and not isinstance(value, bool)
    return "" if accepted else "a quantity, such as 8 or 64Gi"


_TEXTS = {"*": _text}
_MAP: Mapping[str, Any] = {}
_LABELLED = {"metadata": {"labels": _TEXTS, "annotations": _TEXTS}}
"""The part of every object, and of every pod template, that has labels."""

_CONTAINER = {
    "name": _text,
    "image": _text,
    "command": [_text],
    "args": [_text],
    "env": [{"name": _text, "value": _text}],
    "ports": [{"name": _text, "containerPort": _int32, "hostPort": _int32}],
    "resources": {"limits": {"*": _quantity}, "requests": {"*": _quantity}, "claims": [_MAP]},
    "volumeMounts": [{"name": _text, "mountPath": _text, "readOnly": _boolean}],
}
_POD_SPEC = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "nodeSelector": _TEXTS,
    "tolerations": [{"key": _text, "value": _text, "tolerationSeconds": _integer}],
    "affinity": _MAP,
    "volumes": [{"name": _text}],
    "resourceClaims": [
        {"name": _text, "resourceClaimName": _text, "resourceClaimTemplateName": _text}
    ],
    "schedulerName": _text,
    "priorityClassName": _text,
    "priority": _int32,
    "hostNetwork": _boolean,
}

_CONSTRAINT = {
    "packDomain": _text,
    "topologyName": _text,
    "pack": {"required": _text, "preferred": _text},
}
_SCALING = {"minReplicas": _int32, "maxReplicas": _int32, "metrics": [_MAP]}
_CLIQUE = {
    "name": _text,
    "labels": _TEXTS,
    "annotations": _TEXTS,
    "topologyConstraint": _CONSTRAINT,
    "spec": {
        "roleName": _text,
        "replicas": _int32,
        "minAvailable": _int32,
        "startsAfter": [_text],
        "autoScalingConfig": _SCALING,
        "podSpec": _POD_SPEC,
    },
}
_GROUP = {
    "name": _text,
    "annotations": _TEXTS,
    "cliqueNames": [_text],
    "replicas": _int32,
    "minAvailable": _int32,
    "scaleConfig": _SCALING,
    "topologyConstraint": _CONSTRAINT,
}
_SET = {
    "spec": {
        "replicas": _int32,
        "updateStrategy": {"type": _text},
        "template": {
            "cliques": [_CLIQUE],
            "podCliqueScalingGroups": [_GROUP],
            "cliqueStartupType": _text,
            "priorityClassName": _text,
            "terminationDelay": _text,
            "headlessServiceConfig": {"publishNotReadyAddresses": _boolean},
            "topologyConstraint": _CONSTRAINT,
        },
    }
}


def type_findings(document: JsonMap) -> Findings:
    """Return the findings about values of the wrong type, each path once.

    Labels, annotations and pod specs are examined everywhere in the document, and the fields of a
    PodCliqueSet also.
    """
    found: dict[str, FieldError] = {}
    for path, value, shape in _examined(document):
        for error in _findings(path, value, shape):
            found.setdefault(error.field, error)
    return list(found.values())


def _examined(document: JsonMap) -> Iterator[tuple[FieldPath, Any, Shape]]:
    """Yield each part of a document that has a shape, with its path and its shape."""
    group = text_at(document, "apiVersion").rpartition("/")[0]
    if (group, document.get("kind")) == (POD_CLIQUE_SET.group, POD_CLIQUE_SET.kind):
        yield FieldPath(""), document, _SET
    for path, part in _maps_in(document):
        if map_at(part, "metadata"):
            yield path, part, _LABELLED
        if _is_pod_spec(part):
            yield path, part, _POD_SPEC


def pod_specs(document: JsonMap) -> Iterator[tuple[FieldPath, JsonMap]]:
    """Yield the pod specs anywhere in a document, each with its path."""
    return ((path, part) for path, part in _maps_in(document) if _is_pod_spec(part))


def _is_pod_spec(part: JsonMap) -> bool:
    return isinstance(part.get("containers"), list)


def claimed_volumes(document: JsonMap) -> set[str]:
    """Return the names of the volumes that a controller adds to pods for the claims it creates.

    Such claims are in volumeClaimTemplates, or in the volumeClaimPolicies of a JobSet.
    """
    claims: list[JsonMap] = []
    for _, part in _maps_in(document):
        claims += maps_at(part, "volumeClaimTemplates")
        for policy in maps_at(part, "volumeClaimPolicies"):
            claims += maps_at(policy, "templates")
    return {text_at(map_at(claim, "metadata"), "name") for claim in claims}


def _maps_in(document: JsonMap) -> Iterator[tuple[FieldPath, JsonMap]]:
    """Yield all maps of a document, each with its path, in the order of the document."""
    waiting: list[tuple[FieldPath, Any]] = [(FieldPath(""), document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            yield path, value
            parts = [(path.child(name), item) for name, item in value.items() if _has_parts(item)]
        else:
            parts = [(path.index(at), item) for at, item in enumerate(value) if _has_parts(item)]
        waiting += reversed(parts)


def _has_parts(value: Any) -> bool:
    return isinstance(value, dict | list)


def _findings(path: FieldPath, value: Any, shape: Shape) -> Iterator[FieldError]:
    """Yield the findings about a value and its parts. API servers drop values that are null."""
    if value is None:
        return
    if isinstance(shape, list):
        if not isinstance(value, list):
            yield _wrong(path, "a list")
            return
        for position, item in enumerate(value):
            yield from _findings(path.index(position), item, shape[0])
    elif isinstance(shape, Mapping):
        if not isinstance(value, dict):
            yield _wrong(path, "a map")
            return
        if "*" in shape:
            for key, item in value.items():
                yield from _findings(path.key(key), item, shape["*"])
            return
        for field, item in value.items():
            if field in shape:
                yield from _findings(path.child(field), item, shape[field])
    elif expected := shape(value):
        yield _wrong(path, expected)


def _wrong(path: FieldPath, expected: str) -> FieldError:
    return FieldError(str(path), REASON_TYPE, f"must be {expected}")
