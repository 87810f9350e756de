"""Groups of Workloads: which one a Pod is in, and what it is."""

from typing import Any

import pytest

from app.objects.edits import Edit
from app.rules.workload.groups import (
    DefinedGroup,
    GroupRef,
    MetadataLayer,
    admission_changes,
    group_keys,
    group_ref,
    layer_of,
)

NOTHING = MetadataLayer({}, {})


@pytest.mark.parametrize(
    ("pod", "ref"),
    [
        pytest.param({"spec": {}}, None, id="no group"),
        pytest.param({}, None, id="no spec"),
        pytest.param(
            {"spec": {"workloadRef": {"name": "w", "podGroup": "g", "podGroupReplicaKey": "0"}}},
            GroupRef("w", "g", "0"),
            id="1.35",
        ),
        pytest.param(
            {"spec": {"workloadRef": {"name": "w", "podGroup": "g"}}},
            GroupRef("w", "g"),
            id="without a key",
        ),
        pytest.param(
            {"spec": {"workloadRef": {"name": "w"}}}, None, id="a Workload without its group"
        ),
        pytest.param(
            {"spec": {"schedulingGroup": {"podGroupName": "x"}}}, GroupRef(pod_group="x"), id="1.36"
        ),
        pytest.param(
            {"spec": {"schedulingGroup": {}}}, None, id="a scheduling group without a name"
        ),
        pytest.param(
            {
                "metadata": {"annotations": {"kai.scheduler/ignore-workload-api": "true"}},
                "spec": {"schedulingGroup": {"podGroupName": "x"}},
            },
            None,
            id="opted out",
        ),
    ],
)
@pytest.mark.statement("W.4", "W.36")
def test_the_group_that_a_pod_names(pod: Any, ref: GroupRef | None) -> None:
    assert group_ref(pod) == ref


def test_keys_of_groups_differ_where_groups_do() -> None:
    refs = [
        GroupRef("a", "b-c"),
        GroupRef("a-b", "c"),
        GroupRef("a", "b", "c"),
        GroupRef(pod_group="a-b-c"),
    ]
    assert [ref.key for ref in refs] == ["w/a/b-c/", "w/a-b/c/", "w/a/b/c", "g/a-b-c"]


@pytest.mark.parametrize(
    ("group", "name", "identity"),
    [
        pytest.param(DefinedGroup("w", "g", 2, NOTHING), "w-g", "w/g/", id="a gang"),
        pytest.param(
            DefinedGroup("w", "g", 2, NOTHING, "0"), "w-g-0", "w/g/0", id="a replica of a gang"
        ),
        pytest.param(
            DefinedGroup("w", "g", None, NOTHING, "0"),
            "w-g",
            "w/g/",
            id="all replicas of a basic group are one",
        ),
        pytest.param(
            DefinedGroup("w", "g", 2, NOTHING, pod_group="x"),
            "x",
            "w/g/x",
            id="a PodGroup of 1.36",
        ),
        pytest.param(
            DefinedGroup("w", "g", None, NOTHING, pod_group="x"),
            "w-g",
            "w/g/",
            id="a basic PodGroup of 1.36",
        ),
        pytest.param(
            DefinedGroup("", "", None, NOTHING, pod_group="x"),
            "x",
            "//",
            id="one without a Workload",
        ),
    ],
)
@pytest.mark.statement("W.6", "W.16")
def test_names_and_identities(group: DefinedGroup, name: str, identity: str) -> None:
    assert (group.pod_group_name, group.identity) == (name, identity)


def test_a_name_that_is_too_long_is_cut_and_stays_different_from_others() -> None:
    names = [DefinedGroup("w" * 250, end, 2, NOTHING).pod_group_name for end in ("group", "other")]
    assert {len(name) for name in names} == {253}
    assert len(set(names)) == 2


def test_labels_of_tools_are_not_copied() -> None:
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "kai.scheduler/ignore-workload-api": "false",
    }
    obj = {"metadata": {"labels": {"a": "b", "n": 1}, "annotations": {**annotations, "c": "d"}}}
    assert layer_of(obj) == MetadataLayer({"a": "b"}, {"c": "d"})


@pytest.mark.parametrize(
    ("identity", "keys"),
    [
        pytest.param("w/g/", ["w/w/g/", "b/w/g"], id="a gang without replicas, or a basic group"),
        pytest.param(
            "w/g/0", ["w/w/g/0", "g/0"], id="a replica of a gang, or a PodGroup of Kubernetes"
        ),
        pytest.param("//x", ["g/x"], id="a gang without a Workload"),
        pytest.param("//", ["g/name"], id="a basic PodGroup without a Workload"),
        pytest.param("", [], id="nothing that was written here"),
    ],
)
def test_the_keys_that_the_pods_of_a_podgroup_can_have(identity: str, keys: list[str]) -> None:
    assert group_keys(identity, "name") == keys


GROUPED = {"schedulerName": "kai", "workloadRef": {"name": "w", "podGroup": "g"}}
SKIPPED = Edit(("metadata", "annotations", "kai.scheduler/skip-podgrouper"), "true")


@pytest.mark.parametrize(
    ("metadata", "spec", "edits"),
    [
        pytest.param({}, GROUPED, [SKIPPED], id="a Pod of a group"),
        pytest.param({}, {**GROUPED, "schedulerName": "default"}, [], id="another scheduler"),
        pytest.param({}, {"schedulerName": "kai"}, [], id="no group"),
        pytest.param(
            {"annotations": {"kai.scheduler/ignore-workload-api": "true"}},
            GROUPED,
            [],
            id="opted out",
        ),
        pytest.param(
            {"annotations": {"kai.scheduler/skip-podgrouper": "true"}}, GROUPED, [], id="annotated"
        ),
        pytest.param(
            {"annotations": {"kai.scheduler/skip-podgrouper": "false"}},
            GROUPED,
            [SKIPPED],
            id="annotated with another value",
        ),
    ],
)
def test_a_new_pod_of_a_group_is_kept_from_the_pod_grouper(
    metadata: Any, spec: Any, edits: list[Edit]
) -> None:
    assert admission_changes({"metadata": metadata, "spec": spec}, "kai") == edits
