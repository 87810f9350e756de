"""Makes gangs: of PodGangs, of KAI PodGroups that no PodGang owns, and of pods that belong to
neither.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from app.explain.amounts import asked_gpus
from app.explain.facts.common import UNBOUND, Told
from app.explain.facts.grove import GangPart, PodClique, PodCliqueSet, PodGang
from app.explain.facts.kai import KaiPodGroup, SubGroup
from app.explain.facts.pods import NO_SHAPE, Pod, Shape
from app.explain.gang import Gang, Member, Unit
from app.explain.index import Index

MOST_DEPTH = 16
"""Levels of SubGroups. KAI's own workloads have three, and what reads a tree is recursive."""


def gangs_of_set(index: Index, pcs: PodCliqueSet) -> tuple[Gang, ...]:
    pod_gangs = index.gangs_of_set.get((pcs.namespace, pcs.name), ())
    return tuple(gang_of(index, pod_gang) for pod_gang in pod_gangs)


def gang_to_come(index: Index, pcs: PodCliqueSet) -> Gang:
    """A set that has no PodGang yet: it has nothing to place, but its constraints can be judged."""
    return Gang(index, pcs.ref, Unit(pcs.name), index.topology(pcs.topology), pcs=pcs)


def gang_of(index: Index, pod_gang: PodGang) -> Gang:
    """The gang of a PodGang, with its PodCliques, pods and KAI PodGroup."""
    namespace = pod_gang.namespace
    members = {part.name: _member_of_part(index, pod_gang, part) for part in pod_gang.parts}
    grouped = [
        Unit(
            group.name,
            group.told,
            tuple(members.pop(name) for name in group.parts if name in members),
        )
        for group in pod_gang.groups
    ]
    pcs = index.sets.get((namespace, pod_gang.place.pcs))
    whole = Unit(pod_gang.name, pod_gang.told, tuple(members.values()), tuple(grouped))
    topology = index.topology(pod_gang.topology or (pcs.topology if pcs else ""))
    return Gang(
        index,
        pod_gang.ref,
        whole,
        topology,
        pod_gang,
        index.pod_group_of(pod_gang, whole.pods),
        pcs,
    )


def _member_of_part(index: Index, pod_gang: PodGang, part: GangPart) -> Member:
    """Grove gives a PodGang's podgroup the name of its PodClique."""
    name = part.name
    clique = index.cliques.get((pod_gang.namespace, name))
    pods = _alive(index.pods_of_clique(pod_gang.namespace, name))
    if clique is None:
        return Member(
            name, part.minimum, max(part.minimum, len(pods)), _shape(index, pods), pods, part.told
        )
    shape = _shape(index, pods, _shape_of(index, clique))
    return Member(name, part.minimum, clique.replicas, shape, pods, part.told, clique)


def _shape(index: Index, pods: tuple[Pod, ...], template: Shape = NO_SHAPE) -> Shape:
    """That of a pod, which webhooks may have completed, first of one that waits; else that of the
    template.
    """
    return next(
        (_shape_of(index, pod) for pod in sorted(pods, key=lambda pod: bool(pod.node))), template
    )


def _shape_of(index: Index, user: Pod | PodClique) -> Shape:
    """What a pod asks for, with the GPUs of its claims.

    What a claim is allocated is taken already, and a claim that several pods share is not counted.
    """
    asked: Counter[str] = Counter()
    for claim in user.claims:
        stored = index.claims.get((user.namespace, claim.claim))
        template = index.claim_templates.get((user.namespace, claim.template))
        is_shared = (
            template is None and len(index.pods_of_claim.get((user.namespace, claim.claim), ())) > 1
        )
        if not is_shared and not (stored is not None and stored.allocated):
            made = stored or template
            asked.update(asked_gpus(made.classes if made is not None else (), index.device_classes))
    if not asked:
        return user.shape
    return replace(
        user.shape, requests=tuple(sorted((asked + Counter(dict(user.shape.requests))).items()))
    )


def gang_of_pod_group(index: Index, group: KaiPodGroup) -> Gang:
    """The gang of a KAI PodGroup that no PodGang owns: from its SubGroups, or all its pods
    together.
    """
    pods = _alive(index.pods_of_group.get((group.namespace, group.name), ()))
    return Gang(
        index,
        group.ref,
        _unit_of_subgroups(index, group, pods),
        index.topology(group.topology),
        pod_group=group,
    )


def gang_of_pod(index: Index, pod: Pod) -> Gang:
    """A pod that belongs to no gang."""
    member = Member(pod.name, 1, 1, _shape_of(index, pod), (pod,))
    return Gang(index, pod.ref, Unit(pod.name, UNBOUND, (member,)), index.topology())


def _unit_of_subgroups(index: Index, group: KaiPodGroup, pods: tuple[Pod, ...]) -> Unit:
    if not group.subgroups:
        replicas = max(group.minimum, len(pods))
        return Unit(
            group.name,
            group.told,
            (Member(group.name, group.minimum, replicas, _shape(index, pods), pods),),
        )
    subgroups = _distinct(group.subgroups)
    parents = {sub.parent for sub in subgroups}

    def unit(name: str, told: Told, parent: str, depth: int) -> Unit:
        """The SubGroups whose parent is `parent`.

        Parents that form a cycle are under no root and so are left out, as are SubGroups without a
        name, repeated ones, and those below MOST_DEPTH.
        """
        children = [sub for sub in subgroups if sub.parent == parent]
        nested = parents if depth < MOST_DEPTH else frozenset()
        members = tuple(
            _member_of_subgroup(index, sub, pods) for sub in children if sub.name not in nested
        )
        units = tuple(
            unit(sub.name, sub.told, sub.name, depth + 1) for sub in children if sub.name in nested
        )
        return Unit(name, told, members, units)

    return unit(group.name, group.told, "", 1)


def _distinct(subgroups: Iterable[SubGroup]) -> list[SubGroup]:
    """Return the SubGroups that have a name, and of those of one name the first."""
    by_name: dict[str, SubGroup] = {}
    for sub in subgroups:
        by_name.setdefault(sub.name, sub)

    by_name.pop("", None)
    return list(by_name.values())


def _member_of_subgroup(index: Index, sub: SubGroup, pods: tuple[Pod, ...]) -> Member:
    own = tuple(pod for pod in pods if pod.subgroup == sub.name)
    return Member(
        sub.name, sub.minimum, max(sub.minimum, len(own)), _shape(index, own), own, sub.told
    )


def _alive(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if not pod.finished and pod.deleting is None)
