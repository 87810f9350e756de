"""Find the reasons that hold for gangs, with a table of rules.

A rule says which facts it needs and to which gangs it applies. Within each severity, reasons are
shown in the order of the table, causes before effects.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache
from operator import attrgetter
from typing import get_args

from msgspec.structs import replace

from app.base.groups import by_key
from app.base.value import Value
from app.explain.gangs.gang import Gang, Unit
from app.explain.reasons import (
    background,
    claims,
    compute_domains,
    constraints,
    creation,
    evictions,
    gates,
    gpu_sharing,
    kueue,
    missing_pods,
    missing_queue,
    nodes,
    partial_gangs,
    placed_pods,
    placement,
    pod_starts,
    queue,
    queue_order,
    readiness,
    rejected_constraints,
    scaling,
    scheduler_messages,
    shared_claims,
    startup_order,
    topology,
    uncreated_pods,
    volumes,
    workload_status,
)
from app.explain.reasons.reason import Reason, Rule, Severity, listed
from app.facts.identity import Ref
from app.facts.kinds import DYNAMO_GRAPH, RAY_JOB, RAY_SERVICE
from app.facts.kubernetes.pod import Pod
from app.facts.rows import CHANNELS, ROOM


def _waits_constrained(gang: Gang) -> bool:
    return gang.may_wait() and gang.is_constrained()


def _placed_constrained(gang: Gang) -> bool:
    return not gang.may_wait() and gang.is_constrained()


def _grouped(gang: Gang) -> bool:
    """Return whether a gang may be pending and KAI has, or may have, a PodGroup for it."""
    return gang.may_wait() and ("pod_groups" in gang.facts.unseen or gang.pod_group is not None)


def _is_placed(gang: Gang) -> bool:
    """Return whether all pods of a gang with a PodGroup are placed."""
    return gang.pod_group is not None and bool(gang.placed) and not gang.may_wait()


def _without_events(gang: Gang) -> bool:
    """Return whether events were not read, so that only container states have messages."""
    return "events" in gang.facts.unread


def _without_pods(gang: Gang) -> bool:
    """Return whether pods were not read, so that only their workload tells about their creation."""
    return "pods" in gang.facts.unread


def _in_kueue_without_pods(gang: Gang) -> bool:
    """Return whether pods were not read, and Kueue has a Workload for the gang."""
    return _without_pods(gang) and kueue.in_kueue(gang)


def _of_set(gang: Gang) -> bool:
    return gang.pcs is not None


def _references(gang: Gang) -> bool:
    return any(pod.workload or pod.workload_group for pod in gang.waiting)


def _named(gang: Gang) -> bool:
    return any(pod.group for pod in gang.waiting)


def _claims_and_waits(gang: Gang) -> bool:
    return gang.may_wait() and claims.uses_claims(gang)


def _has_volumes(gang: Gang) -> bool:
    return any(pod.volumes for pod in gang.waiting)


def _has_bound_volumes(gang: Gang) -> bool:
    """Return whether a pending pod's claim has a volume, or waits for one that is created by hand.

    Also return True if claims could not be read.
    """
    claims = volumes.claims_of(gang)
    if any(claim.volume for claim in claims) or "volume_claims" in gang.facts.unseen:
        return True
    return volumes.by_hand(gang)


def _may_be_tied(gang: Gang) -> bool:
    """Return whether volumes of pending pods may exclude nodes."""
    if not _has_volumes(gang):
        return False
    return _has_bound_volumes(gang) or any(each.places for each in gang.facts.storage_classes)


def _has_status(gang: Gang) -> bool:
    """Return whether the gang belongs to a workload such as a Job whose status was requested."""
    is_made = workload_status.is_made_for_workload(gang)
    return is_made and "workload_statuses" not in gang.facts.skipped


def _says_if_ready(gang: Gang) -> bool:
    """Return whether the gang's workload may say that it is not ready.

    This holds for DynamoGraphDeployments, RayServices and RayJobs whose status was requested.
    """
    made_by = [gang.ref, *(ref for pod in gang.pods[:1] for ref in pod.made_for)]
    made_by += filter(None, (gang.pcs.maker if gang.pcs else None,))
    says_it = any(
        ref.kind in (DYNAMO_GRAPH.kind, RAY_SERVICE.kind, RAY_JOB.kind) for ref in made_by
    )
    return says_it and "workload_statuses" not in gang.facts.skipped


def _may_have_failed(gang: Gang) -> bool:
    """Return whether only events can tell that the gang's workload has failed.

    The status of the workload was then not read.
    """
    unread = gang.facts.unread
    return "workload_statuses" in unread and workload_status.is_made_for_workload(gang)


def _pods_wait(gang: Gang) -> bool:
    return bool(gang.waiting)


def _has_leaders(gang: Gang) -> bool:
    """Return whether placed pods of a gang lead groups of a LeaderWorkerSet."""
    return any(pod.leads for pod in gang.placed)


def _nothing_waits(gang: Gang) -> bool:
    """Return whether no pod of a gang is pending."""
    return not gang.waiting


def _near_constraints(gang: Gang) -> bool:
    """Return whether the gang or any PodGroup has a constraint: each may influence KAI's order."""
    return gang.is_constrained() or gang.index.has_constraints


