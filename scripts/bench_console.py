"""Seconds, peak memory and API calls of `explain` and `topology` in a cluster of 15,000 nodes.

The cluster is made of 936 racks in 39 blocks in 4 zones, 20,000 PodCliques and 10,000 or 60,000 pods; a node is 12 KB,
a pod 3 KB. It is served by a process that only cuts lists into pages, over plain HTTP on loopback. Each command is a
process of its own, so its seconds include the start. `read` reads everything once, as a page with all workloads
would; its stall is the most CPU time for which the event loop did nothing else. `reasons` is the work after reading,
for a gang of 1,000 pods that no rack has room for.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bench_common import ENVIRONMENT, ROOT, process, until

NODES, BLOCKS, RACKS, CLIQUES = 15_000, 39, 936, 20_000
NODE_BYTES, POD_BYTES, CLIQUE_BYTES = 12_000, 3_000, 4_000
ZONE, BLOCK, RACK, HOST = (
    "topology.kubernetes.io/zone",
    "example.com/block",
    "example.com/rack",
    "kubernetes.io/hostname",
)
LEVELS = {"zone": ZONE, "block": BLOCK, "rack": RACK, "host": HOST}
NAMESPACE, SET, MEMBERS = "inference", "llm-serve", 12
PAGE = 250
"""Of `read`: the page that shows all workloads must not stall."""
Object = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("pods", nargs="*", type=int, default=[10_000, 60_000], metavar="PODS")
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.serve, arguments.pods[0]))
    elif arguments.read:
        print(json.dumps(read(arguments.read)))
    else:
        print(f"{'':44}{'seconds':>9}{'CPU s':>7}{'peak MiB':>10}{'calls':>7}{'pages':>7}{'stall ms':>10}")
        for pods in arguments.pods:
            measure(pods)
        for racks, gangs in ((RACKS, 100),):
            print(f"{f'reasons: 1,000 pods, {racks} racks (process time)':44}{reasons(gangs):9.3f}")
    return 0


def measure(pods: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with process([sys.executable, __file__, "--serve", str(directory), str(pods)]):
            until((directory / "kubeconfig").exists, 600.0)
            for label, options in (
                ("explain --no-room", ["explain", SET, "-n", NAMESPACE, "--no-room"]),
                ("explain", ["explain", SET, "-n", NAMESPACE]),
                ("topology --room 10x8 --in rack", ["topology", "--room", "10x8", "--in", "rack"]),
            ):
                command = [sys.executable, "-m", "app", *options, "--kubeconfig", str(directory / "kubeconfig")]
                report(f"{label}, {pods:,} pods", run(command), counts(directory))
            command = [sys.executable, __file__, "--read", str(directory)]
            used = run(command)
            stall = json.loads(used.printed)["stall"]
            report(f"read all, {pods:,} pods, {CLIQUES:,} PodCliques", used, counts(directory), stall)
            used = run([sys.executable, str(ROOT / "scripts" / "bench_pages.py"), str(directory)])
            report(f"console, {pods:,} pods: all of the below", used, counts(directory))
            report_pages(json.loads(used.printed))


@dataclass(frozen=True)
class Used:
    """What a process took: wall and CPU seconds, and peak resident bytes."""

    seconds: float
    cpu: float
    peak: int
    printed: str


def report(label: str, used: Used, calls: Counter[str], stall: float | None = None) -> None:
    first = sum(count for path, count in calls.items() if "continue=" not in path)
    shown = "" if stall is None else f"{stall * 1000:10.1f}"
    numbers = f"{used.seconds:9.2f}{used.cpu:7.2f}{used.peak / 2**20:10.1f}{first:7}{sum(calls.values()):7}{shown}"
    print(f"{label:44}{numbers}", flush=True)


def report_pages(found: Object) -> None:
    print(f"  ready after {found.pop('ready'):.1f} s, {found.pop('read MiB'):.0f} MiB by then", end="")
    print(f"; idle {found.pop('idle') * 100:.2f} % of a core; {found.pop('calls')} calls, watches among them")
    for name, page in found.items():
        if isinstance(page, dict):
            print(f"  page {name:22}" + ", ".join(f"{what} {value:,.1f}" for what, value in page.items()), flush=True)


def run(command: list[str]) -> Used:
    begin = time.monotonic()
    with tempfile.TemporaryFile() as out:
        pid = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=out).pid
        _, status, usage = os.wait4(pid, 0)
        seconds = time.monotonic() - begin
        out.seek(0)
        printed = out.read().decode()
    if os.waitstatus_to_exitcode(status) > 1 or not printed:
        raise SystemExit(f"{' '.join(command)}: exit code {os.waitstatus_to_exitcode(status)}\n{printed}")
    return Used(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, printed)


def counts(directory: Path) -> Counter[str]:
    """The calls since the last look, by path."""
    log = directory / "calls"
    calls = Counter(log.read_text().splitlines())
    log.write_text("")
    return calls


# The API server: objects as bytes, cut into pages.


def padded(obj: Object, size: int) -> bytes:
    """As JSON, made as long as real ones by managedFields."""
    text = json.dumps(obj)
    fields = [{"manager": "kubelet", "fieldsV1": {f"f:field-{n}": {} for n in range(40)}} for _ in range(64)]
    obj["metadata"]["managedFields"] = fields[: max(1, (size - len(text)) // 900)]
    return json.dumps(obj).encode()


def node(number: int) -> Object:
    rack = number * RACKS // NODES
    block = rack * BLOCKS // RACKS
    name = f"gpu-{number:05}"
    labels = {ZONE: f"zone-{block // 10}", BLOCK: f"block-{block:02}", RACK: f"rack-{rack:03}", HOST: name}
    labels |= {f"feature.node.kubernetes.io/cpu-{n}": "true" for n in range(30)}
    amounts = {"cpu": "192", "memory": "2048Gi", "pods": "250", "nvidia.com/gpu": "8"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    status |= {"images": [{"names": [f"registry.example/image-{n}@sha256:{n:064}"], "sizeBytes": n} for n in range(30)]}
    return {"metadata": {"name": name, "uid": f"node-{number}", "labels": labels}, "spec": {}, "status": status}


def pod(namespace: str, name: str, gpus: int, where: str = "", **metadata: Any) -> Object:
    resources = {"requests": {"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": str(gpus)}}
    env = [{"name": f"VARIABLE_{n}", "value": "value"} for n in range(10)]
    containers = [{"name": "main", "image": "registry.example/main:1", "resources": resources, "env": env}]
    spec: Object = {"schedulerName": "kai-scheduler", "containers": containers} | ({"nodeName": where} if where else {})
    status = {"phase": "Running" if where else "Pending"}
    return {"metadata": {"name": name, "namespace": namespace, "uid": name, **metadata}, "spec": spec, "status": status}


def labels_of(pcs: str, clique: str) -> dict[str, str]:
    found = {
        "app.kubernetes.io/part-of": pcs,
        "grove.io/podcliqueset-replica-index": "0",
        "grove.io/podgang": f"{pcs}-0",
    }
    return found | ({"grove.io/podclique": clique} if clique else {})


def clique(pcs: str, name: str, replicas: int) -> Object:
    template = pod(NAMESPACE, name, 8)["spec"]
    spec = {"replicas": replicas, "minAvailable": replicas, "roleName": "worker", "podSpec": template}
    return {"metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "labels": labels_of(pcs, "")}, "spec": spec}


def objects(pods: int) -> Iterator[tuple[str, Object, int]]:
    """(path of the list, object, bytes). Each node has up to 4 pods of one GPU."""
    for number in range(NODES):
        yield "/api/v1/nodes", node(number), NODE_BYTES
    for number in range(pods - MEMBERS):
        where = f"gpu-{number % NODES:05}" if pods > NODES or number % 2 else f"gpu-{(number * 3) % NODES:05}"
        yield "/api/v1/pods", pod("research", f"batch-{number}", 1, where), POD_BYTES
    workers = f"{SET}-0-workers"
    annotations = {"pod-group-name": f"{SET}-0"}
    for number in range(MEMBERS):
        labels = labels_of(SET, workers)
        yield (
            "/api/v1/pods",
            pod(NAMESPACE, f"{workers}-{number}", 8, labels=labels, annotations=annotations),
            POD_BYTES,
        )
    for number in range(CLIQUES - 1):
        yield (
            "/apis/grove.io/v1alpha1/podcliques",
            clique(f"set-{number // 4}", f"set-{number // 4}-0-c{number % 4}", 4),
            CLIQUE_BYTES,
        )
    yield "/apis/grove.io/v1alpha1/podcliques", clique(SET, workers, MEMBERS), CLIQUE_BYTES
    for path, obj in singles(workers):
        yield path, obj, 0


def singles(workers: str) -> Iterator[tuple[str, Object]]:
    levels = [{"domain": domain, "key": key} for domain, key in LEVELS.items()]
    metadata = {"name": "grove-topology", "uid": "topology"}
    yield "/apis/grove.io/v1alpha1/clustertopologies", {"metadata": metadata, "spec": {"levels": levels}}
    owner = {"kind": "ClusterTopology", "name": "grove-topology", "uid": "topology", "controller": True}
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
    yield "/apis/scheduling.run.ai/v2/queues", {"metadata": {"name": "team-llm"}, "spec": {"parentQueue": "root"}}


GROUPS = {
    "grove.io": ["v1alpha1"],
    "scheduler.grove.io": ["v1alpha1"],
    "kai.scheduler": ["v1alpha1"],
    "scheduling.run.ai": ["v2", "v2alpha2"],
    "events.k8s.io": ["v1"],
    "resource.k8s.io": ["v1"],
}
BUILT_IN = ("/apis/events.k8s.io/v1/events", "/apis/resource.k8s.io/v1/")


class Lists:
    """Lists of objects by path. A selector or a namespace cuts out a part, which is then kept."""

    def __init__(self, pods: int) -> None:
        self._lists: dict[str, list[tuple[str, str, dict[str, str], bytes]]] = {}
        for path, obj, size in objects(pods):
            metadata = obj["metadata"]
            entry = (metadata.get("namespace", ""), metadata["name"], metadata.get("labels") or {}, padded(obj, size))
            self._lists.setdefault(path, []).append(entry)
        for entries in self._lists.values():
            entries.sort(key=lambda entry: entry[:2])  # as API servers do
        self._parts: dict[tuple[str, str, str], list[bytes]] = {}

    def answer(self, url: str) -> tuple[int, bytes]:
        parts = urlsplit(url)
        if parts.path == "/apis":
            groups = [{"name": g, "versions": [{"version": v} for v in versions]} for g, versions in GROUPS.items()]
            return 200, json.dumps({"kind": "APIGroupList", "groups": groups}).encode()
        group_version = parts.path.rstrip("/")
        plurals = [path.rpartition("/")[2] for path in self._lists if path.rpartition("/")[0] == group_version]
        if plurals:
            return 200, json.dumps({"resources": [{"name": plural} for plural in plurals]}).encode()
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path, namespace, name = split(parts.path)
        if name:
            found = (data for space, own, _, data in self._lists.get(path, ()) if (space, own) == (namespace, name))
            return next(((200, data) for data in found), (404, b'{"kind":"Status","code":404,"details":{"name":"x"}}'))
        if path not in self._lists and not path.startswith(BUILT_IN):
            return 404, b'{"kind":"Status","code":404}'
        return 200, self._page(path, namespace, query)

    def _page(self, path: str, namespace: str, query: dict[str, str]) -> bytes:
        selector = query.get("labelSelector", "")
        items = self._items(path, namespace, selector)
        begin, limit = int(query.get("continue", 0)), int(query.get("limit", 0)) or len(items)
        end = begin + limit
        metadata: Object = {"resourceVersion": "1"}
        metadata |= {"continue": str(end), "remainingItemCount": len(items) - end} if end < len(items) else {}
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
    """(path of the list, namespace, name) of a request's path."""
    steps = path.strip("/").split("/")
    root = 2 if steps[0] == "api" else 3
    namespace = ""
    if len(steps) > root + 1 and steps[root] == "namespaces":
        namespace, steps = steps[root + 1], [*steps[:root], *steps[root + 2 :]]
    return "/" + "/".join(steps[: root + 1]), namespace, "/".join(steps[root + 1 :])


