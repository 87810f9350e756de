"""Say which nodes may take a pod: by selectors, GPUs, taints, cordons, readiness and pressure."""

from collections.abc import Iterator
from itertools import chain

from app.base.groups import by_key
from app.explain.state.amounts import PREFIX, counts_as_gpu
from app.facts.kubernetes.gpu_sharing import MEMORY_LABEL
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Shape
from app.facts.kubernetes.selectors import Requirement, Taint, Term, Toleration
from app.facts.labels import MIG_ENABLED, MIG_STRATEGY
from app.objects.shape import integer_in

NAME_FIELD = "metadata.name"

NOT_READY = "not ready"
_PRESSURE = "with "
CORDONED = "cordoned"
BY = f"{CORDONED} by "
"""The words for a cordon that a component lifts itself, without the name of the component."""

OF_KUBERNETES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""The prefixes of taints that Kubernetes sets for the state of a node.

Pods that tolerate them would not run well there, and a removed taint comes back.
"""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""The only taint with such a prefix that an administrator adds and has to remove."""
_OF_AUTOSCALERS = (
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
)
"""The taints of nodes that an autoscaler is about to remove, with the pods on them."""
_OF_CLOUDS = (
    "aws-node-termination-handler/",
    "cloud.google.com/impending-node-termination",
    "remediator.aks.microsoft.com/unschedulable",
    "remediator.kubernetes.azure.com/unschedulable",
)
"""The prefixes of taints of nodes that their cloud is about to stop, such as spot instances."""
_STARTING = ("/agent-not-ready", "/not-ready", "/uninitialized", "karpenter.sh/unregistered")
_STARTING_PREFIX = "startup-taint.cluster-autoscaler.kubernetes.io/"

_CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""The taint that a pod must tolerate to be placed on a cordoned node, since KAI 0.18.

Up to 0.17, KAI places no pod on cordoned nodes: `pkg/scheduler/scheduler_util` at d5bc503a.
"""


def matches_any(terms: tuple[Term, ...], node: Node) -> bool:
    """Return whether one of the terms of a NodeSelector matches a node.

    An empty term matches no node, as in Kubernetes.
    """
    if len(terms) > _FEW_TERMS:
        return _many_terms(terms).match(node)
    return any(
        term and all(_holds(requirement, _value(requirement.key, node)) for requirement in term)
        for term in terms
    )


_FEW_TERMS = 4
"""The maximum number of terms that are evaluated for each node. More terms are compiled."""

_MOST_COMPILED = 16
"""The maximum number of compiled lists of terms in the cache."""

_MOST_VALUES = 4096
"""The maximum number of label values whose met requirements a compiled list caches."""


class _ManyTerms:
    """Terms whose requirements are evaluated once for each value of a label.

    Tenants decide on the number of terms, and each pod is compared with each node several times.
    Requirements are bits of an integer.
    """

    def __init__(self, terms: tuple[Term, ...]) -> None:
        self.terms = terms
        requirements = dict.fromkeys(chain.from_iterable(terms))
        bits = {requirement: 1 << number for number, requirement in enumerate(requirements)}
        self._bits = by_key(
            (requirement.key, (requirement, bits[requirement])) for requirement in bits
        )
        self._of_key = {key: sum(bit for _, bit in pairs) for key, pairs in self._bits.items()}
        self._needed = [
            sum(bits[requirement] for requirement in set(term)) for term in terms if term
        ]
        self._met: dict[tuple[str, str | None], int] = {}
        self._met_by_none = sum(self._met_by(key, None) for key in self._bits)

    def match(self, node: Node) -> bool:
        keys = self._bits.keys() & node.labels.keys()
        if NAME_FIELD in self._bits:
            keys.add(NAME_FIELD)
        met = self._met_by_none
        for key in keys:
            met = met & ~self._of_key[key] | self._met_by(key, _value(key, node))
        return any(needed & met == needed for needed in self._needed)

    def _met_by(self, key: str, value: str | None) -> int:
        """Return the bits of the requirements that a label with this value meets.

        None stands for a missing label.
        """
        met = self._met.get((key, value))
        if met is None:
            met = sum(bit for requirement, bit in self._bits[key] if _holds(requirement, value))
            if len(self._met) >= _MOST_VALUES:
                self._met.clear()
            self._met[key, value] = met
        return met


_compiled: dict[int, _ManyTerms] = {}
"""Compiled terms by the id of their tuple, whose hash takes as long as an evaluation."""


def _many_terms(terms: tuple[Term, ...]) -> _ManyTerms:
    found = _compiled.get(id(terms))
    if found is None or found.terms is not terms:
        found = _ManyTerms(terms)
        if len(_compiled) >= _MOST_COMPILED:
            _compiled.clear()
        _compiled[id(terms)] = found
    return found


def is_selected(shape: Shape, node: Node) -> bool:
    """Return whether the pod's node selector, required affinity and volumes allow this node."""
    if not all(
        _holds(requirement, _value(requirement.key, node)) for requirement in shape.selector
    ):
        return False
    if shape.affinity and not matches_any(shape.affinity, node):
        return False
    return all(matches_any(places, node) for places in shape.volumes)


