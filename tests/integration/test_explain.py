"""Every reason of the table on a real store: its state is made on the API server, and `explain`
reads it back.

Also with the rights of people: one who may view everything, one who may view a namespace.
"""

import argparse
import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio

from app.cli import main
from app.cluster.command_clients import reading_client
from app.commands import explain as command
from app.commands.explain import reference
from app.explain.answers.answer import Answer, explain
from app.explain.output.rights import VIEWER as VIEWER_ROLE
from app.explain.state.index import Index
from app.explain.state.read import read_list
from app.explain.state.snapshot import RESOURCES
from app.facts.identity import Ref
from app.facts.kinds import POD_GANG
from app.kube.api import Object
from app.kube.client import HttpClient
from app.kube.credentials import from_kubeconfig
from app.kube.read_only import ReadOnlyClient
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.real import RealApiServer
from scripts.apiserver.sandbox import Sandbox
from tests.explain import fleet
from tests.explain.fleet import SET_REF, facts
from tests.explain.table.row import Row
from tests.explain.test_reasons import ROWS, start
from tests.integration.inprocess import InProcessClient
from tests.integration.stage import Stage, in_a_dialect, skip_if_impossible, staged
from tests.integration.system import FAST, eventually
from tests.test_viewer import viewer

TIMES = (
    "GangEvicted",
    "GangStale",
    "NodesComing",
    "PlacementLost",
    "PreemptionDelay",
    "ClaimHeld",
    "PodGangMissing",
    "PoolNotChosen",
    "SetBeingDeleted",
    "GangIncomplete",
    "NothingMade",
    "NotGrouped",
)
"""Their texts depend on times, which the API server sets."""
AGES = re.compile(r",? (?:there )?for (?:at least )?\d+ [a-z]+| \(\d+ [a-z]+ ago\)")
OF_AGES = {
    "KaiRefuses",
    "KaiSilent",
    "SchedulerSilent",
    "SchedulerRefuses",
    "KubeletRefuses",
    "KueueHolds",
    "KueueMayEvict",
    "PodsMissing",
}
"""These hold, or are worded, by the ages of objects, which are new on an API server."""
VIEW = ["get", "list"]
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view-all"}
ACCOUNT = {"kind": "ServiceAccount", "namespace": "grove-system", "name": "grove-admission"}
RULE = {"verbs": VIEW, "apiGroups": ["*"], "resources": ["*"]}
VIEWER: list[Object] = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "view-all"},
        "rules": [RULE],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "view-all"},
        "roleRef": ROLE,
        "subjects": [ACCOUNT],
    },
]
LOCAL: list[Object] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": fleet.NAMESPACE}},
    VIEWER[0],
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "view-one", "namespace": fleet.NAMESPACE},
        "roleRef": ROLE,
        "subjects": [ACCOUNT],
    },
]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["design", "today"])
async def stage(
    request: pytest.FixtureRequest, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[str, ApiServer, Stage]]:
    dialect = str(request.param)
    async with staged(tmp_path_factory.mktemp(dialect), dialect, VIEWER, kind) as (server, stage):
        yield dialect, server, stage


@contextlib.asynccontextmanager
async def reader(server: ApiServer, user: str) -> AsyncIterator[ReadOnlyClient]:
    """The client of a command; in-process on a sandbox, which saves a connection for each kind."""
    if not isinstance(server, Sandbox):
        async with reading_client(RESOURCES, server.kubeconfig, user) as client:
            yield client
        return

    credentials = await from_kubeconfig(server.kubeconfig, user)
    async with InProcessClient(credentials, RESOURCES, FAST, server.app) as client:
        await client.discovery.assume()
        yield ReadOnlyClient(client)


def calls_of(client: ReadOnlyClient) -> dict[tuple[str, str, str], int]:
    """How often the client of a command has sent each call."""
    return cast(HttpClient, client._client).calls


async def asked(
    server: ApiServer, ref: Ref, *, user: str = "operator", room: bool = True
) -> Answer:
    async with reader(server, user) as client:
        read = await read_list(client, ref.namespace, room=room, now=time.time(), asked=ref)
    answer = explain(Index(read), ref)
    assert answer is not None
    return answer


def recording(server: ApiServer) -> Sandbox:
    """The sandbox, which records what it has granted; the test is skipped on a real API server."""
    if not isinstance(server, Sandbox):
        pytest.skip("only the sandbox records each request with its namespace")
    server.authorizer.granted.clear()
    return server


