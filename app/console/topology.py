"""Topology: levels and their coverage, what is not a tree, where room is, and a map of what is
free.
"""

from typing import Any

from app.console.page import Page, Query
from app.console.snapshot import Snapshot
from app.console.workloads import reference
from app.explain.assembly import gang_of, gangs_of_set
from app.explain.domains import Path
from app.explain.facts import TITLES
from app.explain.index import Index
from app.explain.levels import Topology
from app.explain.topology import DomainReport, RoomAnswer, Survey, domain_reports, find_room, survey
from app.explain.topology_text import room_text
from app.explain.words import counted, gpus_of, listed, plain

MOST_CELLS = 1024
MOST_LINKED = 300
"""If there are more cells, they are no links: their groups are."""
MOST_OUTSIDE = 100
MOST_NODES = 256
_FEW_SETS = 40
_OF_SURVEY = ("nodes", "topologies", "kai_topologies")
"""The fields of the facts that a survey is made of."""


def _read(snapshot: Snapshot, query: Query) -> dict[str, Any]:
    index = snapshot.index
    name = query.get("name", "")
    topology = index.topology(name)
    examined = index.remembered(("console survey", name), lambda: survey(index, name), _OF_SURVEY)
    at = _path(index, topology, query.get("at", ""))
    room = _room(index, topology, query)
    gang_nodes = _nodes_of(index, query.get("gang", ""))

    return {
        "headline": _headline(index, examined, topology, at),
        "levels": examined.levels,
        "reasons": examined.reasons if not at else (),
        "outside": examined.outside[:MOST_OUTSIDE],
        "outside_count": len(examined.outside),
        "unseen": _unseen(examined, index),
        "form": {name: query.get(name, default) for name, default in _defaults(topology).items()},
        "room": room_text(room) if room else "",
        "room_fits": bool(room and room.enough),
        "nodes_known": "nodes" not in index.facts.unseen,
        "levels_unknown": bool({"topologies", "kai_topologies"} & index.facts.unseen.keys()),
        "room_unknown": bool(query.get("pods")) and not index.room_is_known,
        "gang": query.get("gang", ""),
        "gangs": _gangs(index, query.get("gang", "")),
        "at": "/".join(at),
        "crumbs": [{"name": at[n], "at": "/".join(at[: n + 1])} for n in range(len(at))],
        "map": _map(index, topology, at, room, gang_nodes),
        "nodes": _nodes(index, topology, at),
        "time": snapshot.time,
    }


def _defaults(topology: Topology) -> dict[str, str]:
    narrow = [level.domain for level in topology.levels][-2:]
    return {"pods": "", "gpus": "8", "level": narrow[0] if narrow else ""}


def _unseen(examined: Survey, index: Index) -> list[str]:
    kinds = {need for unknown in examined.unknown for need in unknown.needs}
    kinds |= {"nodes", "room"} & index.facts.unseen.keys()
    return [f"{TITLES[kind]} ({index.facts.unseen[kind]})" for kind in sorted(kinds)]


def _headline(index: Index, examined: Survey, topology: Topology, at: Path) -> str:
    if "nodes" in index.facts.unseen:
        return "The nodes can't be seen with your rights"
    if at:
        (report,) = domain_reports(index, topology, len(at), at)
        return f"{'/'.join(at)}: {counted(report.nodes, 'node')}, {_free(report)}"

    nodes = counted(examined.nodes, "node")
    if not topology.levels:
        return f"{nodes}; no topology is defined"

    domains = listed(
        counted(report.domains, report.level.domain) for report in examined.levels[:-1]
    )
    looked = {0: "everything adds up", 1: "one thing to look at"}
    findings = looked.get(len(examined.reasons), f"{len(examined.reasons)} things to look at")

    return f"{nodes} in {domains}; {findings}" if domains else f"{nodes}; {findings}"


def _free(report: DomainReport) -> str:
    gpus = plain(report.gpus)
    return (
        f"{gpus} GPUs, free: not known"
        if report.free is None
        else f"{plain(report.free)} of {gpus} GPUs free"
    )


def _path(index: Index, topology: Topology, given: str) -> Path:
    """The domain at a path such as `zone-a/block-07`, or () if there is none."""
    at = tuple(given.split("/")) if given else ()
    if not at or len(at) >= max(1, len(topology.keys)):
        return ()
    return at if index.domains(topology.keys).within(len(at), at) else ()


def _room(index: Index, topology: Topology, query: Query) -> RoomAnswer | None:
    pods = query.get("pods", "")
    gpus = query.get("gpus", "")
    if not (pods.isdecimal() and gpus.isdecimal() and index.room_is_known):
        return None
    if not 1 <= int(pods) <= 100_000 or int(gpus) > 1024:
        return None
    return find_room(index, topology, query.get("level", ""), int(pods), int(gpus) * 1000)


# Where a gang or a set is.


def _nodes_of(index: Index, given: str) -> frozenset[str]:
    ref = reference(given)
    if ref is None:
        return frozenset()
    pcs = index.sets.get((ref.namespace, ref.name))
    pod_gang = index.gangs.get((ref.namespace, ref.name))
    gangs = gangs_of_set(index, pcs) if ref.kind == "PodCliqueSet" and pcs else ()
    if ref.kind == "PodGang" and pod_gang:
        gangs = (gang_of(index, pod_gang),)
    return frozenset(pod.node for gang in gangs for pod in gang.placed)