TOPOLOGY = ("topologies", "kai_topologies")
MAPS = "gang_maps"
SLICES = "slices"
ONLY_FOR: Mapping[str, Callable[[Gang], bool]] = {
    **dict.fromkeys(("cliques", "topologies", "gangs", "sets"), attrgetter("is_of_grove")),
    "kai_topologies": _near_constraints,
    MAPS: attrgetter("has_epoch"),
    SLICES: attrgetter("claims_gpus"),
    "volumes": _has_bound_volumes,
}
"""The kinds of facts that only some gangs need.

Each has a function that returns whether a gang needs it.
"""

EMPTY = ("nodes", *TOPOLOGY, SLICES)
"""The facts that decide where a gang fits in an empty cluster."""
ROOMS = (*EMPTY, ROOM)
"""The facts that decide where a gang fits now."""
QUEUES = ("pod_groups", "queues", "priorities")
OF_VOLUMES = ("pods", "volume_claims", "storage_classes")

EFFECTS = {"GateBaseGang"}
"""The reasons that follow from the reasons of another gang, which is examined too."""

SUPERSEDED: Mapping[str, frozenset[str]] = {
    "WorkloadFailed": frozenset({"GangIncomplete", "PodsNotCreated", "NotGrouped"}),
    "WorkloadSuspended": frozenset({"PodsNotCreated"}),
    "OldRevision": frozenset({"NeverFits", "NoNodeMatches"}),
    "DomainDeadlock": frozenset({"GateOpens"}),
    "GangIncomplete": frozenset({"GateNotInGang", "GateOpens"}),
    "WrongScheduler": frozenset({"SchedulerSilent"}),
    "VolumeElsewhere": frozenset({"NeverFits", "NoDomainFits", "OtherResource"}),
    "PoolNotChosen": frozenset(
        {"NeverFits", "NoDomainFits", "NoNodeMatches", "OutsidePool", "QueueMissing"}
    ),
}
"""For each reason, the less precise reasons that are omitted if they concern only its objects."""