@pytest.mark.untraced
@pytest.mark.parametrize(("stage", "row"), in_a_dialect(ROWS), indirect=["stage"], scope="module")
async def test_the_reason_is_found(row: Row, stage: tuple[str, ApiServer, Stage]) -> None:
    dialect, server, store = stage
    skip_if_impossible(row, dialect, server)
    snapshot = facts(**{**start(dialect), **row.hit})
    await store.show(snapshot)
    answer = await asked(server, SET_REF)
    expected = explain(Index(snapshot), SET_REF)
    assert expected is not None
    ids = [reason.id for reason in answer.reasons if reason.id not in OF_AGES]
    assert ids == [reason.id for reason in expected.reasons if reason.id not in OF_AGES]
    if row.id not in TIMES and not OF_AGES & {reason.id for reason in expected.reasons}:
        assert _words(answer) == _words(expected)
    assert answer.unseen == {}
    assert answer.exit_code == 1 or row.id in OF_AGES


def _words(answer: Answer) -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (AGES.sub("", reason.text), AGES.sub("", reason.remedy), reason.commands)
        for reason in answer.reasons
    ]


@pytest.mark.untraced
@pytest.mark.parametrize("of", ["podgang", "podclique", "pod", "podgroup"])
async def test_any_object_of_a_workload_leads_to_it(
    of: str, stage: tuple[str, ApiServer, Stage]
) -> None:
    dialect, server, store = stage
    await store.show(
        facts(**{**start(dialect), "pods": (*fleet.pods(), *fleet.fill("rack-a1", "rack-a2"))})
    )
    names = {
        "podgang": fleet.GANG,
        "podclique": fleet.WORKERS,
        "pod": f"{fleet.WORKERS}-0",
        "podgroup": fleet.GANG,
    }
    answer = await asked(server, reference(f"{of}/{names[of]}", fleet.NAMESPACE))
    assert (answer.tree.ref, answer.placed, answer.total) == (SET_REF, 0, 4)


async def test_without_room_no_list_of_nodes_or_of_all_pods_is_made(
    stage: tuple[str, ApiServer, Stage],
) -> None:
    dialect, server, store = stage
    await store.show(
        facts(**{**start(dialect), "pods": fleet.placed("gpu-00", "gpu-01", "gpu-02", "gpu-03")})
    )
    sandbox = recording(server)
    answer = await asked(server, SET_REF, room=False)
    cluster_wide = {
        (a.verb, a.resource)
        for a in sandbox.authorizer.granted
        if not a.namespace and a.verb == "list"
    }
    assert not {("list", "nodes"), ("list", "pods")} & cluster_wide
    assert (answer.placed, answer.total, answer.exit_code) == (4, 4, 0)
    assert "NotAsPreferred" in answer.skipped


async def test_only_reads_are_sent(stage: tuple[str, ApiServer, Stage]) -> None:
    dialect, server, store = stage
    await store.show(facts(**start(dialect)))
    if isinstance(server, Sandbox):
        server.authorizer.granted.clear()
    async with reading_client(RESOURCES, server.kubeconfig, "operator") as client:
        await read_list(client, SET_REF.namespace, room=True, now=time.time(), asked=SET_REF)
        verbs = {verb for verb, _, _ in calls_of(client)}
        total = sum(calls_of(client).values())
    assert verbs == {"get", "list"}
    assert total <= 25
    if isinstance(server, Sandbox):
        assert {access.verb for access in server.authorizer.granted} == {"list"}
        assert not {"secrets", "configmaps"} & {
            access.resource for access in server.authorizer.granted
        }


async def test_a_user_of_one_namespace_is_told_what_is_not_known(kind: str, tmp_path: Path) -> None:
    async with staged(tmp_path, "design", LOCAL, kind) as (server, store):
        await store.show(facts(pods=(*fleet.pods(), *fleet.fill("rack-a1"))))
        answer = await asked(server, SET_REF)
    assert (answer.placed, answer.total, answer.state, answer.exit_code) == (0, 4, "waits", 2)
    unknown = {unknown.id for unknown in answer.unknown}
    assert {
        "NoDomainFits",
        "NeverFits",
        "QueueMissing",
        "QueueQuota",
        "LevelLabelMissing",
        "TopologyDiffers",
    } <= unknown
    assert not {"GateForeign", "GangIncomplete"} & unknown
    assert answer.unseen == {
        "kai_topologies": "no permission to list",
        "nodes": "no permission to list",
        "priorities": "no permission to list",
        "queues": "no permission to list",
        "room": "no permission to list pods of all namespaces",
        "topologies": "no permission to list",
    }
    assert answer.room == ()
    assert {branch.where for branch in answer.tree.children} == {""}


