"""Validate topology constraints (`packDomain`) of a PodCliqueSet, its scaling groups and cliques.

Each must be equal to or stricter than the enclosing constraints.

Source: `rules/README.md`. Grove's own webhook checks that scaling groups name existing cliques.
"""

from collections.abc import Mapping, Sequence

from app.base.value import Value
from app.facts.grove.template import SET, Owner, SetPart, Template, owner_text
from app.facts.grove.topology import DOMAINS, HOSTNAME_KEY, ClusterTopology
from app.objects import fields
from app.objects.fields import FieldError, FieldPath, Findings
from app.rules.dialects.dialect import NO_CONSTRAINTS, NoTopology, SetVerdict, TopologyFacts
from app.rules.topology.levels import STILL_ALLOWED

_RANKS = {domain: rank for rank, domain in enumerate(DOMAINS)}

NOT_ENABLED = "topology support is not enabled in the operator"


class Constraint(Value):
    """The packDomain of a PodCliqueSet, or of one of its scaling groups or cliques."""

    part: SetPart
    """The set, scaling group or clique that has the packDomain."""
    domain: str
    """The value of packDomain, which may be invalid."""

    @property
    def path(self) -> FieldPath:
        """The path of the packDomain."""
        return _path_in(self.part)


class Constraints(Value):
    """All packDomains of the PodCliqueSet `template`, in the order of its lists."""

    template: Template
    all: tuple[Constraint, ...]
    """All packDomains that are not empty."""

    @property
    def comparable(self) -> tuple[list[tuple[Owner, str]], dict[Owner, list[Owner]]]:
        """A value that is equal for two versions of a set if no constraint has changed.

        It consists of the owners with their domains, and of the enclosing owners of each owner. In
        an invalid set, several cliques can have the same owner.
        """
        domains = sorted((constraint.part.owner, constraint.domain) for constraint in self.all)
        owners = {owner for owner, _ in domains}
        return domains, {owner: sorted(self.template.above(owner)) for owner in owners}


def validate_set(template: Template, old: Template | None, facts: TopologyFacts) -> SetVerdict:
    """Return the verdict on the shape of a PodCliqueSet and on its constraints.

    `old` is the set that an UPDATE replaces, None at CREATE. Raise NoTopology if the managed
    topology is missing, unless the set has no constraints or the same ones as `old`.
    """
    constraints, of_values = read_constraints(template)
    if template.findings or of_values:
        return SetVerdict([*template.findings, *of_values])
    if not constraints.all:
        return NO_CONSTRAINTS

    try:
        topology = facts.topology()
    except NoTopology as missing:
        if not _is_unchanged(constraints, old):
            raise
        text = f"stored topology constraint, not checked: {missing}"
        return SetVerdict(warnings=[text], is_known=False)

    findings, warnings = validate_constraints(constraints, old, topology)
    required = {constraint.part.owner: constraint.domain for constraint in constraints.all}

    return SetVerdict(
        findings=findings,
        warnings=warnings,
        levels=topology.levels,
        required=required,
        constrained=[*required],
    )


def validate_constraints(
    constraints: Constraints, old: Template | None, topology: ClusterTopology
) -> tuple[Findings, list[str]]:
    """Return findings and warnings about the constraints of a set.

    `old` is the set that an UPDATE replaces, None at CREATE. A constraint that had the same problem
    in `old` only causes a warning. As with Kubernetes' own ratcheting by field, constraints that
    became invalid can be corrected one by one, and the rest of the set can change.
    """
    problems = _problems(constraints, topology)
    added = problems
    if old is not None:
        before, _ = read_constraints(old)
        added = _added(problems, _problems(before, topology), constraints, before)
    if added:
        return [problem.finding for problem in added], []
    stored = [_stored(problem, topology) for problem in problems]
    return [], stored or _below_host(constraints, topology)


class _Problem(Value):
    """A problem of a constraint: its level cannot be used, or is broader than an enclosing one."""

    constraint: Constraint
    finding: FieldError
    is_too_broad: bool = False
    """Whether the level is broader than the level of an enclosing constraint."""

    @property
    def of_owner(self) -> tuple[Owner, str, bool]:
        return self.constraint.part.owner, self.constraint.domain, self.is_too_broad

    @property
    def of_kind(self) -> tuple[str, str, bool]:
        return self.constraint.part.owner[0], self.constraint.domain, self.is_too_broad


def _added(
    problems: list[_Problem],
    before: list[_Problem],
    constraints: Constraints,
    old: Constraints,
) -> list[_Problem]:
    """Return the problems that the set did not have before the update.

    A part with a new name is treated as renamed if a part of its kind with the same problem was
    removed.
    """
    owners = {part.owner for part in constraints.template.parts}
    old_owners = {part.owner for part in old.template.parts}
    stored = {problem.of_owner for problem in before}
    gone = {problem.of_kind for problem in before if problem.constraint.part.owner not in owners}
    return [
        problem
        for problem in problems
        if problem.of_owner not in stored
        if problem.constraint.part.owner in old_owners or problem.of_kind not in gone
    ]


