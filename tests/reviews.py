"""The recorded AdmissionReviews, their facts, and a caller that behaves like an API server."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from msgspec.structs import replace

from app.admission.asgi import Message, answer_review
from app.admission.decide import Route
from app.admission.exchange import Exchange
from app.admission.review import Request
from app.admission.verdict import Verdict
from app.config.schema import Configuration
from app.facts.grove.topology import Level
from app.webhooks.registry import routes_over, served_routes
from tests.cluster.offline import OfflineCluster

JSON_HEADERS = {b"content-type": b"application/json"}

DIRECTORY = Path(__file__).parent / "testdata" / "reviews"
OPERATOR = "system:serviceaccount:grove-system:grove-admission"
LEVELS = tuple(
    Level(
        domain, "kubernetes.io/hostname" if domain == "host" else f"topology.kubernetes.io/{domain}"
    )
    for domain in ("zone", "block", "rack", "host", "numa")
)


def _clique(name: str, scope: str) -> dict[str, Any]:
    annotations = {"grove.io/mnnvl-enabled": "true", "grove.io/mnnvl-scope": scope}
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    return {
        "name": name,
        "annotations": annotations,
        "spec": {"podSpec": {"containers": [container]}},
    }


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "gpu-node-1",
        "labels": {
            "topology.kubernetes.io/region": "us-east-1",
            "topology.kubernetes.io/zone": "us-east-1a",
            "topology.kubernetes.io/block": "b3",
            "topology.kubernetes.io/rack": "r12",
            "kubernetes.io/hostname": "gpu-node-1",
        },
    },
}
PATHS = {
    "clustertopology": "/validate/clustertopology",
    "clustertopologybinding": "/validate/clustertopology",
    "podcliqueset": "/validate/podcliqueset",
    "podgroup": "/validate/podgroup",
    "podclique": "/mutate/podclique",
    "podgang": "/mutate/podgang",
    "podgang-deletion": "/validate/podgang",
    "pod-binding": "/mutate/pod-binding",
    "pod": "/mutate/pod",
    "pod-mnnvl": "/mutate/pod-mnnvl",
    "pod-mnnvl-check": "/validate/pod-mnnvl",
}


def names() -> list[str]:
    return sorted(path.stem for path in DIRECTORY.glob("*.json"))


NVL = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "metadata": {
        "name": "nvl",
        "namespace": "t",
        "uid": "2afede81-986f-406d-a574-ffb0ac4cf318",
    },
    "spec": {
        "replicas": 1,
        "template": {
            "cliques": [
                _clique("rep", "replica"),
                _clique("cl", "clique"),
                _clique("pw", "scalingGroupReplica"),
            ],
            "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["pw"], "replicas": 2}],
        },
    },
}
"""The set of the recorded PodCliques with MNNVL, as far as it asks for MNNVL; it was not recorded."""

OPERATORS = ("grove-a5b8e0dc", "grove-fcc3b3bb", "grove-616762f7")
"""The folders with what a real Grove operator caused, by its commit."""


SETS = {
    "grove-fcc3b3bb": [
        "grove-fcc3b3bb/podcliqueset.three-levels",
        "grove-fcc3b3bb/podcliqueset.mnnvl-groups",
    ],
    "grove-616762f7": [
        "grove-616762f7/podcliqueset.topology-and-groups",
        "grove-fcc3b3bb/podcliqueset.mnnvl-groups",
        "grove-616762f7/podgangmap.create",
    ],
}
"""The stored objects that the recordings of an operator belong to."""


def operator_names(operator: str) -> list[str]:
    """Return the recordings of `operator` for which we have a webhook, as `folder/name`."""
    stems = sorted(path.stem for path in (DIRECTORY / operator).glob("*.json"))
    return [f"{operator}/{name}" for name in stems if name.partition(".")[0] in PATHS]


def operator_cluster(
    operator: str, *, enabled: bool = False, more: Sequence[dict[str, Any]] = ()
) -> OfflineCluster:
    """Return the cluster in which `operator` was recorded: topology, nodes n0 to n7, and sets.

    With `enabled`, we also manage the topology of the current operator. `more` are further objects.
    """
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"n{number}",
                "labels": {
                    "topology.kubernetes.io/region": "r1",
                    "topology.kubernetes.io/zone": f"z{number // 4}",
                    "topology.kubernetes.io/block": f"b{number // 4}",
                    "topology.kubernetes.io/rack": f"k{number // 2}",
                    "kubernetes.io/hostname": f"n{number}",
                },
            },
        }
        for number in range(8)
    ]
    if operator == "grove-a5b8e0dc":
        sets = [load(f"{operator}/podcliqueset.create-by-user")["request"]["object"], NVL]
        return OfflineCluster([*nodes, *sets], levels=LEVELS[:4])
    named = [*SETS[operator], "grove-fcc3b3bb/clustertopologybinding.create-by-user"]
    objects = [load(name)["request"]["object"] for name in named]
    return OfflineCluster([*nodes, *objects, *more], topology_enabled=enabled)


def load(name: str) -> dict[str, Any]:
    review: dict[str, Any] = json.loads((DIRECTORY / f"{name}.json").read_text())
    return review


def path_of(name: str) -> str:
    return PATHS[name.rpartition("/")[2].partition(".")[0]]


def recorded_sets() -> list[dict[str, Any]]:
    cases = ("mnnvl-replica-scope", "mnnvl-clique-scope", "mnnvl-scaling-group-scope")
    return [load(f"podcliqueset.{case}")["request"]["object"] for case in cases]


def cluster(*objects: dict[str, Any], enabled: bool = True) -> OfflineCluster:
    """Return the cluster of the recordings, with further `objects`."""
    return OfflineCluster(
        [*recorded_sets(), NODE, *objects], topology_enabled=enabled, levels=LEVELS
    )


def default_routes(offline: OfflineCluster) -> dict[str, Route]:
    return routes_over(Configuration(), offline)


def trusted(routes: Mapping[str, Route]) -> dict[str, Route]:
    """Return routes whose paths only API servers know."""
    return {path: replace(route, trusted=True) for path, route in routes.items()}


@dataclass
class Seen:
    """The calls of the server's observer."""

    verdicts: list[tuple[str, str, Verdict]] = None  # type: ignore[assignment]
    requests: list[tuple[str, Request | None, Verdict]] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.verdicts = []
        self.requests = []

    def __call__(
        self, path: str, uid: str, request: Request | None, verdict: Verdict, seconds: float
    ) -> None:
        assert seconds >= 0
        self.verdicts.append((path, uid, verdict))
        self.requests.append((path, request, verdict))


