"""What is placed together: a PodGang, or a KAI PodGroup without one, or a pod alone; one form for all three."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from app.explain.devices import PREFIX, asked_gpus
from app.explain.facts.common import UNBOUND, Ref, Told
from app.explain.facts.grove import GangPart, PodClique, PodCliqueSet, PodGang
from app.explain.facts.kai import KaiPodGroup, SubGroup
from app.explain.facts.pods import NO_SHAPE, Pod, Shape
from app.explain.index import Index
from app.explain.levels import Topology


@dataclass(frozen=True)
class Member:
    """Pods of one kind in a gang. `minimum` of them are placed together; `replicas` is how many there should be."""

    name: str
    minimum: int
    replicas: int
    shape: Shape
    pods: tuple[Pod, ...]
    told: Told = UNBOUND
    clique: PodClique | None = None

    @property
    def expected(self) -> int:
        """How many pods there should be."""
        return max(self.replicas, len(self.pods))

    @cached_property
    def placed(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.node)

    @cached_property
    def waiting(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if not pod.node)


@dataclass(frozen=True)
class Unit:
    """A part of a gang with a constraint of its own: a replica of a scaling group, or a SubGroup with children."""

    name: str
    told: Told = UNBOUND
    members: tuple[Member, ...] = ()
    units: tuple["Unit", ...] = ()

    def parts(self) -> Iterator["Unit | Member"]:
        """This unit, its members, and the parts of its units."""
        yield self
        yield from self.members
        for unit in self.units:
            yield from unit.parts()

    @cached_property
    def all_members(self) -> tuple[Member, ...]:
        return (*self.members, *(member for unit in self.units for member in unit.all_members))

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(pod for member in self.all_members for pod in member.pods)

    @cached_property
    def placed(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.node)

    @cached_property
    def expected(self) -> int:
        """How many pods there should be."""
        return sum(member.expected for member in self.all_members)


@dataclass(frozen=True)
class Gang:
    """`whole` has the gang's own constraint and all its parts. `pcs` is the PodCliqueSet that it is made for."""

    ref: Ref
    whole: Unit
    topology: Topology
    pod_gang: PodGang | None = None
    pod_group: KaiPodGroup | None = None
    pcs: PodCliqueSet | None = None

    @property
    def members(self) -> tuple[Member, ...]:
        return self.whole.all_members

    @property
    def pods(self) -> tuple[Pod, ...]:
        return self.whole.pods

    @property
    def placed(self) -> tuple[Pod, ...]:
        return self.whole.placed

    @cached_property
    def waiting(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if not pod.node)

    @property
    def waits(self) -> bool:
        """Whether pods are missing or not placed."""
        return len(self.placed) < self.whole.expected

    @cached_property
    def claims_gpus(self) -> bool:
        """Whether it asks for GPUs that are allocated by DRA."""
        names = {name for member in self.members for name, _ in member.shape.requests}
        return any(name.startswith(PREFIX) for name in names)

    @cached_property
    def constrained(self) -> bool:
        return any(part.told for part in self.whole.parts())


def gangs_of_set(index: Index, pcs: PodCliqueSet) -> tuple[Gang, ...]:
    pod_gangs = index.gangs_of_set.get((pcs.namespace, pcs.name), ())
    return tuple(gang_of(index, pod_gang) for pod_gang in pod_gangs)


def gang_to_come(index: Index, pcs: PodCliqueSet) -> Gang:
    """A set that has no PodGang yet: it has nothing to place, but its constraints can be judged."""
    return Gang(pcs.ref, Unit(pcs.name), index.topology(_asked_topology(pcs)), pcs=pcs)


def gang_of(index: Index, pod_gang: PodGang) -> Gang:
    """The gang of a PodGang, with its PodCliques, pods and KAI PodGroup."""
    namespace = pod_gang.namespace
    members = {part.name: _member_of_part(index, pod_gang, part) for part in pod_gang.parts}
    grouped = [
        Unit(group.name, group.told, tuple(members.pop(name) for name in group.parts if name in members))
        for group in pod_gang.groups
    ]
    pcs = index.sets.get((namespace, pod_gang.place.pcs))
    whole = Unit(pod_gang.name, pod_gang.told, tuple(members.values()), tuple(grouped))
    topology = index.topology(pod_gang.topology or (_asked_topology(pcs) if pcs else ""))
    return Gang(pod_gang.ref, whole, topology, pod_gang, index.pod_group_of(pod_gang, whole.pods), pcs)


