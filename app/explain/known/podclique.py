"""PodCliques, with what rules about claims know of them."""

from app.facts.grove.podcliqueset import LastError, read_last_errors
from app.facts.kubernetes.pod import ONLY_A_POD, PodClaim, Shape, read_pod_claims, read_shape
from app.facts.named import NOWHERE, Namespaced, Place, read_key, read_place
from app.objects.shape import JsonMap, int_of, map_at, text_at
from app.rules.mnnvl.missing import Unclaimed, read_clique


class PodClique(Namespaced):
    """A PodClique. `shape` and `claims` are those of its pod template.

    `unclaimed` is what decides whether it should have a claim for MNNVL, None if it has one or
    can't need one.
    """

    kind = "PodClique"
    uid: str = ""
    place: Place = NOWHERE
    replicas: int = 1
    scheduled: int = 0
    shape: Shape = ONLY_A_POD
    claims: tuple[PodClaim, ...] = ()
    errors: tuple[LastError, ...] = ()
    unclaimed: Unclaimed | None = None


def read_pod_clique(obj: JsonMap) -> PodClique:
    metadata = map_at(obj, "metadata")
    spec = map_at(obj, "spec")
    pod_spec = map_at(spec, "podSpec")
    status = map_at(obj, "status")
    clique = read_clique(obj)
    return PodClique(
        *read_key(metadata),
        uid=text_at(metadata, "uid"),
        place=read_place(map_at(metadata, "labels")),
        replicas=int_of(spec.get("replicas"), 1),
        scheduled=int_of(status.get("scheduledReplicas")),
        shape=read_shape(pod_spec),
        claims=read_pod_claims(pod_spec),
        errors=read_last_errors(status),
        unclaimed=clique if isinstance(clique, Unclaimed) else None,
    )
