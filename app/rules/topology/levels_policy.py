"""The guard of the managed topology, and the shape of levels, in CEL: the rules of `levels`."""

from collections.abc import Sequence

from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING
from app.rules.policy import (
    NOT_BEING_DELETED,
    Policy,
    PolicyDemand,
    repeated,
    sentence,
    text,
    texts,
    value_or,
)
from app.rules.topology.levels import MAX_KEY, NO_LEVELS

PATH = "/validate/clustertopology"

LEVELS = {
    "levels": value_or("object.spec.levels", "[]"),
    "domains": "variables.levels.map(l, has(l.domain) ? l.domain : '')",
    "keys": "variables.levels.map(l, has(l.key) ? l.key : '')",
}
"""The variables that the demands on levels use."""

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_PREFIX_RULE = (
    "the prefix must be a lowercase DNS subdomain of at most 253 characters, such as"
    " topology.kubernetes.io"
)
_KEY_RULE = (
    "must be a qualified label name: alphanumeric characters, '-', '_' or '.', starting and ending"
    " with an alphanumeric character, with an optional DNS subdomain prefix and '/', such as"
    " topology.kubernetes.io/rack"
)


def guard(kinds: Sequence[str], name: str, authorized: Sequence[str]) -> Policy:
    """Return the policy that only `authorized` may write the managed topology.

    They are full user names. The topology is the object `name` of each of `kinds`.
    """
    user = "request.userInfo.username"
    message = sentence(
        '{kind} "{name}" is managed by the operator: user "{user}" cannot {verb} it; only these'
        " can: {allowed}. Change clusterTopology in the operator's configuration instead, or use a"
        " {kind} of another name",
        kind="request.kind.kind",
        name=text(name),
        user=user,
        verb="{'CREATE': 'create', 'UPDATE': 'update', 'DELETE': 'delete'}[request.operation]",
        allowed=text(", ".join(sorted(authorized)) or "nobody (authorizedUsers is empty)"),
    )
    demand = PolicyDemand(
        "unauthorized",
        f"[{user}].filter(u, !(u in {texts(sorted(authorized))}))",
        message,
        f"the topology {name} is managed by the operator",
        reason="Forbidden",
    )
    written = "(request.operation == 'DELETE' ? oldObject : object)"
    both = (CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING)
    return Policy(
        "topology-guard",
        PATH,
        tuple(resource for resource in both if resource.kind in kinds),
        ("CREATE", "UPDATE", "DELETE"),
        (demand,),
        conditions={**NOT_BEING_DELETED, "managed": f"{written}.metadata.name == {text(name)}"},
    )


def some_levels(unless: str = "") -> PolicyDemand:
    """Return the demand that there is a level."""
    message = f"spec.levels: Required value: {NO_LEVELS}"
    offenders = "variables.levels.size() == 0 ? [true] : []"
    return PolicyDemand("noLevels", offenders, text(message), message, unless)


def few_levels(most: int, rule: str, unless: str = "") -> PolicyDemand:
    """Return the demand that there are at most `most` levels, in the words of `rule`."""
    return PolicyDemand(
        "tooManyLevels",
        f"variables.levels.size() > {most} ? [variables.levels.size()] : []",
        sentence(
            "spec.levels: Invalid value: {number}: {rule}",
            number="string(variables.tooManyLevels[0])",
            rule=text(rule),
        ),
        f"spec.levels: {rule}",
        unless,
    )


def duplicates(field: str, unless: str = "") -> PolicyDemand:
    """Return the demand that each `field` of a level, `domain` or `key`, occurs once."""
    name = f"duplicate{field.capitalize()}s"
    values = f"variables.{field}s"
    return PolicyDemand(
        name,
        repeated(values),
        sentence(
            f'spec.levels[{{index}}].{field}: Duplicate value: "{{value}}"',
            index=f"string({values}.lastIndexOf(variables.{name}[0]))",
            value=f"variables.{name}[0]",
        ),
        f"spec.levels: each {field} may occur once",
        unless,
    )


_KEY = "variables.invalidKeys[0]"


def valid_keys(unless: str = "") -> PolicyDemand:
    """Return the demand that each key is a qualified label name."""
    has_bad_prefix = f"{_KEY}.contains('/') && !{_KEY}.matches('^{_SUBDOMAIN}/[^/]*$')"
    problem = (
        f"{_KEY}.size() > {MAX_KEY} ? 'must be no more than {MAX_KEY} characters'"
        f" : {has_bad_prefix} ? {text(_PREFIX_RULE)} : {text(_KEY_RULE)}"
    )
    return PolicyDemand(
        "invalidKeys",
        f"variables.keys.filter(k, k.size() > {MAX_KEY}"
        f" || !k.matches('^({_SUBDOMAIN}/)?{_QUALIFIED}$'))",
        sentence(
            'spec.levels[{index}].key: Invalid value: "{key}": {problem}',
            index=f"string(variables.keys.indexOf({_KEY}))",
            key=_KEY,
            problem=problem,
        ),
        "spec.levels: each key must be a qualified label name",
        unless,
    )
