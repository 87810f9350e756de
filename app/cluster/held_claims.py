"""Find MNNVL claims that Pods use although the claims are being deleted."""

from collections.abc import Iterable

from app.base.value import Value
from app.facts.kubernetes.pod_fields import PodForm
from app.kube.api import Key, Reader, Selection, each
from app.objects.resource import POD
from app.objects.shape import JsonMap, key_of
from app.rules.mnnvl.lost_claims import reserving_pods
from app.rules.mnnvl.missing_claims import is_ending


class Deletion(Value):
    """A claim that is being deleted while Pods reserve it."""

    claim: Key
    """The namespace and name of the claim."""
    pods: frozenset[str]
    """The names of the Pods that reserve the claim."""


def read_deletion(claim: JsonMap) -> Deletion | None:
    """Return the `Deletion` of a claim that is being deleted while Pods reserve it, or None."""
    pods = reserving_pods(claim)
    return Deletion(key_of(claim), frozenset(pods)) if pods else None


async def claims_held_in_deletion(
    client: Reader, deletions: Iterable[Deletion]
) -> list[tuple[Key, list[str]]]:
    """Return the claims in `deletions` that Pods still use, with the names of these Pods.

    Pods that have finished or are being deleted don't count, because they release the claim soon.
    Raise ClusterError if a request fails.
    """
    held = list(deletions)
    lasting = {
        namespace: await _lasting_pods(client, namespace)
        for namespace in sorted({deletion.claim[0] for deletion in held})
    }
    in_use = ((of.claim, sorted(of.pods & lasting[of.claim[0]])) for of in held)
    return [(claim, pods) for claim, pods in in_use if pods]


async def _lasting_pods(client: Reader, namespace: str) -> set[str]:
    """Return the names of the Pods that have not finished and are not being deleted."""
    pods = each(client, Selection(POD, namespace, form=PodForm))
    return {pod["metadata"]["name"] async for pod in pods if not is_ending(pod)}
