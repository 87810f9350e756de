"""Topology constraints as schedulers read them."""

from app.base.value import Value


class SchedulerConstraint(Value):
    """A constraint by node label keys, each "" if there is none."""

    required: str = ""
    preferred: str = ""
    levels: tuple[str, ...] | None = None
    """The levels of the topology that it names, None if that is the one of the whole gang."""

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred)


UNBOUND = SchedulerConstraint()
