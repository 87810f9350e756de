"""The design's test plan for topology (Controller Reconciliation, Drift Detection, Status Updates,
Enable/Disable, Updating Levels), with a server that is started, and restarted with another
configuration, beside an API server.
"""

import asyncio
import contextlib
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from app.config.read import read_configuration
from app.facts.kinds import CLUSTER_TOPOLOGY, KAI_TOPOLOGY, POD_CLIQUE_SET, POD_GANG
from app.facts.rows import SETS, TOPOLOGIES
from app.kube.api import ClusterError, NotFound, Object, ObjectRef, Rejected, Selection
from app.kube.client import HttpClient
from app.objects.resource import CRD, EVENT, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from app.server.serve import Running
from app.webhooks.configurations import NAME as CONFIGURATIONS
from scripts.apiserver.admission_server import ApiServer, admission_server
from scripts.apiserver.processes import free_port
from tests import builders
from tests.integration.system import PATIENCE, Users, eventually, is_gone

pytestmark = pytest.mark.untraced

ROOT = Path(__file__).parents[2]
NAME = "grove-topology"
ZONE = "example.com/zone"
RACK = "example.com/rack"
HOST = "kubernetes.io/hostname"
NUMA = "example.com/numa"
LEVELS = {"host": HOST, "zone": ZONE, "rack": RACK}

Start = Callable[[dict[str, str] | None], contextlib.AbstractAsyncContextManager[Running]]


@pytest.fixture(scope="module")
def former() -> Sequence[Resource]:
    return (POD_CLIQUE_SET,)


@pytest_asyncio.fixture(loop_scope="module")
async def start(api: ApiServer, clients: Users, tmp_path: Path) -> AsyncIterator[Start]:
    """Starts our server with levels `{domain: key}`, or with topology support disabled."""

    @contextlib.asynccontextmanager
    async def start(levels: dict[str, str] | None) -> AsyncIterator[Running]:
        listed = ", ".join(
            f"{{domain: {domain}, key: {key}}}" for domain, key in (levels or {}).items()
        )
        text = f"""
            apiVersion: config.grove.io/v1alpha1
            kind: OperatorConfiguration
            clusterTopology: {{enabled: {str(levels is not None).lower()}, levels: [{listed}]}}
            server: {{host: 127.0.0.1, port: {port}, toolsPort: 0, drainSeconds: 0}}
            client: {{queriesPerSecond: 10000, burst: 10000}}
        """
        async with admission_server(
            api, read_configuration(text, "test"), tmp_path, readable=False
        ) as served:
            yield served

    port = free_port()
    yield start
    await clean(clients)


async def clean(clients: Users) -> None:
    """Delete what the server of a test has made for all, beginning with its webhooks, which would
    refuse that: the next server registers them again.
    """
    webhooks = [
        ObjectRef(kind, CONFIGURATIONS) for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
    ]
    made = [ObjectRef(kind, NAME) for kind in (CLUSTER_TOPOLOGY, KAI_TOPOLOGY)]
    for ref in (*webhooks, *made):
        await eventually(partial(is_deleted, clients, ref))


async def is_deleted(clients: Users, ref: ObjectRef) -> bool:
    """Delete an object, if it is still there. A real API server may still call its webhooks."""
    try:
        await clients.admin.delete(ref)
    except NotFound:
        return True
    except ClusterError:
        return False
    return False


async def ready(clients: Users) -> Object:
    """The Ready condition of the managed ClusterTopology, {} while there is none."""
    try:
        topology = await clients.operator.get(ObjectRef(CLUSTER_TOPOLOGY, NAME))
    except NotFound:
        return {}
    conditions = topology.get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == "Ready"), {})


async def until_ready(clients: Users, status: str) -> Object:
    return await eventually(
        lambda: ready(clients), lambda condition: condition.get("status") == status
    )


async def kai_keys(clients: Users) -> list[str] | None:
    try:
        topology = await clients.operator.get(ObjectRef(KAI_TOPOLOGY, NAME))
    except NotFound:
        return None
    return [level["nodeLabel"] for level in topology["spec"]["levels"]]


async def until_kai(clients: Users, *keys: str) -> None:
    assert await eventually(
        lambda: kai_keys(clients), lambda current: current == list(keys)
    ) == list(keys)


