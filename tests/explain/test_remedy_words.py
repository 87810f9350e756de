"""What helps depends on who holds what is needed: hits and near misses, in the words of remedies."""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.output.text import reason_lines, tree_lines
from app.explain.state.index import Index
from app.facts.constraint import SchedulerConstraint
from app.facts.grove.podgang import GangPart
from app.facts.grove.topology import ClusterTopology
from app.facts.grove.unit_member import CLAIM
from app.facts.identity import Place, Ref
from app.facts.kai.podgroup import SubGroup
from app.facts.kai.queue import Queue
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.claim import ClaimTemplate, Consumer, Device, ResourceClaim
from app.facts.kubernetes.pod import PodClaim
from app.facts.kubernetes.selectors import Requirement
from app.facts.kubernetes.volume import StorageClass, VolumeClaim
from app.facts.kubernetes.workload import PriorityClass
from app.facts.labels import DRIVER_UPGRADES, KAI_CORDONS, NVSENTINEL_CORDON
from tests.explain.fleet import (
    GANG_REF,
    GPU,
    GROUP,
    NAMESPACE,
    NOW,
    RACK,
    RACKS,
    ROUTER,
    SET,
    SET_REF,
    WORKERS,
    ZONE,
    answer,
    condition,
    facts,
    fill,
    gang,
    nodes,
    occupant,
    pcs,
    placed,
    pod,
    pod_group,
    pods,
    shape,
)
from tests.explain.table.evictions import below
from tests.explain.table.placement import tolerating
from tests.explain.table.queues import SHARED, batch
from tests.explain.table.recorded import Asking
from tests.explain.table.rejected_constraints import IGNORED, dotted
from tests.explain.table.row import (
    CHANNEL,
    TEMPLATED,
    Changes,
    changed,
    channels,
    claiming,
    queues,
    reserved,
    using,
)
from tests.explain.table.words import UNBOUND, warned

pytestmark = pytest.mark.untraced

OTHER_GANG = Place(SET, "1", podgang="llm-1")


