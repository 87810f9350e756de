"""A real `kube-apiserver` with its `etcd` in the sandbox's place, from binaries that are on this machine.

Where `kube-controller-manager` lies beside them, it collects garbage and finalizes namespaces as in a cluster;
without it, nothing does.
"""

import asyncio
import contextlib
import csv
import os
import socket
import ssl
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

import httpx
import yaml

from app.sandbox import crd_names, kubeconfig, manifests, pki
from app.sandbox.objects.errors import ApiError
from app.sandbox.objects.objects import Object, metadata

ASSETS = "KUBEBUILDER_ASSETS"
DEFAULT_ASSETS = Path("/usr/local/kubebuilder/bin")
START_SECONDS = 120.0
REPORT_SECONDS = 5.0
STOP_SECONDS = 10.0

_NAMES = ("etcd", "kube-apiserver")
_COLLECTOR = "kube-controller-manager"
_MANAGER = "grove-admission-sandbox"


def find_binaries(environment: Mapping[str, str]) -> dict[str, Path]:
    """The binaries by name, from the folder that KUBEBUILDER_ASSETS names, else /usr/local/kubebuilder/bin.
    FileNotFoundError, which says what is missing and where it was looked for."""
    folder = Path(environment.get(ASSETS) or DEFAULT_ASSETS)
    found = {name: folder / name for name in (*_NAMES, _COLLECTOR) if os.access(folder / name, os.X_OK)}
    missing = [name for name in _NAMES if name not in found]
    if missing:
        raise FileNotFoundError(f"no {' and no '.join(missing)} in {folder} (set {ASSETS} to the folder that has them)")
    return found


