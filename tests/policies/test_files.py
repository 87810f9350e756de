"""The files of `manifests/policies`: what a configuration changes in them, and that they ship.

Tests `app/webhooks/policies.py` and `app/facts/kinds.py`.
"""

import itertools
import json
import tomllib
from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from app.config.schema import Configuration
from app.facts import kinds
from app.objects import resource
from app.objects.resource import Resource
from app.webhooks.policies import admission_policies, marking_policies, queue_policies
from tests.rendered import MANIFESTS

pytestmark = pytest.mark.untraced

Object = dict[str, Any]
FOLDER = MANIFESTS / "policies"
OTHER = Configuration.model_validate(
    {
        "clusterTopology": {
            "enabled": True,
            "name": "levels-a",
            "levels": [{"domain": "host", "key": "kubernetes.io/hostname"}],
        },
        "authorization": {"authorizedUsers": ["zoe"]},
        "certificates": {"namespace": "namespace-a"},
        "workloads": {
            "enabled": True,
            "schedulerName": "scheduler-a",
            "labels": {"queue": "queue-a", "project": "project-a", "nodePool": "pool-a"},
        },
    }
)
"""A configuration that changes everything that can be changed."""

STATIC = admission_policies(OTHER, is_static=True)
FILLED: dict[str, tuple[list[Object], set[str]]] = {
    "rules": (admission_policies(OTHER), {"levels-a", "zoe", "namespace-a"}),
    "static": (STATIC, {"levels-a", "zoe", "namespace-a"}),
    "pod-mark": (marking_policies(OTHER), {"scheduler-a", "namespace-a"}),
    "queues": (
        queue_policies(OTHER, "refuse", "kai-a"),
        {"queue-a", "project-a", "pool-a", "scheduler-a", "kai-a", "zoe", "namespace-a"},
    ),
}
DEFAULTS = (
    "grove-topology",
    "system:serviceaccount:grove-system:grove-admission",
    "system:serviceaccount:grove-system:grove-operator",
    "system:serviceaccounts:grove-system",
    "system:serviceaccounts:kai-scheduler",
    "kai.scheduler/queue",
    "kai.scheduler/node-pool",
    "project",
    "kai-scheduler",
)


@pytest.mark.parametrize("name", FILLED)
def test_a_configuration_fills_in_all_of_its_values_and_leaves_no_default(name: str) -> None:
    objects, values = FILLED[name]
    text = json.dumps(objects)
    assert [value for value in values if value not in text] == []
    left = [value for value in DEFAULTS if json.dumps(json.dumps(value))[1:-1] in text]
    assert left == []
    assert "grove-system" not in text


def test_static_policies_have_no_parameters_and_the_levels_of_the_configuration() -> None:
    assert [obj for obj in STATIC if {"paramKind", "paramRef"} & obj["spec"].keys()] == []
    assert "params." not in json.dumps(STATIC)
    levels = [
        variable["expression"]
        for obj in STATIC
        for variable in obj["spec"].get("variables", ())
        if variable["name"] == "levels" and "podcliqueset" in obj["metadata"]["name"]
    ]
    assert levels == ['["host"]'] * 2


def test_static_bindings_name_static_policies() -> None:
    for objects in (STATIC, marking_policies(OTHER, is_static=True)):
        names = [obj["metadata"]["name"] for obj in objects]
        assert all(name.endswith(".grove-admission.static.k8s.io") for name in names)
        bound = [obj["spec"]["policyName"] for obj in objects if obj["kind"].endswith("Binding")]
        assert bound == [
            obj["metadata"]["name"] for obj in objects if not obj["kind"].endswith("Binding")
        ]


def files(folder: str) -> list[str]:
    return sorted(path.name for path in (FOLDER / folder).glob("*.yaml"))


@pytest.mark.parametrize("folder", sorted(path.name for path in FOLDER.iterdir()))
def test_each_file_is_listed_and_the_wheel_has_it(folder: str) -> None:
    listed = yaml.safe_load((FOLDER / folder / "kustomization.yaml").read_text())["resources"]
    others = {"kustomization.yaml", "conditions.yaml"} & set(files(folder))
    assert sorted({*listed, *others}) == files(folder)
    packaged = tomllib.loads((MANIFESTS.parent / "pyproject.toml").read_text())
    assert "policies/*/*.yaml" in packaged["tool"]["setuptools"]["package-data"]["app"]
    assert (MANIFESTS.parent / "app" / "policies" / folder).samefile(FOLDER / folder)


def known() -> list[Resource]:
    """Return all resources that the product names."""
    values: Sequence[Any] = [*vars(kinds).values(), *vars(resource).values()]
    return [value for value in values if isinstance(value, Resource)]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*/*-*.yaml")), ids=lambda path: path.stem)
def test_rules_have_every_version_that_the_product_judges(path: Any) -> None:
    policy = next(yaml.safe_load_all(path.read_text()))
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    named = {
        (group, plural): rule["apiVersions"]
        for rule in rules
        for group, plural in itertools.product(rule["apiGroups"], rule["resources"])
    }
    expected = {
        key: kind.rule_versions
        for kind in known()
        if (key := (kind.group, kind.plural)) in named
        and kind.group != resource.MUTATING_POLICIES.group
    }
    assert {key: named[key] for key in expected} == expected
