"""Reading with whatever rights there are: what is not seen is noted, and nothing else is asked for.

Tests `app/stores/list_reader.py` and `app/stores/related_lists.py`.
"""

from collections.abc import AsyncGenerator, Collection
from typing import Any

import pytest
from msgspec.structs import replace

from app.commands.explain import KINDS
from app.explain.answers.answer import explain
from app.explain.output.text import text
from app.explain.state.index import Index
from app.explain.state.levels import topology_of
from app.explain.state.read import facts_of, read_all, read_list
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Place, Ref
from app.facts.kinds import POD_CLIQUE
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.pod import Pod, PodClaim
from app.facts.kubernetes.volume import StorageClass, Volume, VolumeClaim
from app.facts.rows import ROOM
from app.kube.api import (
    NotFound,
    NotServed,
    Object,
    ObjectRef,
    Page,
    Rejected,
    Selection,
    Unavailable,
    WatchEvent,
)
from app.objects.resource import NODE, POD, Resource
from app.stores.list_reader import cause
from app.stores.related_lists import ASKED
from tests import builders
from tests.explain.fleet import NAMESPACE, NOW, SET_REF, facts, fill, gang, placed, pods
from tests.explain.objects import objects_of
from tests.explain.table.row import Changes
from tests.kube.memory.client import MemoryClient

DENIED = Rejected("denied", code=403)
USES = PodClaim("scratch", "shared")


