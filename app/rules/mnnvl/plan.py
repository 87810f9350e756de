"""The plan of MNNVL resources.

It says which ComputeDomain and ResourceClaim a PodClique shares, their names and labels.
"""

from sys import intern
from typing import Any, Literal

from msgspec.structs import replace

from app.facts.grove.annotations import MnnvlAnnotations
from app.facts.kinds import POD_CLIQUE_SET
from app.facts.labels import (
    CLIQUE_NAME,
    GROVE_PCS_NAME,
    GROVE_PCS_REPLICA,
    GROVE_PCSG_NAME,
    GROVE_PCSG_REPLICA,
    MANAGED_BY,
    MANAGER,
    MNNVL_DEVICE_CLASS,
    MNNVL_MANAGED,
    MNNVL_SCOPE,
    PCS_NAME,
    PCS_REPLICA,
    PCSG_NAME,
    PCSG_REPLICA,
)
from app.facts.nvidia.mnnvl import claim_name, domain_name, template_name
from app.facts.place import Place, read_place
from app.objects.fields import FieldPath, Findings, invalid, not_supported, required
from app.objects.metadata import labels_of
from app.objects.names import MAX_LABEL, is_subdomain
from app.objects.shape import JsonMap, map_of, maps_of, text_at
from app.value import Value

ClaimMode = Literal["shared", "template"]
Scope = Literal["replica", "clique", "scalingGroupReplica"]

SCOPES: tuple[Scope, ...] = ("replica", "clique", "scalingGroupReplica")

DEFAULT_DEVICE_CLASS = "compute-domain.nvidia.com"

_LABELS = FieldPath("metadata.labels")

_ANNOTATIONS = FieldPath("metadata.annotations")


class CliqueMember(Value):
    """The parts of a PodClique on which its resources depend.

    These are the names, labels and first owner of the resources: the PodCliqueSet, whose uid is ""
    if it is not known.
    """

    namespace: str
    name: str
    place: Place
    set_uid: str

    def base_of(self, scope: Scope) -> str:
        """Return the text with which the names of the resources begin.

        For the scope `clique`, that is the name of the PodClique, which is unique for each replica.
        """
        place = self.place
        if scope == "clique":
            return self.name
        if scope == "scalingGroupReplica":
            return f"{place.pcs}-{place.replica}-{place.group}-{place.group_replica}"
        return f"{place.pcs}-{place.replica}"


