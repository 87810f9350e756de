"""Small clusters of which explain once told something false, or named a remedy that does not help.

If the remedy can be carried out on the objects, the last part of a test does that.
"""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import Answer, explain
from app.explain.placing.demand import Demand
from app.explain.reasons import placement
from app.explain.state.index import Index
from app.explain.state.read import facts_of
from app.facts.identity import Ref
from tests.explain.small import (
    FREE,
    Object,
    in_subgroup,
    made,
    node,
    pod,
    pod_group,
    queues,
    told,
    topology,
)
from tests.steps import steps

CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
PREFERS: Object = {"topologyConstraint": {"topology": "topo", "preferredTopologyLevel": "rack"}}
LABELS = {"zone": "z", "rack": "r"}


def said(answer: Answer) -> list[tuple[str, str, str]]:
    return [(each.id, each.text, each.remedy) for each in answer.reasons]


@pytest.mark.parametrize(
    ("closed", "text", "remedy"),
    [
        pytest.param(
            node("n0", ready=False, unschedulable=True, taints=[CORDON, NOT_READY]),
            "Node n0 is closed: not ready and cordoned",
            "Uncordon n0 and repair n0",
            id="a cordon that is left after the repair",
        ),
        pytest.param(
            node(
                "n0",
                taints=[
                    {"key": "a", "value": "1", "effect": "NoSchedule"},
                    {"key": "b", "effect": "NoExecute"},
                ],
            ),
            "Node n0 is closed: tainted a and tainted b",
            "Add the tolerations {key: a, value: 1, effect: NoSchedule} and {key: b, operator:"
            " Exists, effect: NoExecute} to the pod template or ask the platform team to remove the taints",
            id="two taints",
        ),
        pytest.param(
            node("n0", unschedulable=True, taints=[CORDON]),
            "Node n0 is closed: cordoned",
            "Uncordon n0",
            id="the taint of a cordon is no second cause",
        ),
        pytest.param(
            node("n0", taints=[NOT_READY]),
            "Node n0 is closed: tainted node.kubernetes.io/not-ready",
            "Repair n0: Kubernetes removes the taint node.kubernetes.io/not-ready once its cause"
            " is gone",
            id="a taint of Kubernetes alone",
        ),
        pytest.param(
            node(
                "n0",
                ready=False,
                taints=[{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}],
            ),
            "Node n0 is closed: not ready and tainted node.kubernetes.io/out-of-service",
            "Repair n0 and remove the taint node.kubernetes.io/out-of-service from n0 once the node"
            " has recovered",
            id="a taint that an administrator has to remove",
        ),
    ],
)
def test_all_causes_that_close_a_node_are_named(closed: Object, text: str, remedy: str) -> None:
    gang = [*queues(), pod_group("w", 1), pod("w-0", "w", 8)]
    assert said(told([closed, *gang], "PodGroup", "w")) == [("NodesUnfit", text, remedy)]


