"""Clients that are slow, greedy or no API servers at all, many at a time."""

import asyncio
import contextlib
import itertools
import json
import os
import resource
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from app.admission.exchange import MAX_BODY
from tests.dry_run.attacks import LONG_ALIASES, MANY_LAUGHS, MERGED_LAUGHS
from tests.reviews import load
from tests.server.records import open_records

Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]
HEAD = (
    b"POST /validate/podgroup?timeout=5s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
)
DRY_RUN = b"POST /dry-run HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
AT_ONCE = 50
"""TLS handshakes that are begun at a time: the clients are one process too."""


@dataclass(frozen=True)
class Address:
    """Where the server listens on loopback, and a context that trusts it."""

    port: int
    tools_port: int
    context: ssl.SSLContext

    async def open(self) -> Opened:
        return await self._open(self.port)

    async def open_tools(self) -> Opened:
        return await self._open(self.tools_port)

    async def open_plain(self) -> Opened:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def open_plain_tools(self) -> Opened:
        return await asyncio.open_connection("127.0.0.1", self.tools_port)

    async def _open(self, port: int) -> Opened:
        return await asyncio.open_connection(
            "127.0.0.1", port, ssl=self.context, server_hostname="localhost"
        )


Crowd = Callable[[Address], AbstractAsyncContextManager[None]]
"""While the context is open, all clients of the crowd are there."""


def post(body: bytes) -> bytes:
    return b"%bcontent-length: %d\r\n\r\n%b" % (HEAD, len(body), body)


