"""What the page about units lets a new user type, as it stands there."""

import asyncio
import os
import shutil
import sys
import textwrap
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from scripts.apiserver.admission_server import ApiServer
from tests.integration.system import PATIENCE

pytestmark = [pytest.mark.untraced, pytest.mark.usefixtures("served", "workloads")]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "manifests" / "examples" / "units" / "README.md"
CRDS = ROOT / "scripts" / "apiserver" / "crds" / "workloads.yaml"
FUNCTION = f'grove-admission() {{ {sys.executable} -m app "$@"; }}\n'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def workloads(api: ApiServer) -> None:
    await api.apply(list(yaml.safe_load_all(CRDS.read_text())))


def commands() -> str:
    """The block of commands for the sandbox."""
    part = PAGE.read_text().partition("**On the sandbox**")[2].partition("**In a cluster**")[0]
    lines = [line for line in part.splitlines() if line.startswith("    ")]
    return textwrap.dedent("\n".join(lines))


async def test_a_new_user_sees_what_the_page_says(api: ApiServer) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("needs the program kubectl")
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", FUNCTION + commands()),
        cwd=ROOT,
        env={**os.environ, "KUBECONFIG": str(api.kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(PATIENCE):
        out, _ = await process.communicate()
    shown = out.decode()
    assert "error" not in shown.lower()
    for words in (
        "pod/vllm-0-1 created",
        "lws-vllm-0-cd",
        "ResourceClaimTemplate lws-vllm-0-mnnvl-template does not exist",
        "of LeaderWorkerSet vllm",
        'leaderworkerset.leaderworkerset.x-k8s.io "vllm" deleted',
    ):
        assert words in shown
