"""Serve the API of a cluster of any size, for `scale.py` and `mcp.py`.

    fleet.py DIRECTORY NODES [--pages]

Objects are made when they are requested. DIRECTORY gets a kubeconfig and the files of a service
account once the server is ready. Nothing changes in the cluster: watches get only bookmarks, and
writes are answered and dropped. Another process holds the Lease. With `--pages`, lists are not
streamed.
"""

import asyncio
import base64
import functools
import re
import ssl
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from app.certificates.source import ensure_development_certificate
from app.kube.api import INITIAL_EVENTS_END
from benches import cluster as bench_cluster
from benches import memory as bench_memory

Object = dict[str, Any]
PODS_OF_NODE = 4
PODS_OF_CLIQUE = 3
CLIQUES_OF_GANG = 2
GANGS_OF_SET = 5
SETS_OF_NAMESPACE = 100
NODES_OF_RACK = 18
RACKS_OF_BLOCK = 28
BLOCKS_OF_ZONE = 10
PODS_OF_SET = PODS_OF_CLIQUE * CLIQUES_OF_GANG * GANGS_OF_SET
NODE_BYTES = 12_000
POD_BYTES = 3_000
CLIQUE_BYTES = 4_000
LEVELS = {
    "zone": "topology.kubernetes.io/zone",
    "block": "topology.kubernetes.io/block",
    "rack": "topology.kubernetes.io/rack",
    "host": "kubernetes.io/hostname",
}
CONFIGURATION = bench_memory.CONFIGURATION + bench_memory.FOLLOWING


@dataclass(frozen=True)
class Kind:
    """The objects of one kind.

    `of_set` is the number of objects of each PodCliqueSet, or 0 for a cluster-scoped kind. The
    objects of a set have consecutive numbers, and so have the objects of a namespace.
    """

    count: int
    make: Callable[[int], Object]
    of_set: int = 0
    size: int = 0


def single_object(obj: Object, _: int) -> Object:
    return obj


def clique_name(number: int) -> str:
    gang, clique = divmod(number, CLIQUES_OF_GANG)
    return f"{gang_name(gang)}-{('leader', 'worker')[clique]}"


def gang_name(number: int) -> str:
    return f"{set_name(number // GANGS_OF_SET)}-{number % GANGS_OF_SET}"


def set_name(number: int) -> str:
    return f"training-job-{number:05}"


def namespace_of(number: int) -> str:
    """Return the namespace of the PodCliqueSet `number`."""
    return f"team-{number // SETS_OF_NAMESPACE:03}"


