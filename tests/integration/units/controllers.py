"""Controllers of workloads and of NVIDIA's driver, as processes beside an API server.

UNIT_CONTROLLERS names a folder with their programs, which are used as they are, with the rights of
an administrator, and in its folder `crds` their CRDs. NVIDIA's controller has to find its templates
in /templates. That of training jobs takes the certificate of its webhook, which nobody calls here,
from the folder where a cluster mounts it.
"""

import asyncio
import base64
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

import yaml

from app.base.value import Value
from app.kube.api import Object
from scripts.apiserver import pki
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.processes import feature_gates, free_port

FOLDER = "UNIT_CONTROLLERS"
NVIDIA = "compute-domain-controller"
NVIDIA_NAMESPACE = "nvidia-dra-driver-gpu"
KUBERNETES = "kube-controller-manager"
LWS = "lws"
START_SECONDS = 240.0


class Row(Value):
    """A webhook of a controller: which objects it sees, and the label that they have."""

    path: str
    group: str
    version: str
    plural: str
    label: str = ""


ROWS: dict[str, tuple[Row, ...]] = {
    LWS: (
        Row("leaderworkerset-x-k8s-io-v1-leaderworkerset", "leaderworkerset.x-k8s.io", "v1", "*"),
        Row("-v1-pod", "", "v1", "pods", "leaderworkerset.sigs.k8s.io/name"),
    ),
    "jobset": (
        Row("jobset-x-k8s-io-v1alpha2-jobset", "jobset.x-k8s.io", "v1alpha2", "jobsets"),
        Row("-v1-pod", "", "v1", "pods", "jobset.sigs.k8s.io/jobset-name"),
    ),
}
CONFIGURATIONS = {LWS: "config.lws.x-k8s.io/v1alpha1", "jobset": "config.jobset.x-k8s.io/v1alpha1"}
FAST = ("--kube-api-qps=200", "--kube-api-burst=400")


class Controller:
    """A program in `folder` beside `api`, by its name."""

    def __init__(self, program: Path, api: ApiServer, folder: Path) -> None:
        self.name = program.name
        self._program = program
        self._api = api
        self._folder = folder
        self._port = free_port()
        self._pair = pki.issue()
        self._process: asyncio.subprocess.Process | None = None
        self._gates: list[str] = []

    async def start(self) -> None:
        """Return as soon as its webhooks listen, if it has some."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self.name == KUBERNETES:
            self._gates = await feature_gates(self._program)
        log = (self._folder / "log").open("ab")
        with log:
            self._process = await asyncio.create_subprocess_exec(
                self._program,
                *self._flags(),
                cwd=self._folder,
                env={**os.environ, "KUBECONFIG": str(self._api.kubeconfig)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if self.name in ROWS:
            async with asyncio.timeout(START_SECONDS):
                while not self._listens():
                    self.check()
                    await asyncio.sleep(0.1)

    async def stop(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        self.pause(signal.SIGCONT)
        self._process.kill()
        await self._process.wait()

    def pause(self, number: signal.Signals = signal.SIGSTOP) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def resume(self) -> None:
        self.pause(signal.SIGCONT)

    def check(self) -> None:
        """Fail with the end of its log if it has ended."""
        ended = self._process is not None and self._process.returncode is not None
        log = (self._folder / "log").read_text(errors="replace") if ended else ""
        assert not ended, f"{self.name} has ended: {log[-2000:]}"

    def webhooks(self, name: str) -> list[Object]:
        """Its webhook configurations, with that name."""
        return [
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": name},
                "webhooks": [self._webhook(verb, row) for row in ROWS[self.name]],
            }
            for kind, verb in (
                ("MutatingWebhookConfiguration", "mutate"),
                ("ValidatingWebhookConfiguration", "validate"),
            )
        ]

    def _webhook(self, verb: str, row: Row) -> Object:
        rule = {
            "apiGroups": [row.group],
            "apiVersions": [row.version],
            "operations": ["CREATE"] if row.label else ["CREATE", "UPDATE"],
            "resources": [row.plural],
        }
        selector = {"matchExpressions": [{"key": row.label, "operator": "Exists"}]}
        return {
            "name": f"{verb[0]}{row.plural.strip('*')}{row.label and '.pods'}.kb.io".replace(
                "..", "."
            ),
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": f"https://127.0.0.1:{self._port}/{verb}-{row.path}",
                "caBundle": base64.b64encode(self._pair.ca).decode(),
            },
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "rules": [rule],
            **({"objectSelector": selector} if row.label else {}),
        }

    def _listens(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def _flags(self) -> Sequence[str]:
        kubeconfig = self._api.kubeconfig
        if self.name in CONFIGURATIONS:
            return ("--config", str(self._configuration()))
        return {
            NVIDIA: (
                f"--kubeconfig={kubeconfig}",
                f"--namespace={NVIDIA_NAMESPACE}",
                "--pod-name=controller",
                "--image-name=registry.example/driver:1",
                "--log-verbosity-cd-daemon=0",
                *FAST,
            ),
            KUBERNETES: (
                f"--kubeconfig={kubeconfig}",
                "--controllers=job-controller,statefulset-controller,daemonset-controller,"
                f"resourceclaim-controller{',podgroup-protection-controller' if self._gates else ''}",
                *self._gates,
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--secure-port={free_port()}",
                f"--cert-dir={self._folder}",
                *FAST,
            ),
            "training-operator": (
                "--enable-scheme=pytorchjob",
                "--metrics-bind-address=0",
                f"--health-probe-bind-address=127.0.0.1:{free_port()}",
                f"--webhook-server-port={self._port}",
                *FAST,
            ),
            "mpi-operator": (f"--kubeConfig={kubeconfig}", "--lock-namespace=default", *FAST),
            "kuberay": (
                "--metrics-addr=0",
                f"--health-probe-bind-address=127.0.0.1:{free_port()}",
                "--enable-leader-election=false",
                "--qps=200",
                "--burst=400",
            ),
        }[self.name]

    def _configuration(self) -> Path:
        """The file of a program that is configured by one, with its certificate beside it."""
        certificate, key = self._pair.write(self._folder, "tls")
        assert (certificate.name, key.name) == ("tls.crt", "tls.key")
        configuration = {
            "apiVersion": CONFIGURATIONS[self.name],
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "webhook": {"host": "127.0.0.1", "port": self._port, "certDir": str(self._folder)},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{free_port()}"},
        }
        path = self._folder / "config.yaml"
        path.write_text(yaml.safe_dump(configuration))
        return path