def writes(served: Running) -> dict[tuple[str, str], int]:
    """Calls that change something, but for leases and events."""
    client = served.cluster.client
    assert isinstance(client, HttpClient)
    counted: dict[tuple[str, str], int] = {}
    for (verb, resource, _), count in client.calls.items():
        if verb in ("create", "patch", "delete") and not resource.startswith(("leases", "events")):
            counted[verb, resource] = counted.get((verb, resource), 0) + count
    return counted


# KAI Topology CR Generation.


@pytest.mark.statement("1.3", "1.42", "1.57", "1.61", "1.76", "1.180")
async def test_kai_topology_is_created_on_cluster_topology_creation(
    clients: Users, start: Start
) -> None:
    async with start(LEVELS):
        await until_kai(clients, ZONE, RACK, HOST)
        stored = await clients.operator.get(ObjectRef(CLUSTER_TOPOLOGY, NAME))
        assert [level["domain"] for level in stored["spec"]["levels"]] == ["zone", "rack", "host"]


@pytest.mark.statement("1.58", "1.181")
async def test_kai_topology_is_updated_on_cluster_topology_spec_change(
    clients: Users, start: Start
) -> None:
    async with start(LEVELS):
        await until_kai(clients, ZONE, RACK, HOST)
    async with start({"zone": ZONE, "host": HOST}):
        await until_kai(clients, ZONE, HOST)
        await until_ready(clients, "True")


