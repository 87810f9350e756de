"""Reasons in the room on nodes: pod by pod, as `room` counts it."""

import itertools
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.explain.amounts import PREFIX
from app.explain.domains import Domain
from app.explain.facts.nodes import Node
from app.explain.facts.pods import Pod, Shape
from app.explain.fitness import unfit_because
from app.explain.gang import Gang
from app.explain.index import Index
from app.explain.places import Places
from app.explain.reason import Evidence, Reason, Who
from app.explain.room import Demand
from app.explain.words import amount, counted, gpus_of, is_device, listed, pods_of
from app.rules.dialects.bindings.levels import KAI_SCHEDULER

NOT_PREEMPTIBLE = 100
"""From this priority on, KAI evicts a pod for no other, unless its workload says otherwise."""


def level_of(gang: Gang, demand: Demand) -> str:
    """`rack` for people; `cluster` if the demand is not bound to a level that exists."""
    return gang.topology.name_of(demand.key) if demand.key in gang.topology.keys else "cluster"


def nodes_in(places: Places, domain: Domain) -> list[Node]:
    return [places.domains.nodes[position] for position in domain.nodes]


def parts(places: Places, short: Demand) -> tuple[str, ...]:
    """The names of all parts of a demand that are like `short`, and have no room either."""
    return tuple(
        sorted({part.name for part in places.demand.flat() if part.profile == short.profile})
    )


def never_fits(gang: Gang) -> Iterator[Reason]:
    """Even without any other pod, no domain is large enough."""
    places = gang.anew
    if places.empty.fits:
        return
    short = places.empty.short or places.demand
    level = level_of(gang, short)
    needs = pods_of(short.shapes)
    oversize = _oversize(places, short)
    if oversize is not None:
        text = oversize
        remedy = "make the pods smaller"
    elif places.empty.best is None:
        text = f"No {level} exists: no node has the labels of all levels"
        remedy = "have the nodes labelled, or ask for a level that they have"
    else:
        best = places.empty.best
        has = sum(gpus_of(node.allocatable) for node in nodes_in(places, best.domain))
        asks = sum(gpus_of(dict(shape.requests)) * count for shape, count in short.shapes)
        room = (
            f"The largest {level} has {amount('/gpu', has)}, and {short.name} needs"
            f" {amount('/gpu', asks)}"
        )
        alone = (
            f"Even empty, no {level} has room for {needs}; {best.domain} would have room for"
            f" {best.pods}"
        )
        text = room if asks > has else alone
        remedy = "use a wider level, or smaller replicas"
    evidence = (Evidence(gang.ref, "spec.topologyConstraint", short.key or "none"),)
    yield Reason(
        "NeverFits", (gang.ref,), text, remedy, "you", evidence, parts=parts(places, short)
    )


def _oversize(places: Places, demand: Demand) -> str | None:
    """A pod that no node could hold, in one resource."""
    for shape, _ in demand.shapes:
        for name, ask in shape.requests:
            most = max((node.allocatable.get(name, 0) for node in places.domains.nodes), default=0)
            if ask > most:
                return (
                    f"No node has {amount(name, ask)}, which a pod asks for: the largest has"
                    f" {amount(name, most)}"
                )
    return None


def no_domain_fits(gang: Gang) -> Iterator[Reason]:
    """No domain has room now, one could have, and nothing of the part is placed yet."""
    short = _short(gang)
    if short is None or short.occupied:
        return
    places = gang.places
    level = level_of(gang, short)
    if places.any_pool.fits or _missing_resource(gang) is not None:
        return
    best = places.now.best
    if level == "cluster":
        text = (
            f"The nodes have no room for {pods_of(short.shapes)}, only for"
            f" {best.pods if best else 0}"
        )
    elif best is not None:
        text = (
            f"No {level} has room for {pods_of(short.shapes)}; {best.domain} has room for"
            f" {best.pods}"
        )
    else:
        text = (
            f"No {level} has room for {pods_of(short.shapes)}: no node has the labels of all levels"
        )
    leaving = gang.index.terminating
    soon = (
        f"wait for {counted(len(leaving), 'terminating pod')} to end"
        if leaving and places.soon.fits
        else ""
    )
    helps = [soon, _free_there(gang, places, short), _wider(gang, short)]
    remedy = ", or ".join(filter(None, helps)) or "wait until other pods end"
    where = str(best.domain) if best is not None else "none"
    evidence = (
        Evidence(
            gang.ref,
            f"room in one {level}",
            f"{best.pods if best else 0} of {short.count} in {where}",
        ),
    )
    yield Reason(
        "NoDomainFits", (gang.ref,), text, remedy, "you", evidence, parts=parts(places, short)
    )


def _short(gang: Gang) -> Demand | None:
    """What has no room now, None if all has, or if even empty nodes had none (then `never_fits`
    says so).
    """
    if gang.places.now.fits or not gang.anew.empty.fits:
        return None
    return gang.places.now.short


