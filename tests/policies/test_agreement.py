"""Policies and webhooks give the same verdicts, for every rule that policies cover.

The expressions are evaluated by the sandbox. `tests/integration/test_policies.py` asks a real API
server the same.
"""

from collections.abc import Sequence

import pytest

from tests.effort import tries
from tests.policies.judge import Judge, bindings, design, disagreement
from tests.policies.mutations import mutated, recorded
from tests.reviews import load, path_of

DIALECTS = {
    "design": (design, ["", "grove-a5b8e0dc"]),
    "bindings": (bindings, ["grove-fcc3b3bb", "grove-616762f7"]),
}
CHANGED = tries(130, 400)
"""The changed requests of each dialect."""


def recordings(dialect: str) -> list[str]:
    _, operators = DIALECTS[dialect]
    return [name for operator in operators for name in recorded(operator)]


def judge_of(dialect: str) -> Judge:
    make, _ = DIALECTS[dialect]
    return Judge(make())


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_recorded_request_gets_the_same_verdict(dialect: str) -> None:
    judge = judge_of(dialect)
    problems = {}
    for name in recordings(dialect):
        request = load(name)["request"]
        of_policies = judge.policies(request)
        of_webhook = await judge.webhook(request)
        problem = disagreement(path_of(name), of_policies, of_webhook)
        if problem or not _is_said(of_policies, of_webhook, judge):
            problems[name] = problem or f"{of_policies} {of_webhook}"
    assert problems == {}


def _is_said(of_policies: Sequence[str], of_webhook: Sequence[str], judge: Judge) -> bool:
    """Whether the webhook has the words of each policy, apart from what can't be shown, and from
    what else is wrong with levels that their writer may not write.
    """
    is_guarded = any("is managed by grove-admission" in text for text in of_webhook)
    return is_guarded or all(text in of_webhook or text in judge.short for text in of_policies)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.untraced
async def test_a_changed_request_gets_the_same_verdict(dialect: str) -> None:
    judge = judge_of(dialect)
    refused = 0
    problems = []
    for request in mutated(recordings(dialect), CHANGED, seed=1):
        of_policies = judge.policies(request)
        of_webhook = await judge.webhook(request)
        refused += bool(of_policies)
        path = judge.path(request)
        problem = disagreement(path, of_policies, of_webhook)
        if problem or not _is_said(of_policies, of_webhook, judge):
            problems.append((problem, of_policies, of_webhook, request))
    assert problems == []
    assert CHANGED / 4 < refused < CHANGED
