"""Find base gangs, which must be scheduled before Grove removes the gates of a gang's pods.

Grove's release decides which gangs these are, and when they count as scheduled:

- Releases without epochs name the base gang in a label of the PodCliques. Releases with epochs name
  epochs in the PodGangMap of the replica (`dependsOn`). If the map is not known, the base gangs are
  the PodGangs with the role Anchor. A needed epoch without PodGangs blocks the gang in any case.
- In older releases, a gang counts as scheduled if each of its PodCliques has its minimum of
  scheduled pods. Since https://github.com/ai-dynamo/grove/pull/799, it counts if it has
  `status.lastScheduled`.
"""

from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.state.index import Index
from app.facts.grove.podgang import PodGang

ANCHOR = "Anchor"


class Bases(Value):
    """The existing and the missing base gangs of a gang."""

    gangs: tuple[PodGang, ...]
    """The base gangs that exist."""
    missing: tuple[str, ...] = ()
    """The objects that Grove looks for and does not find, as text."""
    noted: bool = False
    """Does this release of Grove record in PodGangs that they were scheduled?"""


def bases_of(gang: Gang) -> Bases:
    """Return the base gangs of a gang."""
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
    if entry is None:
        unknown = f"epoch {pod_gang.epoch} in PodGangMap {entries.name}"
        return Bases((), (unknown,), noted)

    needed = entry.depends_on
    gangs = tuple(gang for gang in siblings if gang.epoch in needed)
    absent = set(needed).difference(gang.epoch for gang in gangs)
    missing = (f"a PodGang of epoch {epoch}" for epoch in sorted(absent))
    return Bases(gangs, tuple(missing), noted)


def _siblings(index: Index, pod_gang: PodGang) -> list[PodGang]:
    """Return all PodGangs of the replica of a PodGang, including itself."""
    place = pod_gang.place
    of_set = index.gangs_of_set.get((pod_gang.namespace, place.pcs), ())
    return [gang for gang in of_set if gang.place.replica == place.replica]
