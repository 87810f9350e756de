"""Warnings about queues of KAI that an object names and that don't exist.

They refuse nothing: whoever makes queues may do it later.
"""

from collections.abc import Collection, Mapping

from app.facts.grove.template import Template
from app.objects.fields import FieldPath, listed
from app.objects.shape import JsonMap, map_at, text_at

_MOST_LISTED = 10


def warnings_of_set(template: Template, queues: Collection[str]) -> list[str]:
    """Return warnings about the queues that a PodCliqueSet and its cliques name.

    `queues` are the names of those that exist. Without any, nothing is known of them.
    """
    if not queues:
        return []
    named: dict[str, FieldPath] = {}
    for part in template.parts:
        if part.queue is not None and part.owner[0] != "group":
            path, name = part.queue
            named.setdefault(name, path)

    return _warnings(named, queues)


def warnings_of_group(obj: JsonMap, queues: Collection[str]) -> list[str]:
    """Return warnings about the queue of a PodGroup of KAI."""
    if not queues:
        return []
    name = text_at(map_at(obj, "spec"), "queue")
    return _warnings({name: FieldPath("spec.queue")}, queues) if name else []


def _warnings(named: Mapping[str, FieldPath], queues: Collection[str]) -> list[str]:
    missing = {name: path for name, path in named.items() if name not in queues}
    if not missing:
        return []

    existing = listed(sorted(queues), _MOST_LISTED)
    return [
        f'{path}: queue "{name}" does not exist: KAI schedules none of these pods until it does;'
        f" there are: {existing}"
        for name, path in missing.items()
    ]
