"""Workloads that are not Grove's: asked for by their own names, and in the list if they wait.

Tests `app/explain/answers/pending.py`, `app/explain/output/waiting_text.py` and
`app/explain/output/names.py`.
"""

from typing import Any

import pytest

from app.commands.explain import KINDS, names_of
from app.console.listing import WaitingList
from app.explain.answers.answer import Answer, explain
from app.explain.answers.pending import WorkloadRow, rows, waiting_alone, workloads
from app.explain.output.text import text
from app.explain.output.waiting_text import exit_code, list_text
from app.explain.state.index import Index
from app.explain.state.read import facts_of
from app.facts.identity import Ref
from tests.explain.fleet import NAMESPACE, facts
from tests.explain.table.recorded import whole
from tests.explain.table.words import NO_QUOTA, kueue
from tests.kube.memory.client import MemoryClient
from tests.said import Said

NOW = 1_800_000_000.0
Object = dict[str, Any]

LWS = {"leaderworkerset.sigs.k8s.io/name": "w"}
JOBSET = {"jobset.sigs.k8s.io/jobset-name": "w", "batch.kubernetes.io/job-name": "w-a-0"}
RAY = {"ray.io/cluster": "w"}
MPI = {
    "training.kubeflow.org/operator-name": "mpi-operator",
    "training.kubeflow.org/job-name": "w",
}
OF_RAY_JOB = {
    "ray.io/cluster": "w-x",
    "ray.io/originated-from-crd": "RayJob",
    "ray.io/originated-from-cr-name": "w",
}


def pod(
    name: str,
    labels: dict[str, str] | None = None,
    *,
    controller: str = "",
    node: str = "",
    gpus: int = 1,
    phase: str = "Pending",
    annotations: dict[str, str] | None = None,
    scheduler: str = "default-scheduler",
    **spec: Any,
) -> Object:
    """A pod. `controller` is KIND/NAME."""
    kind, _, owner = controller.partition("/")
    owners = [{"apiVersion": "x/v1", "kind": kind, "name": owner, "uid": owner, "controller": True}]
    amounts = {"nvidia.com/gpu": gpus} if gpus else {"cpu": 1}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "labels": labels or {},
            "annotations": annotations or {},
            "ownerReferences": owners if kind else [],
            "creationTimestamp": "2027-01-15T07:00:00Z",
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "c", "resources": {"limits": amounts}}],
            **({"nodeName": node} if node else {}),
            **spec,
        },
        "status": {"phase": phase},
    }


def group(name: str) -> Object:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "creationTimestamp": "2027-01-15T07:00:00Z",
        },
        "spec": {"minMember": 1, "queue": "q"},
    }


def index_of(*objects: Object) -> Index:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n0"},
        "status": {"allocatable": {"nvidia.com/gpu": "8", "cpu": "8", "pods": "9"}},
    }
    return Index(facts_of([node, *objects], NOW))


NAMED: list[Any] = [
    pytest.param(
        "deploy/w",
        [pod("a", controller="ReplicaSet/w-6d9")],
        1,
        id="a Deployment whose pods lost their label",
    ),
    pytest.param(
        "deploy/w-app",
        [pod("a", controller="ReplicaSet/w-app")],
        1,
        id="a ReplicaSet whose name does not end with a hash",
    ),
    pytest.param("lws/w", [pod("a", LWS, controller="StatefulSet/w")], 1, id="a LeaderWorkerSet"),
    pytest.param("sts/w", [pod("a", LWS, controller="StatefulSet/w")], 1, id="a StatefulSet"),
    pytest.param("jobset/w", [pod("a", JOBSET), pod("b", JOBSET)], 2, id="a JobSet"),
    pytest.param("job/w-a-0", [pod("a", JOBSET)], 1, id="a Job of a JobSet"),
    pytest.param("raycluster/w", [pod("a", RAY)], 1, id="a RayCluster"),
    pytest.param("rayjob/w", [pod("a", OF_RAY_JOB)], 1, id="a RayJob"),
    pytest.param(
        "mpijob/w",
        [pod("a", MPI, controller="Job/w-launcher"), pod("b", MPI, controller="MPIJob/w")],
        2,
        id="an MPIJob with its launcher, which a Job owns",
    ),
    pytest.param("pytorchjob/w", [pod("a", controller="PyTorchJob/w")], 1, id="a PyTorchJob"),
    pytest.param(
        "deploy/w",
        [pod("a", {"pod-template-hash": "6d9"}, controller="ReplicaSet/w-6d9")],
        1,
        id="a Deployment",
    ),
    pytest.param(
        "job/w",
        [pod("a", controller="Job/w"), pod("old", controller="Job/w", phase="Failed")],
        1,
        id="a pod that has failed is not counted beside another one",
    ),
    pytest.param("lws/w", [pod("a", {**LWS, "x": "y"}), pod("b", RAY)], 1, id="pods of others"),
]


