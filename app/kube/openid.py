"""Get tokens from the OpenID Connect provider of a user in a kubeconfig, with kubernetes_asyncio.

This module is imported only for such users: the import takes a quarter of a second and 36 MiB,
because the library defines the models of all Kubernetes APIs.
"""

import base64
import json
import time
from pathlib import Path

import aiohttp
from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config.openid import OpenIDRequestor

from app.kube.authorities import trusting
from app.kube.contexts import Entry
from app.objects.shape import JsonMap, map_at, map_of, text_at


class NoToken(ValueError):
    """A provider that gives no token, or an entry of a kubeconfig without what it needs."""


class _Requestor(OpenIDRequestor):
    """A request for a new token that checks the provider's certificate.

    Without a CA in the kubeconfig, the library's own request does not check the certificate: it
    would send the refresh token and the client secret to any server that answers. With a CA, the
    library's own request fails.
    """

    def _get_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(ssl=trusting(cadata=self._ssl_ca_cert))


async def id_token(user: Entry) -> str:
    """Return the token in the kubeconfig, or a new one from the provider if it has expired.

    Raise NoToken or OSError.
    """
    config = map_at(user.content, "auth-provider", "config")
    token = text_at(config, "id-token")
    if token and _expires(token) > time.time():
        return token

    refresh = text_at(config, "refresh-token")
    if not refresh:
        raise NoToken(f"user {user.name} has no valid id-token, and no refresh-token to get one")
    requestor = _Requestor(
        text_at(config, "client-id"),
        text_at(config, "client-secret"),
        text_at(config, "idp-issuer-url"),
        _authority(user, config),
    )
    try:
        answer = map_of(await requestor.refresh_token(refresh))
    except (ConfigException, aiohttp.ClientError, TimeoutError) as error:
        raise NoToken(f"the OpenID Connect provider of user {user.name}: {error}") from error
    if not text_at(answer, "id_token"):
        raise NoToken(f"the OpenID Connect provider of user {user.name} gave no id_token")
    return text_at(answer, "id_token")


def _expires(token: str) -> float:
    """Return when a JSON Web Token expires, in seconds since 1970. Raise NoToken if it is none."""
    try:
        _, payload, _ = token.split(".")
        content = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(content.get("exp", "inf"))
    except (ValueError, TypeError, AttributeError) as error:
        raise NoToken("the id-token in the kubeconfig is not a JSON Web Token") from error


def _authority(user: Entry, config: JsonMap) -> str | None:
    """Return the CA certificates (PEM) of the provider, or None for those of the system."""
    inline = base64.b64decode(text_at(config, "idp-certificate-authority-data"))
    path = text_at(config, "idp-certificate-authority")
    file = user.folder / Path(path).expanduser() if path else None
    bundle = inline or (file.read_bytes() if file else b"")
    return bundle.decode("ascii", "ignore") or None
