"""Fill a store from a list, and keep it up to date with a watch.

There are three levels, each with its own tests:

- `events_of_connection` reads the events of one watch request, and detects silence.
- `follow` sends one watch request after the other, until an error makes a new list necessary.
- `run_store` lists and calls `follow`, again and again.

Reads are bounded by bytes, because tenants can choose the size of objects. Where the API server has
streaming lists (https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists), the
first watch sends the stored objects one by one. Elsewhere, the list is read in pages, which start
small and adapt to the size of the previous page.

API servers send a bookmark about once a minute, and another one two seconds before a watch ends. A
healthy connection may therefore be silent for almost a minute. If a watch is silent for
`quiet_after` seconds, it is replaced by a watch from the last version with a timeout of
`probe_timeout` seconds. In that time, a healthy API server sends a bookmark or ends the stream. If
nothing comes for `quiet_after` seconds, the connection counts as broken.
"""

import asyncio
import random as system_random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import NoReturn, TypeVar

from app.base.value import Value
from app.kube.api import (
    ClusterError,
    Gone,
    NotFound,
    PageSize,
    Reader,
    Rejected,
    Selection,
    TooLong,
    Unavailable,
    WatchEvent,
)
from app.kube.backoff import Backoff
from app.kube.store import WatchStore

T = TypeVar("T")

TURN_SECONDS = 0.005
"""The seconds that a list or watch may take before other tasks have a turn of the event loop."""


class Silent(Unavailable):
    """A watch was silent for too long: it delivered neither an event nor a bookmark."""


class NotStreamed(ClusterError):
    """The API server does not stream this list, or did not send its end."""


class Pace(Value):
    """The limits of lists and watches. Times are in seconds, sizes in objects."""

    streams: bool = True
    """Whether to stream lists. Only a list in pages can report how many objects there are."""
    page_size: int = 250
    """The maximum number of objects in a page."""
    slice_size: int = 40
    """The maximum number of objects that are stored in one turn of the event loop."""
    watch_timeout: tuple[int, int] = (240, 300)
    """The shortest and the longest timeout of a watch, in seconds."""
    stream_timeout: int = 900
    """The timeout, in seconds, of a watch that begins with a list. A long list takes minutes."""
    quiet_after: float = 40.0
    """The seconds without an event after which a watch is replaced by a short one, as a probe."""
    stream_quiet_after: float = 10.0
    """The seconds without an object of a streaming list after which the list is read in pages.

    An old API server may ignore the request for a list, and then never sends the list's end.
    """
    probe_timeout: int = 30
    """The timeout, in seconds, of a watch that probes whether the connection is broken."""
    retry_most: float = 30.0
    """The longest pause before another attempt, in seconds."""
    steady_after: float = 10.0
    """The age of a watch, in seconds, from which a break resets the pauses between attempts.

    Some proxies end connections after half a minute of silence, before a bookmark comes.
    """
    not_served_retry: float = 120.0
    """The longest pause, in seconds, before a resource that is not served is tried again."""
    random: Callable[[], float] = system_random.random
    """A function that returns random numbers in [0, 1)."""

    def next_timeout(self, *, probing: bool) -> int:
        """Return the seconds after which the API server should end the next watch."""
        if probing:
            return self.probe_timeout
        shortest, longest = self.watch_timeout
        return shortest + int(self.random() * (longest - shortest + 1))


class Turn:
    """The turn of a task in the event loop, which lasts about TURN_SECONDS.

    Without turns, a task whose stream always has data would never wait, and no other task would
    run.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._begun = clock()

    async def rest(self) -> None:
        """Let other tasks run if this turn has lasted TURN_SECONDS."""
        if self._clock() - self._begun >= TURN_SECONDS:
            await asyncio.sleep(0)
            self._begun = self._clock()


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

    After a ClusterError, count it in `store.restarts` and try again. Until that succeeds,
    `store.problem` describes the error, unless a list or version has only expired (Gone) or the
    resource is not served. Raise any other exception. With `needs_right`, raise Rejected if a list
    gets a 403.

    After a 404, try again when `served_changed` returns, or after a pause. Empty the store only if
    discovery agrees that the resource is not served. Otherwise, call `not_found`, because discovery
    may be out of date.
    """
    pace = pace or Pace()
    backoff = Backoff(pace.random, most=pace.retry_most)
    while True:
        try:
            if pace.streams:
                with suppress(NotStreamed):
                    await follow(
                        client=client,
                        store=store,
                        selection=selection,
                        version="",
                        pace=pace,
                        backoff=backoff,
                    )
            version = await list_into(client, store, selection, pace)
            await follow(
                client=client,
                store=store,
                selection=selection,
                version=version,
                pace=pace,
                backoff=backoff,
            )
        except NotFound as error:
            pause = pace.not_served_retry
            if client.served_version(selection.resource) is None:
                store.count_restart("not_served")
                store.mark_not_served()
            else:
                # a proxy may return a 404 while an API server restarts
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
    """Replace the content of `store` with a list, which is read in pages.

    Return the resourceVersion of the list. Other tasks can run after each slice of a page, and
    after TURN_SECONDS.
    """
    store.begin_list()
    size = PageSize(pace.page_size)
    token = ""
    turn = Turn()
    while True:
        try:
            page = await client.list(selection, limit=size.next, continue_token=token)
        except TooLong:
            if not size.shrink():
                raise
            continue
        size.note(page)
        version = page.resource_version
        if not token and page.remaining is not None:
            store.total = len(page.items) + page.remaining
        await asyncio.sleep(0)  # the page was decoded in this turn of the event loop
        for number, obj in enumerate(page.items, 1):
            store.take_listed((obj,), version, page.length)
            if number % pace.slice_size == 0:
                await asyncio.sleep(0)
            await turn.rest()
        token = page.continue_token
        if not token:
            break
        del page  # otherwise, two pages would be in memory

    return await _end_list(store, version, pace)