@pytest.mark.parametrize(
    ("kind", "is_wrong"),
    [("StatefulSet", True), ("RayCluster", False), ("Job", True), ("ReplicaSet", False)],
)
def test_only_a_minimum_that_nobody_chose_is_called_one_that_split_a_gang(
    kind: str, is_wrong: bool, said: Said
) -> None:
    """A RayCluster has minReplicas, and replicas of a Deployment need no others.

    KAI's pod-grouper gives the others the minimum 1.
    """
    pods = [
        pod(
            f"w-{number}",
            RAY if kind == "RayCluster" else {},
            controller=f"{kind}/w",
            node="n0" if number == 0 else "",
            phase="Running" if number == 0 else "Pending",
            annotations={"pod-group-name": "pg"},
            scheduler="kai-scheduler",
        )
        for number in range(3)
    ]
    answer = explain(index_of(*pods, group("pg")), Ref("PodGroup", "ns", "pg"))
    assert answer
    said(whole(answer))
    [note] = [reason for reason in answer.reasons if reason.id == "GangSplit"]
    assert ("as soon as its minimum fits" in note.text) is is_wrong
    assert note.remedy.startswith("Do nothing if the workload is elastic") is not is_wrong
    assert note.severity == "note"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        pytest.param(
            "pg-w-uid-of-w",
            'set the annotation kai.scheduler/batch-min-member: "3" on Deployment w',
            id="KAI's pod-grouper made the PodGroup, as from 0.18 on",
        ),
        pytest.param("own", "set minMember: 3 in PodGroup own", id="somebody else made it"),
    ],
)
def test_who_sets_the_minimum_of_a_deployment(name: str, remedy: str, said: Said) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "uid": "uid-of-w"}
    grouped = group(name)
    grouped["metadata"]["ownerReferences"] = [owner]
    pods = [
        pod(
            f"w-6d5f-{number}",
            {"pod-template-hash": "6d5f"},
            controller="ReplicaSet/w-6d5f",
            node="n0" if number == 0 else "",
            phase="Running" if number == 0 else "Pending",
            annotations={"pod-group-name": name},
            scheduler="kai-scheduler",
        )
        for number in range(3)
    ]
    answer = explain(index_of(*pods, grouped), Ref("PodGroup", "ns", name))
    assert answer
    said(whole(answer))
    [note] = [reason for reason in answer.reasons if reason.id == "GangSplit"]
    assert f"Do nothing if the workload is elastic. Otherwise, {remedy}" in note.remedy


def asked(index: Index, text: str) -> Answer | None:
    kind, _, name = text.partition("/")
    return explain(index, Ref(KINDS[kind], "ns", name))


@pytest.mark.parametrize(("name", "pods", "total"), NAMED)
def test_a_workload_is_found_by_its_name(name: str, pods: list[Object], total: int) -> None:
    found = asked(index_of(*pods), name)
    assert found is not None
    assert (found.state, found.placed, found.total) == ("waits", 0, total)


@pytest.mark.parametrize("name", ["lws/none", "jobset/w-a-0", "deploy/w-6d9", "sts/w"])
def test_another_name_is_not_found(name: str) -> None:
    assert asked(index_of(pod("a", JOBSET), pod("b", LWS)), name) is None


def test_each_kind_has_the_name_of_kubectl() -> None:
    assert {KINDS[name] for name in ("lws", "sts", "deploy", "jobsets", "jobs", "rayclusters")} == {
        "LeaderWorkerSet",
        "StatefulSet",
        "Deployment",
        "JobSet",
        "Job",
        "RayCluster",
    }


def listed(index: Index, *namespaces: str) -> list[WorkloadRow]:
    refs = [*workloads(index, namespaces), *waiting_alone(index, namespaces)]
    return rows(index, refs)


LISTED: list[Any] = [
    pytest.param([pod("a", LWS), pod("b", LWS)], ["LeaderWorkerSet w"], id="one row for a set"),
    pytest.param([pod("a", JOBSET)], ["JobSet w"], id="the outermost workload"),
    pytest.param([pod("a")], ["Pod a"], id="a pod of nobody"),
    pytest.param([pod("a", gpus=0)], [], id="a pod without GPUs"),
    pytest.param([pod("a", node="n0", phase="Running")], [], id="a pod that runs"),
    pytest.param([pod("a", phase="Failed")], [], id="a pod that has ended"),
    pytest.param([pod("a", scheduler="volcano")], ["Pod a"], id="a pod of another scheduler"),
    pytest.param(
        [pod("a", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])],
        ["Pod a"],
        id="a pod with a gate",
    ),
    pytest.param(
        [pod("a", gpus=0, resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])],
        ["Pod a"],
        id="a pod whose GPUs are a claim",
    ),
    pytest.param(
        [group("g"), pod("a", LWS, annotations={"pod-group-name": "g"})],
        ["PodGroup g"],
        id="a pod in a PodGroup has the row of the PodGroup",
    ),
    pytest.param(
        [pod("a", LWS, annotations={"pod-group-name": "gone"})],
        ["LeaderWorkerSet w"],
        id="a PodGroup that is not there",
    ),
]


