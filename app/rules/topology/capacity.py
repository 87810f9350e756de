"""Warnings about required domains that have too few GPUs for the pods of a PodCliqueSet, by the labels of the nodes."""

from collections.abc import Iterator, Sequence

from app.rules.mnnvl.template import CliqueTemplate, Template
from app.rules.topology.coverage import Nodes, largest_room
from app.rules.topology.levels import Level


def capacity_warnings(
    template: Template, required: dict[tuple[str, str], str], levels: Sequence[Level], nodes: Nodes
) -> list[str]:
    """Returns warnings about required domains that are too small. `required` maps ("set", ""), ("group", name) and
    ("clique", name) to the domain that each replica must fit into. `levels` are those of the topology."""
    domains = {level.domain for level in levels}
    warnings: list[str] = []
    for owner, domain in required.items():
        cliques = _members(template, owner)
        if domain in domains and cliques:
            warnings += _too_small(owner, domain, cliques, levels, nodes)
    return warnings


def required_levels(
    template: Template, required: dict[tuple[str, str], str], levels: Sequence[Level]
) -> dict[str, str]:
    """Returns, by the name of a clique, the narrowest domain that its pods require:
    by the constraint of the clique, of its scaling group or of the set."""
    order = [level.domain for level in levels]
    narrowest: dict[str, str] = {}
    for clique in template.cliques:
        owners = (("set", ""), ("group", clique.group), ("clique", clique.name))
        domains = [required[owner] for owner in owners if required.get(owner) in order]
        if domains:
            narrowest[clique.name] = max(domains, key=order.index)
    return narrowest


def _members(template: Template, owner: tuple[str, str]) -> list[tuple[CliqueTemplate, int]]:
    """Returns the cliques that one replica of `owner` has in one PodGang, each with its number of pods. The PodGang of
    the set contains `minAvailable` replicas of a scaling group. Further replicas have PodGangs of their own."""
    kind, name = owner
    if kind == "clique":
        return [(clique, clique.pods) for clique in template.cliques if clique.name == name]
    if kind == "group":
        return [(clique, clique.pods) for clique in template.cliques if clique.group == name]
    members: list[tuple[CliqueTemplate, int]] = []
    for clique in template.cliques:
        group = template.group_of(clique)
        members.append((clique, clique.pods * (group.min_available if group is not None else 1)))
    return members


def _too_small(
    owner: tuple[str, str],
    domain: str,
    cliques: Sequence[tuple[CliqueTemplate, int]],
    levels: Sequence[Level],
    nodes: Nodes,
) -> Iterator[str]:
    room = largest_room(levels, domain, nodes)
    if room is None or room.gpus is None:
        return
    kind, name = owner
    owner_name = {"set": "the PodCliqueSet", "group": f'scaling group "{name}"', "clique": f'clique "{name}"'}[kind]
    intro = f'a replica of {owner_name} must fit into one "{domain}", but'
    for clique, pods in cliques:
        most = room.pods(clique.whole_gpus)
        if most is not None and pods > most:
            yield (
                f'{intro} the largest holds at most {most} pods of clique "{clique.name}" with '
                f"{clique.whole_gpus} GPUs each, and it has {pods}: they will stay pending"
            )
            return
    needed = sum(clique.whole_gpus * pods for clique, pods in cliques)
    if needed > sum(room.gpus):
        yield f"{intro} it needs {needed} GPUs and the largest has {sum(room.gpus)}: its pods will stay pending"
