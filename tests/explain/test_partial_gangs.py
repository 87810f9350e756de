"""What helps a gang whose minimum KAI started, if all of its pods must be scheduled together.

The first remedy was once to raise the minimum, which stopped gangs that exceed a limit or that have
no room for all of their pods.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.gangs.gang import Gang
from app.explain.placing.demand import Demand
from app.explain.reasons import partial_gangs
from app.explain.reasons.queue import bound_below
from app.facts.identity import Ref
from app.facts.kai.podgroup import SubGroup
from tests.explain.queue_order.test_cycle import Gangs
from tests.explain.queue_order.test_cycle import node as gpu_node
from tests.explain.small import Object, made, node, pod, pod_group, queues, told

FITS = ", and delete all pods together and create them again: all 4 pods fit in n0 and n1 now"
MINIMUM = "set minMember: 4 in PodGroup w"
BOUND = "because all 4 pods together exceed the current one. Then set minMember: 4 in PodGroup w"


@pytest.mark.parametrize(
    ("gpus", "extra", "bounds", "preemptibility", "says"),
    [
        pytest.param(2, [], {}, "preemptible", f"{MINIMUM}{FITS}", id="there is room for all"),
        pytest.param(
            2,
            [],
            {"limit": 2},
            "preemptible",
            f"first ask for a higher limit on queue team, {BOUND}",
            id="the queue's limit allows two",
        ),
        pytest.param(
            2,
            [],
            {"limit": 4},
            "preemptible",
            f"{MINIMUM}{FITS}",
            id="the running pods do not count twice against a limit",
        ),
        pytest.param(
            2,
            [],
            {"quota": 3},
            "non-preemptible",
            f"first ask for a higher quota on queue team, {BOUND}",
            id="the queue's quota allows three",
        ),
        pytest.param(
            2,
            [],
            {"quota": 4},
            "non-preemptible",
            f"{MINIMUM}{FITS}",
            id="the running pods do not count twice against a quota",
        ),
        pytest.param(
            2,
            [],
            {"quota": 2},
            "semi-preemptible",
            f"first ask for a higher quota on queue team, {BOUND}",
            id="the quota allows the minimum that the gang has now",
        ),
        pytest.param(
            2, [], {"quota": 1}, "preemptible", f"{MINIMUM}{FITS}", id="quotas do not bind this one"
        ),
        pytest.param(
            1,
            [],
            {},
            "preemptible",
            "use fewer or smaller pods: all 4 pods together have no room, even without other"
            " workloads",
            id="there is never room for all",
        ),
        pytest.param(
            2,
            ["n1"],
            {},
            "preemptible",
            f"{MINIMUM}. Then no pod runs until all 4 pods have room together",
            id="another pod holds the room of the fourth",
        ),
    ],
)
def test_all_pods_start_together(
    gpus: int, extra: list[str], bounds: dict[str, int], preemptibility: str, says: str
) -> None:
    others = [pod("o", "o", node_name=name) for name in extra]
    objects = [*cluster(gpus, bounds, preemptibility), *others]
    assert (
        remedy(objects, "PodGroup")
        == f"Do nothing if the pods can start separately. Otherwise, {says}"
    )


def test_each_part_has_its_own_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is the same for all parts is computed once: a tenant decides how many there are."""
    calls: list[Gang] = []

    def counted(gang: Gang, demand: Demand) -> str:
        calls.append(gang)
        return bound_below(gang, demand)

    monkeypatch.setattr(partial_gangs, "bound_below", counted)
    gangs = Gangs()
    parts = (SubGroup("a", minimum=1), SubGroup("b", minimum=1))
    gangs.add("g", 1, 1, 1, 1, nodes=("n1", "n1"), subgroups=parts)
    gangs.pods = [replace(pod, subgroup=name) for pod, name in zip(gangs.pods, "abab", strict=True)]
    answer = explain(gangs.index(gpu_node("n1")), Ref("PodGroup", "ns", "g"))
    assert answer is not None
    told = [reason.remedy for reason in answer.reasons if reason.id == "GangSplit"]
    assert [remedy.partition(", and")[0] for remedy in told] == [
        f"Do nothing if the pods can start separately. Otherwise, set minMember: 2 of SubGroup {name} in PodGroup g"
        for name in "ab"
    ]
    assert len(calls) == 1


def test_pods_that_do_not_exist_yet_need_room_too() -> None:
    """Three of six pods exist, and the nodes have four GPUs."""
    labels = {
        "app.kubernetes.io/part-of": "w",
        "grove.io/podclique": "w",
        "grove.io/podgang": "w",
        "kai.scheduler/subgroup-name": "w",
    }
    objects = [obj for obj in cluster(2, {}, "preemptible") if obj["metadata"]["name"] != "w-3"]
    for obj in objects:
        if obj["kind"] == "PodGroup":
            owner = {"kind": "PodGang", "name": "w", "uid": "PodGang-w"}
            obj["metadata"]["ownerReferences"] = [owner]
            obj["spec"]["subGroups"] = [{"name": "w", "minMember": 2}]
        elif obj["kind"] == "Pod":
            obj["metadata"]["labels"] = labels
    names = [{"name": f"w-{number}", "namespace": "default"} for number in range(3)]
    groups = [{"name": "w", "minReplicas": 2, "podReferences": names}]
    objects += [
        made("grove.io/v1alpha1", "PodClique", "w", {"replicas": 6, "minAvailable": 2}),
        made("scheduler.grove.io/v1alpha1", "PodGang", "w", {"podgroups": groups}),
    ]
    assert remedy(objects, "PodGang").endswith(
        "use fewer or smaller pods: all 6 pods together have no room, even without other workloads"
    )


def remedy(objects: list[Object], kind: str) -> str:
    [note] = [reason for reason in told(objects, kind, "w").reasons if reason.id == "GangSplit"]
    return note.remedy


def cluster(gpus: int, bounds: Any, preemptibility: str) -> list[Object]:
    """Two nodes with so many GPUs, and a gang of four pods of one GPU, two of which run."""
    places = ["n0", "n0" if gpus > 1 else "n1", "", ""]
    return [
        *(node(name, gpus) for name in ("n0", "n1")),
        *queues(**bounds),
        pod_group("w", 2, preemptibility=preemptibility),
        *(pod(f"w-{number}", "w", node_name=place) for number, place in enumerate(places)),
    ]
