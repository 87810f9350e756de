"""Report constraints that KAI rejects, ignores, or interprets in an unexpected way."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from app.base.sentences import lower_first
from app.explain.gangs.gang import Gang
from app.explain.placing.demand import Demand
from app.explain.placing.placements import EMPTIED, EMPTY, OPENED
from app.explain.reasons.obstacle import Barrier, Obstacle, obstacle_of, opening
from app.explain.reasons.placement import level_of, parts, replaced
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    about,
    counted,
    in_new_set,
    listed,
    plain,
)
from app.explain.reasons.topology import named_topologies
from app.explain.state.amounts import gpus_of
from app.explain.state.domains import Domains, Path, joined_names
from app.explain.state.levels import Topology
from app.facts.constraint import SchedulerConstraint


def preferred_broader(gang: Gang) -> Reasons:
    """Report that a part prefers a level broader than the one it requires, which KAI rejects."""
    for part in gang.whole.parts():
        told = part.told
        if not gang.topology.prefers_broader(told):
            continue
        required = gang.topology.name_of(told.required)
        preferred = gang.topology.name_of(told.preferred)
        text = (
            f"{part.name} requires {required} but prefers the broader level {preferred}, so KAI"
            " never places it"
        )
        remedy = _without_preferred(gang, part.name)
        evidence = Evidence(gang.ref, "preferred", told.preferred)
        yield about(evidence, "PreferredBroader", text, remedy, "you", parts=(part.name,))


def _without_preferred(gang: Gang, name: str) -> str:
    """Return the remedy for a part whose preferred level KAI rejects."""
    obstacle = obstacle_of(gang)
    leave = f"Remove the preferred level of {name}"
    short = next((part for part in gang.demand.every() if part.name == name), None)
    if not obstacle or not short:
        return f"{leave}{in_new_set(gang)}"

    demand = replaced(obstacle.demand, short, preferred="")
    options = [(leave, demand)]
    options += [
        (f"{leave}, and {lower_first(words)}", wider)
        for words, wider in _wider_levels(obstacle, demand, replace(short, preferred=""))
    ]
    fewer = f"{leave}{in_new_set(gang)}, and use smaller or fewer pods"
    return _first_that_helps(obstacle, options) or fewer


def _first_that_helps(obstacle: Obstacle, options: Sequence[tuple[str, Demand]]) -> str:
    """Return the text of the first demand that fits now, or else in a cluster without other pods.

    `options` are pairs of a text and a demand. Return "" if no demand fits.
    """
    gang = obstacle.gang
    for words, demand in options:
        if gang.placements_of(demand).now.fits:
            return f"{words}{in_new_set(gang)}"
    for words, demand in options:
        if gang.placements_of(demand).under(EMPTIED).fits:
            return f"{words}{in_new_set(gang)}. The gang then still has to wait for room"
    return ""


def shared_narrower_domain(gang: Gang) -> Reasons:
    """Report that a level is required, and all usable nodes share a narrower domain.

    KAI never places such a gang. This is a defect: KAI's `lowestCommonDomainID` returns the
    narrower domain, and the domains above then seem to have no room.
    """
    obstacle = obstacle_of(gang)
    if not obstacle or Barrier.SHARED_DOMAIN not in obstacle.barriers:
        return

    short, remedy = _culprit(obstacle)
    names = parts(gang.demand, short)
    verb = "requires" if len(names) == 1 else "require"
    text = (
        f"{listed(names)} {verb} {level_of(gang, short)}, and all usable nodes are"
        " in one domain of a narrower level, so KAI never places the gang (a defect of KAI)"
    )
    evidence = Evidence(gang.ref, "required", short.key)
    yield about(evidence, "SharedNarrowerDomain", text, remedy, "you", parts=names)


def _culprit(obstacle: Obstacle) -> tuple[Demand, str]:
    """Return the part whose constraint blocks the gang, and the remedy.

    If no change of a single constraint helps, the part is the one that lacks room.
    """
    demand = obstacle.demand
    narrowest = obstacle.gang.topology.levels[-1]
    add = f"Add {narrowest.domain} as the preferred level"
    for part in demand.every():
        if not part.key or part.preferred:
            continue
        options = [(add, replaced(demand, part, preferred=narrowest.key))]
        if part is not demand:
            level = level_of(obstacle.gang, part)
            words = f"Remove the constraint of {_called(obstacle, part)}: {level} is implied"
            options.append((words, replaced(demand, part, key="")))
        remedy = _first_that_helps(obstacle, options)
        if remedy:
            return part, remedy

    each = f"{add} wherever a level is required"
    preferring = _preferring(demand, narrowest.key)
    remedy = _first_that_helps(obstacle, [(each, preferring)])
    if not remedy and obstacle.gang.placements_of(preferring).under(OPENED).fits:
        remedy = f"{each}, and {opening()}"
    return obstacle.lacking, remedy or "Remove all constraints"


def _called(obstacle: Obstacle, part: Demand) -> str:
    """Return the names of a part and of the parts that differ only in name, as text."""
    return listed(parts(obstacle.demand, part))


def _preferring(demand: Demand, key: str) -> Demand:
    """Return the demand with a preferred level for each part that only requires one."""

    def change(part: Demand) -> Demand:
        return replace(part, preferred=key) if part.key and not part.preferred else part

    return demand.changed(change)


def sizes_differ(gang: Gang) -> Reasons:
    """Report that pods of a part differ in size, and KAI needs room as if all were the largest."""
    obstacle = obstacle_of(gang)
    if not obstacle or Barrier.SIZES not in obstacle.barriers:
        return

    short = obstacle.lacking
    where = f"in one {level_of(gang, short)}" if short.key else "at the preferred level"
    text = (
        f"The pods of {_called(obstacle, short)} differ in size. KAI counts each like the largest,"
        f" so KAI needs room {where} for {_as_kai_counts(short)}"
    )
    remedy = _sizes_remedy(obstacle, short)
    evidence = Evidence(gang.ref, "spec.topologyConstraint", short.key or short.preferred)
    yield about(evidence, "SizesDiffer", text, remedy, "you", parts=parts(gang.demand, short))


def _as_kai_counts(short: Demand) -> str:
    """Return a text such as `3 x 8 GPUs, although the pods request 10 in total`."""
    largest = max(gpus_of(dict(shape.requests)) for shape, _ in short.shapes)
    asked = short.asks("/gpu")
    if asked < largest * short.count:
        return (
            f"{short.count} x {plain(largest)} GPUs, although the pods request {plain(asked)} in"
            " total"
        )
    return f"{short.count} times the request of the largest pod"


def _sizes_remedy(obstacle: Obstacle, short: Demand) -> str:
    """Return the remedy: a weaker constraint that helps, or else other requests."""
    options = list(_weaker_constraints(obstacle, short))
    remedy = _first_that_helps(obstacle, options)
    return remedy or "Request the same resources for all pods, or less for the largest pod"


def _weaker_constraints(obstacle: Obstacle, short: Demand) -> Iterator[tuple[str, Demand]]:
    """Yield (remedy, demand) for each weaker constraint of the parts like `short`."""
    demand = obstacle.demand
    topology = obstacle.gang.topology
    if short.preferred:
        words = f"Remove the preferred level {topology.name_of(short.preferred)}"
        yield f"{words} of {_called(obstacle, short)}", replaced(demand, short, preferred="")

    yield from _wider_levels(obstacle, demand, short)
    if short.preferred:
        without = replace(short, preferred="")
        leaner = replaced(demand, short, preferred="")
        for words, wider in _wider_levels(obstacle, leaner, without):
            yield f"{words}, and prefer no level", wider

    words = (
        f"Remove the constraint of {_called(obstacle, short)}, and give the pods of each size a"
        " separate constraint"
    )
    yield words, replaced(demand, short, key="", preferred="")
    words = "Remove all constraints, and give the pods of each size a separate constraint"
    yield words, demand.changed(lambda part: replace(part, key="", preferred=""))


def _wider_levels(
    obstacle: Obstacle, demand: Demand, short: Demand
) -> Iterator[tuple[str, Demand]]:
    """Yield (remedy, demand) for each wider level of the part `short`, the next wider one first."""
    gang = obstacle.gang
    for level in gang.topology.wider(short.key, short.levels):
        words = f'Require "{level.domain}" instead of "{level_of(gang, short)}"'
        yield words, replaced(demand, short, key=level.key)


def level_without_topology(gang: Gang) -> Reasons:
    """Report that the PodGroup names a level but no topology, so KAI ignores the level."""
    group = gang.pod_group
    if not group:
        return

    named: list[tuple[str, SchedulerConstraint]] = [(group.name, group.unnamed)]
    named += [(sub.name, sub.unnamed) for sub in group.subgroups]
    for name, told in named:
        key = told.required or told.preferred
        if not key or not _matters(gang, name, told):
            continue
        text = f"{name} requests level {key} but names no topology, so KAI ignores the level"
        yield about(
            Evidence(group.ref, "topologyConstraint.topology", "absent"),
            "LevelWithoutTopology",
            text,
            name_topology(gang, "" if name == group.name else name),
            "you",
            objects=(gang.ref,),
            severity="warning",
            parts=(name,),
        )


def name_topology(gang: Gang, subgroup: str) -> str:
    """Return the remedy for a constraint without a topology, of the PodGroup or of `subgroup`."""
    group = gang.pod_group.name if gang.pod_group else gang.ref.name
    of = f"SubGroup {subgroup} in " if subgroup else ""
    return (
        f"Set topologyConstraint.topology of {of}PodGroup {group} to the name of a Topology"
        " (kubectl get topologies.kai.scheduler)"
    )


def topology_without_level(gang: Gang) -> Reasons:
    """Report that the PodGroup names a topology but no level of it, so KAI never places the gang.

    See `calculateRelevantDomainLevels` of KAI.
    """
    group = gang.pod_group
    if group and group.without_level:
        names = listed(group.without_level)
        one = len(group.without_level) == 1
        text = (
            f"The {f'constraint of {names} names' if one else f'constraints of {names} name'} a"
            " topology but no level of it, so KAI never places the gang"
        )
        evidence = Evidence(group.ref, "topologyConstraint.requiredTopologyLevel", "absent")
        remedy = (
            "Set requiredTopologyLevel or preferredTopologyLevel to a level of the topology, or"
            f" remove topologyConstraint of {names} from PodGroup {group.name}"
        )
        yield about(evidence, "LevelUnknown", text, remedy, "you", parts=group.without_level)


def _matters(gang: Gang, name: str, told: SchedulerConstraint) -> bool:
    """Return whether an ignored level matters: pods are pending, or in several of its domains."""
    part = next((part for part in gang.whole.parts() if part.name == name), gang.whole)
    if gang.waits:
        return True
    values = {
        node.labels.get(told.required or told.preferred)
        for node in gang.index.nodes
        if node.name in {pod.node for pod in part.placed}
    }
    return len(values) > 1


def domains_joined(gang: Gang) -> Reasons:
    """Report that a part is spread over domains that KAI treats as one, due to dots in names."""
    for topology, of in named_topologies(gang):
        domains = topology.domains
        together = _together(gang) if domains.joined else ()
        found = (joined_by(domains, key, names) for key, names in together)
        for same in dict.fromkeys(itertools.chain.from_iterable(found)):
            yield _joined(topology, of, same)


def joined_by(domains: Domains, key: str, names: Iterable[str]) -> Iterator[tuple[Path, ...]]:
    """Yield each group of domains that KAI treats as one and over which nodes are spread.

    Of the nodes `names`, those inside the group are in several of its domains, and in several
    domains of the level `key`.
    """
    level = domains.depth(key) or 0
    paths = domains.paths_of(names)
    for first, others in joined_names(domains).items():
        same = (first, *others)
        inside = [path for path in paths if path[: len(first)] in same]
        if all(len({path[:depth] for path in inside}) > 1 for depth in (level, len(first))):
            yield same


def _together(gang: Gang) -> Iterator[tuple[str, list[str]]]:
    """Yield (required level or "", names of nodes) for each part.

    The nodes are those where pods of the part are or would be.
    """
    for part in gang.whole.parts():
        yield part.told.required, [pod.node for pod in part.placed]
    chosen = _chosen_for(gang, gang.demand)
    for demand in gang.demand.every():
        yield demand.key, [*demand.occupied, *chosen & _chosen_for(gang, demand)]


def _chosen_for(gang: Gang, part: Demand) -> frozenset[str]:
    """Return the names of the nodes that KAI would choose for a part alone.

    If the part does not fit now, an empty cluster with open nodes is assumed.
    """
    placements = gang.placements_of(part)
    outcome = placements.now if placements.now.fits else placements.under(EMPTY)
    return outcome.nodes


def _joined(topology: Topology, of: str, same: Sequence[Path]) -> Reason:
    depth = len(same[0])
    level = topology.levels[depth - 1]
    domains = topology.domains
    located = zip(domains.nodes, domains.paths, strict=True)
    nodes = [node for node, path in located if path is not None and path[:depth] in same]

    names = listed(sorted("/".join(path) for path in same))
    text = (
        f"KAI joins names with dots, so it treats {names} as one {level.domain}{of}"
        f" ({counted(nodes, 'node')})"
    )
    remedy = (
        f"Ask the platform team to rename the {level.domain}s, or the domains above them, so that"
        " the names have no dots"
    )
    first = nodes[0]
    evidence = Evidence(first.ref, f"metadata.labels[{level.key}]", first.labels[level.key])
    refs = tuple(node.ref for node in nodes)
    return about(
        evidence, "DomainsJoined", text, remedy, "platform", objects=refs, severity="warning"
    )