RULES: tuple[Rule, ...] = (
    Rule(workload_status.workload_failed, ("workload_statuses",), _has_status),
    Rule(workload_status.workload_failed, ("events",), _may_have_failed),
    Rule(workload_status.job_retries, ("pods", "workload_statuses"), _has_status, "WorkloadFailed"),
    Rule(workload_status.ray_job_retries, ("workload_statuses",), _has_status, "WorkloadFailed"),
    Rule(workload_status.workload_suspended, ("workload_statuses",), _has_status),
    Rule(
        workload_status.groups_suspended,
        ("workload_statuses", "pods"),
        _has_status,
        "WorkloadSuspended",
    ),
    Rule(creation.kai_missing, ("pods",), Gang.may_wait),
    Rule(creation.grove_missing),
    Rule(creation.set_being_deleted, ("sets",), of_set=True),
    Rule(
        creation.part_being_deleted,
        ("cliques", "gangs", "pods"),
        named="SetBeingDeleted",
        of_set=True,
    ),
    Rule(creation.nothing_made, ("cliques", "gangs", "pods")),
    Rule(creation.pod_gang_migration_in_progress, ("sets",), of_set=True),
    Rule(creation.pod_gang_missing, ("cliques", "gangs", "pods"), of_set=True),
    Rule(gates.wrong_scheduler, ("pods",), Gang.is_constrained),
    Rule(gates.several_schedulers, ("pods",), Gang.may_wait, "WrongScheduler"),
    Rule(constraints.level_unknown, ("topologies",), Gang.is_constrained),
    Rule(constraints.min_above_replicas, ("cliques",)),
    Rule(
        gates.workload_missing, ("pods", "workloads", "workload_groups"), _references, together=True
    ),
    Rule(gates.pod_group_missing, ("pods", "pod_groups"), _named, "WorkloadMissing", together=True),
    Rule(gates.subgroup_missing, ("pods", "pod_groups"), _named, "WorkloadMissing", together=True),
    Rule(gates.opt_out_without_effect, ("pods", "pod_groups"), Gang.may_wait, together=True),
    Rule(readiness.old_revision, ("pods", "workload_statuses"), _has_status),
    Rule(readiness.old_template, ("pods", "cliques"), _of_set, "OldRevision"),
    Rule(pod_starts.kubelet_rejects, ("pods",), _nothing_waits, "KubeletRefuses"),
    Rule(missing_pods.gang_incomplete, ("pods", "cliques"), Gang.may_wait),
    Rule(
        missing_pods.group_incomplete,
        ("pods", "workloads", "workload_groups"),
        _references,
        "GangIncomplete",
    ),
    Rule(uncreated_pods.pods_not_created, ("pods", "events")),
    Rule(uncreated_pods.creation_refused, (), _without_pods, "PodsNotCreated"),
    Rule(uncreated_pods.graph_failed, ("workload_statuses",), _says_if_ready, "PodsNotCreated"),
    Rule(
        uncreated_pods.managed_elsewhere,
        ("pods", "workload_statuses"),
        _has_status,
        "PodsNotCreated",
    ),
    Rule(startup_order.pods_missing, ("pods",), _has_leaders, together=True),
    Rule(
        startup_order.later_pods_missing,
        ("pods", "workload_statuses"),
        _has_status,
        "PodsMissing",
        together=True,
    ),
    Rule(gates.gate_base_missing, ("pods", "gangs", MAPS), Gang.may_wait),
    Rule(gates.gate_base_gang, ("pods", "gangs", "cliques", MAPS), Gang.may_wait),
    Rule(gates.gate_not_in_gang, ("pods", "gangs"), Gang.may_wait),
    Rule(gates.gate_opens, ("pods", "gangs", "cliques", MAPS), Gang.may_wait),
    Rule(kueue.kueue_holds, ("pods", "kueue_workloads"), kueue.in_kueue),
    Rule(kueue.workload_held, ("kueue_workloads",), _in_kueue_without_pods, "KueueHolds"),
    Rule(gates.gate_foreign, ("pods",), Gang.may_wait, together=True),
    Rule(constraints.topology_unnamed, ("gangs",), Gang.is_constrained),
    Rule(gates.not_grouped, ("pods",), Gang.may_wait, together=True),
    Rule(scheduler_messages.scheduler_refuses, ("pods",), Gang.may_wait, together=True),
    Rule(
        scheduler_messages.scheduler_unknown,
        ("pods",),
        Gang.may_wait,
        "SchedulerSilent",
        together=True,
    ),
    Rule(missing_queue.queue_missing, ("pod_groups", "queues"), _grouped),
    Rule(queue.given_up, ("pod_groups",), _grouped),
    Rule(rejected_constraints.preferred_broader, (), _waits_constrained),
    Rule(rejected_constraints.shared_narrower_domain, EMPTY, _waits_constrained),
    Rule(rejected_constraints.sizes_differ, EMPTY, _waits_constrained),
    Rule(scaling.nodes_coming, ("pods", "events"), Gang.may_wait),
    Rule(gpu_sharing.gpu_memory_unknown, EMPTY, Gang.may_wait),
    Rule(gpu_sharing.reservation_evicted, ("pods", "nodes"), Gang.may_wait),
    Rule(gpu_sharing.reservation_refused, ("pods", "nodes"), Gang.may_wait),
    Rule(placement.never_fits, (*EMPTY, "cliques"), Gang.may_wait),
    Rule(queue.queue_limit, ("pod_groups", "queues"), _grouped),
    Rule(queue.lower_priority, QUEUES, _grouped),
    Rule(queue.queue_quota, QUEUES, _grouped),
    Rule(queue.queue_status_stale, (*QUEUES, ROOM), _grouped),
    Rule(
        claims.claim_missing,
        ("pods", "claims", "claim_templates"),
        _claims_and_waits,
        together=True,
    ),
    Rule(
        claims.claim_not_created,
        ("pods", "events"),
        _claims_and_waits,
        "ClaimMissing",
        together=True,
    ),
    Rule(claims.device_class_missing, ("claims", "device_classes"), _claims_and_waits),
    Rule(
        claims.devices_not_offered,
        ("claims", "device_classes", SLICES),
        _claims_and_waits,
        "DeviceClassMissing",
    ),
    Rule(shared_claims.claim_queue, ("pods", "claims", "pod_groups"), _claims_and_waits),
    Rule(shared_claims.claim_elsewhere, ("pods", "claims", "nodes", ROOM), _claims_and_waits),
    Rule(shared_claims.claim_being_deleted, ("pods", "claims"), claims.uses_claims),
    Rule(shared_claims.claim_held, ("pods", "claims"), _claims_and_waits),
    Rule(shared_claims.claim_full, ("pods", "claims"), _claims_and_waits),
    Rule(volumes.volume_unbound, OF_VOLUMES, _has_volumes, together=True),
    Rule(volumes.volume_not_free, (*OF_VOLUMES, "volumes"), volumes.by_hand, "VolumeUnbound"),
    Rule(volumes.volume_elsewhere, (*OF_VOLUMES, "volumes", *ROOMS), _may_be_tied),
    Rule(nodes.pool_not_chosen, ("pod_groups",), _grouped),
    Rule(nodes.no_node_matches, ROOMS, Gang.may_wait),
    Rule(nodes.outside_pool, ("pod_groups", *ROOMS), Gang.may_wait),
    Rule(nodes.nodes_to_open, ROOMS, Gang.may_wait, "NodesUnfit"),
    Rule(topology.level_label_missing, ("nodes", *TOPOLOGY), _waits_constrained),
    Rule(placement.bound_to_domain, ROOMS, Gang.may_wait),
    Rule(placement.no_domain_fits, ROOMS, Gang.may_wait),
    Rule(nodes.other_resource, ROOMS, Gang.may_wait),
    Rule(queue_order.after_others, (*ROOMS, *QUEUES), _grouped),
    Rule(queue.fair_share, (*ROOMS, *QUEUES), _grouped),
    Rule(queue.within_quota, (*ROOMS, *QUEUES), _grouped),
    Rule(queue.preemption_delay, ("pod_groups",), _grouped),
    Rule(nodes.nodes_unfit, ROOMS, Gang.may_wait),
    Rule(background.background_pods, ROOMS, Gang.may_wait),
    Rule(scaling.no_node_group_helps, ("pods", "events"), Gang.may_wait),
    Rule(pod_starts.kubelet_rejects, ("pods",), _pods_wait, "KubeletRefuses"),
    Rule(claims.channel_taken, ("pods", "claims", "nodes", ROOM, CHANNELS), _claims_and_waits),
    Rule(claims.not_in_pods_of_units, ("pods",), named="ClaimNotInjected"),
    Rule(claims.claim_not_injected, ("sets", "cliques", "pods"), _of_set),
    Rule(claims.claim_not_in_pods, ("cliques", "pods")),
    Rule(pod_starts.kubelet_refuses, ("pods", "nodes", "events"), together=True),
    Rule(pod_starts.kubelet_refuses, ("pods", "nodes"), _without_events, together=True),
    Rule(compute_domains.domain_deadlock, ("pods", "compute_domains"), claims.uses_claims),
    Rule(compute_domains.domain_deleted, ("pods", "compute_domains"), claims.uses_claims),
    Rule(compute_domains.domain_not_ready, ("pods", "compute_domains"), claims.uses_claims),
    Rule(compute_domains.nvlink_split, ("pods", "compute_domains", "nodes"), claims.uses_claims),
    Rule(
        compute_domains.nvlink_will_split,
        ("compute_domains", *ROOMS),
        _claims_and_waits,
        "NvlinkSplit",
    ),
    Rule(placed_pods.required_violated, ("pods", "nodes", *TOPOLOGY)),
    Rule(placed_pods.node_gone, ("pods", "nodes"), together=True),
    Rule(placed_pods.node_not_ready, ("pods", "nodes"), together=True),
    Rule(pod_starts.container_crashes, ("pods",), together=True),
    Rule(pod_starts.not_started, ("pods", "nodes"), together=True),
    Rule(readiness.pods_not_ready, ("pods",), together=True),
    Rule(
        readiness.update_unfinished,
        ("pods", "workload_statuses"),
        _has_status,
        "OldRevision",
        together=True,
    ),
    Rule(
        readiness.not_ready_by_status,
        ("pods", "workload_statuses"),
        _says_if_ready,
        "PodsNotReady",
        together=True,
    ),
    Rule(readiness.update_of_set_unfinished, ("pods", "sets"), _of_set, "OldRevision"),
    Rule(placed_pods.binding_failed, ("pods", "events"), Gang.may_wait),
    Rule(
        scheduler_messages.scheduler_silent,
        ("pods",),
        Gang.may_wait,
        unexplained=True,
        together=True,
    ),
    Rule(scheduler_messages.kai_refuses, ("pods", "pod_groups"), Gang.may_wait, unexplained=True),
    Rule(scheduler_messages.kai_silent, ("pods", "pod_groups"), Gang.may_wait, unexplained=True),
    Rule(kueue.kueue_may_evict, ("pods", "kueue_workloads"), kueue.in_kueue),
    Rule(evictions.gang_stale, ("pods", "pod_groups"), _grouped),
    Rule(evictions.termination_due, ("sets", "cliques", "pods"), _of_set, "GangStale"),
    Rule(evictions.gang_evicted, ("pod_groups", "events"), _grouped),
    Rule(evictions.replica_terminated, ("sets", "cliques", "events"), _of_set, "GangEvicted"),
    Rule(evictions.placement_lost, ("pod_groups", "events"), _grouped),
    Rule(evictions.placement_changed, ("pod_groups", "events"), _is_placed, "PlacementLost"),
    Rule(constraints.gang_unconstrained, ("sets", "gangs", "topologies"), Gang.is_constrained),
    Rule(rejected_constraints.level_without_topology, ("pod_groups",)),
    Rule(rejected_constraints.topology_without_level, ("pod_groups",), _grouped, "LevelUnknown"),
    Rule(partial_gangs.gang_split, (*ROOMS, "cliques"), Gang.may_wait),
    Rule(rejected_constraints.domains_joined, ("nodes", *TOPOLOGY), _placed_constrained),
    Rule(rejected_constraints.domains_joined, ROOMS, _waits_constrained),
    Rule(topology.topology_differs, TOPOLOGY, Gang.is_constrained),
    Rule(topology.not_a_tree, ("nodes", *TOPOLOGY), _waits_constrained),
    Rule(placed_pods.not_as_preferred, ("pods", "nodes", *TOPOLOGY), _placed_constrained),
)


