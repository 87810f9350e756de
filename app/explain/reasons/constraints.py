"""Report constraints that name unknown levels or are lost, and minimums that can't be reached."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from app.base.groups import by_key
from app.explain.gangs.gang import Gang, Unit
from app.explain.reasons.reason import Evidence, Reason, Reasons, Who, about, are, counted, listed
from app.explain.state.levels import Topology, topology_of
from app.facts.constraint import UNBOUND
from app.facts.grove.podcliqueset import (
    CONSTRAINTS_SATISFIED,
    Clique,
    ScalingGroup,
    SetWithStatus,
    UserConstraint,
)
from app.facts.grove.podgang import GangGroup, GangPart, PodGang
from app.facts.grove.topology import ClusterTopology
from app.facts.identity import Ref
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.labels import TOPOLOGY_NAME
from app.rules.topology.members import PodGroupCliques

_CONDITIONS = (("TopologyLevelsUnavailable", "True"), (CONSTRAINTS_SATISFIED, "False"))


def level_unknown(gang: Gang) -> Reasons:
    """Report that the PodCliqueSet, PodGang or PodGroup names an unknown level or topology.

    Conditions of a PodCliqueSet that say that its constraints cannot be satisfied count, too.
    """
    if gang.pcs:
        unknown = list(_unknown_domains(gang.pcs, gang.topology))
        yield from unknown or _unavailable(gang.pcs)
    yield from _unknown_keys(gang)


def _unknown_domains(pcs: SetWithStatus, topology: Topology) -> Reasons:
    cluster = topology.cluster
    if not cluster:
        yield from _unknown_topology(pcs)
        return

    known = "which has no levels"
    if cluster.levels:
        names = listed((level.domain for level in cluster.levels), 16)
        known = f"whose {are(cluster.levels, 'level')} {names}"
    for field, domain, _ in (part for _, asked in pcs.constraints for part in asked.constraints):
        if cluster.key_of(domain) is None:
            text = f'"{domain}" is not a level of {cluster.kind} {cluster.name}, {known}'
            evidence = Evidence(pcs.ref, field, domain)
            this = "this level" if len(cluster.levels) == 1 else "one of these levels"
            remedy = f"Use {this} in {field}"
            if not cluster.levels:
                remedy = f"Remove {field}, or ask the platform team to define levels"
            yield about(evidence, "LevelUnknown", text, remedy, "you")


def _unknown_topology(pcs: SetWithStatus) -> Reasons:
    asked = next((asked for _, asked in pcs.constraints if asked.topology), None)
    if asked is None:
        return

    text = f"PodCliqueSet {pcs.name} names topology {asked.topology}, which does not exist"
    constraint, _, _ = asked.field.partition(".topologyConstraint")
    field = f"{constraint}.topologyConstraint.topologyName"
    evidence = Evidence(pcs.ref, field, asked.topology)
    remedy = (
        "Correct topologyName, or ask the platform team for a ClusterTopologyBinding of this name"
    )
    yield about(evidence, "LevelUnknown", text, remedy, "you")


def _unavailable(pcs: SetWithStatus) -> Reasons:
    """Yield the problems with levels that Grove or grove-admission reports in conditions."""
    for condition in pcs.conditions:
        if (condition.type, condition.status) in _CONDITIONS:
            text = (
                f"The constraints of {pcs.name} cannot be satisfied:"
                f" {condition.message or condition.reason}"
            )
            evidence = Evidence(pcs.ref, f"status.conditions[{condition.type}]", condition.reason)
            yield about(evidence, "LevelUnknown", text, _remedy_for(condition.reason), "you")


def _remedy_for(reason: str) -> str:
    """Return the remedy for the reason of a condition in `_CONDITIONS`."""
    match reason:
        case "ClusterTopologyNotFound":
            return (
                "Check whether the topology exists: grove-admission topology. If not, ask the"
                " platform team to create it"
            )
        case "TopologyDisabled":
            return (
                "Ask the platform team to enable topology support, or remove the constraints of the"
                " PodCliqueSet"
            )
    return "Use a level that exists. List the levels: grove-admission topology"


def _unknown_keys(gang: Gang) -> Reasons:
    for name, told in by_key(_requested_levels(gang)).items():
        topology = topology_of(gang.index, name) if name else gang.topology
        unknown = sorted({*told} - {*topology.keys})
        if not topology.kai:
            yield from _no_topology(gang, name, topology)
        elif unknown:
            are = "is not a level" if len(unknown) == 1 else "are not levels"
            its = "level is" if len(topology.keys) == 1 else "levels are"
            text = (
                f"{listed(unknown)} {are} of KAI's Topology {topology.kai.name}, whose {its}"
                f" {listed(topology.keys, 16)}"
            )
            evidence = Evidence(gang.ref, "spec.topologyConstraint", listed(unknown))
            remedy, who = _known_keys(gang, unknown)
            yield about(evidence, "LevelUnknown", text, remedy, who)


def _requested_levels(gang: Gang) -> Iterator[tuple[str, str]]:
    """Yield (name of a Topology or "", key of a level) for each level that a part requests."""
    subgroups = gang.pod_group.subgroups if gang.pod_group else ()
    named = {sub.name: sub.topology for sub in subgroups}
    for part in gang.whole.parts():
        name = named.get(part.name) or gang.named_topology
        yield from ((name, key) for key in (part.told.required, part.told.preferred) if key)


def _known_keys(gang: Gang, unknown: Sequence[str]) -> tuple[str, Who]:
    """Return the remedy for levels that KAI's Topology lacks, and who can act."""
    if gang.is_of_grove:
        remedy = (
            "Wait until Grove or grove-admission has updated the Topology. If it takes more than a"
            " minute, ask the platform team to run: grove-admission doctor"
        )
        return remedy, "platform"

    others = sorted(kai.name for kai in gang.facts.kai_topologies if set(unknown) <= {*kai.keys})
    this = "this level" if len(unknown) == 1 else "these levels"
    if not others:
        return "Request a level of this Topology", "you"
    other = f"Topology {others[0]}, which has {this}"
    if len(others) > 1:
        other = f"another Topology that has {this}: {listed(others)}"
    return f"Request a level of this Topology, or name {other}", "you"


