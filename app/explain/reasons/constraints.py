"""Reasons in what was asked for, and in what of it reached the scheduler."""

from collections.abc import Iterator

from app.explain.case import Case
from app.explain.facts.common import Ref, Told
from app.explain.facts.grove import Asked, PodCliqueSet, PodGang
from app.explain.facts.kai import KaiPodGroup
from app.explain.gang import Gang, Unit
from app.explain.index import Topology
from app.explain.reason import Evidence, Reason
from app.explain.words import counted, listed

_CONDITIONS = (("TopologyLevelsUnavailable", "True"), ("TopologyConstraintSatisfied", "False"))


def asked_of(pcs: PodCliqueSet) -> Iterator[tuple[str, Asked]]:
    """Every constraint of a set, with the place where it stands: "" for the set itself."""
    yield "", pcs.asked
    yield from ((f"scaling group {group.name}", group.asked) for group in pcs.groups)
    yield from ((f"clique {clique.name}", clique.asked) for clique in pcs.cliques)


def level_unknown(case: Case) -> Iterator[Reason]:
    """In the set, and in what the scheduler is told."""
    reasons = list(_unknown_domains(case.pcs, case.topology)) if case.pcs else []
    yield from reasons
    if not reasons and case.pcs is not None:
        yield from _unavailable(case.pcs)
    if case.gang is not None and case.topology.kai is not None:
        yield from _unknown_keys(case.gang, case.topology)


def _unknown_domains(pcs: PodCliqueSet, topology: Topology) -> Iterator[Reason]:
    ref = Ref("PodCliqueSet", pcs.namespace, pcs.name)
    cluster = topology.cluster
    for _, asked in asked_of(pcs):
        if cluster is None and asked.topology:
            text = f"There is no topology {asked.topology}, which the set names"
            evidence = (Evidence(ref, asked.field.rsplit(".", 1)[0] + ".topologyName", asked.topology),)
            remedy = "correct topologyName, or have a ClusterTopologyBinding of this name made"
            yield Reason("LevelUnknown", (ref,), text, remedy, "you", evidence)
            return
        for field, domain in (
            (asked.field, asked.required),
            (asked.field.replace("required", "preferred"), asked.preferred),
        ):
            if cluster is not None and domain and cluster.key_of(domain) is None:
                known = listed((level.domain for level in cluster.levels), 16) or "none"
                text = f'"{domain}" is no level of the {cluster.kind} {cluster.name}: its levels are {known}'
                remedy = f"ask for one of them in {field}"
                yield Reason("LevelUnknown", (ref,), text, remedy, "you", (Evidence(ref, field, domain),))


def _unavailable(pcs: PodCliqueSet) -> Iterator[Reason]:
    """What Grove or we wrote into the set's conditions."""
    ref = Ref("PodCliqueSet", pcs.namespace, pcs.name)
    for condition in pcs.conditions:
        if (condition.type, condition.status) in _CONDITIONS:
            words = condition.message or condition.reason
            evidence = (Evidence(ref, f"status.conditions[{condition.type}]", condition.reason),)
            text = f"The constraints of {pcs.name} can't be kept: {words}"
            yield Reason("LevelUnknown", (ref,), text, "ask for a level that exists", "you", evidence)


def _unknown_keys(gang: Gang, topology: Topology) -> Iterator[Reason]:
    aliases = topology.kai.aliases if topology.kai else {}
    told = {key for constraint in gang.constraints() for key in (constraint.required, constraint.preferred) if key}
    unknown = sorted(told - {*topology.keys, *aliases})
    if unknown and topology.kai is not None:
        text = (
            f"{listed(unknown)} is no level of KAI's Topology {topology.kai.name}: it has {listed(topology.keys, 16)}"
        )
        evidence = tuple(Evidence(gang.ref, "spec.topologyConstraint", key) for key in unknown)
        remedy = (
            "wait for Grove or grove-admission to write the present levels; if it lasts, run `grove-admission doctor`"
        )
        yield Reason("LevelUnknown", (gang.ref,), text, remedy, "platform", evidence)


def topology_unnamed(case: Case) -> Iterator[Reason]:
    pod_gang = case.gang.pod_gang if case.gang else None
    if case.gang is None or pod_gang is None or not pod_gang.constrained or pod_gang.topology:
        return
    evidence = [Evidence(case.ref, "metadata.annotations[grove.io/topology-name]", "absent")]
    for pod in case.gang.pods:
        events = (event for event in case.index.events.get(pod.uid, ()) if event.reason == "PodGrouperWarning")
        evidence += [
            Evidence(Ref("Pod", pod.namespace, pod.name), "event PodGrouperWarning", e.message) for e in events
        ]
    text = "The PodGang has constraints and does not say which topology they are about: KAI can't group its pods"
    remedy = (
        "check that the webhook for PodGangs is in place (`grove-admission doctor`), or that Grove's topology is on"
    )
    yield Reason("TopologyUnnamed", (case.ref,), text, remedy, "platform", tuple(evidence[:4]))


