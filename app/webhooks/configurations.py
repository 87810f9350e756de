"""Generate the two webhook configurations from the registry.

A test compares them with the ones in `manifests/`.
"""

import base64
from collections.abc import Iterable

from app.base.value import Value
from app.objects.shape import Object
from app.webhooks.paths import MANAGED, PATHS_ARE_OURS
from app.webhooks.registry import WEBHOOKS, Webhook

API_VERSION = "admissionregistration.k8s.io/v1"
NAME = "grove-admission"
APP_LABEL = "app.kubernetes.io/name"
EXEMPT_NAMESPACE = "kube-system"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""The label whose value is the name of the namespace."""


class ServiceTarget(Value):
    """The server behind port 443 of a Service.

    The configurations omit the caBundle, because the issuer of the certificate writes it. They omit
    the paths, because the server writes them with a token.
    """

    namespace: str = "grove-system"
    name: str = "grove-admission"


class UrlTarget(Value):
    """The server at a URL."""

    url: str
    """The URL without a path (`https://host:port`)."""
    ca_bundle: bytes
    """The PEM bundle that verifies the server's certificate."""


Target = ServiceTarget | UrlTarget


def webhook_configurations(target: Target, own_namespace: str = "grove-system") -> list[Object]:
    """Return the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.

    They exclude kube-system and `own_namespace`, so that the server can always be started again.
    """
    namespaces = sorted({EXEMPT_NAMESPACE, own_namespace})
    return [
        {
            "apiVersion": API_VERSION,
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {
                "name": NAME,
                "labels": {APP_LABEL: NAME},
                "annotations": {PATHS_ARE_OURS: MANAGED},
            },
            "webhooks": [
                _entry(webhook, target, namespaces)
                for webhook in WEBHOOKS
                if webhook.mutating is mutating
            ],
        }
        for kind, mutating in (("Mutating", True), ("Validating", False))
    ]


def outside(namespaces: Iterable[str]) -> Object:
    """Return a namespaceSelector that selects all namespaces except `namespaces`."""
    excluded = {"key": NAMESPACE_LABEL, "operator": "NotIn", "values": list(namespaces)}
    return {"matchExpressions": [excluded]}


def expressions(items: Iterable[tuple[str, str]]) -> list[Object]:
    """Return named CEL expressions, such as matchConditions, from pairs (name, expression)."""
    return [{"name": name, "expression": expression} for name, expression in items]


def _entry(webhook: Webhook, target: Target, namespaces: list[str]) -> Object:
    resource = webhook.resource
    suffix = f"/{webhook.subresource}" if webhook.subresource else ""
    rule = {
        "apiGroups": [resource.group],
        "apiVersions": resource.rule_versions,
        "operations": list(webhook.operations),
        "resources": [
            f"{plural}{suffix}"
            for plural in (resource.plural, *(also.plural for also in webhook.also))
        ],
        "scope": "Namespaced" if resource.namespaced else "Cluster",
    }
    entry: Object = {
        "name": webhook.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client_config(webhook, target),
        "rules": [rule],
        "namespaceSelector": outside(namespaces),
        "matchPolicy": "Equivalent",
        "failurePolicy": webhook.failure_policy,
        "sideEffects": webhook.side_effects,
        "timeoutSeconds": webhook.timeout_seconds,
    }
    if webhook.mutating:
        entry["reinvocationPolicy"] = "IfNeeded"
    if webhook.match_conditions:
        entry["matchConditions"] = expressions(webhook.match_conditions.items())

    return entry


def _client_config(webhook: Webhook, target: Target) -> Object:
    if isinstance(target, UrlTarget):
        bundle = base64.b64encode(target.ca_bundle).decode("ascii")
        return {"url": f"{target.url.rstrip('/')}{webhook.path}", "caBundle": bundle}
    # the server writes the path, with a token
    return {"service": {"namespace": target.namespace, "name": target.name, "port": 443}}
