"""`./scripts/proof`: random schedules over the sandbox or a real API server, a line for each, and
what was broken.
"""

import argparse
import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TextIO

from scripts.apiserver.real import RealApiServer, find_binaries
from tests.proof.loop import PatientLoop
from tests.proof.migration import Migration
from tests.proof.schedule import Report, Schedule, operator_token, run_seed

Kind = type[Schedule]


def main() -> int:
    parser = argparse.ArgumentParser(prog="proof", description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=50, metavar="N", help="how many schedules (default: 50)"
    )
    parser.add_argument(
        "--first", type=int, default=0, metavar="SEED", help="the first seed (default: 0)"
    )
    parser.add_argument(
        "--at-once", type=int, default=2, metavar="N", help="schedules at a time, on the sandbox"
    )
    parser.add_argument(
        "--real", action="store_true", help="the API server of KUBEBUILDER_ASSETS, one at a time"
    )
    parser.add_argument(
        "--migrations",
        action="store_true",
        help="schedules in which Grove is upgraded",
    )
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    table = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # verdicts are logged there
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    kind = Migration if arguments.migrations else Schedule
    with asyncio.Runner(loop_factory=PatientLoop) as runner:
        return runner.run(_run(seeds, arguments.at_once, arguments.real, table, kind))


async def _run(seeds: Iterable[int], at_once: int, real: bool, table: TextIO, kind: Kind) -> int:
    """Prints a line as soon as a schedule has ended. 1 if an invariant was broken."""
    reports: list[Report] = []
    with tempfile.TemporaryDirectory(prefix="grove-admission-proof-") as name:
        folder = Path(name)
        async for report in (
            _on_real(seeds, folder, kind) if real else _on_sandboxes(seeds, folder, at_once, kind)
        ):
            reports.append(report)
            print(report.line(), *report.broken, sep="\n    ", file=table)
    broken = [str(report.seed) for report in reports if report.broken]
    faults = sum(report.faults for report in reports)
    settled = sorted(report.settled for report in reports)
    median = settled[len(settled) // 2]
    slowest = max(report.slowest for report in reports)
    seeds_of_broken = ", ".join(broken) or "none"
    print(
        f"{len(reports)} schedules, {faults:,} faults, settled after {median:.1f} s (median), {settled[-1]:.1f} s (longest), slowest request {slowest:.1f} s; broken: {seeds_of_broken}",
        file=table,
    )
    return 1 if broken else 0


async def _on_sandboxes(
    seeds: Iterable[int], folder: Path, at_once: int, kind: Kind
) -> AsyncIterator[Report]:
    turns = asyncio.Semaphore(at_once)

    async def in_turn(seed: int) -> Report:
        async with turns:
            return await run_seed(seed, folder / str(seed), kind)

    for done in asyncio.as_completed([in_turn(seed) for seed in seeds]):
        yield await done


async def _on_real(seeds: Iterable[int], folder: Path, kind: Kind) -> AsyncIterator[Report]:
    api = RealApiServer(binaries=find_binaries(os.environ), state_dir=folder)
    try:
        await api.start()
        for seed in seeds:
            yield await kind(api, seed, folder / str(seed), operator_token(api)).run()
    finally:
        await api.stop()


if __name__ == "__main__":
    sys.exit(main())