@pytest.mark.parametrize(("objects", "expected"), LISTED)
def test_what_waits_with_gpus_is_in_the_list(objects: list[Object], expected: list[str]) -> None:
    index = index_of(*objects)
    found = listed(index)
    assert [str(row.ref) for row in found] == expected
    assert all(row.state == "waits" and row.since is not None for row in found)
    assert [row.ref for row in listed(index, "other")] == []


def test_a_workload_is_not_as_old_as_a_podgroup_of_the_same_name() -> None:
    older = group("w")
    older["metadata"]["creationTimestamp"] = "2027-01-01T07:00:00Z"
    [row] = listed(index_of(pod("a", LWS), older))
    assert row.since == NOW - 3600


def test_pods_that_do_not_start_on_their_node_are_in_the_list() -> None:
    index = index_of(pod("a", LWS, node="n0"), pod("b", LWS, node="n0"))
    [row] = found = listed(index)
    assert (str(row.ref), row.state, row.placed) == ("LeaderWorkerSet w", "problem", 2)
    shown = list_text(found, index.facts, "", everything=False, width=0)
    assert "no workload is pending in any namespace; 1 of 1 workload has problems" in shown
    assert exit_code(found, index.facts) == 1


def test_something_that_waits_is_never_called_nothing() -> None:
    index = index_of(pod("a", LWS), pod("b", LWS))
    found = listed(index)
    shown = list_text(found, index.facts, "", everything=False, width=0)
    assert "no workload" not in shown
    assert "lws/w" in shown
    assert "0/2" in shown
    assert exit_code(found, index.facts) in (1, 2)


def test_the_console_lists_them_too() -> None:
    index = index_of(pod("a", LWS), pod("b", LWS), pod("c"))
    kept = WaitingList(clock=lambda: 0.0)
    kept.follow(index)
    kept.follow(index)
    assert [str(row.ref) for row in kept.rows] == ["LeaderWorkerSet w", "Pod c"]


async def test_names_for_a_shell_are_those_of_the_kind() -> None:
    sets = [
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": name, "namespace": namespace},
        }
        for name, namespace in (("b", "ns"), ("a", "ns"), ("c", "other"))
    ]
    client = MemoryClient(sets)
    assert await names_of(client, "pcs", "ns") == ["a", "b"]
    assert await names_of(client, "nothing", "ns") == []


def test_kinds_that_are_not_among_the_files_are_named() -> None:
    found = asked(index_of(group("g"), pod("a", LWS)), "lws/w")
    assert found is not None
    shown = text(found, everything=False, colour=False, width=0)
    assert "missing from the files: " in shown
    assert "KAI's Topologies" in shown
    assert "because that needs all nodes and pods" not in shown


def test_files_without_nodes_lack_them() -> None:
    found = asked(Index(facts_of([pod("a", LWS)], NOW)), "lws/w")
    assert found is not None
    shown = text(found, everything=False, colour=False, width=0)
    assert "missing from the files: " in shown
    assert " nodes" in shown
    assert "because that needs all nodes and pods" not in shown


def test_the_list_says_that_kinds_are_not_among_the_files() -> None:
    of_group = {"pod-group-name": "g"}
    index = index_of(group("g"), pod("a", LWS, annotations=of_group, scheduler="kai-scheduler"))
    assert [row.reason for row in listed(index)] == [
        "not known: the files lack some kinds of objects"
    ]


def test_pods_that_are_placed_one_by_one_are_in_the_tree() -> None:
    pods = [pod("w-0", LWS, node="n0", phase="Running"), pod("w-0-1", LWS), pod("w-0-2", LWS)]
    found = asked(index_of(*pods), "lws/w")
    assert found is not None
    tree = text(found, everything=False, colour=False, width=0)
    assert "├─ Pod …-0 " in tree
    assert "├─ Pod …-0-1 " in tree
    assert "└─ 1 more like it" in tree


def test_a_set_that_kueue_holds_has_a_row_with_what_kueue_says() -> None:
    index = Index(facts(**kueue(NO_QUOTA)))
    (row,) = listed(index, NAMESPACE)
    assert (str(row.ref), row.state, row.id) == ("PodCliqueSet llm", "waits", "KueueHolds")
