"""Read a PodCliqueSet from a request: the set itself, its scaling groups and its cliques.

A part can have a topologyConstraint, and annotations about MNNVL: those of the design, and Grove's
own. An annotation of a clique takes precedence over its scaling group's, and the scaling group's
over the set's. For `grove.io/mnnvl-group`, Grove does the same:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/mnnvl/helpers.go
"""

from collections.abc import Mapping
from typing import Any

from app.base.value import Value
from app.facts.grove.podcliqueset import group_in
from app.facts.kubernetes.gpus import gpus_of_pod
from app.facts.labels import KAI_QUEUE, MNNVL_DEVICE_CLASS, MNNVL_ENABLED, MNNVL_GROUP, MNNVL_SCOPE
from app.objects.fields import (
    MOST_ITEMS,
    CheckedMap,
    FieldError,
    FieldPath,
    Findings,
    wrong_type,
)
from app.objects.names import MAX_SUBDOMAIN
from app.objects.shape import JsonMap, int_of, list_of, map_of, only, text_at

Owner = tuple[str, str]
"""The identity of a part: ("set", ""), ("group", name) or ("clique", name).

It does not depend on the order of the lists.
"""

SET: Owner = ("set", "")

FORMER_ANNOTATION = "grove.io/auto-mnnvl"
"""The MNNVL annotation of Grove's releases before `grove.io/mnnvl-group`.

In these releases, Grove itself adds it to sets with GPUs.
"""

_KEYS = (MNNVL_ENABLED, MNNVL_SCOPE, MNNVL_DEVICE_CLASS, MNNVL_GROUP, FORMER_ANNOTATION)
_METADATA = FieldPath("metadata")
_TEMPLATE = FieldPath("spec.template")


def owner_text(owner: Owner) -> str:
    """Return `owner` as text for messages, such as `scaling group "a"`."""
    kind, name = owner
    if kind == "set":
        return "the PodCliqueSet"
    return f'{"scaling group" if kind == "group" else "clique"} "{name}"'


class SetPart(Value):
    """A part of a PodCliqueSet: the set itself, a scaling group or a clique."""

    owner: Owner
    """The kind and the name of the part."""
    path: FieldPath
    """The path of the object or template that has the constraint."""
    constraint: JsonMap | None
    """The topologyConstraint, or None if there is none."""
    annotations: JsonMap
    """The annotations about MNNVL: those of the design, and Grove's own."""
    all_annotations: JsonMap
    """All annotations of the part."""
    labels: JsonMap

    @property
    def metadata_path(self) -> FieldPath:
        """The path of the object or template that has the labels and annotations."""
        return _METADATA if self.owner == SET else self.path

    @property
    def queue(self) -> tuple[FieldPath, str] | None:
        """The path and the name of the KAI queue, from a label, or else from an annotation.

        It is None if neither names a queue. Grove looks for a queue in the same places:
        https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/scheduler/kai/backend.go
        """
        for field, texts in (("labels", self.labels), ("annotations", self.all_annotations)):
            name = text_at(texts, KAI_QUEUE)
            if name:
                return self.metadata_path.child(field).key(KAI_QUEUE), name
        return None

    @property
    def annotations_path(self) -> FieldPath:
        """The path of the annotations."""
        return self.metadata_path.child("annotations")

    def path_of(self, annotation: str) -> FieldPath:
        """Return the path of `annotation`, whether the part has this annotation or not."""
        return self.annotations_path.key(annotation)

    @property
    def enabled(self) -> bool:
        """Whether our annotation enables MNNVL."""
        return self.annotations.get(MNNVL_ENABLED) == "true"

    @property
    def group(self) -> str | None:
        """The MNNVL group of Grove that the part requests.

        The values "" and None have the same meaning as in `group_in`.
        """
        return group_in(self.annotations)


class GroupTemplate(Value):
    """A scaling group of a PodCliqueSet from a request."""

    name: str
    part: SetPart
    """The group as a part of the set."""
    replicas: int
    """The number of replicas of the group in one replica of the set."""
    min_available: int
    """The number of replicas that must be scheduled together."""
    members: tuple[str, ...]
    """The names of the cliques in the group."""


