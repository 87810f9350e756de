"""Projection of a PodGang for the cache: who it is, and what the rules of constraints look at, without a read."""

from dataclasses import dataclass
from sys import intern
from typing import Any

import orjson

from app.kube.api import Object
from app.objects.edits import ABSENT, value_at
from app.rules.labels import MNNVL_ADOPTED, TOPOLOGY_NAME, Place
from app.rules.mnnvl.ownership import Gang, read_gang

_PLACE = ("pcs", "replica", "group", "group_replica", "podgang")
_ANNOTATIONS = (TOPOLOGY_NAME, MNNVL_ADOPTED)
_CONSTRAINTS = ("topologyConstraint", "topologyConstraintGroupConfigs")


@dataclass(frozen=True, slots=True)
class StoredGang(Gang):
    """A PodGang as the API server has it. `seen` is JSON, which needs a small part of the memory that maps need."""

    seen: bytes = b""

    def view(self) -> Object:
        """The part of the object that constraints and the adopted annotation touch, in its place: edits of it, as JSON
        Patch operations, fit the whole object."""
        found: Object = orjson.loads(self.seen)
        return found


def packed(obj: Object) -> bytes:
    """JSON in just the memory that it needs: orjson hands out its whole buffer, of some KiB."""
    return bytes(memoryview(orjson.dumps(obj)))


def read_stored_gang(obj: Object) -> StoredGang:
    gang = read_gang(obj, obj["metadata"].get("namespace", ""))
    place = Place(*(intern(getattr(gang.place, field)) for field in _PLACE))
    return StoredGang(
        intern(gang.namespace),
        intern(gang.name),
        gang.uid,
        place,
        gang.deleting,
        intern(gang.set_uid),
        packed(reduced(obj)),
    )


def reduced(obj: Object) -> Object:
    """What stays of `obj`. A map that is there stays, however little of it, so that nobody thinks it has to be made."""
    metadata: Object = {}
    annotations = value_at(obj, ("metadata", "annotations"))
    if isinstance(annotations, dict):
        metadata["annotations"] = {
            key: annotations[key] for key in (TOPOLOGY_NAME, MNNVL_ADOPTED) if key in annotations
        }
    spec = value_at(obj, ("spec",))
    if not isinstance(spec, dict):
        return {"metadata": metadata} if spec is ABSENT else {"metadata": metadata, "spec": spec}
    kept = {key: spec[key] for key in _CONSTRAINTS if key in spec}
    if "podgroups" in spec:
        kept["podgroups"] = _podgroups(spec["podgroups"])
    return {"metadata": metadata, "spec": kept}


def _podgroups(found: Any) -> Any:
    if not isinstance(found, list):
        return found
    return [
        {key: one[key] for key in ("name", "topologyConstraint") if key in one} if isinstance(one, dict) else one
        for one in found
    ]
