"""Report problems with ResourceClaims that pods share by name."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter

from msgspec.structs import replace

from app.base.sentences import upper_first
from app.explain.gangs.gang import Gang
from app.explain.placing.fitness import matches_any
from app.explain.reasons.blocking_workloads import (
    WAIT_FOR_RELEASE,
    is_late,
    pod_of_consumer,
    together,
)
from app.explain.reasons.claims import only_on
from app.explain.reasons.gates import grouped, refs
from app.explain.reasons.obstacle import closed_because
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    Severity,
    Who,
    about,
    ago,
    counted,
    finalizers_of,
    listed,
    removal_of,
)
from app.explain.reasons.restarts import fails_if_deleted, restart_of
from app.explain.state.index import Index
from app.facts.grove.unit_member import CLAIM
from app.facts.kubernetes.claim import ResourceClaim
from app.facts.kubernetes.pod import Pod
from app.facts.labels import KAI_QUEUE, MNNVL_SCOPE

MOST_CONSUMERS = 256
"""The maximum number of pods for which Kubernetes reserves a claim."""


def _claims_shared(gang: Gang) -> Iterator[tuple[ResourceClaim, list[Pod]]]:
    """Yield the existing claims that pending pods of a gang use by name, with these pods."""
    waiting = (
        (c.claim, pod) for pod in gang.waiting for c in pod.claims if c.claim and not c.template
    )
    for name, pods in grouped(waiting):
        stored = gang.index.claims.get((gang.namespace, name))
        if stored:
            yield stored, pods


def claim_queue(gang: Gang) -> Reasons:
    """Report that a shared claim of GPUs lacks the label with the gang's queue.

    KAI then places no pod of the gang that uses the claim, and takes all DeviceClasses with `gpu`
    in their names for GPUs: see `pkg/common/resources/dra.go` and
    `pkg/scheduler/plugins/dynamicresources`. Claims from templates need no label.
    """
    group = gang.pod_group
    if not group:
        return

    for claim, _ in _claims_shared(gang):
        has_gpus = any("gpu" in name.lower() for name in claim.classes)
        if not has_gpus or not group.queue or claim.queue == group.queue:
            continue
        names = "no queue label, so KAI places no pod with it"
        if claim.queue:
            names = (
                f"the label of queue {claim.queue}, so KAI places only pods of that queue with it"
            )
        text = f"ResourceClaim {claim.name}, which pods share, requests GPUs and has {names}"
        evidence = Evidence(claim.ref, f"metadata.labels[{KAI_QUEUE}]", claim.queue or "absent")
        label = shlex.quote(f"{KAI_QUEUE}={group.queue}")
        name = shlex.quote(claim.name)
        overwrite = " --overwrite" if claim.queue else ""
        command = f"kubectl label resourceclaim -n {gang.namespace} {name} {label}{overwrite}"
        remedy = f"Label the claim with queue {group.queue}, if no pods of other queues use it"
        yield about(evidence, "ClaimQueue", text, remedy, "you", commands=(command,))


def claim_elsewhere(gang: Gang) -> Reasons:
    """Report that a shared claim is allocated on nodes that can't take the pending pods."""
    for claim, pods in _claims_shared(gang):
        if not claim.allocated or not claim.nodes:
            continue
        allowed = [node for node in gang.index.nodes if matches_any(claim.nodes, node)]
        only_there = only_on(gang, partial(matches_any, claim.nodes))
        if gang.placements.under(only_there).fits:
            continue
        shapes = [pod.shape for pod in pods]
        closed = {node.name: " and ".join(closed_because(shapes, node)) for node in allowed}
        words = (f"{name} ({why})" if why else name for name, why in closed.items())
        where = listed(words) or "a node that is gone"
        number = counted(pods, "pending pod")
        text = (
            f"ResourceClaim {claim.name} is allocated on {where}, so {number} must go there, but"
            " the gang does not fit there"
        )
        if not allowed:
            text = (
                f"ResourceClaim {claim.name} is allocated on {where}, so {number} cannot be placed"
            )
        evidence = Evidence(claim.ref, "status.allocation.nodeSelector", where)
        remedy, who = _unbinding(gang, claim, is_gone=not allowed)
        to_open = [name for name, why in closed.items() if why]
        if to_open and gang.placements.under(replace(only_there, opened=True)).fits:
            remedy += f". Or ask the platform team to open {listed(to_open)}"
        commands = () if allowed else tuple(_deleting(gang, claim))
        yield about(evidence, "ClaimElsewhere", text, remedy, who, commands=commands)


