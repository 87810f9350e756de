"""Every rule of our RBAC is there for a call: the server's whole work, played once, uses all of
them.

That no call lacks a rule is what the rest of the suite shows: it runs under these rules on both API
servers.
"""

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.config.read import read_configuration
from app.config.schema import Configuration
from app.doctor.permissions import OWNERS
from app.facts.kai.queue import read_queue_names
from app.facts.kinds import (
    CLUSTER_TOPOLOGY,
    COMPUTE_DOMAIN,
    K8S_POD_GROUP,
    KAI_TOPOLOGY,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    QUEUE,
    QUEUE_NAMES,
    WORKLOAD,
)
from app.facts.rows import SETS
from app.kube.api import ObjectRef, Selection
from app.objects.resource import CRD, EVENT, MUTATING_WEBHOOKS, POD, VALIDATING_WEBHOOKS, Resource
from app.server.serve import Running
from scripts.apiserver.admission_server import ApiServer, configurations_of, unregistered
from scripts.apiserver.sandbox import Sandbox
from tests import builders, pods
from tests.integration.conftest import own_rules
from tests.integration.system import Users, eventually, is_gone
from tests.integration.test_units import World, recorded
from tests.integration.tried import tried
from tests.rendered import rendered

pytestmark = pytest.mark.untraced

Right = tuple[str, str, str]
"""(verb, group, resource)."""

NAME = "grove-topology"
ADOPTED = "grove.io/mnnvl-resources-adopted"
UNITS = (
    ("apps", "statefulsets"),
    ("batch", "jobs"),
    ("disaggregatedset.x-k8s.io", "disaggregatedsets"),
    ("jobset.x-k8s.io", "jobsets"),
    ("kubeflow.org", "pytorchjobs"),
    ("kubeflow.org", "mpijobs"),
    ("leaderworkerset.x-k8s.io", "leaderworkersets"),
    ("ray.io", "rayclusters"),
)
"""What is read of who owns the Pods of a unit."""

WITHOUT_A_CALL_HERE: dict[Right, str] = {
    ("patch", "", "secrets"): "a certificate is replaced, after two months",
    ("get", "scheduling.run.ai", "podgroups"): "another replica made it in the same moment",
} | {
    ("get", group, plural): "an owner of a Workload's Pods"
    for group, plurals in OWNERS.items()
    for plural in plurals
    if plural != "podcliques"
}
WITHOUT_A_CALL_HERE = {
    right: reason
    for right, reason in WITHOUT_A_CALL_HERE.items()
    if right not in {("get", group, plural) for group, plural in UNITS}
} | {
    ("get", "kubeflow.org", f"{kind}s"): "its CRD is not installed here"
    for kind in ("jaxjob", "paddlejob", "tfjob", "xgboostjob")
}
WITHOUT_A_CALL_HERE |= {
    (verb, "grove.io", "clustertopologybindings"): "this cluster serves no bindings; others do"
    for verb in ("get", "list", "watch", "create", "patch")
} | {
    (
        "patch",
        "grove.io",
        "clustertopologybindings/status",
    ): "this cluster serves no bindings; others do"
}


@pytest.fixture(scope="module")
def former() -> Sequence[Resource]:
    return (POD_CLIQUE_SET,)


@pytest.fixture(scope="module", params=["sandbox"])
def kind(request: pytest.FixtureRequest) -> str:
    """A real API server doesn't tell which rules it used."""
    return str(request.param)


Start = Callable[[str], contextlib.AbstractAsyncContextManager[Running]]


@pytest_asyncio.fixture(loop_scope="module")
async def start(
    api: ApiServer, clients: Users, configuration: Configuration, tmp_path: Path
) -> Start:
    """Starts our server as it is installed, with the `clusterTopology` given."""

    async def is_trusted() -> bool:
        configurations = [
            await clients.admin.get(ObjectRef(resource, "grove-admission"))
            for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        ]
        return all(
            webhook["clientConfig"].get("caBundle")
            for stored in configurations
            for webhook in stored["webhooks"]
        )

    @contextlib.asynccontextmanager
    async def start(topology: str) -> AsyncIterator[Running]:
        text = f"""
            apiVersion: config.grove.io/v1alpha1
            kind: OperatorConfiguration
            clusterTopology: {topology}
            server: {{host: 127.0.0.1, port: {configuration.server.port}, toolsPort: 0, drainSeconds: 0}}
            certificates: {{mode: self-managed, settleSeconds: 0}}
            mnnvl: {{collectAfterSeconds: 1}}
        """
        async with unregistered(
            api, read_configuration(text, "test"), tmp_path, readable=False
        ) as served:
            await api.apply(configurations_of(served, b""))
            await eventually(is_trusted)
            yield served

    return start


