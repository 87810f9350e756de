"""Run the console: a server on loopback with a token, its client, and its background tasks."""

import asyncio
import contextlib
import functools
import gc
import html
import os
import secrets
import socket
import sys
import tempfile
import webbrowser
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from app import __version__
from app.base.value import Value
from app.cluster.command_clients import how_to_renew, looking_client
from app.console.connections import MOST_HEAD, connection_class
from app.console.events import Streams
from app.console.findings import Examination
from app.console.listing import WaitingList
from app.console.playground import Judge
from app.console.routes import Console, build_app
from app.console.settings import ConsoleSettings
from app.explain.live import Live
from app.explain.state.snapshot import BY_RESOURCE, RESOURCES
from app.facts.kinds import ALL
from app.kube.client import HttpClient
from app.kube.read_only import ReadOnlyClient
from app.objects.resource import CONFIG_MAP, NAMESPACE, SECRET
from app.server.listener import authority, bind
from app.stores.gc_pause import pause_until
from app.stores.permitted import Namespaces, PermittedStores

TOKEN_BYTES = 24
HIDDEN = (SECRET, CONFIG_MAP)
"""The resources that the console never reads."""
_STOP_SECONDS = 2
_YOUNG = 20_000
"""The number of new objects after which the garbage collector runs. A run takes about 5 ms."""


class Opened(Value):
    """A console that accepts requests."""

    url: str
    """The address of the console, which contains the token."""
    file: Path
    """The file that redirects to the address. Only its owner can read it."""
    live: Live
    """The current facts of the cluster."""
    calls: dict[tuple[str, str, str], int]
    """The number of requests to the API server by (verb, resource, status)."""

    def open_browser(self) -> bool:
        """Open the console in a browser. Return False if there is no display, or if it fails.

        The browser gets the file instead of the URL, because other users can see the arguments of
        processes. Without a display, a text browser would take over the terminal.
        """
        if sys.platform == "linux" and not ({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()):
            return False
        return webbrowser.open(self.file.as_uri())


@contextlib.asynccontextmanager
async def opened(settings: ConsoleSettings) -> AsyncIterator[Opened]:
    """Run a console while the block runs.

    The console reads with the permissions of a kubeconfig. Raise ClusterError without credentials,
    and OSError if the port is in use.
    """
    # always loopback: no setting allows another address
    host = "::1" if settings.ipv6 else "127.0.0.1"
    with bind(host, settings.port) as sock:
        token = secrets.token_urlsafe(TOKEN_BYTES)
        url = f"http://{authority(host, sock.getsockname()[1])}/{token}/"
        async with looking_client(
            dict.fromkeys((*RESOURCES, NAMESPACE, *ALL)), settings.kubeconfig, settings.context
        ) as client:
            console = _console(client, settings)
            with _redirecting_file(url) as file:
                async with (
                    _background(
                        client.discovery.run(),
                        console.live.run(),
                        _spared_collector(console.live),
                        examined(console.live, console.listing),
                    ),
                    _serving(build_app(console, token), sock, console.streams),
                ):
                    yield Opened(url, file, console.live, client.calls)
                    console.findings.stop()


def _console(client: HttpClient, settings: ConsoleSettings) -> Console:
    """Return the parts of a console. None of them can write to the cluster."""
    renewal = functools.partial(
        how_to_renew, kubeconfig=settings.kubeconfig, context=settings.context
    )
    namespaces = Namespaces(settings.namespaces, settings.own_namespace)
    looking = ReadOnlyClient(client, hidden=HIDDEN)
    watched = PermittedStores(looking, BY_RESOURCE.values(), client.discovery, namespaces)
    live = Live(watched, renewal=renewal)
    return Console(
        live,
        WaitingList(),
        Streams(live),
        Examination(looking, client.read, settings.configuration, live),
        Judge(looking, settings.configuration, live),
        looking,
        settings.context_name or "default",
        __version__,
    )


async def examined(live: Live, listing: WaitingList) -> None:
    """Explain each workload once, as soon as the first lists are complete.

    Without this, hundreds of workloads would take a minute, because each request for a page
    explains only a few of them.
    """
    await live.until_ready()
    while await live.in_thread(listing.examine):
        live.touch()
    live.touch()


@contextlib.contextmanager
def _redirecting_file(url: str) -> Iterator[Path]:
    """Write a file that redirects to `url` and that only its owner can read, and yield its path.

    The file is deleted when the block ends.
    """
    prefix = "grove-admission-console-"
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
        file = Path(folder, "open.html")
        file.touch(mode=0o600)
        address = html.escape(url, quote=True)
        file.write_text(
            '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0; url={address}"><title>grove-admission</title>'
            f'<a href="{address}">Open the console</a>\n'
        )
        yield file


@contextlib.asynccontextmanager
async def _background(*work: Coroutine[Any, Any, Any]) -> AsyncIterator[None]:
    """Run coroutines while the block runs. If one of them fails, cancel the block."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(each) for each in work]
        yield
        for task in running:
            task.cancel()


async def _spared_collector(live: Live) -> None:
    """Pause the garbage collector until the first lists are complete, then run it less often.

    The pause takes at most two minutes.
    """
    await pause_until(live.until_ready())
    gc.set_threshold(_YOUNG, 20, 100)


class _Server(uvicorn.Server):
    """A uvicorn server that handles no signals, and stops when `stop` is called.

    Unlike uvicorn's own, it does not wake up ten times a second to check whether it has to stop.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopped = asyncio.Event()

    async def main_loop(self) -> None:
        await self._stopped.wait()

    def stop(self) -> None:
        self.should_exit = True
        self._stopped.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def _serving(app: ASGIApp, sock: socket.socket, streams: Streams) -> AsyncIterator[None]:
    """Serve `app` on the socket while the block runs.

    The socket listens before the server has started, so early connections wait instead of failing.
    """
    sock.listen(128)
    config = uvicorn.Config(
        app,
        http=connection_class(),
        h11_max_incomplete_event_size=MOST_HEAD,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=_STOP_SECONDS,
    )

    server = _Server(config)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve(sockets=[sock]))
        try:
            yield
        finally:
            streams.close()
            server.stop()
