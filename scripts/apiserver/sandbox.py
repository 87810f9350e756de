"""Run the parts of the sandbox: storage, admission, garbage collector and HTTPS server."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from scripts.apiserver import kubeconfig, manifests, pki, processes
from scripts.apiserver.admission.authorization import Authorizer
from scripts.apiserver.admission.chain import Admission
from scripts.apiserver.admission.webhook import Services, WebhookTransport
from scripts.apiserver.http.app import SandboxApi
from scripts.apiserver.http.tokens import Tokens
from scripts.apiserver.objects import errors
from scripts.apiserver.objects.objects import ADMIN, Caller, Object, metadata
from scripts.apiserver.objects.patching import MERGE
from scripts.apiserver.objects.resources import Registry
from scripts.apiserver.requests.binding import Binder
from scripts.apiserver.requests.builtins import builtins
from scripts.apiserver.requests.collector import Collector
from scripts.apiserver.requests.reads import ReadHandlers
from scripts.apiserver.requests.writes import Writer
from scripts.apiserver.storage import Storage

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class Sandbox:
    """A local Kubernetes API server in this event loop.

    With `port` 0, it uses a free port. It writes kubeconfig, ca.crt and its serving certificate to
    `state_dir`. `crds` is a folder with the CRDs of other systems, instead of the minimal ones in
    `scripts/apiserver/crds`. `unserved` are group versions that this cluster does not serve, such
    as `resource.k8s.io/v1`. `later` are group versions of later releases of Kubernetes that it
    serves too. `rules` are a Namespace, a ServiceAccount, roles and bindings that limit the user
    `operator`. Without them, this user may do everything, like the other users. Certificates and
    tokens are new at each start.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        state_dir: Path,
        crds: Path | None = None,
        unserved: Collection[str] = (),
        later: Collection[str] = (),
        rules: Sequence[Object] = (),
    ) -> None:
        self.state_dir = state_dir
        self.ca_file = state_dir / "ca.crt"
        self.kubeconfig = state_dir / "kubeconfig"
        self.tokens = kubeconfig.new_tokens()
        self.collects_garbage = True
        self.serves_at_once = True
        self.url = ""
        self._host = host
        self._port = port
        self._crds = crds
        self._rules = list(rules)
        self._running = contextlib.AsyncExitStack()
        self._storage = Storage()
        self._registry = Registry(builtins(unserved, later))
        self._make_handlers()

    def _make_handlers(self) -> None:
        free = kubeconfig.free_users(is_limited=bool(self._rules))
        self.authorizer = Authorizer(self._storage, free)

        transport = WebhookTransport(Services(self._storage).address)
        self._running.push_async_callback(transport.close)
        admission = Admission(self._storage, self._registry, transport, self.authorizer)
        self._reader = ReadHandlers(self._storage)
        self._writer = Writer(self._storage, self._registry, admission)
        self._binder = Binder(self._storage, admission)
        self._collector = Collector(self._storage, self._registry, self._writer)

    @cached_property
    def app(self) -> Starlette:
        """The ASGI app, for clients that need no socket."""
        users = {token: kubeconfig.USERS[name] for name, token in self.tokens.items()}
        tokens = Tokens(self._storage, users, self.authorizer.free)
        return SandboxApi(
            self._registry, self._reader, self._writer, self._binder, tokens, self.authorizer
        ).app()

    async def start(self) -> None:
        """Store the namespaces and CRDs, then listen.

        Afterwards, `url` and the files in `state_dir` are valid.
        """
        self._running.push_async_callback(_ended, asyncio.create_task(self._collector.run()))
        for name in _NAMESPACES:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await self.apply([namespace])
        await self.apply([*manifests.definitions(self._crds), *self._rules])
        self.state_dir.mkdir(parents=True, exist_ok=True)
        pair = pki.issue()
        files = pair.write(self.state_dir, "apiserver")
        server = LoopbackServer(self.app, self._host, self._port, *files)
        self._running.push_async_callback(server.stop, self._storage.close)
        self.url = processes.url(self._host, server.port)
        self.ca_file.write_bytes(pair.ca)
        server.start()
        kubeconfig.write(self.kubeconfig, self.url, pair.ca, self.tokens)

    async def stop(self) -> None:
        """End all watches, requests and background tasks."""
        await self._running.aclose()

    async def apply(self, objects: list[Object]) -> list[Object]:
        """Create or update `objects` as admin, with admission. Return them as they are stored.

        If an object has a status, it is stored too. Raise ApiError for the first object that is
        rejected.
        """
        caller = Caller(ADMIN)
        applied = []
        for obj in objects:
            served = self._registry.for_kind(obj["apiVersion"], obj["kind"])
            if served is None:
                raise errors.not_served()

            namespace = (metadata(obj).get("namespace") or "default") if served.namespaced else ""
            key = (namespace, metadata(obj)["name"])
            if self._storage.get(served.table, key) is None:
                stored = await self._writer.create(served, obj, caller, namespace)
            else:
                stored = await self._writer.patch(served, key, obj, MERGE, caller)

            if served.has_status and "status" in obj:
                status = {"status": obj["status"]}
                stored = await self._writer.patch(served, key, status, MERGE, caller, "status")
            applied.append(stored)
        return applied

    def compact(self) -> None:
        """Clear the history.

        Older watches and list pages get 410, as after a compaction of etcd.
        """
        self._storage.compact()
        self._reader.forget_snapshots()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


class _Quiet(uvicorn.Server):
    """A uvicorn server that does not handle signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class LoopbackServer:
    """An ASGI app that is served over TLS on `host`, a loopback address.

    The socket listens at once, so connections wait until the server is started.
    """

    def __init__(self, app: ASGIApp, host: str, port: int, certificate: Path, key: Path) -> None:
        # asyncio sets TCP_NODELAY only if the protocol is given. Otherwise, each response waits 40
        # ms for an ACK.
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, port))
        self._socket.listen(1024)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            app,
            ssl_certfile=certificate,
            ssl_keyfile=key,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            timeout_keep_alive=60,
            timeout_graceful_shutdown=2,
        )
        self._server = _Quiet(config)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))

    async def stop(self, before: Callable[[], None]) -> None:
        """Accept no more connections, call `before`, and wait for open requests.

        `before` ends open streams.
        """
        self._server.should_exit = True
        before()
        if self._task is not None:
            await self._task
        self._socket.close()
