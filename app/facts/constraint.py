"""Topology constraints as schedulers read them."""

from app.base.value import Value


class SchedulerConstraint(Value):
    """A topology constraint by node label keys. A key is "" if the constraint does not set it."""

    required: str = ""
    preferred: str = ""
    levels: tuple[str, ...] | None = None
    """The levels of the topology that it names, or None for the topology of the whole gang."""

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred)


UNBOUND = SchedulerConstraint()
