"""The doctor on installations with one mistake each, over an API server: what it names, and that
its remedy helps.
"""

import base64
import json
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.certificates.certificate import make_ca, make_leaf
from app.kube.api import Object, ObjectRef
from app.objects.resource import (
    CONFIG_MAP,
    CRD,
    MUTATING_WEBHOOKS,
    SECRET,
    SERVICE,
    VALIDATING_WEBHOOKS,
    Resource,
)
from app.server.serve import Running
from app.webhooks.configurations import ServiceTarget, webhook_configurations
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.sandbox import Sandbox
from tests.integration.conftest import CONFIGURATION
from tests.integration.doctor import Doctor, Finding
from tests.integration.system import Users, eventually

pytestmark = pytest.mark.untraced

BASE = yaml.safe_load(CONFIGURATION.format(port=8443))
ACCOUNT = "system:serviceaccount:grove-system:grove-admission"
NAMESPACE = "grove-system"
SECOND = "second"
"""The name of the webhook configurations and of the Service of the installation that has the
mistakes.
"""


class Clinic:
    """Examines an installation with another configuration, and creates what a mistake consists of."""

    def __init__(self, api: ApiServer, clients: Users, folder: Path) -> None:
        self.clients = clients
        self._api = api
        self._file = folder / "config.yaml"

    async def findings(self, subject: str, **sections: Object) -> list[Finding]:
        """All that is not ok of one subject."""
        self._file.write_text(yaml.safe_dump({**BASE, **sections}))
        findings = await Doctor(self._api, self._file).examination()
        return [finding for finding in findings if finding.subject == subject]

    @asynccontextmanager
    async def stored(self, *objects: tuple[Resource, Object]) -> AsyncIterator[None]:
        """`objects` exist while the block runs."""
        try:
            for resource, obj in objects:
                await self.clients.admin.create(resource, obj, obj["metadata"].get("namespace"))
            yield
        finally:
            for resource, obj in reversed(objects):
                metadata = obj["metadata"]
                await self.clients.admin.delete(
                    ObjectRef(resource, metadata["name"], metadata.get("namespace"))
                )


@pytest.fixture
def clinic(served: Running, api: ApiServer, clients: Users, tmp_path: Path) -> Clinic:
    return Clinic(api, clients, tmp_path)


def second_installation() -> list[tuple[Resource, Object]]:
    """Webhook configurations that no replica writes a caBundle to, for a Service without endpoints.

    They match nothing that a test writes: they exclude all namespaces, and the ClusterTopology is
    guarded by the first installation.
    """
    mutating, validating = webhook_configurations(ServiceTarget(NAMESPACE, SECOND))
    for configuration in (mutating, validating):
        configuration["metadata"]["name"] = SECOND
        for webhook in configuration["webhooks"]:
            webhook["objectSelector"] = {"matchLabels": {"matches": "nothing"}}
    metadata = {"name": SECOND, "namespace": NAMESPACE}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"ports": [{"name": "https", "port": 443}]},
    }
    return [(SERVICE, service), (MUTATING_WEBHOOKS, mutating), (VALIDATING_WEBHOOKS, validating)]


SECOND_SETTINGS = {"webhookConfigurations": SECOND, "serviceName": SECOND, "secretName": "absent"}


async def test_an_empty_ca_bundle(clinic: Clinic) -> None:
    async with clinic.stored(*second_installation()):
        findings = await clinic.findings("certificate", certificates=SECOND_SETTINGS)
    problems = [finding for finding in findings if finding.status == "problem"]
    assert [finding.message.partition(" webhooks ")[2] for finding in problems] == [
        "is empty: API servers cannot verify the server"
    ]
    assert problems[0].remedy.startswith("Read the log of the writer of the caBundle")


async def test_a_ca_bundle_of_another_ca(clinic: Clinic) -> None:
    begin = datetime.now(UTC) - timedelta(hours=1)
    end = datetime.now(UTC) + timedelta(days=30)
    ca = make_ca("ca", begin, end)
    other = make_ca("other", begin, end)
    leaf = make_leaf(ca, [f"{SECOND}.{NAMESPACE}.svc"], begin, end)
    metadata = {"name": SECOND, "namespace": NAMESPACE}
    data = {"tls.crt": encoded(leaf.cert_pem)}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    objects = second_installation()
    for _, obj in objects[1:]:
        for webhook in obj["webhooks"]:
            webhook["clientConfig"]["caBundle"] = encoded(other.cert_pem)
    async with clinic.stored(*objects, (SECRET, secret)):
        findings = await clinic.findings(
            "certificate", certificates={**SECOND_SETTINGS, "secretName": SECOND}
        )
    assert [finding.status for finding in findings] == ["problem"]
    assert "webhooks does not verify tls.crt of the Secret: " in findings[0].message
    assert findings[0].remedy.startswith("Read the log of the writer of the caBundle")


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


