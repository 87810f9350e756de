"""Report pods that controllers cannot create, and find the remedies for their messages."""

import shlex
from collections.abc import Iterator

from app.explain.gangs.gang import Gang
from app.explain.reasons.messages import (
    Advice,
    Words,
    advice_for,
    is_of_kai,
    makers_of,
    one_line,
    words_about,
    words_of,
)
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    Who,
    about,
    commands_to_describe,
    to_describe,
)
from app.explain.state.makers import (
    is_refusal,
    refusals,
    refusals_about,
    refusals_of_uid,
    warnings_about,
)
from app.explain.state.workload_status import status_of
from app.facts.identity import Ref
from app.facts.kubernetes.event import Event
from app.facts.labels import KAI_SCHEDULER, POD_SECURITY
from app.facts.unit_owners import EXCLUSIVE_JOBS
from app.rules.workload.kai_podgroup import TOPOLOGY_REQUIRED

_MULTIKUEUE = "kueue.x-k8s.io/multikueue"
_LEADER = ("leader pod not yet scheduled", "follower pod node selector not set")
"""Texts of JobSet's messages about followers whose leader has no node (`pkg/webhooks`)."""

_ADVICE: Advice = (
    (
        ("restarting jobset", "RestartJobSet failure policy action"),
        "Find out why a Job failed: JobSet deletes all of its Jobs and creates them again, up to"
        " failurePolicy.maxRestarts times.",
        "you",
    ),
    (
        ("exceeded quota",),
        "Request at most what the ResourceQuota of namespace {namespace} leaves, or ask for a"
        " higher quota: kubectl describe resourcequota -n {namespace}",
        "you",
    ),
    (
        ("failed quota",),
        "Set the requests and limits that the message names in the pod template: the ResourceQuota"
        " of namespace {namespace} requires them.",
        "you",
    ),
    (
        ('.grove-admission.grove.io": ',),
        "Ask the platform team to run grove-admission doctor: the API server could not call the"
        " webhook in the message.",
        "platform",
    ),
    (
        ("failed calling webhook", "no endpoints available"),
        "Ask the platform team to check the webhook in the message: the API server could not call"
        " it.",
        "platform",
    ),
    (
        ("GPU sharing is disabled",),
        "Request whole GPUs instead of gpu-fraction or gpu-memory, or ask the platform team to"
        " enable GPU sharing in KAI (global.gpuSharing=true in its Helm chart).",
        "you",
    ),
    (
        ("cannot have both GPU fraction request",),
        "Remove either the annotation gpu-fraction or gpu-memory from the pod template, or"
        " nvidia.com/gpu from its requests and limits.",
        "you",
    ),
    (
        ("annotation value must be",),
        "Correct the annotation that the message names in the pod template.",
        "you",
    ),
    (
        ('esourceClaimTemplate.resource.k8s.io "',),
        "Create the ResourceClaimTemplate that the message names. To use another one, create the"
        " PodCliqueSet again, because its resourceSharing can't be changed.",
        "you",
    ),
    (
        ('no matches for kind "ResourceClaim',),
        "Ask the platform team to update Kubernetes to 1.34 or later, because Grove needs"
        " resource.k8s.io/v1, or create the PodCliqueSet again without resourceSharing.",
        "platform",
    ),
    (
        ('no matches for kind "',),
        "Ask the platform team to install the API that the message names.",
        "platform",
    ),
    (
        ('RuntimeClass "',),
        "Correct runtimeClassName in the pod template, or ask the platform team to create the"
        " RuntimeClass that the message names: kubectl get runtimeclasses",
        "you",
    ),
    (
        ('"grove-initc"',),
        "Ask the platform team to exempt container grove-initc, or to relax the policy in the"
        " message for namespace {namespace}: Grove adds this container because of the startup"
        " order, and the pod template can't set its securityContext. Change other containers that"
        " the message names in the pod template.",
        "platform",
    ),
    (
        ("denied the request", "ValidatingAdmissionPolicy"),
        "Change the pod template so that it satisfies the policy named in the message.",
        "you",
    ),
    (
        ("violates PodSecurity",),
        "Change the securityContext in the pod template as the message says, or ask the platform"
        f" team to relax the Pod Security level of namespace {{namespace}} (label {POD_SECURITY}).",
        "you",
    ),
    (
        ("security context constraint",),
        "Change the securityContext in the pod template as the message says, or ask the platform"
        " team for a SecurityContextConstraints that the pods' ServiceAccount may use.",
        "you",
    ),
    (
        ("usage per Container", "usage per Pod", "limit to request ratio"),
        "Keep the requests and limits within the LimitRange of namespace {namespace}:"
        " kubectl describe limitrange -n {namespace}",
        "you",
    ),
    (
        ("no PriorityClass",),
        "Set priorityClassName in the pod template to one that exists: kubectl get priorityclasses",
        "you",
    ),
    (
        ("non overcommitable resources", "must be equal to nvidia.com/"),
        "Set the limit of the resource in the message to the same value as its request in the pod"
        " template.",
        "you",
    ),
    (
        ("cannot create", "cannot get", "cannot list", "cannot patch", "cannot update"),
        "Ask the platform team to grant the controller's account the permission that the message"
        " names.",
        "platform",
    ),
    (
        ("already exists",),
        "Delete the object that the message names if nothing needs it, or use another name.",
        "you",
    ),
    (
        ("pod group is not ready",),
        "Find out why Volcano does not enqueue the PodGroup (its queue may lack capability):"
        " kubectl describe podgroups.scheduling.volcano.sh -n {namespace}",
        "you",
    ),
    (
        ('serviceaccount "',),
        "Create the ServiceAccount that the message names, or correct serviceAccountName in the pod"
        " template.",
        "you",
    ),
    (
        ("being terminated",),
        "Create the workload in another namespace: {namespace} is being deleted.",
        "you",
    ),
    (
        ("must be no more than 63 ", "must be no more than 52 "),
        "Shorten the value that the message names. If it begins with the name of the workload, give"
        " the workload a shorter name.",
        "you",
    ),
    (
        ("DNS-1035 label must", "spec.hostname: Invalid value"),
        "Create the workload with another name. The names of the workload and its parts must begin"
        " with a letter, and consist of lowercase letters, digits and '-'.",
        "you",
    ),
    (
        (" is invalid: ",),
        "Correct the field that the message names in the template of the workload.",
        "you",
    ),
)
"""Advice on messages of controllers. The first row that applies counts."""


