"""One reading of a cluster: facts as they come in, and what could not be read."""

import asyncio
import contextlib
import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.explain.facts import BY_RESOURCE, CHANNELS, ROOM, Facts
from app.kube.api import ClusterError, Forbidden, NotFound, NotServed, Object, Reader
from app.kube.pages import pages
from app.objects.resource import POD, Resource
from app.rules.kinds import RESOURCE_CLAIM

PAGE = 500
AT_ONCE = 100
"""After so many objects others get their turn. Decoding a page can't be divided: so pages are small if that matters."""


class Reading:
    """Facts as they come in. `lists` counts lists and `gets` single reads, for people who care for their API server."""

    def __init__(self, client: Reader, page: int = PAGE) -> None:
        self.lists = self.gets = 0
        self._client, self._page = client, page
        self._facts: dict[str, list[Any]] = {}
        self._unseen: dict[str, str] = {}
        self._skipped: set[str] = set()
        self._single: set[str] = set()
        self._absent: set[Resource] = set()
        self._read: set[Resource] = set()

    def facts(self, now: float) -> Facts:
        """What was read; a kind that no list was made of counts as skipped."""
        of_field: dict[str, list[Resource]] = {}
        for resource, projection in BY_RESOURCE.items():
            of_field.setdefault(projection.field, []).append(resource)
        absent = {name for name, resources in of_field.items() if all(r in self._absent for r in resources)}
        unread = {name for name, resources in of_field.items() if not any(r in self._read for r in resources)}
        return replace(
            facts_from(self._facts | {field: _distinct(self._facts[field]) for field in self._single}),
            unseen=dict(self._unseen),
            skipped=frozenset((unread | self._skipped) - absent - self._unseen.keys()),
            absent=frozenset(absent),
            now=now,
        )

    def of(self, field: str) -> list[Any]:
        return self._facts.setdefault(field, [])

    def skip(self, field: str) -> None:
        self._skipped.add(field)

    def clear(self, resource: Resource) -> None:
        """Forgets what was read of a resource, before it is read anew."""
        self.of(BY_RESOURCE[resource].field).clear()

    def not_seen(self, field: str, cause: str) -> None:
        self._unseen.setdefault(field, cause)

    async def list(
        self, resource: Resource, namespace: str | None = None, *, selector: str = "", fields: str = ""
    ) -> int:
        """Reads a list; gives the number of objects. What goes wrong is noted."""
        projection, before = BY_RESOURCE[resource], len(self.of(BY_RESOURCE[resource].field))
        error = await self._try(resource, namespace, selector, fields)
        if error is not None:
            self.not_seen(projection.field, cause(error))
        return len(self.of(projection.field)) - before

    async def _try(
        self, resource: Resource, namespace: str | None, selector: str = "", fields: str = ""
    ) -> ClusterError | None:
        """The error that ended a list; None for none, and for a resource that isn't served."""
        projection = BY_RESOURCE[resource]
        facts = self.of(projection.field)
        self.lists += 1
        self._read.add(resource)
        try:
            if self._client.served_version(resource) is None:
                raise NotServed("not served")
            listing = pages(
                self._client, resource, namespace, limit=self._page, label_selector=selector, field_selector=fields
            )
            async for page in listing:
                for position, obj in enumerate(page.items, 1):
                    facts.append(projection.project(obj))
                    if position % AT_ONCE == 0:
                        await asyncio.sleep(0)
        except NotFound:
            self._absent.add(resource)
        except ClusterError as error:
            return error
        return None

    async def list_everywhere(self, resource: Resource) -> bool:
        """A list of all namespaces; False if only the right to it is missing."""
        error = await self._try(resource, None)
        if error is not None and error.code != 403:
            self.not_seen(BY_RESOURCE[resource].field, cause(error))
            self.not_seen(ROOM if resource is POD else CHANNELS, cause(error))
        return error is None or error.code != 403

    async def list_in(self, resource: Resource, namespaces: Sequence[str]) -> None:
        """A list of all namespaces, or else of each of `namespaces` that may be read."""
        error = await self._try(resource, None)
        if error is None:
            return
        field = BY_RESOURCE[resource].field
        if resource is RESOURCE_CLAIM:
            self.not_seen(CHANNELS, cause(error))
        if resource is POD:
            self.not_seen(ROOM, "no right to list pods of all namespaces" if error.code == 403 else cause(error))
        if not isinstance(error, Forbidden) or not namespaces or not resource.namespaced:
            self.not_seen(field, cause(error))
            return
        errors = [await self._try(resource, namespace) for namespace in namespaces]
        for error, namespace in zip(errors, namespaces, strict=True):
            if error is not None:
                self.not_seen(field, f"{cause(error)} in {namespace}")

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """One object, which becomes a fact too if its kind is known here; None if it doesn't exist."""
        self.gets += 1
        self._read.add(resource)
        try:
            if self._client.served_version(resource) is None:
                return None
            obj = await self._client.get(resource, name, namespace)
        except NotFound:
            return None
        except ClusterError as error:
            if resource in BY_RESOURCE:
                self.not_seen(BY_RESOURCE[resource].field, cause(error))
            return None
        self.add(resource, obj)
        return obj

    def add(self, resource: Resource, obj: Object) -> None:
        """Takes in an object."""
        projection = BY_RESOURCE.get(resource)
        if projection is not None:
            self.of(projection.field).append(projection.project(obj))
            self._single.add(projection.field)


def _distinct(facts: list[Any]) -> list[Any]:
    """Each object once: one that was read by itself may be in a list too."""
    named: dict[object, Any] = {}
    for fact in facts:
        key = (getattr(fact, "kind", ""), getattr(fact, "namespace", ""), getattr(fact, "name", id(fact)))
        named.setdefault(key, fact)
    return list(named.values())


def cause(error: ClusterError) -> str:
    """Why a list could not be read, in a few words."""
    return "no right to list" if error.code == 403 else error.message


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Without the garbage collector: decoded pages have no cycles, and looking for some takes longer than decoding."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # or else the next collection would look at everything that was read, in one go
        if was_enabled:
            gc.enable()


def facts_from(by_field: Mapping[str, list[Any]]) -> Facts:
    values: dict[str, Any] = {name: tuple(facts) for name, facts in by_field.items()}
    return Facts(**values)
