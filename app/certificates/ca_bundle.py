"""The caBundles of a webhook configuration (admissionregistration.k8s.io/v1), read and written. Pure."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from app.certificates.inspect import split_bundle

INJECTED = ("inject-ca-from", "inject-ca-from-secret", "inject-apiserver-ca")
"""Annotations (`cert-manager.io/...`) that make the cainjector of cert-manager write the caBundles."""

Service = tuple[str, str]
"""Namespace and name."""


def injector_annotation(configuration: Mapping[str, Any]) -> str | None:
    """The annotation that makes cert-manager write the caBundles of this configuration, or None."""
    annotations = configuration["metadata"].get("annotations") or {}
    return next((key for name in INJECTED if (key := f"cert-manager.io/{name}") in annotations), None)


def trusted_cas(configuration: Mapping[str, Any], service: Service) -> list[frozenset[bytes]]:
    """The CAs that each of our webhooks in `configuration` trusts, as normalized PEM; none if a caBundle is invalid."""
    return [_cas(_client(webhook)) for webhook in configuration.get("webhooks") or () if _is_ours(webhook, service)]


def with_ca_bundle(configuration: Mapping[str, Any], service: Service, bundle_pem: bytes) -> list[dict[str, Any]]:
    """The webhooks of `configuration`. Ours trust only `bundle_pem`; the others are unchanged."""
    encoded = base64.b64encode(bundle_pem).decode("ascii")
    return [
        {**webhook, "clientConfig": {**_client(webhook), "caBundle": encoded}}
        if _is_ours(webhook, service)
        else webhook
        for webhook in configuration.get("webhooks") or ()
    ]


def _is_ours(webhook: Mapping[str, Any], service: Service) -> bool:
    """Whether this webhook calls our Service, or a URL."""
    target = _client(webhook).get("service")
    return target is None or (target.get("namespace"), target.get("name")) == service


def _client(webhook: Mapping[str, Any]) -> Mapping[str, Any]:
    return webhook.get("clientConfig") or {}


def _cas(client: Mapping[str, Any]) -> frozenset[bytes]:
    try:
        return frozenset(split_bundle(base64.b64decode(client.get("caBundle") or "")))
    except (binascii.Error, ValueError):
        return frozenset()