def own(*racks: str, but: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """Racks that another gang of the same set holds."""
    return tuple(
        replace(pod, namespace=NAMESPACE, place=OTHER_GANG, group="llm-1")
        for pod in fill(*racks, but=but)
    )


LAST = f"{WORKERS}-2, terminating for 10 minutes"


def ending(**changes: Any) -> Changes:
    """All pods but the last one run; it is terminating."""
    first, *others, last = placed("gpu-00", "gpu-01", "gpu-02", "gpu-03")
    return {"pods": (first, *others, replace(last, deleting=NOW - 600, **changes))}


def dead(name: str) -> tuple[Any, ...]:
    """All nodes, of which one is not ready."""
    return tuple(replace(node, ready=node.name != name) for node in nodes())


def own_channel(free: str) -> Changes:
    """A pod of the gang has the channel of a node that others of the gang would share."""
    claim = PodClaim("mnnvl", "llm-0-own", "llm-0-template")
    half = tuple(
        replace(pod, shape=shape(4)) if pod.place.clique == WORKERS else pod
        for pod in claiming(TEMPLATED)
    )
    runs = replace(half[1], node="gpu-12", phase="Running", claims=(claim,))
    taken = ResourceClaim(
        NAMESPACE,
        "llm-0-own",
        (CHANNEL,),
        True,
        (Device("compute-domain.nvidia.com", "gpu-12", "channel-0"),),
    )
    rest = fill(*RACKS, but=("gpu-12", free))
    return {
        **channels(),
        "pods": (half[0], runs, *half[2:], *rest, occupant(free, gpus=4)),
        "claims": (taken, ResourceClaim(NAMESPACE, "llm-0-made", (CHANNEL,))),
        "claim_templates": (ClaimTemplate(NAMESPACE, "llm-0-template", (CHANNEL,)),),
    }


def bound(*others: Any) -> Changes:
    """Two of three workers run in a rack that is full."""
    runs = placed("gpu-00", "gpu-01", "gpu-02")
    return {"pods": (*runs, pod(WORKERS, 2), *others)}


def unbound(*classes: StorageClass) -> Changes:
    claim = VolumeClaim(NAMESPACE, "data", storage_class="quick")
    return {
        "pods": pods(volumes=("data",)),
        "volume_claims": (claim,),
        "storage_classes": classes,
    }


def nothing(age: float) -> Changes:
    """Only the set."""
    return {
        "pods": (),
        "gangs": (),
        "cliques": (),
        "pod_groups": (),
        "sets": (pcs(created=NOW - age),),
    }


def bound_claim(node: str, *users: Any, name: str = "scratch", **changes: Any) -> Changes:
    """The workers that wait share a claim that is bound to a node, and that others use."""
    used = tuple(Consumer(pod.name, pod.uid) for pod in users)
    on_node = ((Requirement("metadata.name", "In", (node,)),),)
    stored = ResourceClaim(NAMESPACE, "shared", (CHANNEL,), True, nodes=on_node, consumers=used)
    return {"pods": (*claiming(PodClaim(name, "shared"), **changes), *users), "claims": (stored,)}


def held_by(**changes: Any) -> Changes:
    """The shared claim of the workers is reserved for another pod."""
    holder = occupant("gpu-15", namespace=NAMESPACE, name="old-0", uid="uid-old-0", **changes)
    return {
        "pods": (*claiming(PodClaim("mnnvl", "llm-0-mnnvl")), holder),
        "claims": (reserved("old-0"),),
    }


def reported(type: str, status: str, reason: str) -> Changes:
    """The set has this condition."""
    return {"sets": (pcs(conditions=(condition(type, status, reason),)),)}


EVICTABLE = {
    "pod_groups": (
        pod_group(priority_class="urgent"),
        replace(pod_group(), namespace="research", name="batch-eval", owners=(), subgroups=()),
    ),
    "priorities": (PriorityClass("urgent", 200),),
}
LOG = "Ask the platform team to read the log of Grove's operator"
REMEDIES: list[tuple[str, str, Changes, str]] = [
    (
        "GangStale",
        "KAI's default grace period applies",
        below(20),
        "Find out why the other pods do not run. To keep KAI from evicting this gang, set the annotation kai.scheduler/staleness-grace-period of the workload or its pods to -1s (KAI 0.17 or later), or ask the platform team to set default-staleness-grace-period: -1s in spec.args of the SchedulingShards",
    ),
    (
        "GangStale",
        "the PodGroup has a grace period of its own, so the default has no effect",
        below(20, grace=900),
        "Find out why the other pods do not run. To keep KAI from evicting this gang, set the annotation kai.scheduler/staleness-grace-period of the workload or its pods to -1s, or stalenessGracePeriod of PodGroup llm-0 if you created the PodGroup",
    ),
    (
        "LevelUnknown",
        "Grove says that a level is missing",
        reported("TopologyLevelsUnavailable", "True", "ClusterTopologyLevelsUnavailable"),
        "Use a level that exists. List the levels: grove-admission topology",
    ),
    (
        "LevelUnknown",
        "Grove says that the topology is missing",
        reported("TopologyLevelsUnavailable", "True", "ClusterTopologyNotFound"),
        "Check whether the topology exists: grove-admission topology. If not, ask the platform team to create it",
    ),
    (
        "LevelUnknown",
        "we say that topology support is disabled",
        reported("TopologyConstraintSatisfied", "False", "TopologyDisabled"),
        "Ask the platform team to enable topology support, or remove the constraints of the PodCliqueSet",
    ),
    (
        "NoDomainFits",
        "another gang of the set holds all",
        {"pods": (*pods(), *own(*RACKS))},
        "Use fewer replicas of PodCliqueSet llm, or ask the platform team for more nodes: batch-gpu-00-0, batch-gpu-01-0, batch-gpu-02-0 and batch-gpu-03-0 of the same workload hold the room and do not end. If the pods need each other, have them scheduled as one gang, so that none starts alone",
    ),
    (
        "NoDomainFits",
        "another gang of the set holds all but one node of the rack",
        {"pods": (*pods(), *own(*RACKS, but=("gpu-03",)), occupant("gpu-03"))},
        "Wait until PodGroup research/batch-eval (1 pod) ends and room for 3 more pods is free in zone-a/rack-a1. If it runs indefinitely, ask its owner to stop it. Or ask the owner of PodCliqueSet llm (3 pods) to scale down: the pods in zone-a/rack-a1 do not end by themselves",
    ),
    (
        "NoDomainFits",
        "a set of the same name in another namespace holds all",
        {"pods": (*pods(), *(replace(pod, namespace="research") for pod in own(*RACKS)))},
        "Ask the owner of PodCliqueSet research/llm (4 pods) to scale down: the pods in zone-a/rack-a1 do not end by themselves",
    ),
    (
        "NoDomainFits",
        "another gang of the set holds all, beside pods without GPUs",
        {"pods": (*pods(), *own(*RACKS), occupant("gpu-00", gpus=0))},
        "Use fewer replicas of PodCliqueSet llm, or ask the platform team for more nodes: batch-gpu-00-0, batch-gpu-01-0, batch-gpu-02-0 and batch-gpu-03-0 of the same workload hold the room and do not end. If the pods need each other, have them scheduled as one gang, so that none starts alone",
    ),
    (
        "BoundToDomain",
        "another gang of the set holds the rest of the rack",
        bound(*own("rack-a1", but=("gpu-01", "gpu-02"))),
        "Restart the gang, because its minimum would then fit: delete all of its pods together. Or use fewer replicas of PodCliqueSet llm, or ask the platform team for more nodes: batch-gpu-00-0 and batch-gpu-03-0 of the same workload hold the room and do not end. If the pods need each other, have them scheduled as one gang, so that none starts alone",
    ),
    (
        "BoundToDomain",
        "others hold one node of the rest of the rack",
        bound(*own("rack-a1", but=("gpu-00", "gpu-01", "gpu-02")), occupant("gpu-00")),
        "Restart the gang, because its minimum would then fit: delete all of its pods together. Or wait until PodGroup research/batch-eval (1 pod) ends and room for 1 more pod is free in zone-a/rack-a1. If it runs indefinitely, ask its owner to stop it. Or ask the owner of PodCliqueSet llm (1 pod) to scale down: the pods in zone-a/rack-a1 do not end by themselves",
    ),
    (
        "ChannelTaken",
        "others have the channels",
        channels("gpu-12", "gpu-13"),
        "Ask the owner of ResourceClaim sweep-3 to release its channel: a node has only one channel",
    ),
    (
        "ChannelTaken",
        "a pod of the gang has the channel",
        own_channel("gpu-13"),
        "Use one larger pod per node instead of several: a node has only one NVLink channel",
    ),
    (
        "ClaimHeld",
        "a pod of a Job is in its grace period",
        held_by(deleting=NOW + 20, finalizers=("batch.kubernetes.io/job-tracking",)),
        "Wait until pod old-0 has ended",
    ),
    (
        "ClaimHeld",
        "a pod does not end",
        held_by(deleting=NOW - 600),
        "Find out why pod old-0 does not end",
    ),
    (
        "ClaimHeld",
        "a finalizer keeps a pod",
        held_by(deleting=NOW - 600, finalizers=("example.com/slow",)),
        "Ask the owner of the finalizer example.com/slow to remove it",
    ),
    (
        "ClaimElsewhere",
        "our claim is bound to a node that the gang doesn't fit",
        bound_claim("gpu-00", name=CLAIM),
        "Ask the platform team to set mnnvl.claimMode: template, which creates a claim for each pod",
    ),
    (
        "ClaimElsewhere",
        "a claim of the user's is",
        bound_claim("gpu-00"),
        "Use a ResourceClaimTemplate, which creates a claim for each pod",
    ),
    (
        "ClaimElsewhere",
        "our claim is bound to a node that is gone",
        bound_claim("gpu-99", name=CLAIM),
        "Delete the claim: grove-admission creates a new one, which other nodes can get. Or ask the platform team to set mnnvl.claimMode: template, which creates a claim for each pod",
    ),
    (
        "ClaimElsewhere",
        "a claim of the user's is, and a pod there has it",
        bound_claim("gpu-99", occupant("gpu-99", namespace=NAMESPACE)),
        "Delete batch-gpu-99-0: the claim can then be allocated on other nodes. Or use a ResourceClaimTemplate, which creates a claim for each pod",
    ),
    (
        "ClaimElsewhere",
        "a claim of the user's is, and no pod there has it",
        bound_claim("gpu-99"),
        "Delete the claim and create it again, so that it can be allocated on other nodes. Or use a ResourceClaimTemplate, which creates a claim for each pod",
    ),
    (
        "ClaimElsewhere",
        "a claim of the user's is bound to a closed node",
        {
            **bound_claim("gpu-00", shape=shape(2)),
            "nodes": changed(("gpu-00",), unschedulable=True),
        },
        "Use a ResourceClaimTemplate, which creates a claim for each pod. Or ask the platform team to open gpu-00",
    ),
    (
        "ClaimElsewhere",
        "a claim of the user's is bound to a closed node that is too small",
        {**bound_claim("gpu-00"), "nodes": changed(("gpu-00",), unschedulable=True)},
        "Use a ResourceClaimTemplate, which creates a claim for each pod",
    ),
    (
        "VolumeUnbound",
        "there is no StorageClass",
        unbound(),
        "Ask the platform team for a StorageClass quick",
    ),
    (
        "VolumeUnbound",
        "there is another StorageClass",
        unbound(StorageClass("fast")),
        "Create the claim again with a StorageClass that exists",
    ),
    ("GangIncomplete", "a pod ends", ending(), f"Wait until Kubernetes has deleted {LAST}"),
    (
        "GangIncomplete",
        "a finalizer keeps a pod",
        ending(finalizers=("example.com/backup",)),
        f"Ask the owner of the finalizer example.com/backup to remove it from {LAST}",
    ),
    (
        "GangIncomplete",
        "two finalizers keep a pod",
        ending(finalizers=("example.com/a", "example.com/b")),
        f"Ask the owner of the finalizers example.com/a and example.com/b to remove them from {LAST}",
    ),
    (
        "GangIncomplete",
        "a pod can't end, because its node is dead",
        {**ending(), "nodes": dead("gpu-03")},
        f"Ask the platform team to repair gpu-03, or to delete it if it is gone for good (kubectl delete node gpu-03): Kubernetes then deletes {LAST}",
    ),
    ("NothingMade", "the set is new", nothing(59), f"Wait a minute: Grove usually needs seconds. If nothing changes, {LOG[:1].lower()}{LOG[1:]}"),
    ("NothingMade", "the set is a minute old", nothing(60), LOG),
    ("NoDomainFits", "KAI evicts nobody for a gang above its quota",
     {**EVICTABLE, "pods": (*pods(), *fill(*RACKS)), "queues": queues(quota=16_000)},
     "Wait until PodGroup research/batch-eval (4 pods) ends and room for 3 more pods is free in zone-a/rack-a1. If it runs indefinitely, ask its owner to stop it"),
    ("QueueLimit", "others of its queue have what it asks for", {"queues": queues(limit=64_000), **using(41)},
     "Wait until PodGroup research/held frees enough of the limit, or ask for a higher limit on queue team-llm"),
    ("QueueLimit", "it asks for more than the limit", {"queues": queues(limit=16_000)},
     "Request at most 16 GPUs, or ask for a higher limit on queue team-llm"),
    ("QueueLimit", "it asks for MIG devices, which KAI counts by their slices",
     {"queues": queues(limit=2_000), "pods": pods(shape=shape(0, **{"nvidia.com/mig-3g.40gb": 1}))},
     "Request MIG devices of at most 2 slices in total, or ask for a higher limit on queue team-llm"),
    ("QueueLimit", "the limit is zero", {"queues": queues(limit=0)}, "Ask for a higher limit on queue team-llm"),
    ("QueueLimit", "a limit is not set", {"queues": queues(limit=0, unset=("limit",))},
     "Ask the platform team to set limit of gpu in queue team-llm to -1 (unlimited)"),
]  # fmt: skip


def test_a_quota_that_is_set_stays(answered: Asking) -> None:
    reasons = answered(facts(queues=queues(limit=0, unset=("limit",)))).reasons
    [commands] = [reason.commands for reason in reasons if reason.id == "QueueLimit"]
    patch = '{"spec":{"resources":{"gpu":{"limit":-1}}}}'
    assert commands == (
        f"kubectl patch queues.scheduling.run.ai team-llm --type merge -p '{patch}'",
    )


def test_no_level_is_proposed_if_the_topology_has_none(answered: Asking) -> None:
    topology = ClusterTopology("ClusterTopology", "grove-topology", "uid-ct")
    reason, *others = answered(facts(topologies=(topology,))).reasons
    assert {each.id for each in others} == {"LevelUnknown"}
    assert (reason.text, reason.remedy) == (
        '"zone" is not a level of ClusterTopology grove-topology, which has no levels',
        "Remove spec.template.topologyConstraint.packDomain, or ask the platform team to define"
        " levels",
    )


def test_the_owners_of_several_finalizers_are_asked(answered: Asking) -> None:
    deleted = pcs(deleted_at=NOW - 300, finalizers=("example.com/hold", "example.com/keep"))
    [reason] = [
        each for each in answered(facts(sets=(deleted,))).reasons if each.id == "SetBeingDeleted"
    ]
    assert reason.remedy == (
        "Ask the owner of the finalizers example.com/hold and example.com/keep to remove them"
    )


def test_nobody_is_to_wait_for_pods_of_a_set_that_ends(answered: Asking) -> None:
    """As in a namespace that is deleted: Grove makes no other pods."""
    deleted = pcs(deleted_at=NOW - 300, finalizers=("example.com/hold",))
    reasons = answered(facts(**ending(), sets=(deleted,))).reasons
    assert [reason.id for reason in reasons] == ["SetBeingDeleted"]


@pytest.mark.parametrize(
    ("reason_id", "changes", "remedy"),
    [pytest.param(row[0], *row[2:], id=f"{row[0]}: {row[1]}") for row in REMEDIES],
)
def test_the_remedy_fits(reason_id: str, changes: Changes, remedy: str, answered: Asking) -> None:
    ref = SET_REF if reason_id == "NothingMade" else GANG_REF
    explained = answered(facts(**changes), ref)
    assert [reason.remedy for reason in explained.reasons if reason.id == reason_id] == [remedy]


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        pytest.param(
            {"pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-04")},
            "Delete all pods of replica llm-0-pool-0 together, so that KAI places all of them in one rack",
            id="placed at different times",
        ),
        pytest.param(
            {
                "nodes": dotted("zone-a.a", "1"),
                "pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-12"),
            },
            "Ask the platform team to rename the domains so that their names have no dots, then delete all pods of replica llm-0-pool-0 together",
            id="KAI takes both racks for one",
        ),
        pytest.param(
            IGNORED,
            "Set topologyConstraint.topology of PodGroup llm-0 to the name of a Topology (kubectl get topologies.kai.scheduler), then delete all pods of llm-0 together",
            id="the PodGroup names no topology",
        ),
        pytest.param(
            {
                "pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-04"),
                "pod_groups": (
                    pod_group(
                        subgroups=(
                            SubGroup(GROUP),
                            SubGroup(ROUTER, minimum=1),
                            SubGroup(WORKERS, GROUP, 3),
                        )
                    ),
                ),
            },
            "Ask the platform team to read the log of KAI's pod-grouper, which writes the PodGroup. Then delete all pods of replica llm-0-pool-0 together",
            id="the PodGroup lacks the level",
        ),
    ],
)
def test_what_mends_a_level_that_is_not_kept(
    changes: Changes, remedy: str, answered: Asking
) -> None:
    reasons = answered(facts(**changes), GANG_REF).reasons
    assert remedy in [reason.remedy for reason in reasons if reason.id == "RequiredViolated"]


