"""Stands in for what runs Pods in a cluster: the Deployment controller, the kubelet and the
EndpointSlice controller.

It serves a single Deployment. Each Pod is a process on this machine with the rendered command,
files and environment, an address of its own on loopback, and a token of the rendered
ServiceAccount. The port is the rendered one, so nothing on this machine may listen on port 8443 of
all addresses. IPv6 has a single address on loopback, so that there each Pod has a port of its own.
"""

import base64
import contextlib
import hashlib
import json
import os
import random
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import yaml

from app.server.listener import authority
from scripts.apiserver.processes import free_port
from tests.forks import Fork, Forks
from tests.installation.kubernetes import Kubernetes, Object
from tests.installation.repeating import repeating

NAMESPACE = "grove-system"
NAME = "grove-admission"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
TOKEN_REQUEST = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "TokenRequest",
    "spec": {"expirationSeconds": 3600},
}
NODE = "this-machine"
PERIOD = 0.2


@dataclass
class Pod:
    """One process. `template` is a hash of the Pod template that it was made from."""

    name: str
    template: str
    spec: Object
    folder: Path
    address: str
    port: int
    tools_port: int
    process: Fork
    is_ready: bool = False
    is_stopping: bool = False

    @property
    def url(self) -> str:
        return f"https://{authority(self.address, self.port)}"

    @property
    def tools_url(self) -> str:
        return f"https://{authority(self.address, self.tools_port)}"

    @property
    def text(self) -> str:
        """What the process has logged, "" before it has begun to."""
        log = self.folder / "log"
        return log.read_text() if log.exists() else ""

    def stop(self) -> None:
        if not self.is_stopping:
            self.process.send(signal.SIGTERM)
        self.is_ready = False
        self.is_stopping = True


def rebased(text: str, spec: Object, folder: Path) -> str:
    """A path in the container, as the path on this machine; any other text as it is."""
    for mount in spec["containers"][0]["volumeMounts"]:
        if text.startswith(mount["mountPath"]):
            return str(folder / mount["name"]) + text.removeprefix(mount["mountPath"])
    return text


