"""Report that nodes lack room for a gang, as KAI counts it.

A remedy names another level, selector or node pool only if the gang would fit with it.
"""

import itertools
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from app.base.groups import by_key
from app.base.sentences import upper_first
from app.explain.gangs.gang import Gang
from app.explain.placing.demand import Demand, by_shape
from app.explain.placing.fitness import (
    BY_CLAIM,
    FOR_MIG,
    FOR_WHOLE,
    KINDS_OF_GPUS,
    is_selected,
    refused_by,
)
from app.explain.placing.packer import Rules
from app.explain.placing.placements import (
    AS_IT_IS,
    EMPTIED,
    EMPTY,
    OPENED,
    SOON,
    Assumption,
    Own,
    Placements,
)
from app.explain.placing.room import DomainRoom
from app.explain.queue_order.cycle import line_of
from app.explain.reasons.blocking_workloads import (
    MOST,
    NEEDS_ALL,
    OF_NODES,
    freeing_remedies,
    holders_of,
    together,
)
from app.explain.reasons.consolidation import moved_for
from app.explain.reasons.gpu_sharing import (
    counted_memory,
    labelling_memory,
    part_too_large,
    part_words,
)
from app.explain.reasons.kueue import (
    choose_again,
    chosen_by_kueue,
    flavor_words,
    waits_for_checks,
)
from app.explain.reasons.lost_gpus import lost_gpus, lost_words, paused_words
from app.explain.reasons.messages import broken_plugin, did_you_mean, not_running_words
from app.explain.reasons.missing_queue import into_pool
from app.explain.reasons.obstacle import (
    Barrier,
    Obstacle,
    has_pool,
    labelled_for,
    obstacle_of,
    of_pool,
    opening,
    selection_words,
    selector_words,
    used_for,
)
from app.explain.reasons.queue import (
    RECLAIM_AFTER,
    evicting,
    fair_share,
    losing_against,
    reclaims_after,
    within_share,
)
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    Who,
    about,
    ago,
    amount,
    called,
    counted,
    in_new_set,
    is_in_bytes,
    listed,
    plain,
    pods_of,
)
from app.explain.reasons.restarts import deletion_of, restart_of
from app.explain.reasons.scaling import autoscaler_speaks, nodes_are_added
from app.explain.reasons.victims import fewest
from app.explain.state.amounts import (
    PREFIX,
    counts_as_gpu,
    gpu_resource_of,
    gpus_of,
    is_device,
    resources_of,
)
from app.explain.state.domains import shared_depth
from app.explain.state.index import Index
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.labels import NODE_POOL
from app.facts.quantity import thousandths

_PLACE = (("pods", 1000),)
"""The requests of a pod that sets none: a node can take only a limited number of pods."""


def level_of(gang: Gang, demand: Demand) -> str:
    """Return the name of a demand's level, such as `rack`, or `cluster` if it requires none."""
    return gang.topology.name_of(demand.key) or "cluster"


def parts(demand: Demand, short: Demand) -> tuple[str, ...]:
    """Return the names of `short` and of all parts that differ from it only in name, sorted."""
    return tuple(sorted({part.name for part in demand.flat() if part.profile == short.profile}))


def never_fits(gang: Gang) -> Reasons:
    """Report that no domain or node is large enough for the gang, even if empty."""
    obstacle = obstacle_of(gang)
    if not obstacle or Barrier.TOO_LARGE not in obstacle.barriers or nodes_are_added(gang):
        return

    short = obstacle.lacking
    if _is_offered_nowhere(obstacle, short) and (autoscaler_speaks(gang) or waits_for_checks(gang)):
        return  # The autoscaler or Kueue says why no node with this device is added.
    evidence = Evidence(gang.ref, "spec.topologyConstraint", short.key or "none")
    text, remedy, who = _too_large(obstacle, short)
    # LevelLabelMissing says which labels are missing, and which labels nodes have instead.
    lacks_level = bool(gang.topology.absent_keys) and not obstacle.placements.under(EMPTY).best
    follows = lacks_level or (bool(gang.topology.outside) and gang.fits_once_labelled)
    yield about(
        evidence,
        "NeverFits",
        text,
        _with_unchecked(obstacle, remedy),
        who,
        parts=parts(obstacle.demand, short),
        follows=follows,
    )


def _with_unchecked(obstacle: Obstacle, remedy: str) -> str:
    """Return a remedy with a note on rules about other pods that placements do not consider.

    A remedy that ends with a command promises no place, and gets no note.
    """
    fields = listed(obstacle.demand.unchecked)
    if not fields or ": kubectl " in remedy or ": grove-admission " in remedy:
        return remedy
    note = f"This check ignores {fields} of the pods, so they may need more nodes"
    return f"{remedy.removesuffix('.')}. {note}"


def _too_large(obstacle: Obstacle, short: Demand) -> tuple[str, str, Who]:
    """Return a text about a part that fits in no empty domain, the remedy, and who can act."""
    gang = obstacle.gang
    placements = obstacle.placements
    if not obstacle.nodes:
        return "The cluster has no nodes", "Ask the platform team to add nodes", "platform"
    oversize = _oversize(obstacle, short)
    if oversize is not None:
        return oversize

    scattered = _on_different_nodes(obstacle, short)
    if scattered is not None:
        return scattered

    level = level_of(gang, short)
    best = placements.under(EMPTY).best
    selection = selection_words(obstacle, short)
    wider = _wider(obstacle)
    larger = "more nodes" if level == "cluster" else f"more nodes in one {level}"
    also, then = _also_needed(obstacle)
    scarce = _scarce(obstacle, short, EMPTY)
    remedy = (
        f"{_less_of(obstacle, short, scarce, then)}{also}. Or ask the platform team for {larger}"
    )
    if scarce == "pods":
        remedy = (
            "Use fewer pods, or ask the platform team to raise maxPods in the kubelet configuration"
        )
    keys = gang.topology.keys if short.levels is None else short.levels
    label = f"Ask the platform team to label the nodes with {listed(keys, 8)}"
    if not best:
        text = f"No {level} exists, because no node has the labels of all levels"
        return text, f"{label}, or require no level", "you"
    if short.preferred and not best.domain.nodes:
        preferred = gang.topology.name_of(short.preferred)
        text = (
            f"KAI uses no node for {short.name}, which prefers one {preferred}: no node has the"
            " labels of all levels"
        )
        return text, _unpreferred(obstacle) or f"{label}, or prefer no level", "you"

    room = _room_of(obstacle, short, best, level, selection) + _why_short(scarce)
    lost, repair = lost_words(lost_gpus(obstacle.nodes, short))
    if lost:
        return f"{room}. {lost}", together(repair, wider or remedy), "platform"

    return room, wider or _unpreferred(obstacle) or remedy, "you"


