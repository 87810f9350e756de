"""The caBundles of a webhook configuration (admissionregistration.k8s.io/v1), read and written. Pure."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from app.certificates.inspect import split_bundle

INJECTED = ("inject-ca-from", "inject-ca-from-secret", "inject-apiserver-ca")
"""Annotations (`cert-manager.io/…`) by which cert-manager's cainjector is told to keep the caBundles."""

Service = tuple[str, str]
"""Namespace and name."""


def injector_annotation(configuration: Mapping[str, Any]) -> str | None:
    """The annotation that makes cert-manager the keeper of this configuration's caBundles; None without one."""
    annotations = configuration["metadata"].get("annotations") or {}
    return next((key for name in INJECTED if (key := f"cert-manager.io/{name}") in annotations), None)


def trusted_cas(configuration: Mapping[str, Any], service: Service) -> list[frozenset[bytes]]:
    """What each of our webhooks in `configuration` trusts: CAs as PEM of one form, none if that can't be read."""
    return [_cas(_client(webhook)) for webhook in configuration.get("webhooks") or () if _is_ours(webhook, service)]


def with_ca_bundle(configuration: Mapping[str, Any], service: Service, bundle_pem: bytes) -> list[dict[str, Any]]:
    """The webhooks of `configuration`, ours trusting `bundle_pem` and nothing else, the others as they are."""
    encoded = base64.b64encode(bundle_pem).decode("ascii")
    return [
        {**webhook, "clientConfig": {**_client(webhook), "caBundle": encoded}}
        if _is_ours(webhook, service)
        else webhook
        for webhook in configuration.get("webhooks") or ()
    ]


def _is_ours(webhook: Mapping[str, Any], service: Service) -> bool:
    """One at another Service isn't; one at a URL is ours, as it stands in our configuration."""
    target = _client(webhook).get("service")
    return target is None or (target.get("namespace"), target.get("name")) == service


def _client(webhook: Mapping[str, Any]) -> Mapping[str, Any]:
    return webhook.get("clientConfig") or {}


def _cas(client: Mapping[str, Any]) -> frozenset[bytes]:
    try:
        return frozenset(split_bundle(base64.b64decode(client.get("caBundle") or "")))
    except (binascii.Error, ValueError):
        return frozenset()
