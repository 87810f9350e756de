"""Read PodGangs, in the forms that explanations and servers keep, and PodGangMaps."""

from sys import intern
from typing import Any

from app.base.json import from_json, to_json
from app.base.value import Value, Versioned
from app.facts.constraint import UNBOUND, SchedulerConstraint
from app.facts.identity import NOWHERE, Namespaced, Place, read_key, read_place
from app.facts.kinds import POD_CLIQUE_SET
from app.facts.labels import (
    KAI_TOPOLOGY_NAME,
    MNNVL_ADOPTED,
    POD_GANG_EPOCH,
    POD_GANG_ROLE,
    TOPOLOGY_NAME,
)
from app.objects.edits import ABSENT, value_at
from app.objects.owners import controller_uid
from app.objects.shape import (
    JsonMap,
    Object,
    int_of,
    map_at,
    map_of,
    maps_at,
    only,
    text_at,
    text_of,
    texts_at,
)
from app.objects.time import seconds_since_1970

SCHEDULER_NAME = "grove.io/scheduler-name"
"""Grove's label of a PodGang that names its backend: `kai-scheduler`, `kueue`, or a profile."""

TOPOLOGY_NAMES = (TOPOLOGY_NAME, KAI_TOPOLOGY_NAME)
"""The annotations that name the topology of a PodGang."""


class GangPart(Value):
    """An entry of a PodGang's `spec.podgroups`."""

    name: str
    minimum: int = 1
    """The number of pods that must be scheduled together (`minReplicas`)."""
    pods: frozenset[str] = frozenset()
    """The names of the pods (`podReferences`)."""
    told: SchedulerConstraint = UNBOUND
    """The topology constraint, as the scheduler gets it."""


class GangGroup(Value):
    """An entry of a PodGang's `spec.topologyConstraintGroupConfigs`."""

    name: str
    parts: tuple[str, ...]
    """The names of the podgroups in the group."""
    told: SchedulerConstraint
    """The topology constraint, as the scheduler gets it."""


class PodGang(Namespaced):
    """A PodGang: pods that must be scheduled together, with their constraints."""

    kind = "PodGang"
    uid: str = ""
    place: Place = NOWHERE
    """The PodCliqueSet that the labels of the PodGang name."""
    topology: str = ""
    """The topology that an annotation of the PodGang names, or ""."""
    told: SchedulerConstraint = UNBOUND
    """The topology constraint of the whole PodGang, as the scheduler gets it."""
    parts: tuple[GangPart, ...] = ()
    """The podgroups, one for each PodClique."""
    groups: tuple[GangGroup, ...] = ()
    """The topologyConstraintGroupConfigs, each for one replica of a scaling group."""
    created: float | None = None
    """When the PodGang was created, in seconds since 1970, or None if that is not known."""
    role: str = ""
    """The role in a release of Grove with epochs, or "" in earlier releases."""
    epoch: str = ""
    """The epoch in a release of Grove with epochs, or "" in earlier releases."""
    scheduled: bool | None = None
    """Whether Grove has ever seen the PodGang scheduled, or None if Grove does not record that."""
    deleted_at: float | None = None
    """When its deletion was requested, in seconds since 1970, or None if it was not."""
    finalizers: tuple[str, ...] = ()
    scheduler: str = ""
    """The scheduler backend that Grove chose, or "" if Grove does not name one."""

    @property
    def constrained(self) -> bool:
        """Whether the whole PodGang, a group or a podgroup has a constraint."""
        return any(
            (self.told, *(part.told for part in self.parts), *(group.told for group in self.groups))
        )


