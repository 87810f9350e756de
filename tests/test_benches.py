"""Tests that the benches still start, because no other test runs them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
(NAMES,) = re.findall(r"for bench in ([a-z ]+); do", (ROOT / "scripts" / "bench").read_text())


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "scripts")])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_each_bench_can_be_imported() -> None:
    """A name that moved in the product would be noticed only by the next person who measures."""
    names = NAMES.split()
    modules = ", ".join(f"benches.{name}" for name in names)
    ran = run("-c", f"import {modules}; print(all(m.main for m in ({modules},)))")
    assert (len(names) > 10, ran.stdout, ran.returncode) == (True, "True\n", 0), ran.stderr


@pytest.mark.untraced
def test_an_audit_is_measured() -> None:
    ran = run("-m", "benches.audit", "40")
    assert ran.returncode == 0, ran.stderr
    title, row = ran.stdout.splitlines()
    assert title.split() == ["PodGroups", "found", "peak", "MiB", "seconds"]
    assert row.split()[:2] == ["40", "37"]
