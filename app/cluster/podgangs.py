"""The projection of a PodGang for the cache: its identity, and the parts that the rules of constraints read."""

from dataclasses import dataclass
from sys import intern
from typing import Any

import orjson

from app.kube.api import Object
from app.objects.edits import ABSENT, value_at
from app.rules.labels import MNNVL_ADOPTED, TOPOLOGY_NAME
from app.rules.mnnvl.ownership import Gang, read_gang

_ANNOTATIONS = (TOPOLOGY_NAME, MNNVL_ADOPTED)
_CONSTRAINTS = ("topologyConstraint", "topologyConstraintGroupConfigs")


@dataclass(frozen=True, slots=True)
class StoredGang(Gang):
    """A cached PodGang. `content` is JSON, which needs far less memory than maps."""

    content: bytes = b""

    def view(self) -> Object:
        """Returns the parts of the object that contain constraints and annotations, at their places
        in the whole object. A JSON Patch of the view therefore applies to the whole object."""
        view: Object = orjson.loads(self.content)
        return view


def packed(obj: Object) -> bytes:
    """Returns `obj` as JSON. It is copied, because orjson returns a buffer of several KiB."""
    return bytes(memoryview(orjson.dumps(obj)))


def read_stored_gang(obj: Object) -> StoredGang:
    gang = read_gang(obj, obj["metadata"].get("namespace", ""))
    return StoredGang(
        intern(gang.namespace),
        intern(gang.name),
        gang.uid,
        gang.place.interned(),
        gang.deleting,
        intern(gang.set_uid),
        packed(reduced(obj)),
    )


def reduced(obj: Object) -> Object:
    """Returns the parts of `obj` that are kept. A map that exists is kept even if
    it becomes empty, so that a patch does not create it again."""
    metadata: Object = {}
    annotations = value_at(obj, ("metadata", "annotations"))
    if isinstance(annotations, dict):
        metadata["annotations"] = _only(annotations, _ANNOTATIONS)
    spec = value_at(obj, ("spec",))
    if not isinstance(spec, dict):
        return {"metadata": metadata} if spec is ABSENT else {"metadata": metadata, "spec": spec}
    reduced_spec = _only(spec, _CONSTRAINTS)
    if "podgroups" in spec:
        reduced_spec["podgroups"] = _podgroups(spec["podgroups"])
    return {"metadata": metadata, "spec": reduced_spec}


def _podgroups(podgroups: Any) -> Any:
    if not isinstance(podgroups, list):
        return podgroups
    return [_only(item, ("name", "topologyConstraint")) if isinstance(item, dict) else item for item in podgroups]


def _only(entries: Object, keys: tuple[str, ...]) -> Object:
    return {key: entries[key] for key in keys if key in entries}
