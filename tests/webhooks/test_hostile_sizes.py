"""Reviews with very long lists and texts, which anybody may send: what a verdict on them may take."""

import json
import tracemalloc
from typing import Any

import pytest

from app.admission.exchange import Exchange
from app.cluster.filled import cluster_of
from app.config.schema import Configuration
from app.facts.grove.podcliqueset import read_bounded_set
from app.facts.identity import read_place
from app.objects.fields import MOST_ITEMS
from app.rules.dialects.bindings.podgangs import gang_warnings
from app.rules.set_size import size_findings
from app.webhooks.registry import routes_over
from tests.reviews import JSON_HEADERS, Seen

LEVELS = [
    {"domain": "zone", "key": "topology.kubernetes.io/zone"},
    {"domain": "rack", "key": "topology.kubernetes.io/rack"},
]
BINDING = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopologyBinding",
    "metadata": {"name": "grove-topology"},
    "spec": {"levels": LEVELS},
}
GPUS = {"podSpec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 8}}}]}}
LONG = "a" * 1_000_000
ENABLED = {"grove.io/mnnvl-enabled": "true"}


def asked(
    path: str, kind: tuple[str, str, str], obj: Any, facts: Any = (), old: Any = None
) -> dict[str, Any]:
    """The response to a review of `obj`, whose kind is a group, a kind and a plural."""
    levels = {"clusterTopology": {"enabled": True, "levels": LEVELS}}
    configuration = Configuration.model_validate(levels)
    routes = routes_over(configuration, cluster_of(configuration, facts))
    group, name, plural = kind
    request = {
        "uid": "u",
        "operation": "UPDATE" if old else "CREATE",
        "kind": {"group": group, "version": "v1alpha1", "kind": name},
        "resource": {"group": group, "version": "v1alpha1", "resource": plural},
        "namespace": "a",
        "object": {"metadata": {"name": "x"}, **obj},
    }
    request |= {"oldObject": old} if old else {}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    exchange = Exchange(routes, Seen())
    answer = exchange.answer(routes[path], b"", JSON_HEADERS, json.dumps(review).encode())
    assert isinstance(answer, tuple)
    response: dict[str, Any] = json.loads(answer[1])["response"]
    return response


def of_set(template: Any, facts: Any = (), **metadata: Any) -> dict[str, Any]:
    kind = ("grove.io", "PodCliqueSet", "podcliquesets")
    obj = {"metadata": {"name": "x", **metadata}, "spec": {"template": template}}
    return asked("/validate/podcliqueset", kind, obj, facts)


LISTS = {
    "SubGroups": (
        "/validate/podgroup",
        ("scheduling.run.ai", "PodGroup", "podgroups"),
        lambda items: {"subGroups": items},
        "spec.subGroups",
    ),
    "PodGroups of a PodGang": (
        "/mutate/podgang",
        ("scheduler.grove.io", "PodGang", "podgangs"),
        lambda items: {"podgroups": items},
        "spec.podgroups",
    ),
}


@pytest.mark.parametrize(("path", "kind", "spec", "field"), LISTS.values(), ids=LISTS.keys())
def test_a_long_list_is_refused_as_a_whole(
    path: str, kind: tuple[str, str, str], spec: Any, field: str
) -> None:
    refused = asked(path, kind, {"spec": spec([1] * (MOST_ITEMS + 1))})["status"]
    assert (refused["code"], refused["details"]["causes"]) == (
        422,
        [
            {
                "reason": "FieldValueTooMany",
                "message": "Too many: 10001: must have at most 10000 items",
                "field": field,
            }
        ],
    )


def test_subgroups_that_are_all_valid_are_allowed_however_many_they_are() -> None:
    path, kind, _, _ = LISTS["SubGroups"]
    valid = [{"name": f"s{number}", "topologyConstraint": {}} for number in range(MOST_ITEMS + 1)]
    assert asked(path, kind, {"spec": {"subGroups": valid}})["allowed"]


def test_of_a_long_list_that_is_not_refused_the_begin_is_looked_at() -> None:
    held = {"topologyConstraint": {"packConstraint": {"required": "a"}}}
    gang = {"spec": {"podgroups": [held] * (MOST_ITEMS + 1)}}
    assert len(gang_warnings(gang, lambda _: None)) == MOST_ITEMS

    claims = [{"name": "mnnvl-claim"}] * (MOST_ITEMS + 1)
    clique = {"name": "a", "spec": {"podSpec": {**GPUS["podSpec"], "resourceClaims": claims}}}
    refused = of_set(
        {"cliques": [{**clique, "annotations": {"grove.io/mnnvl-group": "g"}}]}, [BINDING]
    )["status"]
    message = refused["details"]["causes"][-1]["message"]
    assert message == "Too many: findings from this one on are not listed (9,900 more)"


def constrained(domain: str, dialect: str) -> dict[str, Any]:
    if dialect == "design":
        return {"packDomain": domain}
    return {"topologyName": "grove-topology", "pack": {"required": domain}}


def in_a_group_with_a_long_name(count: int, dialect: str) -> dict[str, Any]:
    names = [f"c{number}" for number in range(count)]
    cliques = [{"name": name, "topologyConstraint": constrained("zone", dialect)} for name in names]
    group = {"name": LONG, "cliqueNames": names, "topologyConstraint": constrained("rack", dialect)}
    return of_set(
        {"cliques": cliques, "podCliqueScalingGroups": [group]},
        [BINDING] if dialect == "bindings" else [],
    )


def beside_a_long_topology_name(count: int, dialect: str) -> dict[str, Any]:
    cliques = [
        {"name": f"c{number}", "topologyConstraint": {"topologyName": "b"}}
        for number in range(count)
    ]
    template = {"topologyConstraint": {"topologyName": LONG}, "cliques": cliques}
    return of_set(template, [BINDING])


def in_a_long_group_of_grove(count: int, dialect: str) -> dict[str, Any]:
    cliques = [
        {"name": f"c{number}", "annotations": ENABLED, "spec": GPUS} for number in range(count)
    ]
    annotations = {"grove.io/mnnvl-group": LONG}
    return of_set({"cliques": cliques}, [BINDING], annotations=annotations)


@pytest.mark.parametrize(
    ("ask", "dialect"),
    [
        (in_a_group_with_a_long_name, "design"),
        (in_a_group_with_a_long_name, "bindings"),
        (beside_a_long_topology_name, "bindings"),
        (in_a_long_group_of_grove, "bindings"),
    ],
)
def test_a_long_text_is_not_repeated_for_each_part(ask: Any, dialect: str) -> None:
    tracemalloc.start()
    try:
        response = ask(50, dialect)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(response["status"]["details"]["causes"]) >= 50
    assert peak < 20_000_000


def test_places_of_long_texts_are_not_kept() -> None:
    tracemalloc.start()
    try:
        for number in range(30):
            labels = {"app.kubernetes.io/part-of": f"{number}-{LONG}"}
            assert read_place(labels).pcs.endswith(LONG)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 5_000_000


# Sets of hundreds of parts.


def cliques(number: int) -> Any:
    return {"cliques": [{"name": f"c{n}", "spec": {"replicas": 1}} for n in range(number)]}


def groups(number: int, names: int = 1) -> Any:
    held = [{"name": f"g{n}", "cliqueNames": ["c0"] * names} for n in range(number)]
    return {**cliques(1), "podCliqueScalingGroups": held}


TOO_MANY = "a PodCliqueSet must have at most 128 cliques and scaling groups"


@pytest.mark.parametrize(
    ("template", "refusal"),
    [
        (cliques(128), ""),
        (cliques(129), f"spec.template.cliques: Too many: 129: {TOO_MANY}"),
        (groups(127), ""),
        (groups(128), f"spec.template.cliques: Too many: 129: {TOO_MANY}"),
        (
            groups(2, 65),
            "spec.template.podCliqueScalingGroups: Too many: 130: the scaling groups of a"
            " PodCliqueSet must have at most 128 cliqueNames",
        ),
    ],
    ids=["128 cliques", "129 cliques", "128 with groups", "129 with groups", "many names"],
)
def test_sets_of_hundreds_of_parts_are_refused(template: Any, refusal: str) -> None:
    response = of_set(template)
    assert response["allowed"] == (not refusal)
    assert refusal in response.get("status", {}).get("message", "")


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [(200, 200, True), (200, 150, True), (200, 100, True), (200, 201, False), (100, 129, False)],
)
def test_a_set_that_is_older_than_the_bound_may_not_grow(
    before: int, after: int, allowed: bool
) -> None:
    kind = ("grove.io", "PodCliqueSet", "podcliquesets")
    old = {"metadata": {"name": "x"}, "spec": {"template": cliques(before)}}
    obj = {"spec": {"replicas": 2, "template": cliques(after)}}
    response = asked("/validate/podcliqueset", kind, obj, old=old)
    assert response["allowed"] == allowed


def test_the_parts_of_a_set_that_is_too_large_are_not_looked_at() -> None:
    class Unread(list[Any]):
        def __iter__(self) -> Any:
            raise AssertionError("the list was read")

    many = {"spec": {"template": {"cliques": Unread([1] * 9_990)}}}
    assert len(size_findings(many, None)) == 1
    assert read_bounded_set(many).is_cut