def _free_there(gang: Gang, places: Places, short: Demand) -> str:
    """What to free in the roomiest domain, and who holds it."""
    best = places.now.best
    if best is None or not best.domain.nodes or best.domain.path == ():
        return ""
    missing = short.count - best.pods
    counts = Counter(
        (pod.group or pod.namespace, ", preemptible" if _is_preemptible(gang.index, pod) else "")
        for node in nodes_in(places, best.domain)
        for pod in gang.index.pods_on.get(node.name, ())
        if _has_gpus(gang.index, pod)
    )
    most = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
    holders = listed(
        f"{name} has {counted(count, 'pod')} there{state}" for (name, state), count in most
    )
    return f"free room for {missing} more in {best.domain}" + (f" ({holders})" if holders else "")


def _has_gpus(index: Index, pod: Pod) -> bool:
    claims = (index.claims.get((pod.namespace, claim.claim)) for claim in pod.claims)
    devices = (device for claim in claims if claim is not None for device in claim.devices)
    return gpus_of(dict(pod.shape.requests)) > 0 or any(
        device.driver.startswith(PREFIX) for device in devices
    )


def _is_preemptible(index: Index, pod: Pod) -> bool:
    """Whether KAI may evict a pod for others: as its PodGroup or its label says, and otherwise if
    its priority is below 100
    (https://github.com/kai-scheduler/KAI-Scheduler/tree/main/docs/priority).
    """
    group = index.pod_groups.get((pod.namespace, pod.group))
    declared = (group.preemptibility if group is not None else "") or pod.preemptibility
    may_be_evicted = declared == "preemptible" or (not declared and pod.priority < NOT_PREEMPTIBLE)
    return pod.scheduler == KAI_SCHEDULER and may_be_evicted


def _wider(gang: Gang, short: Demand) -> str:
    """The next wider level at which the gang fits, as advice; "" if there is none."""
    if short.key not in gang.topology.keys:
        return ""
    above = gang.topology.levels[: gang.topology.keys.index(short.key)]
    for level in reversed(above):
        wider = _with_key(gang.places.demand, short, level.key)
        if gang.places_of(wider).now.fits:
            return (
                f"ask for {level.domain} in place of {gang.topology.name_of(short.key)}: it fits"
                " there"
            )
    return ""


def _with_key(demand: Demand, short: Demand, key: str) -> Demand:
    if demand == short:
        return replace(demand, key=key)
    same = [
        replace(part, key=key) if part.profile == short.profile else _with_key(part, short, key)
        for part in demand.parts
    ]
    return replace(demand, parts=tuple(same))


def bound_to_domain(gang: Gang) -> Iterator[Reason]:
    """Part of the gang runs, the rest must join it, and there is no room for it."""
    short = _short(gang)
    if short is None or not short.occupied or short.key not in gang.topology.keys:
        return
    part = next(part for part in gang.whole.parts() if part.name == short.name)
    best = gang.places.now.best
    if best is not None:
        text = (
            f"{len(part.placed)} of {counted(part.expected, 'pod')} of {short.name} run in"
            f" {best.domain}, the rest must join them, and it has room for {best.pods} of"
            f" {pods_of(short.shapes)}"
        )
        remedy = f"free room for {short.count - best.pods} more there, or restart the gang"
        evidence = (Evidence(gang.ref, "spec.topologyConstraint", short.key),)
        yield Reason(
            "BoundToDomain",
            (gang.ref,),
            text,
            remedy,
            "you",
            evidence,
            parts=parts(gang.places, short),
        )


def nodes_unfit(gang: Gang) -> Iterator[Reason]:
    """Nodes are closed to the gang, and if they were open, it would fit."""
    short = _short(gang)
    if short is None or not gang.places.all_fit.fits:
        return
    places = gang.places
    shapes = [shape for shape, _ in short.shapes]
    for domain in _opened(gang, short):
        closed = [
            (node, why) for node in nodes_in(places, domain) if (why := _closed(shapes, node))
        ]
        if closed:
            yield _unfit(places, domain, closed)
            return


def _opened(gang: Gang, short: Demand) -> list[Domain]:
    """The domains in which `short` would fit if all nodes were open, the one first that lacks least
    now.
    """
    alone = gang.places_of(short)
    now = {room.domain.path: room.pods for room in gang.places.now.rooms}
    rooms = [room for room in alone.rooms_if_open if room.pods >= short.count]
    return [
        room.domain
        for room in sorted(
            rooms, key=lambda room: (-now.get(room.domain.path, 0), room.domain.path)
        )
    ]


def _closed(shapes: Sequence[Shape], node: Node) -> str:
    return next(filter(None, (unfit_because(shape, node) for shape in shapes)), "")


