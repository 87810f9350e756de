"""Small clusters as lists of objects in which any value may be anything."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import islice
from random import Random
from typing import Any, TypeVar

from app.base.json import NotJson, from_json
from app.facts.kinds import CLUSTER_TOPOLOGY_BINDING
from app.kube.api import NotServed
from app.objects.shape import list_of, map_of
from tests.explain import fleet
from tests.explain.decisions.recording import recordings
from tests.explain.fleet import facts
from tests.explain.objects import objects_of
from tests.explain.test_reasons import ROWS, start
from tests.fuzz.mutation import Vocabulary, changed_bytes, dump, with_value
from tests.fuzz.target import Mutate
from tests.kube.memory.client import EVERYTHING, MemoryClient

Object = dict[str, Any]
C = TypeVar("C", bound=MemoryClient)

EACH = 8
"""Of so many recorded decisions of KAI, one is taken: the others are much like it."""

TEXTS = (
    "2026-99-99T00:00:00Z",
    "0000-00-00T00:00:00Z",
    "9999-12-31T23:59:60+23:59",
    "1.2.3s",
    "9" * 60 + "h",
    "1e99",
    "9" * 64,
    "9" * 5000,
    "-1",
    "0x10",
    "\u0663",
    "a/b/c",
    "a\x1b[31mb\u202ec\u200bd\r\n\ne",
    "device.driver == 'gpu.x'",
)
"""What readers take for times, durations, quantities, numbers and paths, or what is shown."""

NUMBERS = (2**31 - 1, 2**63 - 1, -(2**63), 2**64 - 1, 1e18, 1e300, -1e300)


def read_cluster(data: bytes) -> Object:
    """The map in an input; {} if there is none. JSON is read as the answers of API servers are."""
    try:
        return dict(map_of(from_json(data)))
    except NotJson:
        return {}


def objects_in(cluster: Object) -> list[Object]:
    return [obj for obj in list_of(cluster.get("objects")) if isinstance(obj, dict)]


def stored(obj: Object) -> Object:
    """The object with metadata of the types that every API server guarantees.

    Source: https://github.com/kubernetes/apimachinery/blob/release-1.35/pkg/apis/meta/v1/types.go,
    ObjectMeta.
    """
    metadata = dict(map_of(obj.get("metadata")))
    for key in ("labels", "annotations"):
        metadata[key] = _texts(metadata.get(key))
    owners = [
        {**_texts(owner), "controller": owner.get("controller") is True}
        for owner in list_of(metadata.get("ownerReferences"))
        if isinstance(owner, dict)
    ]
    required = dict.fromkeys(("apiVersion", "kind", "name", "uid"), "")
    metadata["ownerReferences"] = [{**required, **owner} for owner in owners]
    metadata["finalizers"] = [
        text for text in list_of(metadata.get("finalizers")) if isinstance(text, str)
    ]
    for key in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"):
        if not isinstance(metadata.get(key), str):
            metadata.pop(key, None)
    named = {"name": "unnamed", "uid": "uid", "resourceVersion": "1"}
    return {**obj, "metadata": {**named, **metadata, "resourceVersion": "1"}}


def _texts(value: Any) -> dict[str, str]:
    return {key: text for key, text in map_of(value).items() if isinstance(text, str)}


def loaded(kind: type[C], objects: Iterable[Object]) -> C:
    """A cluster in memory with the objects of the kinds that it serves.

    It serves ClusterTopologyBindings if there is one.
    """
    stored_objects = [stored(obj) for obj in objects]
    bindings = any(obj.get("kind") == CLUSTER_TOPOLOGY_BINDING.kind for obj in stored_objects)
    version = {CLUSTER_TOPOLOGY_BINDING: CLUSTER_TOPOLOGY_BINDING.versions[0]}
    client = kind(served={**EVERYTHING, **version} if bindings else EVERYTHING)
    for obj in stored_objects:
        with contextlib.suppress(NotServed):
            client.load([obj])
    return client


@cache
def clusters() -> Sequence[Object]:
    """What to ask and the objects: states of the table of reasons, and recorded clusters."""
    asked = f"{fleet.SET_REF.kind}/{fleet.NAMESPACE}/{fleet.SET}"
    states = [
        {"ask": asked, "objects": objects_of(facts(**{**start(row.dialects[0]), **row.hit}))}
        for row in ROWS
    ]
    recorded = [
        {
            "ask": f"{recording.ref.kind}/{recording.ref.namespace}/{recording.ref.name}",
            "objects": recording.items_after,
        }
        for recording in islice(recordings(), 0, None, EACH)
    ]
    return [*states, *recorded]


def corpus() -> Sequence[bytes]:
    return [dump(cluster) for cluster in clusters()]


@cache
def _vocabulary() -> Vocabulary:
    return Vocabulary(cluster["objects"] for cluster in clusters())


def mutation_of(begin: Callable[[], Sequence[bytes]]) -> Mutate:
    """Changes values of a few objects of an input of `begin`."""

    def mutate(data: bytes, random: Random) -> bytes:
        cluster = read_cluster(data)
        objects = objects_in(cluster)
        if not objects:
            return random.choice(begin())
        if random.random() < 0.01:
            return changed_bytes(data, random)
        for _ in range(random.choice((1, 1, 2, 4))):
            at = random.randrange(len(objects))
            objects[at] = _changed(objects[at], random)
        return dump({**cluster, "objects": objects})

    return mutate


def _changed(obj: Object, random: Random) -> Any:
    if random.random() < 0.6:
        return _vocabulary().changed(obj, random)
    return with_value(obj, random.choice((*TEXTS, *NUMBERS)), random)
