"""Create gangs from PodGangs, from KAI PodGroups that no PodGang owns, and from other pods."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from app.base.groups import by_key
from app.explain.gangs.gang import Gang, Member, Pods, Unit
from app.explain.state.amounts import asked_gpus
from app.explain.state.index import Index
from app.explain.state.levels import topology_of
from app.explain.state.snapshot import key_of
from app.explain.state.volumes import tied
from app.facts.constraint import UNBOUND
from app.facts.grove.podclique import PodClique
from app.facts.grove.podcliqueset import SetWithStatus
from app.facts.grove.podgang import GangPart, PodGang, PodGangMap
from app.facts.identity import Ref
from app.facts.kai.podgroup import KaiPodGroup, SubGroup
from app.facts.kinds import JOB_SET, LEADER_WORKER_SET
from app.facts.kubernetes.pod import NO_SHAPE, Pod, Shape
from app.facts.labels import KAI_SCHEDULER
from app.objects.resource import JOB, STATEFUL_SET

MOST_DEPTH = 16
"""The maximum number of levels of SubGroups that are read.

The functions that read them are recursive. KAI's own workloads have three levels.
"""


def gangs_of_set(index: Index, pcs: SetWithStatus) -> tuple[Gang, ...]:
    """Return the gangs of the existing PodGangs of a set, sorted by name."""
    pod_gangs = index.gangs_of_set.get(pcs.key, ())
    return tuple(gang_of(index, pod_gang) for pod_gang in pod_gangs)


def gang_to_come(index: Index, pcs: SetWithStatus) -> Gang:
    """Return the gang of a set that has no PodGang yet.

    It has no pods, but its constraints can be checked.
    """
    return Gang(pcs.ref, Unit(pcs.name), topology_of(index, pcs.topology_name), pcs=pcs)


def gang_of(index: Index, pod_gang: PodGang) -> Gang:
    """Return the gang of a PodGang, with its PodCliques, pods and KAI PodGroup."""
    pcs = index.sets.get((pod_gang.namespace, pod_gang.place.pcs))
    topology = topology_of(index, pod_gang.topology or (pcs.topology_name if pcs else ""))
    parts = (replace(part, told=topology.by_keys(part.told)) for part in pod_gang.parts)
    members = {part.name: _member_of_part(index, pod_gang, part) for part in parts}
    grouped = [
        Unit(
            group.name,
            topology.by_keys(group.told),
            tuple(members.pop(name) for name in group.parts if name in members),
        )
        for group in pod_gang.groups
    ]
    told = topology.by_keys(pod_gang.told)
    whole = Unit(pod_gang.name, told, tuple(members.values()), tuple(grouped))

    return Gang(
        pod_gang.ref, whole, topology, pod_gang, index.pod_group_of(pod_gang, whole.pods), pcs
    )


def _member_of_part(index: Index, pod_gang: PodGang, part: GangPart) -> Member:
    """Return the member for `part`, a podgroup of a PodGang, with the pods of this podgroup."""
    name = part.name
    # Grove names the podgroup like its PodClique.
    clique = index.cliques.get((pod_gang.namespace, name))
    own = pods_of_part(index, pod_gang, name)
    pods = _alive(own)
    replicas = max(part.minimum, len(pods))
    template = NO_SHAPE
    if clique:
        entries = index.map_of(pod_gang)
        shares = _shares(index, entries).get(name, {}) if entries else {}
        if len(shares) > 1:
            replicas = shares.get(pod_gang.epoch, replicas)
        elif len(own) == len(index.pods_of_clique(pod_gang.namespace, name)):
            replicas = clique.replicas
        template = _shape_of(index, clique)

    shape, shapes = _asked(index, pods, template)
    return Member(name, part.minimum, replicas, shape, pods, part.told, clique, shapes)


def _shares(index: Index, entries: PodGangMap) -> Mapping[str, Mapping[str, int]]:
    """Return how many pods of each PodClique should be in each epoch, by PodClique and epoch."""
    return index.remembered(("shares", entries.key), entries.shares, ["gang_maps"])


_MOST_GANGS = 10
"""The maximum number of PodGangs of one PodClique that get the pods without a valid label.

