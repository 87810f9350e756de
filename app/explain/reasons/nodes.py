"""Report nodes that are closed, not selected, in another node pool, or short of a resource."""

import itertools
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from app.base.sentences import upper_first
from app.explain.gangs.gang import Gang
from app.explain.placing.demand import Demand
from app.explain.placing.fitness import (
    BY,
    CORDONED,
    OF_KUBERNETES,
    OUT_OF_SERVICE,
    asks_gpus,
    is_broken,
    is_chosen,
    is_of_start,
    is_selected,
    removal_words,
    unfit_because,
)
from app.explain.placing.placements import (
    ANY_POOL,
    EMPTIED,
    EMPTY,
    OPENED,
    Assumption,
    Placements,
)
from app.explain.reasons.blocking_workloads import freeing_remedies, together
from app.explain.reasons.kueue import selector_of_kueue
from app.explain.reasons.missing_queue import NOT_CHOSEN, into_pool, queue_missing
from app.explain.reasons.obstacle import (
    Barrier,
    Obstacle,
    closed_because,
    obstacle_of,
    of_pool,
    selection_words,
    selector_words,
    used_for,
)
from app.explain.reasons.placement import level_of, parts, resolves_itself
from app.explain.reasons.queue import fair_share
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    about,
    ago,
    amount,
    called,
    counted,
    is_in_bytes,
    listed,
)
from app.explain.reasons.scaling import autoscaler_speaks
from app.explain.state.amounts import is_device
from app.explain.state.domains import Domain
from app.facts.kubernetes.node import GPU_OPERATOR, NVSENTINEL, RESOURCE_MANAGEMENT, Node
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.kubernetes.selectors import Requirement, Taint, Term
from app.facts.labels import DRIVER_UPGRADES, KAI_CORDONS, KAI_PROJECT, NODE_POOL

Closed = list[tuple[Node, tuple[str, ...]]]
"""Closed nodes, each with the causes."""


def no_node_matches(gang: Gang) -> Reasons:
    """Report that no node matches the selectors of the pods."""
    obstacle = obstacle_of(gang)
    shape = obstacle.unmatched if obstacle else None
    if not obstacle or not shape or not obstacle.nodes:
        return
    if autoscaler_speaks(gang):
        return  # The autoscaler says whether it adds nodes with these labels.
    own = replace(shape, volumes=())
    if shape.volumes and any(is_selected(own, node) for node in obstacle.nodes):
        return  # VolumeElsewhere reports that only the volumes exclude these nodes.

    number = counted(obstacle.nodes, "node")
    which = f"(0 of {number}{of_pool(gang)})"
    names = _with_shape(gang, shape)
    of = f" of {listed(names)}" if names else ""
    text = f"No node matches {selector_words(shape)}, which pods{of} select {which}"
    evidence = Evidence(gang.ref, "nodeSelector, nodeAffinity", selector_words(shape))
    helps = selector_of_kueue(gang)
    remedy = helps.remedy if helps else _selecting(obstacle, shape)
    commands = helps.commands if helps else ()
    yield about(evidence, "NoNodeMatches", text, remedy, "you", parts=names, commands=commands)


def _with_shape(gang: Gang, shape: Shape) -> tuple[str, ...]:
    """Return the names of the parts that have pods of a shape, or () if all parts have some."""
    names = [own.name for own in gang.members if shape in (own.shape, *own.shapes)]
    return () if len(names) == len(gang.members) else tuple(sorted(names))


def _selecting(obstacle: Obstacle, shape: Shape) -> str:
    """Return the remedy for a selector that no node matches.

    It names a value of a selected label with which the gang fits now, or else one with which it
    fits without other workloads, if there is one.
    """
    later = ""
    selected = itertools.chain(shape.selector, *shape.affinity)
    for key in dict.fromkeys(known.key for known in selected if known.operator == "In"):
        for value in sorted({node.labels[key] for node in obstacle.nodes if key in node.labels}):
            words = f"Correct the selector (nodes have {key}={value})"
            demand = _with_selector(obstacle.demand, shape, key, value)
            placements = obstacle.gang.placements_of(demand)
            if placements.now.fits:
                return words
            if not later and placements.under(EMPTIED).fits:
                later = f"{words}. Then room still has to become free there"
    return later or (
        "Correct the nodeSelector or the node affinity, or ask the platform team for large enough"
        " nodes that match"
    )