def test_a_node_whose_gpus_the_pods_cannot_use_needs_no_repair() -> None:
    mig = node("n0", labels={"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig.capable": "true"})
    mig["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] = "7"
    cordoned = node("n1", unschedulable=True)
    gang = [*queues(), pod_group("w", 1), pod("w-0", "w", 8)]
    [(_, text, remedy)] = said(told([mig, cordoned, *gang], "PodGroup", "w"))
    assert text == "1 of 2 nodes of the cluster is closed: 1 cordoned"
    assert remedy == "Uncordon n1"


GOLD = {"kai.scheduler/node-pool": "gold"}


@pytest.mark.parametrize(
    ("pool", "nodes", "reason", "text"),
    [
        pytest.param(
            "gold",
            [node("n0", ready=False, labels=GOLD), node("n1", 4)],
            "NodesUnfit",
            "Node n0 is closed: not ready",
            id="the only node of the pool is closed",
        ),
        pytest.param(
            "",
            [node("n0", ready=False), node("n1", 4, labels=GOLD)],
            "NodesUnfit",
            "Node n0 is closed: not ready",
            id="the only node without a pool is closed",
        ),
        pytest.param(
            "gold",
            [node("n0", 4, labels=GOLD), node("n1", 4)],
            "NeverFits",
            "No node of node pool gold has 8 GPUs, which a pod requests; the largest has 4 GPUs",
            id="no node of the pool is large enough",
        ),
        pytest.param(
            "",
            [node("n1", labels=GOLD), node("n0", 4)],
            "OutsidePool",
            "The gang is in no node pool, and the 1 node without a pool has no room for it; nodes"
            ' elsewhere: 1 in pool "gold"',
            id="one node is without a pool",
        ),
    ],
)
def test_only_nodes_of_the_pool_are_counted(
    pool: str, nodes: list[Object], reason: str, text: str
) -> None:
    gang = [*queues(pool), pod_group("w", 1, pool), pod("w-0", "w", 8)]
    [(found, words, _)] = said(told([*nodes, *gang], "PodGroup", "w"))
    assert (found, words) == (reason, text)


UNPREFERRED = (
    'Prefer no level instead of "rack": it would fit now on nodes that lack the label of a level'
)


@pytest.mark.parametrize(
    ("objects", "reason", "text", "remedy"),
    [
        pytest.param(
            [node("n0"), node("n1")],
            "NeverFits",
            "KAI uses no node for w, which prefers one rack: no node has the labels of all levels",
            UNPREFERRED,
            id="no node has the labels",
        ),
        pytest.param(
            [node("n0"), node("n1", 0), node("n2", 0)],
            "NeverFits",
            "KAI uses no node for w, which prefers one rack: no node has the labels of all levels",
            "Ask the platform team to label the nodes with zone and rack, or prefer no level",
            id="no node has the labels, and all together are too small",
        ),
        pytest.param(
            [node("n0", labels=LABELS), node("n1")],
            "NeverFits",
            "Together, the nodes that the pods may use have 8 GPUs, but w needs 16 GPUs",
            UNPREFERRED,
            id="too few nodes have the labels",
        ),
        pytest.param(
            [node("n0", labels=LABELS)],
            "NeverFits",
            "Together, the nodes that the pods may use have 8 GPUs, but w needs 16 GPUs",
            "Use smaller or fewer pods. Or ask the platform team for more nodes",
            id="the only node has the labels",
        ),
        pytest.param(
            [
                node("n0", labels=LABELS),
                node("n1", labels=LABELS),
                node("n2"),
                pod_group("o", 1),
                pod("o-0", "o", 8, "n0"),
            ],
            "NoDomainFits",
            "The nodes with the labels of all levels have no room for 2 pods of 8 GPUs, only for 1 of these pods",
            f"{UNPREFERRED}. Or wait until PodGroup o (1 pod) ends and room for 1 more pod is free."
            " If it runs indefinitely, ask its owner to stop it",
            id="other pods hold the nodes with the labels",
        ),
    ],
)
def test_a_preferred_level_excludes_nodes_without_labels(
    objects: list[Object], reason: str, text: str, remedy: str
) -> None:
    gang = [*queues(), topology(), pod_group("w", 2, **PREFERS)]
    pods = [pod(f"w-{number}", "w", 8) for number in range(2)]
    found = said(told([*objects, *gang, *pods], "PodGroup", "w"))
    assert [each for each in found if each[0] == reason] == [(reason, text, remedy)]

    if UNPREFERRED in remedy:
        free = pod_group("w", 2)
        answer = told([*objects, *queues(), topology(), free, *pods], "PodGroup", "w")
        assert [turn.next for turn in answer.line] == ["next"]


def test_pods_without_gpus_have_no_room_in_the_nodes_together() -> None:
    small = node("n0", pods="1")
    small["status"]["allocatable"]["pods"] = "1"
    gang = [*queues(), pod_group("w", 2), *(pod(f"w-{number}", "w", 0) for number in range(2))]
    [(reason, text, _)] = said(told([small, *gang], "PodGroup", "w"))
    short = "Even empty, the nodes have room for only 1 of 2 pods (nodes take too few pods)"
    assert (reason, text) == ("NeverFits", short)


def _with(obj: Object, **amounts: str) -> Object:
    """Let a node offer more resources, or a pod request more."""
    amounts = {name.replace("__", "/").replace("_", "-"): size for name, size in amounts.items()}
    if obj["kind"] == "Node":
        obj["status"]["allocatable"].update(amounts)
    else:
        obj["spec"]["containers"][0]["resources"]["requests"].update(amounts)
    return obj


MORE = "Or ask the platform team for more nodes"
FREED = (
    "Wait until PodGroup held (1 pod) ends and room for 1 more pod is free. If it runs"
    " indefinitely, ask its owner to stop it"
)


@pytest.mark.parametrize(
    ("on_node", "asked", "reason", "text", "remedy"),
    [
        pytest.param(
            {"cpu": "4"},
            {"cpu": "3"},
            "NeverFits",
            "Even empty, the nodes have room for only 1 of 2 pods of 1 GPU (not enough CPU)",
            f"Request at most 2 CPUs per pod, or use fewer pods. {MORE}",
            id="CPU",
        ),
        pytest.param(
            {"ephemeral_storage": "10Gi"},
            {"ephemeral_storage": "8Gi"},
            "NeverFits",
            "Even empty, the nodes have room for only 1 of 2 pods of 1 GPU (not enough"
            " ephemeral-storage)",
            f"Request at most 5 GiB of ephemeral storage per pod, or use fewer pods. {MORE}",
            id="ephemeral storage",
        ),
        pytest.param(
            {"rdma__ib": "1"},
            {"rdma__ib": "1"},
            "NeverFits",
            "Even empty, the nodes have room for only 1 of 2 pods of 1 GPU (not enough rdma/ib)",
            f"Use fewer pods. {MORE}",
            id="another device, of which no pod can request less",
        ),
        pytest.param(
            {"cpu": "3", "memory": "3Gi"},
            {"cpu": "2", "memory": "2Gi"},
            "NeverFits",
            "Even empty, the nodes have room for only 1 of 2 pods of 1 GPU",
            f"Use smaller or fewer pods. {MORE}",
            id="two resources at once",
        ),
    ],
)
def test_the_resource_that_is_short_is_named(
    on_node: Object, asked: Object, reason: str, text: str, remedy: str
) -> None:
    """The real KAI scheduler places such gangs once their pods request the amount in the remedy."""
    pods = [_with(pod(f"w-{number}", "w"), **asked) for number in range(2)]
    objects = [_with(node("n0"), **on_node), *queues(), pod_group("w", 2), *pods]
    assert said(told(objects, "PodGroup", "w")) == [(reason, text, remedy)]


def test_a_resource_without_any_smaller_amount_is_named_alone() -> None:
    large = _with(node("n0", 12), cpu="1100m")
    pods = [_with(pod(f"w-{number}", "w"), cpu="100m") for number in range(12)]
    objects = [large, *queues(), pod_group("w", 12), *pods]
    [(reason, _, remedy)] = said(told(objects, "PodGroup", "w"))
    assert reason == "NeverFits"
    assert remedy == f"Request less CPU per pod, or use fewer pods. {MORE}"


def test_only_the_pods_that_hold_the_short_resource_are_asked_to_end() -> None:
    """The pods of `four` have GPUs of the same node, and their end does not help."""
    others = [pod(f"four-{number}", "four", 1, "n0") for number in range(4)]
    pods = [
        _with(pod("held-0", "held", 1, "n0"), rdma__ib="1"),
        _with(pod("w-0", "w"), rdma__ib="1"),
    ]
    groups = [pod_group("four", 4), pod_group("held", 1), pod_group("w", 1)]
    cluster = [_with(node("n0"), rdma__ib="1"), *queues(), *groups, *others, *pods]
    [(reason, _, remedy)] = said(told(cluster, "PodGroup", "w"))
    assert (reason, remedy) == ("NoDomainFits", FREED)


def test_the_short_resource_of_the_domain_that_a_gang_must_join_is_named() -> None:
    nodes = [_with(in_rack(name, rack), rdma__ib="1") for name, rack in (("n0", "a"), ("n1", "a"))]
    groups = [pod_group("w", 2, **REQUIRES), pod_group("four", 1), pod_group("held", 1)]
    pods = [
        _with(pod("w-0", "w", node_name="n0"), rdma__ib="1"),
        _with(pod("w-1", "w"), rdma__ib="1"),
        pod("four-0", "four", 4, "n1"),
        _with(pod("held-0", "held", 1, "n1"), rdma__ib="1"),
    ]
    found = said(told([*nodes, topology(), *queues(), *groups, *pods], "PodGroup", "w"))
    assert found == [
        (
            "BoundToDomain",
            "1 of 2 pods of w runs in z/a, and the rest must join it, but z/a has no room for 1 pod"
            " of 1 GPU (not enough rdma/ib)",
            FREED.replace("is free.", "is free in z/a."),
        )
    ]


def test_gpu_memory_of_gpus_is_as_kai_counts_it() -> None:
    """Two pods of 8,192 MiB do not fit on a GPU of 16,384 MiB, because KAI counts 16,300 MiB."""
    sharing = {"pod-group-name": "w", "gpu-memory": "8192"}
    pods = [pod(f"w-{number}", "w", 0) for number in range(2)]
    for each in pods:
        each["metadata"]["annotations"] = sharing
        del each["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"]
    one = node("n0", 1, labels={"nvidia.com/gpu.memory": "16384"})
    [(reason, text, _)] = said(told([one, *queues(), pod_group("w", 2), *pods], "PodGroup", "w"))
    assert (reason, text) == (
        "NeverFits",
        "Even empty, the nodes have room for only 1 of 2 pods of 8,192 MiB of GPU memory (KAI counts"
        " 16,300 MiB per GPU: it rounds the label nvidia.com/gpu.memory down)",
    )


@pytest.mark.parametrize(
    ("gpus", "amounts", "short"),
    [
        pytest.param(1, {"rdma__ib": "1"}, "1 pod of 1 GPU (not enough rdma/ib)", id="a device"),
        pytest.param(0, {"cpu": "40"}, "1 pod (not enough CPU)", id="pods without GPUs"),
        pytest.param(5, {"rdma__ib": "1"}, "1 pod of 5 GPUs", id="GPUs too"),
    ],
)
def test_what_others_hold_is_named_unless_it_is_gpus(
    gpus: int, amounts: Object, short: str
) -> None:
    """It was said that 7 GPUs were free, but too fragmented, although another device was short."""
    pods = [
        _with(pod("held-0", "held", gpus, "n0"), **amounts),
        _with(pod("w-0", "w", gpus), **amounts),
    ]
    if not gpus:
        for each in pods:
            del each["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"]
    objects = [_with(node("n0"), rdma__ib="1"), *queues(), pod_group("held", 1), pod_group("w", 1)]
    found = said(told([*objects, *pods], "PodGroup", "w"))
    assert found == [("NoDomainFits", f"The nodes have no room for {short}", FREED)]


SUBGROUPS = [{"name": "a", "minMember": 2}, {"name": "b", "minMember": 1}]
ANNOTATIONS = (
    'Give the pods the annotations pod-group-name: w and kai.scheduler/skip-podgrouper: "true"'
)


@pytest.mark.parametrize(
    ("group", "others", "remedy"),
    [
        pytest.param(
            pod_group("w", 2),
            [pod("w-0", "pg-w-0")],
            f"{ANNOTATIONS}, and create them again: no pod names this PodGroup",
            id="KAI has grouped the pods by itself",
        ),
        pytest.param(
            pod_group("w", 3, subGroups=SUBGROUPS),
            [],
            f"{ANNOTATIONS}, and the label kai.scheduler/subgroup-name, and create them again: no"
            " pod names this PodGroup",
            id="with SubGroups",
        ),
        pytest.param(
            {
                **pod_group("w", 4),
                "metadata": {
                    "name": "w",
                    "namespace": "default",
                    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "uid": "u"}],
                },
            },
            [],
            "Create the missing pods",
            id="KAI made it for a workload",
        ),
    ],
)
def test_no_pod_names_a_podgroup(group: Object, others: list[Object], remedy: str) -> None:
    answer = told([node("n0"), *queues(), group, *others], "PodGroup", "w")
    assert [(reason.id, reason.remedy) for reason in answer.reasons] == [("GangIncomplete", remedy)]