@pytest.mark.statement("1.63", "1.182")
async def test_kai_topology_is_owned_by_the_cluster_topology(clients: Users, start: Start) -> None:
    async with start(LEVELS):
        await until_kai(clients, ZONE, RACK, HOST)
        owner = await clients.operator.get(ObjectRef(CLUSTER_TOPOLOGY, NAME))
        (reference,) = (await clients.operator.get(ObjectRef(KAI_TOPOLOGY, NAME)))["metadata"][
            "ownerReferences"
        ]
    assert reference == {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "name": NAME,
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


# Status Updates.


@pytest.mark.statement("1.34", "1.38", "1.183", "1.187", "1.189")
async def test_status_is_topology_ready_with_the_observed_generation_on_success(
    clients: Users, start: Start
) -> None:
    async with start(LEVELS):
        condition = await until_ready(clients, "True")
        stored = await clients.operator.get(ObjectRef(CLUSTER_TOPOLOGY, NAME))
    assert condition["reason"] == "TopologyReady"
    assert condition["observedGeneration"] == stored["metadata"]["generation"]
    assert stored["status"]["observedGeneration"] == stored["metadata"]["generation"]
    assert "lastErrors" not in stored["status"]


SEVEN = {
    "region": "topology.kubernetes.io/region",
    "zone": "topology.kubernetes.io/zone",
    "datacenter": "topology.kubernetes.io/datacenter",
    "block": "topology.kubernetes.io/block",
    "rack": "topology.kubernetes.io/rack",
    "host": HOST,
    "numa": "topology.kubernetes.io/numa",
}
"""The example of the design."""


@pytest.mark.statement("1.40", "1.41")
async def test_the_seven_levels_of_the_design_make_a_topology_by_which_kai_can_place(
    clients: Users, start: Start, namespace: str
) -> None:
    async with start(SEVEN) as served:
        condition = await until_ready(clients, "True")
        assert await kai_keys(clients) == list(SEVEN.values())[:-1]
        assert '"numa"' in condition["message"]
        await workload(
            clients, served, namespace, domain="zone", group_domain="rack", clique_domain="numa"
        )
        told = {
            "gang": packed(HOST, SEVEN["zone"]),
            "train-0-pool-0": packed(HOST, SEVEN["rack"]),
            "train-0-worker": packed(HOST, HOST),
            "train-0-pool-0-leader": packed(HOST),
        }
        await until(stored_gang, clients, namespace, (NAME, told))


@pytest.mark.statement("1.54")
async def test_a_status_that_a_user_writes_is_repaired(clients: Users, start: Start) -> None:
    foreign = {"metadata": {"name": NAME}, "spec": {"levels": [{"nodeLabel": "theirs"}]}}
    await clients.admin.create(KAI_TOPOLOGY, foreign)
    async with start(LEVELS):
        failed = await until_ready(clients, "False")
        forged = {
            "observedGeneration": 99,
            "conditions": [{**failed, "status": "True", "message": "all is well"}],
            "lastErrors": None,
        }
        ref = ObjectRef(CLUSTER_TOPOLOGY, NAME)
        await clients.admin.patch(ref, {"status": forged}, subresource="status")
        repaired = await until_ready(clients, "False")
        assert repaired["message"] == failed["message"]
        stored = await clients.admin.get(ref)
        assert stored["status"]["observedGeneration"] == 1
        assert [error["code"] for error in stored["status"]["lastErrors"]] == [
            "KAI_TOPOLOGY_CREATE_ERROR"
        ]
        await clients.admin.delete(ObjectRef(KAI_TOPOLOGY, NAME))


@pytest.mark.statement("1.53")
async def test_a_managed_topology_that_is_being_deleted_stays_guarded(
    clients: Users, start: Start
) -> None:
    async with start(LEVELS):
        await until_ready(clients, "True")
        ref = ObjectRef(CLUSTER_TOPOLOGY, NAME)
        held = {"metadata": {"finalizers": ["example.com/held"]}}
        await clients.operator.patch(ref, held)
        await clients.operator.delete(ref)
        levels = [{"domain": "zone", "key": ZONE}]
        with pytest.raises(Rejected) as refused:
            await clients.admin.patch(ref, {"spec": {"levels": levels}})
        assert refused.value.code == 403
        await clients.admin.patch(ref, {"metadata": {"finalizers": None}})
        assert await eventually(lambda: is_deleted(clients, ref))


@pytest.mark.statement("1.64")
async def test_a_kai_topology_of_somebody_else_is_left_alone_and_said(
    clients: Users, start: Start
) -> None:
    foreign = {"metadata": {"name": NAME}, "spec": {"levels": [{"nodeLabel": "theirs"}]}}
    await clients.admin.create(KAI_TOPOLOGY, foreign)
    async with start(LEVELS):
        condition = await until_ready(clients, "False")
        assert await kai_keys(clients) == ["theirs"]
        assert f"kubectl delete topologies.kai.scheduler {NAME}" in condition["message"]
        await clients.admin.delete(ObjectRef(KAI_TOPOLOGY, NAME))
        await until_kai(clients, ZONE, RACK, HOST)
        await until_ready(clients, "True")


@pytest.mark.statement("1.126")
async def test_a_transition_is_timed_only_where_the_status_changes(
    clients: Users, start: Start
) -> None:
    async with start(LEVELS):
        before = await until_ready(clients, "True")
    async with start({"zone": ZONE}):
        after = await eventually(
            lambda: ready(clients), lambda condition: condition.get("observedGeneration") == 2
        )
    assert after["lastTransitionTime"] == before["lastTransitionTime"]


async def test_a_crd_without_status_is_said_in_an_event_and_a_metric_and_the_sync_goes_on(
    clients: Users, api: ApiServer, start: Start
) -> None:
    async with (
        reinstalled(clients, api, "clustertopologies.grove.io", without_status),
        start(LEVELS) as served,
    ):
        await until_kai(clients, ZONE, RACK, HOST)
        assert await eventually(lambda: gauge(served, "statuses_lost_total"))
        await clients.admin.delete(ObjectRef(KAI_TOPOLOGY, NAME))
        await until_kai(clients, ZONE, RACK, HOST)
        uid = (await clients.admin.get(ObjectRef(CLUSTER_TOPOLOGY, NAME)))["metadata"]["uid"]

        async def notes() -> list[str]:
            page = await clients.admin.list(Selection(EVENT, "default"))
            return [event["note"] for event in page.items if event["regarding"].get("uid") == uid]

        (note,) = {note for note in await eventually(notes) if "status" in note}
        assert note.startswith(
            f"the CRD {CLUSTER_TOPOLOGY} has no status subresource. Install the CRD of grove-admission"
        )


async def gauge(served: Running, name: str) -> float:
    assert served.leader is not None
    return sum(sample.value for sample in served.leader.samples() if sample.name == name)


@contextlib.asynccontextmanager
async def reinstalled(
    clients: Users, api: ApiServer, name: str, changed: Callable[[Object], Object]
) -> AsyncIterator[None]:
    """The CRD `name` is another one while the block runs; its objects are gone before and after."""
    stored = await clients.admin.get(ObjectRef(CRD, name))
    original = {**stored, "metadata": {"name": name}}
    await reinstall(clients, api, name, changed(original))
    try:
        yield
    finally:
        await reinstall(clients, api, name, original)


async def reinstall(clients: Users, api: ApiServer, name: str, crd: Object) -> None:
    await clients.admin.delete(ObjectRef(CRD, name))
    await eventually(lambda: is_gone(clients.admin, CRD, name))
    await api.apply([crd])


def without_status(crd: Object) -> Object:
    """As Grove's own CRD was at the design's time."""
    versions = [
        {key: version[key] for key in version if key != "subresources"}
        for version in crd["spec"]["versions"]
    ]
    return {
        **{key: crd[key] for key in crd if key != "status"},
        "spec": {**crd["spec"], "versions": versions},
    }


# Drift Detection.


@pytest.mark.statement("1.56", "1.184", "1.185")
async def test_a_modified_kai_topology_is_reset(clients: Users, start: Start) -> None:
    async with start(LEVELS):
        await until_kai(clients, ZONE, RACK, HOST)
        stored = await clients.admin.get(ObjectRef(KAI_TOPOLOGY, NAME))
        drifted = {
            "metadata": {"name": NAME, "ownerReferences": stored["metadata"]["ownerReferences"]},
            "spec": {"levels": [{"nodeLabel": "drifted"}]},
        }
        with contextlib.suppress(ClusterError):  # our server may be quicker with its own
            await clients.admin.delete(ObjectRef(KAI_TOPOLOGY, NAME))
            await clients.admin.create(KAI_TOPOLOGY, drifted)
        await until_kai(clients, ZONE, RACK, HOST)


@pytest.mark.statement("1.59", "1.186")
async def test_a_deleted_kai_topology_is_recreated(clients: Users, start: Start) -> None:
    async with start(LEVELS):
        await until_kai(clients, ZONE, RACK, HOST)
        before = (await clients.admin.get(ObjectRef(KAI_TOPOLOGY, NAME)))["metadata"]["uid"]
        await clients.admin.delete(ObjectRef(KAI_TOPOLOGY, NAME))

        async def is_another() -> bool:
            try:
                return bool(
                    (await clients.admin.get(ObjectRef(KAI_TOPOLOGY, NAME)))["metadata"]["uid"]
                    != before
                )
            except NotFound:
                return False

        assert await eventually(is_another)
        await until_kai(clients, ZONE, RACK, HOST)


# Lifecycle.


@pytest.mark.statement("1.44", "1.75")
async def test_a_cluster_topology_that_cannot_be_made_ends_the_process_with_code_1(
    clients: Users, api: ApiServer, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # our webhook is registered, and trusted with this certificate
    async with start(None) as served:
        assert await eventually(lambda: is_gone(clients.operator, CLUSTER_TOPOLOGY, NAME))
        port = served.listener.port
    configuration = tmp_path / "configuration.yaml"
    configuration.write_text(f"""
        apiVersion: config.grove.io/v1alpha1
        kind: OperatorConfiguration
        clusterTopology: {{enabled: true, levels: [{{domain: zone, key: {ZONE}}}], creationTimeoutSeconds: 1}}
        authorization: {{authorizedUsers: []}}
        leaderElection: {{namespace: grove-system}}
        server: {{host: 127.0.0.1, port: {port}, toolsPort: 0, drainSeconds: 0}}
    """)
    cluster = ("--kubeconfig", api.kubeconfig, "--context", "operator")
    # so our account is one in another namespace, and ours is not authorized
    monkeypatch.setenv("POD_NAMESPACE", "elsewhere")
    code, said = await ended(
        "serve", "--config", configuration, "--certs", tmp_path / "webhook", *cluster
    )
    assert code == 1
    assert f'can\'t serve: could not create or update ClusterTopology "{NAME}" within ' in said
    assert "is managed by grove-admission" in said
    assert await is_gone(clients.operator, CLUSTER_TOPOLOGY, NAME)


async def ended(*arguments: str | Path) -> tuple[int | None, str]:
    """The exit code of a process of ours that ends by itself, and its standard error."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "app",
        *arguments,
        cwd=ROOT,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, said.decode()


# Workloads: Enable/Disable, Updating Levels.


def required(spec: Object) -> dict[str, Any]:
    """Required and preferred keys of a PodGang at its three levels."""
    packs = {"gang": spec.get("topologyConstraint", {}).get("packConstraint")}
    for part in spec.get("topologyConstraintGroupConfigs", []):
        packs[part["name"]] = part["topologyConstraint"]["packConstraint"]
    for part in spec["podgroups"]:
        packs[part["name"]] = part.get("topologyConstraint", {}).get("packConstraint")
    return packs


async def stored_gang(clients: Users, namespace: str) -> tuple[str | None, dict[str, Any]]:
    gang = await clients.operator.get(ObjectRef(POD_GANG, "train-0", namespace))
    return gang["metadata"].get("annotations", {}).get("grove.io/topology-name"), required(
        gang["spec"]
    )


async def satisfied(clients: Users, namespace: str) -> tuple[str, str, str] | None:
    pcs = await clients.operator.get(ObjectRef(POD_CLIQUE_SET, "train", namespace))
    for condition in pcs.get("status", {}).get("conditions", []):
        if condition["type"] == "TopologyConstraintSatisfied":
            return condition["status"], condition["reason"], condition["message"]
    return None


async def until(
    look: Callable[[Users, str], Awaitable[Any]], clients: Users, namespace: str, expected: Any
) -> None:
    assert (
        await eventually(lambda: look(clients, namespace), lambda current: current == expected)
        == expected
    )


async def workload(clients: Users, served: Running, namespace: str, **domains: Any) -> None:
    async def has_topology() -> bool:
        return served.cluster.stores[TOPOLOGIES].get("", NAME) is not None

    await eventually(has_topology)
    await clients.user.create(
        POD_CLIQUE_SET, builders.pod_clique_set("train", **domains), namespace
    )

    async def is_known() -> bool:
        return served.cluster.stores[SETS].get(namespace, "train") is not None

    await eventually(is_known)
    gang = builders.pod_gang(
        "train-0", builders.labels("train", 0, "train-0"), "train-0-worker", "train-0-pool-0-leader"
    )
    await clients.operator.create(POD_GANG, gang, namespace)


def packed(preferred: str, required: str | None = None) -> Object:
    return {"preferred": preferred} | ({"required": required} if required else {})


DOMAINS = {"domain": "zone", "group_domain": "rack", "clique_domain": "host"}
TRANSLATED = {
    "gang": packed(HOST, ZONE),
    "train-0-pool-0": packed(HOST, RACK),
    "train-0-worker": packed(HOST, HOST),
    "train-0-pool-0-leader": packed(HOST),
}


@pytest.mark.statement("1.78", "1.96", "1.97")
async def test_disabling_removes_all_constraints_and_enabling_brings_them_back(
    clients: Users, start: Start, namespace: str
) -> None:
    async with start(LEVELS) as served:
        await workload(clients, served, namespace, **DOMAINS)
        await until(stored_gang, clients, namespace, (NAME, TRANSLATED))
        text = "All topology constraints name levels of the ClusterTopology"
        await until(satisfied, clients, namespace, ("True", "TopologyConstraintsValid", text))
    async with start(None):
        assert await eventually(lambda: is_gone(clients.operator, CLUSTER_TOPOLOGY, NAME))
        nothing = {"gang": None, "train-0-worker": None, "train-0-pool-0-leader": None}
        await until(stored_gang, clients, namespace, (None, nothing))
        text = "Topology support disabled in operator configuration"
        await until(satisfied, clients, namespace, ("False", "TopologyDisabled", text))
        refused = builders.pod_clique_set("other", domain="zone")
        with pytest.raises(ClusterError, match="topology support is not enabled in the operator"):
            await clients.user.create(POD_CLIQUE_SET, refused, namespace)
        await clients.user.create(POD_CLIQUE_SET, builders.pod_clique_set("free"), namespace)
    async with start(LEVELS):
        await until(stored_gang, clients, namespace, (NAME, TRANSLATED))


@pytest.mark.statement("1.79", "1.81", "1.93", "1.94")
async def test_disabling_takes_the_kai_topology_along(
    clients: Users, api: ApiServer, start: Start
) -> None:
    if not api.collects_garbage:
        pytest.skip(
            "needs a garbage collector: no kube-controller-manager beside the API server's binaries"
        )
    async with start(LEVELS):
        await until_kai(clients, ZONE, RACK, HOST)
    async with start(None):
        assert await eventually(lambda: is_gone(clients.operator, KAI_TOPOLOGY, NAME))


@pytest.mark.statement("1.90", "1.91", "1.102")
async def test_a_removed_level_loses_its_required_constraints_and_the_status_says_so(
    clients: Users, start: Start, namespace: str
) -> None:
    async with start(LEVELS) as served:
        await workload(clients, served, namespace, **DOMAINS)
        await until(stored_gang, clients, namespace, (NAME, TRANSLATED))
    async with start({"zone": ZONE, "host": HOST}):
        without = {**TRANSLATED, "train-0-pool-0": packed(HOST)}
        await until(stored_gang, clients, namespace, (NAME, without))
        text = "Topology level 'rack' not found in ClusterTopology 'grove-topology'. Topology constraint will be ignored. Please remove packDomain or update ClusterTopology."
        await until(satisfied, clients, namespace, ("False", "TopologyLevelNotFound", text))
        scaled = await clients.user.patch(
            ObjectRef(POD_CLIQUE_SET, "train", namespace), {"spec": {"replicas": 2}}
        )
        assert scaled["spec"]["replicas"] == 2


@pytest.mark.statement("1.70", "1.108", "1.109")
async def test_a_new_strictest_level_is_preferred_at_all_three_levels(
    clients: Users, start: Start, namespace: str
) -> None:
    async with start({"zone": ZONE, "rack": RACK}) as served:
        await workload(clients, served, namespace, domain="zone", group_domain="rack")
        await until(stored_gang, clients, namespace, (NAME, expected(RACK)))
    async with start(LEVELS):
        await until(stored_gang, clients, namespace, (NAME, expected(HOST)))


def expected(preferred: str) -> dict[str, Object]:
    return {
        "gang": packed(preferred, ZONE),
        "train-0-pool-0": packed(preferred, RACK),
        "train-0-worker": packed(preferred),
        "train-0-pool-0-leader": packed(preferred),
    }


async def test_who_removes_a_level_is_warned_of_the_sets_that_it_hits(
    clients: Users, api: ApiServer, start: Start, namespace: str
) -> None:
    async with start(LEVELS) as served:
        await workload(clients, served, namespace, **DOMAINS)
        levels = [{"domain": "zone", "key": ZONE}, {"domain": "host", "key": HOST}]
        path = f"/apis/grove.io/v1alpha1/clustertopologies/{NAME}"
        answer = await clients.answer("grove", "PATCH", path, {"spec": {"levels": levels}})
        (warning,) = [
            header for header in answer.headers.get_list("warning") if "removed levels" in header
        ]
        assert f"{namespace}/train" in warning


@pytest.mark.statement("1.103")
async def test_constraints_that_stay_valid_are_not_written(
    clients: Users, start: Start, namespace: str
) -> None:
    async with start(LEVELS) as served:
        await workload(clients, served, namespace, domain="zone")
        await until_ready(clients, "True")
        await until_idle(served)
        before = await clients.operator.get(ObjectRef(POD_GANG, "train-0", namespace))
    async with start({"zone": ZONE, "host": HOST}) as served:
        await until_kai(clients, ZONE, HOST)
        await until_idle(served)
        assert await clients.operator.get(ObjectRef(POD_GANG, "train-0", namespace)) == before


async def until_idle(served: Running) -> None:
    """Our server leads, has looked at everything, and nothing waits."""
    leader = served.leader
    assert leader is not None

    async def is_idle() -> bool:
        looked = (loop.steps or not list(loop.reconciler.all_keys()) for loop in leader.loops)
        return leader.leading and all(looked) and not any(loop.depth for loop in leader.loops)

    await eventually(is_idle)


@pytest.mark.statement("1.10", "1.69")
async def test_a_restart_of_everything_writes_nothing(
    clients: Users, start: Start, namespace: str
) -> None:
    async with start(LEVELS) as served:
        await workload(clients, served, namespace, **DOMAINS)
        await until_ready(clients, "True")
        await eventually(lambda: satisfied(clients, namespace))
    async with start(LEVELS) as served:
        # `start` registers the webhooks again, so that the server writes their paths
        configurations = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        paths = {("patch", str(resource)): 1 for resource in configurations}

        async def are_paths_written() -> bool:
            return paths.items() <= writes(served).items()

        await eventually(are_paths_written)
        await until_idle(served)
        assert writes(served) == paths


@pytest.mark.statement("1.115")
async def test_other_conditions_of_a_podcliqueset_stay(
    clients: Users, start: Start, namespace: str
) -> None:
    async with start(LEVELS) as served:
        await workload(clients, served, namespace, domain="rack")
        await eventually(lambda: satisfied(clients, namespace))
        stored = await clients.operator.get(ObjectRef(POD_CLIQUE_SET, "train", namespace))
        theirs = {
            "type": "Theirs",
            "status": "True",
            "reason": "Fine",
            "message": "",
            "lastTransitionTime": SINCE,
        }
        kept = {"status": {"conditions": [theirs, *stored["status"]["conditions"]]}}
        await clients.operator.patch(
            ObjectRef(POD_CLIQUE_SET, "train", namespace), kept, subresource="status"
        )
        free = {"spec": {"template": {"topologyConstraint": None}}}
        await clients.user.patch(ObjectRef(POD_CLIQUE_SET, "train", namespace), free)
        await until(satisfied, clients, namespace, None)
        stored = await clients.operator.get(ObjectRef(POD_CLIQUE_SET, "train", namespace))
        assert stored["status"]["conditions"] == [theirs]


SINCE = "2026-01-01T00:00:00Z"


@pytest.mark.statement("1.36")
async def test_kai_is_picked_up_when_its_crd_appears(
    clients: Users, api: ApiServer, start: Start
) -> None:
    crd = await clients.admin.get(ObjectRef(CRD, "topologies.kai.scheduler"))
    await clients.admin.delete(ObjectRef(CRD, "topologies.kai.scheduler"))
    await eventually(lambda: is_gone(clients.admin, CRD, "topologies.kai.scheduler"))
    try:
        async with start(LEVELS):
            condition = await until_ready(clients, "Unknown")
            assert "does not serve KAI Topologies" in condition["message"]
            await api.apply([{**crd, "metadata": {"name": "topologies.kai.scheduler"}}])
            await until_ready(clients, "True")
            await until_kai(clients, ZONE, RACK, HOST)
    finally:
        await api.apply([{**crd, "metadata": {"name": "topologies.kai.scheduler"}}])


async def test_grove_is_picked_up_when_its_crds_appear(
    clients: Users, api: ApiServer, start: Start
) -> None:
    crd = await clients.admin.get(ObjectRef(CRD, "clustertopologies.grove.io"))
    await clients.admin.delete(ObjectRef(CRD, "clustertopologies.grove.io"))
    await eventually(lambda: is_gone(clients.admin, CRD, "clustertopologies.grove.io"))
    try:
        async with start(LEVELS) as served:
            assert served.cluster.stores[TOPOLOGIES].served is False
            await api.apply([{**crd, "metadata": {"name": "clustertopologies.grove.io"}}])
            await until_ready(clients, "True")
            await until_kai(clients, ZONE, RACK, HOST)
    finally:
        await api.apply([{**crd, "metadata": {"name": "clustertopologies.grove.io"}}])


async def test_what_is_not_installed_is_said_in_readyz_and_metrics(
    clients: Users, api: ApiServer, start: Start, tmp_path: Path
) -> None:
    crd = await clients.admin.get(ObjectRef(CRD, "computedomains.resource.nvidia.com"))
    await clients.admin.delete(ObjectRef(CRD, "computedomains.resource.nvidia.com"))
    await eventually(lambda: is_gone(clients.admin, CRD, "computedomains.resource.nvidia.com"))
    try:
        async with start(LEVELS) as served:
            bundle = ssl.create_default_context(cafile=tmp_path / "webhook" / "ca.crt")
            url = f"https://localhost:{served.tools.port}"
            async with httpx.AsyncClient(base_url=url, verify=bundle) as web:
                verbose = (await web.get("/readyz?verbose")).text
                metrics = (await web.get("/metrics")).text
                assert "[.] api/computedomains.resource.nvidia.com is not served" in verbose
                assert "[.] api/podgangs.scheduler.grove.io v1alpha1" in verbose
                assert 'cache_served{resource="computedomains"} 0.0' in metrics
                await api.apply(
                    [{**crd, "metadata": {"name": "computedomains.resource.nvidia.com"}}]
                )

                async def is_picked_up() -> bool:
                    return (
                        'cache_served{resource="computedomains"} 1.0'
                        in (await web.get("/metrics")).text
                    )

                assert await eventually(is_picked_up)
    finally:
        await api.apply([{**crd, "metadata": {"name": "computedomains.resource.nvidia.com"}}])
