"""Names in a PodCliqueSet that nobody answers to, and minimums that exceed replicas."""

from typing import Any

import pytest

from app.base.spelling import MOST_COMPARED
from app.facts.grove.template import read_template
from app.rules.set_mistakes import minimum_findings, mistake_warnings
from tests.said import Said


def pcs(*cliques: Any, metadata: Any = None, **template: Any) -> dict[str, Any]:
    return {
        "metadata": metadata or {},
        "spec": {"template": {"cliques": list(cliques), **template}},
    }


def clique(scheduler: str = "", **spec: Any) -> dict[str, Any]:
    return {"name": "c", "spec": {"podSpec": {"schedulerName": scheduler}, **spec}}


def group(**fields: Any) -> dict[str, Any]:
    return {"name": "g", **fields}


@pytest.mark.parametrize(
    ("obj", "fields"),
    [
        pytest.param(pcs(clique(replicas=2, minAvailable=2)), [], id="all of them"),
        pytest.param(pcs(clique(replicas=2)), [], id="no minimum"),
        pytest.param(pcs(clique(replicas=0, minAvailable=1)), [], id="no pods, Grove sets one"),
        pytest.param(
            pcs(clique(replicas=2, minAvailable=3)),
            ["spec.template.cliques[0].spec.minAvailable"],
            id="a clique",
        ),
        pytest.param(
            pcs(clique(minAvailable=2)),
            ["spec.template.cliques[0].spec.minAvailable"],
            id="a clique with the default of one replica",
        ),
        pytest.param(
            pcs(podCliqueScalingGroups=[group(replicas=1, minAvailable=2)]),
            ["spec.template.podCliqueScalingGroups[0].minAvailable"],
            id="a scaling group",
        ),
        pytest.param(
            pcs(podCliqueScalingGroups=[group(replicas=2, minAvailable=2), group(), group()]),
            [],
            id="all replicas of a scaling group",
        ),
        pytest.param(
            pcs(podCliqueScalingGroups=[group(), group(minAvailable=2)]),
            ["spec.template.podCliqueScalingGroups[1].minAvailable"],
            id="a scaling group with the default of one replica",
        ),
        pytest.param(pcs(clique(replicas=2, minAvailable="3")), [], id="no number"),
        pytest.param({"spec": 7}, [], id="no set at all"),
    ],
)
def test_minimums(obj: dict[str, Any], fields: list[str], said: Said) -> None:
    assert [finding.field for finding in minimum_findings(read_template(obj))] == fields
    said(minimum_findings(read_template(obj)))


@pytest.mark.parametrize(
    ("obj", "starts"),
    [
        pytest.param(pcs(clique("kai-scheduler")), [], id="KAI"),
        pytest.param(pcs(clique(""), clique("kueue")), [], id="one scheduler and none"),
        pytest.param(
            pcs(clique("volcano"), clique("kai-scheduler")),
            ["the cliques use several schedulers (kai-scheduler, volcano)"],
            id="two schedulers",
        ),
        pytest.param(
            pcs(clique("mine")),
            [
                "spec.template.cliques[0].spec.podSpec.schedulerName: unknown scheduler"
                ' "mine". These pods are never scheduled unless a scheduler with this name runs in the cluster.'
            ],
            id="an unknown scheduler",
        ),
        pytest.param(
            pcs(clique("mine"), clique("mine")),
            ["spec.template.cliques[0].spec.podSpec.schedulerName: unknown scheduler"],
            id="an unknown scheduler of two cliques, once",
        ),
        pytest.param(
            pcs(metadata={"annotations": {"kai.scheduler/topology-required-placment": "x"}}),
            ["metadata.annotations[kai.scheduler/topology-required-placment]: unknown annotation"],
            id="an annotation of KAI",
        ),
        pytest.param(
            pcs(metadata={"labels": {"grove.io/mnnvl-scope": "replica"}}),
            ["metadata.labels[grove.io/mnnvl-scope]: has no effect as a label"],
            id="an annotation as a label",
        ),
        pytest.param(
            pcs(
                metadata={
                    "labels": {
                        "grove.io/mnnvl-scope": "replica",
                        "grove.io/mnnvl-group": "a",
                        "grove.io/mnnvl-device-class": "b",
                        "grove.io/mnnvl-enabled": "true",
                    }
                }
            ),
            [
                "metadata.labels[grove.io/mnnvl-device-class]",
                "metadata.labels[grove.io/mnnvl-enabled]",
                "metadata.labels[grove.io/mnnvl-group]",
                "metadata.labels[grove.io/mnnvl-scope]",
            ],
            id="several labels, by key",
        ),
        pytest.param(
            pcs(
                metadata={
                    "annotations": {"grove.io/mnnvl-scop": "a", "grove.io/mnnvl-enabeld": "true"}
                }
            ),
            [
                "metadata.annotations[grove.io/mnnvl-enabeld]",
                "metadata.annotations[grove.io/mnnvl-scop]",
            ],
            id="several annotations, by key",
        ),
        pytest.param(
            pcs(metadata={"annotations": {"example.com/anything": "x"}}), [], id="of strangers"
        ),
        pytest.param({"spec": {"template": {"cliques": [7, None]}}}, [], id="odd values"),
    ],
)
def test_warnings(obj: dict[str, Any], starts: list[str], said: Said) -> None:
    found = mistake_warnings(read_template(obj))
    assert len(found) == len(starts)
    assert all(text.startswith(start) for text, start in zip(found, starts, strict=True)), found
    said(found)


def test_only_the_first_of_many_unknown_names_are_compared() -> None:
    """Each comparison takes time, and a tenant can write 40,000 names into one object."""
    foreign = {f"z.example.com/a-{number}": "" for number in range(MOST_COMPARED)}
    wrong = {"grove.io/mnnvl-enabeld": "true"}
    usual = {f"example.com/a-{number}": "" for number in range(20)}

    def warned(annotations: dict[str, str], clique_annotations: dict[str, str]) -> int:
        obj = pcs(clique(), clique() | {"annotations": clique_annotations})
        obj["metadata"] = {"annotations": annotations}
        return len(mistake_warnings(read_template(obj)))

    assert warned({**wrong, **foreign}, {}) == 1
    assert warned(usual, usual | wrong) == 1, "a name counts once"
    assert warned(foreign, wrong) == 0
