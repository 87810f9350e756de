"""Find MNNVL claims that Pods use although the claims are being deleted."""

from collections.abc import Iterable

from app.facts.kubernetes.pod_fields import PodForm
from app.kube.api import Object, Reader, Selection, pages
from app.objects.resource import POD
from app.objects.shape import key_of
from app.rules.mnnvl.lost_claims import reserving_pods
from app.rules.mnnvl.missing_claims import is_ending


async def claims_held_in_deletion(
    client: Reader, claims: Iterable[Object]
) -> list[tuple[Object, list[str]]]:
    """Return the claims that are being deleted while Pods use them, with the names of these Pods.

    Pods that have finished or are being deleted don't count, because they release the claim soon.
    Raise ClusterError if a request fails.
    """
    held = [(claim, pods) for claim in claims if (pods := reserving_pods(claim))]
    lasting = {
        namespace: await _lasting_pods(client, namespace)
        for namespace in sorted({key_of(claim)[0] for claim, _ in held})
    }
    in_use = ((claim, sorted(pods & lasting[key_of(claim)[0]])) for claim, pods in held)
    return [(claim, pods) for claim, pods in in_use if pods]


async def _lasting_pods(client: Reader, namespace: str) -> set[str]:
    """Return the names of the Pods that have not finished and are not being deleted."""
    return {
        pod["metadata"]["name"]
        async for page in pages(client, Selection(POD, namespace, form=PodForm))
        for pod in page.items
        if not is_ending(pod)
    }
