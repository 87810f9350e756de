"""Find a topology by name, and combine Grove's and KAI's definitions of it."""

from functools import cached_property

from app.base.value import Value
from app.explain.state.domains import Domains
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.constraint import SchedulerConstraint
from app.facts.grove.topology import ClusterTopology, Level
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.node import Node

DEFAULT_TOPOLOGY = "grove-topology"


class Topology(Value, dict=True):
    """A topology by which gangs are placed, as Grove and KAI define it."""

    index: Index
    """The index that has the nodes."""
    cluster: ClusterTopology | None
    """Grove's ClusterTopology or ClusterTopologyBinding, or None if it does not exist."""
    kai: KaiTopology | None
    """KAI's Topology, or None if it does not exist."""

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels of KAI's Topology, by which KAI places pods.

        A level has the name that Grove gives it, or else its alias in KAI, or else the part of its
        label after the last slash. If KAI has no such Topology, these are the levels that Grove's
        definition would give it.
        """
        if not self.kai:
            return self.cluster.levels_for_kai if self.cluster else ()
        named = {level.key: level.domain for level in (self.cluster.levels if self.cluster else ())}
        named |= {key: alias for alias, key in self.kai.aliases if key not in named}
        for key in self.kai.keys:
            named.setdefault(key, key.rpartition("/")[2])
        return tuple(Level(named[key], key) for key in self.kai.keys)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The node labels of the levels, broadest first."""
        return tuple(level.key for level in self.levels)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the levels, broadest first."""
        return tuple(level.domain for level in self.levels)

    @property
    def domains(self) -> Domains:
        """The tree of all nodes by the levels of the topology."""
        return self.index.domains(self.keys)

    @property
    def outside(self) -> list[Node]:
        """The nodes that lack the label of a level."""
        domains = self.domains
        return domains.nodes_at(domains.outside)

    @property
    def absent_keys(self) -> tuple[str, ...]:
        """The level labels that no node has, broadest first. Empty if there are no nodes."""
        nodes = self.index.nodes
        labelled = {key for node in nodes for key in node.labels}
        return tuple(key for key in self.keys if nodes and key not in labelled)

    def wider(self, key: str, levels: tuple[str, ...] | None = None) -> list[Level]:
        """Return the levels broader than `key`, narrowest first, or [] if `key` is not a level.

        `levels` has the node labels of all levels, broadest first, by default the topology's own.
        """
        keys = self.keys if levels is None else levels
        above = keys[: keys.index(key)][::-1] if key in keys else ()
        return [Level(self.name_of(each), each) for each in above]

    def prefers_broader(self, told: SchedulerConstraint) -> bool:
        """Return whether the preferred level is broader than the required one. KAI rejects that."""
        broader = self.wider(told.required, told.levels)
        return told.preferred in [level.key for level in broader]

    def by_keys(self, told: SchedulerConstraint) -> SchedulerConstraint:
        """Return a constraint as KAI reads it: with labels instead of aliases, and KAI's levels."""
        keys = dict(self.kai.aliases) if self.kai else {}
        required, preferred = (keys.get(key, key) for key in (told.required, told.preferred))
        return SchedulerConstraint(required, preferred, self.keys)

    def name_of(self, key: str) -> str:
        """Return the name of the level with the label `key`, or else `key` without its prefix."""
        levels = (*self.levels, *(self.cluster.levels if self.cluster else ()))
        names = (level.domain for level in levels if level.key == key)
        return next(names, key.rpartition("/")[2])


def value_of_level(topology: Topology, text: str) -> str:
    """Return LEVEL=VALUE, such as `rack=rack-a1`, for the broadest level with the value `text`.

    Return "" if no node has this value for a level.
    """
    for level in topology.levels:
        if any(node.labels.get(level.key) == text for node in topology.index.nodes):
            return f"{level.domain}={text}"
    return ""


def topology_of(index: Index, name: str = "") -> Topology:
    """Return the topology that Grove or KAI calls `name`.

    Without a name, return the topology DEFAULT_TOPOLOGY of Grove, or Grove's first one if that does
    not exist. A topology that does not exist has no levels.
    """
    made_of = ["topologies", "kai_topologies"]
    return index.remembered(("topology", name), lambda: _called(index, name), made_of)


def shown_first(facts: Snapshot) -> str:
    """Return the name of KAI's first Topology, or "" if there is none or Grove has a topology.

    KAI does not use it for gangs that name no topology, but it is shown to users who name none.
    """
    if facts.topologies:
        return ""
    return min((kai.name for kai in facts.kai_topologies), default="")


def _called(index: Index, name: str) -> Topology:
    facts = index.facts
    clusters = sorted(facts.topologies, key=lambda topology: (topology.kind, topology.name))
    if not name and clusters:
        names = [cluster.name for cluster in clusters]
        name = DEFAULT_TOPOLOGY if DEFAULT_TOPOLOGY in names else names[0]

    # `clusters` is sorted by kind: in reverse, a ClusterTopologyBinding comes before a
    # ClusterTopology, because the binding is in force if both exist.
    fitting = (cluster for cluster in reversed(clusters) if name in (cluster.name, cluster.kai))
    cluster = next(fitting, None)
    kai_name = cluster.kai if cluster else name
    kais = {kai.name: kai for kai in facts.kai_topologies}
    return Topology(index, cluster, kais.get(kai_name))