@pytest.mark.parametrize(
    ("names", "text", "remedy"),
    [
        pytest.param(
            ["a", "b"],
            "2 of 3 required pods exist: a lacks 1 pod",
            "Create the missing pods, or lower minMember of SubGroup a to 1 in PodGroup w",
            id="a SubGroup lacks one of two pods",
        ),
        pytest.param(
            ["b"],
            "1 of 3 required pods exists: a lacks 2 pods",
            "Create the missing pods",
            id="a SubGroup has no pods: a minimum of 0 would start nothing",
        ),
        pytest.param(
            ["a", "b", ""],
            "2 of 3 required pods exist: a lacks 1 pod. w-2 exists, but is in no SubGroup, so KAI ignores it",
            "Set the label kai.scheduler/subgroup-name of w-2 to a SubGroup that lacks pods: a",
            id="a pod has no label",
        ),
        pytest.param(
            ["A", "B", "b"],
            "1 of 3 required pods exists: a lacks 2 pods. w-0 and w-1 exist, but are in no SubGroup, so KAI"
            " ignores them",
            "Set the label kai.scheduler/subgroup-name of w-0 and w-1 to a SubGroup that lacks pods: a",
            id="pods name SubGroups that do not exist",
        ),
    ],
)
def test_a_subgroup_lacks_pods(names: list[str], text: str, remedy: str) -> None:
    group = pod_group("w", 3, subGroups=SUBGROUPS)
    pods = [in_subgroup(f"w-{number}", "w", name) for number, name in enumerate(names)]
    answer = told([node("n0"), *queues(), group, *pods], "PodGroup", "w")
    assert said(answer) == [("GangIncomplete", text, remedy)]

    if "Set the label" in remedy:
        right = [in_subgroup(f"w-{number}", "w", name) for number, name in enumerate("aab")]
        answer = told([node("n0"), *queues(), group, *right], "PodGroup", "w")
        assert [turn.next for turn in answer.line] == ["next"]


@pytest.mark.parametrize(
    ("asked", "subgroup", "text"),
    [
        (
            "Pod/x",
            "",
            "x has no label kai.scheduler/subgroup-name, and the SubGroups of PodGroup w are a and"
            " b, so KAI ignores this pod",
        ),
        (
            "PodGroup/w",
            "A",
            "x has the label kai.scheduler/subgroup-name=A, and the SubGroups of PodGroup w are a"
            " and b, so KAI ignores this pod",
        ),
    ],
)
def test_a_pod_outside_the_subgroups_of_a_gang_that_runs(
    asked: str, subgroup: str, text: str
) -> None:
    """KAI says so in an event of the pod; the pod was once said to be placed."""
    running = [in_subgroup(f"w-{number}", "w", name, "n0") for number, name in enumerate("aab")]
    group = pod_group("w", 3, subGroups=SUBGROUPS)
    answer = told(
        [node("n0"), *queues(), group, *running, in_subgroup("x", "w", subgroup)],
        *asked.split("/"),
    )
    assert answer.state == "waits"
    remedy = "Set the label kai.scheduler/subgroup-name of the pods and of their template to one of a and b"
    assert said(answer) == [("WorkloadMissing", text, remedy)]

    right = [node("n0"), *queues(), group, *running, in_subgroup("x", "w", "b")]
    assert said(told(right, "PodGroup", "w"))[0][0] == "GangSplit"  # a note