def _no_topology(gang: Gang, name: str, topology: Topology) -> Reasons:
    """Yield a reason if a gang names a Topology that is known not to exist."""
    facts = gang.facts
    unknown = facts.unread | facts.absent
    if not name or "kai_topologies" in unknown or topology.cluster:
        return

    others = sorted(kai.name for kai in facts.kai_topologies)
    exist = f"existing {are(others, 'one')} {listed(others, 8)}" if others else "no Topology exists"
    text = f"{gang.ref.kind} {gang.ref.name} names Topology {name}, which does not exist"
    text += f"; {exist}"
    evidence = Evidence(gang.ref, "topology", name)
    remedy = "Correct the name of the topology, or ask the platform team to create it"
    yield about(evidence, "LevelUnknown", text, remedy, "you")


def topology_unnamed(gang: Gang) -> Reasons:
    """Report that the PodGang has constraints but does not name a topology."""
    pod_gang = gang.pod_gang
    if not pod_gang or not pod_gang.constrained or pod_gang.topology:
        return

    evidence = Evidence(gang.ref, f"metadata.annotations[{TOPOLOGY_NAME}]", "absent")
    text = "The PodGang has constraints but does not name a topology, so KAI can't group its pods"
    remedy = (
        "Ask the platform team to check that the webhook for PodGangs is installed, or that Grove's"
        " topology support is enabled: grove-admission doctor"
    )
    yield about(evidence, "TopologyUnnamed", text, remedy, "platform")


def gang_unconstrained(gang: Gang) -> Reasons:
    """Report that the scheduler gets weaker constraints than the PodCliqueSet or PodGang has."""
    pod_gang = gang.pod_gang
    group = gang.pod_group
    cluster = gang.topology.cluster
    if not pod_gang or not cluster:
        return

    keys = [level.key for level in cluster.levels]
    untold = dict.fromkeys(_untold(gang.pcs, gang.whole, cluster, keys)) if gang.pcs else {}
    lost = dict[str, None]()
    if group:
        lost = dict.fromkeys(map(gang.topology.name_of, _lost(pod_gang, group, keys)))
    if untold:
        yield _unconstrained("PodCliqueSet", gang.ref, listed(untold), cluster)
    elif group and lost:
        yield _unconstrained("PodGang", group.ref, listed(lost), cluster)


def _unconstrained(asking: str, ref: Ref, levels: str, cluster: ClusterTopology) -> Reason:
    """Return the reason for levels that an object of kind `asking` requests and `ref` lacks."""
    text = (
        f"The {asking} requests {levels}, but {ref.kind} {ref.name} does not, so the scheduler does"
        " not apply this request"
    )
    if ref.kind == "PodGroup":
        remedy = (
            "Ask the platform team to read the log of KAI's pod-grouper, which writes the PodGroup"
        )
    elif cluster.kind == "ClusterTopologyBinding":
        remedy = (
            "Check the condition TopologyLevelsUnavailable of the PodCliqueSet, and ask the"
            " platform team to read the log of Grove's operator, which writes the PodGang"
        )
    else:
        remedy = (
            "Wait a few seconds: grove-admission corrects the PodGang. If it takes longer, ask the"
            " platform team to run: grove-admission doctor"
        )

    evidence = Evidence(ref, "spec", f"no {levels}")
    return about(evidence, "GangUnconstrained", text, remedy, "platform")


