"""Where the API server is and how we show who we are, read by kubernetes_asyncio from a Pod or a kubeconfig."""

import asyncio
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)
from kubernetes_asyncio.config.kube_config import list_kube_config_contexts, load_kube_config

from app.kube.api import ClusterError, Unavailable

_UNREADABLE = (ConfigException, OSError, ValueError, TypeError, AttributeError, yaml.YAMLError)


class Credentials(Protocol):
    """One API server and one identity."""

    @property
    def host(self) -> str:
        """Scheme, name and port, without a slash at the end."""
        ...

    @property
    def proxy(self) -> str | None: ...

    @property
    def server_hostname(self) -> str | None:
        """The name to check the server's certificate against, where it isn't the one in `host`."""
        ...

    def ssl_context(self) -> ssl.SSLContext | None: ...

    async def authorization(self) -> str | None:
        """The Authorization header for the next request. Tokens are read again when they have been rotated."""
        ...

    async def renew(self) -> None:
        """Called after a 401: reads tokens again, runs exec plugins again."""
        ...


@dataclass(frozen=True, slots=True)
class PlainCredentials:
    """A server that is reached without TLS or with a given context, and a fixed token or none."""

    host: str
    token: str = ""
    context: ssl.SSLContext | None = None
    proxy: str | None = None
    server_hostname: str | None = None

    def ssl_context(self) -> ssl.SSLContext | None:
        return self.context

    async def authorization(self) -> str | None:
        return f"Bearer {self.token}" if self.token else None

    async def renew(self) -> None:
        return None


class LoadedCredentials:
    """What kubernetes_asyncio has loaded; `loader` does the loading again."""

    def __init__(self, configuration: Any, loader: "_Loader") -> None:
        self._configuration = configuration
        self._loader = loader
        self._renewing = asyncio.Lock()

    @property
    def host(self) -> str:
        return str(self._configuration.host).rstrip("/")

    @property
    def proxy(self) -> str | None:
        return self._configuration.proxy or None

    @property
    def server_hostname(self) -> str | None:
        return self._configuration.tls_server_name or None

    def ssl_context(self) -> ssl.SSLContext | None:
        if not self.host.startswith("https:"):
            return None
        configuration = self._configuration
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    async def authorization(self) -> str | None:
        try:
            token = await self._configuration.get_api_key_with_prefix("BearerToken")
        except _UNREADABLE as error:
            raise Unavailable(f"credentials: {error}", reason="Credentials") from error
        if token:
            return " ".join(str(token).split())
        if self._configuration.username:
            return str(self._configuration.get_basic_auth_token())
        return None

    async def renew(self) -> None:
        async with self._renewing:
            try:
                await self._loader.load(self._configuration)
            except _UNREADABLE as error:
                raise Unavailable(f"credentials: {error}", reason="Credentials") from error


class _Loader(Protocol):
    async def load(self, configuration: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class _InCluster:
    """A Pod's service account; the token file is read again once a minute by the loader's own hook."""

    token_file: Path
    ca_file: Path

    async def load(self, configuration: Any) -> None:
        InClusterConfigLoader(str(self.token_file), str(self.ca_file)).load_and_set(configuration)


@dataclass(frozen=True, slots=True)
class _Kubeconfig:
    path: str | None
    context: str | None

    async def load(self, configuration: Any) -> None:
        if self.path is not None:
            _need_file(self.path)
        await load_kube_config(self.path, self.context, configuration, persist_config=False)


def _need_file(path: str) -> None:
    """kubernetes_asyncio only logs that there is none."""
    if not Path(path).is_file():
        raise ConfigException(f"there is no file {path}")


def is_in_cluster() -> bool:
    """Whether this is a Pod, which Kubernetes tells where its API server is."""
    return "KUBERNETES_SERVICE_HOST" in os.environ


async def in_cluster(
    token_file: Path = Path(SERVICE_TOKEN_FILENAME), ca_file: Path = Path(SERVICE_CERT_FILENAME)
) -> LoadedCredentials:
    """The credentials that Kubernetes mounts into a Pod. Raises ClusterError where there are none."""
    if not is_in_cluster():
        raise ClusterError("no credentials for the cluster: this is no Pod, so give --kubeconfig FILE")
    return await _loaded(_InCluster(token_file, ca_file))


async def from_kubeconfig(path: Path | None = None, context: str | None = None) -> LoadedCredentials:
    """The credentials of one context of a kubeconfig ($KUBECONFIG or ~/.kube/config, and its current context, unless
    told): client certificates, tokens, token files and exec plugins. Raises ClusterError where it can't be read."""
    return await _loaded(_Kubeconfig(None if path is None else str(path), context or None))


async def _loaded(loader: _Loader) -> LoadedCredentials:
    configuration = Configuration()
    try:
        await loader.load(configuration)
    except _UNREADABLE as error:
        raise ClusterError(f"no credentials for the cluster: {error}") from error
    return LoadedCredentials(configuration, loader)


def namespace_of(path: Path | None = None, context: str | None = None) -> str:
    """The namespace that kubectl would take: that of the kubeconfig's context, or else `default`."""
    try:
        contexts, active = list_kube_config_contexts(str(path) if path else None)
    except _UNREADABLE:
        return "default"
    named = next((item for item in contexts or () if item["name"] == context), active) if context else active
    return str(((named or {}).get("context") or {}).get("namespace") or "default")
