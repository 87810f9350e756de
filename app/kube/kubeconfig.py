"""Read credentials from a kubeconfig with kubernetes_asyncio.

This module is imported only if a kubeconfig is read: the import costs 0.16 s and 36 MiB, because
the library defines the models of all Kubernetes APIs. A server that uses the credentials of its
Pod never imports it.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import shlex
import shutil
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from kubernetes_asyncio.client.configuration import Configuration
from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config import kube_config as reader
from kubernetes_asyncio.config.openid import OpenIDRequestor

from app.kube.api import ClusterError, Unavailable
from app.kube.authorities import trusting
from app.kube.contexts import files_of, has_content, usual_files
from app.kube.impersonation import Headers, impersonation_headers
from app.objects.shape import JsonMap, map_at, map_of

# the library raises the errors that it logs
logging.getLogger(reader.__name__).disabled = True

_LOGINS = {
    "aws": "aws sso login",
    "aws-iam-authenticator": "aws sso login",
    "gke-gcloud-auth-plugin": "gcloud auth login",
    "doctl": "doctl auth init",
    "oci": "oci session authenticate",
    "tsh": "tsh login",
}
"""The login commands for exec plugins that don't ask people to log in, by name of the plugin."""

PLUGIN_SECONDS = 5.0
"""The seconds after which users are warned that an exec plugin is slow."""

_UNREADABLE = (ConfigException, OSError, ValueError, TypeError, AttributeError, yaml.YAMLError)
"""The errors of the library, and of this module, for a kubeconfig that can't be used."""

logger = logging.getLogger(__name__)


class _Requestor(OpenIDRequestor):
    """A request for a new OpenID Connect token that checks the server's certificate.

    Without a CA in the kubeconfig (`idp-certificate-authority-data`), the library's own request
    does not check the certificate: it would send the refresh token and the client secret to any
    server that answers. With a CA, the library's own request fails.
    """

    def _get_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(ssl=trusting(cafile=self._ssl_ca_cert))


vars(reader)["OpenIDRequestor"] = _Requestor


class MissingPlugin(OSError):
    """An exec plugin is not installed, so a login would not help."""


