"""Which KAI PodGroups there are for Workloads, and what is in them."""

from typing import Any

import pytest

from app.facts.kinds import POD_CLIQUE, POD_CLIQUE_SET, POD_GROUP, WORKLOAD
from app.kube.api import Object, ObjectRef
from app.objects.resource import POD
from tests import builders
from tests.integration.system import eventually, is_gone
from tests.integration.workload.conftest import Play, controlled_by

pytestmark = [pytest.mark.untraced, pytest.mark.usefixtures("served")]


@pytest.mark.statement("W.8", "W.9", "W.10", "W.11")
async def test_the_designs_example(play: Play) -> None:
    """Three Pods, three PodGroups."""
    await play.workload("my-training", {"driver": 1, "workers": 4})
    for group, count, key in (("driver", 1, ""), ("workers", 4, "0"), ("workers", 4, "1")):
        await play.instance("my-training", group, count, key)
    await play.pod("a", "my-training", "driver")
    await play.pod("b", "my-training", "workers", "0")
    await play.pod("c", "my-training", "workers", "1")
    await play.until_told("a", "my-training-driver")
    await play.until_told("b", "my-training-workers-0")
    await play.until_told("c", "my-training-workers-1")
    expected = {"my-training-driver": 1, "my-training-workers-0": 4, "my-training-workers-1": 4}
    assert await play.pod_groups() == expected


@pytest.mark.statement("W.13")
async def test_a_basic_group_is_one_podgroup_with_a_minimum_of_one(play: Play) -> None:
    await play.workload("batch", {"pods": None})
    for key in ("0", "1"):
        await play.instance("batch", "pods", None, key)
        await play.pod(f"p{key}", "batch", "pods", key)
    for key in ("0", "1"):
        await play.until_told(f"p{key}", "batch-pods")
    assert await play.pod_groups() == {"batch-pods": 1}


@pytest.mark.statement("W.25")
async def test_a_pod_whose_workload_comes_later_gets_its_podgroup_when_it_comes(play: Play) -> None:
    await play.pod("early", "late", "workers")
    assert await eventually(play.reasons, lambda reasons: "WorkloadNotFound" in reasons)
    assert (await play.told("early"), await play.pod_groups()) == ((None, "true"), {})
    await play.workload("late", {"workers": 2})
    await play.instance("late", "workers", 2)
    await play.until_told("early", "late-workers")
    assert await play.pod_groups() == {"late-workers": 2}


@pytest.mark.statement("W.26")
async def test_a_group_that_the_workload_does_not_have_is_said(play: Play) -> None:
    await play.workload("known", {"workers": 2})
    await play.pod("lost", "known", "drivers")
    assert await eventually(play.reasons, lambda reasons: "WorkloadNotFound" in reasons)
    assert await play.pod_groups() == {}


async def owned(play: Play, name: str, **metadata: Any) -> list[Object]:
    """Owner references to a PodClique that a PodCliqueSet controls, which is the top owner and has
    `metadata`.
    """
    top = builders.pod_clique_set(name)
    top["metadata"] |= metadata
    top = await play.client.create(POD_CLIQUE_SET, top, play.namespace)
    clique = builders.pod_clique(f"{name}-0-worker", {})
    clique["metadata"] = {"name": f"{name}-0-worker", "ownerReferences": [controlled_by(top)]}
    return [controlled_by(await play.client.create(POD_CLIQUE, clique, play.namespace))]


QUEUE = "kai.scheduler/queue"
PREEMPTIBLE = "kai.scheduler/preemptibility"


@pytest.mark.parametrize(
    ("workload", "owner", "pod", "field", "expected"),
    [
        pytest.param(
            {QUEUE: "w"}, {QUEUE: "o"}, {QUEUE: "p"}, "queue", "w", id="queue: the Workload's"
        ),
        pytest.param(
            {}, {QUEUE: "o"}, {QUEUE: "p"}, "queue", "o", id="queue: else the top owner's"
        ),
        pytest.param({}, {}, {QUEUE: "p"}, "queue", "p", id="queue: else the Pod's"),
        pytest.param({}, {"project": "x"}, {}, "queue", "x", id="queue: else the project"),
        pytest.param(
            {"priorityClassName": "w"},
            {"priorityClassName": "o"},
            {},
            "priorityClassName",
            "w",
            id="priority class: W",
        ),
        pytest.param(
            {},
            {"priorityClassName": "o"},
            {},
            "priorityClassName",
            "o",
            id="priority class: else owner",
        ),
        pytest.param(
            {},
            {},
            {"priorityClassName": "p"},
            "priorityClassName",
            "p",
            id="priority class: else Pod",
        ),
        pytest.param(
            {PREEMPTIBLE: "non-preemptible"},
            {PREEMPTIBLE: "preemptible"},
            {},
            "preemptibility",
            "non-preemptible",
            id="preemptibility: the Workload's",
        ),
        pytest.param(
            {},
            {},
            {PREEMPTIBLE: "preemptible"},
            "preemptibility",
            "preemptible",
            id="preemptibility: Pod",
        ),
        pytest.param(
            {},
            {},
            {PREEMPTIBLE: "perhaps"},
            "preemptibility",
            None,
            id="preemptibility: no such value",
        ),
        pytest.param({}, {}, {}, "queue", "default-queue", id="nobody says"),
    ],
)
@pytest.mark.statement("W.18", "W.19", "W.20")
async def test_scheduling_metadata_comes_from_workload_then_owner_then_pod(
    play: Play, workload: Any, owner: Any, pod: Any, field: str, expected: str | None
) -> None:
    for name in ("w", "o", "p"):
        await play.priority_class(name)
    await play.workload("layered", {"workers": 2}, labels=workload)
    await play.instance("layered", "workers", 2)
    owners = await owned(play, "top", labels=owner)
    await play.pod("p", "layered", "workers", labels=pod, ownerReferences=owners)
    await play.until_told("p", "layered-workers")
    assert (await play.pod_group("layered-workers"))["spec"].get(field) == expected


