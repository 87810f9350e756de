"""Reasons in claims, device classes and ComputeDomains."""

from msgspec.structs import replace

from app.explain.reasons.claims import CHANNEL_DRIVER
from app.facts.grove.podcliqueset import read_pod_clique_set
from app.facts.grove.unit_member import Unclaimed
from app.facts.kubernetes.claim import ClaimTemplate, DeviceClass, ResourceSlice
from app.facts.kubernetes.pod import PodClaim
from app.facts.kubernetes.selectors import Requirement
from app.facts.labels import NVLINK_DOMAIN
from app.rules.mnnvl.missing_claims import read_clique
from app.rules.mnnvl.sets import GROVE_FINALIZER
from tests.explain.fleet import (
    NAMESPACE,
    NOW,
    PLACE,
    WORKERS,
    cliques,
    nodes,
    occupant,
    pcs,
    placed,
    pods,
)
from tests.explain.table.row import (
    ALL_WANT,
    CHANNEL,
    CLAIM,
    ONE_NODE,
    ONE_RACK,
    SHARED,
    TEMPLATED,
    Changes,
    Row,
    channels,
    claiming,
    domain,
    reserved,
)

USED = replace(reserved(f"{WORKERS}-0"), deleting=NOW - 600)
"""The shared claim, which is being deleted while a pod uses it."""
USERS = tuple(
    replace(pod, node="gpu-00", phase="Running") if pod.name == f"{WORKERS}-0" else pod
    for pod in claiming(SHARED)
)
MNNVL = {"grove.io/mnnvl-enabled": "true"}
STORED = read_pod_clique_set(
    {"metadata": {"namespace": NAMESPACE, "name": "llm", "annotations": MNNVL}}
)


def written(name: str, **annotations: str) -> Unclaimed | None:
    """What decides whether the stored workers should have a claim: without one."""
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    labels = {
        "app.kubernetes.io/part-of": "llm",
        "grove.io/podcliqueset-replica-index": "0",
    }
    clique = read_clique(
        {
            "metadata": {
                "namespace": NAMESPACE,
                "name": name,
                "labels": labels,
                "annotations": annotations,
            },
            "spec": {"podSpec": {"containers": [container]}},
        }
    )
    return clique if isinstance(clique, Unclaimed) else None


NO_NODE = ((Requirement("metadata.name", "In", ("gpu-99",)),),)
OF_GROVE = PodClaim(CLAIM.name, CLAIM.name)
"""How pods use a claim of resourceSharing: Grove gives the entry the name of the claim."""

REFUSES = {"grove.io/mnnvl-enabled": "false"}

BY_NAME = domain("gpu-00", "gpu-01", number=3)
"""The designs' claim by name, of a ComputeDomain that waits for a third node."""
BY_NAME |= {
    "pods": tuple(
        replace(pod, claims=(PodClaim("mnnvl", "llm-0-mnnvl-claim"),)) for pod in BY_NAME["pods"]
    ),
    "claims": (replace(CLAIM, name="llm-0-mnnvl-claim", allocated=True),),
}
NAMING = domain("gpu-00", "gpu-01")
"""A claim of a user, whose configuration names the ComputeDomain."""
NAMING |= {
    "pods": tuple(
        replace(
            pod,
            claims=(PodClaim("channel", "own"),),
            phase="Running" if pod.node in ("gpu-00", "gpu-01") else "Pending",
            waiting=(),
        )
        for pod in NAMING["pods"]
    ),
    "claims": (replace(CLAIM, name="own", domain="uid-cd", allocated=True),),
}
RUN = tuple(replace(pod, phase="Running") for pod in NAMING["pods"])


def in_nvlink(domains: int) -> Changes:
    """All nodes, dealt out to some NVLink domains in turn."""
    values = ((node, f"c.{number % domains}") for number, node in enumerate(nodes()))
    dealt = (replace(n, labels={**n.labels, NVLINK_DOMAIN: value}) for n, value in values)
    return {"nodes": tuple(dealt)}


READY = domain("gpu-00", "gpu-01", "gpu-02", "gpu-03")
TO_PLACE = {**READY, "pods": pods(claims=(TEMPLATED,))}
APART = "Pods share memory over NVLink only within one NVLink domain"

