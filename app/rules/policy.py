"""Rules in CEL, which an API server evaluates itself: their values, without the objects of its API.

A file `*policy.py` or `policies.py` beside a rule has the rule in CEL. A test proves that both give
the same verdicts. Expressions use only what Kubernetes 1.30 knows, without optional fields, so that
other implementations of CEL can evaluate them too.

Source: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
"""

import json
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Literal

from msgspec import field

from app.base.value import Value
from app.objects.resource import Resource

WRITES = ("CREATE", "UPDATE")
"""The operations that can make an object invalid."""

NOT_BEING_DELETED = {
    "not-being-deleted": "request.operation != 'UPDATE' || !has(object.metadata.deletionTimestamp)"
}
"""The condition that finalizers can be removed from an object that is being deleted."""


class PolicyDemand(Value):
    """What an object must not have: the list that the expression `offenders` gives is empty.

    `message` is an expression for people, about the first offender, `variables.NAME[0]`. `short`
    stands in for a message that an API server can't show, because it is too long or has a line
    break. `details` are variables that only the message uses. If `unless` is the name of a
    variable, offenders are allowed while that is true.
    """

    name: str
    offenders: str
    message: str
    short: str
    unless: str = ""
    details: Mapping[str, str] = field(default_factory=dict)
    reason: Literal["Invalid", "Forbidden"] = "Invalid"


class Levels(Value):
    """Where expressions find the levels of a topology.

    The expression `domains` is the list of their domains, and `name` the name of the topology.
    """

    domains: str
    name: str


LEVELS_OF_PARAMETER = Levels("params.spec.levels.map(l, l.domain)", "params.metadata.name")


class Policy(Value):
    """Demands on the objects of one or more resources of one API group and version.

    `path` is that of the webhook with the same rules. `variables` are expressions by name, each of
    which may use those before it. `conditions` are expressions that all must be true, else the
    policy says nothing.

    `parameter` is the resource whose objects are the parameters. If `parameter_name` is "", each of
    its objects is one. If `fails_closed`, a request that can't be judged is refused. If `label` is
    not "", only objects that have this label are looked at, or had it before an update. With
    `with_status`, writes of the status are looked at too: API servers take labels from them.
    """

    name: str
    path: str
    resources: tuple[Resource, ...]
    operations: tuple[str, ...]
    demands: tuple[PolicyDemand, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    parameter: Resource | None = None
    parameter_name: str = ""
    fails_closed: bool = False
    label: str = ""
    with_status: bool = False


class Uncovered(Value):
    """What the webhook at `path` does, and no policy: `what`, and why not.

    If it is a refusal, `sign` is a text that is in each such finding, and in no others.
    """

    path: str
    what: str
    why: str
    sign: str = ""


def text(value: str) -> str:
    """Return `value` as a literal of CEL."""
    return json.dumps(value)


def texts(values: Sequence[str]) -> str:
    """Return `values` as a list of CEL."""
    return f"[{', '.join(map(text, values))}]"


def sentence(template: str, **values: str) -> str:
    """Return the expression of a text.

    It is `template`, with the expressions `values` in place of the names in braces.
    """
    parts: list[str] = []
    for literal, name, _, _ in Formatter().parse(template):
        if literal:
            parts.append(text(literal))
        if name:
            parts.append(f"({values[name]})")
    return " + ".join(parts)


def value_or(path: str, default: str) -> str:
    """Return the expression of the field at `path` (`object.spec.levels`).

    It is `default` if the field or one above it is missing. The first step always exists.
    """
    steps = path.split(".")
    exists = [f"has({'.'.join(steps[:end])})" for end in range(2, len(steps) + 1)]
    return f"({' && '.join(exists)} ? {path} : {default})"


def repeated(names: str) -> str:
    """Return the expression of the entries of the list `names` that it has more than once."""
    return f"{names}.filter(n, {names}.indexOf(n) != {names}.lastIndexOf(n))"
