"""Which MNNVL resources belong to which PodGang, and whether it may take them.

Source: `rules/README.md`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.objects.metadata import labels_of
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
    """A stored ComputeDomain or ResourceClaim, as the rules see it. `managed`: it carries our label. `place.podgang`
    is the PodGang it was made for, `created` the time of its creation (RFC 3339). `awaited` are the DeviceClasses that
    a ResourceClaim asks for, none once it is allocated."""

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
    """A PodGang as the rules of ownership see it; `uid` "" while it is being created. `set_uid` is that of the
    PodCliqueSet that controls it, "" if none does."""

    namespace: str
    name: str
    uid: str
    place: Place
    deleting: bool = False
    set_uid: str = ""

    def reference(self) -> dict[str, Any]:
        return {
            "apiVersion": POD_GANG.api_version(),
            "kind": POD_GANG.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def read_resource(obj: Mapping[str, Any]) -> MnnvlResource:
    """Reads a stored ComputeDomain or ResourceClaim."""
    metadata = obj["metadata"]
    labels = labels_of(obj)
    return MnnvlResource(
        kind=obj.get("kind", ""),
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        managed=labels.get(MNNVL_MANAGED) == "true",
        deleting=metadata.get("deletionTimestamp") is not None,
        place=read_place(labels),
        owners=tuple(
            OwnerRef(one.get("kind", ""), one.get("name", ""), one.get("uid", ""), one.get("controller") is True)
            for one in metadata.get("ownerReferences") or ()
            if isinstance(one, dict)
        ),
        created=metadata.get("creationTimestamp") or "",
        awaited=awaited_classes(obj),
    )


def read_gang(obj: Mapping[str, Any], namespace: str) -> Gang:
    metadata = obj.get("metadata")
    held: Mapping[str, Any] = metadata if isinstance(metadata, dict) else {}
    return Gang(
        namespace=namespace,
        name=str(held.get("name", "")),
        uid=str(held.get("uid") or ""),
        place=read_place(labels_of(obj)),
        deleting=held.get("deletionTimestamp") is not None,
        set_uid=_set_uid(held.get("ownerReferences")),
    )


def _set_uid(references: Any) -> str:
    for one in references if isinstance(references, list) else ():
        if isinstance(one, dict) and one.get("kind") == POD_CLIQUE_SET.kind and one.get("controller") is True:
            return str(one.get("uid") or "")
    return ""


def belongs_to(resource: MnnvlResource, gang: Gang) -> bool:
    """Whether `resource` was made for `gang`: by the name of the PodGang that it carries, else by the design's labels,
    which must be just as specific on both sides, so that a base PodGang never takes a scaled one's."""
    if not resource.managed or resource.namespace != gang.namespace or _is_generated(resource):
        return False
    if resource.place.podgang:
        return resource.place.podgang == gang.name
    mine, theirs = resource.place, gang.place
    return bool(mine.pcs and mine.replica) and (mine.pcs, mine.replica, mine.group, mine.group_replica) == (
        theirs.pcs,
        theirs.replica,
        theirs.group,
        theirs.group_replica,
    )


def _is_generated(resource: MnnvlResource) -> bool:
    """Whether Kubernetes made this claim for one pod, from a template whose labels it inherited."""
    return any(owner.kind == "Pod" for owner in resource.owners)


def ownership(resource: MnnvlResource, gang: Gang) -> State:
    """How `resource`, which belongs to `gang`, stands to it.

    adoptable: nobody controls it, or its PodCliqueSet still does, or a former PodGang of the same name.
    foreign: another controller has it, and it is left alone.
    """
    if resource.deleting:
        return "going"
    if gang.uid and any(one.uid == gang.uid and one.controller for one in resource.owners):
        return "owned"
    return "adoptable" if all(_may_yield(one, resource, gang) for one in resource.owners) else "foreign"


def _may_yield(owner: OwnerRef, resource: MnnvlResource, gang: Gang) -> bool:
    if owner.kind == POD_GANG.kind:
        return owner.name == gang.name
    return (owner.kind, owner.name) == (POD_CLIQUE_SET.kind, resource.place.pcs)


def adopted_annotation(
    resources: Iterable[MnnvlResource], gang: Gang, *, adopting: bool = False
) -> Literal["true", "false"] | None:
    """The value that `grove.io/mnnvl-resources-adopted` should have: "true" once every resource is owned, "false" while
    one waits, None (no annotation) for a PodGang without MNNVL resources. `adopting` counts what it may adopt as owned,
    for a dry run."""
    states = {ownership(one, gang) for one in resources}
    if not states:
        return None
    enough = {"owned", "adoptable"} if adopting else {"owned"}
    return "true" if states <= enough else "false"


@dataclass(frozen=True, slots=True)
class OwnershipProblem:
    """`settling`: may put itself right within moments, so that it means something only if it lasts."""

    message: str
    remedy: str
    settling: bool = False


def ownership_problem(resource: MnnvlResource, gang: Gang | None, *, set_exists: bool) -> OwnershipProblem | None:
    """What is wrong with a stored resource that we made; None if all is well. `gang` is the PodGang that it was made
    for, None if there is none of that name; `set_exists` is about its PodCliqueSet."""
    if not resource.managed or resource.deleting or _is_generated(resource):
        return None
    if gang is None:
        return _without_gang(resource, set_exists=set_exists)
    state = ownership(resource, gang)
    if state == "adoptable":
        message = f'not adopted: PodGang "{gang.name}" should own it, and the reconciler has not made it so yet'
        return OwnershipProblem(message, "See whether a replica leads (/readyz?verbose) and what its log says.", True)
    if state == "foreign":
        message = f'controlled by something else than PodGang "{gang.name}", which uses it'
        return OwnershipProblem(message, "Remove the controller in its ownerReferences that is not its PodGang.")
    return None


def _without_gang(resource: MnnvlResource, *, set_exists: bool) -> OwnershipProblem:
    named = f'PodGang "{resource.place.podgang}"' if resource.place.podgang else "the PodGang of its labels"
    message = f"orphaned: {named} does not exist"
    if set_exists:
        return OwnershipProblem(message, "It goes with its PodCliqueSet; delete it before where no Pod uses it.", True)
    message += f', and neither does PodCliqueSet "{resource.place.pcs}"'
    return OwnershipProblem(message, "Delete it, unless the garbage collector is quicker.")
