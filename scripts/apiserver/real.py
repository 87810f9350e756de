"""Run a real kube-apiserver and etcd instead of the sandbox, from binaries on this machine.

If the folder also has a kube-controller-manager, it collects garbage and finalizes namespaces.
"""

import asyncio
import contextlib
import os
import ssl
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import httpx
import yaml

from scripts.apiserver import kubeconfig, manifests, pki, processes
from scripts.apiserver.objects.errors import ApiError
from scripts.apiserver.objects.objects import Object, metadata

ASSETS = "KUBEBUILDER_ASSETS"
DEFAULT_ASSETS = Path("/usr/local/kubebuilder/bin")
START_SECONDS = 120.0
REPORT_SECONDS = 5.0

_NAMES = ("etcd", "kube-apiserver")
_COLLECTOR = "kube-controller-manager"
_MANAGER = "grove-admission-sandbox"


def find_binaries(environment: Mapping[str, str]) -> dict[str, Path]:
    """Return the binaries by name, from KUBEBUILDER_ASSETS or /usr/local/kubebuilder/bin.

    Raise FileNotFoundError with the missing names and the folder.
    """
    folder = Path(environment.get(ASSETS) or DEFAULT_ASSETS)
    binaries = {
        name: folder / name for name in (*_NAMES, _COLLECTOR) if os.access(folder / name, os.X_OK)
    }
    missing = [name for name in _NAMES if name not in binaries]
    if missing:
        raise FileNotFoundError(
            f"no {' and no '.join(missing)} in {folder} (set {ASSETS} to the folder that has them)"
        )
    return binaries


