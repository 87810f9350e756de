"""What is kept of objects, also of those of another form.

Tests `app/facts/kubernetes/node.py`, `app/facts/kubernetes/pod.py`,
`app/facts/kubernetes/workload.py` and `app/facts/kubernetes/event.py`.
"""

from typing import Any

import pytest

from app.facts.identity import Ref
from app.facts.kubernetes.claim import read_resource_slice
from app.facts.kubernetes.node import read_node
from app.facts.kubernetes.pod import RUNS, UNSTARTED, Pod, Stalled, read_pod
from app.facts.kubernetes.workload import (
    Workload,
    WorkloadGroup,
    read_workload,
    read_workload_group,
)

IGNORE = "kai.scheduler/ignore-workload-api"
SKIP = "kai.scheduler/skip-podgrouper"
LWS = "leaderworkerset.sigs.k8s.io/name"


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


def test_of_a_pod_only_what_decides_on_placement_is_kept() -> None:
    secret = {"env": [{"name": "TOKEN", "value": "secret"}], "args": ["--password=secret"]}
    obj = {
        "metadata": {
            "name": "p",
            "annotations": {"note": "secret"},
            "managedFields": [{"manager": "secret"}],
        },
        "spec": {"containers": [container("1", **secret)]},
        "status": {
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]
        },
    }
    kept = read_pod(obj)
    assert "secret" not in repr(kept)
    assert (kept.unscheduled, kept.scheduler, kept.phase) == (
        "no room",
        "default-scheduler",
        "Pending",
    )


def test_a_pod_says_once_why_its_containers_wait() -> None:
    statuses = [
        {"state": {"waiting": {"reason": "ImagePullBackOff"}}},
        {"state": {"waiting": {"reason": "ImagePullBackOff"}}},
        {"state": {"waiting": {}}},
        {"state": {"running": {}}},
    ]
    pod = read_pod({"metadata": {"name": "p"}, "status": {"containerStatuses": statuses}})
    assert pod.waiting == ("ImagePullBackOff",)


@pytest.mark.parametrize("odd", [["CrashLoopBackOff"], {"a": "b"}, 3, True, None, ""])
def test_a_reason_that_is_no_text_is_no_reason_to_wait(odd: object) -> None:
    """The API server checks statuses, but a file for `explain --offline` may contain anything."""
    states = [{"waiting": {"reason": odd}}, {"waiting": {"reason": "ErrImagePull", "message": odd}}]
    own = [{"name": "main", "state": state} for state in states]
    init = [{"name": "init", "state": states[0]}]
    status = {"phase": "Pending", "initContainerStatuses": init, "containerStatuses": own}
    pod = read_pod({"metadata": {"name": "p"}, "status": status})
    assert pod.waiting == ("ErrImagePull",)
    assert [stalled.reason for stalled in pod.stalled] == ["ErrImagePull"]


def test_objects_of_another_form_are_read_without_trust() -> None:
    odd: dict[str, Any] = {
        "metadata": None,
        "spec": [],
        "status": {"conditions": "none", "allocatable": 3},
    }
    assert read_pod(odd).name == ""
    assert (
        read_node({"metadata": {"name": "n", "labels": {}}, "status": odd["status"]}).allocatable
        == {}
    )


@pytest.mark.parametrize(
    "reference",
    [
        {
            "podGroupTemplateRef": {
                "workload": {"workloadName": "train", "podGroupTemplateName": "workers"}
            }
        },
        {"podGroupTemplateRef": {"workloadName": "train", "podGroupTemplateName": "workers"}},
        {"workloadRef": {"workloadName": "train", "templateName": "workers"}},
    ],
    ids=["Kubernetes 1.36", "Kubernetes 1.36, flat", "Kubernetes 1.37"],
)
def test_a_pod_group_names_the_workload_that_it_is_made_from(reference: dict[str, Any]) -> None:
    obj = {"metadata": {"namespace": "research", "name": "train-workers"}, "spec": reference}
    assert read_workload_group(obj) == WorkloadGroup(
        "research", "train-workers", "train", template="workers"
    )


