"""The owner references of an object."""

from sys import intern

from app.base.value import Value
from app.objects.shape import JsonMap, map_of, maps_of, text_at


class OwnerRef(Value):
    """An owner reference. A text is "" if it is missing."""

    kind: str
    name: str
    uid: str
    controller: bool = True


def owners_of(obj: JsonMap) -> tuple[OwnerRef, ...]:
    """Return the owner references of `obj`.

    They share their texts with others, because there may be very many.
    """
    metadata = map_of(obj.get("metadata"))
    return tuple(
        OwnerRef(
            intern(text_at(reference, "kind")),
            intern(text_at(reference, "name")),
            intern(text_at(reference, "uid")),
            reference.get("controller") is True,
        )
        for reference in maps_of(metadata.get("ownerReferences"))
    )


def controller_uid(obj: JsonMap, kind: str) -> str:
    """Return the uid of the object of `kind` that controls `obj`, or ""."""
    owners = (owner for owner in owners_of(obj) if owner.controller and owner.kind == kind)
    return next((owner.uid for owner in owners), "")
