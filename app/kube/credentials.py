"""Find the address of the API server and the credentials for it, in a Pod or a kubeconfig."""

import os
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from app.base.mounted import read_mounted
from app.kube.api import ClusterError, Unavailable
from app.kube.authorities import trusting
from app.kube.impersonation import Headers
from app.objects.time import Clock

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_SECONDS = 60.0
"""The age, in seconds, at which a token is read again from its file."""


class Credentials(Protocol):
    """The address of an API server, and the credentials for calls to it."""

    @property
    def host(self) -> str:
        """The URL of the API server, without a slash at the end."""
        ...

    @property
    def proxy(self) -> str | None:
        """The URL of the proxy that the kubeconfig names, or None."""
        ...

    @property
    def server_hostname(self) -> str | None:
        """The name that the certificate of the server must have, or None for the name in `host`."""
        ...

    @property
    def impersonation(self) -> Headers:
        """The headers that impersonate another user, or () without impersonation."""
        ...

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return a new TLS context from the current files, or None for plain HTTP.

        Raise OSError or ValueError if a file is unusable.
        """
        ...

    def files(self) -> Sequence[str]:
        """Return the paths of the files on which `ssl_context` depends.

        After a change of one, call `renew`, then `ssl_context`.
        """
        ...

    async def authorization(self) -> str | None:
        """Return the Authorization header for the next request, or None if it needs none.

        A rotated token is read again. Raise Unavailable if the token can't be read.
        """
        ...

    async def renew(self) -> None:
        """Read the token or run the exec plugin again, after a 401 or a change of a file.

        Raise Unavailable if that fails.
        """
        ...


@dataclass(slots=True)
class PodCredentials:
    """The service account token and the CA certificate that Kubernetes mounts into a Pod.

    The token is read again every minute, because the kubelet replaces it before it expires.
    """

    host: str
    token_file: Path
    ca_file: Path
    clock: Clock = time.monotonic
    proxy: str | None = None
    server_hostname: str | None = None
    impersonation: Headers = ()
    _token: str = field(default="", repr=False)
    _read_at: float = 0.0

    def ssl_context(self) -> ssl.SSLContext | None:
        # certificates are ASCII, but comments may not be, and Python rejects such a text
        bundle = read_mounted(self.ca_file).decode("ascii", "ignore")
        if not bundle.strip():  # otherwise, Python would trust the CAs of the system
            raise OSError(f"{self.ca_file} is empty")
        try:
            return trusting(cadata=bundle)
        except ssl.SSLError as error:
            raise OSError(f"{self.ca_file} has no usable certificate: {error}") from error

    def files(self) -> Sequence[str]:
        return [str(self.ca_file)]

    async def authorization(self) -> str | None:
        if not self._token or self.clock() - self._read_at > TOKEN_SECONDS:
            await self.renew()
        return f"Bearer {self._token}"

    async def renew(self) -> None:
        """Read the token. Raise Unavailable if it is empty or can't be read."""
        try:
            token = read_mounted(self.token_file).decode().strip()
        except (OSError, ValueError) as error:
            text = f"credentials: can't read the service account token: {error}"
            raise Unavailable(text, reason="Credentials") from error
        if not token:
            raise Unavailable(f"credentials: {self.token_file} is empty", reason="Credentials")
        self._token, self._read_at = token, self.clock()


def is_in_cluster() -> bool:
    """Return whether this process runs in a Pod, where Kubernetes sets KUBERNETES_SERVICE_HOST."""
    return "KUBERNETES_SERVICE_HOST" in os.environ


async def in_cluster(directory: Path = SERVICE_ACCOUNT) -> PodCredentials:
    """Return the credentials that Kubernetes mounts into a Pod at `directory`.

    Raise ClusterError if they can't be read, or outside of a Pod.
    """
    if not is_in_cluster():
        raise ClusterError(
            "no credentials for the cluster: this process is not in a Pod. Add --kubeconfig FILE"
        )

    name = os.environ["KUBERNETES_SERVICE_HOST"]
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"https://{f'[{name}]' if ':' in name else name}:{port}"
    credentials = PodCredentials(host, directory / "token", directory / "ca.crt")
    try:
        await credentials.renew()
        credentials.ssl_context()
    except (Unavailable, OSError, ValueError) as error:
        reason = str(error).removeprefix("credentials: ")
        raise ClusterError(f"no credentials for the cluster: {reason}") from error

    return credentials


async def from_kubeconfig(path: Path | None, context: str | None) -> Credentials:
    """Return the credentials of `context` in the kubeconfig `path`.

    The default path is $KUBECONFIG or ~/.kube/config, and the default context is the current one.
    Raise ClusterError if the credentials cannot be read.
    """
    from app.kube.kubeconfig import KubeconfigCredentials

    credentials = KubeconfigCredentials(path, context or None)
    await credentials.load()
    return credentials