@dataclass
class OverAsgi:
    """An ASGI app that answers like the routes of the FastAPI application."""

    exchange: Exchange

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        route = self.exchange.route(scope["path"])
        assert route is not None
        code, body = await answer_review(self.exchange, route, scope, receive)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
        ]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Caller:
    """An API server's side of the admission paths, over an offline cluster."""

    def __init__(
        self,
        offline: OfflineCluster | None = None,
        configuration: Configuration | None = None,
        *,
        is_trusted: bool = True,
    ) -> None:
        self.cluster = offline or cluster()
        self.seen = Seen()
        routes = served_routes(configuration or Configuration(), self.cluster)
        if is_trusted:
            routes = trusted(routes)
        self.app = OverAsgi(Exchange(routes, self.seen))

    async def post(
        self, path: str, body: bytes, content_type: str | None = "application/json"
    ) -> httpx.Response:
        headers = {b"content-type": content_type.encode()} if content_type is not None else {}
        headers[b"content-length"] = b"%d" % len(body)
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"timeout=10s"}
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body}

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app({**scope, "headers": list(headers.items())}, receive, send)
        start, rest = sent
        return httpx.Response(start["status"], headers=start["headers"], content=rest["body"])

    async def ask(self, path: str, review: dict[str, Any]) -> dict[str, Any]:
        """Return the field `response` of the answer to `review`."""
        answer = await self.post(path, json.dumps(review).encode())
        assert answer.status_code == 200, answer.text
        answered: dict[str, Any] = answer.json()
        assert answered["apiVersion"] == "admission.k8s.io/v1"
        assert answered["kind"] == "AdmissionReview"
        response: dict[str, Any] = answered["response"]
        assert response["uid"] == review["request"]["uid"]
        return response


def patch_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    if "patch" not in response:
        return []
    assert response["patchType"] == "JSONPatch"
    patch: list[dict[str, Any]] = json.loads(base64.b64decode(response["patch"]))
    return patch
