"""Open the client with which the server calls the API server."""

import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from app.kube.client import HttpClient
from app.kube.credentials import (
    from_kubeconfig,
    in_cluster,
)
from app.kube.transport import CallLimits
from app.objects.resource import Resource

# pydantic takes a tenth of a second, which commands that read no configuration need not spend
if TYPE_CHECKING:
    from app.config.schema import Configuration


@contextlib.asynccontextmanager
async def server_client(
    configuration: "Configuration",
    kubeconfig: Path | None,
    context: str | None,
    resources: Iterable[Resource],
) -> AsyncIterator[HttpClient]:
    """Yield the client of the server, for `resources`. Its discovery has not begun.

    Without `kubeconfig` and `context`, use the in-cluster configuration, and never kubectl's
    current context. Raise ClusterError if there are no credentials.
    """
    in_pod = kubeconfig is None and context is None
    credentials = await (in_cluster() if in_pod else from_kubeconfig(kubeconfig, context))
    async with HttpClient(credentials, resources, limits(configuration)) as client:
        yield client


def limits(configuration: "Configuration") -> CallLimits:
    """Return the limits of calls in the section `client` of `configuration`."""
    client = configuration.client
    return CallLimits(
        total=client.timeout_seconds, qps=client.queries_per_second, burst=client.burst
    )