@pytest.mark.parametrize(
    ("labels", "gpus", "kept"),
    [
        pytest.param({LWS: "a"}, 4, (Ref("LeaderWorkerSet", "ns", "a"), True), id="of a unit"),
        pytest.param({LWS: "a"}, 0, (Ref("LeaderWorkerSet", "ns", "a"), False), id="no GPUs"),
        pytest.param({LWS: "a", "grove.io/podclique": "c"}, 4, (None, False), id="a PodClique's"),
    ],
)
def test_a_pod_names_the_owner_of_its_unit(labels: Any, gpus: int, kept: Any) -> None:
    annotations = {"grove.io/mnnvl-enabled": "true"}
    metadata = {"name": "p", "namespace": "ns", "labels": labels, "annotations": annotations}
    containers = [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]
    pod = read_pod({"metadata": metadata, "spec": {"containers": containers}})
    assert (pod.unit_owner, pod.asks_mnnvl) == kept


@pytest.mark.parametrize(
    ("annotations", "workload", "skipped"),
    [
        pytest.param({}, "train", False, id="uses its Workload"),
        pytest.param({SKIP: "true"}, "train", False, id="uses its Workload, and is marked"),
        pytest.param({IGNORE: "true"}, "", False, id="opts out"),
        pytest.param({IGNORE: "true", SKIP: "true"}, "", True, id="opts out, and is marked"),
        pytest.param({IGNORE: "True", SKIP: "true"}, "train", False, id="another value"),
    ],
)
def test_a_pod_that_opts_out_of_workloads_waits_for_none(
    annotations: dict[str, str], workload: str, skipped: bool
) -> None:
    metadata = {"name": "p", "namespace": "ns", "annotations": annotations}
    spec = {"workloadRef": {"name": "train", "podGroup": "workers"}}
    pod = read_pod({"metadata": metadata, "spec": spec})
    assert (pod.workload, pod.skipped) == (workload, skipped)


def status_of(name: str, state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, **more}


def pod_with(phase: str, *, init: list[Any] = [], own: list[Any] = [], **spec: Any) -> Pod:  # noqa: B006
    status = {"phase": phase, "initContainerStatuses": init, "containerStatuses": own}
    return read_pod({"metadata": {"name": "p"}, "spec": spec, "status": status})


ENDED = {"terminated": {"exitCode": 0}}
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
CRASHING = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
SINCE = 1767225600.0


