"""What is said of ComputeDomains: their nodes, the pods that use them, and NVIDIA's daemon pods.

Tests `app/explain/reasons/compute_domains.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.reasons.compute_domains import _workload_of
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.identity import NOWHERE, Ref
from app.facts.kubernetes.claim import Consumer, DeviceClass, ResourceClaim
from app.facts.kubernetes.pod import Leader, Pod, PodClaim, Stalled
from app.facts.labels import NVLINK_DOMAIN
from app.facts.nvidia.computedomain import ComputeDomain, DomainClique, DomainNode
from app.facts.rows import ROOM
from app.rules.mnnvl.sets import GROVE_FINALIZER
from tests.explain.fleet import CLASSES, NAMESPACE, NOW, answer, facts, nodes, placed, pods
from tests.explain.table.recorded import Asking
from tests.explain.table.row import TEMPLATED, Changes, domain
from tests.explain.table.words import warned

GPUS = ("gpu-00", "gpu-01", "gpu-02", "gpu-03")
READY = domain(*GPUS)
LABELLED = tuple(replace(n, labels={**n.labels, NVLINK_DOMAIN: "c.1"}) for n in nodes())
TWO_OF_FOUR = "ComputeDomain llm-0-cd: 2 of 4 nodes are ready, not gpu-02 and gpu-03"


def daemon(node: str, **changes: Any) -> Pod:
    """The daemon pod of the ComputeDomain on a node."""
    made = Pod(
        "nvidia",
        f"daemon-{node}",
        f"uid-daemon-{node}",
        node=node,
        phase="Running",
        daemon_of="uid-cd",
        created=NOW - 600,
    )
    return replace(made, **changes)


def daemons(*others: Pod, ready: tuple[str, ...] = ("gpu-00", "gpu-01"), **more: Any) -> Changes:
    """Some nodes of a ComputeDomain are ready, and these daemon pods exist."""
    state = domain(*ready)
    return {**state, "nodes": LABELLED, "pods": (*state["pods"], *others), **more}


def pending(name: str) -> Pod:
    """A daemon pod without a node."""
    said = "1 node(s) had untolerated taint(s)"
    return daemon("", name=name, phase="Pending", unscheduled=said, said_at=NOW - 60)


def without_node(count: int, number: int = 4, *, old: bool = True, **changes: Any) -> Changes:
    """The last pods of the gang have no node, and the ComputeDomain requires some nodes."""
    state = domain("gpu-00", "gpu-01", number=number, old=old)
    claiming = tuple(replace(pod, claims=(TEMPLATED,), **changes) for pod in pods()[-count:])
    return {**state, "nodes": LABELLED, "pods": (*state["pods"][:-count], *claiming)}


def run(state: Changes) -> Changes:
    """The containers of all pods that have a node run."""
    started = (
        replace(pod, phase="Running", waiting=()) if pod.node else pod for pod in state["pods"]
    )
    return {**state, "pods": tuple(started)}


CRASHES = Stalled("imex", "CrashLoopBackOff", restarts=3, ended="exit code 1")
CREATING = {"phase": "Pending", "waiting": ("ContainerCreating",)}
OTHER_CLIQUE = DomainClique(NAMESPACE, "uid-other.0", (DomainNode("gpu-03", True),))
IN_CLIQUES = (
    DomainClique(NAMESPACE, "uid-cd.0", (DomainNode("gpu-02", True), DomainNode("gpu-03", False))),
    OTHER_CLIQUE,
)
BOUND = tuple(replace(pod, bound=NOW - 600) for pod in READY["pods"])
OF_KUBELET = tuple(
    warned(pod.ref, pod.uid, "FailedMount", 'secret "s" not found', "kubelet") for pod in BOUND
)
TWO_READY = (DomainNode("gpu-00", True), DomainNode("gpu-01", True))
ONLY_REPEATS = tuple(
    warned(pod.ref, pod.uid, "Failed", "ComputeDomain llm-0-cd is not ready", "kubelet")
    for pod in BOUND
)

CASES: dict[str, tuple[Changes, str]] = {
    "the daemon pods of both nodes run": (
        daemons(daemon("gpu-02"), daemon("gpu-03")),
        f"{TWO_OF_FOUR}. Their daemon pods run, but the driver does not report them as ready",
    ),
    "the daemon pod of the only node runs": (
        daemons(daemon("gpu-03"), ready=("gpu-00", "gpu-01", "gpu-02")),
        "ComputeDomain llm-0-cd: 3 of 4 nodes are ready, not gpu-03. The daemon pod there runs, but the driver does not report it as ready",
    ),
    "one node of four is ready, and one more by its ComputeDomainClique": (
        daemons(ready=("gpu-00",), domain_cliques=IN_CLIQUES),
        "ComputeDomain llm-0-cd: 2 of 4 nodes are ready, not gpu-01 and gpu-03. No daemon pod is on gpu-01 and gpu-03",
    ),
    "all nodes are ready, and the ComputeDomain requires more": (
        {**domain("gpu-00", "gpu-01", "gpu-02", "gpu-03", number=8), "pods": BOUND},
        "4 pods of llm-0 have had a node for up to 10 minutes and did not start: ContainerCreating",
    ),
    "the daemon pod of one node crashes, and the ComputeDomain requires more": (
        {
            **daemons(daemon("gpu-03", stalled=(CRASHES,), waiting=("CrashLoopBackOff",))),
            "compute_domains": domain("gpu-00", "gpu-01", "gpu-02", number=8)["compute_domains"],
        },
        "ComputeDomain llm-0-cd: 3 of 4 nodes are ready, not gpu-03. Daemon pods that don't run: daemon-gpu-03 (CrashLoopBackOff); Container imex is in CrashLoopBackOff (3 restarts, exit code 1)",
    ),
    "a daemon pod does not start on a node outside NVLink domains": (
        {**daemons(daemon("gpu-02", **CREATING), daemon("gpu-03")), "nodes": nodes()},
        f"{TWO_OF_FOUR}. Daemon pods that don't run: daemon-gpu-02 (ContainerCreating)",
    ),
    "an old driver never reports numNodes: 0 as ready": (
        domain(old=True),
        "ComputeDomain llm-0-cd: gpu-00, gpu-01, gpu-02 and gpu-03 are not ready. Before 25.8, NVIDIA's DRA driver never reports numNodes: 0 as ready",
    ),
    "the node of a daemon pod that runs is not ready": (
        daemons(
            daemon("gpu-02"),
            daemon("gpu-03"),
            nodes=tuple(replace(n, ready=n.name != "gpu-03") for n in LABELLED),
        ),
        f"{TWO_OF_FOUR}. Node gpu-03 is not ready, so daemon pods may not run there",
    ),
    "one daemon pod crashes, and the other one runs": (
        daemons(
            daemon("gpu-03", stalled=(CRASHES,), waiting=("CrashLoopBackOff",)), daemon("gpu-02")
        ),
        f"{TWO_OF_FOUR}. Daemon pods that don't run: daemon-gpu-03 (CrashLoopBackOff); Container imex is in CrashLoopBackOff (3 restarts, exit code 1)",
    ),
    "two daemon pods do not start": (
        daemons(daemon("gpu-03", **CREATING), daemon("gpu-02", phase="Pending")),
        f"{TWO_OF_FOUR}. Daemon pods that don't run: daemon-gpu-02 (Pending) and daemon-gpu-03 (ContainerCreating)",
    ),
    "daemon pods are pending": (
        daemons(pending("daemon-b"), pending("daemon-a"), daemon("gpu-02")),
        f"{TWO_OF_FOUR}. No daemon pod is on gpu-03: daemon-a is pending, default-scheduler says: 1 node(s) had untolerated taint(s) (60 seconds ago)",
    ),
    "a daemon pod is pending, and no scheduler says why": (
        daemons(daemon("", phase="Pending")),
        f"{TWO_OF_FOUR}. No daemon pod is on gpu-02 and gpu-03: daemon- is pending",
    ),
    "the daemon pods there are of another ComputeDomain, or have ended": (
        daemons(daemon("gpu-02", daemon_of="uid-other"), daemon("gpu-03", phase="Failed")),
        f"{TWO_OF_FOUR}. No daemon pod is on gpu-02 and gpu-03",
    ),
    "the class of the daemons does not exist": (
        daemons(device_classes=(DeviceClass(CLASSES[0]),)),
        f"{TWO_OF_FOUR}. DeviceClass compute-domain-daemon.nvidia.com does not exist",
    ),
    "pods of other namespaces may not be read": (
        daemons(unseen={ROOM: "forbidden"}),
        TWO_OF_FOUR,
    ),
    "one of its pods has no node": (
        without_node(1),
        "ComputeDomain llm-0-cd: 0 of 4 nodes are ready, not gpu-00, gpu-01 and gpu-02; 1 more node must get one of its pods. 1 of its pods has no node yet",
    ),
    "two of its pods have no node": (
        without_node(2),
        "ComputeDomain llm-0-cd: 0 of 4 nodes are ready, not gpu-00 and gpu-01; 2 more nodes must get one of its pods. 2 of its pods have no node yet",
    ),
    "one of its pods has no node, and it requires no number of nodes": (
        without_node(1, number=0, old=False),
        "ComputeDomain llm-0-cd: 2 of 3 nodes are ready, not gpu-02. No daemon pod is on gpu-02",
    ),
    "the pods that have a node run, and one has none": (
        run(without_node(1)),
        "ComputeDomain llm-0-cd is not ready: 0 of 4 nodes are ready, not gpu-00, gpu-01 and gpu-02; 1 more node must get one of its pods. Its pods that have a node run",
    ),
    "the kubelet names another cause": (
        {**daemons(), "pods": BOUND, "events": OF_KUBELET},
        TWO_OF_FOUR,
    ),
    "the kubelet only repeats that it is not ready": (
        {**daemons(), "pods": BOUND, "events": ONLY_REPEATS},
        f"{TWO_OF_FOUR}. No daemon pod is on gpu-02 and gpu-03",
    ),
    "a ComputeDomain of one more node than pods exist": (
        {**domain(number=2, old=True), "pods": placed("gpu-00", claims=(TEMPLATED,), waiting=("ContainerCreating",))},
        "ComputeDomain llm-0-cd requires 2 nodes (numNodes), but only 1 pod uses it, so it cannot become ready",
    ),
    "Grove's finalizer and another one keep what somebody has deleted": (
        domain("gpu-00", "gpu-01", "gpu-02", "gpu-03", held_by=("example.com/a", GROVE_FINALIZER)),
        "ComputeDomain llm-0-cd is being deleted, but Grove's finalizer keeps it, so Grove does not create another one",
    ),
    "two finalizers keep what somebody has deleted": (
        domain("gpu-00", "gpu-01", "gpu-02", "gpu-03", held_by=("example.com/a", "example.com/b")),
        "ComputeDomain llm-0-cd is being deleted, and finalizers example.com/a and example.com/b keep it. llm-0-pool-0-workers-0, llm-0-pool-0-workers-1, llm-0-pool-0-workers-2 and llm-0-router-0 still use it",
    ),
    "gated pods are not needed for the nodes that it requires": (
        without_node(2, number=2, gates=("grove.io/podgang-pending-creation",)),
        "ComputeDomain llm-0-cd: gpu-00 and gpu-01 are not ready. No daemon pod is on gpu-00 and gpu-01",
    ),
    "it is ready, and so are the nodes of two pods that were not started": (
        {
            **daemons(),
            "pods": BOUND,
            "compute_domains": (replace(READY["compute_domains"][0], ready=True, nodes=TWO_READY),),
        },
        "2 pods of llm-0 have had a node for up to 10 minutes and did not start: ContainerCreating",
    ),
    "a ComputeDomain of as many nodes as pods, of which two are gated": (
        without_node(2, gates=("grove.io/podgang-pending-creation",)),
        "ComputeDomain llm-0-cd requires 4 nodes (numNodes), but 2 of its 4 pods have scheduling gates, and pods with a node don't start before the domain is ready",
    ),
}  # fmt: skip


UNTROUBLED = {
    "a driver before 25.8 reports only the whole domain as ready": {
        "compute_domains": (replace(domain(number=4, old=True)["compute_domains"][0], ready=True),)
    },
    "all nodes are ready, and the domain requires more": domain(*GPUS, number=8),
    "pods are gated, and others start once the daemon of their node is ready": without_node(
        2, number=4, old=False, gates=("grove.io/podgang-pending-creation",)
    ),
}


@pytest.mark.parametrize("changes", UNTROUBLED.values(), ids=UNTROUBLED)
def test_a_compute_domain_that_keeps_no_pod_waiting(changes: Changes, answered: Asking) -> None:
    reasons = answered(facts(**{**READY, **changes})).reasons
    assert not {"DomainNotReady", "DomainDeadlock"} & {reason.id for reason in reasons}


@pytest.mark.parametrize(("changes", "text"), CASES.values(), ids=CASES)
def test_a_compute_domain(changes: Changes, text: str, answered: Asking) -> None:
    assert text in [reason.text for reason in answered(facts(**changes)).reasons]


@pytest.mark.parametrize("told", [False, True])
def test_workloads_that_share_a_compute_domain_may_be_in_different_nvlink_domains(
    told: bool, answered: Asking
) -> None:
    """A ComputeDomain may serve a whole namespace. Only pods of one workload share memory."""
    values = dict(
        zip(("gpu-00", "gpu-01", "gpu-02", "gpu-03"), ("c.1", "c.1", "c.2", "c.2"), strict=True)
    )
    labelled = (
        replace(n, labels={**n.labels, NVLINK_DOMAIN: values.get(n.name, "c.3")}) for n in nodes()
    )
    jobs = (
        replace(
            pod,
            place=NOWHERE,
            made_for=(Ref("Job", NAMESPACE, "one" if told else values[pod.node]),),
        )
        for pod in READY["pods"]
    )
    state = {**READY, "nodes": tuple(labelled), "pods": tuple(jobs)}
    ref = Ref("ComputeDomain", NAMESPACE, "llm-0-cd")
    ids = {reason.id for reason in answered(facts(**state), ref).reasons}
    assert ("NvlinkSplit" in ids) is told


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(
            {"gpu-00": "c.1", "gpu-01": "c.1", "gpu-02": "c.2"},
            ["3 pods of ComputeDomain llm-0-cd are in 2 NVLink domains"],
            id="the pod on gpu-03 is not counted",
        ),
        pytest.param(
            {"gpu-00": "c.1", "gpu-01": "c.1", "gpu-02": "c.1"},
            [],
            id="a node without the label is no NVLink domain",
        ),
    ],
)
def test_pods_on_nodes_without_an_nvlink_domain_are_not_counted(
    values: dict[str, str], expected: list[str]
) -> None:
    labelled = tuple(
        replace(node, labels={**node.labels, NVLINK_DOMAIN: values[node.name]})
        if node.name in values
        else node
        for node in nodes()
    )
    reasons = answer(facts(**{**READY, "nodes": labelled})).reasons
    split = [
        reason for reason in reasons if reason.id == "NvlinkSplit" and reason.severity == "warning"
    ]
    assert [reason.text.partition(" (nvidia.com")[0] for reason in split] == expected
    assert all(
        "Pod inference/llm-0-pool-0-workers-2" not in map(str, each.objects) for each in split
    )


def test_groups_of_a_leaderworkerset_may_be_in_different_nvlink_domains() -> None:
    """The StatefulSet of a group's workers has the name of the leader."""
    lws = Ref("LeaderWorkerSet", NAMESPACE, "vllm")
    leader, worker, *_ = READY["pods"]
    of_set = {"place": NOWHERE, "made_for": (lws,)}
    first = replace(
        leader,
        name="vllm-0",
        leads=Leader(2, ready=True),
        controller=Ref("StatefulSet", NAMESPACE, "vllm"),
        **of_set,
    )
    second = replace(worker, controller=Ref("StatefulSet", NAMESPACE, "vllm-0"), **of_set)
    other = replace(first, name="vllm-1")
    assert _workload_of(first) == _workload_of(second) != _workload_of(other)