CORDONED = {"nodes": tuple(replace(n, unschedulable=n.labels[RACK] == "rack-a1") for n in nodes())}
HELD = fill("rack-a2", "rack-b1", "rack-b2")


@pytest.mark.parametrize(
    ("changes", "first", "last"),
    [
        pytest.param({"pods": (*pods(), *HELD)}, "NodesUnfit", "NoDomainFits", id="others run"),
        pytest.param(
            {"pods": (*pods(), *(replace(pod, deleting=NOW) for pod in HELD))},
            "NoDomainFits",
            "NodesUnfit",
            id="others end",
        ),
        pytest.param(
            {"pods": (*pods(), *HELD), **EVICTABLE},
            "NoDomainFits",
            "NodesUnfit",
            id="KAI evicts them",
        ),
        pytest.param(
            {
                "pods": (*pods(), *HELD),
                "pod_groups": (pod_group(), batch("team-b")),
                "queues": SHARED,
            },
            "NoDomainFits",
            "NodesUnfit",
            id="KAI reclaims what they have",
        ),
    ],
)
def test_to_uncordon_is_the_first_remedy_unless_the_room_comes_by_itself(
    changes: Changes, first: str, last: str, answered: Asking
) -> None:
    reasons = answered(facts(**{**CORDONED, **changes})).reasons
    assert (reasons[0].id, reasons[-1].id) == (first, last)
    assert len({reason.id for reason in reasons}) == len(reasons)


