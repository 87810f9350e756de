"""Which of the given resources a cluster serves, and in which version.

Reads /apis and, of the groups that we know, the resource lists of the versions that we know (the API server's
discovery in its first form, which everything that speaks Kubernetes answers).
"""

import asyncio
import logging
import random as system_random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NoReturn

from app.kube.api import Client, ClusterError, Key, NotFound, Object
from app.kube.backoff import Backoff
from app.kube.store import WatchStore
from app.kube.watch import Pace, run_store
from app.objects.resource import CRD, Resource

Read = Callable[[str], Awaitable[Object]]
Served = Callable[[Resource, str | None], None]
GroupVersion = tuple[str, str]

logger = logging.getLogger(__name__)


class Discovery:
    """What the cluster serves, as of the last `refresh`.

    `read` gets a path of the API server as JSON. Until the first refresh has gone through, the resources that every
    cluster serves (`optional` is False) count as served in their best version, the others as not served.
    """

    def __init__(
        self,
        read: Read,
        resources: Iterable[Resource],
        *,
        interval: float = 300.0,
        settle: float = 1.0,
        random: Callable[[], float] = system_random.random,
    ) -> None:
        self.resources = tuple(resources)
        self._read, self._interval, self._settle, self._random = read, interval, settle, random
        self._served: dict[Resource, str] = {r: r.versions[0] for r in self.resources if not r.optional}
        self._lists: dict[GroupVersion, frozenset[str]] = {}
        self._known = asyncio.Event()
        self._refreshing = asyncio.Lock()
        self._triggered = asyncio.Event()
        self._changed = asyncio.Event()
        self._redefined: dict[str, asyncio.Event] = {}
        self._subscribers: list[Served] = []
        self.problem = ""
        """Why the last refresh failed, for people; empty if it didn't."""
        self.error: ClusterError | None = None
        """The error that the last refresh failed with."""

    @property
    def known(self) -> bool:
        """Whether a refresh has gone through."""
        return self._known.is_set()

    async def until_known(self) -> None:
        """Returns once a refresh has gone through: before that, what isn't known to be served isn't known not to be."""
        await self._known.wait()

    def served_version(self, resource: Resource) -> str | None:
        return self._served.get(resource)

    def subscribe(self, served: Served) -> None:
        """`served` is called with a resource and its version, now served or served otherwise than before, or None:
        no longer served."""
        self._subscribers.append(served)

    def trigger(self) -> None:
        """Says that something may have changed (a CRD was installed): `run` refreshes soon."""
        self._triggered.set()

    async def changed(self) -> None:
        """Returns when the set of served resources or their versions has changed."""
        await self._changed.wait()

    def note_redefined(self, crd: str) -> None:
        """The spec of the CRD with this name has changed."""
        self._redefined.pop(crd, asyncio.Event()).set()

    async def redefined(self, resource: Resource) -> None:
        """Returns some seconds after the spec of the CRD of `resource` has changed. Until it is opened anew, a watch of
        `resource` goes on with the former schema, and leaves out what that does not have."""
        await self._redefined.setdefault(str(resource), asyncio.Event()).wait()
        await asyncio.sleep(2 * self._settle)

    async def run(self) -> NoReturn:
        """Refreshes now, every `interval` seconds, and within moments of a trigger; for ever.

        A new CRD is served a moment after it was stored, so a trigger refreshes twice: after `settle` seconds, and
        again after five times that.
        """
        backoff = Backoff(self._random)
        again: float | None = None
        while True:
            try:
                await self.refresh()
            except ClusterError as error:
                if not self.problem:
                    logger.warning("what the cluster serves can't be read: %s", error.message)
                self.problem, self.error = error.message, error
                await asyncio.sleep(backoff.next(error.retry_after))
                continue
            backoff.reset()
            if again is not None:
                await asyncio.sleep(again)
                again = None
                continue
            if await self._is_triggered():
                await asyncio.sleep(self._settle)
                self._triggered.clear()
                again = 4 * self._settle

    async def refresh(self) -> None:
        """Asks the cluster. A group version whose list can't be read just now (its extension server is down) counts
        as it did before; raises ClusterError if the groups themselves can't be read."""
        async with self._refreshing:
            served_groups = _group_versions(await self._read("/apis")) | {("", "v1")}
            lists: dict[GroupVersion, frozenset[str]] = {}
            for group_version in self._known_versions() & served_groups:
                lists[group_version] = await self._plurals(group_version)
            self._lists = lists
            self._known.set()
            self.problem = ""
            self._tell({r: version for r in self.resources if (version := _best(r, lists)) is not None})

    async def assume(self) -> None:
        """Asks the cluster for its groups only, in one call: a resource counts as served if its group version is. The
        first list of one that isn't then says so. For commands that look once. Raises ClusterError."""
        groups = _group_versions(await self._read("/apis")) | {("", "v1")}
        versions = {r: [version for version in r.versions if (r.group, version) in groups] for r in self.resources}
        self._known.set()
        self._tell({resource: served[0] for resource, served in versions.items() if served})

    def _known_versions(self) -> set[GroupVersion]:
        return {(resource.group, version) for resource in self.resources for version in resource.versions}

    async def _plurals(self, group_version: GroupVersion) -> frozenset[str]:
        group, version = group_version
        try:
            answer = await self._read(f"/apis/{group}/{version}" if group else f"/api/{version}")
        except NotFound:
            return frozenset()
        except ClusterError:
            if group_version in self._lists or self.known:
                return self._lists.get(group_version, frozenset())
            raise
        return frozenset(str(item.get("name", "")) for item in answer.get("resources") or [])

    def _tell(self, served: dict[Resource, str]) -> None:
        before, self._served = self._served, served
        differing = [r for r in self.resources if before.get(r) != served.get(r)]
        for resource in differing:
            for subscriber in self._subscribers:
                subscriber(resource, served.get(resource))
        if differing:
            self._changed.set()
            self._changed = asyncio.Event()

    async def _is_triggered(self) -> bool:
        """Waits for a trigger, for `interval` seconds at most, jittered."""
        try:
            async with asyncio.timeout(self._interval * (1 - self._random() / 5)):
                return await self._triggered.wait()
        except TimeoutError:
            return False


async def watch_crds(client: Client, discovery: Discovery, *, pace: Pace | None = None) -> NoReturn:
    """Triggers `discovery` whenever the CRD of a resource that we know comes, changes or goes; for ever."""
    names = {str(resource) for resource in discovery.resources}

    def state_if_known(crd: Object) -> tuple[Any, Any] | None:
        metadata = crd["metadata"]
        known = metadata["name"] in names
        return (metadata.get("generation"), metadata.get("resourceVersion")) if known else None

    def changed(key: Key, before: tuple[Any, Any] | None, after: tuple[Any, Any] | None) -> None:
        discovery.trigger()
        if before is not None and after is not None and before[0] != after[0]:
            discovery.note_redefined(key[1])

    store = WatchStore(state_if_known)
    store.subscribe(changed)
    await run_store(client, store, CRD, metadata_only=True, pace=pace)


def _group_versions(answer: Object) -> set[GroupVersion]:
    return {
        (str(group.get("name", "")), str(version.get("version", "")))
        for group in answer.get("groups") or []
        for version in group.get("versions") or []
    }


def _best(resource: Resource, lists: dict[GroupVersion, frozenset[str]]) -> str | None:
    served = (v for v in resource.versions if resource.plural in lists.get((resource.group, v), frozenset()))
    return next(served, None)
