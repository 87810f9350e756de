"""The cliques of a PodCliqueSet as MNNVL sees them: GPUs, pods, and the annotations of both vocabularies.

Both are resolved from the most specific place to the least: the clique, its scaling group, the set. For
`grove.io/mnnvl-group` this is what Grove does:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/mnnvl/helpers.go
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from app.objects.fields import FieldPath
from app.rules.labels import MNNVL_ENABLED, MNNVL_GROUP, MNNVL_SCOPE
from app.rules.mnnvl.claims import is_gpu

OPT_OUT = "none"
"""The value of `grove.io/mnnvl-group` that takes a clique out of the group above it."""

GPU = "nvidia.com/gpu"

_TEMPLATE = FieldPath("spec.template")


@dataclass(frozen=True, slots=True)
class Layer:
    """Annotations in one place; `path` is that of the annotations, `place` names it for people."""

    path: FieldPath
    place: str
    annotations: Mapping[str, Any]

    @property
    def enabled(self) -> bool:
        """Whether our annotation asks for MNNVL."""
        return self.annotations.get(MNNVL_ENABLED) == "true"

    @property
    def group(self) -> str | None:
        """The value of `grove.io/mnnvl-group`, "" if it opts out, None without that annotation."""
        value = self.annotations.get(MNNVL_GROUP)
        return None if not isinstance(value, str) else "" if value == OPT_OUT else value


@dataclass(frozen=True, slots=True)
class CliqueTemplate:
    """One clique. `pods` are those of one replica of the set or of its scaling group. `gpus` are the GPUs of one pod,
    MIG devices included; `whole_gpus` are those called nvidia.com/gpu, which are all that Grove counts. `layers` are
    its annotations, the most specific first, `group` its scaling group or "". `claims` are the names in its
    resourceClaims, each with its path."""

    name: str
    path: FieldPath
    pods: int
    gpus: int
    whole_gpus: int
    layers: tuple[Layer, ...]
    group: str
    claims: tuple[tuple[FieldPath, str], ...]

    @property
    def mnnvl_group(self) -> str:
        """Grove's group of this clique, "" if it is in none."""
        return next((layer.group for layer in self.layers if layer.group is not None), "")

    @property
    def enabling(self) -> Layer | None:
        """Where our annotation that counts for this clique is; None if it doesn't ask for MNNVL."""
        layer = next((layer for layer in self.layers if MNNVL_ENABLED in layer.annotations), None)
        return layer if layer is not None and layer.enabled else None

    @property
    def scope(self) -> str:
        layer = self.enabling
        return str(layer.annotations.get(MNNVL_SCOPE) or "replica") if layer is not None else ""


@dataclass(frozen=True, slots=True)
class ScalingGroup:
    name: str
    layer: Layer
    replicas: int
    min_available: int


@dataclass(frozen=True, slots=True)
class Template:
    """A PodCliqueSet; `layer` are the annotations of the set itself."""

    namespace: str
    name: str
    replicas: int
    layer: Layer
    groups: tuple[ScalingGroup, ...]
    cliques: tuple[CliqueTemplate, ...]

    @property
    def layers(self) -> list[Layer]:
        """All places of annotations, each once."""
        return [self.layer, *(group.layer for group in self.groups), *(clique.layers[0] for clique in self.cliques)]

    def group_of(self, clique: CliqueTemplate) -> ScalingGroup | None:
        return next((group for group in self.groups if group.name == clique.group), None)


def read_template(obj: Mapping[str, Any], namespace: str = "") -> Template:
    """Reads a PodCliqueSet. What isn't of the CRD's shape counts as absent."""
    metadata, spec = _map(obj.get("metadata")), _map(obj.get("spec"))
    template = _map(spec.get("template"))
    whole = Layer(FieldPath("metadata.annotations"), "the PodCliqueSet", _map(metadata.get("annotations")))
    groups: list[ScalingGroup] = []
    members: dict[str, ScalingGroup] = {}
    for position, item in enumerate(_list(template.get("podCliqueScalingGroups"))):
        group = _read_group(_map(item), _TEMPLATE.child("podCliqueScalingGroups").index(position))
        groups.append(group)
        for member in _list(_map(item).get("cliqueNames")):
            members.setdefault(str(member), group)
    cliques = tuple(
        _read_clique(_map(item), _TEMPLATE.child("cliques").index(position), whole, members)
        for position, item in enumerate(_list(template.get("cliques")))
    )
    name = str(metadata.get("name") or "")
    return Template(
        str(metadata.get("namespace") or namespace), name, _int(spec.get("replicas"), 1), whole, tuple(groups), cliques
    )


def _read_group(item: Mapping[str, Any], at: FieldPath) -> ScalingGroup:
    name, replicas = str(item.get("name") or ""), _int(item.get("replicas"), 1)
    layer = Layer(at.child("annotations"), f'scaling group "{name}"', _map(item.get("annotations")))
    return ScalingGroup(name, layer, replicas, _int(item.get("minAvailable"), 1))


def _read_clique(
    item: Mapping[str, Any], at: FieldPath, everywhere: Layer, members: Mapping[str, ScalingGroup]
) -> CliqueTemplate:
    name = str(item.get("name") or "")
    spec = _map(item.get("spec"))
    pod_spec = _map(spec.get("podSpec"))
    group = members.get(name)
    own = Layer(at.child("annotations"), f'clique "{name}"', _map(item.get("annotations")))
    layers = (own, everywhere) if group is None else (own, group.layer, everywhere)
    claims_at = at.child("spec", "podSpec", "resourceClaims")
    claims = tuple(
        (claims_at.index(position).child("name"), str(_map(claim).get("name") or ""))
        for position, claim in enumerate(_list(pod_spec.get("resourceClaims")))
    )
    pods = _int(spec.get("replicas"), 1)
    gpus, whole = _gpus_of_pod(pod_spec, is_gpu), _gpus_of_pod(pod_spec, lambda resource: resource == GPU)
    return CliqueTemplate(name, at, pods, gpus, whole, layers, group.name if group else "", claims)


def _gpus_of_pod(pod_spec: Mapping[str, Any], counts: Callable[[str], bool]) -> int:
    """The sum over the containers, or what the largest init container asks for if that is more."""
    containers = sum(_gpus(_map(item), counts) for item in _list(pod_spec.get("containers")))
    initial = max((_gpus(_map(item), counts) for item in _list(pod_spec.get("initContainers"))), default=0)
    return max(containers, initial)


def _gpus(container: Mapping[str, Any], counts: Callable[[str], bool]) -> int:
    resources = _map(container.get("resources"))
    amounts = {**_map(resources.get("requests")), **_map(resources.get("limits"))}
    return sum(_amount(amount) for name, amount in amounts.items() if counts(str(name)))


def _amount(value: Any) -> int:
    try:
        return max(0, int(Decimal(str(value))))
    except (InvalidOperation, ValueError, OverflowError):
        return 0


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _int(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
