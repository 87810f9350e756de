"""Find out which resources a cluster serves, and in which versions.

Discovery reads /apis and resource lists. It does not use aggregated discovery, which some API
servers lack.

A cluster may be upgraded to API versions that this program does not know. If no known version of a
resource is served, a later version is used, and its objects are treated like those of the newest
known version. `Discovery.unknown` lists such resources.
"""

import asyncio
import contextlib
import logging
import random as system_random
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, NoReturn

from app.kube.api import Client, ClusterError, Key, NotFound, Object, Selection
from app.kube.backoff import Backoff
from app.kube.store import WatchStore
from app.kube.watch import run_store, wait_for
from app.objects.resource import CRD, Resource

Read = Callable[[str], Awaitable[Object]]
INTERVAL_SECONDS = 300.0
SETTLE_SECONDS = 1.0
"""The time, in seconds, after which a stored CRD is usually served."""

Served = Callable[[Resource, str | None], None]
GroupVersion = tuple[str, str]
Lists = dict[GroupVersion, frozenset[str]]
"""The plural names of the resources in each group version."""

logger = logging.getLogger(__name__)


class Discovery:
    """The resources that a cluster serves, as far as is known from `refresh` or `assume`.

    `read` returns the JSON at a path of the API server. Before the first refresh, resources that
    every cluster serves (`optional` is False) count as served in their preferred version, and all
    others as not served.
    """

    def __init__(
        self,
        read: Read,
        resources: Iterable[Resource],
        *,
        random: Callable[[], float] = system_random.random,
    ) -> None:
        self.resources = tuple(resources)
        self._read = read
        self._random = random
        self._served: dict[Resource, str | None] = {
            r: r.versions[0] for r in self.resources if not r.optional
        }
        self._lists: Lists = {}
        self._has_refreshed = asyncio.Event()
        self._refreshing = asyncio.Lock()
        self._triggered = asyncio.Event()
        self._changed = asyncio.Event()
        self._redefined: dict[str, asyncio.Event] = {}
        self._subscribers: list[Served] = []
        self.settle_seconds = SETTLE_SECONDS
        """The seconds from a trigger, such as the change of a CRD, to the first refresh."""
        self.problem = ""
        """The reason why the last refresh by `run` failed, or ""."""
        self.error: ClusterError | None = None
        """The error that caused `problem`, or None without a problem."""

    @property
    def known(self) -> bool:
        """Whether the served resources have been read at least once."""
        return self._has_refreshed.is_set()

    async def until_known(self) -> None:
        """Wait until the served resources have been read once.

        Before that, `served_version` may return None for a resource that is served.
        """
        await self._has_refreshed.wait()

    def served_version(self, resource: Resource) -> str | None:
        """Return the version that calls of `resource` use, or None if it is not served."""
        return self._served.get(resource)

    @property
    def unknown(self) -> dict[Resource, str]:
        """The resources that are served in unknown versions only, each with the version in use."""
        return {
            resource: version
            for resource, version in self._served.items()
            if version is not None and version not in resource.versions
        }

    async def served_now(self, resources: Collection[Resource]) -> set[Resource]:
        """Ask the API server which of `resources` it serves, and return those.

        If the API server serves a resource that the last refresh did not find, `run` refreshes
        soon. Raise ClusterError if a request fails. A 404 counts as a failure only for a group
        version that the last refresh found.
        """
        lists: Lists = {}
        later = {(r.group, version) for r, version in self.unknown.items() if r in resources}
        for group_version in _known_groups(resources) | later:
            try:
                lists[group_version] = await self._plurals(group_version)
            except NotFound:
                # a proxy may return this 404 while an API server restarts
                if group_version in self._lists or group_version in later:
                    raise

        served = {
            resource
            for resource in resources
            if any(
                group == resource.group and resource.plural in plurals
                for (group, _), plurals in lists.items()
            )
        }
        if any(self.served_version(resource) is None for resource in served):
            self.trigger()
        return served

    def subscribe(self, served: Served) -> None:
        """Call `served` with a resource and its new version after each change.

        The version is None if the resource is no longer served.
        """
        self._subscribers.append(served)

    def trigger(self) -> None:
        """Make `run` refresh soon, for example after a CRD was created."""
        self._triggered.set()

    async def changed(self) -> None:
        """Wait for the next change of the served resources or their versions."""
        await self._changed.wait()

    def note_redefined(self, crd: str) -> None:
        """Note that the spec of the CRD with the name `crd` has changed."""
        self._redefined.setdefault(crd, asyncio.Event()).set()

    async def redefined(self, resource: Resource) -> None:
        """Wait for a change to the spec of the resource's CRD, and then twice `settle_seconds`.

        By then, API servers serve the new schema. The caller should start its watch again: an open
        watch keeps the old schema and drops new fields. If the spec has changed since the last
        call, don't wait for another change. Only one task may wait for each resource.
        """
        changed = self._redefined.setdefault(str(resource), asyncio.Event())
        await changed.wait()
        changed.clear()
        await asyncio.sleep(2 * self.settle_seconds)

    async def run(self) -> NoReturn:
        """Refresh now, at least every `INTERVAL_SECONDS`, and after each trigger, until cancelled.

        A CRD is served some time after it was stored, so a trigger causes two refreshes: after
        `settle_seconds`, and after about five times `settle_seconds`. A trigger also ends the wait
        after a refresh that failed.
        """
        backoff = Backoff(self._random)
        again = False
        while True:
            try:
                await self.refresh()
            except ClusterError as error:
                if not self.problem:
                    logger.warning(
                        "could not read which resources the cluster serves, retrying: %s",
                        error.message,
                    )
                self.problem = error.message
                self.error = error
                pause = backoff.next(error.retry_after)
            else:
                backoff.reset()
                pause = INTERVAL_SECONDS * (1 - self._random() / 5)
                if again:
                    pause = 4 * self.settle_seconds
                    again = False

            await wait_for(self._triggered.wait, pause)
            if self._triggered.is_set():
                await asyncio.sleep(self.settle_seconds)
                self._triggered.clear()
                again = True

    async def refresh(self) -> None:
        """Read which resources the cluster serves, and in which versions.

        If the list of a group version cannot be read, use its last list. Without a last list, its
        resources keep their previous versions. In both cases, raise the ClusterError after all
        other changes, so that `run` tries again soon: the last list may be out of date. If the
        groups cannot be read, or at the first refresh the list of a known version, raise
        ClusterError at once.
        """
        async with self._refreshing:
            served = await self._served_groups()
            unread = await self._read_lists(set(served) & _known_groups(self.resources))
            later, also_unread = await self._read_later(served)
            unread |= also_unread
            self._has_refreshed.set()
            versions = {
                r: _best(r, self._lists) or self._previous(r, unread) or later.get(r)
                for r in self.resources
            }
            for resource, version in later.items():
                if versions[resource] == version != self.served_version(resource):
                    told = unknown_version(resource, version)
                    logger.warning("%s is served as %s", resource, told)
            self._set_served(versions)
            if unread:
                raise next(iter(unread.values()))
            self.problem = ""
            self.error = None

    async def _read_lists(
        self, group_versions: Iterable[GroupVersion]
    ) -> dict[GroupVersion, ClusterError]:
        """Read the lists of group versions that the API server has just named.

        If a list cannot be read, keep the last list of this group version, and return the error. A
        404 is an error too, because proxies return it while an API server restarts. Before the
        first refresh has succeeded, there are no last lists, so raise the ClusterError.
        """
        lists: Lists = {}
        unread: dict[GroupVersion, ClusterError] = {}
        for group_version in group_versions:
            try:
                lists[group_version] = await self._plurals(group_version)
            except ClusterError as error:
                if not self.known:
                    raise
                unread[group_version] = error
                if group_version in self._lists:
                    lists[group_version] = self._lists[group_version]

        self._lists = lists

        return unread

    async def _read_later(
        self, served: Sequence[GroupVersion]
    ) -> tuple[dict[Resource, str], dict[GroupVersion, ClusterError]]:
        """Return the later version of each resource that is served in no known version.

        Also return the errors of the lists that cannot be read. If such a list is of the version
        that was in use, the resource keeps this version.
        """
        later: dict[Resource, str] = {}
        lists: Lists = {}
        unread: dict[GroupVersion, ClusterError] = {}
        for resource in self.resources:
            if _best(resource, self._lists) is not None:
                continue
            for group_version in _later_versions(resource, served):
                if group_version not in {*lists, *unread}:
                    try:
                        lists[group_version] = await self._plurals(group_version)
                    except ClusterError as error:
                        unread[group_version] = error

                version = group_version[1]
                was_served = version == self.served_version(resource)
                if resource.plural in lists.get(group_version, ()) or (
                    group_version in unread and was_served
                ):
                    later[resource] = version
                    break

        return later, unread

    def _previous(self, resource: Resource, unread: Collection[GroupVersion]) -> str | None:
        """Return the last served version of `resource` if a list that may have it is `unread`.

        Otherwise, return None.
        """
        is_unread = any((resource.group, version) in unread for version in resource.versions)
        return self.served_version(resource) if is_unread else None

    async def assume(self) -> None:
        """Read the groups in one call, and assume that each served version has all its resources.

        This suffices for commands that read each resource once: if a resource is not served after
        all, listing it raises NotServed. If a group is served in known and in later versions, the
        resource lists of these versions are read too. Raise ClusterError if the groups cannot be
        read.
        """
        groups = await self._served_groups()
        needed = {each for r in self.resources for each in _to_choose_from(r, groups)}
        lists: Lists = {}
        for group_version in needed:
            with contextlib.suppress(ClusterError):  # then the known version is assumed
                lists[group_version] = await self._plurals(group_version)
        self._has_refreshed.set()
        self._set_served({r: _assumed(r, groups, lists) for r in self.resources})

    async def _served_groups(self) -> list[GroupVersion]:
        """Return the group versions of the cluster, including the core group's.

        The versions of a group are in the order of the API server, preferred version first.
        """
        answer = await self._read("/apis")
        named = [
            (str(group.get("name", "")), str(version.get("version", "")))
            for group in answer.get("groups") or []
            for version in group.get("versions") or []
        ]
        return [*named, ("", "v1")]

    async def _plurals(self, group_version: GroupVersion) -> frozenset[str]:
        group, version = group_version
        answer = await self._read(f"/apis/{group}/{version}" if group else f"/api/{version}")
        return frozenset(str(item.get("name", "")) for item in answer.get("resources") or [])

    def _set_served(self, versions: dict[Resource, str | None]) -> None:
        """Store the versions of all resources, and tell subscribers about each change.

        The version None stands for a resource that is not served.
        """
        before = self._served
        self._served = versions
        differing = [r for r in self.resources if before.get(r) != versions[r]]
        for resource in differing:
            for subscriber in self._subscribers:
                subscriber(resource, versions[resource])
        if any(versions[resource] is None for resource in differing):
            # Look again soon: an API server that is starting may not name all groups yet.
            self.trigger()
        if differing:
            self._changed.set()
            self._changed = asyncio.Event()


