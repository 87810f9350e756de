"""The gangs that another gang waits for before Grove opens the gates of its pods."""

from app.explain.gangs.gang import Gang
from app.explain.known.index import Index
from app.facts.grove.podgang import PodGang

ANCHOR = "Anchor"


def base_gangs(gang: Gang) -> list[PodGang]:
    """Return the base gangs of a gang, by name.

    Releases with epochs name them in the PodGangMap of the replica (`dependsOn`); if it is not
    known, they are the anchors of the replica. Earlier ones label PodCliques with the base gang.
    """
    index = gang.index
    if gang.pod_gang is not None and gang.pod_gang.role:
        return _by_epoch(index, gang.pod_gang)

    cliques = (member.clique for member in gang.members)
    names = {clique.place.base_podgang for clique in cliques if clique is not None}
    found = (index.gangs.get((gang.namespace, name)) for name in sorted(names - {gang.ref.name}))
    return [base for base in found if base is not None]


def _by_epoch(index: Index, pod_gang: PodGang) -> list[PodGang]:
    if pod_gang.role == ANCHOR:
        return []

    place = pod_gang.place
    siblings = [
        other
        for other in index.gangs_of_set.get((pod_gang.namespace, place.pcs), ())
        if other.place.replica == place.replica and other != pod_gang
    ]
    entries = index.gang_maps.get((pod_gang.namespace, f"{place.pcs}-{place.replica}"))
    if entries is None:
        return [other for other in siblings if other.role == ANCHOR]
    epochs = entries.needed_by(pod_gang.epoch)
    return [other for other in siblings if other.epoch in epochs]
