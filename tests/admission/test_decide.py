"""One request through one webhook, without HTTP."""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any

import pytest

from app.admission.decide import Handler, Route, decide, decided
from app.admission.review import Request
from app.admission.verdict import ALLOWED, Later, Ready, Verdict, patched, unavailable
from app.base.turns import FairTurns


def request(**changes: Any) -> Request:
    fields: dict[str, Any] = {
        "uid": "u",
        "group": "g",
        "kind": "Thing",
        "resource": "things",
        "subresource": "",
        "operation": "UPDATE",
        "name": "a",
        "namespace": "ns",
        "username": "me",
        "object": {"metadata": {"name": "a"}},
        "old": {},
        "dry_run": False,
    }
    return Request(**{**fields, **changes})


def route(handler: Handler) -> Route:
    return Route("/path", "g", "Thing", "things", "", frozenset({"UPDATE", "DELETE"}), handler)


def never_asked(_: Request) -> Verdict:
    raise AssertionError("this needs no rule")


def _same(later: Later, _: Request) -> Later:
    return later


MISPLACED = '/path judges "g" "Thing" (things), not '


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        pytest.param({"kind": "Other"}, 400, f'{MISPLACED}"g" "Other" (things)', id="another kind"),
        pytest.param({"group": "h"}, 400, f'{MISPLACED}"h" "Thing" (things)', id="another group"),
        pytest.param(
            {"resource": "others"}, 400, f'{MISPLACED}"g" "Thing" (others)', id="another resource"
        ),
        pytest.param(
            {"subresource": "status"},
            400,
            f'{MISPLACED}"g" "Thing" (things/status)',
            id="a subresource",
        ),
        pytest.param(
            {"kind": "", "resource": ""}, 400, f'{MISPLACED}"g" "" (no resource)', id="nothing said"
        ),
        pytest.param(
            {"operation": "CREATE"},
            400,
            "/path judges DELETE, UPDATE, not CREATE",
            id="another operation",
        ),
        pytest.param(
            {"object": {"metadata": 7}},
            422,
            "metadata: Invalid value: 7: must be a map",
            id="metadata is a number",
        ),
        pytest.param(
            {"object": {"metadata": {"labels": [], "annotations": "x", "name": []}}},
            422,
            "[metadata.labels: Invalid value: []: must be a map, metadata.annotations: Invalid value: \"x\": must be a map, metadata.name: Invalid value: []: must be a lowercase DNS subdomain: alphanumeric characters, '-' or '.', at most 253 characters]",
            id="everything at once",
        ),
    ],
)
def test_the_envelope_is_judged_before_any_rule(
    changes: dict[str, Any], code: int, message: str
) -> None:
    verdict = decide(route(never_asked), request(**changes), 1)
    assert isinstance(verdict, Verdict)
    assert (verdict.allowed, verdict.code, verdict.message) == (False, code, message)


def test_what_is_being_deleted_is_left_to_go() -> None:
    going = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "labels": []}}
    assert decide(route(never_asked), request(object=going), 1) == ALLOWED


def test_a_deletion_is_judged_whatever_the_shape_of_what_was_stored() -> None:
    refusal = unavailable("asked")
    deletion = request(
        operation="DELETE", object={"metadata": {"deletionTimestamp": "x", "labels": []}}, old=None
    )
    assert decide(route(lambda _: refusal), deletion, 1) is refusal


def test_a_verdict_at_once_needs_no_loop() -> None:
    assert decide(route(lambda _: ALLOWED), request(), 1) is ALLOWED


async def test_a_verdict_that_takes_time_is_awaited() -> None:
    async def make() -> Verdict:
        await asyncio.sleep(0)
        return ALLOWED

    async def begin() -> Later:
        await asyncio.sleep(0)
        return Later(make)

    for later in (Later(make), Later(begin)):
        handler = route(partial(_same, later))
        answer = decide(handler, request(), 1)
        assert isinstance(answer, Awaitable)
        assert await answer is ALLOWED
        assert await decided(handler, request(), 1) is ALLOWED


async def test_verdicts_whose_facts_arrive_together_are_judged_in_separate_turns() -> None:
    arrived = asyncio.Event()
    turns = FairTurns()
    judged = 0

    def judge() -> Verdict:
        nonlocal judged
        judged += 1
        return ALLOWED

    async def make() -> Ready:
        await arrived.wait()
        return Ready(judge)

    answers = [decide(route(lambda _: Later(make)), request(), 60, turns) for _ in range(20)]
    tasks = [asyncio.ensure_future(answer) for answer in answers]  # type: ignore[arg-type]
    await asyncio.sleep(0)
    arrived.set()
    most = before = 0
    while judged < 20:
        await asyncio.sleep(0)
        most, before = max(most, judged - before), judged
    assert (most, set(await asyncio.gather(*tasks))) == (1, {ALLOWED})


async def test_no_verdict_in_time_is_a_503() -> None:
    async def never() -> Verdict:
        await asyncio.Event().wait()
        return ALLOWED

    verdict = await decided(route(lambda _: Later(never)), request(), 0.01)
    assert verdict == unavailable(
        "no verdict within 0.01 s, because calls to the API server took too long: try again"
    )


async def test_a_cancelled_request_stays_cancelled() -> None:
    begun = asyncio.Event()

    async def never() -> Verdict:
        begun.set()
        await asyncio.Event().wait()
        return ALLOWED

    task = asyncio.ensure_future(decided(route(lambda _: Later(never)), request(), 60))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("late", [False, True], ids=["at once", "awaited"])
async def test_a_patch_that_does_not_fit_never_leaves(
    late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    answer = patched([{"op": "remove", "path": "/nowhere/x"}])

    async def give() -> Verdict:
        return answer

    def handler(_: Request) -> Verdict | Later:
        return Later(give) if late else answer

    verdict = await decided(route(handler), request(), 1)
    assert (verdict.code, verdict.reason, verdict.patch) == (500, "PatchDoesNotApply", ())
    logged = [(record.message, vars(record)["uid"]) for record in caplog.records]
    assert logged == [("patch does not apply", "u")]
