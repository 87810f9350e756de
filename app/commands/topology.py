"""The command `topology`: show levels, free GPUs, room for a workload, and effects of changes."""

import argparse
import re
import time
from pathlib import Path

import uvloop

from app.base import logs
from app.base.unusable import UnusableInput
from app.base.value import Value
from app.cluster.command_clients import reading_client
from app.commands.files import objects_in
from app.commands.options import (
    UNUSABLE,
    Command,
    add_config,
    add_offline,
    add_reading_options,
    complain,
    show_answer,
    unreadable,
)
from app.commands.records import facts_in
from app.explain.answers.topology import (
    DomainReport,
    Preview,
    RoomSearch,
    Survey,
    domain_reports,
    preview,
    search_room,
    survey,
)
from app.explain.answers.whatif.edits import Applying, Supposition, UnusableEdit, is_file, parse
from app.explain.answers.whatif.effects import Effects, effects
from app.explain.output.json import (
    preview_document,
    search_document,
    survey_document,
    users_document,
)
from app.explain.output.rights import how_to_get
from app.explain.output.text import not_seen
from app.explain.output.topology_text import (
    domains_text,
    nodes_text,
    preview_text,
    search_text,
    survey_text,
)
from app.explain.output.whatif_text import effects_document, effects_text
from app.explain.reasons.reason import are, listed
from app.explain.state.index import Index
from app.explain.state.levels import Topology, shown_first, topology_of, value_of_level
from app.explain.state.read import read_all
from app.explain.state.snapshot import BY_RESOURCE, RESOURCES, TITLES, Snapshot
from app.facts.grove.topology import (
    ClusterTopology,
    read_cluster_topology,
    read_cluster_topology_binding,
)
from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE_SET, RESOURCE_CLAIM, RESOURCE_SLICE
from app.facts.rows import CHANNELS, ROOM
from app.kube.api import ClusterError
from app.objects.fields import FieldPath
from app.objects.resource import NODE, POD
from app.objects.shape import Object, list_of
from app.rules.dialects.bindings.levels import validate_binding
from app.rules.dialects.design.levels import validate_cluster_topology
from app.rules.topology.levels import validate_levels
from app.stores.related_lists import TOPOLOGY

_ROOM = re.compile(r"(\d{1,6})x(\d{1,4})")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "domain",
        nargs="?",
        metavar="LEVEL=VALUE",
        help="show the contents of one domain, such as zone=zone-a",
    )
    add_reading_options(parser)
    parser.add_argument(
        "--name",
        default="",
        metavar="NAME",
        help="name of the topology (default: grove-topology, or else the first one)",
    )
    parser.add_argument(
        "--room",
        metavar="NxG",
        help="find room for N pods of G GPUs each in one domain of level --in",
    )

    parser.add_argument(
        "--in",
        dest="level",
        metavar="LEVEL",
        help="level for --room (default: the second narrowest)",
    )
    add_config(
        parser,
        "file with an OperatorConfiguration; --room then also shows how many pods fit if"
        " mnnvl.spareNodes nodes of a domain stay free",
    )
    parser.add_argument(
        "--levels",
        metavar="FILE",
        help="show which stored PodCliqueSets the levels in FILE would affect",
    )
    parser.add_argument(
        "--if",
        dest="edits",
        action="append",
        default=[],
        metavar="EDIT",
        help="show the effects of an edit: 'drain rack=r7', 'cordon n1', 'add 4 like n12',"
        " 'label n1 rack=r2', or a file to apply; repeat the option for more edits, in order",
    )
    parser.add_argument(
        "--all", action="store_true", help="show all domains, and all gangs of --if"
    )
    add_offline(parser)


def run(arguments: argparse.Namespace) -> int:
    logs.set_up("warning")
    levels = levels_of(arguments.levels, arguments.name) if arguments.levels else None
    edits = list(map(_edit_of, arguments.edits))
    try:
        if arguments.offline:
            facts = facts_in(arguments.offline)
        else:
            facts = uvloop.run(_read(arguments, sets=levels is not None))
    except (ClusterError, OSError) as problem:
        return unreadable("can't read the topology", problem, arguments)
    arguments.name = arguments.name or shown_first(facts)
    if edits:
        return _report_effects(facts, edits, levels, arguments)
    return _report(Index(facts), levels, arguments)


async def _read(arguments: argparse.Namespace, *, sets: bool) -> Snapshot:
    resources = [*TOPOLOGY, NODE, POD, RESOURCE_SLICE, RESOURCE_CLAIM, COMPUTE_DOMAIN]
    if sets:
        resources.append(POD_CLIQUE_SET)
    async with reading_client(RESOURCES, arguments.kubeconfig, arguments.context) as client:
        only = BY_RESOURCE if arguments.edits else resources
        return await read_all(client, now=time.time(), only=only)


