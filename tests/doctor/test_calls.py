"""Whether an API server can call our webhooks, as a dry run shows.

Tests `app/doctor/calls.py`.
"""

from typing import Any

import pytest

from app.doctor.calls import check_calls
from app.doctor.report import Check
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING
from app.kube.api import ClusterError, Conflict, Rejected, Unavailable
from app.objects.resource import Resource
from app.webhooks.configurations import ServiceTarget, webhook_configurations
from tests.doctor.test_mistakes import KEEPER, OFF
from tests.kube.memory.client import EVERYTHING, MemoryClient

Object = dict[str, Any]
NAME = "clustertopology.validate.grove-admission.grove.io"
TOKEN = f"{0:08x}-{'ab' * 16}"
URL = f"https://grove-admission.grove-system.svc:443/{TOKEN}/validate/clustertopology?timeout=5s"
FAILED = f'Internal error occurred: failed calling webhook "{NAME}": failed to call webhook: '
NETWORK = "Let the API servers connect to port 8443 of the Pods: look for firewalls, NetworkPolicies, a service mesh, and a Pod network that the control plane cannot reach (manifests/guide/networks.md)."
BINDINGS = {
    **{key: value for key, value in EVERYTHING.items() if key is not CLUSTER_TOPOLOGY},
    CLUSTER_TOPOLOGY_BINDING: "v1alpha1",
}


class Server:
    """An API server that answers a dry run with `error`, or accepts the object."""

    def __init__(self, error: ClusterError | None = None) -> None:
        self.error = error
        self.tried: list[tuple[Resource, Object]] = []

    async def try_create(self, resource: Resource, obj: Object) -> None:
        self.tried.append((resource, obj))
        if self.error:
            raise self.error


async def checked(
    server: Server, configurations: list[Object] | None = None, served: Any = EVERYTHING
) -> list[Check]:
    client = MemoryClient(served=served)
    stored = webhook_configurations(ServiceTarget()) if configurations is None else configurations
    return await check_calls(client, server.try_create, stored, "grove-admission")


def failed(reason: str, code: int = 500) -> Unavailable:
    return Unavailable(FAILED + reason, code=code, reason="InternalError")


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(None, id="it would be stored"),
        pytest.param(Conflict("exists", code=409, reason="AlreadyExists"), id="it exists"),
        pytest.param(
            Rejected(f'admission webhook "{NAME}" denied the request: no', code=403), id="rejected"
        ),
        pytest.param(
            Unavailable(f'admission webhook "{NAME}" denied the request: later', code=503),
            id="not judged",
        ),
    ],
)
async def test_a_dry_run_that_was_judged_shows_that_the_webhook_is_called(
    error: ClusterError | None,
) -> None:
    message = "the API server can call the webhooks: a dry run of a ClusterTopology was judged"
    assert await checked(Server(error)) == [Check("ok", message)]


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        (f'Post "{URL}": context deadline exceeded', NETWORK),
        (f'Post "{URL}": dial tcp 10.0.0.1:8443: connect: no route to host', NETWORK),
        (f'Post "{URL}": Address is not allowed', NETWORK),
        (f'Post "{URL}": EOF', NETWORK),
        (f'Post "{URL}": x509: certificate signed by unknown authority', KEEPER),
        (
            "the server has asked for the client to provide credentials",
            "If server.clientCaFile is set, let the API servers present a client certificate (app/server/README.md). Otherwise, read callers in /readyz?verbose.",
        ),
        (
            'an error on the server ("Bad Gateway") has prevented the request from succeeding',
            "Find out what answers instead of the server, such as a proxy or another Pod behind the Service.",
        ),
    ],
)
async def test_a_call_that_fails_is_a_problem_with_the_words_of_the_api_server(
    reason: str, remedy: str
) -> None:
    (check,) = await checked(Server(failed(reason)))
    assert (check.status, check.remedy) == ("problem", f"{remedy} {OFF}")
    assert check.message.startswith("the API server cannot call the webhooks: Internal error")
    assert check.message.endswith(reason.rpartition("timeout=5s")[2])
    assert TOKEN not in check.message


@pytest.mark.parametrize(
    "reason",
    [
        f'Post "{URL}": no endpoints available for service "grove-admission"',
        f'Post "{URL}": service "grove-admission" not found',
        f'Post "{URL}": no service port 443 found for service "grove-admission"',
    ],
)
async def test_what_the_checks_of_the_service_report_is_not_repeated(reason: str) -> None:
    assert await checked(Server(failed(reason))) == []


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (
            Rejected(
                'clustertopologies.grove.io is forbidden: User "bob" cannot create resource',
                code=403,
            ),
            "Run doctor as a user who may create clustertopologies.grove.io. Nothing is stored.",
        ),
        (
            Unavailable('failed calling webhook "kyverno": EOF', code=500),
            "Find out what rejects this request. Until then, doctor cannot test calls of webhooks.",
        ),
    ],
)
async def test_another_error_shows_nothing(error: ClusterError, remedy: str) -> None:
    message = f"it is not known whether the API server can call the webhooks: {error.message}"
    assert await checked(Server(error)) == [Check("unknown", message, remedy)]


async def test_the_topology_is_one_that_the_cluster_serves() -> None:
    server = Server()
    await checked(server, served=BINDINGS)
    assert [(resource, obj["metadata"]) for resource, obj in server.tried] == [
        (CLUSTER_TOPOLOGY_BINDING, {"name": "grove-admission-doctor"})
    ]


@pytest.mark.parametrize(
    ("change", "served"),
    [
        pytest.param([], EVERYTHING, id="no webhooks"),
        pytest.param(None, {}, id="no topologies"),
        pytest.param("Ignore", EVERYTHING, id="failed calls are ignored"),
    ],
)
async def test_nothing_is_sent_if_it_would_show_nothing(change: Any, served: Any) -> None:
    configurations = change
    if change == "Ignore":
        configurations = list(webhook_configurations(ServiceTarget()))
        for webhook in configurations[1]["webhooks"]:
            webhook["failurePolicy"] = "Ignore"
    server = Server()
    assert await checked(server, configurations, served) == []
    assert server.tried == []