@pytest.mark.parametrize(
    ("theirs", "remedy", "commands"),
    [
        ((), "Uncordon the nodes", ("kubectl uncordon gpu-00 gpu-01 gpu-02 gpu-03",)),
        (
            ("gpu-00", "gpu-01", "gpu-02", "gpu-03"),
            "Ask the platform team why KAI Resource Management moves nodes to another node pool (label kai.scheduler/unschedulable or kai.scheduler/to-exclude): the nodes leave this pool once its pods on them have ended",
            (),
        ),
        (
            ("gpu-00",),
            "Uncordon the nodes and ask the platform team why KAI Resource Management moves nodes to another node pool (label kai.scheduler/unschedulable or kai.scheduler/to-exclude): the nodes leave this pool once its pods on them have ended",
            ("kubectl uncordon gpu-01 gpu-02 gpu-03",),
        ),
    ],
)
def test_nobody_uncordons_what_kai_resource_management_moves(
    theirs: tuple[str, ...], remedy: str, commands: tuple[str, ...], answered: Asking
) -> None:
    marked = tuple(
        replace(n, labels={**n.labels, KAI_CORDONS[0]: ""}) if n.name in theirs else n
        for n in CORDONED["nodes"]
    )
    reasons = answered(facts(nodes=marked, pods=(*pods(), *HELD))).reasons
    (unfit,) = [reason for reason in reasons if reason.id == "NodesUnfit"]
    assert (unfit.remedy, unfit.commands) == (remedy, commands)


