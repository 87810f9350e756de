"""Constraints of PodGangs that are not those of their set."""

from typing import Any

import pytest

from app.rules.dialects.bindings import BINDINGS
from app.rules.dialects.design import DESIGN
from app.rules.podcliqueset import read_pod_clique_set
from app.rules.topology.levels import Level
from tests.reviews import load
from tests.rules.dialects.around import Around

SET = read_pod_clique_set(load("grove-fcc3b3bb/podcliqueset.three-levels")["request"]["object"])
LEVELS = [Level(domain, f"topology.kubernetes.io/{domain}") for domain in ("zone", "block", "rack")]
AROUND = Around(bound={"grove-topology": [*LEVELS, Level("host", "kubernetes.io/hostname")]})


def gang(name: str) -> Any:
    return load(f"grove-fcc3b3bb/podgang.{name}")["request"]["object"]


def drifted(obj: Any, around: Around = AROUND) -> list[str]:
    return BINDINGS.drifted(obj["metadata"]["name"], obj, SET, around)


@pytest.mark.parametrize("name", ["create-base", "create-scaled", "skip-annotation-removed"])
def test_as_grove_writes_it(name: str) -> None:
    assert drifted(gang(name)) == []


def test_edited_by_hand() -> None:
    base = gang("create-base")
    scaled = gang("create-scaled")
    del base["spec"]["podgroups"][0]["topologyConstraint"]
    scaled["spec"]["topologyConstraint"]["packConstraint"] = {"required": "x"}
    assert drifted(base) == [
        "spec.podgroups[0].topologyConstraint: is {}, and would be {required: topology.kubernetes.io/rack}"
    ]
    assert drifted(scaled) == [
        "spec.topologyConstraint: is {required: x}, and would be {required: topology.kubernetes.io/block, preferred: "
        "topology.kubernetes.io/rack}"
    ]


def test_a_level_that_the_binding_has_no_more_is_in_no_podgang() -> None:
    around = Around(bound={"grove-topology": LEVELS[:2]})
    assert len(drifted(gang("create-base"), around)) == 2


def test_what_can_not_be_told() -> None:
    assert drifted(gang("create-base"), Around()) == []
    foreign = {"metadata": {"name": "other"}, "spec": {"podgroups": [{"name": "other-0-x"}, 3]}}
    assert drifted(foreign) == []
    assert drifted({"metadata": {"name": "empty"}}) == []
    assert DESIGN.drifted("infer-0", gang("create-base"), SET, AROUND) == []
