"""Keeps a store in step with the cluster: one connection; list and then watch until the version is gone; for ever.

Three levels, as in kopf's watching, so that each can be tested alone:

- `events_of_connection`: one watch request, with a limit on how long it may be silent;
- `follow`: watch requests one after the other, until one fails;
- `run_store`: list, follow, and begin again after Gone, errors and while the resource isn't served.

An API server sends bookmarks about once a minute, and one more two seconds before a watch ends. So a connection that
has been silent for less than that may be healthy, but a dead one has to be noticed within 60 s. A watch that stays
silent for `quiet_after` is dropped and asked again from the last version for `probe_timeout` seconds only, in which a
healthy server must send a bookmark or end the stream; one that does neither is dead.
"""

import asyncio
import random as system_random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from app.kube.api import ClusterError, Gone, NotFound, Object, Reader, Unavailable, WatchEvent
from app.kube.backoff import Backoff
from app.kube.store import Replacement, WatchStore
from app.objects.resource import Resource

T = TypeVar("T")


class Silent(Unavailable):
    """A watch sent nothing, not even a bookmark, for longer than a healthy one could."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of which resource a store holds, and whether only their metadata is read."""

    resource: Resource
    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """The timing of watches, in seconds, and the sizes that bound how long one turn of the event loop takes."""

    page_size: int = 500
    slice_size: int = 100
    watch_timeout: tuple[int, int] = (240, 300)
    quiet_after: float = 40.0
    probe_timeout: int = 30
    retry_most: float = 30.0
    not_served_retry: float = 120.0
    random: Callable[[], float] = system_random.random

    def next_watch_timeout(self) -> int:
        shortest, longest = self.watch_timeout
        return shortest + int(self.random() * (longest - shortest + 1))


async def run_store(
    client: Reader,
    store: WatchStore[T],
    resource: Resource,
    *,
    namespace: str | None = None,
    label_selector: str = "",
    field_selector: str = "",
    metadata_only: bool = False,
    pace: Pace | None = None,
    served_changed: Callable[[], Awaitable[None]] | None = None,
    needs_right: bool = False,
) -> NoReturn:
    """Fills `store` and keeps it in step for ever. Errors of the cluster are counted in `store.restarts`, told in
    `store.problem` and retried; anything else is raised. With `needs_right`, a list that is answered with 403 is not
    retried: Forbidden is raised.

    `served_changed` returns when the set of served resources has changed: a resource that isn't served is a quiet
    state, left as soon as discovery says so.
    """
    selection = Selection(resource, namespace, label_selector, field_selector, metadata_only)
    pace = pace or Pace()
    backoff = Backoff(pace.random, most=pace.retry_most)
    while True:
        try:
            version = await list_into(client, store, selection, pace)
            await follow(client, store, selection, version, pace, backoff)
        except NotFound:
            store.count_restart("not_served")
            store.mark_not_served()
            await _wait(served_changed, pace.not_served_retry)
        except Gone:
            store.count_restart("gone")
            await asyncio.sleep(backoff.next())
        except ClusterError as error:
            if needs_right and error.code == 403:
                raise
            store.fail(f"{selection.resource}: {error}", error)
            await asyncio.sleep(backoff.next(error.retry_after))


async def list_into(client: Reader, store: WatchStore[T], selection: Selection, pace: Pace) -> str:
    """Lists everything into `store`, in pages, giving way to the event loop after every slice. Gives the list's
    resourceVersion."""
    replacement = store.replace()
    token = ""
    while True:
        page = await client.list(
            selection.resource,
            selection.namespace,
            label_selector=selection.label_selector,
            field_selector=selection.field_selector,
            limit=pace.page_size,
            continue_token=token,
            metadata_only=selection.metadata_only,
        )
        if not token and page.remaining is not None:
            store.total = len(page.items) + page.remaining
        await _take_in_slices(replacement, page.items, pace.slice_size)
        token = page.continue_token
        if not token:
            break
    await _drop_in_slices(replacement, page.resource_version, pace.slice_size)
    replacement.done(page.resource_version)
    return page.resource_version


async def follow(
    client: Reader, store: WatchStore[T], selection: Selection, version: str, pace: Pace, backoff: Backoff
) -> NoReturn:
    """Watches from `version` on, one request after the other. Broken connections are taken up again from the last
    version seen; raises Gone when that is too old, NotFound when the resource is no longer served."""
    timeout = pace.next_watch_timeout()
    probing = False
    while True:
        try:
            async with aclosing(events_of_connection(client, selection, version, timeout, pace)) as events:
                async for event in events:
                    version = str(store.apply(event))
                    store.problem, probing = "", False
                    backoff.reset()
            store.sign_of_life()
            store.count_restart("ended")
            probing = False
            await asyncio.sleep(min(1.0, backoff.next()))
        except Silent:
            store.count_restart("silent" if probing else "quiet")
            if probing:
                store.problem = f"{selection.resource}: the watch is silent"
                await asyncio.sleep(backoff.next())
            probing = True
        except (Gone, NotFound):
            raise
        except ClusterError as error:
            store.fail(f"{selection.resource}: {error}", error)
            await asyncio.sleep(backoff.next(error.retry_after))
        timeout = pace.probe_timeout if probing else pace.next_watch_timeout()


async def events_of_connection(
    client: Reader, selection: Selection, version: str, timeout_seconds: int, pace: Pace
) -> AsyncGenerator[WatchEvent, None]:
    """The events of one watch request. Raises Silent if there was none for `pace.quiet_after` seconds."""
    stream = client.watch(
        selection.resource,
        selection.namespace,
        resource_version=version,
        label_selector=selection.label_selector,
        field_selector=selection.field_selector,
        metadata_only=selection.metadata_only,
        timeout_seconds=timeout_seconds,
    )
    async with aclosing(stream):
        while True:
            try:
                async with asyncio.timeout(pace.quiet_after):
                    event = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise Silent(f"nothing for {pace.quiet_after:g} s") from None
            yield event


async def _take_in_slices(replacement: Replacement[T], items: list[Object], size: int) -> None:
    for start in range(0, len(items), size):
        replacement.take(items[start : start + size])
        await asyncio.sleep(0)


async def _drop_in_slices(replacement: Replacement[T], resource_version: str, size: int) -> None:
    keys = replacement.stored_keys()
    for start in range(0, len(keys), size):
        replacement.drop(keys[start : start + size], resource_version)
        await asyncio.sleep(0)


async def _wait(changed: Callable[[], Awaitable[None]] | None, at_most: float) -> None:
    if changed is None:
        await asyncio.sleep(at_most)
        return
    try:
        async with asyncio.timeout(at_most):
            await changed()
    except TimeoutError:
        return
