"""Which objects the garbage collector would take: pure functions over everything that is stored."""

from collections.abc import Collection, Mapping

from app.kube.api import Key, Object
from app.objects.resource import Resource

Place = tuple[Resource, Key]
Places = list[Place]
Stored = Mapping[Resource, Mapping[Key, Object]]


class _Owners:
    """Everything that exists, by uid."""

    def __init__(self, stored: Stored, served: Collection[Resource]) -> None:
        self._kinds = {(resource.group, resource.kind) for resource in served}
        self._uids = {
            obj["metadata"].get("uid") for objects in stored.values() for obj in objects.values()
        }

    def exists(self, reference: Object) -> bool:
        """Owners of a kind that isn't served can't be looked up: such objects are left alone."""
        group = str(reference.get("apiVersion", "")).rpartition("/")[0]
        return (group, reference.get("kind")) not in self._kinds or reference.get(
            "uid"
        ) in self._uids


def orphans(stored: Stored, served: Collection[Resource]) -> Places:
    """The objects that have owners of which none exists, and that aren't being deleted yet."""
    owners = _Owners(stored, served)

    def is_orphan(obj: Object) -> bool:
        references = _references(obj)
        deleting = obj["metadata"].get("deletionTimestamp")
        return (
            bool(references)
            and not deleting
            and not any(owners.exists(reference) for reference in references)
        )

    return [
        (resource, key)
        for resource, objects in stored.items()
        for key, obj in objects.items()
        if is_orphan(obj)
    ]


def with_missing_owners(
    stored: Stored, served: Collection[Resource]
) -> list[tuple[Place, list[Object]]]:
    """The objects that have some owners left and some missing, each with the references to keep."""
    owners = _Owners(stored, served)
    incomplete: list[tuple[Place, list[Object]]] = []
    for resource, objects in stored.items():
        for key, obj in objects.items():
            references = _references(obj)
            kept = [reference for reference in references if owners.exists(reference)]
            if kept and len(kept) < len(references):
                incomplete.append(((resource, key), kept))
    return incomplete


def _references(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []
