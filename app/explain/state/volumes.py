"""Find the PersistentVolumeClaims that limit a pod to some nodes."""

from collections.abc import Iterator, Sequence

from app.base.value import Value
from app.explain.state.index import Index
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.selectors import Requirement, Term
from app.facts.kubernetes.volume import StorageClass, Volume, VolumeClaim


class Tied(Value):
    """A PersistentVolumeClaim whose volume only some nodes can use."""

    claim: VolumeClaim
    places: tuple[Term, ...]
    """The node terms of its volume, or of the StorageClass that will create the volume.

    If volumes of the class are created by hand, they are the terms of the free volumes that match
    the claim. A node must meet one of them.
    """


def class_of(index: Index, claim: VolumeClaim) -> StorageClass | None:
    """Return the StorageClass of a claim, or None if the claim has none or it does not exist.

    A claim without the field `storageClassName` gets the default class. A claim whose field is ""
    has no class.
    """
    if claim.storage_class is not None:
        return index.storage_classes.get(claim.storage_class)
    return next((known for known in index.facts.storage_classes if known.is_default), None)


def tied(index: Index, pod: Pod) -> Iterator[Tied]:
    """Yield the claims of a pod whose volumes only some nodes can use.

    An unbound claim counts only if its StorageClass binds volumes after a node has been chosen
    (WaitForFirstConsumer), and has allowed topologies or creates no volumes.
    """
    for name in pod.volumes:
        claim = index.volume_claims.get((pod.namespace, name))
        if claim is None:
            continue
        places: tuple[Term, ...] = ()
        if claim.phase == "Bound":
            volume = index.volumes.get(claim.volume)
            places = volume.places if volume else ()
        else:
            storage = class_of(index, claim)
            if storage and storage.waits:
                made = () if storage.provisions else _places_of_free(index, claim, storage)
                places = made or storage.places
        if places:
            yield Tied(claim, places)


def free_volumes(index: Index, claim: VolumeClaim, storage: StorageClass) -> list[Volume]:
    """Return the available volumes of a StorageClass that match an unbound claim."""
    return [volume for volume in index.free_volumes.get(storage.name, ()) if claim.matches(volume)]


def _places_of_free(index: Index, claim: VolumeClaim, storage: StorageClass) -> tuple[Term, ...]:
    volumes = index.free_volumes.get(storage.name, ())
    own = claim.key if any(volume.reserved for volume in volumes) else ()
    key = ("places of free volumes", storage.name, claim.size, claim.modes, claim.selector, own)
    return index.remembered(key, lambda: _joined(free_volumes(index, claim, storage)), {"volumes"})


def _joined(volumes: Sequence[Volume]) -> tuple[Term, ...]:
    """Return the node terms of volumes, or () if any node can use one of them.

    Terms with only values of one label are joined, because each local disk names its own node.
    """
    if not all(volume.places for volume in volumes):
        return ()
    values: dict[str, dict[str, None]] = {}
    others: dict[Term, None] = {}
    for term in (term for volume in volumes for term in volume.places):
        if len(term) == 1 and term[0].operator == "In":
            values.setdefault(term[0].key, {}).update(dict.fromkeys(term[0].values))
        else:
            others[term] = None
    joined = ((Requirement(key, "In", tuple(found)),) for key, found in values.items())
    return (*joined, *others)
