"""Report missing labels of nodes, levels that form no tree, and errors in KAI's Topology."""

import shlex
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from app.base.groups import by_key
from app.base.spelling import nearest
from app.explain.gangs.gang import Gang
from app.explain.placing.fitness import is_selected
from app.explain.placing.placements import ANY_POOL
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    Severity,
    about,
    amount,
    counted,
    listed,
)
from app.explain.state.amounts import gpus_of
from app.explain.state.domains import Domains
from app.explain.state.label_guesses import guessed_labels
from app.explain.state.levels import Topology, topology_of
from app.facts.grove.topology import HOSTNAME_KEY, ClusterTopology, Level
from app.facts.identity import Ref
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.node import Labels, Node
from app.facts.labels import NODE_POOL, NVLINK_DOMAIN
from app.objects.owners import OwnerRef
from app.rules.topology.coverage import right_order
from app.rules.topology.levels import labels_hint, suggested_levels, yaml_of_levels


def level_label_missing(gang: Gang) -> Reasons:
    """Report that nodes lack a level's label, so KAI ignores them for gangs with a constraint.

    There is one reason for each set of missing labels and each likely domain. It is a problem if
    the gang fits once the nodes are labelled. If the gang has room without these nodes, or if it is
    not known whether it has, there is only one note. A label that no node has is always a problem.
    """
    for topology, of in named_topologies(gang):
        outside = [node for node in topology.outside if _could_use(gang, node)]
        if outside:
            yield from _labels_of(gang, topology, of, outside)


def named_topologies(gang: Gang) -> list[tuple[Topology, str]]:
    """Return the topologies that the gang and its SubGroups name.

    Topologies with equal levels are one. Each comes with a text such as ` of topology network`, or
    "" if it is the only one.
    """
    subgroups = gang.pod_group.subgroups if gang.pod_group else ()
    by_levels = {gang.topology.keys: (gang.topology, gang.named_topology)}
    for name in filter(None, (sub.topology for sub in subgroups)):
        topology = topology_of(gang.index, name)
        by_levels.setdefault(topology.keys, (topology, name))

    words = " of topology {}" if len(by_levels) > 1 else ""
    return [(topology, words.format(name)) for topology, name in by_levels.values()]


def _labels_of(gang: Gang, topology: Topology, of: str, outside: list[Node]) -> Reasons:
    """Yield the reasons about `outside`, the nodes that lack a label of this topology.

    `of` is the text from `named_topologies`.
    """
    absent = topology.absent_keys
    ignored_for = f"for every {'part' if of else 'gang'} with a constraint{of}"
    yield from (_absent_key(topology, key, ignored_for) for key in absent)
    if not absent and gang.members and _has_place(gang):
        yield _note(gang, outside, of)
    else:
        yield from _missing_labels(gang, topology, outside, ignored_for)


def _has_place(gang: Gang) -> bool:
    return not gang.index.room_is_known or gang.placements.now.fits


def _missing_labels(
    gang: Gang, topology: Topology, outside: list[Node], ignored_for: str
) -> Reasons:
    keys = [key for key in topology.keys if key not in topology.absent_keys]
    guesses = guessed_labels(topology)
    would_fit = False
    if guesses and not _has_place(gang):
        would_fit = (
            gang.fits_once_labelled
            if topology == gang.topology
            else gang.placements.with_labels(guesses).now.fits
        )

    for (missing, value), nodes in sorted(_by_missing_keys(outside, keys, guesses).items()):
        helps = would_fit and bool(value)
        fits = _fits(len(nodes), len(guesses)) if helps else ""
        effect = f", so KAI ignores {_them(len(nodes))} {ignored_for}{fits}"
        reason = _missing_label(missing, value, nodes, effect)
        yield replace(reason, severity="problem") if helps else reason


def _could_use(gang: Gang, node: Node) -> bool:
    """Return whether `node`, if it were empty, could take a pod that KAI places next.

    Return True if the gang's parts are not known.
    """
    if not gang.members:
        return True
    if gang.pool not in (ANY_POOL, node.labels.get(NODE_POOL, "")):
        return False
    return any(
        is_selected(shape, node)
        and all(node.allocatable.get(name, 0) >= ask for name, ask in shape.requests)
        for shape, _ in gang.demand.shapes
    )