async def test_what_a_user_may_not_read_is_not_called_missing(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with staged(tmp_path, "design", LOCAL[:2], kind) as (server, store):
        await store.show(facts())
        async with reading_client(RESOURCES, server.kubeconfig, "operator") as client:
            read = await read_list(
                client, SET_REF.namespace, room=True, now=time.time(), asked=SET_REF
            )
        as_operator = ["--kubeconfig", str(server.kubeconfig), "--context", "operator"]
        assert (
            await asyncio.to_thread(main, ["explain", "llm", "-n", fleet.NAMESPACE, *as_operator])
            == 2
        )
        assert await asyncio.to_thread(main, ["topology", "zone=zone-a", *as_operator]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "You have no permission to get and list podcliquesets.grove.io in namespace inference, so it is not known whether PodCliqueSet llm exists",
        "Ask an admin of namespace inference for permission to read its objects (USER is your user name): kubectl -n inference create rolebinding USER-view --clusterrole=grove-admission-view --user=USER",
        "'zone=zone-a': zone is not a level; the levels are none that you may read",
    ]
    assert explain(Index(read), SET_REF) is None
    assert read.unseen["sets"] == "no permission to list"
    assert read.pods == ()


def bound(role: str, namespace: str = "") -> Object:
    """A binding of the user `operator` to a ClusterRole, in a namespace or in all."""
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    metadata = {"name": "viewer", **({"namespace": namespace} if namespace else {})}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": reference,
        "subjects": [ACCOUNT],
    }


