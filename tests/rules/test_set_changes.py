"""Changes of a PodCliqueSet that Grove rejects."""

from typing import Any

import pytest

from app.rules.set_changes import change_warnings
from tests.said import Said

IN_ORDER = "CliqueStartupTypeInOrder"


def pcs(*cliques: Any, metadata: Any = None, **template: Any) -> dict[str, Any]:
    return {
        "metadata": metadata or {},
        "spec": {"template": {"cliques": list(cliques), **template}},
    }


def clique(name: str = "a", *, sharing: Any = None, group: str = "", **spec: Any) -> dict[str, Any]:
    annotations = {"grove.io/mnnvl-group": group} if group else {}
    return {"name": name, "spec": spec, "resourceSharing": sharing, "annotations": annotations}


@pytest.mark.parametrize(
    ("old", "new", "starts"),
    [
        pytest.param(
            pcs(clique(replicas=1, minAvailable=1), cliqueStartupType=IN_ORDER),
            pcs(clique(replicas=3, podSpec={"containers": [{}]}), terminationDelay="1h"),
            [],
            id="replicas and pods, with defaults in the stored object",
        ),
        pytest.param(
            pcs(clique(), clique("b")), pcs(clique("b"), clique()), [], id="another order"
        ),
        pytest.param(
            pcs(clique(), clique("b"), cliqueStartupType=IN_ORDER),
            pcs(clique("b"), clique()),
            ["spec.template.cliques: Grove rejects this: the order of cliques must stay a, b"],
            id="another order, where the order counts",
        ),
        pytest.param(
            pcs(cliqueStartupType=IN_ORDER, resourceSharing=[{"name": "x"}]),
            pcs(cliqueStartupType="CliqueStartupTypeAnyOrder", resourceClaimTemplates=[{}]),
            [
                "spec.template.cliqueStartupType: Grove rejects this: the stored value",
                "spec.template.resourceClaimTemplates: Grove rejects this: a missing value",
                "spec.template.resourceSharing: Grove rejects this: the stored value",
            ],
            id="fields of the template",
        ),
        pytest.param(
            pcs(clique(), clique("b"), cliqueStartupType=IN_ORDER),
            pcs(clique("c"), clique()),
            ['spec.template.cliques: Grove rejects this: "b", "c" can\'t be added'],
            id="a renamed clique",
        ),
        pytest.param(
            pcs(
                clique(
                    roleName="r",
                    minAvailable=1,
                    startsAfter=["b"],
                    podSpec={"schedulerName": "kai-scheduler"},
                    sharing=[{}],
                )
            ),
            pcs(clique(roleName="s", minAvailable=2)),
            [
                "spec.template.cliques[0].resourceSharing",
                "spec.template.cliques[0].spec.roleName",
                "spec.template.cliques[0].spec.minAvailable",
                "spec.template.cliques[0].spec.startsAfter",
                "spec.template.cliques[0].spec.podSpec.schedulerName",
            ],
            id="fields of a clique",
        ),
        pytest.param(
            pcs(podCliqueScalingGroups=[{"name": "g", "cliqueNames": ["a"], "minAvailable": 1}]),
            pcs(
                podCliqueScalingGroups=[
                    {"name": "h"},
                    {"name": "g", "cliqueNames": ["a", "b"], "replicas": 2, "minAvailable": 2},
                ]
            ),
            [
                'spec.template.podCliqueScalingGroups: Grove rejects this: "h" can\'t be',
                "spec.template.podCliqueScalingGroups[1].cliqueNames",
                "spec.template.podCliqueScalingGroups[1].minAvailable",
            ],
            id="fields of a group, and another group",
        ),
        pytest.param(
            pcs(clique(), metadata={"annotations": {"grove.io/mnnvl-group": "x"}}),
            pcs(clique(group="y")),
            [
                "metadata.annotations[grove.io/mnnvl-group]",
                "spec.template.cliques[0].annotations[grove.io/mnnvl-group]",
            ],
            id="MNNVL groups",
        ),
        pytest.param({"spec": 7}, pcs(7), ["spec.template.cliques: "], id="odd values"),
    ],
)
def test_warnings(old: Any, new: Any, starts: list[str], said: Said) -> None:
    found = change_warnings(new, old)
    assert len(found) == len(starts), found
    assert all(text.startswith(start) for text, start in zip(found, starts, strict=True)), found
    said(found)
