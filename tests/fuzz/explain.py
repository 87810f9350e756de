"""Explanations, the topology and previews of a cluster in which any value may be anything."""

import json
from typing import Any

from app.base.safe_text import visible_json
from app.console.page import reference
from app.explain.answers.answer import explain
from app.explain.answers.pending import rows, workloads
from app.explain.answers.topology import domain_reports, preview, search_room, survey
from app.explain.gangs.planned import planned
from app.explain.output.json import document, preview_document, search_document, survey_document
from app.explain.output.text import text
from app.explain.output.topology_text import (
    domains_text,
    nodes_text,
    preview_text,
    search_text,
    survey_text,
)
from app.explain.output.waiting_text import list_document, list_text
from app.explain.reasons.table import examine
from app.explain.state.index import Index
from app.explain.state.levels import topology_of
from app.explain.state.read import facts_of
from app.explain.state.snapshot import Snapshot
from app.facts.grove.topology import read_cluster_topology, read_cluster_topology_binding
from app.stores.related_lists import ASKED
from tests.explain.fleet import NOW
from tests.fuzz.clusters import Object, corpus, mutation_of, objects_in, read_cluster
from tests.fuzz.target import Target

LEVELS = {
    "ClusterTopology": read_cluster_topology,
    "ClusterTopologyBinding": read_cluster_topology_binding,
}


def run(data: bytes) -> None:
    """Everything that `explain --offline` and `topology --offline` print of some files."""
    cluster = read_cluster(data)
    objects = objects_in(cluster)
    facts = facts_of(objects, NOW)
    index = Index(facts)
    ref = reference(str(cluster.get("ask")), ASKED)
    answer = explain(index, ref) if ref else None
    if answer is not None:
        check_text(text(answer, everything=True))
        check_text(text(answer))
        assert answer.exit_code in (0, 1, 2)
        check_json(document(answer))
    listed = rows(index, workloads(index))
    check_text(list_text(listed, facts, "", everything=True, width=0))
    check_json(list_document(listed, facts))
    _check_topology(index, facts)
    for obj in objects:
        if str(obj.get("kind")) in LEVELS:
            changes = preview(index, LEVELS[obj["kind"]](obj))
            check_text(preview_text(changes))
            check_json(preview_document(changes))
        elif obj.get("kind") == "PodCliqueSet":
            examine(planned(index, obj))


def _check_topology(index: Index, facts: Snapshot) -> None:
    topology = topology_of(index)
    examined = survey(index, "")
    reports = domain_reports(topology, 1)
    check_text(survey_text(examined, facts))
    check_text(domains_text(topology, reports, everything=True))
    for report in reports:
        check_text(nodes_text(topology, report, everything=True))
    check_json(survey_document(examined, facts, reports))
    for level in topology.levels:
        room = search_room(topology, level.domain, 4, 8000)
        if room is not None:
            check_text(search_text(room))
            check_json(search_document(room))


def check_text(shown: str) -> None:
    """Every line is safe on a terminal."""
    for line in shown.split("\n"):
        assert line.isprintable(), line


def check_json(value: Object | list[Any]) -> None:
    """It is written as JSON that can be read, in characters that are safe on a terminal."""
    written = visible_json(value, indented=True)
    check_text(written)
    json.loads(written)


EXPLAIN = Target("explain", run, corpus, mutation_of(corpus), most=256 * 1024)
