"""The table of permissions, and what is said of those that are missing."""

from pathlib import Path
from typing import Any

import pytest

from app.config.read import read_configuration
from app.config.schema import Configuration, Waiting
from app.doctor.permissions import Need, access_review, check_permissions, needs_of
from app.doctor.report import Check
from app.kube.api import Object, Rejected
from app.waiting.watcher import RESOURCES
from tests.doctor.answering import AnsweringClient
from tests.rendered import (
    OVERLAYS,
    Permission,
    configuration,
    documents,
    permissions,
    rendered,
    with_components,
)

NAMESPACE = "grove-system"
SELF_MANAGED = Configuration().model_copy(
    update={
        "certificates": Configuration().certificates.model_copy(update={"mode": "self-managed"})
    }
)
REMEDY = "Apply your overlay again, which includes manifests/base/rbac.yaml: kubectl apply -k OVERLAY. If you installed the chart, run instead: helm upgrade RELEASE manifests/chart -n NAMESPACE --reset-then-reuse-values"


def needed(configuration: Configuration) -> set[Permission]:
    return {
        (need.namespace, need.group, need.resource, need.name, verb)
        for need in needs_of(configuration)
        for verb in need.verbs
    }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_rules_of_every_overlay_allow_what_is_called_and_nothing_else(overlay: str) -> None:
    """With cert-manager the same without Secrets, in the same roles, so that a change from one
    overlay to the other leaves none behind.
    """
    objects = rendered(f"overlays/{overlay}")
    used = configuration(objects)
    certificates = used.certificates.model_copy(update={"mode": "self-managed"})
    called = needed(used.model_copy(update={"certificates": certificates}))
    if overlay == "cert-manager":
        called = {right for right in called if right[2] != "secrets"}
    assert set(permissions(objects)) == called


def test_the_component_allows_what_is_read_to_say_why_gangs_wait(tmp_path: Path) -> None:
    objects = documents(with_components("self-managed", tmp_path, ["waiting"]))
    used = configuration(objects)
    enabled = used.model_copy(update={"waiting": used.waiting.model_copy(update={"enabled": True})})
    assert set(permissions(objects)) == needed(enabled)


def test_what_waiting_reads_is_in_the_table() -> None:
    waiting = read_configuration(
        "{apiVersion: config.grove.io/v1alpha1, kind: OperatorConfiguration, workloads: {enabled: false}, waiting: {enabled: true}}",
        "test",
    )
    allowed = {
        (group, resource)
        for _, group, resource, _, verb in needed(waiting)
        if verb in ("list", "watch")
    }
    assert {(read.group, read.plural) for read in RESOURCES} - allowed == set()


def test_what_is_switched_off_needs_nothing() -> None:
    text = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
workloads: {enabled: false}
leaderElection: {enabled: false}
certificates: {mode: files}
"""
    resources = {need.resource for need in needs_of(read_configuration(text, "test"))}
    off = {"priorityclasses", "cronjobs", "leases", "secrets", "validatingwebhookconfigurations"}
    assert off & {need.resource for need in needs_of(SELF_MANAGED)} == off
    assert off & resources == set()


def test_a_question_about_a_service_account_names_its_groups() -> None:
    need = Need("grove.io", "clustertopologies/status", ("patch",), "x", name="n")
    attributes = {
        "group": "grove.io",
        "resource": "clustertopologies",
        "subresource": "status",
        "verb": "patch",
        "name": "n",
    }
    assert access_review(need, "patch", None) == {"spec": {"resourceAttributes": attributes}}
    assert access_review(need, "patch", NAMESPACE) == {
        "spec": {
            "resourceAttributes": attributes,
            "user": "system:serviceaccount:grove-system:grove-admission",
            "groups": [
                "system:serviceaccounts",
                "system:serviceaccounts:grove-system",
                "system:authenticated",
            ],
        }
    }


async def said(
    allows: Any,
    namespace: str | None = NAMESPACE,
    *,
    may_ask: bool = True,
    configuration: Configuration = SELF_MANAGED,
) -> list[Check]:
    client = AnsweringClient()
    client.allows = allows
    client.may_ask = may_ask
    return await check_permissions(client, needs_of(configuration), namespace)


async def test_all_there() -> None:
    count = sum(len(need.verbs) for need in needs_of(SELF_MANAGED))
    message = (
        f"service account grove-system/grove-admission has all required permissions ({count} verbs)"
    )
    assert await said(lambda spec: True) == [Check("ok", message)]


async def test_what_is_missing_is_told_by_resource_with_what_it_is_for() -> None:
    def allows(spec: Object) -> bool:
        asked = spec["resourceAttributes"]
        return asked["resource"] not in ("podgangs", "jobs", "secrets") or asked["verb"] == "get"

    who = "service account grove-system/grove-admission may not"
    assert await said(allows) == [
        Check(
            "problem",
            f"{who} list, watch, patch podgangs.scheduler.grove.io (constraints for the scheduler); update podgangs/finalizers.scheduler.grove.io (MNNVL resources that a PodGang owns); create secrets (certificates)",
            REMEDY,
        ),
        Check(
            "problem",
            f'{who} list, watch, patch secrets "grove-admission-certificates" (certificates)',
            f'The stored rule must have resourceNames: ["grove-admission-certificates"], which a tool such as Kustomize may have changed. {REMEDY}',
        ),
    ]


async def test_an_optional_one_is_a_warning() -> None:
    (check,) = await said(lambda spec: spec["resourceAttributes"]["resource"] != "notebooks")
    who = "service account grove-system/grove-admission may not"
    message = f"{who} get notebooks.kubeflow.org (finding the owners of a Workload's Pods)"
    assert check == Check("warning", message, REMEDY)


async def test_who_owns_units_must_be_readable() -> None:
    (check,) = await said(
        lambda spec: spec["resourceAttributes"]["resource"] != "resourceclaimtemplates"
    )
    assert (check.status, check.message) == (
        "problem",
        "service account grove-system/grove-admission may not get resourceclaimtemplates.resource.k8s.io (finding the owners of the Pods' units)",
    )


async def test_what_waiting_lacks_is_in_its_component() -> None:
    waiting = SELF_MANAGED.model_copy(update={"waiting": Waiting(enabled=True)})
    checks = await said(
        lambda spec: spec["resourceAttributes"]["resource"] != "resourceslices",
        configuration=waiting,
    )
    who = "service account grove-system/grove-admission may not list, watch resourceslices.resource.k8s.io"
    assert checks == [
        Check(
            "problem",
            f"{who} (reporting why gangs are pending)",
            f"Add the component manifests/components/waiting to your overlay. {REMEDY.replace('base', 'components/waiting')}",
        ),
        Check(
            "warning",
            f"{who} (warnings about the room of nodes whose GPUs are allocated by DRA)",
            REMEDY,
        ),
    ]


async def test_who_may_not_ask_about_others_is_told_so_and_nothing_about_themselves() -> None:
    with pytest.raises(Rejected):
        await said(lambda spec: "user" not in spec, may_ask=False)


async def test_many_missing_permissions_are_one_problem_for_each_remedy() -> None:
    checks = await said(lambda spec: False)
    assert len({check.remedy for check in checks if check.status == "problem"}) == len(
        [check for check in checks if check.status == "problem"]
    )
    assert checks[0].message.endswith(" more")
    assert checks[0].message.count("; ") == 9


async def test_the_server_itself_asks_about_itself() -> None:
    (check,) = await said(lambda spec: "user" not in spec, None, may_ask=False)
    assert check.message.startswith("you have all")
