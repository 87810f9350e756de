"""Whether a required domain can ever hold the pods that a PodCliqueSet has in it, by the GPUs in the nodes' labels."""

from collections.abc import Iterator, Sequence

from app.rules.mnnvl.template import CliqueTemplate, Template
from app.rules.topology.coverage import Nodes, largest_room
from app.rules.topology.levels import Level


def capacity_warnings(
    template: Template, required: dict[tuple[str, str], str], levels: Sequence[Level], nodes: Nodes
) -> list[str]:
    """Warnings about required domains that are too small. `required` maps ("set", ""), ("group", name) and
    ("clique", name) to the domain that each replica must fit into."""
    known = {level.domain for level in levels}
    warnings: list[str] = []
    for owner, domain in required.items():
        cliques = _members(template, owner)
        if domain in known and cliques:
            warnings += _too_small(owner, domain, cliques, levels, nodes)
    return warnings


def required_levels(
    template: Template, required: dict[tuple[str, str], str], levels: Sequence[Level]
) -> dict[str, str]:
    """The narrowest domain that the pods of each clique require, by the name of the clique: of its own, its scaling
    group's and its set's."""
    order = [level.domain for level in levels]
    narrowest: dict[str, str] = {}
    for clique in template.cliques:
        owners = (("set", ""), ("group", clique.group), ("clique", clique.name))
        domains = [required[owner] for owner in owners if required.get(owner) in order]
        if domains:
            narrowest[clique.name] = max(domains, key=order.index)
    return narrowest


def _members(template: Template, owner: tuple[str, str]) -> list[tuple[CliqueTemplate, int]]:
    """The cliques that one replica of `owner` has in one PodGang, each with its number of pods. A scaling group is in
    the PodGang of the set with its minAvailable replicas; more of them have PodGangs of their own."""
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
    whose = {"set": "the PodCliqueSet", "group": f'scaling group "{name}"', "clique": f'clique "{name}"'}[kind]
    never = f'a replica of {whose} must fit into one "{domain}", but'
    for clique, pods in cliques:
        most = room.pods(clique.whole_gpus)
        if most is not None and pods > most:
            yield (
                f'{never} the largest holds at most {most} pods of clique "{clique.name}" with '
                f"{clique.whole_gpus} GPUs each, and it has {pods}: they will stay pending"
            )
            return
    needed = sum(clique.whole_gpus * pods for clique, pods in cliques)
    if needed > sum(room.gpus):
        yield f"{never} it needs {needed} GPUs and the largest has {sum(room.gpus)}: its pods will stay pending"
