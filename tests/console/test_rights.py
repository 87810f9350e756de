"""The console, `explain` and `topology` on an API server, with the rights of two people: one may
view everything, one may view a namespace. On a real API server too, if its binaries are at hand
(KUBEBUILDER_ASSETS).

Tests `app/console/app.py` and `app/console/settings.py`.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import pytest_asyncio

from app.console.app import opened
from app.console.settings import ConsoleSettings
from app.facts.kinds import CLUSTER_TOPOLOGY
from app.kube.api import Object, ObjectRef
from app.objects.resource import SELF_ACCESS_REVIEW
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.command import default_configuration
from scripts.apiserver.real import RealApiServer, find_binaries
from scripts.apiserver.sandbox import Sandbox
from tests.console.objects import objects
from tests.console.parsed import Parsed
from tests.integration.system import command, connect, eventually
from tests.servers import KINDS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
ROOT = Path(__file__).parents[2]
STUCK = "workloads?object=PodCliqueSet/inference/llm-serve"
RBAC = "rbac.authorization.k8s.io"
ACCOUNT = {"kind": "ServiceAccount", "namespace": "grove-system", "name": "grove-admission"}
ROLE_REF = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "viewer"}
RULE = {"verbs": ["get", "list", "watch"], "apiGroups": ["*"], "resources": ["*"]}
RULES: list[Object] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "grove-system"}},
    {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"namespace": "grove-system", "name": "grove-admission"},
    },
    {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "viewer"},
        "rules": [RULE],
    },
]
EVERYTHING: Object = {
    "apiVersion": f"{RBAC}/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "viewer"},
    "roleRef": ROLE_REF,
    "subjects": [ACCOUNT],
}
ONE_NAMESPACE: Object = {
    "apiVersion": f"{RBAC}/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "viewer", "namespace": "inference"},
    "roleRef": ROLE_REF,
    "subjects": [ACCOUNT],
}
NOT_SEEN = "nodes (no permission to list)"


class Seen(NamedTuple):
    """What a person sees: pages by path, the text of the explanation, and (exit code, output) of
    the two commands.
    """

    pages: dict[str, Parsed]
    text: str
    explain: tuple[int, str]
    topology: tuple[int, str]
    room: tuple[int, str]

    def main(self, path: str) -> str:
        return " ".join(self.pages[path].texts("main"))


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS)
async def api(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ApiServer]:
    """The fleet of the sandbox, and no server of ours."""
    folder = tmp_path_factory.mktemp("api")
    server: ApiServer = Sandbox(state_dir=folder, rules=RULES)
    if request.param == "real":
        server = RealApiServer(binaries=find_binaries(os.environ), state_dir=folder, rules=RULES)
    try:
        await server.start()
        await fill(server)
        yield server
    finally:
        await server.stop()


async def fill(server: ApiServer) -> None:
    by_plural = objects()
    for stored in (obj for items in by_plural.values() for obj in items):
        stored["metadata"] = {
            k: v for k, v in stored["metadata"].items() if k not in ("uid", "resourceVersion")
        }
        if stored["kind"] == "PodGroup":
            stored["metadata"].pop("ownerReferences", None)  # its PodGang has another uid here
    topologies = by_plural.pop("topologies")
    namespaces = by_plural.pop("namespaces")
    await server.apply([*namespaces, *by_plural.pop("clustertopologies")])
    async with await connect(server, "admin") as admin:
        owner = await admin.get(ObjectRef(CLUSTER_TOPOLOGY, "grove-topology"))
    topologies[0]["metadata"]["ownerReferences"][0]["uid"] = owner["metadata"]["uid"]
    await server.apply([*topologies, *(obj for items in by_plural.values() for obj in items)])


@contextlib.asynccontextmanager
async def rights(server: ApiServer, binding: Object) -> AsyncIterator[None]:
    """The rights of `binding`, once the API server grants them, until the block ends."""
    await server.apply([binding])
    async with await connect(server, "operator") as person:
        review = {
            "spec": {
                "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "inference"}
            }
        }

        async def granted() -> bool:
            answer = await person.create(SELF_ACCESS_REVIEW, review)
            return bool(answer["status"]["allowed"])

        await eventually(granted)
        try:
            yield
        finally:
            await server.apply([{**binding, "subjects": []}])
            await eventually(granted, lambda allowed: not allowed)


async def seen(server: ApiServer, *namespaces: str) -> Seen:
    settings = ConsoleSettings(
        default_configuration(), server.kubeconfig, "operator", "operator", namespaces
    )
    async with (
        opened(settings) as console,
        httpx.AsyncClient(base_url=console.url, timeout=60) as client,
    ):
        async with asyncio.timeout(240):
            await console.live.until_ready()
        paths = ("workloads", STUCK, "topology?pods=3&gpus=8&level=rack")
        pages = {path: Parsed((await client.get(path)).text) for path in paths}
        text = (await client.get(STUCK.replace("workloads?", "workloads.txt?"))).text
        verbs = {verb for verb, _, _ in console.calls}
    assert verbs <= {"get", "list", "watch"}
    explained = await printed(server, "explain", "podcliqueset/llm-serve", "-n", "inference")
    topology = await printed(server, "topology")
    room = await printed(server, "topology", "--room", "3x8", "--in", "rack")
    return Seen(pages, text, explained, topology, room)


async def printed(server: ApiServer, *arguments: str, context: str = "operator") -> tuple[int, str]:
    """Exit code and standard output of a command."""
    options = ["--kubeconfig", str(server.kubeconfig), "--context", context]
    code, output, _ = await command(*arguments, *options)
    return code, output


def without_ages(text: str) -> str:
    return re.sub(r"requested \d+ \w+ ago", "requested", text)


@pytest.mark.untraced
async def test_one_who_may_view_everything_sees_the_reasons_and_the_room(api: ApiServer) -> None:
    async with rights(api, EVERYTHING):
        view = await seen(api)
    page = view.pages[STUCK]
    assert page.heading.startswith("llm-serve is pending: 0 of 5 pods placed")
    assert page.texts("code", cls="id") == ["LevelLabelMissing", "NoDomainFits"]
    assert page.texts("div", cls="note") == []
    assert "Room for the part that does not fit" in view.main(STUCK)
    assert view.pages["topology?pods=3&gpus=8&level=rack"].heading.startswith("64 nodes in 4 zones")
    assert "room for 3 pods of 8 GPUs in one rack: 9 of 16 racks" in view.main(
        "topology?pods=3&gpus=8&level=rack"
    )
    assert view.explain[0] == 1
    assert without_ages(view.explain[1]) == without_ages(view.text)
    assert (view.topology[0], "not seen" in view.topology[1]) == (1, False)
    assert view.room[0] == 0
    assert view.room[1].startswith("room for 3 pods of 8 GPUs in one rack")


@pytest.mark.untraced
async def test_one_who_may_view_a_namespace_is_told_what_is_not_known(api: ApiServer) -> None:
    async with rights(api, ONE_NAMESPACE):
        view = await seen(api, "inference")
    page = view.pages[STUCK]
    topology = "topology?pods=3&gpus=8&level=rack"
    assert page.heading.startswith("llm-serve is pending: ")
    sets = [
        link.text
        for link in view.pages["workloads"].all("a")
        if link.attributes["href"].startswith("workloads?")
    ]
    assert [text.split()[1] for text in sets if "pcs/" in text] == [
        "pcs/llm-serve",
        "pcs/chat-70b",
        "pcs/embed",
    ]
    notes = " ".join(page.texts("div", cls="note"))
    assert NOT_SEEN in notes
    assert "pods of all namespaces (no permission to list pods of all namespaces)" in notes
    assert "NoDomainFits" in notes
    assert "Room for the part that does not fit" not in view.main(STUCK)
    assert view.pages[topology].heading == "You have no permission to list nodes"
    assert "room is not known: the end of this page lists the missing permissions" in view.main(
        topology
    )
    assert "You have no permission to list topologies" in view.main(topology)
    assert re.findall(r"\b0 (?:nodes|of|GPUs|racks)", view.main(topology)) == []
    assert view.explain[0] == 2
    assert without_ages(view.explain[1]) == without_ages(view.text)
    unseen = next(
        line for line in view.explain[1].splitlines() if line.startswith("could not read: ")
    )
    assert "nodes" in unseen
    assert "no permission to list pods of all namespaces" in unseen
    assert view.topology[0] == 2
    assert view.topology[1].startswith("number of nodes unknown; topology unknown\n")
    assert "no permission to list" in view.topology[1]
    assert view.room == (2, "")
    assert re.findall(r"\b0 (?:nodes|of|GPUs|racks)", view.topology[1]) == []


async def test_without_the_names_of_namespaces_nothing_is_shown_as_empty(api: ApiServer) -> None:
    async with rights(api, ONE_NAMESPACE):
        view = await seen(api)
    assert view.pages["workloads"].heading == "You have no permission to list PodCliqueSets"
