"""TopologyFacts that are given as values."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.grove.topology import ClusterTopology, Level
from app.facts.kai.topology import KaiTopology
from app.rules.topology.coverage import Nodes
from tests.builders import managed


@dataclass
class Around:
    """`managed` is the managed topology, `bound` the levels of bindings by name."""

    managed: ClusterTopology = field(default_factory=lambda: managed("grove-topology"))
    bound: Mapping[str, Sequence[Level]] = field(default_factory=dict)
    kai: Mapping[str, KaiTopology] = field(default_factory=dict)
    sets: Sequence[PodCliqueSet] = ()
    counted: Nodes = field(default_factory=Nodes)

    def topology(self) -> ClusterTopology:
        return self.managed

    def bindings(self) -> Mapping[str, Sequence[Level]]:
        return self.bound

    def need_binding(self, name: str) -> None:
        """All is known: what is not there doesn't exist."""

    def kai_topology(self, name: str) -> KaiTopology | None:
        return self.kai.get(name)

    def users_of(self, binding: str) -> Sequence[PodCliqueSet]:
        return [pcs for pcs in self.sets if pcs.topology_name == binding]

    def sets_with_domains(self, domains: Collection[str]) -> Sequence[PodCliqueSet]:
        return [pcs for pcs in self.sets if not pcs.domains.isdisjoint(domains)]

    def nodes(self) -> Nodes:
        return self.counted

    def nodes_with(self, keys: Collection[str]) -> Nodes:
        return self.counted

    def level_keys(self) -> tuple[str, ...]:
        return self.managed.keys