class CliqueTemplate(Value):
    """A clique of a PodCliqueSet from a request."""

    name: str
    pods: int
    """The number of pods in one replica of the set or of the scaling group."""
    min_available: int
    """The number of these pods that must be scheduled together."""
    gpus: int
    """The GPUs of one pod, including MIG devices."""
    whole_gpus: int
    """The GPUs of one pod that are named nvidia.com/gpu. Grove counts only these."""
    parts: tuple[SetPart, ...]
    """The parts whose annotations apply to the clique, most specific first."""
    group: GroupTemplate | None
    """The first scaling group that contains the clique, or None."""
    mnnvl_group: str
    """The MNNVL group of Grove (`grove.io/mnnvl-group`) for the pods, or ""."""
    claims: tuple[tuple[FieldPath, str], ...]
    """The paths and names of the first MOST_ITEMS resourceClaims."""
    scheduler: str = ""
    """The schedulerName of the pods, or "" for Grove's default."""

    enabling: SetPart | None = None
    """The part in which our annotation enables MNNVL for the clique, or None if none does."""

    def part_with(self, annotation: str) -> SetPart | None:
        """Return the part whose value of `annotation` counts for this clique, or None."""
        for part in self.parts:
            if annotation in part.annotations:
                return part
        return None

    @property
    def scope(self) -> str:
        """The value of our scope annotation for the clique, which may be invalid.

        It is "replica" by default.
        """
        part = self.part_with(MNNVL_SCOPE)
        return str((part and part.annotations[MNNVL_SCOPE]) or "replica")


CountedClique = tuple[CliqueTemplate, int]
"""A clique, and the number of its pods that a rule counts."""

GroupsOf = Mapping[str, Mapping[Owner, GroupTemplate]]
"""The scaling groups of each clique: by the name of the clique, then by owner."""


class Template(Value):
    """A PodCliqueSet from a request."""

    name: str
    replicas: int
    """The number of replicas of the set."""
    parts: tuple[SetPart, ...]
    """The set, then its scaling groups and its cliques in list order."""
    groups: tuple[GroupTemplate, ...]
    """The scaling groups, in list order."""
    cliques: tuple[CliqueTemplate, ...]
    """The cliques, in list order."""
    groups_of: GroupsOf
    """The scaling groups of each clique, by the name of the clique."""
    findings: tuple[FieldError, ...]
    """Findings about parts that don't have the CRD's shape, which count as absent."""

    has_gpus: bool
    """Whether any clique has GPUs."""
    mentions_mnnvl: bool
    """Whether any part has an annotation about MNNVL. If not, no rule about MNNVL applies."""
    asking: tuple[CliqueTemplate, ...]
    """The cliques with GPUs for which the design's or Grove's annotations request MNNVL.

    For Grove's annotations, MIG devices do not count as GPUs.
    """

    def above(self, owner: Owner) -> list[Owner]:
        """Return the parts that enclose `owner`: the set, then the scaling groups of a clique."""
        kind, name = owner
        if kind == "clique":
            return [SET, *self.groups_of.get(name, ())]
        return [] if kind == "set" else [SET]


def read_template(obj: JsonMap, *, groups_read: bool = True) -> Template:
    """Read a PodCliqueSet.

    `groups_read` says whether Grove reads `grove.io/mnnvl-group`. If not, no clique is in a group.
    """
    metadata = map_of(obj.get("metadata"))
    spec = CheckedMap(obj).child("spec")
    template = spec.child("template")
    findings = template.findings
    whole = _read_part(SET, _TEMPLATE, template.content, metadata, findings)

    parts = [whole]
    groups: list[GroupTemplate] = []
    groups_of: dict[str, dict[Owner, GroupTemplate]] = {}
    for part, content in _parts_in(template, "podCliqueScalingGroups", "group"):
        names = CheckedMap(content, findings, part.path.step, part.path.parent)
        group = GroupTemplate(
            name=part.owner[1],
            part=part,
            replicas=int_of(content.get("replicas"), 1),
            min_available=int_of(content.get("minAvailable"), 1),
            members=tuple(map(_name, names.list_at("cliqueNames"))),
        )
        parts.append(part)
        groups.append(group)
        for member in group.members:
            groups_of.setdefault(member, {}).setdefault(part.owner, group)

    cliques: list[CliqueTemplate] = []
    for part, content in _parts_in(template, "cliques", "clique"):
        of_clique = groups_of.get(part.owner[1])
        parts.append(part)
        cliques.append(_read_clique(part, content, whole, of_clique, groups_read))

    annotated = [part for part in parts if part.annotations]
    with_gpus = [clique for clique in cliques if clique.gpus]
    asking: list[CliqueTemplate] = []
    if annotated:
        asking = [
            clique
            for clique in with_gpus
            if clique.enabling or (clique.mnnvl_group and clique.whole_gpus)
        ]
    return Template(
        name=str(metadata.get("name") or ""),
        replicas=int_of(spec.content.get("replicas"), 1),
        parts=tuple(parts),
        groups=tuple(groups),
        cliques=tuple(cliques),
        groups_of=groups_of,
        findings=tuple(findings),
        has_gpus=bool(with_gpus),
        mentions_mnnvl=bool(annotated),
        asking=tuple(asking),
    )


