"""The owner references of an object."""

from sys import intern

from app.base.value import Value
from app.objects.shape import JsonMap, maps_at, text_at

COPIES = ("PersistentVolumeClaim", "ResourceClaim")
"""The kinds that Kubernetes makes from a template in another object. They own no Pod.

The queue guard doesn't ask about the labels in such a template, so that they count nowhere.
"""


class OwnerRef(Value):
    """An owner reference. A text is "" if it is missing."""

    kind: str
    name: str
    uid: str
    controller: bool = True
    api_version: str = ""


def owners_of(obj: JsonMap) -> tuple[OwnerRef, ...]:
    """Return the owner references of `obj`.

    They share their texts with others, because there may be very many.
    """
    return tuple(
        OwnerRef(
            intern(text_at(reference, "kind")),
            intern(text_at(reference, "name")),
            intern(text_at(reference, "uid")),
            reference.get("controller") is True,
            intern(text_at(reference, "apiVersion")),
        )
        for reference in maps_at(obj, "metadata", "ownerReferences")
    )


def controller_of(obj: JsonMap) -> OwnerRef | None:
    """Return the owner reference of `obj` that controls it."""
    return next((owner for owner in owners_of(obj) if owner.controller), None)


def controller_uid(obj: JsonMap, kind: str = "") -> str:
    """Return the uid of the object that controls `obj`, or "". It must be of `kind`, if given."""
    for reference in maps_at(obj, "metadata", "ownerReferences"):
        if reference.get("controller") is True:
            return intern(text_at(reference, "uid")) if kind in ("", reference.get("kind")) else ""
    return ""
