"""The API clients of commands that a person runs."""

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
from app.kube.read_only import ReadOnlyClient
from app.kube.transport import Call, CallLimits
from app.objects.resource import Resource

_LOOKING = CallLimits(total=60.0, qps=200.0, burst=400)
"""The limits of commands that a person runs.

The pages of large lists are read without pauses, because a person waits for them.
"""


@contextlib.asynccontextmanager
async def looking_client(
    resources: Iterable[Resource],
    kubeconfig: Path | None,
    context: str | None,
    recorded: Call | None = None,
) -> AsyncIterator[HttpClient]:
    """Yield a client for a command that a person runs. Its discovery has not begun.

    The default is the in-cluster configuration inside a Pod, otherwise kubectl's current context.
    With `recorded` answers, there is no cluster. Raise ClusterError if there are no credentials.
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
    """Yield a client like `looking_client`'s that can only read `resources`.

    A single call finds out which of the resources the cluster serves.
    """
    async with looking_client(resources, kubeconfig, context) as client:
        await client.discovery.assume()
        yield ReadOnlyClient(client)


def is_of_pod(kubeconfig: Path | None, context: str | None) -> bool:
    """Return whether the in-cluster configuration is used."""
    return is_in_cluster() and kubeconfig is None and context is None


def is_expired(problem: Exception | None) -> bool:
    """Return whether `problem` means that credentials are missing or not accepted."""
    return isinstance(problem, ClusterError) and (
        problem.code == 401 or problem.reason == "Credentials"
    )


def how_to_renew(problem: Exception, kubeconfig: Path | None, context: str | None) -> str:
    """Return the command that renews the credentials, or "".

    Return "" unless they are missing or not accepted, and the kubeconfig names a command.
    """
    if not is_expired(problem) or is_of_pod(kubeconfig, context):
        return ""
    # this loads kubernetes_asyncio, which a server in a Pod doesn't need
    from app.kube.kubeconfig import renewal_of

    return renewal_of(kubeconfig, context)