async def watch_crds(client: Client, discovery: Discovery) -> NoReturn:
    """Trigger `discovery` after each change of the CRD of a known resource, until cancelled.

    If the spec of the CRD has changed, also call `note_redefined`.
    """
    names = {str(resource) for resource in discovery.resources}

    def state_if_known(crd: Object) -> tuple[Any, Any] | None:
        metadata = crd["metadata"]
        is_known = metadata["name"] in names
        return (metadata.get("generation"), metadata.get("resourceVersion")) if is_known else None

    def changed(key: Key, before: tuple[Any, Any] | None, after: tuple[Any, Any] | None) -> None:
        discovery.trigger()
        if before is not None and after is not None and before[0] != after[0]:
            discovery.note_redefined(key[1])

    store = WatchStore(state_if_known)
    store.subscribe(changed)
    await run_store(client, store, Selection(CRD, metadata_only=True))


def unknown_version(resource: Resource, version: str) -> str:
    """Return the end of a message that says that `resource` is served only in `version`."""
    return (
        f"{version}, which this version of grove-admission does not know, so its objects are judged"
        f" as {resource.newest}"
    )


def _known_groups(resources: Iterable[Resource]) -> set[GroupVersion]:
    return {(resource.group, version) for resource in resources for version in resource.versions}


