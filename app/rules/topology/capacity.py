"""Warn about required domains that are too small, or that do not apply to all pods together.

A domain may have too few GPUs for the pods of a PodCliqueSet. Or a constraint applies to each
PodGang separately, although users expect one domain for all pods:
https://github.com/ai-dynamo/grove/issues/648

The labels of the nodes define the domains. The GPU count of a node comes from its label
`nvidia.com/gpu.count`, else from its allocatable GPUs, else from its ResourceSlices.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from app.base.value import Value
from app.facts.grove.template import SET, CountedClique, Owner, Template, owner_text
from app.facts.grove.topology import Level
from app.facts.labels import GPU_COUNT, KUEUE
from app.objects.fields import listed
from app.rules.topology.coverage import Nodes, NodesWith, Room, pods_with


def capacity_warnings(
    template: Template,
    required: Mapping[Owner, str],
    constrained: Iterable[Owner],
    levels: Sequence[Level],
    nodes: Nodes,
) -> list[str]:
    """Return warnings about required domains that are too small, and pods that differ in size.

    If nodes are known but none reports GPUs, there is a warning that the domains cannot be checked.

    `required` has, by owner, the domain that each replica of the owner must fit into. `constrained`
    are the owners of all constraints, and `levels` are the levels of the topology.
    """
    owners = dict.fromkeys(constrained)
    if not required and not owners:
        return []

    domains = {level.domain for level in levels}
    members = _members(template)
    warnings: list[str] = []
    if required and _needed(members[SET]):
        warnings += _without_gpus(nodes)

    for owner, domain in required.items():
        if domain in domains and owner in members:
            for part, cliques in _kept_together(owner, members[owner]):
                warnings += _too_small(
                    owner=part, domain=domain, cliques=cliques, levels=levels, nodes=nodes
                )

    for owner in owners:
        for part, cliques in _kept_together(owner, members.get(owner, [])):
            warnings += _of_several_sizes(part, cliques)
    return warnings


def is_too_small(
    domain: str, owner: Owner, template: Template, levels: Sequence[Level], nodes: Nodes
) -> bool:
    """Return whether a domain is known to be too small for the pods of a replica of `owner`."""
    return any(
        list(_too_small(owner=part, domain=domain, cliques=cliques, levels=levels, nodes=nodes))
        for part, cliques in _kept_together(owner, _members(template).get(owner, []))
    )


def _kept_together(
    owner: Owner, cliques: Sequence[CountedClique]
) -> Iterator[tuple[Owner, Sequence[CountedClique]]]:
    """Yield the parts whose pods the constraint of `owner` keeps together, with their cliques.

    Kueue applies it to each PodClique separately.
    """
    if not any(clique.scheduler == KUEUE for clique, _ in cliques):
        yield owner, cliques
        return
    for clique, _ in cliques:
        yield ("clique", clique.name), [(clique, clique.pods)]


def _without_gpus(nodes: Nodes) -> list[str]:
    """Return a warning if nodes are known, but none reports GPUs."""
    if not nodes or nodes.most_gpus():
        return []

    return [
        "cannot check capacity: no node reports GPUs (checked: label"
        f" {GPU_COUNT}, status.allocatable, ResourceSlices)"
    ]


class _Count(Value):
    """Pods under one constraint whose GPU requests differ."""

    pods: int
    """The number of pods that must be scheduled together."""
    sizes: list[int]
    """The different GPU requests per pod, largest first."""


def _counted_by_kai(first: Sequence[CountedClique]) -> _Count | None:
    """Count the pods that must be scheduled together if KAI looks for more room than they need.

    KAI then treats each pod like the largest one. Otherwise, return None. Source:
    `are_counted_exactly` of `rules/dialects/design/podgangs.py`.
    """
    sizes = sorted({clique.whole_gpus for clique, pods in first if pods}, reverse=True)
    if len(sizes) < 2 or 0 in sizes:
        return None

    return _Count(sum(pods for _, pods in first), sizes)


def _starting_together(cliques: Sequence[CountedClique]) -> list[CountedClique]:
    """Return `cliques` with only the pods that must be scheduled together.

    KAI looks for room for these first. It adds the other pods of the cliques one by one.
    """
    return [
        (clique, pods // clique.pods * min(clique.min_available, clique.pods))
        for clique, pods in cliques
        if clique.pods > 0
    ]


def _needed(cliques: Sequence[CountedClique]) -> int:
    """Return the number of GPUs that all pods of `cliques` request."""
    return sum(clique.whole_gpus * pods for clique, pods in cliques)


def _subject(owner: Owner) -> str:
    """Return the pods that a constraint of `owner` keeps together, as the subject of a sentence."""
    text = owner_text(owner)
    return text if owner[0] == "clique" else f"a replica of {text}"


def _of_several_sizes(owner: Owner, cliques: Sequence[CountedClique]) -> Iterator[str]:
    """Yield a warning if pods under the constraint of `owner` request different numbers of GPUs.

    KAI looks for room as if each pod requested as many GPUs as the largest one. If some pods
    request no GPU, KAI adds up the requests instead, and there is no warning.
    """
    first = _starting_together(cliques)
    counted = _counted_by_kai(first)
    if counted is None:
        return

    largest = counted.sizes[0]
    yield (
        f"{_subject(owner)} has pods with {' and '.join(map(str, counted.sizes))}"
        " GPUs under one topology constraint: for the pods that must be scheduled together, KAI"
        f" looks for {counted.pods} x {largest} = {counted.pods * largest} free GPUs instead of"
        f" {_needed(first)}"
    )


def _members(template: Template) -> Mapping[Owner, list[CountedClique]]:
    """Return, by owner, the cliques to which its constraint applies, each with its number of pods.

    The pods are those of one replica of the owner in one PodGang. The PodGang of the set contains
    `minAvailable` replicas of a scaling group. Each further replica forms its own PodGang.
    """
    members: dict[Owner, list[CountedClique]] = defaultdict(list)
    for clique in template.cliques:
        group = clique.group
        members[SET].append(
            (clique, clique.pods * (group.min_available if group is not None else 1))
        )
        members["clique", clique.name].append((clique, clique.pods))
        if group is not None:
            members["group", group.name].append((clique, clique.pods))
    return members


def _too_small(
    owner: Owner,
    domain: str,
    cliques: Sequence[CountedClique],
    levels: Sequence[Level],
    nodes: Nodes,
) -> Iterator[str]:
    room = _room_in(domain, levels, nodes)
    if room is None:
        return
    problem = _why_too_small(owner, room, domain, cliques)
    if problem:
        yield (
            f'{_subject(owner)} must fit into one "{domain}", but {problem} will stay pending'
            " unless nodes are added"
        )


def _room_in(domain: str, levels: Sequence[Level], nodes: Nodes) -> Room | None:
    """Return the room in the domains of the level `domain`, or None if it is not known."""
    if not nodes:
        return None
    position = [level.domain for level in levels].index(domain)
    return nodes.room_at(tuple(level.key for level in levels[: position + 1]))


def _why_too_small(owner: Owner, room: Room, domain: str, cliques: Sequence[CountedClique]) -> str:
    """Return why the pods of `cliques` fit into no domain of `room`, and which pods do not.

    Return "" if all may fit. `cliques` are the cliques of `owner`, and `domain` is the name of the
    level. If the pods that must be scheduled together fit, the result names only other pods.
    """
    first = _starting_together(cliques)
    together = {clique.name: pods for clique, pods in first}
    for clique, pods in cliques:
        most = room.pods(clique.whole_gpus)
        if most is not None and pods > most:
            more = f"more than {most} of them" if most else "one of them"
            stay = "all of its pods" if together[clique.name] > most else "some of its pods"
            subject = "it" if owner[0] == "clique" else f'clique "{clique.name}"'
            return (
                f"{subject} has {pods_with(pods, clique.whole_gpus)}, and no"
                f' "{domain}" has GPUs for {more}: {stay}'
            )

    counted = _counted_by_kai(first)
    if counted is not None and counted.pods > (room.pods(counted.sizes[0]) or 0):
        return (
            "KAI counts the pods that must be scheduled together as"
            f' {pods_with(counted.pods, counted.sizes[0])}, and no "{domain}" has room for them:'
            " all of its pods"
        )

    needed = _needed(cliques)
    if needed > room.gpus:
        stay = "all of its pods" if _needed(first) > room.gpus else "some of its pods"
        return f'it needs {needed} GPUs, and no "{domain}" has more than {room.gpus} GPUs: {stay}'
    return ""


# Domains of the whole PodCliqueSet.


_SHOWN = 2


def apart_warnings(
    template: Template,
    required: Mapping[Owner, str],
    levels: Sequence[Level],
    nodes_with: NodesWith,
    nodes: Nodes,
) -> list[str]:
    """Return warnings about pods under one constraint that may be placed in separate domains.

    These are the pods of different replicas of a scaling group, or of the cliques of a set that
    Kueue places. `required` has the domain that each owner requires, one of `levels`. If all nodes
    with the labels of all levels are in one such domain, there is no warning. `nodes` are the nodes
    with their GPUs. They may be missing if the set requests no GPUs.
    """
    if KUEUE in [clique.scheduler for clique in template.cliques]:
        return list(_apart_in_kueue(template, required, levels, nodes_with))
    domain = required.get(SET, "")
    groups = [group for group in template.groups if group.replicas > group.min_available]
    if not domain or not groups:
        return []
    domains = [level.domain for level in levels]
    if domain not in domains:
        return []

    shared = _shared_domains(levels, nodes_with)
    if domain in shared:
        return []

    names = listed([owner_text(group.part.owner) for group in groups], _SHOWN)
    common = f" (all labelled nodes are in one {shared[-1]})" if shared else ""
    remedy = ". Set minAvailable = replicas at creation to keep all pods together"
    room = _room_in(domain, levels, nodes)
    if room is not None:
        every = [
            (clique, clique.pods * (clique.group.replicas if clique.group else 1))
            for clique in template.cliques
        ]
        if _why_too_small(SET, room, domain, every):
            remedy = f". No {domain} has room for all pods together"
    return [
        f'the constraint "{domain}" of the PodCliqueSet applies per PodGang. Replicas of {names}'
        " above minAvailable form their own PodGangs and may be placed in another"
        f" {domain}{common}{remedy}"
    ]


def _apart_in_kueue(
    template: Template,
    required: Mapping[Owner, str],
    levels: Sequence[Level],
    nodes_with: NodesWith,
) -> Iterator[str]:
    """Yield a warning for each constraint that Kueue applies to several cliques separately.

    Source: Grove's proposal 704: a constraint becomes the topologyRequest of each PodSet, and there
    is one PodSet for each PodClique.
    """
    shared = _shared_domains(levels, nodes_with)
    members = _members(template)
    for owner, domain in required.items():
        names = [f'"{clique.name}"' for clique, _ in members.get(owner, ())]
        if len(names) > 1 and domain not in shared:
            yield (
                f'the constraint "{domain}" of {owner_text(owner)} applies per clique, because'
                f" Kueue places its pods: the cliques {listed(names, _SHOWN)} may be placed in"
                " different domains. Put pods that must stay together into one clique"
            )


def _shared_domains(levels: Sequence[Level], nodes_with: NodesWith) -> list[str]:
    """Return the levels at which all nodes with all labels are in one domain, broadest first."""
    keys = tuple([level.key for level in levels])
    return [level.domain for level in levels[: nodes_with(keys).shared_levels(keys)]]