def levels_of(path: str, name: str) -> ClusterTopology:
    """Return the topology in the file `path`.

    It is the first ClusterTopology, ClusterTopologyBinding, or OperatorConfiguration with levels.
    For a configuration, `name` is the name of the topology, unless it is "". Raise UnusableInput if
    the file can't be read or has no levels, or if they would be rejected.
    """
    for document in objects_in(path):
        section = document.get("clusterTopology")
        if document.get("kind") == "ClusterTopologyBinding":
            findings = validate_binding(document, None, None, ())[0]
            levels = read_cluster_topology_binding(document)
        elif document.get("kind") == "ClusterTopology":
            findings = validate_cluster_topology(document)
            levels = read_cluster_topology(document)
        elif isinstance(section, dict):
            configured = section.get("levels")
            findings = validate_levels(
                list_of(configured), FieldPath("").child("clusterTopology.levels")
            )
            levels = read_cluster_topology(
                {"spec": {"levels": configured}, "metadata": {"name": name or section.get("name")}}
            )
        else:
            continue
        if findings:
            raise UnusableInput(f"{path}: {'; '.join(map(str, findings))}")
        return levels

    raise UnusableInput(
        f"{path}: no ClusterTopology, ClusterTopologyBinding or OperatorConfiguration with levels"
    )


class _Report(Value):
    """The answer to one call of the command."""

    topology: Topology
    """The topology, as Grove and KAI define it."""
    examined: Survey
    """The survey of this topology."""
    inside: list[DomainReport]
    """The domains that LEVEL=VALUE names, or else the domains of the broadest level."""
    room: RoomSearch | None
    """The room for --room, or None if it was not requested."""
    changes: Preview | None
    """The effects of the levels in --levels, or None if they were not requested."""
    is_of_domain: bool = False
    """Whether LEVEL=VALUE was given. It may name several domains."""

    def document(self) -> Object:
        answer: Object = survey_document(self.examined, self.topology.index.facts, self.inside)
        if self.is_of_domain:
            answer["users"] = users_document(self.topology, self.inside)
        if self.room:
            answer["room"] = search_document(self.room)
        if self.changes:
            answer["preview"] = preview_document(self.changes)
        return answer

    def text(self, arguments: argparse.Namespace) -> str:
        parts = [search_text(self.room)] if self.room else []
        parts += [preview_text(self.changes)] if self.changes else []
        parts.append(survey_text(self.examined, self.topology.index.facts))
        parts.append(_domains(self.topology, self.inside, arguments))
        return "\n".join(filter(None, parts))

    @property
    def exit_code(self) -> int:
        if self.room:
            return self.room.exit_code
        code = self.examined.exit_code
        return max(1, code) if self.changes and self.changes.is_severe else code


def _report(index: Index, levels: ClusterTopology | None, arguments: argparse.Namespace) -> int:
    """Print the topology with the requested domain, room and preview. Return the exit code."""
    examined = survey(index, arguments.name)
    topology = topology_of(index, arguments.name)
    _require_topology(topology, arguments.name)
    if arguments.room and not index.room_is_known:
        complain(f"Cannot tell whether there is room: {_unknown_room(index.facts)}.")
        for line in how_to_get(index.facts.unseen):
            complain(line)
        return UNUSABLE

    room = _room(topology, arguments)
    inside = domain_reports(topology, 1)
    if arguments.domain:
        inside = _inside(topology, arguments.domain)
    changes = preview(index, levels) if levels else None
    report = _Report(topology, examined, inside, room, changes, bool(arguments.domain))

    show_answer(arguments.output, report.document, lambda: report.text(arguments))
    return report.exit_code


def _require_topology(topology: Topology, name: str) -> None:
    """Raise UnusableInput if there is no topology `name`.

    Accept "", and any name if topologies could not be read.
    """
    if not name or topology.cluster or topology.kai or survey(topology.index, name).unknown:
        return
    facts = topology.index.facts
    names = {cluster.name for cluster in facts.topologies}
    names |= {kai.name for kai in facts.kai_topologies}
    there = listed(sorted(names), 16) or "none"
    raise UnusableInput(f"--name {name}: no such topology; existing topologies: {there}")


def _domains(topology: Topology, inside: list[DomainReport], arguments: argparse.Namespace) -> str:
    text = domains_text(topology, inside, everything=arguments.all)
    if arguments.domain and len(inside) == 1:
        return f"{text}\n{nodes_text(topology, inside[0], everything=arguments.all)}"
    return text


def _inside(topology: Topology, text: str) -> list[DomainReport]:
    """Return the domains that `text` (LEVEL=VALUE) names.

    There are several if domains with this value have different parents. Raise UnusableInput if
    there is none, or if `text` has another form.
    """
    level, _, value = text.partition("=")
    if not level or not value:
        meant = value_of_level(topology, text)
        like = f"did you mean {meant}?" if meant else _levels(topology)
        raise UnusableInput(f"{text!r} is not LEVEL=VALUE, such as zone=zone-a; {like}")

    keys = [known.key for known in topology.levels if level in (known.domain, known.key)]
    if not keys:
        raise UnusableInput(f"{text!r}: {level} is not a level; {_levels(topology)}")

    depth = topology.domains.depth(keys[0]) or 1
    reports = [
        report
        for report in domain_reports(topology, depth)
        if value in (report.path[-1], "/".join(report.path))
    ]
    if not reports:
        raise UnusableInput(f"{text!r}: no node has {keys[0]}={value}")

    return reports


