"""API servers of Kubernetes 1.35 (workloadRef), 1.36 and 1.37 (schedulingGroup), and what users
write there.

A test that needs no other dialect runs in all three; the real API server is one of 1.36.
"""

import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from app.config.schema import Configuration
from app.facts.kinds import K8S_POD_GROUP, POD_GROUP, PRIORITY_CLASS, WORKLOAD
from app.kube.api import Conflict, Object, ObjectRef, Selection
from app.objects.resource import EVENT, POD
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.real import RealApiServer, find_binaries
from scripts.apiserver.sandbox import Sandbox
from tests.integration.conftest import own_rules
from tests.integration.system import Users, eventually, is_gone

GROUP = "scheduling.k8s.io"
OTHER = {
    "v1alpha1": (f"{GROUP}/v1alpha2",),
    "v1alpha2": (f"{GROUP}/v1alpha1",),
    "v1beta1": (f"{GROUP}/v1alpha1", f"{GROUP}/v1alpha2"),
}
"""By dialect the versions that its Kubernetes does not serve."""


@pytest.fixture(scope="module", params=["v1alpha1", "v1alpha2", "v1beta1"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(
    kind: str, dialect: str, configuration: Configuration, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ApiServer]:
    folder = tmp_path_factory.mktemp("api")
    server: ApiServer
    if kind == "real":
        if dialect != "v1alpha2":
            pytest.skip(f"a real API server of Kubernetes 1.36 does not serve {GROUP}/{dialect}")
        server = RealApiServer(
            binaries=find_binaries(os.environ), state_dir=folder, rules=own_rules()
        )
    else:
        later = (f"{GROUP}/v1beta1", f"{GROUP}/v1alpha3") if dialect == "v1beta1" else ()
        server = Sandbox(state_dir=folder, unserved=OTHER[dialect], later=later, rules=own_rules())
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


CONTAINERS = [{"name": "main", "image": "registry.example/main:1"}]


def controlled_by(owner: Object) -> Object:
    """The owner reference to `owner` as the controller."""
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    return {**reference, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}


def policy(count: int | None) -> Object:
    return {"gang": {"minCount": count}} if count else {"basic": {}}


class Play:
    """Writes Workloads and Pods of one dialect into one namespace."""

    def __init__(self, clients: Users, namespace: str, dialect: str) -> None:
        self.users = clients
        self.client = clients.admin
        self.namespace = namespace
        self.dialect = dialect

    async def workload(self, name: str, groups: dict[str, int | None], **metadata: Any) -> Object:
        """`groups`: minCount by name, None for the basic policy."""
        policies: Object = {
            name: {"gang": {"minCount": count}} if count else {"basic": {}}
            for name, count in groups.items()
        }
        if self.dialect == "v1alpha1":
            spec: Object = {
                "podGroups": [
                    {"name": group, "policy": policy} for group, policy in policies.items()
                ]
            }
        else:
            listed = [
                {"name": group, "schedulingPolicy": policy} for group, policy in policies.items()
            ]
            spec = {"podGroupTemplates": listed}
        obj = {"metadata": {"name": name, **metadata}, "spec": spec}
        return await self.client.create(WORKLOAD, obj, self.namespace)

    async def instance(self, workload: str, group: str, count: int | None, key: str = "") -> None:
        """Since v1alpha2, what the Workload's controller makes for each replica of a group."""
        if self.dialect == "v1alpha1":
            return
        template: Object = {"workload": {"workloadName": workload, "podGroupTemplateName": group}}
        reference = {"podGroupTemplateRef": template}
        if self.dialect == "v1beta1":
            reference = {"workloadRef": {"workloadName": workload, "templateName": group}}
        spec = {**reference, "schedulingPolicy": policy(count)}
        name = "-".join(filter(None, (workload, group, key)))
        await self.client.create(
            K8S_POD_GROUP, {"metadata": {"name": name}, "spec": spec}, self.namespace
        )

    async def pod(
        self,
        name: str,
        workload: str,
        group: str,
        key: str = "",
        *,
        scheduler: str = "kai-scheduler",
        **metadata: Any,
    ) -> Object:
        spec: Object = {"schedulerName": scheduler, "containers": CONTAINERS}
        if self.dialect == "v1alpha1":
            spec["workloadRef"] = {
                "name": workload,
                "podGroup": group,
                **({"podGroupReplicaKey": key} if key else {}),
            }
        else:
            spec["schedulingGroup"] = {
                "podGroupName": "-".join(filter(None, (workload, group, key)))
            }
        return await self.client.create(
            POD, {"metadata": {"name": name, **metadata}, "spec": spec}, self.namespace
        )

    async def ready_pod(self, workload: str, count: int = 1, **metadata: Any) -> None:
        """A Workload with `metadata` and a group `g`, and a Pod of its name that was told its
        PodGroup.
        """
        await self.workload(workload, {"g": count}, **metadata)
        await self.instance(workload, "g", count)
        await self.pod(workload, workload, "g")
        await self.until_told(workload, f"{workload}-g")

    async def other_pod(self, name: str, scheduler: str) -> None:
        """A Pod without a group."""
        spec = {"schedulerName": scheduler, "containers": CONTAINERS}
        await self.client.create(POD, {"metadata": {"name": name}, "spec": spec}, self.namespace)

    async def priority_class(self, name: str) -> None:
        obj = {"metadata": {"name": name}, "value": 50}
        with contextlib.suppress(Conflict):
            await self.client.create(PRIORITY_CLASS, obj)

    async def told(self, pod: str) -> tuple[str | None, str | None]:
        stored = await self.client.get(ObjectRef(POD, pod, self.namespace))
        annotations = stored["metadata"].get("annotations", {})
        return annotations.get("pod-group-name"), annotations.get("kai.scheduler/skip-podgrouper")

    async def until_told(self, pod: str, name: str) -> None:
        assert await eventually(lambda: self.told(pod), lambda told: told == (name, "true")) == (
            name,
            "true",
        )

    async def delete_pod(self, name: str) -> None:
        """At once, as a kubelet does it when its containers have ended."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        await self.users.call(
            "DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        )
        assert await eventually(lambda: is_gone(self.client, POD, name, self.namespace))

    async def pod_group(self, name: str) -> Object:
        return await self.client.get(ObjectRef(POD_GROUP, name, self.namespace))

    async def stored_pod_groups(self) -> dict[str, Object]:
        page = await self.client.list(Selection(POD_GROUP, self.namespace))
        return {item["metadata"]["name"]: item for item in page.items}

    async def until_spec(self, name: str, field: str, value: str) -> str | None:
        """The field of a PodGroup's spec as soon as it has this value."""

        async def current() -> str | None:
            spec: Object = (await self.pod_group(name))["spec"]
            return spec.get(field)

        return await eventually(current, lambda now: now == value)

    async def pod_groups(self) -> dict[str, int]:
        page = await self.client.list(Selection(POD_GROUP, self.namespace))
        return {item["metadata"]["name"]: item["spec"]["minMember"] for item in page.items}

    async def reasons(self) -> list[str]:
        return sorted(
            item["reason"]
            for item in (await self.client.list(Selection(EVENT, self.namespace))).items
        )


@pytest_asyncio.fixture(loop_scope="module")
async def play(clients: Users, namespace: str, dialect: str) -> Play:
    return Play(clients, namespace, dialect)
