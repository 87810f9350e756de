"""What becomes of gangs, as people and programs get it.

Tests `app/explain/answers/whatif/effects.py` and `app/explain/answers/whatif/gangs_to_place.py`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from app.cli import main
from app.explain.answers.pending import rows, workloads
from app.explain.answers.whatif.edited_snapshot import apply_edits
from app.explain.answers.whatif.edits import parse
from app.explain.answers.whatif.effects import effects
from app.explain.answers.whatif.gangs_to_place import MOST_ALONE
from app.explain.output.whatif_text import effects_document, effects_text
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue
from app.facts.kubernetes.claim import Consumer, Device, DeviceClass, ResourceClaim, ResourceSlice
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import PodClaim, Shape
from tests.commands.test_explain import written
from tests.explain.fleet import (
    GPU,
    facts,
    fill,
    occupant,
    pcs,
    placed,
    pod_group,
)
from tests.explain.objects import objects_of, pod_clique_set
from tests.explain.table.queue_order import rival

ROUTER_AND_WORKERS = ("gpu-08", "gpu-08", "gpu-09", "gpu-10")
RUNNING = {"pods": placed(*ROUTER_AND_WORKERS)}
FULL = {"pods": (*facts().pods, *fill("rack-a1", "rack-a2", "rack-b1", "rack-b2"))}
OTHER = "default-scheduler"
LIMITED = (Queue("root"), Queue("team-llm", "root", limit=8_000))

Case = tuple[dict[str, Any], Sequence[str], list[str], int]
CASES: dict[str, Case] = {
    "a drained rack is left for another": (
        RUNNING,
        ["drain rack=rack-b1"],
        [
            "if: drain rack=rack-b1: 4 nodes, 4 pods must leave",
            "1 gang must move:",
            "inference/llm-0  4 pods  fits again in zone-a/rack-a1",
        ],
        0,
    ),
    "a drained node is left for one of the same rack": (
        RUNNING,
        ["drain gpu-10"],
        [
            "if: drain gpu-10: 1 node, 1 pod must leave",
            "1 gang must move:",
            "inference/llm-0  1 pod  fits again in zone-b/rack-b1",
        ],
        0,
    ),
    "all of a gang goes if its rack has no room for one pod": (
        {"pods": (*placed(*ROUTER_AND_WORKERS), occupant("gpu-11"))},
        ["drain gpu-10"],
        [
            "if: drain gpu-10: 1 node, 1 pod must leave",
            "1 gang must move:",
            "inference/llm-0  4 pods  fits again, but the whole gang restarts in zone-b/rack-b2",
        ],
        0,
    ),
    "a gang breaks if no rack has room": (
        {"pods": (*placed(*ROUTER_AND_WORKERS), *fill("rack-a1", "rack-a2", "rack-b2"))},
        ["drain rack=rack-b1"],
        [
            "if: drain rack=rack-b1: 4 nodes, 4 pods must leave",
            "1 gang must move:",
            "! inference/llm-0  4 pods  breaks: not all of its pods fit: No rack has room for any of 3 pods of 8 GPUs (NoDomainFits)",
        ],
        1,
    ),
    "new nodes start what waits": (
        FULL,
        ["add 3 like gpu-08"],
        [
            "if: add 3 like gpu-08: gpu-08-like-1, gpu-08-like-2 and gpu-08-like-3",
            "1 pending gang would fit:",
            "inference/llm-0  4 pods  would start in zone-b/rack-b1",
        ],
        0,
    ),
    "of what waits, the last in KAI's line loses its place": (
        {**rival(60, rack=False), "nodes": facts().nodes[8:14]},
        ["drain gpu-12 gpu-13"],
        [
            "if: drain gpu-12 gpu-13: 2 nodes, 0 pods must leave",
            "1 workload would be worse:",
            "! inference/rival  The gang would fit by itself, but not after the gangs ahead of it: llm-0 takes zone-b/rack-b1 (AfterOthers)",
            "1 gang would stay pending for lack of room",
        ],
        1,
    ),
    "what was pending waits for something else beside new nodes, which is not worse": (
        {
            **rival(60, rack=False),
            "pods": (*rival(60, rack=False)["pods"], *fill("rack-a1", "rack-a2", "rack-b1")),
            "nodes": facts().nodes[:12],
        },
        ["add 4 like gpu-08"],
        [
            "if: add 4 like gpu-08: gpu-08-like-1, gpu-08-like-2, gpu-08-like-3 and gpu-08-like-4",
            "1 pending gang would fit:",
            "inference/llm-0  4 pods  would start in zone-b/rack-b1",
            "1 gang would stay pending for lack of room",
        ],
        0,
    ),
    "too few new nodes start nothing": (
        FULL,
        ["add 2 like gpu-08"],
        [
            "if: add 2 like gpu-08: gpu-08-like-1 and gpu-08-like-2",
            "1 gang would stay pending for lack of room",
            "no gang must move, none breaks, and no pending gang would fit",
        ],
        0,
    ),
    "a place does not help against the limit of the queue": (
        {**FULL, "queues": LIMITED, "pod_groups": (pod_group(),)},
        ["add 3 like gpu-08"],
        [
            "if: add 3 like gpu-08: gpu-08-like-1, gpu-08-like-2 and gpu-08-like-3",
            "1 pending gang would fit:",
            "inference/llm-0  4 pods  would fit in zone-b/rack-b1, but stays pending: Queue team-llm: limit 8 GPUs, 0 used, 24 requested (QueueLimit)",
        ],
        0,
    ),
    "what has a place already gets none": (
        {},
        ["add 1 like gpu-00"],
        [
            "if: add 1 like gpu-00: gpu-00-like-1",
            "no gang must move, none breaks, and no pending gang would fit",
        ],
        0,
    ),
    "a label tears a gang apart": (
        RUNNING,
        ["label gpu-10 rack=rack-b2"],
        [
            "if: label gpu-10: example.com/rack=rack-b2",
            "1 workload would be worse:",
            "! inference/llm  replica llm-0-pool-0 must stay in one rack, but its 3 pods are in 2 racks (zone-b/rack-b1 and zone-b/rack-b2) (RequiredViolated)",
        ],
        1,
    ),
    "a gang that waits loses its place": (
        {},
        ["drain zone=zone-a", "drain rack=rack-b1", "drain gpu-12 gpu-13"],
        [
            "if: drain zone=zone-a: 8 nodes, 0 pods must leave",
            "if: drain rack=rack-b1: 4 nodes, 0 pods must leave",
            "if: drain gpu-12 gpu-13: 2 nodes, 0 pods must leave",
            "1 workload would be worse:",
        ],
        1,
    ),
    "a label that makes no tree": (
        {"pods": ()},
        ["label gpu-00 zone=zone-b"],
        ["if: label gpu-00: topology.kubernetes.io/zone=zone-b"],
        0,
    ),
    "pods without a gang and devices are only counted": (
        {"pods": (occupant("gpu-00", gpus=0, group="", scheduler=OTHER),)},
        ["drain gpu-00"],
        [
            "if: drain gpu-00: 1 node, 1 pod must leave",
            "1 pod without a gang must move too (not examined)",
        ],
        0,
    ),
    "pods that KAI creates for other pods are not moved": (
        {
            "pods": (
                *FULL["pods"],
                occupant("gpu-00", 1, gpus=1, group="", reserves=True),
                occupant("", gpus=1, group="", scales_for=("research", "a")),
            )
        },
        ["add 1 like gpu-00"],
        [
            "if: add 1 like gpu-00: gpu-00-like-1",
            "1 gang would stay pending for lack of room",
            "no gang must move, none breaks, and no pending gang would fit",
        ],
        0,
    ),
    "a pod without a gang that has a GPU moves": (
        {"pods": (occupant("gpu-00", gpus=4, group="", scheduler=OTHER),)},
        ["drain gpu-00"],
        [
            "if: drain gpu-00: 1 node, 1 pod must leave",
            "1 gang must move:",
            "research/pod/batch-gpu-00-0  1 pod  fits again in zone-a/rack-a1",
        ],
        0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_effects(name: str) -> None:
    changes, edits, expected, code = CASES[name]
    result = effects(Index(facts(**changes)), [parse(edit) for edit in edits])
    lines = [line.strip() for line in effects_text(result, everything=False).splitlines()]
    assert lines[: len(expected)] == expected
    assert result.exit_code == code


def test_a_gang_with_claims_takes_its_devices_along() -> None:
    """Its GPUs are devices of claims: they are free where it leaves, and needed where it goes."""
    names = ("gpu-00", "gpu-01", "gpu-02")
    driver = "gpu.nvidia.com"
    slices = tuple(ResourceSlice(driver, name, 1, name, ("d0", "d1")) for name in names)
    bare = {
        name: replace(node, allocatable={"pods": 110_000}) for name, node in nodes_called(names)
    }
    pods = tuple(
        occupant(
            name,
            group=f"job-{name}",
            shape=Shape((("pods", 1000),)),
            claims=(PodClaim("gpus", f"claim-{name}"),),
        )
        for name in names[:2]
    )
    claims = tuple(
        ResourceClaim(
            pod.namespace,
            f"claim-{pod.node}",
            (driver, driver),
            True,
            tuple(Device(driver, pod.node, name) for name in ("d0", "d1")),
            consumers=(Consumer(pod.name),),
        )
        for pod in pods
    )
    snapshot = facts(
        nodes=tuple(bare.values()),
        slices=slices,
        claims=claims,
        device_classes=(DeviceClass(driver, driver),),
        pods=pods,
        pod_groups=tuple(KaiPodGroup(pod.namespace, pod.group, minimum=1) for pod in pods),
        **dict.fromkeys(("sets", "gangs", "cliques"), ()),
    )
    single = effects(Index(snapshot), [parse("drain gpu-00")])
    assert [(fate.how, fate.where) for fate in single.moves] == [("fits", ("zone-a/rack-a1",))]
    both = effects(Index(snapshot), [parse("drain gpu-00 gpu-01")])
    assert [fate.how for fate in both.moves] == ["fits", "breaks"]


@pytest.mark.untraced
def test_of_very_many_pods_without_a_gang_the_first_are_looked_at() -> None:
    """The answer says so, and doesn't promise that nothing breaks."""
    many = tuple(
        occupant("gpu-00", number, gpus=0, group="", scheduler=OTHER, shape=Shape(((GPU, 1),)))
        for number in range(MOST_ALONE + 7)
    )
    result = effects(Index(facts(pods=many)), [parse("drain gpu-00")])
    assert (len(result.moves), result.others, result.cut) == (MOST_ALONE, 0, (7, 0))
    assert result.exit_code == 1
    assert effects_document(result)["podsCut"] == {"moving": 7, "waiting": 0}
    assert (
        "! 7 more pods without a gang must move too, and may not fit: only the first 500, by priority and age, were examined. The other pods may take room that is listed here as free"
        in effects_text(result, everything=False).splitlines()
    )


