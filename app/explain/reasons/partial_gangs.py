"""Report gangs that have their minimum of pods, while their other pods are pending."""

from msgspec.structs import replace

from app.explain.gangs.gang import Gang, Member, Unit
from app.explain.placing.demand import Demand, where
from app.explain.placing.placements import EMPTY, Placements
from app.explain.reasons.queue import bound_below
from app.explain.reasons.reason import Evidence, Reasons, about, counted, listed
from app.explain.reasons.restarts import restart_of
from app.facts.kubernetes.pod import Pod

MIN_MEMBER = "kai.scheduler/batch-min-member"
"""The annotation of a Job, JobSet or Deployment that sets the minimum of its PodGroup."""


def gang_split(gang: Gang) -> Reasons:
    """Report that a part of the gang has its minimum, and its other pods are pending."""
    if not gang.is_of_kai or _created_by_each_other(gang):
        return
    together = ""
    for member in gang.members:
        rest = member.expected - len(member.placed)
        if not member.placed or not rest or member.minimum >= member.expected:
            continue
        if not member.is_satisfied or any(pod.gates for pod in member.pods if not pod.node):
            continue
        minimum = f"{_field(gang)} {member.minimum} of {member.expected}"
        others = "pod" if rest == 1 else f"{rest} one by one"
        split = (
            f"{counted(member.placed, 'pod is', 'pods are')} placed, and KAI places the other"
            f" {others} where there is room"
        )
        text = f"KAI starts {member.name} as soon as its minimum fits ({minimum}). {split}"
        evidence = Evidence(gang.ref, _field(gang), str(member.minimum))
        together = together or _together(gang)
        steps = together.replace(_STEP, _minimum_remedy(gang, member))
        remedy = f"Do nothing if the pods can start separately. Otherwise, {steps}"
        if _is_elastic(gang, member):
            text = f"{member.name} runs with at least its minimum ({minimum}). {split}"
            remedy = f"Do nothing if the workload is elastic. Otherwise, {steps}"
        yield about(
            evidence, "GangSplit", text, remedy, "you", severity="note", parts=(member.name,)
        )


def _created_by_each_other(gang: Gang) -> bool:
    """Return whether a running pod creates the others, as a Spark driver creates its executors."""
    names = {pod.name for pod in gang.placed}
    controllers = (pod.controller for pod in gang.waiting)
    return any(ref and ref.kind == Pod.kind and ref.name in names for ref in controllers)


def _is_elastic(gang: Gang, member: Member) -> bool:
    """Return whether the pods of a part probably do not all need each other.

    A user or an autoscaler has chosen the minimum of a Grove gang or RayCluster, and the replicas
    of a Deployment do not need each other. KAI's pod-grouper gives other workloads the minimum 1,
    unless they request a higher one.
    """
    controllers = {pod.controller.kind for pod in member.pods if pod.controller}
    return gang.is_of_grove or not controllers.isdisjoint({"RayCluster", "ReplicaSet"})


def _field(gang: Gang) -> str:
    return "minAvailable" if gang.is_of_grove else "minMember"


def _minimum_remedy(gang: Gang, member: Member) -> str:
    """Return the step that sets the minimum of a part to the number of its pods."""
    number = member.expected
    if gang.is_of_grove:
        return (
            f"create the PodCliqueSet again with minAvailable: {number} for the clique of PodClique"
            f" {member.name} (Grove rejects a change of it)"
        )
    controller = next((pod.controller for pod in member.pods if pod.controller), None)
    kind = controller.kind if controller else ""
    if kind == "Job":
        return (
            f'set the annotation {MIN_MEMBER}: "{number}" on {controller} (on the JobSet, if it has'
            " one) before its pods are created"
        )
    if kind == "ReplicaSet" and _is_grouped_by_kai(gang):
        return f'set the annotation {MIN_MEMBER}: "{number}" on {_deployment_of(member)}'
    if kind == "StatefulSet":
        return (
            f"use a LeaderWorkerSet or a Job: KAI's pod-grouper gives a {kind} the minimum 1."
            f" Or create a PodGroup with minMember: {number} that the pods name"
        )
    if kind == "RayCluster":
        return "set minReplicas of the worker group to the number of its replicas"
    if kind.endswith("Job"):
        return f"set spec.runPolicy.schedulingPolicy.minAvailable: {number} in {controller}"
    # KAI ignores the minimum of a PodGroup that has SubGroups.
    of = f" of SubGroup {member.name}" if gang.pod_group and gang.pod_group.subgroups else ""
    return f"set minMember: {number}{of} in PodGroup {gang.ref.name}"


def _is_grouped_by_kai(gang: Gang) -> bool:
    """Return whether KAI's pod-grouper created the PodGroup, according to its name.

    The name then ends with an owner's uid. From 0.18 on, the pod-grouper creates one PodGroup for
    all pods of a Deployment.
    """
    group = gang.pod_group
    return group is not None and any(uid and group.name.endswith(uid) for uid in group.owners)


def _deployment_of(member: Member) -> str:
    """Return the Deployment of a part's pods in words, by name if that is known."""
    made_for = (ref for pod in member.pods for ref in pod.made_for if ref.kind == "Deployment")
    return str(next(made_for, "the Deployment"))


_STEP = "{step}"


def _together(gang: Gang) -> str:
    """Return the steps after which KAI starts all pods of the gang together.

    _STEP stands for the step that sets the minimum of a part. The other steps are the same for all
    parts, and expensive to compute.
    """
    demand = _needing_all(gang.whole).demand(from_scratch=True)
    placements = gang.placements_of(demand, from_scratch=True)
    pods = f"all {counted(demand.count, 'pod')}"
    if not placements.under(EMPTY).fits:
        return (
            f"use fewer or smaller pods: {pods} together have no room, even without other workloads"
        )
    bound = bound_below(gang, demand)
    if bound:
        return (
            f"first ask for a higher {bound}, because {pods} together exceed the current one."
            f" Then {_STEP}"
        )
    places = _places_now(placements, demand)
    if not places:
        return f"{_STEP}. Then no pod runs until {pods} have room together"
    if gang.is_of_grove:
        return f"{_STEP}: {pods} fit in {places} now"
    restart = restart_of(gang, gang.pods, "all pods")
    return f"{_STEP}, and {restart}: {pods} fit in {places} now"


def _needing_all(unit: Unit) -> Unit:
    """Return a part of a gang as if KAI had to place all pods that should exist together."""
    members = tuple(replace(member, minimum=member.expected) for member in unit.members)
    units = tuple(map(_needing_all, unit.units))
    return replace(unit, members=members, units=units, minimum=None)


def _places_now(placements: Placements, demand: Demand) -> str:
    """Return the domains or nodes where the demand fits now, or "" if it has no place."""
    if not placements.now.fits:
        return ""
    positions = frozenset(
        position
        for position, node in enumerate(placements.domains.nodes)
        if node.name in placements.now.nodes
    )
    return listed(where(placements.domains, demand, positions))
