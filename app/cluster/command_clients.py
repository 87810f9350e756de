"""Open the clients with which commands that people run call the API server."""

import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from app.kube.api import ClusterError
from app.kube.client import HttpClient
from app.kube.credentials import (
    Credentials,
    PodCredentials,
    from_kubeconfig,
    in_cluster,
    is_in_cluster,
)
from app.kube.kubeconfig import renewal_of
from app.kube.read_only import ReadOnlyClient
from app.kube.transport import Call, CallLimits
from app.objects.resource import Resource

_LOOKING = CallLimits(total=60.0, qps=200.0, burst=400)
"""The limits of commands that a person runs.

They are high, because the person waits while large lists are read.
"""


@contextlib.asynccontextmanager
async def looking_client(
    resources: Iterable[Resource],
    kubeconfig: Path | None,
    context: str | None,
    recorded: Call | None = None,
) -> AsyncIterator[HttpClient]:
    """Yield a client for a command that a person runs. Its discovery has not begun.

    Without `kubeconfig` and `context`, use the in-cluster configuration inside a Pod, and kubectl's
    current context elsewhere. If `recorded` is given, it answers the calls instead of a cluster.
    Raise ClusterError if there are no credentials.
    """
    in_pod = is_of_pod(kubeconfig, context)
    if recorded is not None:
        credentials: Credentials = PodCredentials("", Path(), Path())
    else:
        credentials = await (in_cluster() if in_pod else from_kubeconfig(kubeconfig, context))
    async with HttpClient(credentials, resources, _LOOKING) as client:
        client.call = recorded or client.call
        yield client


@contextlib.asynccontextmanager
async def reading_client(
    resources: Iterable[Resource], kubeconfig: Path | None, context: str | None
) -> AsyncIterator[ReadOnlyClient]:
    """Yield a read-only client for `resources`, with the credentials of `looking_client`.

    Its discovery (`Discovery.assume`) has finished. Raise ClusterError if that fails.
    """
    async with looking_client(resources, kubeconfig, context) as client:
        await client.discovery.assume()
        yield ReadOnlyClient(client)


def is_of_pod(kubeconfig: Path | None, context: str | None) -> bool:
    """Return whether commands with these options use the in-cluster configuration."""
    return is_in_cluster() and kubeconfig is None and context is None


def is_expired(problem: Exception | None) -> bool:
    """Return whether `problem` means that credentials are missing or not accepted."""
    return isinstance(problem, ClusterError) and (
        problem.code == 401 or problem.reason == "Credentials"
    )


def how_to_renew(problem: Exception, kubeconfig: Path | None, context: str | None) -> str:
    """Return the command that renews the credentials if `problem` is about them, otherwise "".

    Return "" also for in-cluster credentials, and if no command in the kubeconfig provides them.
    """
    if not is_expired(problem) or is_of_pod(kubeconfig, context):
        return ""
    return renewal_of(kubeconfig, context)
