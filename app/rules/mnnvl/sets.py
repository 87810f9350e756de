"""Validate the MNNVL annotations of a PodCliqueSet.

Our annotations and Grove's `grove.io/mnnvl-group` cannot be used together. PodCliques inherit the
annotations of their set and would be rejected one by one, so the set is rejected first. Groups that
Grove accepts although they cannot work are rejected too.

For each group (`grove.io/mnnvl-group`) and each replica of the set, Grove creates a ComputeDomain
`<set>-<replica>-<group>`, with that name in a label. Grove injects the claim `mnnvl-claim` unless
the pod already has a claim with that name. Source:
https://github.com/ai-dynamo/grove/tree/fcc3b3bb/operator/internal/mnnvl
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.grove.template import (
    FORMER_ANNOTATION,
    CliqueTemplate,
    SetPart,
    Template,
    owner_text,
)
from app.facts.grove.unit_member import GROVE_CLAIM, SCOPES
from app.facts.labels import MNNVL_DEVICE_CLASS, MNNVL_ENABLED, MNNVL_GROUP, MNNVL_SCOPE
from app.objects.fields import FieldError, Findings, invalid, listed, not_supported
from app.objects.names import MAX_LABEL, is_index, is_label
from app.rules.mnnvl.claim import both_vocabularies
from app.rules.mnnvl.plan import DEFAULT_DEVICE_CLASS, NO_DEVICE_CLASS, is_device_class

_SHOWN = 5

GROVE_FINALIZER = "grove.io/computedomain-finalizer"
"""The finalizer of Grove's ComputeDomains. Grove removes it only when it deletes them itself."""


def validate_annotations(
    template: Template, old: Template | None, others: Sequence[PodCliqueSet] | None
) -> tuple[Findings, list[str]]:
    """Return findings and warnings about the MNNVL annotations of a PodCliqueSet.

    `old` is the set that an UPDATE replaces, None at CREATE. `others` are the stored sets of its
    namespace, or None if Grove does not read `grove.io/mnnvl-group`. Findings that `old` has too
    are warnings.
    """
    if not template.mentions_mnnvl:
        return [], []

    findings = _findings(template, others)
    stored = set()
    if findings and old is not None:
        stored = {str(finding) for finding in _findings(old, others)}

    return (
        [finding for finding in findings if str(finding) not in stored],
        [
            f"already stored, so still allowed: {finding}"
            for finding in findings
            if str(finding) in stored
        ],
    )


def _findings(template: Template, others: Sequence[PodCliqueSet] | None) -> Findings:
    of_groups = [] if others is None else group_findings(template, others)
    return [*_value_findings(template), *of_groups]


def _value_findings(template: Template) -> Iterator[FieldError]:
    """Yield one finding about each invalid scope or DeviceClass that has an effect.

    A value has an effect if it applies to a clique with GPUs for which MNNVL is enabled.
    """
    reported: set[tuple[int, str]] = set()
    for clique in template.cliques:
        if clique.enabling is None or not clique.gpus:
            continue
        for key, problem_of in (
            (MNNVL_SCOPE, _scope_problem),
            (MNNVL_DEVICE_CLASS, _device_class_problem),
        ):
            part = clique.part_with(key)
            if part is None or (id(part), key) in reported:
                continue
            problem = problem_of(part, clique)
            if problem is not None:
                reported.add((id(part), key))
                yield problem


def _scope_problem(part: SetPart, clique: CliqueTemplate) -> FieldError | None:
    scope = part.annotations.get(MNNVL_SCOPE) or "replica"
    path = part.path_of(MNNVL_SCOPE)
    if scope not in SCOPES:
        return not_supported(path, scope, SCOPES)
    if scope == "scalingGroupReplica" and not clique.group:
        detail = (
            f'clique "{clique.name}" is not in a scaling group. Annotate it with {MNNVL_SCOPE}:'
            " replica or clique"
        )
        return invalid(path, scope, detail)
    return None


def _device_class_problem(part: SetPart, clique: CliqueTemplate) -> FieldError | None:
    device_class = part.annotations.get(MNNVL_DEVICE_CLASS) or DEFAULT_DEVICE_CLASS
    if is_device_class(device_class):
        return None
    return invalid(part.path_of(MNNVL_DEVICE_CLASS), device_class, NO_DEVICE_CLASS)


def group_findings(template: Template, others: Sequence[PodCliqueSet]) -> Findings:
    """Return findings about the MNNVL groups of a PodCliqueSet (`grove.io/mnnvl-group`).

    `others` are the stored sets of its namespace.
    """
    findings = [*_both_in_set(template), *_values(template)]
    names = {
        clique.mnnvl_group
        for clique in template.cliques
        if clique.mnnvl_group and clique.whole_gpus
    }
    if findings or not names:
        return findings

    return [
        *_too_long(template, names),
        *_collisions(template, names, others),
        *_own_claims(template),
    ]


