"""Draw the topology map: who uses the GPUs of each domain, or how many requested pods fit there."""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from app.base.groups import by_key
from app.base.value import Value
from app.console.colours import Bar, Colours, used_words
from app.console.page import Values
from app.explain.answers.topology import DomainReport, RoomAnswer, domain_reports
from app.explain.reasons.reason import counted, plain
from app.explain.state.domains import Domain, Path
from app.explain.state.levels import Topology
from app.facts.grove.topology import Level

MOST_CELLS = 1024
"""The maximum number of cells on a map."""
MOST_NAMED = 300
"""The maximum number of cells on a map whose cells have names and links."""

_WIDTHS = ((8, ""), (14, "wide"), (20, "wider"))
"""The CSS classes of cells, narrowest first: (the longest name that fits, the class)."""
_LONG = 14
"""The length above which names are shown without the prefix and suffix that all names share."""


class Cell(Value):
    """A domain on the map. Fields with defaults are set if there are at most MOST_NAMED cells."""

    classes: str
    """The CSS classes of the cell, separated by spaces."""
    title: str
    """The tooltip, which describes the domain completely."""
    at: str
    """The path of the domain, such as `zone-a/rack-7`."""
    number: str
    """The number of requested pods that fit, or the number of free GPUs ("?" if not known).

    In a cell with a name, the free GPUs are shown as `8 of 32`.
    """
    name: str = ""
    """The name of the domain, possibly shortened, or "" if the map has too many cells for names."""
    inside: str = ""
    """The path from the domain of the group to the parent of this domain, or ""."""
    closed: str = ""
    """The number of closed nodes, such as `2 closed`, or "" for none."""
    bar: Bar = ()
    """The parts of the bar that shows which queues use the GPUs of the domain."""


def drawn(
    topology: Topology,
    at: Path,
    room: RoomAnswer | None,
    gang_nodes: frozenset[str],
    *,
    worst: bool = False,
) -> Values | None:
    """Return the template's values for the map of the domains inside `at`.

    The cells are the domains of the deepest level with at most MOST_CELLS domains, grouped by their
    parents. With `worst`, all cells are in one group, sorted by the number of closed nodes, and
    then by room, least room first. Single nodes are then shown only if no other level is below
    `at`. `room` is the room that was asked for, or None. `gang_nodes` are the names of nodes whose
    domains are marked. Return None if even the level below `at` has too many domains, or none.
    """
    depth = _depth(topology, at, above_nodes=worst)
    if depth is None:
        return None

    domains = topology.domains.within(depth, at)
    reports = domain_reports(topology, depth, at)
    asked = _RoomOnMap(room)
    named = len(reports) <= MOST_NAMED
    inside = by_key((report.path[:-1], report) for report in reports)
    if worst:
        inside = {at: sorted(reports, key=asked.worst_first)}
    colours = Colours(topology.index) if named and topology.index.room_is_known else None
    cell = partial(
        _cell,
        asked=asked,
        here=topology.domains.domains_of(gang_nodes, depth),
        names=_short(report.path[-1] for report in reports) if named else {},
        colours=colours,
        nodes={domain.path: domain.nodes for domain in domains},
    )
    groups = [
        {**_group(parent, at, own, asked), "cells": [cell(parent, report) for report in own]}
        for parent, own in inside.items()
    ]
    levels = topology.levels[:depth]

    return {
        "level": levels[-1].domain,
        "bands": _bands(groups, levels, asked),
        "named": named,
        "linked": named and depth < len(topology.keys),
        "fills_room": asked.depth == depth,
        "width": _width(cell.name for group in groups for cell in group["cells"]),
        "colours": list(colours.legend(_nodes_of(domains))) if colours else [],
    }


def _nodes_of(domains: Iterable[Domain]) -> list[int]:
    return [position for domain in domains for position in domain.nodes]


