"""An upgrade of the policies leaves none of a former version behind, by the README's own commands."""

import asyncio
import copy
import os
import shutil
from pathlib import Path

import pytest
import yaml

from app.config.read import read_configuration
from app.doctor.policies import check_policies, check_queue_guard
from app.doctor.report import Check
from app.kube.api import Object, Selection
from app.objects.resource import CRD, VALIDATING_POLICIES, VALIDATING_POLICY_BINDINGS
from app.webhooks.configurations import NAME
from scripts.apiserver.admission_server import ApiServer
from tests.installation.readme import commands
from tests.integration.system import Users
from tests.rendered import rendered

pytestmark = pytest.mark.untraced

ROOT = Path(__file__).parents[2]
FORMER = "former.grove-admission.grove.io"
OTHERS = "others.example.com"


HEADINGS = {
    "policies": "Rules in API servers",
    "queue-guard": "Who may use which queue",
}
"""The overlays, and where the README has the command that upgrades them."""


def installation(overlay: str) -> list[Object]:
    """The policies, with one of a former version and one of somebody else beside them."""
    objects = rendered(f"overlays/{overlay}")
    policies = [obj for obj in objects if "AdmissionPolicy" in obj["kind"]]
    name_of_first = policies[0]["metadata"]["name"]
    for name in (FORMER, OTHERS):
        of_first = [obj for obj in objects if obj["metadata"]["name"] == name_of_first]
        for obj in copy.deepcopy(of_first):
            obj["metadata"]["name"] = name
            if name == OTHERS:
                obj["metadata"]["labels"] = {"app.kubernetes.io/component": "policies-of-others"}
            if "policyName" in obj["spec"]:
                obj["spec"]["policyName"] = name
            objects.append(obj)
    return objects


async def kubectl(api: ApiServer, arguments: str) -> str:
    """The output of kubectl as admin. Fails with what it says if it fails."""
    environment = {**os.environ, "KUBECONFIG": str(api.kubeconfig)}
    process = await asyncio.create_subprocess_exec(
        "kubectl",
        *arguments.split()[1:],
        "--context",
        "admin",
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output.decode()


async def names(clients: Users) -> set[str]:
    listed = [
        item["metadata"]["name"]
        for resource in (CRD, VALIDATING_POLICIES, VALIDATING_POLICY_BINDINGS)
        for item in (await clients.admin.list(Selection(resource), limit=0)).items
    ]
    return {
        name
        for name in listed
        if name.endswith((f".{NAME}.grove.io", OTHERS)) and not name.startswith("account-")
    }


async def examined(clients: Users) -> list[Check]:
    """What the doctor says of the policies that an API server has stored."""
    text = (ROOT / "manifests" / "base" / "config.yaml").read_text()
    configuration = read_configuration(text, "config.yaml")
    await clients.admin.discovery.refresh()
    of_rules = await check_policies(clients.admin, configuration)
    return [*of_rules, *await check_queue_guard(clients.admin, configuration)]


@pytest.mark.parametrize("overlay", HEADINGS)
async def test_an_upgrade_deletes_what_this_version_does_not_have(
    api: ApiServer, clients: Users, overlay: str, tmp_path: Path
) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl, which applies the policies")
    (tmp_path / "former.yaml").write_text(yaml.safe_dump_all(installation(overlay)))
    await kubectl(api, f"kubectl apply -f {tmp_path / 'former.yaml'}")
    assert {FORMER, OTHERS} <= await names(clients)
    (command,) = (line for line in commands(HEADINGS[overlay]) if "--prune " in line)

    await kubectl(api, command)

    ours = {obj["metadata"]["name"] for obj in rendered(f"overlays/{overlay}")}
    assert await names(clients) == {*ours, OTHERS}
    assert [check for check in await examined(clients) if check.status != "ok"] == []
    await kubectl(api, f"kubectl delete -k manifests/overlays/{overlay}")
    assert await names(clients) == {OTHERS}
