"""What is said of ResourceClaims, of channels of NVLink domains, and of volumes.

Tests `app/explain/reasons/claims.py`, `app/explain/reasons/shared_claims.py` and
`app/explain/reasons/volumes.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.reasons.claims import CHANNEL_DRIVER
from app.facts.grove.podgang import GangPart
from app.facts.grove.unit_member import CLAIM as OURS
from app.facts.grove.unit_member import GROVE_CLAIM
from app.facts.identity import Ref
from app.facts.kubernetes.claim import (
    ClaimTemplate,
    Consumer,
    Device,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.pod import PodClaim
from app.facts.kubernetes.selectors import Requirement
from app.facts.kubernetes.volume import StorageClass, Volume, VolumeClaim
from app.facts.nvidia.computedomain import ComputeDomain
from tests.explain.fleet import (
    HOST,
    NAMESPACE,
    NOW,
    ROUTER,
    WORKERS,
    ZONE,
    answer,
    cliques,
    facts,
    fill,
    gang,
    nodes,
    occupant,
    pcs,
    placed,
    pod_group,
    pods,
    shape,
)
from tests.explain.table.claims import REFUSES, STORED, written
from tests.explain.table.recorded import Asking
from tests.explain.table.row import (
    ALL_WANT,
    CHANNEL,
    CLAIM,
    ONE_NODE,
    SHARED,
    TEMPLATED,
    Changes,
    changed,
    channels,
    claiming,
    reserved,
)
from tests.explain.table.volumes import (
    BOUND,
    LATE,
    LOCAL,
    SMALL,
    by_hand,
    claimed,
    data,
    disk,
    tied,
)
from tests.explain.table.words import warned

MINE = PodClaim("scratch", "my-gpus")
OF_GPUS = replace(CLAIM, name="my-gpus", classes=("ring.example/GPU-slice",))
ENDING = replace(CLAIM, name="shared", deleting=NOW - 600)


def used(name: str, *users: Any, **claim: Any) -> Changes:
    """The workers use a claim by name, which pods have reserved; it is called `name` in pods."""
    consumers = tuple(Consumer(pod.name, pod.uid) for pod in users)
    stored = replace(CLAIM, name="shared", consumers=consumers, allocated=True, **claim)
    return {"pods": (*claiming(PodClaim(name, "shared")), *users), "claims": (stored,)}


def user(name: str, **changes: Any) -> Any:
    return occupant("gpu-15", gpus=0, namespace=NAMESPACE, name=name, uid=f"uid-{name}", **changes)


def not_created(*ages: float, words: str) -> tuple[Event, ...]:
    return tuple(
        replace(warned(pod.ref, pod.uid, "FailedResourceClaimCreation", words, ""), time=NOW - age)
        for pod, age in zip(pods(), ages, strict=False)
    )


GONE = ((Requirement("metadata.name", "In", ("gpu-99",)),),)
DOMAIN = ComputeDomain(NAMESPACE, "llm-0-cd", "uid-cd", 0, "llm-0-template")
TEMPLATES = channels()["claim_templates"]
NEW = tuple(replace(pod, claims=(PodClaim("mnnvl", "", "llm-0-template"),)) for pod in pods())
TAKEN = channels("gpu-12", "gpu-13")
RUNS = placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")


def with_channels(*, but: tuple[str, ...]) -> tuple[ResourceSlice, ...]:
    """ResourceSlices of the driver of channels for all nodes but some."""
    names = (node.name for node in nodes() if node.name not in but)
    return tuple(ResourceSlice(CHANNEL_DRIVER, name, 1, name, ()) for name in names)


CASES: dict[str, tuple[Changes, str]] = {
    "NVIDIA's controller has not created the template of a ComputeDomain": (
        {"pods": claiming(TEMPLATED), "compute_domains": (DOMAIN,)},
        "ResourceClaimTemplate llm-0-template does not exist",
    ),
    "a template of the same name is of a ComputeDomain in another namespace": (
        {
            "pods": claiming(TEMPLATED),
            "compute_domains": (replace(DOMAIN, namespace="research"),),
        },
        "ResourceClaimTemplate llm-0-template does not exist",
    ),
    "a claim that Kubernetes created for a pod has been deleted": (
        {"pods": claiming(TEMPLATED), "claim_templates": TEMPLATES},
        "ResourceClaim llm-0-made does not exist",
    ),
    "a user's template is of a ComputeDomain in another namespace": (
        {
            "pods": claiming(PodClaim("channel", "", "llm-0-template")),
            "compute_domains": (replace(DOMAIN, namespace="research"),),
        },
        "ResourceClaimTemplate llm-0-template does not exist in namespace inference. ComputeDomain research/llm-0-cd is in another namespace, and only pods there can use its template",
    ),
    "Kubernetes can't create a claim of one pod": (
        {
            "pods": (*pods()[:3], NEW[3]),
            "claim_templates": TEMPLATES,
            "events": not_created(9, 9, 9, 9, words="no such class"),
        },
        "1 pod lacks a claim that Kubernetes creates from a template; the controller of claims says: no such class (9 seconds ago)",
    ),
    "the newest of its messages counts": (
        {
            "pods": NEW,
            "claim_templates": TEMPLATES,
            "events": not_created(90, 30, 60, 45, words="exceeded quota: x"),
        },
        "4 pods lack claims that Kubernetes creates from a template; the controller of claims says: exceeded quota: x (30 seconds ago)",
    ),
    "pods request MNNVL themselves and have no claim": (
        {"pods": pods(asks_mnnvl=True)},
        "4 pods request MNNVL but have no claim: no webhook added one when they were created",
    ),
    "one pod requests MNNVL itself and has no claim": (
        {"pods": (*claiming(PodClaim(OURS, "llm-0-mnnvl"), asks_mnnvl=True)[:3], replace(pods()[3], asks_mnnvl=True)), "claims": (CLAIM,)},
        "1 pod requests MNNVL but has no claim: no webhook added one when it was created",
    ),
    "one of the pods of a PodClique without a claim runs": (
        {
            "sets": (pcs(mnnvl=STORED.mnnvl),),
            "cliques": (cliques()[0], replace(cliques()[1], unclaimed=written(WORKERS))),
            "pods": (*RUNS[:2], *pods()[2:]),
        },
        "PodClique llm-0-pool-0-workers requests MNNVL but has no claim; 1 of its pods runs outside the NVLink domain",
    ),
    "no pod of a PodClique without a claim runs": (
        {
            "sets": (pcs(mnnvl=STORED.mnnvl),),
            "cliques": (cliques()[0], replace(cliques()[1], unclaimed=written(WORKERS))),
        },
        "PodClique llm-0-pool-0-workers requests MNNVL but has no claim",
    ),
    "one pod runs without the claim of its PodClique, and one has it": (
        {
            "cliques": (cliques()[0], replace(cliques()[1], claims=(SHARED,))),
            "pods": (RUNS[0], RUNS[1], *(replace(pod, claims=(SHARED,)) for pod in RUNS[2:])),
            "claims": (CLAIM,),
        },
        "1 pod of PodClique llm-0-pool-0-workers runs without its claim, outside the NVLink domain",
    ),
    "pods that can be found have the channels": (
        {
            **TAKEN,
            "pods": (*TAKEN["pods"], occupant("gpu-12", namespace="research", name="sweep-3-0", uid="uid", gpus=0, controller=Ref("Job", "research", "sweep-3"), created=NOW - 7200)),
            "claims": (
                replace(TAKEN["claims"][0], consumers=(Consumer("sweep-3-0", "uid"),)),
                TAKEN["claims"][1],
            ),
        },
        "The NVLink channels of 2 of 16 nodes are allocated to ResourceClaim sweep-3",
    ),
    "one of the nodes that the gang needs has no channel": (
        {**ALL_WANT, "slices": with_channels(but=("gpu-12", "gpu-13"))},
        "gpu-13 has no ResourceSlice of driver compute-domain.nvidia.com, so no NVLink channel can be allocated there, and the gang does not fit on the other nodes",
    ),
    "others have the channels of the nodes that have one": (
        {**TAKEN, "pods": ALL_WANT["pods"], "slices": with_channels(but=("gpu-00",))},
        "The NVLink channels of 2 of 16 nodes are allocated to ResourceClaim sweep-3",
    ),
    "claims of GPUs by another name, without the label of a queue": (
        {
            "pods": claiming(MINE),
            "claims": (OF_GPUS,),
            "device_classes": (DeviceClass(OF_GPUS.classes[0]),),
        },
        "ResourceClaim my-gpus, which pods share, requests GPUs and has no queue label, so KAI places no pod with it",
    ),
    "a claim of a user's that is bound to one of two nodes": (
        used(
            "scratch",
            nodes=((Requirement("metadata.name", "In", ("gpu-00", "gpu-01")),),),
        ),
        "ResourceClaim shared is allocated on gpu-00 and gpu-01, so 3 pending pods must go there, but the gang does not fit there",
    ),
    "a claim of a user's that is bound to a closed node": (
        {
            **used("scratch", nodes=ONE_NODE),
            "nodes": changed(("gpu-00",), unschedulable=True),
        },
        "ResourceClaim shared is allocated on gpu-00 (cordoned), so 3 pending pods must go there, but the gang does not fit there",
    ),
    "our claim is bound to a node that is gone, and two pods have it, and one has ended": (
        used(OURS, user("b"), user("a"), user("c", phase="Failed"), nodes=GONE),
        "ResourceClaim shared is allocated on a node that is gone, so 3 pending pods cannot be placed",
    ),
    "our claim is bound to a node that is gone, and no pod has it": (
        used(OURS, nodes=GONE),
        "ResourceClaim shared is allocated on a node that is gone, so 3 pending pods cannot be placed",
    ),
    "a claim of a user's is being deleted, and two pods have it": (
        used("scratch", user("b"), user("a"), user("c", deleting=NOW), deleting=NOW - 600),
        "ResourceClaim shared is being deleted, but 2 pods still use it, so no other pod can use it",
    ),
    "our claim is being deleted, and all pods run with it": (
        {
            "pods": tuple(replace(pod, claims=(PodClaim(OURS, "shared"),)) for pod in RUNS),
            "claims": (
                replace(ENDING, consumers=tuple(Consumer(pod.name, pod.uid) for pod in RUNS[1:])),
            ),
        },
        "ResourceClaim shared is being deleted, but 3 pods still use it, so no other pod can use it",
    ),
    "a claim is reserved for an old pod of the same name": (
        {
            "pods": (*claiming(SHARED), user("old-0")),
            "claims": (replace(reserved("old-0"), consumers=(Consumer("old-0", "uid-before"),)),),
        },
        "ResourceClaim llm-0-mnnvl is reserved for a previous pod old-0, which does not exist any more",
    ),
    "one zone of a disk is needed, and other pods there use no GPUs": (
        tied(
            disk(ZONE, "zone-b"),
            pods=(
                *pods(volumes=("data",)),
                *fill("rack-b1", "rack-b2"),
                *(occupant(f"gpu-{number:02}", 1, 0, group="small") for number in range(8, 16)),
            ),
        ),
        "PersistentVolumeClaim data is bound to volume pv-1, which only nodes with topology.kubernetes.io/zone=zone-b can use, and gpu-08, gpu-09, gpu-10, gpu-11 and 4 more have no room for the pod",
    ),
    "the only node of a disk is full": (
        tied(disk(HOST, "gpu-04"), pods=(*pods(volumes=("data",))[:2], *pods()[2:], occupant("gpu-04"))),
        "PersistentVolumeClaim data is bound to volume pv-1, which only nodes with kubernetes.io/hostname=gpu-04 can use, and gpu-04 has no room for the pod",
    ),
    "a class that does not wait for the pod has made a disk elsewhere": (
        {
            **tied(disk(HOST, "gpu-99")),
            "storage_classes": (StorageClass("late"),),
        },
        "PersistentVolumeClaim data is bound to volume pv-1, which only nodes with kubernetes.io/hostname=gpu-99 can use, and there is no such node",
    ),
    "no node can use one of two disks": (
        {
            "pods": pods(volumes=("aaa", "data")),
            "volume_claims": (replace(BOUND, name="aaa", volume="pv-0"), BOUND),
            "volumes": (replace(disk(ZONE, "zone-a"), name="pv-0"), disk(HOST, "gpu-99")),
            "storage_classes": (LATE,),
        },
        "PersistentVolumeClaim data is bound to volume pv-1, which only nodes with kubernetes.io/hostname=gpu-99 can use, and there is no such node",
    ),
    "two nodes of a disk are closed for two causes": (
        tied(
            disk(HOST, "gpu-04", "gpu-05"),
            nodes=tuple(
                replace(n, unschedulable=n.name == "gpu-04", ready=n.name != "gpu-05")
                for n in nodes()
            ),
        ),
        "PersistentVolumeClaim data is bound to volume pv-1, which only nodes with kubernetes.io/hostname in (gpu-04, gpu-05) can use, and these take no pods: gpu-04 (cordoned) and gpu-05 (not ready)",
    ),
    "a class makes disks for a node that is too small": (
        {
            **claimed(data(storage_class=None), replace(LATE, is_default=True, places=((Requirement(HOST, "In", ("gpu-04",)),),))),
            "nodes": changed(("gpu-04",), allocatable=SMALL),
        },
        "PersistentVolumeClaim data gets a volume of the default StorageClass, which only nodes with kubernetes.io/hostname=gpu-04 can use, and gpu-04 is too small for the pod, even if empty (too little nvidia.com/gpu)",
    ),
    "something is said of a claim that is not bound for a known cause": (
        {
            **claimed(data(storage_class="fast"), StorageClass("fast")),
            "events": (warned(data().ref, "uid-data", "Failed", "no space", "csi.example.com"),),
        },
        "PersistentVolumeClaim data, which 4 pods use, is not bound, and StorageClass fast binds volumes before pods are placed; csi.example.com says: no space (60 seconds ago)",
    ),
    "one pod uses a claim for which no volume that is made by hand is free": (
        {
            **claimed(data(storage_class="local"), LOCAL),
            "pods": (*pods()[:3], replace(pods()[3], volumes=("data",))),
            "volumes": (
                Volume("pv-1", storage_class="local", phase="Released"),
                Volume("pv-2", storage_class="other", phase="Available"),
            ),
        },
        "PersistentVolumeClaim data, which 1 pod uses, is not bound: StorageClass local creates no volumes, and no PersistentVolume of it is available",
    ),
    "the free disks made by hand are on closed nodes": (
        {
            **claimed(data(storage_class="local"), LOCAL),
            "volumes": (
                by_hand("gpu-00"),
                by_hand("gpu-01"),
                replace(by_hand(), name="pv-7", places=((Requirement("ssd", "Exists"), Requirement("disk", "Exists")),)),
            ),
            "nodes": changed(("gpu-00", "gpu-01"), unschedulable=True),
        },
        "PersistentVolumeClaim data gets a volume of StorageClass local, which only nodes with kubernetes.io/hostname in (gpu-00, gpu-01) or ssd present and disk present can use, and these take no pods: gpu-00 and gpu-01 (cordoned)",
    ),
}  # fmt: skip


TEMPLATE_OF_GPUS = ClaimTemplate(NAMESPACE, "llm-0-template", ("gpu.nvidia.com",))
WITHOUT_GPUS: Changes = {
    "claims": (
        replace(CLAIM, classes=("gpu.nvidia.com",), queue="team-llm"),
        ResourceClaim(NAMESPACE, "llm-0-made", ("gpu.nvidia.com",)),
    ),
    "device_classes": (
        DeviceClass("gpu.nvidia.com", driver="gpu.nvidia.com", gpus="gpu.nvidia.com"),
    ),
    "slices": (ResourceSlice(CHANNEL_DRIVER, "gpu-00", 1, "gpu-00", ()),),
}
"""GPUs that pods share, and GPUs for one pod each, which no node offers."""

CASES["no node offers the GPUs of a shared claim"] = (
    {**WITHOUT_GPUS, "pods": claiming(SHARED)},
    "No node offers devices of DeviceClass gpu.nvidia.com: there is no ResourceSlice of driver gpu.nvidia.com, so ResourceClaim llm-0-mnnvl cannot be allocated",
)  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), CASES.values(), ids=CASES)
def test_claims_of_pods(changes: Changes, text: str, answered: Asking) -> None:
    assert text in [reason.text for reason in answered(facts(**changes)).reasons]


NONE: dict[str, tuple[Changes, str]] = {
    "GPUs of a claim for one pod, which NeverFits reports": (
        {**WITHOUT_GPUS, "pods": claiming(TEMPLATED), "claim_templates": (TEMPLATE_OF_GPUS,)},
        "DeviceClassMissing",
    ),
    "a claim is allocated, and its DeviceClass was deleted later": (
        {
            "pods": claiming(SHARED),
            "claims": (replace(CLAIM, classes=("no-such-class",), allocated=True),),
        },
        "DeviceClassMissing",
    ),
    "a claim of another kind needs no label of a queue": (
        {"pods": claiming(SHARED), "claims": (CLAIM,)},
        "ClaimQueue",
    ),
    "our claim is being deleted, and nobody has it": (
        {"pods": claiming(PodClaim(OURS, "shared")), "claims": (ENDING,)},
        "ClaimBeingDeleted",
    ),
    "a claim is reserved for a pod whose uid is not known": (
        {
            "pods": (*claiming(SHARED), replace(user("old-0"), uid="")),
            "claims": (reserved("old-0"),),
        },
        "ClaimHeld",
    ),
    "a PodClique that refuses MNNVL": (
        {
            "sets": (pcs(mnnvl=STORED.mnnvl),),
            "cliques": (cliques()[0], replace(cliques()[1], unclaimed=written(WORKERS, **REFUSES))),
        },
        "ClaimNotInjected",
    ),
    "nodes without a channel that the gang does not need": (
        {**ALL_WANT, "slices": with_channels(but=("gpu-00", "gpu-01"))},
        "ChannelTaken",
    ),
    "some of the pods need no channel, and may be placed where there is none": (
        {**channels(), "slices": with_channels(but=("gpu-12", "gpu-13"))},
        "ChannelTaken",
    ),
    "claims of pods that have a channel already": (
        {
            **TAKEN,
            "claims": (
                TAKEN["claims"][0],
                ResourceClaim(NAMESPACE, "llm-0-made", (CHANNEL,), True),
            ),
        },
        "ChannelTaken",
    ),
    "a claim that is bound to a node that the gang fits": (
        {"pods": claiming(SHARED), "claims": (replace(CLAIM, nodes=ONE_NODE),)},
        "ClaimElsewhere",
    ),
    "an event about a pod that has its claim": (
        {
            "pods": claiming(TEMPLATED),
            "claim_templates": TEMPLATES,
            "claims": (ResourceClaim(NAMESPACE, "llm-0-made", (CHANNEL,)),),
            "events": not_created(9, 9, 9, 9, words="no"),
        },
        "ClaimMissing",
    ),
    "a template that was deleted after the claims were created from it": (
        {
            "pods": claiming(TEMPLATED),
            "claims": (ResourceClaim(NAMESPACE, "llm-0-made", (CHANNEL,)),),
        },
        "ClaimMissing",
    ),
    "a claim that is bound": (claimed(BOUND, StorageClass("fast")), "VolumeUnbound"),
    "a claim without a class that waits, and nothing is said of it": (
        claimed(VolumeClaim(NAMESPACE, "data", storage_class="late"), LATE),
        "VolumeUnbound",
    ),
}


@pytest.mark.parametrize(("changes", "id"), NONE.values(), ids=NONE)
def test_claims_that_keep_nobody(changes: Changes, id: str, answered: Asking) -> None:
    assert id not in {reason.id for reason in answered(facts(**changes)).reasons}


def test_claims_of_a_template_are_named_not_the_template() -> None:
    template = ClaimTemplate(NAMESPACE, "llm-0-template", ("no-such-class",))
    found = answer(facts(pods=NEW, claim_templates=(template,)))
    assert [reason.text for reason in found.reasons if reason.id == "DeviceClassMissing"] == [
        "DeviceClass no-such-class does not exist, so claims of ResourceClaimTemplate"
        " llm-0-template cannot be allocated"
    ]


REPLACED = {"pods": claiming(TEMPLATED), "claim_templates": TEMPLATES}
ELSEWHERE = {
    "pods": claiming(PodClaim("channel", "", "llm-0-template")),
    "compute_domains": (replace(DOMAIN, namespace="research"),),
}


@pytest.mark.parametrize(
    ("changes", "start", "who"),
    [
        (REPLACED, "Wait a minute: Kubernetes creates the claim again", "platform"),
        (ELSEWHERE, f"Create the ComputeDomain in namespace {NAMESPACE} too", "you"),
    ],
)
def test_nobody_is_told_to_write_an_object_that_a_controller_writes(
    changes: Changes, start: str, who: str
) -> None:
    (missing,) = (known for known in answer(facts(**changes)).reasons if known.id == "ClaimMissing")
    assert missing.remedy.startswith(start)
    assert missing.who == who


@pytest.mark.parametrize(
    ("users", "deleted", "begins"),
    [
        (("gone-0",), 7200, "Ask the platform team to read the log of kube-controller-manager"),
        (("gone-0", "gone-1"), 60, "Wait a minute: "),
        (("gone-0",), None, "Wait a minute: "),
        (("gone-0", "there"), 7200, ""),
        ((), 7200, ""),
    ],
)
def test_nobody_is_asked_to_release_channels_of_pods_that_are_gone(
    users: tuple[str, ...], deleted: float | None, begins: str, answered: Asking
) -> None:
    there = occupant("gpu-12", namespace="research", name="there", uid="uid-there", gpus=0)
    held = tuple(
        replace(
            claim,
            consumers=tuple(Consumer(name, f"uid-{name}") for name in users),
            deleting=None if deleted is None else NOW - deleted,
        )
        for claim in TAKEN["claims"]
    )
    reasons = answered(facts(**{**TAKEN, "claims": held, "pods": (*TAKEN["pods"], there)})).reasons
    (reason,) = [reason for reason in reasons if reason.id == "ChannelTaken"]
    assert reason.text.endswith(" are gone") is bool(begins)
    assert reason.remedy.startswith(begins)
    assert (reason.who == "platform") is bool(begins)


def claiming_one_gpu(claim: PodClaim) -> Changes:
    """Workers of one GPU, of which a node has room for eight, each with a claim for a channel."""
    small = tuple(replace(pod, shape=shape(1)) for pod in claiming(claim))
    return {**channels(), "pods": small}


@pytest.mark.parametrize(
    ("number", "has"),
    [
        (1, "only 1 usable node has a free channel"),
        (2, "only 2 usable nodes have a free channel"),
        (3, ""),
    ],
)
@pytest.mark.parametrize("name", [GROVE_CLAIM, "compute-domain-channel"])
def test_pods_that_would_fit_on_one_node_need_a_channel_each(
    number: int, has: str, name: str, answered: Asking
) -> None:
    state = {**claiming_one_gpu(replace(TEMPLATED, name=name)), "nodes": nodes()[:number]}
    reasons = answered(facts(**state)).reasons
    found = [reason for reason in reasons if reason.id == "ChannelTaken"]
    assert len(found) == bool(has)
    for reason in found:
        assert reason.text.startswith("3 pods of the gang must each get an NVLink channel")
        assert reason.text.endswith(f" and {has}")
        assert ("grove.io/mnnvl-group: none" in reason.remedy) is (name == GROVE_CLAIM)


def test_pods_beyond_the_minimum_may_wait_for_a_channel(answered: Asking) -> None:
    state = {**claiming_one_gpu(TEMPLATED), "nodes": nodes()[:1]}
    workers = frozenset(f"{WORKERS}-{number}" for number in range(3))
    parts = (GangPart(ROUTER, 1, frozenset({f"{ROUTER}-0"})), GangPart(WORKERS, 1, workers))
    elastic = {
        "gangs": (replace(gang(), parts=parts, groups=()),),
        "pod_groups": (replace(pod_group(), minimum=2, subgroups=()),),
    }
    reasons = answered(facts(**{**state, **elastic})).reasons
    assert not any(reason.id == "ChannelTaken" for reason in reasons)


@pytest.mark.parametrize(
    ("names", "remedy"),
    [
        (("mine", "other"), "Keep one of the claims mine and other in the pod template"),
        ((GROVE_CLAIM, "mine"), f"Remove one of the claims {GROVE_CLAIM} and mine. Grove adds"),
        (("mine",), ""),
    ],
)
def test_a_pod_gets_one_channel(names: tuple[str, ...], remedy: str, answered: Asking) -> None:
    claims = tuple(replace(TEMPLATED, name=name) for name in names)
    pods = tuple(replace(pod, claims=claims if pod.claims else ()) for pod in channels()["pods"])
    reasons = answered(facts(**{**channels(), "pods": pods})).reasons
    found = [reason for reason in reasons if reason.id == "ChannelTaken"]
    assert [reason.text for reason in found] == (
        ["3 pods claim 2 NVLink channels, but a node has only one"] if remedy else []
    )
    assert all(reason.remedy.startswith(remedy) for reason in found)


@pytest.mark.parametrize(
    ("driver", "deleted", "words"),
    [
        (
            "gpu.nvidia.com",
            7200,
            "Ask the platform team to read the log of kube-controller-manager",
        ),
        ("gpu.nvidia.com", 60, "Wait a minute: Kubernetes removes the reservation"),
        (
            "gpu.example.com",
            90000,
            "Ask the platform team to read the log of kube-controller-manager",
        ),
    ],
)
def test_gpus_of_claims_whose_pods_are_gone_are_released_by_kubernetes(
    driver: str, deleted: float, words: str, answered: Asking
) -> None:
    held = tuple(
        ResourceClaim(
            "old",
            f"old-{node.name}",
            (driver,),
            True,
            tuple(Device(driver, node.name, f"gpu-{at}") for at in range(8)),
            consumers=(Consumer("gone", "uid-gone"),),
            deleting=NOW - deleted,
        )
        for node in nodes()
    )
    mine = ResourceClaim(NAMESPACE, "llm-0-made", (driver,))
    bare = tuple(replace(node, allocatable={"cpu": 64_000, "pods": 110_000}) for node in nodes())
    state = {
        "nodes": bare,
        "slices": tuple(
            ResourceSlice(driver, node.name, 1, node.name, tuple(f"gpu-{at}" for at in range(8)))
            for node in nodes()
        ),
        "device_classes": (DeviceClass(driver, driver, driver),),
        "claims": (*held, mine),
        "claim_templates": (ClaimTemplate(NAMESPACE, "llm-0-template", (driver,)),),
        "pods": tuple(replace(pod, shape=shape(0)) for pod in claiming(TEMPLATED)),
    }
    first = answered(facts(**state)).reasons[0]
    assert first.id == "NoDomainFits"
    assert first.remedy.startswith(words)
    assert "ResourceClaims old/old-gpu-00, old/old-gpu-01 and 14 more hold devices" in first.remedy
