"""Which nodes may take a pod.

Tests `app/explain/placing/fitness.py` and `app/facts/kubernetes/selectors.py`.
"""

import pytest
from msgspec.structs import replace

from app.explain.placing.fitness import matches_any, unfit_because
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Shape
from app.facts.kubernetes.selectors import Requirement, Taint, Term, Toleration

NODE = Node("n1", {"gpu": "h100", "generation": "9", "serial": "1_000"}, {"pods": 110_000})
DRAIN = Taint("drain", "now", "NoSchedule")


@pytest.mark.parametrize(
    ("term", "holds"),
    [
        ((Requirement("gpu", "In", ("a100", "h100")),), True),
        ((Requirement("gpu", "In", ("a100",)),), False),
        ((Requirement("gpu", "NotIn", ("a100",)),), True),
        ((Requirement("gpu", "NotIn", ("h100",)),), False),
        ((Requirement("gpu", "Exists"),), True),
        ((Requirement("zone", "Exists"),), False),
        ((Requirement("zone", "DoesNotExist"),), True),
        ((Requirement("gpu", "DoesNotExist"),), False),
        ((Requirement("generation", "Gt", ("8",)),), True),
        ((Requirement("generation", "Gt", ("9",)),), False),
        ((Requirement("generation", "Lt", ("10",)),), True),
        ((Requirement("generation", "Lt", ("9",)),), False),
        ((Requirement("gpu", "Gt", ("8",)),), False),
        ((Requirement("generation", "Gt"),), False),
        ((Requirement("serial", "Gt", ("8",)),), False),
        ((Requirement("generation", "Lt", ("1_0",)),), False),
        ((Requirement("gpu", "Like", ("h",)),), False),
        ((Requirement("metadata.name", "In", ("n1",)),), True),
        ((Requirement("gpu", "Exists"), Requirement("zone", "Exists")), False),
        ((), False),
    ],
)
def test_a_term_of_a_selector(term: Term, holds: bool) -> None:
    assert matches_any((term,), NODE) is holds


@pytest.mark.parametrize(
    ("node", "shape", "why"),
    [
        (NODE, Shape(), ""),
        (replace(NODE, ready=False), Shape(), "not ready"),
        (replace(NODE, unschedulable=True), Shape(), "cordoned"),
        (replace(NODE, taints=(DRAIN,)), Shape(), "tainted drain"),
        (
            replace(NODE, taints=(DRAIN,)),
            Shape(tolerations=(Toleration("drain", "Exists", "", ""),)),
            "",
        ),
        (
            replace(NODE, taints=(DRAIN,)),
            Shape(tolerations=(Toleration("", "Exists", "", ""),)),
            "",
        ),
        (
            replace(NODE, taints=(DRAIN,)),
            Shape(tolerations=(Toleration("drain", "Equal", "now", "NoSchedule"),)),
            "",
        ),
        (
            replace(NODE, taints=(DRAIN,)),
            Shape(tolerations=(Toleration("drain", "Equal", "later", ""),)),
            "tainted drain",
        ),
        (
            replace(NODE, taints=(DRAIN,)),
            Shape(tolerations=(Toleration("drain", "Exists", "", "NoExecute"),)),
            "tainted drain",
        ),
        (NODE, Shape(selector=(Requirement("gpu", "In", ("a100",)),)), "not selected by the pods"),
        (
            NODE,
            Shape(
                affinity=((Requirement("gpu", "In", ("a100",)),), (Requirement("gpu", "Exists"),))
            ),
            "",
        ),
    ],
)
def test_why_a_node_takes_no_pods(node: Node, shape: Shape, why: str) -> None:
    assert unfit_because(shape, node) == why