def _with_selector(demand: Demand, shape: Shape, key: str, value: str) -> Demand:
    """Return the demand with another value of a label that pods of a shape select."""
    other = Requirement(key, "In", (value,))

    def correct(term: Term) -> Term:
        return tuple(
            other if (known.key, known.operator) == (key, "In") else known for known in term
        )

    affinity = tuple(map(correct, shape.affinity))
    corrected = replace(shape, selector=correct(shape.selector), affinity=affinity)

    def change(part: Demand) -> Demand:
        pods = tuple((corrected if own == shape else own, count) for own, count in part.pods)
        return replace(part, pods=pods)

    return demand.changed(change)


def nodes_to_open(gang: Gang) -> Reasons:
    """Report that closed nodes would make room for the gang, and no room becomes free by itself."""
    obstacle = obstacle_of(gang)
    if obstacle and not resolves_itself(obstacle) and not any(fair_share(gang)):
        yield from nodes_unfit(gang)


def nodes_unfit(gang: Gang) -> Reasons:
    """Report that the gang would fit if closed nodes were opened, or cannot fit unless they are.

    If KAI would place it on cordoned nodes that its pods tolerate, yield a note about these nodes.
    """
    obstacle = obstacle_of(gang)
    if not obstacle:
        yield from _tolerated_cordons(gang)
        return
    if Barrier.CLOSED_NODES not in obstacle.barriers:
        return

    like = [part for part in gang.demand.flat() if part.profile == obstacle.short.profile]
    helping = _closed_domains(obstacle)
    if len(like) > 1:
        yield from (_unfit(obstacle, *each) for each in helping if _is_needed(gang, each[1]))
    else:
        yield from (_unfit(obstacle, *each) for each in itertools.islice(helping, 1))


def _tolerated_cordons(gang: Gang) -> Reasons:
    """Yield a note if KAI would place a gang on cordoned nodes that its pods tolerate."""
    placements = gang.placements
    if not gang.is_of_kai or not gang.waiting or not placements.now.fits:
        return
    cordoned = [
        node
        for node in placements.domains.nodes
        if node.unschedulable and node.name in placements.now.nodes
    ]
    if not cordoned:
        return
    names = listed(node.name for node in cordoned)
    text = (
        f"The gang would be placed on cordoned nodes ({names}), which its pods tolerate. KAI places"
        " pods there only from 0.18 on"
    )
    own = [node.name for node in cordoned if not node.cordoned_by]
    commands = (f"kubectl uncordon {shlex.join(own)}",) if own else ()
    by = listed(sorted({node.cordoned_by for node in cordoned if node.cordoned_by}))
    remedy = (
        f"Ask the platform team for other nodes if KAI is older than 0.18, because {by} has"
        " cordoned these nodes"
    )
    if by == RESOURCE_MANAGEMENT:
        remedy = (
            "Ask the platform team for other nodes if KAI is older than 0.18, because KAI Resource"
            " Management is moving these nodes to another pool"
        )
    if own:
        remedy = "Uncordon the nodes if KAI is older than 0.18"
    refs = tuple(node.ref for node in cordoned)
    evidence = Evidence(refs[0], "spec.unschedulable", "true")
    yield about(
        evidence,
        "NodesUnfit",
        text,
        remedy,
        "platform",
        severity="note",
        objects=refs,
        commands=commands,
    )


def _is_needed(gang: Gang, closed: Closed) -> bool:
    """Return whether the gang would be placed on one of these nodes if all nodes were open."""
    needed = gang.placements.under(OPENED).nodes
    return not needed.isdisjoint(node.name for node, _ in closed)


