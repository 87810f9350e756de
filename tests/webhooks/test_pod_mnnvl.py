"""Pods that ask for MNNVL and are in no PodClique: the claim of their unit, or a refusal.

Tests `app/webhooks/mnnvl.py`.
"""

from typing import Any

import pytest
from jsonpatch import apply_patch

from app.facts.kinds import COMPUTE_DOMAIN, LEADER_WORKER_SET
from app.facts.nvidia.computedomain import is_made_by_us
from app.kube.api import Object, ObjectRef, Rejected, Unavailable
from tests import pods
from tests.cluster.offline import OfflineCluster
from tests.pods import UNITS, owner, pod
from tests.reviews import Caller, patch_of

MUTATE = "/mutate/pod-mnnvl"
VALIDATE = "/validate/pod-mnnvl"
KNOWN = [name for name, unit in UNITS.items() if unit]


def review(obj: Object, **request: Any) -> Object:
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "r",
            "kind": kind,
            "resource": resource,
            "name": obj["metadata"]["name"],
            "namespace": obj["metadata"]["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:statefulset-controller"},
            "object": obj,
            **request,
        },
    }


def calling(*more: Object, is_trusted: bool = True) -> Caller:
    return Caller(OfflineCluster([*pods.owners(), *more]), is_trusted=is_trusted)


async def admitted(caller: Caller, obj: Object) -> tuple[Object, Object]:
    """Return the Pod after both webhooks, and the answer of the last one that was asked."""
    answer = await caller.ask(MUTATE, review(obj))
    if not answer["allowed"]:
        return obj, answer
    patched = apply_patch(obj, patch_of(answer))
    return patched, await caller.ask(VALIDATE, review(patched))


def domains(caller: Caller) -> dict[str, Object]:
    return {obj["metadata"]["name"]: obj for obj in caller.cluster.client.objects(COMPUTE_DOMAIN)}


@pytest.mark.parametrize("name", KNOWN)
async def test_a_pod_gets_the_claim_of_its_unit(name: str) -> None:
    caller = calling()
    patched, answer = await admitted(caller, pod(name))
    unit = UNITS[name]
    assert answer["allowed"]
    assert patched["metadata"]["labels"]["grove.io/mnnvl-unit"] == unit
    (claim,) = patched["spec"]["resourceClaims"]
    assert claim == {"name": "mnnvl", "resourceClaimTemplateName": f"{unit}-mnnvl-template"}
    (domain,) = domains(caller).values()
    assert domain["metadata"]["name"] == f"{unit}-cd"
    assert domain["spec"]["channel"]["resourceClaimTemplate"]["name"] == f"{unit}-mnnvl-template"
    assert domain["spec"]["numNodes"] == 0
    assert is_made_by_us(domain)
    (reference,) = domain["metadata"]["ownerReferences"]
    stored = {obj["metadata"]["uid"]: obj for obj in pods.owners()}[reference["uid"]]
    assert (reference["apiVersion"], reference["kind"], reference["name"]) == (
        stored["apiVersion"],
        stored["kind"],
        stored["metadata"]["name"],
    )
    again = await caller.ask(MUTATE, review(patched))
    assert (again["allowed"], patch_of(again)) == (True, [])


async def test_pods_of_one_unit_share_what_the_first_one_made() -> None:
    caller = calling()
    for name in ("lws-labelled-leader", "lws-worker"):
        _, answer = await admitted(caller, pod(name))
        assert answer["allowed"]
    assert list(domains(caller)) == ["lws-a-2-cd"]


async def test_a_leader_gets_its_claim_after_its_own_webhook_has_labelled_it() -> None:
    caller = calling()
    leader = pod("lws-leader")
    answer = await caller.ask(MUTATE, review(leader))
    assert (answer["allowed"], patch_of(answer), domains(caller)) == (True, [], {})

    refused = (await caller.ask(VALIDATE, review(leader)))["status"]
    assert (refused["code"], refused["details"]["causes"][0]["field"]) == (
        422,
        "metadata.labels[leaderworkerset.sigs.k8s.io/group-index]",
    )

    leader["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"] = "2"
    patched, answer = await admitted(caller, leader)
    assert (answer["allowed"], patched["metadata"]["labels"]["grove.io/mnnvl-unit"]) == (
        True,
        "lws-a-2",
    )