def rights() -> Iterator[Right]:
    """What the roles of our account allow, one by one. Roles without a binding are for people."""
    objects = own_rules()
    bound = {obj["roleRef"]["name"] for obj in objects if "roleRef" in obj}
    for obj in objects:
        for rule in obj.get("rules") or () if obj["metadata"]["name"] in bound else ():
            yield from itertools.product(rule["verbs"], rule["apiGroups"], rule["resources"])


@pytest.mark.statement("1.158", "1.162", "1.163")
async def test_every_right_is_used_by_a_call_or_has_a_reason(
    api: ApiServer, clients: Users, start: Start, namespace: str
) -> None:
    play = Play(clients, namespace)
    zone = "{domain: zone, key: a.b/zone}"
    rack = "{domain: rack, key: a.b/rack}"
    async with start(f"{{enabled: true, levels: [{zone}]}}"):
        await play.until_kai("a.b/zone")
    async with start(f"{{enabled: true, levels: [{zone}, {rack}]}}"):
        await play.until_kai("a.b/zone", "a.b/rack")
        await play.until_reset(times=1)
    async with start(f"{{enabled: true, levels: [{zone}]}}") as served:
        await play.until_kai("a.b/zone")
        await play.until_reset(times=2)
        await play.gang_with_mnnvl(served)
        await play.workload()
        await play.units()
        await play.queues()
    async with start("{enabled: false}"):
        await eventually(lambda: is_gone(clients.admin, CLUSTER_TOPOLOGY, NAME))
    assert isinstance(api, Sandbox)
    used = {(access.verb, access.group, access.resource) for access in api.authorizer.granted}
    # only API servers without streaming lists are read in pages
    pages = {right for right in rights() if right[0] == "list" and right[2] != "pods"}
    assert set(rights()) - used == set(WITHOUT_A_CALL_HERE) | pages