STATE = DRIVER_UPGRADES[0]


@pytest.mark.parametrize(
    ("labels", "remedy", "is_uncordoned"),
    [
        (
            {STATE: "drain-required"},
            "Wait until the GPU Operator has upgraded the driver on gpu-",
            False,
        ),
        ({STATE: "validation-required"}, "Wait until the GPU Operator has upgraded", False),
        (
            {STATE: "upgrade-failed"},
            "Find out why the driver upgrade failed on gpu-00, gpu-01, gpu-02 and 1 more (label"
            f" {STATE}): the GPU Operator uncordons a node once its driver pod is ready",
            False,
        ),
        ({STATE: "upgrade-done"}, "Uncordon the nodes", True),
        ({STATE: "upgrade-required"}, "Uncordon the nodes", True),
        (
            {NVSENTINEL_CORDON: "NVSentinel"},
            "Ask the platform team what NVSentinel found on gpu-00, gpu-01",
            False,
        ),
    ],
)
def test_nobody_uncordons_what_a_component_uncordons_later(
    labels: dict[str, str], remedy: str, is_uncordoned: bool, answered: Asking
) -> None:
    marked = tuple(replace(n, labels={**n.labels, **labels}) for n in CORDONED["nodes"])
    reasons = answered(facts(nodes=marked, pods=(*pods(), *HELD))).reasons
    (unfit,) = [reason for reason in reasons if reason.id == "NodesUnfit"]
    assert unfit.remedy.startswith(remedy)
    assert bool(unfit.commands) is is_uncordoned
    assert ("4 cordoned by " in unfit.text) is not is_uncordoned


@pytest.mark.parametrize("cordoned", [("gpu-00",), ("gpu-00", "gpu-07")])
def test_words_about_cordons_name_the_component_that_uncordons_nodes(
    cordoned: tuple[str, ...], answered: Asking
) -> None:
    marked = tuple(
        replace(n, labels={**n.labels, STATE: "drain-required"}, unschedulable=n.name in cordoned)
        for n in nodes()
    )
    waiting = pods(group="", scheduler="volcano")
    words = tuple(
        warned(each.ref, each.uid, "FailedScheduling", "2 were unschedulable", "volcano")
        for each in waiting
    )
    told = answered(facts(**{**UNBOUND, "nodes": marked, "pods": waiting, "events": words}))
    (reason,) = [reason for reason in told.reasons if reason.id == "SchedulerRefuses"]
    assert "Do not uncordon nodes that the GPU Operator has cordoned" in reason.remedy
    assert not any("uncordon" in command for command in reason.commands)


TO_KAI = "Set schedulerName: kai-scheduler in the pod templates of a new PodCliqueSet"
OLD = {"created": NOW - 800}


