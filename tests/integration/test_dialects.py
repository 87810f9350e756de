"""Both dialects of Grove's topology API beside one server, and the change from one to the other
while it runs.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from app.config.read import read_configuration
from app.config.schema import Configuration
from app.facts.kinds import (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    KAI_TOPOLOGY,
    POD_CLIQUE_SET,
    POD_GANG,
)
from app.kube.api import ClusterError, NotFound, Object, ObjectRef, Selection
from app.kube.client import HttpClient
from app.objects.resource import CRD, EVENT, NODE
from app.server.serve import Running
from scripts.apiserver.admission_server import ApiServer, admission_server
from scripts.apiserver.manifests import BUILT_IN
from scripts.apiserver.processes import free_port
from tests import builders
from tests.integration.conftest import own_crd
from tests.integration.system import Users, eventually, is_gone

pytestmark = pytest.mark.untraced

NAME = "grove-topology"
BINDINGS = str(CLUSTER_TOPOLOGY_BINDING)
RACK = "example.com/rack"
HOST = "kubernetes.io/hostname"
LEVELS = [{"domain": "rack", "key": RACK}, {"domain": "host", "key": HOST}]
REQUIRED = {"packConstraint": {"required": "example.com/elsewhere"}}
"""A constraint that this program would not write."""


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    text = f"""
        apiVersion: config.grove.io/v1alpha1
        kind: OperatorConfiguration
        clusterTopology:
          enabled: true
          levels: [{{domain: rack, key: {RACK}}}, {{domain: host, key: {HOST}}}]
        server: {{host: 127.0.0.1, port: {free_port()}, toolsPort: 0, drainSeconds: 0}}
        client: {{queriesPerSecond: 10000, burst: 10000}}
    """
    return read_configuration(text, "test")


def todays_crds() -> list[Object]:
    """Those of the folder INTEGRATION_CRDS if it has them, else our own minimal ones."""
    folder = Path(os.environ.get("INTEGRATION_CRDS") or BUILT_IN)
    if not (folder / "grove.io_clustertopologybindings.yaml").exists():
        folder = BUILT_IN / "today"
    files = sorted(folder.glob("grove*.yaml"))
    return [crd for file in files for crd in yaml.safe_load_all(file.read_text()) if crd]


def former_crd() -> Object:
    """The PodCliqueSets of the designs: those of today's Grove don't allow a packDomain in new
    ones.
    """
    crds = [crd for crd in yaml.safe_load_all((BUILT_IN / "grove.yaml").read_text()) if crd]
    former: Object = next(crd for crd in crds if crd["metadata"]["name"] == str(POD_CLIQUE_SET))
    return former


async def is_created(clients: Users, pcs: Object, namespace: str) -> bool:
    """A CRD or a cache may lag behind for a moment."""
    with contextlib.suppress(ClusterError):
        await clients.user.create(POD_CLIQUE_SET, pcs, namespace)
        return True
    return False


async def dialect(served: Running) -> str:
    return served.cluster.notes().get("dialect", "")


async def to_today(api: ApiServer, clients: Users, served: Running) -> None:
    await api.apply([crd for crd in todays_crds() if crd["metadata"]["name"] == BINDINGS])
    await eventually(lambda: dialect(served), lambda name: name == "bindings")
    for client in (clients.admin, clients.operator, clients.user):
        await client.discovery.refresh()


async def to_design(clients: Users, served: Running) -> None:
    with contextlib.suppress(NotFound):
        await clients.admin.delete(ObjectRef(CRD, BINDINGS))
    await eventually(lambda: dialect(served), lambda name: name == "design")


@pytest_asyncio.fixture(loop_scope="module")
async def running(
    api: ApiServer, clients: Users, configuration: Configuration, tmp_path: Path
) -> AsyncIterator[Running]:
    """Our server in the dialect of the designs, with nothing left over afterwards."""
    async with admission_server(api, configuration, tmp_path, readable=False) as served:
        await eventually(lambda: exists(clients.operator, CLUSTER_TOPOLOGY))
        yield served
        await to_design(clients, served)


async def exists(client: HttpClient, resource: Any) -> bool:
    return not await is_gone(client, resource, NAME)


def packs(gang: Object) -> list[Any]:
    spec = gang["spec"]
    return [
        holder.get("topologyConstraint", {}).get("packConstraint")
        for holder in (spec, *spec["podgroups"])
    ]


def gang(name: str, pcs: str, *, constrained: bool) -> Object:
    obj = builders.pod_gang(name, builders.gang_labels(pcs), f"{name}-worker")
    if constrained:
        obj["spec"]["topologyConstraint"] = REQUIRED
        obj["metadata"]["annotations"] = {"grove.io/topology-name": "theirs"}
    return obj


async def events(clients: Users, reason: str) -> list[str]:
    stored_events = (await clients.admin.list(Selection(EVENT), limit=0)).items
    return [event["note"] for event in stored_events if event["reason"] == reason]


async def until_quiet(clients: Users, namespace: str) -> dict[str, str]:
    """The resourceVersions of the PodGangs, once they stay the same for a second."""

    async def versions() -> dict[str, str]:
        items = (await clients.admin.list(Selection(POD_GANG, namespace), limit=0)).items
        return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in items}

    async def quiet() -> dict[str, str] | None:
        before = await versions()
        await asyncio.sleep(1)
        return before if before == await versions() else None

    settled = await eventually(quiet, lambda settled: settled is not None)
    assert settled is not None
    return settled


async def test_todays_grove_writes_its_constraints_itself(
    api: ApiServer, clients: Users, running: Running, namespace: str
) -> None:
    await to_today(api, clients, running)
    await clients.operator.create(POD_GANG, gang("train-0", "train", constrained=True), namespace)
    await until_quiet(clients, namespace)
    stored = await clients.operator.get(ObjectRef(POD_GANG, "train-0", namespace))
    assert packs(stored) == [REQUIRED["packConstraint"], None]
    assert stored["metadata"]["annotations"] == {"grove.io/topology-name": "theirs"}
    assert stored["metadata"]["generation"] == 1


async def test_the_dialect_changes_both_ways_in_a_running_server(
    api: ApiServer, clients: Users, running: Running, namespace: str
) -> None:
    """Under load: no write fails, and constraints are ours just as long as the design is in force."""
    await api.apply([former_crd()])
    await eventually(
        lambda: is_created(clients, builders.pod_clique_set("train", domain="rack"), namespace)
    )
    stopped = asyncio.Event()
    created = 0

    async def load() -> None:
        nonlocal created
        while not stopped.is_set():
            await clients.operator.create(
                POD_GANG, gang(f"train-{created}", "train", constrained=False), namespace
            )
            created += 1
            await asyncio.sleep(0.05)

    async def packed(name: str) -> list[Any]:
        with contextlib.suppress(NotFound):  # not created yet
            return packs(await clients.operator.get(ObjectRef(POD_GANG, name, namespace)))
        return []

    ours = [{"required": RACK, "preferred": HOST}, {"preferred": HOST}]
    loading = asyncio.create_task(load())
    try:
        assert (
            await eventually(lambda: packed("train-0"), lambda constraints: constraints == ours)
            == ours
        )
        await to_today(api, clients, running)
        theirs = await clients.operator.create(
            POD_GANG, gang("theirs-0", "train", constrained=True), namespace
        )
        await asyncio.sleep(1)
        between = created
        assert packs(
            await clients.operator.get(ObjectRef(POD_GANG, "theirs-0", namespace))
        ) == packs(theirs)
        assert await packed(f"train-{between - 1}") == [None, None]
        await to_design(clients, running)
        last = f"train-{between - 1}"
        assert (
            await eventually(lambda: packed(last), lambda constraints: constraints == ours) == ours
        )
    finally:
        stopped.set()
        await loading
    assert created > between
    assert (
        await eventually(
            lambda: packed(f"train-{created - 1}"), lambda constraints: constraints == ours
        )
        == ours
    )
    changes = await eventually(
        lambda: events(clients, "DialectChanged"), lambda notes: len(notes) >= 2
    )
    assert {'from "design" to "bindings"', 'from "bindings" to "design"'} <= {
        note.partition("changed ")[2].partition(",")[0] for note in changes
    }


async def test_the_managed_binding_waits_for_the_former_kai_topology(
    api: ApiServer, clients: Users, running: Running
) -> None:
    """An upgrade: the KAI Topology belongs to the ClusterTopology, and Grove's operator would exit
    beside it.
    """
    await eventually(lambda: exists(clients.operator, KAI_TOPOLOGY))
    before = await clients.operator.get(ObjectRef(KAI_TOPOLOGY, NAME))
    await to_today(api, clients, running)
    notes = await eventually(lambda: events(clients, "TopologyNotWritten"))
    assert (
        f'KAI Topology "{NAME}" already exists and is controlled by ClusterTopology {NAME}'
        in notes[0]
    )
    assert await is_gone(clients.operator, CLUSTER_TOPOLOGY_BINDING, NAME)
    assert (await clients.operator.get(ObjectRef(KAI_TOPOLOGY, NAME)))["metadata"]["uid"] == before[
        "metadata"
    ]["uid"]
    await clients.operator.delete(ObjectRef(CLUSTER_TOPOLOGY, NAME))
    with contextlib.suppress(NotFound):  # as the garbage collector does
        await clients.admin.delete(ObjectRef(KAI_TOPOLOGY, NAME))
    await eventually(lambda: exists(clients.operator, CLUSTER_TOPOLOGY_BINDING))
    stored = await clients.operator.get(ObjectRef(CLUSTER_TOPOLOGY_BINDING, NAME))
    assert stored["spec"]["levels"] == LEVELS
    assert await is_gone(clients.operator, KAI_TOPOLOGY, NAME)
    with pytest.raises(ClusterError, match="is managed by grove-admission"):
        await clients.user.delete(ObjectRef(CLUSTER_TOPOLOGY_BINDING, NAME))


async def test_the_former_crd_can_be_deleted_after_the_change(
    kind: str, api: ApiServer, clients: Users, running: Running
) -> None:
    """The remedy of `audit`: what is left of the former API goes with it, also what is guarded, and
    the binding can be written. On a real API server, a finalizer of somebody else keeps an
    object and so the CRD, but nothing of ours.
    """
    if not api.collects_garbage:
        pytest.skip(
            "needs a garbage collector: no kube-controller-manager beside the API server's binaries"
        )
    finalizers = ["example.com/held"] if kind == "real" else []
    theirs = {"metadata": {"name": "theirs", "finalizers": finalizers}, "spec": {"levels": LEVELS}}
    await eventually(lambda: exists(clients.operator, KAI_TOPOLOGY))
    await clients.admin.create(CLUSTER_TOPOLOGY, theirs)
    await to_today(api, clients, running)
    await eventually(lambda: events(clients, "TopologyNotWritten"))
    try:
        await clients.admin.delete(ObjectRef(CRD, str(CLUSTER_TOPOLOGY)))
        await eventually(lambda: exists(clients.operator, CLUSTER_TOPOLOGY_BINDING))
        stored = await clients.operator.get(ObjectRef(CLUSTER_TOPOLOGY_BINDING, NAME))
        assert stored["spec"]["levels"] == LEVELS
        assert await is_gone(clients.operator, CLUSTER_TOPOLOGY, NAME)
        assert await is_gone(clients.operator, KAI_TOPOLOGY, NAME)
        if finalizers:
            assert not await is_gone(clients.admin, CRD, str(CLUSTER_TOPOLOGY))
            path = "/apis/grove.io/v1alpha1/clustertopologies/theirs"
            await clients.answer("admin", "PATCH", path, {"metadata": {"finalizers": None}})
        assert await eventually(lambda: is_gone(clients.admin, CRD, str(CLUSTER_TOPOLOGY)))
        assert running.readiness.is_ready
        assert await dialect(running) == "bindings"
    finally:
        await api.apply([own_crd()])


async def test_bindings_of_administrators_are_validated(
    api: ApiServer, clients: Users, running: Running, namespace: str
) -> None:
    await to_today(api, clients, running)
    await api.apply(
        [crd for crd in todays_crds() if crd["metadata"]["name"] == str(POD_CLIQUE_SET)]
    )
    binding = {"metadata": {"name": "theirs"}, "spec": {"levels": LEVELS}}
    first = {"metadata": {"name": "first"}, "spec": {"levels": list(reversed(LEVELS))}}
    with pytest.raises(ClusterError, match="KAI allows this key only in the last level"):
        await clients.admin.create(CLUSTER_TOPOLOGY_BINDING, first)
    await clients.admin.create(CLUSTER_TOPOLOGY_BINDING, binding)
    pcs = builders.pod_clique_set("packed")
    pcs["spec"]["template"]["topologyConstraint"] = {
        "topologyName": "theirs",
        "pack": {"required": "galaxy"},
    }
    with pytest.raises(ClusterError, match='not a level of ClusterTopologyBinding "theirs"'):
        await clients.user.create(POD_CLIQUE_SET, pcs, namespace)
    pcs["spec"]["template"]["topologyConstraint"]["pack"]["required"] = "rack"

    await eventually(lambda: is_created(clients, pcs, namespace))

    async def users() -> int:
        return len(running.cluster.facts.users_of("theirs"))

    await eventually(users)
    with pytest.raises(ClusterError, match="Grove would remove the constraints"):
        await clients.admin.delete(ObjectRef(CLUSTER_TOPOLOGY_BINDING, "theirs"))
    await clients.user.delete(ObjectRef(POD_CLIQUE_SET, "packed", namespace))
    await eventually(lambda: is_deletable(clients))


async def is_deletable(clients: Users) -> bool:
    try:
        await clients.admin.delete(ObjectRef(CLUSTER_TOPOLOGY_BINDING, "theirs"))
    except ClusterError:
        return False
    return True


async def test_a_binding_says_whether_the_nodes_have_its_levels(
    api: ApiServer, clients: Users, running: Running
) -> None:
    await to_today(api, clients, running)
    with contextlib.suppress(ClusterError):
        await clients.admin.create(NODE, {"metadata": {"name": "one", "labels": {HOST: "one"}}})
    await clients.admin.create(
        CLUSTER_TOPOLOGY_BINDING, {"metadata": {"name": "c"}, "spec": {"levels": LEVELS}}
    )

    async def condition() -> Object | None:
        stored = await clients.operator.get(ObjectRef(CLUSTER_TOPOLOGY_BINDING, "c"))
        conditions = stored.get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == "LevelsCovered"), None)

    covered = await eventually(condition)
    assert covered is not None
    assert (covered["status"], covered["reason"]) == ("False", "NoNodeHasLevel")
    await clients.admin.delete(ObjectRef(CLUSTER_TOPOLOGY_BINDING, "c"))
    await clients.admin.delete(ObjectRef(NODE, "one"))
