"""The commands of the pages of the guide, typed from top to bottom on one installation.

Other tests type the installation, upgrades and the uninstallation. `logs` and `port-forward` need a
kubelet, and `rollout undo` the controller of Deployments: they are not typed.
"""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.installation.checks import works
from tests.installation.cluster import Cluster
from tests.installation.readme import commands
from tests.rendered import MANIFESTS

pytestmark = [pytest.mark.slow, pytest.mark.untraced]

ALICE = "alice"
WORDS = {
    "NAMESPACE": "default",
    "--user=NAME": f"--user={ALICE}",
    "rolebinding NAME": f"rolebinding {ALICE}",
    "clusterrolebinding NAME": f"clusterrolebinding {ALICE}",
    "RACK": "rack-1",
}
"""What a person writes instead of the words in capitals."""

PAGES = (
    "Certificates",
    "With an existing KAI",
    "Rights of people",
    "Rights of its account",
    "Rules in API servers",
    "Who may use which queue",
    "Tokens in paths",
    "GroveAdmissionDown",
    "GroveAdmissionNoLeader",
    "GroveAdmissionGangsWait",
    "When a workload is pending",
    "Before nodes are drained",
    "Upgrade, or change the configuration",
)
"""Headings of the guide, in the order in which they are typed."""

NEEDS_A_KUBELET = " logs "

EXPECTED = {
    "grove-admission explain NAME -n default": 2,
    "grove-admission explain pod/NAME -n default": 2,
    "grove-admission topology --if 'drain rack=rack-1'": 2,
}
"""The exit codes of commands that name something which this cluster does not have."""


async def typed(cluster: Cluster, title: str) -> dict[str, tuple[int, str]]:
    """Type the commands under a heading. Return the exit code and the output of each."""
    results = {}
    for command in commands(title):
        if NEEDS_A_KUBELET in command or not command.startswith(("kubectl", "grove-admission")):
            continue
        for words, instead in WORDS.items():
            command = command.replace(words, instead)
        results[command] = await entered(cluster, command)
    return results


async def entered(cluster: Cluster, command: str) -> tuple[int, str]:
    """Run a command in the folder of the manifests, and return its exit code and its output."""
    process = await asyncio.create_subprocess_shell(
        command,
        cwd=cluster.folder,
        env={
            **os.environ,
            "KUBECONFIG": str(cluster.api.kubeconfig),
            "HOME": str(cluster.folder),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_every_command_does_what_its_page_says(cluster: Cluster, kind: str) -> None:
    if kind == "sandbox":
        pytest.skip("needs a real API server: `kubectl create` sends protobuf")
    config = (MANIFESTS / "base/config.yaml").read_text()
    cluster.configure(config.replace("drainSeconds: 15", "drainSeconds: 0"))
    await cluster.run(*commands("Install"))
    await works(cluster)

    for title in PAGES:
        results = await typed(cluster, title)
        assert results, f"no command under {title!r}"
        failed = [
            f"$ {command}\n{output}"
            for command, (code, output) in results.items()
            if code != EXPECTED.get(command, 0)
        ]
        assert failed == [], title
        if title == "Certificates":
            doctor, secret = results.values()
            assert doctor[1].startswith("the installation has no problems")
            assert "grove-admission-certificates" in secret[1]
        if title == "Rights of its account":
            ((_, rights),) = results.values()
            assert "podgroups.scheduling.run.ai" in rights
            assert "secrets" not in rights
    await works(cluster)
