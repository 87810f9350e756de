"""Define the interface of a dialect: the topology API of one generation of Grove, and its rules.

Discovery decides which dialect is in force (`cluster/view`). Code that uses a dialect does not
depend on which one it is: if Grove does some work itself, the method for it returns no changes and
no findings. A constraint in fields that a dialect does not read is never changed and never removed.
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
"""The ownership state of a resource, relative to its PodGang.

The resource is `owned` by the PodGang, the PodGang may become its owner (`adoptable`), it is being
deleted (`going`), or it has another owner that does not give it up (`foreign`).
"""

CHECK_LEADER = (
    "Check that a replica of grove-admission leads (/readyz?verbose), and read the log of that"
    " replica."
)
"""The remedy if the leader has not yet corrected the owner of a resource."""

Adopted = Literal["true", "false"] | None
"""The value of the annotation `grove.io/mnnvl-resources-adopted`; None means no annotation."""


class OwnershipProblem(Value):
    """A problem with the owner of an MNNVL resource, and its remedy."""

    message: str
    remedy: str
    settling: bool = False
    """Whether the problem may resolve within moments, so that it is reported only if it lasts."""


class OwnerRule(ABC):
    """The rule that says who owns MNNVL resources of PodCliques.

    New resources belong to the PodCliqueSet.
    """

    kind: str
    """The kind of the owner, PodCliqueSet or PodGang."""

    @abstractmethod
    def base_names(self, gang: SlimPodGang) -> Collection[str]:
        """Return the base names (without suffix) of the resources that `gang` may have to own."""

    @abstractmethod
    def state(self, resource: MnnvlResource, gang: SlimPodGang) -> State | None:
        """Return the state of `resource` relative to `gang`, which should own it or still does.

        Return None if `resource` does not belong to `gang`.
        """

    @abstractmethod
    def adopted(self, states: Collection[State], *, adopting: bool = False) -> Adopted:
        """Return the annotation MNNVL_ADOPTED of a PodGang whose resources have these `states`.

        If `adopting` is true, for a dry run, adoptable resources count as owned.
        """

    @abstractmethod
    def is_given_back(self, resource: MnnvlResource) -> bool:
        """Return whether `resource` must be returned to its PodCliqueSet."""

    @abstractmethod
    def problem(
        self, resource: MnnvlResource, gang: SlimPodGang | None, *, set_exists: bool
    ) -> OwnershipProblem | None:
        """Return the problem of a stored resource, or None.

        A resource that we did not create has no problem. `gang` is the PodGang that should own the
        resource, or None if it does not exist. `set_exists` says whether the PodCliqueSet of the
        resource exists.
        """


ORPHANED = "orphaned: "
"""The beginning of messages about MNNVL resources whose owners do not exist."""


def orphaned(resource: MnnvlResource, owner: str) -> OwnershipProblem:
    """Return the problem of a resource whose PodCliqueSet no longer exists.

    `owner` names the owner, which does not exist either. It is "" if the PodCliqueSet was the
    owner.
    """
    pcs = f'PodCliqueSet "{resource.place.pcs}"'
    message = f"{ORPHANED}{pcs} does not exist"
    if owner:
        message = f"{ORPHANED}{owner} does not exist, and neither does {pcs}"
    remedy = f"If the garbage collector does not delete it, run: {deletion_of(resource)}"
    return OwnershipProblem(message, remedy)


def deletion_of(resource: MnnvlResource) -> str:
    """Return the command that deletes `resource`."""
    return f"kubectl -n {resource.namespace} delete {resource.kind.lower()} {resource.name}"


def edit_of(resource: MnnvlResource) -> str:
    """Return the command that opens `resource` in an editor."""
    return f"kubectl -n {resource.namespace} edit {resource.kind.lower()} {resource.name}"


class NoTopology(Exception):
    """The managed topology does not exist yet or has no levels, although support is enabled."""


class TopologyFacts(Protocol):
    """The facts of the cluster that the rules of a dialect need.

    A method raises an error while its fact is not known yet, except for facts about nodes.
    """

    def topology(self) -> ClusterTopology:
        """Return the managed topology. Raise NoTopology if it is missing or has no levels."""

    def bindings(self) -> LevelsByName:
        """Return the levels of all ClusterTopologyBindings by name, broadest first."""

    def need_binding(self, name: str) -> None:
        """Raise an error if it is unknown whether the ClusterTopologyBinding `name` exists.

        It is called for a name that is missing in `bindings`.
        """

    def kai_topology(self, name: str) -> KaiTopology | None:
        """Return the KAI Topology `name`, or None if it doesn't exist."""

    def users_of(self, binding: str) -> Sequence[PodCliqueSet]:
        """Return the PodCliqueSets whose constraints refer to the ClusterTopologyBinding `binding`.

        They are sorted by namespace and name.
        """

    def sets_with_domains(self, domains: Collection[str]) -> Sequence[PodCliqueSet]:
        """Return the PodCliqueSets with a packDomain that is one of `domains`.

        They are sorted by namespace and name.
        """

    def nodes(self) -> Nodes:
        """Return the nodes, grouped by their labels for levels in use, GPUs and NVLink domains.

        The result is empty if the nodes are not known.
        """

    def nodes_with(self, keys: Collection[str]) -> Nodes:
        """Return the nodes, grouped by the labels `keys`.

        The result is empty if the nodes are not known.
        """


