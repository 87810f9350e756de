"""What an examination heard, again: answers, errors, and handshakes."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from app.base.record import record_of, recorded_facts
from app.doctor.certificate import Handshake
from app.doctor.record import KIND, Heard, unanswered, unreachable
from app.kube.api import ClusterError, Gone, NotFound, NotServed, Object, Rejected, Unavailable
from app.kube.transport import ApiRequest
from app.objects.tokens import HIDDEN, new_token

ASKED = ApiRequest("get", "pods", "GET", "/api/v1/pods")


def heard() -> Heard:
    return Heard(datetime(2026, 11, 26, tzinfo=UTC), False, False, True, "{}")


def again(before: Heard) -> Heard:
    """As it is read from its record."""
    return recorded_facts(Heard, record_of(KIND, before))


@pytest.mark.parametrize(
    "error",
    [
        NotFound("no pods", code=404, reason="NotFound"),
        NotServed("no resource", code=404),
        Rejected("not you", code=403, reason="Forbidden"),
        Gone("too old", code=410),
        Unavailable("down"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_is_raised_again(error: ClusterError) -> None:
    async def call(request: ApiRequest) -> Object:
        raise error

    first = heard()
    for is_again in (False, True):
        calling = again(first).keeping(unanswered) if is_again else first.keeping(call)
        with pytest.raises(type(error)) as raised:
            await calling(ASKED)
        same = raised.value
        assert (same.message, same.code, same.reason) == (error.message, error.code, error.reason)


async def test_an_answer_is_the_first_one_and_nobody_can_change_it() -> None:
    answers: Iterator[Object] = iter(
        [{"items": [{"token": f"/{new_token(1.0)}/mutate"}]}, {"items": []}]
    )

    async def call(request: ApiRequest) -> Object:
        return next(answers)

    first = heard()
    calling = first.keeping(call)
    (await calling(ASKED))["items"].clear()
    same = {"items": [{"token": f"/{HIDDEN}/mutate"}]}
    assert await calling(ASKED) == same
    assert await again(first).keeping(unanswered)(ASKED) == same


async def test_what_was_not_asked_is_not_known() -> None:
    with pytest.raises(Unavailable, match="not in the record"):
        await heard().keeping(unanswered)(ASKED)


async def test_handshakes_are_those_of_the_record() -> None:
    async def shake(*asked: Any) -> Handshake:
        return Handshake("trusted")

    first = heard()
    assert await first.shaking(shake)("10.0.0.1", 443, "a", b"ca") == Handshake("trusted")
    shaking = again(first).shaking(unreachable)
    assert await shaking("10.0.0.1", 443, "a", b"ca") == Handshake("trusted")
    assert (await shaking("10.0.0.1", 443, "a", b"other")).outcome == "unreachable"
