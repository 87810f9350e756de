"""The tree of a workload: from its PodCliqueSet through gangs, PodCliques, claims and queue to pods, with states."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from app.explain.case import Case
from app.explain.facts.common import Ref, Told
from app.explain.facts.grove import Asked, PodClique
from app.explain.facts.kai import KaiPodGroup, Queue
from app.explain.facts.pods import Pod
from app.explain.gang import Gang, Member, Unit
from app.explain.index import Index, Topology
from app.explain.reason import Reason
from app.explain.reasons.claims import compute_domains_of
from app.explain.reasons.queue import asked_gpus, chain
from app.explain.subject import Subject
from app.explain.words import amount, counted, gpus_of, listed, plain

State = Literal["well", "waits", "warning", "problem", "unknown"]


@dataclass(frozen=True, slots=True)
class Branch:
    """One object. `asked` is its constraint, `where` where its pods are, or the most room that there is for them.

    `placed` of `total` pods have a node; None if pods can't be seen. `reasons` are numbers in the list of reasons, from
    1. `marked` is the object that was asked about.
    """

    ref: Ref
    asked: str = ""
    where: str = ""
    placed: int | None = None
    total: int | None = None
    state: State = "well"
    words: str = ""
    children: tuple["Branch", ...] = ()
    reasons: tuple[int, ...] = ()
    marked: bool = False


class _Grower:
    """Makes branches for one subject, with the numbers of the reasons that are about each."""

    def __init__(self, index: Index, subject: Subject, reasons: Sequence[Reason]) -> None:
        self._index, self._marked = index, subject.ref
        self._seen = not {"pods", "cliques", "gangs"} & index.facts.unseen.keys()
        self._by_ref: dict[Ref, list[int]] = {}
        self._by_part: dict[tuple[Ref, str], list[int]] = {}
        for number, reason in enumerate(reasons, 1):
            for ref in reason.objects:
                for part in reason.parts:
                    self._by_part.setdefault((ref, part), []).append(number)
                if not reason.parts:
                    self._by_ref.setdefault(ref, []).append(number)

    def branch(self, ref: Ref, part_of: Ref | None = None, **values: object) -> Branch:
        numbers = [*self._by_ref.get(ref, ()), *(self._by_part.get((part_of, ref.name), ()) if part_of else ())]
        return Branch(ref, reasons=tuple(sorted(set(numbers))), marked=ref == self._marked, **values)  # type: ignore[arg-type]

    def root(self, subject: Subject) -> Branch:
        pcs = subject.pcs
        gangs = tuple(self.gang(gang) for gang in (subject.siblings if pcs else subject.gangs))
        if pcs is None:
            return gangs[0] if len(gangs) == 1 else self._bundle(subject.ref, gangs)
        inside = {member.name for gang in subject.siblings for member in gang.members}
        cliques = self._index.cliques_of_set.get((pcs.namespace, pcs.name), ())
        others = tuple(self.lone_clique(clique) for clique in cliques if clique.name not in inside)
        return self._bundle(Ref("PodCliqueSet", pcs.namespace, pcs.name), (*gangs, *others), asked_words(pcs.asked))

    def _bundle(self, ref: Ref, children: tuple[Branch, ...], asked: str = "") -> Branch:
        placed, total = _sum(child.placed for child in children), _sum(child.total for child in children)
        state, words = _state(placed, total, bool(children))
        if state == "well":
            state, words = max(((child.state, words) for child in children), key=lambda pair: _RANK[pair[0]])
        return self.branch(ref, asked=asked, placed=placed, total=total, state=state, words=words, children=children)

    def gang(self, gang: Gang) -> Branch:
        case = Case(self._index, gang, gang.pcs)
        units = [self.unit(case, unit) for unit in gang.whole.units]
        members = [self.member(case, member) for member in gang.whole.members]
        extras = [*self.queue(case), *self.claims(case)]
        placed, total = (len(gang.placed), gang.expected) if self._seen else (None, None)
        state, words = _state(placed, total, gang.expected > 0)
        if state == "waits":
            words = "waits, all or none" if not placed else f"waits for {counted((total or 0) - placed, 'pod')}"
        return self.branch(
            gang.ref,
            part_of=gang.ref,
            asked=told_words(gang.whole.told, gang.topology),
            where=self.where(case, gang.placed, gang.whole),
            placed=placed,
            total=total,
            state=state,
            words=words,
            children=(*members, *units, *extras),
        )

    def unit(self, case: Case, unit: Unit) -> Branch:
        assert case.gang is not None
        members = list(unit.all_members())
        pods = [pod for member in members for pod in member.placed]
        expected = sum(max(member.replicas, len(member.pods)) for member in members)
        placed, total = (len(pods), expected) if self._seen else (None, None)
        state, words = _state(placed, total, expected > 0)
        children = [
            *(self.unit(case, part) for part in unit.units),
            *(self.member(case, m, unit) for m in unit.members),
        ]
        return self.branch(
            Ref("Replica", case.gang.ref.namespace, unit.name),
            part_of=case.gang.ref,
            asked=told_words(unit.told, case.gang.topology),
            where=self.where(case, pods, unit),
            placed=placed,
            total=total,
            state=state,
            words="" if state == "well" else words,
            children=tuple(children),
        )

    def member(self, case: Case, member: Member, unit: Unit | None = None) -> Branch:
        assert case.gang is not None
        expected = max(member.replicas, len(member.pods))
        placed, total = (len(member.placed), expected) if self._seen else (None, None)
        state, words = _state(placed, total, expected > 0)
        gpus = gpus_of(dict(member.shape.requests))
        if state == "waits":
            words = f"{expected} x {amount('/gpu', gpus)}" if gpus else "waits for its gang"
        asked = told_words(member.told, case.gang.topology)
        if not asked and unit is not None and unit.told.required:
            asked = f"{case.gang.topology.name_of(unit.told.required)} (replica)"
        kind = (
            "PodClique"
            if case.gang.pod_gang is not None
            else "SubGroup"
            if member.name != case.gang.ref.name
            else "Pods"
        )
        return self.branch(
            Ref(kind, case.gang.ref.namespace, member.name),
            part_of=case.gang.ref,
            asked=asked,
            where=self.where(case, member.placed, member),
            placed=placed,
            total=total,
            state=state,
            words=words,
            children=tuple(self.pod(pod) for pod in member.pods),
        )

    def lone_clique(self, clique: PodClique) -> Branch:
        """A PodClique that is in no PodGang yet."""
        pods = self._index.pods_of_clique.get((clique.namespace, clique.name), ())
        placed = sum(1 for pod in pods if pod.node) if self._seen else None
        total = clique.replicas if self._seen else None
        state, _ = _state(placed, total, True)
        ref = Ref("PodClique", clique.namespace, clique.name)
        children = tuple(self.pod(pod) for pod in pods)
        words = "in no gang yet" if state != "unknown" else ""
        return self.branch(ref, placed=placed, total=total, state=state, words=words, children=children)

    def pod(self, pod: Pod) -> Branch:
        state, words = _pod_state(pod)
        return self.branch(Ref("Pod", pod.namespace, pod.name), where=pod.node, state=state, words=words)

    def queue(self, case: Case) -> list[Branch]:
        """The KAI PodGroup and, under it, its queue."""
        gang = case.gang
        if gang is None or gang.pod_group is None:
            return []
        group = gang.pod_group
        queues = tuple(self._queue(queue, case) for queue in list(chain(self._index, group.queue))[:1])
        said = listed(dict.fromkeys(said.reason for said in group.said))
        state: State = "waits" if said and gang.waits else "well"
        if gang.ref.kind == "PodGroup":
            return list(queues)
        ref = Ref("PodGroup", group.namespace, group.name)
        asked = told_words(group.told, gang.topology)
        words = f"KAI says {said}" if state == "waits" else ""
        return [self.branch(ref, asked=asked, where=_minimum(group), state=state, words=words, children=queues)]

    def _queue(self, queue: Queue, case: Case) -> Branch:
        path = "/".join(reversed([above.name for above in chain(self._index, queue.name)]))
        quota = "no quota" if queue.quota is None else f"quota {plain(queue.quota)}"
        full = queue.limit is not None and queue.allocated + asked_gpus(case) > queue.limit
        return self.branch(
            Ref("Queue", "", queue.name),
            asked=amount("/gpu", asked_gpus(case)) if asked_gpus(case) else "",
            where=f"{path}: {quota}, used {plain(queue.allocated)}",
            state="problem" if full else "well",
            words="at its limit" if full else "has room",
        )

    def claims(self, case: Case) -> list[Branch]:
        """ComputeDomains, and claims that pods share by name."""
        if case.gang is None:
            return []
        names = dict.fromkeys(c.claim for pod in case.gang.pods for c in pod.claims if c.claim and not c.template)
        stored = {(claim.namespace, claim.name): claim for claim in self._index.facts.claims}
        branches = []
        for name in sorted(names):
            claim = stored.get((case.gang.ref.namespace, name))
            state: State = "unknown" if claim is None else "well" if claim.allocated else "waits"
            words = {"unknown": "", "well": "allocated", "waits": "not allocated"}[state]
            branches.append(self.branch(Ref("ResourceClaim", case.gang.ref.namespace, name), state=state, words=words))
        for domain in compute_domains_of(case):
            ready = domain.ready
            words, where = "ready" if ready else "not ready", f"{sum(n.ready for n in domain.nodes)} nodes ready"
            ref = Ref("ComputeDomain", domain.namespace, domain.name)
            branches.append(self.branch(ref, where=where, state="well" if ready else "waits", words=words))
        return branches

    def where(self, case: Case, placed: Sequence[Pod], part: Unit | Member) -> str:
        """The domain of placed pods; without any, the most room for what has none."""
        if placed:
            return place_words(self._index, case.topology, placed, part.told.required)
        facts = self._index.facts
        if {"nodes", "room"} & (facts.unseen.keys() | facts.skipped) or case.places is None or case.places.now.fits:
            return ""
        short, best = case.places.now.short, case.places.now.best
        if short is None or best is None or short.name != part.name or not best.domain.path:
            return ""
        return f"{best.pods} of {short.count} in {best.domain}"


_RANK = {"well": 0, "warning": 1, "waits": 2, "problem": 3, "unknown": 4}


def grow(index: Index, subject: Subject, reasons: Sequence[Reason]) -> Branch:
    return _Grower(index, subject, reasons).root(subject)


def place_words(index: Index, topology: Topology, pods: Iterable[Pod], key: str = "") -> str:
    """The one domain that pods are in, at the level asked for or at the narrowest at which there is one; else how many
    domains of that level. "" if their nodes are not known."""
    domains = index.domains(topology.keys)
    positions = [index.node_positions.get(name) for name in sorted({pod.node for pod in pods})]
    if None in positions or not positions:
        return ""
    paths = [domains.paths[position] for position in positions if position is not None]
    if any(path is None for path in paths) or not topology.keys:
        return counted(len(positions), "node")
    depth = domains.depth(key) or next((d for d in range(len(topology.keys), 0, -1) if _one(paths, d)), 1)
    places = {path[:depth] for path in paths if path is not None}
    return "/".join(min(places)) if len(places) == 1 else counted(len(places), topology.levels[depth - 1].domain)


def _one(paths: Sequence[tuple[str, ...] | None], depth: int) -> bool:
    return len({path[:depth] for path in paths if path is not None}) == 1


def told_words(told: Told, topology: Topology) -> str:
    required = f"{topology.name_of(told.required)} required" if told.required else ""
    preferred = f"{topology.name_of(told.preferred)} preferred" if told.preferred else ""
    return required or preferred


def asked_words(asked: Asked) -> str:
    required = f"{asked.required} required" if asked.required else ""
    return required or (f"{asked.preferred} preferred" if asked.preferred else "")


def _minimum(group: KaiPodGroup) -> str:
    return f"needs {counted(group.minimum, 'pod')}"


def _sum(counts: Iterable[int | None]) -> int | None:
    """None if one of them is not known; claims and queues have no pods."""
    values = list(counts)
    return None if not values or all(value is None for value in values) else sum(value or 0 for value in values)


def _state(placed: int | None, total: int | None, exists: bool) -> tuple[State, str]:
    if placed is None or total is None:
        return "unknown", "not known"
    if not exists or placed < total:
        return "waits", "waits"
    return "well", "placed"


def _pod_state(pod: Pod) -> tuple[State, str]:
    if pod.node:
        return ("waits", pod.waiting[0]) if pod.waiting else ("well", pod.phase.lower())
    if pod.gates:
        return "waits", "gated"
    return "waits", "unschedulable" if pod.unscheduled else "waits"
