"""Any object of a workload leads to its gangs; objects without Grove stand for themselves.

Tests `app/explain/gangs/subject.py`, `app/explain/gangs/bases.py` and
`app/facts/workload_of_pod.py`.
"""

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from app.commands.explain import KINDS
from app.explain.answers.answer import explain
from app.explain.gangs.subject import subject
from app.explain.output.text import tree_lines
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.constraint import SchedulerConstraint
from app.facts.grove.podclique import PodClique
from app.facts.grove.podgang import GangPart, PodGang
from app.facts.identity import Place, Ref
from app.facts.kai.podgroup import SubGroup
from app.facts.kubernetes.claim import ResourceClaim
from app.facts.kubernetes.pod import PodClaim
from app.facts.kubernetes.workload import Workload, WorkloadGroup
from app.facts.nvidia.computedomain import ComputeDomain
from app.facts.rows import ROOM
from app.facts.workload_of_pod import WORKLOAD_KINDS
from tests.explain.fleet import (
    GANG,
    GANG_REF,
    NAMESPACE,
    NOW,
    RACK,
    ROUTER,
    SCALING_GROUP,
    SET,
    WORKERS,
    answer,
    facts,
    placed,
    pod_group,
    pods,
    shape,
)
from tests.explain.table.row import scaled
from tests.explain.test_anchors import FIRST, SECOND, state

CLAIM = PodClaim("mnnvl", "llm-0-mnnvl")
TEMPLATE = PodClaim("mnnvl", "made", "llm-0-template")


def alone(**changes: Any) -> Snapshot:
    """Pods without Grove: no set, no gang, no labels."""
    own = tuple(replace(pod, place=Place(), **changes) for pod in pods())
    return facts(
        pods=own,
        sets=(),
        gangs=(),
        cliques=(),
        pod_groups=(pod_group(owners=(), subgroups=(), told=SchedulerConstraint(RACK)),),
    )


@dataclass(frozen=True)
class Found:
    """What is found for an object: the set, the gangs, and the root of the tree."""

    pcs: str
    gangs: tuple[str, ...]
    root: str


def claimed(claim: PodClaim) -> tuple[Any, ...]:
    return tuple(replace(pod, claims=(claim,)) for pod in pods())


