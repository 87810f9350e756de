"""Compute the facts of a cluster after edits that are only previewed."""

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Self

from msgspec.structs import replace

from app.base.value import Value
from app.explain.answers.whatif.edits import (
    Addition,
    Applying,
    Cordon,
    Drain,
    Labelling,
    Supposition,
    UnusableEdit,
)
from app.explain.reasons.blocking_workloads import OF_NODES
from app.explain.reasons.reason import are, counted, listed
from app.explain.state.index import Index
from app.explain.state.levels import Topology, topology_of, value_of_level
from app.explain.state.snapshot import Snapshot, projected
from app.facts.grove.podcliqueset import SetWithStatus
from app.facts.identity import Key, Ref
from app.facts.kubernetes.claim import ResourceClaim
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod
from app.objects.shape import JsonMap

_OF_NODE = "node.kubernetes.io/"
"""The prefix of taints that Kubernetes itself adds for the state of a node."""


class EditedSnapshot(Value):
    """The facts after edits, with a description of the edits."""

    facts: Snapshot
    lines: tuple[str, ...] = ()
    """One line for each edit, which says what it changed."""
    moved: frozenset[Key] = frozenset()
    """The keys of the pods that must leave drained nodes."""
    made: tuple[JsonMap, ...] = ()
    """The documents of applied PodCliqueSets, whose gangs would be created or recreated."""

    def then(self, line: str, **changes: Any) -> Self:
        """Return a copy with `changes`, and with their description `line` added to `lines`."""
        return replace(self, lines=(*self.lines, line), **changes)


def apply_edits(index: Index, edits: Iterable[Supposition], topology: str = "") -> EditedSnapshot:
    """Apply edits to the facts, one after the other, and update the index.

    Edits name levels of `topology`. Raise UnusableEdit if an edit names something that does not
    exist, if a document has no name, or if no document of a file affects placement.
    """
    edited = EditedSnapshot(index.facts)
    for edit in edits:
        levels = topology_of(index, topology)
        match edit:
            case Drain():
                edited = _drained(edited, edit, levels)
            case Cordon():
                edited = _cordoned(edited, edit, levels)
            case Addition():
                edited = _extended(edited, edit)
            case Labelling():
                edited = _labelled(edited, edit, levels)
            case Applying():
                edited = _applied(edited, edit)
        index.follow(edited.facts)
    return edited


def without_nodes(facts: Snapshot, pods: Collection[Key]) -> Snapshot:
    """Return the facts as if `pods` were pending, and claims that only these pods use were free."""
    if not pods:
        return facts
    waiting = tuple(
        replace(pod, node="", phase="Pending", waiting=()) if pod.key in pods else pod
        for pod in facts.pods
    )
    claims = tuple(_left_by(claim, pods) for claim in facts.claims)
    return replace(facts, pods=waiting, claims=claims)


def _left_by(claim: ResourceClaim, pods: Collection[Key]) -> ResourceClaim:
    """Return the claim without the consumers in `pods`.

    If that removes its last consumer, the claim is no longer allocated.
    """
    staying = tuple(
        consumer for consumer in claim.consumers if (claim.namespace, consumer.name) not in pods
    )
    if len(staying) == len(claim.consumers):
        return claim
    if staying:
        return replace(claim, consumers=staying)
    return replace(claim, consumers=(), allocated=False, devices=(), nodes=())


# Draining.


def _drained(edited: EditedSnapshot, edit: Drain, levels: Topology) -> EditedSnapshot:
    index = levels.index
    names = _names(levels, edit.targets)
    pods = [pod for name in sorted(names) for pod in index.pods_on.get(name, ())]
    leaving = frozenset(pod.key for pod in pods if _must_leave(pod))
    facts = _closed(without_nodes(edited.facts, leaving), names)
    line = (
        f"drain {' '.join(edit.targets)}: {counted(names, 'node')},"
        f" {counted(leaving, 'pod')} must leave"
    )

    return edited.then(line, facts=facts, moved=edited.moved | leaving)


def _cordoned(edited: EditedSnapshot, edit: Cordon, levels: Topology) -> EditedSnapshot:
    names = _names(levels, edit.targets)
    line = f"cordon {' '.join(edit.targets)}: {counted(names, 'node')}"
    return edited.then(line, facts=_closed(edited.facts, names))


