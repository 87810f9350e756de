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
        pytest.param(document(terminationDelay="1s", startupType="x"), [], id="other fields"),
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


def test_known_fields_do_not_count_among_those_that_are_compared(said: Said) -> None:
    """Only so many unknown names of an object are compared with known ones."""
    worker = clique()
    others = ("name",)  # no typo of these is looked for
    worker["spec"] |= {f"x{number}": 1 for number in range(MOST_COMPARED - len(others) - 1)}
    worker["spec"] |= {"replicas": 1, "podSpec": {}, "minAvailabel": 1}
    (warning,) = unknown_field_warnings(document(worker))
    assert warning.endswith("Did you mean minAvailable?")
    worker["spec"] = {"x": 1, **worker["spec"]}
    assert unknown_field_warnings(document(worker)) == []
    said([warning])
