"""Show the page Topology: levels, inconsistent labels, room for pods, and a map of the GPUs."""

from collections import Counter
from urllib.parse import urlencode

from msgspec.structs import asdict

from app.console.map import drawn
from app.console.page import ConsolePage, Query, Values, ref_in_address, reference
from app.explain.answers.gpu_users import gpu_users, gpus_used, users_in
from app.explain.answers.topology import RoomSearch, Survey, domain_reports, search_room, survey
from app.explain.gangs.subject import subject
from app.explain.output.topology_text import free_words, search_text
from app.explain.placing.fitness import unfit_causes
from app.explain.reasons.reason import amount, counted, listed, plain
from app.explain.state.amounts import gpus_of
from app.explain.state.domains import Path
from app.explain.state.index import Index
from app.explain.state.levels import Topology, shown_first, topology_of
from app.explain.state.snapshot import TITLES
from app.facts.identity import Ref
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.kubernetes.selectors import Toleration
from app.objects.shape import integer_in
from app.stores.related_lists import ASKED

MOST_OUTSIDE = 100
"""The maximum number of nodes outside the topology that are named."""
MOST_USERS = 10
"""The maximum number of workloads in the table of GPU users."""
MOST_NODES = 256
"""The maximum number of nodes in a domain whose nodes are listed."""
MOST_PODS = 100_000
"""The maximum number of pods for which the page finds room."""
MOST_GPUS = 1024
"""The maximum number of GPUs per pod for which the page finds room."""
WORST = "worst"
"""The value of the option `sort` that shows the worst domains first."""
_FEW_SETS = 40
"""The maximum number of PodCliqueSets among which the user can select."""
_FEW_GROUPS = 6
"""The maximum number of gangs and other pods that are named for a node."""
_OF_GPUS = Shape((), tolerations=(Toleration(GPU, "Exists", "", ""),))
"""The shape by which the page finds out whether a node takes pods that request GPUs."""
_OF_SURVEY = ("nodes", "topologies", "kai_topologies")
"""The fields of the snapshot on which the shown parts of a survey depend."""


def surveyed(index: Index, name: str = "") -> Survey:
    """Return the survey of the topology `name`, cached until a node or a topology changes.

    Without a name, the topology is the default one, or KAI's first one if Grove has none.
    """
    name = name or shown_first(index.facts)
    return index.remembered(("console survey", name), lambda: survey(index, name), _OF_SURVEY)


def _read(index: Index, query: Query) -> Values:
    name = query.get("name", "") or shown_first(index.facts)
    topology = topology_of(index, name)
    examined = surveyed(index, name)
    at = _path(topology, query.get("at", ""))
    room = _room(topology, query)
    answer = room.answer if room else None
    gang = query.get("gang", "")
    gang_nodes = _nodes_of(index, gang)
    unseen = index.facts.unseen.keys()
    order = _order(query)

    return {
        **_of_survey(examined, topology, at),
        "form": {**_defaults(topology), **query},
        **_of_room(index, query, room),
        "nodes_known": "nodes" not in unseen,
        "levels_unknown": bool({"topologies", "kai_topologies"} & unseen),
        "gang": gang,
        "gangs": _gangs(index, gang),
        "path": at,
        "map": drawn(topology, at, answer, gang_nodes or frozenset(), worst=order["worst"]),
        **order,
        **_users(topology, at),
        "nodes": _nodes(topology, at),
        "options": {"at": bool(at), "gang": gang_nodes is not None, **_options(topology, query)},
    }


def _of_survey(examined: Survey, topology: Topology, at: Path) -> Values:
    return {
        "headline": _headline(examined, topology, at),
        "levels": examined.levels,
        "nodes_count": examined.nodes,
        "reasons": examined.reasons if not at else (),
        "outside": examined.outside[:MOST_OUTSIDE],
        "outside_count": len(examined.outside),
        "unseen": _unseen(examined, topology.index),
    }


def _of_room(index: Index, query: Query, room: RoomSearch | None) -> Values:
    return {
        "room": search_text(room).splitlines() if room else [],
        "room_fits": bool(room and room.answer.enough),
        "room_unknown": bool(query.get("pods")) and not index.room_is_known,
    }


def _options(topology: Topology, query: Query) -> dict[str, bool]:
    """Return, for the options of the form and the map, whether their values are valid."""
    return {
        "gpus": _number(query, "gpus", range(MOST_GPUS + 1)) is not None,
        "level": query.get("level") in topology.names,
        "name": topology.cluster is not None or topology.kai is not None,
        "pods": _number(query, "pods", range(1, MOST_PODS + 1)) is not None,
        "sort": query.get("sort") == WORST,
    }


def _order(query: Query) -> Values:
    """Return whether the map shows the worst domains first, and the query for the other order."""
    worst = query.get("sort") == WORST
    others = {name: value for name, value in query.items() if name != "sort"}
    asked = others if worst else {**others, "sort": WORST}
    return {"worst": worst, "other_order": urlencode(sorted(asked.items()))}


def _defaults(topology: Topology) -> Values:
    narrow = topology.names[-2:]
    return {
        "pods": "",
        "gpus": _usual_gpus(topology.index),
        "level": narrow[0] if narrow else "",
    }


