"""Which facts belong together, and what groups of them come to. The key "" stands for nothing, so it has no group."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from app.explain.facts.common import Amounts
from app.explain.facts.devices import Event
from app.explain.facts.grove import PodClique, PodGang
from app.explain.facts.nodes import Node
from app.explain.facts.pods import Pod
from app.explain.groups import Join
from app.explain.words import gpus_of

Key = tuple[str, str]
"""(namespace, name)"""


class Named(Protocol):
    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...


def key_of(obj: Named) -> Key:
    return obj.namespace, obj.name


def requests(pods: Iterable[Pod]) -> dict[str, int]:
    """What pods ask for together."""
    total: dict[str, int] = {}
    for pod in pods:
        for name, amount in pod.shape.requests:
            total[name] = total.get(name, 0) + amount
    return total


def requests_of_lasting(pods: Iterable[Pod]) -> dict[str, int]:
    return requests(pod for pod in pods if pod.deleting is None)


def gpus(pods: Iterable[Pod]) -> int:
    return gpus_of(requests(pods))


def added(requested: Mapping[str, Amounts], devices: Mapping[str, Amounts]) -> Mapping[str, Amounts]:
    """Requests of pods and amounts of devices together, by node name."""
    sums = {node: Counter(amounts) + Counter(requested.get(node, {})) for node, amounts in devices.items()}
    return {**requested, **sums} if sums else requested


def added_gpus(requested: Mapping[str, int], devices: Mapping[str, Amounts]) -> Mapping[str, int]:
    """Like `added`, of GPUs only."""
    sums = {node: requested.get(node, 0) + gpus_of(amounts) for node, amounts in devices.items()}
    return {**requested, **sums} if sums else requested


def _key(namespace: str, name: str) -> Sequence[Key]:
    return [(namespace, name)] if name else ()


def _set_of(obj: PodGang | PodClique | Pod) -> Sequence[Key]:
    return _key(obj.namespace, obj.place.pcs)


def _node_of(pod: Pod) -> Sequence[str]:
    return [pod.node] if pod.node and not pod.finished else ()


def _latest_first(event: Event) -> tuple[float, str, str]:
    return -(event.time or 0.0), event.reason, event.message


GANGS_OF_SET: Join[Key, PodGang] = Join("gangs", _set_of, key_of)
CLIQUES_OF_SET: Join[Key, PodClique] = Join("cliques", _set_of, key_of)
PODS_OF_SET: Join[Key, Pod] = Join("pods", _set_of, key_of)
PODS_OF_CLIQUE: Join[Key, Pod] = Join("pods", lambda pod: _key(pod.namespace, pod.place.clique), key_of)
PODS_OF_OWNER: Join[str, Pod] = Join(
    "pods", lambda pod: [pod.owner] if pod.owner and not pod.place.clique else (), key_of
)
PODS_OF_GROUP: Join[Key, Pod] = Join("pods", lambda pod: _key(pod.namespace, pod.group), key_of)
PODS_OF_CLAIM: Join[Key, Pod] = Join(
    "pods", lambda pod: [(pod.namespace, claim.claim) for claim in pod.claims if claim.claim], key_of
)
PODS_ON_NODE: Join[str, Pod] = Join("pods", _node_of, key_of)
TERMINATING_ON_NODE: Join[str, Pod] = Join(
    "pods", lambda pod: _node_of(pod) if pod.deleting is not None else (), key_of
)
EVENTS_OF_OBJECT: Join[str, Event] = Join("events", lambda event: [event.uid] if event.uid else (), _latest_first)


def have_the_same(nodes: Sequence[Node], earlier: Sequence[Node]) -> bool:
    """Whether they are the same nodes with the same resources; labels, taints and conditions may differ."""
    if len(nodes) != len(earlier):
        return False
    pairs = zip(nodes, earlier, strict=True)
    return all(node.name == other.name and node.allocatable == other.allocatable for node, other in pairs)


def left(has: tuple[int, ...], used: Amounts, names: tuple[str, ...]) -> tuple[int, ...]:
    """What is left of the amounts `has` of the resources `names`."""
    return tuple([amount - used.get(name, 0) for amount, name in zip(has, names, strict=True)])