CLAIMS = (
    Row(
        "ClaimBeingDeleted",
        "a pod that runs keeps the claim that others wait for",
        {"pods": USERS, "claims": (USED,)},
        "ResourceClaim llm-0-mnnvl is being deleted, but 1 pod still uses it, so no other pod can use it",
        "you",
        {"pods": USERS, "claims": (replace(USED, deleting=None),)},
    ),
    Row(
        "ClaimNotInjected",
        "no webhook answered when the PodClique was written",
        {
            "sets": (pcs(mnnvl=STORED.mnnvl),),
            "cliques": (cliques()[0], replace(cliques()[1], unclaimed=written(WORKERS))),
            "pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-02"),
        },
        "PodClique llm-0-pool-0-workers requests MNNVL but has no claim; 3 of its pods run outside the NVLink domain",
        "platform",
        {
            "sets": (pcs(mnnvl=STORED.mnnvl),),
            "cliques": (cliques()[0], replace(cliques()[1], unclaimed=written(WORKERS, **REFUSES))),
            "pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-02"),
        },
        dialects=("design",),
    ),
    Row(
        "ClaimNotInPods",
        "the claim came back into the PodClique, and its pods are older",
        {
            "cliques": (cliques()[0], replace(cliques()[1], claims=(SHARED,))),
            "pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-02"),
            "claims": (CLAIM,),
        },
        "3 pods of PodClique llm-0-pool-0-workers run without its claim, outside the NVLink domain",
        "you",
        {
            "cliques": (cliques()[0], replace(cliques()[1], claims=(SHARED,))),
            "pods": tuple(replace(pod, node="") for pod in placed("gpu-00")),
            "claims": (CLAIM,),
        },
    ),
    Row(
        "ClaimMissing",
        "the shared claim does not exist",
        {"pods": claiming(SHARED)},
        "ResourceClaim llm-0-mnnvl does not exist",
        "platform",
        {"pods": claiming(SHARED), "claims": (CLAIM,)},
    ),
    Row(
        "ClaimMissing",
        "a claim of the user's own does not exist",
        {"pods": claiming(PodClaim("scratch", "my-scratch"))},
        "ResourceClaim my-scratch does not exist",
        "you",
        {
            "pods": claiming(PodClaim("scratch", "my-scratch")),
            "claims": (replace(CLAIM, name="my-scratch"),),
        },
    ),
    Row(
        "ClaimMissing",
        "the template does not exist, and no pod is made yet",
        {"pods": (), "cliques": (cliques()[0], replace(cliques()[1], claims=(TEMPLATED,)))},
        "ResourceClaimTemplate llm-0-template does not exist",
        "platform",
        {
            "pods": (),
            "cliques": (
                cliques()[0],
                replace(cliques()[1], claims=(PodClaim("x", "", "llm-0-template"),)),
            ),
            "claim_templates": (ClaimTemplate(NAMESPACE, "llm-0-template"),),
        },
        also=("GangIncomplete",),
    ),
    Row(
        "DeviceClassMissing",
        "the claim names a class that nobody has",
        {
            "pods": claiming(SHARED),
            "claims": (replace(CLAIM, classes=("compute-domain.nvidia.com",)),),
        },
        "DeviceClass compute-domain.nvidia.com does not exist, so ResourceClaim llm-0-mnnvl cannot be allocated",
        "platform",
        {"pods": claiming(SHARED), "claims": (CLAIM,)},
    ),
    Row(
        "DeviceClassMissing",
        "no node offers devices of the driver",
        {
            "pods": claiming(SHARED),
            "claims": (replace(CLAIM, classes=(CHANNEL,), allocated=False),),
            "device_classes": (DeviceClass(CHANNEL, driver="compute-domain.nvidia.com"),),
        },
        f"No node offers devices of DeviceClass {CHANNEL}: there is no ResourceSlice of driver compute-domain.nvidia.com, so ResourceClaim llm-0-mnnvl cannot be allocated",
        "platform",
        {
            "pods": claiming(SHARED),
            "claims": (replace(CLAIM, classes=(CHANNEL,), allocated=False),),
            "device_classes": (DeviceClass(CHANNEL, driver="compute-domain.nvidia.com"),),
            "slices": (ResourceSlice("compute-domain.nvidia.com", "gpu-00", 1, "gpu-00", ()),),
        },
    ),
    Row(
        "ClaimQueue",
        "a claim of GPUs that pods share has the label of another queue",
        {
            "pods": claiming(PodClaim("scratch", "my-gpus")),
            "claims": (
                replace(CLAIM, name="my-gpus", classes=("gpu.nvidia.com",), queue="team-b"),
            ),
            "device_classes": (DeviceClass("gpu.nvidia.com"),),
        },
        "ResourceClaim my-gpus, which pods share, requests GPUs and has the label of queue team-b, so KAI places only pods of that queue with it",
        "you",
        {
            "pods": claiming(PodClaim("scratch", "my-gpus")),
            "claims": (
                replace(CLAIM, name="my-gpus", classes=("gpu.nvidia.com",), queue="team-llm"),
            ),
            "device_classes": (DeviceClass("gpu.nvidia.com"),),
        },
    ),
    Row(
        "ClaimElsewhere",
        "the shared claim is bound to one node",
        {"pods": claiming(SHARED), "claims": (replace(CLAIM, allocated=True, nodes=ONE_NODE),)},
        "ResourceClaim llm-0-mnnvl is allocated on gpu-00, so 3 pending pods must go there, but the gang does not fit there",
        "platform",
        {"pods": claiming(SHARED), "claims": (replace(CLAIM, allocated=True, nodes=ONE_RACK),)},
    ),
    Row(
        "ClaimElsewhere",
        "a claim that Grove shares is bound to one node",
        {
            "pods": claiming(OF_GROVE),
            "claims": (replace(CLAIM, allocated=True, nodes=ONE_NODE, place=PLACE),),
        },
        "ResourceClaim llm-0-mnnvl is allocated on gpu-00, so 3 pending pods must go there, but the gang does not fit there",
        "you",
        {
            "pods": claiming(OF_GROVE),
            "claims": (replace(CLAIM, allocated=True, nodes=ONE_RACK, place=PLACE),),
        },
    ),
    Row(
        "ClaimElsewhere",
        "a claim that Grove shares is bound to a node that is gone",
        {
            "pods": claiming(OF_GROVE),
            "claims": (replace(CLAIM, allocated=True, nodes=NO_NODE, place=PLACE),),
        },
        "ResourceClaim llm-0-mnnvl is allocated on a node that is gone, so 3 pending pods cannot be placed",
        "you",
        {
            "pods": claiming(OF_GROVE),
            "claims": (replace(CLAIM, allocated=True, nodes=ONE_RACK, place=PLACE),),
        },
    ),
    Row(
        "ClaimHeld",
        "a pod that is terminating holds it",
        {
            "pods": (
                *claiming(SHARED),
                occupant(
                    "gpu-15",
                    namespace=NAMESPACE,
                    name="old-0",
                    uid="uid-old-0",
                    deleting=NOW - 840,
                    finalizers=("example.com/slow",),
                ),
            ),
            "claims": (reserved("old-0"),),
        },
        "ResourceClaim llm-0-mnnvl is reserved for pod old-0, which has been terminating for 14 minutes (finalizer example.com/slow)",
        "you",
        {
            "pods": (
                *claiming(SHARED),
                occupant("gpu-15", namespace=NAMESPACE, name="old-0", uid="uid-old-0"),
            ),
            "claims": (reserved("old-0"),),
        },
    ),
    Row(
        "ClaimHeld",
        "a pod that is terminating without a finalizer holds it",
        {
            "pods": (
                *claiming(SHARED),
                occupant(
                    "gpu-15", namespace=NAMESPACE, name="old-0", uid="uid-old-0", deleting=NOW - 840
                ),
            ),
            "claims": (reserved("old-0"),),
        },
        "ResourceClaim llm-0-mnnvl is reserved for pod old-0, which has been terminating for 14 minutes",
        "you",
        {"pods": claiming(SHARED), "claims": (reserved(),)},
    ),
    Row(
        "ClaimHeld",
        "a pod that is gone holds it",
        {"pods": claiming(SHARED), "claims": (reserved("gone-0"),)},
        "ResourceClaim llm-0-mnnvl is reserved for pod gone-0, which does not exist any more",
        "you",
        {"pods": claiming(SHARED), "claims": (reserved(f"{WORKERS}-0"),)},
    ),
    Row(
        "ClaimFull",
        "254 others and three workers want it",
        {
            "pods": (
                *claiming(SHARED),
                *(
                    occupant("gpu-15", n, 0, namespace=NAMESPACE, claims=(SHARED,))
                    for n in range(254)
                ),
            ),
            "claims": (reserved(*(f"batch-gpu-15-{n}" for n in range(254))),),
        },
        "257 pods use ResourceClaim llm-0-mnnvl, but Kubernetes reserves a claim for at most 256 pods. It is reserved for 254 now",
        "you",
        {
            "pods": (
                *claiming(SHARED),
                *(
                    occupant("gpu-15", n, 0, namespace=NAMESPACE, claims=(SHARED,))
                    for n in range(253)
                ),
            ),
            "claims": (reserved(*(f"batch-gpu-15-{n}" for n in range(253))),),
        },
    ),
    Row(
        "ChannelTaken",
        "two nodes of the only free rack have given their channel away",
        channels("gpu-12", "gpu-13"),
        "The NVLink channels of 2 of 16 nodes are allocated to ResourceClaim sweep-3",
        "you",
        channels("gpu-12"),
    ),
    Row(
        "ChannelTaken",
        "NVIDIA's driver runs on no node of the only free rack",
        {**ALL_WANT, "slices": (ResourceSlice(CHANNEL_DRIVER, "gpu-00", 1, "gpu-00", ()),)},
        "gpu-13, gpu-14 and gpu-15 have no ResourceSlice of driver compute-domain.nvidia.com, so no NVLink channel can be allocated there, and the gang does not fit on the other nodes",
        "platform",
        ALL_WANT,
    ),
    Row(
        "DomainDeleted",
        "Grove's finalizer keeps what somebody has deleted",
        domain("gpu-00", "gpu-01", "gpu-02", "gpu-03", held_by=(GROVE_FINALIZER,)),
        "ComputeDomain llm-0-cd is being deleted, but Grove's finalizer keeps it, so Grove does not create another one",
        "platform",
        domain("gpu-00", "gpu-01", "gpu-02", "gpu-03"),
        also=("NotAsPreferred",),
    ),
    Row(
        "DomainDeleted",
        "somebody else's finalizer keeps it, and pods use it",
        domain("gpu-00", "gpu-01", "gpu-02", "gpu-03", held_by=("example.com/other",)),
        "ComputeDomain llm-0-cd is being deleted, and finalizer example.com/other keeps it. llm-0-pool-0-workers-0, llm-0-pool-0-workers-1, llm-0-pool-0-workers-2 and llm-0-router-0 still use it",
        "you",
        domain("gpu-00", "gpu-01", "gpu-02", "gpu-03"),
        also=("NotAsPreferred",),
    ),
    Row(
        "DomainNotReady",
        "two of four nodes are ready",
        domain("gpu-00", "gpu-01"),
        "ComputeDomain llm-0-cd: 2 of 4 nodes are ready, not gpu-02 and gpu-03. No daemon pod is on gpu-02 and gpu-03",
        "platform",
        domain("gpu-00", "gpu-01", "gpu-02", "gpu-03"),
        also=("NotAsPreferred",),
    ),
    Row(
        "DomainNotReady",
        "a claim by name, of the plan's names, and one node that is missing",
        BY_NAME,
        "ComputeDomain llm-0-cd: 2 of 4 nodes are ready, not gpu-02 and gpu-03. No daemon pod is on gpu-02 and gpu-03",
        "platform",
        {**BY_NAME, "claims": (replace(BY_NAME["claims"][0], domain="uid-of-another"),)},
        also=("NotAsPreferred",),
    ),
    Row(
        "DomainNotReady",
        "a claim that names its ComputeDomain, and pods without a state",
        NAMING,
        "ComputeDomain llm-0-cd: 2 of 4 nodes are ready, not gpu-02 and gpu-03. No daemon pod is on gpu-02 and gpu-03",
        "platform",
        {**NAMING, "claims": (replace(CLAIM, name="own", domain="uid-other", allocated=True),)},
        also=("NotAsPreferred",),
    ),
    Row(
        "DomainNotReady",
        "two of four nodes are ready, and all pods run",
        {**NAMING, "pods": RUN},
        "ComputeDomain llm-0-cd is not ready: 2 of 4 nodes are ready, not gpu-02 and gpu-03. No pod waits for it: its 4 pods run",
        "platform",
        {**domain("gpu-00", "gpu-01", "gpu-02", "gpu-03"), "pods": RUN},
        also=("NotAsPreferred",),
    ),
    Row(
        "NvlinkSplit",
        "pods of a ComputeDomain are in two NVLink domains",
        {**READY, **in_nvlink(2)},
        f"4 pods of ComputeDomain llm-0-cd are in 2 NVLink domains (nvidia.com/gpu.clique): c.0 (2 pods) and c.1 (2 pods). {APART}",
        "you",
        {**READY, **in_nvlink(1)},
        also=("NotAsPreferred",),
    ),
    Row(
        "NvlinkSplit",
        "KAI would place them in two",
        {**TO_PLACE, **in_nvlink(2)},
        f"KAI would place the pods of ComputeDomain llm-0-cd in 2 NVLink domains (nvidia.com/gpu.clique): c.0 and c.1. {APART}",
        "you",
        {**TO_PLACE, **in_nvlink(1)},
    ),
    Row(
        "NvlinkSplit",
        "no NVLink domain has a node for each pod",
        {**TO_PLACE, **in_nvlink(16)},
        f"4 pods of ComputeDomain llm-0-cd need a node each, and the largest NVLink domain (nvidia.com/gpu.clique) has 1 node. {APART}",
        "you",
        {**TO_PLACE, **in_nvlink(1)},
    ),
)
