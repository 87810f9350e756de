"""Read the topologyConstraint of a PodCliqueSet, a scaling group or a clique, in both dialects."""

from app.base.value import Value
from app.objects.fields import CheckedMap


class TopologyConstraint(Value):
    """A topologyConstraint. A text is "" if it is not set."""

    pack_domain: str = ""
    """The deprecated `packDomain`."""
    topology_name: str = ""
    """The ClusterTopologyBinding that it names (`topologyName`)."""
    pack_required: str = ""
    """`pack.required`."""
    preferred: str = ""
    """`pack.preferred`."""

    @property
    def required(self) -> str:
        """The required domain. `pack.required` takes precedence over the deprecated packDomain."""
        return self.pack_required or self.pack_domain


class StoredConstraint(TopologyConstraint):
    """A topologyConstraint of a stored set."""

    is_later: bool = False
    """Does it set a field other than packDomain?

    If so, the dialect `design` does not change the PodGangs of its set.
    """


UNCONSTRAINED = StoredConstraint()


def read_constraint(fields: CheckedMap) -> tuple[str, str, str, str]:
    """Return the fields of a `TopologyConstraint`, in order. A value of a wrong type is ""."""
    pack = fields.child("pack")
    return (
        fields.text_at("packDomain"),
        fields.text_at("topologyName"),
        pack.text_at("required"),
        pack.text_at("preferred"),
    )