def waits_for_leader(words: Words) -> bool:
    """Return whether JobSet creates no followers because their leader has no node yet."""
    return any(part in words.text for part in _LEADER)


def advice_on(maker: Ref, words: Words, *, of_kai: bool) -> tuple[str, str, Who]:
    """Return an explanation of a controller's message, the remedy, and who can act.

    The explanation is text to append to the message, or "" if the message needs none. `maker` is
    the object that the message is about, and `of_kai` says whether KAI places its pods.
    """
    if waits_for_leader(words) and not of_kai:
        return (
            ". JobSet creates the followers once their leader has a node",
            "Find out why the leader pod has no node",
            "you",
        )
    if waits_for_leader(words):
        return (
            ". This is a deadlock: JobSet creates the followers only once the leader has a node,"
            " and KAI places the leader only once all pods exist",
            f"Remove the annotation {EXCLUSIVE_JOBS} from the JobSet, and request the level with"
            f" {TOPOLOGY_REQUIRED}: JobSet's exclusive placement cannot be combined with a gang.",
            "you",
        )
    known = known_advice(words.text, maker.namespace)
    if known:
        return "", *known
    see = to_describe(maker)
    return "", "Fix the problem that this message describes" + (f": {see}" if see else ""), "you"


def known_advice(text: str, namespace: str) -> tuple[str, Who] | None:
    """Return the remedy for a message about pods that can't be created, and who can act.

    Return None if no remedy is known.
    """
    known = next(advice_for(text, _ADVICE), None)
    if known is None:
        return None
    remedy, who = known
    return remedy.format(namespace=namespace), who


def pods_not_created(gang: Gang) -> Reasons:
    """Report that the controller of a workload says why it has not created pods."""
    event = next(_refusals(gang), None)
    if event is None:
        yield from _refused_by_condition(gang)
        return
    words = words_of(event, "its controller")
    yield _not_created(gang, event.about, words, f"event {event.reason}", event.message)


def creation_refused(gang: Gang) -> Reasons:
    """Report that pods of a workload can't be created, although it is not known which pods exist.

    An event or a condition of the workload says so.
    """
    warnings = warnings_about(gang.index, gang.ref)
    event = next((event for event in warnings if is_refusal(event.reason)), None)
    if event is None:
        yield from _refused_by_condition(gang)
        return
    words = words_of(event, "its controller")
    yield _not_created(gang, event.about, words, f"event {event.reason}", event.message)


def _refused_by_condition(gang: Gang) -> Reasons:
    """Report that a condition of the workload says that pods can't be created.

    Events are gone after an hour, but the condition stays until the controller succeeds.
    """
    if not gang.index.workload_statuses or gang.lacks_required:
        return
    workloads = dict.fromkeys((gang.ref, *gang.made_for))
    for ref in workloads:
        status = status_of(gang.index, ref)
        if status and status.refused and not status.ended:
            words = Words("its controller", one_line(status.refused), status.refused_since)
            field = "status.conditions[ReplicaFailure]"
            yield _not_created(gang, ref, words, field, status.refused)
            return