class RealApiServer:
    """A Kubernetes API server of three processes on loopback, with the users, files and CRDs of `Sandbox`.

    `rules` (its namespace, service account, roles and bindings) are all that the `operator` may do; without them it may
    do everything, as the others do: RBAC is not what they are there to show. Owner references are guarded by
    OwnerReferencesPermissionEnforcement, as some distributions have it. Start takes some seconds; `report` is called
    with a line for each of its steps. Data live in a
    temporary folder and are gone at the end.
    """

    def __init__(
        self,
        *,
        binaries: Mapping[str, Path],
        port: int = 0,
        state_dir: Path,
        crds: Path | None = None,
        unserved: Collection[str] = (),
        rules: Sequence[Object] = (),
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.state_dir, self.ca_file, self.kubeconfig = state_dir, state_dir / "ca.crt", state_dir / "kubeconfig"
        self.tokens = kubeconfig.new_tokens()
        self.collects_garbage = _COLLECTOR in binaries
        self.reaches_services = False
        self.url = ""
        self._binaries, self._port, self._crds = dict(binaries), port or _free_port(), crds
        self._unserved, self._rules = tuple(unserved), list(rules)
        self._report = report
        self._data = tempfile.TemporaryDirectory(prefix="grove-admission-")
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._logs: list[IO[bytes]] = []
        self._client: httpx.AsyncClient | None = None

    async def start(self) -> None:
        """Returns once the API server is ready and serves the CRDs. RuntimeError if a process ends before that, if the
        API server is not ready in time, and if a CRD is not established."""
        self.state_dir.mkdir(parents=True, exist_ok=True)
        pair = pki.issue()
        files = pair.write(self.state_dir, "apiserver")
        self.ca_file.write_bytes(pair.ca)
        self.url = f"https://127.0.0.1:{self._port}"
        kubeconfig.write(self.kubeconfig, self.url, pair.ca, self.tokens)
        self._write_tokens()
        etcd = f"http://127.0.0.1:{_free_port()}"
        self._report(f"starting etcd and kube-apiserver, with logs in {self.state_dir}")
        await self._run("etcd", self._etcd_flags(etcd))
        flags = [*self._api_flags(etcd, *files), *await self._gates()]
        await self._run("kube-apiserver", flags)
        headers = {"Authorization": f"Bearer {self.tokens['admin']}"}
        context = ssl.create_default_context(cadata=pair.ca.decode("ascii"))
        self._client = httpx.AsyncClient(base_url=self.url, headers=headers, verify=context, timeout=30)
        await self._until_ready()
        free = [name for name in kubeconfig.USERS if name != "admin" and not (self._rules and name == "operator")]
        await self.apply([_ROLE, _binding(free)])
        definitions = manifests.definitions(self._crds)
        self._report(f"kube-apiserver is ready; applying {len(definitions)} CRDs")
        await self.apply(definitions)
        await self.apply(self._rules)
        if self.collects_garbage:
            self._report("starting kube-controller-manager")
            await self._run(_COLLECTOR, self._collector_flags())

    async def stop(self) -> None:
        """Ends the processes, the API server before its etcd."""
        if self._client is not None:
            await self._client.aclose()
        for process in reversed(self._processes.values()):
            await _end(process)
        for log in self._logs:
            log.close()
        self._data.cleanup()

    async def apply(self, objects: list[Object]) -> None:
        """Creates or updates `objects` as admin, webhooks included; what an object says of its status is stored too.
        Raises ApiError for the first that is refused, and RuntimeError for a CRD that is not established."""
        for obj in objects:
            path = await self._path(obj)
            await self._apply(path, obj)
            if "status" in obj and obj["kind"] != "CustomResourceDefinition":
                await self._apply(f"{path}/status", obj)
        for obj in objects:
            if obj["kind"] == "CustomResourceDefinition":
                await self._until_established(metadata(obj)["name"])

    async def _apply(self, path: str, obj: Object) -> None:
        parameters = {"fieldManager": _MANAGER, "force": "true"}
        headers = {"Content-Type": "application/apply-patch+yaml"}
        answer = await self._calls.patch(path, params=parameters, headers=headers, content=yaml.safe_dump(obj))
        _check(answer)

    async def _path(self, obj: Object) -> str:
        version, kind, meta = obj["apiVersion"], obj["kind"], metadata(obj)
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        resources = _check(await self._calls.get(root))["resources"]
        found = next((one for one in resources if one["kind"] == kind and "/" not in one["name"]), None)
        if found is None:
            raise ApiError(404, "NotFound", f"{version} has no {kind}")
        where = f"/namespaces/{meta.get('namespace') or 'default'}" if found["namespaced"] else ""
        return f"{root}{where}/{found['name']}/{meta['name']}"

    async def _until_established(self, name: str) -> None:
        """Waits for the CRD `name`. RuntimeError with the reason if its names are taken, or if it takes too long."""
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        reason: str | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                while reason is None:
                    crd = _check(await self._calls.get(path))
                    if crd_names.is_established(crd):
                        return
                    reason = crd_names.conflict(crd)
                    await asyncio.sleep(0.05)
        raise RuntimeError(f"CRD {name} is not established: {reason or f'nothing said why in {START_SECONDS:g} s'}")

    async def _until_ready(self) -> None:
        """Waits for /readyz, and reports every `REPORT_SECONDS` what it answers. RuntimeError if it takes too long."""
        clock = asyncio.get_running_loop().time
        begin = reported = clock()
        while (problem := await self._unready()) is not None:
            self._check_alive()
            if clock() - begin > START_SECONDS:
                raise RuntimeError(f"kube-apiserver is not ready after {START_SECONDS:g} s: {problem}")
            if clock() - reported > REPORT_SECONDS:
                reported = clock()
                self._report(f"waiting for kube-apiserver: {problem}")
            await asyncio.sleep(0.1)

    async def _unready(self) -> str | None:
        """What /readyz says is missing, or None if the API server is ready."""
        try:
            answer = await self._calls.get("/readyz")
        except httpx.TransportError as error:
            return f"it does not answer ({type(error).__name__})"
        if answer.status_code == 200:
            return None
        failed = [line for line in answer.text.splitlines() if line.startswith("[-]")]
        return ", ".join(failed) or f"/readyz answers {answer.status_code}"

    @property
    def _calls(self) -> httpx.AsyncClient:
        assert self._client is not None, "not started"
        return self._client

    # The processes.

    async def _run(self, name: str, flags: list[str]) -> None:
        log = (self.state_dir / f"{name}.log").open("wb")
        self._logs.append(log)
        self._processes[name] = await asyncio.create_subprocess_exec(
            self._binaries[name], *flags, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
        )

    def _check_alive(self) -> None:
        for name, process in self._processes.items():
            if process.returncode is not None:
                log = self.state_dir / f"{name}.log"
                last = log.read_text(errors="replace").strip().splitlines()[-1:]
                raise RuntimeError(f"{name} ended with code {process.returncode}: {' '.join(last)} (see {log})")

    def _etcd_flags(self, url: str) -> list[str]:
        return [
            f"--data-dir={self._data.name}/etcd",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls=http://127.0.0.1:{_free_port()}",
            "--unsafe-no-fsync",
        ]

    def _api_flags(self, etcd: str, certificate: Path, key: Path) -> list[str]:
        return [
            f"--etcd-servers={etcd}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--cert-dir={self._data.name}",
            f"--token-auth-file={self._data.name}/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={certificate}",
            f"--service-account-signing-key-file={key}",
            "--disable-admission-plugins=ServiceAccount",
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
            ",".join(["--runtime-config=api/all=true", *(f"{one}=false" for one in self._unserved)]),
        ]

    async def _gates(self) -> list[str]:
        """The Workload API is alpha: on, if this API server knows it."""
        asked = await asyncio.create_subprocess_exec(
            self._binaries["kube-apiserver"], "--help", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        known, _ = await asked.communicate()
        return ["--feature-gates=GenericWorkload=true"] if b"GenericWorkload=" in known else []

    def _collector_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            "--controllers=garbage-collector-controller,namespace-controller",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={_free_port()}",
            f"--cert-dir={self._data.name}",
        ]

    def _write_tokens(self) -> None:
        path = Path(self._data.name) / "tokens.csv"
        path.touch(mode=0o600)
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            for name, token in self.tokens.items():
                user = kubeconfig.USERS[name]
                rows.writerow([token, user.name, user.name, ",".join(user.groups)])


_ROLE: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "sandbox-user"},
    "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
}


def _binding(names: Iterable[str]) -> Object:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "sandbox-user"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "sandbox-user"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": kubeconfig.USERS[name].name} for name in names],
    }


def _check(answer: httpx.Response) -> Object:
    body: Object = answer.json()
    if answer.is_error:
        raise ApiError(
            answer.status_code, body.get("reason", ""), body.get("message", answer.text), body.get("details")
        )
    return body


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
