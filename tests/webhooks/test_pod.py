"""pods: which new Pods are marked for KAI, by the rule and by the conditions under which the API
server asks.
"""

from typing import Any

import pytest
from jsonpatch import apply_patch

from app.config.schema import Configuration, Workloads
from app.webhooks.registry import MUTATE_POD
from scripts.apiserver.objects import cel
from tests.reviews import Caller, patch_of

SKIP = "kai.scheduler/skip-podgrouper"
IGNORE = "kai.scheduler/ignore-workload-api"
OF_1_35 = {"workloadRef": {"name": "w", "podGroup": "g"}}
OF_1_36 = {"schedulingGroup": {"podGroupName": "w-g"}}
KAI = {"schedulerName": "kai-scheduler"}

PODS = [
    pytest.param({**KAI, **OF_1_35}, None, True, id="a Pod of 1.35 in a group"),
    pytest.param({**KAI, **OF_1_36}, None, True, id="a Pod of 1.36 in a group"),
    pytest.param({**KAI, **OF_1_36}, {"other": "1"}, True, id="other annotations stay"),
    pytest.param({**KAI, **OF_1_36}, {SKIP: "false"}, True, id="a refusal of the mark"),
    pytest.param({**KAI, **OF_1_36}, {IGNORE: "false"}, True, id="an opt-out that is none"),
    pytest.param({**KAI, **OF_1_36}, {SKIP: "true"}, False, id="marked already"),
    pytest.param({**KAI, **OF_1_36}, {IGNORE: "true"}, False, id="opted out"),
    pytest.param(KAI, None, False, id="no group"),
    pytest.param(
        {"schedulerName": "default-scheduler", **OF_1_36}, None, False, id="another scheduler"
    ),
    pytest.param(OF_1_36, None, False, id="no scheduler"),
]


def new_pod(spec: Any, annotations: Any) -> dict[str, Any]:
    metadata = {"generateName": "p-", "namespace": "ns"} | (
        {} if annotations is None else {"annotations": annotations}
    )
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def review(pod: Any) -> dict[str, Any]:
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "uid": "u",
        "kind": kind,
        "resource": resource,
        "namespace": "ns",
        "operation": "CREATE",
        "object": pod,
    }
    who = {
        "userInfo": {"username": "system:serviceaccount:kube-system:job-controller"},
        "dryRun": False,
    }
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {**request, **who},
    }


async def answered(pod: Any, workloads: Workloads | None = None) -> Any:
    caller = Caller(configuration=Configuration(workloads=workloads or Workloads()))
    response = await caller.ask("/mutate/pod", review(pod))
    assert response["allowed"]
    return apply_patch(pod, patch_of(response))


@pytest.mark.parametrize(("spec", "annotations", "marked"), PODS)
@pytest.mark.statement("W.27", "W.40")
async def test_a_new_pod_of_a_group_is_marked_and_no_other(
    spec: Any, annotations: Any, marked: bool
) -> None:
    pod = new_pod(spec, annotations)
    after = new_pod(spec, {**(annotations or {}), SKIP: "true"} if marked else annotations)
    assert await answered(pod) == after
    assert await answered(after) == after


@pytest.mark.parametrize(("spec", "annotations", "marked"), PODS)
def test_the_api_server_asks_about_those_pods_and_no_other(
    spec: Any, annotations: Any, marked: bool
) -> None:
    pod = new_pod(spec, annotations)
    conditions = list(MUTATE_POD.match_conditions.values())
    assert all(cel.holds(condition, {"object": pod}) for condition in conditions) is marked


@pytest.mark.parametrize(
    "workloads",
    [
        pytest.param(
            Workloads(enabled=False),
            id="Workloads are not mapped, so that nothing would give it a PodGroup",
        ),
        pytest.param(
            Workloads.model_validate({"schedulerName": "other"}),
            id="our scheduler has another name",
        ),
    ],
)
async def test_a_pod_that_gets_no_podgroup_from_us_is_not_marked(workloads: Workloads) -> None:
    pod = new_pod({**KAI, **OF_1_36}, None)
    assert await answered(pod, workloads) == pod


@pytest.mark.parametrize("spec", [None, [], {"schedulerName": 3}, {**KAI, "workloadRef": "w"}])
async def test_a_spec_that_makes_no_sense_is_allowed_as_it_is(spec: Any) -> None:
    assert await answered(new_pod(spec, None)) == new_pod(spec, None)
