"""Find the cliques of a PodCliqueSet to which the PodGroups of a PodGang belong."""

from app.base.value import Value
from app.facts.grove.podcliqueset import Clique, PodCliqueSet, ScalingGroup


class PodGroupClique(Value):
    """The PodClique whose pods are in one PodGroup of a PodGang."""

    clique: Clique | None
    """The clique in the template, or None if only the scaling group names it."""
    replica: str
    """The index of the set's replica."""
    group: ScalingGroup | None = None
    """The scaling group of the clique, or None."""
    group_replica: str = ""
    """The name of the scaling group replica, `<pcs>-<replica>-<group>-<index>`, or ""."""


class PodGroupCliques:
    """An index of the PodCliques that the set `pcs` can have, to look up PodGroups by name."""

    def __init__(self, pcs: PodCliqueSet) -> None:
        self._prefix = f"{pcs.name}-"
        self._cliques = {clique.name: clique for clique in reversed(pcs.cliques)}
        self._groups = {
            (group.name, clique): group
            for group in reversed(pcs.groups)
            for clique in group.cliques
        }
        self._lengths = sorted({len(group.name) for group in pcs.groups})

    def find(self, podgroup: str) -> PodGroupClique | None:
        """Return the PodClique of the PodGroup `podgroup`, or None if the set has no such clique.

        A PodGroup has the name of its PodClique: `<pcs>-<replica>-<clique>`, or
        `<pcs>-<replica>-<group>-<index>-<clique>` in a scaling group. The replica is read from the
        name, because Grove's operator does not label PodGangs with it.
        """
        replica, _, suffix = podgroup[len(self._prefix) :].partition("-")
        if not podgroup.startswith(self._prefix) or not replica.isdecimal():
            return None
        for length in self._lengths:
            index, _, clique = suffix[length + 1 :].partition("-")
            group = self._groups.get((suffix[:length], clique))
            if group is not None and index.isdecimal() and suffix[length] == "-":
                name = podgroup.removesuffix(f"-{clique}")
                return PodGroupClique(self._cliques.get(clique), replica, group, name)
        return PodGroupClique(self._cliques[suffix], replica) if suffix in self._cliques else None
