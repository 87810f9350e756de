"""The KAI PodGroup of a group: every field's source, and the difference to a stored one."""

from dataclasses import replace
from typing import Any

import pytest

from app.rules.workload.groups import Group, Layer
from app.rules.workload.kai_podgroup import (
    COPIED,
    WORKLOAD_GROUP,
    Conventions,
    LabelKeys,
    desired_pod_group,
    difference,
    is_of_group,
    owners_to_write,
)

NOTHING = Layer({}, {})
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u1"}


def desired(group: Group, owner: Layer = NOTHING, pod: Layer = NOTHING, **conventions: Any) -> Any:
    return desired_pod_group(group, owner, pod, OWNER, Conventions(topology="grove-topology", **conventions))


def test_a_podgroup_whole() -> None:
    group = Group("w", "g", 4, Layer({"kai.scheduler/queue": "q"}, {"x": "w"}), "0", "", "high", "rack")
    owner = Layer({"team": "t"}, {"x": "o", "kai.scheduler/topology-preferred-placement": "host"})
    pod = Layer({"user": "eve", "pod-template-hash": "1"}, {"user": "eve@example.com", "y": "p"})
    assert desired(group, owner, pod) == {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": "w-g-0",
            "labels": {
                "team": "t",
                "kai.scheduler/queue": "q",
                "user": "eve",
                "app.kubernetes.io/managed-by": "grove-admission",
            },
            "annotations": {
                "x": "w",
                "user": "eve@example.com",
                "kai.scheduler/topology-preferred-placement": "host",
                "grove.io/workload-group": "w/g/0",
                "grove.io/copied-metadata": "labels/kai.scheduler/queue,labels/team,labels/user,"
                "annotations/kai.scheduler/topology-preferred-placement,annotations/user,annotations/x",
            },
            "ownerReferences": [OWNER],
        },
        "spec": {
            "minMember": 4,
            "queue": "q",
            "priorityClassName": "high",
            "topologyConstraint": {
                "topology": "grove-topology",
                "requiredTopologyLevel": "rack",
                "preferredTopologyLevel": "host",
            },
        },
    }


QUEUE, PREEMPTIBILITY, POOL = "kai.scheduler/queue", "kai.scheduler/preemptibility", "kai.scheduler/node-pool"


@pytest.mark.parametrize(
    ("workload", "owner", "pod", "field", "value"),
    [
        pytest.param({QUEUE: "w"}, {QUEUE: "o"}, {QUEUE: "p"}, "queue", "w", id="queue: the Workload's"),
        pytest.param({}, {QUEUE: "o"}, {QUEUE: "p"}, "queue", "o", id="queue: else the top owner's"),
        pytest.param({}, {}, {QUEUE: "p"}, "queue", "p", id="queue: else the Pod's"),
        pytest.param({"project": "x"}, {}, {QUEUE: "p"}, "queue", "p", id="queue: anybody's before any project"),
        pytest.param({}, {"project": "x"}, {}, "queue", "x", id="queue: else the project"),
        pytest.param({}, {"project": "x"}, {POOL: "a100"}, "queue", "x-a100", id="queue: of the project's node pool"),
        pytest.param({}, {}, {POOL: "a100"}, "queue", "default-queue", id="queue: nobody says"),
        pytest.param({"priorityClassName": "w"}, {}, {"spec": "s"}, "priorityClassName", "w", id="priority: Workload"),
        pytest.param({}, {"priorityClassName": "o"}, {"spec": "s"}, "priorityClassName", "o", id="priority: owner"),
        pytest.param({}, {}, {"priorityClassName": "p"}, "priorityClassName", "p", id="priority: else the Pod's label"),
        pytest.param({}, {}, {"spec": "s"}, "priorityClassName", "s", id="priority: else the Pod's spec"),
        pytest.param({}, {}, {}, "priorityClassName", None, id="priority: nobody says"),
        pytest.param(
            {PREEMPTIBILITY: "preemptible"},
            {PREEMPTIBILITY: "non-preemptible"},
            {},
            "preemptibility",
            "preemptible",
            id="preemptibility: the Workload's",
        ),
        pytest.param(
            {PREEMPTIBILITY: "perhaps"},
            {PREEMPTIBILITY: "non-preemptible"},
            {},
            "preemptibility",
            "non-preemptible",
            id="preemptibility: who says what KAI doesn't know is passed over",
        ),
        pytest.param({}, {}, {PREEMPTIBILITY: "perhaps"}, "preemptibility", None, id="preemptibility: nobody says"),
    ],
)
def test_fields_come_from_workload_then_owner_then_pod(
    workload: dict[str, str], owner: dict[str, str], pod: dict[str, str], field: str, value: str | None
) -> None:
    """`spec` stands for the priority class of the Pod's spec."""
    labels = {key: value for key, value in pod.items() if key != "spec"}
    group = Group("w", "g", 2, Layer(workload, {}))
    found = desired(group, Layer(owner, {}), Layer(labels, {}, pod.get("spec", "")))
    assert found["spec"].get(field) == value


