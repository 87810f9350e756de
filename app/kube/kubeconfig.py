"""Read the credentials of a context in a kubeconfig.

A user has a client certificate, a token, a name and password, an exec plugin, or an OpenID Connect
provider. The rules are those of kubectl:
https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
"""

import asyncio
import base64
import binascii
import contextlib
import itertools
import logging
import shlex
import ssl
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from app.base.value import Value
from app.kube.api import ClusterError, Unavailable
from app.kube.authorities import trusting
from app.kube.contexts import (
    Entry,
    Kubeconfig,
    files_of,
    has_content,
    read_kubeconfig,
    usual_files,
)
from app.kube.exec_plugin import Issued, MissingPlugin, run_plugin
from app.kube.impersonation import Headers, impersonation_headers
from app.objects.shape import map_at, maps_at, text_at

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

_UNREADABLE = (OSError, ValueError, TypeError, yaml.YAMLError)
"""The errors for a kubeconfig, or a file that it names, that can't be used."""

logger = logging.getLogger(__name__)


class Unusable(ValueError):
    """A kubeconfig without the entry or the value that is needed."""


class _User(Value):
    """The credentials of a user, as the server gets them."""

    authorization: str | None = None
    """The Authorization header, or None."""
    issued: Issued = Issued()
    """What the exec plugin printed, if the user has one."""
    token_file: str = ""
    """The path of the token's file, or ""."""


class KubeconfigCredentials:
    """The `Credentials` of one context. Call `load` before anything else."""

    host: str
    proxy: str | None
    server_hostname: str | None
    impersonation: Headers

    def __init__(self, path: Path | None, context: str | None) -> None:
        self._path = path
        self._context = context
        self._cluster = Entry("", {}, Path())
        self._entry = Entry("", {}, Path())
        self._user = _User()
        self._renewing = asyncio.Lock()

    async def load(self) -> None:
        """Read the kubeconfig, and run its exec plugin if any. Raise ClusterError if that fails."""
        try:
            await self._read()
        except _UNREADABLE as error:
            cause = " ".join(str(error).split()) or type(error).__name__
            text = f"no credentials for the cluster: {cause}"
            reason = "" if isinstance(error, MissingPlugin) else "Credentials"
            raise ClusterError(text, reason=reason) from error

    async def _read(self) -> None:
        _require_file(self._path)
        cluster, user = _entries(read_kubeconfig(self._path), self._context)
        host = str(cluster.content.get("server") or "").rstrip("/")
        if not host:
            raise Unusable(f"cluster {cluster.name} of the kubeconfig has no server")
        try:
            impersonation = impersonation_headers(user.content)
        except (TypeError, ValueError) as error:
            raise Unusable(f"user {user.name}: {error}") from error

        self._user = await _authenticated(user, cluster)
        self._cluster, self._entry = cluster, user
        self.host = host
        self.proxy = text_at(cluster.content, "proxy-url") or None
        self.server_hostname = text_at(cluster.content, "tls-server-name") or None
        self.impersonation = impersonation

    def ssl_context(self) -> ssl.SSLContext | None:
        if not self.host.startswith("https:"):
            return None
        bundle = _content(self._cluster, "certificate-authority")
        file = self._cluster.path_at("certificate-authority")
        if file and not bundle.strip():  # otherwise, Python would trust the CAs of the system
            raise OSError(f"{file} is empty")
        # certificates are ASCII, but comments may not be, and Python rejects such a text
        context = trusting(cadata=bundle.decode("ascii", "ignore") or None)
        self._load_certificate(context)
        if self._cluster.content.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        """Load the client certificate into `context`, if the user has one."""
        user, issued = self._entry, self._user.issued
        if issued.certificate:
            certificate, key = issued.certificate.encode(), issued.key.encode()
        else:
            certificate = _content(user, "client-certificate")
            key = _content(user, "client-key")
        if not certificate:
            return

        # Python loads a key only from a file
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            # without a password, Python would ask for one at the terminal if the key is encrypted
            context.load_cert_chain(file.name, password="")

    def files(self) -> Sequence[str]:
        named = (
            self._cluster.path_at("certificate-authority"),
            self._entry.path_at("client-certificate"),
            self._entry.path_at("client-key"),
            self._user.token_file,
        )
        return [*files_of(self._path), *filter(None, named)]

    async def authorization(self) -> str | None:
        expires = self._user.issued.expires
        if expires is not None and time.time() >= expires:
            await self.renew()
        return self._user.authorization

    async def renew(self) -> None:
        async with self._renewing:
            try:
                await self._read()
            except _UNREADABLE as error:
                raise Unavailable(f"credentials: {error}", reason="Credentials") from error


def _require_file(path: Path | None) -> None:
    """Raise Unusable if the kubeconfig is missing or empty."""
    if path is not None and not path.is_file():
        raise Unusable(f"the file {path} does not exist")
    if path is None and not any(Path(name).expanduser().is_file() for name in files_of(None)):
        raise Unusable(f"the kubeconfig {usual_files()} does not exist. Add --kubeconfig FILE")
    if not any(map(has_content, files_of(path))):
        advice = "" if path else ". Add --kubeconfig FILE"
        raise Unusable(f"the kubeconfig {path or usual_files()} is empty{advice}")


