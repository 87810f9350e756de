"""Find the PodCliqueSet and the gangs of the object that the user asks about."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import itemgetter

from app.base.groups import by_key
from app.base.value import Value
from app.explain.gangs.assembly import (
    gang_of,
    gang_of_pod_group,
    gang_to_come,
    gangs_of_pods,
    gangs_of_set,
    outside_subgroups,
)
from app.explain.gangs.bases import bases_of
from app.explain.gangs.gang import Gang, Unit
from app.explain.state.index import Index
from app.explain.state.levels import topology_of
from app.explain.state.makers import is_known
from app.facts.grove.podcliqueset import SetWithStatus
from app.facts.grove.podgang import PodGang
from app.facts.identity import NOWHERE, Key, Place, Ref
from app.facts.kinds import DYNAMO_GRAPH
from app.facts.kubernetes.pod import Pod
from app.facts.workload_of_pod import WORKLOAD_KINDS


class Subject(Value, dict=True):
    """The object that the user asks about, with its gangs."""

    index: Index
    ref: Ref
    pcs: SetWithStatus | None
    """Its PodCliqueSet, or None if it has none."""
    gangs: tuple[Gang, ...]
    """The gangs that the object consists of, belongs to, or is used by."""
    siblings: tuple[Gang, ...]
    """All gangs of its PodCliqueSet, or the same as `gangs` if it has none."""

    @property
    def is_set(self) -> bool:
        """Is it a PodCliqueSet, or the object for which the set was created?"""
        return self.pcs is not None and self.ref in (self.pcs.ref, self.pcs.maker)

    @property
    def with_bases(self) -> list[Gang]:
        """`gangs` and the base gangs that they wait for, because the reasons of both are shown.

        If there are no gangs yet, the list has the future gang of the PodCliqueSet, or, without a
        PodCliqueSet, an empty gang.
        """
        gangs = list(self.gangs)
        names = {gang.ref.name for gang in gangs}
        for gang in self.gangs:
            bases = bases_of(gang).gangs if any(pod.gates for pod in gang.pods) else ()
            new = [base for base in bases if base.name not in names]
            names.update(base.name for base in new)
            gangs += [gang_of(self.index, base) for base in new]

        return gangs or [self._future_gang]

    @property
    def _future_gang(self) -> Gang:
        if self.pcs:
            return gang_to_come(self.index, self.pcs)
        return Gang(self.ref, Unit(self.ref.name), topology_of(self.index))


class _Match(Value, dict=True):
    """The gang, pods or PodCliques of the object that the user asks about.

    If all three are empty, the object stands for its whole PodCliqueSet.
    """

    place: Place
    """The object's place in Grove, with the name of its PodCliqueSet."""
    pods: Collection[Pod] = ()
    """The pods of the object, or the pods that use it."""
    cliques: Collection[str] = ()
    """The names of the PodCliques."""
    gang: Gang | None = None
    """The gang that the object stands for, or None."""

    def is_part_of(self, gang: Gang) -> bool:
        if self.gang:
            return gang.ref == self.gang.ref
        if self.pods:
            # The label counts too, because finished pods are not in the gang.
            names = {pod.name for pod in self.pods}
            labelled = any(pod.place.podgang == gang.ref.name for pod in self.pods)
            return labelled or any(pod.name in names for pod in gang.pods)
        return not self.cliques or any(member.name in self.cliques for member in gang.members)


def subject(index: Index, ref: Ref) -> Subject | None:
    """Return an object with its gangs, or None if the object is not in the facts."""
    match = _FINDERS[ref.kind](index, ref) if ref.kind in _FINDERS else None
    if not match:
        return None

    pcs = index.sets.get((ref.namespace, match.place.pcs))
    siblings = gangs_of_set(index, pcs) if pcs else ()
    gangs = tuple(gang for gang in siblings if match.is_part_of(gang))
    if gangs:
        return Subject(index, ref, pcs, gangs, siblings)

    if pcs and not match.gang:
        return Subject(index, ref, pcs, (), siblings)

    of_pods = map(itemgetter(0), gangs_of_pods(index, match.pods))
    alone = (match.gang, *_beside(index, match.gang)) if match.gang else tuple(of_pods)
    return Subject(index, ref, None, alone, alone)


def _beside(index: Index, gang: Gang) -> Iterator[Gang]:
    """Yield the pods of a gang's PodGroup that are in none of its SubGroups, each as a gang.

    Yield none if the gang lacks pods, because GangIncomplete then names these pods.
    """
    if gang.pod_group and (gang.whole.is_ready or gang.whole.is_satisfied):
        pods = outside_subgroups(index, gang.pod_group)
        yield from (each for each, _ in gangs_of_pods(index, pods))


def _of_set(index: Index, ref: Ref) -> _Match | None:
    return _Match(Place(ref.name)) if ref.key in index.sets else None


def _of_gang(index: Index, ref: Ref) -> _Match | None:
    pod_gang = index.gangs.get(ref.key)
    return _Match(pod_gang.place, gang=gang_of(index, pod_gang)) if pod_gang else None


