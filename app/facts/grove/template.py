"""The parts of a PodCliqueSet that MNNVL depends on.

These are GPUs and pods of its cliques, and annotations of both vocabularies.

An annotation of a clique counts first, then that of its scaling group, then that of the set. For
`grove.io/mnnvl-group`, Grove does the same:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/mnnvl/helpers.go
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.facts.kubernetes.gpus import gpus_of_pod
from app.facts.labels import MNNVL_DEVICE_CLASS, MNNVL_ENABLED, MNNVL_GROUP, MNNVL_SCOPE
from app.objects.fields import FieldPath
from app.objects.shape import int_of, list_of, map_of

OPT_OUT = "none"
"""The value of `grove.io/mnnvl-group` with which a clique opts out.

It opts out of the group of its scaling group or set.
"""

FORMER_ANNOTATION = "grove.io/auto-mnnvl"
"""The annotation of releases of Grove before `grove.io/mnnvl-group`.

They write it themselves to sets with GPUs.
"""

_KEYS = (MNNVL_ENABLED, MNNVL_SCOPE, MNNVL_DEVICE_CLASS, MNNVL_GROUP, FORMER_ANNOTATION)
_TEMPLATE = FieldPath("spec.template")


@dataclass(frozen=True, slots=True)
class Layer:
    """The annotations about MNNVL of one part of the set.

    `holder` is the path of what has them, and `place` names the part for people.
    """

    holder: FieldPath
    place: str
    annotations: Mapping[str, Any]

    @property
    def path(self) -> FieldPath:
        """The path of the annotations."""
        return self.holder.child("annotations")

    @property
    def enabled(self) -> bool:
        """Whether our annotation enables MNNVL."""
        return self.annotations.get(MNNVL_ENABLED) == "true"

    @property
    def group(self) -> str | None:
        """The value of `grove.io/mnnvl-group`.

        "" to opt out, None if there is no such annotation.
        """
        value = self.annotations.get(MNNVL_GROUP)
        return None if not isinstance(value, str) else "" if value == OPT_OUT else value


@dataclass(frozen=True, slots=True)
class GroupTemplate:
    name: str
    layer: Layer
    replicas: int
    min_available: int


@dataclass(frozen=True, slots=True)
class CliqueTemplate:
    """A clique.

    `pods` is their number in one replica of the set or of the scaling group. `gpus` are
    those of one pod, with MIG devices; `whole_gpus` are only those called nvidia.com/gpu,
    which Grove counts. `layers` are its annotations, the most specific first. `group` is
    its scaling group or None. `mnnvl_group` is the group of Grove that it is in, or "".
    `claims` are the names in its resourceClaims, with their paths.
    """

    name: str
    pods: int
    gpus: int
    whole_gpus: int
    layers: tuple[Layer, ...]
    group: GroupTemplate | None
    mnnvl_group: str
    claims: tuple[tuple[FieldPath, str], ...]

    def layer_with(self, annotation: str) -> Layer | None:
        """Return the layer whose value of `annotation` counts for this clique.

        None if there is none.
        """
        return next((layer for layer in self.layers if annotation in layer.annotations), None)

    @property
    def enabling(self) -> Layer | None:
        """The layer with our annotation that enables MNNVL for this clique.

        None if it is not enabled.
        """
        layer = self.layer_with(MNNVL_ENABLED)
        return layer if layer is not None and layer.enabled else None

    @property
    def scope(self) -> str:
        """The scope of our annotations, if MNNVL is enabled for this clique. It may be invalid."""
        layer = self.layer_with(MNNVL_SCOPE)
        return str(layer.annotations[MNNVL_SCOPE] or "replica") if layer is not None else "replica"


@dataclass(frozen=True, slots=True)
class Template:
    """A PodCliqueSet. `layer` contains the annotations of the set itself."""

    name: str
    replicas: int
    layer: Layer
    groups: tuple[GroupTemplate, ...]
    cliques: tuple[CliqueTemplate, ...]

    @property
    def layers(self) -> list[Layer]:
        """All layers of the set, each once."""
        return [
            self.layer,
            *(group.layer for group in self.groups),
            *(clique.layers[0] for clique in self.cliques),
        ]

    @property
    def mentions_mnnvl(self) -> bool:
        """Whether the set has an annotation about MNNVL. Without one, no rule about it applies."""
        return any(layer.annotations for layer in self.layers)

    @property
    def asking(self) -> list[CliqueTemplate]:
        """The cliques with GPUs for which MNNVL is enabled, in either vocabulary.

        MIG devices count only in ours.
        """
        return [
            clique
            for clique in self.cliques
            if (clique.enabling and clique.gpus) or (clique.mnnvl_group and clique.whole_gpus)
        ]


def read_template(obj: Mapping[str, Any], *, groups_read: bool = True) -> Template:
    """Read a PodCliqueSet.

    Parts that don't have the CRD's shape count as absent. Unless Grove reads `grove.io/mnnvl-group`
    (`groups_read`), no clique is in a group.
    """
    metadata = map_of(obj.get("metadata"))
    spec = map_of(obj.get("spec"))
    template = map_of(spec.get("template"))
    whole = Layer(FieldPath("metadata"), "the PodCliqueSet", _about_mnnvl(metadata))

    groups: list[GroupTemplate] = []
    members: dict[str, GroupTemplate] = {}
    groups_at = _TEMPLATE.child("podCliqueScalingGroups")
    for position, item in enumerate(list_of(template.get("podCliqueScalingGroups"))):
        content = map_of(item)
        group = _read_group(content, groups_at.index(position))
        groups.append(group)
        for member in list_of(content.get("cliqueNames")):
            members.setdefault(str(member), group)

    cliques_at = _TEMPLATE.child("cliques")
    cliques = tuple(
        _read_clique(map_of(item), cliques_at.index(position), whole, members, groups_read)
        for position, item in enumerate(list_of(template.get("cliques")))
    )

    return Template(
        str(metadata.get("name") or ""),
        int_of(spec.get("replicas"), 1),
        whole,
        tuple(groups),
        cliques,
    )


def _about_mnnvl(holder: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations of `holder` about MNNVL."""
    annotations = map_of(holder.get("annotations"))
    if not annotations:
        return {}
    return {key: annotations[key] for key in _KEYS if key in annotations}


