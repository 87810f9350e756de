"""The names and parents of SubGroups in CEL: the rule of `subgroups`, without cycles."""

from app.facts.kinds import POD_GROUP
from app.objects.names import LABEL_RULE, MAX_LABEL
from app.rules.policy import (
    NOT_BEING_DELETED,
    WRITES,
    Policy,
    PolicyDemand,
    Uncovered,
    repeated,
    sentence,
    text,
    value_or,
)

MOST = 300
"""The most SubGroups of a PodGroup that the policy judges.

Twice as many cost more than an API server spends on an expression.
"""

_PATH = "/validate/podgroup"
_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_SUBGROUPS = value_or("object.spec.subGroups", "[]")


def _is_no_label(name: str) -> str:
    return f"({name}.size() > {MAX_LABEL} || !{name}.matches('{_LABEL}'))"


def _label_problem(name: str) -> str:
    too_long = f"name must be no more than {MAX_LABEL} characters"
    return (
        f"{name} == '' ? 'name cannot be empty' : {name}.size() > {MAX_LABEL} ? '{too_long}'"
        f" : {text(LABEL_RULE)}"
    )


_NAME = "variables.invalidNames[0]"
_NAMES = PolicyDemand(
    "invalidNames",
    f"variables.names.filter(n, {_is_no_label('n')})",
    sentence(
        'invalid subgroup name "{name}": {problem}', name=_NAME, problem=_label_problem(_NAME)
    ),
    f"spec.subGroups: invalid subgroup name: {LABEL_RULE}",
)

_CHILD = "variables.invalidParents[0]"
_PARENTS = PolicyDemand(
    "invalidParents",
    f"variables.children.filter(s, {_is_no_label('s.parent')})",
    sentence(
        'invalid parent name "{parent}" for subgroup "{name}": {problem}',
        parent=f"{_CHILD}.parent",
        name=f"{_CHILD}.name",
        problem=_label_problem(f"{_CHILD}.parent"),
    ),
    f"spec.subGroups: invalid parent name: {LABEL_RULE}",
)

_COUNT = "variables.names.size()"
_DUPLICATES = PolicyDemand(
    "duplicateNames",
    # The first positions of different names add up to those of all names. One search for each name
    # costs half of two, which tell the name.
    "variables.names.map(n, variables.names.indexOf(n)).sum()"
    f" == {_COUNT} * ({_COUNT} - 1) / 2 ? [] : [true]",
    sentence("duplicate subgroup name {name}", name="variables.repeatedNames[0]"),
    "spec.subGroups: duplicate subgroup name",
    details={"repeatedNames": repeated("variables.names")},
)

_ORPHAN = "variables.missingParents[0]"
_MISSING = PolicyDemand(
    "missingParents",
    "variables.children.filter(s, !(s.parent in variables.names))",
    sentence(
        "parent {parent} of {name} was not found",
        parent=f"{_ORPHAN}.parent",
        name=f"{_ORPHAN}.name",
    ),
    "spec.subGroups: a parent was not found",
)

SUBGROUPS = Policy(
    "podgroup-subgroups",
    _PATH,
    (POD_GROUP,),
    WRITES,
    (_NAMES, _PARENTS, _DUPLICATES, _MISSING),
    variables={
        "subGroups": _SUBGROUPS,
        "names": "variables.subGroups.map(s, has(s.name) ? s.name : '')",
        "children": "variables.subGroups.filter(s, has(s.parent))",
    },
    conditions={**NOT_BEING_DELETED, "not-too-many": f"{_SUBGROUPS}.size() <= {MOST}"},
)

UNCOVERED = (
    Uncovered(
        _PATH,
        "cycles of SubGroups",
        "CEL has no loop that follows one parent after another",
        "cycle detected in subgroups",
    ),
    Uncovered(
        _PATH,
        f"PodGroups with more than {MOST} SubGroups",
        "comparing each name with each other would cost more than an API server spends",
    ),
)
