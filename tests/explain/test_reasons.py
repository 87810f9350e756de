"""Each reason of the table: a state in which it holds, and one that just misses it, for both Grove
APIs.

Tests `app/explain/reasons/`.
"""

import pytest
from msgspec.structs import replace

from app.explain.reasons.table import RULES
from app.facts.grove.podcliqueset import UserConstraint
from app.facts.grove.podgang import GangGroup, GangPart
from app.facts.kubernetes.workload import Workload, read_workload_group
from tests.explain import fleet
from tests.explain.fleet import (
    GANG,
    NAMESPACE,
    NOW,
    answer,
    facts,
    placed,
    pods,
)
from tests.explain.table.claims import CLAIMS
from tests.explain.table.constraints import CONSTRAINTS
from tests.explain.table.creation import MADE
from tests.explain.table.devices import DEVICES
from tests.explain.table.evictions import STALE
from tests.explain.table.gates import GATES
from tests.explain.table.gpu_sharing import SHARING
from tests.explain.table.placement import PLACEMENT
from tests.explain.table.pod_starts import STARTING
from tests.explain.table.queue_order import LINE
from tests.explain.table.queues import QUEUES
from tests.explain.table.recorded import in_full, read
from tests.explain.table.rejected_constraints import REFUSED
from tests.explain.table.row import Changes, Row, changed
from tests.explain.table.scaling import SCALING
from tests.explain.table.severities import severity_of
from tests.explain.table.topology import TOPOLOGY
from tests.explain.table.volumes import VOLUMES
from tests.explain.table.words import WORDS

ROWS = (
    *LINE,
    *TOPOLOGY,
    *CONSTRAINTS,
    *MADE,
    *GATES,
    *QUEUES,
    *PLACEMENT,
    *SCALING,
    *REFUSED,
    *CLAIMS,
    *DEVICES,
    *SHARING,
    *VOLUMES,
    *STALE,
    *STARTING,
    *WORDS,
)
RECORDED = read()
TO_RECORD = "if it is right, run: .venv/bin/python -m tests.explain.table, and read the differences"
CASES = [
    pytest.param(row, dialect, id=f"{row.id}: {row.name} ({dialect})")
    for row in ROWS
    for dialect in row.dialects
]


def start(dialect: str) -> Changes:
    return fleet.today() if dialect == "today" else fleet.design()


@pytest.mark.parametrize(("row", "dialect"), CASES)
def test_the_reason_is_found(row: Row, dialect: str) -> None:
    snapshot = facts(**{**start(dialect), **row.hit})
    reasons = answer(snapshot).reasons
    texts = [(reason.id, reason.text, reason.who) for reason in reasons]
    assert (row.id, row.text, row.who) in texts
    # KAI has said nothing in these states: that is told where nothing else keeps the gang
    assert {reason.id for reason in reasons} - {"KaiSilent"} == {row.id, *row.also} - {"KaiSilent"}
    hit = next(reason for reason in reasons if (reason.id, reason.text) == (row.id, row.text))
    assert hit.objects
    assert {ref.name for ref in hit.objects if ref.kind == "Node"} <= {
        node.name for node in snapshot.nodes
    }
    assert hit.evidence
    assert hit.remedy
    assert hit.severity == severity_of(row)
    assert in_full(reasons, row) == RECORDED[f"{row.id}: {row.name}", dialect], TO_RECORD


@pytest.mark.untraced
@pytest.mark.parametrize(("row", "dialect"), CASES)
def test_the_reason_is_just_missed(row: Row, dialect: str) -> None:
    reasons = answer(facts(**{**start(dialect), **row.miss})).reasons
    assert row.id not in {reason.id for reason in reasons}


def test_the_evidence_for_a_missing_topology_is_the_field_that_names_it() -> None:
    asked = UserConstraint("zone", "", "other", "pack.required")
    snapshot = facts(
        **{**fleet.today(), "sets": (fleet.pcs(asked=asked),), "gangs": (fleet.gang(topology=""),)}
    )
    [reason] = [reason for reason in answer(snapshot).reasons if reason.id == "LevelUnknown"]
    assert [(evidence.field, evidence.value) for evidence in reason.evidence] == [
        ("spec.template.topologyConstraint.topologyName", "other")
    ]


def test_a_pod_group_does_not_need_the_template_that_it_was_made_from() -> None:
    reference = {"workloadName": "train-a", "templateName": "inside-of-a-composite-one"}
    group = read_workload_group(
        {"metadata": {"namespace": NAMESPACE, "name": "g"}, "spec": {"workloadRef": reference}}
    )
    workload = Workload(NAMESPACE, "train-a", {"workers": None})
    snapshot = facts(
        **{
            **fleet.today(),
            "pods": pods(workload_group="g"),
            "workload_groups": (group,),
            "workloads": (workload,),
        }
    )
    assert "WorkloadMissing" not in {reason.id for reason in answer(snapshot).reasons}


def test_each_closed_domain_that_a_gang_of_several_parts_needs_is_named() -> None:
    name = "llm-0-pool-1-workers"
    place = replace(fleet.WORKERS_PLACE, group_replica="1", clique=name)
    second = tuple(replace(fleet.pod(name, number), place=place) for number in range(3))
    part = GangPart(name, 3, frozenset(pod.name for pod in second))
    group = GangGroup("llm-0-pool-1", (name,), fleet.gang().groups[0].told)
    gang = fleet.gang(
        parts=(*fleet.gang().parts, part),
        groups=(*fleet.gang().groups, group),
    )
    clique = replace(fleet.cliques()[1], name=name, place=place, uid="uid-second")

    closed = changed(tuple(f"gpu-{number:02}" for number in range(8, 16)), unschedulable=True)
    snapshot = facts(
        nodes=closed,
        pods=(*pods(), *second, *fleet.fill("rack-a1", "rack-a2")),
        gangs=(gang,),
        cliques=(*fleet.cliques(), clique),
    )

    unfit = [reason for reason in answer(snapshot).reasons if reason.id == "NodesUnfit"]
    assert [reason.text for reason in unfit] == [
        "4 of 4 nodes of zone-b/rack-b1 are closed: 4 cordoned",
        "4 of 4 nodes of zone-b/rack-b2 are closed: 4 cordoned",
    ]


def test_every_reason_of_the_table_has_a_case() -> None:
    assert {row.id for row in ROWS} == {rule.id for rule in RULES}
    assert RECORDED.keys() == {
        (f"{row.id}: {row.name}", dialect) for row in ROWS for dialect in row.dialects
    }


@pytest.mark.parametrize("dialect", ["design", "today"])
def test_a_gang_on_an_empty_fleet_has_no_reason_to_wait(dialect: str) -> None:
    explained = answer(facts(**start(dialect), pods=pods(created=NOW - 50)))
    assert (explained.reasons, explained.state, explained.exit_code) == ((), "waits", 1)
    assert explained.headline == "llm is pending: 0 of 4 pods placed, requested 14 minutes ago"
    assert GANG in str(explained.tree)


@pytest.mark.parametrize("dialect", ["design", "today"])
def test_a_gang_in_one_rack_is_placed_as_asked(dialect: str) -> None:
    explained = answer(
        facts(**{**start(dialect), "pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")})
    )
    assert (explained.reasons, explained.state, explained.exit_code) == ((), "well", 0)
    assert explained.headline == "llm is placed as requested: 4 of 4 pods placed"
