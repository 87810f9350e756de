"""Clients of a cluster: for the server, and for commands that a person runs."""

import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from app import __version__
from app.facts.kinds import ALL
from app.kube.api import ClusterError, Unavailable
from app.kube.client import HttpClient
from app.kube.credentials import Credentials, from_kubeconfig, in_cluster, is_in_cluster
from app.kube.readonly import ReadOnlyClient
from app.kube.transport import CallLimits
from app.objects.resource import Resource

_USER_AGENT = f"grove-admission/{__version__}"
# pydantic takes a tenth of a second, which commands that read no configuration need not spend
if TYPE_CHECKING:
    from app.config.schema import Configuration

_READING = CallLimits(total=60.0, qps=200.0, burst=400)
"""The limits of commands that only read.

The pages of large lists are read without pauses, because a person waits for them.
"""


@contextlib.asynccontextmanager
async def api_client(
    configuration: "Configuration",
    kubeconfig: Path | None,
    context: str | None,
    resources: Iterable[Resource] = ALL,
) -> AsyncIterator[HttpClient]:
    """Yield a client of the cluster of `kubeconfig` and `context`.

    If neither is given, it is the cluster in which this Pod runs. Raise ClusterError if there are
    no credentials.
    """
    credentials = await _credentials(kubeconfig, context)
    async with HttpClient(
        credentials,
        resources,
        limits(configuration),
        user_agent=_USER_AGENT,
    ) as client:
        yield client


async def _credentials(kubeconfig: Path | None, context: str | None) -> Credentials:
    in_pod = kubeconfig is None and context is None
    return await (in_cluster() if in_pod else from_kubeconfig(kubeconfig, context))


def _is_of_pod(kubeconfig: Path | None, context: str | None) -> bool:
    """Return whether the cluster is that in which this Pod runs, which has no kubeconfig."""
    return is_in_cluster() and kubeconfig is None and context is None


def _context(kubeconfig: Path | None, context: str | None) -> str | None:
    """Return `context`, or kubectl's current one, "", if no cluster is given outside of a Pod."""
    return context if is_in_cluster() or kubeconfig is not None else context or ""


@contextlib.asynccontextmanager
async def looking_client(
    configuration: "Configuration",
    kubeconfig: Path | None,
    context: str | None,
) -> AsyncIterator[HttpClient]:
    """Yield a client like `api_client`, for a command that a person runs.

    Outside of a Pod, the default is the cluster that kubectl uses. Discovery is done when the block
    begins.
    """
    async with api_client(configuration, kubeconfig, _context(kubeconfig, context)) as client:
        await client.discovery.refresh()
        yield client


@contextlib.asynccontextmanager
async def reading_client(
    resources: Iterable[Resource],
    kubeconfig: Path | None,
    context: str | None,
) -> AsyncIterator[ReadOnlyClient]:
    """Yield a client that can only read `resources`.

    It is for a command that a person runs, and has the rights of the kubeconfig. One call finds
    which of the resources the cluster serves.
    """
    credentials = await _credentials(kubeconfig, _context(kubeconfig, context))
    async with HttpClient(credentials, resources, _READING, user_agent=_USER_AGENT) as client:
        await client.discovery.assume()
        yield ReadOnlyClient(client)


@contextlib.asynccontextmanager
async def console_client(
    resources: Iterable[Resource],
    kubeconfig: Path | None,
    context: str | None,
) -> AsyncIterator[HttpClient]:
    """Yield a client for the console, with the rights of the kubeconfig, never those of a Pod.

    The caller runs `client.discovery`, and hands out only a `ReadOnlyClient`.
    ClusterError if there are no credentials.
    """
    credentials = await from_kubeconfig(kubeconfig, context)
    user_agent = f"grove-admission-console/{__version__}"
    readable = tuple(dict.fromkeys((*resources, *ALL)))
    async with HttpClient(credentials, readable, _READING, user_agent=user_agent) as client:
        yield client


def is_expired(problem: Exception | None) -> bool:
    """Return whether `problem` is that credentials are missing or not accepted."""
    return isinstance(problem, ClusterError) and (
        problem.code == 401 or problem.reason == "Credentials"
    )


def how_to_renew(problem: Exception, kubeconfig: Path | None, context: str | None) -> str:
    """Return the command that renews the credentials.

    "" unless `problem` is that they are missing or not accepted, and the kubeconfig names a
    command.
    """
    if not is_expired(problem) or _is_of_pod(kubeconfig, context):
        return ""
    # loads kubernetes_asyncio, which a server in a Pod doesn't need
    from app.kube.kubeconfig import renewal_of

    return renewal_of(kubeconfig, context)


def other_contexts(problem: Exception, kubeconfig: Path | None, context: str | None) -> str:
    """Return which context was asked and which others there are, if its server does not answer."""
    is_silent = isinstance(problem, Unavailable) and not is_expired(problem)
    if not is_silent or _is_of_pod(kubeconfig, context):
        return ""
    # loads kubernetes_asyncio, which a server in a Pod doesn't need
    from app.kube.kubeconfig import contexts_of

    asked, others = contexts_of(kubeconfig, context)
    return f"the context is {asked}; for another, --context: {', '.join(others)}" if others else ""


def limits(configuration: "Configuration") -> CallLimits:
    """Return the limits of one client."""
    client = configuration.client
    return CallLimits(
        total=client.timeout_seconds, qps=client.queries_per_second, burst=client.burst
    )