POSITIONS: Mapping[str, int] = {
    id: min(positions)
    for id, positions in by_key((rule.id, number) for number, rule in enumerate(RULES)).items()
}
"""The position of each reason in the table, by id: that of the first rule with this id."""

CONDITIONS: Mapping[str, str] = {
    id: " Or: ".join(dict.fromkeys(conditions))
    for id, conditions in by_key((rule.id, rule.condition) for rule in RULES).items()
}
"""The condition under which each reason holds, by id. It joins those of the reason's rules."""

NOT_HOLDING = {
    "RequiredViolated",
    "GangUnconstrained",
    "LevelWithoutTopology",
    "DomainsJoined",
    "TopologyDiffers",
    "LevelLabelMissing",
    "NotATree",
    "NotAsPreferred",
    "KaiSilent",
}
"""The reasons that don't keep a gang from starting, at least while KAI's scheduler runs."""


class Unknown(Value):
    """A reason that can be neither found nor ruled out, because facts could not be read."""

    id: str
    """The id of the reason."""
    needs: tuple[str, ...]
    """The kinds of facts that could not be read."""


class Examined(Value):
    """The result of an examination of gangs."""

    reasons: tuple[Reason, ...]
    """The reasons that hold, problems first."""
    unknown: tuple[Unknown, ...]
    """The reasons whose facts could not be read."""
    skipped: tuple[str, ...]
    """The ids of the reasons that were not found and whose facts were not requested."""
    lacking: tuple[str, ...] = ()
    """The kinds of facts that a rule needed and that were not requested."""

    @property
    def problems(self) -> list[Reason]:
        """The reasons that are problems, without warnings and notes."""
        return [reason for reason in self.reasons if reason.severity == "problem"]


