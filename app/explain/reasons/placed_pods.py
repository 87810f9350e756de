"""Report pods that are placed against a constraint or on lost nodes, and failed bindings."""

import itertools
import shlex
from collections.abc import Callable, Iterable, Iterator

from app.base.groups import by_key
from app.base.sentences import upper_first
from app.explain.gangs.gang import Gang, Member, Unit, whole_demand
from app.explain.placing.fitness import tolerates
from app.explain.placing.placements import EMPTY
from app.explain.reasons.constraints import gang_unconstrained
from app.explain.reasons.gates import grouped, pods_in_words, refs
from app.explain.reasons.gpu_sharing import reservation_evicted
from app.explain.reasons.messages import (
    Advice,
    advice_for,
    is_of_kai,
    maker_words,
    not_running,
    one_line,
    state_words,
)
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    Who,
    about,
    ago,
    commands_to_describe,
    counted,
    listed,
    with_age,
)
from app.explain.reasons.rejected_constraints import joined_by, name_topology
from app.explain.reasons.restarts import deletion_of, restart_of
from app.explain.state.domains import Path
from app.facts.identity import Ref
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.pod import Pod
from app.facts.labels import POD_SECURITY


def required_violated(gang: Gang) -> Reasons:
    """Report that pods of a part are not all known to be in one domain of its required level."""
    told = [(part, part.told.required) for part in gang.bound_parts if part.told.required]
    unnamed = _unnamed(gang)
    told += [pair for pair in unnamed if pair not in told]

    for part, key in told:
        domains, unlabelled = _domains_of(gang, part, key)
        if len(domains) + len(unlabelled) < 2:
            continue
        level = gang.topology.name_of(key)
        pods = counted(part.placed, "pod")
        own = gang.domains.by(part.told.levels)
        some_have = any(key in own.nodes[own.positions[name]].labels for name in unlabelled)
        missing = f"label of {level} or of a broader level" if some_have else f"{level} label"
        where = _places(level, domains, unlabelled, missing)
        title = _title(gang, part)
        text = f"{title} must stay in one {level}, but its {pods} are {where}"
        restart = restart_of(gang, part.pods, f"all pods of {title}")
        remedy = upper_first(restart)
        commands = deletion_of(gang, part.pods)
        who: Who = "you"
        labelling = list(_labelling(gang, part, key, domains, unlabelled))
        if labelling and (part, key) not in unnamed:
            node = "node" if len(unlabelled) == 1 else "nodes"
            remedy = (
                f"Ask the platform team to label the {node}, because KAI cannot tell which {level}"
                " these pods are in"
            )
            if not domains and len(unlabelled) == 1:
                remedy = f"{remedy}. Replace VALUE with the domain of the node"
            elif not domains:
                remedy = f"{remedy}. Replace NODE with each node, and VALUE with its domain"
            commands = tuple(labelling)
            who = "platform"
        elif (part, key) in unnamed:
            subgroup = "" if part is gang.whole else part.name
            remedy = f"{name_topology(gang, subgroup)}, then {restart}"
        elif any(
            joined_by(gang.domains.by(part.told.levels), key, [pod.node for pod in part.placed])
        ):
            remedy = (
                "Ask the platform team to rename the domains so that their names have no dots, then"
                f" {restart}"
            )
        elif unapplied := _unapplied(gang):
            remedy = f"{unapplied.remedy}. Then {restart}"
            commands = ()
            who = unapplied.who
        elif not gang.is_of_kueue and (lacking := _lacking_room(gang, part, level, restart)):
            remedy = lacking
            commands = ()
        else:
            scheduler = "Kueue" if gang.is_of_kueue else "KAI"
            remedy = f"{remedy}, so that {scheduler} places all of them in one {level}"
        evidence = Evidence(gang.ref, "required", key)
        yield about(
            evidence,
            "RequiredViolated",
            text,
            remedy,
            who,
            parts=(part.name,),
            commands=commands,
        )


def _unapplied(gang: Gang) -> Reason | None:
    """Return the reason why KAI would ignore the PodGang's constraint again, or None."""
    if {"sets", "gangs", "topologies"} & gang.facts.unread:
        return None
    return next(gang_unconstrained(gang), None)