def _deleting(gang: Gang, claim: ResourceClaim) -> Iterator[str]:
    """Yield the commands that delete the pods of a claim and the claim itself.

    Yield nothing for a claim that nothing creates again, or if a controller counts the deletion of
    a pod as a failure.
    """
    users = _lasting_users(gang, claim)
    is_made_again = _is_ours(gang, claim) or _is_of_grove(gang, claim)
    if is_made_again and not any(map(fails_if_deleted, users)):
        if users:
            yield _deleting_pods(claim, users)
        yield f"kubectl delete resourceclaim -n {claim.namespace} {shlex.quote(claim.name)}"


def _deleting_pods(claim: ResourceClaim, users: Iterable[Pod]) -> str:
    names = shlex.join(pod.name for pod in users)
    return f"kubectl delete pod -n {claim.namespace} {names}"


def _unbinding(gang: Gang, claim: ResourceClaim, *, is_gone: bool) -> tuple[str, Who]:
    """Return the remedy for a claim on nodes that cannot take the pending pods, and who can act.

    `is_gone` says whether all of these nodes have been deleted.
    """
    is_ours = _is_ours(gang, claim)
    each = _CLAIM_FOR_EACH_OF_OURS if is_ours else _CLAIM_FOR_EACH
    if _is_of_grove(gang, claim):
        each = together("Request less in each pod, so that all of them fit", _NARROWER_IN_GROVE)
    if not is_gone:
        return each, "platform" if is_ours else "you"

    users = _lasting_users(gang, claim)
    names = listed(pod.name for pod in users)
    is_of_grove = _is_of_grove(gang, claim)
    if is_ours or is_of_grove:
        pods = f"{names}, and then the claim" if users else "the claim"
        maker = "Grove" if is_of_grove else "grove-admission"
        remedy = f"Delete {pods}: {maker} creates a new one, which other nodes can get"
    elif users:
        # Kubernetes deallocates a claim once it is reserved for no pod.
        remedy = f"Delete {names}: the claim can then be allocated on other nodes"
    else:
        remedy = "Delete the claim and create it again, so that it can be allocated on other nodes"
    return remedy if is_of_grove else together(remedy, each), "you"


_CLAIM_FOR_EACH = "Use a ResourceClaimTemplate, which creates a claim for each pod"
_CLAIM_FOR_EACH_OF_OURS = (
    "Ask the platform team to set mnnvl.claimMode: template, which creates a claim for each pod"
)


_NARROWER_IN_GROVE = (
    "Create the PodCliqueSet again with the scope PerReplica in resourceSharing, which can't be"
    " changed"
)


def _is_of_grove(gang: Gang, claim: ResourceClaim) -> bool:
    """Return whether Grove creates a claim because of resourceSharing in the PodCliqueSet.

    Grove gives the entry in the pods the name of the claim (`InjectResourceClaimRefs`).
    """
    used = (used for pod in gang.pods for used in pod.claims if used.claim == claim.name)
    return bool(claim.place.pcs) and any(each.name == claim.name for each in used)


def _is_ours(gang: Gang, claim: ResourceClaim) -> bool:
    """Return whether grove-admission creates a claim, and creates it again if it is deleted."""
    names = {used.name for pod in gang.pods for used in pod.claims if used.claim == claim.name}
    return CLAIM in names


def claim_being_deleted(gang: Gang) -> Reasons:
    """Report that a shared claim is being deleted, and existing pods still use it."""
    for name in sorted(gang.shared_claims):
        claim = gang.index.claims.get((gang.namespace, name))
        if claim is not None and claim.deleting is not None:
            users = _lasting_users(gang, claim)
            if users:
                yield _being_deleted(gang, claim, users)