LOGS = "kubectl -n grove-system logs --selector app.kubernetes.io/name=grove-admission"


async def test_a_secret_that_is_missing(clinic: Clinic) -> None:
    settings = {"mode": "self-managed", "secretName": "absent"}
    findings = await clinic.findings("certificate", certificates=settings)
    assert [(finding.status, finding.message) for finding in findings] == [
        ("problem", "Secret grove-system/absent does not exist")
    ]
    assert LOGS in findings[0].remedy


async def test_a_service_without_endpoints(clinic: Clinic) -> None:
    async with clinic.stored(*second_installation()):
        findings = await clinic.findings("service", certificates=SECOND_SETTINGS)
    assert [(finding.status, finding.message) for finding in findings] == [
        ("problem", "Service grove-system/second has no ready endpoint")
    ]
    assert LOGS in findings[0].remedy


async def test_a_service_that_is_called_something_else(clinic: Clinic) -> None:
    async with clinic.stored(*second_installation()):
        settings = {**SECOND_SETTINGS, "serviceName": "third"}
        findings = await clinic.findings("service", certificates=settings)
        differences = await clinic.findings("webhooks", certificates=settings)
    assert [finding.message for finding in findings] == [
        "Service grove-system/third does not exist"
    ]
    assert "set certificates.serviceName" in findings[0].remedy
    *twice, problem = (finding.message for finding in differences if finding.status == "problem")
    assert [message.partition(". ")[0] for message in twice] == [
        f"{kind}WebhookConfiguration grove-admission has our webhooks too"
        for kind in ("Mutating", "Validating")
    ]
    assert problem.startswith('clientConfig.service has name "second"; ')


async def test_webhook_configurations_that_are_called_something_else(clinic: Clinic) -> None:
    findings = await clinic.findings("webhooks", certificates={"webhookConfigurations": "third"})
    assert [finding.message for finding in findings] == [
        "; ".join(
            f"{kind}WebhookConfiguration third is not installed: its webhooks are in grove-admission, to which the server writes no caBundle"
            for kind in ("Mutating", "Validating")
        )
    ]
    assert findings[0].remedy.startswith("Set certificates.webhookConfigurations: grove-admission")


ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/grove-admission"


async def test_a_rule_that_is_missing(clinic: Clinic) -> None:
    rules = (await clinic.clients.answer("admin", "GET", ROLE)).json()["rules"]
    others = [rule for rule in rules if "podgangs" not in rule["resources"]]
    await clinic.clients.answer("admin", "PATCH", ROLE, {"rules": others})
    try:
        (finding,) = await eventually(lambda: clinic.findings("permissions"))
    finally:
        await clinic.clients.answer("admin", "PATCH", ROLE, {"rules": rules})
    assert finding.message.endswith(" podgangs.scheduler.grove.io (constraints for the scheduler)")
    assert "which includes manifests/base/rbac.yaml: kubectl apply -k OVERLAY." in finding.remedy


async def test_resource_names_of_a_rule_that_name_something_else(clinic: Clinic) -> None:
    findings = await clinic.findings("permissions", leaderElection={"name": "renamed"})
    assert [finding.message for finding in findings] == [
        'service account grove-system/grove-admission may not get, patch leases.coordination.k8s.io "renamed" (leader election)'
    ]
    assert 'resourceNames: ["renamed"]' in findings[0].remedy


async def test_a_lease_that_nobody_holds(clinic: Clinic) -> None:
    findings = await clinic.findings("leader", leaderElection={"name": "renamed"})
    assert [(finding.status, finding.message) for finding in findings] == [
        (
            "problem",
            "Lease grove-system/renamed does not exist: no replica has led, and nothing is reconciled",
        )
    ]