def _untold(
    pcs: SetWithStatus, whole: Unit, cluster: ClusterTopology, keys: Sequence[str]
) -> Iterator[str]:
    """Yield the names of the levels that a PodCliqueSet requests and that its gang lacks.

    `whole` has the constraints that the scheduler gets. `keys` are the keys of all levels, broadest
    first.
    """

    def rank_of(asked: UserConstraint) -> int:
        return _rank(cluster.key_of(asked.required), keys)

    if _rank(whole.told.required, keys) < rank_of(pcs.asked):
        yield pcs.asked.required
    if cluster.key_of(pcs.asked.preferred) and not whole.told.preferred:
        yield f"{pcs.asked.preferred} (preferred)"
    if not any(asked.required for owner, asked in pcs.constraints if owner):
        return
    cliques = PodGroupCliques(pcs)
    for name, rank in _ranks(whole, -1, keys):
        found = cliques.find(name)
        parts = (found.clique, found.group) if found else ()
        yield from (part.asked.required for part in parts if part and rank < rank_of(part.asked))


def _ranks(unit: Unit, above: int, keys: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield (name, rank of its narrowest required level or -1) for each member of a unit.

    `above` is the narrowest rank that the units around this one require, or -1.
    """
    own = max(above, _rank(unit.told.required, keys))
    for member in unit.members:
        yield member.name, max(own, _rank(member.told.required, keys))
    for part in unit.units:
        yield from _ranks(part, own, keys)


def _rank(key: str | None, keys: Sequence[str]) -> int:
    """Return the position of a level, 0 for the broadest, or -1 if it is unknown or None."""
    return keys.index(key) if key in keys else -1


def _lost(pod_gang: PodGang, group: KaiPodGroup, keys: Sequence[str]) -> Iterator[str]:
    """Yield the keys of the required levels that the PodGang has and KAI's PodGroup lacks.

    A PodGroup of several PodGangs has a SubGroup for each, with the name of the PodGang.
    """
    subgroups = {sub.name: sub.told for sub in group.subgroups}
    parts: list[GangPart | GangGroup] = [*pod_gang.parts, *pod_gang.groups]
    pairs = [(part.told, subgroups[part.name]) for part in parts if part.name in subgroups]
    whole = max(
        group.told,
        subgroups.get(pod_gang.name, UNBOUND),
        key=lambda told: _rank(told.required, keys),
    )
    for told, reached in [(pod_gang.told, whole), *pairs]:
        if told.required and _rank(reached.required, keys) < _rank(told.required, keys):
            yield told.required


def min_above_replicas(gang: Gang) -> Reasons:
    """Report that a minimum exceeds the number of pods or replicas that can exist."""
    if gang.pcs:
        yield from _never_by_template(gang.pcs)
    for member in gang.members:
        if member.clique and member.minimum > member.clique.replicas:
            needs = f"{member.name} needs {counted(member.minimum, 'pod')}"
            possible = member.clique.replicas
            yield _never(gang.ref, needs, member.minimum, possible, "minReplicas")
    yield from _never_by_pod_group(gang)


def _never_by_pod_group(gang: Gang) -> Reasons:
    group = gang.pod_group
    possible = needed = 0
    for member in gang.members:
        if member.clique is None:
            return
        possible += member.clique.replicas
        needed += max(member.clique.replicas, member.minimum)
    # The reasons of the members explain a minimum between `possible` and `needed`.
    if group and group.minimum > needed:
        needs = f"The gang needs {counted(group.minimum, 'pod')}"
        remedy = (
            f"Set minMember of PodGroup {group.name} to at most {possible}, or raise the replicas"
            f" of its PodCliques to at least {group.minimum} in total"
        )
        never = _never(group.ref, needs, group.minimum, possible, "minMember")
        yield replace(never, remedy=remedy)


def _never_by_template(pcs: SetWithStatus) -> Reasons:
    templates: list[tuple[str, str, Clique | ScalingGroup]]
    templates = [(f"Clique {clique.name}", "pod", clique) for clique in pcs.cliques]
    templates += [(f"Scaling group {group.name}", "replica", group) for group in pcs.groups]
    for name, noun, part in templates:
        if part.minimum > part.replicas:
            needs = f"{name} needs {counted(part.minimum, noun)}"
            yield _never(pcs.ref, needs, part.minimum, part.replicas, "minAvailable")


def _never(ref: Ref, needs: str, minimum: int, possible: int, field: str) -> Reason:
    exist = f"at most {possible} can exist" if possible else "none can exist"
    text = f"{needs}, but {exist}, so this minimum is never reached"
    remedy = (
        f"Set replicas to at least {minimum}, or create the PodCliqueSet again with minAvailable of"
        f" at most {possible} (Grove rejects a change of it)"
    )
    if not possible:
        remedy = (
            f"Set replicas, and the minimum of an autoscaler if there is one, to at least {minimum}"
        )
    return about(Evidence(ref, field, str(minimum)), "MinAboveReplicas", text, remedy, "you")
