"""From the object that was asked about to its PodCliqueSet and gangs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.explain.facts.common import Place, Ref
from app.explain.facts.grove import PodCliqueSet
from app.explain.facts.pods import Pod
from app.explain.gang import Gang, gang_of, gang_of_pod, gang_of_pod_group, gangs_of_set
from app.explain.index import Index

KINDS: Mapping[str, str] = {
    "podcliqueset": "PodCliqueSet",
    "podcliquesets": "PodCliqueSet",
    "pcs": "PodCliqueSet",
    "podcliquescalinggroup": "PodCliqueScalingGroup",
    "podcliquescalinggroups": "PodCliqueScalingGroup",
    "pcsg": "PodCliqueScalingGroup",
    "podclique": "PodClique",
    "podcliques": "PodClique",
    "pclq": "PodClique",
    "podgang": "PodGang",
    "podgangs": "PodGang",
    "pg": "PodGang",
    "podgroup": "PodGroup",
    "podgroups": "PodGroup",
    "workload": "Workload",
    "workloads": "Workload",
    "pod": "Pod",
    "pods": "Pod",
    "po": "Pod",
    "resourceclaim": "ResourceClaim",
    "resourceclaims": "ResourceClaim",
    "computedomain": "ComputeDomain",
    "computedomains": "ComputeDomain",
}
"""What may be asked about, with kubectl's names for it."""


@dataclass(frozen=True)
class Subject:
    """`gangs` are those that the object is part of; `siblings` all gangs of its set. `pcs` is None without a set."""

    ref: Ref
    pcs: PodCliqueSet | None
    gangs: tuple[Gang, ...]
    siblings: tuple[Gang, ...]


def subject(index: Index, ref: Ref) -> Subject | None:
    """None if the facts have no such object."""
    return _FINDERS[ref.kind](index, ref) if ref.kind in _FINDERS else None


def _of_set(index: Index, ref: Ref) -> Subject | None:
    pcs = index.sets.get((ref.namespace, ref.name))
    if pcs is None:
        return None
    gangs = gangs_of_set(index, pcs)
    return Subject(ref, pcs, gangs, gangs)


def _of_gang(index: Index, ref: Ref) -> Subject | None:
    pod_gang = index.gangs.get((ref.namespace, ref.name))
    if pod_gang is None:
        return None
    return _within(index, ref, pod_gang.place, _is(ref)) or _alone(ref, gang_of(index, pod_gang))


def _of_clique(index: Index, ref: Ref) -> Subject | None:
    clique = index.cliques.get((ref.namespace, ref.name))
    if clique is None:
        return None
    contains = _with_member(lambda name: name == ref.name)
    return _within(index, ref, clique.place, contains) or Subject(ref, None, (), ())


def _of_scaling_group(index: Index, ref: Ref) -> Subject | None:
    """By the label that its PodCliques carry: Grove's has its full name, the design's the short one."""
    cliques = [
        clique
        for clique in index.facts.cliques
        if clique.namespace == ref.namespace
        and ref.name in (clique.place.group, f"{clique.place.pcs}-{clique.place.replica}-{clique.place.group}")
    ]
    if not cliques:
        return None
    names = {clique.name for clique in cliques}
    return _within(index, ref, cliques[0].place, _with_member(names.__contains__)) or Subject(ref, None, (), ())


def _of_pod(index: Index, ref: Ref) -> Subject | None:
    pod = index.pods.get((ref.namespace, ref.name))
    if pod is None:
        return None
    inside = _within(index, ref, pod.place, lambda gang: any(other.name == pod.name for other in gang.pods))
    if inside is not None and inside.gangs:
        return inside
    gangs = _gangs_of_pods(index, [pod])
    return Subject(ref, None, gangs, gangs)


def _of_pod_group(index: Index, ref: Ref) -> Subject | None:
    group = index.pod_groups.get((ref.namespace, ref.name))
    if group is None:
        return None
    for pod_gang in sorted(index.facts.gangs, key=lambda gang: gang.name):
        gang = gang_of(index, pod_gang)
        if gang.pod_group == group:
            return _within(index, ref, pod_gang.place, _is(gang.ref)) or _alone(ref, gang)
    return _alone(ref, gang_of_pod_group(index, group))


