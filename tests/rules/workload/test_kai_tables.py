"""KAI's own tests of its design for Workloads, row by row, with the same outcome or the decision
beside it.

The rows are those of `pkg/podgrouper/podgrouper/plugins/workload/workload_grouper_test.go` in
https://github.com/kai-scheduler/KAI-Scheduler/tree/6d95dfda, which are the same at badc3688; those
of its integration and end-to-end tests are in `tests/integration/workload/test_kai_tables.py`. In
KAI, the top owner's grouper has made a PodGroup, which the Workload overrides; here that PodGroup's
fields are labels and annotations of the top owner.

Rows without a case:
- NoWorkloadRef_NoChange, Ignored_OnPod: such a Pod is in no group: `test_groups.py`, "no group" and
  "opted out".
- Ignored_OnTopOwner, WorkloadMissing, PodGroupMissing: `tests/reconcilers/test_workload.py`.
- GetPGMetadata_MissingWorkload_WrapsAsErrDeferred, and the row of isOrphanPodWithPodGroup: parts of
  KAI's controller that have no counterpart here. What they are for is shown in the integration
  tests: a Pod waits without a retry, and the PodGroup of a Pod without an owner follows its
  Workload.
- metadata_test.go: copies of a Go struct.
"""

from typing import Any

import pytest

from app.rules.workload.groups import DefinedGroup, MetadataLayer, groups_of_workload
from app.rules.workload.kai_podgroup import Conventions, Sources, desired_pod_group

QUEUE = "kai.scheduler/queue"
PRIORITY = "priorityClassName"
PREEMPTIBILITY = "kai.scheduler/preemptibility"
TOPOLOGY = "kai.scheduler/topology"
REQUIRED = f"{TOPOLOGY}-required-placement"
PREFERRED = f"{TOPOLOGY}-preferred-placement"
OWNER = MetadataLayer(
    {"owner-label": "a", QUEUE: "base-queue", PREEMPTIBILITY: "preemptible"},
    {"owner-annotation": "1"},
)
BASE = {"queue": "base-queue", "priorityClassName": "train", "preemptibility": "preemptible"}
GANG: Any = {"gang": {"minCount": 2}}
BASIC: Any = {"basic": {}}


def made(
    policy: Any, replica: str = "", classes: frozenset[str] = frozenset({"train"}), **metadata: Any
) -> Any:
    """The PodGroup of the group `g` of a Workload `w` with `policy` and `metadata`."""
    workload = {
        "metadata": {"name": "w", **metadata},
        "spec": {"podGroups": [{"name": "g", "policy": policy}]},
    }
    group = groups_of_workload(workload)["g"]
    group = DefinedGroup(group.workload, group.name, group.minimum, group.layer, replica)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job"}
    sources = Sources(OWNER, MetadataLayer({}, {}), ("batch", "Job"), reference, classes)
    return desired_pod_group(group, sources, Conventions())


