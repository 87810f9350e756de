"""States of the table of reasons as objects on an API server: the sandbox, or a real one."""

import contextlib
import json
import os
import re
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.explain.state.snapshot import ON_REQUEST, RESOURCES, Snapshot
from app.facts.kinds import WORKLOAD
from app.facts.kubernetes.workload import Workload
from app.kube.api import NotFound, Object, ObjectRef
from app.kube.client import HttpClient
from app.objects.resource import CRD, Resource
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.manifests import BUILT_IN, load
from scripts.apiserver.real import RealApiServer, find_binaries
from scripts.apiserver.sandbox import Sandbox
from tests.effort import IS_THOROUGH
from tests.explain import fleet
from tests.explain.objects import objects_of, workload
from tests.explain.table.row import Row
from tests.integration.system import connect

Key = tuple[str, str, str]
"""Kind, namespace and name."""

BINDINGS: Object = {
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
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    },
                },
            }
        ],
    },
}
NOT_ON_REAL = dict.fromkeys(
    ("pods name a Workload that does not exist", "pods name a Workload that lacks their group"),
    "kube-apiserver 1.36 drops `spec.workloadRef`, which is of 1.35",
)
BY_THE_SERVER = {
    "AfterOthers": "which gang is older is said by times of creation",
    "OldRevision": "how old pods are is said by times of creation",
    "PodsNotReady": "the table's times are not those of the API server",
    "NotStarted": "the table's times are not those of the API server",
    "somebody's finalizer keeps the PodGang": "the API server sets the time of its deletion",
    **dict.fromkeys(
        (
            "the gang does not refer to two gated pods",
            "the gang refers to all gated pods, and waits for no other gang",
        ),
        "for how long pods have had a gate is said by times of creation",
    ),
    **dict.fromkeys(
        (
            "Grove deletes the replica within the second half of terminationDelay",
            "Grove deletes the replica, unless it was never scheduled",
            "Grove deletes the replica, unless none of its pods runs or the set has no"
            " terminationDelay",
        ),
        "the time since which pods are missing must follow the creation of the PodClique",
    ),
}
"""Reasons, and names of rows, whose states need times that only the API server sets."""

FINALIZER = "example.com/test"
STORED = tuple(dict.fromkeys((*RESOURCES, *ON_REQUEST)))
BY_KIND: dict[tuple[str, str], Resource] = {
    (resource.group, resource.kind): resource for resource in STORED
}


def resource_of(obj: Object) -> Resource:
    group = obj["apiVersion"].rpartition("/")[0]
    return BY_KIND[group, obj["kind"]]


_TIME = re.compile(r"(?<=\")\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?=(?:\.\d+)?Z\")")


def postponed(objects: list[Object], later: float) -> list[Object]:
    """The objects, with all of their times later by so many seconds."""

    def moved(match: re.Match[str]) -> str:
        time = datetime.fromisoformat(match[0]) + timedelta(seconds=round(later))
        return time.isoformat()

    moved_objects: list[Object] = json.loads(_TIME.sub(moved, json.dumps(objects)))
    return moved_objects


