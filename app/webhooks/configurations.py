"""The two webhook configurations, from the registry. `manifests/` holds them; a test keeps both equal."""

import base64
from dataclasses import dataclass
from typing import Any

from app.webhooks.registry import WEBHOOKS, Webhook

API_VERSION = "admissionregistration.k8s.io/v1"
NAME = "grove-admission"
EXEMPT_NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """The server behind a Service, on its port 443. The caBundle is filled in by whoever makes the certificate."""

    namespace: str = "grove-system"
    name: str = "grove-admission"


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """The server at a URL (`https://host:port`), with the PEM bundle that its certificate leads to."""

    url: str
    ca_bundle: bytes


Target = ServiceTarget | UrlTarget


def webhook_configurations(target: Target, own_namespace: str = "grove-system") -> list[dict[str, Any]]:
    """The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.

    kube-system and our own namespace are left out, so that the server can always be started again.
    """
    namespaces = sorted({EXEMPT_NAMESPACE, own_namespace})
    return [
        {
            "apiVersion": API_VERSION,
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": NAME, "labels": {"app.kubernetes.io/name": NAME}},
            "webhooks": [_entry(one, target, namespaces) for one in WEBHOOKS if one.mutating is mutating],
        }
        for kind, mutating in (("Mutating", True), ("Validating", False))
    ]


def _entry(webhook: Webhook, target: Target, namespaces: list[str]) -> dict[str, Any]:
    resource = webhook.resource
    suffix = f"/{webhook.subresource}" if webhook.subresource else ""
    rule = {
        "apiGroups": [resource.group],
        "apiVersions": [resource.versions[0]],
        "operations": list(webhook.operations),
        "resources": [f"{each.plural}{suffix}" for each in (resource, *webhook.also)],
        "scope": "Namespaced" if resource.namespaced else "Cluster",
    }
    excluded = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(namespaces)}
    entry: dict[str, Any] = {
        "name": webhook.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client_config(webhook, target),
        "rules": [rule],
        "namespaceSelector": {"matchExpressions": [excluded]},
        "matchPolicy": "Equivalent",
        "failurePolicy": webhook.failure_policy,
        "sideEffects": webhook.side_effects,
        "timeoutSeconds": webhook.timeout_seconds,
    }
    if webhook.mutating:
        entry["reinvocationPolicy"] = "IfNeeded"
    if webhook.match_conditions:
        entry["matchConditions"] = [
            {"name": one.name, "expression": one.expression} for one in webhook.match_conditions
        ]
    return entry


def _client_config(webhook: Webhook, target: Target) -> dict[str, Any]:
    if isinstance(target, UrlTarget):
        bundle = base64.b64encode(target.ca_bundle).decode("ascii")
        return {"url": f"{target.url.rstrip('/')}{webhook.path}", "caBundle": bundle}
    return {"service": {"namespace": target.namespace, "name": target.name, "path": webhook.path, "port": 443}}