def _note(gang: Gang, nodes: list[Node], of: str) -> Reason:
    """Return the note that nodes lack labels, for a gang that may have room without them."""
    lack = counted(nodes, "node lacks", "nodes lack")
    what = f"parts with a constraint{of}" if of else "gangs with a constraint"
    text = f"{lack} the label of a level, so KAI ignores {_them(len(nodes))} for {what}"
    if gang.index.room_is_known:
        text += f". This gang has room without {_them(len(nodes))}"
    refs = tuple(node.ref for node in nodes)
    evidence = Evidence(refs[0], "metadata.labels", "incomplete")
    remedy = "List the missing labels: grove-admission topology"

    return about(
        evidence, "LevelLabelMissing", text, remedy, "platform", objects=refs, severity="note"
    )


def _by_missing_keys(
    outside: list[Node], of_levels: list[str], guesses: Mapping[str, Labels]
) -> dict[tuple[tuple[str, ...], str], list[Node]]:
    """Return the nodes by their missing label keys and the likely value of the last of these keys.

    An unknown value is "". Nodes that lack none of the labels `of_levels` are left out.
    """
    lacking = (
        (tuple(key for key in of_levels if key not in node.labels), node) for node in outside
    )
    return by_key(
        ((keys, guesses.get(node.name, {}).get(keys[-1], "")), node)
        for keys, node in lacking
        if keys
    )


def _absent_key(topology: Topology, key: str, ignored_for: str) -> Reason:
    """Return the reason for a key that no node has: the key is misspelt, or labels are missing."""
    level = topology.name_of(key)
    nodes = topology.index.nodes
    present = {label for node in nodes for label in node.labels}
    ignored = "the only node" if len(nodes) == 1 else f"all {counted(nodes, 'node')}"
    text = (
        f"No node has the label {key} (level {level}), so KAI ignores {ignored}"
        f" {ignored_for}{labels_hint(key, present)}"
    )
    named = topology.cluster or topology.kai
    where = f"{named.ref.kind} {named.ref.name}" if named is not None else "the topology"
    remedy = (
        f"Correct the key of level {level} in {where}, or label each node with its domain (label"
        f" {key})"
    )
    levels = suggested_levels(present)
    meant = _meant(topology, key, present)
    if key == NVLINK_DOMAIN:
        remedy = _unregistered("all nodes")
    elif meant:
        remedy = f"Set the key of level {level} in {where} to {meant}, a label that nodes have"
    elif levels:
        remedy = f"Set the levels of {where} to labels that nodes have: {yaml_of_levels(levels)}"
    objects = (named.ref,) if named is not None else ()
    evidence = Evidence(Ref("Node", "", ""), f"metadata.labels[{key}]", "on no node")
    return about(evidence, "LevelLabelMissing", text, remedy, "platform", objects=objects)


def _meant(topology: Topology, key: str, present: Collection[str]) -> str:
    """Return the node label for which a key is probably a typo, or "".

    Keys with the same prefix, such as topology.kubernetes.io/, are compared without it. The labels
    of other levels are not candidates.
    """
    begin = f"{key.rpartition('/')[0]}/" if "/" in key else ""
    candidates = sorted(set(present).difference(topology.keys))
    names = {label.removeprefix(begin): label for label in candidates if label.startswith(begin)}
    own = nearest(key.removeprefix(begin), tuple(names))
    others = tuple(label for label in candidates if not label.startswith(begin))
    return names[own] if own else nearest(key, others)


def _fits(nodes: int, guessed: int) -> str:
    """Return the text that the gang fits once these nodes, or all such nodes, are labelled.

    `nodes` is the number of these nodes, and `guessed` the number of all nodes with guessed labels.
    """
    if nodes < guessed:
        return ". Once all such nodes are labelled, this gang fits"
    return f". Once {'it is' if nodes == 1 else 'they are'} labelled, this gang fits"


