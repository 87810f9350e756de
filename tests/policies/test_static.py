"""Static manifests of API servers: the same rules without parameters, and the guard of our own
configurations. They were tried with kube-apiserver 1.36.2 and its feature gate
ManifestBasedAdmissionControlConfig.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli import main
from app.config.schema import Configuration
from app.webhooks.policies import admission_policies, marking_policies
from scripts.apiserver.admission.policies import findings_of
from tests.policies.judge import CONFIGURATION, Judge, bindings, design, disagreement
from tests.policies.mutations import mutated, recorded

OBJECTS = admission_policies(CONFIGURATION, is_static=True)


def written(folder: Path) -> dict[str, Any]:
    """The documents of each file below `folder`, by its path."""
    return {
        str(path.relative_to(folder)): list(yaml.safe_load_all(path.read_text()))
        for path in folder.rglob("*.yaml")
    }


def test_each_plugin_has_a_folder_and_the_configuration_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(CONFIGURATION.model_dump(mode="json", by_alias=True)))
    folder = tmp_path / "static"

    assert main(["policies", "--config", str(config), "--static", str(folder)]) == 0

    plugins = [
        ("ValidatingAdmissionPolicy", folder / "validating"),
        ("MutatingAdmissionPolicy", folder / "mutating"),
    ]
    version = "apiserver.config.k8s.io/v1"
    assert written(folder) == {
        "validating/grove-admission.yaml": OBJECTS,
        "mutating/grove-admission.yaml": marking_policies(CONFIGURATION, is_static=True),
        "admission-configuration.yaml": [
            {
                "apiVersion": version,
                "kind": "AdmissionConfiguration",
                "plugins": [
                    {
                        "name": name,
                        "configuration": {
                            "apiVersion": version,
                            "kind": f"{name}Configuration",
                            "staticManifestsDir": str(path),
                        },
                    }
                    for name, path in plugins
                ],
            }
        ],
    }
    assert "--admission-control-config-file=" in capsys.readouterr().out


@pytest.mark.untraced
def test_no_document_is_empty(tmp_path: Path) -> None:
    """An API server that reads an empty document does not start."""
    assert main(["policies", "--static", str(tmp_path)]) == 0
    for path in tmp_path.rglob("*.yaml"):
        documents = path.read_text().split("\n---\n")
        assert [text for text in documents if yaml.safe_load(text) is None] == []


def test_a_folder_that_cannot_be_written_is_unusable_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert main(["policies", "--static", str(tmp_path / "file")]) == 2


def test_names_end_as_api_servers_want_and_nothing_has_parameters() -> None:
    names = {obj["metadata"]["name"] for obj in OBJECTS}
    assert all(name.endswith(".grove-admission.static.k8s.io") for name in names)
    specs = [obj["spec"] for obj in OBJECTS]
    assert [spec for spec in specs if "paramKind" in spec or "paramRef" in spec] == []
    assert "params." not in yaml.safe_dump(OBJECTS)


@pytest.mark.parametrize(
    ("make", "recordings"),
    [
        (design, recorded()),
        (bindings, recorded("grove-fcc3b3bb")),
    ],
    ids=["design", "bindings"],
)
@pytest.mark.untraced
async def test_no_static_policy_refuses_what_the_webhook_allows(
    make: Any, recordings: list[str]
) -> None:
    """The levels of the recorded clusters are those of the configuration, but for one."""
    facts = make()
    levels = [{"domain": domain, "key": f"k/{domain}"} for domain in ("zone", "block", "rack")]
    levels.append({"domain": "host", "key": "kubernetes.io/hostname"})
    if make is design:
        levels.append({"domain": "numa", "key": "k/numa"})
    topology = {"enabled": True, "levels": levels}
    configuration = Configuration.model_validate({"clusterTopology": topology})
    judge = Judge(facts, admission_policies(configuration, is_static=True))

    problems: list[Any] = []
    refused = 0
    for request in mutated(recordings, 150, seed=3):
        of_policies = judge.policies(request)
        refused += bool(of_policies)
        of_webhook = await judge.webhook(request)
        if of_policies and not of_webhook:
            problems.append((of_policies, request))
        if make is design and (
            problem := disagreement(judge.path(request), of_policies, of_webhook)
        ):
            problems.append((problem, request))
    assert problems == []
    assert refused > 20


def deleted(name: str, user: str, **annotations: str) -> list[str]:
    """What the guard of our own configurations says of a deletion."""
    (policy,) = [obj for obj in OBJECTS[::2] if obj["metadata"]["name"].startswith("protection.")]
    binding = OBJECTS[OBJECTS.index(policy) + 1]
    request = {
        "operation": "DELETE",
        "kind": {"kind": "ValidatingWebhookConfiguration"},
        "userInfo": {"username": user},
        "object": None,
        "oldObject": {"metadata": {"name": name, "annotations": annotations}},
    }
    findings = findings_of(policy, binding, request, [None], lambda access: False)
    return [finding.message for finding in findings]


def test_nobody_else_deletes_our_configurations() -> None:
    ours = "system:serviceaccount:grove-system:grove-admission"
    assert deleted("grove-admission", "admin") == [
        'ValidatingWebhookConfiguration "grove-admission" is protected: user "admin" cannot delete it. Annotate it with grove-admission.grove.io/allow-deletion: "true" first'
    ]
    assert len(deleted("topology-guard.grove-admission.grove.io", "admin")) == 1
    assert deleted("grove-admission", ours) == []
    assert deleted("grove-admission-of-others", "admin") == []
    allowed = {"grove-admission.grove.io/allow-deletion": "true"}
    assert deleted("grove-admission", "admin", **allowed) == []


def test_all_kinds_of_what_we_register_are_protected() -> None:
    policy, _ = (obj for obj in OBJECTS if obj["metadata"]["name"].startswith("protection."))
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert rule["apiVersions"] == ["v1"]
    assert set(rule["resources"]) == {
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    }
