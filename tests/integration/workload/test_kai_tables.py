"""KAI's integration and end-to-end tests of its design for Workloads, row by row, with the same
outcome.

They are those of `pkg/podgrouper/integration_tests/workload_integration_test.go` and
`test/e2e/suites/workload/workload_specs.go` in
https://github.com/kai-scheduler/KAI-Scheduler/tree/6d95dfda, which were written for Kubernetes
1.35. The unit tests are in `tests/rules/workload/test_kai_tables.py`.
"""

from typing import Any

import pytest

from app.facts.kinds import POD_CLIQUE, POD_CLIQUE_SET, WORKLOAD
from app.kube.api import ObjectRef
from tests import builders
from tests.integration.system import eventually
from tests.integration.workload.conftest import Play, controlled_by

pytestmark = [pytest.mark.untraced, pytest.mark.usefixtures("served")]

Groups = dict[str, int | None]
QUEUE = "kai.scheduler/queue"


@pytest.mark.parametrize(
    ("groups", "labels", "pods", "pod_groups"),
    [
        pytest.param(
            {"workers": 3},
            {},
            [("worker-0", "workers", "0")],
            {"w-workers-0": (3, "default-queue")},
            id="creates a KAI PodGroup with MinMember=gang.minCount for a Gang-policy Workload",
        ),
        pytest.param(
            {"replicas": None},
            {},
            [(f"p-{key}", "replicas", key) for key in ("a", "b", "c")],
            {"w-replicas": (1, "default-queue")},
            id="collapses all replica keys into one KAI PodGroup for a Basic-policy Workload",
        ),
        pytest.param(
            {"g": 1},
            {QUEUE: "ml-training"},
            [("qpod", "g", "")],
            {"w-g": (1, "ml-training")},
            id="propagates a kai.scheduler/queue label from the Workload onto the KAI PodGroup",
        ),
        pytest.param(
            {"driver": 1, "workers": 4},
            {},
            [("driver-0", "driver", ""), ("worker-0", "workers", "0")],
            {"w-driver": (1, "default-queue"), "w-workers-0": (4, "default-queue")},
            id="creates one independent KAI PodGroup per podGroup in the same Workload",
        ),
        pytest.param(
            {"workers": 2},
            {},
            [("p-0", "workers", "0"), ("p-1", "workers", "1")],
            {"w-workers-0": (2, "default-queue"), "w-workers-1": (2, "default-queue")},
            id="creates separate KAI PodGroups per Gang replicaKey",
        ),
        pytest.param(
            {"g": 3},
            {},
            [(name, "g", "0") for name in ("a", "b", "c")],
            {"w-g-0": (3, "default-queue")},
            id="converges multiple pods sharing the same workloadRef into one PodGroup",
        ),
    ],
)
@pytest.mark.statement("W.5", "W.7", "W.17", "W.39")
async def test_the_podgroups_of_a_workload(
    play: Play, groups: Groups, labels: Any, pods: list[tuple[str, str, str]], pod_groups: Any
) -> None:
    await play.workload("w", groups, labels=labels)
    for group, key in {(group, key) for _, group, key in pods}:
        await play.instance("w", group, groups[group], key)
    for name, group, key in pods:
        await play.pod(name, "w", group, key)
    for name, group, key in pods:
        replica = "" if groups[group] is None else key
        await play.until_told(name, "-".join(filter(None, ("w", group, replica))))
    stored = await play.stored_pod_groups()
    assert {
        name: (made["spec"]["minMember"], made["spec"]["queue"]) for name, made in stored.items()
    } == pod_groups
    assert all(not made["spec"].get("subGroups") for made in stored.values())


async def test_does_not_propagate_workload_queue_label_changes_to_the_existing_podgroup(
    play: Play,
) -> None:
    await play.ready_pod("frozen", labels={QUEUE: "ml-training"})
    changed = {"metadata": {"labels": {QUEUE: "ml-batch", "priorityClassName": "train"}}}
    await play.priority_class("train")
    await play.client.patch(ObjectRef(WORKLOAD, "frozen", play.namespace), changed)
    assert await play.until_spec("frozen-g", "priorityClassName", "train") == "train"
    assert (await play.pod_group("frozen-g"))["spec"]["queue"] == "ml-training"