def allow_many_files() -> None:
    """Lifts the limit of open files of this process, and of those that it starts, as far as it may."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextlib.asynccontextmanager
async def idle(address: Address, clients: int = 2500) -> AsyncIterator[None]:
    """Connections on which nothing is sent."""
    async with _opened(address.open, clients):
        yield


@contextlib.asynccontextmanager
async def slow(address: Address, clients: int = 200) -> AsyncIterator[None]:
    """Half of the clients send a head, half of them a body, a byte a second."""
    begun = asyncio.Semaphore(0)

    async def send(opened: Opened, number: int) -> None:
        _, writer = opened
        head, _, body = post(b"{}" * 1000).partition(b"\r\n\r\n")
        sent, rest = (b"", head) if number % 2 else (head + b"\r\n\r\n", body)
        writer.write(sent)
        for at in range(len(rest)):
            writer.write(rest[at : at + 1])
            if at == 2:
                begun.release()
            await asyncio.sleep(1)

    async with _busy(address.open, clients, send):
        for _ in range(clients):
            await begun.acquire()
        yield


@contextlib.asynccontextmanager
async def unread(address: Address, clients: int = 100) -> AsyncIterator[None]:
    """Clients that ask again and again, and never read an answer."""
    request = post(json.dumps(load("podgroup.mixed-case-name")).encode())
    async with _opened(address.open, clients) as opened:
        for _, writer in opened:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(request * 500)
        yield


@contextlib.asynccontextmanager
async def strange(address: Address, clients: int = 300) -> AsyncIterator[None]:
    """No TLS, half a ClientHello, and bytes that begin like one."""
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    starts = (
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        hello,
        hello + os.urandom(600),
        os.urandom(3000),
        b"",
    )
    async with _opened(address.open_plain, clients) as opened:
        for number, (_, writer) in enumerate(opened):
            writer.write(starts[number % len(starts)])
        yield


def hello() -> bytes:
    """The first bytes of a TLS client."""
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(
        ssl.MemoryBIO(), outgoing, server_hostname="localhost"
    )
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@contextlib.asynccontextmanager
async def silent(address: Address, clients: int = 12_000) -> AsyncIterator[None]:
    """Connections on which TLS is never begun."""
    async with _opened(address.open_plain, clients):
        yield


@contextlib.asynccontextmanager
async def half_open(address: Address, clients: int = 12_000) -> AsyncIterator[None]:
    """TLS handshakes that are begun and never ended."""
    begin = hello()

    async def open_one() -> Opened:
        opened = await address.open_plain()
        opened[1].write(begin)
        return opened

    async with _opened(open_one, clients):
        yield


@contextlib.asynccontextmanager
async def holding(address: Address, clients: int = 60) -> AsyncIterator[None]:
    """Each client sends a body of 7 MiB but for its last byte."""
    request = post(b" " * MAX_BODY)[:-1]

    async def send(opened: Opened, _: int) -> None:
        opened[1].write(request)
        with contextlib.suppress(ConnectionError):
            await opened[1].drain()

    async with _busy(address.open, clients, send) as sending:
        await asyncio.gather(*sending)
        yield


@contextlib.asynccontextmanager
async def greedy(address: Address, clients: int = 8) -> AsyncIterator[None]:
    """Each client sends a review of 7 MiB of `{}` three times, and reads the rejection.

    Together, they are more than strangers may hold: some are closed.
    """
    start = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":{"spec":['
    request = post((start + b"{}," * (MAX_BODY // 3))[: MAX_BODY - 6] + b"]}}}")

    async def send(opened: Opened, _: int) -> None:
        reader, writer = opened
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            for _ in range(3):
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                assert b'"code":413' in head + await reader.readuntil(b"}}}")
                answered.append(opened)

    answered: list[Opened] = []
    async with _busy(address.open, clients, send) as sending:
        yield
        await asyncio.gather(*sending)
    assert len(answered) >= clients // 2


@contextlib.asynccontextmanager
async def laughing(address: Address, clients: int = 12) -> AsyncIterator[None]:
    """Each client asks for a dry run of a short text that stands for a great deal."""
    texts = (LONG_ALIASES, MANY_LAUGHS, MERGED_LAUGHS)

    async def send(opened: Opened, number: int) -> None:
        reader, writer = opened
        body = texts[number % len(texts)].encode()
        writer.write(DRY_RUN % len(body) + body)
        answer = await reader.readuntil(b"}")
        assert b" 400 " in answer or b" 503 " in answer, answer

    async with _busy(address.open_tools, clients, send) as sending:
        yield
        await asyncio.gather(*sending)


@contextlib.asynccontextmanager
async def digits(address: Address, clients: int = 2) -> AsyncIterator[None]:
    """Each client asks with a time limit of 15,000 digits: a head has at most 16 KiB."""
    review = json.dumps(load("podgroup.valid")).encode()
    request = post(review).replace(b"timeout=5s", b"timeout=" + b"1" * 15_000)

    async def send(opened: Opened, _: int) -> None:
        reader, writer = opened
        writer.write(request)
        assert b" 200 " in await reader.readuntil(b"\r\n")

    async with _busy(address.open, clients, send) as sending:
        yield
        await asyncio.gather(*sending)


@contextlib.asynccontextmanager
async def key_updates(address: Address, updates: int = 48_000) -> AsyncIterator[None]:
    """One client sends messages that have no data, 1.3 MB."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        (_, writer), records, _ = await open_records(address.port, address.context, log)
    writer.write(b"".join(records.update_keys() for _ in range(updates)))
    yield
    writer.transport.abort()


@contextlib.asynccontextmanager
async def zeros(address: Address, clients: int = 2) -> AsyncIterator[None]:
    """Each client asks for a dry run of 240,000 zeros below 180 lists, and reads no answer."""
    clique = load("podclique.replica-scope-0-worker")["request"]["object"]
    body = json.dumps(clique).encode()[:-1]
    body += b',"zeros":' + b"[" * 180 + b",".join([b"0"] * 240_000) + b"]" * 180 + b"}"
    async with _opened(address.open_tools, clients) as opened:
        for _, writer in opened:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(DRY_RUN % len(body) + body)
        yield


@contextlib.asynccontextmanager
async def heads(address: Address, clients: int = 1960) -> AsyncIterator[None]:
    """Each client sends 34 KiB of a head without an end."""
    async with _opened(address.open, clients) as opened:
        for _, writer in opened:
            writer.write(HEAD + b"a" * 34 * 1024)
        yield