def _missing_label(keys: tuple[str, ...], value: str, nodes: list[Node], effect: str) -> Reason:
    """Return the reason for nodes that lack labels. `effect` describes the consequence."""
    gpus = sum(gpus_of(node.allocatable) for node in nodes)
    severity: Severity = "note"
    cost = " (no GPUs)"
    if gpus:
        severity, cost = "warning", f" ({amount('/gpu', gpus)})"
    names = [node.name for node in nodes]
    labels = [f"{key}={value or 'VALUE'}" for key in keys]
    refs = tuple(node.ref for node in nodes)
    evidence = tuple(Evidence(refs[0], f"metadata.labels[{key}]", "absent") for key in keys)
    remedy = "Label the node" if len(nodes) == 1 else "Label the nodes"
    if NVLINK_DOMAIN in keys:
        remedy = _unregistered(listed(names))
    elif not value:  # The nodes may be in several domains.
        remedy = "Label the node: replace VALUE with its domain"
        if len(nodes) > 1:
            names = ["NODE"]
            remedy = "Label each node: replace NODE with its name, and VALUE with its domain"
    command = f"kubectl label node {shlex.join([*names, *labels])}"
    commands = () if NVLINK_DOMAIN in keys else (command,)

    return Reason(
        "LevelLabelMissing",
        refs,
        f"{_lacking(keys, value, nodes, cost)}{effect}",
        remedy,
        "platform",
        evidence,
        commands,
        severity,
    )


def _unregistered(nodes: str) -> str:
    """Return the remedy for `nodes` without the label of NVLink domains.

    If people set this label, KAI places pods there, but the pods have no NVLink between them.
    """
    return (
        "Ask the platform team why neither NVIDIA's DRA driver nor GPU feature discovery sets this"
        f" label on {nodes}. Don't set it by hand: it is missing while the GPUs are not registered"
        " with the NVLink fabric (nvidia-smi -q, section Fabric)"
    )


def _lacking(keys: tuple[str, ...], value: str, nodes: list[Node], cost: str) -> str:
    label = f"the {'label' if len(keys) == 1 else 'labels'} {listed(keys)}"
    if len(nodes) == 1:
        return f"Node {nodes[0].name}{cost} lacks {label}"
    whose = f" of {value}" if value else ""
    return f"{counted(nodes, 'node')}{whose}{cost} lack {label}"


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def not_a_tree(gang: Gang) -> Reasons:
    """Report that a domain has several parents, or levels are not listed broadest first.

    If at least a fifth of the domain names of a level are under several parents, this counts as a
    naming scheme, with one note for the level instead of a warning for each name.
    """
    for topology, of in named_topologies(gang):
        order = _right_order(topology)
        if order is not None:
            yield _swapped(topology, order)
        else:
            yield from _repeated(topology, of)


def _right_order(topology: Topology) -> list[Level] | None:
    """Return `right_order` of the levels, which is cached because many gangs have one topology."""
    index = topology.index
    levels = topology.levels
    return index.remembered(
        ("right order", levels),
        lambda: right_order(levels, [node.labels for node in index.nodes]),
        ["nodes"],
    )


def _swapped(topology: Topology, order: Sequence[Level]) -> Reason:
    """Return the reason for levels that are not listed broadest first, as `order` lists them."""
    moved = [
        (listed_one, right)
        for listed_one, right in zip(topology.levels, order, strict=True)
        if listed_one.key != right.key
    ]
    names = listed((level.domain for level, _ in moved), 16)
    (first, right), last = moved[0], moved[-1][0]
    text = (
        f"The levels {names} are swapped: by the labels of the nodes, {right.key} is broader than"
        f" {first.key}, which is listed above it. KAI counts each {last.domain} several times"
    )
    named = topology.cluster or topology.kai
    where = f"{named.ref.kind} {named.ref.name}" if named is not None else "the topology"
    remedy = f"List the broadest level first in {where}: {yaml_of_levels(order)}"
    objects = (named.ref,) if named is not None else ()
    evidence = Evidence(Ref("Node", "", ""), f"metadata.labels[{first.key}]", first.domain)
    severity: Severity = "warning"
    return about(evidence, "NotATree", text, remedy, "platform", objects=objects, severity=severity)


def _repeated(topology: Topology, of: str) -> Reasons:
    domains = topology.domains
    for depth in range(len(topology.keys), 1, -1):
        if topology.keys[depth - 1] == HOSTNAME_KEY:
            continue
        parents = by_key((path[-1], path[:-1]) for path in sorted(domains.paths_at(depth)))
        shared = {value: above_it for value, above_it in parents.items() if len(above_it) > 1}
        level = topology.levels[depth - 1]
        above = f"{topology.levels[depth - 2].domain}{of}"
        if shared and len(shared) * 5 >= len(parents):
            yield _habit(domains, level, above, shared, len(parents))
        else:
            for value, above_it in sorted(shared.items()):
                yield _two_parents(domains, level, of, value, above_it)


