"""Report messages of schedulers about pending pods, and schedulers that are silent about them.

Messages and silence of KAI count only if no other rule explains a pending gang. Messages are quoted
with their age, if it is known.
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from app.base.groups import by_key
from app.explain.gangs.gang import Gang
from app.explain.placing.demand import Demand, where
from app.explain.placing.fitness import (
    is_chosen,
    is_of_start,
    is_selected,
    removal_words,
    tolerates,
)
from app.explain.queue_order.cycle import line_of
from app.explain.reasons.gates import grouped, refs
from app.explain.reasons.kueue import selector_of_kueue
from app.explain.reasons.messages import (
    Advice,
    advice_for,
    did_you_mean,
    latest_of_kai,
    not_running,
    one_line,
    refusal_of_kai,
    scheduler_words,
    schedulers,
    usual_schedulers,
    waiting_for,
    words_about,
)
from app.explain.reasons.missing_queue import has_scheduler
from app.explain.reasons.reason import (
    Evidence,
    Reasons,
    Who,
    about,
    ago,
    counted,
    listed,
    with_age,
)
from app.explain.reasons.restarts import fails_if_deleted, restart_of
from app.explain.state.amounts import asked_gpus
from app.explain.state.index import Index
from app.facts.identity import Ref
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.node import RESOURCE_MANAGEMENT
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.labels import KAI_CORDONS, KAI_SCHEDULER
from app.facts.unit_owners import EXCLUSIVE_GROUPS, EXCLUSIVE_JOBS
from app.objects.resource import DEPLOYMENT

SOON = 60.0
"""The seconds within which a running scheduler says something about a new pod."""


# Schedulers other than KAI.


def scheduler_refuses(gang: Gang) -> Reasons:
    """Report that a scheduler other than KAI says why it does not place pods."""
    pods = [pod for pod in gang.waiting if pod.scheduler != KAI_SCHEDULER and not pod.gates]
    told = [(words, pod) for pod in pods if (words := scheduler_words(gang.index, pod))]
    # Some messages about claims name the pod.
    keys = ((words.source, words.text.replace(pod.name, "")) for words, pod in told)
    for each in by_key(zip(keys, told, strict=True)).values():
        newest = max((words for words, _ in each), key=lambda words: words.time or 0.0)
        refused = [pod for _, pod in each]
        objects = refs(refused)
        text = f"{newest.quoted(gang.facts.now)}{_about_group(gang, refused)}"
        text += _only_together(gang, newest.text, refused)
        selected, selecting = _selected_devices(gang, refused, newest.text)
        tainted = _tainted_devices(gang, newest.text)
        text += f"{selected}{tainted}"
        evidence = Evidence(objects[0], "status.conditions[PodScheduled]", newest.text)
        remedy, who = _advice_on(
            _with_taints(gang, text),
            gang.namespace,
            has_room=_has_room(gang),
            is_matched=_is_matched(gang),
            smallest=_smallest(refused),
        )
        if _AFFINITY[0] in remedy:
            label = _label_of_domains(gang, refused)
            remedy = remedy.replace(_AFFINITY[0], label or _AFFINITY[0])
        if _DEVICES in remedy and (tainted or selecting):
            remedy = remedy.replace(_DEVICES, _device_advice(tainted, selecting))
        if _ANTI_AFFINITY in remedy:
            rollout = _rolling_update(gang, refused)
            remedy = remedy.replace(_ANTI_AFFINITY, rollout or _ANTI_AFFINITY)
        cordons: tuple[str, ...] = ()
        helps = selector_of_kueue(gang) if _SELECT[0] in remedy else None
        if helps:
            remedy, cordons = helps.remedy, helps.commands
        elif _UNCORDON in remedy:
            remedy, cordons = _uncordon_advice(gang, remedy)
        see = (f"kubectl describe pod -n {shlex.quote(objects[0].namespace)} {objects[0].name}",)
        commands = cordons if remedy else see
        yield about(
            evidence,
            "SchedulerRefuses",
            text,
            remedy or UNKNOWN,
            who,
            objects=objects,
            commands=commands,
        )


def _only_together(gang: Gang, said: str, pods: Iterable[Pod]) -> str:
    """Return a sentence about a PodGroup of Kubernetes whose `pods` get nodes only together, or "".

    Nodes may be free for each pod by itself. Return "" if the message `said` is about no resource,
    or if enough pods of the group have a node: the others get theirs one by one.
    """
    if not _INSUFFICIENT.search(said):
        return ""

    def look() -> Counter[tuple[str, str]]:
        return Counter(
            (pod.namespace, pod.workload_group)
            for pod in gang.facts.pods
            if pod.workload_group and pod.node and pod.is_alive
        )

    for pod in pods:
        key = (pod.namespace, pod.workload_group)
        group = gang.index.workload_groups.get(key)
        if group is None or not group.minimum or group.minimum < 2:
            continue
        if gang.index.remembered("placed pods of groups", look, ["pods"])[key] < group.minimum:
            return (
                f". PodGroup {group.name} gets nodes only for at least {group.minimum} of its pods"
                " at once (minCount), so there must be room for all of these"
            )
    return ""


def _about_group(gang: Gang, pods: Iterable[Pod]) -> str:
    """Return a sentence with the newest warning about a PodGroup of `pods`, or "".

    The PodGroup is that of Volcano or of the coscheduling plugin.
    """
    for pod in pods:
        group = Ref("PodGroup", pod.namespace, pod.other_group)
        words = words_about(gang.index, group) if pod.other_group else None
        if words:
            return f". About its PodGroup {group.name}, {words.quoted(gang.facts.now)}"
    return ""


def _tainted_devices(gang: Gang, said: str) -> str:
    """Return a sentence with the tainted devices if the message `said` is about missing devices.

    Return "" for other messages, and if no device has a taint.
    """
    if "cannot allocate all" not in said:
        return ""
    found = {
        f"{device} of {part.node or part.pool} ({taint})": None
        for part in gang.facts.slices
        for device, taint in part.tainted
    }
    return f". Devices with a taint: {listed(found)}" if found else ""


def _selected_devices(gang: Gang, pods: Iterable[Pod], said: str) -> tuple[str, str]:
    """Return words for the selectors of claims, and the object that has them, or ("", "").

    It is the first unallocated claim of `pods`, or its template, if the message `said` is that
    claims lack devices.
    """
    if "cannot allocate all" not in said:
        return "", ""
    for claim in dict.fromkeys(claim for pod in pods for claim in pod.claims):
        stored = gang.index.claims.get((gang.namespace, claim.claim))
        template = gang.index.claim_templates.get((gang.namespace, claim.template))
        if stored and stored.allocated:
            continue
        of = stored or template
        if of and of.selectors:
            kind, name = ("ResourceClaim", claim.claim)
            if claim.template:
                kind, name = ("ResourceClaimTemplate", claim.template)
            where_true = " and ".join(of.selectors)
            return f". {kind} {name} selects only devices with {where_true}", f"{kind} {name}"
    return "", ""


def _device_advice(tainted: str, selecting: str) -> str:
    """Return the remedy for claims without devices, if some are tainted or `selecting` is set."""
    advice = []
    if selecting:
        advice.append(
            f"{SELECTOR} {selecting} if no device has these attributes: kubectl get"
            " resourceslices -o yaml."
        )
    if tainted:
        advice.append(
            "Ask the platform team to repair the devices with a taint, or add a toleration to the"
            " request of the claim if the pods may use such devices."
        )
    return " Or: ".join(advice)


def _label_of_domains(gang: Gang, pods: Iterable[Pod]) -> str:
    """Return the remedy if no node has the label of the domains that groups of pods need.

    Return "" otherwise, and if nodes were not read. The controller of LeaderWorkerSets or JobSets
    adds an affinity to the first pod of each group, which gives each group a separate domain.
    """
    if "nodes" in gang.facts.unread:
        return ""
    for pod in sorted(pods, key=lambda pod: pod.exclusive):
        label = pod.exclusive
        if label and not any(label in node.labels for node in gang.index.nodes):
            annotation = EXCLUSIVE_GROUPS if pod.leader_worker_set else EXCLUSIVE_JOBS
            return (
                f"Correct the annotation {annotation}, or ask the platform team to label nodes with"
                f" {label}: each group needs a separate domain, and no node has this label."
            )
    return ""


def _rolling_update(gang: Gang, pods: Sequence[Pod]) -> str:
    """Return the remedy if pods of a Deployment's previous revision may exclude the new `pods`.

    Return "" otherwise. An anti-affinity between the replicas of a Deployment usually covers all
    revisions.
    """
    deployments = {ref for pod in pods for ref in pod.made_for if ref.kind == DEPLOYMENT.kind}
    if len(deployments) != 1:
        return ""
    [deployment] = deployments
    new = {pod.owner for pod in pods}
    made = gang.index.pods_made_for.get(deployment, ())
    old = sorted(pod.name for pod in made if pod.node and pod.is_alive and pod.owner not in new)
    if not old:
        return ""
    holds = "holds its node" if len(old) == 1 else "hold their nodes"
    return (
        "Set spec.strategy.rollingUpdate.maxSurge: 0 and maxUnavailable: 1 in"
        f" {deployment}: {listed(old, 4)} of its previous revision {holds} until a new pod is"
        " ready."
    )


LESS = "Request less"
FEWER = "Use fewer pods"
"""The prefixes of the remedies for insufficient resources, by which `table` recognizes them."""
VOLUMES = "Place the pods where their volumes are"
"""The prefix of the remedy for messages about volumes elsewhere, by which `table` recognizes it."""
CLAIM = "Check the ResourceClaim of the pod"
"""The prefix of the remedy for messages about claims, by which `table` recognizes it."""
SELECTOR = "Correct the selector in"
"""The prefix of the remedy for a claim with a selector that excludes all devices."""
UNKNOWN = "Fix the problem that the scheduler's message describes."
"""The remedy for unknown messages of schedulers."""
_TERMINATING = "terminating pod on the nominated node"
_INSUFFICIENT = re.compile(r"Insufficient ([\w./-]{1,253})")
_UNCORDON = "Ask the platform team to uncordon nodes."
_TAINT = re.compile(r"untolerated taints?(?:\(s\))? \{([^}:]{1,253})")

WHOLE_GROUP = "Find out why pods of the group have no node: the group starts only as a whole."
"""The remedy for messages of gang schedulers that don't say why a group is not complete."""