def _closed(facts: Snapshot, names: Collection[str]) -> Snapshot:
    """Return the facts with the nodes `names` cordoned."""
    nodes = tuple(
        replace(node, unschedulable=True) if node.name in names else node for node in facts.nodes
    )
    return replace(facts, nodes=nodes)


def _names(levels: Topology, targets: Iterable[str]) -> set[str]:
    """Return the names of all nodes that `targets` select."""
    return {node.name for target in targets for node in _targeted(levels, target)}


def _targeted(topology: Topology, target: str) -> list[Node]:
    """Return the nodes that a target selects. Raise UnusableEdit if there are none."""
    level, equals, value = target.partition("=")
    if not equals:
        return [_node(topology.index.facts, target, topology)]

    key = _key_of(topology, level)
    domains = topology.domains
    depth = domains.depth(key)
    nodes = [
        node
        for node, path in zip(domains.nodes, domains.paths, strict=True)
        if node.labels.get(key) == value
        or (depth and path is not None and "/".join(path[:depth]) == value)
    ]
    if not nodes:
        raise UnusableEdit(f"{target!r}: no node has {key}={value}")

    return nodes


def _node(facts: Snapshot, name: str, topology: Topology | None = None) -> Node:
    """Return the node with this name. Raise UnusableEdit if there is none."""
    for node in facts.nodes:
        if node.name == name:
            return node
    raise UnusableEdit(f"there is no node {name!r}{_meant(name, topology)}")


def _meant(name: str, topology: Topology | None) -> str:
    """Return the end of the message about a name that no node has: a hint, or ""."""
    if name.lower() in ("node", "nodes"):
        return ": write only the names of nodes"
    like = value_of_level(topology, name) if topology else ""
    return f"; did you mean {like}?" if like else ""


def _key_of(topology: Topology, level: str) -> str:
    """Return the label key of `level`: the name or key of a level, or a label that some node has.

    Raise UnusableEdit if it is neither.
    """
    for known in topology.levels:
        if level in (known.domain, known.key):
            return known.key

    if any(level in node.labels for node in topology.index.nodes):
        return level
    levels = f"the {are(topology.names, 'level')} {listed(topology.names, 16)}"
    if not topology.names:
        levels = "there are no levels"
    raise UnusableEdit(f"{level!r} is neither a level nor a label of a node; {levels}")


def _must_leave(pod: Pod) -> bool:
    """Return whether a pod must leave a drained node.

    Pods that are already being deleted, pods of DaemonSets, and static pods need not leave. KAI's
    helper pods are not counted, because KAI deletes them by itself.
    """
    of_node = pod.controller is not None and pod.controller.kind in OF_NODES
    return pod.deleting is None and not of_node and not pod.is_helper


# Adding nodes.


def _extended(edited: EditedSnapshot, edit: Addition) -> EditedSnapshot:
    facts = edited.facts
    model = _node(facts, edit.like)
    taken = {node.name for node in facts.nodes}
    names = _free_names(edit.like, edit.count, taken)
    nodes = (*facts.nodes, *(_like(model, name) for name in names))
    own = [part for part in facts.slices if part.node == model.name]
    # each node has a separate pool for its devices
    copies = [
        replace(part, node=name, pool=f"{part.pool} of {name}") for name in names for part in own
    ]
    slices = (*facts.slices, *copies)
    line = f"add {edit.count} like {edit.like}: {listed(names)}"
    return edited.then(line, facts=replace(facts, nodes=nodes, slices=slices))


def _free_names(like: str, count: int, taken: Collection[str]) -> list[str]:
    names = (f"{like}-like-{number}" for number in itertools.count(1))
    return list(itertools.islice((name for name in names if name not in taken), count))


def _like(model: Node, name: str) -> Node:
    """Return an empty, ready node like `model`.

    Labels whose value is the name of the model, such as its hostname, get the new name.
    """
    labels = {key: name if value == model.name else value for key, value in model.labels.items()}
    taints = tuple(taint for taint in model.taints if not taint.key.startswith(_OF_NODE))
    return Node(name, labels, model.allocatable, taints)


# Labelling.


