"""The topology that a gang is placed by."""

from app.explain.known.snapshot import Snapshot
from app.facts.constraint import SchedulerConstraint
from app.facts.grove.topology import ClusterTopology, Level
from app.facts.kai.topology import KaiTopology
from app.frozen import frozen

DEFAULT_TOPOLOGY = "grove-topology"


@frozen
class Topology:
    """The topology that a gang is placed by.

    It is what Grove has and what KAI has, each None if it does not exist.
    """

    cluster: ClusterTopology | None
    kai: KaiTopology | None

    @property
    def levels(self) -> tuple[Level, ...]:
        """KAI's levels, named as Grove names them.

        KAI places by them. They are Grove's if KAI has none.
        """
        if not self.kai:
            return self.cluster.levels if self.cluster else ()
        named = {level.key: level.domain for level in (self.cluster.levels if self.cluster else ())}
        named |= {key: alias for alias, key in self.kai.aliases if key not in named}
        for key in self.kai.keys:
            named.setdefault(key, key.rpartition("/")[2])
        return tuple(Level(named[key], key) for key in self.kai.keys)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(level.key for level in self.levels)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(level.domain for level in self.levels)

    def wider(self, key: str) -> tuple[Level, ...]:
        """Return the levels above that of a key, the next one first; none for another key."""
        if key not in self.keys:
            return ()
        return self.levels[: self.keys.index(key)][::-1]

    def prefers_broader(self, told: SchedulerConstraint) -> bool:
        """Return whether a preferred level is broader than the required one: KAI refuses that."""
        return told.preferred in [level.key for level in self.wider(told.required)]

    def name_of(self, key: str) -> str:
        """Return the level of a node label, the label itself if no level has it."""
        names = [level.domain for level in self.levels if level.key == key]
        if not names and self.cluster:
            names = [level.domain for level in self.cluster.levels if level.key == key]
        return names[0] if names else key


def topology_called(facts: Snapshot, name: str) -> Topology:
    """Return the topology of this name.

    Without a name, the only one, or else the one that Grove has by default.
    """
    clusters = sorted(facts.topologies, key=lambda topology: (topology.kind, topology.name))
    if not name and clusters:
        names = [cluster.name for cluster in clusters]
        name = DEFAULT_TOPOLOGY if DEFAULT_TOPOLOGY in names else names[0]
    # A ClusterTopologyBinding is in force if both exist.
    cluster = next((c for c in reversed(clusters) if name in (c.name, c.kai)), None)
    kai_name = cluster.kai if cluster else name
    kais = {kai.name: kai for kai in facts.kai_topologies}
    return Topology(cluster, kais.get(kai_name))