def _member_of_part(index: Index, pod_gang: PodGang, part: GangPart) -> Member:
    """Grove gives a PodGang's podgroup the name of its PodClique."""
    name = part.name
    clique = index.cliques.get((pod_gang.namespace, name))
    pods = _alive(index.pods_of_clique(pod_gang.namespace, name))
    if clique is None:
        return Member(name, part.minimum, max(part.minimum, len(pods)), _shape(index, pods), pods, part.told)
    shape = _shape(index, pods, _shape_of(index, clique))
    return Member(name, part.minimum, clique.replicas, shape, pods, part.told, clique)


def _shape(index: Index, pods: tuple[Pod, ...], template: Shape = NO_SHAPE) -> Shape:
    """That of a pod, which webhooks may have completed, first of one that waits; else that of the template."""
    return next((_shape_of(index, pod) for pod in sorted(pods, key=lambda pod: bool(pod.node))), template)


def _shape_of(index: Index, user: Pod | PodClique) -> Shape:
    """What a pod asks for, with the GPUs of its claims. What a claim is allocated is taken already, and a claim that
    several pods share is not counted."""
    asked: Counter[str] = Counter()
    for claim in user.claims:
        stored = index.claims.get((user.namespace, claim.claim))
        template = index.claim_templates.get((user.namespace, claim.template))
        is_shared = template is None and len(index.pods_of_claim.get((user.namespace, claim.claim), ())) > 1
        if not is_shared and not (stored is not None and stored.allocated):
            made = stored or template
            asked.update(asked_gpus(made.classes if made is not None else (), index.device_classes))
    if not asked:
        return user.shape
    return replace(user.shape, requests=tuple(sorted((asked + Counter(dict(user.shape.requests))).items())))


def _asked_topology(pcs: PodCliqueSet) -> str:
    asked = (pcs.asked, *(group.asked for group in pcs.groups), *(clique.asked for clique in pcs.cliques))
    return next((constraint.topology for constraint in asked if constraint.topology), "")


def gang_of_pod_group(index: Index, group: KaiPodGroup) -> Gang:
    """The gang of a KAI PodGroup that no PodGang owns: from its SubGroups, or all its pods together."""
    pods = _alive(index.pods_of_group.get((group.namespace, group.name), ()))
    return Gang(group.ref, _unit_of_subgroups(index, group, pods), index.topology(group.topology), pod_group=group)


def gang_of_pod(index: Index, pod: Pod) -> Gang:
    """A pod that belongs to no gang."""
    member = Member(pod.name, 1, 1, _shape_of(index, pod), (pod,))
    return Gang(pod.ref, Unit(pod.name, UNBOUND, (member,)), index.topology())


def _unit_of_subgroups(index: Index, group: KaiPodGroup, pods: tuple[Pod, ...]) -> Unit:
    if not group.subgroups:
        replicas = max(group.minimum, len(pods))
        return Unit(group.name, group.told, (Member(group.name, group.minimum, replicas, _shape(index, pods), pods),))
    parents = {sub.parent for sub in group.subgroups}

    def unit(name: str, told: Told, parent: str) -> Unit:
        """The SubGroups whose parent is `parent`. Parents that form a cycle are under no root and so are left out."""
        children = [sub for sub in group.subgroups if sub.parent == parent]
        members = tuple(_member_of_subgroup(index, sub, pods) for sub in children if sub.name not in parents)
        units = tuple(unit(sub.name, sub.told, sub.name) for sub in children if sub.name in parents)
        return Unit(name, told, members, units)

    return unit(group.name, group.told, "")


def _member_of_subgroup(index: Index, sub: SubGroup, pods: tuple[Pod, ...]) -> Member:
    own = tuple(pod for pod in pods if pod.subgroup == sub.name)
    return Member(sub.name, sub.minimum, max(sub.minimum, len(own)), _shape(index, own), own, sub.told)


def _alive(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if not pod.finished and pod.deleting is None)
