"""Kubernetes Workloads to KAI PodGroups, in the dialects of 1.35 (workloadRef), 1.36 and 1.37 (schedulingGroup)."""

import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from app.commands.sandbox import ApiServer
from app.config.schema import Configuration
from app.kube.api import Conflict, Object
from app.objects.resource import EVENT, POD
from app.rules.kinds import K8S_POD_GROUP, POD_CLIQUE, POD_CLIQUE_SET, POD_GROUP, PRIORITY_CLASS, WORKLOAD
from app.sandbox.real import RealApiServer, find_binaries
from app.sandbox.sandbox import Sandbox
from tests import builders
from tests.integration.conftest import own_rules
from tests.integration.system import Users, eventually, is_gone

pytestmark = pytest.mark.usefixtures("served")

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
        server = RealApiServer(binaries=find_binaries(os.environ), state_dir=folder, rules=own_rules())
    else:
        url = f"https://127.0.0.1:{configuration.server.port}"
        later = (f"{GROUP}/v1beta1", f"{GROUP}/v1alpha3") if dialect == "v1beta1" else ()
        server = Sandbox(webhook_url=url, state_dir=folder, unserved=OTHER[dialect], later=later, rules=own_rules())
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


def policy(count: int | None) -> Object:
    return {"gang": {"minCount": count}} if count else {"basic": {}}


