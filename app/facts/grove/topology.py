"""Read ClusterTopologies, ClusterTopologyBindings, and their levels."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from app.base.value import Value
from app.facts.identity import Ref
from app.facts.labels import KAI_SCHEDULER
from app.objects.shape import JsonMap, Object, map_at, maps_at, text_at

DOMAINS = ("region", "zone", "datacenter", "block", "rack", "host", "numa")
"""All domains of a ClusterTopology, broadest first."""

HOSTNAME_KEY = "kubernetes.io/hostname"


class Level(Value):
    """A level of a topology: a domain, and the node label that defines it."""

    domain: str
    """The name of the level, such as `rack`."""
    key: str
    """The key of the node label that defines the level."""


LevelsByName = Mapping[str, Sequence[Level]]
"""The levels of topologies by the name of the topology, broadest first."""


def broadest_first(levels: Iterable[Level]) -> tuple[Level, ...]:
    """Return `levels` in the order of DOMAINS, which must contain their domains."""
    return tuple(sorted(levels, key=lambda level: DOMAINS.index(level.domain)))


def levels_for_kai(levels: Sequence[Level]) -> tuple[Level, ...]:
    """Return the `levels`, listed broadest first, that a KAI Topology can have.

    KAI's CRD allows kubernetes.io/hostname only as the last level.
    """
    keys = [level.key for level in levels]
    return tuple(levels[: keys.index(HOSTNAME_KEY) + 1] if HOSTNAME_KEY in keys else levels)


class ClusterTopology(Value, dict=True):
    """A ClusterTopology or a ClusterTopologyBinding."""

    kind: str
    """`ClusterTopology` or `ClusterTopologyBinding`."""
    name: str
    uid: str = ""
    levels: tuple[Level, ...] = ()
    """The levels, broadest first."""
    kai: str = ""
    """The name of the KAI Topology, or "" without topology support."""
    external: bool = False
    """Whether administrators manage the KAI Topology."""
    drift: str = ""
    """A message about a KAI Topology that is not in sync according to the status, or ""."""
    enabled: bool = True
    """Whether topology support is enabled. If not, the managed topology has no levels."""

    @property
    def ref(self) -> Ref:
        """The reference to the topology."""
        return Ref(self.kind, "", self.name)

    @property
    def domains(self) -> set[str]:
        """The domains of the levels."""
        return {level.domain for level in self.levels}

    @property
    def keys(self) -> tuple[str, ...]:
        """The node labels of the levels, broadest first."""
        return tuple(level.key for level in self.levels)

    @cached_property
    def levels_for_kai(self) -> tuple[Level, ...]:
        """The levels by which KAI places pods.

        The KAI Topology of a binding is managed by Grove or by an administrator, and has all
        levels.
        """
        return levels_for_kai(self.levels) if self.kind == "ClusterTopology" else self.levels

    @property
    def strictest_key(self) -> str | None:
        """The label of the strictest level by which KAI places pods, or None without levels."""
        levels = self.levels_for_kai
        return levels[-1].key if levels else None

    def key_of(self, domain: str) -> str | None:
        """Return the node label by which KAI places pods that require `domain`.

        If KAI cannot use the level, this is the label of the strictest level that KAI can use.
        Return None if no level has the domain.
        """
        return self._keys_for_kai.get(domain)

    @cached_property
    def _keys_for_kai(self) -> Mapping[str, str | None]:
        """The results of `key_of` by domain. Each gang asks for those of its constraints."""
        usable = {level.key for level in self.levels_for_kai}
        return {
            level.domain: level.key if level.key in usable else self.strictest_key
            for level in reversed(self.levels)  # of equal domains, the first one counts
        }


def read_cluster_topology(obj: JsonMap) -> ClusterTopology:
    """Read a ClusterTopology. Its KAI Topology has the same name."""
    metadata = map_at(obj, "metadata")
    name = text_at(metadata, "name")
    levels = levels_of_cluster_topology(obj)
    return ClusterTopology("ClusterTopology", name, text_at(metadata, "uid"), levels, kai=name)


def levels_of_cluster_topology(obj: JsonMap) -> tuple[Level, ...]:
    """Return the valid levels of a ClusterTopology, broadest first, whatever their stored order."""
    levels = {level.domain: level for level in _levels(obj) if level.domain in DOMAINS}
    return broadest_first(levels.values())


def read_cluster_topology_binding(obj: JsonMap) -> ClusterTopology:
    """Read a ClusterTopologyBinding.

    If the binding refers to no KAI Topology, Grove manages one with the name of the binding.
    """
    metadata = map_at(obj, "metadata")
    name = text_at(metadata, "name")
    spec = map_at(obj, "spec")
    bindings = _of_kai(spec, "schedulerTopologyBindings")
    bound = [text_at(item, "topologyReference") for item in bindings]
    drifts = [
        text_at(status, "message") or "not in sync"
        for status in _of_kai(map_at(obj, "status"), "schedulerTopologyStatuses")
        if status.get("inSync") is False
    ]

    return ClusterTopology(
        "ClusterTopologyBinding",
        name,
        text_at(metadata, "uid"),
        levels=levels_of_binding(obj),
        kai=next(filter(None, bound), name),
        external=any(bound),
        drift=next(iter(drifts), ""),
    )


def levels_of_binding(obj: JsonMap) -> tuple[Level, ...]:
    """Return the valid levels of a ClusterTopologyBinding, in the order of its list."""
    return tuple(level for level in _levels(obj) if level.domain and level.key)


def _of_kai(holder: JsonMap, field: str) -> list[Object]:
    items = maps_at(holder, field)
    return [item for item in items if item.get("schedulerName") == KAI_SCHEDULER]


def _levels(obj: JsonMap) -> list[Level]:
    """Return the levels whose domain and key are texts."""
    items = maps_at(obj, "spec", "levels")
    return [
        Level(item["domain"], item["key"])
        for item in items
        if isinstance(item.get("domain"), str) and isinstance(item.get("key"), str)
    ]
