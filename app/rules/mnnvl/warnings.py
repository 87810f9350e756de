"""Warn about PodCliqueSets and Pods that could not use MNNVL, by our or Grove's annotations.

NVIDIA's driver has one channel per node, so pods with such a claim never share a node:
https://github.com/NVIDIA/k8s-dra-driver-gpu/tree/95932046
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from app.base.value import Value
from app.facts.grove.template import (
    CliqueTemplate,
    CountedClique,
    Owner,
    Template,
    owner_text,
)
from app.facts.grove.topology import HOSTNAME_KEY, Level
from app.facts.labels import (
    KUEUE,
    MNNVL_GROUP,
    MNNVL_SCOPE,
    NVLINK_DOMAIN,
    POD_GROUP_NAME,
    SKIP_PODGROUPER,
)
from app.facts.unit_owners import EXCLUSIVE_JOBS, NamedOwner, UnitSize, is_label_key
from app.rules.mnnvl.colocation import Bounds
from app.rules.mnnvl.plan import Plan
from app.rules.topology.capacity import is_too_small
from app.rules.topology.coverage import Nodes, pods_with
from app.rules.topology.levels import labels_hint
from app.rules.workload.kai_podgroup import TOPOLOGY_REQUIRED


class NvlinkDomains(Value):
    """The configured size of NVLink domains."""

    nodes: int = 18
    """The number of nodes of a domain, if no node has the label of NVLink domains.

    GB200 NVL72 and GB300 NVL72 have 18.
    """
    spare: int = 0
    """The number of nodes of a domain that a workload should leave free."""

    def size(self, nodes: Nodes) -> int:
        """Return the number of nodes in the largest NVLink domain among `nodes`.

        If no node has the label of NVLink domains, return the configured number.
        """
        return nodes.most_with_equal(NVLINK_DOMAIN) or self.nodes


AS_CONFIGURED = NvlinkDomains()
"""The values that are used without a configuration."""


def preflight_warnings(
    template: Template,
    required: Mapping[Owner, str],
    levels: Sequence[Level],
    nodes: Nodes,
    nvlink: NvlinkDomains = AS_CONFIGURED,
) -> list[str]:
    """Return warnings about the cliques of `template` that enable MNNVL and request GPUs.

    `required` has the domain that each owner requires, one of `levels`.
    """
    narrowest = required_levels(template, required, levels)
    warnings: list[str] = []
    asking = template.asking
    for clique in asking:
        if clique.pods > 1:
            level = narrowest.get(clique.name)
            warnings += _sharing(
                subject=f'clique "{clique.name}"',
                pods=f"{clique.pods} pods",
                gpus=clique.gpus,
                levels=[] if level is None else [level],
                nodes=nodes,
            )
    domains = _domains(asking)
    kept_in = {
        name: _narrowest(_keeping_together(members), required, levels)
        for name, members in domains.items()
    }
    warnings += _several(domains, kept_in, nodes, nvlink)
    for name, members in domains.items():
        number = sum(pods for _, pods in members)
        if number > 1 and not _is_inside(kept_in[name], nodes):
            text = _spread(name, members)
            if number <= nvlink.size(nodes):
                text += _how_to_keep_together(template, members, required, levels, nodes)
            warnings.append(text)
        warnings += _too_many(
            name=name,
            pods=number,
            together=sum(map(_together, members)),
            nodes=nodes,
            nvlink=nvlink,
        )
    return warnings


def required_levels(
    template: Template, required: Mapping[Owner, str], levels: Sequence[Level]
) -> dict[str, Level]:
    """Return, by clique name, the narrowest level that the pods of each clique require.

    It is required by the constraint of the clique, of its scaling group or of the set. Cliques that
    require no level are left out. `levels` are listed broadest first.
    """
    narrowest: dict[str, Level] = {}
    for clique in template.cliques:
        level = _narrowest([part.owner for part in clique.parts], required, levels)
        if level is not None:
            narrowest[clique.name] = level

    return narrowest


def _narrowest(
    owners: Iterable[Owner], required: Mapping[Owner, str], levels: Sequence[Level]
) -> Level | None:
    """Return the narrowest level that one of `owners` requires, or None."""
    order = [level.domain for level in levels]
    domains = (required.get(owner) for owner in owners)
    positions = [order.index(domain) for domain in domains if domain in order]
    return levels[max(positions)] if positions else None


def unit_warnings(
    plan: Plan, bounds: Bounds, nodes: Nodes, nvlink: NvlinkDomains = AS_CONFIGURED
) -> Iterator[str]:
    """Yield warnings about a Pod with these `bounds`, whose unit has the resources of `plan`."""
    named = plan.member.named
    assert named is not None
    unit = f'unit "{plan.base_name}"'
    levels = [Level(key, key) for key in sorted(bounds.levels)]
    is_alone = bounds.size is not None and bounds.size.pods < 2
    if not bounds.is_apart and not is_alone:
        yield from _sharing(subject=unit, pods="pods", gpus=bounds.gpus, levels=levels, nodes=nodes)

    if bounds.group is None:
        yield (
            f"{unit}: the annotation {SKIP_PODGROUPER} makes KAI's pod-grouper skip its pods, but"
            " they do not name a PodGroup, so KAI never schedules them. Set the annotation"
            f" {POD_GROUP_NAME} of the pod template to the name of your PodGroup"
        )

    # A group of the Workload API has its constraints in the group and in its Workload.
    is_known = bounds.is_known and is_label_key(named.kind.key)
    # more pods than an NVLink domain has nodes can't be kept within one
    may_fit = bounds.size is None or bounds.size.pods <= nvlink.size(nodes)
    if (
        is_known
        and may_fit
        and not is_alone
        and not bounds.split_by
        and not any(_is_inside(level, nodes) for level in levels)
    ):
        keys = ", ".join(level.key for level in levels)
        broader = ""
        if levels:
            broader = (
                f". They stay within one domain of {keys}, which can have several NVLink domains"
            )
        yield (
            f"MNNVL of {unit}: nothing keeps its pods {_WITHIN}{broader}."
            f" {_how_to_bind(named, plan.scope, bounds)}"
        )
    if bounds.split_by and bounds.split_by != HOSTNAME_KEY:
        yield (
            f"MNNVL of {unit}: the annotation {EXCLUSIVE_JOBS} puts each of its Jobs into a"
            f" separate domain of {bounds.split_by}, and pods in different NVLink domains have no"
            f" NVLink between them. Set {MNNVL_SCOPE}: job, or replace the annotation with"
            f" {TOPOLOGY_REQUIRED}: {NVLINK_DOMAIN}"
        )
    if bounds.size is not None:
        yield from _of_size(unit=unit, bounds=bounds, size=bounds.size, nodes=nodes, nvlink=nvlink)
        yield from _of_equal_units(plan, bounds, bounds.size, nvlink.size(nodes))


def _how_to_bind(named: NamedOwner, scope: str, bounds: Bounds) -> str:
    """Return the remedy that keeps the pods of a unit of this `scope` within one NVLink domain."""
    if bounds.group:
        return (
            f'Set topologyConstraint.requiredTopologyLevel of the PodGroup "{bounds.group}", or of'
            f" the subgroup of these pods, to {NVLINK_DOMAIN}"
        )
    keys = [TOPOLOGY_REQUIRED]
    # the annotation `together` would put the Jobs of a unit of several Jobs into different domains
    scopes = [each.name for each in named.kind.scopes]
    if named.kind.together and scope in scopes[scopes.index(named.kind.together_scope) :]:
        keys.insert(0, named.kind.together)
    annotations = " or ".join(f"{key}: {NVLINK_DOMAIN}" for key in keys)
    field = named.kind.together_field
    if field:
        return f"Set {field}, or annotate the {named.kind.title} with {annotations}"
    return f"Annotate the {named.kind.title} with {annotations}"


def _of_size(
    unit: str, bounds: Bounds, size: UnitSize, nodes: Nodes, nvlink: NvlinkDomains
) -> Iterator[str]:
    """Yield warnings about a `unit` that fits into no domain, or only just."""
    yield from _too_many(name=unit, pods=size.pods, together=size.pods, nodes=nodes, nvlink=nvlink)

    for key in sorted(bounds.levels - {HOSTNAME_KEY}):
        if nodes and not nodes.most_with_equal(key):
            yield (
                f"{unit}: its pods must be in one domain of the node label {key}, which no node"
                f" has: they will stay pending{labels_hint(key, nodes.keys())}"
            )
        room = nodes.room_at((key,))
        most = None if room is None else room.pods(bounds.gpus)
        if most is not None and size.pods > most:
            yield (
                f"{unit}: its {pods_with(size.pods, bounds.gpus)} must be in one domain of {key},"
                f" and none has GPUs for more than {most}: not all of its pods can be placed unless"
                " nodes are added"
            )


def _of_equal_units(plan: Plan, bounds: Bounds, size: UnitSize, most: int) -> Iterator[str]:
    """Yield a warning if two units of a workload may share an NVLink domain.

    `most` is the number of nodes in the largest NVLink domain.
    """
    if size.units < 2 or bounds.is_exclusive or 2 * size.pods > most:
        return
    named = plan.member.named
    assert named is not None
    remedy = "Make the units so large that no two fit into one NVLink domain"
    if plan.scope == named.kind.together_scope:
        remedy = (
            f"Keep each in its own NVLink domain: annotate the {named.kind.title} with"
            f" {named.kind.together}: {NVLINK_DOMAIN}"
        )
    yield (
        f'{size.units} units, such as unit "{plan.base_name}", have a ComputeDomain each. If two'
        " share an NVLink domain, CUDA may fail with CUDA_ERROR_NOT_SUPPORTED (NVIDIA's DRA driver,"
        f" issue 892). {remedy}"
    )


_WITHIN = (
    f"within one NVLink domain (node label {NVLINK_DOMAIN}): pods in different domains have no"
    " NVLink between them"
)


def _sharing(
    subject: str, pods: str, gpus: int, levels: Iterable[Level], nodes: Nodes
) -> Iterator[str]:
    """Yield a warning if several `pods` of a clique or unit may be meant for one node.

    Each pod requests `gpus` GPUs. The pods stay within one domain of each of `levels`.
    """
    for level in levels:
        if level.key == HOSTNAME_KEY:
            yield (
                f'{subject}: its {pods} must run on one node ("{level.domain}"), but only one pod'
                " per node can hold an NVLink channel: the other pods will stay pending"
            )
            return

    most = nodes.most_gpus(NVLINK_DOMAIN) or nodes.most_gpus()
    if 2 * gpus <= most:
        others = "GPU" if most - gpus == 1 else f"{most - gpus} GPUs"
        yield (
            f"{subject}: each pod requests {gpus} of a node's {most} GPUs, but only one pod per"
            f" node can hold an NVLink channel, so these pods cannot use the other {others}"
        )
    elif gpus == 1 and not most:
        yield (
            f"{subject}: each of its {pods} requests one GPU and needs its own node, because only"
            " one pod per node can hold an NVLink channel. Request all GPUs of a node in one pod"
        )


def _domains(asking: Iterable[CliqueTemplate]) -> dict[str, list[CountedClique]]:
    """Return the cliques that share a ComputeDomain, by a readable description of it.

    If each replica of the set has a ComputeDomain, the pods of one replica are counted.
    """
    domains: dict[str, list[CountedClique]] = {}
    for clique in asking:
        group = clique.group
        replicas = group.replicas if group is not None else 1
        if clique.mnnvl_group:
            name = f'{MNNVL_GROUP} "{clique.mnnvl_group}"'
            pods = clique.pods * replicas
        elif clique.scope == "scalingGroupReplica" and group is not None:
            name = f'scaling group "{group.name}"'
            pods = clique.pods
        elif clique.scope == "clique":
            name = f'clique "{clique.name}"'
            pods = clique.pods
        else:
            name = "a replica of the PodCliqueSet"
            pods = clique.pods * replicas
        domains.setdefault(name, []).append((clique, pods))

    return domains


def _keeping_together(members: Sequence[CountedClique]) -> list[Owner]:
    """Return the parts whose constraint applies to all pods of a ComputeDomain together.

    The most specific part comes first. A constraint of a scaling group applies to each of its
    replicas separately, and Kueue applies a constraint to each PodClique separately.
    """
    clique, pods = members[0]
    is_one_clique = len(members) == 1 and pods == clique.pods
    if not is_one_clique and any(each.scheduler == KUEUE for each, _ in members):
        return []
    if is_one_clique:
        return [part.owner for part in clique.parts]
    groups = {None if each.group is None else each.group.part.owner for each, _ in members}
    are_of_one_replica = len(groups) == 1 and all(pods == each.pods for each, pods in members)
    return [part.owner for part in clique.parts[1 if are_of_one_replica else -1 :]]


def _several(
    domains: Mapping[str, Sequence[CountedClique]],
    kept_in: Mapping[str, Level | None],
    nodes: Nodes,
    nvlink: NvlinkDomains,
) -> Iterator[str]:
    """Yield a warning if two ComputeDomains of one replica of the set may share an NVLink domain.

    They cannot if each stays within an NVLink domain and no two fit into the same one. One
    ComputeDomain for all pods is the remedy if an NVLink domain has enough nodes. Source:
    https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/892
    """
    copies = [_copies(members) for members in domains.values()]
    number = sum(count for _, count in copies)
    if number < 2:
        return

    most = nvlink.size(nodes)
    inside = all(_is_inside(level, nodes) for level in kept_in.values())
    # a group may have any number of replicas, and only the two smallest ComputeDomains count
    smallest = sorted(size for size, count in copies for _ in range(min(count, 2)))[:2]
    if inside and sum(smallest) > most:
        return

    if sum(smallest) > most:
        remedy = "Keep the pods of each ComputeDomain within one NVLink domain"
    elif sum(size * count for size, count in copies) <= most:
        common = {
            f"one {MNNVL_GROUP}" if clique.mnnvl_group else f"{MNNVL_SCOPE}: replica"
            for members in domains.values()
            for clique, _ in members
        }
        remedy = f"Use {' or '.join(sorted(common))} for all cliques"
    else:
        remedy = "Make the ComputeDomains so large that no two fit into one NVLink domain"
    yield (
        f"a replica of the PodCliqueSet gets {number} ComputeDomains: if two share an NVLink"
        " domain, CUDA may fail with CUDA_ERROR_NOT_SUPPORTED (NVIDIA's DRA driver, issue 892)."
        f" {remedy}"
    )


def _copies(members: Sequence[CountedClique]) -> tuple[int, int]:
    """Return the number of pods that share a ComputeDomain, and the number of such ComputeDomains.

    Each replica of a scaling group may have its own.
    """
    clique, pods = members[0]
    group = clique.group
    copies = group.replicas if group is not None and pods == clique.pods else 1
    return sum(pods for _, pods in members), max(copies, 0)


def _spread(name: str, members: Sequence[CountedClique]) -> str:
    """Return the warning about pods of a ComputeDomain that may be in several NVLink domains."""
    named = ", ".join(f'"{clique.name}"' for clique, _ in members)
    return f"MNNVL of {name}: no required topology constraint keeps the pods of {named} {_WITHIN}"


def _how_to_keep_together(
    template: Template,
    members: Sequence[CountedClique],
    required: Mapping[Owner, str],
    levels: Sequence[Level],
    nodes: Nodes,
) -> str:
    """Return the remedy: the broadest level that is known to be within an NVLink domain.

    Return "" without such a level, if its domains are too small for the pods that would have to be
    in one of them, and if an enclosed part requires a broader level, which is not allowed.
    """
    number = sum(pods for _, pods in members)
    owner = next(iter(_keeping_together(members)), None)
    fitting = (
        position
        for position, level in enumerate(levels)
        if level.key == NVLINK_DOMAIN or nodes.is_within(level, NVLINK_DOMAIN)
        if number <= (nodes.most_with_equal(level.key) or number)
    )
    position = next(fitting, None)
    if owner is None or position is None:
        return ""
    broader = {level.domain for level in levels[:position]}
    for part in template.parts:
        if owner in template.above(part.owner) and required.get(part.owner) in broader:
            return ""
    domain = levels[position].domain
    # the pods of a set may be in several ComputeDomains
    if is_too_small(domain, owner, template, levels, nodes):
        return ""
    return f'. Require "{domain}" in the topologyConstraint of {owner_text(owner)}'


def _is_inside(level: Level | None, nodes: Nodes) -> bool:
    """Return whether pods that require `level` are always within one NVLink domain.

    If no node has both the label of NVLink domains and the label of `level`, return True. Return
    False without a level.
    """
    if level is None:
        return False
    return (
        level.key in (NVLINK_DOMAIN, HOSTNAME_KEY)
        or nodes.is_within(level, NVLINK_DOMAIN) is not False
    )


def _together(member: CountedClique) -> int:
    """Return the number of the counted pods of a clique that must be scheduled together."""
    clique, pods = member
    replicas = clique.group.min_available if clique.group and pods > clique.pods else 1
    return clique.min_available * replicas


def _too_many(
    name: str, pods: int, together: int, nodes: Nodes, nvlink: NvlinkDomains
) -> Iterator[str]:
    """Yield a warning if pods need more nodes than an NVLink domain has, or leave too few free.

    `together` is the number of pods that must be scheduled together. While nodes are down, only
    these pods must fit.
    """
    most = nvlink.size(nodes)
    source = "in this cluster" if nodes.most_with_equal(NVLINK_DOMAIN) else "(mnnvl.domainNodes)"
    if pods > most:
        yield (
            f"MNNVL of {name}: {pods} pods need {pods} nodes, one NVLink channel each, but an"
            f" NVLink domain {source} has at most {most}"
        )
    elif pods > 1 and together > most - nvlink.spare:
        left = max(most - nvlink.spare, 0)
        yield (
            f"MNNVL of {name}: {together} pods that must be scheduled together need {together} of"
            f" the {most} nodes of an NVLink domain {source}: with {most - together + 1} of these"
            f" nodes down, the pods cannot start. mnnvl.spareNodes: {nvlink.spare} leaves"
            f" {left} node{'s' if left != 1 else ''} for such pods"
        )
