"""Find PodCliques and Pods that lack an MNNVL claim.

While our webhooks are not registered, the next write of Grove's operator resets the spec of a
PodClique to its template, without the claim. The operator sees no difference afterwards, so it does
not write again.
"""

from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.grove.unit_member import (
    Unclaimed,
    read_carrier,
    read_carrier_of_pod,
    unclaimed,
)
from app.facts.kinds import POD_CLIQUE
from app.objects.shape import JsonMap, map_at, maps_at, text_at
from app.rules.mnnvl.claim_holders import ClaimedMember, claimed
from app.rules.mnnvl.plan import read_plan


def read_clique(obj: JsonMap) -> ClaimedMember | Unclaimed | None:
    """Read a stored PodClique, or return None if it lacks our claim and cannot need it."""
    carrier = read_carrier(obj, text_at(map_at(obj, "metadata"), "namespace"))
    return unclaimed(carrier) if carrier.claim is None else claimed(carrier)


def lacks_claim(clique: Unclaimed, pcs: PodCliqueSet | None, *, reads_groups: bool) -> bool:
    """Return whether `clique` would get our claim if it were written now.

    `pcs` is the PodCliqueSet of `clique`. If it is None, the result is False. `reads_groups` is
    true if Grove reads `grove.io/mnnvl-group`: a PodClique in such a group does not get our claim.
    """
    if pcs is None or not clique.is_of(pcs) or (reads_groups and clique.foreign_group):
        return False

    annotations = clique.annotations.over(pcs.mnnvl_at(clique.place))
    _, problems = read_plan(clique, annotations)
    return annotations.enables and not problems


def clique_of_pod(pod: JsonMap) -> str:
    """Return the name of the PodClique that owns `pod`, or ""."""
    owners = maps_at(pod, "metadata", "ownerReferences")
    names = (text_at(owner, "name") for owner in owners if owner.get("kind") == POD_CLIQUE.kind)
    return next(names, "")


def runs_without_claim(pod: JsonMap) -> bool:
    """Return whether `pod` is alive, requests GPUs and lacks our claim."""
    if is_ending(pod):
        return False
    carrier = read_carrier_of_pod(pod, "")
    return carrier.claim is None and bool(carrier.containers)


def is_ending(pod: JsonMap) -> bool:
    """Return whether `pod` has finished or is being deleted."""
    phase = map_at(pod, "status").get("phase")
    deleted = map_at(pod, "metadata").get("deletionTimestamp")
    return phase in ("Succeeded", "Failed") or deleted is not None
