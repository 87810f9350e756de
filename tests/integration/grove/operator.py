"""Grove's operator as a process beside an API server: its configuration, its certificate and its
webhooks.
"""

import asyncio
import base64
import contextlib
import os
from pathlib import Path

import httpx
import yaml

from app.kube.api import NotFound, Object, ObjectRef
from app.kube.client import HttpClient
from app.objects.resource import MUTATING_WEBHOOKS, SECRET, VALIDATING_WEBHOOKS, Resource
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.processes import free_port

NAMESPACE = "grove-system"
SECRET_NAME = "grove-webhook-server-cert"
START_SECONDS = 240.0
FILES = ("ca.crt", "tls.crt", "tls.key")


class GroveOperator:
    """The program is used as it is, under the name of its account and with the rights of an
    administrator. `today` is whether the cluster has ClusterTopologyBindings. If it has not, the
    operator gets `levels` (domain and key) in its configuration.
    """

    def __init__(
        self,
        program: Path,
        api: ApiServer,
        admin: HttpClient,
        folder: Path,
        *,
        today: bool,
        levels: list[Object],
    ) -> None:
        self._program = program
        self._api = api
        self._admin = admin
        self._folder = folder
        self._today = today
        self._ports = {name: free_port() for name in ("webhooks", "healthProbes", "metrics")}
        self._levels = levels
        self._process: asyncio.subprocess.Process | None = None

    async def prepare(self) -> None:
        """Registers its webhooks.

        The first start makes its certificate, and ends. What a former release has left of both is
        replaced.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "certificates").mkdir()
        (self._folder / "namespace").write_text(NAMESPACE)
        (self._folder / "config.yaml").write_text(yaml.safe_dump(self._configuration()))
        kubeconfig = yaml.safe_load(self._api.kubeconfig.read_text())
        (self._folder / "kubeconfig").write_text(
            yaml.safe_dump({**kubeconfig, "current-context": "grove"})
        )
        with contextlib.suppress(NotFound):
            await self._admin.delete(ObjectRef(SECRET, SECRET_NAME, NAMESPACE))
        metadata = {"name": SECRET_NAME, "namespace": NAMESPACE}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await self._api.apply([namespace, secret, *self._webhooks()])
        await self._spawn()
        await self.ended()
        data = (await self._admin.get(ObjectRef(SECRET, SECRET_NAME, NAMESPACE)))["data"]
        for name in FILES:
            (self._folder / "certificates" / name).write_bytes(base64.b64decode(data[name]))

    async def start(self) -> None:
        """Returns as soon as its webhooks answer, and the API server trusts them."""
        await self._spawn()
        async with asyncio.timeout(START_SECONDS):
            while not await self._is_ready():
                assert self.is_running, f"Grove's operator has ended: {self.log[-2000:]}"
                await asyncio.sleep(0.1)

    async def stop(self) -> None:
        if self._process is not None and self.is_running:
            self._process.terminate()
            await self._process.wait()

    async def restart(self) -> None:
        """Stops it and starts it, without waiting: it may not come up."""
        await self.stop()
        await self._spawn()

    async def ended(self) -> int:
        """The exit code, once it has ended by itself."""
        assert self._process is not None
        async with asyncio.timeout(START_SECONDS):
            return await self._process.wait()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def webhooks(self) -> str:
        """The URL below which its webhooks are."""
        return f"https://localhost:{self._ports['webhooks']}/webhooks"

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text()

    async def _spawn(self) -> None:
        environment = {
            **os.environ,
            "KUBECONFIG": str(self._folder / "kubeconfig"),
            "GROVE_INIT_CONTAINER_IMAGE": "grove-initc",
            "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME": "grove-operator",
        }
        with (self._folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(self._program, "--config", str(self._folder / "config.yaml")),
                cwd=self._folder,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def _is_ready(self) -> bool:
        """Whether it is ready, and all of its webhooks have its CA."""
        with contextlib.suppress(httpx.TransportError, NotFound):
            async with httpx.AsyncClient() as probe:
                answer = await probe.get(f"http://127.0.0.1:{self._ports['healthProbes']}/readyz")
            if answer.status_code != 200:
                return False
            stored = [
                await self._admin.get(ObjectRef(resource, name))
                for resource, name, _, _ in self._rows()
            ]
            return all(
                "caBundle" in webhook["clientConfig"]
                for obj in stored
                for webhook in obj["webhooks"]
            )
        return False

    def _configuration(self) -> Object:
        server = {
            name: {"port": port, "bindAddress": "127.0.0.1"} for name, port in self._ports.items()
        }
        server["webhooks"]["serverCertDir"] = str(self._folder / "certificates")
        configuration: Object = {
            "apiVersion": "operator.config.grove.io/v1alpha1",
            "kind": "OperatorConfiguration",
            "runtimeClientConnection": {"qps": 100, "burst": 150},
            "leaderElection": {"enabled": False},
            "server": server,
            "controllers": {
                name: {"concurrentSyncs": 3}
                for name in ("podCliqueSet", "podClique", "podCliqueScalingGroup")
            },
            "logLevel": "info",
            "logFormat": "json",
            "topologyAwareScheduling": {"enabled": True},
        }
        if not self._today:
            configuration["topologyAwareScheduling"]["levels"] = self._levels
            return configuration
        server["webhooks"] |= {"secretName": SECRET_NAME, "certProvisionMode": "auto"}
        profiles = [{"name": "default-scheduler"}, {"name": "kai-scheduler"}]
        configuration["scheduler"] = {"defaultProfileName": "kai-scheduler", "profiles": profiles}
        configuration["network"] = {"autoMNNVLEnabled": True}
        return configuration

    def _rows(self) -> list[tuple[Resource, str, str, str]]:
        """Resource of the configuration, its name, the path, and what the webhook judges."""
        rows = [
            (
                MUTATING_WEBHOOKS,
                "podcliqueset-defaulting-webhook",
                "default-podcliqueset",
                "podcliquesets",
            ),
            (
                VALIDATING_WEBHOOKS,
                "podcliqueset-validating-webhook",
                "validate-podcliqueset",
                "podcliquesets",
            ),
        ]
        if self._today:
            name = "clustertopology-validating-webhook"
            path = "validate-clustertopology"
            rows.append((VALIDATING_WEBHOOKS, name, path, "clustertopologybindings"))
        return rows

    def _webhooks(self) -> list[Object]:
        return [
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": resource.kind,
                "metadata": {"name": name},
                "webhooks": [
                    {
                        "name": f"{path}.grove.example",
                        "admissionReviewVersions": ["v1"],
                        "clientConfig": {"url": f"{self.webhooks}/{path}"},
                        "failurePolicy": "Fail",
                        "sideEffects": "None",
                        "rules": [
                            {
                                "apiGroups": ["grove.io"],
                                "apiVersions": ["v1alpha1"],
                                "operations": ["CREATE", "UPDATE"],
                                "resources": [plural],
                            }
                        ],
                    }
                ],
            }
            for resource, name, path, plural in self._rows()
        ]
