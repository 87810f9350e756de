"""Workloads and PodGroups of scheduling.k8s.io, read in each version of the API."""

from typing import Any

import pytest

from app.rules.workload.groups import (
    DefinedGroup,
    MetadataLayer,
    group_of_pod_group,
    groups_of_workload,
)

LAYER = MetadataLayer({"a": "b"}, {})
GANG = {"gang": {"minCount": 3}}


def workload(version: str, spec: Any) -> Any:
    metadata = {"name": "w", "labels": {"a": "b"}}
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "Workload",
        "metadata": metadata,
        "spec": spec,
    }


def pod_group(version: str, **spec: Any) -> Any:
    metadata = {"name": "inst", "labels": {"own": "1"}}
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": spec,
    }


def template(name: str, policy: Any) -> Any:
    return {"name": name, "schedulingPolicy": policy}


@pytest.mark.parametrize(
    ("version", "spec", "groups"),
    [
        pytest.param(
            "v1alpha1",
            {"podGroups": [{"name": "g", "policy": GANG}, {"name": "h", "policy": {"basic": {}}}]},
            {"g": DefinedGroup("w", "g", 3, LAYER), "h": DefinedGroup("w", "h", None, LAYER)},
            id="1.35",
        ),
        pytest.param(
            "v1alpha2",
            {"podGroupTemplates": [template("g", GANG)]},
            {"g": DefinedGroup("w", "g", 3, LAYER)},
            id="1.36",
        ),
        pytest.param(
            "v1alpha2",
            {"podGroups": [{"name": "g", "policy": GANG}]},
            {"g": DefinedGroup("w", "g", 3, LAYER)},
            id="1.35 in 1.36",
        ),
        pytest.param(
            "v1alpha3",
            {"podGroupTemplates": [template("g", GANG)]},
            {"g": DefinedGroup("w", "g", 3, LAYER)},
            id="1.37, alpha",
        ),
        pytest.param(
            "v1beta1",
            {"podGroupTemplates": [template("g", {"basic": {}})]},
            {"g": DefinedGroup("w", "g", None, LAYER)},
            id="1.37, beta",
        ),
        pytest.param(
            "v1beta1",
            {
                "compositePodGroupTemplates": [
                    {"name": "c", "podGroupTemplates": [template("g", GANG)]}
                ]
            },
            {},
            id="composite templates are not read",
        ),
        pytest.param(
            "v1alpha1",
            {"podGroups": [{"name": "g", "policy": {"gang": {"minCount": 0}}}]},
            {"g": DefinedGroup("w", "g", 0, LAYER)},
            id="a gang that needs nobody",
        ),
        pytest.param(
            "v1alpha1",
            {"podGroups": [{"name": "g", "policy": {"gang": {"minCount": -1}}}, "x", {"name": 3}]},
            {"g": DefinedGroup("w", "g", None, LAYER)},
            id="what makes no sense",
        ),
        pytest.param(
            "v1alpha1",
            {"podGroups": [{"name": "g"}]},
            {"g": DefinedGroup("w", "g", None, LAYER)},
            id="no policy",
        ),
        pytest.param("v1alpha1", {"podGroups": 7}, {}, id="no list"),
        pytest.param("v1beta1", None, {}, id="no spec"),
    ],
)
@pytest.mark.statement("W.1", "W.2", "W.3")
def test_the_groups_of_a_workload(version: str, spec: Any, groups: dict[str, DefinedGroup]) -> None:
    assert groups_of_workload(workload(version, spec)) == groups


OF_1_36 = {"workload": {"workloadName": "w", "podGroupTemplateName": "g"}}
OF_1_37 = {"workloadName": "w", "templateName": "g"}


@pytest.mark.parametrize(
    ("stored", "of", "group"),
    [
        pytest.param(
            pod_group("v1alpha2", podGroupTemplateRef=OF_1_36, schedulingPolicy=GANG),
            workload("v1alpha2", {}),
            DefinedGroup("w", "g", 3, LAYER, pod_group="inst"),
            id="1.36, made from a Workload, whose metadata count",
        ),
        pytest.param(
            pod_group(
                "v1alpha2",
                schedulingPolicy=GANG,
                priorityClassName="high",
                schedulingConstraints={"topology": [{"key": "rack"}]},
            ),
            None,
            DefinedGroup("", "", 3, MetadataLayer({"own": "1"}, {}), "", "inst", "high", "rack"),
            id="1.36, on its own",
        ),
        pytest.param(
            pod_group("v1alpha3", workloadRef=OF_1_37, schedulingPolicy={"basic": {}}),
            workload("v1alpha3", {}),
            DefinedGroup("w", "g", None, LAYER, pod_group="inst"),
            id="1.37, alpha",
        ),
        pytest.param(
            pod_group(
                "v1beta1",
                workloadRef=OF_1_37,
                schedulingPolicy={"gang": {"minCount": 5}},
                priorityClassName="high",
                schedulingConstraints={"topology": [{"key": "rack"}]},
            ),
            workload("v1beta1", {"podGroupTemplates": [template("g", GANG)]}),
            DefinedGroup("w", "g", 5, LAYER, "", "inst", "high", "rack"),
            id="1.37, beta: the policy is the PodGroup's own, not that of its template",
        ),
        pytest.param(
            pod_group("v1beta1", schedulingPolicy=GANG),
            None,
            DefinedGroup("", "", 3, MetadataLayer({"own": "1"}, {}), pod_group="inst"),
            id="1.37, on its own",
        ),
        pytest.param(
            pod_group(
                "v1beta1",
                workloadRef=OF_1_37,
                schedulingPolicy=GANG,
                parentCompositePodGroupName="c",
            ),
            None,
            DefinedGroup(
                "w", "g", 3, MetadataLayer({"own": "1"}, {}), pod_group="inst", composite="c"
            ),
            id="1.37, part of a CompositePodGroup",
        ),
        pytest.param(
            pod_group(
                "v1",
                workloadRef=OF_1_37,
                schedulingPolicy=GANG,
                parentCompositePodGroupName="c",
            ),
            workload("v1", {"podGroupTemplates": [template("g", GANG)]}),
            DefinedGroup("w", "g", 3, LAYER, pod_group="inst", composite="c"),
            id="1.38, part of a CompositePodGroup",
        ),
        pytest.param(
            pod_group("v1", podGroupTemplateRef=OF_1_36, schedulingPolicy=GANG),
            None,
            DefinedGroup("w", "g", 3, MetadataLayer({"own": "1"}, {}), pod_group="inst"),
            id="1.36 in a later one",
        ),
    ],
)
def test_a_podgroup_of_kubernetes(stored: Any, of: Any, group: DefinedGroup) -> None:
    assert group_of_pod_group(stored, of) == group