def _of_clique(index: Index, ref: Ref) -> _Match | None:
    clique = index.cliques.get(ref.key)
    return _Match(clique.place, cliques=[clique.name]) if clique else None


def _of_scaling_group(index: Index, ref: Ref) -> _Match | None:
    # Scaling groups are not read. The labels of their PodCliques name them.
    cliques = [
        clique
        for clique in index.facts.cliques
        if (clique.namespace, clique.place.group_name) == ref.key
    ]
    return (
        _Match(cliques[0].place, cliques=[clique.name for clique in cliques]) if cliques else None
    )


def _of_pod(index: Index, ref: Ref) -> _Match | None:
    pod = index.pods.get(ref.key)
    return _Match(pod.place, [pod]) if pod else None


def _of_pod_group(index: Index, ref: Ref) -> _Match | None:
    group = index.pod_groups.get(ref.key)
    if not group:
        return _of_kubernetes_group(index, ref)
    made_of = index.remembered("gangs of PodGroups", lambda: _by_group(index)).get(group.key)
    if not made_of:
        return _Match(NOWHERE, gang=gang_of_pod_group(index, group))

    gangs = [gang_of(index, pod_gang) for pod_gang in made_of]
    place = made_of[0].place
    if len(gangs) == 1:
        return _Match(place, gang=gangs[0])
    return _Match(place, [pod for gang in gangs for pod in gang.pods])


def _of_kubernetes_group(index: Index, ref: Ref) -> _Match | None:
    """Find a PodGroup of Kubernetes by a name that no PodGroup of KAI has, or return None."""
    if ref.key not in index.workload_groups:
        return None
    pods = (pod for pod in index.facts.pods if pod.namespace == ref.namespace and pod.is_alive)
    return _Match(NOWHERE, [pod for pod in pods if pod.workload_group == ref.name])


def _by_group(index: Index) -> Mapping[Key, Sequence[PodGang]]:
    """Return the PodGangs by the key of their KAI PodGroup, sorted by name."""
    gangs = sorted(index.facts.gangs, key=lambda gang: gang.name)
    groups = ((gang_of(index, pod_gang).pod_group, pod_gang) for pod_gang in gangs)
    return by_key((group.key, pod_gang) for group, pod_gang in groups if group)


def _of_workload(index: Index, ref: Ref) -> _Match | None:
    pods = [pod for pod in index.facts.pods if index.workload_of(pod) == ref.key]
    return _Match(NOWHERE, pods) if pods or ref.key in index.workloads else None


def _of_unlisted_workload(index: Index, ref: Ref) -> _Match | None:
    """Find a workload that is not listed, such as a Job, by the pods that were created for it.

    Finished pods count only if there are no others. A workload without pods is found if its status
    was read, or if a warning or Kueue names it. Return None if it is not found.
    """
    pods = index.pods_made_for.get(ref, ())
    living = [pod for pod in pods if not pod.finished]
    is_there = pods or ref in index.workload_statuses or is_known(index, ref)
    return _Match(NOWHERE, living or pods) if is_there else None


def _of_graph(index: Index, ref: Ref) -> _Match | None:
    """Find a DynamoGraphDeployment by its PodCliqueSet, or else by its pods or its status."""
    made = next((pcs for pcs in index.facts.sets if pcs.maker == ref), None)
    return _Match(Place(made.name)) if made else _of_unlisted_workload(index, ref)


def _of_claim(index: Index, ref: Ref) -> _Match | None:
    claim = index.claims.get(ref.key)
    pods = index.pods_of_claim.get(ref.key, ())
    return _of_users(claim.place, pods) if claim else None


def _of_compute_domain(index: Index, ref: Ref) -> _Match | None:
    domain = index.compute_domains.get(ref.key)
    if not domain:
        return None
    template = domain.template or None
    pods = (pod for pod in index.facts.pods if pod.namespace == ref.namespace)
    return _of_users(
        domain.place,
        [pod for pod in pods if any(claim.template == template for claim in pod.claims)],
    )


def _of_users(place: Place, pods: Collection[Pod]) -> _Match:
    """Return the match of an object that pods use.

    The PodCliqueSet comes from these pods, or else from the object's own labels (`place`).
    """
    return _Match(next((pod.place for pod in pods if pod.place.pcs), place), pods)


USED = {"ResourceClaim", "ComputeDomain"}
"""The kinds of objects that pods use. Nothing is wrong with such an object if it has no pods."""

_FINDERS: Mapping[str, Callable[[Index, Ref], _Match | None]] = {
    "PodCliqueSet": _of_set,
    "PodCliqueScalingGroup": _of_scaling_group,
    "PodClique": _of_clique,
    "PodGang": _of_gang,
    "PodGroup": _of_pod_group,
    "Workload": _of_workload,
    "Pod": _of_pod,
    "ResourceClaim": _of_claim,
    "ComputeDomain": _of_compute_domain,
    **dict.fromkeys((resource.kind for resource in WORKLOAD_KINDS), _of_unlisted_workload),
    DYNAMO_GRAPH.kind: _of_graph,
}
"""The function that finds an object, by kind."""
