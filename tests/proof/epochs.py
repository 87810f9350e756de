"""Grove's operator with scaling groups, in a release without PodGangMaps and in one with them.

What the release with PodGangMaps does at its start to running workloads, in this order: it makes a
map from the template, writes the new PodGang into the labels of the PodCliques, deletes the former
PodGangs, and makes the new ones.
"""

import itertools
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from app.facts.kinds import POD_CLIQUE, POD_GANG, POD_GANG_MAP
from app.kube.api import ClusterError, NotFound, Object, ObjectRef, Selection, every
from tests import builders
from tests.proof.grove import GROUP, DesiredSet, Operator, reference

MIN_AVAILABLE = 1
TEMPLATE_REPLICAS = 2


@dataclass
class DesiredGroups(DesiredSet):
    """A PodCliqueSet with a clique `worker`, and a clique `leader` in `group` replicas of a scaling
    group.
    """

    group: int = TEMPLATE_REPLICAS

    def scope_of(self, clique: str) -> str:
        """The scope of a clique: only the one in the scaling group can share with its replica."""
        if clique == "worker" and self.scope == "scalingGroupReplica":
            return "clique"
        return self.scope


@dataclass(frozen=True)
class PlannedGang:
    """A PodGang as the operator wants it, with the names of its PodCliques."""

    name: str
    cliques: tuple[str, ...]
    labels: dict[str, str]


class EpochOperator(Operator):
    """`epochs` says which of the two releases runs, from the time `acts_at` on."""

    epochs = False
    acts_at = 0.0

    async def begin_with_epochs(self) -> None:
        """The operator of the release with PodGangMaps, whose CRD it finds at its start."""
        await self._client.discovery.refresh()
        self.epochs = True

    async def _reconcile(self, name: str, desired: DesiredSet | None) -> None:
        if self._clock.now < self.acts_at:
            return
        if not isinstance(desired, DesiredGroups):
            await super()._reconcile(name, desired)
            return
        pcs = await self._write_set(name, desired)
        for replica in range(desired.replicas):
            with suppress(ClusterError):
                await self._write_replica(pcs, replica, desired)
        await self._scale_in(name, desired.replicas)

    async def _write_set(self, name: str, desired: DesiredSet) -> Object:
        assert isinstance(desired, DesiredGroups)
        pcs = builders.pod_clique_set(name, replicas=desired.replicas)
        template = pcs["spec"]["template"]
        template["podCliqueScalingGroups"][0] |= {
            "replicas": TEMPLATE_REPLICAS,
            "minAvailable": MIN_AVAILABLE,
        }
        for clique in template["cliques"]:
            clique["annotations"] = _annotations(desired, clique["name"])
        return await self._put_set(pcs, {"spec": pcs["spec"]})

    async def _write_replica(self, pcs: Object, replica: int, desired: DesiredGroups) -> None:
        planned = await self._planned(pcs, replica, desired)
        for gang in planned:
            for clique in gang.cliques:
                with suppress(ClusterError):
                    await self._write_member(pcs, replica, clique, gang.name, desired)
        await self._delete_surplus(pcs, replica, planned, desired)
        for gang in planned:
            with suppress(ClusterError):
                await self._write_planned(pcs, gang)

    # PodGangs.

    async def _planned(
        self, pcs: Object, replica: int, desired: DesiredGroups
    ) -> list[PlannedGang]:
        base = f"{pcs['metadata']['name']}-{replica}"
        if not self.epochs:
            return _legacy(base, pcs["metadata"]["name"], desired.group)
        entries = await self._entries(pcs, replica, desired.group)
        return [
            gang for entry in entries for gang in _of_entry(base, pcs["metadata"]["name"], entry)
        ]

    async def _entries(self, pcs: Object, replica: int, group: int) -> list[Object]:
        """The entries of the map, which is made from the template, and then scaled."""
        name = f"{pcs['metadata']['name']}-{replica}"
        try:
            stored = await self._client.get(ObjectRef(POD_GANG_MAP, name, self._namespace))
        except NotFound:
            stored = await self._timed(
                self._client.create(POD_GANG_MAP, _map(pcs, replica), self._namespace)
            )
        entries: list[Object] = stored["spec"]["entries"]
        scaled = [_scaled(entry, group) for entry in entries]
        mapped = {index for entry in scaled for index in entry["pcsgReplicaIndices"][GROUP]}
        scaled[-1]["pcsgReplicaIndices"][GROUP] += sorted(set(range(group)) - mapped)
        if scaled != entries:
            patch = {"spec": {"entries": scaled}}
            await self._timed(
                self._client.patch(ObjectRef(POD_GANG_MAP, name, self._namespace), patch)
            )
        return scaled

    async def _delete_surplus(
        self, pcs: Object, replica: int, planned: list[PlannedGang], desired: DesiredGroups
    ) -> None:
        """Deletes the PodGangs of the other scheme or of group replicas that are not wanted, and
        then the PodCliques of the latter.
        """
        name = pcs["metadata"]["name"]
        names = {gang.name for gang in planned}
        cliques = {clique for gang in planned for clique in gang.cliques}
        for resource, kept in ((POD_GANG, names), (POD_CLIQUE, cliques)):
            for item in await self._of_set(resource, name):
                item_name = item["metadata"]["name"]
                of_replica = item_name == f"{name}-{replica}" or item_name.startswith(
                    f"{name}-{replica}-"
                )
                if of_replica and item_name not in kept:
                    await self._timed(
                        self._client.delete(ObjectRef(resource, item_name, self._namespace))
                    )

    async def _of_set(self, resource: Any, name: str) -> list[Object]:
        selector = f"app.kubernetes.io/part-of={name}"
        return await every(self._client, Selection(resource, self._namespace, labels=selector))

    async def _write_planned(self, pcs: Object, planned: PlannedGang) -> None:
        gang = builders.pod_gang(planned.name, planned.labels, *planned.cliques)
        gang["metadata"]["ownerReferences"] = [reference(pcs)]
        await self._write(POD_GANG, gang, {"spec": {**gang["spec"], "topologyConstraint": None}})

    # PodCliques.

    async def _write_member(
        self, pcs: Object, replica: int, name: str, gang: str, desired: DesiredGroups
    ) -> None:
        """Creates the PodClique, or sets its spec to that of the template, and its PodGang."""
        pcs_name = pcs["metadata"]["name"]
        clique = name.rpartition("-")[2]
        labels = builders.labels(pcs_name, replica, gang, grove=True)
        owner = pcs
        if clique == "leader":
            owner = await self._write_group(pcs, replica)
            index = int(name.rpartition("-")[0].rpartition("-")[2])
            labels = builders.labels(pcs_name, replica, gang, GROUP, index, grove=True)
        obj = builders.pod_clique(name, labels)
        obj["metadata"] |= {
            "ownerReferences": [reference(owner)],
            "annotations": _annotations(desired, clique),
        }
        reset = {**obj["spec"]["podSpec"], "resourceClaims": None}
        metadata = {"annotations": obj["metadata"]["annotations"], "labels": labels}
        await self._write(POD_CLIQUE, obj, {"metadata": metadata, "spec": {"podSpec": reset}})