def read_pod_gang(obj: JsonMap) -> PodGang:
    """Read a PodGang. A field that is missing or has the wrong type counts as not set."""
    metadata = map_at(obj, "metadata")
    labels = map_at(metadata, "labels")
    annotations = map_at(metadata, "annotations")
    names = (text_at(annotations, key) for key in TOPOLOGY_NAMES)
    spec = map_at(obj, "spec")
    return PodGang(
        *read_key(obj),
        uid=text_at(metadata, "uid"),
        place=read_place(labels),
        topology=next(filter(None, names), ""),
        told=read_told(spec),
        parts=tuple(
            GangPart(
                name=text_at(item, "name"),
                minimum=int_of(item.get("minReplicas"), 1),
                pods=frozenset(text_at(pod, "name") for pod in maps_at(item, "podReferences")),
                told=read_told(item),
            )
            for item in maps_at(spec, "podgroups")
        ),
        groups=tuple(
            GangGroup(
                name=text_at(item, "name"),
                parts=tuple(texts_at(item, "podGroupNames")),
                told=read_told(item),
            )
            for item in maps_at(spec, "topologyConstraintGroupConfigs")
        ),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
        role=text_at(labels, POD_GANG_ROLE),
        epoch=text_at(labels, POD_GANG_EPOCH),
        scheduled=_scheduled(map_at(obj, "status")),
        deleted_at=seconds_since_1970(metadata.get("deletionTimestamp")),
        finalizers=tuple(texts_at(metadata, "finalizers")),
        scheduler=text_at(labels, SCHEDULER_NAME),
    )


def _scheduled(status: JsonMap) -> bool | None:
    """Return whether Grove has ever seen a PodGang scheduled, or None if it does not record that.

    The condition and the time were added together: https://github.com/ai-dynamo/grove/pull/792.
    """
    if status.get("lastScheduled"):
        return True
    conditions = maps_at(status, "conditions")
    return False if any(item.get("type") == "Scheduled" for item in conditions) else None


def read_told(holder: JsonMap) -> SchedulerConstraint:
    """Return the constraint of the spec of a PodGang, or of an entry of one of its lists."""
    pack = map_at(holder, "topologyConstraint", "packConstraint")
    return SchedulerConstraint(text_at(pack, "required"), text_at(pack, "preferred"))


# The forms that servers use, for owners of MNNVL resources and for constraints. A server keeps all
# PodGangs, and a `PodGang` takes almost twice as much memory as a `StoredGang`.


_ANNOTATIONS = (TOPOLOGY_NAME, MNNVL_ADOPTED)
_CONSTRAINTS = ("topologyConstraint", "topologyConstraintGroupConfigs")


class GangIdentity(Value):
    """The identity of a PodGang, without its PodCliques."""

    namespace: str
    name: str
    uid: str
    """The uid of the PodGang, or "" while it is being created."""
    place: Place
    """The PodCliqueSet that the labels of the PodGang name."""
    deleting: bool = False
    """Whether the deletion of the PodGang was requested."""
    set_uid: str = ""
    """The uid of the PodCliqueSet that controls the PodGang, or ""."""
    role: str = ""
    """The role of the PodGang, or "" if Grove did not name the PodGang after an epoch."""


class SlimPodGang(GangIdentity):
    """A PodGang with the names of its PodCliques."""

    cliques: tuple[str, ...] = ()
    """The names of the PodCliques, which are also the names of the podgroups."""


def read_gang(obj: JsonMap, namespace: str) -> SlimPodGang:
    """Read a PodGang in `namespace`, with the names of its PodCliques."""
    return SlimPodGang(*_identity(obj, namespace), cliques=_cliques(obj))


def _identity(obj: JsonMap, namespace: str) -> tuple[str, str, str, Place, bool, str, str]:
    """Return the fields of a `GangIdentity`. Equal texts are one object."""
    metadata = map_of(obj.get("metadata"))
    labels = map_of(metadata.get("labels"))
    return (
        intern(namespace),
        intern(str(metadata.get("name", ""))),
        intern(str(metadata.get("uid") or "")),
        read_place(labels),
        metadata.get("deletionTimestamp") is not None,
        controller_uid(obj, POD_CLIQUE_SET.kind),
        intern(text_at(labels, POD_GANG_ROLE)),
    )


def _cliques(obj: JsonMap) -> tuple[str, ...]:
    """Return the names of a PodGang's podgroups, which are also the names of its PodCliques."""
    podgroups = maps_at(obj, "spec", "podgroups")
    return tuple(text_at(podgroup, "name") for podgroup in podgroups)