class Stage:
    """Stores facts as objects. What is stored already and equal stays.

    All times of the facts are `later` by so many seconds.
    """

    def __init__(self, admin: HttpClient, dialect: str, later: float = 0.0) -> None:
        self._admin = admin
        self._today = dialect == "today"
        self._later = later
        self._stored: dict[Key, Object] = {}
        self._uids: dict[str, str] = {}

    async def show(self, snapshot: Snapshot) -> None:
        """Makes the API server have these facts and no others."""
        desired_objects = {
            (obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj
            for obj in postponed(objects_of(snapshot, today=self._today), self._later)
        }
        for key in [key for key in reversed(self._stored) if key not in desired_objects]:
            await self.remove(key)
        for key, obj in desired_objects.items():
            desired = self._desired(obj)
            if self._stored.get(key) != desired:
                if key in self._stored:
                    await self.remove(key)
                await self._store(key, obj, desired)

    def _desired(self, obj: Object) -> Object:
        """With the uids that the API server has given, in owner references, events and claims, and
        with a finalizer if it would be gone otherwise: if it is deleted, or if an owner does not
        exist.
        """
        owners = [
            {**owner, "uid": self._uid(owner["uid"])}
            for owner in obj["metadata"].get("ownerReferences", ())
        ]
        metadata = {name: value for name, value in obj["metadata"].items() if name != "uid"}
        metadata |= {"ownerReferences": owners} if owners else {}
        if "deletionTimestamp" in metadata or any(
            owner["uid"] not in self._uids.values() for owner in owners
        ):
            metadata.setdefault("finalizers", [FINALIZER])
        desired = {**obj, "metadata": metadata}
        if "regarding" in obj:
            desired["regarding"] = {**obj["regarding"], "uid": self._uid(obj["regarding"]["uid"])}
        consumers = obj.get("status", {}).get("reservedFor")
        if consumers:
            reserved = [{**pod, "uid": self._uid(pod["uid"])} for pod in consumers]
            desired["status"] = {**obj["status"], "reservedFor": reserved}
        return desired

    def _uid(self, uid: str) -> str:
        return self._uids.get(uid, uid)

    async def _store(self, key: Key, obj: Object, desired: Object) -> None:
        resource = resource_of(obj)
        namespace = key[1] or None
        metadata = {
            k: v
            for k, v in desired["metadata"].items()
            if k not in ("creationTimestamp", "deletionTimestamp")
        }
        async with self._workload_of(desired):
            stored = await self._admin.create(
                resource, {**desired, "metadata": metadata}, namespace
            )
        self._stored[key] = desired
        self._uids[obj["metadata"].get("uid", "")] = stored["metadata"]["uid"]
        if desired.get("status"):
            status = {"status": desired["status"]}
            await self._admin.patch(
                ObjectRef(resource, key[2], namespace), status, subresource="status"
            )
        if "deletionTimestamp" in desired["metadata"]:
            await self._admin.delete(ObjectRef(resource, key[2], namespace))

    @contextlib.asynccontextmanager
    async def _workload_of(self, obj: Object) -> AsyncIterator[None]:
        """Meanwhile, the Workload that a PodGroup names exists: without it, kube-apiserver rejects
        the PodGroup.
        """
        reference = obj.get("spec", {}).get("podGroupTemplateRef", {}).get("workload", {})
        name = reference.get("workloadName", "")
        namespace = obj["metadata"].get("namespace", "")
        if not name or ("Workload", namespace, name) in self._stored:
            yield
            return
        await self._admin.create(
            WORKLOAD, workload(Workload(namespace, name, {"workers": None})), namespace
        )
        yield
        await self._admin.delete(ObjectRef(WORKLOAD, name, namespace))

    async def remove(self, key: Key) -> None:
        """Delete an object, if it is one of the facts."""
        obj = self._stored.pop(key, None)
        if obj is None:
            return
        resource = resource_of(obj)
        namespace = key[1] or None
        with contextlib.suppress(NotFound):
            if "finalizers" in obj["metadata"]:
                await self._admin.patch(
                    ObjectRef(resource, key[2], namespace), {"metadata": {"finalizers": None}}
                )
            await self._admin.delete(ObjectRef(resource, key[2], namespace))


@contextlib.asynccontextmanager
async def staged(
    folder: Path, dialect: str, rules: list[Object], kind: str = "sandbox"
) -> AsyncIterator[tuple[ApiServer, Stage]]:
    """An API server of one dialect, with our minimal CRDs or those in the folder INTEGRATION_CRDS.

    Kinds of which the folder has no CRD, such as Kueue's, are served with our minimal ones.
    `rules` limit the user `operator`.
    """
    crds = neighbours_crds(dialect)
    server = api_server(kind, folder, crds, rules)
    try:
        await server.start()
        namespaces = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}}
            for n in (fleet.NAMESPACE, "research", "kai-scale-adjust", "kai-resource-reservation")
        ]
        bindings = [BINDINGS] if dialect == "today" and crds is None else []
        await server.apply([*namespaces, *bindings, *missing_crds(crds)])
        async with await connect(server, "admin", (*STORED, CRD)) as admin:
            if dialect == "today" and crds is None:
                await _open_schema(admin)
            yield server, Stage(admin, dialect)
    finally:
        await server.stop()


