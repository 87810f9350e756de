"""Report PersistentVolumeClaims that are not bound, and volumes that only some nodes can use."""

import shlex
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from app.base.groups import by_key
from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.placing.demand import Demand
from app.explain.placing.fitness import is_selected, matches_any, unfit_because
from app.explain.placing.placements import EMPTIED, Placements
from app.explain.reasons.blocking_workloads import freeing_remedies, together
from app.explain.reasons.gates import grouped, refs
from app.explain.reasons.messages import words_about
from app.explain.reasons.obstacle import nodes_in_pool, obstacle_of, terms_words
from app.explain.reasons.reason import Evidence, Reasons, Who, about, amount, are, counted, listed
from app.explain.state.amounts import is_device, resources_of
from app.explain.state.index import Index
from app.explain.state.volumes import Tied, class_of, free_volumes, tied
from app.facts.identity import Ref
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.kubernetes.selectors import Term
from app.facts.kubernetes.volume import StorageClass, Volume, VolumeClaim


def _used_claims(gang: Gang) -> list[tuple[str, list[Pod]]]:
    """Return the names of the PersistentVolumeClaims that pending pods use, each with its pods."""
    return grouped((name, pod) for pod in gang.waiting for name in pod.volumes)


def claims_of(gang: Gang) -> list[VolumeClaim]:
    """Return the existing PersistentVolumeClaims that pending pods use."""
    known = (gang.index.volume_claims.get((gang.namespace, name)) for name, _ in _used_claims(gang))
    return [claim for claim in known if claim]


def volume_unbound(gang: Gang) -> Reasons:
    """Report that a PersistentVolumeClaim is missing, lost or being deleted, or is still not bound.

    An unbound claim is reported if its StorageClass does not wait for the pod
    (WaitForFirstConsumer), or if there is a warning about the claim.
    """
    for name, pods in _used_claims(gang):
        trouble = _problem_of(gang, name, pods)
        if trouble is not None:
            words, remedy, who = trouble
            use = counted(pods, "pod uses", "pods use")
            text = f"PersistentVolumeClaim {name}, which {use}, {words}"
            ref = Ref("PersistentVolumeClaim", gang.namespace, name)
            evidence = Evidence(ref, "status.phase", words)
            yield about(evidence, "VolumeUnbound", text, remedy, who, objects=refs(pods))


def _problem_of(gang: Gang, name: str, pods: Sequence[Pod]) -> tuple[str, str, Who] | None:
    """Return the problem of a claim, the remedy, and who can act, or None if there is none."""
    claim = gang.index.volume_claims.get((gang.namespace, name))
    if not claim and any(name in pod.ephemeral for pod in pods):
        see = f"kubectl describe pod -n {pods[0].namespace} {shlex.quote(pods[0].name)}"
        return (
            "does not exist yet, although Kubernetes should create it for the pod",
            f"Read the events of the pod to see why that fails: {see}",
            "you",
        )
    if not claim:
        return "does not exist", "Create the claim, or correct its name in the pod template", "you"
    if claim.deleting is not None:
        return (
            "is being deleted",
            f"Wait until {name} is gone: finalizers keep it while pods use it. Then create it"
            " again",
            "you",
        )
    if claim.phase == "Lost":
        return (
            f"has lost its volume {claim.volume}",
            "Restore the volume, or create the volume and the claim again",
            "you",
        )
    if claim.phase == "Bound":
        return None
    trouble = _why_pending(gang.index, claim)
    said = words_about(gang.index, claim.ref)
    if said is None:
        return trouble
    if trouble:
        words, remedy, who = trouble
        return f"{words}; {said.quoted(gang.facts.now)}", remedy, who
    see = f"kubectl describe pvc -n {claim.namespace} {shlex.quote(claim.name)}"
    remedy = f"Ask the platform team for the storage that the message names: {see}"
    return f"is not bound: {said.quoted(gang.facts.now)}", remedy, "platform"