def _also_needed(obstacle: Obstacle) -> tuple[str, Assumption]:
    """Return the other steps that smaller pods need to fit, and the assumption that they are done.

    The steps continue a sentence, such as `, and ask the platform team to ...`, and are "" if none
    is needed.
    """
    gang = obstacle.gang
    small = gang.placements_of(_without_size(obstacle.demand))
    steps = ""
    then = AS_IT_IS
    unshared = Rules(shared=False)
    if not small.under(EMPTY).fits and small.under(replace(EMPTY, rules=unshared)).fits:
        level = gang.topology.levels[-1].domain
        steps = f", and add {level} as the preferred level wherever a level is required"
        then = Assumption(rules=unshared)
    opened = replace(then, opened=True)
    if not small.under(then).fits and small.under(opened).fits:
        return f"{steps}, and {opening()}", opened
    return steps, then


def _without_size(demand: Demand) -> Demand:
    """Return the demand with pods that set no requests."""

    def change(part: Demand) -> Demand:
        pods = tuple((replace(shape, requests=_PLACE), count) for shape, count in part.pods)
        return replace(part, pods=pods)

    return demand.changed(change)


def _room_of(
    obstacle: Obstacle, short: Demand, best: DomainRoom, level: str, selection: str
) -> str:
    placements = obstacle.placements
    nodes = placements.domains.nodes_at(best.domain.nodes)
    fits = [placements.fit(OPENED)[shape] for shape, _ in short.shapes]
    usable = [
        node
        for node, position in zip(nodes, best.domain.nodes, strict=True)
        if any(fit[position] for fit in fits)
    ]
    has = sum(gpus_of(node.allocatable) for node in usable)
    asks = short.asks("/gpu")
    if asks > has:
        largest = f"The {level} with the most room ({best.domain}) has"
        if level == "cluster":
            largest = "Together, the nodes that the pods may use have"
        largest = f"{largest} {amount('/gpu', has)}"
        return f"{largest}, but {short.name} needs {amount('/gpu', asks)}{selection}"

    needs = pods_of(short.shapes) + counted_memory(short.shapes, usable)
    even = "Even empty"
    placed = [pod for pod in obstacle.gang.placed if pod.is_alive]
    if placed:
        even = "Even without other workloads"
        selection = f" next to {counted(placed, 'placed pod')} of the gang{selection}"
    if level == "cluster" and best.pods < short.count:
        room = f"room for only {best.pods} of" if best.pods else "no room for"
        return f"{even}, the nodes{used_for(obstacle, short)} have {room} {needs}{selection}"
    none_has = "the nodes have no" if level == "cluster" else f"no {level} has"
    if best.pods >= short.count:
        return f"{even}, {none_has} room for all parts of {short.name} together{selection}"

    return (
        f"{even}, no {level} has room for {needs}; {best.domain} would have room for"
        f" {best.pods}{selection}"
    )


def _unpreferred(obstacle: Obstacle) -> str:
    """Return the advice to prefer no level, if the gang then fits now, or else "".

    Parts that also require a level keep their preferred level.
    """

    def change(part: Demand) -> Demand:
        return part if part.key else replace(part, preferred="")

    demand = obstacle.demand.changed(change)
    parts = obstacle.demand.every()
    levels = dict.fromkeys(part.preferred for part in parts if part.preferred and not part.key)
    if not levels or not obstacle.gang.placements_of(demand).now.fits:
        return ""
    names = listed(f'"{obstacle.gang.topology.name_of(level)}"' for level in levels)
    ignores = labelled_for(obstacle, obstacle.demand)
    where = " on nodes that lack the label of a level" if ignores else ""
    words = f"Prefer no level instead of {names}{in_new_set(obstacle.gang)}"
    return f"{words}: it would fit now{where}"


def _oversize(obstacle: Obstacle, demand: Demand) -> tuple[str, str, Who] | None:
    """Return (text, remedy, who can act) if no node has enough of a resource for a pod, or None."""
    for shape, _ in demand.shapes:
        nodes = [node for node in obstacle.nodes if is_selected(shape, node)]
        that = of_pool(obstacle.gang)
        that += f" that matches {selector_words(shape)}" if shape.selects else ""
        if refused := _of_another_kind(shape, nodes, that):
            return refused
        if shape.part and (too_large := part_too_large(shape.part, nodes, that)):
            return too_large
        most = {}
        for name, ask in shape.requests:
            largest = max((node.allocatable.get(name, 0) for node in nodes), default=0)
            if ask <= largest:
                continue
            if not largest:
                return _not_offered(obstacle.gang.index, name, that, nodes)
            most[name] = largest
        if most:
            asked = dict(shape.requests)
            has = " or ".join(f"{amount(name, asked[name])}{_of(name)}" for name in most)
            largest_has = "the largest has" if len(most) == 1 else "the largest amounts are"
            amounts = listed(amount(name, size, down=True) for name, size in most.items())
            text = f"No node{that} has {has}, which a pod requests; {largest_has} {amounts}"
            smaller = _smaller_pods(obstacle, most)
            lost, repair = lost_words(lost_gpus(nodes, demand) if GPU in most else ())
            if lost:
                return f"{text}. {lost}", together(repair, smaller), "platform"
            return text, smaller, "you"
    return None