def examine(gangs: Iterable[Gang], *, quoting: bool = True) -> Examined:
    """Return all reasons that hold for some gangs, and the reasons that could not be checked.

    Equal reasons of several gangs are one reason. Problems come first, then warnings, then notes,
    each in the order of the table. Rules for gangs that no other rule explains are skipped if
    another reason could not be checked, and without `quoting`: these rules quote schedulers, which
    have not seen the facts of a preview.
    """
    gangs = list(gangs)
    joined = _joined(gangs)
    of_sets = _one_of_each_set(gangs)
    # Many rules apply to the same gangs.
    applying_of = cache(
        lambda applies, together: list(filter(applies, joined if together else gangs))
    )
    found: dict[int, list[Reason]] = {}
    unknown: dict[str, Unknown] = {}
    skipped: dict[str, None] = {}
    lacking: set[str] = set()
    explained: set[Ref] = set()

    for position, rule in enumerate(RULES):
        applying = of_sets if rule.of_set else applying_of(rule.applies, rule.together)
        if not applying or rule.unexplained:
            continue
        facts = applying[0].facts
        needs = _needs(rule, applying)
        missing = tuple(filter(facts.unseen.__contains__, needs))
        if missing:
            unknown.setdefault(rule.id, Unknown(rule.id, missing))
        elif facts.skipped.intersection(needs):
            skipped[rule.id] = None
            lacking |= facts.skipped.intersection((*needs, "kai_topologies"))
        elif not facts.absent.intersection(needs):
            for gang in applying:
                of_gang = list(rule.check(gang))
                if of_gang:
                    found.setdefault(position, []).extend(of_gang)
                    explained |= _explained(of_gang, gang, rule, gangs)

    if quoting and not unknown and not skipped:
        left = [gang for gang in gangs if gang.ref not in explained]
        for position, rule in enumerate(RULES):
            if rule.unexplained:
                own = filter(rule.applies, _joined(left) if rule.together else left)
                found[position] = list(itertools.chain.from_iterable(map(rule.check, own)))

    reasons = itertools.chain.from_iterable(found[position] for position in sorted(found))
    in_order = sorted(_causes_first(_without_superseded(_merged(reasons))), key=_severity)
    in_order = _naming_makers(in_order, gangs)

    # Another rule of the same reason may have found it without these facts.
    unchecked = tuple(id for id in skipped if all(id != reason.id for reason in in_order))
    return Examined(tuple(in_order), tuple(unknown.values()), unchecked, tuple(sorted(lacking)))