def _being_deleted(gang: Gang, claim: ResourceClaim, users: Sequence[Pod]) -> Reason:
    name = claim.name
    use = counted(users, "pod still uses", "pods still use")
    text = f"ResourceClaim {name} is being deleted, but {use} it, so no other pod can use it"
    again = "grove-admission creates" if _is_ours(gang, claim) else "you can create"
    if _is_of_grove(gang, claim):
        again = "Grove creates"
    restart = "Delete this pod" if len(users) == 1 else "Delete these pods together"
    commands: tuple[str, ...] = (_deleting_pods(claim, users),)
    if any(map(fails_if_deleted, users)):
        restart = upper_first(restart_of(gang, users, "these pods"))
        commands = ()
    remedy = (
        f"{restart} as soon as the workload can tolerate that: then the claim is deleted, and"
        f" {again} it again"
    )
    evidence = Evidence(claim.ref, "metadata.deletionTimestamp", "set")
    waits = any(used.claim == name for pod in gang.waiting for used in pod.claims)
    severity: Severity = "problem" if waits else "warning"
    return about(
        evidence, "ClaimBeingDeleted", text, remedy, "you", commands=commands, severity=severity
    )


def _lasting_users(gang: Gang, claim: ResourceClaim) -> list[Pod]:
    """Return the pods for which a claim is reserved, sorted by name.

    Pods that have finished, are terminating or do not exist are omitted.
    """
    known = (gang.index.pods.get((claim.namespace, user.name)) for user in claim.consumers)
    return sorted((pod for pod in known if pod and pod.is_alive), key=attrgetter("name"))


def claim_held(gang: Gang) -> Reasons:
    """Report that a shared claim is still reserved for a pod that is gone or terminating."""
    for claim, _ in _claims_shared(gang):
        for consumer in claim.consumers:
            pod = pod_of_consumer(gang.index, claim, consumer)
            commands: tuple[str, ...] = ()
            if not pod:
                state = "which does not exist any more"
                remedy = WAIT_FOR_RELEASE
            elif pod.deleting is not None:
                finalizers = f" ({finalizers_of(pod.finalizers)})" if pod.finalizers else ""
                age = ago(gang.facts.now - (pod.deleted or 0.0))
                state = f"which has been terminating for {age}{finalizers}"
                remedy = f"Wait until pod {consumer.name} has ended"
                if is_late(pod, gang.facts.now):
                    remedy = f"Find out why pod {consumer.name} does not end"
                    if pod.finalizers:
                        remedy = removal_of(pod.finalizers)
                see = f"kubectl describe pod -n {pod.namespace} {shlex.quote(pod.name)}"
                commands = (see,)
            else:
                continue
            is_replaced = not pod and (claim.namespace, consumer.name) in gang.index.pods
            holder = f"{'a previous pod' if is_replaced else 'pod'} {consumer.name}"
            text = f"ResourceClaim {claim.name} is reserved for {holder}, {state}"
            evidence = Evidence(claim.ref, "status.reservedFor", consumer.name)
            yield about(evidence, "ClaimHeld", text, remedy, "you", commands=commands)


def _number_of_users(index: Index, claim: ResourceClaim) -> int:
    """Return the number of pods that use a claim or for which it is reserved."""

    def look() -> int:
        users = {pod.name for pod in index.pods_of_claim.get(claim.key, ())}
        return len(users | {consumer.name for consumer in claim.consumers})

    # Thousands of gangs may share a claim.
    return index.remembered(("users", claim.key), look, ["pods", "claims"])


def claim_full(gang: Gang) -> Reasons:
    """Report that more pods use a shared claim than the 256 for which it can be reserved."""
    for claim, pods in _claims_shared(gang):
        total = _number_of_users(gang.index, claim)
        if total <= MOST_CONSUMERS:
            continue
        text = (
            f"{total} pods use ResourceClaim {claim.name}, but Kubernetes reserves a claim for at"
            f" most {MOST_CONSUMERS} pods. It is reserved for {len(claim.consumers)} now"
        )
        evidence = Evidence(claim.ref, "status.reservedFor", str(len(claim.consumers)))
        remedy = _NARROWER_IN_GROVE if _is_of_grove(gang, claim) else _CLAIM_FOR_EACH
        if _is_ours(gang, claim):
            narrow = f"Use a narrower scope in the annotation {MNNVL_SCOPE}"
            remedy = together(narrow, _CLAIM_FOR_EACH_OF_OURS)
        yield about(evidence, "ClaimFull", text, remedy, "you", objects=refs(pods))
