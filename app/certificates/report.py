"""Descriptions of certificates for people.

The certificates are those of a directory or of the Secret of a cluster. Their problems are
described too.
"""

import base64
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from app.certificates.ca_bundles import CONFIGURATIONS, trusted_cas
from app.certificates.inspect import Pair, check_pair, inspect, is_issued_by, plainly, split_bundle
from app.config.schema import Certificates
from app.kube.api import Client, Object, ObjectRef, find
from app.objects.resource import SECRET
from app.value import Value

DAY = timedelta(days=1)


class Material(Value):
    """The certificates and keys (PEM) in a directory or a Secret.

    None for those that are missing.
    """

    tls_crt: bytes | None
    tls_key: bytes | None
    ca_crt: bytes | None = None

    def __repr__(self) -> str:
        """Return a text without the key."""
        return f"Material(tls_crt={self.tls_crt!r}, ca_crt={self.ca_crt!r})"


def describe(material: Material, now: datetime) -> Iterator[str]:
    """Lines about every certificate. Keys are not shown."""
    for name, pem in (("tls.crt", material.tls_crt), ("ca.crt", material.ca_crt)):
        if pem is None:
            yield f"{name}: not there"
            continue
        try:
            certificates = split_bundle(pem)
        except ValueError as error:
            yield f"{name}: can't be read: {plainly(error)}"
            continue
        for certificate in certificates:
            yield from _described(name, certificate, now)


def _described(
    name: str,
    certificate: bytes,
    now: datetime,
) -> Iterator[str]:
    info = inspect(certificate)
    yield f"{name}: {info.subject}"
    yield f"  names       {', '.join(info.names) or '-'}"
    yield f"  issuer      {info.issuer}"
    yield f"  not before  {info.not_before.isoformat()}"
    yield f"  not after   {info.not_after.isoformat()} ({_validity(info.not_after - now)})"
    yield f"  sha256      {info.fingerprint}"


def validate_material(
    material: Material,
    names: Sequence[str],
    now: datetime,
    within: timedelta,
) -> list[str]:
    """Return all reasons why the pair cannot serve `names` now or `within` a time.

    The chain is checked if there is a CA bundle.
    """
    if material.tls_crt is None or material.tls_key is None:
        missing = {"tls.crt": material.tls_crt, "tls.key": material.tls_key}
        return [f"{name} is missing" for name, pem in missing.items() if pem is None]
    findings = check_pair(Pair(material.tls_crt, material.tls_key), material.ca_crt, names, now)
    return findings or [*_expiring(material.tls_crt, material.ca_crt, now, within)]


def _expiring(
    tls_crt: bytes,
    ca_crt: bytes | None,
    now: datetime,
    within: timedelta,
) -> Iterator[str]:
    end = inspect(tls_crt).not_after
    if end <= now + within:
        yield f"tls.crt expires at {end.isoformat()} ({_validity(end - now)})"
    issuers = [ca for ca in split_bundle(ca_crt) if is_issued_by(tls_crt, ca)] if ca_crt else []
    ends = [inspect(ca).not_after for ca in issuers]
    if ends and max(ends) <= now + within:
        yield f"the CA of tls.crt expires at {max(ends).isoformat()} ({_validity(max(ends) - now)})"


def _validity(time: timedelta) -> str:
    if time < timedelta(0):
        return f"expired {-time // DAY} days ago"
    return f"{time // DAY} days left"


async def read_live(client: Client, settings: Certificates) -> tuple[Material, list[str]]:
    """Return the content of the Secret, and a line for each configuration that does not trust it.

    Raise NotFound if there is no Secret, and ValueError if its data is not base64.
    """
    secret = await client.get(ObjectRef(SECRET, settings.secret_name, settings.namespace))
    data = secret.get("data") or {}
    material = Material(*(_decoded(data, name) for name in ("tls.crt", "tls.key", "ca.crt")))
    distrust = []
    for resource in CONFIGURATIONS:
        configuration = await find(client, ObjectRef(resource, settings.webhook_configurations))
        if configuration is not None and material.tls_crt is not None:
            distrust += _distrusting(
                configuration, material.tls_crt, (settings.namespace, settings.service_name)
            )
    return material, distrust


def _decoded(data: Object, name: str) -> bytes | None:
    try:
        return base64.b64decode(data[name], validate=True) if name in data else None
    except (TypeError, ValueError):
        raise ValueError(f"{name} of the Secret is not base64") from None


def _distrusting(
    configuration: Object,
    tls_crt: bytes,
    service: tuple[str, str],
) -> list[str]:
    bundles = trusted_cas(configuration, service)
    try:
        trusting = sum(any(is_issued_by(tls_crt, ca) for ca in cas) for cas in bundles)
    except ValueError:
        return []  # other checks report this

    if trusting == len(bundles):
        return []

    count = f"{len(bundles) - trusting} of {len(bundles)}"

    return [
        f"{configuration['kind']} {configuration['metadata']['name']}: {count} webhooks don't trust"
        " the certificate"
    ]