def _one_of_each_set(gangs: Iterable[Gang]) -> list[Gang]:
    """Return the first gang of each PodCliqueSet."""
    firsts: dict[Ref, Gang] = {}
    for gang in gangs:
        if gang.pcs:
            firsts.setdefault(gang.pcs.ref, gang)
    return list(firsts.values())


def _joined(gangs: Sequence[Gang]) -> list[Gang]:
    """Return the gangs, with all single pods that belong to no gang joined into one gang."""
    alone = [gang for gang in gangs if gang.ref.kind == Pod.kind]
    if len(alone) < 2:
        return list(gangs)
    makers = {pod.made_for[:1] or (pod.controller,) for gang in alone for pod in gang.pods}
    [maker] = makers.pop() if len(makers) == 1 else (None,)
    names = listed((gang.ref.name for gang in alone), 2)
    ref = maker or Ref(Pod.kind, alone[0].namespace, names)
    members = tuple(member for gang in alone for member in gang.members)
    pods = Gang(ref, Unit(ref.name, members=members), alone[0].topology)
    return [*(gang for gang in gangs if gang.ref.kind != Pod.kind), pods]


_CHANGES = (
    "pod template",
    "replicas",
    "minAvailable",
    "smaller",
    "fewer",
    "selector",
    "limits.memory",
    "the PodCliqueSet",
    "Request ",
)
"""Words of remedies that change the spec of a workload."""