class RealApiServer:
    """A real Kubernetes API server on loopback, with the users, files and CRDs of `Sandbox`.

    `rules` are a Namespace, a ServiceAccount, roles and bindings that limit the user `operator`.
    Without them, this user may do everything, like the other users. The admission plugin
    OwnerReferencesPermissionEnforcement is enabled, as in some distributions. The start takes some
    seconds, and `report` is called with a line for each step. The data is in a temporary folder,
    which is deleted at the end.
    """

    def __init__(
        self,
        *,
        binaries: Mapping[str, Path],
        host: str = "127.0.0.1",
        port: int = 0,
        state_dir: Path,
        crds: Path | None = None,
        unserved: Collection[str] = (),
        rules: Sequence[Object] = (),
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.state_dir = state_dir
        self.ca_file = state_dir / "ca.crt"
        self.kubeconfig = state_dir / "kubeconfig"
        self.tokens = kubeconfig.new_tokens()
        self.collects_garbage = _COLLECTOR in binaries
        self.serves_at_once = False
        self._binaries = dict(binaries)
        self._host = host
        self._port = port or processes.free_port()
        self._crds = crds
        self._unserved = tuple(unserved)
        self._rules = list(rules)
        self._report = report
        self._data = tempfile.TemporaryDirectory(prefix="grove-admission-")
        self._processes = processes.Processes(binaries, state_dir)
        self._pair = pki.issue()
        self.url = processes.url(host, self._port)
        self._client = _client(self.url, self.tokens["admin"], self._pair.ca)

    async def start(self) -> None:
        """Return when the API server is ready and serves the CRDs.

        Raise RuntimeError if a process ends, if the API server is not ready in time, or if a CRD
        is not established.
        """
        self.state_dir.mkdir(parents=True, exist_ok=True)
        files = self._pair.write(self.state_dir, "apiserver")
        self.ca_file.write_bytes(self._pair.ca)
        kubeconfig.write(self.kubeconfig, self.url, self._pair.ca, self.tokens)
        self._write_tokens()
        self._report(f"starting etcd and kube-apiserver, with logs in {self.state_dir}")
        await self._start_servers(files)
        await self._until_ready()

        free = kubeconfig.free_users(is_limited=bool(self._rules))
        await self.apply([_binding(sorted(free))])
        definitions = manifests.definitions(self._crds)
        self._report(f"kube-apiserver is ready; applying {len(definitions)} CRDs")
        await self.apply(definitions)
        await self.apply(self._rules)

        if self.collects_garbage:
            self._report("starting kube-controller-manager")
            await self._processes.start(
                _COLLECTOR, processes.controller_flags(self.kubeconfig, self._data.name)
            )

    async def _start_servers(self, files: tuple[Path, Path]) -> None:
        etcd = f"http://127.0.0.1:{processes.free_port()}"
        await self._processes.start("etcd", processes.etcd_flags(etcd, self._data.name))

        flags = processes.api_flags(etcd, files, self._data.name, self._unserved)
        flags += processes.address_flags(self._host, self._port)
        gates = await processes.feature_gates(self._binaries["kube-apiserver"])
        await self._processes.start("kube-apiserver", [*flags, *gates])

    async def stop(self) -> None:
        """Stop the processes, the API server before its etcd."""
        await self._client.aclose()
        await self._processes.stop()
        self._data.cleanup()

    async def apply(self, objects: list[Object]) -> list[Object]:
        """Create or update `objects` as admin, with admission. Return them as they are stored.

        If an object has a status, it is stored too. Raise ApiError for the first object that is
        rejected, and RuntimeError for a CRD that is not established. An object may be of a kind
        whose CRD comes before it.
        """
        applied = []
        waiting: list[str] = []
        for obj in objects:
            is_definition = obj["kind"] == "CustomResourceDefinition"
            if is_definition:
                waiting.append(metadata(obj)["name"])
            else:
                for name in waiting:
                    await self._until_established(name)
                waiting = []
            path = await self._path(obj)
            stored = await self._apply(path, obj)
            if "status" in obj and not is_definition:
                stored = await self._apply(f"{path}/status", obj)
            applied.append(stored)
        for name in waiting:
            await self._until_established(name)
        return applied

    async def _apply(self, path: str, obj: Object) -> Object:
        parameters = {"fieldManager": _MANAGER, "force": "true"}
        headers = {"Content-Type": "application/apply-patch+yaml"}
        return _body(
            await self._client.patch(
                path, params=parameters, headers=headers, content=yaml.safe_dump(obj)
            )
        )

    async def _path(self, obj: Object) -> str:
        version = obj["apiVersion"]
        kind = obj["kind"]
        meta = metadata(obj)
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        resources = _body(await self._client.get(root))["resources"]
        resource = next(
            (item for item in resources if item["kind"] == kind and "/" not in item["name"]), None
        )
        if resource is None:
            raise ApiError(404, "NotFound", f"{version} has no {kind}")

        namespace = (
            f"/namespaces/{meta.get('namespace') or 'default'}" if resource["namespaced"] else ""
        )

        return f"{root}{namespace}/{resource['name']}/{meta['name']}"

    async def _until_established(self, name: str) -> None:
        """Wait for the CRD `name`.

        Raise RuntimeError if its names are in use, or if it takes too long.
        """
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        reason: str | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                while reason is None:
                    status = _body(await self._client.get(path)).get("status") or {}
                    conditions = {item["type"]: item for item in status.get("conditions") or ()}
                    if _status(conditions, "Established") == "True":
                        return
                    if _status(conditions, "NamesAccepted") == "False":
                        taken = conditions["NamesAccepted"]
                        reason = f"{taken['reason']}: {taken['message']}"
                    await asyncio.sleep(0.05)

        raise RuntimeError(
            f"CRD {name} is not established: {reason or f'nothing said why in {START_SECONDS:g} s'}"
        )

    async def _until_ready(self) -> None:
        """Wait until /readyz succeeds, and report its failed checks every `REPORT_SECONDS`.

        Raise RuntimeError if it takes too long.
        """
        clock = asyncio.get_running_loop().time
        begin = reported = clock()
        while problem := await self._unready():
            self._processes.check()
            if clock() - begin > START_SECONDS:
                raise RuntimeError(
                    f"kube-apiserver is not ready after {START_SECONDS:g} s: {problem}"
                )
            if clock() - reported > REPORT_SECONDS:
                reported = clock()
                self._report(f"waiting for kube-apiserver: {problem}")
            await asyncio.sleep(0.1)

    async def _unready(self) -> str:
        """Return the failed checks of /readyz, or "" if the API server is ready."""
        try:
            response = await self._client.get("/readyz")
        except httpx.TransportError as error:
            return f"it does not answer ({type(error).__name__})"
        if response.is_success:
            return ""
        failed = [line for line in response.text.splitlines() if line.startswith("[-]")]
        return ", ".join(failed) or f"/readyz answers {response.status_code}"

    def _write_tokens(self) -> None:
        path = Path(self._data.name) / "tokens.csv"
        path.touch(mode=0o600)
        users = ((token, kubeconfig.USERS[name]) for name, token in self.tokens.items())
        rows = [
            f'{token},{user.name},{user.name},"{",".join(user.groups)}"\n' for token, user in users
        ]
        path.write_text("".join(rows))


def _client(url: str, token: str, ca: bytes) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token}"}
    context = ssl.create_default_context(cadata=ca.decode("ascii"))
    return httpx.AsyncClient(base_url=url, headers=headers, verify=context, timeout=30)


def _binding(names: Iterable[str]) -> Object:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "sandbox-user"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": name} for name in names],
    }


def _status(conditions: Mapping[str, Object], kind: str) -> str:
    return str(conditions.get(kind, {}).get("status", ""))


def _body(response: httpx.Response) -> Object:
    """Return the body of `response`. Raise ApiError if it is an error."""
    body: Object = response.json()
    if response.is_error:
        message = body.get("message", response.text)
        reason = body.get("reason", "")
        raise ApiError(response.status_code, reason, message, body.get("details"))
    return body