def wrong_set(parts: int) -> bytes:
    """An UPDATE of a PodCliqueSet with so many wrong cliques, and as many wrong scaling groups."""
    review = load("podcliqueset.topology-invalid-unchanged")
    wrong = {"topologyConstraint": {"packDomain": "wrong"}}
    template = {
        "cliques": [
            {"name": f"w{number}", **wrong, "spec": {"podSpec": {"containers": []}}}
            for number in range(parts)
        ],
        "podCliqueScalingGroups": [
            {"name": f"g{number}", "cliqueNames": [f"w{number}"], **wrong}
            for number in range(parts)
        ],
    }
    for version in ("object", "oldObject"):
        review["request"][version]["spec"]["template"] = template
    return to_sets(post(json.dumps(review, separators=(",", ":")).encode()))


@contextlib.asynccontextmanager
async def wrong(address: Address, clients: int = 4, parts: int = 9999) -> AsyncIterator[None]:
    """Each client sends a review that takes long again and again."""
    async with asking(address, clients, wrong_set(parts)):
        yield


def deletion(name: str, path: str = "/validate/podgang") -> bytes:
    """A review of the deletion of a PodGang that has no resources."""
    review = load("podgang.update")
    gang = review["request"]["object"]
    gang["metadata"] |= {"name": name, "uid": name}
    review["request"] |= {"operation": "DELETE", "name": name, "object": None, "oldObject": gang}
    request = post(json.dumps(review).encode())
    return request.replace(b"/validate/podgroup", path.encode(), 1)


@contextlib.asynccontextmanager
async def deletions(
    address: Address, clients: int = 480, seconds: float = 3.0
) -> AsyncIterator[None]:
    """Each client asks every few seconds whether a PodGang may be deleted that doesn't exist.

    For each of them, the server has to ask the API server, 160 times a second.
    """

    async def send(opened: Opened, number: int) -> None:
        reader, writer = opened
        await asyncio.sleep(seconds * number / clients)
        for turn in itertools.count():
            writer.write(deletion(f"invented-{number}-{turn}"))
            await reader.read(65536)
            await asyncio.sleep(seconds)

    async with _busy(address.open, clients, send):
        yield


FFDHE8192 = 0x0104


def costly_hello() -> bytes:
    """A ClientHello of TLS 1.3 with a share of ffdhe8192, of which its client has computed nothing."""

    def sized(content: bytes, length: int = 2) -> bytes:
        return len(content).to_bytes(length, "big") + content

    def extension(kind: int, content: bytes) -> bytes:
        return kind.to_bytes(2, "big") + sized(content)

    group = FFDHE8192.to_bytes(2, "big")
    share = group + sized(b"\x00" + os.urandom(1023))
    extensions = (
        extension(43, sized(b"\x03\x04", 1))
        + extension(10, sized(group))
        + extension(13, sized(b"\x04\x03\x08\x04"))
        + extension(51, sized(share))
    )
    body = b"\x03\x03" + os.urandom(32) + sized(b"", 1) + sized(b"\x13\x01") + sized(b"\x00", 1)
    return b"\x16\x03\x01" + sized(b"\x01" + sized(body + sized(extensions), 3))


@contextlib.asynccontextmanager
async def groups(address: Address, at_once: int = 180, a_second: int = 6) -> AsyncIterator[None]:
    """ClientHellos that cost a server much, and then six a second."""

    async def say() -> None:
        while True:
            with contextlib.suppress(OSError):
                _, writer = await address.open_plain()
                writer.write(costly_hello())
                opened.append(writer)
            await asyncio.sleep(1 / a_second)

    opened: list[asyncio.StreamWriter] = []
    saying = asyncio.create_task(say())
    try:
        for _ in range(at_once):
            _, writer = await address.open_plain()
            writer.write(costly_hello())
            opened.append(writer)
        yield
    finally:
        saying.cancel()
        for writer in opened:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def last_bytes(
    open_one: Callable[[], Coroutine[Any, Any, Opened]], request: bytes, clients: int
) -> AsyncIterator[None]:
    """Each client sends a request but for its last byte, and then all of them send that at once.

    They do so again and again, on new connections.
    """

    async def send() -> None:
        while True:
            with contextlib.suppress(OSError):
                async with _opened(open_one, clients) as opened:
                    for _, writer in opened:
                        writer.write(request[:-1])
                    await asyncio.sleep(0.5)
                    for _, writer in opened:
                        writer.write(request[-1:])
                    await asyncio.sleep(2)

    sending = asyncio.create_task(send())
    try:
        yield
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