@pytest.mark.parametrize(
    ("held_by", "words"),
    [
        (("resource.nvidia.com/computeDomain",), "keeps it. If it stays, ask the platform team"),
        (("a.b/c", "resource.nvidia.com/computeDomain"), "keep it. If it stays, ask the platform"),
        ((), "; nodes become ready when pods with ResourceClaimTemplate ch are bound to them"),
    ],
)
def test_a_domain_without_pods_that_is_deleted_does_not_become_ready(
    held_by: tuple[str, ...], words: str
) -> None:
    domain = ComputeDomain(NAMESPACE, "cd", template="ch", held_by=held_by)
    answer = explain(Index(Snapshot(compute_domains=(domain,))), domain.ref)
    assert answer
    assert words in answer.headline
    assert ("being deleted" in answer.headline) is bool(held_by)


LEAVING = replace(READY["compute_domains"][0], held_by=("resource.nvidia.com/computeDomain",))


@pytest.mark.parametrize(
    ("changes", "begin"),
    [
        pytest.param(
            {"compute_domains": (LEAVING,)},
            f"llm-0-cd is being deleted, and kept until these pods have ended: {pods()[1].name}, ",
            id="its pods run",
        ),
        pytest.param(
            {
                "compute_domains": (LEAVING,),
                "pods": tuple(replace(pod, deleting=NOW - 5) for pod in READY["pods"][1:3]),
            },
            "llm-0-cd is being deleted, and kept until these pods have ended:"
            f" {pods()[1].name} (terminating) and {pods()[2].name} (terminating)",
            id="its pods end after a scale-in",
        ),
        pytest.param(
            {
                "compute_domains": (LEAVING,),
                "pods": (replace(READY["pods"][1], deleting=NOW - 900),),
                "nodes": tuple(replace(node, ready=False) for node in nodes()),
            },
            "llm-0-cd is being deleted, and kept until these pods have ended:"
            f" {pods()[1].name} (terminating on gpu-01, which must be repaired or deleted)",
            id="its pod can't end",
        ),
        pytest.param({}, "llm-0-cd is placed", id="it is not deleted"),
    ],
)
def test_the_answer_about_a_compute_domain_says_that_it_is_deleted(
    changes: Changes, begin: str
) -> None:
    answer = explain(Index(facts(**{**READY, **changes})), READY["compute_domains"][0].ref)
    assert answer
    assert answer.headline.startswith(begin)


@pytest.mark.parametrize(
    ("consumers", "begin"),
    [
        (
            (pods()[1],),
            f"own is being deleted, and kept until these pods have ended: {pods()[1].name}",
        ),
        ((), "own is being deleted; "),
    ],
)
def test_the_answer_about_a_claim_says_that_it_is_deleted(
    consumers: tuple[Pod, ...], begin: str
) -> None:
    claim = ResourceClaim(
        NAMESPACE,
        "own",
        allocated=True,
        deleting=NOW - 60,
        consumers=tuple(Consumer(pod.name, pod.uid) for pod in consumers),
    )
    using = tuple(replace(pod, claims=(PodClaim("own", "own"),)) for pod in READY["pods"])
    answer = explain(Index(facts(pods=using, claims=(claim,))), claim.ref)
    assert answer
    assert answer.headline.startswith(begin)
