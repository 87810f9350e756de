"""A cluster as an administrator has it: an API server, kubectl, somebody who runs Pods, and the
manifests of this repository in a folder of their own, where they can be edited.
"""

import asyncio
import base64
import contextlib
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import yaml

from app.server.listener import authority
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.sandbox import Sandbox
from tests.installation.balancer import Balancer
from tests.installation.kubernetes import Kubernetes, Object
from tests.installation.pods import NAME, NAMESPACE, Pods, rebased
from tests.installation.readme import ROOT
from tests.rendered import MANIFESTS, documents

T = TypeVar("T")

PATIENCE = 240.0
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = tuple(
    f"{ADMISSION}/{kind}webhookconfigurations/{NAME}" for kind in ("mutating", "validating")
)
_IN_POD = re.compile(rf"kubectl -n {NAMESPACE} exec deployment/{NAME} -- {NAME} (.+)")
_NOT_OURS = ("events", "componentstatuses", "flowschemas", "prioritylevelconfigurations")


class Cluster:
    """`admin`, `grove` (Grove's operator) and `user` are clients.

    `url` is where a real API server finds the Service, "" if it finds it itself.
    """

    def __init__(self, api: ApiServer, folder: Path) -> None:
        self.api = api
        self.folder = folder
        self.admin, self.grove, self.user = (
            Kubernetes(api, name) for name in ("admin", "grove", "user")
        )
        bundle = base64.b64encode(api.ca_file.read_bytes()).decode()
        server = {"server": api.url, "certificate-authority-data": bundle}
        self.host = urlsplit(api.url).hostname or ""
        is_ipv6 = ":" in self.host
        self.pods = Pods(self.admin, server, folder, isinstance(api, Sandbox), is_ipv6)
        self.url = ""

    def configure(self, configuration: str) -> None:
        """Writes `manifests/base/config.yaml`."""
        (self.folder / "manifests/base/config.yaml").write_text(configuration)

    async def run(self, *commands: str, overlay: str = "self-managed") -> None:
        """Runs commands of a README.

        Of images nothing is built, and what is executed in a Pod runs beside it.
        """
        for command in commands:
            in_pod = _IN_POD.fullmatch(command)
            if in_pod:
                await self._run_in_pod(shlex.split(in_pod[1]))
            elif not command.startswith("docker "):
                await self._run(command.replace("overlays/self-managed", f"overlays/{overlay}"))

    async def _run(self, command: str) -> None:
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.api.kubeconfig),
            "HOME": str(self.folder),
        }
        process = await asyncio.create_subprocess_shell(
            command,
            cwd=self.folder,
            env=environment,
            start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = await self._finished(process)
        assert process.returncode == 0, f"$ {command}\n{output}\n{self.logs()}"

    async def _run_in_pod(self, arguments: list[str]) -> None:
        pod = self.pods.ready[0]
        command = [rebased(argument, pod.spec, pod.folder) for argument in arguments]
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "app",
                *command,
                "--kubeconfig",
                str(pod.folder / "kubeconfig"),
            ),
            cwd=ROOT,
            start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = await self._finished(process)
        assert process.returncode == 0, f"$ {' '.join(arguments)}\n{output}"

    async def _finished(self, process: asyncio.subprocess.Process) -> str:
        """The output of a process and its children, which are ended after a minute."""
        try:
            async with asyncio.timeout(PATIENCE):
                output, _ = await process.communicate()
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = await process.communicate()
        return output.decode()

    def logs(self) -> str:
        """What all Pods have logged, for messages of failed tests."""
        return "\n".join(f"--- {pod.name}\n{pod.text}" for pod in self.pods.pods)

    async def until(
        self, look: Callable[[], Awaitable[T]], expected: Callable[[T], object] = bool
    ) -> T:
        """What `look` returns as soon as it is as `expected`.

        Fails after a minute, with the last of it.
        """
        last: T | None = None
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    last = await look()
                    if expected(last):
                        return last
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise AssertionError(
                f"not within {PATIENCE:g} s; last seen: {last!r}\n{self.logs()}"
            ) from None

    async def everything(self) -> set[tuple[str, str, str]]:
        """Resource, namespace and name of all stored objects, without events and what API servers
        make at start.
        """
        objects: set[tuple[str, str, str]] = set()
        for root in await self._roots():
            for resource in (await self.admin.get(root))["resources"]:
                if "list" not in resource["verbs"] or resource["name"] in _NOT_OURS:
                    continue
                for item in (await self.admin.get(f"{root}/{resource['name']}"))["items"]:
                    metadata = item["metadata"]
                    if "kubernetes.io/bootstrapping" not in (metadata.get("labels") or {}):
                        objects.add(
                            (resource["name"], metadata.get("namespace", ""), metadata["name"])
                        )
        return objects

    async def _roots(self) -> list[str]:
        groups = (await self.admin.get("/apis"))["groups"]
        return [
            "/api/v1",
            *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups),
        ]

    def addressed(self, objects: list[Object]) -> list[Object]:
        """Objects in which webhooks are called at `url`, if there is one, in place of their
        Service.
        """
        for client in (
            webhook["clientConfig"] for obj in objects for webhook in obj.get("webhooks", ())
        ):
            if self.url:
                client["url"] = self.url + client.pop("service").get("path", "")
        return objects


@contextlib.asynccontextmanager
async def cluster_of(api: ApiServer, folder: Path) -> AsyncIterator[Cluster]:
    """A cluster with the manifests and nothing installed. `api` has been started."""
    cluster = Cluster(api, folder)
    balancer = Balancer(lambda: cluster.pods.ready, cluster.host)
    shutil.copytree(MANIFESTS, folder / "manifests")
    is_real = not isinstance(api, Sandbox)
    if is_real:
        await balancer.start()
        cluster.url = f"https://{authority(cluster.host, balancer.port)}"
        _readdress(cluster, folder / "manifests/base/webhooks.yaml")
    try:
        async with cluster.pods.running():
            yield cluster
    finally:
        await cluster.pods.end()
        if is_real:
            await balancer.stop()
        for client in (cluster.admin, cluster.grove, cluster.user):
            await client.close()


def _readdress(cluster: Cluster, file: Path) -> None:
    objects = cluster.addressed(documents(file.read_text()))
    file.write_text(yaml.safe_dump_all(objects, sort_keys=False))
