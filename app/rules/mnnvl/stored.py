"""Stored MNNVL resources and PodGangs, as far as the owners of resources depend on them.

The dialects say who owns a resource (`app.rules.dialects.owner`).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

from app.facts.kinds import POD_CLIQUE_SET, POD_GANG
from app.facts.labels import MNNVL_MANAGED, POD_GANG_ROLE
from app.facts.place import Place, read_place
from app.objects.edits import value_at
from app.objects.metadata import labels_of
from app.objects.owners import OwnerRef, owners_of
from app.objects.shape import map_of, maps_of, text_of
from app.rules.mnnvl.allocation import awaited_classes
from app.rules.mnnvl.plan import base_of


@dataclass(frozen=True, slots=True)
class MnnvlResource:
    """A stored ComputeDomain or ResourceClaim.

    `managed` is true if it has our label. `place.podgang` is "" unless an earlier version made the
    resource: that one wrote the name of a PodGang, which Grove may have replaced since. `created`
    is the time of its creation (RFC 3339). `awaited` are the DeviceClasses that a ResourceClaim
    requests, empty once it is allocated.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    managed: bool
    deleting: bool
    place: Place
    owners: tuple[OwnerRef, ...]
    created: str = ""
    awaited: tuple[str, ...] = ()

    @property
    def base_name(self) -> str:
        """The text with which its name begins, "" if its name is not like those of ours."""
        return base_of(self.kind, self.name)

    @property
    def is_generated(self) -> bool:
        """Whether Kubernetes made this claim for one Pod, with the labels of its template."""
        return any(owner.kind == "Pod" for owner in self.owners)

    @property
    def owning_gangs(self) -> tuple[OwnerRef, ...]:
        """The PodGangs among its owners."""
        return tuple(owner for owner in self.owners if owner.kind == POD_GANG.kind)


@dataclass(frozen=True, slots=True)
class Gang:
    """A PodGang.

    `uid` is "" while it is being created. `set_uid` is that of the PodCliqueSet that controls it,
    or "". `role` is "" if Grove didn't name the PodGang after an epoch. `podgroups` are the names
    of its PodCliques.
    """

    namespace: str
    name: str
    uid: str
    place: Place
    deleting: bool = False
    set_uid: str = ""
    role: str = ""
    podgroups: tuple[str, ...] = ()

    def reference(self) -> dict[str, Any]:
        return POD_GANG.owner_reference(self.name, self.uid)

    def cliques(self) -> Collection[str]:
        """Return the names of its PodCliques."""
        return self.podgroups


def read_resource(obj: Mapping[str, Any]) -> MnnvlResource:
    """Read a stored ComputeDomain or ResourceClaim.

    The result shares its texts with those of others, because there may be very many.
    """
    metadata = obj["metadata"]
    labels = labels_of(obj)
    return MnnvlResource(
        kind=_shared(obj.get("kind", "")),
        namespace=_shared(metadata.get("namespace", "")),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        managed=labels.get(MNNVL_MANAGED) == "true",
        deleting=metadata.get("deletionTimestamp") is not None,
        place=read_place(labels),
        owners=owners_of(obj),
        created=_shared(metadata.get("creationTimestamp") or ""),
        awaited=tuple(map(_shared, awaited_classes(obj))),
    )


def _shared(text: Any) -> Any:
    return intern(text) if isinstance(text, str) else text


def read_gang(obj: Mapping[str, Any], namespace: str) -> Gang:
    """Read a PodGang."""
    metadata = map_of(obj.get("metadata"))
    labels = labels_of(obj)
    return Gang(
        namespace=namespace,
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid") or ""),
        place=read_place(labels),
        deleting=metadata.get("deletionTimestamp") is not None,
        set_uid=_set_uid(metadata.get("ownerReferences")),
        role=text_of(labels.get(POD_GANG_ROLE)),
        podgroups=read_podgroups(obj),
    )


def read_podgroups(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the PodGroups of a PodGang, which are those of its PodCliques."""
    podgroups = maps_of(value_at(obj, ("spec", "podgroups")))
    return tuple(text_of(podgroup.get("name")) for podgroup in podgroups)


def _set_uid(references: Any) -> str:
    for owner in maps_of(references):
        if owner.get("kind") == POD_CLIQUE_SET.kind and owner.get("controller") is True:
            return str(owner.get("uid") or "")
    return ""
