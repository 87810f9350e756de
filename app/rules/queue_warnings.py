"""Warnings about queues of KAI that an object names and that don't exist.

They refuse nothing: whoever makes queues may do it later. Grove looks for names in the same places:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/scheduler/kai/backend.go
"""

from collections.abc import Collection, Iterator, Mapping

from app.facts.labels import KAI_QUEUE
from app.objects.fields import FieldPath, listed
from app.objects.shape import JsonMap, map_at, maps_at, text_at

_MOST_LISTED = 10


def warnings_of_set(obj: JsonMap, queues: Collection[str]) -> list[str]:
    """Return warnings about the queues that a PodCliqueSet and its cliques name.

    `queues` are the names of those that exist. Without any, nothing is known of them.
    """
    if not queues:
        return []
    named: dict[str, FieldPath] = {}
    for path, name in _named_in_set(obj):
        named.setdefault(name, path)
    return _warnings(named, queues)


def warnings_of_group(obj: JsonMap, queues: Collection[str]) -> list[str]:
    """Return warnings about the queue of a PodGroup of KAI."""
    if not queues:
        return []
    name = text_at(map_at(obj, "spec"), "queue")
    return _warnings({name: FieldPath("spec.queue")}, queues) if name else []


def _named_in_set(obj: JsonMap) -> Iterator[tuple[FieldPath, str]]:
    yield from _named(map_at(obj, "metadata"), FieldPath("metadata"))
    cliques = FieldPath("spec.template.cliques")
    for number, clique in enumerate(maps_at(obj, "spec", "template", "cliques")):
        yield from _named(clique, cliques.index(number))


def _named(holder: JsonMap, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """Yield the queue of a label, else of an annotation, with its path."""
    for field in ("labels", "annotations"):
        name = text_at(map_at(holder, field), KAI_QUEUE)
        if name:
            yield path.child(field).key(KAI_QUEUE), name
            return


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
