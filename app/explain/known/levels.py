"""The topology that a gang is placed by."""

from app.facts.constraint import SchedulerConstraint
from app.facts.grove.topology import ClusterTopology, Level
from app.facts.kai.topology import KaiTopology
from app.value import Value


class Topology(Value):
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
        keys = self.keys
        return self.levels[: keys.index(key)][::-1] if key in keys else ()

    def prefers_broader(self, told: SchedulerConstraint) -> bool:
        """Return whether a preferred level is broader than the required one: KAI refuses that."""
        broader = self.wider(told.required) if told.preferred else ()
        return told.preferred in [level.key for level in broader]

    def name_of(self, key: str) -> str:
        """Return the level of a node label, the label itself if no level has it."""
        names = [level.domain for level in self.levels if level.key == key]
        if not names and self.cluster:
            names = [level.domain for level in self.cluster.levels if level.key == key]
        return names[0] if names else key