@pytest.mark.untraced
def test_of_very_many_pods_that_wait_the_first_are_looked_at() -> None:
    many = tuple(
        replace(
            occupant("", number, gpus=0, group="", scheduler=OTHER, shape=Shape(((GPU, 1),))),
            phase="Pending",
        )
        for number in range(MOST_ALONE + 3)
    )
    result = effects(
        Index(facts(pods=many, sets=(), gangs=(), cliques=())), [parse("drain gpu-00")]
    )
    assert (len(result.waits), result.cut, result.exit_code) == (MOST_ALONE, (0, 3), 0)
    assert (
        "3 more pending pods without a gang may or may not fit: only the first 500, by priority and age, were examined"
        in effects_text(result, everything=False).splitlines()
    )


def nodes_called(names: Sequence[str]) -> list[tuple[str, Node]]:
    return [(node.name, node) for node in facts().nodes if node.name in names]


def set_of(gpus: int, replicas: int, name: str = "new") -> dict[str, Any]:
    """A document of a set whose replicas go into one rack each."""
    document = pod_clique_set(replace(pcs(), name=name, replicas=replicas, groups=()))
    container = {"name": "main", "image": "registry.example/main:1"}
    container["resources"] = {"requests": {GPU: str(gpus)}}  # type: ignore[assignment]
    template = document["spec"]["template"]
    template["topologyConstraint"] = {"packDomain": "rack"}
    template["cliques"] = [
        {
            "name": "worker",
            "spec": {"replicas": 4, "minAvailable": 4, "podSpec": {"containers": [container]}},
        }
    ]
    return document