def _why_pending(index: Index, claim: VolumeClaim) -> tuple[str, str, Who] | None:
    """Return the problem of an unbound claim, the remedy, and who can act.

    Return None if the StorageClass of the claim waits for the pod.
    """
    describe = f"kubectl describe pvc -n {claim.namespace} {shlex.quote(claim.name)}"
    if claim.storage_class == "":
        remedy = f"Ask the platform team for a matching PersistentVolume: {describe}"
        return "is not bound, and no provisioner creates volumes for it", remedy, "platform"

    storage = class_of(index, claim)
    if storage is None and claim.storage_class is None:
        return (
            "names no StorageClass, and there is no default",
            "Name a StorageClass in the claim: kubectl get storageclasses",
            "you",
        )
    if not storage:
        names = sorted(index.storage_classes)
        words = f"names StorageClass {claim.storage_class}, which does not exist"
        if not names:
            remedy = f"Ask the platform team for a StorageClass {claim.storage_class}"
            return f"{words}; the cluster has no StorageClass", remedy, "platform"
        others = f"the existing {are(names, 'one')} {listed(names)}"
        remedy = "Create the claim again with a StorageClass that exists"
        return f"{words}; {others}", remedy, "you"
    if storage.waits:
        return None

    words = f"is not bound, and StorageClass {storage.name} binds volumes before pods are placed"
    remedy = f"Ask the platform team why the claim has no volume: {describe}"
    return words, remedy, "platform"


def by_hand(gang: Gang) -> bool:
    """Return whether claims of pending pods wait for volumes that are created by hand."""
    return any(_class_by_hand(gang.index, claim) for claim in claims_of(gang))


def _class_by_hand(index: Index, claim: VolumeClaim) -> StorageClass | None:
    """Return the class of an unbound claim if it waits for the pod and creates no volumes.

    Return None otherwise.
    """
    storage = class_of(index, claim) if claim.phase == "Pending" else None
    return storage if storage and storage.waits and not storage.provisions else None


def volume_not_free(gang: Gang) -> Reasons:
    """Report that claims wait for volumes that are created by hand, and too few are available."""
    competing: list[tuple[VolumeClaim, Sequence[Volume]]] = []
    next_pods = {pod.key for pod in gang.whole.next_pods()}
    for name, pods in _used_claims(gang):
        claim = gang.index.volume_claims.get((gang.namespace, name))
        storage = _class_by_hand(gang.index, claim) if claim else None
        if claim is None or storage is None:
            continue
        free = free_volumes(gang.index, claim, storage)
        if free:
            if any(pod.key in next_pods for pod in pods):
                competing.append((claim, free))
            continue
        use = counted(pods, "pod uses", "pods use")
        none = "no PersistentVolume of it is available"
        such = f"class {storage.name}"
        if storage.name in gang.index.free_volumes:
            labels = terms_words([claim.selector]) if claim.selector else ""
            asks = listed(filter(None, (amount("storage", claim.size), *claim.modes, labels)))
            none = f"no available PersistentVolume of it matches the claim ({asks})"
            such += f" with {asks}"
        text = (
            f"PersistentVolumeClaim {name}, which {use}, is not bound: StorageClass {storage.name}"
            f" creates no volumes, and {none}"
        )
        remedy = f"Ask the platform team for another PersistentVolume of {such}: kubectl get pv"
        evidence = Evidence(claim.ref, "status.phase", claim.phase)
        yield about(evidence, "VolumeUnbound", text, remedy, "platform", objects=refs(pods))
    yield from _too_few_volumes(competing)


_MOST_CLAIMS = 64
"""The maximum number of claims for which this module tries whether each gets another volume."""


