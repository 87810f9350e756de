"""A workload with constraints and MNNVL beside Grove's real operator and our server under the
rendered account: it is created, left alone, scaled, updated and deleted. Both releases of the
operator run it, each in its own words.
"""

import asyncio
from collections.abc import Mapping

from app.facts.kinds import (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    KAI_TOPOLOGY,
    POD_CLIQUE,
    POD_CLIQUE_SCALING_GROUP,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    RESOURCE_CLAIM,
)
from app.kube.api import Object, ObjectRef, Selection
from app.objects.resource import POD
from app.server.serve import Running
from scripts.apiserver.admission_server import ApiServer
from tests.integration.grove import mistakes
from tests.integration.grove.bindings import bind
from tests.integration.grove.claims import claims_of_pods, owners
from tests.integration.grove.gangs import base_gangs
from tests.integration.grove.operator import GroveOperator
from tests.integration.system import Users, eventually, names

QUIET_SECONDS = 60
GROVE = "/apis/grove.io/v1alpha1"
WRITTEN = (
    POD_CLIQUE_SET,
    POD_CLIQUE,
    POD_CLIQUE_SCALING_GROUP,
    POD_GANG,
    POD_GROUP,
    COMPUTE_DOMAIN,
    RESOURCE_CLAIM,
    POD,
)
"""What either side writes for a workload."""

TOPOLOGIES = (CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING, KAI_TOPOLOGY)
ZONE = mistakes.ZONE
RACK = mistakes.RACK
HOST = mistakes.HOST


def workload(today: bool, image: str = "registry.example/main:1") -> Object:
    """A set that asks for MNNVL, with a clique without GPUs, one with a scope of its own, and a
    scaling group.
    """

    def constraint(domain: str) -> Object:
        return {"pack": {"required": domain}} if today else {"packDomain": domain}

    scoped = {"grove.io/mnnvl-enabled": "true", "grove.io/mnnvl-scope": "scalingGroupReplica"}
    alone = {"grove.io/mnnvl-enabled": "true", "grove.io/mnnvl-scope": "clique"}
    cliques = [
        mistakes.clique("router"),
        mistakes.clique("dec", gpus=8, replicas=2),
        mistakes.clique("cl", gpus=8, annotations=alone, topologyConstraint=constraint("rack")),
        mistakes.clique("pw", gpus=8, replicas=2, annotations=scoped),
    ]
    for clique in cliques:
        clique["spec"]["podSpec"]["containers"][0]["image"] = image
    pcs = mistakes.pcs("train", *cliques, mnnvl_enabled="true")
    group = {"name": "g", "cliqueNames": ["pw"], "replicas": 2, "minAvailable": 1}
    pcs["spec"]["template"]["podCliqueScalingGroups"] = [
        {**group, "topologyConstraint": constraint("rack")}
    ]
    named = {"topologyName": "used"} if today else {}
    pcs["spec"]["template"]["topologyConstraint"] = {**named, **constraint("zone")}
    return pcs


def claims(replicas: int, groups: int) -> tuple[int, dict[str, str]]:
    """The number of Pods, and the claim of each PodClique; in the first replica the scaling group
    has `groups` replicas, in the others two.
    """
    expected: dict[str, str] = {}
    pods = 0
    for replica in range(replicas):
        name = f"train-{replica}"
        members = groups if replica == 0 else 2
        expected |= {f"{name}-router": "", f"{name}-dec": name, f"{name}-cl": f"{name}-cl"}
        expected |= {f"{name}-g-{index}-pw": f"{name}-g-{index}" for index in range(members)}
        pods += 1 + 2 + 1 + 2 * members
    return pods, expected


def resources(replicas: int, groups: int, *, today: bool) -> dict[str, str]:
    """The owner of the resources of each base name: today the PodCliqueSet, before a PodGang.

    The base PodGang has the first replica of the group.
    """
    expected: dict[str, str] = {}
    for replica in range(replicas):
        name = f"train-{replica}"
        members = groups if replica == 0 else 2
        expected |= {name: name, f"{name}-cl": name, f"{name}-g-0": name}
        expected |= {f"{name}-g-{index}": f"{name}-g-{index - 1}" for index in range(1, members)}
    return dict.fromkeys(expected, POD_CLIQUE_SET.kind) if today else expected


