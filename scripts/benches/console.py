"""Measure time, peak memory and API calls of `explain`, `topology` and the console.

The cluster has 15,000 nodes of 12 KB in 936 racks, 39 blocks and 4 zones, 20,000 PodCliques, and
10,000 or 60,000 pods of 3 KB. `cluster.py` serves it over plain HTTP on loopback. Each command is a
separate process, so its time includes the start. `read all` reads all kinds once. `reasons` is the
time to explain a gang of 1,000 pods that fits into no rack, after reading. `page` is the time of a
console page after a change of one pod (levels, and the reasons of a gang of 100 pods), with an
index that follows the change and with a new one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.answers.topology import survey
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot, projected
from app.facts.identity import Ref
from benches.cluster import (
    CLIQUES,
    NAMESPACE,
    NODES,
    RACK,
    RACKS,
    SET,
    ZONE,
    clique,
    labels_of,
    node,
    pod,
    singles,
)
from benches.common import ENVIRONMENT, ROOT, process, until

Object = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pods", nargs="*", type=int, default=[10_000, 60_000], metavar="PODS")
    arguments = parser.parse_args()
    print(f"{'':44}{'seconds':>9}{'CPU s':>7}{'peak MiB':>10}{'calls':>7}{'pages':>7}")
    for pods in arguments.pods:
        measure(pods)
    print(
        f"load average of the last minutes: {', '.join(f'{load:.1f}' for load in os.getloadavg())}"
    )
    print(f"{f'reasons: 1,000 pods, {RACKS} racks (process time)':44}{reasons(100):9.3f}")
    following, new = page_after_change(10, changes=9)
    print(f"{'page after a change, index follows (median)':44}{following:9.3f}")
    print(f"{'page after a change, new index (median)':44}{new:9.3f}")
    return 0


def measure(pods: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with process(
            [
                sys.executable,
                str(ROOT / "scripts" / "benches" / "cluster.py"),
                str(directory),
                str(pods),
            ]
        ):
            until((directory / "kubeconfig").exists, 600.0)
            for label, options in (
                ("explain --no-room", ["explain", SET, "-n", NAMESPACE, "--no-room"]),
                ("explain", ["explain", SET, "-n", NAMESPACE]),
                ("topology --room 10x8 --in rack", ["topology", "--room", "10x8", "--in", "rack"]),
            ):
                command = [
                    sys.executable,
                    "-m",
                    "app",
                    *options,
                    "--kubeconfig",
                    str(directory / "kubeconfig"),
                ]
                report(f"{label}, {pods:,} pods", run(command), counts(directory))
            command = [
                sys.executable,
                str(ROOT / "scripts" / "benches" / "read.py"),
                str(directory),
            ]
            report(
                f"read all, {pods:,} pods, {CLIQUES:,} PodCliques", run(command), counts(directory)
            )
            used = run(
                [sys.executable, str(ROOT / "scripts" / "benches" / "pages.py"), str(directory)]
            )
            report(f"console, {pods:,} pods: all of the below", used, counts(directory))
            report_pages(json.loads(used.printed))


@dataclass(frozen=True)
class Used:
    """The wall time, CPU time and peak resident bytes of a process, and its output."""

    seconds: float
    cpu: float
    peak: int
    printed: str


def report(label: str, used: Used, calls: Counter[str]) -> None:
    first = sum(count for path, count in calls.items() if "continue=" not in path)
    numbers = f"{used.seconds:9.2f}{used.cpu:7.2f}{used.peak / 2**20:10.1f}{first:7}{sum(calls.values()):7}"
    print(f"{label:44}{numbers}", flush=True)


def report_pages(measured: Object) -> None:
    """Print the output of `pages.py`, one line for each part."""
    for name, values in measured.items():
        shown = values.items() if isinstance(values, dict) else [("", values)]
        print(
            f"  {name:22}" + ", ".join(f"{what} {value:,.2f}".strip() for what, value in shown),
            flush=True,
        )


def run(command: list[str]) -> Used:
    begin = time.monotonic()
    with tempfile.TemporaryFile() as out:
        pid = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=out).pid
        _, status, usage = os.wait4(pid, 0)
        seconds = time.monotonic() - begin
        out.seek(0)
        printed = out.read().decode()

    # 2 is expected: without room, no reason explains why the set is pending
    if os.waitstatus_to_exitcode(status) > 2 or not printed:
        raise SystemExit(
            f"{' '.join(command)}: exit code {os.waitstatus_to_exitcode(status)}\n{printed}"
        )

    return Used(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, printed)


def counts(directory: Path) -> Counter[str]:
    """Return the numbers of calls since the previous call of this function, by path."""
    log = directory / "calls"
    calls = Counter(log.read_text().splitlines())
    log.write_text("")
    return calls


def facts_with(gangs: int) -> Snapshot:
    """Return the facts of the cluster with one gang of `gangs` replicas of ten pods."""
    workers = [f"{SET}-0-g-{number}-w" for number in range(gangs)]
    documents = [obj | {"apiVersion": "v1", "kind": "Node"} for obj in map(node, range(NODES))]
    busy = [pod("research", f"batch-{n}", 8, f"gpu-{n:05}") for n in range(NODES) if n % 16 < 7]
    own = [
        pod(NAMESPACE, f"{w}-{n}", 8, labels=labels_of(SET, w)) for w in workers for n in range(10)
    ]
    documents += [obj | {"apiVersion": "v1", "kind": "Pod"} for obj in (*busy, *own)]
    for path, obj in singles(workers[0]):
        kinds = {
            "clustertopologies": "ClusterTopology",
            "topologies": "Topology",
            "podcliquesets": "PodCliqueSet",
        }
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
    documents += [
        clique(SET, w, 10) | {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique"}
        for w in workers
    ]
    values: dict[str, Any] = {name: tuple(facts) for name, facts in projected(documents).items()}
    return Snapshot(**values, now=time.time())


def reasons(gangs: int) -> float:
    """Return the CPU seconds for explaining a gang of `gangs` replicas, with a filled index."""
    index = Index(facts_with(gangs))
    index.used, index.pods_of_clique, index.nodes  # noqa: B018
    begin = time.process_time()
    answer = explain(index, Ref("PodCliqueSet", NAMESPACE, SET))
    seconds = time.process_time() - begin
    if answer is None or "NoDomainFits" not in {reason.id for reason in answer.reasons}:
        raise SystemExit(f"the gang lacks the reason NoDomainFits: {answer and answer.headline}")
    return seconds


def page_after_change(gangs: int, *, changes: int) -> tuple[float, float]:
    """Return the median CPU seconds of a page after a change, with a followed and a new index."""
    facts = facts_with(gangs)
    kept = Index(facts)
    _page(kept)
    following, new = [], []
    for position in range(changes):
        changed = replace(facts.pods[position], phase="Failed")
        pods = (*facts.pods[:position], changed, *facts.pods[position + 1 :])
        facts = replace(facts, pods=pods)

        begin = time.process_time()
        kept.follow(facts)
        _page(kept)
        following.append(time.process_time() - begin)

        begin = time.process_time()
        _page(Index(facts))
        new.append(time.process_time() - begin)
    return statistics.median(following), statistics.median(new)


def _page(index: Index) -> None:
    survey(index)
    explain(index, Ref("PodCliqueSet", NAMESPACE, SET))


if __name__ == "__main__":
    raise SystemExit(main())