def _title(gang: Gang, part: Unit | Member) -> str:
    """Return the name of a part, after the word `replica` if the part is a scaling group's replica.

    Without the word, the replica could be taken for a PodGang, because both may have the same name,
    such as `llm-0-prefill-0`.
    """
    is_replica = isinstance(part, Unit) and part.name != gang.whole.name
    return f"replica {part.name}" if is_replica and gang.ref.kind == "PodGang" else part.name


def _lacking_room(gang: Gang, part: Unit | Member, level: str, restart: str) -> str:
    """Return the remedy for a part whose pods would have no place if they were restarted now.

    `restart` says how to restart them. Return "" if they have a place, or if the room is not known.
    """
    if not gang.index.room_is_known:
        return ""
    placements = gang.placements_of(whole_demand(part), leaving=part.placed)
    if placements.now.fits:
        return ""
    pods = counted(part.placed, "pod")
    if placements.under(EMPTY).fits:
        return (
            f"Wait until one {level} has room for all {pods}, and then {restart}: if restarted now,"
            " they would not be placed again"
        )
    return (
        "Ask the platform team to check the labels of the nodes, or require a broader level. Do"
        f" not restart these pods: no {level} is large enough for all {pods}"
    )


def _labelling(
    gang: Gang, part: Unit | Member, key: str, domains: set[Path], unlabelled: set[str]
) -> Iterator[str]:
    """Yield the commands that add missing labels of a level, and of broader levels, to nodes.

    `unlabelled` are the nodes of the part's pods that lack at least one of these labels, and
    `domains` are the domains of the part's other pods. If there is one domain, the commands give
    the unlabelled nodes its labels. Yield nothing if labels say that pods are in several domains.
    """
    own = gang.domains.by(part.told.levels)
    keys = own.keys[: own.depth(key)]
    values = dict(zip(keys, next(iter(domains)), strict=True)) if domains else {}
    labels_of = {name: own.nodes[own.positions[name]].labels for name in sorted(unlabelled)}
    agree = all(
        labels.get(key, value) == value
        for labels in labels_of.values()
        for key, value in values.items()
    )
    if len(domains) > 1 or not agree:
        return
    lacking = (
        (tuple(key for key in keys if key not in labels), name)
        for name, labels in labels_of.items()
    )
    for missing, names in by_key(lacking).items():
        labels = [f"{key}={values.get(key, 'VALUE')}" for key in missing]
        several = len(names) > 1 and not values
        yield f"kubectl label node {shlex.join([*(['NODE'] if several else names), *labels])}"


def _places(level: str, domains: set[Path], unlabelled: set[str], missing: str) -> str:
    """Return a text with the domains of a level that have pods, and the unlabelled nodes.

    `missing` describes the label that these nodes lack.
    """
    names = listed(sorted("/".join(path) for path in domains))
    inside = f"in {level} {names}" if domains else ""
    if len(domains) > 1:
        inside = f"in {counted(domains, level)} ({names})"
    lacks = "lacks" if len(unlabelled) == 1 else "lack"
    nodes = listed(sorted(unlabelled))
    outside = f"on {nodes}, which {lacks} the {missing}" if unlabelled else ""
    return " and ".join(filter(None, (inside, outside)))


def node_gone(gang: Gang) -> Reasons:
    """Report that pods are bound to nodes that do not exist any more."""
    # The tree of domains is computed only if some pod has a node.
    for on_node, objects, evidence in _by_node(
        gang, lambda name: name not in gang.domains.positions
    ):
        text = f"{on_node}, which does not exist any more"
        them, these = ("it", "this pod") if len(objects) == 1 else ("them", "these pods")
        remedy = (
            f"Wait a few minutes until Kubernetes deletes {these}, or force-delete {them}, because"
            " no kubelet is left to confirm a normal deletion"
        )
        names = shlex.join(ref.name for ref in objects)
        command = f"kubectl delete pod -n {objects[0].namespace} {names} --force"
        yield about(evidence, "NodeGone", text, remedy, "you", objects=objects, commands=(command,))