def _usual_gpus(index: Index) -> str:
    """Return the most common number of GPUs per node as text, or "8" if no node has GPUs.

    Nodes without GPUs don't count. Of equally common numbers, return the largest.
    """
    counts = Counter(gpus_of(node.allocatable) // 1000 for node in index.nodes)
    del counts[0]
    return str(min(counts, key=lambda gpus: (-counts[gpus], -gpus), default=8))


def _unseen(examined: Survey, index: Index) -> list[str]:
    kinds = {need for unknown in examined.unknown for need in unknown.needs}
    kinds |= index.unread_for_room
    return [f"{TITLES[kind]} ({index.facts.unseen[kind]})" for kind in sorted(kinds)]


def _headline(examined: Survey, topology: Topology, at: Path) -> str:
    """Return the heading of the page, about the whole cluster or the domain `at`."""
    if "nodes" in topology.index.facts.unseen:
        return "You have no permission to list nodes"
    if at:
        (report,) = domain_reports(topology, len(at), at)
        return f"{'/'.join(at)}: {counted(report.nodes, 'node')}, {free_words(report)}"

    nodes = counted(examined.nodes, "node")
    if not (topology.cluster or topology.kai):
        unseen = {"topologies", "kai_topologies"} & topology.index.facts.unseen.keys()
        return f"{nodes}; {'topology unknown' if unseen else 'no topology is defined'}"

    domains = listed(
        counted(report.domains, report.level.domain) for report in examined.levels[:-1]
    )
    findings = counted(examined.reasons, "finding") if examined.reasons else "no findings"
    return f"{nodes} in {domains}; {findings}" if domains else f"{nodes}; {findings}"


def _path(topology: Topology, text: str) -> Path:
    """Return the domain at a path such as `zone-a/block-07`, or () if there is no such domain.

    Return () also for domains of the last level.
    """
    at = tuple(text.split("/"))
    is_above_nodes = text and len(at) < len(topology.keys)
    return at if is_above_nodes and topology.domains.within(len(at), at) else ()


def _room(topology: Topology, query: Query) -> RoomSearch | None:
    """Return the room for the pods in the query.

    Return None if the query has no valid numbers of pods and GPUs, if it has no valid level, or if
    free capacity is not known.
    """
    index = topology.index
    pods = _number(query, "pods", range(1, MOST_PODS + 1))
    gpus = _number(query, "gpus", range(MOST_GPUS + 1))
    if pods is None or gpus is None or not index.room_is_known:
        return None
    level = query.get("level", "")
    return index.remembered(
        ("room", topology.levels, level, pods, gpus),
        lambda: search_room(topology, level, pods, gpus * 1000),
    )


def _number(query: Query, name: str, allowed: range) -> int | None:
    """Return the number in an option, or None if it is missing or not in `allowed`."""
    number = integer_in(query.get(name, ""))
    return number if number is not None and number in allowed else None


# The nodes of the selected workload.


def _nodes_of(index: Index, text: str) -> frozenset[str] | None:
    """Return the names of the nodes on which the gangs of an object have pods.

    `text` is the object as `Kind/namespace/name`. Return None if it does not exist.
    """
    ref = reference(text, ASKED)
    about = subject(index, ref) if ref else None
    if not about:
        return None
    return frozenset(pod.node for gang in about.gangs for pod in gang.placed)


def _gangs(index: Index, chosen: str) -> list[Ref]:
    """Return the PodCliqueSets in the selection list, sorted by namespace and name.

    If there are more than _FEW_SETS, return only the chosen one, or [] if there is none.
    """
    sets = [pcs.ref for pcs in index.facts.sets]
    if len(sets) > _FEW_SETS:
        sets = [ref for ref in sets if ref_in_address(ref) == chosen]
    return sorted(sets, key=ref_in_address)


# Who uses the GPUs.


def _users(topology: Topology, at: Path) -> Values:
    """Return the template's values about the workloads that use the most GPUs inside `at`."""
    index = topology.index
    if not index.room_is_known:
        return {"users": ()}
    users = (users_in(topology, [at]) if at else gpu_users(index)) or []
    rest = users[MOST_USERS:]
    return {
        "users": [
            {
                **asdict(user),
                "gpus": plain(user.gpus),
                "shown": user.workload.kind in ASKED,
            }
            for user in users[:MOST_USERS]
        ],
        "users_left": len(rest),
        "gpus_left": plain(sum(user.gpus for user in rest)),
    }


# The nodes of one domain.


def _nodes(topology: Topology, at: Path) -> list[Values]:
    """Return the template's values for each node of the domain `at`.

    Return [] for the whole cluster, and for a domain of more than MOST_NODES nodes.
    """
    domains = topology.domains.within(len(at), at) if at else []
    return [
        _node(topology.index, node)
        for domain in domains
        if len(domain.nodes) <= MOST_NODES
        for node in domain.nodes
    ]


def _node(index: Index, position: int) -> Values:
    """Return the template's values for the node at a position in the index."""
    node = index.nodes[position]
    gpus = gpus_of(node.allocatable)
    free = plain(index.free_gpus[position]) if index.room_is_known else "?"
    groups: Counter[Ref] = Counter()
    for pod in index.pods_on.get(node.name, ()):
        groups[_group_of(index, pod)] += gpus_used(index, pod, node)
    why = list(unfit_causes(_OF_GPUS, node))
    return {
        "name": node.name,
        "free": f"{free} of {plain(gpus)}",
        "state": "warning" if why else "well",
        "words": ", ".join(why) or "takes pods",
        "groups": [
            (ref, amount(GPU, used) if used else "")
            for ref, used in groups.most_common(_FEW_GROUPS)
        ],
        "more": max(0, len(groups) - _FEW_GROUPS),
    }


def _group_of(index: Index, pod: Pod) -> Ref:
    """Return the PodGang of a pod, or else its PodGroup, or else the pod itself."""
    key = (pod.namespace, pod.group or "")
    if key in index.gangs:
        return Ref("PodGang", *key)
    return Ref("PodGroup", *key) if key in index.pod_groups else pod.ref


PAGE = ConsolePage("topology", "Topology", _read)
