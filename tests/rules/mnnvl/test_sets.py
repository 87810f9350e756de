"""Our MNNVL annotations in a PodCliqueSet."""

from typing import Any

import pytest

from app.facts.grove.template import read_template
from app.rules.mnnvl.sets import validate_annotations
from tests.said import Said

GPUS = {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}


def annotations(values: dict[str, Any]) -> dict[str, Any]:
    return {f"grove.io/mnnvl-{key.replace('_', '-')}": value for key, value in values.items()}


def clique(name: str, pod_spec: Any = GPUS, **values: Any) -> dict[str, Any]:
    return {"name": name, "annotations": annotations(values), "spec": {"podSpec": pod_spec}}


def pcs(*cliques: dict[str, Any], pool: Any = None, **values: Any) -> dict[str, Any]:
    """A set whose clique `leader` is in the scaling group `pool`."""
    group = {"name": "pool", "cliqueNames": ["leader"], "annotations": annotations(pool or {})}
    template = {"cliques": list(cliques), "podCliqueScalingGroups": [group]}
    return {
        "metadata": {"name": "train", "annotations": annotations(values)},
        "spec": {"template": template},
    }


WORKER = clique("worker")
LEADER = clique("leader")
SCOPE = "metadata.annotations[grove.io/mnnvl-scope]"
CLASS = "metadata.annotations[grove.io/mnnvl-device-class]"
SUPPORTED = 'supported values: "replica", "clique", "scalingGroupReplica"'


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(pcs(WORKER, LEADER), [], id="no annotations"),
        pytest.param(pcs(WORKER, LEADER, enabled="true"), [], id="the defaults"),
        pytest.param(
            pcs(WORKER, LEADER, enabled="true", scope="", device_class=""), [], id="empty values"
        ),
        pytest.param(
            pcs(WORKER, LEADER, enabled="true", scope="node", device_class="No Class"),
            [
                f'{SCOPE}: Unsupported value: "node": {SUPPORTED}',
                f'{CLASS}: Invalid value: "No Class": must be the name of a DeviceClass, such as compute-domain.nvidia.com',
            ],
            id="values of the set that nobody supports, each once",
        ),
        pytest.param(pcs(WORKER, enabled="false", scope="node"), [], id="MNNVL is disabled"),
        pytest.param(
            pcs(clique("worker", enabled="false"), enabled="true", scope="node"), [], id="opted out"
        ),
        pytest.param(pcs(clique("router", {}), enabled="true", scope="node"), [], id="no GPUs"),
        pytest.param(
            pcs(LEADER, enabled="true", pool={"scope": "node"}),
            [
                f'spec.template.podCliqueScalingGroups[0].annotations[grove.io/mnnvl-scope]: Unsupported value: "node": {SUPPORTED}'
            ],
            id="a value of a scaling group",
        ),
        pytest.param(
            pcs(WORKER, clique("leader", scope="node"), enabled="true"),
            [
                f'spec.template.cliques[1].annotations[grove.io/mnnvl-scope]: Unsupported value: "node": {SUPPORTED}'
            ],
            id="a value of a clique",
        ),
        pytest.param(
            pcs(LEADER, enabled="true", scope="scalingGroupReplica"),
            [],
            id="a scope for scaling groups",
        ),
        pytest.param(
            pcs(LEADER, WORKER, enabled="true", scope="scalingGroupReplica"),
            [
                f'{SCOPE}: Invalid value: "scalingGroupReplica": clique "worker" is not in a scaling group. Annotate it with grove.io/mnnvl-scope: replica or clique'
            ],
            id="a scope for scaling groups, and a clique in none",
        ),
    ],
)
def test_findings(obj: dict[str, Any], expected: list[str]) -> None:
    findings, warnings = validate_annotations(read_template(obj), None, None)
    assert ([str(finding) for finding in findings], warnings) == (expected, [])


def test_what_was_stored_before_is_a_warning(said: Said) -> None:
    old = pcs(WORKER, enabled="true", scope="node")
    new = pcs(WORKER, enabled="true", scope="node", device_class="No Class")
    findings, warnings = validate_annotations(read_template(new), read_template(old), None)
    assert [finding.field for finding in findings] == [CLASS]
    assert warnings == [
        f'already stored, so still allowed: {SCOPE}: Unsupported value: "node": {SUPPORTED}'
    ]
    said(findings)
