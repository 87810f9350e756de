"""The cliques of a PodCliqueSet that the PodGroups of a PodGang stand for."""

from app.base.value import Value
from app.facts.grove.podcliqueset import Clique, PodCliqueSet, ScalingGroup


class PodGroupClique(Value):
    """The PodClique of one PodGroup of a PodGang.

    It is a clique of a replica of the set or of a scaling group. `replica` is the index of the
    set's replica as text, and `group_replica` the name of the scaling group's, with that of the
    set. `clique` is None if only the scaling group has it.
    """

    clique: Clique | None
    replica: str
    group: ScalingGroup | None = None
    group_replica: str = ""


class PodGroupCliques:
    """The members of the set `pcs`, by name."""

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
        """Return the member that the PodGroup `podgroup` stands for.

        None if the set has no such clique.

        A PodGroup has the name of its PodClique: `<pcs>-<replica>-<clique>`, or
        `<pcs>-<replica>-<group>-<index>-<clique>` in a scaling group. The replica is read from the
        name, because Grove's operator puts no label with it on PodGangs.
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
