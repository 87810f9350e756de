"""What runs the Pods of a namespace: a scheduler that allocates and reserves their claims, and
kubelets that start and end them. Nothing looks for room, or at the drivers of devices.
"""

import asyncio
import contextlib
import itertools

import httpx

from app.kube.api import Object
from tests.integration.grove.cluster import running
from tests.integration.system import Users

PERIOD = 0.5
AT_ONCE = 8
PROTECTION = "resource.kubernetes.io/delete-protection"
NODES = 18


class Machines:
    """Those of a namespace. Pods are left to wait while it does not `schedule`, and those that
    `fail` end with an error.
    """

    def __init__(self, clients: Users, namespace: str) -> None:
        self.schedule = True
        self.fail: set[str] = set()
        self._clients = clients
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._core = f"/api/v1/namespaces/{namespace}"
        self._claims = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            with contextlib.suppress(httpx.HTTPError):
                answer = await self._clients.answer("admin", "GET", f"{self._core}/pods")
                pods = answer.json()["items"]
                await asyncio.gather(*map(self._advance, pods, itertools.cycle(range(NODES))))
            await asyncio.sleep(PERIOD)

    async def _advance(self, pod: Object, number: int) -> None:
        """One step of a Pod, which is repeated if something else came first."""
        with contextlib.suppress(httpx.HTTPError):
            async with self._turns:
                path = f"{self._core}/pods/{pod['metadata']['name']}"
                await self._step(pod, path, f"n{number}")

    async def _step(self, pod: Object, path: str, node: str) -> None:
        spec = pod["spec"]
        status = pod["status"]
        if "deletionTimestamp" in pod["metadata"]:
            await self._ask("DELETE", f"{path}?gracePeriodSeconds=0")
        elif not spec.get("nodeName"):
            if self.schedule and await self._reserve(pod):
                metadata = {key: pod["metadata"][key] for key in ("name", "namespace")}
                binding = {"metadata": metadata, "target": {"kind": "Node", "name": node}}
                await self._ask("POST", f"{path}/binding", binding)
        elif pod["metadata"]["name"] in self.fail and status["phase"] == "Running":
            await self._ask("PATCH", f"{path}/status", {"status": _failed(spec["containers"])})
        elif status["phase"] == "Pending":
            await self._ask("PATCH", f"{path}/status", {"status": running(spec["containers"])})

    async def _reserve(self, pod: Object) -> bool:
        """Whether all claims of the Pod are allocated and reserved for it."""
        made = pod["status"].get("resourceClaimStatuses", ())
        names = {entry["name"]: entry.get("resourceClaimName") for entry in made}
        return all(
            [
                bool(names.get(entry["name"])) and await self._allocate(names[entry["name"]], pod)
                for entry in pod["spec"].get("resourceClaims", ())
            ]
        )

    async def _allocate(self, name: str, pod: Object) -> bool:
        path = f"{self._claims}/{name}"
        claim: Object = (await self._clients.answer("admin", "GET", path)).json()
        if "deletionTimestamp" in claim["metadata"]:
            return False
        if claim.get("status", {}).get("reservedFor"):
            return True
        claim["metadata"]["finalizers"] = [PROTECTION]
        claim = (await self._ask("PUT", path, claim)).json()
        (request,) = claim["spec"]["devices"]["requests"]
        channel = {"driver": "compute-domain.nvidia.com", "pool": "n", "device": "channel-0"}
        consumer = {key: pod["metadata"][key] for key in ("name", "uid")}
        claim["status"] = {
            "allocation": {"devices": {"results": [{"request": request["name"], **channel}]}},
            "reservedFor": [{"resource": "pods", **consumer}],
        }
        await self._ask("PUT", f"{path}/status", claim)
        return True

    async def _ask(self, method: str, path: str, body: Object | None = None) -> httpx.Response:
        return await self._clients.answer("admin", method, path, body)


def _failed(containers: list[Object]) -> Object:
    state = {"terminated": {"exitCode": 1, "reason": "Error"}}
    common = {"ready": False, "restartCount": 0, "imageID": "", "state": state}
    statuses = [{"name": each["name"], "image": each["image"], **common} for each in containers]
    conditions = [{"type": "Ready", "status": "False"}]
    return {"phase": "Failed", "conditions": conditions, "containerStatuses": statuses}