@pytest.mark.parametrize(
    ("pod_group", "name", "spec"),
    [
        pytest.param(
            made({"gang": {"minCount": 4}}, "0"), "w-g-0", {**BASE, "minMember": 4}, id="Gang"
        ),
        pytest.param(made(GANG), "w-g", {**BASE, "minMember": 2}, id="Gang_NoReplicaKey"),
        pytest.param(
            made(BASIC, "ignored"), "w-g", {**BASE, "minMember": 1}, id="Basic_CollapsesReplicas"
        ),
        pytest.param(
            made(
                {"gang": {"minCount": 3}},
                classes=frozenset({"train", "build"}),
                labels={QUEUE: "ml-training", PRIORITY: "build", PREEMPTIBILITY: "non-preemptible"},
                annotations={TOPOLOGY: "gpu-topology", REQUIRED: "rack", PREFERRED: "zone"},
            ),
            "w-g",
            {
                "minMember": 3,
                "queue": "ml-training",
                "priorityClassName": "build",
                "preemptibility": "non-preemptible",
                "topologyConstraint": {
                    "topology": "gpu-topology",
                    "requiredTopologyLevel": "rack",
                    "preferredTopologyLevel": "zone",
                },
            },
            id="OverridesScheduling",
        ),
        pytest.param(
            made(GANG), "w-g", {**BASE, "minMember": 2}, id="FieldFallback_NoWorkloadLabels"
        ),
        pytest.param(
            made(
                BASIC,
                labels={QUEUE: "", PRIORITY: "", PREEMPTIBILITY: ""},
                annotations={TOPOLOGY: "", REQUIRED: "", PREFERRED: ""},
            ),
            "w-g",
            {**BASE, "minMember": 1},
            id="FieldFallback_EmptyWorkloadLabel",
        ),
        pytest.param(
            made(BASIC, labels={PREEMPTIBILITY: "garbage"}),
            "w-g",
            {**BASE, "minMember": 1},
            id="UnknownPreemptibility_FallsBack",
        ),
        pytest.param(
            made(BASIC, labels={PRIORITY: "ghost-priority"}),
            "w-g",
            {**BASE, "minMember": 1},
            id="InvalidPriorityClass_KeepsBase",
        ),
        pytest.param(
            made(
                BASIC,
                labels={PRIORITY: "ghost-priority"},
                classes=frozenset({"train", "ghost-priority"}),
            ),
            "w-g",
            {**BASE, "minMember": 1, "priorityClassName": "ghost-priority"},
            id="ValidPriorityClass_OverridesBase",
        ),
        pytest.param(
            made(BASIC, classes=frozenset()),
            "w-g",
            {"minMember": 1, "queue": "base-queue", "preemptibility": "preemptible"},
            id="decision: a default class that does not exist is not written either; KAI writes it unchecked",
        ),
    ],
)
def test_apply_override(pod_group: Any, name: str, spec: Any) -> None:
    """No row has SubGroups in its PodGroup, nor has any here."""
    assert (pod_group["metadata"]["name"], pod_group["spec"]) == (name, spec)


@pytest.mark.statement("W.23")
def test_overrides_scheduling_merges_metadata() -> None:
    metadata = made(GANG, labels={"wl-label": "wl"}, annotations={"wl-annotation": "wa"})[
        "metadata"
    ]
    assert metadata["labels"].items() >= {"owner-label": "a", "wl-label": "wl"}.items()
    assert (
        metadata["annotations"].items() >= {"owner-annotation": "1", "wl-annotation": "wa"}.items()
    )


def test_label_collision_workload_wins() -> None:
    assert (
        made(BASIC, labels={"owner-label": "from-workload"})["metadata"]["labels"]["owner-label"]
        == "from-workload"
    )


NOTHING = MetadataLayer({}, {})


@pytest.mark.parametrize(
    ("group", "name"),
    [
        pytest.param(DefinedGroup("wl", "pg", None, NOTHING), "wl-pg", id="basic"),
        pytest.param(DefinedGroup("wl", "pg", 2, NOTHING), "wl-pg", id="gang"),
        pytest.param(
            DefinedGroup("wl", "pg", 2, NOTHING, "r0"), "wl-pg-r0", id="replica of a gang"
        ),
        pytest.param(
            DefinedGroup("wl", "pg", None, NOTHING, "r0"), "wl-pg", id="replica of a basic group"
        ),
        pytest.param(
            DefinedGroup("a" * 253, "b" * 63, 2, NOTHING, "c" * 63),
            f"{'a' * 242}-a5c6b81e87",
            id="OverflowingInputs_Truncated",
        ),
    ],
)
@pytest.mark.statement("W.6")
def test_build_pod_group_name(group: DefinedGroup, name: str) -> None:
    """The cut names are those that KAI's code gives, by the same hash of the whole name."""
    assert (group.pod_group_name, len(group.pod_group_name) <= 253) == (name, True)


def test_distinct_overflowing_inputs_have_distinct_names_each_time() -> None:
    names = [
        [DefinedGroup("a" * 253, pg, 2, NOTHING, key).pod_group_name for pg, key in INPUTS]
        for _ in range(5)
    ]
    assert len(set(names[0])) == len(INPUTS)
    assert names == [names[0]] * 5


INPUTS = (("alpha", "r0"), ("alpha", "r1"), ("beta", "r0"))