_SELECT: tuple[str, Who] = (
    "Correct the nodeSelector or the node affinity in the pod template, or ask the platform team to"
    " label nodes.",
    "you",
)
_AFFINITY: tuple[str, Who] = (
    "Correct podAffinity in the pod template: the pods that it selects do not exist, or are on"
    " nodes that cannot take this pod.",
    "you",
)
_DEVICES = f"{CLAIM}, and whether a node offers such a device: kubectl get resourceslices."
_ANTI_AFFINITY = (
    "Use fewer replicas, scale down the workload that the anti-affinity excludes, change the"
    " anti-affinity, or ask the platform team for nodes in another domain."
)
_ADVICE: Advice = (
    (
        ("existing pods anti-affinity",),
        "Scale down the workload whose anti-affinity keeps other pods from these nodes, or ask the"
        " platform team for nodes in another domain.",
        "you",
    ),
    (("pod affinity rules",), *_AFFINITY),
    (
        ("pod anti-affinity",),
        _ANTI_AFFINITY,
        "you",
    ),
    (("node affinity/selector", "node selector"), *_SELECT),
    (
        ("Too many pods",),
        "Ask the platform team to raise maxPods in the kubelet configuration of the full nodes, or"
        " to delete unneeded pods there.",
        "platform",
    ),
    (
        ("queue resource quota insufficient",),
        "Request less, or ask the platform team to raise spec.capability of the PodGroup's queue:"
        " kubectl get queues.scheduling.volcano.sh",
        "you",
    ),
    (("pod group is not ready",), WHOLE_GROUP, "you"),
    (
        ("failed with: ", "Score plugin"),
        "Ask the platform team to read the scheduler's log, or to upgrade the scheduler: one of its"
        " plugins fails.",
        "platform",
    ),
    (("topology spread",), "Relax topologySpreadConstraints in the pod template.", "you"),
    (
        ("volume node affinity", "PersistentVolume's node affinity", "no available volume zone"),
        f"{VOLUMES} (kubectl get pv -o yaml shows the zone or the node"
        " of each volume), or copy the data and create the PersistentVolumeClaims again with a"
        " StorageClass that waits for the pod (WaitForFirstConsumer).",
        "you",
    ),
    (
        ("unbound immediate",),
        "Find out why the PersistentVolumeClaims of the pod are not bound: kubectl describe pvc -n"
        " {namespace}",
        "you",
    ),
    (
        ("available persistent volumes",),
        "Ask the platform team for a free PersistentVolume of the class and size that the claim"
        " requests, or use a StorageClass with dynamic provisioning.",
        "platform",
    ),
    (
        ("ReadWriteOncePod",),
        "Wait until the other pod that uses the PersistentVolumeClaim has ended, delete that pod if"
        " it is no longer needed, or use a volume with the access mode ReadWriteMany.",
        "you",
    ),
    (
        ("max volume count",),
        "Use fewer volumes, or ask the platform team for more nodes: each node can attach only a"
        " limited number of volumes.",
        "you",
    ),
    (
        ('persistentvolumeclaim "', 'PersistentVolumeClaim "'),
        "Create or bind the PersistentVolumeClaim named in the message.",
        "you",
    ),
    (
        ("Missing required configmaps",),
        "Create the ConfigMaps that the message names, correct their names in the pod template, or"
        " mark them as optional.",
        "you",
    ),
    (
        ("resource claim controller",),
        "Create the ResourceClaimTemplate that the pod names, if it does not exist: kubectl get"
        " resourceclaimtemplates -n {namespace}.",
        "you",
    ),
    (
        ("can't run on non gpu nodes",),
        "Ask the platform team to label the nodes with node-role.kubernetes.io/gpu-worker: KAI runs"
        " with restrict-node-scheduling, and places pods that request GPUs only there.",
        "platform",
    ),
    (
        ("can't run on non cpu nodes",),
        "Ask the platform team to label nodes with node-role.kubernetes.io/cpu-worker: KAI runs"
        " with restrict-node-scheduling, and places pods without GPUs only there.",
        "platform",
    ),
    (
        ("free ports",),
        "Remove hostPort from the pod template, or use a port that no other pod there uses.",
        "you",
    ),
    (
        ("were unschedulable",),
        _UNCORDON,
        "platform",
    ),
    (
        ("DRAPrioritizedList",),
        "Request one DeviceClass (exactly) instead of alternatives (firstAvailable) in the"
        " ResourceClaim or its template: the scheduler does not support alternatives.",
        "you",
    ),
    (
        ("resourceclaim", "ResourceClaim", "cannot allocate all"),
        _DEVICES,
        "you",
    ),
)
"""Advice on schedulers' messages. Most texts are from kube-scheduler's plugins."""


