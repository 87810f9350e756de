"""Updates of a template that do not end, although all existing pods are placed.

Tests `update_unfinished` and `update_of_set_unfinished` in `app/explain/reasons/readiness.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import Answer, explain
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.workload_status import WorkloadStatus
from app.facts.rollout import Rollout
from tests.explain.fleet import NAMESPACE, NOW, facts, pods
from tests.explain.table.recorded import whole
from tests.said import Said

API = Ref("Deployment", NAMESPACE, "api")
PCS = Ref("PodCliqueSet", NAMESPACE, "llm")


def pod(name: str, age: float, *, ready: bool = True, **more: Any) -> Pod:
    values = {"node": "n", "phase": "Running", "made_for": (API,), **more}
    return Pod(NAMESPACE, name, f"uid-{name}", created=NOW - age, is_ready=ready, **values)


OLD, NEW = pod("api-a-1", 86400), pod("api-b-1", 7200, ready=False)


def answered(rollout: Rollout, *pods: Pod, kind: str = API.kind) -> Answer:
    ref = replace(API, kind=kind)
    made = tuple(replace(each, made_for=(ref,)) for each in pods)
    status = WorkloadStatus(ref, rollout=rollout)
    answer = explain(
        Index(Snapshot(pods=made, nodes=(Node("n"),), workload_statuses=(status,), now=NOW)), ref
    )
    assert answer
    return answer


def test_an_update_waits_for_a_new_pod_that_is_not_ready(said: Said) -> None:
    answer = answered(Rollout(1, 2, NOW - 7200), OLD, NEW)
    said(whole(answer))
    assert answer.headline == "api is placed, with remarks: 2 of 2 pods placed"
    [reason] = answer.reasons
    assert (reason.id, reason.severity) == ("OldRevision", "warning")
    assert reason.text == (
        "The update of Deployment api has not ended: 1 of 2 pods has an older template, and no pod"
        " was created for 2 hours"
    )
    assert reason.remedy.startswith("Find out why api-b-1 is not ready")
    assert reason.commands[1] == f"kubectl logs -n {NAMESPACE} api-b-1"


@pytest.mark.parametrize(
    ("rollout", "made"),
    [
        pytest.param(Rollout(1, 2, NOW - 60), (OLD, NEW), id="it made progress a minute ago"),
        pytest.param(
            Rollout(1, 2, NOW - 7200), (OLD, pod("api-b-1", 60)), id="a pod is a minute old"
        ),
        pytest.param(Rollout(1, 2, NOW - 7200), (OLD, replace(NEW, node="")), id="a pod waits"),
    ],
)
def test_an_update_may_take_its_time(rollout: Rollout, made: tuple[Pod, ...]) -> None:
    ids = {reason.id for reason in answered(rollout, *made).reasons}
    assert "OldRevision" not in ids


def test_a_controller_may_say_that_an_update_is_late() -> None:
    young = pod("api-b-1", 60)
    [reason] = answered(Rollout(1, 2, NOW - 60, is_late=True), OLD, young).reasons
    assert reason.text.endswith("has not ended: 1 of 2 pods has an older template")
    assert reason.commands == (f"kubectl describe deployment api -n {NAMESPACE}",)


@pytest.mark.parametrize(
    ("kind", "held_by", "remedy", "command"),
    [
        (
            "Deployment",
            "spec.paused: true",
            "resume the update",
            f"kubectl rollout resume deployment api -n {NAMESPACE}",
        ),
        (
            "StatefulSet",
            "spec.updateStrategy.type: OnDelete",
            "delete the pods of the older template to update them",
            "",
        ),
        (
            "LeaderWorkerSet",
            "spec.rolloutStrategy.rollingUpdateConfiguration.partition: 1",
            "set spec.rolloutStrategy.rollingUpdateConfiguration.partition to 0 to update the",
            "",
        ),
    ],
)
def test_a_setting_can_keep_pods_of_an_older_template(
    kind: str, held_by: str, remedy: str, command: str, said: Said
) -> None:
    answer = answered(Rollout(1, 2, held_by=held_by), OLD, kind=kind)
    said(whole(answer))
    [reason] = answer.reasons
    noun = "groups" if kind == "LeaderWorkerSet" else "pods"
    assert reason.text.endswith(f"1 of 2 {noun} has an older template, because of {held_by}")
    assert reason.remedy.startswith(f"Do nothing if this is intended. Otherwise, {remedy}")
    assert (reason.severity, "".join(reason.commands)) == ("note", command)


def test_a_set_of_grove_is_updated_too(said: Said) -> None:
    placed = tuple(
        replace(each, node=f"gpu-0{number % 8}", phase="Running", created=NOW - 9000)
        for number, each in enumerate(pods())
    )
    state = facts(pods=placed)
    [pcs] = state.sets

    def asked(rollout: Rollout | None) -> Answer:
        answer = explain(Index(replace(state, sets=(replace(pcs, rollout=rollout),))), PCS)
        assert answer
        return answer

    assert "OldRevision" not in {reason.id for reason in asked(None).reasons}
    answer = asked(Rollout(1, 1, NOW - 10800))
    said(whole(answer))
    [reason] = [each for each in answer.reasons if each.id == "OldRevision"]
    assert reason.text.startswith(f"The update of {PCS} has not ended: 1 of 1 replica has an older")
    assert reason.objects[0] == PCS
