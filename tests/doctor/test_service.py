"""The Service and who is ready behind it.

Tests `app/doctor/webhook_services.py`.
"""

from typing import Any

import pytest

from app.doctor.report import Check
from app.doctor.service import Endpoint, check_service, is_called
from tests.kube.memory.client import MemoryClient

Object = dict[str, Any]


def service(port: int = 443, name: str = "https") -> Object:
    metadata = {"name": "grove-admission", "namespace": "grove-system"}
    ports = [{"name": name, "port": port, "targetPort": name}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"ports": ports, "selector": {"app": "grove-admission"}},
    }


def pod(label: str = "grove-admission") -> Object:
    labels = {"app": label}
    metadata = {"name": "a", "namespace": "grove-system", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def with_pods(slice: Object, *names: str, family: str = "IPv4") -> Object:
    """The EndpointSlice of Pods, for one IP family."""
    slice["metadata"]["name"] += f"-{family.lower()}"
    for endpoint, name in zip(slice["endpoints"], names, strict=True):
        endpoint["targetRef"] = {"kind": "Pod", "name": name}
        if family == "IPv6":
            endpoint["addresses"] = [endpoint["addresses"][0].replace("10.0.0.", "fd00::")]
    return slice


def endpoints(
    *conditions: dict[str, bool] | None, service: str = "grove-admission", port: str = "https"
) -> Object:
    listed = [
        {
            "addresses": [f"10.0.0.{number}"],
            **({} if condition is None else {"conditions": condition}),
        }
        for number, condition in enumerate(conditions, 1)
    ]
    labels = {"kubernetes.io/service-name": service}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{service}-x", "namespace": "grove-system", "labels": labels},
        "ports": [{"name": port, "port": 8443}],
        "endpoints": listed,
    }


ABSENT = "Apply the manifests or the chart of this version again. If the Service has another name, set certificates.serviceName and clientConfig of the webhooks to that name."
UNREADY = "Find out why its Pods are not ready: kubectl -n grove-system logs --selector app.kubernetes.io/name=grove-admission --tail=-1 --prefix. If a Pod runs, run: kubectl -n grove-system port-forward deployment/grove-admission 8444, and then: curl -k 'https://localhost:8444/readyz?verbose'."
WHAT = "Service grove-system/grove-admission"
NOBODY = Check("problem", f"{WHAT} has no ready endpoint", UNREADY)
UNSELECTED = Check(
    "problem",
    f"{WHAT} has no ready endpoint, because no Pod has the labels app=grove-admission of its selector",
    "If the Deployment has Pods (kubectl -n grove-system get pods --show-labels), correct the selector of the Service: apply the manifests or the chart of this version again.",
)
ALONE = Check(
    "warning",
    f"{WHAT} has only 1 ready endpoint: no webhook answers while its Pod restarts",
    "Set two replicas in your overlay or the values of the chart, and run: kubectl -n grove-system scale deployment grove-admission --replicas=2",
)


@pytest.mark.parametrize(
    ("objects", "check", "ready"),
    [
        pytest.param([], Check("problem", f"{WHAT} does not exist", ABSENT), [], id="no Service"),
        pytest.param(
            [service(8443)],
            Check(
                "problem",
                f"{WHAT} has no port 443, which the webhook configurations name",
                "Run: kubectl -n grove-system delete service grove-admission. Then apply the manifests or the chart again, which create it.",
            ),
            [],
            id="another port",
        ),
        pytest.param([service(), pod()], NOBODY, [], id="no endpoints"),
        pytest.param([service()], UNSELECTED, [], id="no Pods"),
        pytest.param([service(), pod("other")], UNSELECTED, [], id="Pods with other labels"),
        pytest.param([service(), endpoints({"ready": False})], NOBODY, [], id="none ready"),
        pytest.param(
            [service(), pod(), endpoints({"ready": True}, service="other")],
            NOBODY,
            [],
            id="another Service's",
        ),
        pytest.param(
            [service(), endpoints({"ready": True}, port="metrics")],
            Check(
                "problem",
                f"{WHAT} has no ready endpoint, because its ready Pods have no port https",
                "Apply the manifests or the chart of this version again.",
            ),
            [],
            id="another port's",
        ),
        pytest.param(
            [service(), endpoints({"ready": True}, {"ready": False})],
            ALONE,
            [Endpoint("10.0.0.1", 8443)],
            id="one",
        ),
        pytest.param(
            [
                service(),
                with_pods(endpoints({"ready": True}), "a"),
                with_pods(endpoints({"ready": True}), "a", family="IPv6"),
            ],
            ALONE,
            [Endpoint("10.0.0.1", 8443, "a"), Endpoint("fd00::1", 8443, "a")],
            id="one in a dual-stack cluster",
        ),
        pytest.param(
            [
                service(),
                with_pods(endpoints({"ready": True}), "a"),
                with_pods(endpoints({"ready": True}), "a", family="again"),
            ],
            ALONE,
            [Endpoint("10.0.0.1", 8443, "a")],
            id="one that is in two slices",
        ),
        pytest.param(
            [service(), endpoints({"ready": True}, None)],
            Check("ok", f"{WHAT} has 2 ready endpoints"),
            [Endpoint("10.0.0.1", 8443), Endpoint("10.0.0.2", 8443)],
            id="two, one of which says nothing",
        ),
    ],
)
async def test_a_service(objects: list[Object], check: Check, ready: list[Endpoint]) -> None:
    assert await check_service(MemoryClient(objects), "grove-system", "grove-admission") == (
        [check],
        ready,
    )


@pytest.mark.parametrize(
    ("client_config", "called"),
    [
        ({"service": {"name": "a", "namespace": "b"}}, True),
        ({"url": "https://a"}, False),
        ({}, False),
    ],
)
def test_whether_a_service_is_called(client_config: Object, called: bool) -> None:
    assert is_called([{"webhooks": [{"name": "x", "clientConfig": client_config}]}]) is called


def test_an_ipv6_address_has_brackets() -> None:
    assert [str(Endpoint(host, 8443)) for host in ("10.0.0.1", "fd00::1", "kai.example")] == [
        "10.0.0.1:8443",
        "[fd00::1]:8443",
        "kai.example:8443",
    ]
