"""Whether a stored PodCliqueSet asks for MNNVL resources.

A review of a PodClique that is created proves nothing: nothing is stored yet that it could be
compared with, and anybody who reaches the port can send one. So the webhook creates only what the
template of the stored set asks for. Everything else is created when the PodClique is stored.
"""

from collections.abc import Iterator

from app.facts.grove.template import CliqueTemplate, Template
from app.facts.labels import MNNVL_DEVICE_CLASS, PCSG_REPLICA
from app.facts.place import Place
from app.rules.mnnvl.plan import (
    DEFAULT_DEVICE_CLASS,
    SCOPES,
    CliqueMember,
    Plan,
)

_MOST_DIGITS = 10
"""The digits of the largest number of replicas in Kubernetes, 2,147,483,647."""


def asks_for(template: Template, plan: Plan) -> bool:
    """Return whether a clique of `template` asks for the resources of `plan`, with the same labels.

    Scaling groups count as the template has them: one that was scaled out has replicas of which the
    template knows nothing.
    """
    return any(_shape(plan) == _shape(asked) for asked in _plans(template, plan))


def _shape(plan: Plan) -> tuple[object, ...]:
    return plan.scope, plan.base_name, plan.device_class, plan.labels


def _plans(template: Template, plan: Plan) -> Iterator[Plan]:
    """Yield the plans of all cliques of `template` in the replica that `plan` is for."""
    replica = plan.member.place.replica
    if not _is_index(replica, template.replicas):
        return

    for clique in template.cliques:
        member = _member(template, clique, plan, replica)
        scope = next((scope for scope in SCOPES if scope == clique.scope), None)
        if member is None or scope is None:
            continue
        if clique.enabling is None or not clique.gpus:
            continue
        yield Plan(member, scope, _device_class(clique))


def _member(
    template: Template, clique: CliqueTemplate, plan: Plan, replica: str
) -> CliqueMember | None:
    """Return the PodClique of `clique`, or None if its scaling group has no such replica."""
    base = f"{template.name}-{replica}"
    group = clique.group
    if group is None:
        place = Place(template.name, replica)
        return CliqueMember(plan.namespace, f"{base}-{clique.name}", place, plan.owner)

    # Resources of a whole replica are named without the replica of a scaling group.
    index = plan.labels.get(PCSG_REPLICA, "0")
    if not _is_index(index, group.replicas):
        return None

    place = Place(template.name, replica, group.name, index)
    name = f"{base}-{group.name}-{index}-{clique.name}"
    return CliqueMember(plan.namespace, name, place, plan.owner)


def _is_index(text: str, count: int) -> bool:
    """Return whether `text` is a number from 0 below `count`, as Kubernetes writes numbers."""
    if not (text.isascii() and text.isdecimal()):
        return False
    if len(text) > _MOST_DIGITS:
        return False

    index = int(text)
    return text == str(index) and index < count


def _device_class(clique: CliqueTemplate) -> str:
    part = clique.part_with(MNNVL_DEVICE_CLASS)
    value = None
    if part is not None:
        value = part.annotations[MNNVL_DEVICE_CLASS]
    return str(value or DEFAULT_DEVICE_CLASS)
