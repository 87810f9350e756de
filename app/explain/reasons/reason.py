"""Reasons why a workload is pending, and the words for numbers, amounts, lists and times."""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, Literal

from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.placing.demand import Run
from app.explain.state.amounts import counts_as_gpu, gpus_of
from app.facts.identity import Ref
from app.objects.names import is_subdomain

Who = Literal["you", "platform", "wait"]
"""The party that can act: the workload's owner (`you`), the platform team, or none (`wait`)."""

Severity = Literal["problem", "warning", "note"]


class Evidence(Value):
    """A value that was read from a field of an object."""

    object: Ref
    field: str
    value: str


class Reason(Value):
    """One reason why a workload is pending, or not placed as requested."""

    id: str
    """The stable name of the reason, such as NoDomainFits."""
    objects: tuple[Ref, ...]
    """All objects that the reason applies to. The first one represents them."""
    text: str
    """The finding, in one sentence."""
    remedy: str
    """The remedy, as an instruction to a person."""
    who: Who
    """The party that can act."""
    evidence: tuple[Evidence, ...] = ()
    """A value that proves the reason, or one for each missing label."""
    commands: tuple[str, ...] = ()
    """Shell commands that help. This program never runs them."""
    severity: Severity = "problem"
    """The severity. A note blocks no placement."""
    parts: tuple[str, ...] = ()
    """The parts of a gang (PodCliques, replicas of a scaling group) that it is about."""
    follows: bool = False
    """Does it follow from the reasons before it, and end with them?"""


def about(evidence: Evidence, id: str, text: str, remedy: str, who: Who, **more: Any) -> Reason:
    """Return a reason about the object of its evidence, or about the given `objects`."""
    objects = more.pop("objects", (evidence.object,))
    return Reason(id, objects, text, remedy, who, (evidence,), **more)


Reasons = Iterator[Reason]

Check = Callable[[Gang], Reasons]


class Rule(Value):
    """One row of the table of reasons."""

    check: Check
    """Yields the reasons of a gang. It is called only if the facts in `needs` were read."""
    needs: tuple[str, ...] = ()
    """The facts that it needs."""
    applies: Callable[[Gang], bool] = lambda gang: True
    """Can the reason apply to this gang at all? If not, missing facts don't matter."""
    named: str = ""
    """The id of the reason if it differs from the name of `check`."""
    together: bool = False
    """Does it look at pods one by one? Then pods that belong to no gang are examined as one."""
    unexplained: bool = False
    """Is it checked only for pending gangs that no other rule explains?"""

    @property
    def id(self) -> str:
        """The id of the reason: `GangIncomplete` is found by `gang_incomplete`."""
        return self.named or self.check.__name__.title().replace("_", "")


def to_describe(ref: Ref) -> str:
    """Return a command such as `kubectl describe job train -n team`.

    Return "" if Kubernetes allows no such kind or name. Tenants can write any text as the kind and
    name of an owner or of the object of an event. People copy commands, which must contain nothing
    else for a shell, and no option for kubectl.
    """
    if not (ref.kind.isascii() and ref.kind.isalnum() and is_subdomain(ref.name)):
        return ""
    of_namespace = f" -n {ref.namespace}" if ref.namespace else ""
    return f"kubectl describe {ref.kind.lower()} {ref.name}{of_namespace}"


# Words.


_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def counted(things: int | Sized, noun: str, plural: str = "") -> str:
    """Return a count with its noun, such as `1 node` or `2 nodes`.

    The count of a collection is its length.
    """
    count = things if isinstance(things, int) else len(things)
    return f"{count:,} {noun if count == 1 else plural or _plural(noun)}"


def _plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"


def listed(names: Iterable[str], limit: int = 4) -> str:
    """Return `a, b and c` or, beyond `limit`, `a, b, c, d and 5 more`."""
    shown = list(names)
    rest = len(shown) - limit
    if rest > 0:
        return f"{', '.join(shown[:limit])} and {rest} more"
    first = ", ".join(shown[:-1])
    return " and ".join(filter(None, (first, *shown[-1:])))


def plain(thousandths: int) -> str:
    """Return the number without needless decimals: 8 for 8000, 0.5 for 500."""
    return f"{thousandths / 1000:,.3f}".rstrip("0").rstrip(".")


def amount(resource: str, thousandths: int) -> str:
    """Return an amount with its unit: `8 GPUs`, `900 GiB`, `2.5 CPUs`."""
    if resource in ("memory", "ephemeral-storage"):
        size = thousandths / 1000
        for unit in _BINARY:
            if abs(size) < 1024 or unit == _BINARY[-1]:
                return f"{size:,.1f}".removesuffix(".0") + f" {unit}"
            size /= 1024

    number = plain(thousandths)
    if counts_as_gpu(resource):
        return f"{number} GPU" if thousandths == 1000 else f"{number} GPUs"

    names = {"cpu": "CPU", "pods": "pod"}
    noun = names.get(resource, resource)

    return f"{number} {noun}" if thousandths == 1000 or "/" in noun else f"{number} {noun}s"


def pods_of(shapes: Sequence[Run]) -> str:
    """Return a text such as `10 pods of 8 GPUs`, or `2 pods without GPUs and 4 pods of 8 GPUs`."""
    counts: dict[tuple[int, int], int] = {}
    for shape, count in shapes:
        size = gpus_of(dict(shape.requests)), shape.part.memory if shape.part else 0
        counts[size] = counts.get(size, 0) + count
    none = " without GPUs" if len(counts) > 1 else ""
    return listed(
        f"{counted(count, 'pod')} of {memory:,} MiB of GPU memory"
        if memory
        else pods_of_size(count, gpus) + ("" if gpus else none)
        for (gpus, memory), count in sorted(counts.items())
    )


def pods_of_size(count: int, gpus: int) -> str:
    """Return a text such as `10 pods of 8 GPUs`. `gpus` is in thousandths."""
    return counted(count, "pod") + (f" of {amount('/gpu', gpus)}" if gpus else "")


def ago(seconds: float) -> str:
    """Return a duration in words, such as `14 minutes`."""
    return counted(*_lasting(seconds))


def short(seconds: float) -> str:
    """Return a duration in few characters, as kubectl shows it, such as `14m`."""
    number, unit = _lasting(seconds)
    return f"{number}{unit[0]}"


def _lasting(seconds: float) -> tuple[int, str]:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length:
            return int(seconds // length), unit
    return max(0, int(seconds)), "second"


def with_age(words: str, time: float | None, now: float) -> str:
    """Return a quoted message, with its age if both times are known."""
    return words if time is None or not now else f"{words} ({ago(now - time)} ago)"


def clock(time: float) -> str:
    """Return the time of day of a time since 1970: `15:42 UTC`."""
    minutes = int(time) % 86400 // 60
    return f"{minutes // 60:02}:{minutes % 60:02} UTC"