def _naming_makers(reasons: list[Reason], gangs: Iterable[Gang]) -> list[Reason]:
    """Return the reasons, with the PodCliqueSet's owner in the first remedy that changes the set.

    For example, Dynamo's operator overwrites the spec of the sets that it creates (`SyncResource`
    in `deploy/operator/internal/controller_common/resource.go`).
    """
    owned = {(gang.pcs.ref, gang.pcs.maker) for gang in gangs if gang.pcs and gang.pcs.maker}
    changing = [
        reason
        for reason in reasons
        if any(word in reason.remedy for word in _CHANGES) and ": kubectl " not in reason.remedy
    ]
    if len(owned) != 1 or not changing:
        return reasons
    [(made, maker)] = owned
    where = f"Change {maker}, because its controller may overwrite changes to {made}"
    named = replace(changing[0], remedy=f"{changing[0].remedy.removesuffix('.')}. {where}")
    return [named if reason is changing[0] else reason for reason in reasons]


def _severity(reason: Reason) -> int:
    return get_args(Severity).index(reason.severity)


def _explains(reason: Reason) -> bool:
    """Return whether a reason explains why pods of a gang do not run."""
    return reason.severity == "problem" and reason.id not in NOT_HOLDING


def _explained(
    reasons: Iterable[Reason], gang: Gang, rule: Rule, gangs: Iterable[Gang]
) -> set[Ref]:
    """Return the gangs and objects whose pods do not run because of reasons that `rule` found."""
    holding = list(filter(_explains, reasons))
    if not holding:
        return set()
    alike = (each for each in gangs if each.pcs is gang.pcs) if rule.of_set else (gang,)
    return {each.ref for each in alike} | {ref for reason in holding for ref in reason.objects}


def keeps_from_starting(reason: Reason, gang: Gang) -> bool:
    """Return whether a reason keeps KAI from placing the next pods of a gang.

    A reason about other pods, such as placed ones and those beyond the minimum, does not.
    """
    if not _explains(reason):
        return False
    if any(ref.kind != Pod.kind for ref in reason.objects):
        return True
    return not {pod.ref for pod in gang.whole.next_pods()}.isdisjoint(reason.objects)


def _without_superseded(reasons: list[Reason]) -> list[Reason]:
    """Return the reasons that are not superseded.

    A reason is superseded if each of its objects also has a more precise reason (`SUPERSEDED`).
    """
    superseded = {
        (id, ref)
        for reason in reasons
        for id in SUPERSEDED.get(reason.id, ())
        for ref in reason.objects
    }
    return [
        reason
        for reason in reasons
        if not all((reason.id, ref) in superseded for ref in reason.objects)
    ]


_OF_ROOM = {
    "NeverFits",
    "NoDomainFits",
    "OtherResource",
    "NodesComing",
    "NoNodeGroupHelps",
    "VolumeElsewhere",
}
"""Reasons that say which resource is missing where, who uses it, or whether nodes are added."""
_OF_VOLUMES = {"VolumeElsewhere", "VolumeUnbound"}
"""Reasons that name the volume that a scheduler only mentions."""


_OF_CLAIMS = {
    "ClaimMissing",
    "DeviceClassMissing",
    "ClaimElsewhere",
    "ClaimBeingDeleted",
    "ClaimHeld",
    "ClaimFull",
    "ChannelTaken",
}
"""Reasons that name the claim or the device that a scheduler only mentions."""


