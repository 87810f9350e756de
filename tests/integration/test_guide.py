"""The commands that the guide gives people, against a cluster in which a gang waits."""

import asyncio
import os
import re
import shlex
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio
import yaml

from app.commands.explain import KINDS
from app.explain.reasons.table import RULES
from app.facts.kinds import POD_CLIQUE_SET
from app.facts.labels import KAI_SCHEDULER, SKIP_PODGROUPER
from app.kube.api import Object, ObjectRef
from app.objects.resource import POD
from app.objects.shape import annotations_of
from scripts.apiserver.admission_server import ApiServer
from tests.commands.test_explain import FULL
from tests.explain import fleet
from tests.explain.fleet import facts
from tests.installation.readme import GUIDE, ROOT, commands
from tests.integration.stage import staged
from tests.integration.system import command, connect

pytestmark = pytest.mark.untraced

PAGES = (
    "Rights of people",
    "Rights of its account",
    "Certificates",
    "With Grove and KAI",
    "When a workload is pending",
    "Before nodes are drained",
)
FILLED = {
    "pod/NAME": f"pod/{fleet.ROUTER}-0",
    "job/NAME": "job/without-pods",
    "NAMESPACE": fleet.NAMESPACE,
    "NAME": fleet.SET,
    "QUEUE": "team-a",
    "RACK": fleet.RACKS[0],
    "--in rack": "--in host",
    "--in block": "--in host",
}
"""What a reader would write in place of the words of a page."""


JOB: Object = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "without-pods", "namespace": fleet.NAMESPACE},
    "spec": {
        "suspend": True,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "registry.example/main:1"}],
            }
        },
    },
}


REFUSED: Object = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "refused", "namespace": fleet.NAMESPACE},
    "regarding": {"kind": "Job", "namespace": fleet.NAMESPACE, "name": "without-pods"},
    "reason": "FailedCreate",
    "note": "Error creating: pods is forbidden: exceeded quota",
    "type": "Warning",
    "eventTime": "2026-11-28T12:00:00.000000Z",
    "action": "Creating",
    "reportingController": "job-controller",
    "reportingInstance": "job-controller-0",
}
"""Why the Job has no pods."""


class Row(NamedTuple):
    """A row of the table of symptoms."""

    symptom: str
    command: str
    tells: str


def rows() -> list[Row]:
    text = (GUIDE / "symptoms.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")][1:]
    cells = [line.strip("| ").split(" | ") for line in lines]
    return [Row(symptom, asked.strip("`"), tells) for symptom, asked, tells, _ in cells]


ASKED = sorted(
    {row.command for row in rows()} | {line for page in PAGES for line in commands(page)}
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(kind: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ApiServer]:
    async with staged(tmp_path_factory.mktemp("guide"), "design", [], kind) as (server, stage):
        await stage.show(facts(**FULL))
        await server.apply([JOB, REFUSED])
        yield server


def filled(line: str) -> str:
    for word, filling in FILLED.items():
        line = line.replace(word, filling)
    return line


@pytest.mark.parametrize("line", ASKED)
async def test_a_command_of_the_guide_has_an_answer(line: str, kind: str, api: ApiServer) -> None:
    refused = ROOT / "manifests" / "examples" / "podcliqueset-refused.yaml"
    program, *words = shlex.split(filled(line).replace("FILE", str(refused)))

    if program == "kubectl":
        if kind == "sandbox" and not {"get", "describe"} & set(words):
            pytest.skip("needs a real API server: the sandbox reads no protobuf")
        await kubectl(words, api.kubeconfig)
    else:
        cluster = [] if words[0] == "check" else ["--kubeconfig", str(api.kubeconfig)]
        code, printed, error = await command(*words, *cluster)
        assert error == ""
        assert code in (0, 1, 3)
        assert printed


async def test_pods_that_wait_lose_the_mark_of_workloads(api: ApiServer) -> None:
    def marked(name: str, **spec: str) -> Object:
        metadata = {"name": name, "namespace": "default", "annotations": {SKIP_PODGROUPER: "true"}}
        containers = [{"name": "main", "image": "registry.example/main:1"}]
        spec_of_pod = {"containers": containers, "schedulerName": KAI_SCHEDULER, **spec}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec_of_pod}

    await api.apply([marked("waits"), marked("placed", nodeName="n1")])
    (line,) = commands("Switch Workloads off")
    await kubectl(shlex.split(line)[1:], api.kubeconfig)
    async with await connect(api, "admin") as client:
        pods = [await client.get(ObjectRef(POD, name, "default")) for name in ("waits", "placed")]
    assert [SKIP_PODGROUPER in annotations_of(pod) for pod in pods] == [False, True]


async def test_a_set_is_made_again_with_another_level(api: ApiServer, tmp_path: Path) -> None:
    def asked(level: str) -> Object:
        pods = {"containers": [{"name": "main", "image": "registry.example/main:1"}]}
        clique = {"name": "main", "spec": {"roleName": "main", "replicas": 1, "podSpec": pods}}
        template = {"cliques": [clique], "topologyConstraint": {"packDomain": level}}
        return {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": fleet.SET, "namespace": "again"},
            "spec": {"replicas": 1, "template": template},
        }

    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "again"}}
    await api.apply([namespace, asked("rack")])
    place = ObjectRef(POD_CLIQUE_SET, fleet.SET, "again")
    async with await connect(api, "admin") as client:
        before = await client.get(place)
        for line in commands("Ask for another level"):
            line = filled(line.replace("NAMESPACE", "again"))
            line = line.replace("set.yaml", str(tmp_path / "set.yaml"))
            if line.startswith("grove-admission "):
                words = shlex.split(line)[1:]
                code, printed, error = await command(*words, "--kubeconfig", str(api.kubeconfig))
                assert (code in (0, 1), error) == (True, "")
                assert "1 PodCliqueSet" in printed
            else:
                await shell(line, api.kubeconfig)
        after = await client.get(place)

    assert after["spec"]["template"]["topologyConstraint"] == {"packDomain": "block"}
    assert after["metadata"]["uid"] != before["metadata"]["uid"]


async def kubectl(words: list[str], kubeconfig: Path) -> None:
    await shell(shlex.join(["kubectl", *words]), kubeconfig)


async def shell(line: str, kubeconfig: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl")
    process = await asyncio.create_subprocess_shell(
        line, env={**os.environ, "KUBECONFIG": str(kubeconfig)}
    )
    assert await process.wait() == 0


async def test_a_symptom_leads_to_reasons_and_subjects_that_there_are() -> None:
    doctor = (ROOT / "app" / "doctor" / "README.md").read_text()
    known = {rule.id for rule in RULES} | set(re.findall(r"^- `(\w+)`:", doctor, re.MULTILINE))
    named = {
        name
        for row in rows()
        for name in re.findall(r"`(\w+)`", row.tells)
        if name != "topologyName"
    }
    assert len(named) > 15
    assert named - known == set()


async def test_the_plugin_for_k9s_names_kinds_that_explain_knows() -> None:
    plugins = yaml.safe_load((GUIDE / "k9s.yaml").read_text())["plugins"]
    (plugin,) = plugins.values()
    assert {"shortCut", "description", "scopes", "command"} <= plugin.keys()
    assert [plugin["command"], plugin["args"][0]] == ["grove-admission", "explain"]
    assert [scope for scope in plugin["scopes"] if scope not in KINDS] == []
    assert set(re.findall(r"\$\w+", " ".join(plugin["args"]))) == {
        "$RESOURCE_NAME",
        "$NAME",
        "$NAMESPACE",
        "$CONTEXT",
    }