class Cluster:
    """A reader of facts as objects.

    `denied` are (plural, namespace) that may not be listed or read, with namespace None for all
    namespaces; `broken` are plurals that fail; `unserved` ones don't exist.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        denied: Collection[tuple[str, str | None]] = (),
        broken: Collection[str] = (),
        unserved: Collection[str] = (),
    ) -> None:
        self._objects = objects_of(snapshot)
        self._denied = frozenset(denied)
        self._broken = frozenset(broken)
        self._unserved = frozenset(unserved)
        self.asked: list[tuple[str, str | None]] = []

    def _of(self, resource: Resource, namespace: str | None) -> list[Object]:
        self.asked.append((resource.plural, namespace))
        if resource.plural in self._unserved:
            raise NotServed("not served", code=404)
        if (resource.plural, namespace) in self._denied:
            raise DENIED
        if resource.plural in self._broken:
            raise Unavailable("the API server is down", code=503)
        group = resource.group
        own = [
            o
            for o in self._objects
            if (o["apiVersion"].rpartition("/")[0], o["kind"]) == (group, resource.kind)
        ]
        matching = [
            obj for obj in own if namespace is None or obj["metadata"].get("namespace") == namespace
        ]
        return sorted(
            matching,
            key=lambda obj: (obj["metadata"].get("namespace", ""), obj["metadata"]["name"]),
        )

    async def get(self, ref: ObjectRef) -> Object:
        for obj in self._of(ref.resource, ref.namespace):
            if obj["metadata"]["name"] == ref.name:
                return obj
        raise NotFound("not found", code=404)

    async def list(
        self, selection: Selection, *, limit: int = 500, continue_token: str = ""
    ) -> Page:
        key, _separator, value = selection.labels.partition("=")
        every = self._of(selection.resource, selection.namespace)
        matching = [
            obj
            for obj in every
            if not key or (obj["metadata"].get("labels") or {}).get(key) == value
        ]
        begin = int(continue_token or 0)
        following = str(begin + limit) if begin + limit < len(matching) else ""
        return Page(matching[begin : begin + limit], "1", following)

    def watch(self, *_: Any, **__: Any) -> AsyncGenerator[WatchEvent, None]:
        raise AssertionError("no watch is needed")

    def served_version(self, resource: Resource) -> str | None:
        return None if resource.plural in self._unserved else resource.versions[0]


FULL = facts(pods=(*pods(), *fill("rack-a1", "rack-a2")))


async def test_each_kind_is_listed_once() -> None:
    cluster = Cluster(FULL)
    read = await read_list(cluster, SET_REF.namespace, room=True, now=NOW, asked=SET_REF)
    lists = {plural for plural, _ in cluster.asked}
    assert "nodes" in lists
    assert not {"secrets", "configmaps", "namespaces", "resourceclaims", "storageclasses"} & lists
    assert {(len(read.nodes), len(read.pods), len(read.cliques), len(read.gangs))} == {
        (16, 12, 2, 1)
    }
    assert len(cluster.asked) <= 25
    assert read.unseen == {}


async def test_without_the_right_to_list_all_pods_room_is_not_known() -> None:
    cluster = Cluster(FULL, denied=[("pods", None)])
    read = await read_list(cluster, SET_REF.namespace, room=True, now=NOW, asked=SET_REF)
    assert read.unseen == {"room": "no permission to list pods of all namespaces"}
    assert {pod.namespace for pod in read.pods} == {NAMESPACE}


@pytest.mark.parametrize(
    ("gang_pods", "room", "ids", "exit_code", "says_so"),
    [
        pytest.param(pods(), False, [], 2, True, id="nothing else explains that it waits"),
        pytest.param(
            pods(gates=("example.com/quota",)),
            False,
            ["GateForeign"],
            1,
            True,
            id="something else explains it",
        ),
        pytest.param(
            pods(), True, ["KaiSilent"], 1, False, id="room is examined, and there is some"
        ),
        pytest.param(
            placed("gpu-00", "gpu-00", "gpu-01", "gpu-02"),
            False,
            [],
            0,
            False,
            id="all pods are placed",
        ),
    ],
)
async def test_what_waits_is_not_explained_without_room(
    gang_pods: tuple[Pod, ...], room: bool, ids: list[str], exit_code: int, says_so: bool
) -> None:
    read = await read_list(
        Cluster(facts(pods=gang_pods)), NAMESPACE, room=room, now=NOW, asked=SET_REF
    )
    answer = explain(Index(read), SET_REF)
    assert answer is not None
    assert ([reason.id for reason in answer.reasons], answer.exit_code) == (ids, exit_code)
    line = f"room was not examined, because that needs all nodes and pods. Run: grove-admission explain podcliqueset/llm -n {NAMESPACE}"
    assert (text(answer).splitlines()[-1] == line) is says_so


async def test_an_error_in_the_middle_is_no_answer() -> None:
    read = await read_list(
        Cluster(FULL, broken=["nodes", "pods"]),
        SET_REF.namespace,
        room=True,
        now=NOW,
        asked=SET_REF,
    )
    assert read.unseen == dict.fromkeys(("nodes", "pods", "room"), "the API server is down")


async def test_what_is_not_served_is_absent() -> None:
    unserved = ["queues", "podgroups", "topologies", "clustertopologybindings"]
    read = await read_list(
        Cluster(FULL, unserved=unserved), SET_REF.namespace, room=True, now=NOW, asked=SET_REF
    )
    assert read.absent == {"kai_topologies", "pod_groups", "queues", "workload_groups"}
    assert read.unseen == {}


async def test_what_is_denied_is_unseen() -> None:
    cluster = Cluster(FULL, denied=[("podcliques", None), ("nodes", None)])
    read = await read_all(cluster, now=NOW, only=(NODE, POD_CLIQUE, POD))
    assert read.unseen == {"cliques": "no permission to list", "nodes": "no permission to list"}
    assert {"queues", "sets"} <= read.skipped


async def test_an_object_that_is_not_there_is_not_explained() -> None:
    ref = Ref("Pod", NAMESPACE, "none")
    read = await read_list(Cluster(FULL), ref.namespace, room=False, now=NOW, asked=ref)
    assert explain(Index(read), ref) is None


def test_kinds_without_a_document_are_not_judged() -> None:
    read = facts_of([obj for obj in objects_of(FULL) if obj["kind"] not in ("Node", "Queue")], NOW)
    assert {"nodes", "queues", "events", "room", "channels"} <= read.skipped
    assert "pods" not in read.skipped


def test_of_an_object_that_is_there_twice_the_last_one_counts() -> None:
    objects = objects_of(FULL)
    former = [{**obj, "spec": {}, "status": {}} for obj in objects]
    assert facts_of([*former, *objects], NOW) == facts_of(objects, NOW)
    nameless = [{**obj, "metadata": {}} for obj in objects]
    assert len(facts_of([*nameless, *nameless], NOW).pods) == 2 * len(facts_of(objects, NOW).pods)


@pytest.mark.parametrize(
    "kinds",
    [
        # KubeRay names the Job that submits a RayJob like the RayJob.
        {"ray.io/v1": "RayJob", "batch/v1": "Job"},
        # A LeaderWorkerSet and the StatefulSet of its leaders have the same name.
        {"leaderworkerset.x-k8s.io/v1": "LeaderWorkerSet", "apps/v1": "StatefulSet"},
    ],
)
def test_objects_of_two_kinds_with_the_same_name_are_kept(kinds: dict[str, str]) -> None:
    objects = [
        {"apiVersion": version, "kind": kind, "metadata": {"namespace": "team", "name": "train"}}
        for version, kind in kinds.items()
    ]
    statuses = facts_of(objects, NOW).workload_statuses
    assert [status.ref.kind for status in statuses] == list(kinds.values())


def test_both_topologies_of_grove_are_kept_if_they_have_the_same_name() -> None:
    """The binding is in force, whichever document comes last."""
    kinds = ("ClusterTopologyBinding", "ClusterTopology")
    objects = [
        {"apiVersion": "grove.io/v1alpha1", "kind": kind, "metadata": {"name": "grove-topology"}}
        for kind in kinds
    ]
    read = facts_of(objects, NOW)
    assert [topology.kind for topology in read.topologies] == list(kinds)
    cluster = topology_of(Index(read)).cluster
    assert cluster is not None
    assert cluster.kind == "ClusterTopologyBinding"


def test_the_cause_is_short_for_a_missing_right_only() -> None:
    assert cause(DENIED) == "no permission to list"
    assert cause(Unavailable("broken", code=503)) == "broken"


def test_what_may_be_asked_about_is_read_by_its_kind() -> None:
    assert set(ASKED) == set(KINDS.values())
    assert all(resource.kind == kind for kind, resource in ASKED.items())


@pytest.mark.parametrize(
    ("namespace", "room", "namespaces"),
    [
        pytest.param(
            NAMESPACE,
            True,
            {"nodes": None, "pods": None, "podgangs": NAMESPACE, "queues": None},
            id="a namespace, with the pods that take room in it",
        ),
        pytest.param(
            NAMESPACE,
            False,
            {"pods": NAMESPACE, "podgangs": NAMESPACE, "queues": None},
            id="a namespace only",
        ),
        pytest.param(
            "",
            True,
            {"nodes": None, "pods": None, "podgangs": None, "queues": None},
            id="all namespaces",
        ),
    ],
)
async def test_what_is_read_of_a_namespace(
    namespace: str, room: bool, namespaces: dict[str, str | None]
) -> None:
    cluster = Cluster(FULL)
    read = await read_list(cluster, namespace, room=room, now=NOW)
    asked = dict(cluster.asked)
    plurals = ("nodes", "pods", "podgangs", "queues")
    assert {plural: asked[plural] for plural in plurals if plural in asked} == namespaces
    assert (ROOM in read.skipped, "nodes" in read.skipped) == (not room, not room)


@pytest.mark.parametrize("asked", [SET_REF, Ref("Pod", NAMESPACE, "none")])
async def test_only_podcliques_of_a_set_are_read_without_those_of_others(asked: Ref) -> None:
    other = replace(FULL.cliques[0], name="other-0-a", place=Place("other", "0"))
    evictable = replace(FULL.pod_groups[0], name="batch")
    groups = (*FULL.pod_groups, evictable)
    snapshot = facts(cliques=(*FULL.cliques, other), pod_groups=groups)
    read = await read_list(Cluster(snapshot), asked.namespace, room=False, now=NOW, asked=asked)
    assert (other.ref in {clique.ref for clique in read.cliques}) is (asked is not SET_REF)
    assert evictable.ref in {group.ref for group in read.pod_groups}


@pytest.mark.parametrize(
    ("changes", "asked", "plural"),
    [
        pytest.param({"pods": pods(claims=(USES,))}, SET_REF, "resourceclaims", id="claims"),
        pytest.param({"pods": pods(volumes=("data",))}, SET_REF, "storageclasses", id="volumes"),
        pytest.param({"pods": pods(queued=True)}, SET_REF, "clusterqueues", id="pods of Kueue"),
        pytest.param(
            {"gangs": (gang(scheduler="kueue"),), "pods": ()},
            SET_REF,
            "localqueues",
            id="a gang of Kueue without pods",
        ),
        pytest.param({}, Ref("ResourceClaim", NAMESPACE, "free"), "resourceclaims", id="a claim"),
        pytest.param({}, Ref("ComputeDomain", NAMESPACE, "d"), "computedomains", id="a domain"),
    ],
)
async def test_what_few_workloads_have_is_read_if_something_has_any(
    changes: Changes, asked: Ref, plural: str
) -> None:
    cluster = Cluster(facts(**changes))
    await read_list(cluster, asked.namespace, room=True, now=NOW, asked=asked)
    assert plural in {plural for plural, _ in cluster.asked}


CLAIM = VolumeClaim(NAMESPACE, "data", "Bound", volume="pv-1")
UNBOUND = VolumeClaim(NAMESPACE, "data", storage_class="local")
LOCAL = StorageClass("local", waits=True, provisions=False)
FAST = StorageClass("fast")
WITH_DATA = pods(volumes=("data",))


@pytest.mark.parametrize(
    ("changes", "is_read"),
    [
        pytest.param({"pods": WITH_DATA, "volume_claims": (CLAIM,)}, True, id="a bound claim"),
        pytest.param(
            {"pods": WITH_DATA, "volume_claims": (UNBOUND,), "storage_classes": (LOCAL,)},
            True,
            id="a claim of local disks",
        ),
        pytest.param(
            {"pods": WITH_DATA, "volume_claims": (UNBOUND,), "storage_classes": (FAST,)},
            False,
            id="a claim whose volume is created later",
        ),
        pytest.param({"volume_claims": (CLAIM,)}, False, id="a claim that no pod names"),
        pytest.param(
            {
                "pods": placed(*["gpu-00"] * 4, volumes=("data",)),
                "volume_claims": (CLAIM,),
            },
            False,
            id="a claim of placed pods",
        ),
    ],
)
async def test_volumes_are_read_only_if_pending_pods_have_some(
    changes: Changes, is_read: bool
) -> None:
    cluster = Cluster(facts(**changes))
    read = await read_list(cluster, NAMESPACE, room=True, now=NOW, asked=SET_REF)
    assert ("persistentvolumes" in {plural for plural, _ in cluster.asked}) is is_read
    assert ("volumes" in read.skipped) is not is_read


async def test_without_the_right_to_list_volumes_it_is_not_known_whether_they_exclude_nodes() -> (
    None
):
    volume = Volume("pv-1", (), "late", "Bound")
    snapshot = facts(pods=WITH_DATA, volume_claims=(CLAIM,), volumes=(volume,))
    denied = Cluster(snapshot, denied=[("persistentvolumes", None)])
    read = await read_list(denied, NAMESPACE, room=True, now=NOW, asked=SET_REF)
    answer = explain(Index(read), SET_REF)
    assert answer is not None
    assert [each.id for each in answer.unknown] == ["VolumeElsewhere"]
    assert "could not read: PersistentVolumes (no permission to list)" in text(answer)
    allowed = await read_list(Cluster(snapshot), NAMESPACE, room=True, now=NOW, asked=SET_REF)
    assert explain(Index(allowed), SET_REF).unknown == ()  # type: ignore[union-attr]


JOB = Ref("Job", NAMESPACE, "j")


@pytest.mark.parametrize(
    ("changes", "asked", "times"),
    [
        pytest.param({"pods": ()}, JOB, 2, id="a Job without pods"),
        pytest.param({}, SET_REF, 1, id="a PodCliqueSet"),
        pytest.param({"events": (Event("u", "r", "", NOW, "x"),)}, None, 2, id="a list"),
    ],
)
async def test_what_kueue_holds_is_read_if_it_may_hold_what_has_no_pods(
    changes: Changes, asked: Ref | None, times: int
) -> None:
    cluster = Cluster(facts(**changes))
    await read_list(cluster, NAMESPACE, room=True, now=NOW, asked=asked)
    plurals = [plural for plural, _ in cluster.asked]
    assert plurals.count("workloads") == times  # Kubernetes has Workloads too


async def test_claims_of_other_namespaces_only_are_not_read() -> None:
    other = replace(pods(claims=(USES,))[0], namespace="other")
    cluster = Cluster(facts(pods=(*pods(), other)))
    await read_list(cluster, SET_REF.namespace, room=True, now=NOW, asked=SET_REF)
    assert "resourceclaims" not in {plural for plural, _ in cluster.asked}


@pytest.mark.parametrize("denied", ["queues", "priorityclasses"])
async def test_what_has_no_namespace_is_not_looked_for_in_one(denied: str) -> None:
    cluster = Cluster(FULL, denied=[(denied, None)])
    read = await read_list(cluster, SET_REF.namespace, room=True, now=NOW, asked=SET_REF)
    assert [scope for plural, scope in cluster.asked if plural == denied] == [None]
    assert set(read.unseen.values()) == {"no permission to list"}


async def test_a_kind_that_is_not_served_is_asked_for_once() -> None:
    cluster = Cluster(FULL, unserved=["podgangmaps"])
    await read_list(cluster, SET_REF.namespace, room=False, now=NOW, asked=SET_REF)
    assert [plural for plural, _ in cluster.asked].count("podgangmaps") == 1


async def test_a_group_that_has_no_labels_is_read() -> None:
    """KAI's pod-grouper makes such groups of Deployments."""
    group = builders.pod_group("serve")
    group["metadata"]["namespace"] = NAMESPACE
    asked = Ref("PodGroup", NAMESPACE, "serve")
    read = await read_list(MemoryClient([group]), NAMESPACE, room=False, now=NOW, asked=asked)
    assert [pod_group.name for pod_group in read.pod_groups] == ["serve"]


def test_the_text_of_a_snapshot_in_tracebacks_does_not_have_its_objects() -> None:
    """asyncio.run makes that text of what its coroutine returns, whether it is used or not."""
    assert len(repr(FULL)) < 100
