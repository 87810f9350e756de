"""Measure verdicts per second, compared with a plain ASGI app, kopf and a webhook in Go.

TLS, keep-alive and 16 connections are used. All servers share one core, and `wrk` has another one.
The servers are measured in turns, so other work of the machine affects all of them, and each figure
is the median of its rounds. Compare ratios. If other processes use the same cores, compare the CPU
time of a verdict.

The webhook in Go is that of NVIDIA's DRA driver (github.com/NVIDIA/k8s-dra-driver-gpu,
cmd/webhook). It is measured if `--go-peer` or the variable GO_PEER names its program. It judges a
ResourceClaim in a review of the same size as that of the PodGroup.

With `--tree DIR`, only our webhooks are measured, and the server of the checkout DIR answers the
same reviews in the same rounds. The ratio is the median of the ratios in the rounds.
"""

import argparse
import contextlib
import itertools
import os
import re
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import truediv
from pathlib import Path

import msgspec

from app.admission.review import parse
from app.certificates.source import ensure_development_certificate
from app.facts.grove.unit_member import read_carrier, read_carrier_of_pod
from app.facts.kinds import COMPUTE_DOMAIN, LEADER_WORKER_SET, RESOURCE_CLAIM
from app.rules.mnnvl.claim import CliqueFacts, inject
from app.rules.mnnvl.plan import desired_resource
from benches.common import ENVIRONMENT, ROOT
from scripts.apiserver.processes import free_port
from tests.pods import owners, pod

POD = pod("lws-worker")
REVIEWS = ROOT / "tests" / "testdata" / "reviews"
CONNECTIONS = 16
PODCLIQUE_BYTES = 12 * 1024
GO_PATH = "/validate-resource-claim-parameters"

SCRIPT = """
local file = assert(io.open(os.getenv("BODY"), "rb"))
wrk.body = file:read("*a")
file:close()
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
"""


@dataclass
class Case:
    """A server and a path under load. `ratio_to` has the names of the cases to compare it with."""

    name: str
    server: str
    path: str
    body: bytes
    ratio_to: tuple[str, ...] = ()
    rates: list[float] = field(default_factory=list)
    """The verdicts per second in each round."""
    cpu: list[float] = field(default_factory=list)
    """The CPU time of a verdict in each round, in microseconds."""
    medians: list[float] = field(default_factory=list)
    """The median time of an answer in each round, in milliseconds."""
    p99s: list[float] = field(default_factory=list)
    """The 99th percentile of the times of answers in each round, in milliseconds."""


def cases(with_go: bool, with_tree: bool = False) -> list[Case]:
    podgroup = review("podgroup.valid")
    podcliqueset = review("podcliqueset.topology-three-levels")
    podclique = padded(review("podclique.replica-scope-0-worker"), "spec", "podSpec")
    go = (
        [Case("Go, a ResourceClaim", "go", GO_PATH, claim_review(len(podgroup)))] if with_go else []
    )
    compared = ("floor", "floor that parses", *(case.name for case in go))

    measured = [
        *go,
        Case("floor", "floor", "/", podgroup),
        Case("floor that parses", "parsing", "/", podgroup),
        Case("our connections alone", "protocol", "/", podgroup, ("floor",)),
        Case("our connections, parsing", "protocol-parsing", "/", podgroup, ("floor",)),
        Case(
            "the same, with the rule",
            "protocol-rule",
            "/validate/podgroup?timeout=5s",
            podgroup,
            ("floor",),
        ),
        Case("/validate/podgroup", "ours", "/validate/podgroup?timeout=5s", podgroup, compared),
        Case("kopf, the same rule", "kopf", "/", podgroup, ("/validate/podgroup",)),
        Case(
            "/validate/podcliqueset",
            "ours",
            "/validate/podcliqueset?timeout=5s",
            podcliqueset,
            ("floor that parses",),
        ),
        Case("floor that parses, 12 KB", "parsing", "/", podclique),
        Case(
            "our connections, parsing, 12 KB",
            "protocol-parsing",
            "/",
            podclique,
            ("floor that parses, 12 KB",),
        ),
        Case(
            "/mutate/podclique, 12 KB",
            "ours",
            "/mutate/podclique?timeout=10s",
            podclique,
            ("floor that parses, 12 KB",),
        ),
        Case(
            "/mutate/pod-mnnvl, 12 KB",
            "ours",
            "/mutate/pod-mnnvl?timeout=10s",
            padded(pod_review(), "spec"),
            ("floor that parses, 12 KB", "/mutate/podclique, 12 KB"),
        ),
    ]
    if not with_tree:
        return measured
    return [
        each
        for case in measured
        if case.server == "ours"
        for each in (
            Case(case.name, "ours", case.path, case.body),
            Case(f"{case.name}, tree", "tree", case.path, case.body),
        )
    ]