def _gangs(index: Index, given: str) -> list[dict[str, str]]:
    """The PodCliqueSets to choose from. If there are many, only the chosen one."""
    names = [
        (f"PodCliqueSet/{s.namespace}/{s.name}", f"{s.namespace}/{s.name}")
        for s in index.facts.sets
    ]
    if len(names) > _FEW_SETS:
        names = [pair for pair in names if pair[0] == given]
    return [{"object": ref, "name": name} for ref, name in sorted(names)]


# The map.


def _map(
    index: Index, topology: Topology, at: Path, room: RoomAnswer | None, gang_nodes: frozenset[str]
) -> dict[str, Any] | None:
    """The domains of the deepest level that has at most MOST_CELLS, as cells.

    Cells are grouped by parent, and groups by the broadest level.
    """
    depth = _depth(index, topology, at)
    if depth is None:
        return None

    cells = domain_reports(index, topology, depth, at)
    domains = {
        domain.path: domain.nodes for domain in index.domains(topology.keys).within(depth, at)
    }
    enough = {r.domain.path for r in room.enough} if room else set()
    steps = len(next(iter(enough), ()))
    linked = len(cells) <= MOST_LINKED and depth < len(topology.keys)
    groups: dict[Path, list[dict[str, Any]]] = {}
    totals: dict[Path, int] = {}
    for cell in cells:
        parent = cell.path[:-1]
        asked = bool(steps) and cell.path[:steps] in enough
        here = bool(gang_nodes) and any(
            index.nodes[n].name in gang_nodes for n in domains[cell.path]
        )
        groups.setdefault(parent, []).append(_cell(cell, asked=asked, here=here, linked=linked))
        totals[parent] = totals.get(parent, 0) + (cell.free or 0)

    return {
        "level": topology.levels[depth - 1].domain,
        "bands": _bands(groups, totals, at, known=bool(cells) and cells[0].free is not None),
        "count": len(cells),
        "linked": linked,
    }


def _bands(
    groups: dict[Path, list[dict[str, Any]]], totals: dict[Path, int], at: Path, *, known: bool
) -> list[dict[str, Any]]:
    bands: dict[str, list[dict[str, Any]]] = {}
    for parent, cells in groups.items():
        inside = parent[len(at) :]
        band = inside[0] if len(inside) > 1 else ""
        name = "/".join(inside[1:] or inside) or (parent[-1] if parent else "")
        group: dict[str, Any] = {"name": name, "at": "/".join(parent), "cells": cells}
        group["free"] = plain(totals[parent]) if known else "?"
        group["here"] = not inside
        bands.setdefault(band, []).append(group)
    return [{"name": name, "groups": groups} for name, groups in bands.items()]


def _cell(report: DomainReport, *, asked: bool, here: bool, linked: bool) -> dict[str, Any]:
    share = round(16 * report.free / report.gpus) if report.free and report.gpus else 0
    classes = [f"f{max(1, share) if report.free else 0}"]
    classes += ["ask"] if asked or here else []
    classes += ["odd"] if report.closed else []
    free = "?" if report.free is None else plain(report.free)
    closed = f", {report.closed} closed" if report.closed else ""
    title = f"{report.path[-1]}: {free} of {plain(report.gpus)}{closed}"

    return {
        "classes": " ".join(classes),
        "title": title,
        "at": "/".join(report.path) if linked else "",
    }


def _depth(index: Index, topology: Topology, at: Path) -> int | None:
    """The deepest level inside a domain that has at most 1,024 domains there; None if even the next
    has more.
    """
    domains = index.domains(topology.keys)
    depths = range(len(topology.keys), len(at), -1)
    return next((d for d in depths if 0 < len(domains.within(d, at)) <= MOST_CELLS), None)


# The nodes of one domain.


def _nodes(index: Index, topology: Topology, at: Path) -> list[dict[str, Any]]:
    """The nodes of a domain that has at most MOST_NODES: what is free, and which groups have pods
    there.
    """
    domains = index.domains(topology.keys).within(len(at), at) if at else []
    return [
        _node(index, node)
        for domain in domains
        if len(domain.nodes) <= MOST_NODES
        for node in domain.nodes
    ]


def _node(index: Index, position: int) -> dict[str, Any]:
    node = index.nodes[position]
    gpus = gpus_of(node.allocatable)
    free = plain(max(0, gpus - index.used_gpus.get(node.name, 0))) if index.room_is_known else "?"
    groups = dict.fromkeys(
        f"{pod.namespace}/{pod.group or pod.name}" for pod in index.pods_on.get(node.name, ())
    )
    why = ["cordoned"] if node.unschedulable else []
    why += [] if node.ready else ["not ready"]
    why += ["tainted"] if node.taints and not node.unschedulable else []

    return {
        "name": node.name,
        "free": f"{free} of {plain(gpus)}",
        "state": "warning" if why else "well",
        "words": ", ".join(why) or "takes pods",
        "groups": listed(groups, 6),
    }


PAGE = Page("topology", "Topology", _read)