@pytest.mark.parametrize(
    ("backend", "scheduler", "to_kai"),
    [
        ("", "default-scheduler", True),
        ("default-scheduler", "default-scheduler", True),
        ("", "kai-schedular", True),
        ("", "team-x", False),
        ("team-x", "team-x", False),
        ("kueue", "default-scheduler", False),
    ],
)
def test_to_kai_go_only_pods_that_no_other_profile_of_grove_has(
    backend: str, scheduler: str, to_kai: bool, answered: Asking
) -> None:
    changes = {"pods": pods(scheduler=scheduler, **OLD), "gangs": (gang(scheduler=backend),)}
    reasons = answered(facts(**changes), GANG_REF).reasons
    remedies = [reason.remedy for reason in reasons]
    assert (TO_KAI in remedies) is to_kai
    if backend == "team-x":
        asks = "Ask the platform team whether team-x runs: Grove has a profile for it."
        assert asks in remedies


def test_a_scheduler_with_a_profile_of_grove_is_not_misspelt(answered: Asking) -> None:
    name = "kai-schedular"
    gangs = (gang(scheduler=name),)
    reasons = answered(facts(pods=pods(scheduler=name, **OLD), gangs=gangs), GANG_REF).reasons
    (silent,) = [reason for reason in reasons if reason.id == "SchedulerSilent"]
    assert "Did you mean" not in silent.text


@pytest.mark.parametrize(
    ("text", "line"), [("It waits", "  1  It waits."), ("Is it x?", "  1  Is it x?")]
)
def test_a_question_ends_with_its_mark_alone(text: str, line: str) -> None:
    reasons = answer(facts(pods=pods(scheduler="kai-schedular"))).reasons
    assert next(iter(reason_lines([replace(reasons[0], text=text)]))).startswith(f"{line} ")


TOLERATED = tolerating("node.kubernetes.io/unschedulable")
FOR_OTHERS = tuple(replace(each, scheduler="default-scheduler") for each in TOLERATED)


@pytest.mark.parametrize(
    ("waiting", "closed", "labels", "remedy", "commands"),
    [
        (
            TOLERATED,
            ("gpu-00", "gpu-01"),
            {},
            "Uncordon the nodes if KAI is older than 0.18",
            ("kubectl uncordon gpu-01",),
        ),
        (
            TOLERATED,
            ("gpu-00", "gpu-01"),
            {KAI_CORDONS[0]: ""},
            "Ask the platform team for other nodes if KAI is older than 0.18, because KAI Resource Management is moving these nodes to another pool",
            (),
        ),
        (TOLERATED, (), {}, None, ()),
        (tolerating(""), ("gpu-00",), {}, None, ()),
        (pods(), ("gpu-00",), {}, None, ()),
        (TOLERATED, ("gpu-15",), {}, None, ()),
        (FOR_OTHERS, ("gpu-00", "gpu-01"), {}, None, ()),
    ],
)
def test_a_place_on_nodes_whose_cordon_is_tolerated_is_told(
    waiting: tuple[Any, ...],
    closed: tuple[str, ...],
    labels: dict[str, str],
    remedy: str | None,
    commands: tuple[str, ...],
    answered: Asking,
) -> None:
    """Releases of KAI before 0.18 give such nodes to nobody."""
    fleet = tuple(
        replace(n, unschedulable=True, labels={**n.labels, **labels}) if n.name in closed else n
        for n in nodes()
    )
    told = answered(facts(nodes=fleet, pods=(*waiting, *HELD)))
    found = [reason for reason in told.reasons if reason.id == "NodesUnfit"]
    assert [(reason.severity, reason.remedy) for reason in found] == (
        [("note", remedy)] if remedy else []
    )
    assert [reason.commands for reason in found] == ([commands] if remedy else [])
    assert waiting is FOR_OTHERS or told.line[0].next == "next"


@pytest.mark.parametrize("labels", [{}, *({label: ""} for label in KAI_CORDONS)])
def test_words_about_cordons_name_those_of_kai_resource_management(
    labels: dict[str, str], answered: Asking
) -> None:
    marked = tuple(replace(n, labels={**n.labels, **labels}, unschedulable=True) for n in nodes())
    waiting = pods(group="", scheduler="volcano")
    words = tuple(
        warned(each.ref, each.uid, "FailedScheduling", "16 were unschedulable", "volcano")
        for each in waiting
    )
    reasons = answered(
        facts(**{**UNBOUND, "nodes": marked, "pods": waiting, "events": words})
    ).reasons
    remedies = [reason.remedy for reason in reasons if reason.id == "SchedulerRefuses"]
    assert [KAI_CORDONS[0] in remedy for remedy in remedies] == [bool(labels)]


QUEUE = "Set the label kai.scheduler/queue of the workload and spec.queue of its PodGroup to"
KEPT = "KAI does not update a PodGroup that exists"
PATCH = "kubectl patch podgroups.scheduling.run.ai llm-0 -n inference --type merge -p"
LABEL = "kubectl label podgroups.scheduling.run.ai llm-0 -n inference"
IN_POOL = tuple(replace(n, labels={**n.labels, "kai.scheduler/node-pool": "h100"}) for n in nodes())
OF_POOL = (Queue("h-root", pool="h100"), Queue("h-a", "h-root", pool="h100"))
ALONE = (Queue("root"), Queue("team-llm", "root"))