def _below_host(constraints: Constraints, topology: ClusterTopology) -> list[str]:
    """Return a warning for each constraint on a level that KAI cannot use."""
    if HOSTNAME_KEY not in [level.key for level in topology.levels[:-1]]:
        return []  # KAI can use all levels
    usable = [level.domain for level in topology.levels_for_kai]
    below = topology.domains.difference(usable)
    return [
        f'{constraint.path}: KAI cannot use level "{constraint.domain}", which is below'
        f' {HOSTNAME_KEY}: the constraint is written as "{usable[-1]}"'
        for constraint in constraints.all
        if constraint.domain in below
    ]


def _is_unchanged(constraints: Constraints, old: Template | None) -> bool:
    """Return whether an update of `old` leaves all constraints unchanged."""
    if old is None:
        return False
    return read_constraints(old)[0].comparable == constraints.comparable


def _stored(problem: _Problem, topology: ClusterTopology) -> str:
    """Return the warning about a problem of a stored constraint.

    A constraint that is too broad is still written for KAI.
    """
    if topology.enabled and problem.constraint.domain in topology.domains:
        return f"{STILL_ALLOWED}: {problem.finding}"
    return f"stored topology constraint ignored: {problem.finding}"


def read_constraints(template: Template) -> tuple[Constraints, Findings]:
    """Return every packDomain of `template`, and a finding for each that is not a string."""
    findings: Findings = []
    constraints: list[Constraint] = []
    for part in template.parts:
        if not part.constraint:
            continue
        domain = part.constraint.get("packDomain")
        if domain is None or domain == "":
            continue

        if isinstance(domain, str):
            constraints.append(Constraint(part, domain))
        else:
            findings.append(fields.wrong_type(_path_in(part), domain, "a string"))

    return Constraints(template, tuple(constraints)), findings


def _path_in(part: SetPart) -> FieldPath:
    return part.path.child("topologyConstraint.packDomain")


def _problems(constraints: Constraints, topology: ClusterTopology) -> list[_Problem]:
    """Return all problems of the constraints, in the order of the lists.

    For each constraint, a missing level comes first, then a conflict with an enclosing constraint.
    """
    if not topology.enabled:
        return [
            _Problem(constraint, fields.forbidden(constraint.path, NOT_ENABLED))
            for constraint in constraints.all
        ]

    existing = topology.domains
    problems: list[_Problem] = []
    ranks: dict[Owner, int] = {}
    highest = 0
    narrowest: dict[Owner, Owner] = {}
    for constraint in constraints.all:
        domain = constraint.domain
        rank = _RANKS.get(domain)
        if rank is None:
            finding = fields.not_supported(constraint.path, domain, DOMAINS)
            problems.append(_Problem(constraint, finding))
            continue

        if domain not in existing:
            levels = ", ".join(level.domain for level in topology.levels)
            detail = (
                f'topology level not found in ClusterTopology "{topology.name}", which has:'
                f" {levels}"
            )
            finding = fields.invalid(constraint.path, domain, detail)
            problems.append(_Problem(constraint, finding))

        owner = constraint.part.owner
        ranks[owner] = rank
        if rank >= highest:
            highest = rank
            continue  # no enclosing constraint is narrower, because enclosing parts come first
        # once per owner, because many parts of an invalid set can have the same name and groups
        if owner not in narrowest:
            narrowest[owner] = _narrowest(constraints.template.above(owner), ranks)
        above = narrowest[owner]
        above_rank = ranks.get(above, 0)
        if above_rank > rank:
            detail = (
                f'must not be broader than packDomain "{DOMAINS[above_rank]}" of'
                f" {owner_text(above)}; allowed: {allowed_below(DOMAINS[above_rank], topology)}"
            )
            finding = fields.invalid(constraint.path, domain, detail)
            problems.append(_Problem(constraint, finding, is_too_broad=True))

    return problems


def _narrowest(owners: Sequence[Owner], ranks: Mapping[Owner, int]) -> Owner:
    """Return the owner of the narrowest constraint, or the set if there is none."""
    narrowest, narrowest_rank = SET, 0
    for owner in owners:
        rank = ranks.get(owner, 0)
        if rank > narrowest_rank:
            narrowest, narrowest_rank = owner, rank
    return narrowest


def allowed_below(domain: str, topology: ClusterTopology) -> str:
    """Return the existing levels that are not broader than `domain`, such as `rack, host`.

    Return `none` if there are none.
    """
    existing = topology.domains
    allowed = [name for name in DOMAINS[DOMAINS.index(domain) :] if name in existing]
    return ", ".join(allowed) or "none"