def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: Snapshot, *arguments: str
) -> tuple[int, str, str]:
    code = main(["topology", "--offline", str(written(tmp_path, snapshot)), *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.mark.untraced
def test_of_a_set_that_is_in_a_file_twice_the_last_one_is_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "apply.yaml"
    path.write_text(f"---\n{json.dumps(set_of(8, 3))}\n---\n{json.dumps(set_of(8, 1))}\n")
    _, out, _ = run(tmp_path, capsys, facts(**RUNNING), "--if", str(path))
    lines = [line.strip() for line in out.splitlines()]
    assert lines[1:3] == [
        "1 pending gang would fit:",
        "inference/new-0  4 pods  would start in zone-b/rack-b2",
    ]


def test_a_set_in_a_file_is_planned_as_grove_would_make_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "apply.yaml"
    path.write_text(json.dumps(set_of(8, 3)))
    code, out, _ = run(tmp_path, capsys, facts(**RUNNING), "--if", str(path))
    lines = [line.strip() for line in out.splitlines()]
    assert lines[:5] == [
        f"if: apply {path}: 1 PodCliqueSet",
        "3 pending gangs would fit:",
        "inference/new-0  4 pods  would start in zone-b/rack-b2",
        "inference/new-1  4 pods  would start in zone-a/rack-a1",
        "inference/new-2  4 pods  would start in zone-a/rack-a2",
    ]
    assert code == 0
    path.write_text(json.dumps(set_of(8, 4)))
    code, out, _ = run(tmp_path, capsys, facts(**RUNNING), "--if", str(path), "-o", "json")
    document = json.loads(out)
    assert code == 1
    assert [fate["how"] for fate in document["waits"]] == ["starts", "starts", "starts", "waits"]
    assert document["waits"][3]["reasons"] == []
    _, out, _ = run(tmp_path, capsys, facts(**RUNNING), "--if", str(path))
    lines = [line.strip() for line in out.splitlines()]
    assert lines[1] == "3 pending gangs would fit:"
    assert lines[5:7] == [
        "1 gang of an applied PodCliqueSet would stay pending:",
        "inference/new-3  4 pods  would stay pending, because gangs ahead of it take the room",
    ]


def test_a_set_that_exists_is_made_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "apply.json"
    path.write_text(json.dumps(set_of(8, 4, "llm")))
    code, out, _ = run(tmp_path, capsys, facts(**RUNNING), "--if", str(path), "-o", "json")
    document = json.loads(out)
    assert (code, {fate["how"] for fate in document["waits"]}) == (0, {"starts"})
    assert document["moves"] == []


def test_room_is_that_after_the_edits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = facts(**FULL)
    room = ("--room", "2x8", "--in", "rack")
    assert run(tmp_path, capsys, snapshot, "--if", "add 1 like gpu-00", *room)[0] == 1
    code, out, _ = run(
        tmp_path, capsys, snapshot, "--if", "add 2 like gpu-00", *room, "rack=rack-a1"
    )
    assert code == 0
    assert "room for 2 pods of 8 GPUs in one rack: 1 of 4 racks; zone-a/rack-a1" in out
    assert "gpu-00-like-2" in out


BAD = {
    "an edit that is not clear": ["--if", "drian x"],
    "a node that is not there": ["--if", "drain gpu-99"],
    "a file that is not there": ["--if", "missing.yaml"],
    "levels beside it": ["--if", "drain gpu-00", "--levels", "LEVELS"],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    levels = tmp_path / "levels.json"
    topology = next(o for o in objects_of(facts()) if o["kind"] == "ClusterTopology")
    levels.write_text(json.dumps(topology))
    arguments = [str(levels) if word == "LEVELS" else word for word in BAD[name]]
    code, out, problem = run(tmp_path, capsys, facts(), *arguments)
    assert (code, out, problem.count("\n")) == (2, "", 1)


def test_without_nodes_and_pods_nothing_is_claimed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "only.json"
    objects = [obj for obj in objects_of(facts()) if obj["kind"] == "Node"]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    code = main(["topology", "--offline", str(path), "--if", "drain gpu-00"])
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert "Cannot tell the effects: pods are missing from the files." in printed.err


@pytest.mark.parametrize("edit", ["drain rack=rack-b1", "label gpu-00 rack=rack-z"])
def test_the_index_has_the_facts_after_the_edits_and_all_that_follows_from_them(edit: str) -> None:
    """Also where it had to look back, because a workload has problems."""
    snapshot = facts(**FULL)
    index = Index(snapshot)
    effects(index, [parse(edit)])
    new = Index(apply_edits(Index(snapshot), [parse(edit)]).facts)
    assert index.facts.nodes == new.facts.nodes != snapshot.nodes
    assert index.nodes == new.nodes
    assert index.free_gpus == new.free_gpus
    assert rows(index, workloads(index, "")) == rows(new, workloads(new, ""))


def test_of_a_gang_without_a_place_a_drained_rack_is_no_new_trouble() -> None:
    """It fits into no rack before and after. What differs is which rack would have room for it."""
    index = Index(facts(**FULL))
    found = effects(index, [parse("drain rack=rack-b2")])
    waiting = {fate.workload.name: [reason.id for reason in fate.reasons] for fate in found.waits}
    assert "NodesUnfit" in waiting["llm"]
    assert found.worse == ()