def _closed_domains(obstacle: Obstacle) -> Iterator[tuple[Domain, Closed]]:
    """Yield the domains of `_opened` that have closed nodes, with these nodes.

    Only pods that could use a node if it were open count for this node.
    """
    nodes = obstacle.placements.domains.nodes
    fit = obstacle.placements.fit(OPENED)
    for domain in _opened(obstacle):
        closed = []
        for position in domain.nodes:
            helped = [shape for shape in obstacle.shapes if fit[shape][position]]
            why = closed_because(helped, nodes[position])
            if why:
                closed.append((nodes[position], why))
        if closed:
            yield domain, closed


def _opened(obstacle: Obstacle) -> list[Domain]:
    """Return the domains in which `short` would fit if all nodes were open, most room now first.

    If the whole gang would not fit on open nodes, assume that the nodes are also empty.
    """
    gang = obstacle.gang
    short = obstacle.short
    opened = OPENED
    if not obstacle.placements.under(OPENED).fits:
        opened = EMPTY

    now = {room.domain.path: room.pods for room in obstacle.placements.now.rooms}
    rooms = [room for room in gang.placements_of(short).rooms(opened) if room.pods >= short.count]

    return [
        room.domain
        for room in sorted(
            rooms, key=lambda room: (-now.get(room.domain.path, 0), room.domain.path)
        )
    ]


def _unfit(obstacle: Obstacle, domain: Domain, closed: Closed) -> Reason:
    counts = Counter(" and ".join(causes) for _, causes in closed)
    whys = listed(f"{count} {why}" for why, count in sorted(counts.items()))
    verb = "is" if len(closed) == 1 else "are"
    number = counted(domain.nodes, "node")
    selection = selection_words(obstacle, obstacle.short)
    pairs = itertools.product(obstacle.shapes, closed)
    is_open_to_some = any(not unfit_because(shape, node) for shape, (node, _) in pairs)
    to = " to some of the gang's pods" if is_open_to_some else ""
    of = f" of {domain}" if domain.path else used_for(obstacle, obstacle.short)
    text = (
        f"{len(closed)} of {number}{of or ' of the cluster'} {verb} closed{to}: {whys}{selection}"
    )
    if len(domain.nodes) == 1:
        why = " and ".join(closed[0][1])
        text = f"Node {closed[0][0].name} is closed{to}: {why}{selection}"

    cordoned = [node.name for node, causes in closed if CORDONED in causes]
    commands = (f"kubectl uncordon {shlex.join(cordoned)}",) if cordoned else ()
    refs = tuple(node.ref for node, _ in closed)
    evidence = Evidence(refs[0], "spec, status", " and ".join(closed[0][1]))
    remedy = _opening_remedy(obstacle, closed)
    return about(evidence, "NodesUnfit", text, remedy, "platform", objects=refs, commands=commands)


_MOVED = (
    "ask the platform team why KAI Resource Management moves nodes to another node pool (label"
    f" {' or '.join(KAI_CORDONS)}): the nodes leave this pool once its pods on them have ended"
)
_TAINTED = "tainted"


def _opening_remedy(obstacle: Obstacle, closed: Closed) -> str:
    """Return the remedy that opens closed nodes."""
    causes = sorted({cause for _, causes in closed for cause in causes})
    steps = dict.fromkeys(filter(None, (_step(cause, closed) for cause in causes)))
    remedy = upper_first(listed(steps))
    if any(removal_words(cause.removeprefix(f"{_TAINTED} ")) for cause in causes):
        return remedy
    if obstacle.placements.under(OPENED).fits:
        return f"{remedy}{_deleted_there(obstacle, closed)}"
    return f"{remedy}. Then room still has to become free there"