def _unfit(places: Places, domain: Domain, closed: list[tuple[Node, str]]) -> Reason:
    counts = Counter(why for _, why in closed)
    whys = listed(f"{count} {why}" for why, count in sorted(counts.items()))
    verb = "is" if len(closed) == 1 else "are"
    text = f"{len(closed)} of {counted(len(domain.nodes), 'node')} of {domain} {verb} out: {whys}"
    cordoned = [node.name for node, why in closed if why == "cordoned"]
    commands = (f"kubectl uncordon {shlex.join(cordoned)}",) if cordoned else ()
    refs = tuple(node.ref for node, _ in closed)
    evidence = tuple(Evidence(node.ref, "spec, status", why) for node, why in closed[:8])
    remedies = {
        "cordoned": "uncordon the nodes",
        "not ready": "repair the nodes",
        "not selected by the pods": "change the pods' node selector",
    }
    remedy = listed(
        dict.fromkeys(
            remedies.get(why, "tolerate the taints or remove them") for why in sorted(counts)
        )
    )
    who: Who = "you" if set(counts) == {"not selected by the pods"} else "platform"
    return Reason("NodesUnfit", refs, text, remedy, who, evidence, commands)


def other_resource(gang: Gang) -> Iterator[Reason]:
    """The devices fit, and another resource does not."""
    short = _short(gang)
    missing = _missing_resource(gang)
    if short is None or missing is None:
        return
    name = missing
    level = level_of(gang, short)
    asks, most = _asked_and_free(gang.places, short, name)
    rooms = [room for room in gang.places_of(short).rooms_for_devices if room.pods >= short.count]
    where = f"in {counted(len(rooms), level)}" if rooms and level != "cluster" else "on the nodes"
    text = (
        f"GPUs fit {where}, {name} in none: a pod asks for {amount(name, asks)}, and at most"
        f" {amount(name, most)} {'is' if name == 'memory' else 'are'} free on a node with free GPUs"
    )
    evidence = (Evidence(gang.ref, f"resources.requests[{name}]", amount(name, asks)),)
    yield Reason(
        "OtherResource",
        (gang.ref,),
        text,
        f"ask for less {name}",
        "you",
        evidence,
        parts=parts(gang.places, short),
    )


def _missing_resource(gang: Gang) -> str | None:
    """The resource without which it would fit, if devices are asked for and fit by themselves."""
    short = _short(gang)
    if short is None:
        return None
    names = sorted({name for shape, _ in short.shapes for name, _ in shape.requests})
    if not any(map(is_device, names)) or not gang.places.devices_alone.fits:
        return None
    plain = [name for name in names if not is_device(name)]
    alone = (name for name in plain if gang.places.without(name).fits)
    return next(alone, plain[0] if plain else None)


def _asked_and_free(places: Places, short: Demand, name: str) -> tuple[int, int]:
    """What the largest pod asks for, and the most that a node with room for its devices has
    free.
    """
    asks = max(dict(shape.requests).get(name, 0) for shape, _ in short.shapes)
    shapes = [shape for shape, _ in short.shapes if dict(shape.requests).get(name, 0) == asks]
    devices = {key: ask for key, ask in shapes[0].requests if is_device(key)}
    positions = [position for position, ok in enumerate(places.fit[shapes[0]]) if ok]
    free = (places.free(position) for position in positions)
    fitting = (
        have.get(name, 0)
        for have in free
        if all(have.get(key, 0) >= ask for key, ask in devices.items())
    )
    return asks, max(fitting, default=0)


def not_as_preferred(gang: Gang) -> Iterator[Reason]:
    """All is placed, over more preferred domains than needed."""
    if gang.waits:
        return
    domains = gang.index.domains(gang.topology.keys)
    positions = domains.positions
    for part in gang.whole.parts():
        depth = domains.depth(part.told.preferred)
        if (
            depth is None
            or not part.placed
            or not all(pod.node in positions for pod in part.placed)
        ):
            continue
        used = {domains.domain_of(positions[pod.node], depth) for pod in part.placed}
        counts = Counter(pod.shape for pod in part.placed)
        needed = gang.places_of(Demand("", part.told.preferred, tuple(counts.items()))).needed
        if None not in used and needed is not None and len(used) > needed:
            level = gang.topology.name_of(part.told.preferred)
            pods = counted(len(part.placed), "pod")
            text = f"{pods} of {part.name} in {counted(len(used), level)}, {needed} would do"
            evidence = (Evidence(gang.ref, "preferred", part.told.preferred),)
            remedy = "nothing is wrong; restart to pack them again"
            yield Reason(
                "NotAsPreferred", (gang.ref,), text, remedy, "you", evidence, severity="note"
            )


def binding_failed(gang: Gang) -> Iterator[Reason]:
    for pod in gang.waiting:
        events = (
            e
            for e in gang.index.events.get(pod.uid, ())
            if e.reason in ("BindingError", "FailedBinding")
        )
        for event in itertools.islice(events, 1):
            text = f"KAI chose a node, and binding failed: {event.message}"
            evidence = (Evidence(pod.ref, f"event {event.reason}", event.message),)
            yield Reason("BindingFailed", (pod.ref,), text, "see KAI's words", "platform", evidence)
