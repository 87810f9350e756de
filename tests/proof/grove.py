"""Grove's operator and its users, for one namespace: what is desired, and what the operator does
about it again and again, whether it succeeds or not.

As by the real one, PodCliques of a scaling group belong to their PodCliqueScalingGroup, and what a
former PodCliqueSet of the name has left is given to the new one, unless it is collected before.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from app.facts.kinds import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET, POD_GANG
from app.kube.api import ClusterError, NotFound, Object, ObjectRef, Selection
from app.kube.client import HttpClient
from tests import builders
from tests.proof.clock import Clock

GROUP = "pool"
MEMBERS = ("worker", f"{GROUP}-0-leader")


@dataclass
class DesiredSet:
    """A PodCliqueSet as a user wants it.

    If `inherited`, it has the MNNVL annotations itself, else its PodCliques.
    """

    replicas: int
    scope: str = "replica"
    inherited: bool = False
    domain: str | None = None

    def annotations(self) -> dict[str, str]:
        return {"grove.io/mnnvl-enabled": "true", "grove.io/mnnvl-scope": self.scope}


class Operator:
    """`sets` is what is desired, by name.

    `slowest` is the longest that any request took, in seconds of `clock`.
    """

    def __init__(self, client: HttpClient, namespace: str, clock: Clock) -> None:
        self.sets: dict[str, DesiredSet | None] = {}
        self.resets = True
        """Whether it writes again what is as it should be.

        If not, our webhooks are not asked about it.
        """
        self.rounds = 0
        """How often it has looked at everything."""
        self.slowest = 0.0
        self.refusals: list[str] = []
        """What was rejected although it was right."""
        self.created = list[Object]()
        """The PodCliqueSets as they began, in this order."""
        self._client = client
        self._namespace = namespace
        self._clock = clock

    async def run(self) -> NoReturn:
        while True:
            for name, desired in list(self.sets.items()):
                with suppress(ClusterError):
                    await self._reconcile(name, desired)
            self.rounds += 1
            await asyncio.sleep(0.05)

    async def _reconcile(self, name: str, desired: DesiredSet | None) -> None:
        if desired is None:
            with suppress(NotFound):
                await self._timed(
                    self._client.delete(ObjectRef(POD_CLIQUE_SET, name, self._namespace))
                )
            return
        pcs = await self._write_set(name, desired)
        for replica in range(desired.replicas):
            for member in MEMBERS:
                with suppress(ClusterError):
                    await self._write_clique(pcs, replica, member, desired)
            with suppress(ClusterError):
                await self._write_gang(pcs, replica)
        await self._scale_in(name, desired.replicas)

    async def _scale_in(self, name: str, replicas: int) -> None:
        for resource in (POD_GANG, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE):
            selector = f"app.kubernetes.io/part-of={name}"
            for item in (
                await self._client.list(Selection(resource, self._namespace, labels=selector))
            ).items:
                if int(item["metadata"]["name"].removeprefix(f"{name}-").split("-")[0]) >= replicas:
                    await self._timed(
                        self._client.delete(
                            ObjectRef(resource, item["metadata"]["name"], self._namespace)
                        )
                    )

    async def _write_set(self, name: str, desired: DesiredSet) -> Object:
        pcs = builders.pod_clique_set(name, domain=desired.domain, replicas=desired.replicas)
        keys = ("enabled", "scope")
        annotations = (
            desired.annotations()
            if desired.inherited
            else {f"grove.io/mnnvl-{key}": None for key in keys}
        )
        pcs["metadata"]["annotations"] = {
            key: value for key, value in annotations.items() if value is not None
        }
        return await self._put_set(
            pcs, {"metadata": {"annotations": annotations}, "spec": pcs["spec"]}
        )

    async def _put_set(self, pcs: Object, patch: Object) -> Object:
        ref = ObjectRef(POD_CLIQUE_SET, pcs["metadata"]["name"], self._namespace)
        try:
            stored = await self._client.get(ref)
        except NotFound:
            created: Object = await self._timed(
                self._client.create(POD_CLIQUE_SET, pcs, self._namespace)
            )
            self.created.append(created)
            return created
        if stored["metadata"].get("deletionTimestamp"):
            raise NotFound("it is being deleted")
        patched: Object = await self._timed(self._client.patch(ref, patch))
        return patched

    async def _write_clique(
        self, pcs: Object, replica: int, member: str, desired: DesiredSet
    ) -> None:
        """Creates the PodClique, or sets its spec to that of the template."""
        name = pcs["metadata"]["name"]
        owner = pcs
        group = None
        if member.startswith(GROUP):
            owner = await self._write_group(pcs, replica)
            group = GROUP
        labels = builders.labels(name, replica, f"{name}-{replica}", group, grove=True)
        clique = builders.pod_clique(f"{name}-{replica}-{member}", labels, scope=desired.scope)
        clique["metadata"] |= {"ownerReferences": [reference(owner)], "annotations": {}}
        if not desired.inherited:
            clique["metadata"]["annotations"] = desired.annotations()
        reset = {**clique["spec"]["podSpec"], "resourceClaims": None}
        removed: dict[str, Any] = dict.fromkeys(desired.annotations())
        patch = {
            "metadata": {"annotations": {**removed, **clique["metadata"]["annotations"]}},
            "spec": {"podSpec": reset},
        }
        await self._write(POD_CLIQUE, clique, patch)

    async def _write_group(self, pcs: Object, replica: int) -> Object:
        name = pcs["metadata"]["name"]
        group = {
            "metadata": {
                "name": f"{name}-{replica}-{GROUP}",
                "labels": builders.gang_labels(name),
                "ownerReferences": [reference(pcs)],
            },
            "spec": {"cliqueNames": ["leader"]},
        }
        return await self._write(POD_CLIQUE_SCALING_GROUP, group, {})

    async def _write_gang(self, pcs: Object, replica: int) -> None:
        """Creates the PodGang, or replaces its labels and what the operator thinks is the spec."""
        name = pcs["metadata"]["name"]
        gang = builders.pod_gang(
            f"{name}-{replica}",
            builders.gang_labels(name),
            *(f"{name}-{replica}-{member}" for member in MEMBERS),
        )
        gang["metadata"]["ownerReferences"] = [reference(pcs)]
        await self._write(POD_GANG, gang, {"spec": {**gang["spec"], "topologyConstraint": None}})

    async def _write(self, resource: Any, obj: Object, patch: Object) -> Object:
        """Creates the object, or changes it and its owner, and returns it."""
        ref = ObjectRef(resource, obj["metadata"]["name"], self._namespace)
        stored: Object
        try:
            stored = await self._client.get(ref)
        except NotFound:
            stored = await self._timed(self._client.create(resource, obj, self._namespace))
            return stored
        if stored["metadata"].get("deletionTimestamp"):
            raise NotFound("it is being deleted")
        owners = obj["metadata"]["ownerReferences"]
        as_it_should_be = stored["metadata"].get("ownerReferences") == owners and all(
            obj["metadata"].get(field, {}).items() <= stored["metadata"].get(field, {}).items()
            for field in ("annotations", "labels")
        )
        if self.resets or not as_it_should_be:
            metadata = {**patch.get("metadata", {}), "ownerReferences": owners}
            stored = await self._timed(self._client.patch(ref, {**patch, "metadata": metadata}))
        return stored

    async def _timed(self, call: Any) -> Any:
        begin = self._clock.now
        try:
            return await call
        except ClusterError as error:
            self._judge(error)
            raise
        finally:
            self.slowest = max(self.slowest, self._clock.now - begin)

    def _judge(self, error: ClusterError) -> None:
        """Sets may be rejected, because another dialect has other rules, and a PodGang as long as
        the levels do not exist, because the scheduler must not see it without its constraints. A
        PodClique may not.
        """
        if "podclique.mutate" in error.message and "failed calling webhook" not in error.message:
            self.refusals.append(error.message)


def reference(owner: Object) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
