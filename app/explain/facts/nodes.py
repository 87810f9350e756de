"""Nodes, and Pods with what they ask of a node."""

from dataclasses import dataclass

from app.explain.facts.common import NOWHERE, Amounts, Labels, Place, Term


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """`key` "" with `operator` Exists tolerates every taint; `effect` "" every effect."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pod asks of a node. Equal shapes are one object, so that pods can be grouped by it."""

    requests: tuple[tuple[str, int], ...] = ()
    selector: Term = ()
    affinity: tuple[Term, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


NO_SHAPE = Shape()


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    labels: Labels
    allocatable: Amounts
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True


@dataclass(frozen=True, slots=True)
class PodClaim:
    """An entry of `spec.resourceClaims`. `claim` is the ResourceClaim's name, also one made from `template`."""

    name: str
    claim: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """`group` is the annotation that names its KAI PodGroup, `workload` and `workload_group` what it references in the
    Kubernetes Workload API. `waiting` has the reasons for which containers wait."""

    namespace: str
    name: str
    uid: str = ""
    place: Place = NOWHERE
    owner: str = ""
    node: str = ""
    scheduler: str = "default-scheduler"
    gates: tuple[str, ...] = ()
    shape: Shape = NO_SHAPE
    phase: str = "Pending"
    unscheduled: str = ""
    waiting: tuple[str, ...] = ()
    claims: tuple[PodClaim, ...] = ()
    group: str = ""
    subgroup: str = ""
    workload: str = ""
    workload_group: str = ""
    queue: str = ""
    pool: str = ""
    deleting: float | None = None
    finalizers: tuple[str, ...] = ()
    created: float | None = None

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")
