"""The rules of this dialect in CEL: those of `levels` and `sets`."""

from app.facts.kinds import CLUSTER_TOPOLOGY_BINDING, POD_CLIQUE_SET
from app.facts.labels import KAI_SCHEDULER
from app.rules.dialects.bindings.levels import MAX_DOMAIN, MAX_KAI_LEVELS, WITHOUT_KAI_TOPOLOGY
from app.rules.policy import (
    LEVELS_OF_PARAMETER,
    NOT_BEING_DELETED,
    WRITES,
    Levels,
    Policy,
    PolicyDemand,
    Uncovered,
    repeated,
    sentence,
    text,
    value_or,
)
from app.rules.topology.levels import HOSTNAME_KEY
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
    are_same,
    at_owner,
    groups_in,
    has_member,
    of_entry,
    owners,
    too_broad,
)

# Levels.

_DOMAIN = "variables.invalidDomains[0]"
_DOMAINS = PolicyDemand(
    "invalidDomains",
    f"variables.domains.filter(d, d.size() > {MAX_DOMAIN} || !d.matches('^[a-z][a-z0-9-]*$'))",
    sentence(
        'spec.levels[{index}].domain: Invalid value: "{domain}": must be lowercase letters, digits'
        " and '-', begin with a letter, and have at most {most} characters",
        index=f"string(variables.domains.indexOf({_DOMAIN}))",
        domain=_DOMAIN,
        most=text(str(MAX_DOMAIN)),
    ),
    "spec.levels: invalid domain",
    "stored",
)

_SCHEDULERS = PolicyDemand(
    "duplicateSchedulers",
    repeated("variables.schedulers"),
    sentence(
        'spec.schedulerTopologyBindings[{index}].schedulerName: Duplicate value: "{name}"',
        index="string(variables.schedulers.lastIndexOf(variables.duplicateSchedulers[0]))",
        name="variables.duplicateSchedulers[0]",
    ),
    "spec.schedulerTopologyBindings: each schedulerName may occur once",
    "stored",
)

_HOSTNAME_LAST = PolicyDemand(
    "hostnamesBeforeLast",
    f"variables.madeForKai ? variables.keys.filter(k, k == '{HOSTNAME_KEY}' &&"
    " variables.keys.indexOf(k) != variables.keys.size() - 1) : []",
    sentence(
        'spec.levels[{index}].key: Invalid value: "{key}": KAI allows this key only at the last'
        " level: {consequence}",
        index=f"string(variables.keys.indexOf('{HOSTNAME_KEY}'))",
        key=text(HOSTNAME_KEY),
        consequence=text(WITHOUT_KAI_TOPOLOGY),
    ),
    f"spec.levels: KAI allows {HOSTNAME_KEY} only at the last level",
    "stored",
)

_TOO_MANY_FOR_KAI = few_levels(
    MAX_KAI_LEVELS,
    f"KAI allows at most {MAX_KAI_LEVELS} levels: {WITHOUT_KAI_TOPOLOGY}",
    "storedOrNotForKai",
)

_REFERENCES = value_or("object.spec.schedulerTopologyBindings", "[]")

_MOST_LEVELS = 100
"""The most levels, and the most references, of a binding that the policy judges."""
_NOT_TOO_MANY = " && ".join(
    f"{items}.size() <= {_MOST_LEVELS}" for items in (LEVELS["levels"], _REFERENCES)
)

CLUSTER_TOPOLOGY_BINDINGS = Policy(
    "clustertopologybinding-levels",
    PATH,
    (CLUSTER_TOPOLOGY_BINDING,),
    WRITES,
    (
        some_levels("stored"),
        _DOMAINS,
        duplicates("domain", "stored"),
        valid_keys("stored"),
        duplicates("key", "stored"),
        _SCHEDULERS,
        _TOO_MANY_FOR_KAI,
        _HOSTNAME_LAST,
    ),
    variables={
        **LEVELS,
        "stored": "request.operation == 'UPDATE' && oldObject.spec == object.spec",
        "schedulers": f"{_REFERENCES}.map(r, has(r.schedulerName) ? r.schedulerName : '')",
        "madeForKai": f"!('{KAI_SCHEDULER}' in variables.schedulers)",
        "storedOrNotForKai": "variables.stored || !variables.madeForKai",
    },
    conditions={**NOT_BEING_DELETED, "not-too-many": _NOT_TOO_MANY},
)

# Sets.


def _field(name: str, *steps: str) -> str:
    """Return an entry of `owners`: the value of a field of its topologyConstraint, else ''."""
    path = ".".join(("HOLDER.topologyConstraint", *steps))
    return f"'{name}': string({value_or(path, _NOTHING)})"


