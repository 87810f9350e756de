"""Run the exec plugin of a user in a kubeconfig, such as `aws eks get-token`.

See https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from app.base.value import Value
from app.kube.contexts import Entry
from app.objects.shape import JsonMap, list_of, map_at, map_of, maps_at, text_at
from app.objects.time import seconds_since_1970


class MissingPlugin(OSError):
    """An exec plugin is not installed, so a login would not help."""


class PluginFailed(ValueError):
    """An exec plugin failed, or its answer or its entry in the kubeconfig is not usable."""


class Issued(Value):
    """The credentials that a plugin printed: a token, a client certificate, or both."""

    token: str = ""
    certificate: str = ""
    """The client certificate (PEM), or ""."""
    key: str = ""
    """The private key of `certificate` (PEM), or ""."""
    expires: float | None = None
    """When the credentials expire, in seconds since 1970, or None if that is not known."""


async def run_plugin(user: Entry, cluster: Entry) -> Issued:
    """Run the exec plugin of a user, and return its credentials.

    Raise MissingPlugin, PluginFailed or OSError.
    """
    plugin = map_at(user.content, "exec")
    version = text_at(plugin, "apiVersion")
    if not version:
        raise PluginFailed(f"the exec plugin of user {user.name} has no apiVersion")
    words = [_command(user), *map(str, list_of(plugin.get("args")))]
    interactive = plugin.get("interactiveMode") != "Never" and sys.stdin.isatty()
    process = await asyncio.create_subprocess_exec(
        *words,
        env=_environment(plugin, _request(plugin, cluster, interactive=interactive)),
        stdin=None if interactive else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        raise
    if process.returncode:
        said = errors.decode(errors="replace").strip()
        text = f"{words[0]}, the exec plugin of user {user.name}, failed with exit code"
        raise PluginFailed(f"{text} {process.returncode}" + (said and f": {said}"))
    return _issued(user.name, version, output)


def _command(user: Entry) -> str:
    """Return the command of a user's plugin. Raise MissingPlugin if it is not installed.

    As in kubectl, a relative path is relative to the kubeconfig, and a name is looked up in PATH.
    """
    plugin = map_at(user.content, "exec")
    command = str(plugin.get("command") or "")
    if not command:
        raise PluginFailed(f"the exec plugin of user {user.name} has no command")
    path = str(user.folder / command) if os.sep in command else command
    if shutil.which(path) is None:
        hint = " ".join(str(plugin.get("installHint") or "").split())
        text = f"{command}, the exec plugin of user {user.name}, is not installed or not in PATH"
        raise MissingPlugin(text + (hint and f": {hint}"))
    return path


def _environment(plugin: JsonMap, request: JsonMap) -> Mapping[str, str]:
    own = {text_at(item, "name"): str(item.get("value", "")) for item in maps_at(plugin, "env")}
    own.pop("", None)
    return {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(request)}


def _request(plugin: JsonMap, cluster: Entry, *, interactive: bool) -> JsonMap:
    """Return the ExecCredential that the plugin gets, with the cluster if the user wants that."""
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.get("provideClusterInfo") is True:
        spec["cluster"] = _cluster_info(cluster)
    return {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": spec}


_PASSED = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
    "disable-compression",
)
"""The fields of a cluster that a plugin gets."""
_EXTENSION = "client.authentication.k8s.io/exec"
"""The name of the extension of a cluster that is meant for plugins."""


def _cluster_info(cluster: Entry) -> JsonMap:
    content = cluster.content
    info = {key: content[key] for key in _PASSED if content.get(key)}
    extensions = maps_at(content, "extensions")
    configs = [item.get("extension") for item in extensions if item.get("name") == _EXTENSION]
    return {**info, "config": configs[0]} if configs else info


def _issued(user: str, version: str, output: bytes) -> Issued:
    """Return the credentials in the output of a plugin. Raise PluginFailed if it has none."""
    plugin = f"the exec plugin of user {user}"
    try:
        answer = map_of(json.loads(output))
    except ValueError as error:
        raise PluginFailed(f"{plugin} printed no JSON: {error}") from error
    if answer.get("apiVersion") != version:
        printed = answer.get("apiVersion") or "none"
        raise PluginFailed(f"{plugin} printed apiVersion {printed}, not {version}")
    status = map_at(answer, "status")
    issued = Issued(
        token=text_at(status, "token"),
        certificate=text_at(status, "clientCertificateData"),
        key=text_at(status, "clientKeyData"),
        expires=seconds_since_1970(status.get("expirationTimestamp")),
    )
    if bool(issued.certificate) != bool(issued.key):
        raise PluginFailed(f"{plugin} printed only one of clientCertificateData and clientKeyData")
    if not issued.token and not issued.certificate:
        raise PluginFailed(f"{plugin} printed neither a token nor a client certificate")
    return issued
