"""Which names of a CustomResourceDefinition are accepted: in an API group, each name belongs to the first CRD with it.

The rules and reasons are those of the naming controller of apiextensions-apiserver:
https://github.com/kubernetes/apiextensions-apiserver/blob/v0.34.0/pkg/controller/status/naming_controller.go
"""

from collections.abc import Iterable, Iterator

from app.sandbox.objects.objects import Object

_REASONS = {
    "plural": "PluralConflict",
    "singular": "SingularConflict",
    "shortNames": "ShortNamesConflict",
    "kind": "KindConflict",
    "listKind": "ListKindConflict",
}
_KINDS = ("kind", "listKind")


def accepted_status(crd: Object, others: Iterable[Object], now: str) -> Object:
    """The status of `crd`, whose spec is valid; `others` are all stored CRDs, and `now` is a timestamp. A CRD that is
    established remains established. A CRD whose spec has exactly the accepted names is not examined: if a name was
    rejected before and has been removed from the spec, the CRD has to be created anew."""
    before = crd.get("status") or {}
    requested, accepted = _requested(crd), dict(before.get("acceptedNames") or {})
    if requested == accepted:
        return dict(before)
    used = [other["status"].get("acceptedNames") or {} for other in others if _is_neighbour(other, crd)]
    names_accepted = _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
    for field in _REASONS:
        conflicts = [name for name in _names(requested, field) if _is_used(name, field, accepted, used)]
        if conflicts:
            message = ", ".join(f'"{name}" is already in use' for name in conflicts)
            names_accepted = _condition("NamesAccepted", "False", _REASONS[field], message)
        else:
            _take(field, requested, accepted)
    _take("categories", requested, accepted)
    conditions = before.get("conditions") or ()
    established = next((condition for condition in conditions if condition["type"] == "Established"), None)
    if names_accepted["status"] == "True":
        text = "the initial names have been accepted"
        established = _condition("Established", "True", "InitialNamesAccepted", text)
    elif established is None or established["status"] != "True":
        established = _condition("Established", "False", "NotAccepted", "not all names are accepted")
    return {
        "acceptedNames": accepted,
        "conditions": [{"lastTransitionTime": now, **condition} for condition in (names_accepted, established)],
        "storedVersions": [item["name"] for item in crd["spec"]["versions"] if item.get("storage")],
    }


def _take(field: str, requested: Object, accepted: Object) -> None:
    accepted.pop(field, None)
    if field in requested:
        accepted[field] = requested[field]


def is_established(crd: Object) -> bool:
    """Whether the condition Established of `crd` is True."""
    return _find_condition(crd, "Established", "True") is not None


def conflict(crd: Object) -> str | None:
    """The reason why names of `crd` are not accepted, or None if all are, or if `crd` has not been examined yet."""
    rejected = _find_condition(crd, "NamesAccepted", "False")
    return None if rejected is None else f"{rejected['reason']}: {rejected['message']}"


def _find_condition(crd: Object, kind: str, status: str) -> Object | None:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if (item["type"], item["status"]) == (kind, status)), None)


def _requested(crd: Object) -> Object:
    names = dict(crd["spec"]["names"])
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    return names


def _is_neighbour(other: Object, crd: Object) -> bool:
    same = other["metadata"]["name"] == crd["metadata"]["name"]
    return not same and "status" in other and bool(other["spec"]["group"] == crd["spec"]["group"])


def _names(names: Object, field: str) -> list[str]:
    value = names.get(field) or []
    return [value] if isinstance(value, str) else list(value)


def _is_used(name: str, field: str, accepted: Object, used: Iterable[Object]) -> bool:
    """Whether another CRD has `name`. Kinds are compared with kinds, and all other names with each other."""
    if name in _names(accepted, field):
        return False
    fields = _KINDS if field in _KINDS else [other for other in _REASONS if other not in _KINDS]
    return any(name in _all_names(names, fields) for names in used)


def _all_names(names: Object, fields: Iterable[str]) -> Iterator[str]:
    for field in fields:
        yield from _names(names, field)


def _condition(kind: str, status: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message}