TWO = state(FIRST, FIRST, SECOND)
SHARING = replace(
    TWO,
    pods=tuple(replace(pod, group="grove-llm-0") for pod in TWO.pods),
    pod_groups=(pod_group(name="grove-llm-0", owners=("uid-set",)),),
)
IN_A_SET = Found(SET, (GANG,), f"PodCliqueSet {SET}")
CASES: list[tuple[str, Snapshot, Ref, Found]] = [
    ("a set", facts(), Ref("PodCliqueSet", NAMESPACE, SET), IN_A_SET),
    ("a gang", facts(), Ref("PodGang", NAMESPACE, GANG), IN_A_SET),
    (
        "a gang without its set",
        facts(sets=()),
        Ref("PodGang", NAMESPACE, GANG),
        Found("", (GANG,), f"PodGang {GANG}"),
    ),
    ("a clique", facts(), Ref("PodClique", NAMESPACE, WORKERS), IN_A_SET),
    ("a scaling group", facts(), Ref("PodCliqueScalingGroup", NAMESPACE, SCALING_GROUP), IN_A_SET),
    ("a pod", facts(), Ref("Pod", NAMESPACE, f"{WORKERS}-1"), IN_A_SET),
    ("a PodGroup of a gang", facts(), Ref("PodGroup", NAMESPACE, GANG), IN_A_SET),
    (
        "a PodGroup of a gang without its set",
        facts(sets=()),
        Ref("PodGroup", NAMESPACE, GANG),
        Found("", (GANG,), f"PodGang {GANG}"),
    ),
    (
        "a PodGroup of two gangs",
        SHARING,
        Ref("PodGroup", NAMESPACE, "grove-llm-0"),
        Found(SET, ("llm-0-018", "llm-0-020"), f"PodCliqueSet {SET}"),
    ),
    (
        "a PodGroup by itself",
        alone(),
        Ref("PodGroup", NAMESPACE, GANG),
        Found("", (GANG,), f"PodGroup {GANG}"),
    ),
    (
        "a pod of it",
        alone(),
        Ref("Pod", NAMESPACE, f"{WORKERS}-1"),
        Found("", (GANG,), f"PodGroup {GANG}"),
    ),
    (
        "a pod in no group",
        alone(group=""),
        Ref("Pod", NAMESPACE, f"{WORKERS}-1"),
        Found("", (f"{WORKERS}-1",), f"Pod {WORKERS}-1"),
    ),
    (
        "a Workload",
        replace(alone(workload="train"), workloads=(Workload(NAMESPACE, "train"),)),
        Ref("Workload", NAMESPACE, "train"),
        Found("", (GANG,), f"PodGroup {GANG}"),
    ),
    (
        "a Workload of groups, whose pods are in no PodGroup of KAI yet",
        replace(
            alone(workload_group="train-g", group=""),
            workload_groups=(WorkloadGroup(NAMESPACE, "train-g", "train"),),
        ),
        Ref("Workload", NAMESPACE, "train"),
        Found("", tuple(sorted(pod.name for pod in pods())), "Workload train"),
    ),
    (
        "a pod whose PodGang was deleted",
        facts(gangs=(), pods=placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")),
        Ref("Pod", NAMESPACE, f"{ROUTER}-0"),
        Found(SET, (), f"PodCliqueSet {SET}"),
    ),
    (
        "a claim that the set's pods share",
        facts(pods=claimed(CLAIM), claims=(ResourceClaim(NAMESPACE, "llm-0-mnnvl"),)),
        Ref("ResourceClaim", NAMESPACE, "llm-0-mnnvl"),
        IN_A_SET,
    ),
    (
        "a claim of pods without Grove",
        replace(alone(claims=(CLAIM,)), claims=(ResourceClaim(NAMESPACE, "llm-0-mnnvl"),)),
        Ref("ResourceClaim", NAMESPACE, "llm-0-mnnvl"),
        Found("", (GANG,), f"PodGroup {GANG}"),
    ),
    (
        "a ComputeDomain that pods use by its template",
        facts(
            pods=claimed(TEMPLATE),
            compute_domains=(ComputeDomain(NAMESPACE, "cd", "u", 0, "llm-0-template"),),
        ),
        Ref("ComputeDomain", NAMESPACE, "cd"),
        IN_A_SET,
    ),
    (
        "a ComputeDomain that only its labels connect",
        facts(compute_domains=(ComputeDomain(NAMESPACE, "cd", place=Place(SET)),)),
        Ref("ComputeDomain", NAMESPACE, "cd"),
        IN_A_SET,
    ),
]


@pytest.mark.parametrize(
    ("snapshot", "ref", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_an_object_leads_to_its_gangs(snapshot: Snapshot, ref: Ref, expected: Found) -> None:
    index = Index(snapshot)
    about = subject(index, ref)
    explained = explain(index, ref)
    assert about is not None
    assert explained is not None
    names = tuple(sorted(gang.ref.name for gang in about.gangs))
    root = f"{explained.tree.ref.kind} {explained.tree.ref.name}"
    assert Found(about.pcs.name if about.pcs else "", names, root) == expected


def test_a_gang_is_explained_with_the_base_gang_that_it_waits_for() -> None:
    waiting = facts(**scaled(2))
    about = subject(Index(waiting), GANG_REF)
    assert about is not None
    assert [gang.ref.name for gang in about.gangs] == [GANG]
    assert [gang.ref.name for gang in about.with_bases] == [GANG, "llm-base"]

    reasons = answer(waiting, GANG_REF).reasons
    assert {ref.name for reason in reasons for ref in reason.objects} >= {"llm-base"}


def test_a_gang_whose_pods_have_no_gate_is_explained_alone() -> None:
    placed_already = facts(**{**scaled(2), "pods": pods()})
    about = subject(Index(placed_already), GANG_REF)
    assert about is not None
    assert [gang.ref.name for gang in about.with_bases] == [GANG]


@pytest.mark.parametrize("kind", sorted({case[2].kind for case in CASES}))
def test_what_is_not_there_is_not_found(kind: str) -> None:
    assert explain(Index(facts()), Ref(kind, NAMESPACE, "none")) is None


def test_each_kind_that_may_be_asked_about_is_found() -> None:
    of_others = {resource.kind for resource in WORKLOAD_KINDS}  # tests/explain/test_workloads.py
    assert {case[2].kind for case in CASES} | of_others == set(KINDS.values())


def test_a_kind_that_is_no_workload_is_not_found() -> None:
    assert explain(Index(facts()), Ref("Node", "", "gpu-00")) is None


def test_a_clique_that_is_in_no_gang_yet() -> None:
    snapshot = facts(gangs=(), pods=())
    explained = answer(snapshot, Ref("PodClique", NAMESPACE, WORKERS))
    assert [child.words for child in explained.tree.children] == [
        "in no gang yet",
        "in no gang yet",
    ]
    assert (explained.placed, explained.total, explained.state) == (0, 4, "waits")


def test_replicas_that_are_not_made_yet_are_counted() -> None:
    snapshot = facts(sets=(replace(facts().sets[0], replicas=3),))
    assert answer(snapshot).headline == (
        "llm is pending: 0 of 4 pods placed, 2 of 3 replicas not created yet, requested 14 minutes ago"
    )


def test_grove_is_asked_about_replicas_that_are_not_made_if_no_pod_waits_for_kai() -> None:
    three = (replace(facts().sets[0], replicas=3),)
    whole = answer(facts(sets=three, pods=placed("gpu-00", "gpu-01", "gpu-02", "gpu-03")))
    assert whole.outlook.startswith(
        "Nothing we check is blocking it, and Grove has not created 2 replicas yet: if this takes"
        " more than a minute, ask the platform team whether its operator runs."
    )
    assert "Grove" not in answer(facts(sets=three)).silence


@pytest.mark.parametrize(
    ("deleted_at", "headline"),
    [
        (None, "llm is pending: it has no pods yet, requested 14 minutes ago"),
        (NOW, "llm is being deleted: it has no pods any more"),
    ],
)
def test_objects_without_pods_are_not_said_to_be_missing(
    deleted_at: float | None, headline: str
) -> None:
    snapshot = facts(
        sets=(replace(facts().sets[0], deleted_at=deleted_at),),
        cliques=tuple(replace(clique, replicas=0) for clique in facts().cliques),
        pods=(),
    )
    explained = answer(snapshot)
    assert explained.headline == headline
    assert (explained.tree.state, explained.tree.words) == ("waits", "pending")


def test_pods_that_are_not_in_files_are_not_said_to_have_no_node() -> None:
    explained = answer(facts(pods=(), skipped=frozenset({"pods", ROOM})))
    assert explained.headline == "It is not known whether llm is placed"
    assert (explained.state, explained.outlook, explained.exit_code) == ("unknown", "", 2)


def test_a_clique_has_no_gang_only_if_the_gangs_are_known() -> None:
    def words(skipped: frozenset[str], **pods: Any) -> set[str]:
        explained = answer(facts(gangs=(), skipped=skipped, **pods))
        return {child.words for child in explained.tree.children}

    here = {"pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")}
    assert words(frozenset()) == {"in no gang yet"}
    assert words(frozenset({"gangs"})) == {"pending"}
    assert words(frozenset(), **here) == {"in no gang"}
    assert words(frozenset({"gangs"}), **here) == {""}


def test_the_pods_of_several_gangs_are_counted_together() -> None:
    """The claim is used by pods of two gangs."""
    other = PodGang(NAMESPACE, "llm-1", "uid-1", Place(SET), parts=(GangPart("llm-1-router"),))
    place = Place(SET, "1", podgang="llm-1", clique="llm-1-router")
    router = PodClique(NAMESPACE, "llm-1-router", place=place)
    using = tuple(
        replace(pod, claims=(PodClaim("shared", claim="shared"),)) for pod in facts().pods
    )
    second = replace(using[0], name="other", place=router.place)
    snapshot = facts(
        gangs=(*facts().gangs, other),
        cliques=(*facts().cliques, router),
        pods=(*using, second),
        claims=(ResourceClaim(NAMESPACE, "shared"),),
    )
    headline = answer(snapshot, Ref("ResourceClaim", NAMESPACE, "shared")).headline
    assert headline.startswith("shared is pending: 0 of 5 pods of its gangs placed")


def test_an_object_of_one_gang_is_told_about_this_gang() -> None:
    """One gang of the set is placed; the other one waits, and its clique has no pod yet."""
    other = PodGang(NAMESPACE, "llm-1", "uid-1", Place(SET), parts=(GangPart("llm-1-router"),))
    router = PodClique(NAMESPACE, "llm-1-router", place=Place(SET, "1", podgang="llm-1"))
    snapshot = facts(
        sets=(replace(facts().sets[0], replicas=3),),
        gangs=(*facts().gangs, other),
        cliques=(*facts().cliques, router),
        pods=placed("gpu-00", "gpu-00", "gpu-01", "gpu-02"),
    )
    of_gang = answer(snapshot, GANG_REF)
    of_pod = answer(snapshot, Ref("Pod", NAMESPACE, f"{WORKERS}-1"))
    assert of_gang.headline == "llm-0 is placed as requested: 4 of 4 pods placed"
    assert (of_pod.placed, of_pod.total, of_pod.state, of_pod.exit_code) == (4, 4, "well", 0)
    assert of_pod.tree.state == "waits"
    assert answer(snapshot, Ref("PodGang", NAMESPACE, "llm-1")).headline.startswith(
        "llm-1 is pending: 0 of 1 pod placed"
    )
    assert answer(snapshot).headline.startswith(
        "llm is pending: 4 of 5 pods placed, 1 of 3 replicas not created yet"
    )


def test_a_pod_in_no_group_is_one_line() -> None:
    ref = Ref("Pod", NAMESPACE, f"{WORKERS}-1")
    lines = {
        words: tree_lines(
            answer(
                alone(group="", scheduler="default-scheduler", created=NOW - 5, **changes), ref
            ).tree,
            everything=False,
            colour=False,
            width=0,
        )
        for words, changes in (
            ("waits", {}),
            ("unschedulable", {"unscheduled": "0/16 nodes are available"}),
            ("placed", {"node": "gpu-01"}),
        )
    }
    assert lines == {
        "waits": [f"Pod {WORKERS}-1  -  -  0/1  pending"],
        "unschedulable": [f"Pod {WORKERS}-1  -  -  0/1  reason 1"],
        "placed": [f"Pod {WORKERS}-1  -  zone-a/rack-a1/gpu-01  1/1  placed"],
    }


def test_subgroups_of_a_pod_group_are_parts_with_their_constraints() -> None:
    group = pod_group(
        owners=(),
        subgroups=(
            SubGroup("pool", told=SchedulerConstraint(RACK)),
            SubGroup(WORKERS, "pool", 3),
            SubGroup("loop", "loop", 1),
        ),
    )
    snapshot = replace(
        alone(),
        pod_groups=(group,),
        pods=tuple(replace(pod, shape=shape(8)) for pod in alone().pods if pod.subgroup == WORKERS),
    )
    tree = answer(snapshot, Ref("PodGroup", NAMESPACE, GANG)).tree
    (replica,) = [child for child in tree.children if child.ref.kind == "Replica"]
    assert (replica.ref.name, replica.asked, replica.total) == ("pool", "rack required", 3)
    assert [child.ref.name for child in replica.children] == [WORKERS]


FAILED: dict[str, Any] = {"phase": "Failed", "node": "gpu-00"}
DELETED: dict[str, Any] = {
    "phase": "Running",
    "node": "gpu-00",
    "deleting": NOW,
    "finalizers": ("x/backup",),
}
ENDED: list[tuple[str, Snapshot, str, str]] = [
    (
        "it has failed, and others of its gang wait",
        facts(pods=(replace(pods()[0], **FAILED), *pods()[1:])),
        f"{pods()[0].name} has ended (Failed); 0 of 4 pods of its gang placed",
        f"PodCliqueSet {SET}",
    ),
    (
        "a finalizer keeps it, and others of its gang wait",
        facts(pods=(replace(pods()[0], **DELETED), *pods()[1:])),
        f"{pods()[0].name} is being deleted, blocked by finalizer x/backup; 0 of 4 pods of its gang placed",
        f"PodCliqueSet {SET}",
    ),
    (
        "a finalizer keeps it, and all else is gone",
        facts(sets=(), gangs=(), cliques=(), pod_groups=(), pods=(replace(pods()[0], **DELETED),)),
        f"{pods()[0].name} is being deleted, blocked by finalizer x/backup",
        f"Pod {pods()[0].name}",
    ),
    (
        "two finalizers keep it",
        facts(pods=(replace(pods()[0], **DELETED | {"finalizers": ("a", "b")}), *pods()[1:])),
        f"{pods()[0].name} is being deleted, blocked by finalizers a and b; 0 of 4 pods of its gang placed",
        f"PodCliqueSet {SET}",
    ),
]


@pytest.mark.parametrize(
    ("snapshot", "headline", "root"), [case[1:] for case in ENDED], ids=[case[0] for case in ENDED]
)
def test_a_pod_that_has_ended_neither_waits_nor_is_placed(
    snapshot: Snapshot, headline: str, root: str
) -> None:
    explained = explain(Index(snapshot), Ref("Pod", NAMESPACE, pods()[0].name))
    assert explained is not None
    shown_root = f"{explained.tree.ref.kind} {explained.tree.ref.name}"
    assert (explained.headline, explained.exit_code, shown_root) == (headline, 1, root)


def test_a_pod_whose_podgang_was_deleted_is_not_placed_as_asked() -> None:
    pods_of_set = placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")
    explained = answer(facts(gangs=(), pods=pods_of_set), Ref("Pod", NAMESPACE, f"{ROUTER}-0"))
    assert explained.headline == (
        f"{ROUTER}-0 is placed, with remarks: 4 of 4 pods of its set placed"
    )
    assert [reason.id for reason in explained.reasons] == ["PodGangMissing"]


def test_pods_that_are_being_deleted_may_outlive_their_podgang() -> None:
    pods_of_set = placed("gpu-00", "gpu-00", "gpu-01", "gpu-02", deleting=NOW)
    explained = answer(
        facts(gangs=(), cliques=(), pods=pods_of_set), Ref("PodCliqueSet", NAMESPACE, SET)
    )
    assert "PodGangMissing" not in {reason.id for reason in explained.reasons}


def test_without_nodes_nothing_is_said_to_be_as_asked() -> None:
    pods_of_set = placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")
    known = facts(pods=pods_of_set, skipped=frozenset({"room", "nodes"}))
    explained = answer(known, Ref("PodCliqueSet", NAMESPACE, SET))
    assert explained.headline == (
        f"{SET} is placed: 4 of 4 pods placed; its constraints were not checked"
    )
    assert explained.exit_code == 0


UNIT = PodClaim("mnnvl", "", "lws-a-0-mnnvl-template")


def of_unit(**changes: Any) -> Snapshot:
    """Pods of a group of a LeaderWorkerSet, which wait for the template of their claims."""
    owner = Ref("LeaderWorkerSet", NAMESPACE, "a")
    units = tuple(
        replace(pod, place=Place(unit="lws-a-0"), claims=(UNIT,), unit_owner=owner)
        for pod in pods()
    )
    return replace(alone(), pods=units, **changes)


@pytest.mark.parametrize(
    ("domains", "remedy"),
    [
        pytest.param(
            (),
            "Check the events of LeaderWorkerSet a, and ask the platform team",
            id="no ComputeDomain yet",
        ),
        pytest.param(
            (ComputeDomain(NAMESPACE, "lws-a-0-cd", "u", template=UNIT.template),),
            "Ask the platform team to read the log of NVIDIA's compute-domain controller",
            id="a ComputeDomain without its template",
        ),
    ],
)
def test_a_pod_of_a_unit_says_who_makes_what_it_waits_for(domains: Any, remedy: str) -> None:
    snapshot = of_unit(compute_domains=domains)
    found = explain(Index(snapshot), pods()[0].ref)
    assert found is not None
    (reason,) = [one for one in found.reasons if one.id == "ClaimMissing"]
    assert (reason.who, reason.text) == (
        "platform",
        "ResourceClaimTemplate lws-a-0-mnnvl-template does not exist",
    )
    assert reason.remedy.startswith(remedy)
    assert ("Check the events of LeaderWorkerSet a," in reason.remedy) is not bool(domains)
    shown = "\n".join(tree_lines(found.tree, everything=True, colour=False, width=200))
    assert ("ComputeDomain lws-a-0-cd" in shown) is bool(domains)


def test_nobody_makes_the_template_of_pods_that_name_no_owner() -> None:
    """Anybody can give a pod the label of a unit, but only owners ask for MNNVL."""
    snapshot = of_unit()
    unowned = tuple(replace(pod, unit_owner=None) for pod in snapshot.pods)
    found = explain(Index(replace(snapshot, pods=unowned)), pods()[0].ref)
    assert found is not None
    (reason,) = [one for one in found.reasons if one.id == "ClaimMissing"]
    assert reason.remedy == (
        f"Create ResourceClaimTemplate {UNIT.template}, or correct the name in the pod templates"
    )


@pytest.mark.parametrize(
    ("controller", "begins", "commands"),
    [
        (Ref("StatefulSet", NAMESPACE, "s"), "Delete this pod when", 1),
        (Ref("Job", NAMESPACE, "j"), "Suspend Job j (or the object that created it)", 0),
        (None, "Delete these pods together and create them again when", 0),
    ],
)
def test_pods_that_ask_for_a_claim_and_have_none_are_a_reason(
    controller: Ref | None, begins: str, commands: int
) -> None:
    units = tuple(
        replace(pod, asks_mnnvl=True, controller=controller, made_for=()) for pod in of_unit().pods
    )
    index = Index(replace(of_unit(), pods=(replace(units[0], claims=()), *units[1:])))
    found = explain(index, units[0].ref)
    assert found is not None
    (reason,) = [one for one in found.reasons if one.id == "ClaimNotInjected"]
    assert (reason.text, reason.who, reason.objects) == (
        "1 pod requests MNNVL but has no claim: no webhook added one when it was created",
        "platform",
        (units[0].ref,),
    )
    assert reason.remedy.startswith(begins)
    assert len(reason.commands) == commands


@pytest.mark.parametrize(
    ("claim", "made", "state"),
    [
        pytest.param("", None, ("waits", "not created"), id="not created"),
        pytest.param("c", None, ("problem", "does not exist"), id="deleted"),
        pytest.param("c", False, ("waits", "not allocated"), id="not allocated"),
        pytest.param("c", True, ("well", "allocated"), id="allocated"),
    ],
)
def test_a_unit_is_shown_with_its_owner_and_its_claims(
    claim: str, made: bool | None, state: tuple[str, str]
) -> None:
    claims = () if made is None else (ResourceClaim(NAMESPACE, "c", allocated=made),)
    snapshot = of_unit(claims=claims)
    users = tuple(replace(pod, claims=(replace(UNIT, claim=claim),)) for pod in snapshot.pods)
    found = explain(Index(replace(snapshot, pods=users)), users[0].ref)
    assert found is not None
    (unit,) = [branch for branch in found.tree.children if branch.ref.kind == "Unit"]
    assert (unit.ref.name, unit.asked, unit.where) == (
        "lws-a-0",
        "of LeaderWorkerSet a",
        "4 claims",
    )
    assert (unit.state, unit.words) == state