def graph_failed(gang: Gang) -> Reasons:
    """Report that Dynamo's operator can't create or change what a DynamoGraphDeployment needs."""
    refs = [gang.ref, *filter(None, (gang.pcs.maker if gang.pcs else None,)), *gang.made_for]
    for ref in dict.fromkeys(refs):
        status = gang.index.workload_statuses.get(ref)
        is_empty = not (gang.pods or gang.pcs)
        if status is None or not (status.has_error or (is_empty and status.unready)):
            continue
        words = Words("Dynamo's operator", one_line(status.unready), status.unready_since)
        said = words.quoted(gang.facts.now)
        text = f"{ref} has no pods. {said}"
        if not is_empty:
            text = f"{said}. Changes of {ref} may not have been applied"
        yield about(
            Evidence(ref, "status.conditions[Ready]", status.unready),
            "PodsNotCreated",
            text,
            f"Change {ref} as the message requires. If the message is about permissions, or a"
            " webhook that does not answer, ask the platform team",
            "you",
            commands=commands_to_describe(ref),
        )
        return


def managed_elsewhere(gang: Gang) -> Reasons:
    """Report that the workload names another controller, and has no pods in this cluster."""
    status = status_of(gang.index, gang.ref)
    if status is None or not status.managed_by or status.ended or gang.pods:
        return
    ref = status.ref
    if any(held.is_pending or held.cluster for held in gang.index.kueue_of_controller.get(ref, ())):
        return  # KueueHolds says more.
    text = (
        f"{ref} has no pods: its field managedBy names the controller {status.managed_by}, so"
        f" the usual controller of a {ref.kind} ignores it"
    )
    remedy = (
        f"Ask the platform team whether {status.managed_by} runs, or create {ref} again without"
        " managedBy"
    )
    commands: tuple[str, ...] = ()
    if status.managed_by == _MULTIKUEUE:
        text += ". Kueue's MultiKueue runs it in another cluster"
        remedy = (
            "Look for its pods in the cluster that the status of Kueue's Workload names. If there"
            f" is no Workload, create {ref} again with the label kueue.x-k8s.io/queue-name, or"
            " without managedBy"
        )
        see = f"kubectl describe workloads.kueue.x-k8s.io -n {shlex.quote(ref.namespace)}"
        commands = (see,)
    yield about(
        Evidence(ref, "managedBy", status.managed_by),
        "PodsNotCreated",
        text,
        remedy,
        "you",
        commands=commands,
    )


def _not_created(gang: Gang, maker: Ref, words: Words, field: str, message: str) -> Reason:
    """Return the reason for pods that a controller can't create.

    `words` is a message about the object `maker`. Its source is `field`, with the value `message`.
    """
    said = f"About {maker}, {words.quoted(gang.facts.now)}{_about_group(gang, words)}"
    of_kai = any(pod.scheduler == KAI_SCHEDULER for pod in gang.pods)
    meaning, remedy, who = advice_on(maker, words, of_kai=of_kai)
    text = f"{gang.ref} has no pods. {said}{meaning}"
    if "pods" in gang.facts.unread:
        text = f"{said}{meaning}"
    elif gang.pods:
        workload = next((pod.made_for[0] for pod in gang.pods if pod.made_for), gang.ref)
        text = f"Not all pods of {workload} could be created. {said}{meaning}"
    evidence = Evidence(maker, field, message)
    objects = (gang.ref,)
    # Other reasons say why the leader has no node.
    follows = waits_for_leader(words) and not of_kai and any(not pod.node for pod in gang.pods)
    return about(
        evidence,
        "PodsNotCreated",
        text,
        remedy,
        who,
        objects=objects,
        follows=follows,
        severity="warning" if follows else "problem",
    )


def _about_group(gang: Gang, words: Words) -> str:
    """Return a sentence with the newest warning about the PodGroup that a message names, or "".

    The message has the form `PodGroup NAMESPACE:NAME`.
    """
    space, _, name = words.text.partition("PodGroup ")[2].partition(" ")[0].partition(":")
    group = Ref("PodGroup", space, name)
    said = words_about(gang.index, group) if space == gang.namespace and name else None
    return f". About {group}, {said.quoted(gang.facts.now)}" if said else ""


def _refusals(gang: Gang) -> Iterator[Event]:
    """Yield the messages of controllers that explain missing pods of a gang, newest first.

    For a gang without pods, they are all warnings about its workload except KAI's. For other gangs,
    they are the messages about pods that cannot be created, if newer than the newest pod. Yield
    none if such a gang lacks required pods, because GangIncomplete then quotes the messages.
    """
    if not gang.pods:
        warnings = warnings_about(gang.index, gang.ref)
        yield from (event for event in warnings if not is_of_kai(event))
        return
    if not refusals(gang.index) or gang.lacks_required:
        return
    uids = set(makers_of(gang, gang.pods))
    newest = max((pod.created or 0.0 for pod in gang.pods), default=0.0)
    found = [event for ref in gang.made_for for event in refusals_about(gang.index, ref)]
    found += [event for uid in uids for event in refusals_of_uid(gang.index, uid)]
    for event in sorted(found, key=lambda event: -(event.time or 0.0)):
        if (event.time or 0.0) > newest:
            yield event