class KubeconfigCredentials:
    """The `Credentials` of one context, such as a token or the output of an exec plugin.

    Call `load` before anything else.
    """

    def __init__(self, path: Path | None, context: str | None) -> None:
        self._path = path
        self._context = context
        self._configuration: Any = Configuration()
        self.impersonation: Headers = ()
        self._renewing = asyncio.Lock()

    async def load(self) -> None:
        """Read the kubeconfig, and run its exec plugin if any. Raise ClusterError if that fails."""
        try:
            await self._read()
        except _UNREADABLE as error:
            text = f"no credentials for the cluster: {' '.join(str(error).split())}"
            reason = "" if isinstance(error, MissingPlugin) else "Credentials"
            raise ClusterError(text, reason=reason) from error

    async def _read(self) -> None:
        _require_file(self._path)
        merged = _merged(self._path)
        _require_context(merged, self._context)
        name, user = _user_of(merged, self._context)
        _require_plugin(name, user)
        with _warn_if_slow(name, user):
            await reader.load_kube_config_from_dict(merged, self._context, self._configuration)
        try:
            # kubernetes_asyncio does not support impersonation
            self.impersonation = impersonation_headers(user)
        except (TypeError, ValueError) as error:
            raise ConfigException(f"user {name}: {error}") from error

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
        context = trusting(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def files(self) -> Sequence[str]:
        configuration = self._configuration
        kubeconfigs = files_of(self._path)
        named = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        return [*kubeconfigs, *filter(None, named)]

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
                await self._read()
            except _UNREADABLE as error:
                raise Unavailable(f"credentials: {error}", reason="Credentials") from error


def _require_file(path: Path | None) -> None:
    """Raise ConfigException if there is no kubeconfig.

    kubernetes_asyncio's own error would only name a missing key.
    """
    if path is not None and not path.is_file():
        raise ConfigException(f"the file {path} does not exist")
    if path is None and not any(Path(name).expanduser().is_file() for name in files_of(None)):
        raise ConfigException(
            f"the kubeconfig {usual_files()} does not exist. Add --kubeconfig FILE"
        )


def _require_context(merged: Any, context: str | None) -> None:
    """Raise ConfigException if the kubeconfig lacks `context`, or its current context for None.

    A kubeconfig without contexts is accepted.
    """
    contexts = _entries(merged, "context")
    used = context or _current(merged)
    if not contexts or used in contexts:
        return

    missing = f"has no context {used}" if used else "has no current context"
    if used and not context:
        missing += ", which is its current context"
    names = ", ".join(contexts)
    raise ConfigException(f"the kubeconfig {missing}. Add --context NAME, one of: {names}")


def _require_plugin(name: str, user: JsonMap) -> None:
    """Raise MissingPlugin if the exec plugin of a user is not installed."""
    plugin = map_at(user, "exec")
    command = str(plugin.get("command") or "")
    if command and shutil.which(command) is None:
        hint = " ".join(str(plugin.get("installHint") or "").split())
        text = f"{command}, the exec plugin of user {name}, is not installed or not in PATH"
        raise MissingPlugin(text + (hint and f": {hint}"))


@contextlib.contextmanager
def _warn_if_slow(name: str, user: JsonMap) -> Iterator[None]:
    """Log a warning if the exec plugin of `user` takes longer than PLUGIN_SECONDS.

    kubernetes_asyncio hides the plugin's output, such as the URL for a login.
    """
    if not user.get("exec"):
        yield
        return

    text = (
        "the exec plugin of user %s has not answered for %g s. If it waits for you to log in, stop"
        " this command, log in by running kubectl get namespaces, and try again"
    )
    loop = asyncio.get_running_loop()
    warning = loop.call_later(PLUGIN_SECONDS, logger.warning, text, name, PLUGIN_SECONDS)
    try:
        yield
    finally:
        warning.cancel()


def _entries(merged: Any, kind: str) -> dict[str, JsonMap]:
    """Return the contexts or users of a kubeconfig by name. `kind` is "context" or "user"."""
    listed = merged.safe_get(f"{kind}s") or ()
    entries = [map_of(item.value) for item in listed]
    return {str(entry.get("name")): map_at(entry, kind) for entry in entries}


def _current(merged: Any) -> str:
    return str(merged.safe_get("current-context") or "")


def _merged(path: Path | None) -> Any:
    """Return the kubeconfig as a ConfigNode of kubernetes_asyncio, which merges several files.

    As in kubectl, the first entry of a name is used, and the first `current-context` that is not
    empty. Raise ConfigException if all files are missing or empty, or if one is not a kubeconfig.
    """
    names = [name for name in files_of(path) if has_content(name)]
    if not names:
        advice = "" if path else ". Add --kubeconfig FILE"
        raise ConfigException(f"the kubeconfig {path or usual_files()} is empty{advice}")
    try:
        merger = reader.KubeConfigMerger(os.pathsep.join(names))
    except (AttributeError, LookupError, TypeError):
        raise ConfigException(f"{os.pathsep.join(names)} is not a kubeconfig") from None

    # the library uses the last `current-context`, even if it is empty
    currents = (content.get("current-context") for content in merger.config_files.values())
    merged: Any = merger.config
    if current := next(filter(None, currents), None):
        merged.value["current-context"] = current
    return merged


def renewal_of(path: Path | None, context: str | None) -> str:
    """Return the shell command that a person can run to renew the credentials of a context.

    For a known exec plugin, this is its login command. For another plugin, it is the plugin with
    its subcommands, because plugins usually ask people who run them to log in. Return "" if there
    is no exec plugin, as for a token or a certificate, or if the kubeconfig cannot be read.
    """
    try:
        _, user = _user_of(_merged(path), context)
        plugin = user["exec"]
        command = str(plugin["command"])
        arguments = [str(argument) for argument in plugin.get("args") or ()]
        variables = {item["name"]: str(item["value"]) for item in plugin.get("env") or ()}
    except (*_UNREADABLE, LookupError):
        return ""

    return _login(command, arguments, variables)


def _login(command: str, arguments: list[str], variables: dict[str, str]) -> str:
    """Return the command that renews the credentials of an exec plugin, for a shell."""
    login = _LOGINS.get(Path(command).name)
    if login is None:
        # Options are omitted: they may contain secrets.
        words = itertools.takewhile(lambda argument: not argument.startswith("-"), arguments)
        return shlex.join([command, *words])

    options = dict(itertools.pairwise(arguments))
    profile = options.get("--profile") or variables.get("AWS_PROFILE")
    if profile and login.startswith("aws "):
        login += f" --profile {shlex.quote(profile)}"

    return login


def _user_of(merged: Any, context: str | None) -> tuple[str, JsonMap]:
    """Return the name of a context's user, and the entry of this user in the kubeconfig.

    Both are empty if the context has no user. Raise ConfigException if the context names a user
    that is not in the kubeconfig.
    """
    chosen = _entries(merged, "context").get(context or _current(merged), {})
    name = str(chosen.get("user") or "")
    users = _entries(merged, "user")
    if name and name not in users:
        raise ConfigException(f"the context names user {name}, which is not in the kubeconfig")

    return name, users.get(name, {})
