"""The policies for API servers: what each configuration changes in them.

What they decide is tested in `tests/policies`. `said.txt` has each value that differs from the one
of the default configuration.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import astuple

from app.config.schema import Configuration
from app.kube.api import Object
from app.webhooks.policies import (
    UNCOVERED,
    admission_policies,
    exempt_namespaces,
    marking_policies,
    queue_policies,
    text,
    texts,
)
from tests.said import Said

LEVELS = [{"domain": "zone", "key": "k/zone"}, {"domain": "rack", "key": "k/rack"}]
SERVERS = {
    "clusterTopology": {"enabled": True, "name": "mine", "levels": LEVELS},
    "authorization": {"authorizedUsers": ["system:serviceaccount:ops:grove"]},
    "workloads": {"enabled": True, "schedulerName": "other-scheduler"},
    "enforcement": {"mode": "warn"},
}
Made = Callable[[Configuration], list[Object]]
POLICIES: dict[str, Made] = {
    "rules": admission_policies,
    "static rules": lambda settings: admission_policies(settings, is_static=True),
    "marks": marking_policies,
    "static marks": lambda settings: marking_policies(settings, is_static=True),
    "queues": lambda settings: queue_policies(settings, "refuse", "kai", "assigner"),
    "queues that warn": lambda settings: queue_policies(settings, "warn"),
}


def leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(f"{path}.{key}", each)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from leaves(f"{path}[{number}]", each)
    else:
        yield path, json.dumps(value)


def values(objects: list[Object]) -> dict[str, str]:
    return dict(
        leaf for obj in objects for leaf in leaves(f"{obj['kind']} {obj['metadata']['name']}", obj)
    )


def around(value: str, other: str) -> str:
    """The place where a value begins to differ."""
    equal = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(value, other, strict=False))
    at = sum(1 for _ in equal)
    return value[max(0, at - 20) : at + 60]


@pytest.mark.parametrize("name", POLICIES)
def test_a_configuration_changes_these_values(name: str, said: Said) -> None:
    before = values(POLICIES[name](Configuration()))
    after = values(POLICIES[name](Configuration.model_validate(SERVERS)))
    said(
        f"+ {path}: {around(value, before.get(path, ''))}"
        for path, value in after.items()
        if before.get(path) != value
    )
    said(f"- {path}" for path in before if path not in after)


@pytest.mark.parametrize("name", POLICIES)
def test_policies_and_their_bindings_by_name(name: str, said: Said) -> None:
    said(f"{obj['kind']} {obj['metadata']['name']}" for obj in POLICIES[name](Configuration()))


def test_without_workloads_no_pods_are_marked() -> None:
    assert marking_policies(Configuration.model_validate({"workloads": {"enabled": False}})) == []


def test_the_namespaces_of_kubernetes_and_of_the_server_are_exempt() -> None:
    ours = Configuration.model_validate({"certificates": {"namespace": "ours"}})
    assert exempt_namespaces(ours) == ["kube-system", "ours"]


def test_texts_of_expressions_are_quoted() -> None:
    assert (text("a'b"), texts(["a", "b"])) == ('"a\'b"', '["a", "b"]')


def test_what_only_webhooks_can_do(said: Said) -> None:
    said(" | ".join(map(str, astuple(row))) for row in UNCOVERED)
