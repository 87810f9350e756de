"""The outage rehearsal of the webhooks of a cluster with Grove, KAI, Kueue, cert-manager, Kyverno
and NVIDIA's driver, and the mistakes in it.

`testdata/webhooks` has their configurations and Services, as an API server stored them.
"""

import copy
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.doctor.certificate import Handshake
from app.doctor.rehearsal import check_all, check_outages
from app.doctor.report import Check
from app.webhooks.configurations import ServiceTarget, webhook_configurations
from tests.doctor.answering import AnsweringClient
from tests.doctor.installation import CA, NOW, OTHER_CA, encoded

Object = dict[str, Any]

RECORDED = Path(__file__).parents[1] / "testdata" / "webhooks"

GROVE = "ValidatingWebhookConfiguration podcliqueset-validating-webhook"
KAI = "MutatingWebhookConfiguration mutating-kai-admission"
KUEUE_VALIDATING = "ValidatingWebhookConfiguration kueue-validating-webhook-configuration"
KUEUE = "MutatingWebhookConfiguration kueue-mutating-webhook-configuration"
CERT_MANAGER = "ValidatingWebhookConfiguration cert-manager-webhook"
CERT_MANAGER_MUTATING = "MutatingWebhookConfiguration cert-manager-webhook"
KYVERNO = "ValidatingWebhookConfiguration kyverno-resource-validating-webhook-cfg"
DRIVER = "ValidatingWebhookConfiguration dra-driver-nvidia-gpu-webhook-config"


def rule(
    groups: str, resources: str, operations: str = "CREATE UPDATE", scope: str = "*"
) -> Object:
    """Return a rule. `groups` are separated by spaces; the group of the core API is "core"."""
    return {
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "apiVersions": ["*"],
        "resources": resources.split(),
        "operations": operations.split(),
        "scope": scope,
    }


def leaving_out(*namespaces: str) -> Object:
    expression = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": list(namespaces),
    }
    return {"matchExpressions": [expression]}


def slice_of(service: Object, endpoints: int = 2) -> Object:
    """Return the EndpointSlice of a Service."""
    name = service["metadata"]["name"]
    ports = [{**port, "port": 9443} for port in service["spec"]["ports"]]
    addresses = [{"addresses": [f"10.0.0.{number + 1}"]} for number in range(endpoints)]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": service["metadata"]["namespace"],
            "name": f"{name}-1",
            "labels": {"kubernetes.io/service-name": name},
        },
        "ports": ports,
        "endpoints": addresses,
    }


def namespace(name: str) -> Object:
    labels = {"kubernetes.io/metadata.name": name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


RECORDS = [json.loads(file.read_text()) for file in sorted(RECORDED.glob("*.json"))]


def configurations() -> dict[str, Object]:
    """Return the webhook configurations by their titles, with caBundles."""
    recorded = [item for record in RECORDS for item in record["configurations"]]
    titled = {f"{item['kind']} {item['metadata']['name']}": item for item in recorded}
    mutating, validating = webhook_configurations(ServiceTarget())
    every = {**titled, "ours, mutating": mutating, "ours, validating": validating}
    for item in every.values():
        for entry in item["webhooks"]:
            entry["clientConfig"]["caBundle"] = encoded(CA.cert_pem)
    return copy.deepcopy(every)


def services() -> dict[str, Object]:
    """Return the Services of webhooks by namespace and name."""
    recorded = [item for record in RECORDS for item in record["services"]]
    ours = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": "grove-system", "name": "grove-admission"},
        "spec": {"ports": [{"name": "https", "port": 443}], "selector": {"app": "ours"}},
    }
    return {
        f"{item['metadata']['namespace']}/{item['metadata']['name']}": item
        for item in copy.deepcopy([*recorded, ours])
    }


DRIVER_SERVICE = "nvidia-dra-driver-gpu/dra-driver-nvidia-gpu-webhook"