async def serve(directory: Path, pods: int) -> None:
    """HTTP/1.1 with keep-alive; calls are written to a file."""
    lists = Lists(pods)
    log = directory / "calls"
    log.touch()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                url = head.split(b" ", 2)[1].decode()
                with log.open("a") as calls:
                    calls.write(f"{url}\n")
                if "watch=true" in url:  # nothing ever changes
                    writer.write(
                        b"HTTP/1.1 200 x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
                    )
                    await reader.read()
                    return
                code, body = lists.answer(url)
                writer.write(
                    b"HTTP/1.1 %d x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (code, len(body))
                )
                writer.write(body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "bench", "user": {"token": "t"}}],
    }
    (directory / "kubeconfig").write_text(json.dumps(config))
    async with server:
        await server.serve_forever()


# What is measured in a process of its own.


def read(directory: Path) -> Object:
    from app.cluster.connect import reading_client
    from app.explain.facts import RESOURCES
    from app.explain.index import Index
    from app.explain.read import read_all

    async def reading() -> Object:
        longest, done = 0.0, False

        async def watch() -> None:
            nonlocal longest
            while not done:
                before = time.thread_time()
                await asyncio.sleep(0)
                longest = max(longest, time.thread_time() - before)

        watching = asyncio.create_task(watch())
        async with reading_client(RESOURCES, directory / "kubeconfig", None) as client:
            facts, _ = await read_all(client, (), now=time.time(), page=PAGE)
        done = True
        await watching
        Index(facts)
        return {"stall": longest, "nodes": len(facts.nodes), "pods": len(facts.pods), "cliques": len(facts.cliques)}

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {**asyncio.run(reading()), "before": peak}