class _RoomOnMap:
    """The room for the requested pods in each domain of the requested level."""

    def __init__(self, room: RoomAnswer | None) -> None:
        self._rooms = {each.domain.path: each.pods for each in room.rooms} if room else {}
        self._wanted = room.pods if room else 0
        self.level = room.level if room and room.rooms else ""
        """The name of the level, or "" if no room was asked for or the level has no domains."""
        self._roomiest = next(iter(self._rooms), None)
        """The path of the domain with the most room, or None if there is none."""
        self.depth = len(self._roomiest or ())
        """The depth of the level, from 1, or 0 if `level` is ""."""

    def room_in(self, path: Path) -> int | None:
        """Return the number of pods that fit into a domain, or None for a domain of another level.

        The room of several domains cannot be added up, because each counts at most as many pods as
        were requested.
        """
        return self._rooms.get(path)

    def able_in(self, path: Path) -> int:
        """Return how many domains of the requested level inside `path` have room for all pods."""
        return sum(
            pods >= self._wanted
            for inner, pods in self._rooms.items()
            if inner[: len(path)] == path
        )

    def worst_first(self, report: DomainReport) -> tuple[int, int, Path]:
        """Return a sort key: the domain with the most closed nodes first, then the least room.

        If no room was asked for at the level of the domain, its free GPUs count as room.
        """
        room = self.room_in(report.path)
        return -report.closed, (report.free or 0) if room is None else room, report.path

    def marks(self, path: Path) -> list[str]:
        """Return the CSS classes that show the room in a domain, or [] for domains of other levels.

        They show the share of the requested pods that fit, and mark domains with room for all pods.
        If there are none, they mark the domain with the most room.
        """
        if path not in self._rooms:
            return []
        # in sixteenths
        shade = f"f{round(16 * self._rooms[path] / self._wanted)}"
        if self._rooms[path] >= self._wanted:
            return [shade, "fit", "ask"]
        best = path == self._roomiest and self._rooms[path]
        return [shade, "fit", "best"] if best else [shade, "fit"]


def _group(parent: Path, at: Path, inside: Sequence[DomainReport], asked: _RoomOnMap) -> Values:
    """Return the template's values for the group of the domains `inside`, whose parent is `parent`.

    `at` is the domain that the map shows.
    """
    shown = parent[len(at) :]
    name = "/".join(shown[1:] or shown) or (parent[-1] if parent else "")
    free = _total(report.free for report in inside)

    return {
        "name": name,
        # the domain of the broadest level on the map, or "" if the group itself is of that level
        "band": shown[0] if shown[1:] else "",
        "at": "/".join(parent),
        "here": not shown,
        "marks": " ".join(asked.marks(parent)),
        "free": free,
        "gpus": sum(report.gpus for report in inside),
        "nodes": sum(report.nodes for report in inside),
        "room": asked.room_in(parent),
        "able": asked.able_in(parent),
        "words": "?" if free is None else plain(free),
    }


def _total(amounts: Iterable[int | None]) -> int | None:
    """Return the sum of `amounts`, or None if any of them is None (not known)."""
    known = list(amounts)
    return None if None in known else sum(filter(None, known))


def _bands(groups: Sequence[Values], levels: Sequence[Level], asked: _RoomOnMap) -> list[Values]:
    """Return the template's values for the domains of the broadest level, with their groups."""
    bands = by_key((group["band"], group) for group in groups)
    return [_band(name, inside, levels, asked) for name, inside in bands.items()]


def _band(
    name: str, groups: Sequence[Values], levels: Sequence[Level], asked: _RoomOnMap
) -> Values:
    """Return the template's values for a domain of the broadest level, with its groups and totals.

    `levels` go from the broadest level to the level of the cells.
    """
    totals = []
    if name and len(levels) > 1:
        totals.append(counted(groups, levels[-2].domain))

    nodes = sum(group["nodes"] for group in groups)
    cells = sum(len(group["cells"]) for group in groups)
    if cells != nodes:
        totals.append(counted(cells, levels[-1].domain))
    totals.append(counted(nodes, "node"))

    gpus = sum(group["gpus"] for group in groups)
    free = _total(group["free"] for group in groups)
    shown = "? (not known)" if free is None else plain(free)
    totals.append(f"{shown} of {plain(gpus)} GPUs free")
    if asked.level:
        able = counted(sum(group["able"] for group in groups), asked.level)
        totals.append(f"{able} with room for all pods")

    return {"name": name, "groups": groups, "totals": ", ".join(totals)}


