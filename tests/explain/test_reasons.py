"""Each reason of the table: a state in which it holds, and one that just misses it, for both Grove
APIs.

Tests `app/explain/reasons/`.
"""

import pytest
from msgspec.structs import replace

from app.explain.reasons.table import RULES
from app.facts.constraint import SchedulerConstraint
from app.facts.grove.podcliqueset import UserConstraint
from app.facts.grove.podgang import GangGroup, GangPart
from app.facts.identity import Place, Ref
from app.facts.kubernetes.pod import PodClaim
from app.facts.kubernetes.selectors import Taint, Toleration
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
from tests.explain.table.creation import MADE, OF_WORKLOAD
from tests.explain.table.devices import DEVICES
from tests.explain.table.evictions import STALE, lost
from tests.explain.table.gates import GATES
from tests.explain.table.gpu_sharing import SHARING, evicted
from tests.explain.table.placement import PLACEMENT
from tests.explain.table.pod_starts import STARTING
from tests.explain.table.queue_order import LINE
from tests.explain.table.queues import QUEUES
from tests.explain.table.recorded import Asking, in_full, read
from tests.explain.table.rejected_constraints import REFUSED
from tests.explain.table.row import Changes, Row, changed, event
from tests.explain.table.scaling import SCALING
from tests.explain.table.severities import severity_of
from tests.explain.table.topology import TOPOLOGY
from tests.explain.table.volumes import VOLUMES
from tests.explain.table.words import WAIT_FOR_EACH_OTHER, WORDS

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


def test_the_reason_of_a_workload_without_pods(answered: Asking) -> None:
    row, train = OF_WORKLOAD, Ref("Workload", NAMESPACE, "train")
    [reason] = answered(facts(**row.hit), train).reasons
    assert (reason.id, reason.text, reason.who) == (row.id, row.text, row.who)
    assert reason.remedy == (
        "Check that the pods name the Workload. If there are no pods, find out why their"
        " controller creates none: check its status, and"
        f" the ResourceQuota (kubectl describe resourcequota -n {NAMESPACE})"
    )
    assert row.id not in {reason.id for reason in answered(facts(**row.miss), train).reasons}


@pytest.mark.parametrize(("of", "told"), [("uid-train", True), ("uid-another", False)])
def test_our_leaders_event_about_a_workload_says_that_its_gang_was_evicted(
    of: str, told: bool, answered: Asking
) -> None:
    """Our leader writes it about the Workload, because there is no PodCliqueSet."""
    snapshot = facts(
        sets=(),
        gangs=(),
        cliques=(),
        pods=tuple(replace(pod, place=Place(), workload="train") for pod in pods()),
        pod_groups=(fleet.pod_group(owners=(), uid="uid-new"),),
        workloads=(Workload(NAMESPACE, "train", {"ring": 4}, uid="uid-train"),),
        **lost(f"{NAMESPACE}/{GANG}", of=of),
    )
    reasons = answered(snapshot, Ref("Workload", NAMESPACE, "train")).reasons
    assert ("PlacementLost" in {reason.id for reason in reasons}) == told


def test_a_deadlock_of_one_compute_domain_hides_no_other_one(answered: Asking) -> None:
    """The first pod waits for another ComputeDomain than the rest of the gang."""
    state = WAIT_FOR_EACH_OTHER
    [stored] = state["compute_domains"]
    other = replace(stored, name="other", uid="uid-other", number=0, template="other", nodes=())
    first, *rest = state["pods"]
    template = replace(state["claim_templates"][0], name="other")
    snapshot = facts(
        **{
            **state,
            "pods": (replace(first, claims=(PodClaim("mnnvl", "made", "other"),)), *rest),
            "compute_domains": (stored, other),
            "claims": (*state["claims"], replace(state["claims"][0], name="made")),
            "claim_templates": (*state["claim_templates"], template),
        }
    )
    texts = {reason.id: reason.text for reason in answered(snapshot).reasons}
    assert texts["DomainDeadlock"].startswith("ComputeDomain llm-0-cd ")
    assert texts["DomainNotReady"].startswith("ComputeDomain other: gpu-")


def test_a_reservation_of_a_gpu_that_is_evicted_hides_no_failed_binding_of_other_pods(
    answered: Asking,
) -> None:
    state = evicted()
    whole = replace(state["pods"][0], shape=fleet.shape(1))
    shares = state["pods"][1]
    for pod in (whole, shares):
        failed = event(pod.uid, "BindingError", "no device")
        changes = {**state, "pods": (whole, *state["pods"][1:]), "events": (failed,)}
        ids = {reason.id for reason in answered(facts(**changes)).reasons}
        assert "ReservationEvicted" in ids
        assert ("BindingFailed" in ids) == (pod is whole)


def test_a_minimum_that_is_impossible_hides_no_missing_pod_of_another_part(
    answered: Asking,
) -> None:
    router = replace(fleet.cliques()[0], replicas=0)
    snapshot = facts(cliques=(router, fleet.cliques()[1]), pods=pods()[1:-1])
    texts = {reason.id: reason.text for reason in answered(snapshot).reasons}
    assert texts["MinAboveReplicas"].startswith(f"{fleet.ROUTER} needs 1 pod, but none can exist")
    assert texts["GangIncomplete"] == f"2 of 4 required pods exist: {fleet.WORKERS} lacks 1 pod"


def test_nodes_that_only_some_pods_may_use_are_closed_to_some_pods(answered: Asking) -> None:
    """The router tolerates the taint of a free zone, and the workers don't."""
    taint = Taint("dedicated", "", "NoSchedule")
    router = Toleration("dedicated", "Exists", "", "")
    free = ("rack-b1", "rack-b2")
    names = tuple(node.name for node in fleet.nodes() if node.labels.get(fleet.RACK) in free)
    told = replace(fleet.gang().groups[0], told=SchedulerConstraint())
    own = tuple(
        replace(pod, shape=replace(pod.shape, tolerations=(router,) * (position == 0)))
        for position, pod in enumerate(pods())
    )
    for count, words in ((1, "closed to some of the gang's pods: "), (0, "closed: ")):
        snapshot = facts(
            nodes=changed(names, taints=(taint,)),
            pods=(*own[:count], *pods()[count:], *fleet.fill("rack-a1", "rack-a2")),
            gangs=(fleet.gang(groups=(told,)),),
            pod_groups=(),
        )
        texts = [reason.text for reason in answered(snapshot).reasons if reason.id == "NodesUnfit"]
        assert [words in text for text in texts] == [True], texts


def test_the_evidence_for_a_missing_topology_is_the_field_that_names_it(answered: Asking) -> None:
    asked = UserConstraint("zone", "", "other", "pack.required")
    snapshot = facts(
        **{**fleet.today(), "sets": (fleet.pcs(asked=asked),), "gangs": (fleet.gang(topology=""),)}
    )
    [reason] = [reason for reason in answered(snapshot).reasons if reason.id == "LevelUnknown"]
    assert [(evidence.field, evidence.value) for evidence in reason.evidence] == [
        ("spec.template.topologyConstraint.topologyName", "other")
    ]


def test_a_pod_group_does_not_need_the_template_that_it_was_made_from(answered: Asking) -> None:
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
    assert "WorkloadMissing" not in {reason.id for reason in answered(snapshot).reasons}


def test_each_closed_domain_that_a_gang_of_several_parts_needs_is_named(answered: Asking) -> None:
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

    unfit = [reason for reason in answered(snapshot).reasons if reason.id == "NodesUnfit"]
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