@pytest.mark.parametrize("subgroup", ["p", "a"])
def test_only_subgroups_without_children_have_pods(subgroup: str) -> None:
    nested = [{"name": "p"}, {"name": "a", "parent": "p", "minMember": 1}]
    group = pod_group("w", 1, subGroups=nested)
    pods = [in_subgroup("w-0", "w", "a", "n0"), in_subgroup("x", "w", subgroup)]
    ids = [
        reason.id for reason in told([node("n0"), *queues(), group, *pods], "PodGroup", "w").reasons
    ]
    assert ids == (["WorkloadMissing"] if subgroup == "p" else ["GangSplit"])


def test_pods_without_label_are_in_the_subgroup_default() -> None:
    group = pod_group("w", 1, subGroups=[{"name": "default", "minMember": 1}])
    objects = [node("n0"), *queues(), group, in_subgroup("w-0", "w", "")]
    answer = told(objects, "PodGroup", "w")
    assert said(answer) == []
    assert [turn.next for turn in answer.line] == ["next"]


def test_the_subgroups_of_a_grove_gang_follow_within_seconds() -> None:
    labels = {"grove.io/podgang": "w", "kai.scheduler/subgroup-name": "c"}
    group = pod_group("w", 1, subGroups=[{"name": "a", "minMember": 1}])
    pods = [in_subgroup("w-0", "w", "a", "n0"), pod("w-1", "w", labels=labels)]
    assert said(told([node("n0"), *queues(), group, *pods], "PodGroup", "w")) == []


def test_nobody_creates_the_pod_group_of_a_grove_gang_by_hand() -> None:
    labels = {"grove.io/podgang": "w"}
    [(reason, text, remedy)] = said(
        told([node("n0"), *queues(), pod("w-0", "w", labels=labels)], "Pod", "w-0")
    )
    assert (reason, text) == (
        "WorkloadMissing",
        "1 pod waits for KAI PodGroup w, which does not exist",
    )
    assert remedy == (
        "Ask the platform team to read the logs of KAI's pod-grouper and Grove's operator, one of"
        " which should have created PodGroup w"
    )


def test_kai_creates_no_pods() -> None:
    """A PodGroup whose last pod KAI evicted: that event does not say why there are no pods."""
    event = made("v1", "Event", "e", {})
    event |= {
        "type": "Warning",
        "reason": "StaleJob",
        "message": "Workload doesn't meet the minimum required number of pods (3), evicting",
        "involvedObject": {
            "kind": "PodGroup",
            "name": "w",
            "namespace": "default",
            "uid": "PodGroup-w",
        },
        "source": {"component": "kai-scheduler"},
    }
    ended = pod("w-0", "w", node_name="n0")
    ended["status"] = {"phase": "Succeeded"}
    answer = told([node("n0"), *queues(), pod_group("w", 3), ended, event], "PodGroup", "w")
    assert [reason.id for reason in answer.reasons] == ["GangIncomplete", "GangEvicted"]


REQUIRES: Object = {"topologyConstraint": {"topology": "topo", "requiredTopologyLevel": "rack"}}


def in_rack(name: str, rack: str) -> Object:
    return node(name, labels={"zone": "z", "rack": rack})


@pytest.mark.parametrize(
    ("nodes", "held", "remedy"),
    [
        pytest.param(
            [in_rack("n0", "a"), in_rack("n1", "b"), in_rack("n2", "b")],
            False,
            "Delete all pods of w together and create them again, so that KAI places all of them in"
            " one rack",
            id="a rack has room for both",
        ),
        pytest.param(
            [in_rack("n0", "a"), in_rack("n1", "b"), in_rack("n2", "b")],
            True,
            "Wait until one rack has room for all 2 pods, and then delete all pods of w together and"
            " create them again: if restarted now, they would not be placed again",
            id="another pod holds the room",
        ),
        pytest.param(
            [in_rack("n0", "a"), in_rack("n1", "b")],
            False,
            "Ask the platform team to check the labels of the nodes, or require a broader level. Do"
            " not restart these pods: no rack is large enough for all 2 pods",
            id="no rack is large enough, for example because a label was changed",
        ),
    ],
)
def test_pods_outside_their_domain_are_deleted_only_if_they_fit_again(
    nodes: list[Object], held: bool, remedy: str
) -> None:
    gang = [*queues(), topology(), pod_group("w", 2, **REQUIRES)]
    pods = [pod("w-0", "w", 8, "n0"), pod("w-1", "w", 8, "n1")]
    other = [pod_group("o", 1), pod("o-0", "o", 8, "n2")] if held else []
    [(reason, _, found)] = said(told([*nodes, *gang, *pods, *other], "PodGroup", "w"))
    assert (reason, found) == ("RequiredViolated", remedy)


def test_kai_evicts_pods_for_the_rest_of_a_gang() -> None:
    """The gang was once told to restart, or to wait until the other pod ends by itself."""
    nodes = [in_rack("n0", "a"), in_rack("n1", "a"), in_rack("n2", "b"), in_rack("n3", "b")]
    high = made("scheduling.k8s.io/v1", "PriorityClass", "high", {})
    high["value"] = 90
    group = pod_group("w", 2, **REQUIRES)
    group["spec"]["priorityClassName"] = "high"
    pods = [pod("w-0", "w", 8, "n0"), pod("w-1", "w", 8)]
    other = [pod_group("o", 1), pod("o-0", "o", 8, "n1")]
    answer = told([*nodes, *queues(), topology(), high, group, *pods, *other], "PodGroup", "w")
    [reason] = answer.reasons
    assert (reason.id, reason.who) == ("BoundToDomain", "wait")
    assert reason.remedy == "Wait: KAI may preempt 1 pod of o"


