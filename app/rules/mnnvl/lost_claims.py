"""Describe lost MNNVL claims and their remedies, for audit and doctor.

A claim is lost if it is missing, or if Pods use it although it is being deleted.
"""

from collections.abc import Sequence

from app.facts.identity import Key
from app.facts.labels import GROVE_CLIQUE_NAME, MNNVL_ENABLED
from app.objects.shape import JsonMap, annotations_of, labels_of, map_at, maps_at, text_at
from app.rules.mnnvl.missing_claims import is_ending

PUT_BACK = (
    "Make sure that the webhooks are registered (kubectl get mutatingwebhookconfigurations"
    " grove-admission), and that the workload is not in a namespace that they skip: kube-system, or"
    " that of grove-admission. The leader then restores the claim within a minute. If it does not,"
    " see the events of the PodCliqueSet."
)
"""The remedy for a PodClique without its claim."""


REPLACE = (
    "Delete each Pod without the claim when its workload can spare it: Grove's operator replaces"
    " the Pod, and the new one gets the claim."
)
"""The remedy for Pods that lack the claim of their PodClique."""


WITHOUT_CLAIM = (
    "requests MNNVL but has no claim, because no webhook injected one when it was created: it does"
    " not share the ComputeDomain of its unit"
)
"""The problem of a Pod outside of PodCliques that requests MNNVL and has no claim."""


def replacement_of(pod: Key) -> str:
    """Return the remedy for the Pod `pod`, (namespace, name), which has no claim."""
    namespace, name = pod
    return (
        "Delete the Pod when its workload can spare it, so that a new one gets the claim: kubectl"
        f" -n {namespace} delete pod {name}"
    )


def asks_for_claim(pod: JsonMap) -> bool:
    """Return whether `pod` requests MNNVL itself, and has neither finished nor is being deleted."""
    asks = annotations_of(pod).get(MNNVL_ENABLED) == "true"
    return asks and GROVE_CLIQUE_NAME not in labels_of(pod) and not is_ending(pod)


def reserving_pods(claim: JsonMap) -> set[str]:
    """Return the names of the Pods that use a ResourceClaim while it is being deleted."""
    if not map_at(claim, "metadata").get("deletionTimestamp"):
        return set()

    consumers = maps_at(claim, "status", "reservedFor")
    return {
        text_at(consumer, "name") for consumer in consumers if consumer.get("resource") == "pods"
    }


def held_in_deletion(namespace: str, pods: Sequence[str]) -> tuple[str, str]:
    """Return the problem and the remedy for a claim that `pods` use while it is being deleted."""
    use, these = (
        ("Pod {} still uses", "this Pod")
        if len(pods) == 1
        else (
            "Pods {} still use",
            "these Pods together",
        )
    )
    problem = f"is being deleted, but {use.format(', '.join(pods))} it: no other Pod can get it"
    remedy = (
        f"Delete {these}: kubectl -n {namespace} delete pod {' '.join(pods)}. The"
        " claim is then deleted, the leader creates it again, and the new Pods start."
    )
    return problem, remedy
