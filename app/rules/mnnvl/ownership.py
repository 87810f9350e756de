"""Which MNNVL resources belong to which PodGang, and whether it may adopt them.

Source: `rules/README.md`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any, Literal

from app.objects.metadata import labels_of
from app.objects.shape import map_of, maps_of
from app.rules.kinds import POD_CLIQUE_SET, POD_GANG
from app.rules.labels import MNNVL_MANAGED, Place, read_place
from app.rules.mnnvl.allocation import awaited_classes

State = Literal["owned", "adoptable", "going", "foreign"]


@dataclass(frozen=True, slots=True)
class OwnerRef:
    kind: str
    name: str
    uid: str
    controller: bool


@dataclass(frozen=True, slots=True)
class MnnvlResource:
    """A stored ComputeDomain or ResourceClaim.

    `managed` is true if it has our label. `place.podgang` is the PodGang that it was made for, and
    `created` the time of its creation (RFC 3339). `awaited` are the DeviceClasses that a
    ResourceClaim requests, empty once it is allocated.
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


@dataclass(frozen=True, slots=True)
class Gang:
    """A PodGang.

    `uid` is "" while it is being created. `set_uid` is that of the PodCliqueSet that controls it,
    or "".
    """

    namespace: str
    name: str
    uid: str
    place: Place
    deleting: bool = False
    set_uid: str = ""

    def reference(self) -> dict[str, Any]:
        return POD_GANG.owner_reference(self.name, self.uid)


def read_resource(obj: Mapping[str, Any]) -> MnnvlResource:
    """Reads a stored ComputeDomain or ResourceClaim.

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
        place=read_place(labels).interned(),
        owners=tuple(
            OwnerRef(
                _shared(owner.get("kind", "")),
                _shared(owner.get("name", "")),
                _shared(owner.get("uid", "")),
                owner.get("controller") is True,
            )
            for owner in maps_of(metadata.get("ownerReferences"))
        ),
        created=_shared(metadata.get("creationTimestamp") or ""),
        awaited=tuple(map(_shared, awaited_classes(obj))),
    )


def _shared(text: Any) -> Any:
    return intern(text) if isinstance(text, str) else text


def read_gang(obj: Mapping[str, Any], namespace: str) -> Gang:
    metadata = map_of(obj.get("metadata"))
    return Gang(
        namespace=namespace,
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid") or ""),
        place=read_place(labels_of(obj)),
        deleting=metadata.get("deletionTimestamp") is not None,
        set_uid=_set_uid(metadata.get("ownerReferences")),
    )


def _set_uid(references: Any) -> str:
    for owner in maps_of(references):
        if owner.get("kind") == POD_CLIQUE_SET.kind and owner.get("controller") is True:
            return str(owner.get("uid") or "")
    return ""


def belongs_to(resource: MnnvlResource, gang: Gang) -> bool:
    """Whether `resource` was made for `gang`: by its label with the name of the PodGang, or, if it
    lacks that label, by the labels of a replica. These must be the same on both, so that a base
    PodGang never gets resources of a scaled one.
    """
    if not resource.managed or resource.namespace != gang.namespace or _is_generated(resource):
        return False
    if resource.place.podgang:
        return resource.place.podgang == gang.name
    place = resource.place
    return bool(place.pcs and place.replica) and place.of_replica == gang.place.of_replica


def _is_generated(resource: MnnvlResource) -> bool:
    """Whether Kubernetes made this claim for one Pod from a template, whose labels it copied."""
    return any(owner.kind == "Pod" for owner in resource.owners)


def ownership(resource: MnnvlResource, gang: Gang) -> State:
    """Returns the state of `resource`, which belongs to `gang`: `owned` by it, `going` (being
    deleted), or one of these.

    adoptable: it has no controller, or its controller is its PodCliqueSet or a former PodGang of
    the same name. foreign: another object controls it, so that it is left alone.
    """
    if resource.deleting:
        return "going"
    if gang.uid and any(owner.uid == gang.uid and owner.controller for owner in resource.owners):
        return "owned"
    return (
        "adoptable"
        if all(_may_yield(owner, resource, gang) for owner in resource.owners)
        else "foreign"
    )


def _may_yield(owner: OwnerRef, resource: MnnvlResource, gang: Gang) -> bool:
    if owner.kind == POD_GANG.kind:
        return owner.name == gang.name
    return (owner.kind, owner.name) == (POD_CLIQUE_SET.kind, resource.place.pcs)


def adopted_annotation(
    resources: Iterable[MnnvlResource], gang: Gang, *, adopting: bool = False
) -> Literal["true", "false"] | None:
    """Returns the value that the annotation `grove.io/mnnvl-resources-adopted` should have: "true"
    if all resources are owned, "false" if not, and None, for no annotation, if there are no
    resources. If `adopting` is true, for a dry run, adoptable resources count as owned.
    """
    states = {ownership(resource, gang) for resource in resources}
    if not states:
        return None
    expected = {"owned", "adoptable"} if adopting else {"owned"}
    return "true" if states <= expected else "false"


@dataclass(frozen=True, slots=True)
class OwnershipProblem:
    """A problem and its remedy.

    If `settling` is true, it may resolve within moments, and counts only if it lasts.
    """

    message: str
    remedy: str
    settling: bool = False


def ownership_problem(
    resource: MnnvlResource, gang: Gang | None, *, set_exists: bool
) -> OwnershipProblem | None:
    """Returns the problem of a stored resource that we made, or None.

    `gang` is the PodGang that it was made for, or None if that doesn't exist. `set_exists` is true
    if its PodCliqueSet exists.
    """
    if not resource.managed or resource.deleting or _is_generated(resource):
        return None
    if gang is None:
        return _without_gang(resource, set_exists=set_exists)
    state = ownership(resource, gang)
    if state == "adoptable":
        message = (
            f'not adopted: PodGang "{gang.name}" should own it, and the reconciler has not made it'
            " the owner yet"
        )
        return OwnershipProblem(
            message, "Check whether a replica leads (/readyz?verbose), and read its log.", True
        )
    if state == "foreign":
        message = f'controlled by another object than PodGang "{gang.name}", which uses it'
        return OwnershipProblem(
            message, "Remove the controller in its ownerReferences that is not its PodGang."
        )
    return None


def _without_gang(resource: MnnvlResource, *, set_exists: bool) -> OwnershipProblem:
    gang_name = (
        f'PodGang "{resource.place.podgang}"'
        if resource.place.podgang
        else "the PodGang of its labels"
    )
    message = f"orphaned: {gang_name} does not exist"
    if set_exists:
        return OwnershipProblem(
            message,
            "It is deleted with its PodCliqueSet. Delete it before if no Pod uses it.",
            True,
        )
    message += f', and neither does PodCliqueSet "{resource.place.pcs}"'
    return OwnershipProblem(message, "Delete it, unless the garbage collector has done so.")