def _too_few_volumes(competing: Sequence[tuple[VolumeClaim, Sequence[Volume]]]) -> Reasons:
    """Report that claims, each with the volumes that match it, can't all get their own volume."""
    if len(competing) > _MOST_CLAIMS:
        return
    taken: dict[str, int] = {}

    def gets(at: int, tried: set[str]) -> bool:
        for volume in competing[at][1]:
            if volume.name not in tried:
                tried.add(volume.name)
                if volume.name not in taken or gets(taken[volume.name], tried):
                    taken[volume.name] = at
                    return True
        return False

    served = sum(gets(at, set()) for at in range(len(competing)))
    missing = len(competing) - served
    if not missing:
        return
    first, _ = competing[0]
    names = listed(claim.name for claim, _ in competing)
    volumes = counted(
        served, "available PersistentVolume matches", "available PersistentVolumes match"
    )
    text = (
        f"PersistentVolumeClaims {names} need a volume each, but only {volumes} them, and their"
        " StorageClass creates no volumes"
    )
    more = counted(missing, "more PersistentVolume", "more PersistentVolumes")
    remedy = f"Ask the platform team for {more} for these claims: kubectl get pv"
    evidence = Evidence(first.ref, "status.phase", first.phase)
    objects = tuple(claim.ref for claim, _ in competing)
    yield about(evidence, "VolumeUnbound", text, remedy, "platform", objects=objects)


# Volumes that only some nodes can use.


class _Excluded(Value):
    """A pending pod with a volume that only some nodes can use."""

    pod: Pod
    """The pending pod."""
    shape: Shape
    """The shape of the pod, with the nodes that can use each of its volumes."""
    volume: Tied
    """The PersistentVolumeClaim, and the nodes that can use its volume."""
    alone: Placements
    """The placements of the pod by itself."""

    @property
    def places(self) -> tuple[Term, ...]:
        """The terms of nodes that can use the volume. A node needs to meet only one of them."""
        return self.volume.places


def volume_elsewhere(gang: Gang) -> Reasons:
    """Report that pods could be placed, but not on the nodes that can use their volumes."""
    obstacle = obstacle_of(gang)
    if not obstacle or not any(shape.volumes for shape, _ in obstacle.demand.shapes):
        return
    is_lost = any(
        shape.volumes and not _usable(gang, shape.volumes) for shape, _ in obstacle.demand.shapes
    )
    anywhere = gang.placements_of(obstacle.demand.changed(_without_volumes))
    if not is_lost and not anywhere.now.fits:
        return  # Other reasons explain it, because it would not fit without volumes either.

    every = list(_excluded(gang))
    excluded = [each for each in every if not each.alone.now.fits] or every
    # A volume that no node can use is the cause, even if the pod has other volumes.
    nodes = gang.index.nodes
    unusable = [
        each for each in excluded if not any(matches_any(each.places, node) for node in nodes)
    ]
    excluded = unusable or excluded
    if not excluded:
        return
    first = excluded[0]
    claim = first.volume.claim
    words, remedy, who = _why_excluded(gang, first)
    has = f"is bound to volume {claim.volume}"
    if claim.phase != "Bound":
        has = f"gets a volume of {_class_words(claim)}"
    where = f"only nodes with {terms_words(first.places)} can use"
    text = f"PersistentVolumeClaim {claim.name} {has}, which {where}, {words}"
    others = len({each.volume.claim.key for each in excluded}) - 1
    if others:
        text += f"; {counted(others, 'other claim has', 'other claims have')} the same problem"
    evidence = Evidence(claim.ref, "spec.volumeName", claim.volume)
    yield about(evidence, "VolumeElsewhere", text, remedy, who, objects=(gang.ref,))


def _class_words(claim: VolumeClaim) -> str:
    name = claim.storage_class
    return f"StorageClass {name}" if name else "the default StorageClass"


def _without_volumes(part: Demand) -> Demand:
    pods = tuple((replace(shape, volumes=()), count) for shape, count in part.pods)
    return replace(part, pods=pods)


def _usable(gang: Gang, volumes: Sequence[tuple[Term, ...]]) -> list[Node]:
    """Return the nodes that can use all these volumes."""
    return [
        node for node in gang.index.nodes if all(matches_any(places, node) for places in volumes)
    ]


_MOST_TRIED = 20
"""The maximum number of pods with volumes that are tried individually."""


