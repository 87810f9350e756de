"""The topologyConstraint of a PodCliqueSet, a scaling group or a clique, in both dialects."""

from app.base.value import Value
from app.objects.fields import FieldPath, Findings, walk_map, wrong_type
from app.objects.shape import JsonMap


class TopologyConstraint(Value):
    """A topologyConstraint. A text is "" if it is not set."""

    pack_domain: str = ""
    topology_name: str = ""
    pack_required: str = ""
    preferred: str = ""

    @property
    def required(self) -> str:
        """The required domain: `pack` counts before the deprecated packDomain."""
        return self.pack_required or self.pack_domain


class StoredConstraint(TopologyConstraint):
    """A topologyConstraint of a stored set."""

    is_later: bool = False
    """Whether it has other fields than packDomain.

    If it has, the dialect `design` does not change the PodGangs of its set.
    """


UNCONSTRAINED = StoredConstraint()


def read_constraint(
    fields: JsonMap, at: FieldPath, findings: Findings
) -> tuple[str, str, str, str]:
    """Return the texts of a `TopologyConstraint` with these `fields`, whose path is `at`.

    Add a finding for each value of a wrong type, which counts as not set.
    """
    pack = walk_map(fields, "pack", at, findings)
    pack_at = at.child("pack")
    return (
        _text(fields, "packDomain", at, findings),
        _text(fields, "topologyName", at, findings),
        _text(pack, "required", pack_at, findings),
        _text(pack, "preferred", pack_at, findings),
    )


def _text(holder: JsonMap, field: str, at: FieldPath, findings: Findings) -> str:
    value = holder.get(field)
    if value is None or isinstance(value, str):
        return value or ""
    findings.append(wrong_type(at.child(field), value, "a string"))
    return ""