def in_a_dialect(rows: Sequence[Row]) -> list[Any]:
    """Each row with one of its dialects, in turns, or with all if the tests are to be thorough.

    The table's own tests judge each row in all of its dialects. Rows of one dialect are together.
    """
    return [
        pytest.param(dialect, row, id=f"{dialect}-{row.id}: {row.name}")
        for dialect in ("design", "today")
        for number, row in enumerate(rows)
        if dialect in _turn(row.dialects, number)
    ]


def _turn(dialects: Sequence[str], number: int) -> Sequence[str]:
    if IS_THOROUGH:
        return dialects
    return [dialects[number % len(dialects)]]


def skip_if_impossible(row: Row, dialect: str, server: ApiServer) -> None:
    """Skips the test of a state that there is not in this dialect, or that a real API server does
    not store.
    """
    if dialect not in row.dialects:
        pytest.skip(f"a state of {', '.join(row.dialects)} only")
    if "absent" in row.hit:
        pytest.skip("the API server serves all kinds")
    if row.hit.get("gang_maps") or any(gang.role for gang in row.hit.get("gangs", ())):
        pytest.skip("this release of Grove has no PodGangMaps")
    if "workload_statuses" in row.hit:
        pytest.skip("a status that is read only if its workload is asked about")
    for key in (row.id, row.name):
        if key in BY_THE_SERVER:
            pytest.skip(BY_THE_SERVER[key])
    if any(claim.domain for claim in row.hit.get("claims", ())):
        pytest.skip("a claim names the uid of its ComputeDomain, which the API server sets")
    if not isinstance(server, Sandbox) and row.name in NOT_ON_REAL:
        pytest.skip(NOT_ON_REAL[row.name])


def api_server(kind: str, folder: Path, crds: Path | None, rules: list[Object]) -> ApiServer:
    if kind == "real":
        return RealApiServer(
            binaries=find_binaries(os.environ), state_dir=folder, crds=crds, rules=rules
        )
    return Sandbox(state_dir=folder, crds=crds, rules=rules)


def neighbours_crds(dialect: str) -> Path | None:
    """The folder INTEGRATION_CRDS, None if it isn't set.

    Skips the test if its CRDs are of the other dialect.
    """
    named = os.environ.get("INTEGRATION_CRDS")
    if not named:
        return None
    of = "today" if (Path(named) / "grove.io_clustertopologybindings.yaml").exists() else "design"
    if of != dialect:
        pytest.skip(f"the CRDs in INTEGRATION_CRDS are of the dialect {of}")
    return Path(named)


def missing_crds(crds: Path | None) -> list[Object]:
    """Return those of our minimal CRDs that the folder lacks."""
    if crds is None:
        return []
    names = {crd["metadata"]["name"] for crd in load(crds)}
    return [crd for crd in load(BUILT_IN) if crd["metadata"]["name"] not in names]


async def _open_schema(admin: HttpClient) -> None:
    """Today's PodCliqueSets have fields that our minimal CRD, which is of the design, does not
    have.
    """
    stored = await admin.get(ObjectRef(CRD, "podcliquesets.grove.io"))
    versions = stored["spec"]["versions"]
    versions[0]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    await admin.patch(ObjectRef(CRD, "podcliquesets.grove.io"), {"spec": {"versions": versions}})
