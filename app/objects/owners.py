"""Read the owner references of objects."""

from sys import intern

from app.base.value import Value
from app.objects.shape import JsonMap, maps_at, text_at

COPIES = ("PersistentVolumeClaim", "ResourceClaim")
"""The kinds of claims that Kubernetes creates from a template.

An owner reference to such a claim is ignored. Claims own no Pods, and the queue guard does not
check the labels in their templates.
"""


class OwnerRef(Value):
    """An owner reference. Missing texts are ""."""

    kind: str
    name: str
    uid: str
    controller: bool = True
    """Whether the owner is the controller."""
    api_version: str = ""


def owners_of(obj: JsonMap) -> tuple[OwnerRef, ...]:
    """Return the owner references of `obj`."""
    return tuple(map(_read, maps_at(obj, "metadata", "ownerReferences")))


def controller_of(obj: JsonMap) -> OwnerRef | None:
    """Return the owner reference of the controller of `obj`, or None if it has no controller."""
    reference = _controlling(obj)
    return None if reference is None else _read(reference)


def controller_uid(obj: JsonMap, kind: str = "") -> str:
    """Return the uid of the controller of `obj`, or "" if it has none.

    With `kind`, return "" if the controller is of another kind.
    """
    reference = _controlling(obj)
    if reference is None or kind not in ("", reference.get("kind")):
        return ""
    return intern(text_at(reference, "uid"))


def _controlling(obj: JsonMap) -> JsonMap | None:
    for reference in maps_at(obj, "metadata", "ownerReferences"):
        if reference.get("controller") is True:
            return reference
    return None


def _read(reference: JsonMap) -> OwnerRef:
    """Return an owner reference. Its texts are interned, because many references repeat them."""
    return OwnerRef(
        intern(text_at(reference, "kind")),
        intern(text_at(reference, "name")),
        intern(text_at(reference, "uid")),
        reference.get("controller") is True,
        intern(text_at(reference, "apiVersion")),
    )
