"""The binding subresource of pods: what a pod looks like afterwards, and which bindings are
refused.
"""

from typing import Any

import pytest

from tests.apiserver.api import NAMESPACE, Api, Object

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DONE = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def pod(name: str = "p", spec: Object | None = None, **metadata: Any) -> Object:
    containers = [{"name": "c", "image": "i"}]
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"containers": containers, **(spec or {})},
    }


def binding(node: str = "n", name: str = "p", **metadata: Any) -> Object:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": target,
    }


def facts(bound: Object) -> Object:
    """What a binding changes."""
    conditions = bound["status"].get("conditions") or []
    return {
        "labels": bound["metadata"].get("labels"),
        "annotations": bound["metadata"].get("annotations"),
        "node": bound["spec"].get("nodeName"),
        "conditions": [
            {key: condition[key] for key in condition if key != "lastTransitionTime"}
            for condition in conditions
        ],
        "phase": bound["status"]["phase"],
    }


UNBOUND: Object = {
    "labels": None,
    "annotations": None,
    "node": None,
    "conditions": [],
    "phase": "Pending",
}
BOUND = {**UNBOUND, "node": "n", "conditions": [SCHEDULED]}


@pytest.mark.parametrize(
    ("metadata", "body", "expected"),
    [
        pytest.param(
            {},
            binding("elsewhere"),
            {**BOUND, "node": "elsewhere"},
            id="a node that isn't there will do",
        ),
        pytest.param({}, binding(), BOUND, id="a node that is there"),
        pytest.param(
            {"labels": {"a": "b"}},
            binding(labels={"c": "d"}, annotations={"e": "f"}),
            {**BOUND, "labels": {"a": "b", "c": "d"}, "annotations": {"e": "f"}},
            id="labels and annotations of the binding",
        ),
        pytest.param(
            {"labels": {"a": "b"}, "annotations": {"e": "f"}},
            binding(labels={"a": "c"}, annotations={"e": "g"}),
            {**BOUND, "labels": {"a": "c"}, "annotations": {"e": "g"}},
            id="the binding's labels before the pod's",
        ),
        pytest.param(
            {},
            {"metadata": {"name": "p"}, "target": {"name": "n"}},
            BOUND,
            id="a binding that leaves out what it may",
        ),
    ],
)
async def test_a_pod_is_bound(api: Api, metadata: Object, body: Object, expected: Object) -> None:
    await api.done("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    await api.done("POST", PODS, pod(**metadata))
    assert await api.ask("POST", f"{PODS}/p/binding", body) == (201, DONE)
    assert facts(await api.done("GET", f"{PODS}/p")) == expected


async def test_a_condition_of_old_is_replaced(api: Api) -> None:
    await api.done("POST", PODS, pod())
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    ready = {"type": "Ready", "status": "False"}
    await api.done("PATCH", f"{PODS}/p/status", {"status": {"conditions": [waiting, ready]}})
    await api.done("POST", f"{PODS}/p/binding", binding())
    assert facts(await api.done("GET", f"{PODS}/p"))["conditions"] == [SCHEDULED, ready]


async def test_a_dry_run_binds_nothing(api: Api) -> None:
    await api.done("POST", PODS, pod())
    assert await api.done("POST", f"{PODS}/p/binding", binding(), dryRun="All") == DONE
    assert facts(await api.done("GET", f"{PODS}/p")) == UNBOUND


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            binding(name="q"),
            (
                400,
                "BadRequest",
                "the name of the object (q) does not match the name on the URL (p)",
            ),
            id="another pod",
        ),
        pytest.param(
            binding(namespace="away"),
            (
                400,
                "BadRequest",
                "the namespace of the object (away) does not match that on the request (home)",
            ),
            id="another namespace",
        ),
        pytest.param(
            {**binding(), "kind": "Pod"},
            (
                400,
                "BadRequest",
                'Pod in version "v1" cannot be handled as a Binding in version "v1"',
            ),
            id="another kind",
        ),
        pytest.param(
            {**binding(), "apiVersion": "v9"},
            (
                400,
                "BadRequest",
                'Binding in version "v9" cannot be handled as a Binding in version "v1"',
            ),
            id="another version",
        ),
        pytest.param(
            {"metadata": {"name": "p"}}, (500, "", "target.name: Required value"), id="no target"
        ),
        pytest.param(
            binding(""), (500, "", "target.name: Required value"), id="a target without a name"
        ),
        pytest.param(
            [], (400, "BadRequest", "the body of the request must be an object"), id="a list"
        ),
    ],
)
async def test_bindings_that_are_none(api: Api, body: Any, expected: tuple[int, str, str]) -> None:
    await api.done("POST", PODS, pod())
    assert await api.refused("POST", f"{PODS}/p/binding", body) == expected
    assert facts(await api.done("GET", f"{PODS}/p")) == UNBOUND


CONFLICT = 'Operation cannot be fulfilled on pods/binding "p": pod p '


async def test_there_must_be_a_pod(api: Api) -> None:
    assert await api.refused("POST", f"{PODS}/p/binding", binding()) == (
        404,
        "NotFound",
        'pods "p" not found',
    )


@pytest.mark.parametrize(
    ("name", "label"),
    [pytest.param("uid", "UID", id="uid"), pytest.param("resourceVersion", "ResourceVersion")],
)
async def test_a_binding_can_say_which_pod_it_means(api: Api, name: str, label: str) -> None:
    stored = (await api.done("POST", PODS, pod()))["metadata"][name]
    why = f"Precondition failed: {label} in precondition: other, {label} in object meta: {stored}"
    told = (409, "Conflict", f'Operation cannot be fulfilled on pods "p": {why}')
    assert await api.refused("POST", f"{PODS}/p/binding", binding(**{name: "other"})) == told
    assert await api.done("POST", f"{PODS}/p/binding", binding(**{name: stored})) == DONE


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_a_binding_is_only_created(api: Api, method: str) -> None:
    assert (await api.refused(method, f"{PODS}/p/binding"))[:2] == (405, "MethodNotAllowed")