def _habit(
    domains: Domains, level: Level, above: str, shared: Mapping[str, object], total: int
) -> Reason:
    example = min(shared)
    names = counted(total, f"{level.domain} name")
    occurs = "occurs" if len(shared) == 1 else "occur"
    text = (
        f"{len(shared)} of {names} {occurs} in more than one {above}, such as {example}."
        f" KAI counts a separate {level.domain} in each of them"
    )
    if total == 1:
        text = (
            f"The only {level.domain} name, {example}, occurs in more than one {above}. KAI counts"
            f" a separate {level.domain} in each of them"
        )
    node = next(node for node in domains.nodes if node.labels.get(level.key) == example)
    evidence = Evidence(node.ref, f"metadata.labels[{level.key}]", example)
    remedy = (
        f"Do nothing if these are different {level.domain}s. Otherwise, correct the label"
        f" {level.key} of the nodes"
    )
    if total == 1:
        remedy += f", or list {level.domain} above {above} if it is the broader level"
    return about(evidence, "NotATree", text, remedy, "platform", severity="note")


def _two_parents(
    domains: Domains, level: Level, of: str, value: str, parents: list[tuple[str, ...]]
) -> Reason:
    depth = len(parents[0]) + 1
    same = [domain for domain in domains.at(depth) if domain.path[-1] == value]
    sizes = [len(domain.nodes) for domain in same]
    nodes = counted(sizes[0], "node")
    if len(set(sizes)) > 1:
        nodes = f"{listed(map(str, sizes))} nodes"
    places = listed("/".join(path) for path in sorted(parents))
    refs = tuple(domains.nodes[domain.nodes[0]].ref for domain in same)
    evidence = Evidence(refs[0], f"metadata.labels[{level.key}]", value)
    name = level.domain
    text = f"{value} is in {places}{of}, so KAI counts {len(parents)} {name}s of {nodes}"
    remedy = (
        f"Correct the wrong labels of nodes. If these are different {name}s, rename all but one"
    )

    return about(evidence, "NotATree", text, remedy, "platform", objects=refs, severity="warning")


def topology_differs(gang: Gang) -> Reasons:
    """Report that KAI's Topology is missing, or has other levels or another owner than it should.

    Also report a difference that Grove's status mentions.
    """
    cluster = gang.topology.cluster
    kai = gang.topology.kai
    if not cluster:
        return

    levels = listed(level.domain for level in cluster.levels_for_kai)
    keys = tuple(level.key for level in cluster.levels_for_kai)
    if not kai:
        if keys:  # Without levels, KAI needs no Topology.
            text = f"KAI has no Topology {cluster.kai}, so it cannot place gangs by {levels}"
            yield _difference(text, Evidence(cluster.ref, "spec.levels", levels))
    elif kai.keys != keys:
        named = "level" if len(kai.keys) == 1 else "levels"
        text = (
            f"KAI's Topology has the {named} {listed(kai.keys)}, but the {cluster.kind} has"
            f" {listed(keys) or 'none'}"
        )
        yield _difference(text, Evidence(kai.ref, "spec.levels", listed(kai.keys, 16)))
    elif not cluster.external and not kai.is_owned_by(cluster.ref, cluster.uid):
        yield _other_owner(kai, cluster)
    elif cluster.drift:
        text = f"Grove reports that Topology {kai.name} differs: {cluster.drift}"
        drift = Evidence(cluster.ref, "status.schedulerTopologyStatuses", cluster.drift)
        yield _difference(text, drift)


def _difference(text: str, evidence: Evidence) -> Reason:
    remedy = (
        "Ask the platform team to run grove-admission doctor, and to check the Topology's owner"
    )
    return about(evidence, "TopologyDiffers", text, remedy, "platform")


def _other_owner(kai: KaiTopology, cluster: ClusterTopology) -> Reason:
    owners = listed(_owner(owner, cluster) for owner in kai.owners) or "nobody"
    updater = "grove-admission" if cluster.kind == "ClusterTopology" else "Grove"
    text = (
        f"Topology {kai.name} is owned by {owners}, not by {cluster.kind} {cluster.name}, so"
        f" {updater} does not update it"
    )
    evidence = Evidence(kai.ref, "metadata.ownerReferences", owners)
    return replace(_difference(text, evidence), severity="warning")


def _owner(owner: OwnerRef, cluster: ClusterTopology) -> str:
    has_its_name = (owner.kind, owner.name) == (cluster.kind, cluster.name)
    previous = "a previous " if has_its_name and owner.uid != cluster.uid else ""
    return f"{previous}{owner.kind} {owner.name}"
