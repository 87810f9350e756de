"""Find the stored PodCliques and Pods that have our claim, and the resources that they need."""

from collections.abc import Iterable
from sys import intern

from app.base.value import shared
from app.facts.grove.podcliqueset import NO_ANNOTATIONS, MnnvlAnnotations, PodCliqueSet
from app.facts.grove.unit_member import Carrier, UnitMember
from app.rules.mnnvl.plan import (
    ClaimMode,
    Plan,
    is_device_class,
    read_entry,
    usable_device_class,
)
from app.rules.mnnvl.unit import NvlinkUnit, Scope


class ClaimedMember(UnitMember, kw_only=True):
    """A stored PodClique or Pod that has our claim.

    Such a member needs the resources that its claim names, even if its annotations have changed:
    its pods cannot start without them. Only a valid DeviceClass is kept from its annotations.
    """

    scope: Scope
    """The scope of the unit, according to the name of the claim."""
    mode: ClaimMode
    """The form of the claim, according to the entry in the pod spec."""

    @property
    def base_name(self) -> str:
        """The prefix of the names of the resources that the member needs."""
        return NvlinkUnit(self, self.scope).base_name


def claimed(carrier: Carrier) -> ClaimedMember | None:
    """Return `carrier` with the scope and form of its claim, or None if it lacks our claim."""
    own = carrier.annotations.device_class
    device_class = intern(own) if own and is_device_class(own) else None
    plan = read_entry(carrier, carrier.claim, "")
    if plan is None:
        return None

    return ClaimedMember(
        namespace=carrier.namespace,
        name=carrier.name,
        place=carrier.place,
        owner_uid=carrier.owner_uid,
        deleting=carrier.deleting,
        annotations=MnnvlAnnotations(device_class=device_class) if device_class else NO_ANNOTATIONS,
        named=shared(carrier.named),
        controller=shared(carrier.controller),
        scope=plan.scope,
        mode=plan.mode,
    )


def demands_in(cliques: Iterable[object]) -> list[ClaimedMember]:
    """Return the members of `cliques` that have our claim."""
    return [clique for clique in cliques if isinstance(clique, ClaimedMember)]


def plan_for(demands: Iterable[ClaimedMember], pcs: PodCliqueSet) -> Plan | None:
    """Return the plan of the resources that `demands` share, or None if none belongs to `pcs`.

    All demands have the same base name. Without a plan, nothing needs to be restored.
    """
    lasting = sorted(
        (demand for demand in demands if demand.is_of(pcs)), key=lambda demand: demand.name
    )
    if not lasting:
        return None

    demand = next((demand for demand in lasting if demand.annotations.device_class), lasting[0])
    annotations = demand.annotations.over(pcs.mnnvl_at(demand.place))
    member = UnitMember(demand.namespace, demand.name, demand.place, pcs.uid)
    is_shared = any(demand.mode == "shared" for demand in lasting)
    return Plan(
        member,
        demand.scope,
        usable_device_class(annotations.device_class),
        "shared" if is_shared else "template",
    )
