"""Every field that a webhook's rules read is parsed from a live review.

A review is parsed only as far as its type says (`facts/grove/review_fields.py`). A rule that reads
another field works on documents, which are parsed whole, and never on live objects.
"""

import copy
import json
from typing import Any

import pytest
from msgspec.structs import replace

from app.admission.decide import Route, decide
from app.admission.review import parse
from app.admission.verdict import Verdict
from app.facts.grove.review_fields import PodCliqueFields, PodCliqueSetFields, PodFields
from tests.cluster.offline import OfflineCluster
from tests.fields_read import Steps, is_parsed, recorder
from tests.pods import UNITS, owners, pod
from tests.reviews import (
    OPERATORS,
    cluster,
    default_routes,
    load,
    names,
    operator_cluster,
    operator_names,
    path_of,
)
from tests.webhooks.test_pod_mnnvl import review as review_of_pod

TYPES: dict[str, Any] = {
    "/validate/podcliqueset": PodCliqueSetFields,
    "/mutate/podclique": PodCliqueFields,
    "/mutate/pod-mnnvl": PodFields,
}
"""The type that the reviews of a path are parsed as."""

REVIEWS = [
    name
    for name in (*names(), *(name for folder in OPERATORS for name in operator_names(folder)))
    if path_of(name) in TYPES
]


def completed(obj: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a PodCliqueSet in which each part has what a rule may look into."""
    obj = copy.deepcopy(obj)
    spec = obj.get("spec")
    if not isinstance(spec, dict) or "template" not in spec:
        return obj
    parts = [
        *spec["template"].get("cliques", ()),
        *spec["template"].get("podCliqueScalingGroups", ()),
    ]
    for part in (obj["metadata"], *parts):
        part.setdefault("annotations", {})["grove.io/mnnvl-enabled"] = "true"
        part.setdefault("labels", {})["kai.scheduler/queue"] = "q"
    for clique in spec["template"].get("cliques", ()):
        container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": 8}}}
        clique["spec"]["podSpec"] |= {
            "initContainers": [container],
            "containers": [container],
            "resourceClaims": [{"name": "own", "resourceClaimTemplateName": "t"}],
        }
    return obj


@pytest.mark.parametrize("name", REVIEWS)
async def test_rules_read_only_parsed_fields(name: str) -> None:
    folder = name.rpartition("/")[0]
    offline = operator_cluster(folder) if folder else cluster()
    route = default_routes(offline)[path_of(name)]
    await judge(route, load(name))


@pytest.mark.parametrize("name", [name for name, unit in UNITS.items() if unit])
async def test_rules_about_a_unit_read_only_parsed_fields(name: str) -> None:
    """The recorded reviews of Pods end before their units, because no owner is stored for them."""
    route = default_routes(OfflineCluster(owners()))["/mutate/pod-mnnvl"]
    await judge(replace(route, trusted=True), review_of_pod(pod(name)))


async def judge(route: Route, review: dict[str, Any]) -> None:
    """Judge a review, and compare the fields that are read with the fields that are parsed."""
    request = parse(json.dumps(review).encode())
    read: set[Steps] = set()
    request.object = recorder(completed(request.object), (), read)
    if request.old is not None:
        request.old = recorder(completed(request.old), (), read)
    answer = decide(route, request, 5.0)
    if not isinstance(answer, Verdict):
        await answer

    assert read or request.operation == "DELETE", "no field was read"
    assert [path for path in sorted(read) if not is_parsed(path, TYPES[route.path])] == []


def test_a_field_that_is_not_parsed_is_found() -> None:
    assert is_parsed(
        ("spec", "template", "cliques", "[]", "spec", "minAvailable"), PodCliqueSetFields
    )
    assert not is_parsed(
        ("spec", "template", "cliques", "[]", "spec", "startsAfter"), PodCliqueSetFields
    )
