"""Pods that use claims, with what the scheduler and the controller of claims do for them.

A claim that a pod reserves is protected: if it is deleted, it stays Terminating until its last pod
has ended.
"""

from random import Random

from app.facts.kinds import RESOURCE_CLAIM
from app.kube.api import NotFound, Object, ObjectRef, Selection
from app.kube.client import HttpClient
from app.objects.resource import POD

PROTECTED = "resource.kubernetes.io/delete-protection"


class Pods:
    """The pods of one namespace."""

    def __init__(self, client: HttpClient, namespace: str, random: Random) -> None:
        self._client = client
        self._namespace = namespace
        self._random = random
        self._claims: dict[str, str] = {}
        """The claim of each running pod, by the name of the pod."""
        self._uids: dict[str, str] = {}
        self._started = 0

    async def start(self) -> None:
        """A pod of a claim of ours that is not being deleted, if there is one; from now on it
        reserves it.
        """
        claims = [
            item["metadata"]
            for item in (await self._client.list(Selection(RESOURCE_CLAIM, self._namespace))).items
        ]
        names = [claim["name"] for claim in claims if not claim.get("deletionTimestamp")]
        names = [name for name in names if not name.startswith("foreign")]
        if not names:
            return
        claim = self._random.choice(names)
        pod = f"pod-{self._started}"
        self._started += 1
        spec = {
            "containers": [{"name": "main", "image": "registry.example/main:1"}],
            "resourceClaims": [{"name": "mnnvl", "resourceClaimName": claim}],
        }
        stored = await self._client.create(
            POD, {"metadata": {"name": pod}, "spec": spec}, self._namespace
        )
        self._claims[pod], self._uids[pod] = claim, stored["metadata"]["uid"]
        await self._client.patch(
            ObjectRef(RESOURCE_CLAIM, claim, self._namespace),
            {"metadata": {"finalizers": [PROTECTED]}},
        )
        await self._reserve(claim)

    async def end(self) -> None:
        """A pod ends; with the last pod of a claim, its protection."""
        if not self._claims:
            return
        pod = self._random.choice(sorted(self._claims))
        claim = self._claims.pop(pod)
        await self._client.delete(ObjectRef(POD, pod, self._namespace))
        try:
            await self._reserve(claim)
            if claim not in self._claims.values():
                await self._client.patch(
                    ObjectRef(RESOURCE_CLAIM, claim, self._namespace),
                    {"metadata": {"finalizers": None}},
                )
        except NotFound:
            return  # deleted before the pod reserved it

    async def end_all(self) -> None:
        while self._claims:
            await self.end()

    async def _reserve(self, claim: str) -> None:
        """Writes which pods reserve `claim` now."""
        pods = [pod for pod, name in self._claims.items() if name == claim]
        users: list[Object] = [
            {"resource": "pods", "name": pod, "uid": self._uids[pod]} for pod in pods
        ]
        status: Object = {
            "status": {"allocation": {} if users else None, "reservedFor": users or None}
        }
        await self._client.patch(
            ObjectRef(RESOURCE_CLAIM, claim, self._namespace), status, subresource="status"
        )
