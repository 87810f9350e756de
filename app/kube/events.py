"""Write Kubernetes Events, which `kubectl describe` shows.

They are written in the background, and some may be lost.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Collection
from hashlib import sha256
from typing import Literal, Never

from msgspec import Struct, field

from app.base.groups import remember
from app.base.value import Value
from app.kube.api import Client, ClusterError, Conflict, Key, NotFound, Object, ObjectRef
from app.objects.resource import EVENT, Resource
from app.objects.shape import JsonMap
from app.objects.time import Now, precise_timestamp, utc_now

CONTROLLER = "grove-admission"
NOTE_LIMIT = 1024
"""The maximum size of a note, in bytes. The API server rejects an Event with a longer note."""

QUEUE_LIMIT = 1000
SERIES_LIMIT = 4096
MAX_KEYS = 10_000

EventType = Literal["Normal", "Warning"]

logger = logging.getLogger(__name__)


class Regarding(Value):
    """The object of an Event.

    A cluster-scoped object has the `namespace` "", and its Events are in `default`.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, obj: JsonMap) -> "Regarding":
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
        return cls(
            api_version=resource.api_version(),
            kind=resource.kind,
            namespace=namespace,
            name=name,
            uid=uid,
        )

    def reference(self) -> Object:
        reference = {"apiVersion": self.api_version, "kind": self.kind, "name": self.name}
        return reference | {
            key: value for key, value in (("namespace", self.namespace), ("uid", self.uid)) if value
        }


class Recorder(Struct):
    """A writer of Events (events.k8s.io/v1).

    If the same content is recorded again, the count of the Event's series is increased.

    `identity` is the name of this process, and `now` the wall clock in UTC. `lost` is the number of
    Events that could not be written, because the queue was full or the API server rejected them.
    """

    client: Client
    identity: str
    now: Now = utc_now
    lost: int = 0
    _waiting: asyncio.Queue[Object] = field(default_factory=lambda: asyncio.Queue(QUEUE_LIMIT))
    _counts: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def record(self, regarding: Regarding, kind: EventType, reason: str, note: str) -> None:
        """Log a message and add an Event to the queue, without waiting.

        If the queue is full, the Event is lost. `reason` is a CamelCase word, and `note` a sentence
        for people.
        """
        logger.log(
            logging.INFO if kind == "Normal" else logging.WARNING,
            "%s %s: %s: %s",
            regarding.kind,
            "/".join(filter(None, (regarding.namespace, regarding.name))),
            reason,
            note,
        )
        try:
            self._waiting.put_nowait(self.event(regarding, kind, reason, note))
        except asyncio.QueueFull:
            self.lost += 1

    async def run(self) -> Never:
        """Write the Events in the queue until it is cancelled."""
        while True:
            event = await self._waiting.get()
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
            finally:
                self._waiting.task_done()

    async def written(self) -> None:
        """Wait until every queued Event was written or lost."""
        await self._waiting.join()

    async def _write(self, event: Object) -> None:
        name = event["metadata"]["name"]
        namespace = event["metadata"]["namespace"]
        if name in self._counts and await self._counted_up(name, namespace):
            return
        try:
            await self.client.create(EVENT, event, namespace)
        except Conflict:
            await self._counted_up(name, namespace)
        else:
            remember(self._counts, name, 1, SERIES_LIMIT)

    async def _counted_up(self, name: str, namespace: str) -> bool:
        """Increase the count of an Event.

        Return False if it no longer exists: the API server deletes Events after an hour.
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

        Its name is the same for the same content, in all replicas and after a restart.
        """
        note = _shortened(note)
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


def _shortened(note: str) -> str:
    encoded = note.encode("utf-8", "replace")
    if len(encoded) <= NOTE_LIMIT:
        return note
    return f"{encoded[: NOTE_LIMIT - 3].decode('utf-8', 'ignore')}..."


class Notices(Struct):
    """Warnings as Events, one for each problem.

    A level-driven reconciler sees a problem again and again. The current warnings of the last
    `MAX_KEYS` keys are remembered.
    """

    events: Recorder
    _current: OrderedDict[Key, set[tuple[Regarding, str, str]]] = field(default_factory=OrderedDict)

    def say(self, key: Key, regarding: Collection[Regarding], reason: str, note: str) -> None:
        """Record a warning on each of `regarding` that does not have it already.

        It replaces the previous warnings of `key`. `note` must not have numbers that change often.
        """
        before = self._current.get(key, set())
        notices = {(target, reason, note) for target in regarding}
        remember(self._current, key, notices, MAX_KEYS)
        for target in regarding:
            if (target, reason, note) not in before:
                self.events.record(target, "Warning", reason, note)

    def forget(self, key: Key) -> None:
        """Forget the warnings of `key`, so that the next problem is recorded again."""
        self._current.pop(key, None)