def _has_room(gang: Gang) -> bool:
    """Return whether nodes are known to have room for each pending pod of a gang by itself."""
    if not gang.index.room_is_known:
        return False
    shapes = {
        shape
        for member in gang.members
        for pod, shape in zip(member.pods, member.shapes, strict=True)
        if not pod.node
    }
    alone = (gang.placements_of(Demand("", "", ((shape, 1),))) for shape in shapes)
    return all(placements.now.fits for placements in alone)


def _smallest(pods: Iterable[Pod]) -> frozenset[str]:
    """Return the devices, such as nvidia.com/gpu, of which no pod requests more than one."""
    most: dict[str, int] = {}
    for pod in pods:
        for name, amount in pod.shape.requests:
            most[name] = max(amount, most.get(name, 0))
    return frozenset(name for name, amount in most.items() if "/" in name and amount <= 1000)


def _is_matched(gang: Gang) -> bool:
    """Return whether each pending pod has a node that matches its selectors."""
    shapes = {pod.shape for pod in gang.waiting}
    return all(any(is_selected(shape, node) for node in gang.index.nodes) for shape in shapes)


def _advice_on(
    words: str,
    namespace: str,
    *,
    has_room: bool = False,
    is_matched: bool = False,
    smallest: frozenset[str] = frozenset(),
) -> tuple[str, Who]:
    """Return the remedy for a scheduler's message, or "" if none is known, and who can act.

    A message has a cause for each group of nodes. If nodes have room for the pods (`has_room`), the
    remedy for insufficient resources is left out, unless it is the only one. If nodes match the
    selectors of the pods (`is_matched`), the remedy for selectors is left out in the same way.
    `smallest` are the devices of which the pods can't request less.
    """
    if _TERMINATING in words:
        return (
            "Wait until the terminating pods on the nominated node have ended. If this takes longer"
            " than their grace period, find out why: kubectl get pods -A -o wide shows which pods"
            " are Terminating.",
            "wait",
        )
    helps: list[tuple[str, Who]] = []
    lacks = _INSUFFICIENT.search(words)
    if lacks:
        name = lacks[1].rstrip(".")
        less = FEWER if name in smallest else f"{LESS} {name} per pod, use fewer pods"
        remedy = f"{less}, or ask the platform team for nodes with more of this resource."
        helps.append((remedy, "you"))
    advice = [
        (remedy.format(namespace=shlex.quote(namespace)), who)
        for remedy, who in advice_for(words, _ADVICE)
    ]
    others = [*_taint_advice(words, alone=not (lacks or advice)), *advice]
    helps = others if has_room and others else [*helps, *others]
    if is_matched and len(helps) > 1:
        helps = [each for each in helps if each != _SELECT]
    if len(helps) > 1:
        helps = [each for each in helps if each[0] != WHOLE_GROUP]
    if not helps:
        return "", "you"
    return " Or: ".join(remedy for remedy, _ in helps[:2]), helps[0][1]