def test_a_gang_does_not_wait_for_its_own_pods_to_end() -> None:
    group = pod_group("w", 2, **PREFERS)
    names = enumerate(("n0", "n0", ""))
    pods = [pod(f"w-{number}", "w", node_name=name) for number, name in names]
    other = [pod_group("o", 1), pod("o-0", "o", 2, "n0")]
    nodes = [node("n0", labels=LABELS)]
    answer = told([*nodes, *queues(limit=4), topology(), group, *pods, *other], "PodGroup", "w")
    [limit] = [reason for reason in answer.reasons if reason.id == "QueueLimit"]
    assert limit.remedy == (
        "Wait until PodGroup default/o frees enough of the limit, or ask for a higher"
        " limit on queue team"
    )


@pytest.mark.parametrize(
    ("labels", "ids"), [(GOLD, ["NeverFits", "LevelLabelMissing"]), ({}, ["NeverFits"])]
)
def test_only_nodes_of_the_pool_lack_labels(labels: dict[str, str], ids: list[str]) -> None:
    nodes = [
        node("n0", 4, labels={"zone": "z", "rack": "r", **GOLD}),
        node("n1", 4, labels={"zone": "z", "rack": "s", **GOLD}),
        node("n2", 8, labels=labels),
    ]
    pods = [pod(f"w-{number}", "w", 4) for number in range(3)]
    gang = [*queues("gold"), topology(), pod_group("w", 3, "gold", **REQUIRES), *pods]
    assert [each.id for each in told([*nodes, *gang], "PodGroup", "w").reasons] == ids


LARGER = "Or ask the platform team for larger nodes"


@pytest.mark.parametrize(
    ("nodes", "pods", "text", "remedy"),
    [
        pytest.param(
            [node("n0", 4)],
            [pod("w-0", "w", 8)],
            "No node has 8 GPUs, which a pod requests; the largest has 4 GPUs",
            f"Request at most 4 GPUs per pod. {LARGER}",
            id="the largest node is free",
        ),
        pytest.param(
            [node("n0", 4), node("n1", 2)],
            [pod(f"w-{number}", "w", 8) for number in range(3)],
            "No node has 8 GPUs, which a pod requests; the largest has 4 GPUs",
            f"Request at most 2 GPUs per pod. {LARGER}",
            id="not every pod finds a node of that size",
        ),
        pytest.param(
            [node("n0", 4)],
            [pod("w-0", "w", 8), pod("o-0", "o", 1, "n0")],
            "No node has 8 GPUs, which a pod requests; the largest has 4 GPUs",
            f"Request at most 4 GPUs per pod (for which room still has to become free). {LARGER}",
            id="another workload has a part of the largest node",
        ),
        pytest.param(
            [node("n0", 4, unschedulable=True), node("n1", 1)],
            [pod("w-0", "w", 8)],
            "No node has 8 GPUs, which a pod requests; the largest has 4 GPUs",
            "Request at most 4 GPUs per pod, and ask the platform team to uncordon, untaint or"
            f" repair the nodes that take no pods. {LARGER}",
            id="the largest node is closed",
        ),
        pytest.param(
            [node("n0", 4)],
            [pod("w-0", "w", 8, cpu="100")],
            "No node has 100 CPUs or 8 GPUs, which a pod requests; the largest amounts are 64 CPUs"
            " and 4 GPUs",
            f"Request at most 64 CPUs and 4 GPUs per pod. {LARGER}",
            id="two resources",
        ),
        pytest.param(
            [node("n0", 4)],
            [pod(f"w-{number}", "w", 8, cpu="100") for number in range(2)],
            "No node has 100 CPUs or 8 GPUs, which a pod requests; the largest amounts are 64 CPUs"
            " and 4 GPUs",
            f"Request at most 64 CPUs and 4 GPUs per pod, and use fewer or smaller pods. {LARGER}",
            id="two resources, and too many pods",
        ),
        pytest.param(
            [node("n0", 1)],
            [pod(f"w-{number}", "w", 8) for number in range(2)],
            "No node has 8 GPUs, which a pod requests; the largest has 1 GPU",
            f"Request at most 1 GPU per pod, and use fewer or smaller pods. {LARGER}",
            id="more pods than GPUs",
        ),
    ],
)
def test_pods_that_request_no_more_than_it_says_have_a_place(
    nodes: list[Object], pods: list[Object], text: str, remedy: str
) -> None:
    """The amount was once that of the largest node, whoever else needs or uses it."""
    own = sum(each["metadata"]["name"].startswith("w-") for each in pods)
    gang = [*queues(), pod_group("w", own), pod_group("o", 1), *pods]
    [(reason, *words)] = said(told([*nodes, *gang], "PodGroup", "w"))
    assert (reason, words) == ("NeverFits", [text, remedy])


def with_more(obj: Object, **more: str) -> Object:
    """A node that also offers, or a pod that also requests, these amounts."""
    names = {name.replace("_", "-"): quantity for name, quantity in more.items()}
    if obj["kind"] == "Node":
        obj["status"]["allocatable"] |= names
    else:
        obj["spec"]["containers"][0]["resources"]["requests"] |= names
    return obj


@pytest.mark.parametrize(
    ("nodes", "pods", "text", "remedy"),
    [
        pytest.param(
            [with_more(node("n0"), memory="2015Gi")],
            [pod("w-0", "w", 8, memory="2Ti")],
            "No node has 2 TiB of memory, which a pod requests; the largest has 1.9 TiB",
            f"Request at most 1.9 TiB of memory per pod. {LARGER}",
            id="memory, rounded to 2 TiB",
        ),
        pytest.param(
            [with_more(node("n0"), hugepages_1Gi="3Gi")],
            [with_more(pod(f"w-{number}", "w"), hugepages_1Gi="8Gi") for number in range(2)],
            "No node has 8 GiB of hugepages-1Gi, which a pod requests; the largest has 3 GiB",
            f"Request at most 1 GiB of hugepages-1Gi per pod. {LARGER}",
            id="half of the huge pages, which is no multiple of a page",
        ),
        pytest.param(
            [node("n0"), with_more(node("n1", 0), hugepages_2Mi="4Gi")],
            [with_more(pod("w-0", "w", 8), hugepages_2Mi="2Gi")],
            "No node has everything that a pod requests: 1 node has 2 GiB of hugepages-2Mi and 1"
            " node has 8 nvidia.com/gpu, and no node has both",
            "Request only resources that one node has, or ask the platform team for nodes that"
            " have 2 GiB of hugepages-2Mi and 8 nvidia.com/gpu",
            id="huge pages on another node",
        ),
        pytest.param(
            [node("n0")],
            [with_more(pod("w-0", "w"), ephemeral_storage="1Gi")],
            "No node offers ephemeral-storage, which a pod requests",
            "Remove the request for ephemeral-storage from the pod template, or ask the platform"
            " team to find out why nodes have no ephemeral-storage in status.allocatable",
            id="a plain resource of no node",
        ),
    ],
)
def test_amounts_of_bytes(nodes: list[Object], pods: list[Object], text: str, remedy: str) -> None:
    gang = [*queues(), pod_group("w", len(pods)), *pods]
    [(reason, *words)] = said(told([*nodes, *gang], "PodGroup", "w"))
    assert (reason, words) == ("NeverFits", [text, remedy])


