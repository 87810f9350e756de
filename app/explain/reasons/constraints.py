"""Reasons in what was asked for, and in what of it reached the scheduler."""

from collections.abc import Iterable, Iterator

from app.explain.case import Case
from app.explain.facts.common import Ref, Told
from app.explain.facts.grove import Asked, PodCliqueSet
from app.explain.gang import Gang, Unit
from app.explain.levels import Topology
from app.explain.reason import Evidence, Reason
from app.explain.reasons.gates import grouper_warnings
from app.explain.words import counted, listed

_CONDITIONS = (("TopologyLevelsUnavailable", "True"), ("TopologyConstraintSatisfied", "False"))


def asked_of(pcs: PodCliqueSet) -> Iterator[tuple[str, Asked]]:
    """Every constraint of a set, with the place where it stands: "" for the set itself."""
    yield "", pcs.asked
    yield from ((f"scaling group {group.name}", group.asked) for group in pcs.groups)
    yield from ((f"clique {clique.name}", clique.asked) for clique in pcs.cliques)


def is_constrained(case: Case) -> bool:
    asked = asked_of(case.pcs) if case.pcs else ()
    return case.gang.constrained or any(constraint.required or constraint.preferred for _, constraint in asked)


def level_unknown(case: Case) -> Iterator[Reason]:
    """In the set, and in what the scheduler is told."""
    if case.pcs is not None:
        unknown = list(_unknown_domains(case.pcs, case.topology))
        yield from unknown or _unavailable(case.pcs)
    yield from _unknown_keys(case.gang, case.topology)


def _unknown_domains(pcs: PodCliqueSet, topology: Topology) -> Iterator[Reason]:
    cluster = topology.cluster
    constraints = [asked for _, asked in asked_of(pcs)]
    if cluster is None:
        for asked in [asked for asked in constraints if asked.topology][:1]:
            text = f"There is no topology {asked.topology}, which the set names"
            evidence = (Evidence(pcs.ref, asked.field.rsplit(".", 1)[0] + ".topologyName", asked.topology),)
            remedy = "correct topologyName, or have a ClusterTopologyBinding of this name made"
            yield Reason("LevelUnknown", (pcs.ref,), text, remedy, "you", evidence)
        return
    known = listed((level.domain for level in cluster.levels), 16) or "none"
    for field, domain, _ in (constraint for asked in constraints for constraint in asked.constraints):
        if cluster.key_of(domain) is None:
            text = f'"{domain}" is no level of the {cluster.kind} {cluster.name}: its levels are {known}'
            evidence = (Evidence(pcs.ref, field, domain),)
            yield Reason("LevelUnknown", (pcs.ref,), text, f"ask for one of them in {field}", "you", evidence)


def _unavailable(pcs: PodCliqueSet) -> Iterator[Reason]:
    """What Grove or we wrote into the set's conditions."""
    for condition in pcs.conditions:
        if (condition.type, condition.status) in _CONDITIONS:
            text = f"The constraints of {pcs.name} can't be kept: {condition.message or condition.reason}"
            evidence = (Evidence(pcs.ref, f"status.conditions[{condition.type}]", condition.reason),)
            yield Reason("LevelUnknown", (pcs.ref,), text, "ask for a level that exists", "you", evidence)


def _unknown_keys(gang: Gang, topology: Topology) -> Iterator[Reason]:
    kai = topology.kai
    if kai is None:
        return
    told = {key for part in gang.whole.parts() for key in (part.told.required, part.told.preferred) if key}
    unknown = sorted(told - {*topology.keys, *kai.aliases})
    if unknown:
        text = f"{listed(unknown)} is no level of KAI's Topology {kai.name}: it has {listed(topology.keys, 16)}"
        evidence = tuple(Evidence(gang.ref, "spec.topologyConstraint", key) for key in unknown)
        remedy = (
            "wait for Grove or grove-admission to write the present levels; if it lasts, run `grove-admission doctor`"
        )
        yield Reason("LevelUnknown", (gang.ref,), text, remedy, "platform", evidence)


def topology_unnamed(case: Case) -> Iterator[Reason]:
    pod_gang = case.gang.pod_gang
    if pod_gang is None or not pod_gang.constrained or pod_gang.topology:
        return
    evidence = [Evidence(case.ref, "metadata.annotations[grove.io/topology-name]", "absent")]
    for pod in case.gang.pods:
        evidence += [Evidence(pod.ref, "event PodGrouperWarning", words) for words in grouper_warnings(case.index, pod)]
    text = "The PodGang has constraints and does not say which topology they are about: KAI can't group its pods"
    remedy = (
        "check that the webhook for PodGangs is in place (`grove-admission doctor`), or that Grove's topology is on"
    )
    yield Reason("TopologyUnnamed", (case.ref,), text, remedy, "platform", tuple(evidence[:4]))


def gang_unconstrained(case: Case) -> Iterator[Reason]:
    """The scheduler was told less than the set asks for."""
    gang, cluster = case.gang, case.topology.cluster
    if gang.pod_gang is None or cluster is None:
        return
    keys = tuple(level.key for level in cluster.levels)
    missing = dict.fromkeys(_untold(gang, keys, case.topology))
    if missing:
        yield _unconstrained(case.ref, listed(missing), case.topology)
    elif gang.pod_group is not None:
        lost = dict.fromkeys(_lost(gang, keys, case.topology))
        if lost:
            yield _unconstrained(gang.pod_group.ref, listed(lost), case.topology)