def _later_versions(resource: Resource, served: Iterable[GroupVersion]) -> Iterable[GroupVersion]:
    """Yield the served group versions that are unknown and may have `resource`.

    Versions that are older than all known ones are omitted. Yield nothing for a resource that every
    cluster serves.
    """
    return (
        (group, version)
        for group, version in served
        if resource.optional
        and group == resource.group
        and version not in resource.versions
        and resource.may_follow(version)
    )


def _to_choose_from(resource: Resource, served: Sequence[GroupVersion]) -> list[GroupVersion]:
    """Return the served group versions that may have `resource`, in order of preference.

    Return [] unless both known and later versions are served.
    """
    known = [(resource.group, version) for version in resource.versions]
    known = [group_version for group_version in known if group_version in served]
    later = list(_later_versions(resource, served))
    return [*known, *later] if known and later else []


def _assumed(resource: Resource, served: Sequence[GroupVersion], lists: Lists) -> str | None:
    """Return the version in which the cluster serves `resource` if it serves the resource at all.

    Return None if no version is served that may have the resource.
    """
    for group_version in _to_choose_from(resource, served):
        if resource.plural in lists.get(group_version, ()):
            return group_version[1]
    known = (version for version in resource.versions if (resource.group, version) in served)
    later = (version for _, version in _later_versions(resource, served))
    return next(known, None) or next(later, None)


def _best(resource: Resource, lists: Lists) -> str | None:
    """Return the first known version of `resource` whose list has it, or None."""
    served = (
        v
        for v in resource.versions
        if resource.plural in lists.get((resource.group, v), frozenset())
    )
    return next(served, None)
