"""Pods of each kind of workload on an API server: the claim of their unit when they are created,
and a ComputeDomain that lives as long as its unit.

LeaderWorkerSets, JobSets, training jobs and RayClusters have no controllers here: their Pods are
made as those make them, with the controllers of Kubernetes in between. Those of Jobs and
StatefulSets work beside a real API server if there is a kube-controller-manager.
"""

import asyncio
import base64
import contextlib
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from aiohttp import web

from app.base.json import to_json
from app.config.read import read_configuration
from app.config.schema import Configuration
from app.facts.kinds import COMPUTE_DOMAIN, LEADER_WORKER_SET
from app.kube.api import ClusterError, NotFound, Object, ObjectRef, Selection, every
from app.objects.resource import EVENT, JOB, MUTATING_WEBHOOKS, POD, Resource
from app.objects.shape import labels_of
from app.stores.offline import resource_of
from scripts.apiserver import pki
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.processes import free_port
from scripts.apiserver.real import RealApiServer, find_binaries
from tests import pods
from tests.integration.conftest import CONFIGURATION
from tests.integration.system import Users, eventually, is_gone
from tests.pods import UNITS, pod

pytestmark = [pytest.mark.untraced, pytest.mark.usefixtures("served", "workloads")]

COLLECT = "mnnvl: {{collectAfterSeconds: 1}}\n"
CRDS = Path(__file__).parents[2] / "scripts" / "apiserver" / "crds" / "workloads.yaml"
KNOWN = [
    name for name, unit in UNITS.items() if unit and not unit.startswith(("group", "workload"))
]


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return read_configuration((CONFIGURATION + COLLECT).format(port=free_port()), "test")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def workloads(api: ApiServer) -> None:
    """Their CRDs, which a folder with real CRDs may lack."""
    await api.apply(list(yaml.safe_load_all(CRDS.read_text())))