def gang_unconstrained(case: Case) -> Iterator[Reason]:
    """The scheduler was told less than the set asks for."""
    gang, cluster = case.gang, case.topology.cluster
    if gang is None or gang.pod_gang is None or cluster is None:
        return
    keys = tuple(level.key for level in cluster.levels)
    missing = dict.fromkeys(_untold(gang, gang.pod_gang, keys, case.topology)) if gang.pcs else {}
    if missing:
        yield _unconstrained(case.ref, listed(missing), case.topology)
    elif gang.pod_group is not None:
        lost = dict.fromkeys(_lost(gang.pod_gang, gang.pod_group, keys, case.topology))
        if lost:
            ref = Ref("PodGroup", gang.pod_group.namespace, gang.pod_group.name)
            yield _unconstrained(ref, listed(lost), case.topology)


def _unconstrained(ref: Ref, levels: str, topology: Topology) -> Reason:
    text = f"The {ref.kind} {ref.name} is scheduled without regard to {levels}, which the set asks for"
    binding = topology.cluster is not None and topology.cluster.kind == "ClusterTopologyBinding"
    if ref.kind == "PodGroup":
        remedy = "KAI's pod-grouper writes it from the PodGang: see its log"
    elif binding:
        remedy = "Grove's operator writes it: see the set's condition TopologyLevelsUnavailable and the operator's log"
    else:
        remedy = "grove-admission writes it within seconds: run `grove-admission doctor` if it lasts"
    return Reason("GangUnconstrained", (ref,), text, remedy, "platform", (Evidence(ref, "spec", f"no {levels}"),))


def _untold(gang: Gang, pod_gang: PodGang, keys: tuple[str, ...], topology: Topology) -> Iterator[str]:
    """The levels that the set, its groups and its cliques ask for and the PodGang lacks."""
    pcs = gang.pcs
    if pcs is None:
        return
    whole = _rank(pod_gang.told.required, keys)
    yield from _weaker(pcs.asked, whole, keys, topology)
    if (
        pcs.asked.preferred
        and not pod_gang.told.preferred
        and topology.cluster
        and topology.cluster.key_of(pcs.asked.preferred)
    ):
        yield f"{pcs.asked.preferred} (preferred)"
    for name, rank in _ranks(gang.whole, -1, keys):
        clique = _of_name(name, (template.name for template in pcs.cliques))
        for template in pcs.cliques:
            if template.name == clique:
                yield from _weaker(template.asked, rank, keys, topology)
        for group in pcs.groups:
            if clique in group.cliques:
                yield from _weaker(group.asked, rank, keys, topology)


def _of_name(name: str, templates: Iterator[str]) -> str:
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


def _lost(pod_gang: PodGang, group: KaiPodGroup, keys: tuple[str, ...], topology: Topology) -> Iterator[str]:
    """The levels that the PodGang asks for and KAI's PodGroup lacks."""
    subgroups = {sub.name: sub.told for sub in group.subgroups}
    pairs: list[tuple[Told, Told]] = [(pod_gang.told, group.told)]
    pairs += [(part.told, subgroups[part.name]) for part in pod_gang.parts if part.name in subgroups]
    pairs += [(config.told, subgroups[config.name]) for config in pod_gang.groups if config.name in subgroups]
    for told, reached in pairs:
        if told.required and _rank(reached.required, keys) < _rank(told.required, keys):
            yield topology.name_of(told.required)


def min_above_replicas(case: Case) -> Iterator[Reason]:
    """A minimum that can never be reached."""
    pcs, gang = case.pcs, case.gang
    if pcs is not None:
        ref = Ref("PodCliqueSet", pcs.namespace, pcs.name)
        minimums = [(f"Clique {clique.name}", clique.minimum, clique.replicas) for clique in pcs.cliques]
        minimums += [(f"Scaling group {group.name}", group.minimum, group.replicas) for group in pcs.groups]
        for name, minimum, replicas in minimums:
            if minimum > replicas:
                yield _never(ref, f"{name} needs {minimum}", replicas, "minAvailable")
    if gang is None:
        return
    for member in gang.members:
        if member.clique is not None and member.minimum > member.clique.replicas:
            yield _never(gang.ref, f"{member.name} needs {member.minimum}", member.clique.replicas, "minReplicas")
    group = gang.pod_group
    possible = sum(member.clique.replicas for member in gang.members if member.clique is not None)
    if group is not None and all(member.clique for member in gang.members) and group.minimum > possible:
        ref = Ref("PodGroup", group.namespace, group.name)
        yield _never(ref, f"The gang needs {counted(group.minimum, 'pod')}", possible, "minMember")


def _never(ref: Ref, needs: str, possible: int, field: str) -> Reason:
    text = f"{needs}, and {possible} can exist: it is never placed"
    remedy = "lower minAvailable, or raise replicas"
    return Reason("MinAboveReplicas", (ref,), text, remedy, "you", (Evidence(ref, field, needs.rpartition(" ")[2]),))
