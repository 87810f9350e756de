"""A reason why a workload waits, or is not placed as asked.

It says what was found, where, and what helps.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal

from app.explain.gangs.gang import Gang
from app.facts.named import Ref
from app.frozen import frozen

Who = Literal["you", "platform", "wait"]
"""Who can act.

It is the owner of the workload, the owners of the cluster, or nobody, because it resolves by
itself.
"""

Severity = Literal["problem", "warning", "note"]


@frozen
class Evidence:
    """A value that was read: `value` of `field` of an object."""

    object: Ref
    field: str
    value: str


@frozen
class Reason:
    """`id` is stable.

    `objects` are all objects that it holds for: the first stands for them. `commands` are shell
    commands that help, never run by this program. `parts` are the parts of a gang (PodCliques,
    replicas of a scaling group) that it is about.
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


def about(evidence: Evidence, id: str, text: str, remedy: str, who: Who, **more: Any) -> Reason:
    """Return a reason about the one object in which its evidence was read."""
    return Reason(id, (evidence.object,), text, remedy, who, (evidence,), **more)


Reasons = Iterator[Reason]

Check = Callable[[Gang], Reasons]


@frozen
class Rule:
    """One row of the table of reasons.

    `check` is asked if the facts in `needs` were read. `applies` tells for which gangs it can hold
    at all, so that missing facts don't make it doubtful for others.
    """

    id: str
    check: Check
    needs: tuple[str, ...] = ()
    applies: Callable[[Gang], bool] = lambda gang: True


def merged(reasons: Iterable[Reason]) -> list[Reason]:
    """Return reasons that say the same of several objects as one reason of all of them.

    They are in the order of their first.
    """
    groups: dict[tuple[str, str, str], list[Reason]] = {}
    for reason in reasons:
        groups.setdefault((reason.id, reason.text, reason.remedy), []).append(reason)
    return [_merge(group) for group in groups.values()]


def _merge(group: list[Reason]) -> Reason:
    if len(group) == 1:
        return group[0]
    objects = tuple(sorted({ref for reason in group for ref in reason.objects}))
    evidence = tuple(dict.fromkeys(item for reason in group for item in reason.evidence))
    return replace(group[0], objects=objects, evidence=evidence)