class World:
    """The owners of the recorded Pods in one namespace, and what is made of Pods."""

    def __init__(self, clients: Users, namespace: str) -> None:
        self.admin = clients.admin
        self._clients = clients
        self.namespace = namespace
        self._uids: dict[str, str] = {}

    async def create_owners(self, kind: str = "") -> None:
        """The owners of all Pods, or one of this kind, by those above them."""
        for obj in pods.owners():
            if obj["apiVersion"].startswith("scheduling.k8s.io") or kind not in ("", obj["kind"]):
                continue
            uid = obj["metadata"].pop("uid")
            made = {**obj, **_spec(obj)}
            stored = await self.create(made)
            self._uids[uid] = stored["metadata"]["uid"]

    async def create(self, obj: Object) -> Object:
        metadata = {**obj["metadata"], "namespace": self.namespace}
        owners = [
            {**owner, "uid": self._uids.get(owner["uid"], owner["uid"])}
            for owner in metadata.get("ownerReferences", ())
        ]
        made = {**obj, "metadata": {**metadata, "ownerReferences": owners}}
        resource = resource_of(obj)
        assert resource is not None
        return await self.admin.create(resource, made, self.namespace)

    async def domain(self, unit: str) -> Object:
        return await self.admin.get(ObjectRef(COMPUTE_DOMAIN, f"{unit}-cd", self.namespace))

    async def domains(self) -> list[str]:
        items = (await self.admin.list(Selection(COMPUTE_DOMAIN, self.namespace))).items
        return sorted(item["metadata"]["name"] for item in items)

    async def delete(self, resource: Resource, name: str) -> None:
        """Delete an object at once: nothing ends Pods here."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}?gracePeriodSeconds=0"
        if resource is POD:
            await self._clients.answer("admin", "DELETE", path)
            return
        await self.admin.delete(ObjectRef(resource, name, self.namespace))


def _spec(obj: Object) -> Object:
    """What Kubernetes asks of its own kinds. Nothing here starts Pods of them."""
    labels: Object = {"app": obj["metadata"]["name"]}
    container = {"name": "main", "image": "registry.example/main:1"}
    template: Object = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    if obj["kind"] == "StatefulSet":
        selector = {"matchLabels": labels}
        return {
            "spec": {"serviceName": "x", "replicas": 0, "selector": selector, "template": template}
        }
    if obj["kind"] == "Job":
        spec = {**template["spec"], "restartPolicy": "Never"}
        return {"spec": {"suspend": True, "template": {**template, "spec": spec}}}
    if obj["kind"] == "Pod":
        return {"spec": template["spec"]}
    return {}


@pytest.fixture
def world(clients: Users, namespace: str) -> World:
    return World(clients, namespace)


def recorded(name: str, labels: Any = None) -> Object:
    obj = pod(name, labels)
    obj["metadata"].pop("generateName", None)
    return {**obj, "apiVersion": "v1", "kind": "Pod"}


async def test_each_kind_gets_its_claim_and_its_owner(world: World) -> None:
    await world.create_owners()
    for name in KNOWN:
        unit = UNITS[name]
        stored = await world.create(recorded(name))
        assert labels_of(stored)["grove.io/mnnvl-unit"] == unit
        claims = [{"name": "mnnvl", "resourceClaimTemplateName": f"{unit}-mnnvl-template"}]
        assert stored["spec"]["resourceClaims"] == claims
        (reference,) = (await world.domain(unit))["metadata"]["ownerReferences"]
        assert reference["uid"] in world._uids.values()
    assert await world.domains() == sorted({f"{UNITS[name]}-cd" for name in KNOWN})


async def test_what_is_deleted_by_hand_is_made_again(world: World) -> None:
    await world.create_owners()
    await world.create(recorded("lws-worker"))
    before = (await world.domain("lws-a-2"))["metadata"]["uid"]
    await world.delete(COMPUTE_DOMAIN, "lws-a-2-cd")

    async def uid() -> str:
        with contextlib.suppress(NotFound):
            return str((await world.domain("lws-a-2"))["metadata"]["uid"])
        return str(before)

    async def kinds_with_events() -> set[str]:
        events = await world.admin.list(Selection(EVENT, world.namespace))
        return {event["regarding"]["kind"] for event in events.items}

    await eventually(uid, lambda current: current != before)
    await eventually(kinds_with_events, lambda kinds: "LeaderWorkerSet" in kinds)


async def test_a_group_that_is_scaled_in_takes_its_domain_along(world: World) -> None:
    await world.create_owners()
    for index in ("0", "2"):
        labels = {"leaderworkerset.sigs.k8s.io/group-index": index}
        obj = recorded("lws-worker", labels)
        obj["metadata"]["name"] = f"worker-{index}"
        await world.create(obj)
    assert await world.domains() == ["lws-a-0-cd", "lws-a-2-cd"]

    ref = ObjectRef(LEADER_WORKER_SET, "a", world.namespace)
    await world.admin.patch(ref, {"spec": {"replicas": 2}})
    for index in ("0", "2"):
        await world.delete(POD, f"worker-{index}")
    await eventually(world.domains, lambda names: names == ["lws-a-0-cd"])
    await asyncio.sleep(2.5)
    assert await world.domains() == ["lws-a-0-cd"]


async def test_a_pod_that_names_the_workload_of_somebody_else_is_refused(world: World) -> None:
    await world.create_owners()
    with pytest.raises(ClusterError, match="no LeaderWorkerSet with this name controls the Pod"):
        await world.create(recorded("lws-worker", {"leaderworkerset.sigs.k8s.io/name": "b"}))
    assert await world.domains() == []


async def test_a_pod_without_a_unit_is_refused_and_others_are_not_looked_at(world: World) -> None:
    await world.create_owners()
    with pytest.raises(ClusterError, match=r"group-index\]: Required value"):
        await world.create(recorded("lws-leader"))
    unasked = recorded("lws-leader")
    del unasked["metadata"]["annotations"]["grove.io/mnnvl-enabled"]
    assert "resourceClaims" not in (await world.create(unasked))["spec"]


async def test_an_owner_that_goes_takes_its_domains_along(api: ApiServer, world: World) -> None:
    if isinstance(api, RealApiServer) and not api.collects_garbage:
        pytest.skip("nothing collects garbage")
    await world.create_owners()
    await world.create(recorded("lws-worker"))
    await world.delete(LEADER_WORKER_SET, "a")
    await eventually(lambda: is_gone(world.admin, COMPUTE_DOMAIN, "lws-a-2-cd", world.namespace))


# The webhook of LeaderWorkerSets, called after ours.


@contextlib.asynccontextmanager
async def labelling(folder: Path) -> AsyncIterator[Object]:
    """A webhook that labels leaders as that of LeaderWorkerSets does, as its configuration."""

    async def answer(request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        patch = []
        labels = asked["object"]["metadata"].get("labels") or {}
        index = "leaderworkerset.sigs.k8s.io/group-index"
        if labels.get("leaderworkerset.sigs.k8s.io/worker-index") == "0" and index not in labels:
            number = asked["object"]["metadata"]["name"].rpartition("-")[2]
            path = f"/metadata/labels/{index.replace('/', '~1')}"
            patch = [{"op": "add", "path": path, "value": number}]
        encoded = base64.b64encode(to_json(patch)).decode()
        response = {
            "uid": asked["uid"],
            "allowed": True,
            "patch": encoded,
            "patchType": "JSONPatch",
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return web.json_response({**review, "response": response})

    pair = pki.issue()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*pair.write(folder, "lws"))
    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    webhook = {
        "name": "mpod.kb.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "url": f"https://127.0.0.1:{port}/",
            "caBundle": base64.b64encode(pair.ca).decode(),
        },
        "rules": [rule],
        "sideEffects": "None",
    }
    try:
        yield {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "lws-mutating-webhook-configuration"},
            "webhooks": [webhook],
        }
    finally:
        await runner.cleanup()


async def test_a_leader_that_another_webhook_labels_later_gets_its_claim(
    api: ApiServer, world: World, tmp_path: Path
) -> None:
    await world.create_owners()
    async with labelling(tmp_path) as configuration:
        await api.apply([configuration])
        name = configuration["metadata"]["name"]
        leader = recorded("lws-leader")
        leader["metadata"]["name"] = "other-2"

        async def unit() -> str:
            """An API server needs a moment to know a new webhook."""
            with contextlib.suppress(ClusterError):
                return str(labels_of(await world.create(leader))["grove.io/mnnvl-unit"])
            return ""

        try:
            await eventually(unit, lambda known: known == "lws-a-2")
        finally:
            await world.admin.delete(ObjectRef(MUTATING_WEBHOOKS, name))
    assert await world.domains() == ["lws-a-2-cd"]


# Real controllers.


@pytest_asyncio.fixture(loop_scope="module")
async def controllers(api: ApiServer, tmp_path: Path) -> AsyncIterator[None]:
    """The controllers of Jobs and StatefulSets."""
    if not isinstance(api, RealApiServer) or not api.collects_garbage:
        pytest.skip("needs a real API server with a kube-controller-manager")
    program = find_binaries(os.environ)["kube-controller-manager"]
    flags = [
        f"--kubeconfig={api.kubeconfig}",
        "--controllers=job-controller,statefulset-controller",
        "--leader-elect=false",
        f"--secure-port={free_port()}",
        f"--cert-dir={tmp_path}",
    ]
    process = await asyncio.create_subprocess_exec(
        str(program), *flags, stderr=asyncio.subprocess.DEVNULL
    )
    yield
    process.terminate()
    await process.wait()


def working(obj: Object) -> Object:
    """A Job or StatefulSet that makes two annotated Pods with GPUs."""
    template = {
        "metadata": {"labels": {"app": "x"}, "annotations": dict(pods.ENABLED)},
        "spec": {**pod("job")["spec"], "automountServiceAccountToken": False},
    }
    return {**obj, "spec": {**obj["spec"], "template": template}}


@pytest.mark.usefixtures("controllers")
async def test_the_pods_of_a_real_job_share_one_domain(world: World) -> None:
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed"}
    job = working(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    )
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    stored = await world.create(job)

    async def made() -> list[Object]:
        return await every(world.admin, Selection(POD, world.namespace))

    await eventually(made, lambda items: len(items) == 2)
    for item in await made():
        (claim,) = item["spec"]["resourceClaims"]
        assert claim["resourceClaimTemplateName"] == "job-j-mnnvl-template"
    (reference,) = (await world.domain("job-j"))["metadata"]["ownerReferences"]
    assert reference["uid"] == stored["metadata"]["uid"]

    first = (await made())[0]["metadata"]["name"]
    await world.delete(POD, first)
    await eventually(made, lambda items: len({i["metadata"]["name"] for i in items} - {first}) == 2)
    await world.delete(JOB, "j")
    await eventually(lambda: is_gone(world.admin, COMPUTE_DOMAIN, "job-j-cd", world.namespace))


@pytest.mark.usefixtures("controllers")
async def test_a_real_statefulset_below_a_leaderworkerset(world: World) -> None:
    await world.create_owners("LeaderWorkerSet")
    spec = {"serviceName": "x", "replicas": 2, "selector": {"matchLabels": {"app": "x"}}}
    metadata = {"name": "workers", "ownerReferences": [_by_set()]}
    obj = working(
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}
    )
    obj["spec"]["podManagementPolicy"] = "Parallel"
    obj["spec"]["template"]["metadata"]["labels"] |= {
        "leaderworkerset.sigs.k8s.io/name": "a",
        "leaderworkerset.sigs.k8s.io/group-index": "1",
    }
    await world.create(obj)

    async def units() -> list[str]:
        items = (await world.admin.list(Selection(POD, world.namespace))).items
        return [labels_of(item).get("grove.io/mnnvl-unit", "") for item in items]

    await eventually(units, lambda known: known == ["lws-a-1", "lws-a-1"])
    assert await world.domains() == ["lws-a-1-cd"]


def _by_set() -> Object:
    return LEADER_WORKER_SET.owner_reference("a", "leaderworkerset-a")
