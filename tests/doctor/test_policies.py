"""The policies of API servers, as the doctor and the rehearsal see them.

Tests `app/stores/offline.py`.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from app.config.schema import Configuration
from app.doctor.policies import check_account, check_policies, read_policies
from app.doctor.report import Check
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING
from app.webhooks.configurations import ServiceTarget, webhook_configurations
from app.webhooks.policies import admission_policies, marking_policies
from tests.doctor.answering import AnsweringClient
from tests.rendered import MANIFESTS, documents

Object = dict[str, Any]
Change = Callable[[list[Object]], object]

CONFIGURATION = Configuration()
REMEDY = "Print the policies with the configuration of the server (grove-admission policies --config FILE), and apply them with --prune, as in manifests/guide/rules.md."
GUARD = "topology-guard.grove-admission.grove.io"
SUBGROUPS = "podgroup-subgroups.grove-admission.grove.io"


def stored(change: Change = lambda objects: None) -> list[Object]:
    """The objects as an API server stores them, with its defaults, after a change."""
    objects = copy.deepcopy(admission_policies(CONFIGURATION))
    for obj in objects[::2]:
        obj["spec"]["matchConstraints"]["objectSelector"] = {}
        obj["status"] = {"observedGeneration": 1, "typeChecking": {}}
    change(objects)
    return objects


async def checks(objects: list[Object], version: str = "v1alpha1") -> list[Check]:
    """`version` is that in which the topologies of both dialects are served."""
    client = AnsweringClient(objects)
    client.served |= dict.fromkeys((CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING), version)
    return await check_policies(client, CONFIGURATION)


def of(objects: list[Object], name: str, kind: str) -> Object:
    return next(
        obj for obj in objects if obj["metadata"]["name"] == name and obj["kind"].endswith(kind)
    )


async def test_what_is_still_refused_is_said_of_each() -> None:
    results = await checks(stored())
    assert {check.status for check in results} == {"ok"}
    assert (
        results[0].message
        == f"while every webhook is down, requests to CREATE, UPDATE, DELETE clustertopologies.grove.io that break the rules of {GUARD} are still rejected"
    )
    assert len(results) == len(admission_policies(CONFIGURATION)) / 2


PACKS = "podcliqueset-packs.grove-admission.grove.io"
PACK_DOMAINS = "podcliqueset-packdomains.grove-admission.grove.io"


@pytest.mark.parametrize("version", ["v1beta1", "v9"])
async def test_a_policy_without_parameters_says_nothing_and_how_to_correct_it(version: str) -> None:
    results = await checks(stored(), version)
    assert [check for check in results if check.status != "ok"] == [
        Check(
            "warning",
            f"policy {name} has no effect: the cluster does not serve grove.io/v1alpha1, the apiVersion of its parameters",
            f'Run: kubectl patch validatingadmissionpolicy {name} --type=merge -p \'{{"spec": {{"paramKind": {{"apiVersion": "grove.io/{version}"}}}}}}\'. Make the same change in the file that you apply (manifests/policies).',
        )
        for name in (PACK_DOMAINS, PACKS)
    ]
    assert not [check for check in results if check.status == "ok" and PACKS in check.message]


async def test_a_corrected_policy_is_as_good_as_that_of_this_version() -> None:
    def corrected(objects: list[Object]) -> None:
        for name in (PACKS, PACK_DOMAINS):
            of(objects, name, "Policy")["spec"]["paramKind"]["apiVersion"] = "grove.io/v1beta1"

    assert {check.status for check in await checks(stored(corrected), "v1beta1")} == {"ok"}


async def test_without_grove_policies_need_no_parameters() -> None:
    client = AnsweringClient(stored())
    for resource in (CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING):
        client.served.pop(resource, None)
    assert {check.status for check in await check_policies(client, CONFIGURATION)} == {"ok"}


async def test_without_policies_there_is_no_problem() -> None:
    (check,) = await checks([])
    assert check.status == "ok"
    assert check.message.startswith("no policy has the rules of the webhooks")


def former(objects: list[Object]) -> None:
    """A policy of a former version, and its binding."""
    for obj in copy.deepcopy(objects[:2]):
        obj["metadata"]["name"] = "gone.grove-admission.grove.io"
        obj["spec"]["policyName"] = "gone.grove-admission.grove.io"
        objects.append(obj)


def other_rule(objects: list[Object]) -> None:
    of(objects, GUARD, "Policy")["spec"]["validations"][0]["expression"] = "true"


def without_binding(objects: list[Object]) -> None:
    objects.remove(of(objects, SUBGROUPS, "Binding"))


def without_policy(objects: list[Object]) -> None:
    objects.remove(of(objects, SUBGROUPS, "Policy"))


def only_audit(objects: list[Object]) -> None:
    of(objects, SUBGROUPS, "Binding")["spec"]["validationActions"] = ["Audit"]


MISTAKES: dict[str, tuple[Change, str]] = {
    "a former one": (
        former,
        "policies that are left over from another version or configuration: gone.grove-admission.grove.io",
    ),
    "another rule": (
        other_rule,
        f"policies that differ from those of this version and configuration: {GUARD}",
    ),
    "no binding": (
        without_binding,
        f"policies that are not installed or have no binding: {SUBGROUPS}",
    ),
    "no policy": (
        without_policy,
        f"policies that are not installed or have no binding: {SUBGROUPS}",
    ),
    "another action": (
        only_audit,
        f"policies whose binding differs from that of this version and configuration: {SUBGROUPS}",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
async def test_a_difference_is_a_warning(case: str) -> None:
    change, message = MISTAKES[case]
    warnings = [check for check in await checks(stored(change)) if check.status != "ok"]
    assert warnings == [Check("warning", message, REMEDY)]


async def test_one_that_only_warns_is_said_to() -> None:
    messages = [check.message for check in await checks(stored(only_audit))]
    assert any(
        "podgroup-subgroups.grove-admission.grove.io only cause warnings" in message
        for message in messages
    )


ACCOUNT = documents((MANIFESTS / "base" / "account.yaml").read_text())


async def test_policies_about_our_account_are_missed() -> None:
    (check,) = await check_account(AnsweringClient(ACCOUNT))
    assert check.status == "ok"

    (check,) = await check_account(AnsweringClient([]))
    names = [obj["metadata"]["name"] for obj in ACCOUNT[::2]]
    assert (check.status, [name in check.message for name in names]) == ("warning", [True] * 9)


@pytest.mark.parametrize("kind", ["Policy", "Binding"])
async def test_a_policy_about_our_account_needs_a_binding_that_denies(kind: str) -> None:
    name = "account-pods.grove-admission.grove.io"
    objects = copy.deepcopy(ACCOUNT)
    if kind == "Policy":
        objects.remove(of(objects, name, kind))
    else:
        of(objects, name, kind)["spec"]["validationActions"] = ["Audit"]
    (check,) = await check_account(AnsweringClient(objects))
    assert check.message.startswith("this ValidatingAdmissionPolicy is missing or not enforced")
    assert check.message.endswith(f"write more: {name}")


WITHOUT_WORKLOADS = Configuration.model_validate({"workloads": {"enabled": False}})
MARK = "pod-mark.grove-admission.grove.io"


def marked(change: Change = lambda objects: None) -> list[Object]:
    """The MutatingAdmissionPolicy of Pods and its binding, after a change."""
    objects = copy.deepcopy(marking_policies(CONFIGURATION))
    change(objects)
    return objects


def without_mutation(objects: list[Object]) -> None:
    objects[0]["spec"]["mutations"] = []


MARKS: dict[str, tuple[list[Object], Configuration, str]] = {
    "as it is": (marked(), CONFIGURATION, ""),
    "Workloads were disabled": (
        marked(),
        WITHOUT_WORKLOADS,
        f"policies that are left over from another version or configuration: {MARK}",
    ),
    "another mutation": (
        marked(without_mutation),
        CONFIGURATION,
        f"policies that differ from those of this version and configuration: {MARK}",
    ),
    "only the binding": (
        marked()[1:],
        CONFIGURATION,
        f"policies that are not installed or have no binding: {MARK}",
    ),
}


@pytest.mark.parametrize("case", MARKS)
async def test_a_policy_that_marks_pods_is_not_left_behind(case: str) -> None:
    objects, configuration, message = MARKS[case]
    said = await check_policies(AnsweringClient(objects), configuration)
    assert [check.message for check in said[1:]] == [message] * bool(message)
    assert all("--mutating" in check.remedy for check in said[1:])


async def test_the_rehearsal_knows_which_policies_are_left_for_a_webhook() -> None:
    policies = await read_policies(AnsweringClient(stored()))
    _, validating = webhook_configurations(ServiceTarget())
    left = {
        webhook["name"].partition(".")[0]: policies.refusing(webhook)
        for webhook in validating["webhooks"]
    }
    names = {
        webhook: sorted(name.partition(".")[0] for name in refusing)
        for webhook, refusing in left.items()
    }
    assert names == {
        "clustertopology": [
            "clustertopology-levels",
            "clustertopologybinding-levels",
            "topology-guard",
        ],
        "podcliqueset": ["podcliqueset-packdomains", "podcliqueset-packs"],
        "podgroup": ["podgroup-subgroups"],
        "podgang": [],
        "pod-mnnvl": [],
    }


async def test_a_policy_that_only_warns_enforces_nothing() -> None:
    policies = await read_policies(AnsweringClient(stored(only_audit)))
    _, validating = webhook_configurations(ServiceTarget())
    of_groups = next(item for item in validating["webhooks"] if item["name"].startswith("podgroup"))
    assert policies.refusing(of_groups) == []


@pytest.mark.parametrize("key", ["resources", "apiGroups", "operations"])
async def test_a_policy_is_left_for_a_webhook_that_names_everything(key: str) -> None:
    policies = await read_policies(AnsweringClient(stored()))
    _, validating = webhook_configurations(ServiceTarget())
    of_groups = next(item for item in validating["webhooks"] if item["name"].startswith("podgroup"))
    for rule in of_groups["rules"]:
        rule[key] = ["*"]
    left = policies.refusing(of_groups)
    assert "podgroup-subgroups.grove-admission.grove.io" in left