@dataclass
class Pods:
    """The Pods of the Deployment.

    `kubernetes` is an administrator; `server` is the `cluster` of a kubeconfig. If `has_slices`,
    EndpointSlices have the addresses of those that are ready, one for each port. If `ipv6`, the
    Pods listen at all addresses, and are called at ::1.
    """

    kubernetes: Kubernetes
    server: Object
    folder: Path
    has_slices: bool
    ipv6: bool = False
    pods: list[Pod] = field(default_factory=list)
    _forks: Forks = field(default_factory=Forks)
    _count: int = 0
    _published: dict[int, list[str]] = field(default_factory=dict)

    @property
    def ready(self) -> list[Pod]:
        return [pod for pod in self.pods if pod.is_ready]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the Pods as the Deployment asks for while the block runs."""
        async with (
            httpx.AsyncClient(verify=False, timeout=2) as probe,
            repeating(lambda: self._step(probe), PERIOD),
        ):
            yield

    async def end(self) -> None:
        """Ends all processes, without grace."""
        for pod in self.pods:
            pod.process.send(signal.SIGKILL)
            await pod.process.wait()
        await self._forks.end()

    async def _step(self, probe: httpx.AsyncClient) -> None:
        await self._remove_ended()
        deployment = await self.kubernetes.find(DEPLOYMENT)
        for pod in self.pods:
            await self._refresh_secrets(pod)
            pod.is_ready = not pod.is_stopping and await _is_ready(probe, pod)
        await self._roll(deployment)
        if self.has_slices:
            await self._publish()
        if deployment is not None:
            await self._report(deployment)

    # The Deployment controller: one new Pod more than asked for, and none fewer that is ready.

    async def _roll(self, deployment: Object | None) -> None:
        replicas = deployment["spec"]["replicas"] if deployment else 0
        template = deployment["spec"]["template"] if deployment else {}
        version = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
        staying = [pod for pod in self.pods if not pod.is_stopping]
        current = [pod for pod in staying if pod.template == version]
        former = [pod for pod in staying if pod.template != version]
        while deployment and len(current) < replicas and len(current) + len(former) < replicas + 1:
            pod = await self._start(template, version)
            if pod is None:
                break
            current.append(pod)
        for pod in current[replicas:]:
            pod.stop()
        for pod in former:
            if replicas == 0 or not pod.is_ready or len(self.ready) > replicas:
                pod.stop()

    async def _report(self, deployment: Object) -> None:
        version = hashlib.sha256(
            json.dumps(deployment["spec"]["template"], sort_keys=True).encode()
        ).hexdigest()[:10]
        staying = [pod for pod in self.pods if not pod.is_stopping]
        counts = {
            "replicas": len(staying),
            "updatedReplicas": len([pod for pod in staying if pod.template == version]),
            "readyReplicas": len(self.ready),
            "availableReplicas": len(self.ready),
            "observedGeneration": deployment["metadata"]["generation"],
        }
        if {key: (deployment.get("status") or {}).get(key, 0) for key in counts} != counts:
            is_available = len(self.ready) >= deployment["spec"]["replicas"]
            status = {**counts, "conditions": _conditions(is_available)}
            await self.kubernetes.ask("PATCH", f"{DEPLOYMENT}/status", {"status": status})

    # The kubelet.

    async def _start(self, template: Object, version: str) -> Pod | None:
        """None if a ConfigMap, a Secret or the ServiceAccount is missing: a Pod waits for them."""
        self._count += 1
        spec = template["spec"]
        folder = self.folder / f"pod-{self._count}"
        if not await self._mount(spec, folder) or not await self._write_kubeconfig(spec, folder):
            return None
        name = f"{NAME}-{version}-{self._count}"
        address, port, tools_port = (
            ("::1", free_port(), free_port()) if self.ipv6 else (_address(), 8443, 8444)
        )
        await self._create(name, template, address)
        (container,) = spec["containers"]
        command = [rebased(argument, spec, folder) for argument in container["args"]]
        process = await self._forks.start(
            [*command, "--kubeconfig", str(folder / "kubeconfig")],
            {
                **_inherited(),
                **_environment(container),
                **self._listening(address, port, tools_port),
            },
            folder / "log",
        )
        self.pods.append(Pod(name, version, spec, folder, address, port, tools_port, process))
        return self.pods[-1]

    def _listening(self, address: str, port: int, tools_port: int) -> dict[str, str]:
        """The variables for what differs from a container, which has its addresses for itself."""
        if self.ipv6:
            return {
                "GROVE_ADMISSION_PORT": str(port),
                "GROVE_ADMISSION_TOOLS_PORT": str(tools_port),
            }
        return {"GROVE_ADMISSION_HOST": address}

    async def _mount(self, spec: Object, folder: Path) -> bool:
        for volume in spec["volumes"]:
            content = await self._content(volume)
            if content is None:
                return False
            _write(folder / volume["name"], content)
        return True

    async def _content(self, volume: Object) -> dict[str, bytes] | None:
        """The files of a volume; None if its ConfigMap or Secret is missing."""
        if "configMap" in volume:
            configmap = await self.kubernetes.find(
                f"{CORE}/configmaps/{volume['configMap']['name']}"
            )
            return (
                None
                if configmap is None
                else {name: text.encode() for name, text in configmap["data"].items()}
            )
        if "secret" in volume:
            secret = await self.kubernetes.find(f"{CORE}/secrets/{volume['secret']['secretName']}")
            return (
                None
                if secret is None
                else {name: base64.b64decode(text) for name, text in secret["data"].items()}
            )
        return {}

    async def _refresh_secrets(self, pod: Pod) -> None:
        for volume in pod.spec["volumes"]:
            content = await self._content(volume) if "secret" in volume else None
            if content is not None:
                _write(pod.folder / volume["name"], content)

    async def _write_kubeconfig(self, spec: Object, folder: Path) -> bool:
        path = f"{CORE}/serviceaccounts/{spec['serviceAccountName']}/token"
        code, answer = await self.kubernetes.ask("POST", path, TOKEN_REQUEST)
        if code == 404:
            return False
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": self.server}],
            "users": [{"name": "account", "user": {"token": answer["status"]["token"]}}],
            "contexts": [{"name": "pod", "context": {"cluster": "cluster", "user": "account"}}],
            "current-context": "pod",
        }
        (folder / "kubeconfig").write_text(yaml.safe_dump(content))
        return True

    async def _create(self, name: str, template: Object, address: str) -> None:
        metadata = {**template["metadata"], "name": name}
        spec = {**template["spec"], "nodeName": NODE}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        await self.kubernetes.write("POST", f"{CORE}/pods", pod)
        status = {"phase": "Running", "podIP": address}
        await self.kubernetes.write("PATCH", f"{CORE}/pods/{name}/status", {"status": status})

    async def _remove_ended(self) -> None:
        """A Pod that was told to stop is gone with its process; one that ends by itself is started
        again.
        """
        for pod in [pod for pod in self.pods if pod.process.has_ended]:
            self.pods.remove(pod)
            await self.kubernetes.delete(f"{CORE}/pods/{pod.name}")

    # The EndpointSlice controller.

    async def _publish(self) -> None:
        service = await self.kubernetes.find(f"{CORE}/services/{NAME}")
        addresses: dict[int, list[str]] = {}
        for pod in self.ready if service else ():
            addresses.setdefault(pod.port, []).append(pod.address)

        for port in addresses.keys() | self._published.keys():
            if addresses.get(port) != self._published.get(port):
                await self._write_slice(port, addresses.get(port, []))
        self._published = addresses

    async def _write_slice(self, port: int, addresses: list[str]) -> None:
        path = f"{SLICES}/{NAME}-{port}"
        if not addresses:
            await self.kubernetes.delete(path)
            return

        endpoints = [
            {"addresses": [address], "conditions": {"ready": True}} for address in addresses
        ]
        if port in self._published:
            await self.kubernetes.write("PATCH", path, {"endpoints": endpoints})
            return

        labels = {"kubernetes.io/service-name": NAME}
        content = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": f"{NAME}-{port}", "labels": labels},
            "addressType": "IPv6" if self.ipv6 else "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": "https", "port": port}],
        }
        await self.kubernetes.write("POST", SLICES, content)


def _conditions(is_available: bool) -> list[Object]:
    """The conditions that `helm --wait` reads."""
    reason = "NewReplicaSetAvailable" if is_available else "ReplicaSetUpdated"
    return [
        {"type": "Available", "status": str(is_available)},
        {"type": "Progressing", "status": "True", "reason": reason},
    ]


async def _is_ready(probe: httpx.AsyncClient, pod: Pod) -> bool:
    try:
        return (await probe.get(f"{pod.url}/readyz")).status_code == 200
    except httpx.TransportError:
        return False


def _address() -> str:
    """An address on loopback that no other Pod has, of this test or another one."""
    return f"127.{random.randrange(1, 255)}.{random.randrange(255)}.{random.randrange(1, 255)}"


def _environment(container: Object) -> dict[str, str]:
    """The variables of the container. POD_NAMESPACE is the only one that refers to a field."""
    fields = {"metadata.namespace": NAMESPACE}
    return {
        variable["name"]: variable["value"]
        if "value" in variable
        else fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        for variable in container["env"]
    }


def _inherited() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GROVE_ADMISSION", "KUBE"))
    }


def _write(folder: Path, content: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != data:
            temporary = folder / f".{name}"
            temporary.write_bytes(data)
            temporary.replace(path)