Tenants can name the same PodClique in any number of PodGangs.
"""


def pods_of_part(index: Index, pod_gang: PodGang, name: str) -> Sequence[Pod]:
    """Return the pods of a PodClique that are in a PodGang.

    A PodClique outside of scaling groups may have pods in several PodGangs. The label of each pod
    names its PodGang (https://github.com/ai-dynamo/grove/pull/799). If that PodGang does not exist
    or does not have the PodClique, the pod is in each of the first _MOST_GANGS PodGangs that have
    the PodClique. If only one PodGang has the PodClique, it has all pods.
    """
    pods = index.pods_of_clique(pod_gang.namespace, name)
    gangs = index.gangs_of_part.get((pod_gang.namespace, name), ())
    if len(gangs) <= 1:
        return pods

    def look() -> Mapping[str, Sequence[Pod]]:
        names = {gang.name for gang in gangs}
        labels = ((pod.place.podgang, pod) for pod in pods)
        return by_key((label if label in names else "", pod) for label, pod in labels)

    key = ("pods by PodGang", pod_gang.namespace, name)
    of_gang = index.remembered(key, look, ["pods", "cliques", "gangs"])
    own = of_gang.get(pod_gang.name, ())
    if pod_gang.name not in {gang.name for gang in gangs[:_MOST_GANGS]}:
        return own
    return sorted((*own, *of_gang.get("", ())), key=key_of)


def _asked(index: Index, pods: Pods, template: Shape = NO_SHAPE) -> tuple[Shape, tuple[Shape, ...]]:
    """Return the shape of pods that do not exist yet, and the shape of each of `pods`.

    The first shape is the shape of an existing pod if there is one, preferably a pending pod,
    because webhooks may have added requests to it. Otherwise, it is the shape of the template.
    """
    shapes = tuple(_shape_of(index, pod) for pod in pods)
    waiting = (shape for pod, shape in zip(pods, shapes, strict=True) if not pod.node)
    return next(waiting, shapes[0] if shapes else template), shapes


def _shape_of(index: Index, user: Pod | PodClique) -> Shape:
    """Return the shape of a pod or PodClique, with the GPUs that its claims request.

    Claims that are already allocated do not count, because their GPUs count as used. Claims that
    several pods share do not count either. The shape of a pending pod also has the nodes that can
    use its volumes.
    """
    shape = _with_claims(index, user)
    if isinstance(user, Pod) and user.volumes and not user.node:
        volumes = tuple(volume.places for volume in tied(index, user))
        return replace(shape, volumes=volumes) if volumes else shape
    return shape


def _with_claims(index: Index, user: Pod | PodClique) -> Shape:
    shape = _without_names(index, user.shape)
    if not user.claims:
        return shape
    asked: Counter[str] = Counter()
    for claim in user.claims:
        stored = index.claims.get((user.namespace, claim.claim))
        template = index.claim_templates.get((user.namespace, claim.template))
        is_shared = (
            template is None and len(index.pods_of_claim.get((user.namespace, claim.claim), ())) > 1
        )
        if not is_shared and not (stored and stored.allocated):
            made = stored or template
            asked.update(asked_gpus(made.classes if made is not None else (), index.device_classes))

    if not asked:
        return shape

    requests = asked + Counter(dict(shape.requests))
    return replace(shape, requests=tuple(sorted(requests.items())))


def _without_names(index: Index, shape: Shape) -> Shape:
    """Return a shape whose requests for GPUs by the name of a DeviceClass count like claims.

    Requests for other devices by such a name are left out, because their number is not known.
    """
    named = [name for name, _ in shape.requests if name in index.claimed]
    if not named:
        return shape
    requests: Counter[str] = Counter()
    for name, ask in shape.requests:
        requests[index.claimed.get(name, name)] += ask
    del requests[""]
    return replace(shape, requests=tuple(sorted(requests.items())))


def gang_of_pod_group(index: Index, group: KaiPodGroup) -> Gang:
    """Return the gang of a KAI PodGroup that no PodGang owns.

    The parts of the gang are the SubGroups. Without SubGroups, the gang has one part with all pods.
    """
    pods = _alive(index.pods_of_group.get(group.key, ()))
    topology = topology_of(index, group.topology)
    subgroups = tuple(
        replace(sub, told=topology_of(index, sub.topology or group.topology).by_keys(sub.told))
        for sub in group.subgroups
    )
    group = replace(group, told=topology.by_keys(group.told), subgroups=subgroups)
    return Gang(group.ref, unit_of_pod_group(index, group, pods), topology, pod_group=group)


def gang_of_pod(index: Index, pod: Pod) -> Gang:
    """Return the gang of a single pod."""
    shape = _shape_of(index, pod)
    member = Member(pod.name, 1, 1, shape, (pod,), shapes=(shape,))
    return Gang(pod.ref, Unit(pod.name, UNBOUND, (member,)), topology_of(index))


def unit_of_pod_group(index: Index, group: KaiPodGroup, pods: Pods) -> Unit:
    """Return the parts of a KAI PodGroup, with `pods`, as a tree."""
    if group.subgroups:
        return _nested(index, group, pods)
    replicas = max(group.minimum, len(pods))
    shape, shapes = _asked(index, pods)
    if len(pods) < group.minimum:
        elsewhere = pods_of_other_schedulers(index, group, pods)
        shape = _shape_of(index, elsewhere[0]) if elsewhere else shape
    member = Member(group.name, group.minimum, replicas, shape, pods, shapes=shapes)
    return Unit(group.name, group.told, (member,))


def pods_of_other_schedulers(index: Index, group: KaiPodGroup, pods: Iterable[Pod]) -> list[Pod]:
    """Return the living pods of a PodGroup's workload that use another scheduler.

    KAI doesn't count these pods, and they name no PodGroup. Each has the same owner as one of
    `pods` or as the PodGroup, or its owner is in the same JobSet, MPIJob or group of a
    LeaderWorkerSet as the owner of one of `pods`.
    """

    def look() -> Mapping[tuple[str, object], Sequence[Pod]]:
        return by_key(
            ((pod.namespace, maker), pod)
            for pod in index.facts.pods
            if pod.scheduler != KAI_SCHEDULER and not pod.group and pod.is_alive
            for maker in _makers(pod)
        )

    of_maker = index.remembered("pods of other schedulers", look, ["pods"])
    makers = dict.fromkeys([*chain.from_iterable(map(_makers, pods)), *group.owners])
    found = (of_maker.get((group.namespace, maker), ()) for maker in makers)
    return list({pod.key: pod for pod in chain.from_iterable(found)}.values())


def _makers(pod: Pod) -> Iterator[str | Ref]:
    """Yield the uid of a pod's owner, and references that the pods of one workload share.

    A pod of a JobSet yields the JobSet. A pod of an MPIJob yields the MPIJob, even if the pod is
    the launcher, which a Job owns. A pod of a LeaderWorkerSet yields the name of the leader pod of
    its group, which is also the name of the StatefulSet of the group's workers.
    """
    if pod.owner:
        yield pod.owner
    maker = pod.controller
    for ref in pod.made_for:
        if ref.kind == JOB_SET.kind:
            yield ref
        elif ref.kind == LEADER_WORKER_SET.kind and maker and maker.kind == STATEFUL_SET.kind:
            yield replace(ref, name=pod.name if maker.name == ref.name else maker.name)
    if maker and maker.kind == "MPIJob":
        yield maker
    elif maker and maker.kind == JOB.kind and maker.name.endswith("-launcher"):
        yield Ref("MPIJob", maker.namespace, maker.name.removesuffix("-launcher"))


def _nested(index: Index, group: KaiPodGroup, pods: Pods) -> Unit:
    """Return the tree of the SubGroups of a PodGroup.

    SubGroups with an unknown parent, or whose parents form a cycle, are under no root, so they are
    omitted. SubGroups without a name, with the name of an earlier SubGroup, or below level
    MOST_DEPTH are omitted too.
    """
    subgroups = _distinct(group.subgroups)
    inside = by_key((sub.parent, sub) for sub in subgroups)
    pods_of = by_key((pod.subgroup or _DEFAULT_SUBGROUP, pod) for pod in pods)

    def unit(whole: SubGroup, parent: str, depth: int) -> Unit:
        """Return a unit for `whole`, whose parts are the SubGroups with the parent `parent`."""
        children = inside.get(parent, [])
        nested = inside if depth < MOST_DEPTH else ()
        optional = whole.needed is not None and whole.needed < len(children)
        members = tuple(
            _member_of_subgroup(index, sub, pods_of.get(sub.name, ()), optional=optional)
            for sub in children
            if sub.name not in nested
        )
        units = tuple(unit(sub, sub.name, depth + 1) for sub in children if sub.name in nested)
        return Unit(whole.name, whole.told, members, units, whole.needed)

    return unit(SubGroup(group.name, told=group.told, needed=group.needed), "", 1)


def gangs_of_pods(index: Index, pods: Iterable[Pod]) -> Iterator[tuple[Gang, Pod]]:
    """Yield the gangs of `pods`, each with the first of `pods` in it, by namespace and name.

    Pods that name an existing KAI PodGroup are in its gang, unless they are outside its SubGroups.
    Every other pod is its own gang.
    """
    seen: set[Ref] = set()
    for pod in sorted(pods, key=lambda pod: pod.key):
        group = index.pod_groups.get((pod.namespace, pod.group))
        if group and is_outside_subgroups(index, group, pod):
            group = None
        ref = group.ref if group else pod.ref
        if ref not in seen:
            seen.add(ref)
            yield (gang_of_pod_group(index, group) if group else gang_of_pod(index, pod)), pod


def leaves_of(index: Index, group: KaiPodGroup) -> Collection[str]:
    """Return the names of the SubGroups without children, in their order.

    KAI adds pods only to these SubGroups.
    """

    def look() -> Mapping[str, None]:
        subgroups = _distinct(group.subgroups)
        parents = {sub.parent for sub in subgroups}
        return dict.fromkeys(sub.name for sub in subgroups if sub.name not in parents)

    # A tenant may create thousands of SubGroups, and as many pods.
    return index.remembered(("leaves", group.key), look, ["pod_groups"])


def is_outside_subgroups(index: Index, group: KaiPodGroup, pod: Pod) -> bool:
    """Return whether a pod of a PodGroup is pending and names none of its SubGroups.

    KAI ignores such a pod (`AddTaskInfo` in `pkg/scheduler/api/podgroup_info/job_info.go`). Return
    False for pods of Grove, whose SubGroups follow the PodGang within seconds.
    """
    if pod.node or not pod.is_alive or not group.subgroups or pod.place.podgang:
        return False
    return (pod.subgroup or _DEFAULT_SUBGROUP) not in leaves_of(index, group)


_DEFAULT_SUBGROUP = "default"
"""The SubGroup to which KAI adds pods without a label that names one."""


def outside_subgroups(index: Index, group: KaiPodGroup) -> list[Pod]:
    """Return the pods of a PodGroup for which `is_outside_subgroups` is true."""
    pods = index.pods_of_group.get(group.key, ())
    return [pod for pod in pods if is_outside_subgroups(index, group, pod)]


def _distinct(subgroups: Iterable[SubGroup]) -> list[SubGroup]:
    """Return the first SubGroup with each name. SubGroups without a name are skipped."""
    by_name: dict[str, SubGroup] = {}
    for sub in subgroups:
        by_name.setdefault(sub.name, sub)

    by_name.pop("", None)
    return list(by_name.values())


def _member_of_subgroup(
    index: Index, sub: SubGroup, pods: Iterable[Pod], *, optional: bool
) -> Member:
    """Return the member of a SubGroup without children, with its `pods`.

    With `optional`, pods that do not exist do not count as missing.
    """
    own = tuple(pods)
    replicas = len(own) if optional else max(sub.minimum, len(own))
    shape, shapes = _asked(index, own)
    return Member(sub.name, sub.minimum, replicas, shape, own, sub.told, shapes=shapes)


def _alive(pods: Iterable[Pod]) -> Pods:
    return tuple(pod for pod in pods if pod.is_alive)