def _unconstrained(ref: Ref, levels: str, topology: Topology) -> Reason:
    text = f"The {ref.kind} {ref.name} is scheduled without regard to {levels}, which the set asks for"
    if ref.kind == "PodGroup":
        remedy = "KAI's pod-grouper writes it from the PodGang: see its log"
    elif topology.cluster is not None and topology.cluster.kind == "ClusterTopologyBinding":
        remedy = "Grove's operator writes it: see the set's condition TopologyLevelsUnavailable and the operator's log"
    else:
        remedy = "grove-admission writes it within seconds: run `grove-admission doctor` if it lasts"
    return Reason("GangUnconstrained", (ref,), text, remedy, "platform", (Evidence(ref, "spec", f"no {levels}"),))


def _untold(gang: Gang, keys: tuple[str, ...], topology: Topology) -> Iterator[str]:
    """The levels that the set, its groups and its cliques ask for and the PodGang lacks."""
    pcs, told = gang.pcs, gang.whole.told
    if pcs is None or topology.cluster is None:
        return
    yield from _weaker(pcs.asked, _rank(told.required, keys), keys, topology)
    if topology.cluster.key_of(pcs.asked.preferred) and not told.preferred:
        yield f"{pcs.asked.preferred} (preferred)"
    for name, rank in _ranks(gang.whole, -1, keys):
        clique = _of_name(name, (template.name for template in pcs.cliques))
        above = [template.asked for template in pcs.cliques if template.name == clique]
        above += [group.asked for group in pcs.groups if clique in group.cliques]
        for asked in above:
            yield from _weaker(asked, rank, keys, topology)


def _of_name(name: str, templates: Iterable[str]) -> str:
    """The template of a PodClique: Grove ends its name with that of the template."""
    return max((template for template in templates if name.endswith(f"-{template}")), key=len, default="")


def _weaker(asked: Asked, rank: int, keys: tuple[str, ...], topology: Topology) -> Iterator[str]:
    key = topology.cluster.key_of(asked.required) if topology.cluster and asked.required else None
    if key is not None and rank < _rank(key, keys):
        yield asked.required


def _ranks(unit: Unit, above: int, keys: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """The name of each member and the rank of the narrowest level that it is bound to."""
    own = max(above, _rank(unit.told.required, keys))
    for member in unit.members:
        yield member.name, max(own, _rank(member.told.required, keys))
    for part in unit.units:
        yield from _ranks(part, own, keys)


def _rank(key: str, keys: tuple[str, ...]) -> int:
    return keys.index(key) if key in keys else -1


def _lost(gang: Gang, keys: tuple[str, ...], topology: Topology) -> Iterator[str]:
    """The levels that the PodGang asks for and KAI's PodGroup lacks."""
    if gang.pod_gang is None or gang.pod_group is None:
        return
    subgroups = {sub.name: sub.told for sub in gang.pod_group.subgroups}
    pairs: list[tuple[Told, Told]] = [(gang.pod_gang.told, gang.pod_group.told)]
    pairs += [(part.told, subgroups[part.name]) for part in gang.pod_gang.parts if part.name in subgroups]
    pairs += [(group.told, subgroups[group.name]) for group in gang.pod_gang.groups if group.name in subgroups]
    for told, reached in pairs:
        if told.required and _rank(reached.required, keys) < _rank(told.required, keys):
            yield topology.name_of(told.required)


def min_above_replicas(case: Case) -> Iterator[Reason]:
    """A minimum that can never be reached."""
    pcs, gang, group = case.pcs, case.gang, case.gang.pod_group
    if pcs is not None:
        templates = [(f"Clique {clique.name}", clique.minimum, clique.replicas) for clique in pcs.cliques]
        templates += [(f"Scaling group {scaled.name}", scaled.minimum, scaled.replicas) for scaled in pcs.groups]
        for name, minimum, replicas in templates:
            if minimum > replicas:
                yield _never(pcs.ref, f"{name} needs {minimum}", minimum, replicas, "minAvailable")
    for member in gang.members:
        if member.clique is not None and member.minimum > member.clique.replicas:
            needs, possible = f"{member.name} needs {member.minimum}", member.clique.replicas
            yield _never(gang.ref, needs, member.minimum, possible, "minReplicas")
    possible = sum(member.clique.replicas for member in gang.members if member.clique is not None)
    if group is not None and all(member.clique for member in gang.members) and group.minimum > possible:
        yield _never(group.ref, f"The gang needs {counted(group.minimum, 'pod')}", group.minimum, possible, "minMember")


def _never(ref: Ref, needs: str, minimum: int, possible: int, field: str) -> Reason:
    text = f"{needs}, and {possible} can exist: it is never placed"
    remedy = "lower minAvailable, or raise replicas"
    return Reason("MinAboveReplicas", (ref,), text, remedy, "you", (Evidence(ref, field, str(minimum)),))
