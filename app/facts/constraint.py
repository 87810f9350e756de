"""Define topology constraints as schedulers read them."""

from app.base.value import Value


class SchedulerConstraint(Value):
    """A topology constraint whose levels are node labels. A level is "" if it is not set."""

    required: str = ""
    """The required level, or ""."""
    preferred: str = ""
    """The preferred level, or ""."""
    levels: tuple[str, ...] | None = None
    """The node labels of the topology that it names, or None for the topology of the whole gang."""

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred)


UNBOUND = SchedulerConstraint()
"""The constraint of a part without one."""
