"""Make the PodGang the owner of MNNVL resources, as the design document requires.

The PodCliqueSet owns them until the PodGang is stored. Source: `rules/README.md`.
"""

from collections.abc import Collection, Iterator
from itertools import chain, islice

from app.facts.grove.podgang import SlimPodGang
from app.facts.kinds import POD_CLIQUE_SET, POD_GANG
from app.facts.labels import ANCHOR
from app.facts.nvidia.computedomain import MnnvlResource
from app.objects.names import MAX_SUBDOMAIN
from app.objects.owners import OwnerRef
from app.rules.dialects.dialect import (
    CHECK_LEADER,
    ORPHANED,
    Adopted,
    OwnerRule,
    OwnershipProblem,
    State,
    deletion_of,
    edit_of,
    orphaned,
)

MOST_GROUP_REPLICAS = 10_000
"""The maximum number of names of scaling group replicas that are looked up for a PodGang.

Anybody can send a PodGang with very many podgroups, whose names contain very many numbers. Beyond
the limit, a resource is found only if an owner or a label of the resource names the PodGang.
"""


class PodGangOwns(OwnerRule):
    """The rule that the PodGang with the PodCliques of a resource owns the resource.

    Resources that all cliques of a replica share belong to its base PodGang. So they still exist
    after the deletion of a scaled PodGang.
    """

    kind = POD_GANG.kind

    def base_names(self, gang: SlimPodGang) -> Collection[str]:
        place = gang.place
        start = f"{place.pcs}-{place.replica}"
        names = {gang.name, start, f"{start}-{place.group}-{place.group_replica}"}
        # a name that is too long for a PodClique is not the name of one
        cliques = [clique for clique in gang.cliques if len(clique) <= MAX_SUBDOMAIN]
        replicas = chain.from_iterable(_group_replicas(clique, place.pcs) for clique in cliques)
        return names.union(cliques, islice(replicas, MOST_GROUP_REPLICAS))

    def state(self, resource: MnnvlResource, gang: SlimPodGang) -> State | None:
        """Return the ownership state of `resource`.

        `adoptable` means that the resource has no owner other than its PodCliqueSet or an earlier
        PodGang with the same name.
        """
        if not _is_of(resource, gang):
            return None
        if resource.deleting:
            return "going"
        controllers = {owner.uid for owner in resource.owners if owner.controller}
        if gang.uid and gang.uid in controllers:
            return "owned"
        if all(_may_yield(owner, resource, gang) for owner in resource.owners):
            return "adoptable"
        return "foreign"

    def adopted(self, states: Collection[State], *, adopting: bool = False) -> Adopted:
        """Return "true" if all resources are owned, "false" if not, and None if there are none."""
        if not states:
            return None
        expected = {"owned", "adoptable"} if adopting else {"owned"}
        return "true" if expected.issuperset(states) else "false"

    def is_given_back(self, resource: MnnvlResource) -> bool:
        return False

    def problem(
        self, resource: MnnvlResource, gang: SlimPodGang | None, *, set_exists: bool
    ) -> OwnershipProblem | None:
        if not resource.is_ours:
            return None
        if gang is None:
            return _without_gang(resource, set_exists=set_exists)

        state = self.state(resource, gang)
        if state == "adoptable":
            message = (
                f'not adopted: the reconciler has not made PodGang "{gang.name}" its owner yet'
            )
            return OwnershipProblem(message, CHECK_LEADER, True)
        if state == "foreign":
            message = f'has an owner that is neither PodGang "{gang.name}" nor its PodCliqueSet'
            return OwnershipProblem(
                message,
                "Remove the ownerReferences that name neither its PodGang nor its PodCliqueSet:"
                f" {edit_of(resource)}",
            )
        return None


def _is_of(resource: MnnvlResource, gang: SlimPodGang) -> bool:
    """Return whether `gang` should own `resource`, or a label of `resource` names `gang`."""
    if not resource.managed or resource.is_generated:
        return False
    if resource.namespace != gang.namespace:
        return False

    # earlier versions wrote the name of the PodGang into a label
    if resource.place.podgang == gang.name:
        return True

    if gang.cliques:
        return _has_cliques_of(resource, gang)
    return not resource.place.podgang and _is_same_replica(resource, gang)


def _group_replicas(clique: str, pcs: str) -> Iterator[str]:
    """Yield the names of the scaling group replicas that the PodClique `clique` may belong to.

    Each name is a part of `clique` before a dash, and ends in a number: the index of a replica.
    """
    before = len(pcs)
    at = clique.find("-", before + 1)
    while at != -1:
        if clique[before + 1 : at].isdecimal():
            yield clique[:at]
        before = at
        at = clique.find("-", at + 1)


def _has_cliques_of(resource: MnnvlResource, gang: SlimPodGang) -> bool:
    """Return whether the PodCliques that share `resource` belong to `gang`.

    Resources of a whole replica belong to its base PodGang.
    """
    place = resource.place
    if not (place.pcs and place.replica) or place.pcs != gang.place.pcs:
        return False

    base = resource.base_name
    start = f"{place.pcs}-{place.replica}"
    if base == start:
        return _is_base(gang, start)
    if base == f"{start}-{place.group}-{place.group_replica}":
        return any(clique.startswith(f"{base}-") for clique in gang.cliques)
    return base in gang.cliques


def _is_base(gang: SlimPodGang, start: str) -> bool:
    """Return whether `gang` is the base PodGang of a replica, in either naming scheme of Grove.

    `start` is `<pcs>-<replica>`.
    """
    if gang.role:
        return gang.role == ANCHOR and f"{gang.place.pcs}-{gang.place.replica}" == start
    return gang.name == start


def _is_same_replica(resource: MnnvlResource, gang: SlimPodGang) -> bool:
    """Return whether the labels of `resource` and `gang` name the same replica.

    This keeps a base PodGang from getting resources of a scaled PodGang.
    """
    place = resource.place
    return bool(place.pcs and place.replica) and place.of_replica == gang.place.of_replica


def _may_yield(owner: OwnerRef, resource: MnnvlResource, gang: SlimPodGang) -> bool:
    """Return whether `gang` may replace `owner` as the owner of `resource`.

    It may replace the PodCliqueSet, and an earlier PodGang with its own name.
    """
    if owner.kind == POD_GANG.kind:
        return owner.name == gang.name
    return (owner.kind, owner.name) == (POD_CLIQUE_SET.kind, resource.place.pcs)


def _without_gang(resource: MnnvlResource, *, set_exists: bool) -> OwnershipProblem:
    gang = "the PodGang of its PodCliques"
    if not set_exists:
        return orphaned(resource, gang)
    return OwnershipProblem(
        f"{ORPHANED}{gang} does not exist",
        f"If no Pod uses it, run: {deletion_of(resource)}. Otherwise, do nothing, because it is"
        " deleted with its PodCliqueSet.",
        True,
    )


POD_GANG_OWNS = PodGangOwns()