def _read_group(item: Mapping[str, Any], at: FieldPath) -> GroupTemplate:
    name = str(item.get("name") or "")
    layer = Layer(at, f'scaling group "{name}"', _about_mnnvl(item))
    return GroupTemplate(
        name, layer, int_of(item.get("replicas"), 1), int_of(item.get("minAvailable"), 1)
    )


def _read_clique(
    item: Mapping[str, Any],
    at: FieldPath,
    everywhere: Layer,
    members: Mapping[str, GroupTemplate],
    groups_read: bool,
) -> CliqueTemplate:
    name = str(item.get("name") or "")
    spec = map_of(item.get("spec"))
    pod_spec = map_of(spec.get("podSpec"))
    group = members.get(name)
    own = Layer(at, f'clique "{name}"', _about_mnnvl(item))
    layers = (own, everywhere) if group is None else (own, group.layer, everywhere)
    gpus = gpus_of_pod(pod_spec)
    mnnvl_group = ""
    if groups_read:
        mnnvl_group = next((layer.group for layer in layers if layer.group is not None), "")

    return CliqueTemplate(
        name,
        int_of(spec.get("replicas"), 1),
        gpus.every,
        gpus.whole,
        layers,
        group,
        mnnvl_group,
        _claims(pod_spec, at),
    )


def _claims(pod_spec: Mapping[str, Any], at: FieldPath) -> tuple[tuple[FieldPath, str], ...]:
    """Return the names in the resourceClaims of the clique at `at`, with their paths."""
    claims = list_of(pod_spec.get("resourceClaims"))
    if not claims:
        return ()

    claims_at = at.child("spec.podSpec.resourceClaims")
    return tuple(
        (claims_at.index(position).child("name"), str(map_of(claim).get("name") or ""))
        for position, claim in enumerate(claims)
    )