@dataclass(frozen=True)
class Server:
    """A running server."""

    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all threads since the start of the process."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def review(name: str) -> bytes:
    """Return a recorded request as compact JSON, as an API server sends it."""
    return msgspec.json.encode(msgspec.json.decode((REVIEWS / f"{name}.json").read_bytes()))


def claim_review(size: int) -> bytes:
    """Return a review of about `size` bytes of a ResourceClaim that configures NVIDIA's driver."""
    config = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}
    devices = {
        "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}],
        "config": [
            {"requests": ["gpu"], "opaque": {"driver": "gpu.nvidia.com", "parameters": config}}
        ],
    }
    kind = {"group": "resource.k8s.io", "version": "v1", "kind": "ResourceClaim"}
    loaded = msgspec.json.decode(review("podgroup.valid"))
    loaded["request"] |= {
        "kind": kind,
        "requestKind": kind,
        "resource": {"group": "resource.k8s.io", "version": "v1", "resource": "resourceclaims"},
        "object": {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "claim", "namespace": "default", "annotations": {"note": ""}},
            "spec": {"devices": devices},
        },
    }
    loaded["request"]["object"]["metadata"]["annotations"]["note"] = "x" * (
        size - len(msgspec.json.encode(loaded))
    )

    return msgspec.json.encode(loaded)


def pod_review() -> bytes:
    """Return a review of a new worker of a LeaderWorkerSet that requests MNNVL."""
    loaded = msgspec.json.decode(review("podclique.replica-scope-0-worker"))
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    loaded["request"] |= {
        "kind": kind,
        "requestKind": kind,
        "resource": resource,
        "requestResource": resource,
        "operation": "CREATE",
        "namespace": "ns",
        "name": POD["metadata"]["name"],
        "object": POD,
    }
    return msgspec.json.encode(loaded)


def padded(body: bytes, *path: str) -> bytes:
    """Return a review of a PodClique or Pod, enlarged to 12 KiB by environment variables.

    `path` leads to the pod spec in the object.
    """
    loaded = msgspec.json.decode(body)
    pod_spec = loaded["request"]["object"]
    for step in path:
        pod_spec = pod_spec[step]
    container = pod_spec["containers"][0]
    container["env"] = []
    while len(msgspec.json.encode(loaded)) < PODCLIQUE_BYTES:
        container["env"].append(
            {"name": f"VARIABLE_{len(container['env'])}", "value": "some setting of the workload"}
        )
    return msgspec.json.encode(loaded)


CONFIGURATION = """apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology:
  enabled: true
  levels:
    - {domain: zone, key: topology.kubernetes.io/zone}
    - {domain: rack, key: topology.kubernetes.io/rack}
    - {domain: host, key: kubernetes.io/hostname}
"""