class Play:
    """What users and Grove's operator do in one namespace, and what comes of it."""

    def __init__(self, clients: Users, namespace: str) -> None:
        self.clients = clients
        self.admin = clients.admin
        self.grove = clients.operator
        self.namespace = namespace

    async def units(self) -> None:
        """A Pod of each kind of workload, beside the Workload `w`; one has a claim already."""
        world = World(self.clients, self.namespace)
        await world.create_owners()
        group = {"metadata": {"name": "prefill-0"}, "spec": {}}
        await self.admin.create(K8S_POD_GROUP, group, self.namespace)
        for name, unit in pods.UNITS.items():
            if not unit:
                continue
            obj = recorded(name)
            if name == "job":
                theirs = {"name": "theirs", "resourceClaimTemplateName": "theirs"}
                obj["spec"]["resourceClaims"] = [theirs]
            await world.create(obj)

    async def until_kai(self, *keys: str) -> None:
        async def levels() -> tuple[str, ...]:
            page = await self.admin.list(Selection(KAI_TOPOLOGY))
            return tuple(
                level["nodeLabel"] for item in page.items for level in item["spec"]["levels"]
            )

        await eventually(levels, lambda current: current == keys)

    async def until_reset(self, times: int) -> None:
        """Until an event has told of that many resets of the KAI Topology."""

        async def told() -> list[int]:
            events = (await self.admin.list(Selection(EVENT))).items
            return [
                event.get("series", {}).get("count", 1)
                for event in events
                if event["reason"] == "KAITopologyReset"
            ]

        await eventually(told, lambda counts: counts == [times])

    async def gang_with_mnnvl(self, served: Running) -> None:
        """A PodCliqueSet with a constraint, a PodClique of it (first tried), and its PodGang, until
        all is written.
        """
        await self.admin.create(
            POD_CLIQUE_SET, builders.pod_clique_set("train", domain="zone"), self.namespace
        )

        async def is_known() -> bool:
            return served.cluster.stores[SETS].get(self.namespace, "train") is not None

        await eventually(is_known)
        labels = builders.labels("train", 0, "train-0")
        clique = builders.pod_clique("train-0-worker", labels)
        await tried(self.grove, POD_CLIQUE, clique, self.namespace)
        await self.grove.create(POD_CLIQUE, clique, self.namespace)
        await self.grove.create(
            POD_GANG, builders.pod_gang("train-0", labels, "train-0-worker"), self.namespace
        )
        await eventually(
            lambda: self.value_at(POD_GANG, "train-0", "metadata", "annotations", ADOPTED),
            lambda annotation: annotation == "true",
        )
        await eventually(lambda: self.value_at(POD_CLIQUE_SET, "train", "status", "conditions"))
        await self.claim_put_back()
        leaked = builders.pod_clique("train-1-worker", builders.labels("train", 1, "train-1"))
        await self.grove.create(POD_CLIQUE, leaked, self.namespace)
        await self.grove.delete(ObjectRef(POD_CLIQUE, "train-1-worker", self.namespace))
        await eventually(lambda: is_gone(self.admin, COMPUTE_DOMAIN, "train-1-cd", self.namespace))

    async def claim_put_back(self) -> None:
        """A PodClique inherits the annotation that its set gets afterwards."""
        late = builders.pod_clique("train-0-late", builders.labels("train", 0, "train-0"))
        del late["metadata"]["annotations"]
        await self.grove.create(POD_CLIQUE, late, self.namespace)
        annotated = {"metadata": {"annotations": {"grove.io/mnnvl-enabled": "true"}}}
        await self.admin.patch(ObjectRef(POD_CLIQUE_SET, "train", self.namespace), annotated)
        path = ("spec", "podSpec", "resourceClaims")
        await eventually(lambda: self.value_at(POD_CLIQUE, "train-0-late", *path))

    async def workload(self) -> None:
        """A Workload's Pod, which the PodClique owns, until it is told its PodGroup; then another
        preemptibility; then no Pod any more.
        """
        clique = await self.admin.get(ObjectRef(POD_CLIQUE, "train-0-worker", self.namespace))
        owner = {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodClique",
            "name": "train-0-worker",
            "controller": True,
        }
        metadata = {"name": "p", "ownerReferences": [{**owner, "uid": clique["metadata"]["uid"]}]}
        policy = {"name": "workers", "schedulingPolicy": {"basic": {}}}
        reference = {"workload": {"workloadName": "w", "podGroupTemplateName": "workers"}}
        group = {"podGroupTemplateRef": reference, "schedulingPolicy": {"basic": {}}}
        spec = {
            "schedulerName": "kai-scheduler",
            "schedulingGroup": {"podGroupName": "w-workers"},
            "containers": [],
        }
        for resource, name, obj in (
            (WORKLOAD, "w", {"spec": {"podGroupTemplates": [policy]}}),
            (K8S_POD_GROUP, "w-workers", {"spec": group}),
            (POD, "p", {"metadata": metadata, "spec": spec}),
        ):
            await self.admin.create(resource, {"metadata": {"name": name}, **obj}, self.namespace)
        await eventually(
            lambda: self.value_at(POD, "p", "metadata", "annotations", "pod-group-name")
        )
        preemptible = {"metadata": {"labels": {"kai.scheduler/preemptibility": "preemptible"}}}
        await self.admin.patch(ObjectRef(WORKLOAD, "w", self.namespace), preemptible)
        await eventually(lambda: self.value_at(POD_GROUP, "w-workers", "spec", "preemptibility"))
        await self.admin.delete(ObjectRef(POD, "p", self.namespace))
        await eventually(lambda: is_gone(self.admin, POD_GROUP, "w-workers", self.namespace))

    async def queues(self) -> None:
        """The CRD of the names of Queues; then a Queue, and another one."""
        crds = [obj for obj in rendered("overlays/queue-guard") if obj["kind"] == CRD.kind]
        await self.admin.create(CRD, crds[0])
        for names in ({"a"}, {"a", "b"}):
            await self.admin.create(QUEUE, {"metadata": {"name": max(names)}})
            await eventually(self.names_of_queues, names.__eq__)

    async def names_of_queues(self) -> set[str]:
        await self.admin.discovery.refresh()
        if self.admin.served_version(QUEUE_NAMES) is None:
            return set()
        page = await self.admin.list(Selection(QUEUE_NAMES))
        return {name for obj in page.items for name in read_queue_names(obj)}

    async def value_at(self, resource: Resource, name: str, *path: str) -> Any:
        """What stands at `path` of a stored object, None where nothing does."""
        value: Any = await self.admin.get(ObjectRef(resource, name, self.namespace))
        for step in path:
            value = (value or {}).get(step)
        return value