def test_few_smaller_requests_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a search for places, and the memory of nodes of one kind differs slightly."""
    tried = []
    capped = placement._capped

    def counting(demand: Demand, most: Mapping[str, int]) -> Demand:
        tried.append(most)
        return capped(demand, most)

    monkeypatch.setattr(placement, "_capped", counting)
    nodes = [with_more(node(f"n{n:03}", 1), memory=f"{64 * 2**20 - n}Ki") for n in range(200)]
    pods = [pod(f"w-{number}", "w", 0, memory="128Gi") for number in range(600)]
    gang = [*queues(), pod_group("w", len(pods)), *pods]
    [(_, _, remedy)] = said(told([*nodes, *gang], "PodGroup", "w"))
    assert remedy == f"Request at most 21.3 GiB of memory per pod. {LARGER}"
    assert len(tried) < 10


def test_nothing_runs_of_a_gang_whose_minimum_is_0() -> None:
    """It was once told that its minimum runs, and to do nothing."""
    gang = [*queues(), pod_group("w", 0), pod("w-0", "w", 8)]
    [(reason, _, remedy)] = said(told([node("n0", 4), *gang], "PodGroup", "w"))
    assert (reason, remedy) == ("NeverFits", f"Request at most 4 GPUs per pod. {LARGER}")


def test_no_more_memory_is_named_than_a_limit_allows() -> None:
    """A limit of 1,000 MB is 953.67 MiB, and 953.7 MiB were once named."""
    bounds = queues()
    bounds[1]["spec"]["resources"]["memory"] = {"quota": -1, "limit": 1000, "overQuotaWeight": 1}
    gang = [*bounds, pod_group("w", 1), pod("w-0", "w", memory="1Gi")]
    [(reason, _, remedy)] = said(told([node("n0"), *gang], "PodGroup", "w"))
    ask = "or ask for a higher limit on queue team"
    assert (reason, remedy) == ("QueueLimit", f"Request at most 953.6 MiB, {ask}")


def test_a_smaller_request_waits_for_the_rest_of_a_limit() -> None:
    """The limit was once to be requested, although others use a part of it."""
    pods = [pod("w-0", "w", 6), pod("o-0", "o", 2, "n0")]
    gang = [*queues(limit=4), pod_group("w", 1), pod_group("o", 1), *pods]
    gang[-3]["spec"]["preemptibility"] = "non-preemptible"
    [(reason, _, remedy)] = said(told([node("n0"), *gang], "PodGroup", "w"))
    assert (reason, remedy) == (
        "QueueLimit",
        "Request at most 4 GPUs and wait until PodGroup default/o frees enough of the limit, or ask"
        " for a higher limit on queue team",
    )


NEXT = "KAI should place it in its next cycle, in n0"
APART = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack"}]}


@pytest.mark.parametrize(
    ("spec", "outlook", "rules"),
    [
        pytest.param({}, f"Nothing blocks it now; {NEXT}.", "", id="no rules"),
        pytest.param(
            {"affinity": {"podAntiAffinity": APART, "podAffinity": APART}},
            f"Nothing we check blocks it now; {NEXT}, unless a rule of its pods that is not checked"
            " (podAffinity and podAntiAffinity) changes that.",
            "podAffinity and podAntiAffinity",
            id="affinity between pods",
        ),
        pytest.param(
            {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
            f"Nothing we check blocks it now; {NEXT}, unless a rule of its pods that is not checked"
            " (hostPort) changes that.",
            "hostPort",
            id="a port of the node",
        ),
        pytest.param(
            {
                "affinity": {
                    "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}
                }
            },
            f"Nothing blocks it now; {NEXT}.",
            "",
            id="a preference",
        ),
    ],
)
def test_nothing_is_promised_about_rules_that_are_not_checked(
    spec: Object, outlook: str, rules: str
) -> None:
    """KAI's scheduler placed none of such gangs in the cycle in which it was promised."""
    own = pod("w-0", "w")
    own["spec"] |= spec
    answer = told([node("n0"), *queues(), pod_group("w", 1), own], "PodGroup", "w")
    [place] = answer.line
    assert (answer.outlook, place.next) == (outlook, "next")
    expected = f"a rule of its pods that is not checked ({rules})"
    assert place.may_differ == ((expected,) if rules else ())


@pytest.mark.parametrize(
    ("spec", "claim"),
    [
        ({"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]}, "ResourceClaim"),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
            "PersistentVolumeClaim",
        ),
    ],
)
def test_nothing_is_promised_about_claims_that_the_files_lack(spec: Object, claim: str) -> None:
    own = pod("w-0", "w")
    own["spec"] |= spec
    known = facts_of([node("n0"), *queues(), pod_group("w", 1), own], 0.0)
    index = Index(replace(known, skipped=known.skipped - {"priorities"}))
    answer = explain(index, Ref("PodGroup", "default", "w"))
    assert answer
    [place] = answer.line
    assert (place.next, place.may_differ) == ("next", (f"a {claim} of its pods that was not read",))


@pytest.mark.parametrize(
    ("gpus", "reason", "becomes"), [(16, "NeverFits", "never"), (8, "NoDomainFits", "waits")]
)
def test_remedies_do_not_promise_a_place_by_rules_that_are_not_checked(
    gpus: int, reason: str, becomes: str
) -> None:
    """Of 69 remedies for such gangs, 24 gave them a place on KAI's scheduler."""
    own = pod("w-0", "w", gpus)
    own["spec"]["affinity"] = {"podAntiAffinity": APART}
    other = [pod_group("o", 1), pod("o-0", "o", 1, "n0")]
    answer = told([node("n0"), *queues(), pod_group("w", 1), own, *other], "PodGroup", "w")
    says = ". This check ignores podAntiAffinity of the pods, so they may need more nodes"
    [found] = answer.reasons
    assert (found.id, found.remedy[-len(says) :]) == (reason, says)
    [place] = answer.line
    assert (place.next, place.may_differ) == (becomes, ())


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        (
            "example.com/nics",
            "Correct the name of the resource in the pod template. This check ignores"
            " podAntiAffinity of the pods, so they may need more nodes",
        ),
        (
            "vendor.example/fpga",
            "Ask the platform team to check the device plugin, which makes nodes offer"
            " vendor.example/fpga: kubectl get pods -A -o wide | grep device-plugin",
        ),
    ],
)
def test_a_command_stays_the_end_of_a_remedy(name: str, remedy: str) -> None:
    """Rules that are not checked were once named behind a full stop, or within a command."""
    own = with_more(pod("w-0", "w"), **{name: "1"})
    own["spec"]["affinity"] = {"podAntiAffinity": APART}
    nodes = [with_more(node("n0"), **{"example.com/nic": "1"})]
    [found] = told([*nodes, *queues(), pod_group("w", 1), own], "PodGroup", "w").reasons
    assert (found.id, found.remedy) == ("NeverFits", remedy)