def node_not_ready(gang: Gang) -> Reasons:
    """Report that pods are on nodes that are not ready."""
    dead = gang.index.dead_nodes
    remedy = (
        "Ask the platform team to repair or delete the node. Kubernetes usually marks its pods for"
        " deletion after five minutes, but they end only when the node is ready again or deleted"
    )
    for on_node, objects, evidence in _by_node(gang, dead.__contains__):
        node = next((each for each in gang.index.nodes if each.name == evidence.value), None)
        lost = node.lost_at if node else None
        text = f"{on_node}, which is not ready"
        if lost is not None and gang.facts.now:
            text = f"{on_node}, which has not been ready for at least {ago(gang.facts.now - lost)}"
        commands = commands_to_describe(Ref("Node", "", evidence.value))
        yield about(
            evidence, "NodeNotReady", text, remedy, "platform", objects=objects, commands=commands
        )


def _by_node(
    gang: Gang, is_meant: Callable[[str], bool]
) -> Iterator[tuple[str, tuple[Ref, ...], Evidence]]:
    """Yield (text, pods, evidence) for each node with unfinished pods, if `is_meant` accepts it.

    An example of the text is `2 pods of llm-0 are on node gpu-01`. `is_meant` gets the name of the
    node.
    """
    alive = (pod for pod in gang.placed if not pod.finished)
    for name, pods in grouped((pod.node, pod) for pod in alive if is_meant(pod.node)):
        on_node = f"{pods_in_words(gang, pods)} {'is' if len(pods) == 1 else 'are'} on node {name}"
        yield on_node, refs(pods), Evidence(pods[0].ref, "spec.nodeName", name)


def _unnamed(gang: Gang) -> list[tuple[Unit | Member, str]]:
    """Return (part, key of its level) for each required level whose topology is not named.

    KAI ignores such levels.
    """
    group = gang.pod_group
    if not group:
        return []
    named = {sub.name: sub.unnamed.required for sub in group.subgroups}
    pairs = [(part, named.get(part.name, "")) for part in gang.whole.parts()]
    pairs.append((gang.whole, group.unnamed.required))
    return [(part, key) for part, key in pairs if key]


def _domains_of(gang: Gang, part: Unit | Member, key: str) -> tuple[set[Path], set[str]]:
    """Return the domains of a level that have pods of the part, and the unlabelled nodes with pods.

    A node counts as unlabelled if it lacks the label of this level or of a broader one.
    """
    domains = gang.domains.by(part.told.levels)
    depth = domains.depth(key)
    paths: set[Path] = set()
    unlabelled: set[str] = set()
    for name in {pod.node for pod in part.placed}:
        position = domains.positions.get(name)
        if depth is None or position is None:
            continue
        path = domains.paths[position]
        if path is not None:
            paths.add(path[:depth])
            continue
        labels = domains.nodes[position].labels
        path = tuple(labels[level] for level in domains.keys[:depth] if level in labels)
        if len(path) == depth:
            paths.add(path)
        else:
            unlabelled.add(name)
    return paths, unlabelled


def not_as_preferred(gang: Gang) -> Reasons:
    """Report that all pods are placed, but in more preferred domains than would be needed now."""
    if gang.waits:
        return
    for part in gang.bound_parts:
        if not part.told.preferred:
            continue
        used = _preferred_domains(gang, part, {pod.node for pod in part.placed})
        if len(used) < 2:
            continue
        placements = gang.placements_of(whole_demand(part), leaving=part.placed)
        again = _preferred_domains(gang, part, placements.now.nodes)
        if not again or len(used) <= len(again):
            continue

        level = gang.topology.name_of(part.told.preferred)
        pods = counted(part.placed, "pod")
        title = _title(gang, part)
        text = f"{pods} of {title} are in {counted(used, level)}; {len(again)} would be enough"
        evidence = Evidence(gang.ref, "preferred", part.told.preferred)
        restart = upper_first(restart_of(gang, part.pods, f"all pods of {title}"))
        remedy = f"{restart}, if closer packing is worth a restart"
        yield about(
            evidence,
            "NotAsPreferred",
            text,
            remedy,
            "you",
            severity="note",
            commands=deletion_of(gang, part.pods),
        )


def _preferred_domains(gang: Gang, part: Unit | Member, names: Iterable[str]) -> set[Path | None]:
    """Return the domains of a part's preferred level that contain the nodes `names`.

    The result is empty if a node is in no such domain, or if the part prefers no level.
    """
    domains = gang.domains.by(part.told.levels)
    depth = domains.depth(part.told.preferred)
    paths = domains.domains_of(names, depth) if depth else set()
    return set() if None in paths else paths