def _says_little(reason: Reason, reasons: Sequence[Reason]) -> bool:
    """Return whether a reason quotes a scheduler's message that helps little.

    Its remedy is not specific, or one of the other `reasons` says more about the same problem.
    """
    if reason.id != "SchedulerRefuses":
        return False
    if reason.remedy in (scheduler_messages.UNKNOWN, scheduler_messages.WHOLE_GROUP):
        return True
    if "olume" in reason.text and any(other.id in _OF_VOLUMES for other in reasons):
        return True
    if reason.remedy.startswith((scheduler_messages.CLAIM, scheduler_messages.SELECTOR)):
        return any(other.id in _OF_CLAIMS or other.id in _OF_ROOM for other in reasons)
    lacks = reason.remedy.startswith((scheduler_messages.LESS, scheduler_messages.FEWER))
    return lacks and any(other.id in _OF_ROOM for other in reasons)


def _is_covered(reason: Reason, reasons: Sequence[Reason]) -> bool:
    """Return whether problems among `reasons` have a better remedy than a scheduler's message.

    Each of the alternatives in the remedy of `reason` must be about room, volumes or claims, and
    these problems must be about the same for all of its pods.
    """

    def is_known(ids: Set[str]) -> bool:
        problems = [other for other in reasons if other.severity == "problem" and other.id in ids]
        named = {ref for other in problems for ref in other.objects}
        return named.issuperset(reason.objects) or any(ref.kind != Pod.kind for ref in named)

    subjects = {
        scheduler_messages.LESS: _OF_ROOM,
        scheduler_messages.FEWER: _OF_ROOM,
        scheduler_messages.VOLUMES: _OF_VOLUMES,
        scheduler_messages.CLAIM: _OF_CLAIMS,
        scheduler_messages.SELECTOR: _OF_CLAIMS,
    }
    return all(
        any(part.startswith(prefix) and is_known(ids) for prefix, ids in subjects.items())
        for part in reason.remedy.split(" Or: ")
    )


def _causes_first(reasons: list[Reason]) -> list[Reason]:
    """Return the reasons with causes before effects, and mark the effects with `follows`.

    If no cause is a problem, effects stay in place and are not marked. Messages of schedulers that
    help little come after other reasons, and are marked if these have a better remedy.
    """
    vague = [reason for reason in reasons if _says_little(reason, reasons)]
    clear = [reason for reason in reasons if reason not in vague]
    reasons = [
        *clear,
        *(replace(reason, follows=_is_covered(reason, clear)) for reason in vague),
    ]
    causes = [reason for reason in reasons if not _is_effect(reason)]
    if not any(reason.severity == "problem" for reason in causes):
        return [replace(reason, follows=False) for reason in reasons]

    told = {(reason.id, reason.evidence) for reason in causes}
    effects = (
        replace(reason, follows=True)
        for reason in reasons
        if _is_effect(reason) and (reason.id, reason.evidence) not in told
    )
    return [*causes, *effects]


def _is_effect(reason: Reason) -> bool:
    return reason.follows or reason.id in EFFECTS


def _needs(rule: Rule, gangs: Sequence[Gang]) -> list[str]:
    """Return the kinds of facts that a rule needs for these gangs."""
    # A rule about nodes needs ResourceSlices only if a gang claims GPUs. Other rules always do.
    always = SLICES if "nodes" not in rule.needs else ""
    needs = [
        need
        for need in rule.needs
        if need == always or need not in ONLY_FOR or any(map(ONLY_FOR[need], gangs))
    ]
    claim_gpus = ROOM in needs and any(map(ONLY_FOR[SLICES], gangs))
    return [*needs, CHANNELS] if claim_gpus else needs


def _merged(reasons: Iterable[Reason]) -> list[Reason]:
    """Return the reasons, with equal reasons merged into one about all of their objects.

    Reasons are equal if their ids, texts and remedies are. The order of first occurrence is kept.
    """
    groups = by_key(((reason.id, reason.text, reason.remedy), reason) for reason in reasons)
    return list(map(_merge, groups.values()))


def _merge(group: list[Reason]) -> Reason:
    if len(group) == 1:
        return group[0]
    objects = tuple(sorted({ref for reason in group for ref in reason.objects}))
    parts = group[0].parts
    if all(reason.parts for reason in group):
        parts = tuple(dict.fromkeys(part for reason in group for part in reason.parts))
    return replace(group[0], objects=objects, parts=parts)