def _of_another_kind(shape: Shape, nodes: Sequence[Node], that: str) -> tuple[str, str, Who] | None:
    """Return (text, remedy, who can act) if KAI uses no node with GPUs for such a request of GPUs.

    Return None otherwise, or if no node has GPUs.
    """
    having = [node for node in nodes if gpus_of(node.allocatable)]
    refusing = by_key((refused_by(shape, node), node) for node in having)
    causes = [cause for cause in refusing if cause in KINDS_OF_GPUS]
    if not causes or len(causes) < len(refusing):
        return None
    if FOR_MIG in causes and not any(node.allocatable.get(GPU) for node in having):
        return None  # `_not_offered` says how the GPUs are divided.
    why = []
    for cause in causes:
        names = listed((node.name for node in refusing[cause]), 3)
        are = "are" if refusing[cause][1:] else "is"
        by_claim = f"DRA allocates the GPUs of {names}, so that pods can't share them"
        why.append(by_claim if cause == BY_CLAIM else f"{names} {are} {cause}")
    text = f"KAI uses no node{that} with GPUs for pods with this request: {listed(why)}"
    if FOR_MIG in causes:
        offered = sorted(
            {name for node in refusing[FOR_MIG] for name, has in node.allocatable.items() if has}
        )
        devices = listed((name for name in offered if "/mig-" in name), 3)
        request = f"Request MIG devices ({devices})" if devices else "Request MIG devices"
        return text, f"{request}, or ask the platform team for nodes without MIG", "you"
    if FOR_WHOLE in causes:
        request = f"Request {GPU}: each MIG device is one {GPU} there"
        return text, f"{request}, or ask the platform team for other nodes", "you"
    request = "Request GPUs with a ResourceClaim instead of gpu-fraction or gpu-memory"
    others = "ask the platform team for nodes whose GPUs a device plugin offers"
    return text, f"{request}, or {others}", "you"


def _smaller_pods(obstacle: Obstacle, most: Mapping[str, int]) -> str:
    """Return the remedy for pods that request more of a resource than any node has.

    `most` has the largest amount on a node for each such resource. The remedy may name a smaller
    amount, because several pods may have to share a node.
    """
    placements_of = obstacle.gang.placements_of
    larger = "Or ask the platform team for larger nodes"
    also, then = _also_needed(obstacle)
    ever = replace(then, free="empty", opened=True)
    lowered = placements_of(_capped(obstacle.demand, most))
    if not lowered.under(ever).fits:
        most = _fitting(obstacle, most, ever) or most
        lowered = placements_of(_capped(obstacle.demand, most))
    amounts = listed(f"{amount(name, size, down=True)}{_of(name)}" for name, size in most.items())
    if not lowered.under(ever).fits:
        return f"Request at most {amounts} per pod{also}, and use fewer or smaller pods. {larger}"
    if not lowered.under(replace(ever, opened=then.opened)).fits:
        also = f"{also}, and {opening()}"
        then = replace(then, opened=True)
    later = "" if lowered.under(then).fits else " (for which room still has to become free)"
    return f"Request at most {amounts} per pod{later}{also}. {larger}"


def _capped(demand: Demand, most: Mapping[str, int]) -> Demand:
    """Return the demand with pods that request at most `most` of resources."""

    def capped(shape: Shape) -> Shape:
        requests = tuple((name, min(ask, most.get(name, ask))) for name, ask in shape.requests)
        return replace(shape, requests=requests)

    return demand.changed(
        lambda part: replace(part, pods=tuple((capped(shape), n) for shape, n in part.pods))
    )


_HUGE_PAGES = "hugepages-"
"""The prefix of the names of huge pages, which a node offers only if they are reserved on it."""

_MOST_ON_A_NODE = 32
"""The maximum number of pods per node for which `_fitting` tries a request."""


