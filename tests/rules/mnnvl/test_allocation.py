"""Which form of claim can be allocated."""

from typing import Any

import pytest
from msgspec.structs import replace

from app.facts.grove.podcliqueset import Clique, MnnvlAnnotations, PodCliqueSet
from app.facts.grove.unit_member import UnitMember
from app.facts.identity import Place
from app.facts.kubernetes.claim import awaited_classes
from app.rules.mnnvl.claim import CliqueFacts, claim_mode, claim_warnings, unallocatable
from app.rules.mnnvl.plan import Plan
from tests.said import Said

DESIGN = "compute-domain.nvidia.com"
DRIVER = ["compute-domain-daemon.nvidia.com", "compute-domain-default-channel.nvidia.com"]


PLAN = Plan(UnitMember("ns", "pcs-0-worker", Place("pcs", "0")), "replica", DESIGN)


@pytest.mark.parametrize(
    ("configured", "classes", "mode", "warned"),
    [
        pytest.param("auto", [], "shared", False, id="no DeviceClass yet"),
        pytest.param(
            "auto", ["gpu.example.com"], "shared", True, id="only those of another driver"
        ),
        pytest.param("auto", DRIVER, "template", False, id="only NVIDIA's own"),
        pytest.param(
            "auto", [DESIGN, *DRIVER], "shared", False, id="the design's beside NVIDIA's own"
        ),
        pytest.param(
            "shared", DRIVER, "shared", True, id="shared cannot be allocated with NVIDIA's own"
        ),
        pytest.param("shared", [], "shared", False, id="shared before there is a driver"),
        pytest.param("shared", [DESIGN], "shared", False, id="shared with the design's"),
        pytest.param("template", [DESIGN], "template", False, id="template whatever exists"),
    ],
)
def test_the_form_of_a_claim(
    configured: Any, classes: list[str], mode: Any, warned: bool, said: Said
) -> None:
    assert claim_mode(configured, MnnvlAnnotations("true"), classes) == mode
    warnings = list(claim_warnings(replace(PLAN, mode=mode), 1, CliqueFacts(classes=classes)))
    assert len(warnings) == warned
    assert not warnings or warnings[0].startswith(
        'ResourceClaim "pcs-0-mnnvl-claim" cannot be allocated: DeviceClass "compute-domain.nvidia.com" does not exist.'
    )
    said(warnings)


SCOPE = "grove.io/mnnvl-scope"
TEMPLATE = "the platform team to set mnnvl.claimMode: template"


@pytest.mark.parametrize(
    ("scope", "replicas", "classes", "remedy"),
    [
        pytest.param("replica", 100, [], f"Set {SCOPE}: clique, or ask {TEMPLATE}.", id="either"),
        pytest.param("replica", 300, [DESIGN, *DRIVER], f"Ask {TEMPLATE}.", id="no narrow scope"),
        pytest.param("clique", 300, [], f"Ask {TEMPLATE}.", id="the narrowest scope"),
        pytest.param("replica", 100, [DESIGN], f"Set {SCOPE}: clique.", id="no templates"),
        pytest.param("clique", 300, [DESIGN], "Use at most 256 pods", id="neither"),
    ],
)
def test_a_claim_for_too_many_pods_has_a_remedy_that_helps(
    scope: str, replicas: int, classes: list[str], remedy: str
) -> None:
    clique = Clique("worker", 300, requests=(("nvidia.com/gpu", 8000),))
    facts = CliqueFacts(PodCliqueSet(name="pcs", cliques=(clique,)), classes)
    (warning,) = claim_warnings(replace(PLAN, scope=scope), replicas, facts)
    assert f"the other pods will stay pending. {remedy}" in warning


@pytest.mark.parametrize(
    ("claim", "names"),
    [
        pytest.param(
            {"spec": {"devices": {"requests": [{"exactly": {"deviceClassName": "a"}}]}}},
            ("a",),
            id="v1",
        ),
        pytest.param(
            {"spec": {"devices": {"requests": [{"deviceClassName": "a"}]}}}, ("a",), id="v1beta1"
        ),
        pytest.param(
            {"spec": {"devices": {"requests": [{"firstAvailable": []}, 7]}}},
            (),
            id="other requests",
        ),
        pytest.param(
            {
                "spec": {"devices": {"requests": [{"deviceClassName": "a"}]}},
                "status": {"allocation": {"devices": {}}},
            },
            (),
            id="allocated",
        ),
        pytest.param({"spec": {"numNodes": 0}}, (), id="a ComputeDomain"),
        pytest.param({}, (), id="nothing"),
    ],
)
def test_the_device_classes_that_a_claim_waits_for(
    claim: dict[str, Any], names: tuple[str, ...]
) -> None:
    assert awaited_classes(claim) == names


@pytest.mark.parametrize(
    ("classes", "name"),
    [([], ""), ([DESIGN], ""), (DRIVER, DESIGN)],
    ids=["no DeviceClass yet", "the class exists", "only NVIDIA's own"],
)
def test_a_claim_that_can_never_be_allocated(classes: list[str], name: str) -> None:
    assert unallocatable((DESIGN,), classes) == name