@pytest.mark.parametrize(
    ("closed", "also"),
    [
        ({}, ""),
        (
            {"unschedulable": True},
            ", and ask the platform team to uncordon, untaint or repair the nodes that take no pods",
        ),
    ],
)
def test_smaller_pods_alone_do_not_open_nodes_or_leave_a_shared_domain(
    closed: Object, also: str
) -> None:
    """Of both, none was once said if the nodes are closed."""
    in_zone: Object = {"topologyConstraint": {"topology": "topo", "requiredTopologyLevel": "zone"}}
    nodes = [node("n0", 4, labels=LABELS, **closed), node("n1", 4, labels=LABELS, **closed)]
    pods = [pod(f"w-{number}", "w", 4) for number in range(3)]
    gang = [*queues(), topology(), pod_group("w", 3, **in_zone), *pods]
    [(reason, _, remedy)] = said(told([*nodes, *gang], "PodGroup", "w"))
    level = ", and add rack as the preferred level wherever a level is required"
    assert (reason, remedy) == (
        "NeverFits",
        f"Use smaller or fewer pods{level}{also}. Or ask the platform team for more nodes in one"
        " zone",
    )


@pytest.mark.parametrize(
    ("held", "text"),
    [
        (0, "Request at most 2 GPUs per pod{}"),
        (1, "Request at most 2 GPUs per pod (for which room still has to become free){}"),
    ],
)
def test_an_amount_is_true_of_nodes_in_a_shared_domain_too(held: int, text: str) -> None:
    """With 4 GPUs per pod, KAI's scheduler placed no such gang, with the preferred level either."""
    in_zone: Object = {"topologyConstraint": {"topology": "topo", "requiredTopologyLevel": "zone"}}
    pods = [pod(f"w-{number}", "w", 8) for number in range(2)]
    other = [pod_group("o", 1), pod("o-0", "o", held, "n0")]
    gang = [*queues(), topology(), pod_group("w", 2, **in_zone), *pods, *other]
    answer = told([node("n0", 4, labels=LABELS), *gang], "PodGroup", "w")
    level = ", and add rack as the preferred level wherever a level is required"
    assert [each.remedy for each in answer.reasons] == [f"{text.format(level)}. {LARGER}"]