@pytest.mark.parametrize(
    ("changes", "remedy", "commands"),
    [
        pytest.param(
            {"pod_groups": (pod_group(queue="root"),)},
            f"{QUEUE} a usable queue (QUEUE): {KEPT}",
            [f"""{PATCH} '{{"spec":{{"queue":"QUEUE"}}}}'"""],
            id="one of several",
        ),
        pytest.param(
            {"pod_groups": (pod_group(queue="gone"),), "queues": (Queue("root", "root"),)},
            "Ask the platform team to create queue gone",
            [],
            id="no queue can be used",
        ),
        pytest.param(
            {"queues": (Queue("root"), Queue("team-llm", "a"), Queue("a", "team-llm"))},
            "Ask the platform team to correct spec.parentQueue of queue team-llm and of its parents: until then, no other queue helps",
            [],
            id="KAI hangs",
        ),
        pytest.param(
            {"pod_groups": (pod_group(pool="gold"),)},
            "Remove the label kai.scheduler/node-pool from the workload and its PodGroup: node pool gold has no nodes",
            [f"{LABEL} kai.scheduler/node-pool-"],
            id="a node pool without nodes",
        ),
        pytest.param(
            {"pod_groups": (pod_group(pool="h100"),), "nodes": IN_POOL, "queues": ALONE + OF_POOL},
            f"{QUEUE} h-a: {KEPT}",
            [f"""{PATCH} '{{"spec":{{"queue":"h-a"}}}}'"""],
            id="the pool has a queue",
        ),
        pytest.param(
            {"pod_groups": (pod_group(pool="h100"),), "nodes": IN_POOL, "queues": ALONE},
            "Label queues team-llm and root kai.scheduler/node-pool=h100",
            ["kubectl label queues.scheduling.run.ai team-llm root kai.scheduler/node-pool=h100"],
            id="nothing else uses the queue and its parents",
        ),
        pytest.param(
            {
                "pod_groups": (pod_group(pool="h100"),),
                "nodes": IN_POOL,
                "queues": (Queue("root"), Queue("team-llm", "root", pool="h100")),
            },
            "Label queue root kai.scheduler/node-pool=h100",
            ["kubectl label queues.scheduling.run.ai root kai.scheduler/node-pool=h100"],
            id="only the parent lacks the label",
        ),
        pytest.param(
            {"queues": (Queue("root", pool="h100"), Queue("team-llm", "root"))},
            "Remove the label kai.scheduler/node-pool from root",
            ["kubectl label queues.scheduling.run.ai root kai.scheduler/node-pool-"],
            id="only the parent has the label",
        ),
        pytest.param(
            {
                "queues": (
                    Queue("root", pool="h100"),
                    Queue("team-llm", "root"),
                    Queue("other", "root", pool="h100"),
                ),
            },
            "Ask the platform team for another queue above team-llm: other workloads need root unchanged",
            [],
            id="the parent is needed in the other pool",
        ),
        pytest.param(
            {"queues": (Queue("team-llm", "gone"),)},
            "Ask the platform team to create queue gone, or to correct spec.parentQueue of team-llm",
            [],
            id="there is no parent",
        ),
        pytest.param(
            {"pod_groups": (pod_group(pool="h100"),), "nodes": IN_POOL},
            "Ask the platform team for a queue with the label kai.scheduler/node-pool=h100",
            [],
            id="another queue is below the same parent, and no node is without a pool",
        ),
        pytest.param(
            {"pod_groups": (pod_group(pool="h100"),), "nodes": (*IN_POOL[:8], *nodes()[8:])},
            "Remove the label kai.scheduler/node-pool from the workload and its PodGroup, or ask the platform team for a queue with the label kai.scheduler/node-pool=h100",
            [f"{LABEL} kai.scheduler/node-pool-"],
            id="another queue is below the same parent",
        ),
        pytest.param(
            {"pod_groups": (pod_group(pool="h100"),), "skipped": frozenset({"nodes"})},
            "Remove the label kai.scheduler/node-pool from the workload and its PodGroup, or ask the platform team for a queue with the label kai.scheduler/node-pool=h100",
            [f"{LABEL} kai.scheduler/node-pool-"],
            id="nobody knows the nodes",
        ),
    ],
)
def test_a_queue_that_kai_does_not_use_has_a_remedy_that_it_can_use(
    changes: Changes, remedy: str, commands: list[str], answered: Asking
) -> None:
    [reason] = [each for each in answered(facts(**changes)).reasons if each.id == "QueueMissing"]
    assert (reason.remedy, list(reason.commands)) == (remedy, commands)


