"""The queue guard, as the doctor sees it."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from app.config.schema import Configuration
from app.doctor.policies import check_policies
from app.doctor.queue_guard import check_queue_guard
from app.doctor.report import Check
from app.webhooks.policies import Mode, queue_policies
from tests.doctor.answering import AnsweringClient

Object = dict[str, Any]
Change = Callable[[list[Object]], object]

CONFIGURATION = Configuration()
REFUSES = Check(
    "policies", "ok", "the queue guard looks at writes that name a queue, and refuses them"
)
WARNS = Check(
    "policies", "ok", "the queue guard looks at writes that name a queue, and only warns of them"
)
PODS = "queue-guard-pods.grove-admission.grove.io"
FORMER = "queue-guard-former.grove-admission.grove.io"


def stored(mode: Mode = "refuse", namespace: str = "kai-scheduler") -> list[Object]:
    """The objects as an API server stores them: without empty lists."""
    objects = copy.deepcopy(queue_policies(CONFIGURATION, mode, namespace))
    for obj in objects:
        obj["spec"] = {key: value for key, value in obj["spec"].items() if value != []}
    return objects


async def checks(objects: list[Object]) -> list[Check]:
    return await check_queue_guard(AnsweringClient(objects), CONFIGURATION)


def warning(message: str, mode: str = "refuse", namespace: str = "kai-scheduler") -> Check:
    remedy = (
        "Print the queue guard with the configuration of the server (grove-admission policies"
        f" --queues {mode} --kai-namespace {namespace}), and apply it with --prune, as in the"
        " manifests README."
    )
    return Check("policies", "warning", message, remedy)


async def test_without_the_guard_nothing_is_said() -> None:
    assert await checks([]) == []


async def test_its_mode_is_said_in_whichever_namespace_kai_is() -> None:
    assert await checks(stored()) == [REFUSES]
    assert await checks(stored("warn", "scheduling")) == [WARNS]


def former(objects: list[Object]) -> None:
    for obj in copy.deepcopy(objects[:2]):
        obj["metadata"]["name"] = FORMER
        obj["spec"]["policyName"] = FORMER
        objects.append(obj)


def without_pods(objects: list[Object]) -> None:
    objects[:] = [obj for obj in objects if obj["metadata"]["name"] != PODS]


def another_rule(objects: list[Object]) -> None:
    of_pods = next(obj for obj in objects if obj["metadata"]["name"] == PODS)
    of_pods["spec"]["validations"].pop()


MISTAKES: dict[str, tuple[Change, str]] = {
    "a former one": (
        former,
        f"{FORMER} is not of this version: a former one that was left behind",
    ),
    "one is missing": (without_pods, f"{PODS} is not installed, or has no binding"),
    "another rule": (another_rule, f"{PODS} is not that of this version and configuration"),
}


@pytest.mark.parametrize("case", MISTAKES)
async def test_a_difference_is_a_warning(case: str) -> None:
    change, message = MISTAKES[case]
    objects = stored(namespace="scheduling")
    change(objects)
    assert await checks(objects) == [REFUSES, warning(message, namespace="scheduling")]


async def test_the_rules_of_webhooks_are_another_matter() -> None:
    (check,) = await check_policies(AnsweringClient(stored()), CONFIGURATION)
    assert check.message.startswith("no policy of ours is installed")