@contextlib.asynccontextmanager
async def queries(address: Address) -> AsyncIterator[None]:
    """200 clients ask for /healthz with a query of 31,000 parameters."""
    request = b"GET /healthz?%b HTTP/1.1\r\nhost: x\r\n\r\n" % (b"a&" * 31_000)
    async with last_bytes(address.open, request, 200):
        yield


@contextlib.asynccontextmanager
async def scrapes(address: Address, clients: int = 1500) -> AsyncIterator[None]:
    """Each client asks for /openapi.json."""
    async with last_bytes(address.open, b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n", clients):
        yield


@contextlib.asynccontextmanager
async def tools(address: Address, clients: int = 300) -> AsyncIterator[None]:
    """The same on the tools port, where handshakes are begun and bodies never end, too."""
    begun = (
        b"POST /dry-run HTTP/1.1\r\nhost: x\r\ncontent-length: 2000000\r\n\r\n" + b"x" * 1_900_000
    )

    async def send(opened: Opened, _: int) -> None:
        with contextlib.suppress(ConnectionError):
            opened[1].write(begun)
            await opened[1].drain()

    request = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n"
    async with (
        _opened(address.open_plain_tools, clients),
        _busy(address.open_tools, 30, send),
        last_bytes(address.open_tools, request, clients),
    ):
        yield


@contextlib.asynccontextmanager
async def pieces(address: Address, clients: int = 60) -> AsyncIterator[None]:
    """On the tools port, half of the clients send heads of 15,000 lines, half chunks of a byte."""
    head = b"GET /metrics HTTP/1.1\r\nhost: x\r\n" + b"a:\r\n" * 15_000 + b"\r\n"
    body = b"POST /dry-run HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    requests = (head, body + b"1\r\na\r\n" * 200_000)

    async def send(opened: Opened, number: int) -> None:
        reader, writer = opened
        try:
            while True:
                with contextlib.suppress(OSError):
                    writer.write(requests[number % 2])
                    await reader.read()
                writer.transport.abort()
                reader, writer = await address.open_tools()
        finally:
            writer.transport.abort()

    async with _busy(address.open_tools, clients, send):
        yield


@contextlib.asynccontextmanager
async def whole_heads(address: Address, clients: int = 1990) -> AsyncIterator[None]:
    """Each client sends a complete head of 62 KiB, and a body that never comes."""
    lines = b"".join(b"a%d: %b\r\n" % (number, b"b" * 690) for number in range(90))
    request = HEAD + lines + b"content-length: 1000\r\n\r\n"
    async with _opened(address.open, clients) as opened:
        for _, writer in opened:
            writer.write(request)
        yield


def large_set(cliques: int = 100, size: int = 30_000) -> bytes:
    """A CREATE of a PodCliqueSet of 3 MB, which breaks no rule."""
    review = load("podcliqueset.topology-invalid-unchanged")
    review["request"] |= {"operation": "CREATE", "oldObject": None}
    environment = [{"name": f"n{number}", "value": "v" * 20} for number in range(size // 60)]
    container = {"name": "main", "image": "image", "env": environment}
    review["request"]["object"]["spec"]["template"] = {
        "cliques": [
            {"name": f"c{number}", "spec": {"podSpec": {"containers": [container]}}}
            for number in range(cliques)
        ]
    }
    return post(json.dumps(review, separators=(",", ":")).encode())


def to_sets(request: bytes, prefix: bytes = b"") -> bytes:
    """The same request to the webhook of PodCliqueSets."""
    return request.replace(b"/validate/podgroup", prefix + b"/validate/podcliqueset", 1)


@contextlib.asynccontextmanager
async def tenants(address: Address, clients: int = 20) -> AsyncIterator[None]:
    """Each client sends reviews of 3 MB as an API server does, over a path with a token."""
    async with asking(address, clients, to_sets(large_set(), b"/token")):
        yield


def set_of_many_replicas(replicas: int = 20_000_000) -> bytes:
    """A CREATE of a PodCliqueSet of 1 KB, whose scaling group has very many replicas."""
    review = load("podcliqueset.topology-invalid-unchanged")
    review["request"] |= {"operation": "CREATE", "oldObject": None}
    annotations = {"grove.io/mnnvl-enabled": "true", "grove.io/mnnvl-scope": "scalingGroupReplica"}
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    names = ["a", "b"]
    review["request"]["object"]["spec"]["template"] = {
        "cliques": [
            {
                "name": name,
                "annotations": annotations,
                "spec": {"replicas": 2, "podSpec": {"containers": [container]}},
            }
            for name in names
        ],
        "podCliqueScalingGroups": [{"name": "g", "replicas": replicas, "cliqueNames": names}],
    }
    return post(json.dumps(review, separators=(",", ":")).encode())


@contextlib.asynccontextmanager
async def encoded(address: Address, clients: int = 8) -> AsyncIterator[None]:
    """Each client sends reviews that take long to a percent-encoded path."""
    request = wrong_set(9999).replace(b"/validate/", b"/validate%2f", 1)
    async with asking(address, clients, request):
        yield


@contextlib.asynccontextmanager
async def asking(address: Address, clients: int, request: bytes) -> AsyncIterator[None]:
    """Each client sends a request again and again, and reads the answers.

    If its connection is closed, it opens another one, as long as that is possible.
    """

    async def send(opened: Opened, _: int) -> None:
        reader, writer = opened
        try:
            while True:
                with contextlib.suppress(OSError):
                    while not reader.at_eof():
                        writer.write(request)
                        await reader.read(65536)
                writer.transport.abort()
                reader, writer = await address.open()
        finally:
            writer.transport.abort()

    async with _busy(address.open, clients, send):
        yield


@contextlib.asynccontextmanager
async def _opened(
    open_one: Callable[[], Coroutine[Any, Any, Opened]], clients: int
) -> AsyncIterator[list[Opened]]:
    turns = asyncio.Semaphore(AT_ONCE)
    opened = list[Opened]()

    async def open_in_turn() -> None:
        async with turns:
            opened.append(await open_one())

    try:
        await asyncio.gather(*(open_in_turn() for _ in range(clients)))
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def _busy(
    open_one: Callable[[], Coroutine[Any, Any, Opened]],
    clients: int,
    act: Callable[[Opened, int], Coroutine[Any, Any, None]],
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Each client has a task, which is cancelled in the end."""
    async with _opened(open_one, clients) as opened:
        acting = [asyncio.create_task(act(client, number)) for number, client in enumerate(opened)]
        try:
            yield acting
        finally:
            for task in acting:
                task.cancel()
            await asyncio.gather(*acting, return_exceptions=True)


CROWDS: dict[str, Crowd] = {
    "digits": digits,
    "silent": silent,
    "half-open": half_open,
    "idle": idle,
    "slow": slow,
    "unread": unread,
    "strange": strange,
    "holding": holding,
    "greedy": greedy,
    "laughing": laughing,
    "key-updates": key_updates,
    "zeros": zeros,
    "heads": heads,
    "deletions": deletions,
    "wrong": wrong,
    "wrong-40": partial(wrong, clients=40),
    "groups": groups,
    "queries": queries,
    "scrapes": scrapes,
    "tools": tools,
    "pieces": pieces,
    "whole-heads": whole_heads,
    "encoded": encoded,
    "large": partial(asking, clients=300, request=post(b"[%b0]" % (b"0," * 61 * 1024))),
    "equal": partial(asking, clients=8, request=HEAD + b"a:\r\n" * 16_000 + b"\r\n"),
    "chunks": partial(
        asking,
        clients=8,
        request=HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 10**6,
    ),
}