def definition(plural: str, kind: str, short_name: str) -> tuple[Resource, Object]:
    schema = {"openAPIV3Schema": {"type": "object"}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.grove.io"},
        "spec": {
            "group": "grove.io",
            "scope": "Cluster",
            "names": {"plural": plural, "kind": kind, "shortNames": [short_name]},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    return CRD, crd


async def test_two_crds_with_one_short_name(clinic: Clinic, api: ApiServer) -> None:
    if isinstance(api, Sandbox):
        pytest.skip("a CRD of the sandbox gets all of its names")
    admin = clinic.clients.admin
    async with clinic.stored(definition("gadgets", "Gadget", "gx")):
        await until(clinic, "gadgets.grove.io", "Established", "True")
        async with clinic.stored(definition("tools", "Tool", "gx")):
            await until(clinic, "tools.grove.io", "NamesAccepted", "False")
            (finding,) = await clinic.findings("APIs")
            assert (finding.status, finding.message) == (
                "problem",
                'CRD tools.grove.io is not established, and its API is not served: "gx" is already in use by gadgets.grove.io (ShortNamesConflict)',
            )
            command = shlex.split(finding.remedy.partition(": ")[2])
            assert command[:-2] == ["kubectl", "patch", "crd", "gadgets.grove.io", "--type=json"]
            await admin.patch(ObjectRef(CRD, "gadgets.grove.io"), json.loads(command[-1]))
            await until(clinic, "tools.grove.io", "Established", "True")
            assert await clinic.findings("APIs") == []


async def until(clinic: Clinic, name: str, kind: str, status: str) -> None:
    async def current() -> str | None:
        conditions = (
            (await clinic.clients.admin.get(ObjectRef(CRD, name))).get("status") or {}
        ).get("conditions") or []
        return next(
            (condition["status"] for condition in conditions if condition["type"] == kind), None
        )

    await eventually(current, lambda current_status: current_status == status)


def grove(**sections: Any) -> tuple[Resource, Object]:
    """The configuration of Grove's operator, as its chart stores it."""
    head = {"apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration"}
    labels = {
        "app.kubernetes.io/component": "operator-configmap",
        "app.kubernetes.io/part-of": "grove",
    }
    metadata = {"name": "grove-operator-cm-1", "namespace": NAMESPACE, "labels": labels}
    data = {"config.yaml": yaml.safe_dump({**head, **sections})}
    return CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def webhook_of_grove(name: str) -> tuple[Resource, Object]:
    """A webhook of Grove; it matches nothing here, because nobody answers it."""
    webhook = {
        "name": f"{name}.webhooks.grove.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {
            "service": {
                "name": "grove-operator",
                "namespace": NAMESPACE,
                "path": f"/webhooks/{name}",
            }
        },
        "objectSelector": {"matchLabels": {"matches": "nothing"}},
        "rules": [
            {
                "apiGroups": ["scheduler.grove.io"],
                "apiVersions": ["v1alpha1"],
                "operations": ["UPDATE"],
                "resources": ["podgangs"],
            }
        ],
    }
    head = {"apiVersion": VALIDATING_WEBHOOKS.api_version(), "kind": VALIDATING_WEBHOOKS.kind}
    return VALIDATING_WEBHOOKS, {
        **head,
        "metadata": {"name": name},
        "webhooks": [webhook],
    }


TOPOLOGY_ON = {
    "topologyAwareScheduling": {"enabled": True, "levels": BASE["clusterTopology"]["levels"]}
}


@pytest.mark.parametrize(
    ("exempt", "problems"),
    [
        pytest.param(
            ["system:kube-controller-manager"],
            [
                f"Grove's authorizer (authorizer.webhooks.grove.io) is on without an exemption for {ACCOUNT}: it denies our leader's writes to PodGangs and PodCliques"
            ],
            id="without us",
        ),
        pytest.param([ACCOUNT], [], id="with us"),
    ],
)
async def test_groves_authorizer(
    clinic: Clinic, exempt: Sequence[str], problems: list[str]
) -> None:
    settings = {"authorizer": {"enabled": True, "exemptServiceAccountUserNames": list(exempt)}}
    async with clinic.stored(webhook_of_grove("authorizer"), grove(**TOPOLOGY_ON, **settings)):
        findings = await clinic.findings("Grove")
    assert [finding.message for finding in findings] == problems
    assert all(
        "config.authorizer.exemptServiceAccountUserNames" in finding.remedy for finding in findings
    )


@pytest.mark.parametrize(
    ("settings", "begin"),
    [
        pytest.param({"enabled": False}, "Grove's topology feature is off: ", id="off"),
        pytest.param(
            {"enabled": True, "levels": []},
            "Grove's topology levels are none, but clusterTopology.levels of grove-admission are ",
            id="other levels",
        ),
    ],
)
async def test_groves_topology_feature(clinic: Clinic, settings: Object, begin: str) -> None:
    webhook = webhook_of_grove("pcs.validating")
    async with clinic.stored(webhook, grove(topologyAwareScheduling=settings)):
        (finding,) = await clinic.findings("Grove")
    assert (finding.status, finding.message[: len(begin)]) == ("problem", begin)
    assert "config.topologyAwareScheduling" in finding.remedy


async def test_groves_operator_that_is_no_authorized_user(clinic: Clinic) -> None:
    async with clinic.stored(webhook_of_grove("pcs.validating"), grove(**TOPOLOGY_ON)):
        (finding,) = await clinic.findings("Grove", authorization={"authorizedUsers": [ACCOUNT]})
    assert (
        "authorization.authorizedUsers lacks system:serviceaccount:grove-system:grove-operator"
        in finding.message
    )
    assert finding.remedy.startswith("Add this account to authorization.authorizedUsers")
