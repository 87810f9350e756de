"""Define topology constraints as schedulers read them."""

from app.base.value import Value


class SchedulerConstraint(Value):
    """A topology constraint in the form that schedulers read, without names of domains."""

    required: str = ""
    """The required level, or ""."""
    preferred: str = ""
    """The preferred level, or ""."""
    levels: tuple[str, ...] | None = None
    """The node labels of the topology that the constraint names.

    They are None if it names none. Then the topology of the whole gang applies.
    """

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred)


UNBOUND = SchedulerConstraint()
"""The constraint of a part that has no constraint."""
