"""Which form of claim can be allocated."""

from typing import Any

import pytest

from app.rules.mnnvl.allocation import allocation_warning, claim_mode

DESIGN = "compute-domain.nvidia.com"
DRIVER = ["compute-domain-daemon.nvidia.com", "compute-domain-default-channel.nvidia.com"]


@pytest.mark.parametrize(
    ("configured", "classes", "mode", "warned"),
    [
        pytest.param("auto", [], "shared", False, id="no DeviceClass yet"),
        pytest.param("auto", ["gpu.example.com"], "shared", True, id="only those of another driver"),
        pytest.param("auto", DRIVER, "template", False, id="only NVIDIA's own"),
        pytest.param("auto", [DESIGN, *DRIVER], "shared", False, id="the design's beside NVIDIA's own"),
        pytest.param("shared", DRIVER, "shared", True, id="shared cannot be allocated with NVIDIA's own"),
        pytest.param("shared", [], "shared", False, id="shared before there is a driver"),
        pytest.param("shared", [DESIGN], "shared", False, id="shared with the design's"),
        pytest.param("template", [DESIGN], "template", False, id="template whatever exists"),
    ],
)
def test_the_form_of_a_claim(configured: Any, classes: list[str], mode: Any, warned: bool) -> None:
    assert claim_mode(configured, DESIGN, classes) == mode
    warning = allocation_warning(mode, "pcs-0-mnnvl-claim", DESIGN, classes)
    assert (warning is not None) is warned
    assert warning is None or warning.startswith(
        'ResourceClaim "pcs-0-mnnvl-claim" cannot be allocated: DeviceClass "compute-domain.nvidia.com" does not exist.'
    )
