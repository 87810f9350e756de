"""Every reason of the table on a real store: its state is made on the API server, and `explain` reads it back.

Also with the rights of people: one who may view everything, one who may view a namespace.
"""

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.cluster.connect import reading_client
from app.commands import explain as command
from app.explain.answer import Answer, explain
from app.explain.facts import RESOURCES, Facts
from app.explain.facts.common import Ref
from app.explain.index import Index
from app.explain.read import read_for
from app.kube.api import NotFound, Object
from app.kube.client import HttpClient
from app.kube.credentials import from_kubeconfig
from app.objects.resource import CRD, Resource
from app.sandbox.sandbox import Sandbox
from tests.explain import fleet
from tests.explain.fleet import SET_REF, facts
from tests.explain.objects import objects_of
from tests.explain.table.row import Row
from tests.explain.test_reasons import ROWS, start
from tests.integration.system import FAST, eventually

BINDINGS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clustertopologybindings.grove.io"},
    "spec": {
        "group": "grove.io",
        "scope": "Cluster",
        "names": {
            "kind": "ClusterTopologyBinding",
            "listKind": "ClusterTopologyBindingList",
            "plural": "clustertopologybindings",
            "singular": "clustertopologybinding",
        },
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}
PASSED_OVER = {
    "the KAI Topology belongs to a former ClusterTopology": "the garbage collector takes such a Topology",
}
TIMES = ("PreemptionDelay", "ClaimHeld")
"""Their texts have times, which the API server sets."""
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
BY_KIND: dict[tuple[str, str], Resource] = {(resource.group, resource.kind): resource for resource in RESOURCES}


def resource_of(obj: Object) -> Resource:
    group = obj["apiVersion"].rpartition("/")[0]
    return BY_KIND[group, obj["kind"]]


class Stage:
    """Stores facts as objects. What is stored already and equal stays."""

    def __init__(self, admin: HttpClient) -> None:
        self._admin = admin
        self._stored: dict[tuple[str, str, str], Object] = {}
        self._uids: dict[str, str] = {}

    async def show(self, given: Facts) -> None:
        """Makes the API server have these facts and no others."""
        desired_objects = {
            (obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj
            for obj in objects_of(given)
        }
        for key in [key for key in reversed(self._stored) if key not in desired_objects]:
            await self._remove(key)
        for key, obj in desired_objects.items():
            desired = self._with_uids(obj)
            if self._stored.get(key) != desired:
                if key in self._stored:
                    await self._remove(key)
                await self._store(key, obj, desired)

    def _with_uids(self, obj: Object) -> Object:
        """With the uids that the API server has given, in owner references and events."""
        owners = obj["metadata"].get("ownerReferences")
        metadata = {name: value for name, value in obj["metadata"].items() if name != "uid"}
        if owners:
            metadata["ownerReferences"] = [
                {**owner, "uid": self._uids.get(owner["uid"], owner["uid"])} for owner in owners
            ]
        desired = {**obj, "metadata": metadata}
        if "regarding" in obj:
            uid = obj["regarding"]["uid"]
            desired["regarding"] = {**obj["regarding"], "uid": self._uids.get(uid, uid)}
        return desired

    async def _store(self, key: tuple[str, str, str], obj: Object, desired: Object) -> None:
        resource, namespace = resource_of(obj), key[1] or None
        metadata = {k: v for k, v in desired["metadata"].items() if k not in ("creationTimestamp", "deletionTimestamp")}
        deleting = "deletionTimestamp" in desired["metadata"]
        if deleting:
            metadata.setdefault("finalizers", ["example.com/test"])
        stored = await self._admin.create(resource, {**desired, "metadata": metadata}, namespace)
        self._uids[obj["metadata"].get("uid", "")] = stored["metadata"]["uid"]
        if desired.get("status"):
            status = {"status": desired["status"]}
            await self._admin.patch(resource, key[2], status, namespace, subresource="status")
        if deleting:
            await self._admin.delete(resource, key[2], namespace)
        self._stored[key] = desired

    async def _remove(self, key: tuple[str, str, str]) -> None:
        obj = self._stored.pop(key)
        resource, namespace = resource_of(obj), key[1] or None
        with contextlib.suppress(NotFound):
            if obj["metadata"].get("finalizers") or "deletionTimestamp" in obj["metadata"]:
                await self._admin.patch(resource, key[2], {"metadata": {"finalizers": None}}, namespace)
            await self._admin.delete(resource, key[2], namespace)


def _key(obj: Object) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


@contextlib.asynccontextmanager
async def staged(folder: Path, dialect: str, rules: list[Object]) -> AsyncIterator[tuple[Sandbox, Stage]]:
    sandbox = Sandbox(state_dir=folder, rules=rules)
    try:
        await sandbox.start()
        namespaces = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in (fleet.NAMESPACE, "research")
        ]
        await sandbox.apply([*namespaces, *([BINDINGS] if dialect == "today" else [])])
        credentials = await from_kubeconfig(sandbox.kubeconfig, "admin")
        async with HttpClient(credentials, (*RESOURCES, CRD), FAST) as admin:
            await admin.discovery.refresh()
            if dialect == "today":
                await _open_schema(admin)
            yield sandbox, Stage(admin)
    finally:
        await sandbox.stop()