class Rehearsed:
    """A cluster in which mistakes can be made."""

    def __init__(self) -> None:
        self.configurations = configurations()
        self.services = services()
        self.endpoints = dict.fromkeys(self.services, 2)
        self.unreachable: set[str] = set()

    def webhook(self, title: str, name: str = "") -> Object:
        """Return the webhook of this name, or the first one."""
        entry: Object = next(
            entry for entry in self.configurations[title]["webhooks"] if name in ("", entry["name"])
        )
        return entry

    def client(self) -> AnsweringClient:
        client = AnsweringClient(self.configurations.values())
        client.load(list(self.services.values()))
        client.load([slice_of(item, self.endpoints[key]) for key, item in self.services.items()])
        spaces = dict.fromkeys(key.partition("/")[0] for key in self.endpoints)
        client.load([namespace(name) for name in ("kube-system", *spaces)])
        return client

    async def checks(self) -> list[Check]:
        return await check_all(self.client(), self.shake, NOW)

    async def shake(self, address: str, port: int, name: str, ca_bundle: bytes) -> Handshake:
        if name in self.unreachable:
            return Handshake("unreachable", "timed out")
        if ca_bundle != CA.cert_pem:
            return Handshake("refused", "unable to get issuer")
        return Handshake("trusted")


NODES_STOP = f"{KYVERNO}, validate.kyverno.svc-fail: while this webhook is down, writes of nodes, certificatesigningrequests.certificates.k8s.io, tokenreviews.authentication.k8s.io, subjectaccessreviews.authorization.k8s.io are rejected: nodes cannot join; kubelets cannot authenticate callers with tokens; kubelets cannot authorize kubectl logs and exec"
HEARTBEATS_STOP = f"{KYVERNO}, validate.kyverno.svc-fail: while this webhook is down, writes of leases.coordination.k8s.io are rejected in kube-node-lease too: all nodes become NotReady"
CERTIFICATES_WAIT = "CREATE of certificaterequests.cert-manager.io may take 60 s if all 3 webhooks are slow. API servers give up after 60 s by default"
AS_INSTALLED = (HEARTBEATS_STOP, NODES_STOP, CERTIFICATES_WAIT)
"""What is true of the neighbours as they are installed."""


async def test_a_cluster_that_is_well_is_told_what_stops_without_each_webhook() -> None:
    checks = await Rehearsed().checks()
    assert [(check.status, check.message) for check in checks if check.status != "ok"] == [
        ("warning", message) for message in AS_INSTALLED
    ]
    described = [check.message for check in checks if check.status == "ok"]
    titles = (CERT_MANAGER, KAI, f"{KUEUE}, mpod")
    assert sorted(message for message in described if message.startswith(titles)) == [
        f"{KUEUE}, mpod.kb.io: while this webhook is down, requests to CREATE pods are rejected, except in kube-system, kueue-system",
        f"{KAI}, admission.kai-scheduler.svc: while this webhook is down, requests to CREATE pods are rejected, except in kube-system, kai-scheduler, if all matchConditions hold (scheduler-name-match)",
        f'{CERT_MANAGER}, webhook.cert-manager.io: while this webhook is down, requests to CREATE, UPDATE *.cert-manager.io/*, *.acme.cert-manager.io/* are rejected if namespaceSelector {{"matchExpressions": [{{"key": "cert-manager.io/disable-validation", "operator": "NotIn", "values": ["true"]}}]}} matches',
    ]
    assert len(described) == sum(len(item["webhooks"]) for item in configurations().values()) - 1


NEW_IN_GROVE = {
    "pcs.scale.validating.webhooks.grove.io": (
        rule("grove.io", "podcliquesets/scale podcliquescalinggroups/scale", "UPDATE"),
        "requests to UPDATE podcliquesets.grove.io/scale, podcliquescalinggroups.grove.io/scale are rejected",
    ),
    "pclq.validating.webhooks.grove.io": (
        rule("grove.io", "podcliques podcliques/status"),
        "requests to CREATE, UPDATE podcliques.grove.io, podcliques.grove.io/status are rejected",
    ),
}
"""Webhooks for what Grove had none for when it was recorded. Their names are made up."""


@pytest.mark.parametrize("name", NEW_IN_GROVE)
async def test_webhooks_that_a_neighbour_gets_later_are_listed_too(name: str) -> None:
    added, fate = NEW_IN_GROVE[name]
    cluster = Rehearsed()
    webhooks = cluster.configurations[GROVE]["webhooks"]
    webhooks.append({**webhooks[0], "name": name, "rules": [added]})
    described = [check for check in await cluster.checks() if name in check.message]
    assert [check.status for check in described] == ["ok"]
    expected = f"{GROVE}, {name}: while this webhook is down, {fate}"
    assert described[0].message.startswith(expected)


