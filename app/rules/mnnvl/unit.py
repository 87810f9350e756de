"""Determine the NVLink unit of a member: which pods share a ComputeDomain, and who owns it.

A member is a PodClique, or a Pod of one of the workloads in `facts/unit_owners`.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property

from app.base.value import Value
from app.facts.grove.unit_member import UnitMember
from app.facts.identity import Place
from app.facts.labels import (
    CLIQUE_NAME,
    GROVE_PCS_NAME,
    GROVE_PCS_REPLICA,
    GROVE_PCSG_NAME,
    GROVE_PCSG_REPLICA,
    MANAGED_BY,
    MANAGER,
    MNNVL_ENABLED,
    MNNVL_MANAGED,
    MNNVL_SCOPE,
    MNNVL_UNIT,
    PCS_NAME,
    PCS_REPLICA,
    PCSG_NAME,
    PCSG_REPLICA,
)
from app.facts.nvidia.computedomain import DOMAIN_SUFFIX, TEMPLATE_SUFFIX
from app.facts.unit_owners import OWNER_KINDS, NamedOwner, is_label_key, path_of_key
from app.objects.fields import (
    FieldError,
    FieldPath,
    Findings,
    forbidden,
    invalid,
    required,
)
from app.objects.names import MAX_LABEL, is_subdomain
from app.objects.owners import OwnerRef
from app.objects.shape import Object
from app.rules.workload.groups import shortened

Scope = str
"""The name of a rule that says which members share a unit. Each kind of owner has its own rules."""

_LABELS = FieldPath("metadata.labels")
_NAME = FieldPath("metadata.name")


class NvlinkUnit(Value, dict=True):
    """All pods that share a ComputeDomain with the pods of `member`, according to `scope`."""

    member: UnitMember
    """One of the PodCliques or Pods in the unit."""
    scope: Scope
    """The rule by which the pods share the ComputeDomain."""

    @cached_property
    def base_name(self) -> str:
        """The prefix of the names of the unit's resources.

        It is "" if a label or name from which it follows is missing.
        """
        owner = self.member.named
        if owner is None:
            return _base_name(self.member, self.scope)
        return _name_of_unit(owner, self.scope)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the unit's resources, without labels that would be too long.

        No label names a PodGang, because Grove replaces PodGangs while pods run.
        """
        owner = self.member.named
        labels = dict(zip(_PLACE_LABELS, self._place, strict=True))
        if owner is not None:
            # the labels with which the owner marks the pods of the unit
            keys = [*filter(is_label_key, (owner.kind.key, *owner.kind.scope(self.scope).keys))]
            labels |= zip(keys, owner.values_at(keys), strict=True)
        elif self.scope == "clique":
            place = self.member.place
            name = self.member.name.removeprefix(f"{place.pcs}-{place.replica}-")
            if place.group:
                name = name.removeprefix(f"{place.group}-{place.group_replica}-")
            labels[CLIQUE_NAME] = name
        labels |= {MNNVL_MANAGED: "true", MANAGED_BY: MANAGER}
        return {key: value for key, value in labels.items() if _as_label(value)}

    @property
    def _place(self) -> tuple[str, ...]:
        """The values of the labels in _PLACE_LABELS, "" for a label that the resources lack."""
        if self.member.named is not None:
            return "", "", "", "", self.base_name
        place = self.member.place
        if self.scope == "replica" or not (place.group and place.group_replica):
            return place.pcs, place.replica, "", "", ""
        return *place.of_replica, ""

    @property
    def owner_reference(self) -> Object:
        """The owner reference of the unit's resources."""
        member = self.member
        blocks = member.named is None
        return member.owner.owner_reference(member.owner_name, member.owner_uid, blocks=blocks)

    def is_at(self, place: Place, owners: Iterable[OwnerRef] = ()) -> bool:
        """Return whether a resource at `place` belongs to this unit.

        Units of two workloads can have the same name. So if the members of this unit are Pods, and
        the resource has `owners`, one of them must have the name of this unit's owner.
        """
        own = self._place
        other = (*place.of_replica, place.unit)
        if other != own and other != tuple(map(_as_label, own)):
            return False
        if self.member.named is None:
            return True

        names = {owner.name for owner in owners}
        return not names or self.member.owner_name in names


def unit_problems(member: UnitMember, scope: Scope) -> Findings:
    """Return findings about labels that `scope` needs, and about names that are not valid."""
    if member.named is None:
        return _clique_problems(member, scope)
    return list(_owner_problems(member.named, scope))


def _as_label(value: str) -> str:
    """Return `value`, or "" if it is too long for a label."""
    return value if len(value) <= MAX_LABEL else ""


# Units of PodCliques. The scope decides whether each replica of the set, each replica of a scaling
# group or each PodClique is a unit.

_PLACE_LABELS = (PCS_NAME, PCS_REPLICA, PCSG_NAME, PCSG_REPLICA, MNNVL_UNIT)


def _base_name(member: UnitMember, scope: Scope) -> str:
    """Return the base name of the unit of a PodClique, or "" if a label or its name is missing.

    In the scope `clique`, the base name is the PodClique's own name, which is unique.
    """
    place = member.place
    if not (place.pcs and place.replica and member.name):
        return ""
    if scope == "clique":
        return member.name

    replica = f"{place.pcs}-{place.replica}"
    if scope != "scalingGroupReplica":
        return replica
    if not (place.group and place.group_replica):
        return ""
    return f"{replica}-{place.group}-{place.group_replica}"