class Workload:
    """The PodCliqueSet `train` in one namespace.

    `today` is whether the cluster has ClusterTopologyBindings.
    """

    def __init__(self, clients: Users, namespace: str, *, today: bool) -> None:
        self.clients = clients
        self.namespace = namespace
        self.today = today

    async def until(self, replicas: int, groups: int) -> None:
        """All Pods run with their claims, and the resources have their owners."""
        pods = claims(replicas, groups)
        owned = resources(replicas, groups, today=self.today)
        look = lambda: claims_of_pods(self.clients, self.namespace)  # noqa: E731
        assert await eventually(look, lambda seen: seen == pods) == pods
        assert (
            await eventually(
                lambda: owners(self.clients, self.namespace), lambda seen: seen == owned
            )
            == owned
        )
        await eventually(self.phases, lambda phases: phases == {"Running"})

    async def phases(self) -> set[str]:
        pods = (await self.clients.admin.list(Selection(POD, self.namespace), limit=0)).items
        return {pod["status"]["phase"] for pod in pods}

    async def images(self) -> set[str]:
        pods = (await self.clients.admin.list(Selection(POD, self.namespace), limit=0)).items
        return {container["image"] for pod in pods for container in pod["spec"]["containers"]}

    async def patch(self, plural: str, name: str, spec: Object) -> None:
        await self.clients.answer(
            "user", "PATCH", f"{GROVE}/namespaces/{self.namespace}/{plural}/{name}", {"spec": spec}
        )

    async def versions(self) -> Mapping[tuple[str, str], str]:
        """The resourceVersion of everything that either side writes."""
        versions: dict[tuple[str, str], str] = {}
        for resource in (*WRITTEN, *TOPOLOGIES):
            if self.clients.admin.served_version(resource) is None:
                continue
            namespace = self.namespace if resource.namespaced else None
            for obj in (
                await self.clients.admin.list(Selection(resource, namespace), limit=0)
            ).items:
                versions[resource.kind, obj["metadata"]["name"]] = obj["metadata"][
                    "resourceVersion"
                ]
        return versions

    async def quiet(self) -> bool:
        before = await self.versions()
        await asyncio.sleep(3)
        return before == await self.versions()

    async def packs(self, replica: str) -> list[object]:
        """The required constraints of the base PodGang of a replica, its groups and PodGroups."""
        (gang,) = await base_gangs(self.clients, self.namespace, replica)
        spec = gang["spec"]
        holders = [spec, *spec.get("topologyConstraintGroupConfigs", []), *spec["podgroups"]]
        return [
            ((holder.get("topologyConstraint") or {}).get("packConstraint") or {}).get("required")
            for holder in holders
        ]


async def test_a_workload_lives_and_goes(
    api: ApiServer,
    operator: GroveOperator,
    served: Running,
    clients: Users,
    namespace: str,
    today: bool,
) -> None:
    if today:
        levels = (("zone", ZONE), ("rack", RACK), ("host", HOST))
        await bind(clients, "used", *levels)

        async def is_known() -> bool:
            return "used" in served.cluster.facts.bindings()

        await eventually(is_known)
    train = Workload(clients, namespace, today=today)
    await clients.user.create(POD_CLIQUE_SET, workload(today), namespace)
    await train.until(replicas=1, groups=2)
    assert sorted(map(str, await train.packs("train-0"))) == sorted(
        [ZONE, RACK, "None", "None", RACK, "None"]
    )

    await eventually(train.quiet)
    before = await train.versions()
    await asyncio.sleep(QUIET_SECONDS)
    assert await train.versions() == before

    await train.patch("podcliquesets", "train", {"replicas": 2})
    await train.patch("podcliquescalinggroups", "train-0-g", {"replicas": 3})
    await train.until(replicas=2, groups=3)
    await train.patch("podcliquescalinggroups", "train-0-g", {"replicas": 2})
    await train.patch("podcliquesets", "train", {"replicas": 1})
    await train.until(replicas=1, groups=2)

    newer = workload(today, "registry.example/main:2")["spec"]["template"]["cliques"]
    await train.patch("podcliquesets", "train", {"template": {"cliques": newer}})
    await eventually(train.images, lambda images: images == {"registry.example/main:2"})
    await train.until(replicas=1, groups=2)

    await clients.user.delete(ObjectRef(POD_CLIQUE_SET, "train", namespace))
    for resource in WRITTEN:
        left = await eventually(
            lambda: names(clients.admin, resource, namespace),  # noqa: B023
            lambda left: left == [],
        )
        assert left == []
    assert operator.is_running
    assert served.readiness.is_ready