def test_an_empty_term_of_an_affinity_matches_nothing() -> None:
    own = pod("w-0", "w")
    terms = {"nodeSelectorTerms": [{}, {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    own["spec"]["affinity"] = {"nodeAffinity": affinity}
    [(reason, text, _)] = said(
        told([node("n0"), *queues(), pod_group("w", 1), own], "PodGroup", "w")
    )
    says = "No node matches an empty term or a present, which pods select (0 of 1 node)"
    assert (reason, text) == ("NoNodeMatches", says)


OF_GOLD = "with the label kai.scheduler/node-pool=gold"
OUT = "emove the label kai.scheduler/node-pool from the workload and its PodGroup"


@pytest.mark.parametrize(
    ("inside", "outside", "remedy"),
    [
        pytest.param(
            8, 8, f"R{OUT}, or ask the platform team for a queue {OF_GOLD}", id="it fits in both"
        ),
        pytest.param(8, 4, f"Ask the platform team for a queue {OF_GOLD}", id="only in its pool"),
        pytest.param(
            4,
            4,
            f"R{OUT} (it does not fit on nodes without a pool yet), or ask the platform team for a"
            f" queue {OF_GOLD}",
            id="in neither",
        ),
    ],
)
def test_a_gang_leaves_its_pool_only_for_nodes_that_have_room(
    inside: int, outside: int, remedy: str
) -> None:
    """In more than half of such clusters, KAI's scheduler did not place it outside its pool."""
    nodes = [node("n0", inside, labels=GOLD), node("n1", outside)]
    gang = [*queues(), pod_group("w", 1, "gold"), pod("w-0", "w", 8), pod_group("o", 1)]
    reasons = said(told([*nodes, *gang], "PodGroup", "w"))
    assert [words for reason, _, words in reasons if reason == "QueueMissing"] == [remedy]


def work_for_a_volume(number: int) -> int:
    """The steps of the reason that a volume is bound to a zone, next to so many nodes of the zone."""
    zone = "topology.kubernetes.io/zone"
    nodes = [node(f"n{position}", 4, labels={zone: "a"}) for position in range(number)]
    terms = [{"matchExpressions": [{"key": zone, "operator": "In", "values": ["a"]}]}]
    places = {"required": {"nodeSelectorTerms": terms}}
    volume = made("v1", "PersistentVolume", "v", {"nodeAffinity": places})
    bound = {"volumeName": "v", "storageClassName": "s"}
    claim = made("v1", "PersistentVolumeClaim", "c", bound) | {"status": {"phase": "Bound"}}
    large = pod("w-0", "w", 8)
    large["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    objects = [*nodes, node("m"), *queues(), pod_group("w", 1), large, volume, claim]
    index = Index(replace(facts_of(objects, 0.0), skipped=frozenset()))

    def ask() -> None:
        answer = explain(index, Ref("PodGroup", "default", "w"))
        assert answer is not None
        assert [reason.id for reason in answer.reasons] == ["VolumeElsewhere"]

    return steps(ask)


@pytest.mark.untraced
def test_the_work_for_a_volume_grows_with_the_number_of_nodes() -> None:
    """Not with its square: four times as many take four times as many steps, and not sixteen."""
    assert work_for_a_volume(800) < 5 * work_for_a_volume(200)


def test_mig_devices_that_no_node_has_are_not_called_gpus() -> None:
    """Nodes once had at most 2 GPUs, as it said, of which they had 4."""
    device = "nvidia.com/mig-3g.20gb"
    has = node("n0", 4)
    has["status"]["allocatable"][device] = "2"
    own = pod("w-0", "w", 0)
    own["spec"]["containers"][0]["resources"]["requests"][device] = "3"
    [(reason, *words)] = said(told([has, *queues(), pod_group("w", 1), own], "PodGroup", "w"))
    text = "No node has 3 mig-3g.20gb, which a pod requests; the largest has 2 mig-3g.20gb"
    assert (reason, words) == (
        "NeverFits",
        [text, f"Request at most 2 mig-3g.20gb per pod. {LARGER}"],
    )


def test_the_subgroup_that_lacks_a_pod_looks_different_from_one_that_does_not() -> None:
    parts = [{"name": name, "minMember": 2} for name in ("a", "b")]
    group = pod_group("w", 4)
    group["spec"]["subGroups"] = parts
    pods = [in_subgroup(f"w-{at}", "w", part) for at, part in enumerate("aab")]
    answer = told([node("n0"), *queues(), group, *pods], "PodGroup", "w")
    numbers = {branch.ref.name: branch.reasons for branch in answer.tree.children[:2]}
    assert numbers == {"a": (), "b": (1,)}


MISSING: Object = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


def _using(obj: Object, spec: Object) -> Object:
    obj["spec"].update(spec)
    return obj


OF_SUBGROUPS = made(
    "scheduling.run.ai/v2alpha2",
    "PodGroup",
    "w",
    {
        "queue": "team",
        "priorityClassName": "train",
        "minSubGroup": 2,
        "subGroups": [{"name": name, "minMember": 1} for name in "ab"],
    },
)


@pytest.mark.parametrize(
    ("group", "pods", "reason", "becomes"),
    [
        pytest.param(
            pod_group("w", 2),
            [pod("w-0", "w", node_name="gone"), pod("w-1", "w")],
            "NodeGone",
            "next",
            id="a placed pod is on a node that is gone",
        ),
        pytest.param(
            pod_group("w", 2),
            [pod("w-0", "w", node_name="sick"), pod("w-1", "w")],
            "NodeNotReady",
            "next",
            id="a placed pod is on a node that is not ready",
        ),
        pytest.param(
            pod_group("w", 2),
            [pod("w-0", "w"), pod("w-1", "w"), _using(pod("w-2", "w"), MISSING)],
            "VolumeUnbound",
            "next",
            id="a pod beyond the minimum lacks its volume",
        ),
        pytest.param(
            pod_group("w", 2),
            [_using(pod("w-0", "w"), MISSING), pod("w-1", "w"), pod("w-2", "w")],
            "VolumeUnbound",
            "held",
            id="the first pod lacks its volume",
        ),
        pytest.param(
            OF_SUBGROUPS,
            [in_subgroup(f"w-{name or 'c'}", "w", name) for name in ("a", "b", "")],
            "WorkloadMissing",
            "next",
            id="a third pod is in no SubGroup",
        ),
    ],
)
def test_a_reason_about_other_pods_does_not_hold_the_next_ones(
    group: Object, pods: list[Object], reason: str, becomes: str
) -> None:
    """The real KAI scheduler places the other pods, except where the first pod lacks its volume."""
    objects = [node("n0"), node("sick", ready=False), *queues(), group, *pods]
    answer = told(objects, "PodGroup", "w")
    assert [each.id for each in answer.reasons] == [reason]
    assert [turn.next for turn in answer.line] == [becomes]


def _queue(name: str, parent: str = "", quota: int = 0) -> Object:
    bounds = {**dict.fromkeys(("cpu", "memory"), FREE), "gpu": {**FREE, "quota": quota}}
    spec: Object = {"resources": bounds, **({"parentQueue": parent} if parent else {})}
    return made("scheduling.run.ai/v2", "Queue", name, spec)


def _overcommitted(team: int, batch: int, *, nested: bool = True) -> list[Object]:
    """The quotas of `team`, `batch` and `kept` add up to more than the 8 GPUs of the node."""
    org = "org" if nested else "root"
    parents = [_queue("root"), *([_queue("org", "root", 12)] if nested else [])]
    return [
        *parents,
        _queue("team", org, team),
        _queue("batch", org, batch),
        _queue("kept", "root", 8),
    ]


@pytest.mark.parametrize(
    ("quotas", "minimum", "count", "text"),
    [
        pytest.param(
            _overcommitted(4, 0), 1, 2, "Queue batch uses 6 GPUs more than its quota", id="quota"
        ),
        pytest.param(_overcommitted(1, 0), 1, 2, "", id="the gang's queue would exceed its quota"),
        pytest.param(_overcommitted(4, 5), 1, 2, "", id="one pod is not enough"),
        pytest.param(
            _overcommitted(4, 4),
            6,
            2,
            "Queue batch uses 2 GPUs more than its quota",
            id="all pods of the other gang must run together",
        ),
        pytest.param(
            _overcommitted(8, 5, nested=False), 1, 4, "", id="one pod above the fair share"
        ),
        pytest.param(
            _overcommitted(8, 5, nested=False),
            6,
            4,
            "Queue batch uses 1 GPU more than its fair share",
            id="a whole gang above the fair share",
        ),
    ],
)
def test_kai_reclaims_from_queues_above_their_quota_as_far_as_they_are_above_it(
    quotas: list[Object], minimum: int, count: int, text: str
) -> None:
    """Quotas may add up to more than the nodes have. The real KAI scheduler decides the same."""
    others = [
        pod_group("b", minimum, queue="batch"),
        *(pod(f"b-{number}", "b", node_name="n0") for number in range(6)),
        pod_group("k", 1, queue="kept"),
        *(pod(f"k-{number}", "k", node_name="n0") for number in range(2)),
    ]
    gang = [pod_group("w", count), *(pod(f"w-{number}", "w") for number in range(count))]
    found = said(told([node("n0"), *quotas, *others, *gang], "PodGroup", "w"))
    assert [words for id, words, _ in found if id == "FairShare"] == [text] * bool(text)
    remedy = next(words for id, _, words in found if id == "NoDomainFits")
    assert remedy.startswith("Wait: queue batch is above its" if text else "Wait until room for")