def _excluded(gang: Gang) -> Iterator[_Excluded]:
    """Yield each volume of pending pods that only some nodes can use, sorted by pod name."""
    pods = [
        (pod, shape)
        for member in gang.members
        for pod, shape in zip(member.pods, member.shapes, strict=True)
        if shape.volumes and not pod.node
    ]
    for pod, shape in sorted(pods, key=lambda each: each[0].name)[:_MOST_TRIED]:
        alone = gang.placements_of(Demand(pod.name, "", ((shape, 1),)))
        for volume in tied(gang.index, pod):
            yield _Excluded(pod, shape, volume, alone)


def _why_excluded(gang: Gang, excluded: _Excluded) -> tuple[str, str, Who]:
    """Return why the nodes that can use a volume don't take its pod, the remedy, and who can act.

    The cause continues a sentence about these nodes, such as `and the pods do not select them`.
    """
    shape = excluded.shape
    move = _how_to_move(gang.index, excluded.volume.claim)
    nodes = _usable(gang, shape.volumes)
    if not nodes:
        if _usable(gang, [excluded.places]):
            return (
                "and no node can use all volumes of the pod",
                f"Use volumes that one node can use together{move}",
                "you",
            )
        return (
            "and there is no such node",
            "Ask the platform team to add or restore a node with"
            f" {terms_words(excluded.places)}{move}",
            "platform",
        )

    names = listed(node.name for node in nodes)
    in_pool = {node.name for node in nodes_in_pool(excluded.alone)}
    inside = [node for node in nodes if node.name in in_pool]
    if not inside:
        return (
            f"and these ({names}) are not in the gang's node pool",
            f"Ask the platform team to add such a node to the pool{move}",
            "platform",
        )

    own = replace(shape, volumes=())
    closed = {node.name: why for node in inside if (why := unfit_because(own, node))}
    if len(closed) == len(inside):
        by_why = by_key((why, name) for name, why in closed.items())
        each = listed(f"{listed(names)} ({why})" for why, names in by_why.items())
        if not any(is_selected(own, node) for node in inside):
            return (
                f"and the pods do not select them ({names})",
                f"Change the pod template to select nodes that can use the volume{move}",
                "you",
            )
        return (
            f"and these take no pods: {each}",
            f"Ask the platform team to open {listed(closed)}{move}",
            "platform",
        )

    open_ = [node for node in inside if node.name not in closed]
    names = listed(node.name for node in open_)
    if not excluded.alone.under(EMPTIED).fits:
        lacks = _lacking(shape, open_)
        why = f" (too little {lacks})" if lacks else ""
        larger = (
            f"Ask the platform team for a node with {terms_words(excluded.places)} that is"
            " large enough for the pod"
        )
        return (
            f"and {names} {'is' if len(open_) == 1 else 'are'} too small for the pod, even if"
            f" empty{why}",
            f"{larger}{move}",
            "platform",
        )
    has = "has" if len(open_) == 1 else "have"
    if excluded.alone.now.fits:
        return (
            f"and {names} {has} room for the pod, but the gang does not fit with it there",
            f"Use volumes on nodes with room for the whole gang{move}",
            "you",
        )
    users = [pod for node in open_ for pod in gang.index.pods_on.get(node.name, ())]
    devices = set(filter(is_device, resources_of([shape])))
    holding = [pod for pod in users if not devices or devices & dict(pod.shape.requests).keys()]
    helps, who = freeing_remedies(gang, holding or users, 1, f" on {names}")
    return f"and {names} {has} no room for the pod", f"{together(*helps)}{move}", who


def _lacking(shape: Shape, nodes: Sequence[Node]) -> str:
    """Return the names of the resources of which no node has enough for a pod, as text."""
    return listed(
        name
        for name, ask in shape.requests
        if all(node.allocatable.get(name, 0) < ask for node in nodes)
    )


def _how_to_move(index: Index, claim: VolumeClaim) -> str:
    """Return the end of a remedy, which says how to get a volume that other nodes can use."""
    if claim.phase != "Bound":
        return ", or use another StorageClass"
    storage = class_of(index, claim)
    late = ""
    if not storage or not storage.waits:
        late = " with a StorageClass that waits for the pod (WaitForFirstConsumer)"
    return (
        f". Or copy the volume's data, and create PersistentVolumeClaim {claim.name} again{late}:"
        " the new volume is then created where there is room"
    )
