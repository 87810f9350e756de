"""Helm with the chart as it is: the commands of the README, a rollback, an installation in one step,
one that fails, two releases as Flux has them, and an installation that was made with kubectl before.

Without the program helm, its Go code in the package helm-python-sdk does the same (`helm.py`).
"""

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.installation.balancer import Balancer
from tests.installation.checks import SECRET, adopts, untrusted, verdict, works
from tests.installation.cluster import CONFIGURATIONS, Cluster
from tests.installation.helm import NOT_IN_THE_PACKAGE, in_folder
from tests.installation.pods import CORE, NAME
from tests.installation.readme import commands
from tests.installation.repeating import repeating
from tests.installation.test_upgrade import writing
from tests.rendered import MANIFESTS

pytestmark = pytest.mark.untraced

FAST = "--set config.server.drainSeconds=0"


@pytest_asyncio.fixture
async def with_service(
    cluster: Cluster, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Cluster]:
    """A cluster whose API server calls the Service, so that no manifest is changed for the test."""
    if shutil.which("helm") is None:
        (tmp_path / "bin").mkdir()
        if not in_folder(tmp_path / "bin"):
            pytest.skip("needs the program helm, or the package helm-python-sdk")
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    if kind == "sandbox":
        pytest.skip("needs a real API server: the sandbox has no server-side apply")
    if not await _may_listen():
        pytest.skip("needs the right to listen at port 443")

    proxy = Proxy(cluster)
    async with repeating(proxy.follow, 0.1):
        yield cluster
    await proxy.stop()


async def _may_listen() -> bool:
    """Return whether this process may listen at the port of the Service."""
    with contextlib.suppress(PermissionError):
        listening = Balancer(list, "127.0.0.2", 443)
        await listening.start()
        await listening.stop()
        return True
    return False


class Proxy:
    """Stands in for kube-proxy: it listens at the address of the Service."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._address = ""
        self._balancer: Balancer | None = None

    async def follow(self) -> None:
        """Listen where the Service is now."""
        service = await self._cluster.admin.find(f"{CORE}/services/{NAME}")
        address = service["spec"]["clusterIP"] if service else ""
        if address == self._address:
            return
        await self.stop()
        self._address = address
        if address:
            self._balancer = Balancer(lambda: self._cluster.pods.ready, address, 443)
            await self._balancer.start()

    async def stop(self) -> None:
        if self._balancer is not None:
            await self._balancer.stop()
            self._balancer = None


def fast(command: str) -> str:
    """Return a command of the README, for replicas that don't drain."""
    return f"{command} {FAST}" if command.startswith("helm install") else command


async def test_the_commands_of_the_readme_install_upgrade_roll_back_and_uninstall(
    with_service: Cluster,
) -> None:
    cluster = with_service
    await cluster.run(*commands("Install")[:2])
    before = await cluster.everything()

    install, upgrade = commands("With Helm")
    await cluster.run(fast(install))
    assert [path for path in CONFIGURATIONS if await cluster.admin.find(path)] == []
    await cluster.run(upgrade)
    await works(cluster)
    await adopts(cluster, "train")
    secret = await cluster.admin.get(SECRET)

    await cluster.run(f"{upgrade} --set config.mnnvl.claimMode=template --wait")
    await works(cluster)
    await cluster.run(f"helm rollback {NAME} 2 --namespace grove-system --wait")
    await works(cluster)
    assert await untrusted(cluster) == []
    assert (await cluster.admin.get(SECRET))["data"] == secret["data"]

    await cluster.run(f"{upgrade.replace('=true', '=false')}")
    assert await verdict(cluster) == ""
    leftovers = [command for command in commands("Uninstall") if " -k " not in command]
    await cluster.run(f"helm uninstall {NAME} --namespace grove-system --wait", *leftovers)
    await cluster.until(cluster.everything, lambda after: after - before == set())


async def test_one_step_installs_everything_and_one_removes_it(with_service: Cluster) -> None:
    """The webhooks come last, and not for the namespace of the release: they can't block it."""
    cluster = with_service
    await cluster.run(*commands("Install")[:2])
    before = await cluster.everything()
    (install,) = commands("In one step")
    await cluster.run(fast(install))
    await works(cluster)
    await adopts(cluster, "train")

    # with all webhooks in place: new replicas, and then none
    upgrade = f"helm upgrade {NAME} manifests/chart --namespace grove-system --wait {FAST}"
    await cluster.run(f"{upgrade} --set config.mnnvl.claimMode=template")
    await works(cluster)
    await cluster.run(f"helm uninstall {NAME} --namespace grove-system --wait")
    assert await verdict(cluster) == ""
    leftovers = [command for command in commands("Uninstall") if " -k " not in command]
    await cluster.run(*leftovers)
    await cluster.until(cluster.everything, lambda after: after - before == set())


async def test_replicas_that_do_not_start_leave_no_webhook_behind(with_service: Cluster) -> None:
    cluster = with_service
    (install,) = commands("In one step")
    broken = f"{install} --timeout 8s --set extraArgs[0]=--no-such-option"
    with pytest.raises(AssertionError, match=r"failed|deadline|rolled back|uninstalled"):
        await cluster.run(broken)
    assert [path for path in CONFIGURATIONS if await cluster.admin.find(path)] == []
    assert await verdict(cluster) == ""


async def test_two_releases_as_flux_has_them(with_service: Cluster) -> None:
    cluster = with_service
    await cluster.run(*commands("Install")[:2])
    before = await cluster.everything()
    namespace = "--namespace grove-system"
    server = f"server manifests/chart {namespace} --set webhooks.enabled=false --wait {FAST}"
    webhooks = f"webhooks manifests/chart {namespace} --set server.enabled=false --wait"

    await cluster.run(f"helm install {server}", f"helm install {webhooks}")
    await works(cluster)
    await cluster.run(f"helm upgrade {server}", f"helm upgrade {webhooks}")
    await works(cluster)
    assert await untrusted(cluster) == []

    leftovers = [command for command in commands("Uninstall") if " -k " not in command]
    await cluster.run(f"helm uninstall webhooks {namespace} --wait")
    assert await verdict(cluster) == ""
    await cluster.run(f"helm uninstall server {namespace} --wait", *leftovers)
    await cluster.until(cluster.everything, lambda after: after - before == set())


async def test_an_installation_by_kubectl_becomes_a_release(with_service: Cluster) -> None:
    cluster = with_service
    program = shutil.which("helm")
    if program and Path(program).is_relative_to(cluster.folder):
        pytest.skip(f"needs the program helm: the package has no {NOT_IN_THE_PACKAGE}")
    shutil.copytree(MANIFESTS, cluster.folder / "manifests", dirs_exist_ok=True)
    config = (MANIFESTS / "base/config.yaml").read_text()
    cluster.configure(config.replace("drainSeconds: 15", "drainSeconds: 2"))
    await cluster.run(*commands("Install"))
    await works(cluster)
    secret = await cluster.admin.get(SECRET)

    async with writing(cluster) as answers:
        own, install = commands("From kubectl to Helm")
        await cluster.run(own, f"{install} --set config.server.drainSeconds=2")
        await works(cluster)
        await cluster.run(
            f"helm upgrade {NAME} manifests/chart --namespace grove-system --reset-then-reuse-values --wait --set resources.limits.memory=600Mi"
        )
        await works(cluster)
    assert len(answers) > 5
    assert [answer for answer in answers if answer != ""] == []
    assert (await cluster.admin.get(SECRET))["data"] == secret["data"]