def test_every_key_can_be_another() -> None:
    keys = LabelKeys("q", "c", "e", "j", "u", "n")
    pod = Layer({"e": "preemptible", "j": "x", "u": "eve", "n": "a100"}, {}, "high")
    found = desired(Group("w", "g", 2, NOTHING), NOTHING, pod, keys=keys)
    spec = {"minMember": 2, "queue": "x-a100", "priorityClassName": "high", "preemptibility": "preemptible"}
    assert found["spec"] == spec
    labels = {"u": "eve", "n": "a100", "app.kubernetes.io/managed-by": "grove-admission"}
    assert found["metadata"]["labels"] == labels


def test_little_is_said_where_little_is_known() -> None:
    assert desired(Group("w", "g", None, NOTHING), default_queue="")["spec"] == {"minMember": 1}


@pytest.mark.parametrize(
    ("change", "patch"),
    [
        pytest.param({}, {}, id="in step"),
        pytest.param({"minimum": 5}, {"spec": {"minMember": 5}}, id="another minimum"),
        pytest.param({"topology_key": ""}, {"spec": {"topologyConstraint": None}}, id="no topology any more"),
        pytest.param(
            {"layer": Layer({"l": "1"}, {"kai.scheduler/topology": "t"})},
            {
                "metadata": {
                    "labels": {"l": "1", "had": None},
                    "annotations": {
                        "kai.scheduler/topology": "t",
                        COPIED: "labels/l,annotations/kai.scheduler/topology",
                    },
                },
                "spec": {"topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"}},
            },
            id="other metadata",
        ),
        pytest.param(
            {"topology_key": "", "layer": Layer({"had": "1"}, {"kai.scheduler/topology-preferred-placement": "host"})},
            {
                "metadata": {
                    "annotations": {
                        "kai.scheduler/topology-preferred-placement": "host",
                        COPIED: "labels/had,annotations/kai.scheduler/topology-preferred-placement",
                    }
                },
                "spec": {
                    "topologyConstraint": {
                        "topology": "grove-topology",
                        "requiredTopologyLevel": None,
                        "preferredTopologyLevel": "host",
                    }
                },
            },
            id="preferred instead of required",
        ),
        pytest.param(
            {"layer": NOTHING},
            {"metadata": {"labels": {"had": None}, "annotations": {COPIED: ""}}},
            id="a label that is gone there goes here; those of others stay",
        ),
    ],
)
def test_only_the_difference_is_written(change: dict[str, Any], patch: Any) -> None:
    group = Group("w", "g", 4, Layer({"had": "1"}, {}), topology_key="rack")
    stored = desired(group)
    stored["spec"]["markUnschedulable"] = True
    stored["metadata"]["labels"]["theirs"] = "1"
    assert difference(stored, desired(replace(group, **change))) == patch


def test_what_is_empty_is_not_there() -> None:
    """Others that write a PodGroup whole leave empty fields behind."""
    stored = desired(Group("w", "g", 4, NOTHING))
    assert difference({**stored, "spec": {**stored["spec"], "topologyConstraint": {}}}, stored) == {}


JOB, OTHER, WORKLOAD = {"uid": "job"}, {"uid": "other"}, {"uid": "workload"}


@pytest.mark.parametrize(
    ("held", "wanted", "written"),
    [
        pytest.param([JOB], [JOB], None, id="its owner"),
        pytest.param([JOB], [OTHER], [JOB, WORKLOAD], id="Pods of a second owner"),
        pytest.param([JOB], [JOB, OTHER], [JOB, WORKLOAD], id="of both"),
        pytest.param([JOB, WORKLOAD], [OTHER], None, id="the Workload is there already"),
        pytest.param([], [JOB], [WORKLOAD], id="nobody"),
    ],
)
def test_what_several_owners_share_is_owned_by_what_they_have_in_common(held: Any, wanted: Any, written: Any) -> None:
    assert owners_to_write({"metadata": {"ownerReferences": held}}, wanted, WORKLOAD) == written


@pytest.mark.parametrize(
    ("labels", "annotations", "ours"),
    [
        pytest.param({"app.kubernetes.io/managed-by": "grove-admission"}, {WORKLOAD_GROUP: "w/g/"}, True, id="ours"),
        pytest.param(
            {"app.kubernetes.io/managed-by": "grove-admission"}, {WORKLOAD_GROUP: "x/g/"}, False, id="another"
        ),
        pytest.param({}, {WORKLOAD_GROUP: "w/g/"}, False, id="somebody else's"),
    ],
)
def test_whose_a_podgroup_is(labels: Any, annotations: Any, ours: bool) -> None:
    stored = {"metadata": {"labels": labels, "annotations": annotations}}
    assert is_of_group(stored, Group("w", "g", 2, NOTHING)) is ours