class LevelsVerdict(Value):
    """The verdict on a write of a ClusterTopology or a ClusterTopologyBinding."""

    refusal: str | None = None
    """The reason to reject a deletion, or None if it is allowed or nothing is deleted."""
    findings: Sequence[FieldError] = field(default_factory=list)
    """The reasons to reject the write."""
    warnings: Sequence[str] = field(default_factory=list)


class SetVerdict(Value):
    """The verdict on the constraints of a PodCliqueSet, and the facts that it is based on.

    The facts are complete only if `is_known` is true and there are no findings.
    """

    findings: Sequence[FieldError] = ()
    """The reasons to reject the set."""
    warnings: Sequence[str] = ()
    levels: Sequence[Level] = ()
    """The levels of the topology that the constraints refer to, broadest first."""
    required: Mapping[Owner, str] = field(default_factory=dict)
    """The domain that the set, a scaling group or a clique requires, by its `Owner`."""
    constrained: Sequence[Owner] = ()
    """The set, the scaling groups and the cliques that require or prefer a domain."""
    is_known: bool = True
    """Whether the topology is known."""


NO_CONSTRAINTS = SetVerdict()
"""The verdict on a set without constraints."""


class Dialect(ABC):
    """The rules for the objects of one topology API."""

    name: str
    """The name of the dialect in messages and metrics, such as `bindings`."""
    resource: Resource
    """The resource whose objects have the levels."""
    sign: Resource
    """The resource by which the dialect is recognized.

    The newest dialect whose `sign` the cluster serves is in force.
    """
    owner: OwnerRule
    """The rule for the owner of MNNVL resources with `mnnvl.owner: auto`."""
    owns_topology = False
    """Whether the managed topology belongs to this program alone.

    If so, this program deletes it when topology support is disabled, writes its status, and creates
    the KAI Topology from it.
    """
    reads_groups = False
    """Whether Grove reads `grove.io/mnnvl-group`."""

    @abstractmethod
    def read_levels(self, obj: JsonMap) -> tuple[Level, ...]:
        """Return the valid levels of a stored object of `resource`, broadest first."""

    @abstractmethod
    def in_use(self, facts: TopologyFacts) -> LevelsByName:
        """Return the levels of the topologies that workloads may use, by topology name."""

    @abstractmethod
    def validate_levels(
        self, obj: JsonMap, old: JsonMap | None, operation: str, facts: TopologyFacts, managed: bool
    ) -> LevelsVerdict:
        """Return the verdict on `operation` on an object of `resource`.

        `obj` is the written or deleted object, and `old` the object that an UPDATE replaces.
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
        """Return further warnings about a PodCliqueSet that do not depend on facts."""
        return []

    def validate_podgang(self, gang: JsonMap) -> list[FieldError]:
        """Return findings about the parts of a PodGang that `podgang_changes` reads."""
        return []

    def podgang_changes(
        self, gang: JsonMap, pcs: PodCliqueSet | None, facts: TopologyFacts
    ) -> list[Edit]:
        """Return the changes that give a PodGang the constraints of its set.

        `pcs` is the set, or None if it is not known.
        """
        return []

    def podgang_warnings(self, gang: JsonMap, facts: TopologyFacts) -> list[str]:
        """Return warnings about the constraints of a PodGang that this program does not write."""
        return []

    def drifted(self, gang: JsonMap, pcs: PodCliqueSet, facts: TopologyFacts) -> list[str]:
        """Return a message for each constraint of PodGang `gang` that differs from its set's.

        Nothing corrects these constraints until the set changes.
        """
        return []

    def condition(self, pcs: PodCliqueSet, topology: ClusterTopology | None) -> Condition | None:
        """Return the condition that this program writes for `pcs`, or None if it writes none.

        `topology` is None if the managed topology is not known.
        """
        return None
