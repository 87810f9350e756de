"""Which policies compare items of an object with each other, which costs the square of their number.

A real API server shows whether that is too dear: `tests/integration/test_policy_costs.py`.
"""

import re
from typing import Any

import pytest

from app.config.schema import Configuration
from app.webhooks.policies import SUFFIX, admission_policies, queue_policies

_LOOP = re.compile(r"\.(?:filter|map|exists|all)\(\w, ")
_INNER = re.compile(r"\.(?:filter|map|exists|all)\(\w, |[iI]ndexOf\(| in variables\.")

FEW = {
    "topology-guard": "one user is looked for",
    "clustertopology-levels": "its CRD allows 7 levels",
    "queue-guard-podgroups": "lastFormer is empty unless three queues were named",
    "queue-guard-podcliquesets": "lastFormer is empty unless three queues were named",
    "queue-guard-podcliques": "lastFormer is empty unless three queues were named",
    "queue-guard-workloads": "lastFormer is empty unless three queues were named",
    "queue-guard-pods": "lastFormer is empty unless three queues were named",
    "queue-guard-owners": "lastFormer is empty unless three queues were named",
    "queue-guard-bindings": "lastFormer is empty unless three queues were named",
}
"""Policies that compare only a few items, and why these are few."""


def _body(expression: str, start: int) -> str:
    """Return what follows `start` up to the parenthesis that closes the one before it."""
    depth = 1
    for position in range(start, len(expression)):
        depth += {"(": 1, ")": -1}.get(expression[position], 0)
        if depth == 0:
            return expression[start:position]
    raise ValueError(expression)


def compares(expression: str) -> bool:
    """Whether a loop of `expression` has another loop, or a search in a list, in it."""
    return any(_INNER.search(_body(expression, loop.end())) for loop in _LOOP.finditer(expression))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a.filter(x, x != '')", False),
        ("a.filter(x, x != '').map(y, y)", False),
        ("a.filter(x, b.exists(y, y == x))", True),
        ("a.filter(x, x in variables.b)", True),
        ("a.filter(x, a.indexOf(x) != 1)", True),
    ],
)
def test_a_loop_in_a_loop_is_found(expression: str, expected: bool) -> None:
    assert compares(expression) is expected


def _every() -> list[dict[str, Any]]:
    """Return all policies that are parts of a request's verdict."""
    objects = [
        *admission_policies(Configuration()),
        *queue_policies(Configuration(), "refuse", "kai-scheduler"),
    ]
    return [
        obj
        for obj in objects
        if "variables" in obj["spec"] and not obj["metadata"]["name"].startswith("queue-missing")
    ]


def _name(policy: dict[str, Any]) -> str:
    return str(policy["metadata"]["name"].removesuffix(SUFFIX))


@pytest.mark.parametrize("policy", _every(), ids=_name)
def test_whatever_is_compared_with_each_other_is_few(policy: dict[str, Any]) -> None:
    spec = policy["spec"]
    # what only a message uses is evaluated for one offender
    is_dear = any(compares(" ".join(item["expression"].split())) for item in spec["variables"])
    conditions = {item["name"] for item in spec.get("matchConditions", ())}
    is_bounded = "not-too-many" in conditions
    assert is_dear is (is_bounded or _name(policy) in FEW)