def asks_gpus(shape: Shape) -> bool:
    """Return whether pods of this shape request GPUs of any kind."""
    return bool(shape.part) or any(counts_as_gpu(name) for name, _ in shape.requests)


BY_CLAIM = "whose GPUs DRA allocates, so that pods can't share them"
FOR_WHOLE = "only for whole GPUs (MIG strategy single)"
FOR_MIG = "only for MIG devices (MIG strategy mixed)"
KINDS_OF_GPUS = (BY_CLAIM, FOR_WHOLE, FOR_MIG)
"""The causes of `refused_by` that are about the kind of the node's GPUs."""


def refused_by(shape: Shape, node: Node) -> str:
    """Return why pods of this shape cannot use the GPUs of a node, otherwise "".

    The number of free GPUs does not count. See `PredicateByNodeResourcesType` in
    `pkg/scheduler/api/node_info/node_info.go` of KAI.
    """
    if not asks_gpus(shape):
        return ""
    if shape.part and any(name.startswith(PREFIX) for name in node.allocatable):
        return BY_CLAIM
    if shape.part and shape.part.memory and MEMORY_LABEL not in node.labels:
        return f"without the label {MEMORY_LABEL}"
    strategy = node.labels.get(MIG_STRATEGY) if _has_mig(node) else None
    is_for_mig = any("/mig-" in name for name, _ in shape.requests)
    if strategy == "single" and (shape.part or is_for_mig):
        return FOR_WHOLE
    if strategy == "mixed" and not is_for_mig:
        return FOR_MIG
    return ""


def _has_mig(node: Node) -> bool:
    label = node.labels.get(MIG_ENABLED)
    if label is not None:
        return label in ("1", "t", "T", "TRUE", "true", "True")
    return any("/mig-" in name and amount for name, amount in node.allocatable.items())


def unfit_because(shape: Shape, node: Node) -> str:
    """Return in a few words why new pods of this shape may not be bound to this node.

    Return "" if they may be bound to it once it has room.
    """
    return next(unfit_causes(shape, node), "")


def unfit_causes(shape: Shape, node: Node) -> Iterator[str]:
    """Yield in a few words each cause why new pods of this shape may not be bound to this node.

    Taints that Kubernetes sets because of another cause are not repeated.
    """
    if not node.ready:
        yield NOT_READY
    if node.unschedulable and not tolerates(shape.tolerations, _CORDON):
        yield f"{BY}{node.cordoned_by}" if node.cordoned_by else CORDONED
    if node.pressure and node.ready:
        yield f"{_PRESSURE}{node.pressure}"
    for taint in node.taints:
        if not tolerates(shape.tolerations, taint) and not _follows(taint, node):
            yield f"tainted {taint.key}"
    refused = refused_by(shape, node)
    if refused:
        yield refused
    if not is_selected(shape, node):
        yield "not selected by the pods"


def is_broken(cause: str) -> bool:
    """Return whether a cause means that the node is not ready or under pressure."""
    return cause == NOT_READY or cause.startswith(_PRESSURE)


def is_of_start(key: str) -> bool:
    """Return whether a taint is there until a component, such as the CNI's agent, has started.

    The component removes the taint. A pod that tolerates it would run without the component.
    """
    return key.endswith(_STARTING) or key.startswith(_STARTING_PREFIX)


def is_chosen(key: str) -> bool:
    """Return whether an administrator chose a taint: pods that may use the node tolerate it.

    Other taints describe the state of a node.
    """
    return not (key.startswith(OF_KUBERNETES) or removal_words(key) or is_of_start(key))


def removal_words(key: str) -> str:
    """Return what happens to a node with the taint `key` if the node is about to go, or ""."""
    if key in _OF_AUTOSCALERS:
        return "an autoscaler is removing"
    return "the cloud is about to stop" if key.startswith(_OF_CLOUDS) else ""


def _follows(taint: Taint, node: Node) -> bool:
    """Return whether Kubernetes has set a taint because of another cause in `unfit_causes`."""
    if not taint.key.startswith(OF_KUBERNETES) or taint.key == OUT_OF_SERVICE:
        return False
    of_cordon = node.unschedulable and taint.key == _CORDON.key
    return not node.ready or of_cordon or (bool(node.pressure) and taint.key.endswith("-pressure"))


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Return whether one of the tolerations tolerates a taint."""
    return any(
        toleration.effect in ("", taint.effect)
        and (
            (toleration.operator == "Exists" and toleration.key in ("", taint.key))
            or (
                toleration.operator == "Equal"
                and (toleration.key, toleration.value) == (taint.key, taint.value)
            )
        )
        for toleration in tolerations
    )


def _value(key: str, node: Node) -> str | None:
    return node.name if key == NAME_FIELD else node.labels.get(key)


def _holds(requirement: Requirement, value: str | None) -> bool:
    """Return whether the value of a label meets a requirement. None stands for a missing label."""
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def _compares(requirement: Requirement, value: str | None) -> bool:
    number, bound = (integer_in(text) for text in (value or "", "".join(requirement.values[:1])))
    if number is None or bound is None:
        return False
    return number > bound if requirement.operator == "Gt" else number < bound