@pytest.mark.parametrize(
    ("workload", "owner", "expected"),
    [
        pytest.param(
            {"kai.scheduler/topology": "t", "kai.scheduler/topology-required-placement": "rack"},
            {"kai.scheduler/topology-required-placement": "zone"},
            {"topology": "t", "requiredTopologyLevel": "rack"},
            id="the Workload's",
        ),
        pytest.param(
            {},
            {"kai.scheduler/topology-preferred-placement": "zone"},
            {"topology": "grove-topology", "preferredTopologyLevel": "zone"},
            id="else the top owner's, in the managed topology",
        ),
        pytest.param({}, {}, None, id="none"),
    ],
)
@pytest.mark.statement("W.22")
async def test_topology_comes_from_workload_then_owner(
    play: Play, workload: Any, owner: Any, expected: Any
) -> None:
    await play.workload("placed", {"workers": 2}, annotations=workload)
    await play.instance("placed", "workers", 2)
    pod = {"kai.scheduler/topology-required-placement": "never the Pod's"}
    owners = await owned(play, "top", annotations=owner)
    await play.pod("p", "placed", "workers", annotations=pod, ownerReferences=owners)
    await play.until_told("p", "placed-workers")
    assert (await play.pod_group("placed-workers"))["spec"].get("topologyConstraint") == expected


@pytest.mark.statement("W.23", "W.24")
async def test_labels_and_annotations_are_merged_and_the_owner_is_the_top_owner(play: Play) -> None:
    await play.workload(
        "merged", {"workers": 2}, labels={"a": "workload"}, annotations={"x": "workload"}
    )
    await play.instance("merged", "workers", 2)
    owners = await owned(
        play, "top", labels={"a": "owner", "b": "owner"}, annotations={"y": "owner"}
    )
    await play.pod("p", "merged", "workers", ownerReferences=owners)
    await play.until_told("p", "merged-workers")
    metadata = (await play.pod_group("merged-workers"))["metadata"]
    assert metadata["labels"].items() >= {"a": "workload", "b": "owner"}.items()
    assert metadata["annotations"].items() >= {"x": "workload", "y": "owner"}.items()
    assert [(owner["kind"], owner["name"]) for owner in metadata["ownerReferences"]] == [
        ("PodCliqueSet", "top")
    ]


async def test_pods_without_an_owner_have_a_podgroup_that_goes_with_the_last_of_them(
    play: Play,
) -> None:
    await play.workload("bare", {"workers": 2})
    await play.instance("bare", "workers", 2)
    for name in ("p", "q"):
        await play.pod(name, "bare", "workers")
        await play.until_told(name, "bare-workers")
    stored = await play.pod_group("bare-workers")
    assert stored["metadata"].get("ownerReferences", []) == []
    await play.client.delete(ObjectRef(WORKLOAD, "bare", play.namespace))
    await play.delete_pod("p")
    assert (await play.pod_group("bare-workers"))["metadata"]["uid"] == stored["metadata"]["uid"]
    await play.delete_pod("q")
    assert await eventually(lambda: is_gone(play.client, POD_GROUP, "bare-workers", play.namespace))