async def test_a_pod_that_no_webhook_changed_is_refused_in_the_end() -> None:
    status = (await calling().ask(VALIDATE, review(pod("job"))))["status"]
    (cause,) = status["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("spec.resourceClaims", "FieldValueRequired")
    assert "was not called" in cause["message"]


@pytest.mark.parametrize("path", [MUTATE, VALIDATE])
@pytest.mark.parametrize("labels", [{"grove.io/podclique": "c"}, {"grove.io/clique-name": "c"}])
async def test_a_pod_of_a_podclique_is_left_alone(path: str, labels: Any) -> None:
    caller = calling()
    answer = await caller.ask(path, review(pod("lws-worker", labels)))
    assert (answer["allowed"], patch_of(answer), domains(caller)) == (True, [], {})


async def test_a_pod_without_gpus_is_allowed_with_a_warning() -> None:
    obj = pod("job")
    obj["spec"]["containers"][0]["resources"] = {}
    answer = await calling().ask(MUTATE, review(obj))
    assert answer["warnings"][0].startswith('Pod "job" has the annotation')
    assert (await calling().ask(VALIDATE, review(obj)))["allowed"]


async def test_warnings_say_what_keeps_a_unit_from_its_nvlink_domain() -> None:
    caller = calling()
    answer = await caller.ask(MUTATE, review(pod("lws-worker")))
    assert ["nothing keeps its pods" in warning for warning in answer["warnings"]] == [True]

    obj = pod("lws-worker")
    obj["metadata"]["annotations"][LWS + "exclusive-topology"] = "nvidia.com/gpu.clique"
    assert "warnings" not in await caller.ask(MUTATE, review(obj))

    labels = {"nvidia.com/gpu.clique": "c", "nvidia.com/gpu.count": "32"}
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n", "labels": labels}}
    (warning,) = (await calling(node).ask(MUTATE, review(obj)))["warnings"]
    assert "each pod requests 8 of a node's 32 GPUs" in warning


SELECTED = {"nodeSelector": {"nvidia.com/gpu.clique": "c.1"}}
TERM = {"matchExpressions": [{"key": "nvidia.com/gpu.clique", "operator": "In", "values": ["c.1"]}]}
BY_NODES = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}
        }
    }
}
BY_PODS = {
    "affinity": {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "nvidia.com/gpu.clique"}
            ]
        }
    }
}


@pytest.mark.parametrize("spec", [SELECTED, BY_NODES, BY_PODS])
async def test_what_the_pod_spec_itself_requires_keeps_a_unit_together(spec: Object) -> None:
    obj = pod("lws-worker")
    obj["spec"] |= spec
    assert "warnings" not in await calling().ask(MUTATE, review(obj))


async def test_a_dry_run_makes_nothing() -> None:
    caller = calling()
    answer = await caller.ask(MUTATE, review(pod("job"), dryRun=True))
    assert len(patch_of(answer)) == 3
    assert domains(caller) == {}


@pytest.mark.parametrize(
    ("verb", "resource"), [("get", LEADER_WORKER_SET), ("create", COMPUTE_DOMAIN)]
)
async def test_what_passes_is_left_to_the_leader(verb: str, resource: Any) -> None:
    caller = calling()
    caller.cluster.client.fail_next(verb, resource, Unavailable("down", code=503))
    answer = await caller.ask(MUTATE, review(pod("lws-worker")))
    assert (answer["allowed"], len(patch_of(answer)), domains(caller)) == (True, 3, {})
    assert "are not complete yet (down)" in answer["warnings"][0]


async def test_what_a_person_must_fix_is_refused() -> None:
    caller = calling()
    caller.cluster.client.fail_next("create", COMPUTE_DOMAIN, Rejected("not you", code=403))
    assert (await caller.ask(MUTATE, review(pod("job"))))["status"]["code"] == 500


FORMER = {"apiVersion": "batch/v1", "kind": "Job", "name": "nccl-test", "uid": "former"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"ownerReferences": [FORMER]}, "an owner that is gone", id="former owner"),
        pytest.param(
            {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "is being deleted", id="ending"
        ),
    ],
)
@pytest.mark.parametrize("is_seen", [True, False])
async def test_no_pod_comes_before_a_former_domain_is_gone(
    change: Any, problem: str, is_seen: bool
) -> None:
    """Its template may still be there, and the claim of a Pod that is made of it stays for good."""
    earlier = calling()
    await admitted(earlier, pod("job"))
    (domain,) = domains(earlier).values()
    domain["metadata"] |= change

    caller = calling(domain) if is_seen else calling()
    caller.cluster.client.load([domain])
    _, answer = await admitted(caller, pod("job"))
    assert not answer["allowed"]
    assert problem in answer["status"]["message"]
    assert "create the Pod again" in answer["status"]["message"]


