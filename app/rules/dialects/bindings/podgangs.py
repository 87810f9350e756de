"""PodGangs of the dialect `bindings` whose constraints are not those of their PodCliqueSet.

If somebody edits them by hand, Grove copies the edited constraints to the scheduler until the
PodCliqueSet changes.

Source:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/controller/podcliqueset/components/podgang
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.objects.edits import value_at
from app.objects.shape import map_of, maps_of
from app.rules.podcliqueset import Clique, Group, PodCliqueSet
from app.rules.topology.levels import Level
from app.rules.topology.members import Members


def drifted_constraints(
    name: str, gang: Mapping[str, Any], pcs: PodCliqueSet, levels: Sequence[Level]
) -> list[str]:
    """Returns the constraints of the PodGang `name` that differ from those that Grove writes for
    `pcs`, one text each. `levels` are those of the binding of `pcs`.
    """
    keys = {level.domain: level.key for level in levels}
    return [
        f"{path}: is {_shown(current)}, and would be {_shown(desired)}"
        for path, current, desired in _pairs(name, gang, pcs, keys)
        if current != desired
    ]


Pack = tuple[str, str]
"""The required and the preferred node label, "" if there is none."""


def _pairs(
    name: str, gang: Mapping[str, Any], pcs: PodCliqueSet, keys: Mapping[str, str]
) -> Iterator[tuple[str, Pack, Pack]]:
    """Yields the path, the current value and the desired value of each constraint."""
    podgroups = maps_of(value_at(gang, ("spec", "podgroups")))
    known = Members(pcs)
    members = [known.find(str(podgroup.get("name"))) for podgroup in podgroups]
    group = next((member.group for member in members if member is not None and member.group), None)
    is_base = any(
        member is not None and name == f"{pcs.name}-{member.replica}" for member in members
    )
    owner: PodCliqueSet | Group | None = pcs if is_base else group
    if owner is not None:
        yield "spec.topologyConstraint", _current(gang.get("spec")), _desired(owner, keys)
    for position, (podgroup, member) in enumerate(zip(podgroups, members, strict=True)):
        if member is not None and member.clique is not None:
            path = f"spec.podgroups[{position}].topologyConstraint"
            yield path, _current(podgroup), _desired(member.clique, keys)


def _desired(holder: PodCliqueSet | Group | Clique, keys: Mapping[str, str]) -> Pack:
    required = (holder.pack.required if holder.pack else "") or holder.pack_domain or ""
    preferred = holder.pack.preferred if holder.pack else ""
    return keys.get(required, ""), keys.get(preferred, "")


def _current(holder: Any) -> Pack:
    pack = map_of(value_at(holder, ("topologyConstraint", "packConstraint")))
    return str(pack.get("required") or ""), str(pack.get("preferred") or "")


def _shown(pack: Pack) -> str:
    fields = (("required", pack[0]), ("preferred", pack[1]))
    return "{" + ", ".join(f"{field}: {key}" for field, key in fields if key) + "}"