def _fitting(obstacle: Obstacle, most: Mapping[str, int], ever: Assumption) -> Mapping[str, int]:
    """Return the largest request per pod below `most` with which the gang would fit, by resource.

    `ever` is the assumption for this. Only requests with which a whole number of pods fills a node
    are tried. Return {} if none of them helps, or if `most` has several resources.
    """
    if len(most) > 1:
        return {}
    [(name, limit)] = most.items()
    step = _step(name)
    pods = range(1, min(obstacle.demand.count, _MOST_ON_A_NODE) + 1)
    amounts = {node.allocatable.get(name, 0) // step * step for node in obstacle.nodes}
    sizes = sorted({has // count // step * step for has in amounts for count in pods})
    sizes = [size for size in sizes if 0 < size < limit]

    def is_too_large(size: int) -> bool:
        lowered = _capped(obstacle.demand, {name: size})
        return not obstacle.gang.placements_of(lowered).under(ever).fits

    fitting = bisect_left(sizes, True, key=is_too_large)
    return {name: sizes[fitting - 1]} if fitting else {}


def _step(resource: str) -> int:
    """Return the amount in thousandths of which `_fitting` tries only multiples.

    Nodes of one kind differ by a few KiB of memory, and trying a request takes long.
    """
    if is_device(resource):
        return 1000
    if resource.startswith(_HUGE_PAGES):  # The API server rejects parts of a page.
        return thousandths(resource.removeprefix(_HUGE_PAGES)) or 1000
    return _TENTH_OF_A_GIB if is_in_bytes(resource) else 100


_TENTH_OF_A_GIB = 2**30 * 1000 // 10


def _on_different_nodes(obstacle: Obstacle, demand: Demand) -> tuple[str, str, Who] | None:
    """Return (text, remedy, who can act) if no node has all that a pod requests, or None.

    Pods that request more of a resource than any node has are skipped.
    """
    for shape, _ in demand.shapes:
        nodes = [node for node in obstacle.nodes if is_selected(shape, node)]
        asks = [(name, ask) for name, ask in shape.requests if ask]
        having = {
            name: [node for node in nodes if node.allocatable.get(name, 0) >= ask]
            for name, ask in asks
        }
        if any(not own for own in having.values()) or any(
            all(node.allocatable.get(name, 0) >= ask for name, ask in asks) for node in nodes
        ):
            continue
        apart = _never_together(having, nodes)
        named = dict(asks)
        each = listed(
            f"{counted(having[name], 'node has', 'nodes have')} {_sized(name, named[name])}"
            for name in apart
        )
        none = "both" if len(apart) == 2 else "all of these"
        text = f"No node has everything that a pod requests: {each}, and no node has {none}"
        together = listed(_sized(name, named[name]) for name in apart)
        remedy = (
            "Request only resources that one node has, or ask the platform team for nodes that"
            f" have {together}"
        )
        return text, remedy, "you"
    return None


def _never_together(having: Mapping[str, Sequence[Node]], nodes: Sequence[Node]) -> Sequence[str]:
    """Return two resources of which no node has enough of both, preferably the rarest ones.

    If there are no such two, return all resources that some of `nodes` lack. `having` has the nodes
    with enough of each resource, by the name of the resource.
    """
    lacking = [name for name, own in having.items() if len(own) < len(nodes)]
    by_rarity = sorted(lacking, key=lambda name: len(having[name]))
    names = {name: {node.name for node in having[name]} for name in lacking}
    pairs = itertools.combinations(by_rarity, 2)
    return next((pair for pair in pairs if names[pair[0]].isdisjoint(names[pair[1]])), by_rarity)


def _of(resource: str) -> str:
    """Return the words after an amount in bytes, such as ` of memory`, or "" for other amounts."""
    words = "ephemeral storage" if resource == "ephemeral-storage" else resource
    return f" of {words}" if is_in_bytes(resource) else ""


def _sized(name: str, ask: int) -> str:
    """Return a text such as `64 CPUs`, or `8 nvidia.com/gpu` for a device."""
    return f"{plain(ask)} {name}" if is_device(name) else f"{amount(name, ask)}{_of(name)}"


def _less_of(obstacle: Obstacle, part: Demand, scarce: str, then: Assumption) -> str:
    """Return the advice to use less of the `scarce` resource, or of any resource if it is "".

    `then` is the assumption that the other steps of the remedy are done.
    """
    asks = max((dict(shape.requests).get(scarce, 0) for shape, _ in part.shapes), default=0)
    if not asks:
        return "Use smaller or fewer pods"
    fitting = _fitting(obstacle, {scarce: asks}, replace(then, free="empty", opened=True))
    if fitting:
        most = f"at most {amount(scarce, fitting[scarce], down=True)}{_of(scarce)}"
        return f"Request {most} per pod, or use fewer pods"
    if is_device(scarce):
        return "Use fewer pods"
    return f"Request less {called(scarce)} per pod, or use fewer pods"


def _is_offered_nowhere(obstacle: Obstacle, demand: Demand) -> bool:
    """Return whether pods request a device that no node in the gang's node pool has."""
    asked = {name for shape, _ in demand.shapes for name, _ in shape.requests if is_device(name)}
    return any(not any(node.allocatable.get(name) for node in obstacle.nodes) for name in asked)


_OF_GPUS = "nvidia.com/gpu."
"""The prefix of the labels of nodes with GPUs, even if no device plugin offers the GPUs."""

_PLUGIN = "device-plugin"
"""Part of the names of device plugins' pods."""

_SHARED = "nvidia.com/gpu.shared"
"""The resource of GPUs that time slicing divides, if the device plugin renames it."""
_PART = re.compile(r"nvidia\.com/mig-[1-9]g\.[0-9]+gb(\..+)?")
"""The pattern of resource names of MIG devices, which are parts of GPUs."""


def _divided_otherwise(text: str, name: str, nodes: Sequence[Node]) -> tuple[str, str, Who] | None:
    """Return (text, remedy, who can act) if nodes offer GPUs, but not as `name`, or None.

    `name` is the requested resource, and `text` the beginning of the returned text.
    """
    if name != GPU and not _PART.fullmatch(name):
        return None
    having = [
        {
            key
            for key, has in node.allocatable.items()
            if has and (key in (GPU, _SHARED) or "/mig-" in key)
        }
        for node in nodes
    ]
    offered = sorted(set().union(*having))
    if not offered:
        return None
    number = counted([each for each in having if each], "node offers", "nodes offer")
    wanted = "whole GPUs" if name == GPU else "such MIG devices"
    label = "nvidia.com/mig.config"
    other = f"{'one of these' if offered[1:] else offered[0]} if it is large enough"
    if GPU in offered:
        other = f"a whole GPU ({GPU})"
    elif offered == [_SHARED]:
        other = f"{_SHARED} if a time slice of a GPU is enough"
        label = "nvidia.com/device-plugin.config"
    remedy = f"Request {other}, or ask the platform team for nodes with {wanted} (label {label})"
    return f"{text}; {number} {listed(offered)}", remedy, "you"


def _not_offered(index: Index, name: str, that: str, nodes: Sequence[Node]) -> tuple[str, str, Who]:
    """Return the text that no node offers the resource `name`, the remedy, and who can act.

    `nodes` are the nodes that the pod may use, and `that` describes them, such as ` that matches
    pool=h100`, or is "" for all nodes.
    """
    text = f"No node{that} offers {name}, which a pod requests"
    if name.startswith(_HUGE_PAGES):
        remedy = (
            f"Request memory instead of {name}, or ask the platform team to reserve huge pages of"
            " this size on nodes"
        )
        return text, remedy, "you"
    if not is_device(name):
        remedy = (
            f"Remove the request for {name} from the pod template, or ask the platform team to find"
            f" out why nodes have no {name} in status.allocatable"
        )
        return text, remedy, "you"
    driver = name.removesuffix("/gpu")
    if name == gpu_resource_of(driver) and driver.startswith(PREFIX):
        return _no_gpus_to_claim(index, driver, that)
    offered = sorted({key for node in nodes for key, has in node.allocatable.items() if has})
    if divided := _divided_otherwise(text, name, nodes):
        return divided
    meant = did_you_mean(name, filter(is_device, offered))
    if meant:
        return f"{text}{meant}", "Correct the name of the resource in the pod template.", "you"

    labelled = [node for node in nodes if any(key.startswith(_OF_GPUS) for key in node.labels)]
    if labelled and counts_as_gpu(name):
        have = counted(labelled, "node has", "nodes have")
        text = f"{text}, although {have} GPUs according to the labels"
        paused, resumed = paused_words(labelled)
        if paused:
            return f"{text}. {paused}", resumed, "platform"
    plugin = broken_plugin(index, _PLUGIN)
    if plugin:
        which = f"The device plugin {plugin.namespace}/{plugin.name}"
        text += f". {not_running_words(index, plugin, which)}"
        remedy = (
            "Ask the platform team to find out why the device plugin does not run: kubectl"
            f" describe pod -n {plugin.namespace} {plugin.name}"
        )
        return text, remedy, "platform"
    alike = [key for key in offered if key.startswith(f"{name.partition('/')[0]}/")]
    alike = [key for key in alike if not counts_as_gpu(key)]
    if alike and not counts_as_gpu(name):
        number = sum(any(node.allocatable.get(key) for key in alike) for node in nodes)
        text += f"; {counted(number, 'node offers', 'nodes offer')} {listed(alike, 3)}"
        remedy = (
            f"Request {'one of these' if alike[1:] else alike[0]} if the pods can use it, or ask"
            " the platform team to configure the device plugin, which makes nodes offer"
            f" {name}"
        )
        return text, remedy, "you"

    by_claim = sorted({part.driver for part in index.slices if part.gpus})
    unread = index.facts.unread
    if name == GPU and by_claim and "device_classes" not in unread:
        text += f"; the GPUs of driver {by_claim[0]} are only for ResourceClaims"
        remedy = (
            "Request GPUs with a ResourceClaim instead, or ask the platform team to set"
            f" extendedResourceName: {name} in the DeviceClass of these GPUs (Kubernetes 1.36)"
        )
        return text, remedy, "you"

    installed_by = " (GPU Operator)" if counts_as_gpu(name) else ""
    if not labelled and not any(map(is_device, offered)):
        remedy = (
            f"Ask the platform team for nodes that offer {name}. If such nodes should exist, check"
            f" their device plugin{installed_by}: kubectl get pods -A -o wide | grep device-plugin"
        )
        return text, remedy, "platform"
    remedy = (
        f"Ask the platform team to check the device plugin{installed_by}, which makes nodes offer"
        f" {name}: kubectl get pods -A -o wide | grep device-plugin"
    )
    return text, remedy, "platform"


def _no_gpus_to_claim(index: Index, driver: str, that: str) -> tuple[str, str, Who]:
    """Return the text that no node offers GPUs of a DRA driver, the remedy, and who can act."""
    text = f"No node{that} offers GPUs of driver {driver}, which pods claim"
    empty = sorted({part.node for part in index.slices if part.driver == driver})
    if empty:
        lists = "ResourceSlice of {} lists" if len(empty) == 1 else "ResourceSlices of {} list"
        text += f": the {lists.format(listed(empty, 3))} no GPU"
    else:
        text += ": there is no ResourceSlice of this driver"
    remedy = (
        f"Ask the platform team to read the log of the kubelet plugin of {driver} on the nodes with"
        " GPUs, which publishes the ResourceSlices: kubectl get resourceslices -o yaml"
    )
    return text, remedy, "platform"


def no_domain_fits(gang: Gang) -> Reasons:
    """Report that other pods use the room that the gang needs.

    Also report that pods beyond the minimum of the gang have no room anywhere, or that KAI should
    wait for terminating pods.
    """
    obstacle = obstacle_of(gang)
    if not obstacle:
        return
    if Barrier.REST in obstacle.barriers:
        yield _no_room_for_more(obstacle)
    if Barrier.ENDING in obstacle.barriers:
        yield _waits_for_ending(obstacle)
    if Barrier.OTHER_PODS not in obstacle.barriers:
        return

    short = obstacle.short
    level = level_of(gang, short)
    best = obstacle.placements.now.best
    text = f"{_no_room(obstacle, level)}{selection_words(obstacle, short)}{part_words(obstacle)}"
    remedy, who, commands = _room_remedy(obstacle)
    beyond = _beyond_all_room(gang)
    if beyond:
        text += f"; {beyond}"
        remedy = "Ask the platform team for more nodes, or use fewer or smaller pods"
        who = "you"
    lost, repair = lost_words(lost_gpus(obstacle.nodes, short))
    if lost:
        text += f". {lost}"
        remedy, who = together(repair, remedy), "platform"
    where = str(best.domain) if best else "none"
    has = best.pods if best else 0
    evidence = Evidence(gang.ref, f"room in one {level}", f"{has} of {short.count} in {where}")
    yield about(
        evidence,
        "NoDomainFits",
        text,
        _with_unchecked(obstacle, remedy),
        who,
        parts=parts(obstacle.demand, short),
        commands=commands,
    )


def _beyond_all_room(gang: Gang) -> str:
    """Return a text with the number of a workload's pending pods that fit without other workloads.

    Return "" if all or none of them would fit, and unless the gang is one pod of a workload whose
    pods need each other (`NEEDS_ALL`).
    """
    made_for = gang.pods[0].made_for[:1] if gang.ref.kind == Pod.kind else ()
    if not made_for or made_for[0].kind not in NEEDS_ALL:
        return ""
    pods = [pod for pod in gang.index.pods_made_for.get(made_for[0], ()) if pod.is_alive]
    pending = [pod.shape for pod in pods if not pod.node]
    placed = Own(tuple(pod for pod in pods if pod.node))
    demand = Demand(made_for[0].name, "", by_shape((shape, 1) for shape in pending))
    alone = Placements(gang.topology, demand, gang.pool, placed).under(EMPTIED)
    if alone.fits or not alone.best or not alone.best.pods:
        return ""
    number = counted(pending, "pending pod")
    return (
        f"without other workloads there would be room for {alone.best.pods} of the {number} of"
        f" {made_for[0]}"
    )


def _waits_for_ending(obstacle: Obstacle) -> Reason:
    """Return the reason that KAI should choose nodes with terminating pods and wait for their end.

    KAI counts the resources of terminating pods as free when it chooses a domain.
    """
    gang = obstacle.gang
    chosen = obstacle.placements.now.nodes
    ending = [pod for pod in gang.index.terminating if pod.node in chosen]
    where = listed(sorted(chosen))
    pods = counted(ending, "pod there has ended", "pods there have ended")
    whose = "its" if len(ending) == 1 else "their"
    text = (
        f"KAI should choose {where} and wait until {pods}: it already counts {whose} room as free"
    )
    names = listed(sorted(f"{pod.namespace}/{pod.name}" for pod in ending), 3)
    evidence = Evidence(gang.ref, "the next cycle of KAI", where)
    have = "has" if len(ending) == 1 else "have"
    return about(evidence, "NoDomainFits", text, f"Wait until {names} {have} ended", "wait")


def _no_room_for_more(obstacle: Obstacle) -> Reason:
    """Return a reason for a gang whose minimum runs, and whose other pods never have room."""
    gang = obstacle.gang
    short = obstacle.short
    text = (
        f"The minimum of {gang.ref.name} runs, but there is no room for {pods_of(short.shapes)}"
        f" next to it, even without other workloads{_why_short(_scarce(obstacle, short, EMPTY))}"
    )
    remedy = "Do nothing if the minimum is enough. Otherwise, ask the platform team for more nodes"
    if gang.pod_group and gang.pod_group.stale is not None:  # KAI counts it as below its minimum.
        remedy = "Ask the platform team for more nodes to run the other pods"
    evidence = Evidence(gang.ref, "room", f"0 of {short.count}")
    return about(evidence, "NoDomainFits", text, remedy, "platform")


def _no_room(obstacle: Obstacle, level: str) -> str:
    short = obstacle.short
    best = obstacle.placements.now.best
    needs = pods_of(short.shapes)
    has = best.pods if best else 0
    if level == "cluster":
        only = f", only for {has} of these pods" if has else ""
        text = f"{_open_nodes(obstacle)} have no room for {needs}{only}"
    elif not best:
        return f"No {level} has room for {needs}: no node has the labels of all levels"
    elif not has:
        text = f"No {level} has room for {'any of ' if short.count > 1 else ''}{needs}"
    else:
        text = f"No {level} has room for {needs}; {best.domain} has room for {has}"

    if has >= short.count and level == "cluster":
        text = f"The nodes have room for each part of {short.name}, but not for all together"
    elif has >= short.count:
        where = f"{best.domain if best else level} has"
        text = (
            f"No {level} has room for all parts of {short.name} together; {where} room for each of"
            " them"
        )

    scarce = _scarce(obstacle, short, AS_IT_IS)
    return text + (_why_short(scarce) or _in_pieces(obstacle))


def _scarce(obstacle: Obstacle, part: Demand, assumption: Assumption) -> str:
    """Return the resource without whose requests the gang would fit, unless it is GPUs, or "".

    If the pods request devices, which are not free, another device may be the cause.
    """
    names = resources_of(shape for shape, _ in part.shapes)
    if assumption == AS_IT_IS and any(map(is_device, names)):
        assumption = replace(assumption, devices=True)
    others = (name for name in names if not counts_as_gpu(name) and assumption.counts(name))
    placements = obstacle.placements
    fitting = (name for name in others if placements.under(replace(assumption, without=name)).fits)
    return next(fitting, "")


def _why_short(scarce: str) -> str:
    """Return a note about the resource that is short, or "" without one."""
    if scarce == "pods":
        return " (nodes take too few pods)"
    return f" (not enough {called(scarce)})" if scarce else ""


def _open_nodes(obstacle: Obstacle) -> str:
    """Return a text such as `The nodes of node pool gold`.

    If only some nodes are open to the pods and all of these are in one domain, name this domain.
    """
    of = of_pool(obstacle.gang) if obstacle.gang.pool else ""
    everywhere = f"The nodes{of}{labelled_for(obstacle, obstacle.short)}"
    if len(obstacle.open) == len(obstacle.nodes):
        return everywhere

    domains = obstacle.placements.domains
    usable = domains.nodes_at(obstacle.open)
    paths = domains.paths_of(node.name for node in usable)
    depth = shared_depth(paths) if len(paths) == len(usable) else 0
    if not depth:
        return everywhere

    level = obstacle.gang.topology.levels[depth - 1].domain
    return f"The open nodes, which are all in {level} {'/'.join(paths[0][:depth])},"


def _in_pieces(obstacle: Obstacle) -> str:
    """Return a note if enough GPUs are free in one domain but too fragmented, or else ""."""
    short = obstacle.short
    best = obstacle.placements.now.best
    if not best or best.pods >= short.count:
        return ""
    asks = short.asks("/gpu")
    fit = obstacle.placements.fit()
    shapes = [fit[shape] for shape in obstacle.shapes if gpus_of(dict(shape.requests))]
    nodes = [at for at in obstacle.usable(best) if any(takes[at] for takes in shapes)]
    has = sum(gpus_of(obstacle.placements.free(at)) for at in nodes)
    if not asks or has < asks:
        return ""
    return f" ({amount('/gpu', has)} are free, but too fragmented)"


def _room_remedy(obstacle: Obstacle) -> tuple[str, Who, tuple[str, ...]]:
    """Return the remedies for a lack of room in one text, who can act, and the commands.

    Waiting comes first if room becomes free by itself.
    """
    itself = _by_itself(obstacle)
    moves = [] if itself else list(filter(None, [_moving(obstacle.gang)]))
    elsewhere, commands = _elsewhere(obstacle)
    unselected, patches = _unselected(obstacle)
    commands = commands or patches
    others = (
        _wider(obstacle),
        _unpreferred(obstacle),
        elsewhere,
        unselected,
        labelling_memory(obstacle),
        within_share(obstacle.gang),
    )
    now = [each for each in others if each]
    waits, who = _freeing(obstacle)
    if itself:
        waits, who = [], "wait"
    who = "wait" if moves else who
    return together(*itself, *moves, *now, *waits), "you" if now else who, commands


def _by_itself(obstacle: Obstacle) -> list[str]:
    """Return the remedies to wait, because pods terminate or KAI may evict pods."""
    evicts = (
        evicting(obstacle.gang.index, _evicted_for(obstacle)),
        _reclaiming(obstacle),
    )
    return [each for each in (_ending(obstacle), *evicts) if each]


def _reclaiming(obstacle: Obstacle) -> str:
    """Return a remedy if KAI may reclaim the room from other queues for the gang, or else ""."""
    facts = obstacle.gang.facts
    if {"queues", "pod_groups", "priorities"} & facts.unread:
        return ""
    found = next(fair_share(obstacle.gang), None)
    if found is None:
        return ""
    queues = listed(ref.name for ref in found.objects)
    left = reclaims_after(obstacle.gang)
    then = f" in {ago(left)} at the earliest ({RECLAIM_AFTER})" if left else ""
    above = line_of(obstacle.gang.index)[obstacle.gang.ref].above.values()
    bounds = sorted({each.bound for each in above})
    if len(found.objects) == 1:
        return f"Wait: queue {queues} is above its {bounds[0]}, and KAI may evict its pods{then}"
    their = " or ".join(f"{bound}s" for bound in bounds)
    return f"Wait: queues {queues} are above their {their}, and KAI may evict their pods{then}"


def _moving(gang: Gang) -> str:
    """Return a remedy if KAI may move running pods to make room for the gang, or else ""."""
    groups = moved_for(gang)
    if not groups:
        return ""
    pods = [pod for group in groups for pod in gang.index.pods_of_group[group.key] if pod.node]
    names = listed((holder.words(gang) for holder in holders_of(gang, pods)), MOST)
    return (
        f"Wait: KAI may move running pods, such as those of {names}, to other nodes or GPUs to make"
        " room. If it does not do so within a few minutes, ask the platform team whether KAI's"
        " action consolidation is enabled"
    )


def resolves_itself(obstacle: Obstacle) -> bool:
    """Return whether enough room becomes free by itself.

    Either pods terminate, or KAI may evict pods in the gang's queue.
    """
    return bool(_ending(obstacle) or _evicted_for(obstacle))


def _elsewhere(obstacle: Obstacle) -> tuple[str, tuple[str, ...]]:
    """Return advice about another node pool in which the gang fits, and its commands.

    Return ("", ()) if there is none, or if pods of the gang are placed.
    """
    gang = obstacle.gang
    if gang.placed or not has_pool(gang):
        return "", ()
    pools = sorted({node.labels.get(NODE_POOL, "") for node in gang.index.nodes} - {gang.pool})
    fitting = (pool for pool in pools if obstacle.placements.under(Assumption(pool=pool)).fits)
    pool = next(fitting, None)
    if pool is None:
        return "", ()
    queues, commands = into_pool(gang, pool)
    use = f'Use node pool "{pool}" and a queue in it{queues}, if a scheduler serves it'
    if not pool:
        leave = f"Remove the label {NODE_POOL} from the workload and its PodGroup"
        use = f"{leave}, and use a queue without this label{queues}"
    return f"{use}: the gang fits there", commands


def _unselected(obstacle: Obstacle) -> tuple[str, tuple[str, ...]]:
    """Return advice about nodes that the pods don't select but would fit on, and its commands.

    Return ("", ()) if there are none, or if pods of the gang are placed. Kueue adds the nodes that
    it has chosen, and the labels of a flavor, to the nodeSelector. If Kueue has chosen nodes, only
    nodes that it could choose instead count.
    """
    gang = obstacle.gang
    of_kueue = chosen_by_kueue(gang)
    own = (replace(shape, volumes=()) for shape, _ in obstacle.demand.shapes)
    chosen = [selector_words(shape) for shape in own if shape.selects]
    if not chosen or gang.placed:
        return "", ()
    if any(pod.controller and pod.controller.kind in OF_NODES for pod in gang.waiting):
        return "", ()  # A pod of a DaemonSet is for one node.

    def without(shape: Shape) -> Shape:
        if of_kueue:
            kept = tuple(item for item in shape.selector if item.key not in of_kueue[1])
            return replace(shape, selector=kept)
        return replace(shape, selector=(), affinity=())

    def anywhere(part: Demand) -> Demand:
        return replace(part, pods=tuple((without(shape), count) for shape, count in part.pods))

    demand = obstacle.demand.changed(anywhere)
    if not gang.placements_of(demand).now.fits:
        return "", ()
    if of_kueue:
        return choose_again(of_kueue[0])
    names = listed(dict.fromkeys(chosen))
    of_flavor = flavor_words(gang)
    if of_flavor:
        of_flavor = f" (unless Kueue added it for {of_flavor})"
    return (
        f"Remove the selector {names}{of_flavor} if the pods may run elsewhere: they would fit now",
        (),
    )


def _ending(obstacle: Obstacle) -> str:
    """Return the remedy to wait for terminating pods if the gang then fits, or else ""."""
    leaving = obstacle.gang.index.terminating
    if leaving and obstacle.placements.under(SOON).fits:
        names = listed((f"{pod.namespace}/{pod.name}" for pod in leaving), 2)
        since = [pod.deleted for pod in leaving if pod.deleted is not None]
        now = obstacle.gang.facts.now
        ages = f", terminating for {ago(now - min(since))}" if since and now else ""
        return f"Wait for {counted(leaving, 'terminating pod')} to end ({names}{ages})"
    return ""


def _evicted_for(obstacle: Obstacle) -> Sequence[Pod]:
    """Return the pods in the same queue that KAI should evict, if that makes room for the gang.

    Only pods on nodes that are open to the pending pods count.
    """
    gang = obstacle.gang
    losing = losing_against(gang)
    if not losing:
        return ()

    nodes = gang.index.nodes
    in_the_way = {nodes[position].name for position in obstacle.open}
    victims = [pod for pod in losing if pod.node in in_the_way]

    def fits_without(pods: Sequence[Pod]) -> bool:
        gone = Assumption(gone=frozenset(pod.key for pod in pods))
        return obstacle.placements.under(gone).fits

    # Equal gangs share placements, and those of equal queue and priority share `losing`.
    of = (obstacle.placements, losing)
    return gang.index.one_of_few_of(
        "evicted", of, lambda: fewest(gang.index, victims, fits_without)
    )


def _freeing(obstacle: Obstacle) -> tuple[list[str], Who]:
    """Return the remedies that free room, and who can act.

    They concern one domain if it is enough to free room there, or else all open nodes.
    """
    freed = _domain_that_helps(obstacle)
    room = freed if freed and freed.domain.path else None
    missing = max(1, obstacle.short.count - (room.pods if room else 0))
    if not room:
        best = obstacle.placements.now.best
        missing = max(1, obstacle.short.count - (best.pods if best else 0))
    positions = obstacle.usable(room) if room else obstacle.open
    where = f" in {room.domain}" if room else ""
    return freeing_remedies(obstacle.gang, _holding(obstacle, positions), missing, where)


def _holding(obstacle: Obstacle, positions: Sequence[int]) -> list[Pod]:
    """Return the pods on nodes that hold the resource that is short, or else the devices."""
    pods = list(obstacle.holding(positions))
    scarce = _scarce(obstacle, obstacle.short, AS_IT_IS)
    return [pod for pod in pods if scarce in dict(pod.shape.requests)] or pods


_MOST_PARTS = 20
"""The maximum number of parts of a demand for which single domains are tried."""
_MOST_TRIED = 4
"""The maximum number of domains that are tried, most promising first."""


def _domain_that_helps(obstacle: Obstacle) -> DomainRoom | None:
    """Return the domain with the most room in which the gang would fit if other pods there ended.

    Return None if one domain is not enough, if there are more than `_MOST_PARTS` parts, or if none
    of the `_MOST_TRIED` most promising domains helps.
    """
    short = obstacle.short
    like = [part for part in obstacle.demand.flat() if part.profile == short.profile]
    if len(like) > 1 or len(short.bound) > _MOST_PARTS:
        return None  # One domain is not enough for all parts, or trying takes too long.

    empty = obstacle.gang.placements_of(short).rooms(EMPTIED)
    large = {room.domain.path for room in empty if room.pods >= short.count}
    promising = (room for room in obstacle.placements.now.rooms if room.domain.path in large)
    for room in itertools.islice(promising, _MOST_TRIED):
        emptied = frozenset(obstacle.usable(room))
        if obstacle.placements.under(Assumption(emptied=emptied)).fits:
            return room
    return None


def _wider(obstacle: Obstacle) -> str:
    """Return the advice to require the next wider level at which the gang fits now, or ""."""
    short = obstacle.lacking
    gang = obstacle.gang
    for level in gang.topology.wider(short.key, short.levels):
        if gang.placements_of(replaced(obstacle.demand, short, key=level.key)).now.fits:
            narrow = level_of(gang, short)
            words = f'Require "{level.domain}" instead of "{narrow}"{in_new_set(gang)}'
            return f"{words}: it would fit now"
    return ""


def replaced(demand: Demand, short: Demand, **changes: str) -> Demand:
    """Return the demand with `changes` in `short` and in all parts that differ only in name."""

    def change(part: Demand) -> Demand:
        return replace(part, **changes) if part.profile == short.profile else part

    return demand.changed(change)


def bound_to_domain(gang: Gang) -> Reasons:
    """Report that the domain in which pods of the gang run has no room for its other pods."""
    obstacle = obstacle_of(gang)
    if not obstacle or Barrier.BOUND not in obstacle.barriers:
        return

    short = obstacle.short
    text, remedy = _bound(obstacle)
    evidence = Evidence(gang.ref, "spec.topologyConstraint", short.key)
    yield about(
        evidence,
        "BoundToDomain",
        text,
        remedy,
        "wait" if remedy.startswith(("Wait: ", "Wait for ")) else "you",
        parts=parts(obstacle.demand, short),
        commands=deletion_of(gang, gang.pods) if remedy.startswith(_START_OVER) else (),
    )


_START_OVER = "Restart the gang, because its minimum would then fit"


def _bound(obstacle: Obstacle) -> tuple[str, str]:
    """Return a text about a part whose pending pods must join its running pods, and the remedy."""
    gang = obstacle.gang
    short = obstacle.short
    part = next(part for part in gang.whole.parts() if part.name == short.name)
    run = f"{len(part.placed)} of {counted(part.expected, 'pod')} of {short.name}"
    run += " runs" if len(part.placed) == 1 else " run"
    them = "it" if len(part.placed) == 1 else "them"
    best = obstacle.placements.now.best
    if not best:
        nodes = listed(sorted(short.occupied))
        where = f"on {nodes}, outside every {level_of(gang, short)} that KAI knows"
        helps = _start_over(gang) if gang.from_scratch.now.fits else _without_room(obstacle)
        return f"{run} {where}, and the rest must join {them}", helps

    needs = pods_of(short.shapes)
    has = f"has room for {best.pods} of {needs}" if best.pods else f"has no room for {needs}"
    has += _why_short(_scarce(obstacle, short, AS_IT_IS))
    text = f"{run} in {best.domain}, and the rest must join {them}, but {best.domain} {has}"
    return text, _rejoined(obstacle, best)


def _start_over(gang: Gang) -> str:
    return f"{_START_OVER}: {_restart(gang)}"


def _restart(gang: Gang) -> str:
    return restart_of(gang, gang.pods, "all of its pods")


def _rejoined(obstacle: Obstacle, best: DomainRoom) -> str:
    """Return the remedy for a gang with running pods in `best`, which lacks room for the rest."""
    itself = _by_itself(obstacle)
    if itself:
        return together(*itself)

    gang = obstacle.gang
    helps: list[str] = []
    # A gang that has its minimum could start from scratch in the same place, without the rest.
    if not gang.whole.is_satisfied and gang.from_scratch.now.fits:
        helps.append(_start_over(gang))
    freed = Assumption(emptied=frozenset(obstacle.usable(best)))
    if obstacle.placements.under(freed).fits:
        part = next(part for part in gang.whole.parts() if part.name == obstacle.short.name)
        # KAI places pods above the minimum one at a time.
        missing = part.expected - len(part.placed) - best.pods
        pods = _holding(obstacle, obstacle.usable(best))
        others = [pod for pod in pods if pod not in gang.pods]
        waits, _ = freeing_remedies(gang, others, max(1, missing), f" in {best.domain}")
        helps += waits
    return together(*helps) if helps else _without_room(obstacle)


def _without_room(obstacle: Obstacle) -> str:
    """Return the remedy if the gang would not fit in its domain even without other pods there."""
    gang = obstacle.gang
    if obstacle.placements.under(OPENED).fits:
        best = obstacle.placements.now.best
        return upper_first(opening(f" in {best.domain}" if best else ""))
    if gang.whole.is_satisfied:
        if gang.pod_group and gang.pod_group.stale is not None:  # KAI counts it as below it.
            return "Use fewer pods, or ask the platform team for more nodes"
        return "Do nothing if the minimum of the gang is enough. Otherwise, use fewer pods"
    if gang.from_scratch.under(EMPTIED).fits:
        return (
            f"Restart the gang ({_restart(gang)}) once another domain has room for all of it, or"
            " ask the platform team for more nodes"
        )
    again = restart_of(gang, gang.pods, "all of its pods", has_new_template=True)
    return f"Use smaller pods in the pod templates, and restart the gang ({again})"