_UNNAMED = "untolerated taint(s)"
"""The text about taints without their keys, since kube-scheduler 1.34.2."""
_COMPARE = (
    "Compare the taints of the nodes with the tolerations in the pod template: kubectl get nodes -o"
    " custom-columns=NAME:.metadata.name,TAINTS:.spec.taints"
)


def _with_taints(gang: Gang, words: str) -> str:
    """Return a scheduler's message with the keys of taints, if it omits the keys.

    The keys are those of taints that the pods do not tolerate, on nodes that the pods select.
    """
    if _UNNAMED not in words or "nodes" in gang.facts.unread:
        return words
    keys: set[str] = set()
    for shape in {pod.shape for pod in gang.waiting}:
        keys |= _untolerated(gang.index, shape)
    named = ", ".join(f"untolerated taint {{{key}: }}" for key in sorted(keys))
    return words.replace(_UNNAMED, named) if named else words


def _untolerated(index: Index, shape: Shape) -> frozenset[str]:
    """Return the keys of the taints that keep pods of a shape from nodes that they select.

    The taint of cordoned nodes is omitted.
    """

    def look() -> frozenset[str]:
        return frozenset(
            taint.key
            for node in index.nodes
            if node.taints and is_selected(shape, node)
            for taint in node.taints
            if taint.key != _UNSCHEDULABLE and not tolerates(shape.tolerations, taint)
        )

    return index.remembered(("untolerated taints", shape), look, ["nodes"])