def binding_failed(gang: Gang) -> Reasons:
    """Report that KAI chose a node for a pod, but has not bound the pod to this node."""
    yield from _never_bound(gang)
    lacks_reservation = any(reservation_evicted(gang))
    for pod in gang.waiting:
        if lacks_reservation and pod.shape.part:
            continue  # ReservationEvicted says why pods that share GPUs are not bound.
        events = (
            e
            for e in gang.index.events_about(pod.namespace, pod.uid)
            if e.reason in ("BindingError", "FailedBinding") and is_of_kai(e)
        )
        for event in itertools.islice(events, 1):
            said = one_line(event.message)
            text = with_age(
                f"KAI chose a node, but binding failed: {said}", event.time, gang.facts.now
            )
            helper = _helper(gang, said)
            if SCALING_UP in said:
                yield _scaling_up(gang, pod, event, text)
                continue
            evidence = Evidence(pod.ref, f"event {event.reason}", event.message)
            if helper:
                state, remedy = _helper_state(gang, helper)
                yield about(evidence, "BindingFailed", f"{text}. {state}", remedy, "platform")
                continue
            remedy, who = next(advice_for(said, _BINDING), _BINDER_LOG)
            yield about(evidence, "BindingFailed", text, remedy, who)


_SLOW = 60.0
"""The seconds within which KAI's binder should have bound a pod, or have reported why not."""


def _never_bound(gang: Gang) -> Reasons:
    """Yield a reason if KAI chose nodes for pods over a minute ago, and has been silent since."""
    chosen: list[tuple[Pod, Event]] = []
    for pod in gang.waiting:
        about_pod = gang.index.events_about(pod.namespace, pod.uid)
        last = next(filter(is_of_kai, about_pod), None)
        if last and last.reason == "Scheduled" and last.time and gang.facts.now - last.time > _SLOW:
            chosen.append((pod, last))
    if not chosen:
        return
    pod, event = min(chosen, key=lambda each: each[1].time or 0.0)
    since = ago(gang.facts.now - (event.time or 0.0))
    others = f" and for {counted(len(chosen) - 1, 'more pod')}" if chosen[1:] else ""
    text = (
        f"KAI chose a node for {pod.name}{others} {since} ago, and KAI's binder has neither bound"
        f" {'them' if others else 'the pod'} nor reported an error"
    )
    text += not_running(gang.index, "binder-")
    remedy = "Ask the platform team whether KAI's binder runs, and to read its log"
    commands = ("kubectl get pods -A | grep binder",)
    evidence = Evidence(pod.ref, f"event {event.reason}", event.message)
    yield about(evidence, "BindingFailed", text, remedy, "platform", commands=commands)


SCALING_UP = "cluster is scaling up"
"""KAI's binder creates no reservation pod while any of KAI's scaling pods has no node.

Source: `isScalingUp` in `pkg/binder/binding/resourcereservation/resource_reservation.go`.
"""


def _scaling_up(gang: Gang, pod: Pod, event: Event, text: str) -> Reason:
    """Return the reason for a message that the cluster is scaling up.

    The scaling pods may be for other workloads, and an autoscaler may never add a node for them:
    https://github.com/kai-scheduler/KAI-Scheduler/issues/611
    """
    evidence = Evidence(pod.ref, f"event {event.reason}", event.message)
    asking = sorted(each.name for each in gang.index.scaling_pods if not each.node)
    what = "KAI's binder reserves no further GPU for sharing while a scaling pod of KAI has no node"
    if not asking:
        text = f"{text}. {what}, and there is none now"
        remedy = "Wait until KAI tries again"
        return about(evidence, "BindingFailed", text, remedy, "wait")
    namespace = gang.index.scaling_pods[0].namespace
    text = f"{text}. {what}: {listed(asking)} in namespace {namespace}"
    remedy = (
        "Wait if an autoscaler is adding nodes. If it adds none, ask the platform team to see why,"
        " and to delete these pods"
    )
    commands = (f"kubectl describe pods -n {namespace}",)
    return about(evidence, "BindingFailed", text, remedy, "platform", commands=commands)


