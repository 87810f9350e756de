"""Make the PodCliqueSet the owner of MNNVL resources, as in the dialect `bindings`.

A PodGang is not a safe owner: an upgraded Grove replaces the PodGangs of running workloads, and the
garbage collector then deletes the resources that they own while pods use them. So resources that a
PodGang owns are returned to the PodCliqueSet. Source: `rules/README.md`.
"""

from collections.abc import Collection

from app.facts.grove.podgang import SlimPodGang
from app.facts.kinds import POD_CLIQUE_SET, POD_GANG
from app.facts.nvidia.computedomain import MnnvlResource
from app.objects.owners import OwnerRef
from app.rules.dialects.dialect import (
    CHECK_LEADER,
    Adopted,
    OwnerRule,
    OwnershipProblem,
    State,
    edit_of,
    orphaned,
)


class PodCliqueSetOwns(OwnerRule):
    """The rule that PodCliqueSets own MNNVL resources, also those that PodGangs have owned."""

    kind = POD_CLIQUE_SET.kind

    def base_names(self, gang: SlimPodGang) -> Collection[str]:
        return ()

    def state(self, resource: MnnvlResource, gang: SlimPodGang) -> State | None:
        if not gang.uid or all(owner.uid != gang.uid for owner in resource.owners):
            return None
        return "going" if resource.deleting else "owned"

    def adopted(self, states: Collection[State], *, adopting: bool = False) -> Adopted:
        """Return "true" while the PodGang owns a resource that is not being deleted, else None.

        API servers call our webhook before they delete a PodGang with this annotation.
        """
        return "true" if "owned" in states else None

    def is_given_back(self, resource: MnnvlResource) -> bool:
        """Return whether `resource` is ours, and has no owner or a PodGang as an owner.

        Without an owner, the resource would outlive its PodCliqueSet. Return False if its name does
        not fit the replica in its labels, or if an owner is neither a PodGang nor its PodCliqueSet.
        """
        if not resource.is_ours or not resource.is_named_after_its_replica:
            return False
        owners = resource.owners
        of_gangs = not owners or any(owner.kind == POD_GANG.kind for owner in owners)
        return of_gangs and all(_may_yield(owner, resource) for owner in owners)

    def problem(
        self, resource: MnnvlResource, gang: SlimPodGang | None, *, set_exists: bool
    ) -> OwnershipProblem | None:
        if not resource.is_ours:
            return None
        pcs = f'PodCliqueSet "{resource.place.pcs}"'
        if not set_exists:
            return orphaned(resource, "")

        if self.is_given_back(resource):
            message = f"has no owner: {pcs} should own it, so that both are deleted together"
            if resource.owning_gangs:
                owner = " and ".join(f'PodGang "{gang.name}"' for gang in resource.owning_gangs)
                message = (
                    f"owned by {owner}: {pcs} should own it, because Grove replaces PodGangs while"
                    " pods run"
                )
            return OwnershipProblem(message, CHECK_LEADER, True)
        if not all(_may_yield(owner, resource) for owner in resource.owners):
            message = f"has an owner that is neither a PodGang nor {pcs}"
            return OwnershipProblem(
                message,
                "Remove the ownerReferences that do not name its PodCliqueSet:"
                f" {edit_of(resource)}",
            )
        return None


def _may_yield(owner: OwnerRef, resource: MnnvlResource) -> bool:
    """Return whether `owner`, a PodGang or the PodCliqueSet of `resource`, may be replaced."""
    if owner.kind == POD_GANG.kind:
        return True
    return (owner.kind, owner.name) == (POD_CLIQUE_SET.kind, resource.place.pcs)


POD_CLIQUE_SET_OWNS = PodCliqueSetOwns()