_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_CONDITION = "node.kubernetes.io/"
"""The prefix of taints that Kubernetes sets because of a condition of the node."""
_UNSCHEDULABLE = f"{_CONDITION}unschedulable"


def _taint_advice(words: str, *, alone: bool) -> list[tuple[str, Who]]:
    """Return a list with the remedy for the taints in a message, or [] if it names none.

    Taints of control planes count only if the message names nothing else (`alone`).
    """
    taints = list(dict.fromkeys(key.strip() for key in _TAINT.findall(words)))
    others = [key for key in taints if key not in _CONTROL_PLANE]
    taints = others or (taints if alone else [])
    if _UNSCHEDULABLE in taints:
        return [(_UNCORDON, "platform")]
    if not taints:
        return [(_COMPARE, "you")] if alone and _UNNAMED in words else []
    chosen = [key for key in taints if is_chosen(key)]
    if not chosen:
        return [(_state_advice(taints), "platform")]
    named = listed(chosen, 3)
    one = len(chosen) == 1
    a = "a toleration" if one else "tolerations"
    remedy = (
        f"Add {a} for {named} to the pod template, or ask the platform team to remove"
        f" {'this taint' if one else 'these taints'} from nodes."
    )
    return [(remedy, "you")]


def _state_advice(taints: list[str]) -> str:
    """Return the remedy for taints that describe the state of nodes.

    A pod should tolerate none of them. The node is broken, about to be removed or not ready yet.
    """
    leaving = [key for key in taints if removal_words(key)]
    starting = [key for key in taints if is_of_start(key) and not key.startswith(_CONDITION)]
    if leaving:
        return (
            f"Ask the platform team for other nodes: {removal_words(leaving[0])} the nodes with the"
            f" {_taints(leaving)}."
        )
    if starting:
        return (
            "Ask the platform team why the nodes with the"
            f" {_taints(starting)} are not ready: a component of the node removes"
            f" {'it' if len(starting) == 1 else 'them'} once it runs."
        )
    return f"Ask the platform team to repair the nodes with the {_taints(taints)}."


