"""The webhook configurations: each webhook is registered as its row of the table says."""

import base64
from typing import Any

import pytest
import yaml

from app.webhooks.configurations import (
    NAME,
    ServiceTarget,
    Target,
    UrlTarget,
    webhook_configurations,
)
from app.webhooks.registry import WEBHOOKS, Webhook
from tests.rendered import MANIFESTS

URL = UrlTarget("https://127.0.0.1:8443/", b"bundle")


def entries(target: Target) -> dict[str, tuple[str, dict[str, Any]]]:
    """The kind of the configuration of each webhook, and its entry."""
    return {
        entry["name"]: (obj["kind"], entry)
        for obj in webhook_configurations(target)
        for entry in obj["webhooks"]
    }


def test_there_are_two_configurations_of_our_name() -> None:
    made = webhook_configurations(ServiceTarget())
    assert [(obj["kind"], obj["metadata"]["name"]) for obj in made] == [
        ("MutatingWebhookConfiguration", NAME),
        ("ValidatingWebhookConfiguration", NAME),
    ]
    assert sum(len(obj["webhooks"]) for obj in made) == len(WEBHOOKS)


@pytest.mark.parametrize("webhook", WEBHOOKS, ids=lambda webhook: webhook.path)
def test_an_entry_is_what_its_row_says(webhook: Webhook) -> None:
    kind, entry = entries(ServiceTarget())[webhook.name]
    assert kind.startswith("Mutating" if webhook.mutating else "Validating")
    (rule,) = entry["rules"]
    suffix = f"/{webhook.subresource}" if webhook.subresource else ""
    assert rule["scope"] == ("Namespaced" if webhook.resource.namespaced else "Cluster")
    assert rule["operations"] == list(webhook.operations)
    assert rule["apiGroups"] == [webhook.resource.group]
    assert rule["resources"][0] == f"{webhook.resource.plural}{suffix}"
    assert len(rule["resources"]) == 1 + len(webhook.also)
    fields = ("failurePolicy", "sideEffects", "timeoutSeconds", "matchPolicy")
    assert [entry[field] for field in fields] == [
        webhook.failure_policy,
        webhook.side_effects,
        webhook.timeout_seconds,
        "Equivalent",
    ]
    assert ("reinvocationPolicy" in entry) is webhook.mutating
    conditions = entry.get("matchConditions", ())
    assert {each["name"]: each["expression"] for each in conditions} == webhook.match_conditions


@pytest.mark.parametrize("webhook", WEBHOOKS, ids=lambda webhook: webhook.path)
def test_a_webhook_is_called_at_a_service_or_at_a_url(webhook: Webhook) -> None:
    target = ServiceTarget()
    _, entry = entries(target)[webhook.name]
    service = {"namespace": target.namespace, "name": target.name, "port": 443}
    assert entry["clientConfig"] == {"service": service}
    _, entry = entries(URL)[webhook.name]
    assert entry["clientConfig"] == {
        "url": f"https://127.0.0.1:8443{webhook.path}",
        "caBundle": base64.b64encode(b"bundle").decode(),
    }


def test_kubernetes_and_the_server_itself_can_always_be_started_again() -> None:
    for obj in webhook_configurations(ServiceTarget(), "elsewhere"):
        for entry in obj["webhooks"]:
            (selected,) = entry["namespaceSelector"]["matchExpressions"]
            assert selected == {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["elsewhere", "kube-system"],
            }


def test_the_manifest_has_the_configurations_for_our_service() -> None:
    manifest = MANIFESTS / "base" / "webhooks.yaml"
    assert webhook_configurations(ServiceTarget()) == list(yaml.safe_load_all(manifest.read_text()))