class Fleet:
    """A cluster with `nodes` nodes. The pods of the last set are pending, because no node has room."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.sets = max(1, nodes * PODS_OF_NODE // PODS_OF_SET)
        self.last_set = set_name(self.sets - 1)
        self.last_namespace = namespace_of(self.sets - 1)

    @property
    def count(self) -> int:
        """The number of objects."""
        return sum(kind.count for kind in self.kinds.values())

    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        """The kinds by the paths of their lists."""
        gangs = self.sets * GANGS_OF_SET
        cliques = gangs * CLIQUES_OF_GANG
        pods = cliques * PODS_OF_CLIQUE
        single = {
            path: Kind(1, functools.partial(single_object, obj)) for path, obj in SINGLES.items()
        }
        return single | {
            "/api/v1/nodes": Kind(self.nodes, self.node, size=NODE_BYTES),
            "/api/v1/pods": Kind(pods, self.pod, PODS_OF_SET, POD_BYTES),
            f"{GROVE}/podcliquesets": Kind(self.sets, self.pod_clique_set, 1),
            f"{GROVE}/podcliques": Kind(
                cliques, self.pod_clique, cliques // self.sets, CLIQUE_BYTES
            ),
            f"{SCHEDULER}/podgangs": Kind(gangs, self.pod_gang, GANGS_OF_SET),
            f"{NVIDIA}/computedomains": Kind(gangs, lambda n: self.mnnvl(n)[0], GANGS_OF_SET),
            f"{DRA}/resourceclaims": Kind(gangs, lambda n: self.mnnvl(n)[1], GANGS_OF_SET),
        }

    def node(self, number: int) -> Object:
        rack = number // NODES_OF_RACK
        block = rack // RACKS_OF_BLOCK
        node = bench_cluster.node(number)
        name = f"gpu-{number:05}"
        places = (f"z{block // BLOCKS_OF_ZONE}", f"b{block:03}", f"r{rack:04}", name)
        labels = {key: value for key, value in node["metadata"]["labels"].items() if "cpu" in key}
        labels |= dict(zip(LEVELS.values(), places, strict=True))
        node["metadata"]["labels"] = labels | {
            "nvidia.com/gpu.count": "8",
            "nvidia.com/gpu.clique": f"domain.{rack}",
        }
        return node

    def pod(self, number: int) -> Object:
        clique = number // PODS_OF_CLIQUE
        waits = number // PODS_OF_SET == self.sets - 1
        where = "" if waits else f"gpu-{number % self.nodes:05}"
        name = f"{clique_name(clique)}-{number % PODS_OF_CLIQUE}"
        metadata = {
            "labels": self.labels(clique) | {"grove.io/podclique": clique_name(clique)},
            "annotations": {"pod-group-name": gang_name(clique // CLIQUES_OF_GANG)},
        }
        namespace = namespace_of(number // PODS_OF_SET)
        return bench_cluster.pod(namespace, name, 8 if waits else 1, where, **metadata)

    def labels(self, clique: int) -> dict[str, str]:
        gang = clique // CLIQUES_OF_GANG
        return {
            "app.kubernetes.io/part-of": set_name(gang // GANGS_OF_SET),
            "grove.io/podcliqueset-replica-index": str(gang % GANGS_OF_SET),
            "grove.io/podgang": gang_name(gang),
        }

    def pod_clique(self, number: int) -> Object:
        made = bench_cluster.clique("", clique_name(number), PODS_OF_CLIQUE)
        made["metadata"]["namespace"] = namespace_of(number // (CLIQUES_OF_GANG * GANGS_OF_SET))
        made["metadata"]["labels"] = self.labels(number)
        return made

    def pod_gang(self, number: int) -> Object:
        namespace = namespace_of(number // GANGS_OF_SET)
        first = number * CLIQUES_OF_GANG
        groups = [
            {
                "name": clique_name(first + clique),
                "minReplicas": PODS_OF_CLIQUE,
                "podReferences": [
                    {"name": f"{clique_name(first + clique)}-{pod}", "namespace": namespace}
                    for pod in range(PODS_OF_CLIQUE)
                ],
            }
            for clique in range(CLIQUES_OF_GANG)
        ]
        metadata = {
            "name": gang_name(number),
            "namespace": namespace,
            "uid": f"gang-{number}",
            "labels": self.labels(first),
            "annotations": {"grove.io/topology-name": "grove-topology"},
        }
        constraint = {"packConstraint": {"required": LEVELS["rack"]}}
        return {
            "metadata": metadata,
            "spec": {"podgroups": groups, "topologyConstraint": constraint},
        }

    def pod_clique_set(self, number: int) -> Object:
        cliques = [
            {"name": name, "spec": {"roleName": name, "replicas": PODS_OF_CLIQUE}}
            for name in ("leader", "worker")
        ]
        template = {"cliques": cliques, "topologyConstraint": {"packDomain": "rack"}}
        return {
            "metadata": {
                "name": set_name(number),
                "namespace": namespace_of(number),
                "uid": f"set-{number}",
            },
            "spec": {"replicas": GANGS_OF_SET, "template": template},
        }

    def mnnvl(self, number: int) -> list[Object]:
        """Return the ComputeDomain and the ResourceClaim of a PodGang."""
        gang = self.pod_gang(number)
        return [
            {**made, "metadata": {**made["metadata"], "namespace": gang["metadata"]["namespace"]}}
            for made in bench_memory.mnnvl_resources(gang)
        ]


GROVE = "/apis/grove.io/v1alpha1"
SCHEDULER = "/apis/scheduler.grove.io/v1alpha1"
NVIDIA = "/apis/resource.nvidia.com/v1beta1"
DRA = "/apis/resource.k8s.io/v1"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/grove-system/leases/held"
_KAI = {
    "metadata": {
        "name": "grove-topology",
        "ownerReferences": [
            {"kind": "ClusterTopology", "name": "grove-topology", "uid": "t", "controller": True}
        ],
    },
    "spec": {"levels": [{"nodeLabel": key} for key in LEVELS.values()]},
}
SINGLES: Mapping[str, Object] = {
    f"{GROVE}/clustertopologies": {
        "metadata": {"name": "grove-topology", "uid": "t"},
        "spec": {"levels": [{"domain": name, "key": key} for name, key in LEVELS.items()]},
    },
    "/apis/kai.scheduler/v1alpha1/topologies": _KAI,
    "/apis/scheduling.run.ai/v2/queues": {"metadata": {"name": "team"}, "spec": {}},
}
EMPTY = (
    "/api/v1/events",
    "/apis/events.k8s.io/v1/events",
    f"{DRA}/deviceclasses",
    f"{DRA}/resourceclaimtemplates",
    f"{DRA}/resourceslices",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/scheduling.run.ai/v2alpha2/podgroups",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
)
"""The paths of the empty lists."""


class Api:
    """The answers of the API server."""

    def __init__(self, fleet: Fleet) -> None:
        self._lists: dict[str, Kind] = {
            **{path: Kind(0, lambda number: {}) for path in EMPTY},
            **fleet.kinds,
        }
        self._lease = msgspec.json.encode(bench_memory.HELD)

    def answer(self, method: str, url: str, body: bytes, only: Sequence[str]) -> tuple[int, bytes]:
        """Return the status code and the body of an answer.

        With `only`, each object has only these fields.
        """
        parts = urlsplit(url)
        if method != "GET":
            return 201 if method == "POST" else 200, body or b"{}"
        if parts.path == LEASE:
            return 200, self._lease
        if parts.path == "/apis" or self._is_version(parts.path):
            return 200, msgspec.json.encode(self._discovered(parts.path))

        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path, namespace, name = bench_cluster.split(parts.path)
        kind = self._lists.get(path)
        if kind is None:
            return 404, b'{"kind":"Status","code":404}'
        if name:
            return self._one(kind, namespace, name)
        numbers = numbers_of(kind, namespace, query.get("labelSelector", ""))
        return 200, self._page(kind, numbers, query, only)

    def streamed(self, url: str, only: Sequence[str]) -> Iterator[bytes]:
        """Yield the lines of a streaming list up to its last bookmark."""
        parts = urlsplit(url)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path, namespace, _ = bench_cluster.split(parts.path)
        kind = self._lists[path]
        for number in numbers_of(kind, namespace, query.get("labelSelector", "")):
            obj = encoded(kind.make(number), kind.size, only)
            yield b'{"type":"ADDED","object":%b}\n' % obj
        annotations = {INITIAL_EVENTS_END: "true"}
        end = {"metadata": {"resourceVersion": "1", "annotations": annotations}}
        yield b'{"type":"BOOKMARK","object":%b}\n' % msgspec.json.encode(end)

    def _is_version(self, path: str) -> bool:
        return any(listed.rpartition("/")[0] == path for listed in self._lists)

    def _discovered(self, path: str) -> Object:
        if path != "/apis":
            plurals = [listed.rpartition("/") for listed in self._lists]
            return {"resources": [{"name": name} for at, _, name in plurals if at == path]}
        versions: dict[str, set[str]] = {}
        for group, version in re.findall(r"/apis/([^/]+)/([^/]+)/", "\n".join(self._lists)):
            versions.setdefault(group, set()).add(version)
        groups = [
            {"name": group, "versions": [{"version": version} for version in sorted(of_group)]}
            for group, of_group in versions.items()
        ]
        return {"kind": "APIGroupList", "groups": groups}

    def _one(self, kind: Kind, namespace: str, name: str) -> tuple[int, bytes]:
        for number in numbers_of(kind, namespace, name):
            obj = kind.make(number)
            if obj["metadata"]["name"] == name:
                return 200, encoded(obj, kind.size)
        return 404, b'{"kind":"Status","code":404,"details":{"name":"x"}}'

    def _page(
        self, kind: Kind, numbers: range, query: Mapping[str, str], only: Sequence[str]
    ) -> bytes:
        begin = int(query.get("continue", 0))
        end = begin + (int(query.get("limit", 0)) or len(numbers))
        metadata: Object = {"resourceVersion": "1"}
        if end < len(numbers):
            metadata |= {"continue": str(end), "remainingItemCount": len(numbers) - end}
        head = msgspec.json.encode({"kind": "List", "apiVersion": "v1", "metadata": metadata})
        items = [encoded(kind.make(number), kind.size, only) for number in numbers[begin:end]]
        return head[:-1] + b',"items":[' + b",".join(items) + b"]}"


def numbers_of(kind: Kind, namespace: str, named: str) -> range:
    """Return the numbers of the objects of the set that is named in the name or selector `named`.

    If it names no set, return the objects of `namespace`, or all objects if that is "".
    """
    numbers = range(kind.count)
    pcs = re.search(r"training-job-(\d{5})", named)
    team = re.fullmatch(r"team-(\d{3})", namespace)
    if kind.of_set and pcs:
        first = int(pcs[1]) * kind.of_set
        return numbers[first : first + kind.of_set]
    if kind.of_set and team:
        of_team = kind.of_set * SETS_OF_NAMESPACE
        first = int(team[1]) * of_team
        return numbers[first : first + of_team]
    return numbers[:0] if namespace else numbers


_FIELDS = [
    {"manager": "kubelet", "fieldsV1": {f"f:field-{number}": {} for number in range(40)}}
    for _ in range(64)
]


def encoded(obj: Object, size: int, only: Sequence[str] = ()) -> bytes:
    """Return an object as JSON of about `size` bytes, which managedFields fill.

    With `only`, return only these of its fields.
    """
    more = (size - len(msgspec.json.encode(obj))) // 900
    if more > 0:
        obj["metadata"]["managedFields"] = _FIELDS[:more]
    return msgspec.json.encode({field: obj[field] for field in only or obj})


async def serve(directory: Path, nodes: int, *, streams: bool) -> None:
    """Serve HTTP/1.1 over TLS, with keep-alive."""
    api = Api(Fleet(nodes))
    names = ("127.0.0.1", "localhost")
    ensure_development_certificate(directory, names, datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, url, _ = head.decode().split(" ", 2)
                length = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                only = ("metadata",) if b"PartialObjectMetadata" in head else ()
                if "watch=true" in url:
                    is_list = streams and "sendInitialEvents=true" in url
                    await watch(writer, api.streamed(url, only) if is_list else ())
                    return
                code, answered = await asyncio.to_thread(api.answer, method, url, body, only)
                said = (
                    b"HTTP/1.1 %d x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
                )
                writer.write(said % (code, len(answered)) + answered)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    write_files(directory, server.sockets[0].getsockname()[1])
    async with server:
        await server.serve_forever()


async def watch(writer: asyncio.StreamWriter, listed: Iterable[bytes]) -> None:
    """Send the lines of `listed`, then bookmarks until the connection ends."""
    writer.write(
        b"HTTP/1.1 200 x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    for line in listed:
        writer.write(b"%x\r\n%b\r\n" % (len(line), line))
        await writer.drain()
    line = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2"}}}\n'
    while True:
        writer.write(b"%x\r\n%b\r\n" % (len(line), line))
        await writer.drain()
        await asyncio.sleep(15)


def write_files(directory: Path, port: int) -> None:
    (directory / "token").write_text("t")
    (directory / "port").write_text(str(port))
    ca = base64.b64encode((directory / "ca.crt").read_bytes()).decode()
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": ca}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": "bench", "user": {"token": "t"}}],
    }
    new = directory / "kubeconfig.new"
    new.write_bytes(msgspec.json.encode(config))
    new.rename(directory / "kubeconfig")


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), streams="--pages" not in sys.argv))