class Play:
    """Writes Workloads and Pods of one dialect into one namespace."""

    def __init__(self, clients: Users, namespace: str, dialect: str) -> None:
        self.users, self.client, self.namespace, self.dialect = clients, clients.admin, namespace, dialect

    async def workload(self, name: str, groups: dict[str, int | None], **metadata: Any) -> Object:
        """`groups`: minCount by name, None for the basic policy."""
        policies: Object = {
            name: {"gang": {"minCount": count}} if count else {"basic": {}} for name, count in groups.items()
        }
        if self.dialect == "v1alpha1":
            spec: Object = {"podGroups": [{"name": group, "policy": one} for group, one in policies.items()]}
        else:
            listed = [{"name": group, "schedulingPolicy": one} for group, one in policies.items()]
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
        await self.client.create(K8S_POD_GROUP, {"metadata": {"name": name}, "spec": spec}, self.namespace)

    async def pod(self, name: str, workload: str, group: str, key: str = "", **metadata: Any) -> Object:
        spec: Object = {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "main", "image": "registry.example/main:1"}],
        }
        if self.dialect == "v1alpha1":
            spec["workloadRef"] = {"name": workload, "podGroup": group, **({"podGroupReplicaKey": key} if key else {})}
        else:
            spec["schedulingGroup"] = {"podGroupName": "-".join(filter(None, (workload, group, key)))}
        return await self.client.create(POD, {"metadata": {"name": name, **metadata}, "spec": spec}, self.namespace)

    async def priority_class(self, name: str) -> None:
        obj = {"metadata": {"name": name}, "value": 50}
        with contextlib.suppress(Conflict):
            await self.client.create(PRIORITY_CLASS, obj)

    async def told(self, pod: str) -> tuple[str | None, str | None]:
        stored = await self.client.get(POD, pod, self.namespace)
        found = stored["metadata"].get("annotations", {})
        return found.get("pod-group-name"), found.get("kai.scheduler/skip-podgrouper")

    async def until_told(self, pod: str, name: str) -> None:
        assert await eventually(lambda: self.told(pod), lambda found: found == (name, "true")) == (name, "true")

    async def delete_pod(self, name: str) -> None:
        """At once, as a kubelet does it when its containers have ended."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        await self.users.call("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
        assert await eventually(lambda: is_gone(self.client, POD, name, self.namespace))

    async def pod_group(self, name: str) -> Object:
        return await self.client.get(POD_GROUP, name, self.namespace)

    async def pod_groups(self) -> dict[str, int]:
        page = await self.client.list(POD_GROUP, self.namespace)
        return {item["metadata"]["name"]: item["spec"]["minMember"] for item in page.items}

    async def reasons(self) -> list[str]:
        return sorted(item["reason"] for item in (await self.client.list(EVENT, self.namespace)).items)


@pytest_asyncio.fixture(loop_scope="module")
async def play(clients: Users, namespace: str, dialect: str) -> Play:
    return Play(clients, namespace, dialect)


async def test_the_designs_example(play: Play) -> None:
    """Three Pods, three PodGroups."""
    await play.workload("my-training", {"driver": 1, "workers": 4})
    for group, count, key in (("driver", 1, ""), ("workers", 4, "0"), ("workers", 4, "1")):
        await play.instance("my-training", group, count, key)
    await play.pod("a", "my-training", "driver")
    await play.pod("b", "my-training", "workers", "0")
    await play.pod("c", "my-training", "workers", "1")
    await play.until_told("a", "my-training-driver")
    await play.until_told("b", "my-training-workers-0")
    await play.until_told("c", "my-training-workers-1")
    wanted = {"my-training-driver": 1, "my-training-workers-0": 4, "my-training-workers-1": 4}
    assert await play.pod_groups() == wanted


async def test_a_basic_group_is_one_podgroup_with_a_minimum_of_one(play: Play) -> None:
    await play.workload("batch", {"pods": None})
    for key in ("0", "1"):
        await play.instance("batch", "pods", None, key)
        await play.pod(f"p{key}", "batch", "pods", key)
    for key in ("0", "1"):
        await play.until_told(f"p{key}", "batch-pods")
    assert await play.pod_groups() == {"batch-pods": 1}


async def test_a_pod_whose_workload_comes_later_gets_its_podgroup_when_it_comes(play: Play) -> None:
    await play.pod("early", "late", "workers")
    assert await eventually(play.reasons, lambda found: "WorkloadNotFound" in found)
    assert (await play.told("early"), await play.pod_groups()) == ((None, "true"), {})
    await play.workload("late", {"workers": 2})
    await play.instance("late", "workers", 2)
    await play.until_told("early", "late-workers")
    assert await play.pod_groups() == {"late-workers": 2}


async def test_a_group_that_the_workload_does_not_have_is_said(play: Play) -> None:
    await play.workload("known", {"workers": 2})
    await play.pod("lost", "known", "drivers")
    assert await eventually(play.reasons, lambda found: "WorkloadNotFound" in found)
    assert await play.pod_groups() == {}


async def owned(play: Play, name: str, **metadata: Any) -> list[Object]:
    """Owner references to a PodClique that a PodCliqueSet controls, which is the top owner and has `metadata`."""
    top = builders.pod_clique_set(name)
    top["metadata"] |= metadata
    top = await play.client.create(POD_CLIQUE_SET, top, play.namespace)
    clique = builders.pod_clique(f"{name}-0-worker", {})
    clique["metadata"] = {"name": f"{name}-0-worker", "ownerReferences": [controlled_by(top)]}
    return [controlled_by(await play.client.create(POD_CLIQUE, clique, play.namespace))]


def controlled_by(owner: Object) -> Object:
    held = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    return {**held, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}


QUEUE, PREEMPTIBLE = "kai.scheduler/queue", "kai.scheduler/preemptibility"


@pytest.mark.parametrize(
    ("workload", "owner", "pod", "field", "wanted"),
    [
        pytest.param({QUEUE: "w"}, {QUEUE: "o"}, {QUEUE: "p"}, "queue", "w", id="queue: the Workload's"),
        pytest.param({}, {QUEUE: "o"}, {QUEUE: "p"}, "queue", "o", id="queue: else the top owner's"),
        pytest.param({}, {}, {QUEUE: "p"}, "queue", "p", id="queue: else the Pod's"),
        pytest.param({}, {"project": "x"}, {}, "queue", "x", id="queue: else the project"),
        pytest.param(
            {"priorityClassName": "w"}, {"priorityClassName": "o"}, {}, "priorityClassName", "w", id="priority class: W"
        ),
        pytest.param({}, {"priorityClassName": "o"}, {}, "priorityClassName", "o", id="priority class: else owner"),
        pytest.param({}, {}, {"priorityClassName": "p"}, "priorityClassName", "p", id="priority class: else Pod"),
        pytest.param(
            {PREEMPTIBLE: "non-preemptible"},
            {PREEMPTIBLE: "preemptible"},
            {},
            "preemptibility",
            "non-preemptible",
            id="preemptibility: the Workload's",
        ),
        pytest.param({}, {}, {PREEMPTIBLE: "preemptible"}, "preemptibility", "preemptible", id="preemptibility: Pod"),
        pytest.param({}, {}, {PREEMPTIBLE: "perhaps"}, "preemptibility", None, id="preemptibility: no such value"),
        pytest.param({}, {}, {}, "queue", "default-queue", id="nobody says"),
    ],
)
async def test_scheduling_metadata_comes_from_workload_then_owner_then_pod(
    play: Play, workload: Any, owner: Any, pod: Any, field: str, wanted: str | None
) -> None:
    for name in ("w", "o", "p"):
        await play.priority_class(name)
    await play.workload("layered", {"workers": 2}, labels=workload)
    await play.instance("layered", "workers", 2)
    owners = await owned(play, "top", labels=owner)
    await play.pod("p", "layered", "workers", labels=pod, ownerReferences=owners)
    await play.until_told("p", "layered-workers")
    assert (await play.pod_group("layered-workers"))["spec"].get(field) == wanted


@pytest.mark.parametrize(
    ("workload", "owner", "wanted"),
    [
        pytest.param(
            {"kai.scheduler/topology": "t", "kai.scheduler/topology-required-placement": "rack"},
            {"kai.scheduler/topology-required-placement": "zone"},
            {"topology": "t", "requiredTopologyLevel": "rack"},
            id="the Workload's",
        ),
        pytest.param(
            {},
            {"kai.scheduler/topology-preferred-placement": "zone"},
            {"topology": "grove-topology", "preferredTopologyLevel": "zone"},
            id="else the top owner's, in the managed topology",
        ),
        pytest.param({}, {}, None, id="none"),
    ],
)
async def test_topology_comes_from_workload_then_owner(play: Play, workload: Any, owner: Any, wanted: Any) -> None:
    await play.workload("placed", {"workers": 2}, annotations=workload)
    await play.instance("placed", "workers", 2)
    pod = {"kai.scheduler/topology-required-placement": "never the Pod's"}
    owners = await owned(play, "top", annotations=owner)
    await play.pod("p", "placed", "workers", annotations=pod, ownerReferences=owners)
    await play.until_told("p", "placed-workers")
    assert (await play.pod_group("placed-workers"))["spec"].get("topologyConstraint") == wanted


async def test_labels_and_annotations_are_merged_and_the_owner_is_the_top_owner(play: Play) -> None:
    await play.workload("merged", {"workers": 2}, labels={"a": "workload"}, annotations={"x": "workload"})
    await play.instance("merged", "workers", 2)
    owners = await owned(play, "top", labels={"a": "owner", "b": "owner"}, annotations={"y": "owner"})
    await play.pod("p", "merged", "workers", ownerReferences=owners)
    await play.until_told("p", "merged-workers")
    metadata = (await play.pod_group("merged-workers"))["metadata"]
    assert metadata["labels"].items() >= {"a": "workload", "b": "owner"}.items()
    assert metadata["annotations"].items() >= {"x": "workload", "y": "owner"}.items()
    assert [(one["kind"], one["name"]) for one in metadata["ownerReferences"]] == [("PodCliqueSet", "top")]


async def test_pods_without_an_owner_have_a_podgroup_that_goes_with_the_last_of_them(play: Play) -> None:
    await play.workload("bare", {"workers": 2})
    await play.instance("bare", "workers", 2)
    for name in ("p", "q"):
        await play.pod(name, "bare", "workers")
        await play.until_told(name, "bare-workers")
    stored = await play.pod_group("bare-workers")
    assert stored["metadata"].get("ownerReferences", []) == []
    await play.client.delete(WORKLOAD, "bare", play.namespace)
    await play.delete_pod("p")
    assert (await play.pod_group("bare-workers"))["metadata"]["uid"] == stored["metadata"]["uid"]
    await play.delete_pod("q")
    assert await eventually(lambda: is_gone(play.client, POD_GROUP, "bare-workers", play.namespace))


async def test_a_queue_that_an_administrator_changes_stays_as_changed(play: Play) -> None:
    await play.workload("moved", {"workers": 2}, labels={QUEUE: "one"})
    await play.instance("moved", "workers", 2)
    await play.pod("p", "moved", "workers")
    await play.until_told("p", "moved-workers")
    await play.client.patch(POD_GROUP, "moved-workers", {"spec": {"queue": "administrator"}}, play.namespace)
    await play.client.patch(WORKLOAD, "moved", {"metadata": {"labels": {QUEUE: "two", "seen": "1"}}}, play.namespace)

    async def label() -> str | None:
        labels: dict[str, str] = (await play.pod_group("moved-workers"))["metadata"]["labels"]
        return labels.get("seen")

    assert await eventually(label) == "1"
    stored = await play.pod_group("moved-workers")
    assert (stored["spec"]["queue"], stored["metadata"]["labels"][QUEUE]) == ("administrator", "one")
    assert await eventually(play.reasons, lambda reasons: "QueueDiffers" in reasons)


async def test_a_podgroup_that_was_deleted_is_made_again(play: Play) -> None:
    await play.workload("again", {"workers": 2})
    await play.instance("again", "workers", 2)
    await play.pod("p", "again", "workers")
    await play.until_told("p", "again-workers")
    await play.client.delete(POD_GROUP, "again-workers", play.namespace)

    async def is_back() -> bool:
        return not await is_gone(play.client, POD_GROUP, "again-workers", play.namespace)

    assert await eventually(is_back)


async def test_a_name_that_two_groups_would_share_stays_with_the_first(play: Play) -> None:
    if play.dialect != "v1alpha1":
        pytest.skip("names of gangs are those of PodGroups here, which are unique")
    await play.workload("a", {"b-c": 2})
    await play.workload("a-b", {"c": 3})
    await play.pod("first", "a", "b-c")
    await play.until_told("first", "a-b-c")
    await play.pod("second", "a-b", "c")
    assert await eventually(play.reasons, lambda found: "PodGroupNameTaken" in found)
    assert (await play.told("second"), await play.pod_groups()) == ((None, "true"), {"a-b-c": 2})


async def test_a_podgroup_of_somebody_else_is_not_taken_over(play: Play) -> None:
    theirs = {"metadata": {"name": "taken-workers"}, "spec": {"minMember": 9}}
    await play.client.create(POD_GROUP, theirs, play.namespace)
    await play.workload("taken", {"workers": 2})
    await play.instance("taken", "workers", 2)
    await play.pod("p", "taken", "workers")
    assert await eventually(play.reasons, lambda found: "PodGroupNameTaken" in found)
    assert (await play.told("p"), await play.pod_groups()) == ((None, "true"), {"taken-workers": 9})


async def test_who_opts_out_is_left_to_kai(play: Play) -> None:
    out = {"kai.scheduler/ignore-workload-api": "true"}
    await play.workload("out", {"workers": 2})
    await play.instance("out", "workers", 2)
    await play.pod("by-itself", "out", "workers", annotations=out)
    await play.pod("by-its-owner", "out", "workers", ownerReferences=await owned(play, "top", annotations=out))
    await play.pod("in", "out", "workers")
    await play.until_told("in", "out-workers")
    assert [await play.told(name) for name in ("by-itself", "by-its-owner")] == [(None, None)] * 2


async def test_an_annotation_that_flips_is_said_and_not_fought(play: Play) -> None:
    await play.workload("flip", {"workers": 2})
    await play.instance("flip", "workers", 2)
    await play.pod("p", "flip", "workers")
    await play.until_told("p", "flip-workers")
    flipped = {"metadata": {"annotations": {"pod-group-name": "theirs"}}}
    await play.client.patch(POD, "p", flipped, play.namespace)
    await play.until_told("p", "flip-workers")
    await play.client.patch(POD, "p", flipped, play.namespace)
    assert await eventually(play.reasons, lambda found: "PodGroupNameContested" in found)
    assert await play.told("p") == ("theirs", "true")


async def test_pods_of_another_scheduler_are_not_ours(play: Play) -> None:
    await play.workload("other", {"workers": 1})
    await play.instance("other", "workers", 1)
    await play.pod("p", "other", "workers")
    await play.until_told("p", "other-workers")
    stored = await play.client.get(POD, "p", play.namespace)
    spec = {**stored["spec"], "schedulerName": "default-scheduler"}
    keep = {key: spec[key] for key in ("schedulerName", "containers", "workloadRef", "schedulingGroup") if key in spec}
    await play.client.create(POD, {"metadata": {"name": "q"}, "spec": keep}, play.namespace)
    await play.pod("r", "other", "workers")
    await play.until_told("r", "other-workers")
    assert await play.told("q") == (None, None)
