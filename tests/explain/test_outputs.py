"""Lists of workloads, queues, topologies and effects as text and for programs: each part, in whole outputs.

Tests `app/explain/output/waiting_text.py`, `app/explain/output/queues_text.py`,
`app/explain/output/topology_text.py`, `app/explain/output/whatif_text.py` and
`app/explain/output/json.py`. What is recorded is in `said.txt`.
"""

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from app.explain.answers.gpu_users import GpuUser
from app.explain.answers.pending import WorkloadRow
from app.explain.answers.positions import InLine
from app.explain.answers.queues import InFront, QueueRow
from app.explain.answers.topology import (
    RoomAnswer,
    RoomSearch,
    domain_reports,
    search_room,
    survey,
)
from app.explain.answers.whatif.effects import Effects, Fate, Worse
from app.explain.output.json import search_document, survey_document, users_document
from app.explain.output.queues_text import queues_document, queues_exit_code, queues_text
from app.explain.output.topology_text import (
    MOST_DOMAINS,
    domains_text,
    nodes_text,
    search_text,
    survey_text,
)
from app.explain.output.waiting_text import exit_code, list_document, list_text
from app.explain.output.whatif_text import effects_document, effects_headline, effects_text
from app.explain.placing.room import DomainRoom
from app.explain.reasons.reason import Reason
from app.explain.state.domains import Domain
from app.explain.state.index import Index
from app.explain.state.levels import topology_of
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kai.shard import Shard
from app.facts.kubernetes.claim import Device, ResourceClaim
from app.rules.mnnvl.held_channels import HeldChannel, HeldChannels
from tests.explain.fleet import NOW, RACK, ZONE, facts, fill, node, nodes, occupant, placed, pods
from tests.explain.table.row import CHANNEL, Changes, part_of
from tests.said import Said

Record = Callable[..., None]
COMPACT: dict[str, Any] = {"sort_keys": False, "width": 200, "default_flow_style": None}


@pytest.fixture
def record(said: Said) -> Record:
    """Compares texts, line by line, and documents as YAML with what is recorded."""

    def compare(*outputs: Any) -> None:
        for output in outputs:
            is_text = isinstance(output, str)
            said((output if is_text else yaml.safe_dump(output, **COMPACT)).splitlines())

    return compare


# The list of workloads.


def row(name: str, state: Any = "waits", *, kind: str = "PodCliqueSet", **more: Any) -> WorkloadRow:
    """A workload of two pods, of which none is placed, of the age of its position in the name."""
    values: dict[str, Any] = {"since": NOW - 7200, "placed": 0, "total": 2, **more}
    namespace, _, own = name.rpartition("/")
    return WorkloadRow(Ref(kind, namespace or "ml", own), state, **values)


def because(id: str, text: str = "it waits", who: str = "you", **more: Any) -> dict[str, Any]:
    return {"id": id, "reason": text, "who": who, "remedy": "look", "commands": ("see",), **more}


def turn(number: int, next: Any = "waits") -> tuple[InLine, ...]:
    return (InLine(Ref("PodGang", "ml", "g"), "q", number, 9, number, next),)


