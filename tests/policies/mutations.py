"""Recorded requests with changes: other names, levels, constraints, users and operations.

The changed values have the types of the CRDs, as everything has that an API server sends.
"""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.reviews import load, names, operator_names

Object = dict[str, Any]

VALIDATED = ("clustertopology", "clustertopologybinding", "podcliqueset", "podgroup")
"""The kinds of recorded requests that policies judge, as in the names of the recordings."""

LABELS = ("a", "b", "c", "prefill", "decode-1", "9", "Decode", "x_y", "-a", "", "a" * 63, "b" * 64)
DOMAINS = ("region", "zone", "datacenter", "block", "rack", "host", "numa", "galaxy", "Rack")
KEYS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/rack",
    "kubernetes.io/hostname",
    "rack",
    "-rack",
    "a/b/c",
    "UPPER.io/rack",
    "/rack",
    "rack/",
    "example.com/" + "k" * 51,
    "example.com/" + "k" * 52,
)
USERS = (
    "alice",
    "system:serviceaccount:grove-system:grove-admission",
    "system:serviceaccount:grove-system:grove-operator",
)
TOPOLOGIES = ("grove-topology", "other")
SCHEDULERS = ("kai-scheduler", "volcano")


def recorded(operator: str = "") -> list[str]:
    """The recorded requests that policies judge, of an operator or of a user."""
    every = operator_names(operator) if operator else names()
    return [name for name in every if _kind(name) in VALIDATED]


def _kind(name: str) -> str:
    return name.rpartition("/")[2].partition(".")[0]


def mutated(recordings: Sequence[str], number: int, seed: int) -> Iterator[Object]:
    """Yield `number` changed requests, which are the same for the same `seed`."""
    chance = random.Random(seed)
    while number:
        name = chance.choice(recordings)
        request: Object = load(name)["request"]
        if request.get("object") is None:
            request["operation"] = "CREATE"
            request["object"] = request.pop("oldObject")
        _change(request, _CHANGES[_kind(name)], chance)
        number -= 1
        yield request


def _change(
    request: Object, change: Callable[[Object, random.Random], None], chance: random.Random
) -> None:
    obj = request["object"]
    obj["metadata"].pop("deletionTimestamp", None)
    before = copy.deepcopy(request.get("oldObject") or obj)
    for _ in range(chance.randint(1, 3)):
        change(obj, chance)
    kept = copy.deepcopy(obj)
    if "subGroups" not in obj["spec"] and "levels" not in obj["spec"]:
        before = kept
        if chance.random() < 0.6:
            before = copy.deepcopy(obj)
            change(before, chance)

    request["operation"] = chance.choice(("CREATE", "UPDATE", "UPDATE"))
    request["oldObject"] = before if request["operation"] == "UPDATE" else None
    if "levels" in obj["spec"]:
        _other_request(request, chance)


def _other_request(request: Object, chance: random.Random) -> None:
    """Change the name, the user and the operation of a write of levels."""
    obj = request["object"]
    name = chance.choice(TOPOLOGIES)
    obj["metadata"]["name"] = name
    request["name"] = name
    request["userInfo"] = {**request["userInfo"], "username": chance.choice(USERS)}
    if request["oldObject"] is None:
        return

    if chance.random() < 0.3:
        request["oldObject"] = copy.deepcopy(obj)
    request["oldObject"]["metadata"]["name"] = name
    if chance.random() < 0.2:
        request["operation"] = "DELETE"
        request["oldObject"] = obj
        request["object"] = None


def _change_levels(obj: Object, chance: random.Random) -> None:
    levels = obj["spec"]["levels"]
    match chance.randrange(6):
        case 0:
            levels.append({"domain": chance.choice(DOMAINS), "key": chance.choice(KEYS)})
        case 1:
            chance.shuffle(levels)
        case 2 if len(levels) > 1:
            levels.pop(chance.randrange(len(levels)))
        case 3 if levels:
            chance.choice(levels)["domain"] = chance.choice(DOMAINS)
        case 4 if levels:
            chance.choice(levels)["key"] = chance.choice(KEYS)
        case _:
            more = range(chance.randrange(14))
            levels += [{"domain": f"d{number}", "key": f"k{number}"} for number in more]


def _change_binding(obj: Object, chance: random.Random) -> None:
    _change_levels(obj, chance)
    if chance.random() < 0.3:
        references = [chance.choice(SCHEDULERS) for _ in range(chance.randrange(3))]
        obj["spec"]["schedulerTopologyBindings"] = [
            {"schedulerName": name, "topologyReference": "t"} for name in references
        ]


def _change_subgroups(obj: Object, chance: random.Random) -> None:
    subgroups = obj["spec"].setdefault("subGroups", [])
    if len(subgroups) < 2 or chance.random() < 0.3:
        subgroups.append({"name": chance.choice(LABELS), "minMember": 1})
        return

    subgroup = chance.choice(subgroups)
    match chance.randrange(4):
        case 0:
            subgroup["name"] = chance.choice(LABELS)
        case 1:
            subgroup["parent"] = chance.choice(LABELS)
        case 2:
            subgroup["parent"] = chance.choice(subgroups)["name"]
        case _:
            subgroups.remove(subgroup)


def _change_set(obj: Object, chance: random.Random) -> None:
    """Change the constraints of the set, its groups and cliques, and the members of groups."""
    template = obj["spec"]["template"]
    groups = template.setdefault("podCliqueScalingGroups", [])
    cliques = template["cliques"]
    if not groups:
        groups.append({"name": "pool", "cliqueNames": [cliques[0]["name"]]})

    has_names = any(_names(holder) for holder in (template, *groups, *cliques))
    holder = chance.choice((template, *groups, *cliques))
    if chance.random() < 0.2:
        holder.pop("topologyConstraint", None)
        return

    holder["topologyConstraint"] = _constraint(chance, is_named=has_names)


def _names(holder: Object) -> bool:
    constraint = holder.get("topologyConstraint") or {}
    return "topologyName" in constraint or "pack" in constraint


def _constraint(chance: random.Random, *, is_named: bool) -> Object:
    if not is_named:
        return {"packDomain": chance.choice(DOMAINS[:7])}

    constraint: Object = {}
    if chance.random() < 0.5:
        constraint["topologyName"] = chance.choice((*["grove-topology"] * 5, "other", "missing"))
    if chance.random() < 0.15:
        constraint["packDomain"] = chance.choice(DOMAINS[:7])
        return constraint

    fields = chance.choice((("required",), ("preferred",), ("required", "preferred")))
    constraint["pack"] = {
        field: chance.choice(("zone", "block", "rack", "host", "galaxy")) for field in fields
    }
    return constraint


_CHANGES: dict[str, Callable[[Object, random.Random], None]] = {
    "clustertopology": _change_levels,
    "clustertopologybinding": _change_binding,
    "podcliqueset": _change_set,
    "podgroup": _change_subgroups,
}
