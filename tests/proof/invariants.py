"""What holds after every schedule, read from the API server alone."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from app.facts.grove.podcliqueset import read_pod_clique_set
from app.facts.grove.topology import ClusterTopology, levels_of_cluster_topology
from app.facts.grove.unit_member import read_carrier
from app.facts.kinds import (
    CLUSTER_TOPOLOGY,
    COMPUTE_DOMAIN,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    RESOURCE_CLAIM,
)
from app.facts.nvidia.computedomain import CLAIM_SUFFIX, DOMAIN_SUFFIX, base_of
from app.kube.api import ClusterError, Object, Selection, every
from app.kube.client import HttpClient
from app.objects.shape import labels_of
from app.rules.dialects.design.podgangs import constraint_changes
from app.rules.mnnvl.claim_holders import ClaimedMember, claimed
from tests.builders import managed
from tests.proof.grove import MEMBERS, DesiredSet

MANAGED = "grove.io/mnnvl-managed"

TOLERATED = 2
"""How often something may be made for a former set: a server may have read it just before it was
deleted.
"""


class Foreign:
    """Objects of others, which look more or less like ours and must stay as they are."""

    def __init__(self, client: HttpClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._before: dict[str, str] = {}

    async def create(self) -> None:
        labels = {"grove.io/pcs-name": "train", "grove.io/pcs-replica-index": "0", MANAGED: "true"}
        channel = {"channel": {"resourceClaimTemplate": {"name": "theirs"}}}
        spec = {"numNodes": 4, **channel}
        for name, own_labels in (("foreign", {}), ("foreign-train-0-cd", labels)):
            metadata = {"name": name, "labels": own_labels}
            await self._client.create(
                COMPUTE_DOMAIN, {"metadata": metadata, "spec": spec}, self._namespace
            )
            await self._client.create(
                RESOURCE_CLAIM, {"metadata": metadata, "spec": {}}, self._namespace
            )
        self._before = await self._versions()

    async def _versions(self) -> dict[str, str]:
        items = [
            item
            for kind in (COMPUTE_DOMAIN, RESOURCE_CLAIM)
            for item in await listed(self._client, kind, self._namespace)
        ]
        foreign = (item for item in items if item["metadata"]["name"].startswith("foreign"))
        return {
            f"{item['kind']} {item['metadata']['name']}": item["metadata"]["resourceVersion"]
            for item in foreign
        }

    async def changed(self) -> list[str]:
        after = await self._versions()
        return [
            f"{name} of somebody else was changed"
            for name in self._before
            if after.get(name) != self._before[name]
        ]


async def listed(client: HttpClient, resource: object, namespace: str) -> list[Object]:
    return await every(client, Selection(resource, namespace))  # type: ignore[arg-type]


async def violations(
    client: HttpClient,
    namespace: str,
    levels: Mapping[str, str],
    desired: Mapping[str, DesiredSet | None],
    foreign: Foreign,
) -> list[str]:
    """Every invariant that does not hold now, in words."""
    try:
        sets = {
            item["metadata"]["name"]: item
            for item in await listed(client, POD_CLIQUE_SET, namespace)
        }
        cliques = {
            item["metadata"]["name"]: item for item in await listed(client, POD_CLIQUE, namespace)
        }
        gangs = {
            item["metadata"]["name"]: item for item in await listed(client, POD_GANG, namespace)
        }
        domains = {
            item["metadata"]["name"]: item
            for item in await listed(client, COMPUTE_DOMAIN, namespace)
        }
        claims = {
            item["metadata"]["name"]: item
            for item in await listed(client, RESOURCE_CLAIM, namespace)
        }
        topologies = (await client.list(Selection(CLUSTER_TOPOLOGY))).items
    except ClusterError as error:
        return [f"not readable: {error.message}"]
    broken = _as_desired(desired, sets, cliques, gangs) + await foreign.changed()
    demands = {
        name: claimed(read_carrier(item, item["metadata"]["namespace"]))
        for name, item in cliques.items()
    }
    broken += _complete(demands, desired, domains, claims)
    bases = {demand.base_name for demand in demands.values() if demand is not None}
    for item in (*domains.values(), *claims.values()):
        is_of_unit = "grove.io/mnnvl-unit" in labels_of(item)
        if not (item["metadata"]["name"].startswith("foreign") or is_of_unit):
            broken += _owned(item, bases, sets, gangs)
    stored = levels_of_cluster_topology(topologies[0]) if topologies else ()
    if {level.domain: level.key for level in stored} != levels:
        broken.append(f"the levels are {stored}")
    topology = managed("grove-topology", levels=stored)
    return broken + [
        problem for gang in gangs.values() for problem in _constrained(gang, sets, topology)
    ]


def created_in_vain(created: Iterable[Object], sets: Sequence[Object]) -> list[str]:
    """What was made again and again for a set when another one had its name, and was collected.

    `created` is what servers have created, and `sets` are PodCliqueSets as they began.
    """
    vain = Counter[str]()
    for obj in created:
        for owner in obj["metadata"].get("ownerReferences", ()):
            current = [
                pcs["metadata"]["uid"]
                for pcs in sets
                if pcs["metadata"]["name"] == owner["name"] and _version(pcs) < _version(obj)
            ]
            is_of_set = owner["kind"] == POD_CLIQUE_SET.kind
            if is_of_set and current and owner["uid"] != current[-1]:
                vain[f"{obj['metadata']['name']} was made for the former set {owner['uid']}"] += 1
    return [f"{what} {count} times" for what, count in vain.items() if count > TOLERATED]


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def _as_desired(
    desired: Mapping[str, DesiredSet | None],
    sets: Mapping[str, Object],
    cliques: Mapping[str, Object],
    gangs: Mapping[str, Object],
) -> list[str]:
    """The operator got through with everything."""
    living = {name: wish.replicas for name, wish in desired.items() if wish is not None}
    replicas = {f"{name}-{replica}" for name, count in living.items() for replica in range(count)}
    members = {f"{replica}-{member}" for replica in replicas for member in MEMBERS}
    pairs = (
        (set(living), set(sets), "sets"),
        (replicas, set(gangs), "PodGangs"),
        (members, set(cliques), "PodCliques"),
    )
    return [
        f"{what}: {sorted(stored)}, not {sorted(right)}"
        for right, stored, what in pairs
        if right != stored
    ]


def _complete(
    demands: Mapping[str, ClaimedMember | None],
    desired: Mapping[str, DesiredSet | None],
    domains: Mapping[str, Object],
    claims: Mapping[str, Object],
) -> list[str]:
    """Every stored PodClique asked for MNNVL: it has the claim of its scope, and what the claim
    names is there.
    """
    broken: list[str] = []
    for name, demand in demands.items():
        if demand is None:
            broken.append(f"PodClique {name} has no claim")
            continue
        wish = desired.get(demand.place.pcs)
        if wish is not None and wish.scope != demand.scope:
            broken.append(f"PodClique {name} has scope {demand.scope}, not {wish.scope}")
        for stored, needed in (
            (domains, f"{demand.base_name}{DOMAIN_SUFFIX}"),
            (claims, f"{demand.base_name}{CLAIM_SUFFIX}"),
        ):
            if needed not in stored:
                broken.append(f"PodClique {name} needs {needed}, which is not there")
            elif stored[needed]["metadata"].get("deletionTimestamp"):
                broken.append(f"PodClique {name} needs {needed}, which is being deleted")
    return broken


def _owned(
    item: Object, bases: set[str], sets: Mapping[str, Object], gangs: Mapping[str, Object]
) -> list[str]:
    """It is asked for, and its one owner is its PodGang if that exists, else its PodCliqueSet."""
    name = item["metadata"]["name"]
    labels = labels_of(item)
    broken = [] if base_of(item["kind"], name) in bases else [f"{name} is not asked for by anybody"]
    pcs = labels["grove.io/pcs-name"]
    right = gangs.get(f"{pcs}-{labels['grove.io/pcs-replica-index']}") or sets.get(pcs)
    uids = [reference["uid"] for reference in item["metadata"].get("ownerReferences", ())]
    if right is None or uids != [right["metadata"]["uid"]]:
        broken.append(f"{name} belongs to {item['metadata'].get('ownerReferences')}")
    return broken


def _constrained(gang: Object, sets: Mapping[str, Object], topology: ClusterTopology) -> list[str]:
    """Its constraints are what the rule asks for."""
    pcs = sets.get(labels_of(gang)["app.kubernetes.io/part-of"])
    changes = constraint_changes(gang, None if pcs is None else read_pod_clique_set(pcs), topology)
    return [f"PodGang {gang['metadata']['name']} lacks {changes}"] if changes else []
