"""The caBundles of a webhook configuration.

Tests `app/certificates/ca_bundles.py`.
"""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.certificates.ca_bundles import injector_annotation, trusted_cas, with_ca_bundle
from app.certificates.certificate import make_ca

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
CA, OTHER = (make_ca(name, BEGIN, BEGIN + timedelta(days=1)).cert_pem for name in ("one", "other"))
SERVICE = ("ns", "ours")


def webhook(service: tuple[str, str] | None, bundle: Any = None) -> dict[str, Any]:
    target: dict[str, Any] = {"url": "https://x"}
    if service is not None:
        target = {"service": {"namespace": service[0], "name": service[1], "path": "/p"}}
    return {"name": "w", "clientConfig": target | ({} if bundle is None else {"caBundle": bundle})}


def configuration(*webhooks: dict[str, Any], **annotations: str) -> dict[str, Any]:
    return {"metadata": {"name": "c", "annotations": annotations}, "webhooks": list(webhooks)}


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


@pytest.mark.parametrize(
    ("webhooks", "expected"),
    [
        pytest.param([], [], id="no webhooks"),
        pytest.param([webhook(SERVICE, encoded(CA + OTHER))], [{CA, OTHER}], id="two CAs"),
        pytest.param([webhook(None, encoded(CA))], [{CA}], id="at a URL"),
        pytest.param(
            [webhook(("ns", "theirs"), encoded(CA)), webhook(("x", "ours"))], [], id="another's"
        ),
        pytest.param([webhook(SERVICE)], [set()], id="no bundle"),
        pytest.param([webhook(SERVICE, "%")], [set()], id="not base64"),
        pytest.param([webhook(SERVICE, encoded(b"x"))], [set()], id="not PEM"),
        pytest.param([{"name": "w"}], [set()], id="nothing at all"),
    ],
)
def test_what_is_trusted(webhooks: list[dict[str, Any]], expected: list[set[bytes]]) -> None:
    assert trusted_cas(configuration(*webhooks), SERVICE) == expected


def test_only_ours_are_written_and_the_given_object_stays_as_it_is() -> None:
    original = configuration(webhook(SERVICE, "x"), webhook(("ns", "theirs"), "y"), webhook(None))
    written = with_ca_bundle(original, SERVICE, CA)
    assert written == [
        webhook(SERVICE, encoded(CA)),
        webhook(("ns", "theirs"), "y"),
        webhook(None, encoded(CA)),
    ]
    assert original["webhooks"][0] == webhook(SERVICE, "x")


def test_no_webhooks_are_no_webhooks() -> None:
    assert with_ca_bundle({"metadata": {"name": "c"}, "webhooks": None}, SERVICE, CA) == []


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"cert-manager.io/issuer": "x"}, None, id="another one"),
        pytest.param(
            {"cert-manager.io/inject-ca-from": "a/b"},
            "cert-manager.io/inject-ca-from",
            id="a Certificate",
        ),
        pytest.param(
            {"cert-manager.io/inject-ca-from-secret": "a/b"},
            "cert-manager.io/inject-ca-from-secret",
            id="a Secret",
        ),
    ],
)
def test_cert_manager_is_recognised(annotations: dict[str, str], expected: str | None) -> None:
    assert injector_annotation(configuration(**annotations)) == expected


def test_an_object_without_annotations_is_nobody_s() -> None:
    assert injector_annotation({"metadata": {"name": "c"}}) is None
