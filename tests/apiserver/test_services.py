"""Where a Service is reached: Services and EndpointSlices as they are stored."""

from typing import Any

import pytest

from scripts.apiserver.admission.webhook import Services
from scripts.apiserver.storage import Storage

SERVICE = ("", "services")
SLICE = ("discovery.k8s.io", "endpointslices")
PORTS = [{"name": "https", "port": 443}, {"name": "metrics", "port": 9090}]


def storage(*slices: dict[str, Any], service: str = "hook") -> Storage:
    stored = Storage()
    metadata = {"name": service, "namespace": "home", "uid": "service"}
    stored.insert(SERVICE, {"metadata": metadata, "spec": {"ports": PORTS}})
    for number, content in enumerate(slices):
        labels = {"kubernetes.io/service-name": "hook", **content.pop("labels", {})}
        named = {
            "name": f"hook-{number}",
            "namespace": "home",
            "uid": f"{number}",
            "labels": labels,
        }
        stored.insert(SLICE, {"metadata": named, **content})
    return stored


def endpoints(
    *addresses: str, port: int = 8443, name: str = "https", ready: bool | None = True
) -> dict[str, Any]:
    conditions = {} if ready is None else {"ready": ready}
    return {
        "endpoints": [{"addresses": [address], "conditions": conditions} for address in addresses],
        "ports": [{"name": name, "port": port}],
    }


@pytest.mark.parametrize(
    ("slices", "addresses"),
    [
        pytest.param([endpoints("127.0.0.2")], ["127.0.0.2:8443"] * 2, id="one endpoint"),
        pytest.param(
            [endpoints("127.0.0.2", "127.0.0.3")],
            ["127.0.0.2:8443", "127.0.0.3:8443"],
            id="endpoints take turns",
        ),
        pytest.param(
            [endpoints("127.0.0.2"), endpoints("127.0.0.3", port=9443)],
            ["127.0.0.2:8443", "127.0.0.3:9443"],
            id="each slice has ports of its own",
        ),
        pytest.param(
            [endpoints("127.0.0.2", ready=None)],
            ["127.0.0.2:8443"] * 2,
            id="readiness that is not known",
        ),
        pytest.param(
            [endpoints("127.0.0.2", ready=False), endpoints("127.0.0.3")],
            ["127.0.0.3:8443"] * 2,
            id="an endpoint that is not ready is omitted",
        ),
    ],
)
def test_a_service_is_reached_at_a_ready_endpoint(
    slices: list[dict[str, Any]], addresses: list[str]
) -> None:
    services = Services(storage(*slices))
    assert [services.address("home", "hook", 443) for _ in range(2)] == addresses


@pytest.mark.parametrize(
    ("stored", "port", "reason"),
    [
        pytest.param(storage(service="other"), 443, 'service "hook" not found', id="no Service"),
        pytest.param(
            storage(), 444, 'no service port 444 found for service "hook"', id="no such port"
        ),
        pytest.param(
            storage(), 443, 'no endpoints available for service "hook"', id="no EndpointSlice"
        ),
        pytest.param(
            storage(endpoints("127.0.0.2", ready=False)),
            443,
            'no endpoints available for service "hook"',
            id="no ready endpoint",
        ),
        pytest.param(
            storage(endpoints("127.0.0.2", name="metrics")),
            443,
            'no endpoints available for service "hook"',
            id="endpoints of another port",
        ),
        pytest.param(
            storage({**endpoints("127.0.0.2"), "labels": {"kubernetes.io/service-name": "other"}}),
            443,
            'no endpoints available for service "hook"',
            id="endpoints of another Service",
        ),
    ],
)
def test_without_a_ready_endpoint_the_reason_is_given(
    stored: Storage, port: int, reason: str
) -> None:
    with pytest.raises(LookupError) as caught:
        Services(stored).address("home", "hook", port)
    assert caught.value.args == (reason,)
