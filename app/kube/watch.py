"""Fills a store from a list, and keeps it up to date by a watch.

There are three levels, each with its own tests:

- `events_of_connection`: one watch request, with a limit on the time without events;
- `follow`: one watch request after the other, until an error that needs a new list;
- `run_store`: list, then `follow`, again and again.

API servers send a bookmark about once a minute, and another one two seconds before a watch ends. A
connection may therefore be silent for less than a minute, but a broken connection has to be
detected within 60 s. If a watch is silent for `quiet_after`, it is replaced by one from the last
version with a timeout of `probe_timeout` seconds. In that time, a healthy API server sends a
bookmark or ends the stream. If it does neither, the connection is broken.
"""

import asyncio
import random as system_random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import NoReturn, TypeVar

from app.base.value import Value
from app.kube.api import ClusterError, Gone, NotFound, Reader, Selection, Unavailable, WatchEvent
from app.kube.backoff import Backoff
from app.kube.store import WatchStore

T = TypeVar("T")


class Silent(Unavailable):
    """A watch was silent for too long: there was no event and no bookmark."""


class Pace(Value):
    """The limits of watches.

    Times are in seconds; numbers are those of objects in a page and in one step of the event loop.

    A page is decoded in one turn of the event loop, and all of it is in memory at once: one of 500
    nodes, of 6 KB of metadata each, took 28 ms and 15 MiB more than one of 250.

    A watch that breaks after `steady_after` is tried again soon: some proxies end connections that
    are silent for half a minute, which is sooner than a bookmark comes.
    """

    page_size: int = 250
    slice_size: int = 40
    watch_timeout: tuple[int, int] = (240, 300)
    quiet_after: float = 40.0
    probe_timeout: int = 30
    retry_most: float = 30.0
    steady_after: float = 10.0
    not_served_retry: float = 120.0
    random: Callable[[], float] = system_random.random

    def next_timeout(self, *, probing: bool) -> int:
        """Return the seconds after which the API server is to end the next watch."""
        if probing:
            return self.probe_timeout
        shortest, longest = self.watch_timeout
        return shortest + int(self.random() * (longest - shortest + 1))


async def run_store(
    client: Reader,
    store: WatchStore[T],
    selection: Selection,
    *,
    pace: Pace | None = None,
    served_changed: Callable[[], Awaitable[object]] = lambda: asyncio.Event().wait(),
    not_found: Callable[[], None] = lambda: None,
    needs_right: bool = False,
) -> NoReturn:
    """Fill `store` and keep it up to date until it is cancelled.

    After a ClusterError, which is counted in `store.restarts` and described in `store.problem`, it
    tries again. Any other exception is raised. With `needs_right`, Rejected is raised if a list
    gets a 403.

    `served_changed` returns when the set of served resources has changed. A resource that is not
    served is tried again after that. `not_found` is called if a resource that counts as served is
    not found: discovery may be late, and the store is emptied only when it is not served there.
    """
    pace = pace or Pace()
    backoff = Backoff(pace.random, most=pace.retry_most)
    while True:
        try:
            version = await list_into(client, store, selection, pace)
            await follow(client, store, selection, version, pace, backoff)
        except NotFound as error:
            pause = pace.not_served_retry
            if client.served_version(selection.resource) is None:
                store.count_restart("not_served")
                store.mark_not_served()
            else:
                # a proxy may answer for an API server that restarts
                store.fail(f"{selection.resource}: {error}", error)
                not_found()
                pause = backoff.next()
            await wait_for(served_changed, pause)
        except Gone:
            store.count_restart("gone")
            await asyncio.sleep(backoff.next())
        except ClusterError as error:
            if needs_right and error.code == 403:
                raise
            store.fail(f"{selection.resource}: {error}", error)
            await asyncio.sleep(backoff.next(error.retry_after))


async def list_into(client: Reader, store: WatchStore[T], selection: Selection, pace: Pace) -> str:
    """Replace the content of `store` by a list, which is read in pages.

    After each slice of a page, other tasks can run. Returns the resourceVersion of the list.
    """
    store.begin_list()
    token = ""
    while True:
        page = await client.list(selection, limit=pace.page_size, continue_token=token)
        version = page.resource_version
        if not token and page.remaining is not None:
            store.total = len(page.items) + page.remaining
        for start in range(0, len(page.items), pace.slice_size):
            await asyncio.sleep(0)  # before, because the page has been decoded in the same turn
            store.take_listed(page.items[start : start + pace.slice_size], version)
        token = page.continue_token
        if not token:
            break
        del page  # or it would be in memory beside the next

    keys = store.known_keys()
    for start in range(0, len(keys), pace.slice_size):
        store.drop_unlisted(keys[start : start + pace.slice_size], version)
        await asyncio.sleep(0)

    store.end_list(version)
    return version


async def follow(
    client: Reader,
    store: WatchStore[T],
    selection: Selection,
    version: str,
    pace: Pace,
    backoff: Backoff,
) -> NoReturn:
    """Watch from `version`, one request after the other.

    After a broken connection it continues from the last version. The problem is over once the API
    server accepts the next request: if nothing changes, the first event may take a minute. After a
    silent watch, only an event shows that. Raise Gone if this is too old, and NotFound if the
    resource is no longer served.
    """
    probing = False
    clock = asyncio.get_running_loop().time
    while True:
        begun = clock()
        try:
            stream = client.watch(
                selection,
                resource_version=version,
                timeout_seconds=pace.next_timeout(probing=probing),
                accepted=_wait_on if probing else store.end_problem,
            )
            async with aclosing(events_of_connection(stream, pace)) as events:
                async for event in events:
                    version = str(store.apply(event))
                    probing = False
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
            if clock() - begun > pace.steady_after:
                backoff.reset()
            await asyncio.sleep(backoff.next(error.retry_after))


def _wait_on() -> None:
    """Do nothing: after a silent watch, a problem lasts until an event."""


async def events_of_connection(
    stream: AsyncGenerator[WatchEvent, None], pace: Pace
) -> AsyncGenerator[WatchEvent, None]:
    """Yield the events of one watch request, which is closed at the end.

    Raise Silent after `pace.quiet_after` seconds without an event.
    """
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


async def wait_for(changed: Callable[[], Awaitable[object]], at_most: float) -> None:
    """Wait until `changed` returns, for `at_most` seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(at_most):
            await changed()
