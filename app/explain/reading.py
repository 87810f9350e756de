"""One reading of a cluster: facts as they come in, and what could not be read."""

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

from app.explain.facts import BY_RESOURCE, CHANNELS, ROOM, Facts
from app.kube.api import ClusterError, NotFound, Object, Reader
from app.kube.pages import pages
from app.objects.resource import POD, Resource
from app.rules.kinds import RESOURCE_CLAIM

PAGE = 500

_OF_ALL_NAMESPACES = {POD: ROOM, RESOURCE_CLAIM: CHANNELS}
"""What isn't known unless the objects of all namespaces are."""


class Reading:
    """Facts as they come in."""

    def __init__(self, client: Reader, page: int = PAGE) -> None:
        self._client, self._page = client, page
        self._facts: dict[str, list[Any]] = {projection.field: [] for projection in BY_RESOURCE.values()}
        self._unseen: dict[str, str] = {}
        self._skipped: set[str] = set()
        self._got: set[str] = set()
        self._served: set[str] = set()
        self._absent: set[str] = set()

    def facts(self, now: float) -> Facts:
        """What was read; a kind that was not asked for counts as skipped."""
        absent = self._absent - self._served
        unread = self._facts.keys() - self._served - self._absent
        # An object that was read by itself may be in a list too.
        for name in self._got:
            self._facts[name] = list({fact.ref: fact for fact in self._facts[name]}.values())
        return Facts(
            **{name: tuple(facts) for name, facts in self._facts.items()},
            unseen=dict(self._unseen),
            skipped=frozenset((unread | self._skipped) - absent - self._unseen.keys()),
            absent=frozenset(absent),
            now=now,
        )

    def of(self, field: str) -> list[Any]:
        return self._facts[field]

    def skip(self, field: str) -> None:
        self._skipped.add(field)

    async def list(self, resource: Resource, namespace: str | None = None, *, selector: str = "") -> int:
        """Reads a list; gives the number of objects. What goes wrong is noted."""
        field = BY_RESOURCE[resource].field
        before = len(self._facts[field])
        error = await self._try(resource, namespace, selector)
        if error is not None:
            self._unseen.setdefault(field, cause(error))
        return len(self._facts[field]) - before

    async def list_everywhere(self, resource: Resource, namespace: str | None = None) -> None:
        """A list of all namespaces, or else of the one namespace if that may be read."""
        error = await self._try(resource, None)
        if error is None:
            return
        if resource in _OF_ALL_NAMESPACES:
            why = f"{cause(error)} {resource.plural} of all namespaces" if error.code == 403 else cause(error)
            self._unseen[_OF_ALL_NAMESPACES[resource]] = why
        if error.code == 403 and namespace is not None:
            error = await self._try(resource, namespace)
        if error is not None:
            self._unseen.setdefault(BY_RESOURCE[resource].field, cause(error))

    async def _try(self, resource: Resource, namespace: str | None, selector: str = "") -> ClusterError | None:
        """The error that ended a list; None for none, and for a resource that isn't served."""
        field, _, project = BY_RESOURCE[resource]
        facts = self._facts[field]
        try:
            async for page in pages(self._client, resource, namespace, limit=self._page, label_selector=selector):
                facts += map(project, page.items)
            self._served.add(field)
        except NotFound:
            self._absent.add(field)
        except ClusterError as error:
            return error
        return None

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """One object, which becomes a fact too if its kind is one of the facts; None if it doesn't exist."""
        projection = BY_RESOURCE.get(resource)
        try:
            obj = await self._client.get(resource, name, namespace)
        except NotFound as error:
            if projection is not None:
                (self._absent if error.no_resource else self._served).add(projection.field)
            return None
        except ClusterError as error:
            if projection is not None:
                self._unseen.setdefault(projection.field, cause(error))
            return None
        if projection is not None:
            self._served.add(projection.field)
            self._got.add(projection.field)
            self._facts[projection.field].append(projection.project(obj))
        return obj


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
