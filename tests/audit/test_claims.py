"""Claims that PodCliques and Pods have lost or are about to lose, in an audit."""

from datetime import UTC, datetime
from io import StringIO
from typing import Any

from app.audit.auditor import Auditor
from app.audit.claims import LACKS
from app.audit.finding import Finding
from app.audit.progress import Progress
from app.config.schema import Configuration, Mnnvl
from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE, RESOURCE_CLAIM
from app.kube.api import Object, Rejected
from app.objects.resource import POD
from app.rules.mnnvl.lost_claims import PUT_BACK, REPLACE, WITHOUT_CLAIM
from app.rules.mnnvl.plan import desired_resource
from tests import builders, pods
from tests.audit.test_audit import admitted, changed
from tests.builders import injection_into
from tests.kube.memory.client import MemoryClient
from tests.kube.memory.counting import CountingClient
from tests.reconcilers.test_units import domain, stored

CLAIM = "train-0-mnnvl-claim"
OURS = [{"name": "mnnvl", "resourceClaimName": CLAIM}]
DELETED: Object = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}


def pcs() -> Object:
    return changed(builders.pod_clique_set("train"), namespace="ml", uid="u")


def clique(name: str, namespace: str = "ml") -> Object:
    made = builders.pod_clique(name, builders.labels("train", 0, "train-0", grove=True))
    return changed(made, namespace=namespace)


def pod(name: str, owner: str, claims: Any = (), **metadata: Any) -> Object:
    owners = [{"kind": "PodClique", "name": owner, "uid": "x", "apiVersion": "grove.io/v1alpha1"}]
    labels = {"grove.io/podgang": "train-0"}
    defaults = {"name": name, "namespace": "ml", "labels": labels, "ownerReferences": owners}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**defaults, **metadata},
        "spec": {**builders.pod_spec(), "resourceClaims": list(claims)},
        "status": {"phase": "Running"},
    }


def resources(*users: str, **metadata: Any) -> list[Object]:
    """The ComputeDomain and the claim of the replica; `users` are Pods that reserve the claim."""
    plan = injection_into(clique("train-0-worker"), "ml").plan
    assert plan is not None
    reserved = [{"resource": "pods", "name": name, "uid": "x"} for name in users]
    claim = changed(desired_resource(plan, RESOURCE_CLAIM, "v1"), **metadata)
    return [
        desired_resource(plan, COMPUTE_DOMAIN, "v1beta1"),
        {**claim, "status": {"reservedFor": reserved}},
    ]


def auditing(client: MemoryClient) -> Auditor:
    return Auditor(client, Configuration(), Progress(StringIO()).show, datetime.now(UTC))


async def findings(*objects: Object) -> list[Finding]:
    auditor = auditing(MemoryClient([pcs(), *objects]))
    resources = (POD_CLIQUE.kind, RESOURCE_CLAIM.kind, COMPUTE_DOMAIN.kind)
    return [finding async for finding in auditor.findings(None) if finding.kind in resources]


async def test_a_podclique_that_has_lost_its_claim_is_listed() -> None:
    other = clique("train-0-other")
    del other["metadata"]["annotations"]
    stored = [clique("train-0-worker"), admitted(clique("train-0-leader")), other]
    assert await findings(*stored, clique("train-0-worker", "kube-system")) == [
        Finding("PodClique", "ml", "train-0-worker", 0, (LACKS,), PUT_BACK)
    ]


async def test_pods_that_run_without_the_claim_of_their_podclique_are_listed_with_it() -> None:
    pods = [
        pod("b", "train-0-worker"),
        pod("a", "train-0-worker"),
        pod("with", "train-0-worker", OURS),
        pod("ending", "train-0-worker", **DELETED),
        pod("lost", "train-0-lost"),
    ]
    problem = "Pods a, b lack the PodClique's claim, and so cannot use NVLink between nodes"
    stored = [admitted(clique("train-0-worker")), clique("train-0-lost"), *resources()]
    assert await findings(*stored, *pods) == [
        Finding("PodClique", "ml", "train-0-lost", 0, (LACKS,), PUT_BACK),
        Finding("PodClique", "ml", "train-0-worker", 0, (problem,), REPLACE),
    ]


async def test_a_claim_that_pods_use_although_it_is_being_deleted_is_listed_with_them() -> None:
    pods = [
        pod("b", "train-0-worker", OURS),
        pod("a", "train-0-worker", OURS),
        pod("ending", "train-0-worker", OURS, **DELETED),
    ]
    stored = [admitted(clique("train-0-worker")), *pods]
    users = ("b", "gone", "a", "ending")
    problem = "is being deleted, but Pods a, b still use it: no other Pod can get it"
    remedy = "Delete these Pods together: kubectl -n ml delete pod a b. The claim is then deleted, the leader creates it again, and the new Pods start."
    assert await findings(*stored, *resources(*users, **DELETED)) == [
        Finding("ResourceClaim", "ml", CLAIM, 0, (problem,), remedy)
    ]
    assert await findings(*stored, *resources(*users)) == []
    assert await findings(*stored, *resources("gone", "ending", **DELETED)) == []
    elsewhere = [changed(obj, namespace="kube-system") for obj in pods]
    assert await findings(*elsewhere, *resources(*users, namespace="kube-system", **DELETED)) == []