async def _open_schema(admin: HttpClient) -> None:
    """Today's PodCliqueSets have fields that our minimal CRD, which is of the design, does not have."""
    stored = await admin.get(CRD, "podcliquesets.grove.io")
    versions = stored["spec"]["versions"]
    versions[0]["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await admin.patch(CRD, "podcliquesets.grove.io", {"spec": {"versions": versions}})


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["design", "today"])
async def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[str, Sandbox, Stage]]:
    dialect = str(request.param)
    async with staged(tmp_path_factory.mktemp(dialect), dialect, VIEWER) as (sandbox, stage):
        yield dialect, sandbox, stage


async def asked(sandbox: Sandbox, ref: Ref, *, user: str = "operator", room: bool = True) -> Answer:
    async with reading_client(RESOURCES, sandbox.kubeconfig, user) as client:
        read, _ = await read_for(client, ref, room=room, now=fleet.NOW)
    answer = explain(Index(read), ref)
    assert answer is not None
    return answer


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.id}: {row.name}")
async def test_the_reason_is_found(row: Row, stage: tuple[str, Sandbox, Stage]) -> None:
    dialect, sandbox, store = stage
    if dialect not in row.dialects:
        pytest.skip(f"a state of {', '.join(row.dialects)} only")
    if row.name in PASSED_OVER:
        pytest.skip(PASSED_OVER[row.name])
    given = facts(**{**start(dialect), **row.hit})
    await store.show(given)
    answer = await asked(sandbox, SET_REF)
    expected = explain(Index(given), SET_REF)
    assert expected is not None
    assert [reason.id for reason in answer.reasons] == [reason.id for reason in expected.reasons]
    if row.id not in TIMES:
        assert [reason.text for reason in answer.reasons] == [reason.text for reason in expected.reasons]
    assert (answer.exit_code, answer.unseen) == (1, {})


@pytest.mark.parametrize("kind", ["podgang", "podclique", "pod", "podgroup"])
async def test_any_object_of_a_workload_leads_to_it(kind: str, stage: tuple[str, Sandbox, Stage]) -> None:
    dialect, sandbox, store = stage
    await store.show(facts(**{**start(dialect), "pods": (*fleet.pods(), *fleet.fill("rack-a1", "rack-a2"))}))
    names = {"podgang": fleet.GANG, "podclique": fleet.WORKERS, "pod": f"{fleet.WORKERS}-0", "podgroup": fleet.GANG}
    answer = await asked(sandbox, command.reference(f"{kind}/{names[kind]}", fleet.NAMESPACE))
    assert (answer.tree.ref, answer.placed, answer.total) == (SET_REF, 0, 4)


async def test_without_room_no_list_of_nodes_or_of_all_pods_is_made(stage: tuple[str, Sandbox, Stage]) -> None:
    dialect, sandbox, store = stage
    await store.show(facts(**{**start(dialect), "pods": fleet.placed("gpu-00", "gpu-01", "gpu-02", "gpu-03")}))
    sandbox.authorizer.granted.clear()
    answer = await asked(sandbox, SET_REF, room=False)
    cluster_wide = {(a.verb, a.resource) for a in sandbox.authorizer.granted if not a.namespace and a.verb == "list"}
    assert not {("list", "nodes"), ("list", "pods")} & cluster_wide
    assert (answer.placed, answer.total, answer.exit_code) == (4, 4, 0)
    assert answer.tree.children[0].where == "zone-a"
    assert "NotAsPreferred" in answer.skipped


