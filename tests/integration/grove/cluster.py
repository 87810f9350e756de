"""What a cluster has beside an API server and Grove: a scheduler that takes any node, kubelets, and
a controller that fills the Secrets of service accounts.
"""

import asyncio
import contextlib
from collections.abc import Callable

import httpx

from app.kube.api import Object
from tests.integration.system import Users

PERIOD = 0.2
TOKEN = {"token": "dA==", "namespace": "dA==", "ca.crt": "dA=="}
STARTED = "2026-01-01T00:00:00Z"
TYPES = ("PodScheduled", "Initialized", "ContainersReady", "Ready")


async def run(clients: Users, schedules: Callable[[], bool] = lambda: True) -> None:
    """Until it is cancelled. What changes meanwhile is looked at again.

    Pods are left to wait while it does not `schedules`.
    """
    while True:
        with contextlib.suppress(httpx.HTTPStatusError):
            for secret in await _items(clients, "/api/v1/secrets"):
                if secret["type"] == "kubernetes.io/service-account-token" and not secret.get(
                    "data"
                ):
                    await clients.answer(
                        "admin", "PATCH", _path(secret, "secrets"), {"data": TOKEN}
                    )
            pods = await _items(clients, "/api/v1/pods")
            for number, pod in enumerate(pods):
                if not schedules() and "deletionTimestamp" not in pod["metadata"]:
                    continue
                await _advance(clients, pod, f"n{number % 8}")
        await asyncio.sleep(PERIOD)


async def _advance(clients: Users, pod: Object, node: str) -> None:
    path = _path(pod, "pods")
    spec = pod["spec"]
    if "deletionTimestamp" in pod["metadata"]:
        await clients.answer("admin", "DELETE", f"{path}?gracePeriodSeconds=0")
    elif not spec.get("nodeName") and not spec.get("schedulingGates"):
        metadata = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
        binding = {"metadata": metadata, "target": {"kind": "Node", "name": node}}
        await clients.answer("admin", "POST", f"{path}/binding", binding)
    elif spec.get("nodeName") and pod["status"]["phase"] == "Pending":
        await clients.answer(
            "admin", "PATCH", f"{path}/status", {"status": running(spec["containers"])}
        )


def running(containers: list[Object]) -> Object:
    state = {"running": {"startedAt": STARTED}}
    common = {"ready": True, "started": True, "restartCount": 0, "imageID": "", "state": state}
    conditions = [{"type": each, "status": "True", "lastTransitionTime": STARTED} for each in TYPES]
    statuses = [{"name": each["name"], "image": each["image"], **common} for each in containers]
    return {
        "phase": "Running",
        "startTime": STARTED,
        "conditions": conditions,
        "containerStatuses": statuses,
    }


async def _items(clients: Users, path: str) -> list[Object]:
    items: list[Object] = (await clients.answer("admin", "GET", path)).json()["items"]
    return items


def _path(obj: Object, plural: str) -> str:
    metadata = obj["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"