@pytest.mark.statement("W.44")
async def test_a_queue_that_an_administrator_changes_stays_as_changed(play: Play) -> None:
    await play.workload("moved", {"workers": 2}, labels={QUEUE: "one"})
    await play.instance("moved", "workers", 2)
    await play.pod("p", "moved", "workers")
    await play.until_told("p", "moved-workers")
    await play.client.patch(
        ObjectRef(POD_GROUP, "moved-workers", play.namespace), {"spec": {"queue": "administrator"}}
    )
    await play.client.patch(
        ObjectRef(WORKLOAD, "moved", play.namespace),
        {"metadata": {"labels": {QUEUE: "two", "seen": "1"}}},
    )

    async def label() -> str | None:
        labels: dict[str, str] = (await play.pod_group("moved-workers"))["metadata"]["labels"]
        return labels.get("seen")

    assert await eventually(label) == "1"
    stored = await play.pod_group("moved-workers")
    assert (stored["spec"]["queue"], stored["metadata"]["labels"][QUEUE]) == (
        "administrator",
        "one",
    )
    assert await eventually(play.reasons, lambda reasons: "QueueDiffers" in reasons)


@pytest.mark.statement("W.44")
async def test_a_podgroup_that_was_deleted_is_made_again(play: Play) -> None:
    await play.workload("again", {"workers": 2})
    await play.instance("again", "workers", 2)
    await play.pod("p", "again", "workers")
    await play.until_told("p", "again-workers")
    await play.client.delete(ObjectRef(POD_GROUP, "again-workers", play.namespace))

    async def is_back() -> bool:
        return not await is_gone(play.client, POD_GROUP, "again-workers", play.namespace)

    assert await eventually(is_back)


@pytest.mark.statement("W.42")
async def test_a_name_that_two_groups_would_share_stays_with_the_first(play: Play) -> None:
    if play.dialect != "v1alpha1":
        pytest.skip("names of gangs are those of PodGroups here, which are unique")
    await play.workload("a", {"b-c": 2})
    await play.workload("a-b", {"c": 3})
    await play.pod("first", "a", "b-c")
    await play.until_told("first", "a-b-c")
    await play.pod("second", "a-b", "c")
    assert await eventually(play.reasons, lambda reasons: "PodGroupNameTaken" in reasons)
    assert (await play.told("second"), await play.pod_groups()) == ((None, "true"), {"a-b-c": 2})


async def test_a_podgroup_of_somebody_else_is_not_taken_over(play: Play) -> None:
    theirs = {"metadata": {"name": "taken-workers"}, "spec": {"minMember": 9}}
    await play.client.create(POD_GROUP, theirs, play.namespace)
    await play.workload("taken", {"workers": 2})
    await play.instance("taken", "workers", 2)
    await play.pod("p", "taken", "workers")
    assert await eventually(play.reasons, lambda reasons: "PodGroupNameTaken" in reasons)
    assert (await play.told("p"), await play.pod_groups()) == ((None, "true"), {"taken-workers": 9})


@pytest.mark.statement("W.37")
async def test_who_opts_out_is_left_to_kai(play: Play) -> None:
    out = {"kai.scheduler/ignore-workload-api": "true"}
    await play.workload("out", {"workers": 2})
    await play.instance("out", "workers", 2)
    await play.pod("by-itself", "out", "workers", annotations=out)
    await play.pod(
        "by-its-owner", "out", "workers", ownerReferences=await owned(play, "top", annotations=out)
    )
    await play.pod("in", "out", "workers")
    await play.until_told("in", "out-workers")
    assert [await play.told(name) for name in ("by-itself", "by-its-owner")] == [(None, None)] * 2


async def test_an_annotation_that_flips_is_said_and_not_fought(play: Play) -> None:
    await play.workload("flip", {"workers": 2})
    await play.instance("flip", "workers", 2)
    await play.pod("p", "flip", "workers")
    await play.until_told("p", "flip-workers")
    flipped = {"metadata": {"annotations": {"pod-group-name": "theirs"}}}
    await play.client.patch(ObjectRef(POD, "p", play.namespace), flipped)
    await play.until_told("p", "flip-workers")
    await play.client.patch(ObjectRef(POD, "p", play.namespace), flipped)
    assert await eventually(play.reasons, lambda reasons: "PodGroupNameContested" in reasons)
    assert await play.told("p") == ("theirs", "true")


@pytest.mark.statement("W.41")
async def test_pods_of_another_scheduler_are_not_ours(play: Play) -> None:
    await play.workload("other", {"workers": 1})
    await play.instance("other", "workers", 1)
    await play.pod("p", "other", "workers")
    await play.until_told("p", "other-workers")
    stored = await play.client.get(ObjectRef(POD, "p", play.namespace))
    spec = {**stored["spec"], "schedulerName": "default-scheduler"}
    keep = {
        key: spec[key]
        for key in ("schedulerName", "containers", "workloadRef", "schedulingGroup")
        if key in spec
    }
    await play.client.create(POD, {"metadata": {"name": "q"}, "spec": keep}, play.namespace)
    await play.pod("r", "other", "workers")
    await play.until_told("r", "other-workers")
    assert await play.told("q") == (None, None)
