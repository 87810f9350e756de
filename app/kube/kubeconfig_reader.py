"""The reader of kubeconfigs of kubernetes_asyncio, without the rest of that library.

To import any part of kubernetes_asyncio, Python first runs the two packages above it. They import
the models of all Kubernetes APIs: 890 modules, 35 MiB and 0.2 s for each command that reads a
kubeconfig. So both packages are made here without running them, with only what the reader needs.
"""

import importlib.util
import sys
from types import ModuleType
from typing import Any

from app.kube.authorities import trusting
from app.kube.http_library import aiohttp

_LIBRARY = "kubernetes_asyncio"
_CLIENT = "kubernetes_asyncio.client"


def _import_package(name: str) -> ModuleType:
    """Return a package whose modules can be imported, and whose own file did not run."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    return package


def _import_reader() -> Any:
    if _LIBRARY not in sys.modules:
        _import_package(_LIBRARY)
        client: Any = _import_package(_CLIENT)
        from kubernetes_asyncio.client.configuration import Configuration

        client.Configuration = Configuration
        client.ApiClient = object  # only functions that nobody calls use it
    from kubernetes_asyncio.config import kube_config

    return kube_config


reader = _import_reader()
"""The module `kubernetes_asyncio.config.kube_config`."""


class _Requestor(reader.OpenIDRequestor):  # type: ignore[misc, name-defined]
    """A request for a new token of OpenID Connect, to a server whose certificate is checked.

    The library checks it only if the kubeconfig has a CA (`idp-certificate-authority-data`), and
    then it fails. So the refresh token and the secret of the client would go to whoever answers.
    """

    def _get_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(ssl=trusting(cafile=self._ssl_ca_cert))


reader.OpenIDRequestor = _Requestor
