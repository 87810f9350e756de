"""Build the tree of a workload, with the state of each object.

Below the PodCliqueSet are its gangs, and its PodCliques in no gang. Below a gang are its parts with
their pods, its PodGroup with its queue, its shared claims, ComputeDomains and NVLink units.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

from msgspec.structs import replace

from app.explain.answers.branch import (
    Branch,
    State,
    asked_words,
    place_words,
    state_of,
    state_of_pod,
    together,
    told_words,
)
from app.explain.gangs.gang import Gang, Member, Unit
from app.explain.gangs.subject import USED, Subject
from app.explain.queue_order.shares import quantities_of
from app.explain.reasons.compute_domains import compute_domains_of, host_managed, ready_nodes
from app.explain.reasons.gates import grouped
from app.explain.reasons.queue import over_limits, over_quota, use_words
from app.explain.reasons.reason import Reason, amount, counted, listed, mig_words, plain
from app.explain.state.amounts import gpus_of
from app.explain.state.queues import chain, unusable_because
from app.facts.grove.podcliqueset import SetWithStatus
from app.facts.grove.unit_member import CLAIM
from app.facts.identity import Ref
from app.facts.kai.queue import Queue
from app.facts.kubernetes.pod import Pod


class _Grower:
    """A builder of one tree, in which each branch has the numbers of its reasons."""

    def __init__(self, subject: Subject, reasons: Sequence[Reason], folded: bool) -> None:
        self._index = subject.index
        self._marked = subject.ref
        self._folded = folded
        facts = self._index.facts
        self._is_read = not {"pods", "cliques", "gangs"} & facts.unseen.keys()
        """Did reading pods, PodCliques and PodGangs succeed?"""
        self._seen = self._is_read and "pods" not in facts.skipped
        """Are the numbers of placed pods known?"""
        self._reasons = reasons
        self._numbers: dict[tuple[Ref, str], list[int]] = {}
        """The numbers of the reasons by (object, part). The part "" is the whole object."""
        for number, reason in enumerate(reasons, 1):
            for ref in reason.objects:
                for part in reason.parts or ("",):
                    self._numbers.setdefault((ref, part), []).append(number)

    def _branch(self, ref: Ref, part_of: Ref | None = None, **values: object) -> Branch:
        numbers = {*self._numbers.get((ref, ""), ())}
        if part_of:
            numbers.update(self._numbers.get((part_of, ref.name), ()))
        reasons = tuple(sorted(numbers))
        marked = ref == self._marked
        return Branch(ref, reasons=reasons, marked=marked, **values)  # type: ignore[arg-type]

    def root(self, subject: Subject) -> Branch:
        pcs = subject.pcs
        if not pcs:
            if not subject.gangs and self._is_read:
                return self._without_pods(subject.ref)
            gangs = tuple(map(self._gang, subject.gangs))
            return gangs[0] if len(gangs) == 1 else self._bundle(subject.ref, gangs)

        gangs = tuple(map(self._gang, subject.siblings))
        children = (*gangs, *self._lone_cliques(pcs, subject.siblings))
        if not children and self._is_read:
            return self._nothing(pcs)
        return self._bundle(pcs.ref, children, asked_words(pcs.asked))

    def _nothing(self, pcs: SetWithStatus) -> Branch:
        """Return the branch of a set without gangs and PodCliques."""
        asked = asked_words(pcs.asked)
        state, words = ("waits", "nothing created yet") if pcs.replicas else ("well", "no replicas")
        if pcs.replicas and not self._index.facts.unread.isdisjoint(("pods", "cliques", "gangs")):
            words = "not known"
        if pcs.deleted_at is not None:
            words = "being deleted"
        return self._branch(pcs.ref, asked=asked, placed=0, total=0, state=state, words=words)

    def _without_pods(self, ref: Ref) -> Branch:
        """Return the branch of an object that no pod belongs to, or that no pod uses."""
        state, words = ("well", "no pod uses it") if ref.kind in USED else ("waits", "no pods")
        if "pods" in self._index.facts.unread:
            state = "unknown" if ref.kind in USED else state
            words = "not known"
        return self._branch(ref, placed=0, total=0, state=state, words=words)

    def _bundle(self, ref: Ref, children: tuple[Branch, ...], asked: str = "") -> Branch:
        placed, total, state, words = together(children)
        return self._branch(
            ref,
            asked=asked,
            placed=placed,
            total=total,
            state=state,
            words=words,
            children=children,
        )

    def _gang(self, gang: Gang) -> Branch:
        missing = gang.whole.expected - len(gang.placed)
        children = () if self._folded else self._parts(gang)
        waits = f"{counted(missing, 'pod')} pending"
        if not gang.placed:
            is_whole = all(member.minimum >= member.expected for member in gang.members)
            waits = "pending, all or none" if is_whole and missing > 1 else "pending"
        if gang.ref.kind == "Pod":
            _, waits = state_of_pod(gang.pods[0])
        branch = self._part(gang, gang.ref, gang.whole, children, waits)
        if gang.ref.kind == "Pod" and gang.pods[0].finished:
            return replace(branch, words=f"ended ({gang.pods[0].phase})")
        return branch

    def _parts(self, gang: Gang) -> Iterator[Branch]:
        if gang.ref.kind != "Pod":
            yield from (self._member(gang, member) for member in gang.whole.members)
        yield from (self._unit(gang, unit) for unit in gang.whole.units)
        yield from self._pod_group(gang)
        yield from self._claims(gang)
        yield from self._nvlink_units(gang)

    def _unit(self, gang: Gang, unit: Unit) -> Branch:
        children = [self._unit(gang, part) for part in unit.units]
        children += [self._member(gang, member, unit) for member in unit.members]
        return self._part(
            gang, Ref("Replica", gang.namespace, unit.name), unit, children, "pending"
        )

    def _member(self, gang: Gang, member: Member, unit: Unit | None = None) -> Branch:
        waits = _sizes(member) or "pending with its gang"
        level = gang.topology.name_of(unit.told.required) if unit else ""
        kind = (
            "PodClique" if gang.pod_gang else "SubGroup" if member.name != gang.ref.name else "Pods"
        )
        children = [self._pod(pod) for pod in member.pods]
        branch = self._part(gang, Ref(kind, gang.namespace, member.name), member, children, waits)

        return replace(branch, asked=f"{level} (replica)") if level and not branch.asked else branch

    def _part(
        self, gang: Gang, ref: Ref, part: Unit | Member, children: Iterable[Branch], waits: str
    ) -> Branch:
        """Return the branch of a part of a gang. `waits` is the text if the part is pending."""
        well = "" if ref.kind == "Replica" else "placed"
        placed, total = (len(part.placed), part.expected) if self._seen else (None, None)
        state, words = state_of(placed, total, part.expected > 0)
        return self._branch(
            ref,
            gang.ref,
            asked=told_words(part.told, gang.topology),
            where=self._where(gang, part),
            placed=placed,
            total=total,
            state=state,
            words={"waits": waits, "well": well}.get(state, words),
            children=tuple(children),
        )

    def _lone_cliques(self, pcs: SetWithStatus, gangs: Iterable[Gang]) -> Iterator[Branch]:
        """Yield the branches of PodCliques in no gang, including PodCliques that only pods name."""
        names = {pod.place.clique for pod in self._index.pods_of_set.get(pcs.key, ())}
        names |= {clique.name for clique in self._index.cliques_of_set.get(pcs.key, ())}
        names -= {member.name for gang in gangs for member in gang.members}
        for name in sorted(filter(None, names)):
            yield self._lone_clique(Ref("PodClique", pcs.namespace, name))

    def _lone_clique(self, ref: Ref) -> Branch:
        pods = self._index.pods_of_clique(*ref.key)
        placed = sum(1 for pod in pods if pod.node) if self._seen else None
        clique = self._index.cliques.get(ref.key)
        is_leaving = clique is not None and clique.deleted_at is not None
        replicas = clique.replicas if clique and not is_leaving else len(pods)
        total = replicas if self._seen else None
        state, _ = state_of(placed, total, True)
        children = tuple(self._pod(pod) for pod in pods)
        words = {"unknown": "", "well": "in no gang"}.get(state, "in no gang yet")
        if is_leaving:  # Such as after a scale-in, with pods that have not ended yet.
            state, words = "well", "being deleted"
        if "gangs" in self._index.facts.skipped:
            words = "pending" if state == "waits" else ""
        return self._branch(
            ref, placed=placed, total=total, state=state, words=words, children=children
        )

    def _pod(self, pod: Pod) -> Branch:
        state, words = state_of_pod(pod)
        return self._branch(pod.ref, where=pod.node, state=state, words=words)

    def _pod_group(self, gang: Gang) -> list[Branch]:
        """Return the branch of the gang's KAI PodGroup, with the branch of its queue below it.

        If the gang represents the PodGroup, return only the branch of the queue. Return [] for a
        gang without a PodGroup.
        """
        group = gang.pod_group
        if not group:
            return []

        queues = tuple(
            self._queue(queue, gang) for queue in list(chain(self._index, group.queue))[:1]
        )
        if gang.ref.kind == "PodGroup":
            return list(queues)

        said = listed(dict.fromkeys(said.reason for said in group.said)) if gang.waits else ""
        pods = self._index.pods_of_group.get(group.key, ())
        gangs = {pod.place.podgang for pod in pods}
        needs = f"needs {counted(group.minimum, 'pod')}"

        return [
            self._branch(
                group.ref,
                asked=told_words(group.told, gang.topology),
                where=f"of {len(gangs)} PodGangs" if len(gangs) > 1 else needs,
                state="waits" if said else "well",
                words=f"KAI says {said}" if said else "",
                children=queues,
            )
        ]

    def _queue(self, queue: Queue, gang: Gang) -> Branch:
        path = "/".join(reversed([above.name for above in chain(self._index, queue.name)]))
        quota = "unlimited quota" if queue.quota is None else f"quota {plain(queue.quota)}"
        gpus = round(1000 * quantities_of(gang.demand.shapes)[0])  # MIG devices count as slices
        trouble = self._trouble_of_queue(queue, gang)
        return self._branch(
            queue.ref,
            asked=amount("/gpu", gpus) if gpus else "",
            where=f"{path}: {quota}, {use_words(self._index, queue)}",
            state="problem" if trouble else "well",
            words=trouble or "has room",
        )

    def _trouble_of_queue(self, queue: Queue, gang: Gang) -> str:
        """Return why the queue of a gang cannot take the gang, otherwise ""."""
        own = {gang.ref, queue.ref, *((gang.pod_group.ref,) if gang.pod_group else ())}
        for reason in self._reasons:
            if reason.id in _OF_QUEUE and own.intersection(reason.objects):
                return _OF_QUEUE[reason.id]
        if unusable_because(self._index, queue.name, gang.pool):
            return "not usable for this gang"
        if any(over_limits(gang, queue.name)):
            return "at its limit"
        return "at its quota" if over_quota(gang, queue.name) else ""

    def _claims(self, gang: Gang) -> Iterator[Branch]:
        """Yield the branches of shared claims and of ComputeDomains."""
        for name in sorted(gang.shared_claims):
            state, words = self._state_of_claim(gang.namespace, name)
            yield self._branch(Ref("ResourceClaim", gang.namespace, name), state=state, words=words)

        for domain in compute_domains_of(gang):
            state, words = ("well", "ready") if domain.ready else ("waits", "not ready")
            where = "host-managed IMEX"
            if not host_managed(self._index, domain):
                where = f"{counted(ready_nodes(self._index, domain), 'node')} ready"
            yield self._branch(domain.ref, where=where, state=state, words=words)

    def _nvlink_units(self, gang: Gang) -> Iterator[Branch]:
        """Yield the branches of the NVLink units of pods outside PodCliques, with their claims."""
        users = [pod for pod in gang.pods if pod.place.unit and pod.unit_owner]
        for unit, pods in grouped((pod.place.unit, pod) for pod in users):
            claims = [claim.claim for pod in pods for claim in pod.claims if claim.name == CLAIM]
            states = [self._state_of_claim(gang.namespace, claim) for claim in claims]
            state, words = min(states, default=("unknown", ""))
            yield self._branch(
                Ref("Unit", gang.namespace, unit),
                asked=f"of {pods[0].unit_owner}",
                where=counted(claims, "claim"),
                state=state,
                words=words,
            )

    def _state_of_claim(self, namespace: str, name: str) -> tuple[State, str]:
        """Return (state, text) of a claim. `name` is "" if the claim is not created yet."""
        claim = self._index.claims.get((namespace, name))
        if not name:
            return "waits", "not created"
        if not claim:
            facts = self._index.facts
            is_known = "claims" not in {*facts.unseen, *facts.skipped}
            return ("problem", "does not exist") if is_known else ("unknown", "")
        if claim.deleting is not None:
            return "warning", "being deleted"
        return ("well", "allocated") if claim.allocated else ("waits", "not allocated")

    def _where(self, gang: Gang, part: Unit | Member) -> str:
        """Return where the placed pods of a part are, as `place_words` does.

        If none is placed, and this is the part of the gang that does not fit, return the domain
        with the most room and for how many pods. Otherwise, return "".
        """
        if part.placed:
            return place_words(gang.topology, part.placed, part.told)
        short = gang.short if self._index.room_is_known else None
        if not short or short.name != part.name:
            return ""
        best = gang.placements.now.best
        if not best or not best.pods or not best.domain.path:
            return ""
        return f"{best.pods} of {short.count} in {best.domain}"


_OF_QUEUE = {
    "QueueMissing": "not usable for this gang",
    "QueueLimit": "at its limit",
    "LowerPriority": "at its limit",
    "QueueQuota": "at its quota",
}
"""The status of a queue in the tree, by the id of the reason that says the same."""


def _sizes(member: Member) -> str:
    """Return the GPU requests of a member, such as `1 x 2 GPUs + 3 x 8 GPUs`, or "" for none."""
    shapes = [*member.shapes, *repeat(member.shape, member.expected - len(member.shapes))]
    counts = Counter((gpus_of(dict(shape.requests)), mig_words(shape)) for shape in shapes)
    sizes = (
        f"{n} x {mig or amount('/gpu', gpus)}" for (gpus, mig), n in sorted(counts.items()) if gpus
    )
    return " + ".join(sizes)


def grow(subject: Subject, reasons: Sequence[Reason], *, folded: bool) -> Branch:
    """Return the tree of an object. With `folded`, gangs are shown without parts."""
    return _Grower(subject, reasons, folded).root(subject)