def _parts_in(template: CheckedMap, field: str, kind: str) -> list[tuple[SetPart, JsonMap]]:
    """Return the groups or the cliques in a list of `template`, each with its content.

    Items that are not maps become findings.
    """
    path = _TEMPLATE.child(field)
    findings = template.findings
    parts: list[tuple[SetPart, JsonMap]] = []
    for position, item in enumerate(template.list_at(field)):
        at = FieldPath(position, path)
        if isinstance(item, dict):
            owner = (kind, _name(item.get("name") or ""))
            parts.append((_read_part(owner, at, item, item, findings), item))
        else:
            findings.append(wrong_type(at, item, "a map"))
    return parts


def _name(value: Any) -> str:
    """Return the name of a group or a clique.

    A name that is too long for an object is truncated, because findings about many parts may
    contain it.
    """
    return str(value)[:MAX_SUBDOMAIN]


def _read_part(
    owner: Owner, path: FieldPath, content: JsonMap, annotated: JsonMap, findings: Findings
) -> SetPart:
    """Return the part `owner`. `annotated` is the object that has its labels and annotations.

    A topologyConstraint that is not a map becomes a finding, and counts as absent.
    """
    annotations = annotated.get("annotations")
    if not isinstance(annotations, dict):
        annotations = {}
    constraint = content.get("topologyConstraint")
    if constraint is not None and not isinstance(constraint, dict):
        findings.append(wrong_type(path.child("topologyConstraint"), constraint, "a map"))
        constraint = None

    return SetPart(
        owner=owner,
        path=path,
        constraint=constraint,
        annotations=annotations and only(annotations, _KEYS),
        all_annotations=annotations,
        labels=map_of(annotated.get("labels")),
    )


def _read_clique(
    own: SetPart,
    content: JsonMap,
    whole: SetPart,
    groups: Mapping[Owner, GroupTemplate] | None,
    groups_read: bool,
) -> CliqueTemplate:
    """Return the clique `own`. `whole` is the set, and `groups` are the clique's scaling groups."""
    spec = map_of(content.get("spec"))
    pod_spec = map_of(spec.get("podSpec"))
    gpus = gpus_of_pod(pod_spec)
    pods = int_of(spec.get("replicas"), 1) or 1  # Grove sets 0 to 1 before our webhook is called

    group = next(iter(groups.values())) if groups else None
    parts = (own, whole) if group is None else (own, group.part, whole)
    enabling = None
    mnnvl_group = ""
    for part in reversed(parts):  # the most specific part decides, which is the last one here
        if not part.annotations:
            continue
        if MNNVL_ENABLED in part.annotations:
            enabling = part if part.enabled else None
        if groups_read and part.group is not None:
            mnnvl_group = part.group

    claims = pod_spec.get("resourceClaims")
    return CliqueTemplate(
        name=own.owner[1],
        pods=pods,
        min_available=int_of(spec.get("minAvailable"), pods),
        gpus=gpus.every,
        whole_gpus=gpus.whole,
        parts=parts,
        group=group,
        mnnvl_group=mnnvl_group,
        claims=_paths_and_names(own.path, claims) if claims else (),
        scheduler=text_at(pod_spec, "schedulerName"),
        enabling=enabling,
    )


def _paths_and_names(clique: FieldPath, claims: Any) -> tuple[tuple[FieldPath, str], ...]:
    """Return the paths and names of the first MOST_ITEMS resourceClaims of a clique's pods."""
    path = clique.child("spec.podSpec.resourceClaims")
    return tuple(
        (path.index(position).child("name"), str(map_of(claim).get("name") or ""))
        for position, claim in enumerate(list_of(claims)[:MOST_ITEMS])
    )