def _both_in_set(template: Template) -> Iterator[FieldError]:
    """Yield a finding for each part of a set to which our annotation and a group of Grove apply."""
    reported: set[int] = set()
    for part in template.parts:
        if part.enabled and part.group:
            reported.add(id(part))
            yield both_vocabularies(part.annotations_path, part.group)

    for clique in template.cliques:
        enabling = clique.enabling
        if (
            enabling is not None
            and clique.mnnvl_group
            and not any(id(part) in reported for part in clique.parts)
        ):
            reason = f"{owner_text(enabling.owner)} has {MNNVL_ENABLED}"
            yield both_vocabularies(clique.parts[0].annotations_path, clique.mnnvl_group, reason)


def _values(template: Template) -> Iterator[FieldError]:
    for part in template.parts:
        value = part.annotations.get(MNNVL_GROUP)
        if value is not None and not (isinstance(value, str) and is_label(value)):
            text = (
                "must be \"none\" or a name of at most 63 lowercase letters, digits and '-', which"
                " starts and ends with a letter or digit"
            )
            yield invalid(part.path_of(MNNVL_GROUP), value, text)


# Names of ComputeDomains.

MOST_COLLISIONS = 100
"""The maximum number of findings about ComputeDomains that another set has too.

Without this limit, a user with 4,000 sets that collide in 128 groups each could make a review take
1.3 s.
"""


def _too_long(template: Template, names: Collection[str]) -> Iterator[FieldError]:
    last = max(template.replicas - 1, 0)
    for part in template.parts:
        longest = f"{template.name}-{last}-{part.group}"
        if part.group and part.group in names and len(longest) > MAX_LABEL:
            most = MAX_LABEL - len(f"{template.name}-{last}-")
            text = (
                f'the name of ComputeDomain "{longest}" would have {len(longest)} characters, but'
                f" Grove writes it into a label, which holds {MAX_LABEL}: Grove would never create"
                " the PodCliques. "
                + (
                    f"Create the PodCliqueSet with a group name of at most {most} characters"
                    if most > 1
                    else "Create the PodCliqueSet with a shorter name"
                )
            )
            yield invalid(part.path_of(MNNVL_GROUP), part.group, text)


def _collisions(
    template: Template, names: Collection[str], others: Iterable[PodCliqueSet]
) -> Iterator[FieldError]:
    """Yield findings about ComputeDomains that another set has too, up to MOST_COLLISIONS."""
    parts = {part.group: part for part in reversed(template.parts)}
    ours = Domains(template.name, template.replicas, names)
    living = (other for other in others if not other.deleting)
    clashes = (
        (*clash, other.name)
        for other in living
        for clash in ours.shared_with((other.name, other.replicas, other.mnnvl_groups))
    )
    for name, other_group, shared, other_name in islice(clashes, MOST_COLLISIONS):
        text = (
            f'group "{other_group}" of PodCliqueSet "{other_name}" uses the same'
            f' ComputeDomain "{shared}", which Grove would not take over: Grove would never'
            " create the PodCliques of this PodCliqueSet. Create it with another group name"
        )
        yield invalid(parts[name].path_of(MNNVL_GROUP), name, text)


Groups = tuple[str, int, Collection[str]]
"""The name of a set, the number of its replicas, and the names of its MNNVL groups."""


class Domains:
    """The names of the ComputeDomains of a set: `<set>-<replica>-<group>`.

    The set "a" with the group "1-x" and the set "a-0" with the group "x" therefore share `a-0-1-x`.
    The time for a comparison grows with the number of the other set's groups. It does not grow with
    the number of our groups or of replicas.
    """

    def __init__(self, name: str, replicas: int, groups: Collection[str]) -> None:
        self._name = name
        self._replicas = max(replicas, 1)
        self._groups = frozenset(groups)
        self._splits: dict[str, dict[str, list[tuple[str, str]]]] = {}
        """Our groups and the numbers in their names, by the text before and after the number."""
        for group in sorted(groups):
            pieces = group.split("-")
            for at, piece in enumerate(pieces[:-1]):
                if piece.isdecimal():
                    before, behind = "-".join(pieces[:at]), "-".join(pieces[at + 1 :])
                    of_suffix = self._splits.setdefault(before, {})
                    of_suffix.setdefault(behind, []).append((group, piece))

    def shared_with(self, other: Groups) -> list[tuple[str, str, str]]:
        """Return the groups of two sets that have a ComputeDomain of the same name.

        Each item is (our group, group of the other set, name of the ComputeDomain).
        """
        name, replicas, groups = other
        if len(name) < len(self._name):
            return self._shared_with_shorter(other)

        index, _, suffix = name.removeprefix(f"{self._name}-").partition("-")
        splits = self._splits.get(suffix)
        if (
            not splits
            or not name.startswith(f"{self._name}-")
            or not is_index(index, self._replicas)
        ):
            return []
        return sorted(
            (group, behind, f"{self._name}-{index}-{group}")
            for behind in splits.keys() & set(groups)
            for group, inner in splits[behind]
            if is_index(inner, max(replicas, 1))
        )

    def _shared_with_shorter(self, other: Groups) -> list[tuple[str, str, str]]:
        name, replicas, groups = other
        index, _, suffix = self._name.removeprefix(f"{name}-").partition("-")
        if not self._name.startswith(f"{name}-") or not is_index(index, max(replicas, 1)):
            return []

        begin = f"{suffix}-" if suffix else ""
        shared = []
        for group in groups:
            inner, _, rest = group.removeprefix(begin).partition("-")
            if group.startswith(begin) and rest in self._groups and is_index(inner, self._replicas):
                shared.append((rest, group, f"{name}-{index}-{group}"))
        return sorted(shared)