@pytest.mark.parametrize(
    ("phase", "metadata", "status", "disrupted"),
    [
        ("Failed", {}, "True", "Eviction API: evicting"),
        ("Failed", {}, "False", ""),
        ("Running", {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "True", "Eviction API: evicting"),
        ("Running", {}, "True", ""),
    ],
)  # fmt: skip
def test_a_pod_that_ends_has_the_cause_of_its_disruption(
    phase: str, metadata: Any, status: str, disrupted: str
) -> None:
    """While a pod runs, the condition may remain from an eviction that did not happen."""
    told = {"type": "DisruptionTarget", "status": status, "message": "Eviction API: evicting"}
    state = {"phase": phase, "conditions": [told]}
    found = read_pod({"metadata": {"name": "p", **metadata}, "spec": {}, "status": state})
    assert found.disrupted == disrupted


def test_the_init_container_that_keeps_others_waiting_is_kept() -> None:
    waits = [status_of("main", {"waiting": {"reason": "PodInitializing"}})]
    runs = pod_with("Pending", init=[status_of("a", ENDED), status_of("b", RUNNING)], own=waits)
    assert runs.stalled == (Stalled("b", RUNS, init=True, since=SINCE),)

    last = {"terminated": {"exitCode": 3, "reason": "Error"}}
    fails = status_of("a", CRASHING, restartCount=4, lastState=last)
    assert pod_with("Pending", init=[fails], own=waits).stalled == (
        Stalled("a", "CrashLoopBackOff", "back-off", True, 4, ended="exit code 3"),
    )


def test_an_init_container_that_serves_all_along_keeps_nobody_waiting() -> None:
    sidecar = {"name": "proxy", "restartPolicy": "Always"}
    init = [status_of("proxy", RUNNING), status_of("b", {"waiting": {"reason": "PodInitializing"}})]
    assert pod_with("Pending", init=init, initContainers=[sidecar]).stalled == ()
    assert pod_with("Running", init=[status_of("b", RUNNING)]).stalled == ()


def test_a_sidecar_keeps_the_others_waiting_until_it_has_started() -> None:
    sidecar = {"name": "proxy", "restartPolicy": "Always"}
    for started in (False, True):
        init = [status_of("proxy", RUNNING, started=started)]
        found = pod_with("Pending", init=init, initContainers=[sidecar]).stalled
        waits = Stalled("proxy", UNSTARTED, init=True, since=SINCE)
        assert found == (() if started else (waits,))


def test_containers_that_do_not_run_are_kept_with_how_they_ended() -> None:
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    own = [
        status_of("main", CRASHING, restartCount=2, lastState=last),
        status_of("side", RUNNING),
        status_of("new", {"waiting": {"reason": "ContainerCreating"}}),
    ]
    assert pod_with("Running", own=own).stalled == (
        Stalled("main", "CrashLoopBackOff", "back-off", restarts=2, ended="OOMKilled"),
    )


@pytest.mark.parametrize(
    ("status", "kept"),
    [
        ({"phase": "Failed", "reason": "OutOfcpu", "message": "no"}, "OutOfcpu: no"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"phase": "Failed"}, ""),
        ({"phase": "Pending", "reason": "OutOfcpu"}, ""),
    ],
)
def test_why_a_pod_has_failed_is_kept(status: dict[str, Any], kept: str) -> None:
    assert read_pod({"metadata": {"name": "p"}, "status": status}).failure == kept


def test_the_group_of_another_scheduler_is_kept() -> None:
    volcano = {"annotations": {"scheduling.k8s.io/group-name": "vc"}}
    coscheduling = {"labels": {"scheduling.x-k8s.io/pod-group": "co"}}
    assert [read_pod({"metadata": m}).other_group for m in (volcano, coscheduling, {})] == [
        "vc",
        "co",
        "",
    ]


def test_it_is_kept_since_when_a_node_is_not_ready() -> None:
    def node(status: str) -> float | None:
        at = "2026-01-01T00:00:00Z"
        ready = {"type": "Ready", "status": status, "lastTransitionTime": at}
        return read_node({"metadata": {"name": "n"}, "status": {"conditions": [ready]}}).lost_at

    assert (node("True"), node("False"), node("Unknown")) == (None, SINCE, SINCE)


def test_the_taints_of_devices_are_kept() -> None:
    taints = [
        {"key": "xid", "value": "79", "effect": "NoExecute"},
        {"key": "old", "effect": "NoSchedule"},
        {"key": "soft", "effect": "None"},
    ]
    devices = [
        {"name": "gpu-0", "taints": taints[:1]},
        {"name": "gpu-1", "basic": {"taints": taints[1:]}},
    ]
    part = read_resource_slice({"spec": {"driver": "d", "devices": devices}})
    assert part.tainted == (("gpu-0", "xid=79:NoExecute"), ("gpu-1", "old:NoSchedule"))


FOR_F = {"shared-gpu-pod-name": "f", "shared-gpu-pod-namespace": "ml"}


