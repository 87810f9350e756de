"""Report gangs that KAI evicts, for other workloads or because they stay below their minimum.

Grove too deletes the pods of a replica, if a PodClique stays below its minimum for terminationDelay
(`internal/controller/podcliqueset/components/podcliquesetreplica` at fcc3b3bb).

Source: `pkg/scheduler/actions/stalegangeviction` of KAI at d5bc503a. An annotation of the PodGroup
has the time since which the gang is below its minimum. The default grace period is an argument of
the scheduler, which users can't read. From KAI 0.17 on, a PodGroup may set its own grace period,
which the pod-grouper copies from an annotation of the workload or its pods.
"""

from itertools import chain

from app.explain.gangs.gang import Gang
from app.explain.reasons.messages import US, is_of_kai, one_line
from app.explain.reasons.reason import (
    Evidence,
    Reasons,
    Severity,
    about,
    ago,
    clock,
    counted,
    with_age,
)
from app.explain.state.index import Index
from app.facts.grove.podclique import PodClique
from app.facts.identity import Ref
from app.facts.kai.podgroup import STALE_SINCE, KaiPodGroup
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.workload import Workload
from app.facts.labels import KAI_PREEMPTIBILITY

LOST = "lost its place: "
"""The text that our leader writes between the name of the gang and KAI's message."""
_UNKNOWN = 60.0, ", if its grace period is the default of 60 seconds"
"""KAI's default grace period in seconds, and the words for a cluster that may have another one."""
_LATE = 30.0
"""The seconds after the grace period within which KAI should have evicted the pods."""
_BELOW = "doesn't meet the minimum required number of pods"
_FOR_OTHERS = "was preempted"
BACKGROUND = "Evicted to make room for a workload"
"""KAI's message about a background pod that it evicts to make room."""


def _no_eviction(group: KaiPodGroup | None) -> str:
    """Return the remedy that keeps KAI from evicting a gang below its minimum."""
    annotation = (
        "To keep KAI from evicting this gang, set the annotation"
        " kai.scheduler/staleness-grace-period of the workload or its pods to -1s"
    )
    if group and group.grace is not None:
        return (
            f"{annotation}, or stalenessGracePeriod of PodGroup {group.name} if you created the"
            " PodGroup"
        )
    return (
        f"{annotation} (KAI 0.17 or later), or ask the platform team to set"
        " default-staleness-grace-period: -1s in spec.args of the SchedulingShards"
    )


def gang_stale(gang: Gang) -> Reasons:
    """Report that KAI is about to evict the running pods of a gang below its minimum."""
    group = gang.pod_group
    if not group or group.stale is None:
        return

    pods = gang.index.pods_of_group.get(group.key, ())
    running = sum(1 for pod in pods if pod.node and pod.is_alive)
    lasts = gang.facts.now - group.stale
    below = f"{group.name} has been below its minimum for {ago(lasts)}"
    what_helps = f"Find out why the other pods do not run. {_no_eviction(group)}"
    if gang.whole.is_satisfied and group.needed is not None:
        below = (
            f"KAI has counted {group.name} as below its minimum for {ago(lasts)}, because KAI"
            f" respects minSubGroup ({group.needed}, satisfied) only from 0.18 on"
        )
        what_helps = f"Ask the platform team to upgrade KAI to 0.18. {_no_eviction(group)}"
    elif any(pod.phase == "Succeeded" for pod in pods):
        below += ", because KAI 0.16.2 to 0.17 ignores pods that have completed"
        what_helps = _no_eviction(group)
    grace, doubt = (group.grace, "") if group.grace is not None else _UNKNOWN
    if running and grace >= 0 and lasts <= grace + _LATE:
        at = clock(group.stale + grace)
        evicts = f"KAI evicts its {counted(running, 'running pod')} at {at}{doubt}"
        text = f"{below}: {evicts}"
        evidence = Evidence(group.ref, f"metadata.annotations[{STALE_SINCE}]", clock(group.stale))
        yield about(evidence, "GangStale", text, what_helps, "you", severity="warning")


def gang_evicted(gang: Gang) -> Reasons:
    """Report that KAI has evicted the running pods of a gang below its minimum."""
    text = f"KAI evicted the running pods of {gang.ref.name}, which was below its minimum"
    remedy = f"Find out why its pods ended. {_no_eviction(gang.pod_group)}"
    return _evicted(gang, _BELOW, "GangEvicted", text, remedy)


def termination_due(gang: Gang) -> Reasons:
    """Report that Grove soon deletes the pods of a replica with too few pods (terminationDelay)."""
    pcs = gang.pcs
    cliques = [clique for member in gang.members if (clique := member.clique) and clique.breached]
    if pcs is None or not pcs.termination_delay or not cliques:
        return
    first = min(cliques, key=lambda clique: (clique.breached, clique.name))
    lasts = gang.facts.now - (first.breached or 0.0)
    running = _running_beside(gang.index, first)
    if not running or not 0.5 <= lasts / pcs.termination_delay <= 1.0:
        return
    at = clock(gang.facts.now - lasts + pcs.termination_delay)
    text = (
        f"{first.name} has had fewer available pods than its minimum for {ago(lasts)}: Grove"
        f" deletes the pods of its replica at {at} ({counted(running, 'pod runs', 'pods run')}),"
        f" because terminationDelay of {pcs.name} is {ago(pcs.termination_delay)}"
    )
    remedy = f"Fix the other reasons before, or raise spec.template.terminationDelay of {pcs.ref}"
    evidence = Evidence(
        first.ref, "status.conditions[MinAvailableBreached]", clock(first.breached or 0.0)
    )
    yield about(evidence, "GangStale", text, remedy, "you", severity="warning")


