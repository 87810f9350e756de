"""Projection of a PodGang for the cache: who it is, and what the rules of constraints look at, without a read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from app.cluster.api import Key, Object
from app.domain.edits import ABSENT, value_at
from app.domain.labels import MNNVL_ADOPTED, TOPOLOGY_NAME
from app.domain.ownership import Gang, read_gang

BY_SET = "set"
"""Index of the store of PodGangs: namespace and PodCliqueSet."""

_ANNOTATIONS = (TOPOLOGY_NAME, MNNVL_ADOPTED)
_CONSTRAINTS = ("topologyConstraint", "topologyConstraintGroupConfigs")


@dataclass(frozen=True, slots=True)
class StoredGang(Gang):
    """A PodGang as the API server has it. `seen` is JSON (a tenth of the memory of maps); `view` reads it."""

    seen: bytes = b"{}"

    def view(self) -> Object:
        """The part of the object that constraints and the adopted annotation touch, in its place: edits of it, as JSON
        Patch operations, fit the whole object."""
        found: Object = orjson.loads(self.seen)
        return found


def read_stored_gang(obj: Object) -> StoredGang:
    gang = read_gang(obj, obj["metadata"].get("namespace", ""))
    seen = orjson.dumps(reduced(obj))
    return StoredGang(gang.namespace, gang.name, gang.uid, gang.place, gang.deleting, seen)


def set_keys(gang: Gang) -> Iterator[Key]:
    """Index function."""
    yield gang.namespace, gang.place.pcs


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