async def test_pods_that_may_not_be_read_are_said_to_be_unread() -> None:
    client = MemoryClient([pcs(), *resources("a", **DELETED)])
    client.fail_next("list", POD, Rejected("may not list pods", code=403), times=10)
    auditor = auditing(client)
    assert [finding async for finding in auditor.findings(None)] == []
    assert (auditor.tally.unread["pods"], auditor.tally.exit_code) == ("may not list pods", 2)


async def test_pods_of_units_that_run_without_a_claim_or_could_not_be_replaced_are_listed() -> None:
    """They ask for MNNVL by themselves; those of PodCliques and others are omitted."""
    with_claim = stored("lws-worker")
    alone = pods.pod("job", {"batch.kubernetes.io/job-name": None})
    unasked = pods.pod("jobset", enabled=None)
    of_clique = pods.pod("raycluster", {"grove.io/podclique": "c"})
    ended = {**pods.pod("pytorchjob"), "status": {"phase": "Succeeded"}}
    listed = [pods.pod("mpijob-launcher"), alone, with_claim, unasked, of_clique, ended]
    auditor = auditing(MemoryClient([*pods.owners(), *listed]))
    found = [finding async for finding in auditor.findings(None)]
    replaced = "Correct the pod template of the workload. Until then, the Pod cannot be replaced."
    assert [(one.name, one.code, one.remedy) for one in found] == [
        ("job", 422, replaced),
        (
            "mpijob-launcher",
            0,
            "Delete the Pod when its workload can spare it, so that a new one gets the claim:"
            " kubectl -n ns delete pod mpijob-launcher",
        ),
    ]
    assert found[1].problems == (WITHOUT_CLAIM,)
    assert auditor.tally.counts["Pod"].looked_at == 3


async def test_the_compute_domain_of_a_unit_is_no_orphan_of_a_podcliqueset() -> None:
    assert await findings(domain()) == []


CHANNEL = "compute-domain-default-channel.nvidia.com"


def with_channel(name: str, user: str, uid: str) -> Object:
    """A claim for the channel of a node, which a pod uses, as NVIDIA's driver allocates it."""
    results = [{"driver": "compute-domain.nvidia.com", "pool": "n0", "device": "channel-0"}]
    parameters = {"domainID": uid}
    opaque = {"driver": "compute-domain.nvidia.com", "parameters": parameters}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {
            "devices": {
                "requests": [{"name": "c", "exactly": {"deviceClassName": CHANNEL}}],
                "config": [{"opaque": opaque}],
            }
        },
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": user, "uid": "x"}],
        },
    }


async def test_channels_that_are_held_and_not_needed() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n0", "labels": {"nvidia.com/gpu.count": "8"}},
    }
    one = pod("one", "x", [{"name": "c", "resourceClaimTemplateName": "t"}])
    one["spec"]["nodeName"] = "n0"
    one["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    two = pod("two", "x", [{"name": "c", "resourceClaimName": "two-c"}])
    claims = (with_channel("one-c", "one", "u"), with_channel("two-c", "gone", "u"))
    client = MemoryClient([node, one, two, *claims])
    auditor = auditing(client)
    found = [finding async for finding in auditor.findings(None)]
    assert [(finding.kind, finding.name, finding.problems) for finding in found] == [
        (
            "ResourceClaim",
            "one-c",
            (
                "holds the NVLink channel of n0, although pod one requests 1 of the 8 GPUs of its node;"
                " 1 pod waits for a channel",
            ),
        )
    ]


async def test_an_audit_keeps_a_page_of_large_objects_at_a_time() -> None:
    """It also runs in the Pod of a replica, whose memory is limited."""
    claims = [with_channel(f"c{number}", "gone", "u") for number in range(200)]
    client = CountingClient([*claims, *(pod(f"p{number}", "x") for number in range(200))])
    found = [finding async for finding in auditing(client).findings(None)]
    assert len([finding for finding in found if finding.kind == "ResourceClaim"]) == 200
    assert client.most_kept <= 60


async def test_an_audit_keeps_only_the_base_names_that_stored_resources_have() -> None:
    """A PodGang of 1 KB may have hundreds, and there may be thousands of such PodGangs."""
    labels = builders.labels("train", 0, "train-0")
    names = [f"train-0-{letter}{'-1' * 100}" for letter in "ab"]
    gangs = [
        changed(builders.pod_gang(f"g{number}", labels, *names), namespace="ml", uid=f"u{number}")
        for number in range(3)
    ]
    auditor = Auditor(
        MemoryClient([pcs(), *resources(), *gangs]),
        Configuration(mnnvl=Mnnvl(owner="PodGang")),
        Progress(StringIO()).show,
        datetime.now(UTC),
    )
    [finding async for finding in auditor.findings(None)]
    assert {key: len(found) for key, found in auditor._gangs_by_base.items()} == {
        ("ml", "train-0"): 3
    }
