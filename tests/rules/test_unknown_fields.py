"""Fields in the document of a PodCliqueSet that are probably typos."""

from typing import Any

import pytest

from app.base.spelling import MOST_COMPARED
from app.rules.unknown_fields import unknown_field_warnings
from tests.said import Said


def document(*cliques: Any, **template: Any) -> dict[str, Any]:
    return {"spec": {"template": {"cliques": list(cliques), **template}}}


def clique(constraint: Any = None, **spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"name": "c", "spec": spec}
    return made | ({"topologyConstraint": constraint} if constraint is not None else {})


REQUEST = "resourceClaimTemplates[0].templateSpec.spec.devices.requests[0]"


def requesting(**fields: Any) -> dict[str, Any]:
    requests = [{"name": "gpu", **fields}]
    return {"name": "pool", "templateSpec": {"spec": {"devices": {"requests": requests}}}}


@pytest.mark.parametrize(
    ("obj", "fields"),
    [
        pytest.param(
            document(clique({"toplogyName": "t", "pack": {"requird": "rack"}})),
            [
                ("cliques[0].topologyConstraint.toplogyName", "topologyName"),
                ("cliques[0].topologyConstraint.pack.requird", "required"),
            ],
            id="fields of a constraint",
        ),
        pytest.param(
            document(clique({"zone": "a"})),
            [("cliques[0].topologyConstraint.zone", "")],
            id="a constraint has no other fields, whatever they are called",
        ),
        pytest.param(
            document(podCliqueScalingGroups=[{"name": "g", "minavailable": 1}]),
            [("podCliqueScalingGroups[0].minavailable", "minAvailable")],
            id="a field of a scaling group in other case",
        ),
        pytest.param(
            document(clique(minAvailabel=1)),
            [("cliques[0].spec.minAvailabel", "minAvailable")],
            id="a field of a clique's spec",
        ),
        pytest.param(
            document(
                resourceClaimTemplates=[requesting(deviceClassName="gpu.nvidia.com", count=4)]
            ),
            [
                (f"{REQUEST}.deviceClassName", f"spec.template.{REQUEST}.exactly.deviceClassName"),
                (f"{REQUEST}.count", f"spec.template.{REQUEST}.exactly.count"),
            ],
            id="a request of devices in the form of resource.k8s.io/v1beta1",
        ),
        pytest.param(
            document(resourceClaimTemplates=[requesting(exactly={"deviceClassName": "a"})]),
            [],
            id="a request of devices in the form of resource.k8s.io/v1",
        ),
        pytest.param(
            document(topologyConstraints={"packDomain": "rack"}),
            [("topologyConstraints", "topologyConstraint")],
            id="a field of the template",
        ),
        pytest.param(
            document(
                clique({"x": 1, "a": 1}),
                clique(replica=1, podspec={}),
                cliqes=[],
                topologyConstrain={},
            ),
            [
                ("cliqes", "cliques"),
                ("topologyConstrain", "topologyConstraint"),
                ("cliques[1].spec.replica", "replicas"),
                ("cliques[1].spec.podspec", "podSpec"),
                ("cliques[0].topologyConstraint.a", ""),
                ("cliques[0].topologyConstraint.x", ""),
            ],
            id="several in one part, and in several parts",
        ),
        pytest.param(document(terminationDelay="1s", updates="x"), [], id="other fields"),
        pytest.param(
            document(
                clique() | {"scaleConfig": {}, "packDomain": "rack"},
                clique(scaleConfig={}),
                startupType="x",
                podCliqueScalingGroups=[{"autoScalingConfig": {}, "cliques": []}],
                scalingGroups=[],
            ),
            [
                ("startupType", "cliqueStartupType"),
                ("scalingGroups", "podCliqueScalingGroups"),
                ("podCliqueScalingGroups[0].autoScalingConfig", "scaleConfig"),
                ("podCliqueScalingGroups[0].cliques", "cliqueNames"),
                ("cliques[0].scaleConfig", "spec.template.cliques[0].spec.autoScalingConfig"),
                (
                    "cliques[0].packDomain",
                    "spec.template.cliques[0].topologyConstraint.packDomain",
                ),
                ("cliques[1].spec.scaleConfig", "autoScalingConfig"),
            ],
            id="other names",
        ),
        pytest.param(
            document(
                clique() | {"minAvailable": 1, "tolerations": []},
                clique(topologyConstraint={}, schedulerName="s"),
                replicas=2,
                minAvailable=1,
                nodeSelector={},
                podCliqueScalingGroups=[{"labels": {}, "name": "g", "replicas": 1}],
            ),
            [
                ("replicas", "spec.replicas"),
                ("minAvailable", "spec.template.cliques[].spec.minAvailable"),
                ("nodeSelector", "spec.template.cliques[].spec.podSpec.nodeSelector"),
                ("podCliqueScalingGroups[0].labels", "spec.template.cliques[].labels"),
                ("cliques[0].minAvailable", "spec.template.cliques[0].spec.minAvailable"),
                ("cliques[0].tolerations", "spec.template.cliques[0].spec.podSpec.tolerations"),
                (
                    "cliques[1].spec.topologyConstraint",
                    "spec.template.cliques[1].topologyConstraint",
                ),
                (
                    "cliques[1].spec.schedulerName",
                    "spec.template.cliques[1].spec.podSpec.schedulerName",
                ),
            ],
            id="other places",
        ),
        pytest.param({"spec": {"template": {"cliques": [7, None]}}}, [], id="odd values"),
        pytest.param({"spec": 7}, [], id="no set at all"),
    ],
)
def test_warnings(obj: dict[str, Any], fields: list[tuple[str, str]]) -> None:
    assert unknown_field_warnings(obj) == [
        f"spec.template.{field}: unknown field, which the API server drops"
        + (f". Did you mean {meant}?" if meant else "")
        for field, meant in fields
    ]


def test_fields_of_the_template_are_not_those_of_the_spec() -> None:
    assert unknown_field_warnings({"spec": {"replicas": 1, "cliques": [], "repicas": 1}}) == [
        "spec.cliques: unknown field, which the API server drops. Did you mean"
        " spec.template.cliques?",
        "spec.repicas: unknown field, which the API server drops. Did you mean replicas?",
    ]


def test_known_fields_do_not_count_among_those_that_are_compared(said: Said) -> None:
    """Only so many unknown names of an object are compared with known ones."""
    worker = clique()
    worker["spec"] |= {f"x{number}": 1 for number in range(MOST_COMPARED - 1)}
    worker["spec"] |= {"replicas": 1, "podSpec": {}, "minAvailabel": 1}
    (warning,) = unknown_field_warnings(document(worker))
    assert warning.endswith("Did you mean minAvailable?")
    worker["spec"] = {"x": 1, **worker["spec"]}
    assert unknown_field_warnings(document(worker)) == []
    said([warning])
