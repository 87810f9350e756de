"""The fitness of a node for a pod.

It depends on selectors, affinity, taints, cordons and readiness, as the scheduler judges.
"""

from collections.abc import Mapping

from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Shape
from app.facts.kubernetes.selectors import Requirement, Taint, Term, Toleration

NAME_FIELD = "metadata.name"


def matches_any(terms: tuple[Term, ...], node: Node) -> bool:
    """Return whether one of the terms of a NodeSelector holds.

    An empty term holds nowhere, as in Kubernetes.
    """
    return any(term and all(_holds(requirement, node) for requirement in term) for term in terms)


def is_selected(shape: Shape, node: Node) -> bool:
    """Return whether the pod's node selector and required affinity allow this node."""
    if not all(_holds(requirement, node) for requirement in shape.selector):
        return False
    return not shape.affinity or matches_any(shape.affinity, node)


def unfit_because(shape: Shape, node: Node) -> str:
    """Return why new pods of this shape may not be bound to this node.

    It is one or a few words; "" if they may, if it has room.
    """
    if not node.ready:
        return "not ready"
    if node.unschedulable:
        return "cordoned"
    if node.pressure:
        return f"with {node.pressure}"
    for taint in node.taints:
        if not _tolerates(shape.tolerations, taint):
            return f"tainted {taint.key}"
    return "" if is_selected(shape, node) else "not selected by the pods"


def _tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
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


def _holds(requirement: Requirement, node: Node) -> bool:
    labels: Mapping[str, str] = node.labels
    value = node.name if requirement.key == NAME_FIELD else labels.get(requirement.key)
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
    try:
        difference = int(value or "") - int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return difference > 0 if requirement.operator == "Gt" else difference < 0