def reasons(gangs: int) -> float:
    """Process seconds of all reasons of a gang of `gangs` replicas of ten pods, once the facts are joined."""
    from dataclasses import replace

    from app.explain.answer import explain
    from app.explain.facts import Facts, projected
    from app.explain.facts.common import Ref
    from app.explain.index import Index

    workers = [f"{SET}-0-g-{number}-w" for number in range(gangs)]
    documents = [obj | {"apiVersion": "v1", "kind": "Node"} for obj in map(node, range(NODES))]
    busy = [pod("research", f"batch-{n}", 8, f"gpu-{n:05}") for n in range(NODES) if n % 16 < 7]
    own = [pod(NAMESPACE, f"{w}-{n}", 8, labels=labels_of(SET, w)) for w in workers for n in range(10)]
    documents += [obj | {"apiVersion": "v1", "kind": "Pod"} for obj in (*busy, *own)]
    for path, obj in singles(workers[0]):
        kinds = {"clustertopologies": "ClusterTopology", "topologies": "Topology", "podcliquesets": "PodCliqueSet"}
        kinds |= {"podgangs": "PodGang", "podgroups": "PodGroup", "queues": "Queue"}
        steps = path.strip("/").split("/")
        documents.append(obj | {"apiVersion": "/".join(steps[1:3]), "kind": kinds[steps[3]]})
    for obj in documents:
        if obj["kind"] == "PodGang":
            obj["spec"] = {
                "topologyConstraint": {"packConstraint": {"required": ZONE}},
                "podgroups": [{"name": w, "minReplicas": 10, "podReferences": []} for w in workers],
                "topologyConstraintGroupConfigs": [
                    {
                        "name": f"{w}-group",
                        "podGroupNames": [w],
                        "topologyConstraint": {"packConstraint": {"required": RACK}},
                    }
                    for w in workers
                ],
            }
    documents += [clique(SET, w, 10) | {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique"} for w in workers]
    values: dict[str, Any] = {name: tuple(facts) for name, facts in projected(documents).items()}
    index = Index(replace(Facts(**values), now=time.time()))
    index.used, index.pods_of_clique, index.nodes  # noqa: B018
    begin = time.process_time()
    answer = explain(index, Ref("PodCliqueSet", NAMESPACE, SET))
    seconds = time.process_time() - begin
    if answer is None or "NoDomainFits" not in {reason.id for reason in answer.reasons}:
        raise SystemExit(f"not what was to be measured: {answer and answer.headline}")
    return seconds


if __name__ == "__main__":
    raise SystemExit(main())