_NOTHING = "''"
_FIELDS = ", ".join(
    (
        _field("topology", "topologyName"),
        _field("packDomain", "packDomain"),
        _field("packRequired", "pack", "required"),
        _field("preferred", "pack", "preferred"),
        "'exists': has(HOLDER.topologyConstraint) ? 'true' : 'false'",
    )
)
_REQUIRED = "(ENTRY.packRequired != '' ? ENTRY.packRequired : ENTRY.packDomain)"
_PREFERRED_OF_HOLDER = value_or("HOLDER.topologyConstraint.pack.preferred", _NOTHING)
_REQUIRED_OF_HOLDER = value_or(
    "HOLDER.topologyConstraint.pack.required",
    value_or("HOLDER.topologyConstraint.packDomain", _NOTHING),
)


def _constraints(root: str) -> str:
    return f"({owners(root, _FIELDS)}).filter(o, o.exists == 'true')"


def _without_name(constraints: str, root: str) -> str:
    """Return the expression of the constraints that no topologyName applies to."""
    of_set = value_or(f"{root}.spec.template.topologyConstraint.topologyName", _NOTHING)
    of_group = value_or("g.topologyConstraint.topologyName", _NOTHING)
    in_named_group = f"{has_member('o')} && {of_group} != ''"
    return (
        f"({of_set} != '' ? [] : {constraints}.filter(o, o.topology == '' && !(o.kind == 'clique'"
        f" && {groups_in(root)}.exists(g, {in_named_group}))))"
    )


def _comparable(constraints: str) -> str:
    """Return the expression of what may not change. packDomain may be moved to pack.required."""
    required = of_entry(_REQUIRED, "o")
    return f"{constraints}.map(o, [o.kind, o.name, o.topology, {required}, o.preferred])"


_UNCHANGED = (
    "request.operation == 'UPDATE' && !(variables.formerConstraints.exists(o, o.packDomain != ''"
    " && o.topology == '') && (variables.formerWithoutName.size() > 0 ||"
    " variables.formerNames.exists(n, n != variables.formerNames[0]))) &&"
    f" {are_same('variables.formerComparable', 'variables.comparable')}"
)
"""As in Grove, constraints that are older than topologyName need one with the next update."""

_NAMELESS = "variables.withoutName[0]"
_NAMES = PolicyDemand(
    "withoutName",
    _without_name("variables.all", "object"),
    sentence(
        "{at}.topologyConstraint.topologyName: Required value: the name of a ClusterTopologyBinding"
        " is needed here or in the topologyConstraint above",
        at=at_owner(_NAMELESS),
    ),
    "spec.template: a topologyConstraint has no topologyName",
    "unchanged",
)

_OTHER = "variables.otherNames[0]"
_ONE_NAME = PolicyDemand(
    "otherNames",
    "variables.all.filter(o, o.topology != '' && o.topology != variables.topologyName)",
    sentence(
        '{at}.topologyConstraint.topologyName: Invalid value: "{name}": all topologyName values of'
        ' a PodCliqueSet must be the same, and another one is "{first}"',
        at=at_owner(_OTHER),
        name=f"{_OTHER}.topology",
        first="variables.topologyName",
    ),
    "spec.template: all topologyName values of a PodCliqueSet must be the same",
    "unchanged",
)

_UNKNOWN = "variables.unknownLevels[0]"
_USED = " + ".join(
    f"variables.constraints.map(o, {{'kind': o.kind, 'name': o.name, 'field': '{field}',"
    f" 'domain': {value}}})"
    for field, value in (
        ("packDomain", "o.packDomain"),
        ("pack.required", "o.packRequired"),
        ("pack.preferred", "o.preferred"),
    )
)

_CONTRADICTION = "variables.neverPlaced[0]"
_NEVER_PLACED = PolicyDemand(
    "neverPlaced",
    "request.operation != 'CREATE' ? [] : variables.constraints.filter(o, o.preferred in"
    " variables.order && variables.order.indexOf(o.preferred) <"
    f" variables.order.indexOf({of_entry(_REQUIRED, 'o')}))",
    sentence(
        '{at}.topologyConstraint.pack.preferred: Invalid value: "{preferred}": broader than the'
        ' required domain "{required}", so that KAI never places these pods: remove it, or use one'
        " of: {allowed}",
        at=at_owner(_CONTRADICTION),
        preferred=f"{_CONTRADICTION}.preferred",
        required=of_entry(_REQUIRED, _CONTRADICTION),
        allowed="variables.order.filter(d, variables.order.indexOf(d) >= variables.order.indexOf("
        f"{of_entry(_REQUIRED, _CONTRADICTION)})).join(', ')",
    ),
    "spec.template: pack.preferred is broader than the required domain beside it",
)


