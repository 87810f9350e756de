"""Who owns MNNVL resources: the interface of the `owner` of each dialect.

The owner decides what the garbage collector deletes. Code that uses a rule does not depend on which
dialect is in force.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from app.facts.grove.gang import SlimPodGang
from app.facts.nvidia.mnnvl import MnnvlResource

State = Literal["owned", "adoptable", "going", "foreign"]
"""How a resource stands to its PodGang.

It is `owned` or `adoptable` by it, `going` (being deleted), or `foreign`, because an object
controls it that doesn't yield.
"""

Adopted = Literal["true", "false"] | None
"""The value of the annotation `grove.io/mnnvl-resources-adopted`, None for no annotation."""


@dataclass(frozen=True, slots=True)
class OwnershipProblem:
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
    def is_of(self, resource: MnnvlResource, gang: SlimPodGang) -> bool:
        """Return whether `gang` should own `resource`, or owns it still."""

    @abstractmethod
    def state(self, resource: MnnvlResource, gang: SlimPodGang) -> State:
        """Return how `resource` stands to `gang`, whose it is (`is_of`)."""

    @abstractmethod
    def adopted(
        self, resources: Iterable[MnnvlResource], gang: SlimPodGang, *, adopting: bool = False
    ) -> Adopted:
        """Return what the annotation of `gang` should say of `resources`, which are its.

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


def is_ours(resource: MnnvlResource) -> bool:
    """Return whether we made the stored resource, and it is not being deleted."""
    return resource.managed and not resource.deleting and not resource.is_generated


def orphaned(resource: MnnvlResource, owner: str) -> OwnershipProblem:
    """Return the problem of a resource whose PodCliqueSet is gone.

    Its `owner` is gone too; that is "" if the PodCliqueSet was the owner.
    """
    pcs = f'PodCliqueSet "{resource.place.pcs}"'
    message = f"orphaned: {pcs} does not exist"
    if owner:
        message = f"orphaned: {owner} does not exist, and neither does {pcs}"
    return OwnershipProblem(message, "Delete it, unless the garbage collector has done so.")
