"""The queue guard, as the doctor sees it."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from app.config.schema import Configuration
from app.doctor.policies import check_policies, check_queue_guard
from app.doctor.report import Check
from app.facts.kinds import QUEUE, QUEUE_NAMES
from app.objects.resource import CLUSTER_ROLE, Resource
from app.webhooks.policies import Mode, queue_policies
from tests.doctor.answering import AnsweringClient
from tests.kube.memory.client import EVERYTHING

Object = dict[str, Any]
Change = Callable[[list[Object]], object]

CONFIGURATION = Configuration()
REFUSES = Check(
    "ok", "the queue guard rejects writes that name a queue which the writer may not use"
)
WARNS = Check(
    "ok", "the queue guard warns about writes that name a queue which the writer may not use"
)
PODS = "queue-guard-pods.grove-admission.grove.io"
FORMER = "queue-guard-former.grove-admission.grove.io"


def stored(mode: Mode = "refuse", namespace: str = "kai-scheduler") -> list[Object]:
    """The objects as an API server stores them: without empty lists."""
    objects = copy.deepcopy(queue_policies(CONFIGURATION, mode, namespace))
    for obj in objects:
        obj["spec"] = {key: value for key, value in obj["spec"].items() if value != []}
    return objects


SERVED = {**EVERYTHING, QUEUE_NAMES: "v1"}


async def checks(objects: list[Object], *missing: Resource) -> list[Check]:
    """What is said of a cluster with the Queue `a`, which is known to the policies.

    It does not serve what is `missing`.
    """
    client = AnsweringClient([*objects, queue("a"), names("a")], served=SERVED)
    for resource in missing:
        del client.served[resource]
    return await check_queue_guard(client, CONFIGURATION)


def queue(name: str) -> Object:
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}}


def names(*queues: str) -> Object:
    return {
        "apiVersion": "grove-admission.grove.io/v1",
        "kind": "QueueNames",
        "metadata": {"name": "grove-admission"},
        "spec": {"names": dict.fromkeys(queues, "")},
    }


KNOWN = Check("ok", "the policies know all Queues (1) and warn about other names")


def warning(message: str, mode: str = "refuse", namespace: str = "kai-scheduler") -> Check:
    remedy = f"Print the queue guard with the configuration of the server (grove-admission policies --queues {mode} --kai-namespace {namespace} --config FILE), and apply it with --prune, as in manifests/guide/queue-guard.md."
    return Check("warning", message, remedy)


ASSIGNER = "resource-management/assigner"


def bound(verbs: list[str], *subjects: str, group: str = "scheduling.run.ai") -> list[Object]:
    """A ClusterRole about PodGroups, and its binding to service accounts."""
    api = "rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": [group], "resources": ["podgroups"], "verbs": verbs}
    accounts = (subject.split("/") for subject in subjects)
    return [
        {"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [rule]},
        {
            "apiVersion": api,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [
                {"kind": "ServiceAccount", "namespace": namespace, "name": name}
                for namespace, name in accounts
            ],
        },
    ]


ASKED: dict[str, tuple[list[Object], bool]] = {
    "an assigner with its own namespace": (bound(["patch"], ASSIGNER), True),
    "it may do everything": (bound(["*"], ASSIGNER), True),
    "it only reads": (bound(["get", "list"], ASSIGNER), False),
    "groups of others": (bound(["update"], ASSIGNER, group="scheduling.volcano.sh"), False),
    "KAI itself": (bound(["update"], "kai-scheduler/podgrouper"), False),
    "our leader": (bound(["update"], "grove-system/grove-admission"), False),
    "nobody": (bound(["update"]), False),
}


@pytest.mark.parametrize("case", ASKED)
async def test_who_writes_pod_groups_and_is_asked_is_named(case: str) -> None:
    objects, is_asked = ASKED[case]
    said = "these service accounts may write PodGroups of KAI: resource-management/assigner. They are not exempt from the queue guard, which rejects their writes to queues that they may not use"
    again = warning("").remedy.replace(
        "--kai-namespace kai-scheduler",
        "--kai-namespace kai-scheduler --kai-namespace resource-management",
    )
    remedy = f"If an account only copies queue names, like that of KAI Resource Management, exempt its namespace. {again}"
    found = await checks([*stored(), *objects])
    assert [check for check in found if check.status == "warning"] == (
        [Check("warning", said, remedy)] if is_asked else []
    )


async def test_a_namespace_that_passes_is_kept() -> None:
    guard = queue_policies(CONFIGURATION, "refuse", "kai-scheduler", "resource-management")
    objects = [*guard, *bound(["patch"], ASSIGNER)]
    assert await checks(objects) == [REFUSES, KNOWN]


async def test_without_the_right_to_read_roles_the_rest_is_said() -> None:
    assert await checks([*stored(), *bound(["patch"], ASSIGNER)], CLUSTER_ROLE) == [REFUSES, KNOWN]


async def test_without_the_guard_nothing_is_said() -> None:
    assert await checks([], QUEUE_NAMES) == []


async def test_a_crd_that_was_left_behind_is_said() -> None:
    message = "CRD queuenames.grove-admission.grove.io is left over: no policy that reads its objects is installed"
    remedy = "Run: kubectl delete crd queuenames.grove-admission.grove.io"
    assert await checks([]) == [Check("warning", message, remedy)]


async def test_without_the_crd_nobody_is_warned() -> None:
    message = "CRD queuenames.grove-admission.grove.io is not installed: no policy warns about missing queues"
    remedy = "Run: kubectl apply -f manifests/overlays/queue-guard/queuenames.yaml"
    expected = Check("warning", message, remedy)
    assert await checks(stored(), QUEUE_NAMES) == [REFUSES, expected]


async def test_without_kai_there_are_no_names() -> None:
    assert await checks(stored(), QUEUE) == [REFUSES]


OUT_OF_STEP: dict[str, tuple[list[Object], str]] = {
    "there is no object": ([queue("a")], "1 Queue: a"),
    "a new Queue": (
        [queue("a"), queue("b"), names("a")],
        "1 Queue: b",
    ),
    "a former Queue": ([names("a")], "1 Queue: a"),
    "many": (
        [*(queue(f"q{number}") for number in range(7)), names()],
        "7 Queues: q0, q1, q2, q3, q4 and 2 more",
    ),
}


@pytest.mark.parametrize("case", OUT_OF_STEP)
async def test_names_that_are_not_in_step_are_a_warning(case: str) -> None:
    objects, difference = OUT_OF_STEP[case]
    client = AnsweringClient([*stored(), *objects], served=SERVED)
    message = f"QueueNames grove-admission, which policies use to warn about missing queues, is wrong about {difference}"
    remedy = "Find out why the leader has not updated QueueNames grove-admission within seconds: kubectl -n grove-system logs --selector app.kubernetes.io/name=grove-admission --tail=-1 --prefix"
    assert await check_queue_guard(client, CONFIGURATION) == [
        REFUSES,
        Check("warning", message, remedy),
    ]


@pytest.mark.untraced
async def test_more_queues_than_an_object_can_have_are_said() -> None:
    queues = [queue(f"{number:05}" + "q" * 245) for number in range(6000)]
    client = AnsweringClient([*stored(), *queues, names()], served=SERVED)
    message = "6000 Queues are too many for one object: no policy warns about missing queues"
    assert await check_queue_guard(client, CONFIGURATION) == [
        REFUSES,
        Check("ok", message),
    ]


async def test_its_mode_is_said_in_whichever_namespace_kai_is() -> None:
    assert await checks(stored()) == [REFUSES, KNOWN]
    assert await checks(stored("warn", "scheduling")) == [WARNS, KNOWN]


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
        f"policies that are left over from another version or configuration: {FORMER}",
    ),
    "one is missing": (without_pods, f"policies that are not installed or have no binding: {PODS}"),
    "another rule": (
        another_rule,
        f"policies that differ from those of this version and configuration: {PODS}",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
async def test_a_difference_is_a_warning(case: str) -> None:
    change, message = MISTAKES[case]
    objects = stored(namespace="scheduling")
    change(objects)
    assert await checks(objects) == [REFUSES, warning(message, namespace="scheduling"), KNOWN]


async def test_the_rules_of_webhooks_are_another_matter() -> None:
    (check,) = await check_policies(AnsweringClient(stored()), CONFIGURATION)
    assert check.message.startswith("no policy has the rules of the webhooks")