async def _stream_into(
    events: AsyncGenerator[WatchEvent, None], store: WatchStore[T], pace: Pace
) -> str:
    """Replace the content of `store` with the list that begins a watch.

    Return the resourceVersion of the list. Raise NotStreamed if the watch ends within its list.
    """
    store.begin_list()
    turn = Turn()
    async for event in events:
        if event.ends_list:
            return await _end_list(store, event.object["metadata"]["resourceVersion"], pace)
        store.take_streamed(event)
        await turn.rest()
    raise NotStreamed("the watch ended before the end of its list")


async def _end_list(store: WatchStore[T], version: str, pace: Pace) -> str:
    """Remove the objects that are not in the list from `store`, and return `version`."""
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

    If `version` is "", the first watch begins with a list. Raise NotStreamed if the API server
    refuses to stream this list or doesn't send all of it, and another ClusterError if this first
    request fails for another reason.

    After a broken connection, continue from the last version. `store.problem` is cleared once the
    API server accepts the next request: if nothing changes, the first event may take a minute.
    After a silent watch, only an event or a regular end of a watch clears `store.problem`. Raise
    Gone if the version is too old, and NotFound if the resource is no longer served.
    """
    probing = False
    clock = asyncio.get_running_loop().time
    turn = Turn()
    while True:
        begun = clock()
        lists = not version
        answered = asyncio.Event()
        try:
            stream = client.watch(
                selection,
                resource_version=version,
                timeout_seconds=(
                    pace.stream_timeout if lists else pace.next_timeout(probing=probing)
                ),
                accepted=answered.set if probing or lists else store.end_problem,
                list_first=lists,
            )
            async with aclosing(stream):
                if lists:
                    listed = events_of_connection(stream, pace.stream_quiet_after)
                    async with aclosing(listed):
                        version = await _stream_into(listed, store, pace)
                changes = events_of_connection(stream, pace.quiet_after)
                async with aclosing(changes):
                    async for event in changes:
                        version = str(store.apply(event))
                        probing = False
                        backoff.reset()
                        await turn.rest()
            store.sign_of_life()
            store.count_restart("ended")
            probing = False
            await asyncio.sleep(min(1.0, backoff.next()))
        except (Gone, NotFound, NotStreamed):
            raise
        except Silent as silence:
            if not version:
                raise NotStreamed(silence.message) from silence
            if probing:
                problem = f"{selection.resource}: the watch is silent"
                store.fail(problem, silence, restart="silent")
                await asyncio.sleep(backoff.next())
            else:
                store.count_restart("quiet")
            probing = True
        except ClusterError as error:
            # with an etcd before 3.4.25 or 3.5.8, the accepted watch ends with an error
            if not version and (answered.is_set() or _refuses_to_stream(error)):
                raise NotStreamed(error.message) from error
            if not version:
                raise
            store.fail(f"{selection.resource}: {error}", error)
            if clock() - begun > pace.steady_after:
                backoff.reset()
            await asyncio.sleep(backoff.next(error.retry_after))


def _refuses_to_stream(error: ClusterError) -> bool:
    """Return whether a list in pages may succeed after this error of a streaming list.

    Kubernetes 1.27 to 1.33 return 422 unless the feature WatchList is enabled, and older releases
    and some proxies return 400. A 403 may be about the permission to watch: the list says which one
    is missing.
    """
    return isinstance(error, Rejected) and error.code != 401


async def events_of_connection(
    stream: AsyncGenerator[WatchEvent, None], quiet_after: float
) -> AsyncGenerator[WatchEvent, None]:
    """Yield the events of `stream`, a watch request that the caller must close.

    Raise Silent after `quiet_after` seconds without an event.
    """
    while True:
        try:
            async with asyncio.timeout(quiet_after):
                event = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Silent(f"no event for {quiet_after:g} s") from None
        yield event
        del event  # it may be large, and the next one may come minutes later


async def wait_for(changed: Callable[[], Awaitable[object]], at_most: float) -> None:
    """Wait until `changed` returns, for at most `at_most` seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(at_most):
            await changed()
