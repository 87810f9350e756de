"""Queues that don't exist: who names one is warned, by a policy or by a webhook, and not by both."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from app.config.schema import Configuration
from app.facts.grove.template import read_template
from app.facts.kinds import POD_CLIQUE, POD_CLIQUE_SET, POD_GROUP
from app.objects.resource import POD, Resource
from app.rules.queue_warnings import warnings_of_group, warnings_of_set
from app.webhooks.policies import queue_policies
from tests.policies.asked import Policies
from tests.policies.ways import KAI, QUEUE, TEMPLATED, Way, cliques, controlled, pod, projects, ways

pytestmark = pytest.mark.untraced

Object = dict[str, Any]

JOB = TEMPLATED[0]
OBJECTS = [
    obj
    for obj in queue_policies(Configuration(), "refuse", KAI)
    if obj["metadata"]["name"].startswith("queue-missing-")
]
WEBHOOKS: dict[Resource, Callable[[Object], list[str]]] = {
    POD_CLIQUE_SET: lambda obj: warnings_of_set(read_template(obj), ["a"]),
    POD_GROUP: lambda obj: warnings_of_group(obj, ["a"]),
}
COPIES = {"a label of a PodGroup"}
"""What no scheduler reads a queue from."""


def policies(*names: str) -> Policies:
    """The policies in a cluster with these Queues."""
    return Policies(OBJECTS, {"QueueNames": [{"spec": {"names": dict.fromkeys(names, "")}}]})


KNOWN = policies("a", "a-fast")


def missing(queue: str) -> list[str]:
    text = (
        f'queue "{queue}" does not exist (or was created only just now). KAI schedules nothing in'
    )
    return [f"{text} it until it exists"]


def warned(way: Way) -> int:
    """How many times somebody says that a queue doesn't exist, in a cluster with Queue `a`."""
    texts = KNOWN.said(way.resource, way.obj)
    if way.resource in WEBHOOKS:
        texts += WEBHOOKS[way.resource](way.obj)
    assert all("does not exist" in text for text in texts)
    return len(texts)


@pytest.mark.parametrize("case", sorted(ways("a").keys() - COPIES))
def test_who_names_a_missing_queue_is_warned_once(case: str) -> None:
    assert [warned(ways(queue)[case]) for queue in ("a", "b")] == [0, 1]


@pytest.mark.parametrize("case", projects("a"))
def test_a_project_without_a_queue_is_nobodys_business_in_what_makes_no_pods_of_kai(
    case: str,
) -> None:
    assert warned(projects("b")[case]) == 0


CASES: dict[str, tuple[Resource, Object, list[str]]] = {
    "a Job": (JOB, controlled(JOB, {QUEUE: "b"}), missing("b")),
    "two queues": (JOB, controlled(JOB, {QUEUE: "b"}, pod({QUEUE: "c"})), missing("b")),
    "one of two": (JOB, controlled(JOB, {QUEUE: "a"}, pod({QUEUE: "c"})), missing("c")),
    "a project with a pool of nodes": (
        POD,
        pod({"project": "a", "kai.scheduler/node-pool": "slow"}),
        missing("a-slow"),
    ),
    "a pool that has a queue": (
        POD,
        pod({"project": "a", "kai.scheduler/node-pool": "fast"}),
        [],
    ),
    "a project of a clique": (
        POD_CLIQUE_SET,
        cliques({"labels": {"project": "c"}}),
        missing("c"),
    ),
    "no queue": (JOB, controlled(JOB), []),
    "an empty name": (JOB, controlled(JOB, {QUEUE: ""}), []),
}


@pytest.mark.parametrize(
    ("scheduler", "texts"),
    [(KAI, missing("b")), ("", missing("b")), ("kueue", []), ("team-scheduler", [])],
)
def test_a_clique_of_another_scheduler_needs_no_queue_of_kai(
    scheduler: str, texts: list[str]
) -> None:
    clique = copy.deepcopy(ways("b")["a PodClique"].obj)
    clique["spec"]["podSpec"]["schedulerName"] = scheduler
    assert KNOWN.said(POD_CLIQUE, clique) == texts
    whole = cliques({"labels": {QUEUE: "b"}}, scheduler=scheduler)
    assert len(warnings_of_set(read_template(whole), ["a"])) == len(texts)


@pytest.mark.parametrize("case", CASES)
def test_what_is_said(case: str) -> None:
    resource, obj, texts = CASES[case]
    assert KNOWN.said(resource, obj) == texts


def test_each_write_is_warned_of_also_if_it_keeps_the_queue() -> None:
    job = controlled(JOB, {QUEUE: "b"})
    assert KNOWN.said(JOB, job, copy.deepcopy(job)) == missing("b")


@pytest.mark.parametrize(
    "parameters",
    [[], [{}], [{"spec": {}}], [{"spec": {"names": {}}}]],
    ids=["no object", "an empty object", "no names", "no Queue"],
)
def test_while_no_queue_is_known_nothing_is_said(parameters: list[Object]) -> None:
    unknown = Policies(OBJECTS, {"QueueNames": parameters})
    assert unknown.said(JOB, controlled(JOB, {QUEUE: "b"})) == []


@pytest.mark.parametrize(
    "user",
    [
        {"username": "system:kube-controller-manager", "groups": []},
        {"username": "x", "groups": ["system:serviceaccounts:kai-scheduler"]},
        {"username": "system:node:n", "groups": ["system:nodes"]},
    ],
    ids=lambda user: str(user["username"]),
)
def test_controllers_that_only_copy_names_are_not_warned(user: Object) -> None:
    assert KNOWN.said(JOB, controlled(JOB, {QUEUE: "b"}), user=user) == []


@pytest.mark.parametrize("mode", ["refuse", "warn"])
def test_they_warn_in_both_modes_and_fail_open(mode: str) -> None:
    objects = queue_policies(Configuration(), "warn" if mode == "warn" else "refuse", KAI)
    ours = [obj["spec"] for obj in objects if obj["metadata"]["name"].startswith("queue-missing-")]
    assert len(ours) == 12
    assert {spec["failurePolicy"] for spec in ours[::2]} == {"Ignore"}
    assert {tuple(spec["validationActions"]) for spec in ours[1::2]} == {("Warn", "Audit")}
    reference = {"name": "grove-admission", "parameterNotFoundAction": "Allow"}
    assert [spec["paramRef"] for spec in ours[1::2]] == [reference] * 6
