"""Report background pods that KAI evicts to make room for a gang."""

from collections.abc import Mapping, Sequence
from operator import attrgetter

from app.base.groups import by_key
from app.explain.gangs.gang import Gang
from app.explain.placing.placements import Assumption
from app.explain.reasons.reason import Evidence, Reasons, about, counted, listed
from app.explain.state.amounts import requests
from app.explain.state.index import Index
from app.facts.kubernetes.pod import Pod
from app.facts.labels import KAI_BACKGROUND

_MOST_NAMED = 3


def background_pods(gang: Gang) -> Reasons:
    """Report that the gang fits now only if KAI evicts background pods."""
    pods = _pods_to_evict(gang)
    if not pods:
        return
    names = listed((f"{pod.namespace}/{pod.name} on {pod.node}" for pod in pods), _MOST_NAMED)
    run = counted(pods, "background pod runs", "background pods run")
    text = (
        f"{run} where the gang would be placed ({names}). KAI 0.18 and later evict background pods"
        " to make room"
    )
    these = "this pod" if len(pods) == 1 else "these pods"
    remedy = f"Ask the platform team to stop {these} if KAI is older than 0.18"
    refs = tuple(pod.ref for pod in pods)
    evidence = Evidence(refs[0], f"metadata.labels[{KAI_BACKGROUND}]", "true")
    yield about(evidence, "BackgroundPods", text, remedy, "platform", severity="note", objects=refs)


def _pods_to_evict(gang: Gang) -> Sequence[Pod]:
    """Return the background pods whose room KAI needs to place a gang now, or () if none."""
    placements = gang.placements
    if not gang.is_of_kai or not gang.waiting or not placements.now.fits:
        return ()
    of_nodes = _background_pods(gang.index)
    at = placements.domains.positions
    full = {at[name] for name in of_nodes if name in at and not _fits_without_eviction(gang, name)}
    pods = [
        pod
        for name in sorted(placements.now.nodes)
        for pod in of_nodes.get(name, ())
        if at[name] in full
    ]
    others = frozenset(range(len(placements.domains.nodes))) - full
    if pods and placements.under(Assumption(only=others)).fits:
        return ()  # KAI prefers nodes on which it need not evict any pod.
    return pods


def _background_pods(index: Index) -> Mapping[str, Sequence[Pod]]:
    """Return the living background pods of each node that has some, by node name."""

    def look() -> Mapping[str, Sequence[Pod]]:
        pods = (pod for pod in index.facts.pods if pod.background and pod.node and pod.is_alive)
        return by_key((pod.node, pod) for pod in sorted(pods, key=attrgetter("key")))

    return index.remembered("background pods", look, ["pods", "shards"])


def _fits_without_eviction(gang: Gang, name: str) -> bool:
    """Return whether a node has room for each single pod of a gang next to its background pods.

    `name` is the name of a node with background pods.
    """
    placements = gang.placements
    used = requests(_background_pods(gang.index)[name])
    free = placements.free(placements.domains.positions[name])
    left = {resource: free[resource] - used.get(resource, 0) for resource in free}
    asked = (dict(shape.requests) for shape in placements.shapes)
    return all(left[resource] >= asks[resource] for asks in asked for resource in asks)
