"""Forty questions of users and platform teams, asked by an assistant about the fleet of the demo.

The assistant is the SDK's own client, the server is the program, and the cluster is the sandbox or
a real API server.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
import yaml

from app.commands.records import facts_in
from app.kube.api import Object
from tests.console.objects import objects
from tests.integration.mcp_client import mcp_client
from tests.integration.stage import staged

ROOT = Path(__file__).parents[2]
LABEL = "kubectl label node gpu-c-15 topology.kubernetes.io/rack=rack-c4"


def ids(answered: Object) -> list[str]:
    return [reason["id"] for reason in answered["reasons"]]


def helps(answered: Object) -> list[str]:
    return [command for reason in answered["reasons"] for command in reason["commands"]]


def fate(answered: Object, group: str, name: str) -> Any:
    """What becomes of a workload: `fits`, `starts` or another word, and where."""
    (row,) = [row for row in answered[group] if row["workload"]["name"] == name]
    return row["how"], row["where"]


def users(answered: Object) -> list[tuple[str, int]]:
    return [(user["workload"]["name"], user["gpus"]) for user in answered["users"]]


def queue(answered: Object, name: str) -> Any:
    (row,) = [row for row in answered["queues"] if row["name"] == name]
    return row


def free(answered: Object) -> dict[str, int]:
    return {"/".join(domain["path"]): domain["free"] for domain in answered["domains"]}


def verdicts(answered: Object) -> list[Any]:
    return [(result["allowed"], result.get("message", "")) for result in answered["results"]]


def a_set(level: str, pods: int, gpus: int) -> str:
    amounts = {"limits": {"nvidia.com/gpu": gpus}, "requests": {"nvidia.com/gpu": gpus}}
    container = {"name": "main", "image": "registry.example/train:1", "resources": amounts}
    clique = {"roleName": "w", "replicas": pods, "minAvailable": pods}
    clique["podSpec"] = {"schedulerName": "kai-scheduler", "containers": [container]}
    template = {
        "topologyConstraint": {"packDomain": level},
        "cliques": [{"name": "w", "spec": clique}],
    }
    labels = {"kai.scheduler/queue": "team-llm"}
    return yaml.safe_dump(
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": "train", "namespace": "inference", "labels": labels},
            "spec": {"replicas": 1, "template": template},
        }
    )


class Question(NamedTuple):
    """What somebody asks, the call that an assistant makes for it, and what the answer has to say."""

    asked: str
    tool: str
    given: dict[str, Any]
    look: Callable[[Object], Any]
    expected: Any
    is_error: bool = False


WHY_LLM = ("LevelLabelMissing", "NoDomainFits", "WithinQuota")
OF_LLM = {"workload": "llm-serve", "namespace": "inference"}

QUESTIONS = (
    Question("why does llm-serve wait?", "why", OF_LLM, ids, [*WHY_LLM]),
    Question("how do I fix it?", "why", OF_LLM, helps, [LABEL]),
    Question(
        "which pods are pending, and why, in one line?",
        "waiting",
        {},
        lambda found: (
            found["totals"],
            [row["object"]["name"] for row in found["workloads"]],
        ),
        (
            {
                "workloads": 4,
                "states": {"well": 3, "waits": 1},
                "reasons": {"LevelLabelMissing": 1},
                "otherPendingPods": 0,
            },
            ["llm-serve"],
        ),
    ),
    Question(
        "what can be done about the first pending workload, and by whom?",
        "waiting",
        {"namespace": "inference"},
        lambda found: [
            found["workloads"][0]["reason"][key] for key in ("who", "remedy", "commands")
        ],
        ["platform", "Label the node", [LABEL]],
    ),
    Question(
        "is anything pending in research?",
        "waiting",
        {"namespace": "research"},
        lambda found: found["totals"]["states"].get("waits", 0),
        0,
    ),
    Question(
        "would the label help?",
        "what_if",
        {"edits": ["label gpu-c-15 rack=rack-c4"]},
        lambda found: fate(found, "waits", "llm-serve"),
        ("starts", ["zone-c/block-c2/rack-c4"]),
    ),
    Question(
        "can I drain rack-a1?",
        "what_if",
        {"edits": ["drain rack=rack-a1"]},
        lambda found: (fate(found, "moves", "chat-70b")[0], found["worse"]),
        ("fits", []),
    ),
    Question(
        "can I drain rack-a1? (without the level)",
        "what_if",
        {"edits": ["drain rack-a1"]},
        lambda found: found["problems"],
        ["--if there is no node 'rack-a1'; did you mean rack=rack-a1?"],
        is_error=True,
    ),
    Question(
        "can I drain node gpu-a-01? (in kubectl's words)",
        "what_if",
        {"edits": ["drain node gpu-a-01"]},
        lambda found: found["problems"],
        ["--if there is no node 'node': write only the names of nodes"],
        is_error=True,
    ),
    Question(
        "do four more nodes in rack-a1 help?",
        "what_if",
        {"edits": ["add 4 like gpu-a-01"]},
        lambda found: fate(found, "waits", "llm-serve"),
        ("starts", ["zone-a/block-a1/rack-a1"]),
    ),
    Question(
        "who holds the GPUs of queue team-llm?",
        "queues",
        {},
        lambda found: users(queue(found, "team-llm")),
        [("chat-70b", 24), ("embed", 16)],
    ),
    Question(
        "how much of its quota does team-llm use?",
        "queues",
        {},
        lambda found: [queue(found, "team-llm")[name] for name in ("quota", "used", "waiting")],
        [256, 40, 1],
    ),
    Question(
        "who uses rack-a1?",
        "topology",
        {"domain": "rack=rack-a1"},
        lambda found: (users(found), free(found)),
        ([("chat-70b", 24)], {"zone-a/block-a1/rack-a1": 8}),
    ),
    Question(
        "what is free, by zone?",
        "topology",
        {},
        free,
        {"zone-a": 72, "zone-b": 72, "zone-c": 88, "zone-d": 80},
    ),
    Question(
        "are the labels of our nodes a tree?",
        "topology",
        {},
        lambda found: (ids(found), found["outside"]),
        (["LevelLabelMissing"], ["gpu-c-15"]),
    ),
    Question(
        "does a job of 4 pods with 8 GPUs fit in one rack, or else in a block?",
        "room",
        {"pods": 4, "gpus": 8, "level": "rack"},
        lambda found: (found["room"]["fits"], found["room"]["wider"]["level"]),
        (False, "block"),
    ),
    Question(
        "will this file be accepted? (a level that does not exist)",
        "check",
        {"documents": a_set("rak", 2, 8)},
        lambda found: [
            (allowed, '"rak"' in message, "rack" in message) for allowed, message in verdicts(found)
        ],
        [(False, True, True)],
    ),
    Question(
        "will this file be accepted? (it fits in a rack)",
        "check",
        {"documents": a_set("rack", 3, 8)},
        lambda found: found["allowed"],
        True,
    ),
    Question(
        "why does llm-srve wait? (a typo)",
        "why",
        {"workload": "llm-srve", "namespace": "inference"},
        lambda found: found["problems"],
        ["PodCliqueSet llm-srve not found in namespace inference", "did you mean llm-serve?"],
        is_error=True,
    ),
    Question(
        "why does llm-serve wait? (in the wrong namespace)",
        "why",
        {"workload": "llm-serve", "namespace": "research"},
        lambda found: found["problems"][-1],
        "the name exists in namespace inference: add -n inference",
        is_error=True,
    ),
    Question(
        "is embed placed as it asked?",
        "why",
        {"workload": "embed", "namespace": "inference"},
        lambda found: (found["state"], ids(found)),
        ("well", []),
    ),
    Question(
        "why is this pod pending?",
        "why",
        {"workload": "pod/llm-serve-0-worker-0", "namespace": "inference"},
        lambda found: (ids(found), helps(found)),
        ([*WHY_LLM], [LABEL]),
    ),
    Question(
        "why is this PodGang pending?",
        "why",
        {"workload": "podgang/llm-serve-0", "namespace": "inference"},
        ids,
        [*WHY_LLM],
    ),
    Question(
        "is batch-eval well? (a PodGroup without a PodCliqueSet)",
        "why",
        {"workload": "podgroup/batch-eval", "namespace": "research"},
        lambda found: (found["state"], ids(found)),
        ("well", []),
    ),
    Question(
        "why does vllm wait? (of a kind that it is not)",
        "why",
        {"workload": "lws/vllm", "namespace": "inference"},
        lambda found: found["problems"][0],
        "LeaderWorkerSet vllm not found in namespace inference",
        is_error=True,
    ),
    Question(
        "who holds the GPUs of queue research?",
        "queues",
        {},
        lambda found: users(queue(found, "research")),
        [("batch-eval", 144)],
    ),
    Question(
        "is research above its quota or its fair share?",
        "queues",
        {},
        lambda found: [queue(found, "research")[name] for name in ("quota", "used", "fair")],
        [256, 144, 144],
    ),
    Question(
        "who is first in queue team-llm, and what happens to it next?",
        "queues",
        {},
        lambda found: [
            (gang["object"]["name"], gang["next"]) for gang in queue(found, "team-llm")["front"]
        ],
        [("llm-serve-0", "waits")],
    ),
    Question(
        "what if I uncordon gpu-d-03? (which is no edit)",
        "what_if",
        {"edits": ["uncordon gpu-d-03"]},
        lambda found: "is not an edit. Valid edits: drain NODE" in found["problems"][0],
        True,
        is_error=True,
    ),
    Question(
        "can I drain block-a1?",
        "what_if",
        {"edits": ["drain block=block-a1"]},
        lambda found: (
            [fate(found, "moves", name)[0] for name in ("chat-70b", "batch-eval")],
            found["worse"],
        ),
        (["fits", "fits"], []),
    ),
    Question(
        "what if only zone-d is left?",
        "what_if",
        {"edits": ["drain zone=zone-a", "drain zone=zone-b", "drain zone=zone-c"]},
        lambda found: {move["workload"]["name"]: move["how"] for move in found["moves"]},
        {"chat-70b": "fits", "embed": "fits", "batch-eval": "shrinks"},
    ),
    Question(
        "does the label help if gpu-c-13 is cordoned?",
        "what_if",
        {"edits": ["cordon gpu-c-13", "label gpu-c-15 rack=rack-c4"]},
        lambda found: fate(found, "waits", "llm-serve"),
        ("waits", []),
    ),
    Question(
        "do 3 pods of 8 GPUs fit in one rack?",
        "room",
        {"pods": 3, "gpus": 8, "level": "rack"},
        lambda found: found["room"]["fits"],
        True,
    ),
    Question(
        "does a pod of 9 GPUs fit anywhere?",
        "room",
        {"pods": 1, "gpus": 9, "level": "host"},
        lambda found: (found["room"]["fits"], found["room"]["largestNode"]),
        (False, 8),
    ),
    Question(
        "which zones take 10 pods of 8 GPUs?",
        "room",
        {"pods": 10, "gpus": 8, "level": "zone"},
        lambda found: {domain["path"][0]: domain["pods"] for domain in found["room"]["domains"]},
        {"zone-a": 9, "zone-b": 9, "zone-c": 10, "zone-d": 10},
    ),
    Question(
        "does it fit in one rak? (a typo)",
        "room",
        {"pods": 4, "gpus": 8, "level": "rak"},
        lambda found: found["problems"],
        ["--in rak: no such level; the levels are zone, block, rack and host"],
        is_error=True,
    ),
    Question(
        "is rack-c4 free?",
        "topology",
        {"domain": "rack=rack-c4"},
        lambda found: (users(found), free(found)),
        ([], {"zone-c/block-c2/rack-c4": 24}),
    ),
    Question(
        "who uses zone-z? (which does not exist)",
        "topology",
        {"domain": "zone=zone-z"},
        lambda found: found["problems"],
        ["'zone=zone-z': no node has topology.kubernetes.io/zone=zone-z"],
        is_error=True,
    ),
    Question(
        "will this file be accepted? (a queue that does not exist)",
        "check",
        {"documents": a_set("rack", 3, 8).replace("team-llm", "team-ml")},
        lambda found: [
            (each["allowed"], 'queue "team-ml" does not exist' in each["warnings"][0])
            for each in found["results"]
        ],
        [(True, True)],
    ),
    Question(
        "will this PodGroup be accepted?",
        "check",
        {"documents": (ROOT / "manifests/examples/podgroup-refused.yaml").read_text()},
        lambda found: [
            (each["allowed"], [cause["field"] for cause in each["causes"]])
            for each in found["results"]
        ],
        [(False, ["spec.subGroups[0].name", "spec.subGroups[1].parent"])],
    ),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def answers(kind: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Object]:
    """The answers to all questions, which one client asks one after the other."""
    folder = tmp_path_factory.mktemp("assistant")
    file = folder / "fleet.json"
    items = [obj for listed in objects().values() for obj in listed]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    async with staged(folder, "design", [], kind) as (api, stage):
        await stage.show(facts_in([str(file)]))
        async with mcp_client("--kubeconfig", str(api.kubeconfig), "--context", "admin") as (
            _,
            call,
        ):
            return {each.asked: await call(each.tool, **each.given) for each in QUESTIONS}


@pytest.mark.slow
@pytest.mark.untraced
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("question", QUESTIONS, ids=[each.asked for each in QUESTIONS])
async def test_an_assistant_gets_the_answer(question: Question, answers: dict[str, Object]) -> None:
    answered = answers[question.asked]
    assert answered["isError"] is question.is_error
    assert question.look(answered) == question.expected
