"""What keeps the Pods of a unit together, or apart: annotations, selectors and affinity.

LeaderWorkerSet and JobSet copy their annotations to Pods. KAI reads its own one from the top owner,
from the Jobs of a JobSet, and from some templates of Pods:
https://github.com/kai-scheduler/KAI-Scheduler/tree/d5bc503a/pkg/podgrouper/podgrouper/plugins
"""

from collections.abc import Sequence

from app.base.value import Value
from app.facts.kubernetes.gpus import gpus_of_pod
from app.facts.kubernetes.selectors import node_selector, required_affinity
from app.facts.unit_owners import OWNER_KINDS
from app.objects.owners import controller_of
from app.objects.shape import JsonMap, annotations_of, map_at, maps_at, text_at
from app.rules.topology.levels import HOSTNAME_KEY, NVLINK_DOMAIN
from app.rules.workload.kai_podgroup import TOPOLOGY_REQUIRED

_KEPT_TOGETHER = (*(kind.together for kind in OWNER_KINDS if kind.together), TOPOLOGY_REQUIRED)
"""The annotations that keep Pods within one domain of a level, by its node label."""


class Bounds(Value):
    """Where a Pod that asks for `gpus` may be, beside the others of its unit.

    They stay within one value of each of the node labels `levels`. `is_known` is whether everything
    above the Pod could be read. `is_apart` is whether some Pods may not share its node.
    """

    gpus: int
    levels: frozenset[str]
    is_known: bool
    is_apart: bool


def read_bounds(pod: JsonMap, above: Sequence[JsonMap]) -> Bounds:
    """Return the bounds of a Pod. `above` are its controllers, as far as they can be read."""
    spec = map_at(pod, "spec")
    affinity = map_at(spec, "affinity")
    levels = _topology_keys(affinity, "podAffinity")
    for term in (node_selector(spec), *required_affinity(spec)):
        chosen = {wish.key for wish in term if wish.operator == "In" and len(wish.values) == 1}
        levels |= chosen & {NVLINK_DOMAIN, HOSTNAME_KEY}
    for obj in (pod, *above):
        levels |= {text_at(annotations_of(obj), key) for key in _KEPT_TOGETHER}

    return Bounds(
        gpus_of_pod(spec).every,
        frozenset(filter(None, levels)),
        is_known=controller_of([pod, *above][-1]) is None,
        is_apart=HOSTNAME_KEY in _topology_keys(affinity, "podAntiAffinity"),
    )


def _topology_keys(affinity: JsonMap, name: str) -> set[str]:
    terms = maps_at(affinity, name, "requiredDuringSchedulingIgnoredDuringExecution")
    return {text_at(term, "topologyKey") for term in terms}
