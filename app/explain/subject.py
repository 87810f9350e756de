"""From the object that was asked about to its PodCliqueSet and gangs."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from app.explain.assembly import gang_of, gang_of_pod, gang_of_pod_group, gangs_of_set
from app.explain.facts.common import NOWHERE, Place, Ref
from app.explain.facts.grove import PodCliqueSet
from app.explain.facts.pods import Pod
from app.explain.gang import Gang
from app.explain.index import Index


@dataclass(frozen=True)
class Subject:
    """`gangs` are those that the object is part of; `siblings` all gangs of its set. `pcs` is None without a set."""

    ref: Ref
    pcs: PodCliqueSet | None
    gangs: tuple[Gang, ...]
    siblings: tuple[Gang, ...]

    @property
    def is_set(self) -> bool:
        return self.ref.kind == "PodCliqueSet"


@dataclass(frozen=True)
class _Match:
    """An object that exists. `place` names its set, `contains` tells which gangs of the set it is part of, and `alone`
    gives its gangs if there is no such set or none of the set's gangs contains it."""

    place: Place
    contains: Callable[[Gang], bool] = lambda gang: True
    alone: Callable[[], tuple[Gang, ...]] = tuple


def subject(index: Index, ref: Ref) -> Subject | None:
    """None if the facts have no such object."""
    match = _FINDERS[ref.kind][1](index, ref) if ref.kind in _FINDERS else None
    if match is None:
        return None
    pcs = index.sets.get((ref.namespace, match.place.pcs))
    siblings = gangs_of_set(index, pcs) if pcs is not None else ()
    gangs = tuple(gang for gang in siblings if match.contains(gang))
    alone = match.alone() if not gangs else ()
    if pcs is None or alone:
        return Subject(ref, None, alone, alone)
    return Subject(ref, pcs, gangs, siblings)


def _of_set(index: Index, ref: Ref) -> _Match | None:
    return _Match(Place(ref.name)) if (ref.namespace, ref.name) in index.sets else None


def _of_gang(index: Index, ref: Ref) -> _Match | None:
    pod_gang = index.gangs.get((ref.namespace, ref.name))
    if pod_gang is None:
        return None
    return _Match(pod_gang.place, lambda gang: gang.ref == ref, lambda: (gang_of(index, pod_gang),))


def _of_clique(index: Index, ref: Ref) -> _Match | None:
    clique = index.cliques.get((ref.namespace, ref.name))
    return _Match(clique.place, _has_member({ref.name})) if clique is not None else None


def _of_scaling_group(index: Index, ref: Ref) -> _Match | None:
    """By the label that its PodCliques carry: Grove's has its full name, the design's the short one."""
    cliques = [
        clique
        for clique in index.facts.cliques
        if clique.namespace == ref.namespace
        and ref.name in (clique.place.group, f"{clique.place.pcs}-{clique.place.replica}-{clique.place.group}")
    ]
    return _Match(cliques[0].place, _has_member({clique.name for clique in cliques})) if cliques else None


def _of_pod(index: Index, ref: Ref) -> _Match | None:
    pod = index.pods.get((ref.namespace, ref.name))
    if pod is None:
        return None
    return _Match(pod.place, _has_pod({ref.name}), lambda: _gangs_of_pods(index, [pod]))


def _of_pod_group(index: Index, ref: Ref) -> _Match | None:
    group = index.pod_groups.get((ref.namespace, ref.name))
    if group is None:
        return None
    gangs = (gang_of(index, pod_gang) for pod_gang in sorted(index.facts.gangs, key=lambda gang: gang.name))
    owner = next((gang for gang in gangs if gang.pod_group == group), None)
    if owner is None or owner.pod_gang is None:
        return _Match(NOWHERE, alone=lambda: (gang_of_pod_group(index, group),))
    return _Match(owner.pod_gang.place, lambda gang: gang.ref == owner.ref, lambda: (owner,))


def _of_workload(index: Index, ref: Ref) -> _Match | None:
    groups = {g.name for g in index.facts.workload_groups if (g.namespace, g.workload) == (ref.namespace, ref.name)}
    pods = [
        pod
        for pod in index.facts.pods
        if pod.namespace == ref.namespace and (pod.workload == ref.name or pod.workload_group in groups)
    ]
    if not pods and (ref.namespace, ref.name) not in index.workloads:
        return None
    return _Match(NOWHERE, alone=lambda: _gangs_of_pods(index, pods))


def _of_claim(index: Index, ref: Ref) -> _Match | None:
    claim = index.claims.get((ref.namespace, ref.name))
    pods = index.pods_of_claim.get((ref.namespace, ref.name), ())
    return _of_users(index, claim.place, pods) if claim is not None else None


def _of_compute_domain(index: Index, ref: Ref) -> _Match | None:
    domain = index.compute_domains.get((ref.namespace, ref.name))
    if domain is None:
        return None
    template = domain.template or None
    pods = (pod for pod in index.facts.pods if pod.namespace == ref.namespace)
    users = [pod for pod in pods if any(claim.template == template for claim in pod.claims)]
    return _of_users(index, domain.place, users)


def _of_users(index: Index, place: Place, pods: Collection[Pod]) -> _Match:
    """The gangs of the pods that use an object; without such pods, the gangs of the set that it is labelled with."""
    if not pods:
        return _Match(place)
    labelled = next((pod.place for pod in pods if pod.place.pcs), place)
    return _Match(labelled, _has_pod({pod.name for pod in pods}), lambda: _gangs_of_pods(index, pods))


def _has_member(names: Collection[str]) -> Callable[[Gang], bool]:
    return lambda gang: any(member.name in names for member in gang.members)


def _has_pod(names: Collection[str]) -> Callable[[Gang], bool]:
    return lambda gang: any(pod.name in names for pod in gang.pods)


def _gangs_of_pods(index: Index, pods: Iterable[Pod]) -> tuple[Gang, ...]:
    """The KAI PodGroups that pods name, and each other pod by itself."""
    gangs: dict[tuple[str, str], Gang] = {}
    for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name)):
        group = index.pod_groups.get((pod.namespace, pod.group))
        key = ("group", group.name) if group else ("pod", pod.name)
        if key not in gangs:
            gangs[key] = gang_of_pod_group(index, group) if group else gang_of_pod(index, pod)
    return tuple(gangs.values())


_FINDERS: Mapping[str, tuple[str, Callable[[Index, Ref], _Match | None]]] = {
    "PodCliqueSet": ("pcs", _of_set),
    "PodCliqueScalingGroup": ("pcsg", _of_scaling_group),
    "PodClique": ("pclq", _of_clique),
    "PodGang": ("pg", _of_gang),
    "PodGroup": ("", _of_pod_group),
    "Workload": ("", _of_workload),
    "Pod": ("po", _of_pod),
    "ResourceClaim": ("", _of_claim),
    "ComputeDomain": ("", _of_compute_domain),
}
"""What may be asked about: its short name for kubectl, and how it is found."""

KINDS: Mapping[str, str] = {
    name: kind for kind, (short, _) in _FINDERS.items() for name in (kind.lower(), f"{kind.lower()}s", short) if name
}
"""kubectl's names for what may be asked about."""