class OpenGang(SlimPodGang, kw_only=True):
    """A cached PodGang with its decoded constraints and annotations."""

    view: Object
    """The constraints and annotations of the object, at their places in the whole object.

    A JSON Patch of the view therefore applies to the whole object.
    """
    resource_version: str


class StoredGang(Versioned, GangIdentity):
    """A PodGang in the form that a server caches.

    Resource versions do not count in comparisons, because each status that Grove writes changes
    them.
    """

    content: bytes = b""
    """The JSON of `OpenGang.view`, which needs far less memory than maps."""
    resource_version: str = ""

    def opened(self) -> OpenGang:
        """Return this PodGang with its content decoded."""
        view: Object = from_json(self.content)
        return OpenGang(
            self.namespace,
            self.name,
            self.uid,
            self.place,
            self.deleting,
            self.set_uid,
            self.role,
            _cliques(view),
            view=view,
            resource_version=self.resource_version,
        )


def read_stored_gang(obj: Object) -> StoredGang:
    """Read a stored PodGang in the form that a server caches."""
    metadata = obj["metadata"]
    return StoredGang(
        *_identity(obj, metadata.get("namespace", "")),
        content=to_json(reduced(obj)),
        resource_version=text_of(metadata.get("resourceVersion")),
    )


def reduced(obj: Object) -> Object:
    """Return the parts of the PodGang `obj` that a server keeps.

    A map that exists is kept even if it becomes empty, so that a patch does not create it again.
    """
    metadata: Object = {}
    annotations = value_at(obj, ("metadata", "annotations"))
    if isinstance(annotations, dict):
        metadata["annotations"] = only(annotations, _ANNOTATIONS)
    spec = value_at(obj, ("spec",))
    if not isinstance(spec, dict):
        return {"metadata": metadata} if spec is ABSENT else {"metadata": metadata, "spec": spec}
    reduced_spec = only(spec, _CONSTRAINTS)
    if "podgroups" in spec:
        reduced_spec["podgroups"] = _podgroups(spec["podgroups"])
    return {"metadata": metadata, "spec": reduced_spec}


def _podgroups(podgroups: Any) -> Any:
    if not isinstance(podgroups, list):
        return podgroups
    return [
        only(item, ("name", "topologyConstraint")) if isinstance(item, dict) else item
        for item in podgroups
    ]


# PodGangMaps, of releases with epochs.


class MapEntry(Value):
    """An entry of a PodGangMap: the PodGangs of one epoch."""

    epoch: str
    depends_on: tuple[str, ...] = ()
    """The epochs whose PodGangs must be scheduled before the PodGangs of this epoch."""
    pods: tuple[tuple[str, int], ...] = ()
    """The PodCliques outside of scaling groups, each with the number of its pods in this epoch."""


class PodGangMap(Namespaced):
    """A PodGangMap: the epochs of the PodGangs of one replica of a PodCliqueSet."""

    kind = "PodGangMap"
    entries: tuple[MapEntry, ...] = ()

    def by_epoch(self) -> dict[str, MapEntry]:
        """Return the first entry of each epoch."""
        return {entry.epoch: entry for entry in reversed(self.entries)}

    def shares(self) -> dict[str, dict[str, int]]:
        """Return the number of pods that should be in each epoch, by PodClique and epoch."""
        shares: dict[str, dict[str, int]] = {}
        for entry in self.entries:
            for name, count in entry.pods:
                shares.setdefault(name, {})[entry.epoch] = count
        return shares


def read_pod_gang_map(obj: JsonMap) -> PodGangMap:
    """Read a PodGangMap."""
    namespace, name = read_key(obj)
    entries = []
    for item in maps_at(obj, "spec", "entries"):
        counts = sorted(map_at(item, "podCliques").items())
        entries.append(
            MapEntry(
                epoch=text_at(item, "epoch"),
                depends_on=tuple(texts_at(item, "dependsOn")),
                # the names of its PodCliques begin with the name of the map
                pods=tuple((f"{name}-{clique}", int_of(count)) for clique, count in counts),
            )
        )
    return PodGangMap(namespace, name, tuple(entries))
