"""A dialect: the topology API of one generation of Grove, and who writes what in it.

Which dialect is in force is found by discovery, again each time it changes (`app.cluster.dialects`). Code that uses a
dialect never asks which one it is: a method returns nothing if Grove does the work itself.

A constraint in words that a dialect doesn't read is never changed and never removed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.objects.conditions import Condition
from app.objects.edits import Change
from app.objects.fields import FieldError
from app.objects.resource import Resource
from app.rules.podcliqueset import PodCliqueSet
from app.rules.topology.binding_levels import KaiTopology
from app.rules.topology.coverage import Nodes
from app.rules.topology.levels import Level, Topology


class Surroundings(Protocol):
    """What the rules of a dialect look up in the cluster. Each method raises if the answer is not known yet."""

    def topology(self) -> Topology:
        """The managed topology. Raises also if it doesn't exist although it should."""
        ...

    def bindings(self) -> Mapping[str, Sequence[Level]]:
        """The levels of all ClusterTopologyBindings by name, broadest first."""
        ...

    def kai_topology(self, name: str) -> KaiTopology | None:
        """The KAI Topology `name`, None if it doesn't exist."""
        ...

    def users_of(self, binding: str) -> Sequence[PodCliqueSet]:
        """The PodCliqueSets whose constraints refer to the ClusterTopologyBinding `binding`, by name."""
        ...

    def sets_naming(self, domains: Collection[str]) -> Sequence[PodCliqueSet]:
        """The PodCliqueSets with a packDomain that is one of `domains`, by name."""
        ...

    def nodes(self) -> Nodes:
        """The labels of the nodes that stored levels refer to. Empty if the nodes are not known."""
        ...

    def carrying(self, key: str) -> int:
        """How many nodes have the label `key`, whether a stored level refers to it or not."""
        ...


@dataclass(frozen=True, slots=True)
class LevelsVerdict:
    """About a write of levels: `refusal` is the one reason why the operation is not allowed."""

    refusal: str | None = None
    findings: Sequence[FieldError] = field(default_factory=list)
    warnings: Sequence[str] = field(default_factory=list)


class Dialect(Protocol):
    """`name` is for people, `resource` holds the levels.

    `owns_topology`: the managed topology belongs to this program alone. It is deleted if topology is disabled, its
    status is written, and the KAI Topology is made from it. `reads_groups`: Grove reads `grove.io/mnnvl-group`.
    """

    @property
    def name(self) -> str: ...

    @property
    def resource(self) -> Resource: ...

    @property
    def owns_topology(self) -> bool: ...

    @property
    def reads_groups(self) -> bool: ...

    def read_levels(self, obj: Mapping[str, Any]) -> tuple[Level, ...]:
        """The usable levels of a stored object of `resource`, broadest first."""
        ...

    def in_use(self, around: Surroundings) -> Mapping[str, Sequence[Level]]:
        """The topologies that workloads may refer to, by name, with their levels."""
        ...

    def validate_levels(
        self,
        obj: Mapping[str, Any],
        old: Mapping[str, Any] | None,
        operation: str,
        around: Surroundings,
        *,
        managed: bool,
    ) -> LevelsVerdict:
        """About `operation` on an object of `resource`. `obj` is what is written, or deleted; `old` what an UPDATE
        replaces. `managed`: it is the managed topology."""
        ...

    def validate_set(
        self, obj: Mapping[str, Any], old: Mapping[str, Any] | None, around: Surroundings
    ) -> tuple[list[FieldError], list[str]]:
        """Findings and warnings about the constraints of the PodCliqueSet `obj`. `old` is what an UPDATE replaces, None
        at CREATE."""
        ...

    def is_unchanged(self, obj: Mapping[str, Any], old: Mapping[str, Any] | None) -> bool:
        """Whether an update of the PodCliqueSet `old` to `obj` leaves all constraints as they were."""
        ...

    def placement(
        self, obj: Mapping[str, Any], around: Surroundings
    ) -> tuple[Sequence[Level], dict[tuple[str, str], str]]:
        """The levels that the PodCliqueSet `obj` refers to, and the domain that each of ("set", ""), ("group", name)
        and ("clique", name) requires."""
        ...

    def validate_podgang(self, gang: Mapping[str, Any]) -> list[FieldError]:
        """Findings about the parts of a PodGang that `podgang_changes` reads."""
        ...

    def podgang_changes(self, gang: Mapping[str, Any], pcs: PodCliqueSet | None, around: Surroundings) -> list[Change]:
        """What has to change in the constraints of a PodGang of `pcs` (None if the set doesn't exist)."""
        ...

    def drifted(self, name: str, gang: Mapping[str, Any], pcs: PodCliqueSet, around: Surroundings) -> list[str]:
        """Where the constraints of the stored PodGang `name` are not those of its set, and stay so."""
        ...

    def condition(self, pcs: PodCliqueSet, topology: Topology | None) -> Condition | None:
        """Our condition of `pcs`, None if it gets none. `topology` None: the managed topology is not known."""
        ...