def _step(cause: str, closed: Closed) -> str:
    """Return the step against one cause, or "" if the nodes have GPUs that the pods can't use."""
    having = [node.name for node, causes in closed if cause in causes]
    names = listed(having, 3)
    kind, _, key = cause.partition(" ")
    if cause == CORDONED:
        return f"uncordon {names if len(having) == 1 else 'the nodes'}"
    if kind == _TAINTED and key == OUT_OF_SERVICE:
        return f"remove the taint {key} from {names} once the node has recovered"
    if kind == _TAINTED and key.startswith(OF_KUBERNETES):
        return f"repair {names}: Kubernetes removes the taint {key} once its cause is gone"
    if kind == _TAINTED and removal_words(key):
        other = "ask the platform team for other nodes"
        return f"{other}: {removal_words(key)} {names} (taint {key})"
    if kind == _TAINTED and is_of_start(key):
        return f"find out why the component that removes the taint {key} is not ready on {names}"
    if kind == _TAINTED:
        return _tolerations(closed)
    if cause == f"{BY}{RESOURCE_MANAGEMENT}":
        return _MOVED
    if cause == f"{BY}{GPU_OPERATOR}":
        return _upgraded([node for node, causes in closed if cause in causes])
    if cause == f"{BY}{NVSENTINEL}":
        return (
            f"ask the platform team what NVSentinel found on {names}: NVSentinel cordons a node"
            " with a fault, and uncordons the node once the fault is repaired"
        )
    return f"repair {names}" if is_broken(cause) else ""


def _upgraded(nodes: list[Node]) -> str:
    """Return the step against cordons of the GPU Operator, which upgrades the drivers of nodes."""
    label = next(key for key in DRIVER_UPGRADES if key in nodes[0].labels)
    names = listed([node.name for node in nodes], 3)
    failed = [node.name for node in nodes if node.labels.get(label) == "upgrade-failed"]
    if failed:
        return (
            f"find out why the driver upgrade failed on {listed(failed, 3)} (label {label}): the"
            " GPU Operator uncordons a node once its driver pod is ready"
        )
    return (
        f"wait until the GPU Operator has upgraded the driver on {names}, and do not uncordon"
        f" {'it' if len(nodes) == 1 else 'them'} before: kubectl get nodes -L {label} shows the"
        " progress"
    )


def _deleted_there(obstacle: Obstacle, closed: Closed) -> str:
    """Return a clause on terminating pods that hold room until their nodes are ready, or ""."""
    index = obstacle.gang.index
    stuck = sorted(
        (pod.node, f"{pod.namespace}/{pod.name}")
        for node, _ in closed
        for pod in index.pods_on.get(node.name, ())
        if pod.key in index.stuck_on_dead
    )
    if not stuck:
        return ""
    names = listed((name for _, name in stuck), 3)
    where = listed(dict.fromkeys(node for node, _ in stuck), 3)
    hold = "was deleted and still holds" if len(stuck) == 1 else "were deleted and still hold"
    return f": {names} {hold} room until the kubelet of {where} runs, or the node is deleted"


def _tolerations(closed: Closed) -> str:
    """Return the step against taints, with the tolerations that a pod template needs."""
    causes = {cause for _, causes in closed for cause in causes if cause.startswith(_TAINTED)}
    keys = {cause.partition(" ")[2] for cause in causes}
    keys = {key for key in keys if is_chosen(key)}
    taints = dict.fromkeys(
        taint for node, _ in closed for taint in node.taints if taint.key in keys
    )
    each = listed((_toleration(taint) for taint in taints), 3)
    s = "" if len(taints) == 1 else "s"
    return (
        f"add the toleration{s} {each} to the pod template or ask the platform team to remove the"
        f" taint{s}"
    )


def _toleration(taint: Taint) -> str:
    value = f"value: {taint.value}" if taint.value else "operator: Exists"
    return f"{{key: {taint.key}, {value}, effect: {taint.effect}}}"


