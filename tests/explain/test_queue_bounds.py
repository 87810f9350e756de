"""Limits and quotas of CPUs and memory: what the real KAI scheduler (d5bc503a) did with two pods of
2 CPUs and 4 GiB each in the queue `team` below `root`, and what explain says before.
"""

from typing import Any

import pytest

from app.explain.answers.answer import explain
from app.explain.state.index import Index
from app.explain.state.read import facts_of
from app.facts.identity import Ref

Object = dict[str, Any]
FREE: Object = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def limit(**bounds: int) -> Object:
    return {name: {**FREE, "limit": value} for name, value in bounds.items()}


def quota(**bounds: int) -> Object:
    return {name: {**FREE, "quota": value} for name, value in bounds.items()}


CASES: dict[str, tuple[Object, Object, str, str]] = {
    "a limit that the pods reach": (limit(cpu=4000), {}, "train", ""),
    "a limit below that": (limit(cpu=3999), {}, "train", "QueueLimit"),
    "no CPU at all": (limit(cpu=0), {}, "train", "QueueLimit"),
    "memory is in megabytes": (limit(memory=8590), {}, "train", ""),
    "a megabyte less": (limit(memory=8589), {}, "train", "QueueLimit"),
    "the limit of CPUs of the queue above": ({}, limit(cpu=3000), "train", "QueueLimit"),
    "the limit of memory of the queue above": ({}, limit(memory=8000), "train", "QueueLimit"),
    "a quota, and a preemptible gang": (quota(cpu=3000), {}, "train", ""),
    "a quota, and one that is not": (quota(cpu=3000), {}, "inference", "QueueQuota"),
    "a quota that such a gang reaches": (quota(cpu=4000), {}, "inference", ""),
    "a quota of memory": (quota(memory=8000), {}, "inference", "QueueQuota"),
    "a quota of memory that is enough": (quota(memory=9000), {}, "inference", ""),
}
"""Bounds of `team` and of `root`, the gang's PriorityClass, and the reason for which KAI refused it,
"" if it placed both pods.
"""


@pytest.mark.parametrize(("priority", "is_told"), [("inference", True), ("train", False)])
def test_a_message_about_a_quota_is_outdated_once_the_gang_is_preemptible(
    priority: str, is_told: bool
) -> None:
    node, group, *others = cluster({}, {}, priority)
    node["status"]["allocatable"]["cpu"] = "1"
    said = {"reason": "NonPreemptibleOverQuota", "message": "over quota"}
    condition = {"type": "UnschedulableOnNodePool", "status": "True", "reasons": [said]}
    group["status"] = {"schedulingConditions": [condition]}
    answer = explain(
        Index(facts_of([node, group, *others], 0.0)), Ref("PodGroup", "default", "one")
    )
    assert answer is not None
    assert any(reason.id == "QueueQuota" for reason in answer.reasons) is is_told


@pytest.mark.parametrize(
    ("placed", "texts"),
    [
        pytest.param(
            0,
            ["The minimum of the workload is not preemptible"],
            id="its minimum is bound to the quota",
        ),
        pytest.param(2, [], id="pods beyond it are not"),
    ],
)
def test_a_semi_preemptible_gang(placed: int, texts: list[str]) -> None:
    """As KAI's design says: no release that was tried has it."""
    objects = cluster(quota(cpu=3000), {}, "train")
    objects[1]["spec"]["preemptibility"] = "semi-preemptible"
    pods = [pod(number) for number in range(3)]
    for made in pods[:placed]:
        made["spec"]["nodeName"] = "n0"
    objects = [obj for obj in objects if obj["kind"] != "Pod"]
    facts = facts_of([*objects, *pods], 0.0)
    answer = explain(Index(facts), Ref("PodGroup", "default", "one"))
    assert answer is not None
    found = [reason for reason in answer.reasons if reason.id != "GangSplit"]  # only a note
    assert [reason.text.partition(", so it")[0] for reason in found] == texts


def queue(name: str, parent: str, bounds: Object) -> Object:
    resources = {"cpu": FREE, "gpu": FREE, "memory": FREE, **bounds}
    spec = {"resources": resources, **({"parentQueue": parent} if parent else {})}
    metadata = {"name": name}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": metadata,
        "spec": spec,
    }


def priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def pod(number: int) -> Object:
    resources = {"requests": {"cpu": "2", "memory": "4Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"one-{number}",
            "namespace": "default",
            "uid": f"uid-{number}",
            "annotations": {"pod-group-name": "one"},
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "c", "resources": resources}],
        },
    }


def cluster(team: Object, root: Object, priority: str) -> list[Object]:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n0"},
        "status": {
            "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"minMember": 2, "queue": "team", "priorityClassName": priority},
    }
    classes = [priority_class("train", 50), priority_class("inference", 125)]
    queues = [queue("root", "", root), queue("team", "root", team)]
    return [node, group, pod(0), pod(1), *classes, *queues]


@pytest.mark.parametrize("name", CASES)
def test_explain_names_the_bound_for_which_kai_refuses_a_gang(name: str) -> None:
    team, root, priority, refused_for = CASES[name]
    answer = explain(
        Index(facts_of(cluster(team, root, priority), 0.0)), Ref("PodGroup", "default", "one")
    )
    assert answer is not None
    assert [reason.id for reason in answer.reasons] == ([refused_for] if refused_for else [])


@pytest.mark.parametrize(
    ("bounds", "priority", "words", "patch"),
    [
        pytest.param(
            {"cpu": {"quota": 8, "limit": 16}},
            "train",
            "Ask the platform team whether 16 CPUs were meant: the limit of cpu in queue team must then be 16000",
            '{"cpu":{"limit":16000,"quota":8000}}',
            id="a limit in CPUs",
        ),
        pytest.param(
            {"memory": {"quota": -1, "limit": 64}},
            "train",
            "Ask the platform team whether 64 GB were meant: the limit of memory in queue team must then be 64000",
            '{"memory":{"limit":64000}}',
            id="a limit in gigabytes",
        ),
        pytest.param(
            {"cpu": {"quota": 4, "limit": -1}},
            "inference",
            "Ask the platform team whether 4 CPUs were meant: the quota of cpu in queue team must then be 4000",
            '{"cpu":{"quota":4000}}',
            id="a quota in CPUs",
        ),
        pytest.param(
            {"cpu": {"quota": -1, "limit": 3000}},
            "train",
            "Request at most 3 CPUs, or ask for a higher limit on queue team",
            "",
            id="a limit in millicores",
        ),
    ],
)
def test_a_bound_that_was_meant_in_cpus_or_gigabytes(
    bounds: Object, priority: str, words: str, patch: str
) -> None:
    team = {name: {**FREE, **bound} for name, bound in bounds.items()}
    facts = facts_of(cluster(team, {}, priority), 0.0)
    answer = explain(Index(facts), Ref("PodGroup", "default", "one"))
    assert answer is not None
    [reason] = answer.reasons
    assert reason.remedy == words
    assert [patch] * bool(patch) == [
        command.partition('"resources":')[2].removesuffix("}}'") for command in reason.commands
    ]
