"""Write Kubernetes Events, which `kubectl describe` shows.

Events are written in the background, and some may be lost.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Collection
from hashlib import sha256
from typing import Literal, Never

from msgspec import Struct, field

from app.base.fair_queue import FairQueue
from app.base.groups import remember
from app.base.value import Value
from app.kube.api import Client, ClusterError, Conflict, Key, NotFound, Object, ObjectRef
from app.objects.resource import EVENT, Resource
from app.objects.shape import JsonMap
from app.objects.time import Now, precise_timestamp, utc_now

CONTROLLER = "grove-admission"
NOTE_LIMIT = 1024
"""The maximum size of a note, in bytes. The API server rejects an Event with a longer note."""

QUEUE_LIMIT = 500
"""The maximum number of Events about objects of one namespace that wait to be written."""

SERIES_LIMIT = 4096
"""The maximum number of Events whose counts are remembered."""

MAX_KEYS = 10_000
"""The maximum number of keys whose current warnings are remembered."""

EventType = Literal["Normal", "Warning"]

logger = logging.getLogger(__name__)


class Regarding(Value):
    """The object that an Event is about.

    The `namespace` of a cluster-scoped object is "", and its Events are in `default`.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, obj: JsonMap) -> "Regarding":
        """Return the reference to the stored object `obj`."""
        metadata = obj["metadata"]
        namespace = str(metadata.get("namespace") or "")
        return cls(
            api_version=obj["apiVersion"],
            kind=obj["kind"],
            namespace=namespace,
            name=metadata["name"],
            uid=str(metadata.get("uid") or ""),
        )

    @classmethod
    def to(cls, resource: Resource, name: str, namespace: str = "", uid: str = "") -> "Regarding":
        """Return the reference to an object, in the preferred version of `resource`."""
        return cls(
            api_version=resource.api_version(),
            kind=resource.kind,
            namespace=namespace,
            name=name,
            uid=uid,
        )

    def reference(self) -> Object:
        """Return the value of the field `regarding`, without an empty namespace or uid."""
        reference = {"apiVersion": self.api_version, "kind": self.kind, "name": self.name}
        return reference | {
            key: value for key, value in (("namespace", self.namespace), ("uid", self.uid)) if value
        }


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


class Recorder(Struct):
    """A writer of Events (events.k8s.io/v1).

    If the same content is recorded again, the count in the series of the Event is increased.
    Namespaces take turns, because tenants can cause any number of Events.
    """

    client: Client
    """The client that writes the Events."""
    identity: str
    """The name of this process, for the field `reportingInstance`."""
    now: Now = utc_now
    """The wall clock in UTC."""
    lost: int = 0
    """The number of Events that were not written, because the queue was full or a call failed."""
    _waiting: FairQueue[Object] = field(default_factory=lambda: FairQueue(QUEUE_LIMIT))
    _added: asyncio.Event = field(default_factory=asyncio.Event)
    _idle: asyncio.Event = field(default_factory=_set_event)
    _counts: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def record(self, regarding: Regarding, kind: EventType, reason: str, note: str) -> bool:
        """Log a message and add an Event to the queue, without waiting.

        Return False if the Event is lost, because its namespace already has QUEUE_LIMIT Events in
        the queue. `reason` is a CamelCase word, and `note` is text for people.
        """
        note = shortened(note)
        logger.log(
            logging.INFO if kind == "Normal" else logging.WARNING,
            "%s %s: %s: %s",
            regarding.kind,
            "/".join(filter(None, (regarding.namespace, regarding.name))),
            reason,
            note,
        )
        if not self._waiting.put(regarding.namespace, self.event(regarding, kind, reason, note)):
            self.lost += 1
            return False
        self._idle.clear()
        self._added.set()
        return True

    async def run(self) -> Never:
        """Write the Events in the queue, and wait for more, until it is cancelled."""
        while True:
            while not self._waiting:
                self._idle.set()
                self._added.clear()
                await self._added.wait()
            event = self._waiting.take()
            try:
                await self._write(event)
            except ClusterError as error:
                self.lost += 1
                regarding = event["regarding"]["name"]
                logger.info(
                    "event %s about %s was not written: %s",
                    event["reason"],
                    regarding,
                    error.message,
                )

    async def written(self) -> None:
        """Wait until the queue is empty and its last Event is written or lost."""
        await self._idle.wait()

    async def _write(self, event: Object) -> None:
        name = event["metadata"]["name"]
        namespace = event["metadata"]["namespace"]
        if name in self._counts and await self._increase_count(name, namespace):
            return
        try:
            await self.client.create(EVENT, event, namespace)
        except Conflict:
            await self._increase_count(name, namespace)
        else:
            remember(self._counts, name, 1, SERIES_LIMIT)

    async def _increase_count(self, name: str, namespace: str) -> bool:
        """Increase the count of an Event, and return True.

        Return False if the Event no longer exists: API servers delete Events, by default after an
        hour.
        """
        count = self._counts.get(name, 1) + 1
        series = {"count": count, "lastObservedTime": precise_timestamp(self.now())}
        try:
            await self.client.patch(ObjectRef(EVENT, name, namespace), {"series": series})
        except NotFound:
            self._counts.pop(name, None)
            return False
        remember(self._counts, name, count, SERIES_LIMIT)
        return True

    def event(self, regarding: Regarding, kind: EventType, reason: str, note: str) -> Object:
        """Return a new Event.

        Events with the same content have the same name, in all replicas and after a restart.
        """
        note = shortened(note)
        content = "\0".join((regarding.kind, regarding.uid, kind, reason, note))
        digest = sha256(content.encode("utf-8", "replace")).hexdigest()[:16]
        name = f"{regarding.name[:200].rstrip('-.')}.{digest}"
        return {
            "metadata": {"name": name, "namespace": regarding.namespace or "default"},
            "eventTime": precise_timestamp(self.now()),
            "reportingController": CONTROLLER,
            "reportingInstance": self.identity[:128],
            "action": "Reconcile",
            "type": kind,
            "reason": reason,
            "note": note,
            "regarding": regarding.reference(),
        }


def shortened(note: str) -> str:
    """Return `note`, cut to NOTE_LIMIT bytes, because it may list the names of many objects."""
    encoded = note.encode("utf-8", "replace")
    if len(encoded) <= NOTE_LIMIT:
        return note
    return f"{encoded[: NOTE_LIMIT - 3].decode('utf-8', 'ignore')}..."


class Notices(Struct):
    """A recorder of warnings that records the same warning only once while a problem lasts.

    A level-driven reconciler sees the problem in every step. The current warnings of the `MAX_KEYS`
    most recently used keys are remembered.
    """

    events: Recorder
    """The recorder of the Events."""
    _current: OrderedDict[Key, set[tuple[Regarding, str, str]]] = field(default_factory=OrderedDict)

    def say(self, key: Key, regarding: Collection[Regarding], reason: str, note: str) -> None:
        """Record a warning on each object in `regarding`, unless `key` already has this warning.

        The warning replaces the previous warnings of `key`. `note` must not have numbers that
        change often, because each new note is another Event. If an Event is lost, the next call
        records it again.
        """
        note = shortened(note)
        before = self._current.get(key, set())
        notices = {
            (target, reason, note)
            for target in regarding
            if (target, reason, note) in before
            or self.events.record(target, "Warning", reason, note)
        }
        remember(self._current, key, notices, MAX_KEYS)

    def forget(self, key: Key) -> None:
        """Forget the warnings of `key`, so that the next problem is recorded again."""
        self._current.pop(key, None)