def _taints(keys: list[str]) -> str:
    return f"{'taint' if len(keys) == 1 else 'taints'} {listed(keys, 3)}"


def _uncordon_advice(gang: Gang, remedy: str) -> tuple[str, tuple[str, ...]]:
    """Return the remedy, adapted to the nodes that are cordoned now, and the commands for it."""
    facts = gang.facts
    if "nodes" in facts.unread:
        return remedy, ()
    cordoned = [node for node in gang.index.nodes if node.unschedulable]
    own = [node.name for node in cordoned if not node.cordoned_by]
    by = {node.cordoned_by for node in cordoned} - {"", RESOURCE_MANAGEMENT}
    if not cordoned:
        opened = "Wait until the scheduler tries again: no node is cordoned any more."
        return remedy.replace(_UNCORDON, opened), ()
    if not own:
        remedy = remedy.replace(
            _UNCORDON, "Ask the platform team when pods can use the nodes again."
        )
    if by:
        who = listed(sorted(by))
        has = "has" if len(by) == 1 else "have"
        uncordons = "it uncordons" if len(by) == 1 else "they uncordon"
        remedy += f" Do not uncordon nodes that {who} {has} cordoned: {uncordons} them later."
    if any(node.changes_pool for node in cordoned):
        remedy += (
            f" Do not uncordon nodes with the label {' or '.join(KAI_CORDONS)}: KAI Resource"
            " Management moves them to another node pool."
        )
    return remedy, (f"kubectl uncordon {shlex.join(own)}",) if own else ()