class _NeededLabel(Value):
    """A label of a PodClique that MNNVL needs."""

    at: FieldPath
    """The path of the label of Grove's designs."""
    grove_key: str
    """The label of Grove's operator, which can be used instead."""
    meaning: str
    """The meaning of the value."""
    is_index: bool = False
    """Whether the value must be the index of a replica."""


_PCS_LABEL = _NeededLabel(_LABELS.key(PCS_NAME), GROVE_PCS_NAME, "the name of the PodCliqueSet")
_REPLICA_LABEL = _NeededLabel(
    _LABELS.key(PCS_REPLICA), GROVE_PCS_REPLICA, "the index of the PodCliqueSet replica", True
)
_GROUP_LABEL = _NeededLabel(
    _LABELS.key(PCSG_NAME), GROVE_PCSG_NAME, "the name of the scaling group"
)
_GROUP_REPLICA_LABEL = _NeededLabel(
    _LABELS.key(PCSG_REPLICA), GROVE_PCSG_REPLICA, "the index of the scaling group replica", True
)


def _clique_problems(member: UnitMember, scope: Scope) -> Findings:
    """Return findings about the labels that `scope` needs, and about the name of the PodClique."""
    place = member.place
    name = member.name
    needed = [(place.pcs, _PCS_LABEL), (place.replica, _REPLICA_LABEL)]
    if scope == "scalingGroupReplica":
        needed += [(place.group, _GROUP_LABEL), (place.group_replica, _GROUP_REPLICA_LABEL)]

    findings: Findings = []
    for value, label in needed:
        if not value:
            detail = f"MNNVL needs {label.meaning} here or in Grove's own label {label.grove_key}"
            findings.append(required(label.at, detail))
            continue
        if len(value) > MAX_LABEL:
            detail = f"must be no more than {MAX_LABEL} characters"
            findings.append(invalid(label.at, value, detail))
        if label.is_index and not (value.isascii() and value.isdecimal()):
            detail = f"must be {label.meaning}, a number from 0"
            findings.append(invalid(label.at, value, detail))

    if not name:
        detail = "set a name, because MNNVL resources are named after the PodClique"
        return [*findings, required(_NAME, detail)]
    if findings:
        return findings

    prefix = f"{place.pcs}-{place.replica}-"
    if not name.startswith(prefix):
        detail = f'must start with "{prefix}": the labels name that PodCliqueSet and replica'
        return [invalid(_NAME, name, detail)]

    longest = f"{_base_name(member, scope)}{TEMPLATE_SUFFIX}"
    if not is_subdomain(longest):
        detail = (
            f'the names of its resources, such as "{longest}", must be DNS subdomains of at most'
            " 253 characters"
        )
        return [invalid(_NAME, name, detail)]
    return []


# Units of Pods. Their names begin with a word for the kind of their owner and the scope.

MAX_UNIT = MAX_LABEL - len(DOMAIN_SUFFIX)
"""The maximum length of a base name, so that the name of the ComputeDomain fits into a label."""


def _name_of_unit(owner: NamedOwner, scope: Scope) -> str:
    """Return the base name of the unit of a Pod, or "" if it names no owner or lacks a label."""
    of_scope = owner.kind.scope(scope)
    values = owner.values_at(of_scope.keys)
    if not owner.name or not all(values):
        return ""
    return shortened("-".join((of_scope.prefix, owner.name, *values)), MAX_UNIT)


def _owner_problems(owner: NamedOwner, scope: Scope) -> Iterator[FieldError]:
    """Yield findings about a missing or ambiguous owner, missing labels, or an invalid name."""
    if not owner.name:
        kinds = ", ".join(kind.title for kind in OWNER_KINDS)
        detail = (
            f"the Pod names no workload whose Pods can share a ComputeDomain ({kinds}): let one of"
            f" these create the Pod, or remove {MNNVL_ENABLED}"
        )
        yield required(_LABELS, detail)
        return

    path = path_of_key(owner.kind.key)
    if owner.second:
        detail = (
            f'the Pod has labels of {owner.kind.title} "{owner.name}" and of a {owner.second}:'
            " remove the labels of the workload that does not own the Pod"
        )
        yield forbidden(path, detail)

    keys = owner.kind.scope(scope).keys
    for key, value in zip(keys, owner.values_at(keys), strict=True):
        if value:
            continue
        others = [each.name for each in owner.kind.scopes if all(owner.values_at(each.keys))]
        choice = f", or set {MNNVL_SCOPE}: {' or '.join(others)}" if others else ""
        detail = (
            f'the scope "{scope}" of a {owner.kind.title} needs this label, which its controller or'
            f" webhook writes: check that both run{choice}"
        )
        yield required(path_of_key(key), detail)

    name = _name_of_unit(owner, scope)
    if name and not is_subdomain(name):
        detail = f'the name of its ComputeDomain "{name}{DOMAIN_SUFFIX}" must be a DNS subdomain'
        yield invalid(path, owner.name, detail)
