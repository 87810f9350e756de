"""A stream of requests, in any pieces, into a connection: it never raises, always ends well, and
keeps its limits.

An input is a byte for what happens beside the stream, one for the sizes of its pieces, and the
stream.
"""

import asyncio
import re
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

import msgspec

from app.admission.connection import MAX_HEAD, Connection, State
from app.admission.serving import Serving
from tests.admission.test_connection import (
    HEAD,
    PATH,
    SLOW,
    STREAMS,
    Server,
    Wire,
    post,
    review,
)
from tests.admission.ways import healthy
from tests.fuzz.mutation import changed_bytes
from tests.fuzz.target import Target

ONLY_KNOWN = 1
DRAINING = 2
UNREAD = 4
LOST = 8
"""Bits of an input's first byte: callers need a certificate; the server drains; the client does not
read its answers for a while; the client hangs up after half of the pieces.
"""

STATUSES = {100, 200, 400, 401, 404, 411, 413, 415, 505}
Answered = list[tuple[int, Any]]
"""Status and body of each answer."""
_ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [A-Za-z ]+\r\n((?:[a-z-]+: [^\r\n]*\r\n)*)\r\n")
TOKENS = (
    b"\r\n",
    b"\r\n\r\n",
    b"\n\n",
    b"POST ",
    b"GET / HTTP/1.1\r\n",
    b" HTTP/1.0\r\n",
    PATH.encode(),
    SLOW.encode(),
    b"http://host",
    b"host: y\r\n",
    b" HTTP/2.0\r\n",
    b"transfer-encoding: gzip\r\n",
    b"content-length: 2\r\n",
    b"content-length: 7340033\r\n",
    b"content-length: -1\r\n",
    b"content-length: +3\r\n",
    b"content-length: 99999999999999999999\r\n",
    b"transfer-encoding: chunked\r\n",
    b"transfer-encoding: chunked, identity\r\n",
    b"expect: 100-continue\r\n",
    b"connection: close\r\n",
    b"connection: keep-alive, upgrade\r\nupgrade: websocket\r\n",
    b"content-type: text/plain\r\n",
    b"0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"5;a=b\r\nhello\r\n",
    b"{}",
    b"\x00",
    b"\x16\x03\x01\x02\x00",
    b" \t",
    b"a: b\r\n" * 2000,
    b"x" * 5000,
)


class Stream:
    """One connection, and everything that came of a stream on it."""

    def __init__(self, beside: int) -> None:
        self.server = Server(only_known=bool(beside & ONLY_KNOWN))
        self.wire = Wire()
        self.serving = Serving(self.server.app.exchange, healthy, draining=bool(beside & DRAINING))
        self.connection = Connection(self.serving)
        self.connection.connection_made(self.wire)

    async def feed(self, pieces: Sequence[bytes], beside: int) -> None:
        self.server.release.set()
        if beside & UNREAD:
            self.connection.pause_writing()
        for number, piece in enumerate(pieces):
            if self.ended:
                break
            if self.wire.paused and beside & UNREAD and self.connection._unread_at is not None:
                self.connection.resume_writing()
            await self._settle()
            assert not self.wire.paused, "reading is paused and never goes on"
            self.connection.data_received(piece)
            if beside & LOST and number >= len(pieces) // 2:
                break
        if beside & LOST:
            self.connection.connection_lost(None)
        elif beside & UNREAD and not self.ended:
            self.connection.resume_writing()
        await self._settle()

    async def _settle(self) -> None:
        """Until no request waits for its verdict, and what was kept meanwhile is read."""
        queue = self.serving.queue
        light, heavy = queue._light.turns, queue._heavy.turns
        for _ in range(10_000):
            await asyncio.sleep(0.001 if heavy else 0)
            if len(asyncio.all_tasks()) == 1 and not (light or heavy):
                return
        raise AssertionError("a verdict is awaited for ever")

    @property
    def ended(self) -> bool:
        return self.wire.closed

    def check(self, sent: int) -> None:
        kept = len(self.connection._kept)
        state = self.connection._state
        assert kept <= MAX_HEAD + sent, "too much is kept"
        assert not (self.ended and self.serving.connections and state is not State.END), (
            "a connection is left behind"
        )
        assert state in (State.IDLE, State.HEAD, State.BODY, State.END), state
        assert state is State.END or not self.ended

    def answers(self) -> list[tuple[int, Any]]:
        """Status and body of each answer, without those that ask the client to go on."""
        answers: list[tuple[int, Any]] = []
        rest = bytes(self.wire.written)
        while rest:
            head = _ANSWER.match(rest)
            assert head is not None, rest[:200]
            status = int(head[1])
            length = re.search(rb"content-length: (\d+)", head[2])
            assert status in STATUSES, status
            end = head.end() + (int(length[1]) if length else 0)
            body = rest[head.end() : end]
            rest = rest[end:]
            if status != 100:
                answers.append((status, _checked(status, body)))
        return answers


