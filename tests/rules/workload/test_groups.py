"""Groups of Workloads: which one a Pod is in, and what it is."""

from typing import Any

import pytest

from app.rules.workload.groups import (
    Group,
    GroupRef,
    Layer,
    group_of_pod_group,
    group_ref,
    groups_of_workload,
    layer_of,
)

NOTHING = Layer({}, {})


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
        pytest.param({"spec": {"workloadRef": {"name": "w", "podGroup": "g"}}}, GroupRef("w", "g"), id="without a key"),
        pytest.param({"spec": {"workloadRef": {"name": "w"}}}, None, id="a Workload without its group"),
        pytest.param({"spec": {"schedulingGroup": {"podGroupName": "x"}}}, GroupRef(pod_group="x"), id="1.36"),
        pytest.param({"spec": {"schedulingGroup": {}}}, None, id="a scheduling group without a name"),
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
def test_the_group_that_a_pod_names(pod: Any, ref: GroupRef | None) -> None:
    assert group_ref(pod) == ref


def test_keys_of_groups_differ_where_groups_do() -> None:
    refs = [GroupRef("a", "b-c"), GroupRef("a-b", "c"), GroupRef("a", "b", "c"), GroupRef(pod_group="a-b-c")]
    assert [ref.key for ref in refs] == ["w/a/b-c/", "w/a-b/c/", "w/a/b/c", "g/a-b-c"]


def workload(spec: Any) -> Any:
    return {"metadata": {"name": "w", "labels": {"a": "b"}}, "spec": spec}


LAYER = Layer({"a": "b"}, {})


@pytest.mark.parametrize(
    ("spec", "groups"),
    [
        pytest.param(
            {"podGroups": [{"name": "g", "policy": {"gang": {"minCount": 4}}}, {"name": "h", "policy": {"basic": {}}}]},
            {"g": Group("w", "g", 4, LAYER), "h": Group("w", "h", None, LAYER)},
            id="1.35",
        ),
        pytest.param(
            {"podGroupTemplates": [{"name": "g", "schedulingPolicy": {"gang": {"minCount": 2}}}]},
            {"g": Group("w", "g", 2, LAYER)},
            id="1.36",
        ),
        pytest.param(
            {"podGroups": [{"name": "g", "policy": {"gang": {"minCount": 0}}}, "x", {"name": 3}]},
            {"g": Group("w", "g", None, LAYER)},
            id="what makes no sense",
        ),
        pytest.param(
            {"podGroups": [{"name": "g", "policy": None}]}, {"g": Group("w", "g", None, LAYER)}, id="no policy"
        ),
        pytest.param(None, {}, id="no spec"),
    ],
)
def test_the_groups_of_a_workload(spec: Any, groups: dict[str, Group]) -> None:
    assert groups_of_workload(workload(spec)) == groups


def pod_group(**spec: Any) -> Any:
    return {"metadata": {"name": "inst", "labels": {"own": "1"}}, "spec": spec}


TEMPLATE = {"workload": {"workloadName": "w", "podGroupTemplateName": "g"}}
GANG = {"gang": {"minCount": 3}}


@pytest.mark.parametrize(
    ("stored", "of", "group"),
    [
        pytest.param(
            pod_group(podGroupTemplateRef=TEMPLATE, schedulingPolicy=GANG),
            workload({}),
            Group("w", "g", 3, LAYER, pod_group="inst"),
            id="made from a Workload, whose metadata count",
        ),
        pytest.param(
            pod_group(
                schedulingPolicy=GANG,
                priorityClassName="high",
                schedulingConstraints={"topology": [{"key": "rack"}]},
            ),
            None,
            Group("", "", 3, Layer({"own": "1"}, {}), "", "inst", "high", "rack"),
            id="on its own",
        ),
    ],
)
def test_a_podgroup_of_kubernetes(stored: Any, of: Any, group: Group) -> None:
    assert group_of_pod_group(stored, of) == group


@pytest.mark.parametrize(
    ("group", "name", "identity"),
    [
        pytest.param(Group("w", "g", 2, NOTHING), "w-g", "w/g/", id="a gang"),
        pytest.param(Group("w", "g", 2, NOTHING, "0"), "w-g-0", "w/g/0", id="a replica of a gang"),
        pytest.param(Group("w", "g", None, NOTHING, "0"), "w-g", "w/g/", id="all replicas of a basic group are one"),
        pytest.param(Group("w", "g", 2, NOTHING, pod_group="x"), "x", "w/g/x", id="a PodGroup of 1.36"),
        pytest.param(Group("w", "g", None, NOTHING, pod_group="x"), "w-g", "w/g/", id="a basic PodGroup of 1.36"),
        pytest.param(Group("", "", None, NOTHING, pod_group="x"), "x", "//", id="one without a Workload"),
    ],
)
def test_names_and_identities(group: Group, name: str, identity: str) -> None:
    assert (group.pod_group_name, group.identity) == (name, identity)


def test_a_name_that_is_too_long_is_cut_and_stays_different_from_others() -> None:
    names = [Group("w" * 250, end, 2, NOTHING).pod_group_name for end in ("group", "other")]
    assert {len(name) for name in names} == {253}
    assert len(set(names)) == 2


def test_labels_of_tools_are_not_copied() -> None:
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "kai.scheduler/ignore-workload-api": "false",
    }
    obj = {"metadata": {"labels": {"a": "b", "n": 1}, "annotations": {**annotations, "c": "d"}}}
    assert layer_of(obj) == Layer({"a": "b"}, {"c": "d"})
