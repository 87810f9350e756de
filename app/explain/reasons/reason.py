"""A reason why a workload waits, or is not placed as asked.

It says what was found, where, and what helps.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.facts.named import Ref

Who = Literal["you", "platform", "wait"]
"""Who can act.

It is the owner of the workload, the owners of the cluster, or nobody, because it resolves by
itself.
"""

Severity = Literal["problem", "warning", "note"]


class Evidence(Value):
    """A value that was read: `value` of `field` of an object."""

    object: Ref
    field: str
    value: str


class Reason(Value):
    """`id` is stable.

    `objects` are all objects that it holds for: the first stands for them. `evidence` is one value
    that shows it, or one for each label that is missing. `commands` are shell commands that help,
    never run by this program. `parts` are the parts of a gang (PodCliques, replicas of a scaling
    group) that it is about. If it `follows` from the reasons before it, it ends with them.
    """

    id: str
    objects: tuple[Ref, ...]
    text: str
    remedy: str
    who: Who
    evidence: tuple[Evidence, ...] = ()
    commands: tuple[str, ...] = ()
    severity: Severity = "problem"
    parts: tuple[str, ...] = ()
    follows: bool = False


def about(
    evidence: Evidence,
    id: str,
    text: str,
    remedy: str,
    who: Who,
    **more: Any,
) -> Reason:
    """Return a reason about the object of its evidence, or about the `objects` that are given."""
    objects = more.pop("objects", (evidence.object,))
    return Reason(id, objects, text, remedy, who, (evidence,), **more)


Reasons = Iterator[Reason]

Check = Callable[[Gang], Reasons]


class Rule(Value):
    """One row of the table of reasons.

    `check` is asked if the facts in `needs` were read. `applies` tells for which gangs it can hold
    at all, so that missing facts don't make it doubtful for others. `named` is the id of the reason
    if it is not the name of `check`.
    """

    check: Check
    needs: tuple[str, ...] = ()
    applies: Callable[[Gang], bool] = lambda gang: True
    named: str = ""

    @property
    def id(self) -> str:
        """The id of the reason: `GangIncomplete` is found by `gang_incomplete`."""
        return self.named or self.check.__name__.title().replace("_", "")