def _entries(kubeconfig: Kubeconfig, context: str | None) -> tuple[Entry, Entry]:
    """Return the cluster and the user of a context, or of the current context for None.

    If the context names no user, the user has no credentials. Raise Unusable if an entry is
    missing.
    """
    used = context or kubeconfig.current
    if used not in kubeconfig.contexts:
        missing = f"has no context {used}" if used else "has no current context"
        if used and not context:
            missing += ", which is its current context"
        names = ", ".join(kubeconfig.contexts)
        advice = f". Add --context NAME, one of: {names}" if names else ""
        raise Unusable(f"the kubeconfig {missing}{advice}")

    cluster = str(kubeconfig.contexts[used].get("cluster") or "")
    user = _user_name(kubeconfig, context)
    if cluster not in kubeconfig.clusters:
        named = f"cluster {cluster}, which is not in the kubeconfig" if cluster else "no cluster"
        raise Unusable(f"the context names {named}")
    if user and user not in kubeconfig.users:
        raise Unusable(f"the context names user {user}, which is not in the kubeconfig")
    return kubeconfig.clusters[cluster], kubeconfig.users.get(user, Entry("", {}, Path()))


def _user_name(kubeconfig: Kubeconfig, context: str | None) -> str:
    chosen = kubeconfig.contexts.get(context or kubeconfig.current, {})
    return str(chosen.get("user") or "")


async def _authenticated(user: Entry, cluster: Entry) -> _User:
    """Return the credentials of a user. Run the exec plugin, or ask the OpenID Connect provider.

    Raise an error in _UNREADABLE if that fails.
    """
    content = user.content
    if provider := text_at(map_at(content, "auth-provider"), "name"):
        if provider != "oidc":
            raise Unusable(
                f"user {user.name} has the auth-provider {provider}, which kubectl does not support"
                " since 1.26. Use an exec plugin, such as gke-gcloud-auth-plugin or kubelogin"
            )
        # imported here, because its import takes a quarter of a second and 36 MiB
        from app.kube.openid import id_token

        return _User(f"Bearer {await id_token(user)}")

    if map_at(content, "exec"):
        with _warn_if_slow(user.name):
            issued = await run_plugin(user, cluster)
        return _User(_bearer(issued.token), issued)

    return _with_own_token(user)


def _with_own_token(user: Entry) -> _User:
    """Return the token or password of a user. Raise OSError if the token's file can't be read."""
    content = user.content
    if token_file := user.path_at("tokenFile"):  # it may be newer than the token
        return _User(_bearer(Path(token_file).read_text()), token_file=token_file)
    if token := text_at(content, "token"):
        return _User(_bearer(token))
    if "username" in content and "password" in content:
        pair = f"{content['username']}:{content['password']}".encode()
        return _User(f"Basic {base64.b64encode(pair).decode()}")
    return _User()


def _bearer(token: str) -> str | None:
    return f"Bearer {' '.join(token.split())}" if token.strip() else None


def _content(entry: Entry, key: str) -> bytes:
    """Return the content at `<key>-data`, or else of the file at `key`, or b"" if neither is set.

    Raise Unusable or OSError if it can't be read.
    """
    inline = _decoded(entry, f"{key}-data")
    file = entry.path_at(key)
    return inline or (Path(file).read_bytes() if file else b"")


def _decoded(entry: Entry, key: str) -> bytes:
    """Return the bytes of the base64 text at `key`, or b"". Raise Unusable if it is not base64."""
    try:
        return base64.b64decode(text_at(entry.content, key))
    except binascii.Error as error:
        raise Unusable(f"{key} of {entry.name} is not base64: {error}") from error


@contextlib.contextmanager
def _warn_if_slow(user: str) -> Iterator[None]:
    """Log a warning if an exec plugin takes longer than PLUGIN_SECONDS.

    Its output, such as the URL for a login, is not shown.
    """
    text = (
        "the exec plugin of user %s has not answered for %g s. If it waits for you to log in, stop"
        " this command, log in by running kubectl get namespaces, and try again"
    )
    loop = asyncio.get_running_loop()
    warning = loop.call_later(PLUGIN_SECONDS, logger.warning, text, user, PLUGIN_SECONDS)
    try:
        yield
    finally:
        warning.cancel()


def renewal_of(path: Path | None, context: str | None) -> str:
    """Return the shell command that a person can run to renew the credentials of a context.

    For a known exec plugin, this is its login command. For another plugin, it is the plugin with
    its subcommands, because plugins usually ask people who run them to log in. Return "" if there
    is no exec plugin, as for a token or a certificate, or if the kubeconfig cannot be read.
    """
    try:
        kubeconfig = read_kubeconfig(path)
    except _UNREADABLE:
        return ""
    user = kubeconfig.users.get(_user_name(kubeconfig, context))
    plugin = map_at(user.content, "exec") if user else {}
    command = str(plugin.get("command") or "")
    if not command:
        return ""
    arguments = [str(argument) for argument in plugin.get("args") or ()]
    variables = {
        text_at(item, "name"): str(item.get("value", "")) for item in maps_at(plugin, "env")
    }
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