def other_resource(gang: Gang) -> Reasons:
    """Report that the requested devices are free, but another resource is not."""
    obstacle = obstacle_of(gang)
    if obstacle is None or not obstacle.missing:
        return

    name = obstacle.missing
    short = obstacle.short
    level = level_of(gang, short)
    if name == "pods":
        yield _too_many_pods(obstacle)
        return
    asks, free = _asked_and_free(gang.placements, short, name)
    most = max(free.values(), default=0)
    only_devices = gang.placements_of(short).rooms(Assumption(devices=True))
    rooms = [room for room in only_devices if room.pods >= short.count]
    where = f"in {counted(rooms, level)}" if rooms and level != "cluster" else "on the nodes"
    verb = "is" if is_in_bytes(name) or most == 1000 else "are"
    devices = _devices(short)
    if most < asks:
        limit = f"at most {amount(name, most)} {verb} free" if most else "none is free"
        found, remedy = f"{limit} on a node with free {devices}", f": {limit}"
    else:
        found, remedy = f"too few nodes with free {devices} have that much free", ""
    text = (
        f"{upper_first(devices)} are free {where}, but not enough {called(name)}:"
        f" a pod requests {amount(name, asks)}, and {found}"
    )
    evidence = Evidence(gang.ref, f"resources.requests[{name}]", amount(name, asks))
    remedy = f"Request less {called(name)} per pod{remedy}"
    in_the_way = _in_the_way(gang, name, asks, free)[: short.count]
    if in_the_way and obstacle.placements.under(EMPTIED).fits:
        pods = list(itertools.chain.from_iterable(in_the_way))
        helps, _ = freeing_remedies(gang, pods, short.count)
        remedy = together(remedy, *helps)

    yield about(evidence, "OtherResource", text, remedy, "you", parts=parts(gang.demand, short))


def _too_many_pods(obstacle: Obstacle) -> Reason:
    """Return the reason for nodes with free devices that already run their maximum of pods."""
    gang = obstacle.gang
    index = gang.index
    full = [
        node
        for node in obstacle.placements.domains.nodes_at(obstacle.open)
        if node.allocatable.get("pods", 0) <= 1000 * len(index.pods_on.get(node.name, ()))
    ]
    takes = listed(
        (f"{node.name} takes {amount('pods', node.allocatable.get('pods', 0))}" for node in full),
        2,
    )
    devices = _devices(obstacle.short)
    text = f"{upper_first(devices)} are free, but their nodes take no more pods"
    text += f": {takes}" if takes else ""
    evidence = Evidence(gang.ref, "status.allocatable[pods]", takes)
    remedy = (
        "Ask the platform team to raise maxPods in the kubelet configuration of these nodes, or to"
        " delete unneeded pods there"
    )
    return about(
        evidence,
        "OtherResource",
        text,
        remedy,
        "platform",
        parts=parts(gang.demand, obstacle.short),
    )


def _devices(demand: Demand) -> str:
    """Return `GPUs`, or `devices` if no pod requests GPUs."""
    return "GPUs" if any(asks_gpus(shape) for shape, _ in demand.shapes) else "devices"


def _in_the_way(gang: Gang, name: str, asks: int, free: Mapping[str, int]) -> list[list[Pod]]:
    """Return, for each node, the largest pods whose end frees `asks` of a resource there.

    Nodes with the fewest such pods come first. Nodes that need none, or whose pods do not free
    enough, are omitted. `free` has the free amount on each node. Amounts are in thousandths.
    """
    found = []
    for node, left in free.items():
        pods_there = gang.index.pods_on.get(node, ())
        used = [(dict(pod.shape.requests).get(name, 0), pod) for pod in pods_there]
        pods = []
        for size, pod in sorted(used, key=lambda pair: (-pair[0], pair[1].key)):
            if left >= asks or not size:
                break
            pods.append(pod)
            left += size
        if pods and left >= asks:
            found.append(pods)
    return sorted(found, key=len)


def _asked_and_free(
    placements: Placements, short: Demand, name: str
) -> tuple[int, Mapping[str, int]]:
    """Return (the largest request of a pod for a resource, the free amount on each node).

    Only open nodes with room for the pod's devices count. Amounts are in thousandths.
    """
    sizes = {shape: dict(shape.requests).get(name, 0) for shape, _ in short.shapes}
    largest = max(sizes, key=lambda shape: sizes[shape])
    devices = {key: ask for key, ask in largest.requests if is_device(key)}

    open_to_it = (position for position, ok in enumerate(placements.fit()[largest]) if ok)
    fitting = {
        placements.domains.nodes[position].name: free.get(name, 0)
        for position in open_to_it
        if (free := placements.free(position))
        if all(free.get(key, 0) >= ask for key, ask in devices.items())
    }
    return sizes[largest], fitting


