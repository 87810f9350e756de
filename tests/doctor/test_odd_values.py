"""Values that no API server would store, and those that only look like what they should be."""

from typing import Any

import pytest

from tests.doctor.installation import Change, Installation, config_map, with_field

pytestmark = pytest.mark.untraced

LEASE = "Lease grove-system/grove-admission of pod-a_1"


@pytest.mark.parametrize(
    ("change", "subject", "message"),
    [
        pytest.param(
            with_field("Lease", "spec", "renewTime", value="2026-99-99T00:00:00Z"),
            "leader",
            f"{LEASE} was last renewed at 2026-99-99T00:00:00Z, and this machine's clock shows 2026-06-01T12:00:00+00:00",
            id="no time",
        ),
        pytest.param(
            with_field("Lease", "spec", "renewTime", value="2026-06-01T11:59:58"),
            "leader",
            f"{LEASE} was last renewed at 2026-06-01T11:59:58, and this machine's clock shows 2026-06-01T12:00:00+00:00",
            id="a time without a zone",
        ),
        pytest.param(
            with_field("Lease", "spec", "renewTime", value=7),
            "leader",
            f"{LEASE} has no renewTime: nothing is reconciled",
            id="a number for a time",
        ),
        pytest.param(
            with_field("Lease", "spec", value="held"),
            "leader",
            "Lease grove-system/grove-admission has no holder: nothing is reconciled",
            id="a text for a spec",
        ),
        pytest.param(
            with_field("Service", "spec", "ports", value=[443]),
            "service",
            "Service grove-system/grove-admission has no port 443, which the webhook configurations name",
            id="a number for a port of a Service",
        ),
        pytest.param(
            with_field("EndpointSlice", "endpoints", value=["10.0.0.1", {"addresses": [7]}]),
            "service",
            "Service grove-system/grove-admission has no ready endpoint",
            id="no endpoints",
        ),
        pytest.param(
            with_field("mutating", "webhooks", value={"name": "x"}),
            "webhooks",
            "MutatingWebhookConfiguration grove-admission lacks podclique.mutate.grove-admission.grove.io",
            id="a map for the webhooks",
        ),
    ],
)
async def test_an_odd_value_is_a_finding(change: Change, subject: str, message: str) -> None:
    installation = Installation()
    change(installation)
    texts = [check.message for check in await installation.findings() if check.subject == subject]
    assert [text for text in texts if text.startswith(message)], texts


@pytest.mark.parametrize("seconds", [-(2**63), -1, 2**63, 1e300, "15", None])
async def test_a_lease_that_was_just_renewed_holds_for_any_duration(seconds: Any) -> None:
    installation = Installation()
    with_field("Lease", "spec", "leaseDurationSeconds", value=seconds)(installation)
    assert [check for check in await installation.findings() if check.subject == "leader"] == []


@pytest.mark.parametrize(
    "text", ["a: &a [*a]", "kind: [", "", "a: !!int ''", "kind: X\n---\nkind: Y", 7]
)
async def test_a_configuration_of_grove_that_can_not_be_read_is_none(text: Any) -> None:
    installation = Installation()
    unreadable = Installation()
    del installation.objects["Grove"]
    unreadable.objects["Grove"] = {**config_map({}), "data": {"config.yaml": text}}
    assert await unreadable.findings() == await installation.findings()
