"""The owner references of an object."""

from sys import intern
from typing import NamedTuple

from app.base.value import Value
from app.objects.shape import JsonMap, map_of, maps_at, maps_of, text_at


class OwnerRef(Value):
    """An owner reference. A text is "" if it is missing."""

    kind: str
    name: str
    uid: str
    controller: bool = True


class Controller(NamedTuple):
    """An owner reference with `controller: true`."""

    api_version: str
    kind: str
    name: str
    uid: str


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


def controller_of(obj: JsonMap) -> Controller | None:
    """Return the owner reference of `obj` that controls it."""
    references = maps_at(obj, "metadata", "ownerReferences")
    controller = next(
        (reference for reference in references if reference.get("controller") is True), None
    )
    if controller is None:
        return None
    return Controller(
        *(intern(text_at(controller, key)) for key in ("apiVersion", "kind", "name", "uid"))
    )