@pytest.mark.parametrize("is_collected", [True, False])
async def test_a_controller_that_was_given_to_another_owner_is_not_taken_for_that_of_the_former(
    is_collected: bool,
) -> None:
    """The controller was read for the Pods before, and is not read again for a while."""
    caller = calling()
    _, answer = await admitted(caller, pod("lws-labelled-leader"))
    assert answer["allowed"]

    client = caller.cluster.client
    client.load([owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "a", "new")])
    if is_collected:
        await client.delete(ObjectRef(COMPUTE_DOMAIN, "lws-a-2-cd", "ns"))
    before = domains(caller)
    _, answer = await admitted(caller, pod("lws-labelled-leader"))
    assert not answer["allowed"]
    assert (
        'LeaderWorkerSet "a", which would own the MNNVL resources, is gone'
        in answer["status"]["message"]
    )
    assert domains(caller) == before


def claimed(entry: Object, request: Object) -> tuple[Object, Object]:
    """Return the Pod of a Job with another claim, and the template that the claim names."""
    obj = pod("job")
    obj["spec"]["resourceClaims"] = [{"name": "theirs", **entry}]
    devices = {"devices": {"requests": [request]}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "theirs", "namespace": "ns"},
        "spec": {"spec": devices},
    }
    claim = {**template, "kind": "ResourceClaim", "spec": devices}
    return obj, claim if "resourceClaimName" in entry else template


CHANNEL = {"exactly": {"deviceClassName": "compute-domain-default-channel.nvidia.com"}}


@pytest.mark.parametrize("field", ["resourceClaimName", "resourceClaimTemplateName"])
@pytest.mark.parametrize(
    ("name", "request_", "allowed"),
    [
        pytest.param("theirs", CHANNEL, False, id="the channel"),
        pytest.param("theirs", {"exactly": {"deviceClassName": "gpu"}}, True, id="a GPU"),
        pytest.param("missing", CHANNEL, True, id="one that doesn't exist"),
        pytest.param("../theirs", CHANNEL, True, id="no name"),
    ],
)
async def test_another_claim_for_the_channel_is_refused(
    field: str, name: str, request_: Any, allowed: bool
) -> None:
    obj, stored = claimed({field: name}, request_)
    answer = await calling(stored).ask(MUTATE, review(obj))
    assert answer["allowed"] is allowed
    if not allowed:
        (cause,) = answer["status"]["details"]["causes"]
        assert cause["field"] == "spec.resourceClaims[0]"


async def test_a_pod_with_very_many_claims_causes_few_calls() -> None:
    obj = pod("job")
    obj["spec"]["resourceClaims"] = [
        {"name": f"c-{number}", "resourceClaimName": f"c-{number}"} for number in range(1000)
    ]
    caller = calling()
    assert (await caller.ask(MUTATE, review(obj)))["allowed"]
    assert len(caller.cluster.client.calls) < 50


# What a tenant may try.

LWS = "leaderworkerset.sigs.k8s.io/"
JOB = "batch.kubernetes.io/job-name"


def with_owner(obj: Object, **fields: Any) -> Object:
    obj["metadata"]["ownerReferences"] = [
        {**reference, **fields} for reference in obj["metadata"]["ownerReferences"]
    ]
    return obj


def elsewhere(obj: Object) -> Object:
    obj["metadata"]["namespace"] = "other"
    return obj


def with_claim(obj: Object, name: str, template: str) -> Object:
    obj["spec"]["resourceClaims"] = [{"name": name, "resourceClaimTemplateName": template}]
    return obj


