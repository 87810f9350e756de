"""Warnings about MNNVL, for PodCliqueSets and for PodCliques.

The pods of a PodCliqueSet, in both vocabularies, could not use it, or the claim of a PodClique
could not be allocated.

NVIDIA's driver has one channel per node, so that pods with such a claim never share a node:
https://github.com/NVIDIA/k8s-dra-driver-gpu/tree/95932046
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from app.facts.grove.podcliqueset import PodCliqueSet, ScalingGroup
from app.facts.grove.template import CliqueTemplate, Template
from app.facts.grove.topology import Level
from app.facts.labels import MNNVL_GROUP, MNNVL_SCOPE
from app.rules.mnnvl.claim import Injection
from app.rules.mnnvl.plan import Plan
from app.rules.topology.coverage import NVLINK_DOMAIN, Nodes
from app.rules.topology.levels import HOSTNAME_KEY

MAX_RESERVED = 256
"""The most pods that can reserve a ResourceClaim.

Source: `status.reservedFor` in resource.k8s.io.
"""

NVLINK_NODES = 18
"""The number of nodes in the largest NVLink domain that NVIDIA sells (GB200 NVL72).

Used if no node has a label that names its domain.
"""


def preflight_warnings(
    template: Template, required: Mapping[str, Level], nodes: Nodes
) -> list[str]:
    """Return warnings about the cliques of `template` that enable MNNVL and request GPUs.

    `required` has the narrowest level that a clique requires, by the name of the clique.
    """
    warnings: list[str] = []
    for clique in template.asking:
        warnings += _sharing(clique, required.get(clique.name), nodes)
    for name, members in _domains(template).items():
        warnings += _spread(name, members, required, nodes)
        warnings += _too_many(name, sum(pods for _, pods in members), nodes)
    return warnings


def _sharing(clique: CliqueTemplate, level: Level | None, nodes: Nodes) -> Iterator[str]:
    if clique.pods < 2:
        return
    if level is not None and level.key == HOSTNAME_KEY:
        yield (
            f'clique "{clique.name}": its {clique.pods} pods must be on one node'
            f' ("{level.domain}"), but a node has one NVLink channel and takes one of them: the'
            " others will stay pending"
        )
        return

    most = nodes.most_gpus()
    if most is not None and 2 * clique.gpus <= most:
        yield (
            f'clique "{clique.name}": its pods ask for {clique.gpus} of {most} GPUs of a node, but'
            " a node has one "
            f"NVLink channel and takes one pod with such a claim: the other GPUs can't be used by"
            f" this clique"
        )
    elif clique.gpus == 1 and most is None:
        yield (
            f'clique "{clique.name}": each of its {clique.pods} pods asks for one GPU and needs a'
            " node of its own, because a node has one NVLink channel; ask for all GPUs of a node"
            " in one pod"
        )


SharingClique = tuple[CliqueTemplate, int]
"""A clique, and how many of its pods share the ComputeDomain."""


def _domains(template: Template) -> dict[str, list[SharingClique]]:
    """Return the cliques that share a ComputeDomain, by a description of it for people.

    If each replica of the set has a ComputeDomain, the pods of one replica are counted.
    """
    domains: dict[str, list[SharingClique]] = {}
    for clique in template.asking:
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


def _spread(
    name: str,
    members: Sequence[SharingClique],
    required: Mapping[str, Level],
    nodes: Nodes,
) -> Iterator[str]:
    if sum(pods for _, pods in members) < 2:
        return

    loose = [
        clique.name for clique, _ in members if not _is_inside(required.get(clique.name), nodes)
    ]
    if loose:
        named = ", ".join(f'"{clique}"' for clique in loose)
        yield (
            f"MNNVL of {name}: no required topology constraint keeps the pods of {named} within one"
            f" NVLink domain (node label {NVLINK_DOMAIN}): pods in different domains have no NVLink"
            " between them"
        )


def _is_inside(level: Level | None, nodes: Nodes) -> bool:
    """Return whether `level` is at or below the NVLink domain.

    If no node has a label for it, any required level is.
    """
    if level is None:
        return False
    return (
        level.key in (NVLINK_DOMAIN, HOSTNAME_KEY)
        or nodes.is_within(level, NVLINK_DOMAIN) is not False
    )


def _too_many(name: str, pods: int, nodes: Nodes) -> Iterator[str]:
    largest = nodes.most_with_equal(NVLINK_DOMAIN)
    most, source = (
        (largest, "in this cluster") if largest else (NVLINK_NODES, "of the largest kind")
    )
    if pods > most:
        yield (
            f"MNNVL of {name}: {pods} pods need {pods} nodes, one NVLink channel each, but an"
            f" NVLink domain {source} has {most}"
        )


def unallocatable(awaited: Collection[str], classes: Collection[str]) -> str:
    """Return the first DeviceClass in `awaited` that is not in `classes`.

    "" if the claim can be allocated. If `classes` is empty, the driver is not installed yet, and
    the result is "" too.
    """
    return next((name for name in awaited if classes and name not in classes), "")


def claim_warnings(
    injection: Injection, pcs: PodCliqueSet | None, classes: Collection[str]
) -> list[str]:
    """Return the warnings of an injection, and those about the allocation of its claim.

    `pcs` is the PodCliqueSet of the PodClique, or None if it is not known. `classes` are the names
    of the DeviceClasses that exist.
    """
    plan = injection.plan
    if plan is None or injection.mode != "shared":
        return [*injection.warnings]

    of_plan = (
        reservation_warning(plan, injection.replicas, pcs),
        allocation_warning(plan, classes),
    )
    return [*injection.warnings, *filter(None, of_plan)]


def allocation_warning(plan: Plan, classes: Collection[str]) -> str | None:
    """Return a warning if the shared claim of `plan` cannot be allocated.

    This is so if its DeviceClass does not exist and others do.
    """
    if not unallocatable([plan.device_class], classes):
        return None
    return (
        f'ResourceClaim "{plan.claim}" cannot be allocated: DeviceClass "{plan.device_class}" does'
        " not exist. Create it, name another one in grove.io/mnnvl-device-class, or use"
        " claimMode: template"
    )


def reservation_warning(plan: Plan, replicas: int, pcs: PodCliqueSet | None) -> str | None:
    """Return a warning if more pods would share the claim of `plan` than can reserve it.

    If `pcs` is None, only the pods of this PodClique are counted, which are `replicas`.
    """
    pods = replicas
    if pcs is not None:
        pods = max(pods, _pods_sharing(plan, replicas, pcs))
    if pods <= MAX_RESERVED:
        return None

    return (
        f'ResourceClaim "{plan.claim}" would be reserved by {pods} pods, but a claim can be'
        f" reserved by at most {MAX_RESERVED}: the others will stay pending. Use a narrower"
        f" {MNNVL_SCOPE}, or claimMode: template"
    )


def _pods_sharing(plan: Plan, replicas: int, pcs: PodCliqueSet) -> int:
    """Return the number of pods that share the claim of `plan`.

    With scope `replica`, these are the cliques in no scaling group, those of its own group, and
    those of groups that inherit that scope.
    """
    if plan.scope == "clique":
        return replicas

    replicas_of = {clique.name: clique.replicas for clique in pcs.cliques}
    own_group = plan.member.place.group
    if plan.scope == "scalingGroupReplica":
        group = pcs.group_of(own_group)
        return 0 if group is None else _pods_in(group, replicas_of)

    pods = _pods_in_no_group(pcs, replicas_of)
    for group in pcs.groups:
        if group.name == own_group or _inherits_replica_scope(group, pcs):
            pods += _pods_in(group, replicas_of) * group.replicas

    return pods


def _pods_in_no_group(pcs: PodCliqueSet, replicas_of: Mapping[str, int]) -> int:
    """Return the number of pods of the cliques in no scaling group."""
    grouped = {name for group in pcs.groups for name in group.cliques}
    return sum(replicas_of[name] for name in replicas_of.keys() - grouped)


def _pods_in(group: ScalingGroup, replicas_of: Mapping[str, int]) -> int:
    """Return the number of pods in one replica of `group`."""
    return sum(replicas_of.get(name, 0) for name in group.cliques)


def _inherits_replica_scope(group: ScalingGroup, pcs: PodCliqueSet) -> bool:
    annotations = group.mnnvl.over(pcs.mnnvl)
    return annotations.enables and (annotations.scope or "replica") == "replica"