def _running_beside(index: Index, clique: PodClique) -> list[Pod]:
    """Return the living pods with a node in the replica of the set that a PodClique is in."""
    place = clique.place
    pods = index.pods_of_set.get((clique.namespace, place.pcs), ())
    return [pod for pod in pods if pod.node and pod.is_alive and pod.place.replica == place.replica]


_TERMINATED = "PodCliqueSetReplicaDeleteSuccessful"
"""The reason of Grove's event about a replica that it deleted after terminationDelay."""


def replica_terminated(gang: Gang) -> Reasons:
    """Report that Grove has deleted all pods of a replica that had too few pods for too long."""
    pcs = gang.pcs
    replicas = {member.clique.place.replica for member in gang.members if member.clique}
    if pcs is None or len(replicas) != 1:
        return
    [replica] = replicas
    for said in gang.index.events_about(gang.namespace, pcs.uid):
        if said.reason == _TERMINATED and f" replica {replica} " in said.message:
            text = (
                f"Grove deleted all pods of replica {replica} of {pcs.name}, which had fewer"
                " available pods than its minimum for longer than its terminationDelay of"
                f" {ago(pcs.termination_delay)}"
            )
            remedy = (
                "Find out why these pods were not available. If they need more time, raise"
                f" spec.template.terminationDelay of {pcs.ref}"
            )
            told = with_age(text, said.time, gang.facts.now)
            evidence = Evidence(pcs.ref, f"event {said.reason}", said.message)
            yield about(evidence, "GangEvicted", told, remedy, "you", severity="warning")
            return


def placement_lost(gang: Gang) -> Reasons:
    """Report that KAI has evicted pods of a gang for another workload, or to move them."""
    text = f"KAI evicted {gang.ref.name}: {{}}"
    remedy = "Fix the other reasons, if there are any: KAI can then place the gang again"
    lost = list(_evicted(gang, _FOR_OTHERS, "PlacementLost", text, remedy))
    remedy = "Do nothing: KAI places background pods where other workloads leave room"
    yield from lost or _evicted(gang, BACKGROUND, "PlacementLost", text, remedy, "note")


def placement_changed(gang: Gang) -> Reasons:
    """Report that KAI has evicted or moved pods of a gang, all of whose pods are placed again."""
    text = f"All pods of {gang.ref.name} are placed again, after KAI evicted or moved some: {{}}"
    remedy = (
        "Do nothing if the pods may be moved. Otherwise, set the label"
        f" {KAI_PREEMPTIBILITY}=non-preemptible on the workload: it must then fit in the quota of"
        " its queue"
    )
    return _evicted(gang, _FOR_OTHERS, "PlacementLost", text, remedy, "note")


def _evicted(
    gang: Gang, words: str, id: str, text: str, remedy: str, severity: Severity = "warning"
) -> Reasons:
    """Yield a reason from an event of KAI or our leader whose message has `words`.

    In `text`, KAI's message replaces `{}`. Of several such events, the newest one about the
    PodGroup counts, or else the newest one about the PodCliqueSet or the Workload.
    """
    begin = f"{'/'.join(gang.ref.key)} {LOST}"
    of = gang.pod_group or gang
    objects = (gang.pod_group, gang.pcs or _workload_of(gang))
    uids = [known.uid for known in objects if known and known.uid]
    for said in chain.from_iterable(gang.index.events_about(gang.namespace, uid) for uid in uids):
        is_ours = said.source == US and said.message.startswith(begin)
        if words in said.message and (is_ours or is_of_kai(said)):
            words_of_kai = said.message.removeprefix(begin).splitlines()[0].rstrip(".")
            told = with_age(text.replace("{}", words_of_kai), said.time, gang.facts.now)
            evidence = Evidence(of.ref, f"event {said.reason}", said.message)
            yield about(evidence, id, told, remedy, "you", severity=severity)
            return


def _workload_of(gang: Gang) -> Workload | None:
    """Return the Workload that a gang's pods name, which our leader's events are about, or None."""
    keys = dict.fromkeys(map(gang.index.workload_of, gang.pods))
    return next(filter(None, map(gang.index.workloads.get, keys)), None)


def eviction_of(index: Index, pod: Ref) -> str:
    """Return KAI's newest message that it evicted a pod that no longer exists, or ""."""
    begin = f"Pod {pod.namespace}/{pod.name} was preempted "
    end = f", evicting remaining pod: {pod.namespace}/{pod.name}"
    found = (
        event
        for event in index.facts.events
        if is_of_kai(event) and (event.message.startswith(begin) or event.message.endswith(end))
    )
    last = max(found, key=lambda event: event.time or 0.0, default=None)
    if last is None or pod.kind != Pod.kind:
        return ""
    said = one_line(last.message.partition(". ")[0])
    return with_age(f"KAI evicted it: {said}", last.time, index.facts.now)