def scheduler_unknown(gang: Gang) -> Reasons:
    """Report that pods name a scheduler that has neither placed a pod here nor said why not."""
    for name, pods, since in _silent(gang):
        if name in schedulers(gang.index):
            continue
        usual = usual_schedulers(gang.index)
        use = counted(pods, "pod uses", "pods use")
        text = f'{use} scheduler "{name}", and no scheduler of that name has acted for {since}'
        has_profile = gang.pod_gang is not None and gang.pod_gang.scheduler == name
        text += "" if has_profile else did_you_mean(name, usual)
        restart = f"delete {'this pod' if len(pods) == 1 else 'these pods'}"
        if any(map(fails_if_deleted, pods)):
            restart = restart_of(gang, pods, "these pods", has_new_template=True)
        remedy = (
            f"Correct schedulerName in the pod template (known schedulers: {', '.join(usual[:4])}),"
            f" and {restart}."
        )
        who: Who = "you"
        if has_profile:
            remedy = f"Ask the platform team whether {name} runs: Grove has a profile for it."
            who = "platform"
        objects = refs(pods)
        evidence = Evidence(objects[0], "spec.schedulerName", name)
        yield about(evidence, "SchedulerSilent", text, remedy, who, objects=objects)


def scheduler_silent(gang: Gang) -> Reasons:
    """Report that a scheduler other than KAI is silent about pods that no other rule explains."""
    for name, pods, since in _silent(gang):
        if name not in schedulers(gang.index):
            continue
        objects = refs(pods)
        use = counted(pods, "pod uses", "pods use")
        them = "it" if len(pods) == 1 else "them"
        text = f'{use} scheduler "{name}", which has been silent about {them} for {since}'
        remedy = f"Ask the platform team whether {name} runs, and to read its log."
        evidence = Evidence(objects[0], "spec.schedulerName", name)
        yield about(evidence, "SchedulerSilent", text, remedy, "platform", objects=objects)


def _silent(gang: Gang) -> Iterator[tuple[str, list[Pod], str]]:
    """Yield (scheduler, pods, age) for schedulers that have been silent about pods for a minute.

    `age` is the age of the oldest of these pods, in words. KAI is left out. A scheduler whose name
    is probably a typo is included before the minute is over.
    """
    now = gang.facts.now
    silent = (
        (pod.scheduler, pod)
        for pod in gang.waiting
        if pod.scheduler != KAI_SCHEDULER and not pod.gates
        if not scheduler_words(gang.index, pod)
        if now and pod.created is not None
        if now - pod.created >= SOON or _is_misspelt(gang, pod.scheduler)
    )
    for name, pods in grouped(silent):
        yield name, pods, ago(now - min(pod.created or now for pod in pods))


def _is_misspelt(gang: Gang, name: str) -> bool:
    if name in schedulers(gang.index):
        return False
    return bool(did_you_mean(name, usual_schedulers(gang.index)))


# Messages and silence of KAI.


def _counts_shared_gpus_twice(gang: Gang) -> bool:
    """Return whether several pods share a GPU by a claim, and the gang requests no GPUs.

    Source: https://github.com/kai-scheduler/KAI-Scheduler/issues/1930
    """
    shared = (claim for claim in gang.facts.claims if len(claim.consumers) > 1)
    of_gpus = (asked_gpus(claim.classes, gang.index.device_classes) for claim in shared)
    return not gang.demand.asks(GPU) and any(of_gpus)