FORGED: dict[str, Any] = {
    "the name of another LeaderWorkerSet": pod("lws-worker", {LWS + "name": "b"}),
    "the labels of a LeaderWorkerSet on the Pod of a Job": pod(
        "job", {LWS + "name": "a", LWS + "group-index": "0"}
    ),
    "the labels of a LeaderWorkerSet without an owner": with_owner(
        pod("lws-worker"), controller=False
    ),
    "the uid of another object": with_owner(pod("lws-worker"), uid="sts-b"),
    "an owner that does not exist": with_owner(pod("lws-worker"), name="gone"),
    "an owner of another kind with the name": with_owner(pod("lws-worker"), kind="Deployment"),
    "an owner of another group": with_owner(pod("job"), apiVersion="batch.volcano.sh/v1alpha1"),
    "an owner in another namespace": elsewhere(pod("lws-worker")),
    "a PodGroup in another namespace": elsewhere(pod("workload-group")),
    "a name of another case": pod("lws-worker", {LWS + "name": "A"}),
    "an index that is text": pod("lws-worker", {LWS + "group-index": "../../b"}),
    "an empty index": pod("lws-worker", {LWS + "group-index": ""}),
    "the labels of two owners": pod("lws-worker", {"ray.io/cluster": "serve"}),
    "the JobSet of somebody else": pod("jobset", {"jobset.sigs.k8s.io/jobset-name": "other"}),
    "a JobSet above a Job that has none": with_owner(
        pod("jobset"), name="nccl-test", uid="job-nccl-test"
    ),
    "the training job of somebody else": pod(
        "pytorchjob", {"training.kubeflow.org/job-name": "nccl"}
    ),
    "the RayCluster of somebody else": pod("raycluster", {"ray.io/cluster": "other"}),
    "the Job of somebody else": pod("job", {JOB: "train-workers-1"}),
    "a Job that is a PodCliqueSet": pod("job", {JOB: "train-0"}),
    "a scope of PodCliques": pod("lws-worker", scope="replica"),
    "a scope of another kind": pod("lws-worker", scope="set"),
    "no scope": pod("lws-worker", scope=" "),
    "no labels at all": pod("job", {JOB: None}),
    "a group that does not exist": {
        **pod("workload-group"),
        "spec": {**pod("workload-group")["spec"], "schedulingGroup": {"podGroupName": "prefill-1"}},
    },
    "the claim of another unit under our name": with_claim(
        pod("job"), "mnnvl", "lws-a-0-mnnvl-template"
    ),
    "a name with a slash": pod("job", {JOB: "a/b"}),
    "a very long name": pod("job", {JOB: "a" * 300}),
    "a megabyte as a name": pod("job", {JOB: "a" * 1_000_000}),
    "a group of a Workload that is none": {
        **pod("workload-ref"),
        "spec": {**pod("workload-ref")["spec"], "workloadRef": {"name": "w", "podGroup": "A/b"}},
    },
    "a Workload that does not exist": {
        **pod("workload-ref"),
        "spec": {**pod("workload-ref")["spec"], "workloadRef": {"name": "x", "podGroup": "g"}},
    },
    "a unit of ours as a label": pod("job", {JOB: None, "grove.io/mnnvl-unit": "lws-a-0"}),
}


@pytest.mark.parametrize("attempt", FORGED)
async def test_a_forger_gets_nothing_of_others_and_makes_nothing(attempt: str) -> None:
    caller = calling()
    _, answer = await admitted(caller, FORGED[attempt])
    assert not answer["allowed"]
    assert answer["status"]["code"] == 422
    assert domains(caller) == {}


async def test_a_group_that_does_not_exist_is_named() -> None:
    _, answer = await admitted(calling(), FORGED["a group that does not exist"])
    assert answer["status"]["message"] == (
        'spec.schedulingGroup.podGroupName: Invalid value: "prefill-1": this PodGroup does not'
        " exist in namespace ns: create it before the Pods that name it"
    )


def test_there_are_thirty_attempts() -> None:
    assert len(FORGED) >= 30


@pytest.mark.parametrize(
    "odd",
    [
        {"ownerReferences": 7},
        {"ownerReferences": [7, {"controller": True}]},
        {"labels": []},
        {"labels": {JOB: 7}},
        {"ownerReferences": None},
    ],
)
async def test_odd_metadata_is_no_owner(odd: Any) -> None:
    obj = pod("job")
    obj["metadata"] |= odd
    caller = calling()
    _, answer = await admitted(caller, obj)
    assert (answer["allowed"], domains(caller)) == (False, {})


@pytest.mark.parametrize("name", KNOWN)
async def test_a_review_without_a_token_causes_no_write(name: str) -> None:
    caller = calling(is_trusted=False)
    answer = await caller.ask(MUTATE, review(pod(name)))
    assert answer["allowed"]
    assert "without a valid token" in answer["warnings"][0]
    assert caller.cluster.client.writes() == []


TAKEN: Any = {
    "apiVersion": "resource.nvidia.com/v1beta1",
    "kind": "ComputeDomain",
    "metadata": {"name": "lws-a-2-cd", "namespace": "ns"},
    "spec": {},
}


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({}, id="of a person"),
        pytest.param(
            {
                "labels": {
                    "grove.io/mnnvl-managed": "true",
                    "grove.io/pcs-name": "lws-a",
                    "grove.io/pcs-replica-index": "2",
                }
            },
            id="of a PodCliqueSet",
        ),
        pytest.param(
            {
                "labels": {"grove.io/mnnvl-managed": "true", "grove.io/mnnvl-unit": "lws-a-2"},
                "ownerReferences": [
                    {"apiVersion": "x/v1", "kind": "JobSet", "name": "other", "uid": "o"}
                ],
            },
            id="of another owner",
        ),
    ],
)
async def test_a_name_that_is_taken(metadata: Object) -> None:
    caller = calling({**TAKEN, "metadata": {**TAKEN["metadata"], **metadata}})
    status = (await caller.ask(MUTATE, review(pod("lws-worker"))))["status"]
    assert status["code"] == 403
    assert status["message"] == (
        'ComputeDomain "lws-a-2-cd" exists in namespace ns, but was not created for this unit of'
        " LeaderWorkerSet. If nothing else needs it, run: kubectl -n ns delete computedomain"
        " lws-a-2-cd"
    )
