"""Find base gangs, which must be scheduled before Grove removes the gates of a gang's pods.

Grove's release decides which gangs these are, and when they count as scheduled:

- Releases without epochs name the base gang in a label of the PodCliques. Releases with epochs name
  epochs in the PodGangMap of the replica (`dependsOn`). If the map is not known, the base gangs are
  the PodGangs with the role Anchor. A needed epoch without PodGangs blocks the gang in any case.
- In older releases, a gang counts as scheduled if each of its PodCliques has its minimum of
  scheduled pods. Since https://github.com/ai-dynamo/grove/pull/799, it counts if it has
  `status.lastScheduled`.
"""

from collections.abc import Mapping, Sequence

from app.base.groups import by_key
from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.state.index import Index
from app.explain.state.snapshot import key_of
from app.facts.grove.podgang import PodGang

ANCHOR = "Anchor"


class Bases(Value):
    """The existing and the missing base gangs of a gang."""

    gangs: tuple[PodGang, ...]
    """The base gangs that exist."""
    missing: tuple[str, ...] = ()
    """Texts about missing objects that Grove needs before it removes the gates."""
    noted: bool = False
    """Does the status of a PodGang of the replica say whether it was ever scheduled?"""


def bases_of(gang: Gang) -> Bases:
    """Return the base gangs of a gang, as its release of Grove names them."""
    index = gang.index
    if gang.pod_gang and gang.has_epoch:
        return _by_epoch(index, gang.pod_gang)

    cliques = (member.clique for member in gang.members)
    names = {clique.place.base_podgang for clique in cliques if clique}
    others = sorted(names - {gang.ref.name})
    bases = (index.gangs.get((gang.namespace, name)) for name in others)
    return Bases(tuple(base for base in bases if base))


def _by_epoch(index: Index, pod_gang: PodGang) -> Bases:
    replica = _replica_of(index, pod_gang)
    entries = index.map_of(pod_gang)
    if entries is None:
        anchors = () if pod_gang.role == ANCHOR else replica.anchors
        return Bases(tuple(anchors), noted=replica.noted)

    by_epoch = index.remembered(("entries", entries.key), entries.by_epoch, ["gang_maps"])
    entry = by_epoch.get(pod_gang.epoch)
    if entry is None:
        unknown = f"epoch {pod_gang.epoch} in PodGangMap {entries.name}"
        return Bases((), (unknown,), replica.noted)

    needed = sorted(set(entry.depends_on))
    gangs = [gang for epoch in needed for gang in replica.by_epoch.get(epoch, ())]
    absent = [epoch for epoch in needed if epoch not in replica.by_epoch]
    missing = (f"a PodGang of epoch {epoch}" for epoch in absent)
    return Bases(tuple(sorted(gangs, key=key_of)), tuple(missing), replica.noted)


class _Replica(Value):
    """The PodGangs of a replica of a PodCliqueSet."""

    by_epoch: Mapping[str, Sequence[PodGang]]
    anchors: Sequence[PodGang]
    """The PodGangs with the role Anchor."""
    noted: bool
    """Does the status of a PodGang of the replica say whether it was ever scheduled?"""


def _replica_of(index: Index, pod_gang: PodGang) -> _Replica:
    """Return the replica to which a PodGang belongs, with all PodGangs of this replica."""
    place = pod_gang.place

    def look() -> _Replica:
        of_set = index.gangs_of_set.get((pod_gang.namespace, place.pcs), ())
        gangs = [gang for gang in of_set if gang.place.replica == place.replica]
        return _Replica(
            by_key((gang.epoch, gang) for gang in gangs),
            [gang for gang in gangs if gang.role == ANCHOR],
            any(gang.scheduled is not None for gang in gangs),
        )

    # Thousands of PodGangs may share the result.
    key = ("replica", pod_gang.namespace, place.pcs, place.replica)
    return index.remembered(key, look, ["gangs"])
