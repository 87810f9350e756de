"""What the client is made of: lines of a watch, turns of calls, and the decoding of long bodies."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from app.kube.api import TooLong
from app.kube.transport import AnswerTurns, LineTooLong, TokenBucket, lines_of, read_body
from tests.kube import virtual


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a", b"b\nc"], [b"ab", b"c"]),
        ([b"\n\n", b"a\n"], [b"a"]),
        ([], []),
    ],
)
async def test_lines(chunks: list[bytes], expected: list[bytes]) -> None:
    assert [line async for line in lines_of(_stream(chunks), 100)] == expected


async def test_a_line_that_is_too_long() -> None:
    with pytest.raises(LineTooLong):
        _ = [line async for line in lines_of(_stream([b"x" * 60, b"y" * 60]), 100)]


async def _stream(chunks: list[bytes]) -> AsyncGenerator[bytes, None]:
    for chunk in chunks:
        yield chunk


def test_a_burst_and_then_an_even_flow() -> None:
    async def main() -> list[float]:
        bucket = TokenBucket(10, 3)
        taken: list[float] = []

        async def take() -> None:
            await bucket.take()
            taken.append(round(virtual.now(), 3))

        await asyncio.gather(*(take() for _ in range(5)))
        await asyncio.sleep(10)
        await asyncio.gather(*(take() for _ in range(4)))
        return taken

    assert virtual.run(main()) == [0.0, 0.0, 0.0, 0.1, 0.2, 10.2, 10.2, 10.2, 10.3]


def test_who_gives_up_waiting_gives_the_turn_back() -> None:
    """Otherwise the turns of verdicts that ran out of time add up, until nobody gets one in time."""

    async def main() -> float:
        bucket = TokenBucket(10, 1)

        async def take() -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await bucket.take()

        await asyncio.gather(*(take() for _ in range(500)))
        begin = virtual.now()
        await bucket.take()
        return round(virtual.now() - begin, 3)

    assert virtual.run(main()) <= 0.2


async def test_a_turn_of_the_event_loop_decodes_one_long_body() -> None:
    turns = AnswerTurns()
    turn = 0

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def turn_of(length: int) -> int:
        await turns.take(length)
        return turn

    counting = asyncio.create_task(count_turns())
    first, second, third, short = await asyncio.gather(
        *map(turn_of, (100_000, 100_000, 100_000, 10))
    )
    counting.cancel()
    assert short < first < second < third


async def test_a_body_is_given_up_as_soon_as_it_is_too_long() -> None:
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 1
            yield b"x" * 10

    assert len(await read_body(chunks(), 10_000)) == 10_000
    sent = 0
    with pytest.raises(TooLong) as caught:
        await read_body(chunks(), 25)
    assert sent == 3
    assert (caught.value.message, caught.value.reason) == (
        "the answer has more than 25 bytes",
        "TooLong",
    )


def test_the_calls_for_one_namespace_do_not_delay_those_for_others() -> None:
    """A tenant can cause any number of calls, such as for a PodGang that adopts its claims."""

    async def main() -> list[float]:
        bucket = TokenBucket(10, 1)
        many = [asyncio.create_task(bucket.take("tenant")) for _ in range(1000)]
        await asyncio.sleep(0)
        waits = []
        for _ in range(3):
            begin = virtual.now()
            await bucket.take("other")
            waits.append(round(virtual.now() - begin, 3))
        for task in many:
            task.cancel()
        return waits

    assert max(virtual.run(main())) <= 0.2
