"""Measure the peak memory and time of `grove-admission audit` with 5,000 and 50,000 PodGroups.

37 of the PodGroups are invalid. The API server is the sandbox in a separate process, and each audit
is another process. An audit of an empty cluster is measured too.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.common import ENVIRONMENT, ROOT, process, until
from scripts.apiserver.sandbox import Sandbox

OFFENDERS = 37
PATIENCE = 600.0


@dataclass(frozen=True)
class Audited:
    """The result of an audit.

    `peak` is the peak resident memory in bytes.
    """

    peak: int
    seconds: float
    looked_at: int
    findings: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--api", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("counts", nargs="*", type=int, default=[0, 5_000, 50_000], metavar="COUNT")
    arguments = parser.parse_args()
    if arguments.api:
        asyncio.run(run_api(arguments.api, arguments.counts[0]))
        return 0

    print(f"{'PodGroups':>10}{'found':>8}{'peak MiB':>10}{'seconds':>9}")
    for count in arguments.counts:
        audited = measured(count)
        print(
            f"{audited.looked_at:10,}{audited.findings:8,}{audited.peak / 2**20:10.1f}{audited.seconds:9.2f}"
        )

    return 0


def objects(count: int) -> Iterator[dict[str, Any]]:
    """Yield a ClusterTopology, and `count` PodGroups with eight SubGroups each.

    In OFFENDERS of the PodGroups, spread evenly, the name of a SubGroup begins with a capital
    letter.
    """
    yield {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "grove-topology"},
        "spec": {"levels": [{"domain": "rack", "key": "topology.kubernetes.io/rack"}]},
    }
    offending = {number * count // OFFENDERS for number in range(OFFENDERS)}
    for number in range(count):
        names = [f"workers-{number}" for number in range(8)]
        if number in offending:
            names[3] = names[3].capitalize()
        yield {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": f"training-job-{number:05}", "namespace": "default"},
            "spec": {
                "minMember": 8,
                "queue": "default",
                "subGroups": [{"name": name, "minMember": 1} for name in names],
            },
        }


async def run_api(directory: Path, count: int) -> None:
    """Serve the objects until the process is killed. Create the file `loaded` once all are stored."""
    sandbox = Sandbox(state_dir=directory)
    await sandbox.start()
    await sandbox.apply(list(objects(count)))
    (directory / "loaded").touch()
    await asyncio.Event().wait()


def measured(count: int) -> Audited:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        command = [sys.executable, __file__, "--api", str(directory), str(count)]
        with process(command):
            until((directory / "loaded").exists, PATIENCE)
            return audited(directory)


def audited(directory: Path) -> Audited:
    command = [
        sys.executable,
        "-m",
        "app",
        "audit",
        "--output",
        "json",
        "--kubeconfig",
        str(directory / "kubeconfig"),
    ]
    report = directory / "report"
    begin = time.monotonic()
    with report.open("wb") as out:
        pid = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=out).pid
        _, _, usage = os.wait4(pid, 0)

    lines = [json.loads(line) for line in report.read_text().splitlines()]
    counted = lines[-1]["summary"]["counts"]["PodGroup"]

    return Audited(
        usage.ru_maxrss * 1024, time.monotonic() - begin, counted["lookedAt"], counted["found"]
    )


if __name__ == "__main__":
    raise SystemExit(main())
