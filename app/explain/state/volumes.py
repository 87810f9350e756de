"""Find the PersistentVolumeClaims that limit a pod to some nodes."""

from collections.abc import Iterator

from app.base.value import Value
from app.explain.state.index import Index
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.selectors import Term
from app.facts.kubernetes.volume import StorageClass, VolumeClaim


class Tied(Value):
    """A PersistentVolumeClaim whose volume only some nodes can use."""

    claim: VolumeClaim
    places: tuple[Term, ...]
    """The node terms of its volume, or of the StorageClass that will create the volume.

    A node must meet one of them.
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

    An unbound claim counts only if its StorageClass has allowed topologies, and binds volumes after
    a node has been chosen (WaitForFirstConsumer).
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
            places = storage.places if storage and storage.waits else ()
        if places:
            yield Tied(claim, places)
