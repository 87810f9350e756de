"""DynamoGraphDeployments, which are asked for by their own name, and say why they are not ready.

Tests `graph_failed` in `app/explain/reasons/uncreated_pods.py`, `graph_not_ready` in
`app/explain/reasons/readiness.py`, and `_of_graph` in `app/explain/gangs/subject.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.commands.explain import KINDS
from app.explain.answers.answer import Answer, explain
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kubernetes.workload_status import WorkloadStatus, read_workload_status
from tests.explain.fleet import NAMESPACE, NOW, facts, pcs, placed
from tests.explain.table.recorded import whole
from tests.explain.test_workloads import index_of, pod
from tests.said import Said

GRAPH = Ref("DynamoGraphDeployment", NAMESPACE, "chat")
SAID = "failed to reconcile Grove resources: admission webhook denied the request: too long"
NODES = ("gpu-00", "gpu-01", "gpu-02", "gpu-03")


def status(ready: str = "False", state: str = "pending") -> WorkloadStatus:
    condition = {
        "type": "Ready",
        "status": ready,
        "message": SAID,
        "lastTransitionTime": "1970-01-01T00:01:00Z",
    }
    document = {
        "kind": GRAPH.kind,
        "metadata": {"namespace": NAMESPACE, "name": GRAPH.name},
        "status": {"state": state, "conditions": [{"type": "Other", "status": "False"}, condition]},
    }
    read = read_workload_status(document)
    return replace(read, unready_since=read.unready_since and NOW - 600)


def answered(told: WorkloadStatus, *, ready: bool = True, **more: Any) -> Answer:
    """The answer about a DynamoGraphDeployment whose PodCliqueSet is placed."""
    running = placed(*NODES, is_ready=ready)
    values = {"pods": running, "sets": (pcs(maker=GRAPH),), **more}
    answer = explain(Index(facts(workload_statuses=(told,), **values)), GRAPH)
    assert answer
    return answer


def ids(answer: Answer) -> list[str]:
    return [reason.id for reason in answer.reasons if reason.severity != "note"]


def test_it_has_the_pods_of_its_set(said: Said) -> None:
    answer = answered(status("True", "successful"))
    said(whole(answer))
    assert answer.headline.startswith("chat is placed")
    assert (answer.placed, answer.total) == (4, 4)
    more = answered(status("True", "successful"), sets=(pcs(maker=GRAPH, replicas=2),))
    assert more.state == "waits"
    assert "1 of 2 replicas not created yet" in more.headline
    assert KINDS["dgd"] == GRAPH.kind


def test_it_has_the_pods_that_name_it_without_grove() -> None:
    labels = {"nvidia.com/dynamo-graph-deployment-name": "chat", "pod-template-hash": "6d9"}
    pods = [
        pod("a", labels, controller="ReplicaSet/chat-frontend-6d9", node="n0", phase="Running"),
        pod("b", labels, controller="ReplicaSet/chat-frontend-6d9"),
        pod("c", {**labels, "grove.io/podclique": "chat-0-w"}, controller="PodClique/chat-0-w"),
    ]
    answer = explain(index_of(*pods), Ref(GRAPH.kind, "ns", "chat"))
    assert answer
    assert (answer.placed, answer.total) == (1, 2)


def test_it_is_quoted_if_it_has_created_nothing(said: Said) -> None:
    for told in (status(), status(state="failed")):
        answer = explain(Index(Snapshot(workload_statuses=(told,), now=NOW)), GRAPH)
        assert answer
        said(whole(answer))
        [reason] = answer.reasons
        assert reason.id == "PodsNotCreated"
        assert reason.text == (
            f"DynamoGraphDeployment chat has no pods. Dynamo's operator says: {SAID} (10 minutes"
            " ago)"
        )
        assert reason.remedy.startswith("Change DynamoGraphDeployment chat as the message")


def test_it_is_quoted_if_its_changes_fail(said: Said) -> None:
    answer = answered(status(state="failed"))
    said(whole(answer))
    assert ids(answer) == ["PodsNotCreated"]
    assert answer.reasons[0].text == (
        f"Dynamo's operator says: {SAID} (10 minutes ago). Changes of DynamoGraphDeployment chat"
        " may not have been applied"
    )


def test_it_is_quoted_if_its_pods_are_ready_and_it_is_not(said: Said) -> None:
    answer = answered(status())
    said(whole(answer))
    assert ids(answer) == ["PodsNotReady"]
    assert answer.reasons[0].text.startswith(
        "DynamoGraphDeployment chat is not ready, although all of its existing pods are. Dynamo's"
    )
    assert ids(answered(status(), ready=False)) == []
    assert ids(answered(status("True"))) == []


@pytest.mark.parametrize("kind", ["PodCliqueSet", "DynamoGraphDeployment"])
def test_only_its_own_kind_has_this_status(kind: str) -> None:
    document = {
        "kind": kind,
        "metadata": {"namespace": NAMESPACE, "name": "chat"},
        "status": {"state": "failed", "conditions": [{"type": "Ready", "status": "False"}]},
    }
    assert read_workload_status(document).has_error is (kind == GRAPH.kind)
