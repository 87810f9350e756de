"""A dialect is the topology API of one generation of Grove, with the rules for its objects.

Discovery decides which dialect is in force (`cluster/view`). Code that uses a dialect
does not depend on which one it is: if Grove does some work itself, the method for it returns
nothing. A constraint in fields that a dialect does not read is never changed and never removed.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import field

from app.base.value import Value
from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.grove.podgang import SlimPodGang
from app.facts.grove.template import Owner, Template
from app.facts.grove.topology import ClusterTopology, Level, LevelsByName
from app.facts.kai.topology import KaiTopology
from app.facts.nvidia.computedomain import MnnvlResource
from app.objects.conditions import Condition
from app.objects.edits import Edit
from app.objects.fields import FieldError
from app.objects.resource import Resource
from app.objects.shape import JsonMap
from app.rules.topology.coverage import Nodes

State = Literal["owned", "adoptable", "going", "foreign"]
"""How a resource stands to its PodGang.

It is `owned` or `adoptable` by it, `going` (being deleted), or `foreign`, because an object
controls it that doesn't yield.
"""

Adopted = Literal["true", "false"] | None
"""The value of the annotation `grove.io/mnnvl-resources-adopted`, None for no annotation."""


class OwnershipProblem(Value):
    """A problem and its remedy.

    If `settling` is true, it may resolve within moments, and counts only if it lasts.
    """

    message: str
    remedy: str
    settling: bool = False


class OwnerRule(ABC):
    """Who owns MNNVL resources once they are created, when the PodCliqueSet owns them.

    `kind` is the kind of the owner.
    """

    kind: str

    @abstractmethod
    def base_names(self, gang: SlimPodGang) -> Collection[str]:
        """Return the base names of the resources that `gang` may have to own."""

    @abstractmethod
    def state(self, resource: MnnvlResource, gang: SlimPodGang) -> State | None:
        """Return how `resource` stands to `gang`, which should own it, or owns it still.

        None if it is not a resource of `gang`.
        """

    @abstractmethod
    def adopted(self, states: Collection[State], *, adopting: bool = False) -> Adopted:
        """Return what the annotation of a PodGang should say whose resources have these states.

        If `adopting` is true, for a dry run, adoptable resources count as owned.
        """

    @abstractmethod
    def is_given_back(self, resource: MnnvlResource) -> bool:
        """Return whether `resource` has to be given to its PodCliqueSet."""

    @abstractmethod
    def problem(
        self, resource: MnnvlResource, gang: SlimPodGang | None, *, set_exists: bool
    ) -> OwnershipProblem | None:
        """Return the problem of a stored resource that we made, or None.

        `gang` is the PodGang that should own it, or None if none should or that doesn't exist.
        `set_exists` is true if its PodCliqueSet exists.
        """


def orphaned(resource: MnnvlResource, owner: str) -> OwnershipProblem:
    """Return the problem of a resource whose PodCliqueSet is gone.

    Its `owner` is gone too; that is "" if the PodCliqueSet was the owner.
    """
    pcs = f'PodCliqueSet "{resource.place.pcs}"'
    message = f"orphaned: {pcs} does not exist"
    if owner:
        message = f"orphaned: {owner} does not exist, and neither does {pcs}"
    return OwnershipProblem(message, "Delete it, unless the garbage collector has done so.")


class NoTopology(Exception):
    """The managed topology doesn't exist although it should, or not yet."""


class TopologyFacts(Protocol):
    """The facts of the cluster that the rules of a dialect need.

    A method raises an error while its fact is not known yet, except for facts about nodes.
    """

    def topology(self) -> ClusterTopology:
        """Return the managed topology. Raise NoTopology if it doesn't exist although it should."""

    def bindings(self) -> LevelsByName:
        """Return the levels of all ClusterTopologyBindings by name, broadest first."""

    def need_binding(self, name: str) -> None:
        """Raise an error if it is not known whether the ClusterTopologyBinding `name` exists.

        It is called for one that is not among the bindings.
        """

    def kai_topology(self, name: str) -> KaiTopology | None:
        """Return the KAI Topology `name`, or None if it doesn't exist."""

    def users_of(self, binding: str) -> Sequence[PodCliqueSet]:
        """Return the PodCliqueSets whose constraints refer to a ClusterTopologyBinding.

        It is `binding`. They are sorted by name.
        """

    def sets_with_domains(self, domains: Collection[str]) -> Sequence[PodCliqueSet]:
        """Return the PodCliqueSets with a packDomain that is one of `domains`, sorted by name."""

    def nodes(self) -> Nodes:
        """Return the nodes grouped by their labels of all levels in use.

        Labels that warnings need are included. Empty if the nodes are not known.
        """

    def nodes_with(self, keys: Collection[str]) -> Nodes:
        """Return the nodes grouped by their labels of these keys.

        Empty if the nodes are not known.
        """


