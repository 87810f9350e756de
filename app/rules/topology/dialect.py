"""A dialect: the topology API of one generation of Grove, and who writes what in it.

Which dialect is in force is found by discovery, again each time it changes (`app.cluster.dialects`). Code that uses a
dialect never asks which one it is: a method returns nothing if Grove does the work itself.

A constraint in words that a dialect doesn't read is never changed and never removed.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from app.objects.conditions import Condition
from app.objects.edits import Change
from app.objects.fields import FieldError
from app.objects.resource import Resource
from app.rules.podcliqueset import PodCliqueSet
from app.rules.topology.levels import Level, Topology

Managed = Callable[[], Topology]
"""Reads the managed topology. Raises if it is not known, or if it doesn't exist although it should."""


class Dialect(Protocol):
    """`name` is for people, `resource` holds the levels.

    `owns_topology`: the managed topology belongs to this program alone. It is deleted if topology is disabled, its
    status is written, and the KAI Topology is made from it.
    """

    @property
    def name(self) -> str: ...

    @property
    def resource(self) -> Resource: ...

    @property
    def owns_topology(self) -> bool: ...

    def read_levels(self, obj: Mapping[str, Any]) -> tuple[Level, ...]:
        """The usable levels of a stored object of `resource`, broadest first."""
        ...

    def validate_set(
        self, obj: Mapping[str, Any], old: Mapping[str, Any] | None, managed: Managed
    ) -> tuple[list[FieldError], list[str]]:
        """Findings and warnings about the constraints of the PodCliqueSet `obj`. `old` is what an UPDATE replaces, None
        at CREATE."""
        ...

    def is_unchanged(self, obj: Mapping[str, Any], old: Mapping[str, Any] | None) -> bool:
        """Whether an update of the PodCliqueSet `old` to `obj` leaves all constraints as they were."""
        ...

    def validate_podgang(self, gang: Mapping[str, Any]) -> list[FieldError]:
        """Findings about the parts of a PodGang that `podgang_changes` reads."""
        ...

    def podgang_changes(self, gang: Mapping[str, Any], pcs: PodCliqueSet | None, managed: Managed) -> list[Change]:
        """What has to change in the constraints of a PodGang of `pcs` (None if the set doesn't exist)."""
        ...

    def condition(self, pcs: PodCliqueSet, topology: Topology | None) -> Condition | None:
        """Our condition of `pcs`, None if it gets none. `topology` None: the managed topology is not known."""
        ...