def facts() -> bytes:
    """Return the objects that the server knows, as a List in JSON.

    They are a PodCliqueSet and a unit of a LeaderWorkerSet, with their MNNVL resources.
    """
    pcs = msgspec.json.decode(review("podcliqueset.mnnvl-replica-scope"))["request"]["object"]
    request = parse(review("podclique.replica-scope-0-worker"))
    clique = read_carrier(request.object, request.namespace)
    injection = inject(clique, None, CliqueFacts(), "shared")
    if injection.plan is None:
        raise ValueError("the recorded PodClique does not request MNNVL")

    resources = [
        desired_resource(injection.plan, COMPUTE_DOMAIN, "v1beta1"),
        desired_resource(injection.plan, RESOURCE_CLAIM, "v1"),
    ]
    unit = inject(read_carrier_of_pod(POD, "ns"), None, CliqueFacts(), "template").plan
    if unit is None:
        raise ValueError("the recorded Pod does not belong to a unit")
    owned = unit.owned_by("leaderworkerset-a", LEADER_WORKER_SET)
    resources.append(desired_resource(owned, COMPUTE_DOMAIN, "v1beta1"))

    return msgspec.json.encode({"kind": "List", "items": [pcs, *resources, *owners()]})


@contextlib.contextmanager
def servers(
    directory: Path, names: set[str], go_peer: str = "", tree: Path = ROOT
) -> Iterator[dict[str, Server]]:
    """Run the named servers on the first core, each on its own port."""
    ensure_development_certificate(directory, ["127.0.0.1", "localhost"], datetime.now(UTC))
    (directory / "facts").mkdir()
    (directory / "facts" / "facts.json").write_bytes(facts())
    (directory / "config.yaml").write_text(CONFIGURATION)
    ports = {name: free_port() for name in sorted(names)}
    started = {}
    with contextlib.ExitStack() as stack:
        for name, port in ports.items():
            log = stack.enter_context((directory / f"{name}.log").open("wb"))
            command = ["taskset", "-c", "0", *arguments(name, port, directory, go_peer)]
            checkout = ROOT
            environment = ENVIRONMENT
            if name == "tree":
                checkout = tree
                environment = ENVIRONMENT | {"PYTHONPATH": str(tree)}
            process = subprocess.Popen(
                command, cwd=checkout, stdout=log, stderr=subprocess.STDOUT, env=environment
            )
            stack.callback(stop, process)
            wait_for(port, process, directory / f"{name}.log")
            started[name] = Server(port, process.pid)
        yield started


def arguments(name: str, port: int, directory: Path, go_peer: str) -> list[str]:
    if name == "go":
        pair = [
            "--tls-cert-file",
            str(directory / "tls.crt"),
            "--tls-private-key-file",
            str(directory / "tls.key"),
        ]
        return [go_peer, "--port", str(port), *pair]

    if name not in ("ours", "tree"):
        return [sys.executable, "scripts/benches/peers.py", name, str(port), str(directory)]

    options = [
        "--config",
        str(directory / "config.yaml"),
        "--objects",
        str(directory / "facts"),
        "--certs",
        str(directory),
        "--port",
        str(port),
    ]

    return [
        sys.executable,
        "-m",
        "app",
        "serve",
        "--host",
        "127.0.0.1",
        "--log-level",
        "warning",
        *options,
    ]


def wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(1200):
        if process.poll() is not None:
            raise SystemExit(f"a server ended before it was ready:\n{log.read_text()}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise SystemExit(f"no server on port {port} within 60 s")


def stop(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def measure(case: Case, server: Server, seconds: int, directory: Path) -> None:
    """Add the figures of one round of `wrk` to `case`. Exit if a request fails or is rejected."""
    body = directory / "body.json"
    script = directory / "post.lua"
    body.write_bytes(case.body)
    check_allowed(case, server)
    script.write_text(SCRIPT)
    command = [
        "taskset",
        "-c",
        "1",
        "wrk",
        "-t1",
        f"-c{CONNECTIONS}",
        f"-d{seconds}",
        "--latency",
        "-s",
        str(script),
    ]
    url = f"https://127.0.0.1:{server.port}{case.path}"
    before = server.cpu_seconds()
    output = subprocess.run(
        [*command, url],
        env={**ENVIRONMENT, "BODY": str(body)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        raise SystemExit(f"{case.name}: a request failed:\n{output}")

    answered = int(matched(r"(\d+) requests in", output))
    case.cpu.append((server.cpu_seconds() - before) * 1e6 / answered)
    case.rates.append(float(matched(r"Requests/sec:\s+([\d.]+)", output)))
    case.medians.append(milliseconds(matched(r"(?m)^\s+50%\s+(\S+)", output)))
    case.p99s.append(milliseconds(matched(r"(?m)^\s+99%\s+(\S+)", output)))


def check_allowed(case: Case, server: Server) -> None:
    """Exit if the request of `case` is rejected, because only allowing verdicts are compared."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(
        f"https://127.0.0.1:{server.port}{case.path}", case.body, headers
    )
    with urllib.request.urlopen(request, context=context) as answer:
        response = msgspec.json.decode(answer.read())["response"]
    if not response["allowed"]:
        raise SystemExit(f"{case.name}: rejected: {response}")


def matched(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"unexpected output of wrk:\n{text}")
    return match.group(1)


def milliseconds(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[unit]


def report(measured: list[Case]) -> None:
    rates = {case.name: statistics.median(case.rates) for case in measured}
    cpu = {case.name: statistics.median(case.cpu) for case in measured}
    print(
        f"\n{'':26} {'verdicts/s':>11} {'p50 ms':>8} {'p99 ms':>8} {'CPU us':>8}   ratio, and ratio by CPU time"
    )
    for case in measured:
        ratio = ", ".join(
            f"{rates[case.name] / rates[other]:.2f} ({cpu[other] / cpu[case.name]:.2f}) of {other}"
            for other in case.ratio_to
        )
        p50 = statistics.median(case.medians)
        p99 = statistics.median(case.p99s)
        print(
            f"{case.name:26} {rates[case.name]:11,.0f} {p50:8.3f} {p99:8.3f} {cpu[case.name]:8.1f}   {ratio}"
        )

    for case, other in itertools.pairwise(measured):
        if other.server == "tree":
            ratio = statistics.median(map(truediv, case.cpu, other.cpu))
            print(f"{case.name:26} {ratio:.2f} of the CPU time of the other checkout")

    kopf = rates.get("kopf, the same rule")
    if kopf:
        print(
            f"\n/validate/podgroup gives {rates['/validate/podgroup'] / kopf:.1f} verdicts for one of kopf's"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--seconds", type=int, default=3, help="length of a round in seconds (default: 3)"
    )
    parser.add_argument(
        "--go-peer", default=os.environ.get("GO_PEER", ""), help="program of the webhook in Go"
    )
    parser.add_argument("--tree", type=Path, help="another checkout to compare with")
    options = parser.parse_args()
    missing = [name for name in ("wrk", "taskset") if shutil.which(name) is None]
    if missing:
        raise SystemExit(
            f"the benchmark needs {' and '.join(missing)}: install the packages wrk and util-linux"
        )

    if (os.cpu_count() or 1) < 2:
        raise SystemExit("the benchmark needs two cores, one for the server and one for the load")

    measured = cases(with_go=bool(options.go_peer), with_tree=options.tree is not None)
    names = {case.server for case in measured}
    with (
        tempfile.TemporaryDirectory() as name,
        servers(Path(name), names, options.go_peer, options.tree or ROOT) as started,
    ):
        for turn in range(options.rounds):
            for case in measured:
                print(
                    f"\rround {turn + 1} of {options.rounds}: {case.name:30}",
                    end="",
                    file=sys.stderr,
                    flush=True,
                )
                measure(case, started[case.server], options.seconds, Path(name))

    print(file=sys.stderr)
    report(measured)

    return 0


if __name__ == "__main__":
    raise SystemExit(main())