def _annotations(desired: DesiredGroups, clique: str) -> dict[str, str]:
    return {
        "grove.io/mnnvl-enabled": "true",
        "grove.io/mnnvl-scope": desired.scope_of(clique),
    }


def _leader(base: str, index: int) -> str:
    return f"{base}-{GROUP}-{index}-leader"


def _legacy(base: str, pcs: str, group: int) -> list[PlannedGang]:
    """The PodGangs of a replica before PodGangMaps: their index counts from 0 above
    minAvailable.
    """
    labels = builders.gang_labels(pcs)
    anchored = [_leader(base, index) for index in range(min(group, MIN_AVAILABLE))]
    gangs = [PlannedGang(base, (f"{base}-worker", *anchored), labels)]
    for index in range(MIN_AVAILABLE, group):
        name = f"{base}-{GROUP}-{index - MIN_AVAILABLE}"
        gangs.append(PlannedGang(name, (_leader(base, index),), labels))
    return gangs


_CLOCK = itertools.count(time.time_ns(), 10)


def _map(pcs: Object, replica: int) -> Object:
    """A PodGangMap, made from the template, whatever the group has been scaled to."""
    epoch = next(_CLOCK)
    name = pcs["metadata"]["name"]
    anchored = list(range(MIN_AVAILABLE))
    tail = list(range(MIN_AVAILABLE, TEMPLATE_REPLICAS))
    roles: tuple[tuple[str, list[int]], ...] = (
        ("Anchor", anchored),
        ("Tail", tail),
        ("ScaleOut", []),
    )
    entries: list[Object] = [
        {
            "role": role,
            "epoch": str(epoch + position),
            "podCliqueSetGenerationHash": "1",
            "pcsgReplicaIndices": {GROUP: indices},
        }
        for position, (role, indices) in enumerate(roles)
    ]
    return {
        "metadata": {
            "name": f"{name}-{replica}",
            "labels": builders.gang_labels(name),
            "ownerReferences": [reference(pcs)],
        },
        "spec": {"podCliqueSetReplicaIndex": replica, "entries": entries},
    }


def _scaled(entry: Object, group: int) -> Object:
    indices = [index for index in entry["pcsgReplicaIndices"][GROUP] if index < group]
    return {**entry, "pcsgReplicaIndices": {GROUP: indices}}


def _of_entry(base: str, pcs: str, entry: Object) -> list[PlannedGang]:
    """The PodGangs of one entry: one for the anchor, else one for each group replica."""
    epoch = entry["epoch"]
    labels = {
        **builders.gang_labels(pcs),
        "grove.io/podgang-role": entry["role"],
        "grove.io/epoch": epoch,
        "grove.io/podcliqueset-replica-index": base.rpartition("-")[2],
    }
    indices = entry["pcsgReplicaIndices"][GROUP]
    if entry["role"] == "Anchor":
        cliques = (f"{base}-worker", *(_leader(base, index) for index in indices))
        return [PlannedGang(f"{base}-{epoch}", cliques, labels)]
    return [
        PlannedGang(f"{base}-{epoch}-{GROUP}-{index}", (_leader(base, index),), labels)
        for index in indices
    ]