async def test_only_reads_are_sent(stage: tuple[str, Sandbox, Stage]) -> None:
    dialect, sandbox, store = stage
    await store.show(facts(**start(dialect)))
    sandbox.authorizer.granted.clear()
    async with reading_client(RESOURCES, sandbox.kubeconfig, "operator") as client:
        _, reading = await read_for(client, SET_REF, room=True, now=fleet.NOW)
        verbs = {verb for verb, _, _ in client.calls}
        total = sum(client.calls.values())
    assert verbs == {"get", "list"}
    assert {access.verb for access in sandbox.authorizer.granted} == {"get", "list"}
    assert total == reading.lists + reading.gets + 1 - len(_not_served(dialect))
    assert total <= 25
    resources = {access.resource for access in sandbox.authorizer.granted}
    assert not {"secrets", "configmaps"} & resources


def _not_served(dialect: str) -> tuple[str, ...]:
    """Lists that are not sent, because discovery has said that there is no such group version."""
    return ()


async def test_a_user_of_one_namespace_is_told_what_is_not_known(tmp_path: Path) -> None:
    async with staged(tmp_path, "design", LOCAL) as (sandbox, store):
        await store.show(facts(pods=(*fleet.pods(), *fleet.fill("rack-a1"))))
        answer = await asked(sandbox, SET_REF)
    assert (answer.placed, answer.total, answer.state, answer.exit_code) == (0, 4, "waits", 2)
    unknown = {unknown.id for unknown in answer.unknown}
    assert {"NoDomainFits", "NeverFits", "QueueMissing", "LevelLabelMissing", "TopologyDiffers"} <= unknown
    assert not {"GateForeign", "GangIncomplete", "QueueQuota"} & unknown
    assert answer.unseen == {
        "kai_topologies": "no right to list",
        "nodes": "no right to list",
        "queues": "no right to list",
        "room": "no right to list pods of all namespaces",
        "topologies": "no right to list",
    }
    assert answer.room == ()
    assert {branch.where for branch in answer.tree.children} == {""}


async def test_what_a_user_may_not_see_at_all_is_not_found(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path, "design", LOCAL[:2]) as (sandbox, store):
        await store.show(facts())
        async with reading_client(RESOURCES, sandbox.kubeconfig, "operator") as client:
            read, _ = await read_for(client, SET_REF, room=True, now=fleet.NOW)
    assert explain(Index(read), SET_REF) is None
    assert read.unseen["sets"] == "no right to list"
    assert read.pods == ()


async def test_a_line_is_printed_when_the_answer_changes(
    stage: tuple[str, Sandbox, Stage], capsys: pytest.CaptureFixture[str]
) -> None:
    dialect, sandbox, store = stage
    await store.show(facts(**start(dialect)))
    arguments, seen = argparse.Namespace(no_room=True), [""]

    async def printed() -> str:
        seen.append(capsys.readouterr().out)
        return "".join(seen)

    sandbox.authorizer.granted.clear()
    async with reading_client(RESOURCES, sandbox.kubeconfig, "operator") as client:
        watching = asyncio.create_task(command.watch(client, SET_REF, arguments, every=0.05))
        try:
            await eventually(lambda: _read(sandbox), lambda seen: ("list", "podgangs") in seen)
            await store.show(facts(**{**start(dialect), "pods": fleet.placed("gpu-00", "gpu-01", "gpu-02", "gpu-03")}))
            lines = await eventually(printed, lambda text: "llm: well, 4 of 4 placed" in text)
        finally:
            watching.cancel()
            await asyncio.wait({watching})
    assert lines.count("llm: waits, 0 of 4 placed") == 0


async def _read(sandbox: Sandbox) -> set[tuple[str, str]]:
    return {(access.verb, access.resource) for access in sandbox.authorizer.granted}
