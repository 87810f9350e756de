"""The first ten random schedules over the sandbox; `./scripts/proof` runs more of them."""

import asyncio
from pathlib import Path

import pytest

from tests.proof.schedule import Report, run_seed

SEEDS, AT_ONCE = range(10), 4


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a killed server closes nothing
async def test_whatever_happens_nothing_is_lost_leaked_or_stuck(tmp_path: Path) -> None:
    """Several at a time: a schedule mostly waits."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def run(seed: int) -> Report:
        async with turns:
            return await run_seed(seed, tmp_path / str(seed))

    reports = await asyncio.gather(*map(run, SEEDS))
    for report in reports:
        print(report.line())
    assert {report.seed: report.broken for report in reports if report.broken} == {}
    assert sum(report.faults for report in reports) > 100