def _labelled(edited: EditedSnapshot, edit: Labelling, levels: Topology) -> EditedSnapshot:
    facts = edited.facts
    for name in edit.nodes:
        _node(facts, name)
    labels = {_label_key(levels, level): value for level, value in edit.labels}
    nodes = tuple(
        replace(node, labels=_with(node.labels, labels)) if node.name in edit.nodes else node
        for node in facts.nodes
    )
    words = " ".join(
        f"{key}-" if value is None else f"{key}={value}" for key, value in labels.items()
    )
    line = f"label {' '.join(edit.nodes)}: {words}"
    return edited.then(line, facts=replace(facts, nodes=nodes))


def _label_key(topology: Topology, level: str) -> str:
    """Return the label key of a level. A key with a prefix need not exist on any node."""
    if "/" in level:
        return level
    return _key_of(topology, level)


def _with(before: Mapping[str, str], labels: Mapping[str, str | None]) -> dict[str, str]:
    kept = {key: value for key, value in before.items() if key not in labels}
    return kept | {key: value for key, value in labels.items() if value is not None}


# Applying documents.


def _applied(edited: EditedSnapshot, edit: Applying) -> EditedSnapshot:
    documents = [_with_namespace(document, edit.source) for document in edit.documents]
    applied = projected(documents)
    if not applied:
        raise UnusableEdit(f"{edit.source}: none of its documents affects placement")

    sets = applied.get("sets", [])
    facts = _without_sets(edited.facts, {pcs.key for pcs in sets})
    changes: dict[str, Any] = {
        name: _merged(getattr(facts, name), new) for name, new in applied.items()
    }
    kinds = Counter(str(document.get("kind")) for document in documents)
    line = f"apply {edit.source}: {listed((counted(n, kind) for kind, n in kinds.items()), 8)}"
    of_sets = (document for document in documents if document.get("kind") == SetWithStatus.kind)
    made = {set_ref(document): document for document in of_sets}.values()

    return edited.then(
        line, facts=replace(facts, **changes), made=(*_others(edited.made, made), *made)
    )


def _with_namespace(document: JsonMap, source: str) -> JsonMap:
    """Return the document with its namespace, or with `default` if it has none.

    For cluster-scoped kinds, the namespace is ignored later. Raise UnusableEdit if the document has
    no name. `source` is the name of its file.
    """
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise UnusableEdit(
            f"{source}: a document of kind {document.get('kind')} has no metadata.name"
        )
    return {**document, "metadata": {"namespace": "default", **metadata}}


def _without_sets(facts: Snapshot, sets: Collection[Key]) -> Snapshot:
    """Return the facts without the PodGangs, PodCliques, pods and PodGroups of `sets`.

    The gangs of these PodCliqueSets are planned from scratch.
    """
    if not sets:
        return facts
    gangs = {gang.uid for gang in facts.gangs if (gang.namespace, gang.place.pcs) in sets}
    groups = tuple(
        group for group in facts.pod_groups if not (gangs - {""}).intersection(group.owners)
    )
    of_place: dict[str, Any] = {
        field: tuple(
            fact for fact in getattr(facts, field) if (fact.namespace, fact.place.pcs) not in sets
        )
        for field in ("gangs", "cliques", "pods")
    }
    return replace(facts, pod_groups=groups, **of_place)


def _merged(before: Iterable[Any], new: Iterable[Any]) -> tuple[Any, ...]:
    """Return `before` with the facts `new`, which replace old facts of the same identity."""
    names = {_identity(fact) for fact in new} - {None}
    kept = [fact for fact in before if _identity(fact) not in names]
    latest = {_identity(fact) or id(fact): fact for fact in new}
    return (*kept, *latest.values())


def _identity(fact: Any) -> tuple[str, str, str] | None:
    """Return the kind, namespace and name of a fact, or None for a fact without a name."""
    name = getattr(fact, "name", None)
    if name is None:
        return None
    return getattr(fact, "kind", ""), getattr(fact, "namespace", ""), name


def _others(before: Iterable[JsonMap], made: Iterable[JsonMap]) -> list[JsonMap]:
    refs = set(map(set_ref, made))
    return [document for document in before if set_ref(document) not in refs]


def set_ref(document: JsonMap) -> Ref:
    """Return a reference to the PodCliqueSet in a document, which must have a namespace."""
    metadata = document["metadata"]
    return Ref(SetWithStatus.kind, metadata["namespace"], metadata["name"])
