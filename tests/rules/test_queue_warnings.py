"""Warnings about queues that don't exist."""

from typing import Any

import pytest

from app.facts.grove.template import read_template
from app.facts.kai.queue import read_queue
from app.rules.queue_warnings import (
    unit_warnings,
    unset_warnings,
    warnings_of_group,
    warnings_of_set,
)
from tests.said import Said

QUEUE = "kai.scheduler/queue"
GONE = {QUEUE: "gone"}
HERE = {QUEUE: "here"}


def pod_clique_set(metadata: Any, *cliques: Any) -> Any:
    return {"metadata": metadata, "spec": {"template": {"cliques": list(cliques)}}}


def of(scheduler: Any, **fields: Any) -> Any:
    """A clique whose pods go to a scheduler."""
    spec = {"podSpec": {"schedulerName": scheduler}}
    return {"name": str(scheduler), "spec": spec, **fields}


def missing(path: str) -> list[str]:
    return [
        f'{path}[{QUEUE}]: queue "gone" does not exist, and KAI schedules none of these pods until it does. Existing queues: here, there'
    ]


@pytest.mark.parametrize(
    ("name", "obj", "expected"),
    [
        ("it exists", pod_clique_set({"labels": HERE}), []),
        ("it names none", pod_clique_set({}), []),
        ("an empty name", pod_clique_set({"labels": {QUEUE: ""}}), []),
        ("a label", pod_clique_set({"labels": GONE}), missing("metadata.labels")),
        ("an annotation", pod_clique_set({"annotations": GONE}), missing("metadata.annotations")),
        ("a label counts first", pod_clique_set({"labels": HERE, "annotations": GONE}), []),
        (
            "a clique",
            pod_clique_set({}, {"labels": HERE}, {"labels": GONE}),
            missing("spec.template.cliques[1].labels"),
        ),
        (
            "the same twice",
            pod_clique_set({"labels": GONE}, {"labels": GONE}),
            missing("metadata.labels"),
        ),
        ("only Kueue", pod_clique_set({"labels": GONE}, of("kueue", labels=GONE), of("kueue")), []),
        (
            "a profile that is not Grove's own",
            pod_clique_set({"labels": GONE}, of("team-scheduler")),
            [],
        ),
        (
            "Kueue beside KAI",
            pod_clique_set({}, of("kueue", labels=GONE), of("kai-scheduler", labels=GONE)),
            missing("spec.template.cliques[1].labels"),
        ),
        (
            "the set, for the clique of Grove's default",
            pod_clique_set({"labels": GONE}, of("kueue"), of("")),
            missing("metadata.labels"),
        ),
        ("an odd scheduler", pod_clique_set({"labels": GONE}, of(7)), missing("metadata.labels")),
        (
            "odd values",
            pod_clique_set({"labels": [1]}, {"labels": 7}, {"annotations": {QUEUE: 1}}),
            [],
        ),
    ],
)
def test_a_set(name: str, obj: Any, expected: list[str]) -> None:
    assert warnings_of_set(read_template(obj), ["there", "here"]) == expected


def test_without_any_queue_nothing_is_known() -> None:
    assert warnings_of_set(read_template(pod_clique_set({"labels": GONE})), []) == []
    assert warnings_of_group({"spec": {"queue": "gone"}}, []) == []


def test_a_group() -> None:
    many = [f"q{number:02}" for number in range(12)]
    assert warnings_of_group({"spec": {"queue": "q03"}}, many) == []
    assert warnings_of_group({"spec": {}}, many) == []
    assert warnings_of_group({"spec": {"queue": "gone"}}, many) == [
        'spec.queue: queue "gone" does not exist, and KAI schedules none of these pods until it does. Existing queues: q00, q01, q02, q03, q04, q05, q06, q07, q08, q09 and 2 more'
    ]


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({}, "the limit of gpu, cpu and memory is not set"),
        ({"gpu": {"limit": 8}}, "the limit of cpu and memory is not set"),
        ({"gpu": {"limit": 0}, "cpu": {"limit": -1}, "memory": {"limit": -1}}, ""),
        ({"gpu": {"quota": 8}, "cpu": {"limit": -1}, "memory": {"limit": -1}}, "limit of gpu is"),
    ],
)
def test_limits_that_a_queue_does_not_set(resources: Any, words: str, said: Said) -> None:
    queue = read_queue({"metadata": {"name": "q"}, "spec": {"resources": resources}})
    found = unset_warnings(queue)
    assert len(found) == bool(words)
    assert all(words in text for text in found)
    said(found)


def test_a_queue_may_exist_beside_the_documents() -> None:
    obj = {"spec": {"queue": "team"}}
    assert warnings_of_group(obj, ["other"], is_whole=False) == [
        'spec.queue: queue "team" is not among the documents. Queues in the documents: other'
    ]


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        (
            {"cpu": {"limit": 16}, "memory": {"limit": -1}},
            ["cpu.limit: KAI reads 16 as 16 millicores. For 16 CPUs, set 16000"],
        ),
        (
            {"cpu": {"limit": 999}, "memory": {"limit": 512}},
            [
                "cpu.limit: KAI reads 999 as 999 millicores. For 999 CPUs, set 999000",
                "memory.limit: KAI reads 512 as 512 megabytes. For 512 GB, set 512000",
            ],
        ),
        ({"cpu": {"limit": 1000}, "memory": {"limit": 1000}}, []),
        ({"cpu": {"limit": 0}, "memory": {"limit": -1}, "gpu": {"limit": 1}}, []),
        ({"cpu": {"quota": 500, "limit": -1}}, []),
    ],
)
def test_limits_in_the_wrong_unit(resources: Any, words: list[str]) -> None:
    queue = read_queue({"metadata": {"name": "q"}, "spec": {"resources": resources}})
    assert unit_warnings(queue) == [f"spec.resources.{text}" for text in words]
