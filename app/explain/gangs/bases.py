"""The gangs that must be scheduled before Grove opens the gates of a gang's pods.

Which these are, and whether they are, depends on the release:

- earlier releases label PodCliques with the base gang; those with epochs name epochs in the
  PodGangMap of the replica (`dependsOn`), which is the anchor if the map is not known
- a gang is scheduled if each of its PodCliques has so many scheduled pods; since
  https://github.com/ai-dynamo/grove/pull/799, if it has `status.lastScheduled`
"""

from collections.abc import Container, Iterable, Iterator

from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.known.index import Index
from app.facts.grove.podgang import PodGang
from app.facts.grove.podgangmap import PodGangMap

ANCHOR = "Anchor"


class Bases(Value):
    """The gangs that must be scheduled first, and in words what Grove looks for in vain.

    `noted` is whether Grove's release notes in PodGangs that they were scheduled.
    """

    gangs: tuple[PodGang, ...] = ()
    missing: tuple[str, ...] = ()
    noted: bool = False


def bases_of(gang: Gang) -> Bases:
    index = gang.index
    if gang.pod_gang and gang.has_epoch:
        return _by_epoch(index, gang.pod_gang)

    cliques = (member.clique for member in gang.members)
    names = {clique.place.base_podgang for clique in cliques if clique}
    others = sorted(names - {gang.ref.name})
    bases = (index.gangs.get((gang.namespace, name)) for name in others)
    return Bases(tuple(base for base in bases if base))


def _by_epoch(index: Index, pod_gang: PodGang) -> Bases:
    siblings = _siblings(index, pod_gang)
    noted = any(gang.scheduled is not None for gang in siblings)

    entries = index.map_of(pod_gang)
    if entries is None:
        anchors = (gang for gang in siblings if ANCHOR == gang.role != pod_gang.role)
        return Bases(tuple(anchors), noted=noted)

    entry = entries.entry_of(pod_gang.epoch)
    needed = entry.depends_on if entry else ()
    gangs = tuple(gang for gang in siblings if gang.epoch in needed)
    found = None if noted else {gang.epoch for gang in siblings}
    missing = _missing(entries, (pod_gang.epoch, *needed), found)
    return Bases(gangs, tuple(missing), noted)


def _siblings(index: Index, pod_gang: PodGang) -> list[PodGang]:
    """Return all PodGangs of a replica, this one too."""
    place = pod_gang.place
    of_set = index.gangs_of_set.get((pod_gang.namespace, place.pcs), ())
    return [gang for gang in of_set if gang.place.replica == place.replica]


def _missing(
    entries: PodGangMap, epochs: Iterable[str], found: Container[str] | None
) -> Iterator[str]:
    """Yield the epochs without an entry: they block.

    An entry without PodGangs counts as scheduled, except for releases that look for the anchor of
    each epoch: `found` are the epochs that have PodGangs then.
    """
    for epoch in epochs:
        if entries.entry_of(epoch) is None:
            yield f"epoch {epoch}, which PodGangMap {entries.name} does not have"
        elif found is not None and epoch not in found:
            yield f"PodGang {entries.name}-{epoch}, which does not exist"
