"""Serve the API of a cluster with 15,000 nodes, 20,000 PodCliques and many pods, for `console.py`.

    cluster.py DIRECTORY PODS

The lists are made once, and cut into pages. DIRECTORY gets a kubeconfig once the server is ready.
GET of `/change/pod/NUMBER/NODE`, `/change/worker/NUMBER/NODE` or `/change/node/NUMBER/true` sends
an event to watches, but does not change the lists.
"""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

NODES = 15_000
BLOCKS = 39
RACKS = 936
CLIQUES = 20_000
WRITTEN = ""
"""The URL that stands for every write. Writes change nothing here."""

NODE_BYTES = 12_000
POD_BYTES = 3_000
CLIQUE_BYTES = 4_000
ZONE = "topology.kubernetes.io/zone"
BLOCK = "example.com/block"
RACK = "example.com/rack"
HOST = "kubernetes.io/hostname"
LEVELS = {"zone": ZONE, "block": BLOCK, "rack": RACK, "host": HOST}
NAMESPACE = "inference"
SET = "llm-serve"
MEMBERS = 12
WORKERS = f"{SET}-0-workers"
Object = dict[str, Any]


def padded(obj: Object, size: int) -> bytes:
    """Return `obj` as JSON of about `size` bytes, which managedFields fill."""
    text = json.dumps(obj)
    fields = [
        {"manager": "kubelet", "fieldsV1": {f"f:field-{n}": {} for n in range(40)}}
        for _ in range(64)
    ]
    obj["metadata"]["managedFields"] = fields[: max(1, (size - len(text)) // 900)]
    return json.dumps(obj).encode()


def node(number: int) -> Object:
    rack = number * RACKS // NODES
    block = rack * BLOCKS // RACKS
    name = f"gpu-{number:05}"
    labels = {
        ZONE: f"zone-{block // 10}",
        BLOCK: f"block-{block:02}",
        RACK: f"rack-{rack:03}",
        HOST: name,
    }
    labels |= {f"feature.node.kubernetes.io/cpu-{n}": "true" for n in range(30)}
    amounts = {"cpu": "192", "memory": "2048Gi", "pods": "250", "nvidia.com/gpu": "8"}
    status = {
        "allocatable": amounts,
        "capacity": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    status |= {
        "images": [
            {"names": [f"registry.example/image-{n}@sha256:{n:064}"], "sizeBytes": n}
            for n in range(30)
        ]
    }

    return {
        "metadata": {"name": name, "uid": f"node-{number}", "labels": labels},
        "spec": {},
        "status": status,
    }


def pod(namespace: str, name: str, gpus: int, where: str = "", **metadata: Any) -> Object:
    resources = {"requests": {"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": str(gpus)}}
    env = [{"name": f"VARIABLE_{n}", "value": "value"} for n in range(10)]
    containers = [
        {"name": "main", "image": "registry.example/main:1", "resources": resources, "env": env}
    ]
    spec: Object = {"schedulerName": "kai-scheduler", "containers": containers} | (
        {"nodeName": where} if where else {}
    )
    status = {"phase": "Running" if where else "Pending"}

    return {
        "metadata": {"name": name, "namespace": namespace, "uid": name, **metadata},
        "spec": spec,
        "status": status,
    }


def worker(number: int, where: str = "") -> Object:
    """Return a pod of the gang."""
    labels = labels_of(SET, WORKERS)
    annotations = {"pod-group-name": f"{SET}-0"}
    return pod(NAMESPACE, f"{WORKERS}-{number}", 8, where, labels=labels, annotations=annotations)


def labels_of(pcs: str, clique: str) -> dict[str, str]:
    labels = {
        "app.kubernetes.io/part-of": pcs,
        "grove.io/podcliqueset-replica-index": "0",
        "grove.io/podgang": f"{pcs}-0",
    }
    return labels | ({"grove.io/podclique": clique} if clique else {})


def clique(pcs: str, name: str, replicas: int) -> Object:
    template = pod(NAMESPACE, name, 8)["spec"]
    spec = {
        "replicas": replicas,
        "minAvailable": replicas,
        "roleName": "worker",
        "podSpec": template,
    }

    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": name,
            "labels": labels_of(pcs, ""),
        },
        "spec": spec,
    }


def objects(pods: int) -> Iterator[tuple[str, Object, int]]:
    """Yield each object with the path of its list and its size in bytes.

    Each node has up to 4 pods of one GPU.
    """
    for number in range(NODES):
        yield "/api/v1/nodes", node(number), NODE_BYTES

    for number in range(pods - MEMBERS):
        where = (
            f"gpu-{number % NODES:05}"
            if pods > NODES or number % 2
            else f"gpu-{(number * 3) % NODES:05}"
        )
        yield "/api/v1/pods", pod("research", f"batch-{number}", 1, where), POD_BYTES

    for number in range(MEMBERS):
        yield "/api/v1/pods", worker(number), POD_BYTES

    for number in range(CLIQUES - 1):
        yield (
            "/apis/grove.io/v1alpha1/podcliques",
            clique(f"set-{number // 4}", f"set-{number // 4}-0-c{number % 4}", 4),
            CLIQUE_BYTES,
        )

    yield "/apis/grove.io/v1alpha1/podcliques", clique(SET, WORKERS, MEMBERS), CLIQUE_BYTES
    for path, obj in singles(WORKERS):
        yield path, obj, 0


def singles(workers: str) -> Iterator[tuple[str, Object]]:
    levels = [{"domain": domain, "key": key} for domain, key in LEVELS.items()]
    metadata = {"name": "grove-topology", "uid": "topology"}
    yield (
        "/apis/grove.io/v1alpha1/clustertopologies",
        {"metadata": metadata, "spec": {"levels": levels}},
    )
    owner = {
        "kind": "ClusterTopology",
        "name": "grove-topology",
        "uid": "topology",
        "controller": True,
    }
    kai = {"name": "grove-topology", "ownerReferences": [owner]}
    keys = [{"nodeLabel": key} for key in LEVELS.values()]
    yield "/apis/kai.scheduler/v1alpha1/topologies", {"metadata": kai, "spec": {"levels": keys}}
    set_metadata = {"name": SET, "namespace": NAMESPACE, "uid": "set"}
    template = {
        "topologyConstraint": {"packDomain": "rack"},
        "cliques": [{"name": "workers", "spec": {"replicas": MEMBERS}}],
    }
    yield (
        "/apis/grove.io/v1alpha1/podcliquesets",
        {"metadata": set_metadata, "spec": {"replicas": 1, "template": template}},
    )
    labels = {"app.kubernetes.io/part-of": SET}
    gang = {"name": f"{SET}-0", "namespace": NAMESPACE, "uid": "gang", "labels": labels}
    gang["annotations"] = {"grove.io/topology-name": "grove-topology"}
    pods = [{"name": f"{workers}-{n}", "namespace": NAMESPACE} for n in range(MEMBERS)]
    part = {"name": workers, "minReplicas": MEMBERS, "podReferences": pods}
    constraint = {"packConstraint": {"required": RACK}}
    yield (
        "/apis/scheduler.grove.io/v1alpha1/podgangs",
        {"metadata": gang, "spec": {"podgroups": [part], "topologyConstraint": constraint}},
    )
    group = {"name": f"{SET}-0", "namespace": NAMESPACE, "uid": "group", "labels": labels}
    spec = {
        "minMember": MEMBERS,
        "queue": "team-llm",
        "topologyConstraint": {"topology": "grove-topology", "requiredTopologyLevel": RACK},
    }
    yield "/apis/scheduling.run.ai/v2alpha2/podgroups", {"metadata": group, "spec": spec}
    yield "/apis/scheduling.run.ai/v2/queues", {"metadata": {"name": "root"}, "spec": {}}
    yield (
        "/apis/scheduling.run.ai/v2/queues",
        {"metadata": {"name": "team-llm"}, "spec": {"parentQueue": "root"}},
    )


GROUPS = {
    "grove.io": ["v1alpha1"],
    "scheduler.grove.io": ["v1alpha1"],
    "kai.scheduler": ["v1alpha1"],
    "scheduling.run.ai": ["v2", "v2alpha2"],
    "events.k8s.io": ["v1"],
    "resource.k8s.io": ["v1"],
}
GROUP_VERSIONS = (
    "/api/v1",
    *(f"/apis/{g}/{v}" for g, versions in GROUPS.items() for v in versions),
)
BUILT_IN = (
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/events.k8s.io/v1/events",
    "/apis/resource.k8s.io/v1/",
    "/apis/storage.k8s.io/v1/storageclasses",
)


class Lists:
    """The lists of objects, by path. The results of selectors and namespaces are cached."""

    def __init__(self, pods: int) -> None:
        self._lists: dict[str, list[tuple[str, str, dict[str, str], bytes]]] = {}
        for path, obj, size in objects(pods):
            metadata = obj["metadata"]
            entry = (
                metadata.get("namespace", ""),
                metadata["name"],
                metadata.get("labels") or {},
                padded(obj, size),
            )
            self._lists.setdefault(path, []).append(entry)

        for entries in self._lists.values():
            entries.sort(key=lambda entry: entry[:2])  # the order of API servers

        self._parts: dict[tuple[str, str, str], list[bytes]] = {}

    def answer(self, url: str) -> tuple[int, bytes]:
        parts = urlsplit(url)
        if parts.path == "/apis":
            groups = [
                {"name": g, "versions": [{"version": v} for v in versions]}
                for g, versions in GROUPS.items()
            ]
            return 200, json.dumps({"kind": "APIGroupList", "groups": groups}).encode()

        if parts.path in GROUP_VERSIONS:
            places = (path.rpartition("/") for path in self._lists)
            resources = [{"name": plural} for place, _, plural in places if place == parts.path]
            return 200, json.dumps({"resources": resources}).encode()

        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path, namespace, name = split(parts.path)
        if name:
            bodies = (
                data
                for space, own, _, data in self._lists.get(path, ())
                if (space, own) == (namespace, name)
            )
            versioned = b'"apiVersion": "v1", "kind": "x", "metadata": {"resourceVersion": "1", '
            return next(
                ((200, data.replace(b'"metadata": {', versioned, 1)) for data in bodies),
                (404, b'{"kind":"Status","code":404,"details":{"name":"x"}}'),
            )

        if path not in self._lists and not path.startswith(BUILT_IN):
            return 404, b'{"kind":"Status","code":404}'

        return 200, self._page(path, namespace, query)

    def _page(self, path: str, namespace: str, query: dict[str, str]) -> bytes:
        selector = query.get("labelSelector", "")
        items = self._items(path, namespace, selector)
        begin = int(query.get("continue", 0))
        limit = int(query.get("limit", 0)) or len(items)
        end = begin + limit
        metadata: Object = {"resourceVersion": "1"}
        metadata |= (
            {"continue": str(end), "remainingItemCount": len(items) - end}
            if end < len(items)
            else {}
        )
        head = json.dumps({"kind": "List", "apiVersion": "v1", "metadata": metadata}).encode()

        return head[:-1] + b', "items": [' + b",".join(items[begin:end]) + b"]}"

    def _items(self, path: str, namespace: str, selector: str) -> list[bytes]:
        key, _, value = selector.partition("=")
        part = (path, namespace, selector)
        if part not in self._parts:
            self._parts[part] = [
                data
                for space, _, labels, data in self._lists.get(path, ())
                if (not namespace or space == namespace) and (not key or labels.get(key) == value)
            ]
        return self._parts[part]


def split(path: str) -> tuple[str, str, str]:
    """Return the path of the list, the namespace and the name in a request's path."""
    steps = path.strip("/").split("/")
    root = 2 if steps[0] == "api" else 3
    namespace = ""
    if len(steps) > root + 1 and steps[root] == "namespaces":
        namespace = steps[root + 1]
        steps = [*steps[:root], *steps[root + 2 :]]
    return "/" + "/".join(steps[: root + 1]), namespace, "/".join(steps[root + 1 :])


class Watches:
    """The open watches, by the path of their list."""

    def __init__(self) -> None:
        self._open: dict[str, list[asyncio.StreamWriter]] = {}
        self._version = 1

    def add(self, path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        self._open.setdefault(path, []).append(writer)

    async def bookmarks(self) -> None:
        """Send a bookmark to every watch each 15 s, until cancelled."""
        while True:
            await asyncio.sleep(15)
            for path in self._open:
                self.send(path, {"metadata": {}}, "BOOKMARK")

    def send(self, path: str, obj: Object, kind: str = "MODIFIED") -> None:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        line = json.dumps({"type": kind, "object": obj}).encode() + b"\n"
        for writer in self._open.get(path, ()):
            writer.write(b"%x\r\n%b\r\n" % (len(line), line))


def changed(kind: str, number: int, value: str) -> tuple[str, Object]:
    """Return the path of the list and the object of `/change/KIND/NUMBER/VALUE`.

    It is a pod of another workload or of the gang on the node VALUE, or a node, which is cordoned
    if VALUE is `true`.
    """
    if kind == "node":
        obj = node(number)
        obj["spec"]["unschedulable"] = value == "true"
        return "/api/v1/nodes", obj
    if kind == "worker":
        return "/api/v1/pods", worker(number, value)
    return "/api/v1/pods", pod("research", f"batch-{number}", 1, value)


async def serve(directory: Path, pods: int) -> None:
    """Serve HTTP/1.1 with keep-alive, and append the URL of each call to the file `calls`."""
    lists = Lists(pods)
    watches = Watches()
    log = directory / "calls"
    log.touch()

    async def answer(url: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        code = 200
        body = b"{}"
        if url == WRITTEN:
            pass
        elif url.startswith("/change/"):
            _, _, kind, number, value = url.split("/")
            watches.send(*changed(kind, int(number), value))
        else:
            code, body = lists.answer(url)
        head = b"HTTP/1.1 %d x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % (code, len(body)) + body)
        await writer.drain()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, url = head.decode().split(" ", 2)[:2]
                length = re.search(rb"(?i)content-length: (\d+)", head)
                if length:
                    await reader.readexactly(int(length[1]))
                with log.open("a") as calls:
                    calls.write(f"{url}\n")
                if "watch=true" in url:
                    watches.add(urlsplit(url).path, writer)
                    await reader.read()
                    return
                await answer(url if method == "GET" else WRITTEN, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    write_kubeconfig(directory, server.sockets[0].getsockname()[1])
    async with server, asyncio.TaskGroup() as tasks:
        tasks.create_task(watches.bookmarks())
        await server.serve_forever()


def write_kubeconfig(directory: Path, port: int) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "bench", "user": {"token": "t"}}],
    }
    new = directory / "kubeconfig.new"
    new.write_text(json.dumps(config))
    new.rename(directory / "kubeconfig")


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