WITHOUT_SETS: list[Object] = [
    {**VIEWER[0], "rules": [{**RULE, "resources": ["podgangs", "podcliques", "pods"]}]},
    LOCAL[0],
    LOCAL[2],
]


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("rules", "arguments", "code", "expected"),
    [
        pytest.param(
            lambda: [viewer(), bound(VIEWER_ROLE)],
            ["-A"],
            1,
            ["1 of 1 workload in all namespaces is pending", "NoDomainFits"],
            id="the ClusterRole of the manifests, in all namespaces",
        ),
        pytest.param(
            lambda: [LOCAL[0], viewer(), bound(VIEWER_ROLE, fleet.NAMESPACE)],
            ["-n", fleet.NAMESPACE],
            2,
            ["1 of 1 workload in namespace inference is pending", "create clusterrolebinding"],
            id="the ClusterRole of the manifests, in one namespace",
        ),
        pytest.param(
            lambda: WITHOUT_SETS,
            ["podcliqueset", "llm", "-n", fleet.NAMESPACE],
            2,
            ["You have no permission to get and list podcliquesets", "podgang/llm-0"],
            id="parts of a set that may not be read",
        ),
        pytest.param(
            lambda: [viewer(), bound(VIEWER_ROLE)],
            ["pcs", "llm", "-n", "research"],
            2,
            ["PodCliqueSet llm not found", "the name exists in namespace inference"],
            id="another namespace",
        ),
    ],
)
async def test_the_command_says_what_waits_and_what_may_not_be_read(
    rules: Callable[[], list[Object]],
    arguments: list[str],
    code: int,
    expected: list[str],
    kind: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with staged(tmp_path, "design", rules(), kind) as (server, store):
        await store.show(
            facts(pods=(*fleet.pods(), *fleet.fill("rack-a1", "rack-a2", "rack-b1", "rack-b2")))
        )
        as_operator = ["--kubeconfig", str(server.kubeconfig), "--context", "operator"]
        command_line = ["explain", *arguments, *as_operator]
        assert await asyncio.to_thread(main, command_line) == code
        texts = capsys.readouterr()
        await asyncio.to_thread(main, [*command_line, "-o", "json"])
        document = capsys.readouterr().out
    printed = texts.out + texts.err
    ids = document if arguments == ["-A"] else ""
    assert [text for text in expected if text not in printed + ids] == []


LEVELS = """
apiVersion: grove.io/v1alpha1
kind: ClusterTopology
metadata: {name: grove-topology}
spec:
  levels:
    - {domain: zone, key: topology.kubernetes.io/zone}
    - {domain: rack, key: example.com/nowhere}
"""
ASKED: dict[str, tuple[list[str], int, str]] = {
    "more GPUs than a node has": (
        ["topology", "--room", "4x16", "--in", "rack"],
        1,
        "no node has 16 GPUs: the largest has 8 GPUs",
    ),
    "a wider level has room": (
        ["topology", "--room", "7x8", "--in", "rack"],
        1,
        "room for 7 pods of 8 GPUs in one zone: ",
    ),
    "a level that there is not": (
        ["topology", "--room", "4x8", "--in", "rak"],
        2,
        "--in rak: no such level; the levels are zone, rack and host",
    ),
    "a key on no node": (
        ["topology", "--levels", "FILE"],
        1,
        "! No node has the label example.com/nowhere",
    ),
    "a name that is nearly right": (
        ["explain", "lmm", "-n", fleet.NAMESPACE],
        2,
        "did you mean llm?",
    ),
    "an empty namespace": (
        ["explain", "-n", "research"],
        0,
        "there are no workloads in namespace research. Use -A to list all namespaces",
    ),
}
"""What is asked of an API server, the exit code, and what is said, on a line of its own."""


@pytest.mark.untraced
async def test_what_users_ask_is_answered_with_its_exit_code(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "levels.yaml").write_text(LEVELS)
    answers: dict[str, tuple[int, bool]] = {}
    documents = []
    async with staged(tmp_path, "design", [viewer(), bound(VIEWER_ROLE)], kind) as (server, store):
        await store.show(facts())
        options = ["--kubeconfig", str(server.kubeconfig), "--context", "operator"]
        for name, (words, _, expected) in ASKED.items():
            command_line = [
                str(tmp_path / "levels.yaml") if word == "FILE" else word for word in words
            ]
            code = await asyncio.to_thread(main, [*command_line, *options])
            printed = capsys.readouterr()
            said = (printed.out + printed.err).splitlines()
            answers[name] = (code, any(line.startswith(expected) for line in said))
            await asyncio.to_thread(main, [*command_line, *options, "-o", "json"])
            documents.append(capsys.readouterr().out)
    assert answers == {name: (code, True) for name, (_, code, _) in ASKED.items()}
    rooms = [json.loads(document)["room"] for document in documents[:2]]
    assert [room["largestNode"] for room in rooms] == [8, 8]
    assert rooms[1]["wider"]["level"] == "zone"
    assert json.loads(documents[3])["preview"]["keysOnNoNode"] == ["example.com/nowhere"]
    assert documents[4] == ""


async def test_whoever_may_view_a_namespace_sees_what_waits_there_and_nothing_elsewhere(
    kind: str, tmp_path: Path
) -> None:
    """Kubernetes' own ClusterRole `view`, to which the manifests add theirs."""
    rules = [LOCAL[0], viewer(), bound("view", fleet.NAMESPACE)]
    async with staged(tmp_path, "design", rules, kind) as (server, store):
        if not isinstance(server, RealApiServer) or not server.collects_garbage:
            pytest.skip("needs a kube-controller-manager, which aggregates the ClusterRole `view`")
        await store.show(facts())
        options = ["--kubeconfig", str(server.kubeconfig), "--context", "operator"]

        async def printed(*arguments: str) -> tuple[int, str, str]:
            return await asyncio.to_thread(in_a_process, "explain", *arguments, *options)

        here = await eventually(
            lambda: printed("-n", fleet.NAMESPACE), lambda ended: "1 of 1 workload" in ended[1]
        )
        elsewhere = await printed("llm", "-n", "research")
        everywhere = await printed("-A")
    assert here[0] == 2
    assert "no permission to list pods of all namespaces" in here[1]
    assert elsewhere == (
        2,
        "",
        "You have no permission to get and list podcliquesets.grove.io in namespace research, so it is not known whether PodCliqueSet llm exists\n"
        "Ask an admin of namespace research for permission to read its objects (USER is your user name): kubectl -n research create rolebinding USER-view --clusterrole=grove-admission-view --user=USER\n",
    )
    assert everywhere[0] == 2
    assert everywhere[1].startswith("PodCliqueSets in all namespaces could not be read")


def in_a_process(*arguments: str) -> tuple[int, str, str]:
    """The exit code of a command, and what it printed: its output, and its errors."""
    ended = subprocess.run(
        [sys.executable, "-m", "app", *arguments], capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stdout, ended.stderr


async def test_a_line_is_printed_when_the_answer_changes(
    stage: tuple[str, ApiServer, Stage], capsys: pytest.CaptureFixture[str]
) -> None:
    dialect, server, store = stage
    await store.show(facts(**start(dialect)))
    arguments = argparse.Namespace(no_room=True)
    seen = [""]

    async def printed() -> str:
        seen.append(capsys.readouterr().out)
        return "".join(seen)

    async with reading_client(RESOURCES, server.kubeconfig, "operator") as client:

        async def read() -> set[tuple[str, str]]:
            return {(verb, resource) for verb, resource, _ in calls_of(client)}

        watching = asyncio.create_task(command.watch(client, SET_REF, arguments, every=0.05))
        try:
            await eventually(read, lambda calls: ("list", str(POD_GANG)) in calls)
            await store.show(
                facts(
                    **{
                        **start(dialect),
                        "pods": fleet.placed("gpu-00", "gpu-01", "gpu-02", "gpu-03"),
                    }
                )
            )
            lines = await eventually(printed, lambda text: "llm: well, 4 of 4 placed" in text)
        finally:
            watching.cancel()
            await asyncio.wait({watching})
    assert lines.count("llm: waits, 0 of 4 placed") == 0
