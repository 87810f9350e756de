"""Define reasons, and put numbers, amounts, lists and times into words for their texts."""

import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, Literal

from app.base.sentences import upper_first
from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.placing.demand import Run
from app.explain.state.amounts import counts_as_gpu, gpus_of
from app.facts.identity import Ref
from app.facts.kubernetes.pod import Shape
from app.facts.labels import KAI_QUEUE
from app.objects.names import is_subdomain

Who = Literal["you", "platform", "wait"]
"""The party that can act: the workload's owner (`you`), the platform team, or nobody (`wait`)."""

Severity = Literal["problem", "warning", "note"]


class Evidence(Value):
    """A value that proves a reason, such as the value of a field of an object."""

    object: Ref
    """The object that has the field."""
    field: str
    """The field, such as `spec.schedulingGates`, or a name for another source of the value."""
    value: str
    """The value, or a note such as `absent`."""


class Reason(Value):
    """One reason why a workload is pending, or not placed as requested."""

    id: str
    """The stable name of the reason, such as NoDomainFits."""
    objects: tuple[Ref, ...]
    """The objects that the reason is about, usually pods or a gang."""
    text: str
    """The finding, in one or more sentences, without a period at the end."""
    remedy: str
    """The remedy, as an instruction to a person."""
    who: Who
    """The party that can act."""
    evidence: tuple[Evidence, ...] = ()
    """The values that prove the reason: one value, or one for each missing label."""
    commands: tuple[str, ...] = ()
    """Shell commands that help. This program never runs them."""
    severity: Severity = "problem"
    """The severity of the finding. A note never prevents the placement."""
    parts: tuple[str, ...] = ()
    """The parts of the gang that the reason is about.

    They are the names of PodCliques, SubGroups, or replicas of scaling groups.
    """
    follows: bool = False
    """Does the finding follow from earlier reasons, so that fixing those is enough?"""


def about(evidence: Evidence, id: str, text: str, remedy: str, who: Who, **more: Any) -> Reason:
    """Return a reason about `objects`, or else about the object of `evidence`.

    `more` sets other fields of `Reason`, by name.
    """
    objects = more.pop("objects", (evidence.object,))
    return Reason(id, objects, text, remedy, who, (evidence,), **more)


Reasons = Iterator[Reason]

Check = Callable[[Gang], Reasons]


class Rule(Value):
    """A row of the table of reasons: the function that finds a reason, and the facts it needs."""

    check: Check
    """The function that yields the reasons of a gang.

    Its docstring begins with "Report that", followed by the condition.
    """
    needs: tuple[str, ...] = ()
    """The kinds of facts that `check` needs: fields of `Snapshot`, `ROOM` or `CHANNELS`.

    Some gangs need only some of these (`ONLY_FOR` in `table.py`).
    """
    applies: Callable[[Gang], bool] = lambda gang: True
    """Can the reason apply to this gang at all? If not, missing facts don't matter."""
    named: str = ""
    """The id of the reason if it differs from the name of `check`."""
    together: bool = False
    """Does `check` judge each pod alone? Then all pods without a gang are passed as one gang."""
    of_set: bool = False
    """Is the reason about the PodCliqueSet? Then only one gang of each set is passed."""
    unexplained: bool = False
    """Is it checked only for pending gangs that no other rule explains?"""

    @property
    def id(self) -> str:
        """The id of the reason: `named`, or else the name of `check` in CamelCase."""
        return self.named or self.check.__name__.title().replace("_", "")

    @property
    def condition(self) -> str:
        """The condition under which the reason holds, from the summary of `check`."""
        summary = " ".join((self.check.__doc__ or "").partition("\n\n")[0].split())
        condition = summary.removeprefix("Report that ")
        return upper_first(condition)


def to_describe(ref: Ref) -> str:
    """Return a command such as `kubectl describe job train -n team`.

    Return "" if Kubernetes does not allow the kind or name. Tenants can write any text as the kind
    and name of an owner or of an event's object. People copy the command into a shell, so it must
    not contain shell syntax or an option of kubectl.
    """
    if not (ref.kind.isascii() and ref.kind.isalnum() and is_subdomain(ref.name)):
        return ""
    of_namespace = f" -n {ref.namespace}" if ref.namespace else ""
    return f"kubectl describe {ref.kind.lower()} {ref.name}{of_namespace}"


def commands_to_describe(ref: Ref) -> tuple[str, ...]:
    """Return the command of `to_describe` alone, or () if it is ""."""
    return tuple(filter(None, (to_describe(ref),)))


def to_describe_pod(pod: Ref) -> str:
    """Return the command that shows the status and the events of a pod."""
    return f"kubectl describe pod -n {shlex.quote(pod.namespace)} {shlex.quote(pod.name)}"


def to_read_log(pod: Ref) -> str:
    """Return the command that prints the log of a pod."""
    return f"kubectl logs -n {shlex.quote(pod.namespace)} {shlex.quote(pod.name)}"


_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def counted(things: int | Sized, noun: str, plural: str = "") -> str:
    """Return a count with its noun, such as `1 node` or `2 nodes`.

    The count of a collection is its length. The default of `plural` is `noun` with `s` or `ies`.
    """
    count = things if isinstance(things, int) else len(things)
    return f"{count:,} {noun if count == 1 else plural or _plural(noun)}"


def are(things: Sized, noun: str) -> str:
    """Return a noun with its verb, such as `level is` for one thing, or `levels are`."""
    return f"{noun} is" if len(things) == 1 else f"{_plural(noun)} are"


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


def finalizers_of(names: Sequence[str]) -> str:
    """Return finalizers in words, such as `finalizer a` or `finalizers a and b`."""
    return f"{'finalizer' if len(names) == 1 else 'finalizers'} {listed(names)}"


