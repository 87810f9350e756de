"""What is said of the messages of schedulers, of their silence, and of what helps.

Tests `app/explain/reasons/scheduler_messages.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.facts.kai.podgroup import Said
from app.facts.kai.queue import Queue
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.selectors import Taint
from app.facts.labels import KAI_CORDONS
from tests.explain.fleet import (
    GANG_REF,
    HOST,
    NOW,
    answer,
    facts,
    gang,
    nodes,
    occupant,
    pod_group,
    pods,
)
from tests.explain.table.recorded import Asking
from tests.explain.table.row import Changes, changed
from tests.explain.table.words import UNBOUND

CORDONED = "0/16 nodes are available: 16 node(s) were unschedulable."


def unplaced(*ages: float, scheduler: str = "default-scheduler", **words: str) -> tuple[Pod, ...]:
    """The pods, about which their scheduler has said something so many seconds ago.

    `words` are what it said of the pods with these positions (`_0`), or of all others (`rest`).
    """
    return tuple(
        replace(
            each,
            group="",
            scheduler=scheduler,
            unscheduled=words.get(f"_{at}", words.get("rest", CORDONED)),
            said_at=NOW - age,
        )
        for at, (each, age) in enumerate(zip(pods(), ages, strict=True))
    )


def refused(*own: Pod, **more: Any) -> Changes:
    return {**UNBOUND, "pods": own, **more}


KAI_MOVES = tuple(
    replace(n, unschedulable=True, labels={**n.labels, KAI_CORDONS[0]: ""})
    if n.name == "gpu-01"
    else replace(n, unschedulable=n.name in ("gpu-00", "gpu-02"))
    for n in nodes()
)
SAYS = "default-scheduler says: 0/16 nodes are available"
CASES: dict[str, tuple[Changes, str]] = {
    "the newest of equal messages": (
        refused(*unplaced(60, 300, 10, 90)),
        f"{SAYS}: 16 node(s) were unschedulable (10 seconds ago)",
    ),
    "messages that differ": (
        refused(*unplaced(60, 300, 10, 90, _1="1 Too many pods", _3="1 Too many pods")),
        "default-scheduler says: 1 Too many pods (90 seconds ago)",
    ),
    "two cordoned nodes, and one that KAI Resource Management moves": (
        refused(*unplaced(9, 9, 9, 9), nodes=KAI_MOVES),
        f"{SAYS}: 16 node(s) were unschedulable (9 seconds ago)",
    ),
    "only a node that KAI Resource Management moves": (
        refused(*unplaced(9, 9, 9, 9), nodes=(*nodes()[:1], KAI_MOVES[1], *nodes()[2:])),
        f"{SAYS}: 16 node(s) were unschedulable (9 seconds ago)",
    ),
    "no node is cordoned any more": (
        refused(*unplaced(9, 9, 9, 9)),
        f"{SAYS}: 16 node(s) were unschedulable (9 seconds ago)",
    ),
    "nodes may not be read": (
        refused(*unplaced(9, 9, 9, 9), nodes=(), unseen={"nodes": "forbidden"}),
        f"{SAYS}: 16 node(s) were unschedulable (9 seconds ago)",
    ),
    "a pod with a gate was refused before it had the gate": (
        refused(*(replace(pod, gates=("a.b/c",)) for pod in unplaced(9, 9, 9, 9))),
        "4 pods have the scheduling gate a.b/c, which some other controller must remove",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), CASES.values(), ids=CASES)
def test_a_scheduler_that_refuses_pods(changes: Changes, text: str, answered: Asking) -> None:
    assert text in [reason.text for reason in answered(facts(**changes), GANG_REF).reasons]


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (
            "terminating pod on the nominated node",
            "Wait until the terminating pods on the nominated node have ended. If this takes longer",
        ),
        ("pod group is not ready, 2 Insufficient cpu", "Request less cpu per pod"),
        (
            "1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, 2 Too many pods",
            "Request less cpu per pod",
        ),
        (
            "2 node(s) had untolerated taint {node.kubernetes.io/unschedulable: }",
            "Wait until the scheduler tries again: no node",
        ),
        (
            "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }, 1 node(s) had"
            " untolerated taint {dedicated: x}",
            "Add a toleration for dedicated",
        ),
        (
            "1 node(s) had untolerated taint {node-role.kubernetes.io/master: }, 1 Insufficient cpu",
            "Request less cpu per pod",
        ),
        (
            "3 node(s) had untolerated taints {a: , b: }, 1 node(s) had untolerated taint(s) {a: x}",
            "Add a toleration for a to",
        ),
        (
            "claim a/b, request gpu: has subrequests, but the DRAPrioritizedList feature is disabled",
            "Request one DeviceClass (exactly) instead of alternatives",
        ),
        (
            "1 node(s) had untolerated taint {ToBeDeletedByClusterAutoscaler: 17}",
            "Ask the platform team for other nodes: an autoscaler is removing the nodes with the"
            " taint ToBeDeletedByClusterAutoscaler",
        ),
        (
            "1 node(s) had untolerated taint(s) {remediator.kubernetes.azure.com/unschedulable: }",
            "Ask the platform team for other nodes: the cloud is about to stop the nodes with the"
            " taint remediator.kubernetes.azure.com/unschedulable",
        ),
        (
            "1 node(s) had untolerated taint {karpenter.sh/disrupted: }, 1 node(s) had untolerated"
            " taint {dedicated: x}",
            "Add a toleration for dedicated to",
        ),
        (
            "2 node(s) had untolerated taint {node.cilium.io/agent-not-ready: }, 1 node(s) had"
            " untolerated taint {node.kubernetes.io/not-ready: }",
            "Ask the platform team why the nodes with the taint node.cilium.io/agent-not-ready are"
            " not ready: a component of the node removes it once",
        ),
        (
            "1 node(s) had untolerated taint {node.cloudprovider.kubernetes.io/uninitialized: true},"
            " 1 node(s) had untolerated taint {ebs.csi.aws.com/agent-not-ready: }",
            "Ask the platform team why the nodes with the taints"
            " node.cloudprovider.kubernetes.io/uninitialized and ebs.csi.aws.com/agent-not-ready are"
            " not ready: a component of the node removes them once",
        ),
        (
            "1 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }",
            "Ask the platform team to repair the nodes with the taint node.kubernetes.io/disk",
        ),
    ],
)  # fmt: skip
def test_what_helps_against_several_causes(words: str, remedy: str, answered: Asking) -> None:
    """No node has room, so that a missing resource may be the cause."""
    full = tuple(occupant(node.name) for node in nodes())
    state = refused(*unplaced(9, 9, 9, 9, rest=words), *full)
    reasons = answered(facts(**state), GANG_REF).reasons
    [told] = [reason for reason in reasons if reason.id == "SchedulerRefuses"]
    assert told.remedy.startswith(remedy)


UNNAMED = "0/16 nodes are available: 16 node(s) had untolerated taint(s)"


@pytest.mark.parametrize(
    ("keys", "changes", "remedy"),
    [
        (("dedicated",), {}, "Add a toleration for dedicated to the pod template"),
        (
            ("karpenter.sh/disrupted", "node.kubernetes.io/unschedulable"),
            {},
            "Ask the platform team for other nodes: an autoscaler is removing the nodes",
        ),
        ((), {}, "Compare the taints of the nodes with the tolerations in the pod template"),
        (
            ("dedicated",),
            {"skipped": frozenset({"nodes"})},
            "Compare the taints of the nodes with the tolerations in the pod template",
        ),
    ],
)
def test_taints_that_a_scheduler_does_not_name_are_those_of_the_nodes(
    keys: tuple[str, ...], changes: Changes, remedy: str, answered: Asking
) -> None:
    """Since 1.34.2, kube-scheduler no longer names them."""
    taints = tuple(Taint(key, "", "NoSchedule") for key in keys)
    tainted = tuple(replace(node, taints=taints) for node in nodes())
    state = {**refused(*unplaced(9, 9, 9, 9, rest=UNNAMED)), "nodes": tainted, **changes}
    reasons = answered(facts(**state), GANG_REF).reasons
    [told] = [reason for reason in reasons if reason.id == "SchedulerRefuses"]
    assert told.remedy.startswith(remedy)


def silent(scheduler: str, *ages: float | None, **changes: Any) -> Changes:
    own = (
        replace(pod, group="", scheduler=scheduler, created=None if age is None else NOW - age)
        for pod, age in zip(pods(), ages, strict=False)
    )
    return {**UNBOUND, "pods": tuple(own), **changes}


ACTS = occupant("gpu-00", scheduler="volcano")
SILENT: dict[str, tuple[Changes, list[str]]] = {
    "for a minute, as the oldest pods": (
        {"pods": (*silent("volcano", 60, 59, 900, 59)["pods"], ACTS)},
        ['2 pods use scheduler "volcano", which has been silent about them for 15 minutes'],
    ),
    "for less than a minute": (
        {"pods": (*silent("volcano", 59, 59, 59, 59)["pods"], ACTS)},
        [],
    ),
    "about one pod": (
        {"pods": (*silent("volcano", 90, 5, None, 5)["pods"], ACTS)},
        ['1 pod uses scheduler "volcano", which has been silent about it for 90 seconds'],
    ),
    "a name that nobody has, for a minute": (
        silent("our-own", 61, 5, 5, 5),
        ['1 pod uses scheduler "our-own", and no scheduler of that name has acted for 61 seconds'],
    ),
    "a misspelt name, at once": (
        silent("kai-schedulr", 5, 9, 5, 5),
        ['4 pods use scheduler "kai-schedulr", and no scheduler of that name has acted for 9 seconds. Did you mean kai-scheduler?'],
    ),
    "two names, in their order": (
        {**UNBOUND, "pods": (*silent("z-own", 90, 90)["pods"], *silent("a-own", 90, 90, 90, 90)["pods"][2:])},
        [
            '2 pods use scheduler "a-own", and no scheduler of that name has acted for 90 seconds',
            '2 pods use scheduler "z-own", and no scheduler of that name has acted for 90 seconds',
        ],
    ),
    "a name for which Grove has a profile": (
        {**silent("our-own", 90, 90, 90, 90), "gangs": (gang(scheduler="our-own"),)},
        ['4 pods use scheduler "our-own", and no scheduler of that name has acted for 90 seconds'],
    ),
    "pods with gates": (
        {**UNBOUND, "pods": tuple(replace(pod, gates=("a.b/c",)) for pod in silent("our-own", 90, 90, 90, 90)["pods"])},
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "texts"), SILENT.values(), ids=SILENT)
def test_a_scheduler_that_is_silent(changes: Changes, texts: list[str], answered: Asking) -> None:
    reasons = answered(facts(**{**UNBOUND, **changes}), GANG_REF).reasons
    assert [each.text for each in reasons if each.id == "SchedulerSilent"] == texts


NO_LUCK = Said("Other", "no luck", time=NOW - 60)


def refused_by_kai(**changes: Any) -> Changes:
    return {"pod_groups": (pod_group(said=(NO_LUCK,), **changes),)}


@pytest.mark.parametrize(
    ("changes", "refuses"),
    [
        pytest.param(refused_by_kai(), True, id="after all that is there was created"),
        pytest.param(refused_by_kai(created=NOW - 60), True, id="when the PodGroup was created"),
        pytest.param(refused_by_kai(created=NOW - 59), False, id="the PodGroup is newer"),
        pytest.param(
            {**refused_by_kai(), "pods": (*pods()[:3], replace(pods()[3], created=NOW - 59))},
            False,
            id="a pod is newer",
        ),
        pytest.param(
            {
                **refused_by_kai(),
                "queues": (Queue("root"), Queue("team-llm", "root", created=NOW - 59)),
            },
            False,
            id="the queue is newer",
        ),
        pytest.param(
            {
                **refused_by_kai(),
                "queues": (Queue("root", created=NOW), Queue("team-llm", "root", created=NOW - 61)),
            },
            True,
            id="only the queue above is newer",
        ),
        pytest.param(
            {"pod_groups": (pod_group(said=(replace(NO_LUCK, time=NOW - 120),)),)},
            True,
            id="two minutes ago",
        ),
        pytest.param(
            {"pod_groups": (pod_group(said=(replace(NO_LUCK, time=None),)),)},
            False,
            id="nobody knows when",
        ),
    ],
)
def test_kai_s_words_count_unless_something_was_created_since(
    changes: Changes, refuses: bool
) -> None:
    reasons = answer(facts(**changes)).reasons
    assert ("KaiRefuses" in {reason.id for reason in reasons}) is refuses


@pytest.mark.parametrize(
    ("changes", "is_silent"),
    [
        ({"pods": pods(created=NOW - 60)}, True),
        ({"pods": pods(created=NOW - 59)}, False),
        ({"pods": (*pods()[:3], replace(pods()[3], scheduler="default-scheduler"))}, False),
        ({"pods": (*pods()[:3], replace(pods()[3], gates=("grove.io/podgang-pending-creation",)))}, False),
        ({"pods": pods(unscheduled="no room", said_at=NOW - 900)}, False),
    ],
    ids=["a minute", "less", "another scheduler too", "a gate", "it has said something"],
)  # fmt: skip
def test_kai_is_silent_about_all_pods_of_a_gang(changes: Changes, is_silent: bool) -> None:
    reasons = answer(facts(**changes)).reasons
    assert ("KaiSilent" in {reason.id for reason in reasons}) is is_silent


def test_kai_is_silent_in_a_node_pool(answered: Asking) -> None:
    pool = {"kai.scheduler/node-pool": "h100"}
    state = facts(
        nodes=tuple(replace(n, labels={**n.labels, **pool}) for n in nodes()),
        pod_groups=(pod_group(pool="h100"),),
        queues=(Queue("root", pool="h100"), Queue("team-llm", "root", pool="h100")),
    )
    [reason] = answered(state).reasons
    assert (reason.id, "runs for node pool h100," in reason.remedy) == ("KaiSilent", True)


def test_nodes_that_are_cordoned_are_named_in_a_command(answered: Asking) -> None:
    state = refused(*unplaced(9, 9, 9, 9), nodes=changed(("gpu-00", "gpu-03"), unschedulable=True))
    [reason] = answered(facts(**state), GANG_REF).reasons
    assert reason.commands == ("kubectl uncordon gpu-00 gpu-03",)


ALONE = "0/16 nodes are available: 16 node(s) didn't match pod affinity rules."
ADDED = "Correct the annotation alpha.jobset.sigs.k8s.io/exclusive-topology, or ask the platform team to label nodes with"


@pytest.mark.parametrize(
    ("level", "unseen", "start"),
    [
        pytest.param("example.com/hall", {}, f"{ADDED} example.com/hall", id="no node has it"),
        pytest.param(HOST, {}, "Correct podAffinity", id="nodes have it"),
        pytest.param("", {}, "Correct podAffinity", id="the affinity is the user's"),
        pytest.param(
            "example.com/hall", {"nodes": "forbidden"}, "Correct podAffinity", id="nodes not read"
        ),
    ],
)
def test_an_affinity_that_a_controller_adds_is_not_in_the_template(
    level: str, unseen: dict[str, str], start: str
) -> None:
    leaders = tuple(replace(pod, exclusive=level) for pod in unplaced(9, 9, 9, 9, rest=ALONE))
    reasons = answer(facts(**refused(*leaders), unseen=unseen)).reasons
    [known] = [reason for reason in reasons if reason.id == "SchedulerRefuses"]
    assert known.remedy.startswith(start)
