"""The owners of topology constraints in CEL, for the policies of both dialects."""

from app.rules.policy import PolicyDemand, sentence, value_or

SETS_PATH = "/validate/podcliqueset"
"""The path of the webhook with the same rules."""

_MOST = 400
_MOST_COMPARED = 400_000


def groups_in(root: str) -> str:
    """Return the expression of the scaling groups in the PodCliqueSet `root`."""
    return value_or(f"{root}.spec.template.podCliqueScalingGroups", "[]")


def has_member(clique: str) -> str:
    """Return the expression whether the scaling group `g` names `clique`."""
    return f"has(g.cliqueNames) && {clique}.name in g.cliqueNames"


ITEMS = {
    "groups": groups_in("object"),
    "cliques": value_or("object.spec.template.cliques", "[]"),
    "constrainedGroups": "variables.groups.filter(g, has(g.topologyConstraint))",
}
"""The variables that the expressions below use."""

_MEMBERS = f"{ITEMS['groups']}.map(g, {value_or('g.cliqueNames', '[]')}.size() + 10).sum()"

NOT_TOO_MANY = {
    "not-too-many": (
        f"{ITEMS['cliques']}.size() + {ITEMS['groups']}.size() <= {_MOST}"
        f" && ({ITEMS['groups']}.size() == 0 || {ITEMS['cliques']}.size() * {_MEMBERS} <="
        f" {_MOST_COMPARED})"
    ),
}
"""The condition that comparing all owners costs less than an API server spends.

For each clique and each of its possible scaling groups, the members of the group are searched.
"""

TOO_MANY = f"PodCliqueSets with more than {_MOST} cliques and scaling groups"


def owners(root: str, fields: str) -> str:
    """Return the expression of all owners in the PodCliqueSet `root` (`object` or `oldObject`).

    Each is a map with `kind`, `name` and `fields`, in which HOLDER stands for the owner itself. An
    API server wants values of one type in a map, so each of them is made a string.
    """
    template = f"{root}.spec.template"
    groups = groups_in(root)
    cliques = value_or(f"{template}.cliques", "[]")
    in_set = fields.replace("HOLDER", template)
    in_group = fields.replace("HOLDER", "g")
    in_clique = fields.replace("HOLDER", "c")
    return (
        f"[{{'kind': 'set', 'name': '', {in_set}}}]"
        f" + {groups}.map(g, {{'kind': 'group', 'name': string(g.name), {in_group}}})"
        f" + {cliques}.map(c, {{'kind': 'clique', 'name': string(c.name), {in_clique}}})"
    )


def at_owner(owner: str) -> str:
    """Return the expression of the path of `owner`, one of `owners`."""
    group = f"string(variables.groups.map(g, g.name).indexOf({owner}.name))"
    clique = f"string(variables.cliques.map(c, c.name).indexOf({owner}.name))"
    return (
        f"'spec.template' + ({owner}.kind == 'set' ? '' : {owner}.kind == 'group'"
        f" ? '.podCliqueScalingGroups[' + {group} + ']' : '.cliques[' + {clique} + ']')"
    )


def groups_of(root: str, clique: str) -> str:
    """Return the expression of the names of the scaling groups of `clique` in `root`."""
    return f"{groups_in(root)}.filter(g, {has_member(clique)}).map(g, string(g.name))"


def of_entry(expression: str, entry: str) -> str:
    """Return `expression` with `entry`, an expression too, in place of ENTRY."""
    return expression.replace("ENTRY", entry)


def too_broad(name: str, own: str, of_holder: str, template: str, field: str) -> PolicyDemand:
    """Return the demand that no constraint is broader than one above it.

    `own` is the domain of ENTRY, one of the variable `constraints`, and `of_holder` that of an
    owner itself, HOLDER. The variable `order` has all domains, broadest first, and `existing` those
    that are recommended. The message is made of `template`, with `at`, `domain`, `other`, `owner`
    and `allowed`. `field` is the end of the path of ENTRY.
    """
    first = f"variables.{name}[0]"
    other = f"variables.{name}Above"
    allowed = f"variables.{name}Allowed"
    of_set = of_holder.replace("HOLDER", "object.spec.template")
    of_group = of_holder.replace("HOLDER", "g")
    domain = of_entry(own, "o")
    below_set = f"o.kind != 'set' && {_is_broader(domain, of_set)}"
    below_group = (
        "o.kind == 'clique' && variables.constrainedGroups.exists(g,"
        f" {has_member('o')} && {_is_broader(domain, of_group)})"
    )
    groups_above = f"variables.constrainedGroups.filter(g, {has_member(first)})"
    domains_of_groups = f"({first}.kind == 'clique' ? {groups_above}.map(g, {of_group}) : [])"
    narrowest = f"variables.order.filter(d, d in ([{of_set}] + {domains_of_groups}))"
    group = f"{groups_above}.filter(g, {of_group} == {other})[0].name"
    return PolicyDemand(
        name,
        f"variables.constraints.filter(o, ({below_set}) || ({below_group}))",
        sentence(
            template,
            at=f"{at_owner(first)} + '.topologyConstraint.' + {of_entry(field, first)}",
            domain=of_entry(own, first),
            other=other,
            owner=f"{of_set} == {other} ? 'the PodCliqueSet' : 'scaling group \"' + {group} + '\"'",
            allowed=f"{allowed}.size() == 0 ? 'none' : {allowed}.join(', ')",
        ),
        "spec.template: a topologyConstraint is broader than one above it",
        "unchanged",
        {
            f"{name}DomainsAbove": narrowest,
            f"{name}Above": (
                f"variables.{name}DomainsAbove[variables.{name}DomainsAbove.size() - 1]"
            ),
            f"{name}Allowed": f"variables.existing.filter(d, !({_is_broader('d', other)}))",
        },
    )


def _is_broader(domain: str, other: str) -> str:
    """Return the expression whether both are domains, and `domain` is the broader one."""
    return (
        f"({domain} in variables.order && variables.order.indexOf({domain})"
        f" < variables.order.indexOf({other}))"
    )


def are_same(former: str, current: str) -> str:
    """Return the expression whether two lists have the same entries, in any order."""
    return (
        f"({former} == {current} || ({former}.size() == {current}.size()"
        f" && {former}.all(e, e in {current})))"
    )
