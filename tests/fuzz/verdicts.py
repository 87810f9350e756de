"""One recorded request, changed, through the rules of its webhook, over the facts of several
clusters.
"""

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import cache
from random import Random
from typing import Any, TypeVar

import msgspec
from jsonpatch import apply_patch
from msgspec.structs import replace

from app.admission.decide import Route
from app.admission.exchange import Answer, Exchange
from app.admission.review import parse
from app.webhooks.registry import WEBHOOKS
from tests.cluster.offline import OfflineCluster
from tests.fuzz.mutation import Vocabulary, dump, read
from tests.fuzz.target import Target
from tests.reviews import (
    JSON_HEADERS,
    LEVELS,
    NODE,
    OPERATORS,
    cluster,
    default_routes,
    load,
    names,
    operator_cluster,
    operator_names,
    path_of,
    recorded_sets,
)

T = TypeVar("T")

CODES = (None, 400, 403, 413, 422, 503)
"""Of a verdict; never 500."""

PATCHED = {
    "/mutate/podclique": ("/spec/podSpec",),
    "/mutate/podgang": ("/spec", "/metadata/annotations"),
    "/mutate/pod-binding": ("/metadata/labels",),
    "/mutate/pod": ("/metadata/annotations",),
}
"""Where each webhook may change an object. A missing parent is created with its content."""

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "worker-0", "namespace": "team", "labels": {"app": "train"}},
    "spec": {
        "schedulerName": "kai-scheduler",
        "workloadRef": {"name": "train", "podGroup": "workers", "podGroupReplicaKey": "0"},
        "containers": [{"name": "main", "image": "registry.example/main:1"}],
    },
}


def constrained() -> OfflineCluster:
    *others, group = recorded_sets()
    template = group["spec"]["template"]
    template["topologyConstraint"] = {"packDomain": "zone"}
    template["podCliqueScalingGroups"][0]["topologyConstraint"] = {"packDomain": "rack"}
    return OfflineCluster([*others, group, NODE], levels=LEVELS)


FACTS: dict[str, Callable[[], OfflineCluster]] = {
    "nothing": lambda: OfflineCluster([], topology_enabled=False),
    "recorded": cluster,
    "constrained": constrained,
    "design": lambda: operator_cluster(OPERATORS[0]),
    "today": lambda: operator_cluster(OPERATORS[1]),
    "maintained": lambda: operator_cluster(OPERATORS[1], enabled=True),
}


class Clusters:
    """The cluster of each name, built again once something was written in it."""

    def __init__(self) -> None:
        self._built: dict[str, tuple[OfflineCluster, dict[str, Route]]] = {}

    def routes(self, facts: str) -> dict[str, Route]:
        built = self._built.get(facts)
        if built is None or built[0].client.writes():
            offline = FACTS[facts]()
            built = self._built[facts] = (offline, default_routes(offline))
        return built[1]


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


CLUSTERS = Clusters()


def answered(route: Route, review: Any) -> Any:
    """What is answered to `review`, whatever it is: always 200 with a review."""
    status, body = awaited(_exchange().answer(route, b"timeout=10s", JSON_HEADERS, dump(review)))
    assert status in ((200,) if _uid(review) else (200, 400, 413)), (status, body)
    assert len(body) < 200_000 + 4 * len(dump(review)), f"an answer of {len(body)} bytes"
    return msgspec.json.decode(body)


def awaited(answer: Answer | Awaitable[Answer]) -> Answer:
    async def wait(awaitable: Awaitable[Answer]) -> Answer:
        return await awaitable

    return answer if isinstance(answer, tuple) else run_coroutine(wait(answer))


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """All inputs share a loop: a new one for each would take longer than what runs in it."""
    return _loop().run_until_complete(coroutine)


@cache
def _exchange() -> Exchange:
    return Exchange({}, lambda *_: None)


def _uid(review: Any) -> Any:
    request = review.get("request") if isinstance(review, dict) else None
    uid = request.get("uid") if isinstance(request, dict) else None
    return uid if isinstance(uid, str) else ""


def run(data: bytes) -> None:
    """Judges the review of `data`, read whole and as its webhook reads it, and what comes of the
    object once more.
    """
    case = read(data)
    if (
        not isinstance(case, dict)
        or case.get("facts") not in FACTS
        or case.get("path") not in PATHS
    ):
        return
    facts = case["facts"]
    path = case["path"]
    review = case.get("review")
    answer = answered(CLUSTERS.routes(facts)[path], review)
    whole = answered(replace(CLUSTERS.routes(facts)[path], parse=parse), review)
    assert whole == answer, "another answer to the same request"
    response = answer.get("response")
    if response is None:
        return  # a Status: there is no uid
    assert response["uid"], response
    assert response.get("status", {}).get("code") in CODES, response
    lengths = [len(warning) for warning in response.get("warnings", ())]
    assert max(lengths, default=0) <= 4096, response
    if "patch" in response:
        _check_patch(facts, path, review, msgspec.json.decode(b64decode(response["patch"])))


def _check_patch(facts: str, path: str, review: Any, patch: list[Any]) -> None:
    for operation in patch:
        at = f"{operation['path']}/"
        assert any(
            f"{place}/".startswith(at) or at.startswith(f"{place}/") for place in PATCHED[path]
        ), operation
    changed = {
        **review,
        "request": {**review["request"], "object": apply_patch(review["request"]["object"], patch)},
    }
    again = answered(CLUSTERS.routes(facts)[path], changed)["response"]
    assert (again["allowed"], "patch" in again) == (True, False), again


PATHS = tuple(webhook.path for webhook in WEBHOOKS)


def reviews(path: str) -> list[Any]:
    """The recorded requests of `path`; for Pods, of which none is recorded, one of a Workload's
    group.
    """
    recorded = [name for name in names() if path_of(name) == path]
    recorded += [
        name for operator in OPERATORS for name in operator_names(operator) if path_of(name) == path
    ]
    if path == "/mutate/pod":
        review = load("pod-binding.gpu-node-1")
        kind, resource = ({"group": "", "version": "v1", key: value} for key, value in _POD)
        return [
            {
                **review,
                "request": {
                    **review["request"],
                    "kind": kind,
                    "resource": resource,
                    "subResource": "",
                    "object": POD,
                },
            }
        ]
    return [load(name) for name in recorded]


_POD = (("kind", "Pod"), ("resource", "pods"))


def of_paths(name: str, *paths: str) -> Target:
    """The target that judges requests to `paths`."""

    @cache
    def vocabulary() -> Vocabulary:
        return Vocabulary(review for path in PATHS for review in reviews(path))

    def corpus() -> Sequence[bytes]:
        return [
            dump({"facts": facts, "path": path, "review": review})
            for path in paths
            for review in reviews(path)
            for facts in FACTS
        ]

    def mutate(data: bytes, random: Random) -> bytes:
        case = read(data)
        if not isinstance(case, dict) or "review" not in case:
            return random.choice(corpus())
        if random.random() < 0.1:
            case["facts"] = random.choice(list(FACTS))
        return dump({**case, "review": vocabulary().changed(case["review"], random)})

    return Target(name, run, corpus, mutate)


VALIDATE = of_paths("validate", *(path for path in PATHS if path.startswith("/validate/")))
MUTATE = of_paths("mutate", *(path for path in PATHS if path.startswith("/mutate/")))