class LevelsVerdict(Value):
    """The verdict on a write of levels.

    `refusal` is the reason why a deletion is not allowed, None if it is.
    """

    refusal: str | None = None
    findings: Sequence[FieldError] = field(default_factory=list)
    warnings: Sequence[str] = field(default_factory=list)


class SetVerdict(Value):
    """The verdict on the constraints of a PodCliqueSet, and what was read on the way.

    `levels` are those of the topology that the constraints refer to, broadest first. `required` has
    the domain that each owner requires, and `constrained` the owners whose pods KAI places by a
    constraint. Without findings, these three are complete, unless the topology is not known
    (`is_known`).
    """

    findings: Sequence[FieldError] = ()
    warnings: Sequence[str] = ()
    levels: Sequence[Level] = ()
    required: Mapping[Owner, str] = field(default_factory=dict)
    constrained: Sequence[Owner] = ()
    is_known: bool = True


NO_CONSTRAINTS = SetVerdict()


class Dialect(ABC):
    """The rules for the objects of one topology API.

    `name` is for people, and `resource` is the one with the levels. The dialect is in force if the
    cluster serves `sign`. `owner` says who owns MNNVL resources.

    If `owns_topology` is true, the managed topology belongs to this program alone: it is deleted if
    topology support is disabled, its status is written, and the KAI Topology is made from it. If
    `reads_groups` is true, Grove reads `grove.io/mnnvl-group`.
    """

    name: str
    resource: Resource
    sign: Resource
    owner: OwnerRule
    owns_topology = False
    reads_groups = False

    @abstractmethod
    def read_levels(self, obj: JsonMap) -> tuple[Level, ...]:
        """Return the valid levels of a stored object of `resource`, broadest first."""

    @abstractmethod
    def in_use(self, facts: TopologyFacts) -> LevelsByName:
        """Return the levels of the topologies that workloads may refer to.

        They are by the name of the topology.
        """

    @abstractmethod
    def validate_levels(
        self, obj: JsonMap, old: JsonMap | None, operation: str, facts: TopologyFacts, managed: bool
    ) -> LevelsVerdict:
        """Validate `operation` on an object of `resource`.

        `obj` is the object that is written or deleted, and `old` the one that an UPDATE replaces.
        `managed` is true for the managed topology.
        """

    @abstractmethod
    def validate_set(
        self, template: Template, old: Template | None, facts: TopologyFacts
    ) -> SetVerdict:
        """Return the verdict on the shape of a PodCliqueSet and on its constraints.

        `old` is the set that an UPDATE replaces, None at CREATE.
        """

    def set_warnings(self, template: Template) -> list[str]:
        """Return further warnings about a PodCliqueSet, which depend on no fact."""
        return []

    def validate_podgang(self, gang: JsonMap) -> list[FieldError]:
        """Return findings about the parts of a PodGang that `podgang_changes` reads."""
        return []

    def podgang_changes(
        self, gang: JsonMap, pcs: PodCliqueSet | None, facts: TopologyFacts
    ) -> list[Edit]:
        """Return the changes that make the constraints of a PodGang those of its set.

        The set is `pcs`, which is None if it doesn't exist.
        """
        return []

    def podgang_warnings(self, gang: JsonMap, facts: TopologyFacts) -> list[str]:
        """Return warnings about the constraints of a PodGang that this program does not write."""
        return []

    def drifted(
        self, name: str, gang: JsonMap, pcs: PodCliqueSet, facts: TopologyFacts
    ) -> list[str]:
        """Return the wrong constraints of the stored PodGang `name`.

        They differ from those of its set, and nobody corrects them.
        """
        return []

    def condition(self, pcs: PodCliqueSet, topology: ClusterTopology | None) -> Condition | None:
        """Return the condition that this program writes for `pcs`, or None if it writes none.

        `topology` is None if the managed topology is not known.
        """
        return None
