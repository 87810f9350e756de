"""The objects that `grove-admission policies` prints.

Tests `app/commands/policies.py` and `app/webhooks/policies.py`.
"""

import re
from pathlib import Path

import pytest
import yaml

from app.cli import main
from app.config.schema import Configuration
from app.facts.grove.podcliqueset import MOST_PARTS
from app.webhooks.policies import PATHS, SUFFIX, UNCOVERED, admission_policies
from app.webhooks.registry import WEBHOOKS
from scripts.apiserver.admission.policies import findings_of
from tests.policies.judge import CONFIGURATION
from tests.reviews import load


def actions(configuration: Configuration) -> dict[str, list[str]]:
    """The actions of each binding, by the name of its policy without our domain."""
    return {
        obj["metadata"]["name"].partition(".")[0]: obj["spec"]["validationActions"]
        for obj in admission_policies(configuration)
        if obj["kind"] == "ValidatingAdmissionPolicyBinding"
    }


@pytest.mark.untraced
def test_the_command_prints_them_and_names_what_they_leave_to_the_webhooks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    content = CONFIGURATION.model_dump(mode="json", by_alias=True)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(content))
    assert main(["policies", "--config", str(tmp_path / "config.yaml")]) == 0
    text = capsys.readouterr().out
    assert list(yaml.safe_load_all(text)) == admission_policies(CONFIGURATION)
    comments = [line for line in text.splitlines() if line.startswith("# - ")]
    assert comments == [f"# - {row.path}, {row.what}: {row.why}" for row in UNCOVERED]


def test_each_policy_has_a_binding_and_every_object_our_labels() -> None:
    objects = admission_policies(CONFIGURATION)
    labels = {
        "app.kubernetes.io/name": "grove-admission",
        "app.kubernetes.io/component": "policies",
    }
    assert [obj["metadata"]["labels"] for obj in objects] == [labels] * len(objects)
    names = [obj["metadata"]["name"] for obj in objects]
    assert names[::2] == names[1::2]
    assert len(set(names)) == len(names) / 2
    assert [obj["spec"]["policyName"] for obj in objects[1::2]] == names[::2]


def test_the_uncovered_sets_are_those_above_the_limit_of_the_webhook() -> None:
    above = [row.what for row in UNCOVERED if "cliques and scaling groups" in row.what]
    assert above == [f"PodCliqueSets with more than {MOST_PARTS} cliques and scaling groups"]


def test_every_webhook_has_a_policy_or_the_reason_why_it_has_none() -> None:
    paths = {webhook.path for webhook in WEBHOOKS}
    policies = admission_policies(CONFIGURATION)[::2]
    assert {obj["metadata"]["name"] for obj in policies} == {name + SUFFIX for name in PATHS}
    explained = {*PATHS.values(), *(row.path for row in UNCOVERED)}
    assert paths - explained == {"/mutate/pod"}
    assert explained <= paths


def test_a_policy_never_stops_a_request_that_it_cannot_judge() -> None:
    objects = admission_policies(CONFIGURATION)
    assert {obj["spec"]["failurePolicy"] for obj in objects[::2]} == {"Ignore"}
    references = [obj["spec"].get("paramRef") for obj in objects[1::2]]
    missing = {reference["parameterNotFoundAction"] for reference in references if reference}
    assert missing == {"Allow"}


def test_a_variable_uses_only_those_before_it() -> None:
    """An API server rejects any other order."""
    for obj in admission_policies(CONFIGURATION)[::2]:
        known: set[str] = set()
        for variable in obj["spec"]["variables"]:
            used = set(re.findall(r"variables\.(\w+)", variable["expression"]))
            assert used <= known, variable["name"]
            known.add(variable["name"])


def test_in_a_trial_period_all_but_the_guard_only_warns() -> None:
    warning = Configuration.model_validate({"enforcement": {"mode": "warn"}})
    expected = {name: ["Warn", "Audit"] for name in actions(warning)}
    assert actions(warning) == {**expected, "topology-guard": ["Deny"]}
    groups = {"mode": "refuse", "webhooks": {"podGroup": "warn"}}
    single = Configuration.model_validate({"enforcement": groups})
    expected = {name: ["Deny"] for name in actions(single)}
    assert actions(single) == {**expected, "podgroup-subgroups": ["Warn", "Audit"]}


@pytest.mark.parametrize(
    ("enabled", "kinds"),
    [
        (True, ["clustertopologies", "clustertopologybindings"]),
        (False, ["clustertopologies"]),
    ],
)
def test_a_binding_is_guarded_if_topology_support_is_enabled(
    enabled: bool, kinds: list[str]
) -> None:
    levels = [{"domain": "host", "key": "kubernetes.io/hostname"}]
    topology = {"enabled": enabled, "levels": levels}
    guard = admission_policies(Configuration.model_validate({"clusterTopology": topology}))[0]
    (rule,) = guard["spec"]["matchConstraints"]["resourceRules"]
    assert rule["resources"] == kinds


def test_without_authorized_users_nobody_may_write_the_managed_topology() -> None:
    nobody = Configuration.model_validate({"authorization": {"authorizedUsers": []}})
    guard, binding = admission_policies(nobody)[:2]
    request = load("clustertopology.managed-create-by-operator")["request"]
    (finding,) = findings_of(guard, binding, request, [None], lambda access: False)
    assert "Allowed users: none (authorizedUsers is empty)" in finding.message
