"""MNNVL claims that are missing: in PodCliques, in their pods, and soon if they are being deleted.

While no webhook answers, the next write of Grove's operator resets the spec of a PodClique to its
template, without the claim. The operator sees no difference afterwards, so it does not write again.
"""

from collections.abc import Sequence

from msgspec.structs import asdict

from app.facts.grove.annotations import MnnvlAnnotations, read_mnnvl
from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.kinds import POD_CLIQUE
from app.objects.metadata import annotations_of
from app.objects.shape import JsonMap, map_at, maps_at, text_at
from app.rules.mnnvl.claim import requests_gpus
from app.rules.mnnvl.plan import read_plan
from app.rules.mnnvl.wanted import (
    ClaimedClique,
    StoredMember,
    both_in_clique,
    own_entry,
    read_demand,
    read_member,
)

PUT_BACK = (
    "While the webhooks are registered, the leader puts the claim back within a minute; if not, the"
    " events of the PodCliqueSet state the reason. If they are switched off, switch them on."
)

REPLACE = (
    "Delete these Pods as soon as their workload can do without them: Grove's operator replaces"
    " them, and the new ones have the claim."
)

_ENABLED = MnnvlAnnotations("true")


class Unclaimed(StoredMember):
    """A stored PodClique that requests GPUs, has no claim of ours, and does not refuse one.

    `own` are its own annotations. `in_group` is whether it is in an MNNVL group of Grove.
    """

    own: MnnvlAnnotations
    in_group: bool


def read_clique(obj: JsonMap) -> ClaimedClique | Unclaimed | None:
    """Read a stored PodClique.

    Returns None if it has no claim of ours and can't need one.
    """
    return read_demand(obj) or read_unclaimed(obj)


def read_unclaimed(obj: JsonMap) -> Unclaimed | None:
    """Read a stored PodClique that has no claim of ours.

    Returns None if it can't need one: without GPUs, if its own annotation says so, and if a
    different claim has the name of ours.
    """
    own = read_mnnvl(annotations_of(obj))
    pod_spec = map_at(obj, "spec", "podSpec")
    if own.refuses or _has_claim(pod_spec) or not requests_gpus(pod_spec):
        return None

    metadata = map_at(obj, "metadata")
    member = read_member(obj, text_at(metadata, "namespace"))
    deleting = metadata.get("deletionTimestamp") is not None
    in_group = both_in_clique(obj, _ENABLED) is not None
    return Unclaimed(**asdict(member), deleting=deleting, own=own, in_group=in_group)


def lacks_claim(clique: Unclaimed, pcs: PodCliqueSet | None, *, reads_groups: bool) -> bool:
    """Return whether `clique` would get a claim of ours if it were written now.

    `pcs` is its PodCliqueSet, or None if that is not known. `reads_groups` is whether Grove reads
    its own MNNVL annotation: its groups then exclude our claim.
    """
    if pcs is None or not clique.is_of(pcs) or (reads_groups and clique.in_group):
        return False

    annotations = clique.own.over(pcs.mnnvl_at(clique.place))
    return annotations.enables and read_plan(clique, annotations, []) is not None


def clique_of_pod(pod: JsonMap) -> str:
    """Return the name of the PodClique that owns `pod`, or ""."""
    owners = maps_at(pod, "metadata", "ownerReferences")
    names = (text_at(owner, "name") for owner in owners if owner.get("kind") == POD_CLIQUE.kind)
    return next(names, "")


def runs_without_claim(pod: JsonMap) -> bool:
    """Return whether `pod` requests GPUs and has no claim of ours.

    False if it has finished or is being deleted.
    """
    spec = map_at(pod, "spec")
    return not is_ending(pod) and not _has_claim(spec) and requests_gpus(spec)


def is_ending(pod: JsonMap) -> bool:
    """Return whether `pod` has finished or is being deleted."""
    phase = map_at(pod, "status").get("phase")
    deleted = map_at(pod, "metadata").get("deletionTimestamp")
    return phase in ("Succeeded", "Failed") or deleted is not None


def reserving_pods(claim: JsonMap) -> set[str]:
    """Return the names of the Pods that reserve a ResourceClaim which is being deleted.

    Empty if it is not being deleted.
    """
    if not map_at(claim, "metadata").get("deletionTimestamp"):
        return set()

    consumers = maps_at(claim, "status", "reservedFor")
    return {
        text_at(consumer, "name") for consumer in consumers if consumer.get("resource") == "pods"
    }


def held_in_deletion(namespace: str, pods: Sequence[str]) -> tuple[str, str]:
    """Return the problem and the remedy for a claim that `pods` use while it is being deleted."""
    problem = f"is being deleted, and Pods {', '.join(pods)} still use it: no other Pod can get it"
    remedy = (
        f"Delete these Pods together: kubectl -n {namespace} delete pod {' '.join(pods)}. The claim"
        " is then gone, the leader creates it again, and the new Pods start."
    )
    return problem, remedy


def _has_claim(pod_spec: JsonMap) -> bool:
    return own_entry(maps_at(pod_spec, "resourceClaims")) is not None
