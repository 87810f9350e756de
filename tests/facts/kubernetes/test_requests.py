"""Requests of pods as schedulers count them."""

from typing import Any

import pytest

from app.facts.kubernetes.requests import pod_requests, read_requests
from tests.steps import steps


def container(cpu: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("1"), container("2")]}, 3000),
        (
            {"containers": [container("1")], "initContainers": [container("4"), container("2")]},
            4000,
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [{**container("1"), "restartPolicy": "Always"}],
            },
            2000,
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [{**container("1"), "restartPolicy": "Always"}, container("3")],
            },
            4000,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "5"}}}, 5000),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2000),
    ],
)
def test_requests_of_a_pod_are_counted_as_the_scheduler_does(
    spec: dict[str, Any], cpu: int
) -> None:
    assert pod_requests(spec) == {"cpu": cpu, "pods": 1000}


def test_each_sidecar_counts_from_its_place_on() -> None:
    def asks(name: str, amount: str, *, stays: bool = False) -> dict[str, Any]:
        policy = {"restartPolicy": "Always"} if stays else {}
        return {"name": "c", "resources": {"requests": {name: amount}}, **policy}

    init = [
        asks("a", "5"),
        asks("a", "1", stays=True),
        asks("a", "3"),
        asks("b", "2", stays=True),
        asks("b", "7"),
        asks("a", "2", stays=True),
    ]
    requests = pod_requests({"containers": [asks("b", "1")], "initContainers": init})
    assert requests == {"a": 5000, "b": 9000, "pods": 1000}


def test_the_time_grows_with_the_number_of_init_containers() -> None:
    def work(number: int) -> int:
        init = [
            {"restartPolicy": "Always", "resources": {"requests": {f"a/{n}": "1"}}}
            for n in range(number)
        ]
        return steps(lambda: pod_requests({"initContainers": init}))

    work(1)  # quantities are cached
    assert work(400) < 5 * work(100)


def test_claims_count_by_their_templates_and_equal_requests_are_one_object() -> None:
    claims = [
        {"name": "a", "resourceClaimTemplateName": "gpus"},
        {"name": "b", "resourceClaimTemplateName": "gpus"},
        {"name": "c", "resourceClaimName": "shared"},
    ]
    spec = {"containers": [container("1")], "resourceClaims": claims}
    requests = read_requests(spec)
    expected = (("claim gpus", 2000), ("claim shared", 1000), ("cpu", 1000), ("pods", 1000))
    assert requests == expected
    assert read_requests(dict(spec)) is requests


def test_a_pod_spec_of_another_form_asks_for_nothing() -> None:
    odd = {"containers": {"resources": {}}, "initContainers": [3, {"resources": []}]}
    assert read_requests(odd) == (("pods", 1000),)
