"""PodGangs."""

from app.base.value import Value
from app.facts.constraint import UNBOUND, SchedulerConstraint
from app.facts.labels import KAI_TOPOLOGY_NAME, POD_GANG_EPOCH, POD_GANG_ROLE, TOPOLOGY_NAME
from app.facts.named import Namespaced, read_key
from app.facts.place import NOWHERE, Place, read_place
from app.objects.shape import JsonMap, int_of, map_at, maps_at, text_at, texts_at
from app.objects.time import seconds_since_1970

TOPOLOGY_NAMES = (TOPOLOGY_NAME, KAI_TOPOLOGY_NAME)
"""The annotations that name the topology of a PodGang."""


class GangPart(Value):
    """An entry of a PodGang's `spec.podgroups`. `pods` are the names in podReferences."""

    name: str = ""
    minimum: int = 1
    pods: frozenset[str] = frozenset()
    told: SchedulerConstraint = UNBOUND


class GangGroup(Value):
    """An entry of a PodGang's `spec.topologyConstraintGroupConfigs`.

    `parts` are names of its podgroups.
    """

    name: str = ""
    parts: tuple[str, ...] = ()
    told: SchedulerConstraint = UNBOUND


class PodGang(Namespaced):
    """A PodGang.

    `topology` is the topology's name in its annotations, "" if no annotation gives one. `role` and
    `epoch` are those of a release with epochs, "" for earlier ones. `scheduled` is whether Grove
    has ever seen it scheduled, None if Grove's release does not write that.
    """

    kind = "PodGang"
    uid: str = ""
    place: Place = NOWHERE
    topology: str = ""
    told: SchedulerConstraint = UNBOUND
    parts: tuple[GangPart, ...] = ()
    groups: tuple[GangGroup, ...] = ()
    created: float | None = None
    role: str = ""
    epoch: str = ""
    scheduled: bool | None = None

    @property
    def constrained(self) -> bool:
        """Whether the whole, a group or a part has a constraint."""
        return any(
            (self.told, *(part.told for part in self.parts), *(group.told for group in self.groups))
        )


def read_pod_gang(obj: JsonMap) -> PodGang:
    metadata = map_at(obj, "metadata")
    labels = map_at(metadata, "labels")
    annotations = map_at(metadata, "annotations")
    names = (text_at(annotations, key) for key in TOPOLOGY_NAMES)
    spec = map_at(obj, "spec")
    return PodGang(
        *read_key(metadata),
        uid=text_at(metadata, "uid"),
        place=read_place(labels),
        topology=next(filter(None, names), ""),
        told=read_told(spec),
        parts=tuple(map(_part, maps_at(spec, "podgroups"))),
        groups=tuple(map(_group, maps_at(spec, "topologyConstraintGroupConfigs"))),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
        role=text_at(labels, POD_GANG_ROLE),
        epoch=text_at(labels, POD_GANG_EPOCH),
        scheduled=_scheduled(map_at(obj, "status")),
    )


def _scheduled(status: JsonMap) -> bool | None:
    """Return whether Grove has ever seen a PodGang scheduled, None if it does not write that.

    The condition and the time came together: https://github.com/ai-dynamo/grove/pull/792.
    """
    if status.get("lastScheduled"):
        return True
    conditions = maps_at(status, "conditions")
    return False if any(item.get("type") == "Scheduled" for item in conditions) else None


def _part(item: JsonMap) -> GangPart:
    pods = frozenset(text_at(pod, "name") for pod in maps_at(item, "podReferences"))
    minimum = int_of(item.get("minReplicas"), 1)
    return GangPart(text_at(item, "name"), minimum, pods, read_told(item))


def _group(item: JsonMap) -> GangGroup:
    parts = tuple(texts_at(item, "podGroupNames"))
    return GangGroup(text_at(item, "name"), parts, read_told(item))


def read_told(holder: JsonMap) -> SchedulerConstraint:
    """Return the constraint of the spec of a PodGang, or of an entry of one of its lists."""
    pack = map_at(holder, "topologyConstraint", "packConstraint")
    return SchedulerConstraint(text_at(pack, "required"), text_at(pack, "preferred"))
