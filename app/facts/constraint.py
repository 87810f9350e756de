"""Topology constraints as schedulers read them."""

from app.base.value import Value


class SchedulerConstraint(Value):
    """A constraint by node label keys, each "" if there is none."""

    required: str = ""
    preferred: str = ""

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred)


UNBOUND = SchedulerConstraint()
