"""KAI's objects, and those of the Kubernetes Workload API."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.explain.facts.common import NOWHERE, UNBOUND, Amounts, Place, Told


@dataclass(frozen=True, slots=True)
class KaiTopology:
    """`owners` are the (kind, name, uid) of its owner references. `aliases` maps an alias to its node label."""

    name: str
    keys: tuple[str, ...]
    owners: tuple[tuple[str, str, str], ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubGroup:
    name: str
    parent: str = ""
    minimum: int = 0
    told: Told = UNBOUND


@dataclass(frozen=True, slots=True)
class Said:
    """Why KAI says that it can't place a PodGroup: an item of `status.schedulingConditions[].reasons`."""

    reason: str
    message: str
    queue: str = ""
    limit: Amounts = field(default_factory=dict)
    quota: Amounts = field(default_factory=dict)
    allocated: Amounts = field(default_factory=dict)
    asked: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KaiPodGroup:
    """A PodGroup of scheduling.run.ai. `owners` are uids. `delay` is preemptionDelay in seconds."""

    namespace: str
    name: str
    uid: str = ""
    owners: tuple[str, ...] = ()
    place: Place = NOWHERE
    minimum: int = 1
    queue: str = ""
    preemptibility: str = ""
    delay: float = 0.0
    evicted: float | None = None
    pool: str = ""
    topology: str = ""
    told: Told = UNBOUND
    subgroups: tuple[SubGroup, ...] = ()
    said: tuple[Said, ...] = ()
    created: float | None = None

    @property
    def constrained(self) -> bool:
        return bool(self.told) or any(bool(sub.told) for sub in self.subgroups)


@dataclass(frozen=True, slots=True)
class Queue:
    """GPUs in thousandths; None is no limit. A quota of None is no promise."""

    name: str
    parent: str = ""
    quota: int | None = None
    limit: int | None = None
    allocated: int = 0
    allocated_fixed: int = 0
    requested: int = 0
    pool: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """A Workload of scheduling.k8s.io and the names of its groups."""

    namespace: str
    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadGroup:
    """A PodGroup of scheduling.k8s.io; `workload` is "" if it has no template."""

    namespace: str
    name: str
    workload: str = ""
    template: str = ""
