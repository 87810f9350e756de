"""Gangs that KAI evicts, because they are below their minimum."""

from msgspec.structs import replace

from tests.explain.fleet import NOW, cliques, pcs, placed, pod_group, pods
from tests.explain.table.row import Changes, Row, event

ONE_RUNS = (placed("gpu-00")[0], *pods()[1:])
MINIMUM = "doesn't meet the minimum required number of pods (3) in sub-group w, evicting"


def below(since: float, grace: float | None = None) -> Changes:
    """One of the pods runs, for these seconds without the others."""
    return {
        "pods": ONE_RUNS,
        "pod_groups": (pod_group(stale=NOW - since, grace=grace),),
    }


def said(message: str, source: str = "kai-scheduler") -> Changes:
    return {"events": (event("uid-group", "Evict", f"Workload {message} ml/x", source),)}


def lost(name: str, source: str = "grove-admission", of: str = "uid-set") -> Changes:
    """What our leader says on the set of a gang, or on another object."""
    words = f"{name} lost its place: Pod x was preempted by workload ml/y."
    told = event(of, "PlacementLost", words, source)
    return {"events": (told,)}


def breached(since: float | None, delay: float = 14_400) -> Changes:
    """One of the pods runs, and a PodClique has had too few pods for these seconds."""
    since = None if since is None else NOW - since
    return {
        "pods": ONE_RUNS,
        "sets": (pcs(termination_delay=delay),),
        "cliques": (cliques()[0], replace(cliques()[1], breached=since)),
    }


def terminated(replica: int, reason: str = "PodCliqueSetReplicaDeleteSuccessful") -> Changes:
    """Grove has deleted a replica of the set."""
    words = f"PodCliqueSet replica {replica} deleted"
    of_set = {"sets": (pcs(termination_delay=14_400, uid="uid-set"),)}
    return {**of_set, "events": (event("uid-set", reason, words, "podcliqueset-controller"),)}


STALE = (
    Row(
        "GangStale",
        "Grove deletes the replica within the second half of terminationDelay",
        breached(13_200),
        "llm-0-pool-0-workers has had fewer available pods than its minimum for 3 hours: Grove deletes the pods of its replica at 08:20 UTC (1 pod runs), because terminationDelay of llm is 4 hours",
        "you",
        breached(7_100),
    ),
    Row(
        "GangStale",
        "Grove deletes the replica, unless it was never scheduled",
        breached(13_200),
        "llm-0-pool-0-workers has had fewer available pods than its minimum for 3 hours: Grove deletes the pods of its replica at 08:20 UTC (1 pod runs), because terminationDelay of llm is 4 hours",
        "you",
        breached(None),
    ),
    Row(
        "GangStale",
        "Grove deletes the replica, unless none of its pods runs or the set has no terminationDelay",
        breached(500, delay=600),
        "llm-0-pool-0-workers has had fewer available pods than its minimum for 8 minutes: Grove deletes the pods of its replica at 08:01 UTC (1 pod runs), because terminationDelay of llm is 10 minutes",
        "you",
        {**breached(13_200), "pods": pods()},
    ),
    Row(
        "GangEvicted",
        "Grove has deleted the replica after terminationDelay",
        terminated(0),
        "Grove deleted all pods of replica 0 of llm, which had fewer available pods than its minimum for longer than its terminationDelay of 4 hours (10 seconds ago)",
        "you",
        terminated(1),
    ),
    Row(
        "GangEvicted",
        "Grove has deleted the replica after terminationDelay, not for another reason",
        terminated(0),
        "Grove deleted all pods of replica 0 of llm, which had fewer available pods than its minimum for longer than its terminationDelay of 4 hours (10 seconds ago)",
        "you",
        terminated(0, "PodCliqueDeleteSuccessful"),
    ),
    Row(
        "GangStale",
        "KAI's PodGroup has no grace period, and the scheduler's is not known",
        below(20),
        "llm-0 has been below its minimum for 20 seconds: KAI evicts its 1 running pod at 08:00 UTC, if its grace period is the default of 60 seconds",
        "you",
        below(600),
    ),
    Row(
        "GangStale",
        "the PodGroup has a grace period of its own, which 0.17 knows",
        below(600, grace=900),
        "llm-0 has been below its minimum for 10 minutes: KAI evicts its 1 running pod at 08:05 UTC",
        "you",
        below(600, grace=-1),
    ),
    Row(
        "GangStale",
        "the grace period is over, and KAI is about to evict",
        below(620, grace=600),
        "llm-0 has been below its minimum for 10 minutes: KAI evicts its 1 running pod at 07:59 UTC",
        "you",
        below(620, grace=600) | {"pods": pods()},
    ),
    Row(
        "GangEvicted",
        "KAI says so of the PodGroup",
        said(MINIMUM),
        "KAI evicted the running pods of llm-0, which was below its minimum (10 seconds ago)",
        "you",
        said("x was preempted by higher priority workload ml/y"),
    ),
    Row(
        "PlacementLost",
        "KAI has evicted it for a workload of a higher priority",
        said("x was preempted by higher priority workload ml/y"),
        "KAI evicted llm-0: Workload x was preempted by higher priority workload ml/y ml/x (10 seconds ago)",
        "you",
        said("x was preempted by higher priority workload ml/y", "somebody"),
    ),
    Row(
        "PlacementLost",
        "KAI has evicted it for a queue that is promised more, and tells the numbers of both",
        said("x was preempted by workload ml/y.\nteam uses <...>"),
        "KAI evicted llm-0: Workload x was preempted by workload ml/y (10 seconds ago)",
        "you",
        said(MINIMUM),
    ),
    Row(
        "GangEvicted",
        "an event that somebody else may have written says nothing",
        said(MINIMUM),
        "KAI evicted the running pods of llm-0, which was below its minimum (10 seconds ago)",
        "you",
        said(MINIMUM, "somebody"),
    ),
    Row(
        "PlacementLost",
        "KAI has evicted a background pod, which is what these are for",
        {
            "events": (
                event("uid-group", "Evict", "Evicted to make room for a workload on this node"),
            )
        },
        "KAI evicted llm-0: Evicted to make room for a workload on this node (10 seconds ago)",
        "you",
        {
            "events": (
                event("uid-group", "Evict", "Evicted to make room for a workload", "somebody"),
            )
        },
    ),
    Row(
        "PlacementLost",
        "KAI's event is gone with its PodGroup, and our leader has told it",
        lost("inference/llm-0"),
        "KAI evicted llm-0: Pod x was preempted by workload ml/y (10 seconds ago)",
        "you",
        lost("inference/llm-01"),
    ),
    Row(
        "PlacementLost",
        "an event that only says that our leader wrote it",
        lost("inference/llm-0"),
        "KAI evicted llm-0: Pod x was preempted by workload ml/y (10 seconds ago)",
        "you",
        lost("inference/llm-0", "somebody"),
    ),
)