Mistake = Callable[[Rehearsed], None]


def no_service(cluster: Rehearsed) -> None:
    del cluster.services["kueue-system/kueue-webhook-service"]


def no_endpoint(cluster: Rehearsed) -> None:
    cluster.endpoints[DRIVER_SERVICE] = 0


def no_endpoint_but_ignored(cluster: Rehearsed) -> None:
    cluster.webhook(DRIVER)["failurePolicy"] = "Ignore"
    no_endpoint(cluster)


def one_endpoint(cluster: Rehearsed) -> None:
    cluster.endpoints["cert-manager/cert-manager-webhook"] = 1


def another_port(cluster: Rehearsed) -> None:
    cluster.webhook(GROVE)["clientConfig"]["service"]["port"] = 443


def own_pods(cluster: Rehearsed) -> None:
    cluster.webhook(KUEUE, "mpod.kb.io")["namespaceSelector"] = leaving_out("kube-system")


def own_pods_with_conditions(cluster: Rehearsed) -> None:
    cluster.webhook(KAI)["namespaceSelector"] = leaving_out("kube-system")


def everywhere(cluster: Rehearsed) -> None:
    cluster.webhook(KUEUE, "mpod.kb.io")["namespaceSelector"] = leaving_out("kueue-system")


def leases(cluster: Rehearsed) -> None:
    cluster.webhook(DRIVER)["rules"].append(rule("coordination.k8s.io", "leases"))


def leases_of_nodes(cluster: Rehearsed) -> None:
    webhook = cluster.webhook(DRIVER)
    webhook["rules"].append(rule("coordination.k8s.io", "leases", "UPDATE"))
    webhook["namespaceSelector"] = leaving_out("kube-system")


def leases_of_no_node(cluster: Rehearsed) -> None:
    leases_of_nodes(cluster)
    cluster.webhook(DRIVER)["namespaceSelector"] = leaving_out("kube-system", "kube-node-lease")


def slow(cluster: Rehearsed) -> None:
    cluster.webhook(KAI)["timeoutSeconds"] = 15
    cluster.webhook(KUEUE, "mpod.kb.io")["timeoutSeconds"] = 15


def another_ca(cluster: Rehearsed) -> None:
    cluster.webhook(CERT_MANAGER)["clientConfig"]["caBundle"] = encoded(OTHER_CA.cert_pem)


def no_ca(cluster: Rehearsed) -> None:
    del cluster.webhook(CERT_MANAGER)["clientConfig"]["caBundle"]