# Claims.


def _own_claims(template: Template) -> Iterator[FieldError]:
    for clique in template.cliques:
        for path, name in clique.claims:
            if name == GROVE_CLAIM and clique.mnnvl_group and clique.whole_gpus:
                text = (
                    "Grove treats a claim with this name as its own and would not inject the claim"
                    f' of group "{clique.mnnvl_group}": the pods would not join its ComputeDomain,'
                    " and would stay pending if nothing creates their claim. Rename the claim"
                )
                yield invalid(path, name, text)


# Ignored annotations.


def ignored_annotations(
    template: Template, *, groups_read: bool | None, compute_domains: bool
) -> list[str]:
    """Return warnings about MNNVL annotations that have no effect.

    `groups_read` says whether the Grove of this cluster reads `grove.io/mnnvl-group`, or None if
    its release is not known. `compute_domains` is true if NVIDIA's ComputeDomain API is installed.
    """
    warnings = [
        warning for part in template.parts for warning in _unread(part, groups_read=groups_read)
    ]
    warnings += _without_enabled(template)
    if groups_read is not False:
        warnings += _without_gpus(template)
    asking = template.asking
    if asking and not compute_domains:
        warnings.append(
            f"MNNVL is requested by {_listed(asking)}, but NVIDIA's ComputeDomain API is not"
            " installed in this cluster: install NVIDIA's DRA driver, or remove the annotations"
        )

    return warnings


def _listed(cliques: Sequence[CliqueTemplate]) -> str:
    return listed([owner_text(clique.parts[0].owner) for clique in cliques], _SHOWN)


def _unread(part: SetPart, *, groups_read: bool | None) -> Iterator[str]:
    annotations = part.annotations
    if groups_read and FORMER_ANNOTATION in annotations:
        yield (
            f"{part.path_of(FORMER_ANNOTATION)} has no effect in this cluster; use"
            f" {MNNVL_GROUP} or {MNNVL_ENABLED}"
        )

    enabled = annotations.get(MNNVL_ENABLED)
    if enabled is not None and enabled not in ("true", "false"):
        yield (
            f'{part.path_of(MNNVL_ENABLED)} is "{enabled}", which counts as "false"; only "true"'
            " enables MNNVL"
        )

    if part.group and groups_read is False:
        yield (
            f"{part.path_of(MNNVL_GROUP)} is ignored by this cluster's release of Grove; use"
            f" {MNNVL_ENABLED} and {MNNVL_SCOPE}"
        )


def _without_enabled(template: Template) -> Iterator[str]:
    """Yield warnings about scopes and DeviceClasses that have no effect.

    They apply to no clique for which MNNVL is enabled, and the part that has them lacks
    MNNVL_ENABLED.
    """
    enabled = [clique for clique in template.cliques if clique.enabling]
    counting = {
        (id(clique.part_with(key)), key)
        for clique in enabled
        for key in (MNNVL_SCOPE, MNNVL_DEVICE_CLASS)
    }
    for part in template.parts:
        for key in (MNNVL_SCOPE, MNNVL_DEVICE_CLASS):
            if (
                key in part.annotations
                and MNNVL_ENABLED not in part.annotations
                and (id(part), key) not in counting
            ):
                yield (
                    f"{part.path_of(key)} has no effect: it applies to no clique for which"
                    f' {MNNVL_ENABLED} is "true"'
                )


def _without_gpus(template: Template) -> Iterator[str]:
    members: dict[int, list[CliqueTemplate]] = {}
    for clique in template.cliques:
        decisive = next((part for part in clique.parts if part.group is not None), None)
        members.setdefault(id(decisive), []).append(clique)
    for part in template.parts:
        cliques = members.get(id(part), [])
        if part.group and cliques and not any(clique.whole_gpus for clique in cliques):
            yield (
                f'{part.path_of(MNNVL_GROUP)} "{part.group}" is ignored: no container of'
                f" {_listed(cliques)} requests nvidia.com/gpu"
            )
