"""All that people and programs get of some states, in full: `printed.txt` has it.

`.venv/bin/python -m tests.explain.table` writes the file again, and so does `./scripts/fix`: read
the differences before you commit them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.answers.pending import rows, waiting_alone, waiting_without_pods, workloads
from app.explain.answers.queues import queue_rows
from app.explain.answers.topology import domain_reports, preview, search_room, survey
from app.explain.answers.whatif.edits import parse
from app.explain.answers.whatif.effects import effects
from app.explain.output import json as documents
from app.explain.output.queues_text import queues_document, queues_exit_code, queues_text
from app.explain.output.text import text, tree_lines
from app.explain.output.topology_text import (
    domains_text,
    nodes_text,
    preview_text,
    search_text,
    survey_text,
)
from app.explain.output.waiting_text import exit_code, list_document, list_text
from app.explain.output.whatif_text import effects_document, effects_text
from app.explain.state.index import Index
from app.explain.state.levels import topology_of
from app.facts.grove.topology import Level
from app.facts.identity import Ref
from app.facts.kai.queue import Queue
from app.facts.kai.shard import Shard
from app.facts.rows import ROOM
from tests.explain import fleet
from tests.explain.fleet import (
    GANG_REF,
    HOST,
    NOW,
    RACK,
    RACKS,
    SET_REF,
    ZONE,
    facts,
    fill,
    nodes,
    occupant,
    placed,
    pod_group,
    pods,
)
from tests.explain.table.placement import tolerating
from tests.explain.table.queue_order import rival
from tests.explain.table.row import Changes, Row, channels, domain, epochs, queues, scaled, using
from tests.explain.test_reasons import ROWS, start
from tests.explain.whatif.test_effects import CASES as EDITS

FILE = Path(__file__).with_name("printed.txt")
POD_REF = pods()[1].ref
DENIED = "no permission to list"
KAI_POOL = "kai.scheduler/node-pool"

SHARDS = (
    Shard("h100", "h100", sets=("plugins (ray)",)),
    Shard("all", sets=("queueDepthPerAction",)),
)
RUNNING: Changes = {"pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")}
STATES: Mapping[str, Changes] = {
    "a gang that has just been made, on an empty fleet": {"pods": pods(created=NOW - 50)},
    "a gang that runs": RUNNING,
    "a gang of today's Grove that runs": {**fleet.today(), **RUNNING},
    "one pod of four runs": {"pods": (*placed("gpu-00"), *pods()[1:])},
    "others hold all nodes": {"pods": (*pods(), *fill(*RACKS))},
    "others hold all nodes but one of each rack": {
        "pods": (*pods(), *fill(*RACKS, but=("gpu-03", "gpu-07", "gpu-11", "gpu-15"))),
    },
    "others end on a rack": {
        "pods": (
            *pods(),
            *fill("rack-a2", "rack-b1", "rack-b2"),
            *(replace(pod, deleting=NOW - 9) for pod in fill("rack-a1")),
        )
    },
    "closed nodes": {
        "nodes": tuple(
            replace(n, unschedulable=n.name < "gpu-04", ready=n.name != "gpu-09") for n in nodes()
        ),
        "pods": (*pods(), *fill("rack-a2", "rack-b1")),
    },
    "nodes that lack a label": {
        "nodes": tuple(
            replace(n, labels={k: v for k, v in n.labels.items() if k != RACK})
            if n.name in ("gpu-05", "gpu-06")
            else n
            for n in nodes()
        ),
        "pods": (*pods(), *fill("rack-a1", "rack-b1", "rack-b2")),
    },
    "a rack whose nodes are in two zones": {
        "nodes": tuple(
            replace(n, labels={**n.labels, RACK: "rack-a1"}) if n.name == "gpu-08" else n
            for n in nodes()
        ),
    },
    "two node pools": {
        "nodes": tuple(
            replace(n, labels={**n.labels, **({KAI_POOL: "h100"} if n.name < "gpu-08" else {})})
            for n in nodes()
        ),
        "queues": (Queue("root"), Queue("team-llm", "root"), Queue("h", pool="h100")),
        "shards": SHARDS,
    },
    "a queue at its limit": {"queues": queues(limit=64_000, quota=32_000), **using(48)},
    "a queue without bounds, and one that is missing": {
        "queues": (
            Queue("root"),
            Queue("team-llm", "root", quota=0, limit=0, unset=("quota", "limit")),
        ),
        "pods": (*pods(), occupant("gpu-15")),
        "pod_groups": (
            pod_group(),
            replace(pod_group(queue="gone"), namespace="research", name="batch-eval", subgroups=()),
        ),
    },
    "another gang in front": rival(3600),
    "a gang that waits for its base": scaled(2),
    "a tail that waits for its anchor": epochs(2),
    "channels that others have": channels("gpu-12", "gpu-13"),
    "a ComputeDomain that is not ready": domain(number=4, old=True),
    "pods that tolerate what closes nodes": {"pods": tolerating("")},
    "no permission to read nodes": {"nodes": (), "unseen": {"nodes": DENIED}},
    "no permission to read the pods of all namespaces": {"unseen": {ROOM: DENIED}},
    "no permission to read queues and PodGroups": {
        "queues": (),
        "pod_groups": (),
        "unseen": {"queues": DENIED, "pod_groups": DENIED},
    },
    "no permission to read PodCliqueSets": {"sets": (), "unseen": {"sets": DENIED}},
    "files without nodes and queues": {
        "nodes": (),
        "queues": (),
        "skipped": frozenset({"nodes", "queues"}),
    },
    "neither Grove nor KAI": {
        **dict.fromkeys(("sets", "gangs", "cliques", "pod_groups", "queues"), ()),
        **dict.fromkeys(("topologies", "kai_topologies"), ()),
        "absent": frozenset({"sets", "gangs", "pod_groups", "queues", "kai_topologies"}),
        "pods": (occupant("", name="alone", phase="Pending", group="", created=NOW - 90),),
    },
    "nothing at all": {"pods": (), "sets": (), "gangs": (), "cliques": (), "pod_groups": ()},
}

IN_FULL = (
    "others hold all nodes but one of each rack",
    "a queue without bounds, and one that is missing",
    "no permission to read nodes",
)
"""The states of which more questions are asked, and the documents recorded too."""


def _answers(index: Index, *refs: Ref) -> Iterator[tuple[str, str]]:
    for ref in refs:
        answer = explain(index, ref)
        if answer is not None:
            yield f"explain {ref} (exit code {answer.exit_code})", text(answer)


def _everything(index: Index) -> Iterator[tuple[str, str]]:
    answer = explain(index, SET_REF)
    if answer is not None:
        yield "explain, everything in 70 columns", text(answer, everything=True, width=70)


def _lists(index: Index) -> Iterator[tuple[str, str]]:
    found = rows(index, _listed(index))
    code = exit_code(found, index.facts)
    yield (
        f"list (exit code {code})",
        list_text(found, index.facts, "", everything=True, width=0),
    )
    yield (
        "list of the namespace inference, in 80 columns",
        list_text(found, index.facts, "inference", everything=False, width=80),
    )
    queued = queue_rows(index)
    code = queues_exit_code(queued, index)
    yield f"queues (exit code {code})", queues_text(queued, index.facts)


def _listed(index: Index) -> list[Any]:
    return [*workloads(index), *waiting_alone(index), *waiting_without_pods(index)]


def _topology(index: Index) -> Iterator[tuple[str, str]]:
    topology = topology_of(index, "")
    yield "topology", survey_text(survey(index), index.facts)
    zones = domain_reports(topology, 1) if topology.levels else []
    if not zones:
        return
    yield "topology, domains", domains_text(topology, zones, everything=False)
    rack = domain_reports(topology, 2)[0]
    yield f"topology {'/'.join(rack.path)}", nodes_text(topology, rack, everything=True)
    for level, count, gpus, spare in (("rack", 3, 8000, 0), ("zone", 12, 4000, 1), ("x", 1, 1, 0)):
        search = search_room(topology, level, count, gpus, spare)
        if search is not None:
            yield f"room for {count} pods of {gpus} in a {level}", search_text(search)


def _documents(index: Index) -> Iterator[tuple[str, str]]:
    answer = explain(index, SET_REF)
    topology = topology_of(index, "")
    reports = domain_reports(topology, 1)
    search = search_room(topology, "rack", 4, 8000, 1)
    levels = (Level("zone", ZONE), Level("host", HOST))
    changed = preview(index, replace(facts().topologies[0], levels=levels))
    yield "new levels", preview_text(changed)
    found: dict[str, Callable[[], Any]] = {
        "explain": lambda: answer and documents.document(answer),
        "list": lambda: list_document(rows(index, _listed(index)), index.facts),
        "queues": lambda: queues_document(queue_rows(index), index.facts),
        "topology": lambda: documents.survey_document(survey(index), index.facts, reports),
        "users": lambda: documents.users_document(topology, reports),
        "room": lambda: search and documents.search_document(search),
        "new levels": lambda: documents.preview_document(changed),
    }
    for name, make in found.items():
        yield f"{name}, for programs", yaml.safe_dump(make(), sort_keys=False, width=200)


def printed(name: str) -> list[tuple[str, str]]:
    """All outputs about a state, each with a title."""
    index = Index(facts(**STATES[name]))
    if name in IN_FULL:
        asked = (SET_REF, GANG_REF, POD_REF)
        return [
            *_answers(index, *asked),
            *_everything(index),
            *_lists(index),
            *_topology(index),
            *_documents(index),
        ]
    return [*_answers(index, SET_REF), *_lists(index), *_topology(index)]


def _of_row(row: Row) -> Iterator[tuple[str, str]]:
    """The tree of a row of the table, whose reason `reasons.txt` has, and what just misses it."""
    first = start(row.dialects[0])
    hit = fleet.answer(facts(**{**first, **row.hit}))
    tree = tree_lines(hit.tree, everything=False, colour=False, width=0)
    yield f"tree (exit code {hit.exit_code})", "\n".join([hit.headline, *tree])
    miss = fleet.answer(facts(**{**first, **row.miss}))
    yield f"just missed (exit code {miss.exit_code})", text(miss)


def _of_edits(changes: Changes, edits: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What edits would change."""
    result = effects(Index(facts(**changes)), [parse(edit) for edit in edits])
    yield f"exit code {result.exit_code}", effects_text(result, everything=True)
    programs = yaml.safe_dump(effects_document(result), sort_keys=False, width=200)
    yield "for programs", programs


def recorded() -> str:
    """The outputs of all states. An output that an earlier state has too is there once."""
    states = {
        **{name: printed(name) for name in STATES},
        **{f"{row.id}: {row.name}": list(_of_row(row)) for row in ROWS},
        **{f"what if: {name}": list(_of_edits(*case[:2])) for name, case in EDITS.items()},
    }
    lines: list[str] = []
    seen: dict[tuple[str, str], str] = {}
    for name, outputs in states.items():
        lines += ["", f"= {name}"]
        for title, output in outputs:
            before = seen.setdefault((title, output), name)
            if before == name:
                lines.append(f"  {title}")
                lines += (f"    {line}".rstrip() for line in output.splitlines())
            else:
                lines.append(f"  {title}: as in: {before}")
    return "\n".join(lines[1:]) + "\n"


def write() -> None:
    FILE.write_text(recorded())
