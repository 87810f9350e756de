"""Topology constraints as schedulers read them."""

from app.base.value import Value


class SchedulerConstraint(Value):
    """A constraint by node label keys, each "" if there is none.

    `levels` are those of the topology that it names, None if that is the one of the whole gang.
    """

    required: str = ""
    preferred: str = ""
    levels: tuple[str, ...] | None = None

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred)


UNBOUND = SchedulerConstraint()