def _checked(status: int, body: bytes) -> Any:
    if status in (400, 411, 505) and not body.startswith(b"{"):
        return body
    if body == b"ok\n":
        return body
    answer = msgspec.json.decode(body)
    if status == 200:
        assert answer["response"]["uid"], answer
        assert answer["response"].get("status", {}).get("code") != 500, answer
    else:
        assert (answer["kind"], answer["code"]) == ("Status", status), answer
    return answer


def run(data: bytes) -> None:
    """The stream in pieces and, if nothing happens beside it, also whole: the answers are the same."""
    if len(data) < 2:
        return
    beside = data[0] % 16
    sizes = data[1]
    stream = data[2:]
    pieces = [stream]
    if sizes:
        random = Random(sizes)
        pieces = []
        begin = 0
        while begin < len(stream):
            size = random.choice((1, 2, 16, 300, 5000))
            pieces.append(stream[begin : begin + size])
            begin += size
    answered = _loop().run_until_complete(_answered(pieces, beside))
    if not beside & (UNREAD | LOST):
        whole = _loop().run_until_complete(_answered([stream], beside))
        assert _comparable(whole) == _comparable(answered), "cut differently, answered otherwise"


def _comparable(answered: Answered) -> Answered:
    """A refusal that is sent before the body is whole may come before or after what is no HTTP in
    the rest of it.
    """
    if answered and answered[-1][0] in (400, 401, 404, 411, 413, 505):
        return [*answered[:-1], (400, None)]
    return answered


async def _answered(pieces: Sequence[bytes], beside: int) -> Answered:
    stream = Stream(beside)
    await stream.feed(pieces, beside)
    stream.check(max(map(len, pieces), default=0))
    answers = stream.answers()
    if not beside & LOST:
        stream.connection.connection_lost(None)
    assert not stream.serving.connections
    return answers


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()

    def fail(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        raise AssertionError(context["message"]) from context.get("exception")

    loop.set_exception_handler(fail)
    return loop


def corpus() -> Sequence[bytes]:
    streams = [
        b"".join(stream[:2] + stream[-1:])
        for stream in STREAMS.values()
        if len(b"".join(stream)) < 30_000
    ]
    streams += [
        post(review("a"), path=SLOW) + post(review("b")) * 3,
        post(b"", headers=b"expect: 100-continue\r\n") + post(b"[" * 100),
        HEAD + b"content-length: 8000000\r\n\r\n" + b'{"request":{"uid":"u"' + b"x" * 5000,
        b"GET /healthz HTTP/1.0\r\n\r\n",
        b"GET /metrics HTTP/1.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ]
    return [
        bytes((beside, sizes)) + stream
        for stream in streams
        for beside in range(16)
        for sizes in (0, 7)
    ]


def mutate(data: bytes, random: Random) -> bytes:
    if len(data) < 2 or random.random() < 0.02:
        return random.choice(corpus())
    if random.random() < 0.2:
        data = bytes((random.randrange(16), random.choice((0, random.randrange(256))))) + data[2:]
    at = random.randint(2, len(data))
    match random.randrange(4):
        case 0:
            return data[:at] + random.choice(TOKENS) + data[at:]
        case 1:
            end = data.find(b"\r\n", at)
            return data[:at] + random.choice(TOKENS) + (data[end + 2 :] if end >= 0 else b"")
        case 2:
            other = random.choice(corpus())
            return data[:at] + other[random.randint(2, len(other)) :]
    return data[:2] + changed_bytes(data[2:], random)


CONNECTION = Target("connection", run, corpus, mutate)