WRITER = "Find out why this caBundle was not updated: read the log of its writer, such as cert-manager's cainjector or a controller of the product."
LEASES_OF_NODES = (
    "warning",
    f"{DRIVER}, gpu.nvidia.com: while this webhook is down, writes of leases.coordination.k8s.io are rejected in kube-node-lease too: all nodes become NotReady",
    "Exclude kube-node-lease in the webhook's namespaceSelector (kubernetes.io/metadata.name NotIn [kube-node-lease]), or set failurePolicy: Ignore.",
)
REPLICAS = f"Find out why no Pod of the Service is ready: kubectl -n {DRIVER_SERVICE.partition('/')[0]} describe pods"


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("mistake", "expected"),
    [
        (
            no_service,
            [
                (
                    "problem",
                    f"{title}, {number} webhooks: Service kueue-system/kueue-webhook-service does not exist, so matching requests are rejected",
                    f"Restore the Service. If its product was removed, delete the webhook configuration: kubectl delete {title}",
                )
                for title, number in ((KUEUE, 21), (KUEUE_VALIDATING, 22))
            ]
            + [
                (
                    "unknown",
                    "caBundles not compared with the certificates of their servers: 2",
                    "Run doctor inside the cluster.",
                )
            ],
        ),
        (
            no_endpoint,
            [
                (
                    "problem",
                    f"{DRIVER}, gpu.nvidia.com: Service {DRIVER_SERVICE} has no ready endpoint, so matching requests are rejected",
                    REPLICAS,
                ),
                (
                    "unknown",
                    "caBundles not compared with the certificates of their servers: 1",
                    "Run doctor inside the cluster.",
                ),
            ],
        ),
        (
            no_endpoint_but_ignored,
            [
                (
                    "warning",
                    f"{DRIVER}, gpu.nvidia.com: Service {DRIVER_SERVICE} has no ready endpoint, so failed calls are ignored",
                    REPLICAS,
                ),
                (
                    "unknown",
                    "caBundles not compared with the certificates of their servers: 1",
                    "Run doctor inside the cluster.",
                ),
            ],
        ),
        (
            one_endpoint,
            [
                (
                    "warning",
                    f"{title}, webhook.cert-manager.io: Service cert-manager/cert-manager-webhook has only 1 ready endpoint, so nothing answers while the Pod restarts",
                    "Run at least two replicas of the Service's Pods.",
                )
                for title in (CERT_MANAGER_MUTATING, CERT_MANAGER)
            ],
        ),
        (
            another_port,
            [
                (
                    "problem",
                    f"{GROVE}, pcs.validating.webhooks.grove.io: Service grove-system/grove-operator has no port 443, so matching requests are rejected",
                    "Correct clientConfig.service.port of the webhook, or add the port to the Service.",
                ),
                (
                    "unknown",
                    "caBundles not compared with the certificates of their servers: 1",
                    "Run doctor inside the cluster.",
                ),
            ],
        ),
        (
            own_pods,
            [
                (
                    "problem",
                    f"{KUEUE}, mpod.kb.io: while this webhook is down, its own Pods in kueue-system cannot be created, so it does not recover by itself",
                    "Exclude kueue-system in the webhook's namespaceSelector: kubernetes.io/metadata.name NotIn [kueue-system].",
                )
            ],
        ),
        (
            own_pods_with_conditions,
            [
                (
                    "warning",
                    f"{KAI}, admission.kai-scheduler.svc: while this webhook is down, its own Pods in kai-scheduler cannot be created, so it does not recover by itself, unless its matchConditions exclude them",
                    "Exclude kai-scheduler in the webhook's namespaceSelector: kubernetes.io/metadata.name NotIn [kai-scheduler].",
                )
            ],
        ),
        (
            everywhere,
            [
                (
                    "warning",
                    f"{KUEUE}, mpod.kb.io: while this webhook is down, writes of pods are rejected in kube-system too: new system Pods of the cluster do not start",
                    "Exclude kube-system in the webhook's namespaceSelector (kubernetes.io/metadata.name NotIn [kube-system]), or set failurePolicy: Ignore.",
                )
            ],
        ),
        (
            leases,
            [
                (
                    "warning",
                    f"{DRIVER}, gpu.nvidia.com: while this webhook is down, writes of leases.coordination.k8s.io are rejected in kube-system too: kube-scheduler and kube-controller-manager lose their leader Leases",
                    "Exclude kube-system in the webhook's namespaceSelector (kubernetes.io/metadata.name NotIn [kube-system]), or set failurePolicy: Ignore.",
                ),
                LEASES_OF_NODES,
            ],
        ),
        (leases_of_nodes, [LEASES_OF_NODES]),
        (leases_of_no_node, []),
        (
            slow,
            [
                (
                    "warning",
                    "CREATE of pods may take 52 s if all 8 webhooks are slow. API servers give up after 60 s by default",
                    "Set a lower timeoutSeconds for pod.mutate.grove-admission.grove.io, pod-mnnvl.mutate.grove-admission.grove.io, mpod.kb.io, admission.kai-scheduler.svc, pod-mnnvl.validate.grove-admission.grove.io, vpod.kb.io, validate.kyverno.svc-fail.",
                )
            ],
        ),
        (
            another_ca,
            [
                (
                    "problem",
                    f"{CERT_MANAGER}: the caBundle of webhook.cert-manager.io does not verify the certificate at 10.0.0.1:9443, 10.0.0.2:9443 for cert-manager-webhook.cert-manager.svc: unable to get issuer",
                    WRITER,
                )
            ],
        ),
        (
            no_ca,
            [
                (
                    "problem",
                    f"{CERT_MANAGER}: the caBundle of webhook.cert-manager.io is empty: API servers cannot verify the server",
                    WRITER,
                )
            ],
        ),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_a_mistake_is_named(
    mistake: Mistake, expected: Sequence[tuple[str, str, str]]
) -> None:
    cluster = Rehearsed()
    mistake(cluster)
    checks = [check for check in await cluster.checks() if check.status != "ok"]
    assert [
        (check.status, check.message, check.remedy)
        for check in checks
        if check.message not in AS_INSTALLED
    ] == list(expected)


async def test_from_outside_certificates_are_counted_and_not_called_wrong() -> None:
    cluster = Rehearsed()
    cluster.unreachable = {
        f"{name}.{space}.svc" for space, _, name in (key.partition("/") for key in services())
    }
    checks = await cluster.checks()
    assert [check.message for check in checks if check.status == "unknown"] == [
        "caBundles not compared with the certificates of their servers: 15"
    ]
    assert [check for check in checks if check.status == "problem"] == []


async def test_a_url_has_no_service_and_may_be_verified_by_the_api_servers_own_cas() -> None:
    cluster = Rehearsed()
    cluster.webhook(GROVE)["clientConfig"] = {"url": "https://grove.example.com/validate"}
    checks = [check for check in await cluster.checks() if GROVE in check.message]
    assert [(check.status, check.message) for check in checks] == [
        (
            "ok",
            f"{GROVE}, pcs.validating.webhooks.grove.io: while this webhook is down, requests to CREATE, UPDATE podcliquesets.grove.io are rejected",
        )
    ]


async def test_a_rule_for_namespaced_objects_stops_no_node() -> None:
    cluster = Rehearsed()
    for entry in cluster.webhook(KYVERNO)["rules"]:
        entry["scope"] = "Namespaced"
    assert NODES_STOP not in {check.message for check in await cluster.checks()}


OURS = "grove-admission"
KAI_SERVICE = "kai-scheduler/admission"
CERT_MANAGER_SERVICE = "cert-manager/cert-manager-webhook"


async def outages(cluster: Rehearsed) -> list[str]:
    checks = await check_outages(cluster.client(), OURS)
    assert all(check.status == "problem" for check in checks)
    return [check.message for check in checks]


async def test_webhooks_that_answer_are_no_outage() -> None:
    assert await outages(Rehearsed()) == []


async def test_a_webhook_of_pods_that_nobody_answers_is_an_outage() -> None:
    cluster = Rehearsed()
    cluster.endpoints[KAI_SERVICE] = 0
    found = await outages(cluster)
    assert (
        f"{KAI}, admission.kai-scheduler.svc: Service {KAI_SERVICE} has no ready endpoint"
        in (found[0].rpartition(", so ")[0])
    )
    assert found[0].endswith(", so matching requests are rejected")


async def test_a_service_that_is_gone_is_an_outage() -> None:
    cluster = Rehearsed()
    del cluster.services[KAI_SERVICE], cluster.endpoints[KAI_SERVICE]
    assert any("does not exist" in message for message in await outages(cluster))


async def test_what_passes_or_is_needed_by_no_workload_is_no_outage() -> None:
    cluster = Rehearsed()
    cluster.endpoints[KAI_SERVICE] = 0
    for configuration in cluster.configurations.values():
        for entry in configuration["webhooks"]:
            if entry["clientConfig"].get("service", {}).get("namespace") == "kai-scheduler":
                entry["failurePolicy"] = "Ignore"
    cluster.endpoints[CERT_MANAGER_SERVICE] = 0  # certificates
    assert await outages(cluster) == []


@pytest.mark.parametrize(
    ("mistake", "is_named"), [(leases_of_nodes, True), (leases_of_no_node, False)]
)
async def test_a_webhook_of_node_leases_that_nobody_answers_is_an_outage(
    mistake: Mistake, is_named: bool
) -> None:
    cluster = Rehearsed()
    mistake(cluster)
    webhook = cluster.webhook(DRIVER)
    webhook["rules"] = webhook["rules"][-1:]
    cluster.endpoints[DRIVER_SERVICE] = 0
    assert any(DRIVER in message for message in await outages(cluster)) is is_named


async def test_one_endpoint_is_no_outage() -> None:
    cluster = Rehearsed()
    cluster.endpoints[KAI_SERVICE] = 1
    assert await outages(cluster) == []