def _room(topology: Topology, arguments: argparse.Namespace) -> RoomSearch | None:
    """Return the room for the pods in --room, or None if it was not requested.

    Raise UnusableInput if the options are invalid.
    """
    if not arguments.room:
        if arguments.level:
            raise UnusableInput("--in needs --room")
        return None

    match = _ROOM.fullmatch(arguments.room)
    if match is None or not int(match[1]):
        raise UnusableInput(
            f"--room takes NxG, such as 10x8 for 10 pods of 8 GPUs, not {arguments.room!r}"
        )
    narrow = topology.names[-2:]
    level = arguments.level or (narrow[0] if narrow else "")
    search = search_room(
        topology, level, int(match[1]), int(match[2]) * 1000, _spare_nodes(arguments.config)
    )
    if not search:
        raise UnusableInput(f"--in {level}: no such level; {_levels(topology)}")
    return search


def _spare_nodes(config: Path | None) -> int:
    """Return `mnnvl.spareNodes` of a configuration, or 0 without one."""
    if config is None:
        return 0
    # loads pydantic, which takes a third of the time of the start
    from app.config.read import configuration_or_defaults

    return configuration_or_defaults(config).mnnvl.spare_nodes


def _levels(topology: Topology) -> str:
    """Return a text with the names of the levels, such as `the levels are zone and rack`."""
    none = (
        "none that you may read"
        if topology.index.facts.unseen.keys() & {"topologies", "kai_topologies"}
        else "none"
    )
    return f"the {are(topology.names, 'level')} {listed(topology.names, 16) or none}"


# The effects of edits.


def _unknown_room(facts: Snapshot) -> str:
    """Return the reason why the room of the cluster is not known."""
    missing = [TITLES[kind] for kind in ("nodes", "pods") if kind in facts.skipped]
    if missing:
        return f"{listed(missing)} are missing from the files"
    unread = [TITLES[kind] for kind in ("nodes", ROOM, CHANNELS, "slices") if kind in facts.unseen]
    return f"{listed(unread)} could not be read"


def _report_effects(
    facts: Snapshot,
    edits: list[Supposition],
    levels: ClusterTopology | None,
    arguments: argparse.Namespace,
) -> int:
    """Print the effects of edits, and the requested room and domain after these edits.

    The domain is printed only as text, not as JSON. Return the exit code. Raise UnusableInput if
    `levels` are given, or if an option or an edit is not usable.
    """
    if levels:
        raise UnusableInput("--levels cannot be combined with --if: give the file to --if")
    index = Index(facts)
    _require_topology(topology_of(index, arguments.name), arguments.name)
    if not index.room_is_known:
        complain(f"Cannot tell the effects: {_unknown_room(facts)}.")
        return _print_unknown(facts)

    try:
        found = effects(index, edits, arguments.name)
    except UnusableEdit as problem:
        raise UnusableInput(f"--if {problem}") from None

    room = _room(topology_of(index, arguments.name), arguments)
    show_answer(
        arguments.output,
        lambda: effects_document(found) | ({"room": search_document(room)} if room else {}),
        lambda: _effects_text(found, index, room, arguments),
    )

    if facts.unseen:
        return _print_unknown(facts)
    room_code = room.exit_code if room else 0
    return max(found.exit_code, room_code)


def _effects_text(
    found: Effects, after: Index, room: RoomSearch | None, arguments: argparse.Namespace
) -> str:
    """Return the effects of edits as text, with the requested room and domain afterwards."""
    parts = [effects_text(found, everything=arguments.all)]
    if room:
        parts.append(search_text(room))
    if arguments.domain:
        topology = topology_of(after, arguments.name)
        inside = _inside(topology, arguments.domain)
        parts.append(_domains(topology, inside, arguments))
    return "\n".join(parts)


def _edit_of(text: str) -> Supposition:
    """Return the edit in `text`, an argument of --if. Raise UnusableInput if it is invalid."""
    if is_file(text):
        return Applying(text, tuple(objects_in(text)))
    try:
        return parse(text)
    except UnusableEdit as problem:
        raise UnusableInput(f"--if {problem}") from None


def _print_unknown(facts: Snapshot) -> int:
    """Print which kinds could not be read, and how to get permission. Return the exit code."""
    for line in (*not_seen(facts.unseen, ()), *how_to_get(facts.unseen)):
        complain(line)
    return UNUSABLE


COMMAND = Command(
    description=(
        "Show the topology levels, how many nodes have their labels, inconsistent labels,"
        " differences from KAI's Topology, NVLink channels that are held unnecessarily, and free"
        " GPUs. Nothing is written. Exit code: 0 no findings, 1 findings, 2 not everything was"
        " readable. With --room: 0 there is room, 1 there is none, 2 not known. With --if: 0"
        " nothing breaks, 1 something would break or a new workload would not start, 2 not"
        " everything was readable."
    ),
    add_options=add_options,
    run=run,
    examples=(
        "grove-admission topology --room 18x4 --in rack   # room for 18 pods of 4 GPUs?",
        "grove-admission topology --if 'drain rack=r7'    # what breaks?",
    ),
)
