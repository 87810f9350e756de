"""The names of a CustomResourceDefinition that are accepted.

In an API group, each name belongs to the first CRD with it.

The rules and reasons are those of the naming controller of apiextensions-apiserver:
https://github.com/kubernetes/apiextensions-apiserver/blob/v0.34.0/pkg/controller/status/naming_controller.go
"""

from collections.abc import Iterable, Iterator

from app.sandbox.objects.objects import Object

_CONFLICTS = {
    "plural": "PluralConflict",
    "singular": "SingularConflict",
    "shortNames": "ShortNamesConflict",
    "kind": "KindConflict",
    "listKind": "ListKindConflict",
}
"""The names of a CRD, each with the reason for its rejection.

Kinds begin with a capital letter, so they are never equal to other names.
"""


def accepted_status(crd: Object, others: Iterable[Object], now: str) -> Object:
    """Return the status of `crd`, whose spec is valid.

    `others` are all stored CRDs, and `now` is a timestamp. A CRD that is established remains
    established. A CRD whose spec has exactly the accepted names is not examined: if a name was
    rejected before and has been removed from the spec, the CRD has to be created anew.
    """
    before = crd.get("status") or {}
    names = crd["spec"]["names"]
    requested = {"singular": names["kind"].lower(), "listKind": f"{names['kind']}List", **names}
    accepted = dict(before.get("acceptedNames") or {})
    if requested == accepted:
        return dict(before)

    rejections = list(_accept(requested, accepted, _names_beside(crd, others)))
    accepted["categories"] = requested.get("categories")
    names_accepted = _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
    if rejections:
        names_accepted = rejections[-1]

    conditions = (names_accepted, _established(crd, bool(rejections)))

    versions = crd["spec"]["versions"]
    return {
        "acceptedNames": {field: value for field, value in accepted.items() if value is not None},
        "conditions": [{"lastTransitionTime": now, **condition} for condition in conditions],
        "storedVersions": [version["name"] for version in versions if version.get("storage")],
    }


def _accept(requested: Object, accepted: Object, used: set[str]) -> Iterator[Object]:
    """Add the `requested` names that are not `used` to `accepted`.

    Yield the condition for each field with other names.
    """
    for field, reason in _CONFLICTS.items():
        conflicts = [name for name in _names(requested, field) if name in used]
        if conflicts:
            message = ", ".join(f'"{name}" is already in use' for name in conflicts)
            yield _condition("NamesAccepted", "False", reason, message)
        else:
            accepted[field] = requested.get(field)


def _established(crd: Object, has_rejections: bool) -> Object:
    if has_rejections and not is_established(crd):
        return _condition("Established", "False", "NotAccepted", "not all names are accepted")
    message = "the initial names have been accepted"
    return _condition("Established", "True", "InitialNamesAccepted", message)


def is_established(crd: Object) -> bool:
    """Return whether the condition Established of `crd` is True."""
    return _find_condition(crd, "Established", "True") is not None


def conflict(crd: Object) -> str | None:
    """Return the reason why names of `crd` are not accepted.

    None if all are accepted, or if `crd` has not been examined yet.
    """
    rejected = _find_condition(crd, "NamesAccepted", "False")
    return None if rejected is None else f"{rejected['reason']}: {rejected['message']}"


def _find_condition(crd: Object, kind: str, status: str) -> Object | None:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return next(
        (item for item in conditions if (item["type"], item["status"]) == (kind, status)), None
    )


def _names_beside(crd: Object, others: Iterable[Object]) -> set[str]:
    """Return the accepted names of the other CRDs of the group of `crd`."""
    return {
        name
        for other in others
        if other["spec"]["group"] == crd["spec"]["group"]
        and other["metadata"]["name"] != crd["metadata"]["name"]
        for field in _CONFLICTS
        for name in _names(other.get("status", {}).get("acceptedNames") or {}, field)
    }


def _names(names: Object, field: str) -> list[str]:
    value = names.get(field) or []
    return [value] if isinstance(value, str) else list(value)


def _condition(kind: str, status: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message}