def kai_refuses(gang: Gang) -> Reasons:
    """Report that KAI said recently that it can't place a gang, and no other rule explains it.

    An older message may be outdated, because room may have become free since.
    """
    words = refusal_of_kai(gang)
    if not words:
        return
    said, time = words
    if time is None or not is_current(gang, time):
        return

    turn = line_of(gang.index).get(gang.ref)
    seems = ""
    if turn and turn.used:
        places = listed(where(gang.placements.domains, gang.demand, turn.used))
        ignored = listed(gang.demand.unchecked)
        seems = ". According to our checks" + (f", which ignore {ignored}" if ignored else "")
        seems += f", the gang fits{f' in {places}' if places else ''}"
    remedy, who = _advice_on(said, gang.namespace)
    tainted = _tainted_devices(gang, said)
    if tainted:  # Our checks ignore taints of devices.
        seems = tainted
    elif seems and "cannot allocate all" in said:
        remedy = (
            f"{remedy} If these devices are free, ask the platform team to restart KAI's"
            " scheduler: its record of claims may be outdated."
        )
        who = "platform"
    elif seems and "enough resources: GPUs" in said and _counts_shared_gpus_twice(gang):
        remedy = (
            "Ask the platform team to update KAI to a release after 0.17.0. Until then, KAI counts"
            " a GPU once for each pod that shares its ResourceClaim, and a node with more GPUs in"
            " use than it has takes no pods, not even pods without GPUs."
        )
        who = "platform"
    parentless = _queue_without_parent(gang) if not remedy else ""
    if parentless:
        seems += (
            f". Queue {parentless} has no parent, and older releases of KAI schedule nothing in"
            " such a queue"
        )
        remedy = f"Create a queue with spec.parentQueue: {parentless}, and use that queue."
    again = (
        "If you have just changed something, check again in a minute: KAI tries again every few"
        " seconds."
    )
    remedy = f"{remedy or NAMED} {again}"
    evidence = Evidence(gang.ref, "KAI's words", one_line(said))
    text = with_age(f"KAI says: {one_line(said)}", time, gang.facts.now)
    yield about(evidence, "KaiRefuses", f"{text}{seems}", remedy, who)


NAMED = "Fix the problem that KAI's message describes."
"""The remedy for unknown messages of KAI."""


def _queue_without_parent(gang: Gang) -> str:
    """Return the name of a gang's queue if the queue has no parent, or else ""."""
    queue = gang.index.queues.get(gang.pod_group.queue) if gang.pod_group else None
    return queue.name if queue and not queue.parent else ""


def is_current(gang: Gang, time: float) -> bool:
    """Return whether a message of KAI is recent, and not older than the objects that it is about.

    These are the gang's pending pods, PodGroup and queue.
    """
    times = [pod.created for pod in gang.waiting]
    if gang.pod_group:
        times.append(gang.pod_group.created)
        queue = gang.index.queues.get(gang.pod_group.queue)
        times.append(queue.created if queue else None)
    changed = max((each for each in times if each is not None), default=0.0)
    return time >= changed and gang.facts.now - time <= _CURRENT


_CURRENT = 120.0
"""The seconds for which a message of KAI counts as current."""


def kai_silent(gang: Gang) -> Reasons:
    """Report that KAI has been silent about a gang for a minute, and no other rule explains it."""
    schedulers = {pod.scheduler for pod in gang.waiting}
    age = waiting_for(gang)
    if not schedulers or schedulers != {KAI_SCHEDULER} or age < SOON:
        return
    if latest_of_kai(gang) or any(pod.gates for pod in gang.waiting):
        return

    pool = f" for node pool {gang.pool}" if gang.pool else ""
    text = f"Nothing we check is blocking it, and KAI has been silent for {ago(age)}"
    turn = line_of(gang.index).get(gang.ref)
    if turn and turn.used:
        places = listed(where(gang.placements.domains, gang.demand, turn.used))
        text += f"; it fits{f' in {places}' if places else ''}"
    text += not_running(gang.index, "kai-scheduler-", "scheduler-")
    remedy = (
        f"Ask the platform team whether KAI's scheduler runs{pool}, and to read its log:"
        " kubectl get pods -A | grep kai-scheduler"
    )
    if gang.pool and not has_scheduler(gang.index, gang.pool):
        text = f"{text}; there is no SchedulingShard of node pool {gang.pool}"
        remedy = (
            "Ask the platform team for a SchedulingShard with spec.partitionLabelValue:"
            f" {gang.pool}, or use a node pool that has one"
        )
    evidence = Evidence(gang.ref, "KAI's words", "none")
    yield about(evidence, "KaiSilent", text, remedy, "platform")