@pytest.mark.parametrize(
    ("namespace", "labels", "kept"),
    [
        ("kai-scale-adjust", FOR_F, ("ml", "f")),
        ("kai-scale-adjust", {}, ("", "")),
        ("ml", FOR_F, None),
    ],
    ids=["it names a pod", "it names none", "anybody's pod with its labels"],
)
def test_the_pod_for_which_a_scaling_pod_requests_a_node_is_kept(
    namespace: str, labels: dict[str, str], kept: tuple[str, str] | None
) -> None:
    read = read_pod({"metadata": {"name": "p", "namespace": namespace, "labels": labels}})
    assert read.scales_for == kept


def test_a_workload_has_its_uid_because_events_are_about_it() -> None:
    obj = {"metadata": {"namespace": "t", "name": "train", "uid": "uid-train"}, "spec": {}}
    assert read_workload(obj) == Workload("t", "train", uid="uid-train")


@pytest.mark.parametrize(
    ("annotations", "level"),
    [
        ({}, ""),
        ({"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}, "rack"),
        ({"alpha.jobset.sigs.k8s.io/exclusive-topology": "block"}, "block"),
    ],
)
def test_the_level_that_groups_have_to_themselves_is_kept(annotations: Any, level: str) -> None:
    assert read_pod({"metadata": {"annotations": annotations}}).exclusive == level


REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}


@pytest.mark.parametrize(
    ("spec", "unchecked"),
    [
        ({}, ()),
        ({"affinity": {"podAffinity": PREFERRED}}, ()),
        ({"affinity": {"podAffinity": REQUIRED}}, ("podAffinity",)),
        (
            {"affinity": {"podAntiAffinity": REQUIRED, "podAffinity": REQUIRED}},
            ("podAffinity", "podAntiAffinity"),
        ),
        ({"containers": [container("1", ports=[{"containerPort": 80}])]}, ()),
        ({"containers": [container("1"), container("1", ports=[{"hostPort": 80}])]}, ("hostPort",)),
        ({"affinity": {"podAffinity": "odd"}, "containers": [{"ports": "odd"}]}, ()),
    ],
)
def test_the_rules_about_other_pods_are_noted(spec: Any, unchecked: tuple[str, ...]) -> None:
    assert read_pod({"metadata": {"name": "p"}, "spec": spec}).shape.unchecked == unchecked


@pytest.mark.parametrize(
    ("phase", "ready", "state", "unready"),
    [
        pytest.param("Running", "False", RUNNING, "main", id="it runs and is not ready"),
        pytest.param("Running", "True", RUNNING, "", id="it is ready"),
        pytest.param("Running", "False", CRASHING, "", id="it crashes"),
        pytest.param("Running", "False", ENDED, "", id="it has ended"),
        pytest.param("Pending", "False", RUNNING, "", id="the pod starts"),
    ],
)
def test_a_container_that_runs_and_is_not_ready_is_kept(
    phase: str, ready: str, state: Any, unready: str
) -> None:
    since = "2026-01-01T00:00:00Z"
    status = {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}],
        "containerStatuses": [status_of("main", state, ready=ready == "True")],
    }
    pod = read_pod({"metadata": {"name": "p"}, "spec": {}, "status": status})
    assert (pod.unready, pod.unready_since) == (unready, SINCE if unready else None)
    assert pod.is_ready == (ready == "True")


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        ({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, ("main", "OOMKilled")),
        ({"terminated": {"exitCode": 1, "reason": "Error"}}, ("main", "exit code 1")),
        (
            {"terminated": {"exitCode": 128, "reason": "StartError", "message": "no\nfile"}},
            ("main", "StartError: no file"),
        ),
        (ENDED, ("", "")),
        (CRASHING, ("", "")),
    ],
)
def test_how_a_container_of_a_failed_pod_ended_is_kept(state: Any, ended: tuple[str, str]) -> None:
    own = [status_of("proxy", ENDED), status_of("main", state)]
    assert pod_with("Failed", own=own).ended == ended
    assert pod_with("Running", own=own).ended == ("", "")
