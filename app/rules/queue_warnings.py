"""Warn about KAI queues that are missing, or whose limits are not set or too small.

A missing queue is not a reason to reject an object, because the queue may be created later.
"""

from collections.abc import Collection, Mapping, Sequence

from app.facts.grove.template import Template
from app.facts.kai.queue import BOUND_UNITS, Queue
from app.facts.kubernetes.gpus import GPU
from app.facts.labels import KAI_SCHEDULER
from app.objects.fields import FieldPath, listed
from app.objects.shape import JsonMap, map_at, text_at

_MOST_LISTED = 10


def warnings_of_set(
    template: Template, queues: Collection[str], *, is_whole: bool = True
) -> list[str]:
    """Return warnings about missing queues that a PodCliqueSet and its cliques name.

    `queues` are the names of the known queues. If none is known, there are no warnings. If
    `is_whole` is false, other queues may exist. Cliques that a scheduler other than KAI places,
    such as Kueue's, need no queue, and neither does a set that has only such cliques.
    """
    if not queues:
        return []
    of_others = [each for each in template.cliques if each.scheduler not in ("", KAI_SCHEDULER)]
    if of_others and len(of_others) == len(template.cliques):
        return []
    others = {clique.parts[0].owner for clique in of_others}
    named: dict[str, FieldPath] = {}
    for part in template.parts:
        if part.owner[0] == "group" or part.owner in others:
            continue
        if part.queue is not None:
            path, name = part.queue
            named.setdefault(name, path)

    return _warnings(named, queues, is_whole=is_whole)


def warnings_of_group(obj: JsonMap, queues: Collection[str], *, is_whole: bool = True) -> list[str]:
    """Return a warning if the queue of the KAI PodGroup `obj` is missing. See `warnings_of_set`."""
    if not queues:
        return []
    name = text_at(map_at(obj, "spec"), "queue")
    at = FieldPath("spec.queue")
    return _warnings({name: at}, queues, is_whole=is_whole) if name else []


def unset_warnings(queue: Queue) -> list[str]:
    """Return a warning about the limits that a Queue does not set, which KAI reads as 0."""
    unset = unset_limits(queue)
    if not unset:
        return []
    return [
        f"the limit of {_enumerated(unset, 'and')} is not set, which KAI reads as 0: pods of this"
        f" queue that request {_enumerated(unset, 'or')} are never placed. Set"
        f" {_enumerated([f'spec.resources.{name}.limit' for name in unset], 'and')} to -1 for"
        " unlimited"
    ]


def unit_warnings(queue: Queue) -> list[str]:
    """Return warnings about limits of a Queue that were probably meant in CPUs or gigabytes."""
    found = []
    for name, unit in BOUND_UNITS.items():
        limit = queue.shares[name].limit or 0
        if unit.is_mistaken(limit):
            number = limit // unit.thousandths
            found.append(
                f"spec.resources.{name}.limit: KAI reads {number} as {number} {unit.name}. For"
                f" {number} {unit.assumed}, set {1000 * number}"
            )
    return found


def _enumerated(names: Sequence[str], word: str) -> str:
    *others, last = names
    return f"{', '.join(others)} {word} {last}" if others else last


def unset_limits(queue: Queue) -> tuple[str, ...]:
    """Return the resources whose limit a Queue does not set, such as `gpu`."""
    shares = queue.shares.items()
    return tuple(_NAMES.get(name, name) for name, share in shares if "limit" in share.unset)


_NAMES = {GPU: "gpu"}
"""The resources that have another name in a Queue."""


def _warnings(
    named: Mapping[str, FieldPath], queues: Collection[str], *, is_whole: bool
) -> list[str]:
    missing = {name: path for name, path in named.items() if name not in queues}
    if not missing:
        return []

    existing = listed(sorted(queues), _MOST_LISTED)
    if not is_whole:
        return [
            f'{path}: queue "{name}" is not among the documents. Queues in the documents:'
            f" {existing}"
            for name, path in missing.items()
        ]
    return [
        f'{path}: queue "{name}" does not exist, and KAI schedules none of these pods until it'
        f" does. Existing queues: {existing}"
        for name, path in missing.items()
    ]