_REQUIRED_TOO_BROAD = too_broad(
    "requiredTooBroad",
    _REQUIRED,
    _REQUIRED_OF_HOLDER,
    '{at}: Invalid value: "{domain}": broader than the required domain "{other}" of {owner};'
    " allowed: {allowed}",
    "(ENTRY.packRequired != '' ? 'pack.required' : 'packDomain')",
)
_PREFERRED_TOO_BROAD = too_broad(
    "preferredTooBroad",
    "ENTRY.preferred",
    _PREFERRED_OF_HOLDER,
    '{at}: Invalid value: "{domain}": broader than the preferred domain "{other}" of {owner};'
    " allowed: {allowed}",
    "'pack.preferred'",
)


_NAMES_IN_ORDER = (
    f"({owners('object', _field('topology', 'topologyName'))}).map(o, o.topology)"
    ".filter(n, n != '')"
)


def pod_clique_sets(levels: Levels = LEVELS_OF_PARAMETER) -> Policy:
    """Return the policy about topologyName, pack and packDomain.

    `levels` are those of a ClusterTopologyBinding, for the sets that refer to it. If it is a
    parameter, each binding of the cluster is one. If not, only sets with a name are judged, because
    others may be older than ClusterTopologyBindings.
    """
    is_parameter = levels is LEVELS_OF_PARAMETER
    conditions = {**NOT_BEING_DELETED, **NOT_TOO_MANY}
    if not is_parameter:
        conditions["has-a-topology-name"] = f"{_NAMES_IN_ORDER}.size() > 0"
    unknown = PolicyDemand(
        "unknownLevels",
        f"({_USED}).filter(o, o.domain != '' && !(o.domain in variables.order))",
        sentence(
            '{at}.topologyConstraint.{field}: Invalid value: "{domain}": not a level of'
            ' ClusterTopologyBinding "{topology}", which has: {levels}',
            at=at_owner(_UNKNOWN),
            field=f"{_UNKNOWN}.field",
            domain=f"{_UNKNOWN}.domain",
            topology=levels.name,
            levels="variables.order.join(', ')",
        ),
        "spec.template: a topologyConstraint names no level of its ClusterTopologyBinding",
        "unchanged",
    )
    return Policy(
        "podcliqueset-packs",
        SETS_PATH,
        (POD_CLIQUE_SET,),
        WRITES,
        (_NAMES, _ONE_NAME, unknown, _REQUIRED_TOO_BROAD, _PREFERRED_TOO_BROAD, _NEVER_PLACED),
        variables={
            **ITEMS,
            "order": levels.domains,
            "existing": "variables.order",
            "all": _constraints("object"),
            "topologyName": f"({_NAMES_IN_ORDER} + [''])[0]",
            "constraints": f"variables.topologyName == {levels.name} ? variables.all : []",
            "formerConstraints": _constraints("oldObject"),
            "formerWithoutName": _without_name("variables.formerConstraints", "oldObject"),
            "formerNames": (
                "variables.formerConstraints.filter(o, o.topology != '').map(o, o.topology)"
            ),
            "comparable": _comparable("variables.all"),
            "formerComparable": _comparable("variables.formerConstraints"),
            "unchanged": _UNCHANGED,
        },
        conditions=conditions,
        parameter=CLUSTER_TOPOLOGY_BINDING if is_parameter else None,
    )


UNCOVERED = (
    Uncovered(
        PATH,
        f"ClusterTopologyBindings with more than {_MOST_LEVELS} levels or references",
        "comparing each with each other would cost more than an API server spends",
    ),
    Uncovered(
        PATH,
        "ClusterTopologyBindings with the name of a KAI Topology that Grove would not take over",
        "a policy can't read the KAI Topology",
        "would not take it over",
    ),
    Uncovered(
        PATH,
        "removal of levels and ClusterTopologyBindings that PodCliqueSets use",
        "a policy can't read the PodCliqueSets",
        "would vanish from the PodGangs",
    ),
    Uncovered(
        SETS_PATH,
        "a topologyName without a ClusterTopologyBinding",
        "a policy is evaluated for each binding that exists, and can't say that one is missing",
        "ClusterTopologyBinding not found",
    ),
    Uncovered(
        SETS_PATH,
        "changes of stored topology constraints",
        "Grove's own webhook refuses them",
        "cannot be changed after creation",
    ),
    Uncovered(
        SETS_PATH,
        "packDomain in new PodCliqueSets, if there are ClusterTopologyBindings",
        "Grove's CRD refuses it",
        "packDomain is allowed only in PodCliqueSets that have it already",
    ),
)