def test_gangs_that_are_alike_have_holders_of_their_own() -> None:
    """Another set has a gang that is alike, and is asked about first, with the same index."""
    like = Place("chat", "0", podgang="chat-0")
    others = tuple(
        replace(pod, name=f"chat-{pod.name}", uid=f"chat-{pod.uid}", place=like, group="")
        for pod in pods()
    )
    snapshot = facts(
        sets=(pcs(), replace(pcs(), name="chat")),
        gangs=(gang(), gang(name="chat-0", uid="uid-chat", place=Place("chat"))),
        pods=(*pods(), *others, *own(*RACKS)),
    )
    index = Index(snapshot)
    said = [explain(index, Ref("PodGang", NAMESPACE, name)) for name in ("llm-0", "chat-0")]
    remedies = [
        reason.remedy
        for each in said
        if each
        for reason in each.reasons
        if reason.id == "NoDomainFits"
    ]
    assert remedies == [
        "Use fewer replicas of PodCliqueSet llm, or ask the platform team for more nodes: batch-gpu-00-0, batch-gpu-01-0, batch-gpu-02-0 and batch-gpu-03-0 of the same workload hold the room and do not end. If the pods need each other, have them scheduled as one gang, so that none starts alone",
        "Ask the owner of PodCliqueSet llm (4 pods) to scale down: the pods in zone-a/rack-a1 do not end by themselves",
    ]


def test_a_gang_that_never_fits_is_called_by_its_own_name() -> None:
    """Another set has a gang that is alike, and is asked about first, with the same index."""
    asks = (GangPart("llm-0-a", 5),)
    like = tuple(
        replace(
            gang(name=f"{name}-0", uid=f"uid-{name}", parts=(replace(asks[0], name=f"{name}-a"),)),
            groups=(),
            place=Place(name),
        )
        for name in (SET, "chat")
    )
    workers = tuple(
        pod(
            WORKERS,
            number,
            name=f"{name}-{number}",
            uid=f"{name}-{number}",
            place=Place(name, "0", clique=f"{name}-a", podgang=f"{name}-0"),
            group="",
            shape=shape(16),
        )
        for name in (SET, "chat")
        for number in range(5)
    )
    large = tuple(
        replace(node, allocatable={**node.allocatable, GPU: 16_000}) for node in nodes()[:2]
    )
    sets = (pcs(), replace(pcs(), name="chat"))
    index = Index(facts(sets=sets, gangs=like, pods=workers, cliques=(), nodes=large))
    texts = [
        reason.text
        for name in ("llm-0", "chat-0")
        if (said := explain(index, Ref("PodGang", NAMESPACE, name)))
        for reason in said.reasons
        if reason.id == "NeverFits"
    ]
    needs = "The zone with the most room (zone-a) has 32 GPUs, but {} needs 80 GPUs"
    assert texts == [needs.format("llm-0"), needs.format("chat-0")]


RUNS = {"pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")}
GROUPED: Changes = {
    "sets": (),
    "gangs": (),
    "cliques": (),
    "pods": tuple(replace(pod, place=Place()) for pod in pods()),
    "pod_groups": (pod_group(owners=(), subgroups=(), told=SchedulerConstraint("k/block")),),
}


@pytest.mark.parametrize(
    ("others", "remedy"),
    [
        ((), "Request a level of this Topology"),
        (
            (KaiTopology("other", ("k/block", ZONE)),),
            "Request a level of this Topology, or name Topology other, which has this level",
        ),
        (
            (KaiTopology("a", ("k/block", ZONE)), KaiTopology("b", ("k/block",))),
            "Request a level of this Topology, or name another Topology that has this level: a and b",
        ),
    ],
)
def test_who_makes_a_podgroup_corrects_its_level(
    others: tuple[KaiTopology, ...], remedy: str, answered: Asking
) -> None:
    """Nobody writes the levels of a Topology for a PodGroup that Grove does not make."""
    snapshot = facts(**GROUPED, kai_topologies=(*facts().kai_topologies, *others))
    explained = answered(snapshot, Ref("PodGroup", NAMESPACE, "llm-0"))
    reasons = [
        (reason.remedy, reason.who) for reason in explained.reasons if reason.id == "LevelUnknown"
    ]
    assert reasons == [(remedy, "you")]


USES: list[tuple[str, Changes, str]] = [
    ("pods run, and the status of the queue has nothing", RUNS, "unlimited quota, used 24"),
    ("no pod runs", {}, "unlimited quota, used 0"),
    (
        "the status says more",
        {**RUNS, "queues": queues(allocated=64_000)},
        "unlimited quota, used 24",
    ),
    (
        "pods of other namespaces can't be seen, so the status counts",
        {"unseen": {"room": "forbidden"}, "queues": queues(allocated=64_000)},
        "unlimited quota, used 64",
    ),
    (
        "pods without GPUs run",
        {"pods": placed("gpu-00")},
        "unlimited quota, used 0",
    ),
    (
        "pods of another queue run",
        {"pods": (*pods(), *fill("rack-a1")), "gangs": (gang(told=SchedulerConstraint()),)},
        "unlimited quota, used 0",
    ),
]


@pytest.mark.parametrize(("changes", "words"), [pytest.param(*row[1:], id=row[0]) for row in USES])
def test_the_use_of_a_queue_is_not_0_if_pods_run_in_it(changes: Changes, words: str) -> None:
    lines = tree_lines(
        answer(facts(**changes), GANG_REF).tree, everything=False, colour=False, width=0
    )
    [line] = [line for line in lines if "Queue team-llm" in line]
    assert f"root/team-llm: {words}  " in line


def test_queues_of_other_names_have_their_own_use() -> None:
    explained = answer(facts(**RUNS, queues=(Queue("team-llm", allocated=8_000),)), GANG_REF)
    assert "team-llm: unlimited quota, used 24" in str(explained.tree)
