"""Reads which Pods use an MNNVL claim and which run without one, because nobody watches them.

Pods are read in pages, and only their names are kept.
"""

from collections.abc import Iterable

from app.facts.labels import PODGANG
from app.kube.api import Key, Object, Reader, Selection, pages
from app.objects.resource import POD
from app.objects.shape import key_of
from app.rules.mnnvl.missing import clique_of_pod, is_ending, reserving_pods, runs_without_claim


async def pods_without_claim(client: Reader, namespaces: Iterable[str]) -> dict[Key, list[str]]:
    """Return the Pods that request GPUs and have no claim, by namespace and PodClique.

    Raise ClusterError.
    """
    found: dict[Key, list[str]] = {}
    for namespace in sorted(set(namespaces)):
        async for page in pages(client, Selection(POD, namespace, labels=PODGANG)):
            for pod in filter(runs_without_claim, page.items):
                key = (namespace, clique_of_pod(pod))
                found.setdefault(key, []).append(pod["metadata"]["name"])
    return found


async def claims_held_in_deletion(
    client: Reader, claims: Iterable[Object]
) -> list[tuple[Object, list[str]]]:
    """Return those of `claims` that are being deleted while Pods hold them, each with these Pods.

    A Pod that is being deleted itself doesn't count: it gives the claim up soon. Raises
    ClusterError.
    """
    held = [(claim, pods) for claim in claims if (pods := reserving_pods(claim))]
    lasting = {
        namespace: await _lasting_pods(client, namespace)
        for namespace in sorted({key_of(claim)[0] for claim, _ in held})
    }
    in_use = ((claim, sorted(pods & lasting[key_of(claim)[0]])) for claim, pods in held)
    return [(claim, pods) for claim, pods in in_use if pods]


async def _lasting_pods(client: Reader, namespace: str) -> set[str]:
    return {
        pod["metadata"]["name"]
        async for page in pages(client, Selection(POD, namespace))
        for pod in page.items
        if not is_ending(pod)
    }
