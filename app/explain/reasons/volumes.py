"""Reasons about PersistentVolumeClaims that must be bound before pods are placed."""

import shlex

from app.explain.gangs.gang import Gang
from app.explain.reasons.gates import grouped, refs
from app.explain.reasons.messages import words_about
from app.explain.reasons.reason import Evidence, Reasons, Who, about, counted, listed
from app.explain.state.index import Index
from app.facts.identity import Ref
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.volume import StorageClass, VolumeClaim


def _named(gang: Gang) -> list[tuple[str, list[Pod]]]:
    """Return the PersistentVolumeClaims that pending pods use, with these pods."""
    return grouped((name, pod) for pod in gang.waiting for name in pod.volumes)


def volume_unbound(gang: Gang) -> Reasons:
    """A PersistentVolumeClaim that must be bound before pods are placed is missing or unbound."""
    for name, pods in _named(gang):
        trouble = _trouble(gang, name)
        if trouble is not None:
            words, remedy, who = trouble
            use = counted(pods, "pod uses", "pods use")
            text = f"PersistentVolumeClaim {name}, which {use}, {words}"
            ref = Ref("PersistentVolumeClaim", gang.namespace, name)
            evidence = Evidence(ref, "status.phase", words)
            yield about(evidence, "VolumeUnbound", text, remedy, who, objects=refs(pods))


def _trouble(gang: Gang, name: str) -> tuple[str, str, Who] | None:
    """Return the problem of a claim, the remedy, and who can act, or None if there is
    no problem.
    """
    claim = gang.index.volume_claims.get((gang.namespace, name))
    if not claim:
        return "does not exist", "Create it, or correct its name in the pod templates", "you"
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
            "Restore the volume, or create both again",
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
    """Return what `_trouble` returns for a claim that is not bound."""
    describe = f"kubectl describe pvc -n {claim.namespace} {shlex.quote(claim.name)}"
    if claim.storage_class == "":
        remedy = f"Ask the platform team for a matching PersistentVolume: {describe}"
        return "is not bound, and no provisioner creates volumes for it", remedy, "platform"

    storage = _class_of(index, claim)
    if storage is None and claim.storage_class is None:
        return "names no StorageClass, and there is no default", "Name a StorageClass", "you"
    if not storage:
        names = sorted(index.storage_classes)
        words = f"names StorageClass {claim.storage_class}, which does not exist"
        if not names:
            remedy = f"Ask the platform team for a StorageClass {claim.storage_class}"
            return f"{words}; there is none", remedy, "platform"
        others = f"there are {listed(names)}"
        return f"{words}; {others}", "Create the claim again with one that exists", "you"
    if storage.waits:
        return None

    words = f"is not bound, and StorageClass {storage.name} binds before pods are placed"
    return words, f"Find out why its volume was not created: {describe}", "platform"


def _class_of(index: Index, claim: VolumeClaim) -> StorageClass | None:
    """Return the StorageClass of a claim, or else the default StorageClass."""
    if claim.storage_class is not None:
        return index.storage_classes.get(claim.storage_class)
    return next((known for known in index.facts.storage_classes if known.is_default), None)