_BINDING: Advice = (
    (
        ("denied the request",),
        "Change the pod template so that it satisfies the policy named in the message, or delete"
        " the workload.",
        "you",
    ),
    (
        ("RuntimeClass",),
        "Ask the platform team to install the RuntimeClass that the message names, which KAI's"
        " helper pods use, or to set binder.resourceReservation.runtimeClassName in KAI's Helm"
        " chart. NVIDIA's GPU Operator creates the RuntimeClass nvidia.",
        "platform",
    ),
    (
        ("exceeded quota",),
        "Ask the platform team to raise the ResourceQuota that the message names, because KAI's"
        " helper pods count too.",
        "platform",
    ),
    (
        ("violates PodSecurity",),
        "Ask the platform team to allow KAI's helper pods in their namespace: its Pod Security"
        f" level (label {POD_SECURITY}) rejects them.",
        "platform",
    ),
    (
        ("service account",),
        "Ask the platform team to create the ServiceAccount that the message names.",
        "platform",
    ),
    (
        ("cannot create", "cannot get", "cannot list", "cannot patch", "cannot update"),
        "Ask the platform team to give KAI's binder the missing permission.",
        "platform",
    ),
)
"""Advice on messages of KAI's binder. The first row that applies counts."""

_BINDER_LOG: tuple[str, Who] = (
    "Fix the problem that KAI's message describes, or ask the platform team to read the log of"
    " KAI's binder.",
    "platform",
)
"""Advice on other messages of KAI's binder."""


def _helper(gang: Gang, said: str) -> Pod | None:
    """Return the helper pod of KAI that a message names as NAMESPACE/NAME, or None."""
    for word in said.split():
        namespace, _, name = word.strip(".,:;()[]\"'").partition("/")
        pod = gang.index.pods.get((namespace, name))
        if pod and pod.namespace != gang.namespace:
            return pod
    return None


def _helper_state(gang: Gang, helper: Pod) -> tuple[str, str]:
    """Return a text about the state of a helper pod of KAI, and the remedy.

    A helper pod reserves a GPU, for example.
    """
    name = helper.name
    node = next((node for node in gang.index.nodes if node.name == helper.node), None)
    shape = helper.shape
    taints = [
        taint for taint in (node.taints if node else ()) if not tolerates(shape.tolerations, taint)
    ]
    words = next(maker_words(gang.index, helper.namespace, [helper.uid]), None)
    said = f"; {words[1].quoted(gang.facts.now)}" if words else ""
    said = said or (f"; {state_words(gang.index, helper)}".rstrip("; "))
    see = f"kubectl describe pod -n {helper.namespace} {name}"
    if taints:
        named = listed(f"{taint.key} ({taint.effect})" for taint in taints)
        evicted = any(taint.effect == "NoExecute" for taint in taints)
        does = "is evicted by" if evicted else "does not tolerate"
        one = len(taints) == 1
        return (
            f"KAI's helper pod {name} {does} the {'taint' if one else 'taints'} {named} of"
            f" {helper.node}{said}",
            f"Ask the platform team to give KAI's reservation pods a toleration for {named}, or to"
            f" remove {'this taint' if one else 'these taints'} from {helper.node}: {see}",
        )
    state = helper.phase if helper.finished else listed(helper.waiting) or helper.phase
    created = ""
    if helper.created is not None and gang.facts.now:
        created = f" (created {ago(gang.facts.now - helper.created)} ago)"
    on = f" on {helper.node}" if helper.node else " without a node"
    if state == "Running":
        return (
            f"KAI's helper pod {name} is {state}{on} now{said}",
            "Wait until KAI tries again, or ask the platform team to read the logs of KAI's binder"
            f" and of the helper pod: kubectl logs -n {helper.namespace} {name}",
        )
    why = f"does not run: {see}"
    has_ended = helper.finished and not helper.failure
    if has_ended or "CrashLoopBackOff" in helper.waiting:
        previous = "" if has_ended else " --previous"
        why = f"ends: kubectl logs -n {helper.namespace} {name}{previous}"
    return (
        f"KAI's helper pod {name}{created} is {state}{on}{said}",
        f"Ask the platform team to find out why the helper pod {why}",
    )
