"""The rules of this dialect in CEL: those of `levels` and `sets`."""

from app.facts.grove.topology import DOMAINS
from app.facts.kinds import CLUSTER_TOPOLOGY, POD_CLIQUE_SET
from app.rules.policy import (
    LEVELS_OF_PARAMETER,
    NOT_BEING_DELETED,
    WRITES,
    Levels,
    Policy,
    PolicyDemand,
    Uncovered,
    sentence,
    text,
    texts,
    value_or,
)
from app.rules.topology.levels import MAX_LEVELS
from app.rules.topology.levels_policy import (
    LEVELS,
    PATH,
    duplicates,
    few_levels,
    some_levels,
    valid_keys,
)
from app.rules.topology.owners_policy import (
    ITEMS,
    NOT_TOO_MANY,
    SETS_PATH,
    TOO_MANY,
    are_same,
    at_owner,
    groups_of,
    owners,
    too_broad,
)

# Levels.

_DOMAIN = "variables.unknownDomains[0]"
_DOMAINS = PolicyDemand(
    "unknownDomains",
    f"variables.domains.filter(d, !(d in {texts(DOMAINS)}))",
    sentence(
        'spec.levels[{index}].domain: Unsupported value: "{domain}": supported values: {allowed}',
        index=f"string(variables.domains.indexOf({_DOMAIN}))",
        domain=_DOMAIN,
        allowed=text(", ".join(f'"{domain}"' for domain in DOMAINS)),
    ),
    f"spec.levels: each domain must be one of {', '.join(DOMAINS)}",
)

CLUSTER_TOPOLOGIES = Policy(
    "clustertopology-levels",
    PATH,
    (CLUSTER_TOPOLOGY,),
    WRITES,
    (
        some_levels(),
        few_levels(MAX_LEVELS, f"must have at most {MAX_LEVELS} levels"),
        _DOMAINS,
        duplicates("domain"),
        valid_keys(),
        duplicates("key"),
    ),
    variables=LEVELS,
    conditions=NOT_BEING_DELETED,
)

# Sets.

_DOMAIN_OF_HOLDER = value_or("HOLDER.topologyConstraint.packDomain", "''")


def _constraints(root: str) -> str:
    every = owners(root, f"'domain': string({_DOMAIN_OF_HOLDER})")
    return f"({every}).filter(o, o.domain != '')"


_UNCHANGED = (
    "request.operation == 'UPDATE' &&"
    f" {are_same('variables.formerConstraints', 'variables.constraints')}"
    " && variables.constraints.filter(o, o.kind == 'clique').all(o,"
    f" {are_same(groups_of('oldObject', 'o'), groups_of('object', 'o'))})"
)

_TOO_BROAD = too_broad(
    "tooBroad",
    "ENTRY.domain",
    _DOMAIN_OF_HOLDER,
    '{at}: Invalid value: "{domain}": must be as strict as packDomain "{other}" of {owner}, or'
    " stricter; allowed: {allowed}",
    "'packDomain'",
)

_USES_BINDINGS = (
    "'other': has(HOLDER.topologyConstraint) && (has(HOLDER.topologyConstraint.topologyName) ||"
    " has(HOLDER.topologyConstraint.pack)) ? 'true' : 'false'"
)

_MISSING = "variables.missingLevels[0]"


def pod_clique_sets(levels: Levels = LEVELS_OF_PARAMETER, parameter_name: str = "") -> Policy:
    """Return the policy about packDomains, with `levels` of the managed ClusterTopology.

    `parameter_name` is its name if the levels are those of a parameter. If not, sets are left out
    that use the fields of the dialect `bindings`.
    """
    missing = PolicyDemand(
        "missingLevels",
        "variables.constraints.filter(o, !(o.domain in variables.existing))",
        sentence(
            '{at}.topologyConstraint.packDomain: Invalid value: "{domain}": topology level not'
            ' found in ClusterTopology "{topology}", which has: {levels}',
            at=at_owner(_MISSING),
            domain=f"{_MISSING}.domain",
            topology=levels.name,
            levels="variables.existing.join(', ')",
        ),
        "spec.template: a packDomain is no level of the ClusterTopology",
        unless="unchanged",
    )
    conditions = {**NOT_BEING_DELETED, **NOT_TOO_MANY}
    if not parameter_name:
        conditions["of-this-dialect"] = (
            f"({owners('object', _USES_BINDINGS)}).all(o, o.other == 'false')"
        )
    return Policy(
        "podcliqueset-packdomains",
        SETS_PATH,
        (POD_CLIQUE_SET,),
        WRITES,
        (missing, _TOO_BROAD),
        variables={
            **ITEMS,
            "order": texts(DOMAINS),
            "existing": f"variables.order.filter(d, d in {levels.domains})",
            "constraints": _constraints("object"),
            "formerConstraints": _constraints("oldObject"),
            "unchanged": _UNCHANGED,
        },
        conditions=conditions,
        parameter=CLUSTER_TOPOLOGY if parameter_name else None,
        parameter_name=parameter_name,
    )


UNCOVERED = (
    Uncovered(SETS_PATH, TOO_MANY, "comparing them would cost more than an API server spends"),
    Uncovered(
        SETS_PATH,
        "packDomains while topology support is disabled, or while the ClusterTopology is missing",
        "there is no parameter then, and no policy knows which release of Grove runs",
        "topology support is not enabled in the operator",
    ),
)