def _of_workload(index: Index, ref: Ref) -> Subject | None:
    groups = {g.name for g in index.facts.workload_groups if (g.namespace, g.workload) == (ref.namespace, ref.name)}
    pods = [
        pod
        for pod in index.facts.pods
        if pod.namespace == ref.namespace and (pod.workload == ref.name or pod.workload_group in groups)
    ]
    exists = any((workload.namespace, workload.name) == (ref.namespace, ref.name) for workload in index.facts.workloads)
    if not pods and not exists:
        return None
    gangs = _gangs_of_pods(index, pods)
    return Subject(ref, None, gangs, gangs)


def _of_claim(index: Index, ref: Ref) -> Subject | None:
    claims = [claim for claim in index.facts.claims if (claim.namespace, claim.name) == (ref.namespace, ref.name)]
    if not claims:
        return None
    pods = index.pods_of_claim.get((ref.namespace, ref.name), ())
    return _of_users(index, ref, claims[0].place, pods)


def _of_compute_domain(index: Index, ref: Ref) -> Subject | None:
    domains = [d for d in index.facts.compute_domains if (d.namespace, d.name) == (ref.namespace, ref.name)]
    if not domains:
        return None
    template = domains[0].template
    pods = [
        pod
        for pod in index.facts.pods
        if pod.namespace == ref.namespace and any(template and claim.template == template for claim in pod.claims)
    ]
    return _of_users(index, ref, domains[0].place, pods)


def _of_users(index: Index, ref: Ref, place: Place, pods: Sequence[Pod]) -> Subject:
    """The gangs of the pods that use an object; without such pods, the gangs of the set that it is labelled with."""
    names = {pod.name for pod in pods}
    places = [pod.place for pod in pods if pod.place.pcs] or [place]
    inside = _within(index, ref, places[0], lambda gang: not names or any(pod.name in names for pod in gang.pods))
    if inside is not None:
        return inside
    gangs = _gangs_of_pods(index, pods)
    return Subject(ref, None, gangs, gangs)


def _within(index: Index, ref: Ref, place: Place, contains: Callable[[Gang], bool]) -> Subject | None:
    """The set that labels name and those of its gangs for which `contains` holds; None if there is no such set."""
    pcs = index.sets.get((ref.namespace, place.pcs))
    if pcs is None:
        return None
    gangs = gangs_of_set(index, pcs)
    return Subject(ref, pcs, tuple(gang for gang in gangs if contains(gang)), gangs)


def _with_member(named: Callable[[str], bool]) -> Callable[[Gang], bool]:
    return lambda gang: any(named(member.name) for member in gang.members)


def _is(ref: Ref) -> Callable[[Gang], bool]:
    return lambda gang: gang.ref == ref


def _alone(ref: Ref, gang: Gang) -> Subject:
    return Subject(ref, gang.pcs, (gang,), (gang,))


def _gangs_of_pods(index: Index, pods: Iterable[Pod]) -> tuple[Gang, ...]:
    """The KAI PodGroups that pods name, and each other pod by itself."""
    gangs: dict[tuple[str, str], Gang] = {}
    for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name)):
        group = index.pod_groups.get((pod.namespace, pod.group))
        key = ("group", group.name) if group else ("pod", pod.name)
        if key not in gangs:
            gangs[key] = gang_of_pod_group(index, group) if group else gang_of_pod(index, pod)
    return tuple(gangs.values())


_FINDERS: Mapping[str, Callable[[Index, Ref], Subject | None]] = {
    "PodCliqueSet": _of_set,
    "PodCliqueScalingGroup": _of_scaling_group,
    "PodClique": _of_clique,
    "PodGang": _of_gang,
    "PodGroup": _of_pod_group,
    "Workload": _of_workload,
    "Pod": _of_pod,
    "ResourceClaim": _of_claim,
    "ComputeDomain": _of_compute_domain,
}
