"""Run etcd, kube-apiserver and kube-controller-manager on this machine."""

import asyncio
import socket
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from secrets import randbelow
from typing import IO

from msgspec import Struct

STOP_SECONDS = 10.0

FIRST_PORT = 10_000
FIRST_OUTGOING_PORT = 32_768
"""The first port that Linux uses for outgoing connections by default."""


class Processes(Struct):
    """Running processes by name, each with a log file in `log_folder`."""

    binaries: Mapping[str, Path]
    log_folder: Path
    running: dict[str, asyncio.subprocess.Process] = {}
    _logs: list[IO[bytes]] = []

    async def start(self, name: str, flags: list[str]) -> None:
        log = (self.log_folder / f"{name}.log").open("wb")
        self._logs.append(log)
        self.running[name] = await asyncio.create_subprocess_exec(
            self.binaries[name], *flags, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
        )

    def check(self) -> None:
        """Raise RuntimeError with the last line of its log if a process has ended."""
        for name, process in self.running.items():
            if process.returncode is not None:
                log = self.log_folder / f"{name}.log"
                line = log.read_text(errors="replace").strip().splitlines()[-1:]
                raise RuntimeError(
                    f"{name} ended with code {process.returncode}: {' '.join(line)} (see {log})"
                )

    async def stop(self) -> None:
        """End the processes, the last one first."""
        for process in reversed(self.running.values()):
            await _end(process)
        for log in self._logs:
            log.close()


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


def etcd_flags(url: str, data: str) -> list[str]:
    """Return the flags of etcd, which listens at `url` and stores in the folder `data`."""
    return [
        f"--data-dir={data}/etcd",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls=http://127.0.0.1:{free_port()}",
        "--unsafe-no-fsync",
    ]


def api_flags(
    etcd: str, pair: tuple[Path, Path], data: str, unserved: Collection[str]
) -> list[str]:
    """Return the flags of kube-apiserver.

    `etcd` is a URL, `pair` the files of the serving certificate, `data` the folder with tokens.csv,
    and `unserved` are group versions. Admission plugins that need missing controllers are disabled.
    These controllers would create service accounts, remove the taint `not-ready` from nodes, and
    remove the finalizers of volumes and claims.
    """
    certificate, key = pair
    return [
        f"--etcd-servers={etcd}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--cert-dir={data}",
        f"--token-auth-file={data}/tokens.csv",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificate}",
        f"--service-account-signing-key-file={key}",
        "--disable-admission-plugins="
        "ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        ",".join(["--runtime-config=api/all=true", *(f"{version}=false" for version in unserved)]),
    ]


def address_flags(host: str, port: int) -> list[str]:
    """Return the flags of kube-apiserver for its address.

    With IPv4, Services get addresses on loopback. So calls of Services never leave this machine,
    and a test can listen at the address of a Service.
    """
    if ":" in host:
        family = ["--advertise-address=fd00::1", "--service-cluster-ip-range=fd00:10::/112"]
    else:
        network = f"127.{port // 256}.{port % 256}.0/24"
        family = [f"--service-cluster-ip-range={network}"]
    return [f"--bind-address={host}", f"--secure-port={port}", *family]


def url(host: str, port: int) -> str:
    return f"https://{authority(host, port)}"


def authority(host: str, port: int) -> str:
    """Return `host:port` as in a URL. `host` is an IP address."""
    bracketed = f"[{host}]" if ":" in host else host
    return f"{bracketed}:{port}"


async def feature_gates(binary: Path) -> list[str]:
    """Return the flag that enables the alpha Workload API, or [] if `binary` lacks this API."""
    process = await asyncio.create_subprocess_exec(
        binary, "--help", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    text, _ = await process.communicate()
    return ["--feature-gates=GenericWorkload=true"] if b"GenericWorkload=" in text else []


def controller_flags(kubeconfig: Path, data: str) -> list[str]:
    """Return the flags of kube-controller-manager.

    It collects garbage, finalizes namespaces, and aggregates ClusterRoles.
    """
    return [
        f"--kubeconfig={kubeconfig}",
        "--controllers="
        "garbage-collector-controller,namespace-controller,clusterrole-aggregation-controller",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}",
        f"--cert-dir={data}",
    ]


def free_port() -> int:
    """Return a free TCP port on loopback, below the range for outgoing connections.

    An outgoing connection cannot take such a port.
    """
    while True:
        port = FIRST_PORT + randbelow(FIRST_OUTGOING_PORT - FIRST_PORT)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