def removal_of(finalizers: Sequence[str]) -> str:
    """Return the remedy for finalizers that keep an object from being deleted."""
    them = "it" if len(finalizers) == 1 else "them"
    return f"Ask the owner of the {finalizers_of(finalizers)} to remove {them}"


def repair_of(nodes: Sequence[str]) -> str:
    """Return the remedy for nodes that are not ready, or that are gone."""
    if len(nodes) == 1:
        (name,) = nodes
        gone = f"it if it is gone for good (kubectl delete node {name})"
    else:
        gone = "those that are gone for good (kubectl delete node NAME)"
    return f"Ask the platform team to repair {listed(nodes)}, or to delete {gone}"


def plain(thousandths: int) -> str:
    """Return a number of thousandths as a decimal number: `8` for 8000, and `0.5` for 500."""
    return f"{thousandths / 1000:,.3f}".rstrip("0").rstrip(".")


def is_in_bytes(resource: str) -> bool:
    """Return whether amounts of a resource are numbers of bytes."""
    return resource in ("memory", "ephemeral-storage", "storage") or resource.startswith(
        "hugepages-"
    )


def amount(resource: str, thousandths: int, *, down: bool = False) -> str:
    """Return an amount in thousandths with its unit, such as `8 GPUs`, `900 GiB` or `2.5 CPUs`.

    With `down`, amounts in bytes are rounded down, for texts such as `request at most`.
    """
    if is_in_bytes(resource):
        size = thousandths / 1000
        for unit in _BINARY:
            if abs(size) < 1024 or unit == _BINARY[-1]:
                size = math.floor(size * 10) / 10 if down else size
                return f"{size:,.1f}".removesuffix(".0") + f" {unit}"
            size /= 1024

    number = plain(thousandths)
    if "/mig-" in resource:
        return f"{number} {resource.partition('/')[2]}"
    if counts_as_gpu(resource):
        return f"{number} GPU" if thousandths == 1000 else f"{number} GPUs"

    names = {"cpu": "CPU", "pods": "pod"}
    noun = names.get(resource, resource)

    return f"{number} {noun}" if thousandths == 1000 or "/" in noun else f"{number} {noun}s"


def called(resource: str) -> str:
    """Return the name of a resource as texts write it without an amount, such as `CPU`."""
    return resource.upper() if resource == "cpu" else resource


def pods_of(shapes: Sequence[Run]) -> str:
    """Return a text such as `10 pods of 8 GPUs`, or `2 pods without GPUs and 4 pods of 8 GPUs`."""
    counts: dict[tuple[int, int, str], int] = {}
    for shape, count in shapes:
        gpus = gpus_of(dict(shape.requests))
        size = gpus, shape.part.memory if shape.part else 0, mig_words(shape)
        counts[size] = counts.get(size, 0) + count
    none = " without GPUs" if len(counts) > 1 else ""
    return listed(
        f"{counted(count, 'pod')} of {mig or f'{memory:,} MiB of GPU memory'}"
        if memory or mig
        else pods_of_size(count, gpus) + ("" if gpus else none)
        for (gpus, memory, mig), count in sorted(counts.items())
    )


def mig_words(shape: Shape) -> str:
    """Return the MIG devices that a pod requests, such as `2 mig-1g.10gb`, or ""."""
    devices = (pair for pair in shape.requests if "/mig-" in pair[0] and pair[1])
    return listed(f"{plain(number)} {name.partition('/')[2]}" for name, number in devices)


def pods_of_size(count: int, gpus: int) -> str:
    """Return a text such as `10 pods of 8 GPUs`. `gpus` is in thousandths."""
    return counted(count, "pod") + (f" of {amount('/gpu', gpus)}" if gpus else "")


def ago(seconds: float) -> str:
    """Return a duration in words, such as `14 minutes`."""
    return counted(*_lasting(seconds))


def short(seconds: float) -> str:
    """Return a duration as a number and the letter of its unit, such as `14m`."""
    number, unit = _lasting(seconds)
    return f"{number}{unit[0]}"


def _lasting(seconds: float) -> tuple[int, str]:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length:
            return int(seconds // length), unit
    return max(0, int(seconds)), "second"


def with_age(words: str, time: float | None, now: float) -> str:
    """Return a quoted message, followed by its age if `time` and `now` are known."""
    return words if time is None or not now else f"{words} ({ago(now - time)} ago)"


def clock(time: float) -> str:
    """Return the time of day of a time in seconds since 1970, such as `15:42 UTC`."""
    minutes = int(time) % 86400 // 60
    return f"{minutes // 60:02}:{minutes % 60:02} UTC"


DYNAMO_QUEUE = "nvidia.com/kai-scheduler-queue"
"""The annotation of a DynamoGraphDeployment from which Dynamo writes the queues of its cliques."""


def queue_setting(gang: Gang) -> str:
    """Return words for the place where users set the queue of a gang."""
    maker = gang.pcs.maker if gang.pcs else None
    if maker and maker.kind == "DynamoGraphDeployment":
        return f"annotation {DYNAMO_QUEUE} of {maker}"
    return f"label {KAI_QUEUE} of the workload"


def in_new_set(gang: Gang) -> str:
    """Return words such as ` in a new PodCliqueSet` for a gang of Grove, or "" for other gangs.

    They follow advice to change constraints, because Grove rejects such a change of an existing
    PodCliqueSet.
    """
    if not gang.is_of_grove:
        return ""
    pods = gang.index.pods_of_set.get(gang.pcs.key, ()) if gang.pcs else gang.pods
    restarts = ", which restarts its running pods" if any(pod.node for pod in pods) else ""
    maker = gang.pcs.maker if gang.pcs else None
    return f" in a new {maker.kind if maker else 'PodCliqueSet'}{restarts}"