def _cell(
    parent: Path,
    report: DomainReport,
    *,
    asked: _RoomOnMap,
    here: set[Path | None],
    names: Mapping[str, str],
    colours: Colours | None,
    nodes: Mapping[Path, Sequence[int]],
) -> Cell:
    """Return the cell for the domain of `report`. The domain `parent` is the group of the cell.

    `here` are the domains to mark. `names` maps each name to the text to show, and is empty if
    there are too many cells. `nodes` has the positions of each domain's nodes in the index.
    """
    free = "?" if report.free is None else plain(report.free)
    of_all = f"{free} of {plain(report.gpus)}"
    room = asked.room_in(report.path)
    closed = f"{report.closed} closed" if report.closed else ""
    is_here = report.path in here

    used = used_words(colours.used_in(nodes[report.path])) if colours else ""
    for_pods = "" if room is None else f"room for {room}"
    has_pods = "has pods of the selected workload" if is_here else ""
    first = f"{report.path[-1]}: {of_all} GPUs free"
    closed_nodes = counted(report.closed, "closed node") if report.closed else ""
    marks = asked.marks(report.path) or [f"f{_share(report)}"]

    cell = Cell(
        classes=" ".join([*marks, *["here"] * is_here, *["odd"] * bool(closed)]),
        title=", ".join(filter(None, (first, closed_nodes, for_pods, used, has_pods))),
        at="/".join(report.path),
        number=free if room is None else str(room),
    )
    if not names:
        return cell
    return replace(
        cell,
        number=of_all if room is None else str(room),
        name=names[report.path[-1]],
        inside="/".join(report.path[len(parent) : -1]),
        closed="closed" if report.closed == report.nodes == 1 else closed,
        bar=colours.bar(nodes[report.path]) if colours and room is None else (),
    )


def _short(names: Iterable[str]) -> Mapping[str, str]:
    """Return the text to show in a cell for each name.

    If a name is longer than _LONG, the words that all names begin with and the domain that all
    names end with are omitted: `ip-10-0-1-7.eu-central-1.compute.internal` may become `…1-7…`.
    """
    names = set(names)
    if len(names) < 2 or max(map(len, names)) <= _LONG:
        return {name: name for name in names}
    first = _shared_words(names, "-.")
    last = _shared_words([name[::-1] for name in names], ".")
    if min(map(len, names)) <= first + last:
        last = 0
    return {
        name: f"{'…' * (first > 0)}{name[first : len(name) - last]}{'…' * (last > 0)}"
        for name in names
    }


def _shared_words(names: Collection[str], ends: str) -> int:
    """Return the length of the longest prefix that all names share.

    The prefix must end with a character of `ends`. Return 0 if there is no such prefix.
    """
    # all names share the common prefix of the first and the last name in sorted order
    pairs = zip(min(names), max(names), strict=False)
    shared = itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
    return max((place for place, pair in enumerate(shared, 1) if pair[0] in ends), default=0)


def _share(report: DomainReport) -> int:
    """Return the free share of a domain's GPUs in sixteenths, at least 1 if any GPU is free.

    Return 0 if no GPU is free, or if free GPUs are not known.
    """
    if not report.free or not report.gpus:
        return 0
    return max(1, round(16 * report.free / report.gpus))


def _width(names: Iterable[str]) -> str:
    """Return the CSS class of the narrowest cells that have room for the longest name.

    Longer names get the widest cells.
    """
    longest = max(map(len, names), default=0)
    return next((name for most, name in _WIDTHS if longest <= most), "widest")


def _depth(topology: Topology, at: Path, *, above_nodes: bool) -> int | None:
    """Return the depth of the deepest level that has 1 to MOST_CELLS domains inside `at`.

    Return None if there is no such level. With `above_nodes`, the last level does not count, unless
    it is the level below `at`.
    """
    domains = topology.domains
    deepest = len(topology.keys) - (above_nodes and len(at) + 1 < len(topology.keys))
    depths = range(deepest, len(at), -1)
    return next((d for d in depths if 0 < len(domains.within(d, at)) <= MOST_CELLS), None)
