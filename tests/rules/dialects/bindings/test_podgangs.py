"""Constraints of PodGangs that are not those of their set."""

from typing import Any

import pytest

from app.facts.grove.podcliqueset import read_pod_clique_set
from app.facts.grove.topology import Level
from app.facts.kai.topology import KaiTopology
from app.rules.dialects.bindings import BINDINGS
from app.rules.dialects.design import DESIGN
from tests.reviews import load
from tests.rules.dialects.around import Around

SET = read_pod_clique_set(load("grove-fcc3b3bb/podcliqueset.three-levels")["request"]["object"])
LEVELS = [Level(domain, f"topology.kubernetes.io/{domain}") for domain in ("zone", "block", "rack")]
AROUND = Around(bound={"grove-topology": [*LEVELS, Level("host", "kubernetes.io/hostname")]})


EPOCHS = "grove-616762f7"


def gang(name: str, operator: str = "grove-fcc3b3bb") -> Any:
    return load(f"{operator}/podgang.{name}")["request"]["object"]


def drifted(obj: Any, around: Around = AROUND) -> list[str]:
    return BINDINGS.drifted(obj, SET, around)


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("grove-fcc3b3bb", "create-base"),
        ("grove-fcc3b3bb", "create-scaled"),
        ("grove-fcc3b3bb", "skip-annotation-removed"),
        (EPOCHS, "create-anchor"),
        (EPOCHS, "create-tail"),
        (EPOCHS, "create-scale-out"),
    ],
)
def test_as_grove_writes_it(operator: str, name: str) -> None:
    assert drifted(gang(name, operator)) == []


ZONE = "{required: topology.kubernetes.io/zone, preferred: topology.kubernetes.io/block}"
BLOCK = "{required: topology.kubernetes.io/block, preferred: topology.kubernetes.io/rack}"
OF_PREFILL = "spec.topologyConstraintGroupConfigs[infer-0-prefill-2].topologyConstraint"


def test_edited_by_hand() -> None:
    base = gang("create-base")
    scaled = gang("create-scaled")
    del base["spec"]["podgroups"][0]["topologyConstraint"]
    scaled["spec"]["topologyConstraint"]["packConstraint"] = {"required": "x"}
    assert drifted(base) == [
        "spec.podgroups[0].topologyConstraint: is {}, but Grove would write {required: topology.kubernetes.io/rack}"
    ]
    assert drifted(scaled) == [
        f"spec.topologyConstraint: is {{required: x}}, but Grove would write {BLOCK}"
    ]


def test_a_group_edited_by_hand() -> None:
    tail = gang("create-tail", EPOCHS)
    group = tail["spec"]["topologyConstraintGroupConfigs"][0]
    group["topologyConstraint"] = {"packConstraint": {"required": "x"}}
    assert drifted(tail) == [f"{OF_PREFILL}: is {{required: x}}, but Grove would write {BLOCK}"]

    del tail["spec"]["topologyConstraintGroupConfigs"]
    assert drifted(tail) == [f"{OF_PREFILL}: is {{}}, but Grove would write {BLOCK}"]

    base = gang("create-base")
    other = {"name": "other", "topologyConstraint": {"packConstraint": {"required": "x"}}}
    base["spec"]["topologyConstraintGroupConfigs"].append(other)
    assert drifted(base) == [
        "spec.topologyConstraintGroupConfigs[other].topologyConstraint: is {required: x}, but Grove would write {}"
    ]


def test_each_podgang_is_judged_by_its_own_role() -> None:
    tail = gang("create-tail", EPOCHS)
    del tail["metadata"]["labels"]["grove.io/podgang-role"]
    assert drifted(tail) == [f"spec.topologyConstraint: is {ZONE}, but Grove would write {BLOCK}"]

    scaled = gang("create-scaled")
    scaled["metadata"]["labels"]["grove.io/podgang-role"] = "Tail"
    assert drifted(scaled) == [
        f"spec.topologyConstraint: is {BLOCK}, but Grove would write {ZONE}",
        f"{OF_PREFILL.replace('prefill-2', 'prefill-1')}: is {{}}, but Grove would write {BLOCK}",
    ]


KAI = KaiTopology("grove-topology", (*(level.key for level in LEVELS), "kubernetes.io/hostname"))


def warnings(obj: Any) -> list[str]:
    return BINDINGS.podgang_warnings(obj, Around(kai={"grove-topology": KAI}))


@pytest.mark.parametrize("name", ["create-base", "create-scaled"])
def test_kai_can_place_what_grove_writes(name: str) -> None:
    assert warnings(gang(name)) == []


def test_levels_of_a_podgang_with_which_kai_never_places_it() -> None:
    base = gang("create-base")
    spec = base["spec"]
    spec["topologyConstraint"]["packConstraint"]["required"] = "topology.kubernetes.io/rack"
    assert warnings(base) == [
        'spec.topologyConstraint.packConstraint.preferred "topology.kubernetes.io/block" is broader than the required level "topology.kubernetes.io/rack": KAI never places these pods. Remove the preferred level, or use a narrower one',
    ]

    group = spec["topologyConstraintGroupConfigs"][0]["topologyConstraint"]["packConstraint"]
    del group["preferred"]
    spec["podgroups"][1]["topologyConstraint"] = {"packConstraint": {"required": "x"}}
    assert warnings(base)[1:] == [
        'spec.topologyConstraintGroupConfigs[0].topologyConstraint.packConstraint.required "topology.kubernetes.io/block" is broader than "topology.kubernetes.io/rack", which the enclosing group requires: KAI never places these pods. Require "topology.kubernetes.io/rack" or a narrower level',
        'spec.podgroups[1].topologyConstraint.packConstraint.required "x" is not a level of KAI Topology "grove-topology", so KAI never places these pods; its levels: topology.kubernetes.io/zone, topology.kubernetes.io/block, topology.kubernetes.io/rack, kubernetes.io/hostname',
    ]

    del base["metadata"]["annotations"]["grove.io/topology-name"]
    assert len(warnings(base)) == 6
    assert DESIGN.podgang_warnings(base, AROUND) == []


def test_a_level_that_the_binding_has_no_more_is_in_no_podgang() -> None:
    around = Around(bound={"grove-topology": LEVELS[:2]})
    of_group = "spec.topologyConstraintGroupConfigs[infer-0-prefill-0].topologyConstraint"
    assert drifted(gang("create-base"), around) == [
        f"{of_group}: is {BLOCK}, but Grove would write {{required: topology.kubernetes.io/block}}",
        "spec.podgroups[0].topologyConstraint: is {required: topology.kubernetes.io/rack}, but Grove would write {}",
        "spec.podgroups[2].topologyConstraint: is {preferred: kubernetes.io/hostname}, but Grove would write {}",
    ]


def test_what_can_not_be_told() -> None:
    assert drifted(gang("create-base"), Around()) == []
    foreign = {"metadata": {"name": "other"}, "spec": {"podgroups": [{"name": "other-0-x"}, 3]}}
    assert drifted(foreign) == []
    assert drifted({"metadata": {"name": "empty"}}) == []
    assert DESIGN.drifted(gang("create-base"), SET, AROUND) == []
