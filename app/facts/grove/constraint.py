"""Read the topologyConstraint of a PodCliqueSet, a scaling group or a clique, in every dialect."""

from app.base.value import Value
from app.objects.fields import CheckedMap


class TopologyConstraint(Value):
    """A topologyConstraint. A text is "" if it is not set."""

    pack_domain: str = ""
    """The required domain in the deprecated `packDomain`."""
    topology_name: str = ""
    """The name of a ClusterTopologyBinding (`topologyName`)."""
    pack_required: str = ""
    """The required domain (`pack.required`)."""
    preferred: str = ""
    """The preferred domain (`pack.preferred`)."""

    @property
    def required(self) -> str:
        """The required domain. `pack.required` takes precedence over the deprecated packDomain."""
        return self.pack_required or self.pack_domain


class StoredConstraint(TopologyConstraint):
    """A topologyConstraint of a stored set."""

    is_later: bool = False
    """Whether the constraint sets a field other than packDomain.

    If so, the dialect `design` does not change the PodGangs of the set.
    """


UNCONSTRAINED = StoredConstraint()


def read_constraint(fields: CheckedMap) -> tuple[str, str, str, str]:
    """Return the fields of a `TopologyConstraint`, in order.

    A value of a wrong type is "" in the result, and becomes a finding of `fields`.
    """
    pack = fields.child("pack")
    return (
        fields.text_at("packDomain"),
        fields.text_at("topologyName"),
        pack.text_at("required"),
        pack.text_at("preferred"),
    )
