"""Read KAI's Topologies."""

from app.facts.identity import ClusterScoped, Ref
from app.objects.owners import OwnerRef, owners_of
from app.objects.shape import JsonMap, Object, map_at, maps_at, text_at


class KaiTopology(ClusterScoped):
    """A KAI Topology: the levels by which KAI places pods."""

    kind = "Topology"
    keys: tuple[str, ...] = ()
    """The node labels of the levels, broadest first."""
    owners: tuple[OwnerRef, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    """The aliases of levels, each with the node label of its level."""
    deleting: bool = False
    """Whether the deletion of the Topology was requested."""

    @property
    def controller(self) -> OwnerRef | None:
        """The owner that controls the Topology, or None."""
        return next((owner for owner in self.owners if owner.controller), None)

    def is_owned_by(self, ref: Ref, uid: str) -> bool:
        """Return whether the object `ref` with this uid owns the Topology."""
        owner = (ref.kind, ref.name, uid)
        return owner in ((owner.kind, owner.name, owner.uid) for owner in self.owners)

    def position(self, level: str) -> int | None:
        """Return the position of `level`, a node label or an alias; 0 is the broadest level.

        Return None if there is no such level.
        """
        key = dict(self.aliases).get(level, level)
        return self.keys.index(key) if key in self.keys else None


def read_kai_topology(obj: JsonMap) -> KaiTopology:
    """Read a Topology of KAI."""
    metadata = map_at(obj, "metadata")
    return KaiTopology(
        text_at(metadata, "name"),
        level_labels(obj),
        owners_of(obj),
        _aliases(obj),
        metadata.get("deletionTimestamp") is not None,
    )


def level_labels(obj: JsonMap) -> tuple[str, ...]:
    """Return the node labels of the levels of a KAI Topology, broadest first.

    Aliases are omitted. Administrators may set them, and KAI accepts them instead of the label.
    """
    labels = (text_at(level, "nodeLabel") for level in _levels(obj))
    return tuple(filter(None, labels))


def _aliases(obj: JsonMap) -> tuple[tuple[str, str], ...]:
    names = ((text_at(level, "alias"), text_at(level, "nodeLabel")) for level in _levels(obj))
    return tuple((alias, label) for alias, label in names if alias)


def _levels(obj: JsonMap) -> list[Object]:
    return maps_at(obj, "spec", "levels")
