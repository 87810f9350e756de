"""What is installed is what the command prints: the overlays, and the chart with its values."""

from collections.abc import Iterable

import pytest
import yaml

from app.config.read import load_configuration
from app.config.schema import Configuration
from app.webhooks.policies import (
    Mode,
    admission_policies,
    marking_policies,
    queue_policies,
)
from tests.charts import CHART, Values, render
from tests.rendered import MANIFESTS, Object, rendered

pytestmark = pytest.mark.untraced

CONFIGURATION = load_configuration(MANIFESTS / "base" / "config.yaml")
KAI = "kai-scheduler"
OWN_LABELS = ("app.kubernetes.io/name", "app.kubernetes.io/component")
NAMES = yaml.safe_load((MANIFESTS / "overlays" / "queue-guard" / "queuenames.yaml").read_text())
"""The CRD of the parameter of policies about queues, which is in no output."""


def test_the_overlays_are_the_output_of_the_command() -> None:
    policies = admission_policies(CONFIGURATION)
    expected = {
        "policies": policies,
        "policies-mutating": [*policies, *marking_policies(CONFIGURATION)],
        "queue-guard": [NAMES, *queue_policies(CONFIGURATION, "refuse", KAI)],
        "queue-guard-warn": [NAMES, *queue_policies(CONFIGURATION, "warn", KAI)],
    }
    assert {overlay: by_name(rendered(f"overlays/{overlay}")) for overlay in expected} == {
        overlay: by_name(objects) for overlay, objects in expected.items()
    }


def of_chart(component: str, values: Values, namespace: str = "grove-system") -> list[Object]:
    """The policies of the chart with a component, by name and kind, without labels of releases."""
    found = []
    for obj in render(CHART, values, namespace):
        labels = obj["metadata"].get("labels", {})
        if labels.get("app.kubernetes.io/component") == component:
            own = {key: value for key, value in labels.items() if key in OWN_LABELS}
            found.append({**obj, "metadata": {**obj["metadata"], "labels": own}})
    return by_name(found)


def by_name(objects: Iterable[Object]) -> list[Object]:
    return sorted(objects, key=lambda obj: (obj["metadata"]["name"], obj["kind"]))


CONFIGURATIONS: dict[str, Object] = {
    "as it is": {},
    "other users and another name": {
        "authorization": {"authorizedUsers": ["zoe", "system:serviceaccount:b:c"]},
        "clusterTopology": {"name": "other"},
    },
    "nobody": {"authorization": {"authorizedUsers": []}},
    "without topology support": {"clusterTopology": {"enabled": False}},
    "a trial period": {"enforcement": {"mode": "warn"}},
    "a trial period of one kind": {
        "enforcement": {"mode": "warn", "webhooks": {"podGroup": "refuse"}}
    },
}


@pytest.mark.parametrize("case", CONFIGURATIONS)
def test_the_policies_of_the_chart_follow_its_configuration(case: str) -> None:
    change = CONFIGURATIONS[case]
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())["config"]
    merged = {
        **defaults,
        **change,
        "clusterTopology": {**defaults["clusterTopology"], **change.get("clusterTopology", {})},
    }
    configuration = Configuration.model_validate(merged)
    values = {"config": change, "policies": {"enabled": True}}
    assert of_chart("policies", values) == by_name(admission_policies(configuration))


def test_in_another_namespace_our_own_account_is_that_of_the_release() -> None:
    values = {"policies": {"enabled": True}}
    text = yaml.safe_dump(of_chart("policies", values, "elsewhere"))
    assert "system:serviceaccount:elsewhere:grove-admission" in text
    assert "system:serviceaccount:grove-system:grove-admission" not in text


def test_in_another_namespace_policies_are_about_the_account_of_the_release() -> None:
    texts = {
        condition["expression"]
        for obj in of_chart("account", {}, "elsewhere")
        for condition in obj["spec"].get("matchConditions", ())
    }
    account = "system:serviceaccount:elsewhere:grove-admission"
    assert texts == {f"request.userInfo.username == '{account}'"}


@pytest.mark.parametrize("mode", ["refuse", "warn"])
def test_the_chart_guards_queues_in_either_mode(mode: Mode) -> None:
    values = {"queueGuard": {"mode": mode, "kaiNamespace": "kai"}}
    expected = [NAMES, *queue_policies(Configuration(), mode, "kai")]
    assert of_chart("queue-guard", values) == by_name(expected)


def test_the_guard_of_the_chart_lets_several_namespaces_pass() -> None:
    values = {"queueGuard": {"mode": "refuse", "kaiNamespace": ["kai-resources", "kai"]}}
    expected = [NAMES, *queue_policies(Configuration(), "refuse", "kai", "kai-resources")]
    assert of_chart("queue-guard", values) == by_name(expected)


def test_the_guard_of_the_chart_knows_the_configured_labels_and_scheduler() -> None:
    labels = {"queue": "example.com/queue", "project": "team", "nodePool": "example.com/pool"}
    config = {"workloads": {"schedulerName": "other", "labels": labels}}
    values = {"config": config, "queueGuard": {"mode": "refuse"}}
    expected = [NAMES, *queue_policies(Configuration.model_validate(config), "refuse", KAI)]
    assert of_chart("queue-guard", values) == by_name(expected)


def test_the_guard_of_the_chart_lets_the_operator_of_grove_pass_in_any_namespace() -> None:
    values = {"queueGuard": {"mode": "refuse"}}
    text = str(of_chart("queue-guard", values, "elsewhere"))
    assert '"system:serviceaccount:grove-system:grove-operator"' in text
    assert "system:serviceaccounts:grove-system" not in text


def test_by_default_the_chart_has_no_policies() -> None:
    assert of_chart("policies", {}) + of_chart("queue-guard", {}) == []
