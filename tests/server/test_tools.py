"""The tools port, for people and monitoring: uvicorn within the limits of our server."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.certificates.source import file_source
from app.server import tools
from app.server.listener import bind
from app.server.tools import CONNECTIONS, MOST_PARAMETERS, POSTS, UNREAD, ToolsListener
from tests.server.test_serving import PATIENCE

GET = b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n"
LARGE = 8 * 2**20
POST = b"POST /read HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nbegin"


class App:
    """An ASGI app whose answers to posts wait for `release`, and how many it answers at a time.

    It reads only bodies for `/read`.
    """

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.most = self.now = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        if scope["path"] == "/read":
            while (await receive()).get("more_body", False):
                pass
        elif scope["method"] == "POST":
            await self.release.wait()
        else:
            await asyncio.sleep(0)
        self.now -= 1
        body = b"x" * LARGE if scope["path"] == "/large" else str(scope["state"]).encode()
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Served:
    """A listener for the app on a free port."""

    def __init__(self, folder: Path) -> None:
        self.app = App()
        certificate = file_source(folder, b"").certificate
        self.listener = ToolsListener(self.app, bind("127.0.0.1", 0), certificate)
        self.context = ssl.create_default_context(cafile=folder / "ca.crt")
        self.url = f"https://localhost:{self.listener.port}"

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, verify=self.context, timeout=PATIENCE)

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("localhost", self.listener.port, ssl=self.context)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    served = Served(tmp_path)
    running = asyncio.create_task(served.listener.run())
    async with asyncio.timeout(PATIENCE):
        yield served
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_connection_is_for_one_request(served: Served) -> None:
    reader, writer = await served.open()
    writer.write(GET % b"/a" * 3)
    received = await reader.read()
    assert received.count(b"HTTP/1.1 200") == 1
    assert b"connection: close" in received
    writer.close()


async def test_one_request_is_answered_at_a_time(served: Served) -> None:
    async with served.client() as client:
        answers = await asyncio.gather(*(client.get("/metrics") for _ in range(10)))
    assert [answer.status_code for answer in answers] == [200] * 10
    assert served.app.most == 1


async def test_few_requests_with_a_body_are_taken_at_a_time(served: Served) -> None:
    async with served.client() as client:
        posts = [asyncio.create_task(client.post("/dry-run")) for _ in range(POSTS + 3)]
        done: set[Any] = set()
        while len(done) < 3:
            done, _ = await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
        assert {
            (task.result().status_code, task.result().headers["retry-after"]) for task in done
        } == {(503, "1")}
        assert (await client.get("/metrics")).status_code == 200, "a look waits for no post"
        served.app.release.set()
        codes = sorted(answer.status_code for answer in await asyncio.gather(*posts))
    assert codes == [200] * POSTS + [503] * 3


async def test_a_query_of_many_parameters_is_not_read(served: Served) -> None:
    async with served.client() as client:
        for path in ("/healthz", "/metrics"):
            allowed = await client.get(path + "?" + "a&" * (MOST_PARAMETERS - 1))
            refused = await client.get(path + "?" + "a&" * MOST_PARAMETERS)
            assert (allowed.status_code, refused.status_code) == (200, 400)


async def test_of_too_many_connections_the_oldest_is_closed(served: Served) -> None:
    opened = [await served.open() for _ in range(CONNECTIONS + 2)]
    for reader, _ in opened[:2]:
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    reader, writer = opened[2]
    writer.write(GET % b"/a")
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    for _, writer in opened:
        writer.transport.abort()


async def test_few_answers_are_held_for_clients_that_do_not_read(served: Served) -> None:
    opened = []
    for _ in range(UNREAD + 2):
        reader, writer = await served.open()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(GET % b"/large")
        opened.append((reader, writer))
    while served.listener.unread.closed_early < 2:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.01)
    assert len(served.listener.unread) == UNREAD
    for _, writer in opened:
        writer.transport.abort()


async def test_a_connection_ends_after_a_time(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "CONNECTION_SECONDS", 0.1)
    reader, writer = await served.open()
    writer.write(b"GET / HT")
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()


async def test_a_head_has_an_end(served: Served) -> None:
    reader, writer = await served.open()
    with contextlib.suppress(ConnectionError):
        writer.write(b"GET /" + b"a" * 200_000)
        assert (await reader.read())[:12] in (b"HTTP/1.1 400", b"")
    writer.close()


async def test_a_body_of_many_lines_is_read(served: Served) -> None:
    async with served.client() as client:
        answer = await client.post("/read", content=b"\n" * 100_000)
    assert answer.status_code == 200


async def test_a_client_that_ends_in_a_request_takes_no_place(served: Served) -> None:
    for _ in range(2 * POSTS):
        reader, writer = await served.open()
        writer.write(POST)
        writer.transport.abort()
    for _ in range(2):  # the end of TLS
        reader, writer = await served.open()
        writer.write(POST)
        writer.close()
        assert await reader.read() == b""
    while len(served.listener.open):  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.01)
    async with served.client() as client:
        assert (await client.post("/read", content=b"a")).status_code == 200


async def test_a_body_that_is_not_sent_in_time_takes_no_place(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "BODY_SECONDS", 0.05)
    slow = [await served.open() for _ in range(POSTS)]
    for _, writer in slow:
        writer.write(POST)
    for reader, writer in slow:
        await reader.read()
        writer.close()
    async with served.client() as client:
        assert (await client.post("/read", content=b"a")).status_code == 200


async def test_who_sends_a_large_body_that_is_not_read_gets_the_answer(served: Served) -> None:
    served.app.release.set()
    for _ in range(4):
        reader, writer = await served.open()
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % LARGE)
        writer.write(b"x" * LARGE)
        await writer.drain()
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_requests_are_read_for_a_third_of_the_time(served: Served) -> None:
    """tests/test_turns.py has what a queue with such a rest does."""
    reading = served.listener.reading
    assert (reading._seconds, reading._rest) == (tools.READ_SECONDS, tools.REST)
    reader, writer = await served.open()
    writer.write((GET % b"/a")[:-2])
    while not served.listener.open or reading:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.001)
    writer.write(b"\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    writer.close()