class Plan(Value):
    """The resources that `member` shares with the others of its `scope`."""

    member: CliqueMember
    scope: Scope
    device_class: str

    @property
    def namespace(self) -> str:
        return self.member.namespace

    @property
    def set_name(self) -> str:
        """The PodCliqueSet, which is the first owner of the resources."""
        return self.member.place.pcs

    @property
    def set_uid(self) -> str:
        return self.member.set_uid

    @property
    def base_name(self) -> str:
        """The text with which the names of the resources begin."""
        return self.member.base_of(self.scope)

    @property
    def compute_domain(self) -> str:
        return domain_name(self.base_name)

    @property
    def claim(self) -> str:
        return claim_name(self.base_name)

    @property
    def template(self) -> str:
        """The ResourceClaimTemplate that NVIDIA's driver makes for the ComputeDomain."""
        return template_name(self.base_name)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the resources, which name the replica that shares them.

        No label names a PodGang, because Grove replaces PodGangs while pods run.
        """
        place = self.member.place
        labels = {PCS_NAME: place.pcs, PCS_REPLICA: place.replica}
        if self._is_in_group:
            labels |= {PCSG_NAME: place.group, PCSG_REPLICA: place.group_replica}
        if self.scope == "clique":
            labels[CLIQUE_NAME] = _clique_name(self.member)
        labels |= {MNNVL_MANAGED: "true", MANAGED_BY: MANAGER}
        return {key: value for key, value in labels.items() if _as_label(value)}

    def is_at(self, place: Place) -> bool:
        """Return whether `labels` name the replica of `place`, which was read of a resource."""
        own = self.member.place
        if place.pcs != own.pcs or place.replica != own.replica:
            return False
        if not self._is_in_group:
            return not place.group and not place.group_replica

        group = _as_label(own.group)
        return place.group == group and place.group_replica == _as_label(own.group_replica)

    def owned_by(self, set_uid: str) -> "Plan":
        return replace(self, member=replace(self.member, set_uid=set_uid))

    @property
    def _is_in_group(self) -> bool:
        """Whether the resources belong to one replica of a scaling group."""
        place = self.member.place
        return self.scope != "replica" and bool(place.group and place.group_replica)


def read_member(obj: JsonMap, namespace: str) -> CliqueMember:
    """Read a PodClique. A value that is missing or has the wrong type is "" in the result.

    Equal texts are one object, because there may be very many PodCliques.
    """
    metadata = map_of(obj.get("metadata"))
    place = read_place(labels_of(obj))
    return CliqueMember(
        namespace=intern(namespace),
        name=text_at(metadata, "name"),
        place=place,
        set_uid=intern(_set_uid(metadata.get("ownerReferences"), place.pcs)),
    )


def possible_scopes(member: CliqueMember) -> tuple[Scope, ...]:
    """Return the scopes for which a PodClique has all labels."""
    place = member.place
    if not (place.pcs and place.replica and member.name):
        return ()
    return SCOPES if place.group and place.group_replica else ("replica", "clique")


def read_plan(
    member: CliqueMember, annotations: MnnvlAnnotations, findings: Findings
) -> Plan | None:
    """Return the plan of a PodClique for which `annotations` count.

    Adds problems to `findings`, and returns None if there are any, including earlier ones.
    """
    scope = _scope(annotations, findings)
    _check(member, scope, findings)
    device_class = _device_class(annotations, findings)
    return None if findings else Plan(member, scope, device_class)


def _scope(annotations: MnnvlAnnotations, findings: Findings) -> Scope:
    value = annotations.scope or "replica"
    for scope in SCOPES:
        if value == scope:
            return scope
    findings.append(not_supported(_ANNOTATIONS.key(MNNVL_SCOPE), value, SCOPES))
    return "replica"


def _check(member: CliqueMember, scope: Scope, findings: Findings) -> None:
    """Add findings about labels that `scope` needs and about a name that contradicts them."""
    before = len(findings)
    place = member.place
    name = member.name
    _need(place.pcs, PCS_NAME, GROVE_PCS_NAME, "the name of the PodCliqueSet", findings)
    _need_index(place.replica, PCS_REPLICA, GROVE_PCS_REPLICA, "the PodCliqueSet replica", findings)
    if scope == "scalingGroupReplica":
        _need(place.group, PCSG_NAME, GROVE_PCSG_NAME, "the name of the scaling group", findings)
        _need_index(
            place.group_replica,
            PCSG_REPLICA,
            GROVE_PCSG_REPLICA,
            "the scaling group replica",
            findings,
        )

    if not name:
        findings.append(required(FieldPath("metadata.name"), "MNNVL resources are named after it"))
        return

    prefix = f"{place.pcs}-{place.replica}-"
    if len(findings) == before and not name.startswith(prefix):
        detail = f'must begin with "{prefix}", the PodCliqueSet and replica that the labels name'
        findings.append(invalid(FieldPath("metadata.name"), name, detail))

    longest = template_name(member.base_of(scope))
    if len(findings) == before and not is_subdomain(longest):
        detail = (
            f'the names of its resources, such as "{longest}", must be DNS subdomains of 253'
            " characters"
        )
        findings.append(invalid(FieldPath("metadata.name"), name, detail))


def _need(value: str, key: str, grove_key: str, meaning: str, findings: Findings) -> None:
    if not value:
        findings.append(
            required(
                _LABELS.key(key),
                f"{meaning} (or Grove's own label {grove_key}) is needed for MNNVL",
            )
        )
    elif len(value) > MAX_LABEL:
        findings.append(
            invalid(_LABELS.key(key), value, f"must be no more than {MAX_LABEL} characters")
        )


def _need_index(value: str, key: str, grove_key: str, meaning: str, findings: Findings) -> None:
    _need(value, key, grove_key, meaning, findings)
    if value and not (value.isascii() and value.isdecimal()):
        findings.append(
            invalid(_LABELS.key(key), value, f"must be the index of {meaning}, a number from 0")
        )


def _device_class(annotations: MnnvlAnnotations, findings: Findings) -> str:
    value = device_class_of(annotations)
    if not is_device_class(value):
        detail = f"must be the name of a DeviceClass, such as {DEFAULT_DEVICE_CLASS}"
        findings.append(invalid(_ANNOTATIONS.key(MNNVL_DEVICE_CLASS), value, detail))
    return str(value)


def device_class_of(annotations: MnnvlAnnotations) -> Any:
    """Return the DeviceClass that `annotations` name, which may be invalid, or the default."""
    return annotations.device_class or DEFAULT_DEVICE_CLASS


def is_device_class(value: Any) -> bool:
    """Return whether `value` can be the name of a DeviceClass."""
    return value == DEFAULT_DEVICE_CLASS or (isinstance(value, str) and is_subdomain(value))


def _as_label(value: str) -> str:
    return value if len(value) <= MAX_LABEL else ""


def _clique_name(member: CliqueMember) -> str:
    place = member.place
    name = member.name.removeprefix(f"{place.pcs}-{place.replica}-")
    return name.removeprefix(f"{place.group}-{place.group_replica}-") if place.group else name


def _set_uid(references: Any, pcs: str) -> str:
    """Return the uid of the PodCliqueSet `pcs`.

    "" if it does not own the PodClique directly, but through a scaling group.
    """
    for reference in maps_of(references):
        if (reference.get("kind"), reference.get("name")) == (POD_CLIQUE_SET.kind, pcs):
            return str(reference.get("uid") or "")
    return ""