FULL = because("NoDomainFits", "No rack has room", "wait")
WELL = row("well", "well", placed=2)
LISTS: dict[str, tuple[list[WorkloadRow], dict[str, Any]]] = {
    "outages come first, the oldest of each told": (
        [
            row("a", **because("KaiSilent", who="platform"), since=NOW - 300),
            row("b", **because("KaiSilent", who="platform"), since=NOW - 9000),
            row("c", **because("KaiMissing", who="platform"), since=None),
            row("d", **because("NotGrouped", who="wait")),
            row("e", **because("SchedulerSilent", who="platform"), since=NOW - 59),
            row("f", **because("NotGrouped", who="platform")),
        ],
        {},
    ),
    "reasons that rows share are told once": (
        [
            row("a", **FULL, more=1, line=turn(1)),
            row("b", **FULL, more=1, line=turn(2, "after")),
            row("other/c", **FULL, more=1),
            row("other/d", **because("QueueLimit", "Queue q: full")),
            row("other/e", **FULL),
            row("f"),
            row("g"),
        ],
        {},
    ),
    "two workloads with one reason": ([row("a", **FULL), row("b", **FULL)], {}),
    "one pending workload of three": ([row("a", **FULL), WELL, row("x", "warning", placed=2, **because("GangStale"))], {}),
    "everything": ([row("a", **FULL), WELL], {"everything": True}),
    "two are placed as requested": ([WELL, WELL], {}),
    "one is not known": ([row("a", "unknown", placed=None, total=None, since=None), WELL], {"namespace": "ml"}),
    "two are not known": ([row(name, "unknown", total=None) for name in "ab"], {}),
    "one has problems": ([row("a", "problem", placed=2, **because("NodeGone")), WELL], {}),
    "two have problems": ([row(name, "problem", placed=2, **because("NodeGone")) for name in "ab"], {}),
    "other kinds have the names of kubectl": (
        [row("a", kind="LeaderWorkerSet", **FULL), row("b", kind="Job", **FULL), row("c", kind="Pod")],
        {},
    ),
    "a terminal of 60 columns": ([row("a", **FULL), row("b", **because("QueueLimit", "Queue q has a limit of 64 GPUs, 41 used, 24 requested"))], {"width": 60}),
    "a terminal of 100 columns": ([row("a", **FULL), row("b", **because("QueueLimit", "Queue q has a limit of 64 GPUs, 41 used, 24 requested"))], {"width": 100}),
    "rights are missing": ([row("a")], {"unseen": {"nodes": "no permission to list", "events": "timed out"}}),
    "a reason is known, and rights are missing": ([row("a", **FULL)], {"unseen": {"nodes": "no permission to list"}}),
    "nobody knows the time": ([row("a", **FULL), row("b", **because("KaiSilent", who="platform"))], {"now": 0.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_a_list(name: str, record: Record) -> None:
    rows, more = LISTS[name]
    namespace = more.get("namespace", "")
    values = {key: more[key] for key in ("unseen", "now") if key in more}
    snapshot = Snapshot(**{"now": NOW, **values})
    width = more.get("width", 0)
    shown = list_text(
        rows, snapshot, namespace, everything=more.get("everything", False), width=width
    )
    code = exit_code(rows, snapshot)
    record(shown, f"exit code {code}", list_document(rows, snapshot))
    assert all(len(line) <= width for line in shown.splitlines() if width)


# Queues.


def queue(name: str, **more: Any) -> QueueRow:
    values: dict[str, Any] = {
        "parent": "root",
        "depth": 2,
        "pool": "",
        "quota": 8000,
        "limit": None,
        "used": 4500,
        "fixed": 0,
        "fair": 6000,
        "waiting": 0,
        "in_line": 0,
        "users": (),
        **more,
    }
    return QueueRow(name, **values)


ROOT = queue("root", parent="", depth=1, quota=None, waiting=2, in_line=1)
JOB = Ref("Job", "ml", "sweep")
USERS = tuple(
    GpuUser(Ref("Pod" if at == 1 else "Job", "ml", f"u{at}"), "a", 1000 * (at + 1), at + 1, 1)
    for at in range(4)
)
FRONT = (
    InFront(JOB, 1, 2, "next", ("r1", "r2")),
    InFront(JOB, 2, 2, "waits"),
    InFront(Ref("Pod", "ml", "p"), 3, 3),
)
SETS = (Shard("s", sets=("plugins (ray)", "x")), Shard("t", "p", sets=("y",)), Shard("u"))
QUEUES: dict[str, tuple[list[QueueRow], dict[str, Any]]] = {
    "one pool": ([ROOT, queue("a", front=FRONT, users=USERS, waiting=2, in_line=1)], {"shards": SETS}),
    "two pools": (
        [ROOT, queue("a"), queue("p-root", pool="p", parent="", depth=1, front=FRONT[:1]), queue("b", pool="p")],
        {"shards": SETS},
    ),
    "queues that are missing, unusable, or without bounds": (
        [
            ROOT,
            queue("a", unusable="is below gone", unset=("quota of GPUs", "limit of CPUs")),
            queue("b", unset=("limit of GPUs",)),
            queue("gone", parent="", depth=1, exists=False, unusable="does not exist", waiting=3, quota=None, used=None, fixed=None, fair=None, users=None),
            queue("other", parent="", depth=1, exists=False, unusable="has the label p", waiting=None, users=None),
        ],
        {},
    ),
    "numbers are not known": (
        [replace(ROOT, used=None, fixed=None, fair=None, waiting=None, in_line=None, users=None)],
        {"unseen": {"pods": "no permission to list", "events": "timed out"}, "skipped": frozenset({"nodes", "volumes"})},
    ),
    "only the line is not known": ([replace(ROOT, in_line=None)], {"unseen": {"nodes": "no permission to list"}}),
    "kinds that no number needs are missing": ([ROOT], {"unseen": {"events": "timed out"}}),
    "only a queue that does not exist lacks numbers": (
        [ROOT, queue("gone", parent="", depth=1, exists=False, unusable="does not exist", used=None, in_line=None)],
        {"unseen": {"pods": "timed out"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", QUEUES)
def test_queues(name: str, record: Record) -> None:
    rows, more = QUEUES[name]
    index = Index(Snapshot(now=NOW, **more))
    shown = queues_text(rows, index.facts)
    document = queues_document(rows, index.facts)
    record(shown, f"exit code {queues_exit_code(rows, index)}", document)


def test_queues_in_a_narrow_terminal(record: Record) -> None:
    rows, more = QUEUES["one pool"]
    record(queues_text(rows, Snapshot(now=NOW, **more), 50))


# Topologies.


HOLDS = HeldChannel(Ref("ResourceClaim", "ml", "c"), "gpu-01", "its pod has no GPUs", "Delete it")


def of_channels(count: int, waiting: int) -> HeldChannels:
    return HeldChannels([replace(HOLDS, node="")] * (count > 1) + [HOLDS] * (count - (count > 1)), waiting)  # fmt: skip


@pytest.mark.parametrize(
    ("held", "waiting"),
    [(0, 3), (1, 0), (1, 1), (2, 5), (MOST_DOMAINS, 0), (MOST_DOMAINS + 2, 0)],
)
def test_channels_that_are_held(held: int, waiting: int, record: Record) -> None:
    index = Index(facts())
    found = replace(survey(index), held=of_channels(held, waiting))
    lines = survey_text(found, index.facts).splitlines()
    assert sum(line.startswith("     fix: Delete it") for line in lines) == min(held, MOST_DOMAINS)
    record("\n".join(line for line in lines if "Delete it" not in line and "its pod" not in line))


SHARED_CLAIM = ResourceClaim(
    "ml", "c", (CHANNEL,), True, (Device("compute-domain.nvidia.com", "gpu-01", "channel-0"),)
)
STATES: dict[str, Changes] = {
    "some GPUs are in use, and some will be free": {
        "pods": (
            *placed("gpu-00", "gpu-01", "gpu-04"),
            *fill("rack-b1"),
            occupant("gpu-05", gpus=4, deleting=NOW - 9),
            occupant("gpu-06", gpus=1, group=""),
            occupant("gpu-06", 1, shape=part_of(0.5), gpu_groups=("g",)),
        ),
    },
    "nodes are closed": {
        "nodes": tuple(replace(n, unschedulable=n.name < "gpu-03") for n in nodes()),
        "pods": (*pods(), *fill("rack-a1", but=("gpu-03",))),
    },
    "pods of other namespaces may not be read": {"unseen": {"room": "no permission to list"}},
    "a claim holds a channel that nobody needs": {"claims": (SHARED_CLAIM,)},
}


@pytest.mark.parametrize("name", STATES)
def test_domains(name: str, record: Record) -> None:
    index = Index(facts(**STATES[name]))
    topology = topology_of(index, "")
    zones = domain_reports(topology, 1)
    racks = domain_reports(topology, 2, zones[0].path)
    found = survey(index)
    record(
        survey_text(found, index.facts),
        domains_text(topology, zones, everything=False),
        domains_text(topology, zones, everything=True),
        domains_text(topology, racks, everything=False),
        nodes_text(topology, racks[0], everything=False),
        nodes_text(topology, racks[1], everything=False),
        users_document(topology, racks),
        survey_document(found, index.facts, zones),
    )


def test_more_domains_and_nodes_than_people_read(record: Record) -> None:
    many = tuple(node(number, f"zone-{number:02}", "rack-0") for number in range(MOST_DOMAINS + 2))
    index = Index(facts(nodes=many, pods=()))
    topology = topology_of(index, "")
    zones = domain_reports(topology, 1)
    shown = domains_text(topology, zones, everything=False).splitlines()
    assert (len(shown), shown[-1]) == (MOST_DOMAINS + 1, "… 2 more (--all lists them)")
    assert len(domains_text(topology, zones, everything=True).splitlines()) == MOST_DOMAINS + 2
    exactly = domains_text(topology, zones[:MOST_DOMAINS], everything=False).splitlines()
    assert len(exactly) == MOST_DOMAINS

    one = tuple(replace(n, labels={**n.labels, ZONE: "z", RACK: "r"}) for n in many)
    index = Index(facts(nodes=one, pods=()))
    topology = topology_of(index, "")
    [zone] = domain_reports(topology, 1)
    shown = nodes_text(topology, zone, everything=False).splitlines()
    assert (len(shown), shown[-1]) == (MOST_DOMAINS + 1, "… 2 more (--all lists them)")
    assert len(nodes_text(topology, zone, everything=True).splitlines()) == MOST_DOMAINS + 2


@pytest.mark.parametrize(
    ("level", "count", "gpus", "spare"),
    [
        ("rack", 3, 8000, 0),
        ("rack", 3, 8000, 2),
        ("rack", 5, 8000, 1),
        ("rack", 9, 8000, 0),
        ("zone", 9, 8000, 0),
        ("rack", 2, 9000, 1),
        ("rack", 2, 0, 1),
        ("block", 1, 1000, 0),
    ],
)
def test_room(level: str, count: int, gpus: int, spare: int, record: Record) -> None:
    state = {
        "pods": fill("rack-a2", but=("gpu-06",)),
        "nodes": tuple(
            replace(n, labels={k: v for k, v in n.labels.items() if k != RACK})
            if n.name in ("gpu-01", "gpu-10")
            else n
            for n in nodes()
        ),
    }
    search = search_room(topology_of(Index(facts(**state)), ""), level, count, gpus, spare)
    assert (search is None) == (level == "block")
    if search:
        record(search_text(search), f"exit code {search.exit_code}", search_document(search))


def room(name: str, count: int) -> DomainRoom:
    return DomainRoom(Domain((name,), ()), count)


NONE = RoomAnswer("rack", 9, 8000, (room("a", 4), room("b", 3), room("c", 2), room("d", 1)), ())
SEARCHES: dict[str, RoomSearch] = {
    "nothing has room, and three of four domains are named": RoomSearch(NONE, None, 8000, ()),
    "there is no domain": RoomSearch(replace(NONE, rooms=()), None, 8000, ()),
    "there are no GPUs": RoomSearch(NONE, None, 0, ()),
    "node pools are counted": RoomSearch(replace(NONE, pods=4), None, 8000, ("", "p")),
    "as many fit as are wanted beside spare nodes": RoomSearch(replace(NONE, pods=4), None, 8000, (), 1, 4),
    "fewer fit beside spare nodes": RoomSearch(replace(NONE, pods=4), None, 8000, (), 2, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", SEARCHES)
def test_what_is_found(name: str, record: Record) -> None:
    record(search_text(SEARCHES[name]), search_document(SEARCHES[name]))


# Effects of edits.


LLM = Ref("PodCliqueSet", "ml", "llm")
GANG = Ref("PodGang", "ml", "llm-0")
POD = Ref("Pod", "ml", "p")
CAUSE = Reason("NoDomainFits", (LLM,), "No rack has room", "look", "you")
LATER = replace(CAUSE, id="NodesUnfit", text="Nodes are closed")


def fate(how: Any, **more: Any) -> Fate:
    return Fate(more.pop("gang", GANG), more.pop("workload", LLM), how, more.pop("pods", 2), **more)


def edited(**more: Any) -> Effects:
    values: dict[str, Any] = {
        "lines": ("drain a", "cordon b"),
        "moves": (),
        "waits": (),
        "worse": (),
        "topology": (),
        "others": 0,
        "made": frozenset(),
        "cut": (0, 0),
    }
    return Effects(**{**values, **more})


EFFECTS: dict[str, Effects] = {
    "nothing": edited(),
    "gangs that move": edited(
        moves=(
            fate("fits", where=("r1",)),
            fate("restarts", where=("r1", "r2"), certain=False, pods=1),
            fate("shrinks"),
            fate("breaks", reasons=(CAUSE, LATER)),
            fate("breaks", certain=False),
        )
    ),
    "a gang that moves": edited(moves=(fate("fits", gang=POD),)),
    "pods that were not examined": edited(others=1, cut=(1, 2)),
    "more of them": edited(others=2, cut=(2, 1)),
    "gangs that wait": edited(
        waits=(
            fate("starts", where=("r1",)),
            fate("starts", where=("r1",), had_place=True),
            fate("held", reasons=(CAUSE,), where=("r1",)),
            fate("waits", reasons=(CAUSE,)),
            fate("waits", certain=False),
        )
    ),
    "a gang of a new set that waits": edited(
        waits=(fate("waits", reasons=(CAUSE,)), fate("waits", workload=POD)), made=frozenset({LLM})
    ),
    "a new set whose gangs start": edited(
        waits=(fate("starts", had_place=True),), made=frozenset({LLM})
    ),
    "workloads that are worse": edited(worse=(Worse(LLM, (CAUSE, LATER)), Worse(POD, (CAUSE,)))),
    "one workload that is worse": edited(worse=(Worse(LLM, (CAUSE,)),)),
    "labels that are worse": edited(topology=(CAUSE, LATER)),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_effects(name: str, record: Record) -> None:
    found = EFFECTS[name]
    record(
        effects_headline(found),
        effects_text(found, everything=False),
        f"exit code {found.exit_code}",
        effects_document(found),
    )
