"""Which reasons give a command, why the others have only words, and what a command looks like.

`tests/integration/test_remedy_commands.py` carries the commands out.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from msgspec.structs import replace

from app.explain.reasons.reason import Reason
from app.explain.reasons.table import RULES
from app.facts.grove.unit_member import CLAIM
from app.facts.kai.queue import Queue
from app.facts.kubernetes.claim import Consumer, ResourceClaim
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import PodClaim
from app.facts.kubernetes.selectors import Requirement
from app.facts.labels import NVLINK_DOMAIN
from tests.explain.commands import kubectl_commands, parsed, placeholders
from tests.explain.decisions.recording import recordings
from tests.explain.fleet import (
    HOST,
    NAMESPACE,
    RACK,
    ZONE,
    answer,
    facts,
    fill,
    nodes,
    occupant,
    placed,
    pod_group,
    pods,
)
from tests.explain.table.row import CHANNEL, Changes, claiming, domain, labelled, without
from tests.explain.test_reasons import ROWS, start


def _bare(*names: str) -> tuple[Node, ...]:
    """The nodes, some of them without the labels of levels."""
    return tuple(replace(n, labels={HOST: n.name}) if n.name in names else n for n in nodes())


WORDS = {
    "BackgroundPods": "a note: what runs such pods is another program",
    "KaiMissing": "an installation",
    "GroveMissing": "an installation",
    "DeviceClassMissing": "an installation",
    "GpuMemoryUnknown": "an installation",
    "TopologyUnnamed": "`doctor` examines the installation",
    "TopologyDiffers": "`doctor` examines the installation",
    "GangUnconstrained": "`doctor` examines the installation",
    "ClaimNotInjected": "the leader restores the claim of a PodClique",
    "SetBeingDeleted": "only its owner knows what a finalizer keeps",
    "GateForeign": "only its owner knows what a gate waits for",
    "NothingMade": "the log of a controller, whose Pod has another name everywhere",
    "PodGangMissing": "the log of a controller",
    "GateBaseMissing": "the log of a controller",
    "GateNotInGang": "it ends by itself, or the log of a controller says why not",
    "GateOpens": "it ends by itself, or the log of a controller says why not",
    "QueueStatusStale": "the log of a controller",
    "PodGangMigrationInProgress": "it ends by itself",
    "NodesComing": "it ends by itself",
    "LowerPriority": "it ends by itself",
    "FairShare": "it ends by itself",
    "PreemptionDelay": "it ends by itself",
    "AfterOthers": "it ends by itself, or another workload must be corrected",
    "GateBaseGang": "`explain` of the gang that it waits for",
    "OtherResource": "the template of a workload, or its owner",
    "WorkloadMissing": "what is missing has no manifest here",
    "LevelUnknown": "the level is chosen by who asks for it",
    "MinAboveReplicas": "the number is chosen by who asks for it, in a list of cliques",
    "WrongScheduler": "the pod template has to change, and is made by another program",
    "SchedulerSilent": "the pod template has to change, or a scheduler to be started",
    "PreferredBroader": "the constraint is in a template, in a list of cliques",
    "SharedNarrowerDomain": "the constraint is in a template, in a list of cliques",
    "SizesDiffer": "the constraint is in a template, in a list of cliques",
    "VolumeElsewhere": "the data of a volume is somebody's own, and pods of others have to end",
    "NoNodeMatches": "the selector is in a pod template",
    "ClaimFull": "the kind of claim is in a pod template",
    "ChannelTaken": "pods of others have to end",
    "WithinQuota": "the quotas of several queues are shared out again",
    "NoNodeGroupHelps": "the node groups are settings of a cloud",
    "PoolNotChosen": "projects are settings of another product",
    "DomainDeadlock": "a ComputeDomain can't be changed: it is made again by its manifest",
    "DomainsJoined": "labels of all nodes of a domain, whose names the platform team chooses",
    "NotATree": "labels of all nodes of a domain, or the levels of the topology",
    "NvlinkSplit": "the constraint is in a template, or ComputeDomains are made again",
    "GangSplit": "a note: the minimum is chosen by who asks for it",
    "GangStale": "an argument of KAI's scheduler",
    "GangEvicted": "an argument of KAI's scheduler",
    "PlacementLost": "other reasons say what helps",
    "KueueMayEvict": "a setting of Kueue, or other reasons say what helps",
}
"""Reasons whose remedies have no command of kubectl, and why: most have nothing that could be
written without a choice that is somebody's own.
"""
CHANGED_ONLY = {
    "KueueHolds": "Kueue opens the gates, and does not run here",
    "SchedulerRefuses": "the scheduler's words stay until it tries again",
    "GangIncomplete": "Grove's operator makes new pods, and does not run here",
}
"""Reasons that a command changes, but does not end at once."""


ON_FOUR = placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")
IN_POOL = labelled(tuple(n.name for n in nodes()[:8]), pool="h100")
QUEUES = (
    *(Queue("h-root", pool="h100"), Queue("team-llm", "h-root", pool="h100")),
    *(Queue("root"), Queue("open", "root")),
)
IN_ONE_CLIQUE = tuple(replace(n, labels={**n.labels, NVLINK_DOMAIN: "c.1"}) for n in nodes())
MORE: list[tuple[str, str, Changes]] = [
    (
        "RequiredViolated",
        "the node has its rack, and lacks its zone",
        {"pods": ON_FOUR, "nodes": without(ZONE, "gpu-02")},
    ),
    (
        "RequiredViolated",
        "two nodes lack all labels",
        {"pods": ON_FOUR, "nodes": _bare("gpu-01", "gpu-02")},
    ),
    (
        "RequiredViolated",
        "no node of the gang has the label",
        {"pods": ON_FOUR, "nodes": without(RACK, "gpu-00", "gpu-01", "gpu-02")},
    ),
    (
        "NoDomainFits",
        "it fits outside of its node pool",
        {
            "pod_groups": (pod_group(pool="h100"),),
            "nodes": IN_POOL,
            "queues": QUEUES,
            "pods": (*pods(), *fill("rack-a1", "rack-a2")),
        },
    ),
    (
        "QueueMissing",
        "only the parent lacks the pool",
        {
            "pod_groups": (pod_group(pool="h100"),),
            "nodes": IN_POOL,
            "queues": (Queue("root"), Queue("team-llm", "root", pool="h100")),
        },
    ),
    (
        "QueueMissing",
        "no node is in the pool",
        {"pod_groups": (pod_group(pool="gold"),)},
    ),
    (
        "QueueMissing",
        "the pool has a queue of its own",
        {
            "pod_groups": (pod_group(queue="open", pool="h100"),),
            "nodes": IN_POOL,
            "queues": QUEUES,
        },
    ),
    (
        "ClaimElsewhere",
        "a claim of ours is bound to a node that is gone",
        {
            "pods": (
                *claiming(PodClaim(CLAIM, "shared")),
                occupant("gpu-99", namespace=NAMESPACE, name="user", uid="uid-user"),
            ),
            "claims": (
                ResourceClaim(
                    NAMESPACE,
                    "shared",
                    (CHANNEL,),
                    True,
                    nodes=((Requirement("metadata.name", "In", ("gpu-99",)),),),
                    consumers=(Consumer("user", "uid-user"),),
                ),
            ),
        },
    ),
    (
        "DomainNotReady",
        "no daemon pod is on a node",
        {**domain("gpu-00"), "nodes": IN_ONE_CLIQUE},
    ),
    (
        "LevelLabelMissing",
        "several nodes lack the label, each in another rack",
        {
            "nodes": without(RACK, "gpu-03", "gpu-04", "gpu-08"),
            "pods": (*pods(), *fill("rack-a1", "rack-a2", "rack-b1", "rack-b2")),
        },
    ),
]
"""States beside those of the table: the reason, the name of the state, and its facts."""


@cache
def reasons_of_rows() -> dict[str, list[Reason]]:
    """The reasons of all states of the table, by id."""
    found: dict[str, list[Reason]] = defaultdict(list)
    for row in ROWS:
        for dialect in row.dialects:
            snapshot = facts(**{**start(dialect), **row.hit})
            found[row.id] += [each for each in answer(snapshot).reasons if each.id == row.id]
    for id, _, changes in MORE:
        found[id] += [each for each in answer(facts(**changes)).reasons if each.id == id]
    return found


OF_INSTALLATION = "kubectl get mutatingwebhookconfigurations grove-admission"
"""A command about the installation, of which the API servers of the tests have no objects."""

COMMANDED = frozenset({rule.id for rule in RULES} - WORDS.keys())


def test_every_reason_has_a_command_or_words_that_nobody_could_write_as_one() -> None:
    has = {id for id, found in reasons_of_rows().items() if any(map(kubectl_commands, found))}
    unlisted = {
        id
        for id, found in reasons_of_rows().items()
        for each in found
        if id in WORDS and [text for text in kubectl_commands(each) if text != OF_INSTALLATION]
    }
    assert COMMANDED - has == set()
    assert unlisted == set()


def _everywhere() -> Iterator[Reason]:
    for reasons in reasons_of_rows().values():
        yield from reasons
    for recording in recordings():
        yield from recording.answer(recording.items).reasons


def test_a_command_can_be_typed_as_it_is() -> None:
    """It names a kind that there is, its namespace, and what its capital words stand for."""
    wrong = []
    seen = set()
    for reason in _everywhere():
        for text in kubectl_commands(reason):
            seen.add(text)
            command = parsed(text)
            if command.resource.namespaced and not {"-n", "-A"} & command.options.keys():
                wrong.append(f"{reason.id}: no namespace: {text}")
            unsaid = {word for word in placeholders(text) if word not in reason.remedy}
            if unsaid:
                wrong.append(f"{reason.id}: what is {unsaid}: {text}; {reason.remedy}")
    assert sorted(set(wrong)) == []
    assert len(seen) > 80
