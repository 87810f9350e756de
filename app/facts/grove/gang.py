"""PodGangs as the server keeps them: for owners of MNNVL resources, and for constraints.

A `PodGang` of `podgang` takes more than twice as much memory, and a server has one for each.
"""

from sys import intern
from typing import Any

from app.base.json import from_json, to_json
from app.base.value import Value, Versioned
from app.facts.kinds import POD_CLIQUE_SET
from app.facts.labels import MNNVL_ADOPTED, POD_GANG_ROLE, TOPOLOGY_NAME
from app.facts.place import Place, read_place
from app.objects.edits import ABSENT, value_at
from app.objects.owners import controller_uid
from app.objects.shape import JsonMap, Object, map_of, maps_at, text_at, text_of

_ANNOTATIONS = (TOPOLOGY_NAME, MNNVL_ADOPTED)
_CONSTRAINTS = ("topologyConstraint", "topologyConstraintGroupConfigs")


class GangIdentity(Value):
    """A PodGang, without its PodCliques.

    `uid` is "" while it is being created. `set_uid` is that of the PodCliqueSet that controls it,
    or "". `role` is "" if Grove didn't name the PodGang after an epoch.
    """

    namespace: str
    name: str
    uid: str
    place: Place
    deleting: bool = False
    set_uid: str = ""
    role: str = ""


class SlimPodGang(GangIdentity):
    """A PodGang with the names of its PodCliques."""

    cliques: tuple[str, ...] = ()


def read_gang(obj: JsonMap, namespace: str) -> SlimPodGang:
    """Read a PodGang."""
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
    """Return the names of the PodGroups of a PodGang, which are those of its PodCliques."""
    podgroups = maps_at(obj, "spec", "podgroups")
    return tuple(text_at(podgroup, "name") for podgroup in podgroups)


class OpenGang(SlimPodGang, kw_only=True):
    """A cached PodGang, unpacked.

    `view` has the parts of the object that contain constraints and annotations, at their places in
    the whole object. A JSON Patch of the view therefore applies to the whole object.
    """

    view: Object
    resource_version: str


class StoredGang(Versioned, GangIdentity):
    """A cached PodGang. `content` is JSON, which needs far less memory than maps.

    Equal PodGangs may have different resource versions: Grove writes statuses all the time.
    """

    content: bytes = b""
    resource_version: str = ""

    def opened(self) -> OpenGang:
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
    metadata = obj["metadata"]
    return StoredGang(
        *_identity(obj, metadata.get("namespace", "")),
        content=to_json(reduced(obj)),
        resource_version=text_of(metadata.get("resourceVersion")),
    )


def reduced(obj: Object) -> Object:
    """Return the parts of `obj` that are kept.

    A map that exists is kept even if it becomes empty, so that a patch does not create it again.
    """
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
    return [
        _only(item, ("name", "topologyConstraint")) if isinstance(item, dict) else item
        for item in podgroups
    ]


def _only(entries: Object, keys: tuple[str, ...]) -> Object:
    return {key: entries[key] for key in keys if key in entries}