def pool_not_chosen(gang: Gang) -> Reasons:
    """Report that KAI Resource Management has not assigned a node pool yet."""
    group = gang.pod_group
    if not group or group.pool != NOT_CHOSEN:
        return
    age = gang.facts.now - group.created if group.created is not None and gang.facts.now else 0.0
    since = f", although the PodGroup is {ago(age)} old" if age >= _CHOSEN_WITHIN else " yet"
    queue = "" if group.queue else " or a queue"
    text = f"KAI Resource Management has not assigned a node pool{queue}{since}"
    remedy = (
        f"Ask the platform team whether namespace {gang.namespace} belongs to a project (label"
        f" {KAI_PROJECT}), whether the project has a queue in a node pool that is Ready or Empty,"
        f" and what the log of pod-group-assigner says. Do not label nodes {NOT_CHOSEN}"
    )
    evidence = Evidence(group.ref, f"metadata.labels[{NODE_POOL}]", NOT_CHOSEN)
    objects = tuple(dict.fromkeys((gang.ref, group.ref)))
    yield about(evidence, "PoolNotChosen", text, remedy, "platform", objects=objects)


_CHOSEN_WITHIN = 60.0
"""The seconds within which KAI Resource Management usually assigns a node pool."""


def outside_pool(gang: Gang) -> Reasons:
    """Report that the gang would not fit in its empty node pool, but would fit on all nodes.

    Also report that the pool has no nodes.
    """
    obstacle = obstacle_of(gang)
    if not obstacle or Barrier.OTHER_POOL not in obstacle.barriers or any(queue_missing(gang)):
        return

    ref = gang.pod_group.ref if gang.pod_group else gang.ref
    text, remedy, commands = _outside_words(obstacle)
    shapes = obstacle.shapes
    if not any(is_selected(shape, node) for shape in shapes for node in gang.index.nodes):
        remedy = f"{remedy}, and correct the selector"
    elif not obstacle.placements.under(Assumption(pool=ANY_POOL)).fits:
        remedy = f"{remedy}. Then room still has to become free there"
    evidence = Evidence(ref, f"metadata.labels[{NODE_POOL}]", gang.pool or "absent")
    yield about(evidence, "OutsidePool", text, remedy, "platform", commands=commands)


def _outside_words(obstacle: Obstacle) -> tuple[str, str, tuple[str, ...]]:
    """Return a text about the sizes of the node pools, the remedy, and its commands."""
    gang = obstacle.gang
    pools = Counter(node.labels.get(NODE_POOL, "") for node in gang.index.nodes)
    fitting = [
        pool
        for pool in sorted(pools)
        if pool != gang.pool and obstacle.placements.under(replace(EMPTY, pool=pool)).fits
    ]
    own = pools.pop(gang.pool, 0)
    number = counted(own, "node")
    where = listed(
        f'{count} in pool "{pool}"' if pool else f"{count} without a pool"
        for pool, count in sorted(pools.items())
    )
    have = "has" if own == 1 else "have"
    text = f"The gang is in no node pool, and the {number} without a pool {have} no room for it"
    if not own:
        text = "The gang is in no node pool, and each node is in one"
    fill = ""
    if gang.pool:
        has = f"has {number} and no room for the gang" if own else "has no nodes"
        text = f'The gang\'s node pool "{gang.pool}" {has}'
        fill = "" if own else f". Or ask the platform team to label nodes {NODE_POOL}={gang.pool}"
    if where:
        text = f"{text}; nodes elsewhere: {where}"
    if "" in fitting:
        queues, commands = into_pool(gang, "")
        leave = f"Remove the label {NODE_POOL} from the workload and its PodGroup, and use a queue"
        return text, f"{leave} without this label{queues}{fill}", commands
    if fitting:
        queues, commands = into_pool(gang, fitting[0])
        label = f"Label the workload and its PodGroup {NODE_POOL}={fitting[0]}"
        return text, f"{label}, and use a queue with the same label{queues}{fill}", commands
    remedy = "Ask the platform team for nodes without a pool, or for a pool that is large enough"
    if gang.pool:
        remedy = f"Ask the platform team for nodes with the label {NODE_POOL}={gang.pool}"
    return text, remedy, ()
