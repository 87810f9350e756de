"""A running system as tests see it: an API server, three users' clients, and our server beside it."""

import asyncio
import contextlib
import io
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

import httpx
import yaml

from app.cli import main
from app.facts.kinds import ALL
from app.kube.api import NotFound, Object, ObjectRef, Selection
from app.kube.client import HttpClient
from app.kube.credentials import from_kubeconfig
from app.kube.transport import CallLimits
from app.objects.resource import Resource
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.sandbox import Sandbox
from tests.integration.inprocess import InProcessClient

T = TypeVar("T")

FAST = CallLimits(qps=10_000, burst=10_000)
PATIENCE = 240.0
"""States arise within a second; a machine that is busy with other work gets more time."""


class Users:
    """Clients of one API server, as admin, as Grove's operator and as an ordinary user."""

    def __init__(
        self,
        api: ApiServer,
        admin: HttpClient,
        operator: HttpClient,
        user: HttpClient,
        raw: dict[str, httpx.AsyncClient],
    ) -> None:
        self.api = api
        self.admin = admin
        self.operator = operator
        self.user = user
        self._raw = raw

    async def call(self, method: str, path: str, body: Object | None = None) -> Object:
        """Any request as the ordinary user, for what our own client doesn't do: bulk deletes,
        subresources.
        """
        content: Object = (await self.answer("user", method, path, body)).json()
        return content

    async def answer(
        self, user: str, method: str, path: str, body: Object | None = None
    ) -> httpx.Response:
        """Any request as any user, with the headers of its answer; a PATCH is a merge patch."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = await self._raw[user].request(
            method, path, json=body, headers={"Content-Type": kind}
        )
        answer.raise_for_status()
        return answer


@contextlib.asynccontextmanager
async def users(api: ApiServer) -> AsyncIterator[Users]:
    names = ("admin", "grove", "user")
    async with contextlib.AsyncExitStack() as stack:
        admin, operator, user = [
            await stack.enter_async_context(await connect(api, name)) for name in names
        ]
        raw = {name: await stack.enter_async_context(raw_client(api, name)) for name in names}
        yield Users(api, admin, operator, user, raw)


def raw_client(api: ApiServer, user: str = "admin", timeout: float = 60.0) -> httpx.AsyncClient:
    """A client for any request as `user`, such as one that impersonates others."""
    known = yaml.safe_load(api.kubeconfig.read_text())["users"]
    tokens = {item["name"]: item["user"]["token"] for item in known}
    return httpx.AsyncClient(
        base_url=api.url,
        verify=ssl.create_default_context(cafile=api.ca_file),
        headers={"Authorization": f"Bearer {tokens[user]}"},
        timeout=timeout,
    )


async def connect(api: ApiServer, context: str, resources: Iterable[Resource] = ALL) -> HttpClient:
    """A client of `api` that knows what it serves just now; in-process if that is a sandbox."""
    credentials = await from_kubeconfig(api.kubeconfig, context)
    client = HttpClient(credentials, resources, FAST)
    if isinstance(api, Sandbox):
        client = InProcessClient(credentials, resources, FAST, api.app)
    await client.discovery.refresh()
    return client


async def command(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `grove-admission`, which runs in a thread: a
    process takes more than half a second to start.
    """
    out = io.StringIO()
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = await asyncio.to_thread(main, list(arguments))
    return code, out.getvalue(), err.getvalue()


async def eventually(
    look: Callable[[], Awaitable[T]],
    accepts: Callable[[T], object] = bool,
    patience: float = PATIENCE,
) -> T:
    """What `look` gives as soon as `accepts` says so; an AssertionError with the last of it after
    `patience` seconds. It looks less often as time passes, because each look costs requests.
    """
    last: T | None = None
    pause = 0.01
    try:
        async with asyncio.timeout(patience):
            while True:
                last = await look()
                if accepts(last):
                    return last
                await asyncio.sleep(pause)
                pause = min(1.5 * pause, 0.2)
    except TimeoutError:
        raise AssertionError(f"not within {patience:g} s; last seen: {last!r}") from None


async def is_gone(
    client: HttpClient, resource: Resource, name: str, namespace: str | None = None
) -> bool:
    try:
        await client.get(ObjectRef(resource, name, namespace))
    except NotFound:
        return True
    return False


async def names(
    client: HttpClient, resource: Resource, namespace: str, selector: str = ""
) -> list[str]:
    page = await client.list(Selection(resource, namespace, labels=selector), limit=0)
    return sorted(item["metadata"]["name"] for item in page.items)


async def create_all(
    client: HttpClient, resource: Resource, objects: Iterable[Object], namespace: str
) -> list[Object]:
    """Creates all at once; raises the first refusal."""
    return list(await asyncio.gather(*(client.create(resource, obj, namespace) for obj in objects)))