async def test_propagates_workload_label_mutations_to_the_existing_podgroup(play: Play) -> None:
    for name in ("build", "train"):
        await play.priority_class(name)
    await play.ready_pod("mutating", labels={"priorityClassName": "build"})
    assert await play.until_spec("mutating-g", "priorityClassName", "build") == "build"
    changed = {"metadata": {"labels": {"priorityClassName": "train"}}}
    await play.client.patch(ObjectRef(WORKLOAD, "mutating", play.namespace), changed)
    assert await play.until_spec("mutating-g", "priorityClassName", "train") == "train"


@pytest.mark.statement("W.43")
async def test_preserves_the_existing_podgroup_when_the_workload_is_deleted(play: Play) -> None:
    await play.ready_pod("tombstone")
    uid = (await play.pod_group("tombstone-g"))["metadata"]["uid"]
    await play.client.delete(ObjectRef(WORKLOAD, "tombstone", play.namespace))
    await play.pod("late", "tombstone", "g")
    assert await eventually(play.reasons, lambda reasons: "WorkloadNotFound" in reasons)
    assert await play.told("late") == (None, "true")
    assert (await play.pod_group("tombstone-g"))["metadata"]["uid"] == uid


@pytest.mark.statement("W.30")
async def test_honors_the_ignore_workload_api_annotation_on_the_pod(play: Play) -> None:
    """What KAI makes for such a Pod is KAI's own: here the Pod is left alone."""
    await play.pod(
        "optout", "ignored", "g", annotations={"kai.scheduler/ignore-workload-api": "true"}
    )
    await play.ready_pod("ignored", count=5)
    assert await play.told("optout") == (None, None)


@pytest.mark.statement("W.28")
async def test_recovers_instantly_when_a_previously_missing_workload_appears(play: Play) -> None:
    await play.pod("early", "late", "workers")
    assert await eventually(play.reasons, lambda reasons: "WorkloadNotFound" in reasons)
    assert await play.stored_pod_groups() == {}
    await play.workload("late", {"workers": 1})
    await play.instance("late", "workers", 1)
    await play.until_told("early", "late-workers")
    assert (await play.pod_group("late-workers"))["spec"]["minMember"] == 1


@pytest.mark.statement("W.14", "W.38")
async def test_lets_the_workload_override_an_owning_controllers_grouping_decision(
    play: Play,
) -> None:
    """And `layers a Workload override on top of a real top-owner controller`: there it is a Job
    that says how many of its Pods are a gang, here a PodCliqueSet with the same annotation; only
    the kind differs.
    """
    await play.priority_class("inference")
    top = builders.pod_clique_set("bigjob")
    top["metadata"] |= {
        "annotations": {"kai.scheduler/batch-min-member": "4"},
        "labels": {"owner": "1"},
    }
    top = await play.client.create(POD_CLIQUE_SET, top, play.namespace)
    clique = builders.pod_clique("bigjob-0-worker", {})
    clique["metadata"] = {"name": "bigjob-0-worker", "ownerReferences": [controlled_by(top)]}
    owner = [controlled_by(await play.client.create(POD_CLIQUE, clique, play.namespace))]
    await play.workload("smallwl", {"g": 1}, labels={QUEUE: "override"})
    await play.instance("smallwl", "g", 1)
    for name in ("p0", "p1", "p2", "p3"):
        await play.pod(name, "smallwl", "g", ownerReferences=owner, labels={QUEUE: "base"})
    for name in ("p0", "p1", "p2", "p3"):
        await play.until_told(name, "smallwl-g")
    (made,) = (await play.stored_pod_groups()).values()
    assert (made["spec"]["minMember"], made["spec"]["queue"], made["spec"].get("subGroups")) == (
        1,
        "override",
        None,
    )
    owners = [
        (reference["kind"], reference["name"]) for reference in made["metadata"]["ownerReferences"]
    ]
    assert (owners, made["metadata"]["labels"]["owner"]) == ([("PodCliqueSet", "bigjob")], "1")
    changed = {"metadata": {"labels": {"priorityClassName": "inference"}}}
    await play.client.patch(ObjectRef(WORKLOAD, "smallwl", play.namespace), changed)
    assert await play.until_spec("smallwl-g", "priorityClassName", "inference") == "inference"
