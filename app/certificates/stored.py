"""The certificates in the Secret of a cluster, and the webhook configurations that do not trust them."""

import base64
import binascii

from app.certificates.ca_bundle import trusted_cas
from app.certificates.inspect import is_issued_by
from app.certificates.publish import CONFIGURATIONS
from app.certificates.report import Material
from app.config.schema import Certificates
from app.kube.api import Client, NotFound, Object
from app.objects.resource import SECRET


async def read_live(client: Client, settings: Certificates) -> tuple[Material, list[str]]:
    """The content of the Secret, and a line for each webhook configuration that does not trust it. Raises NotFound if
    there is no Secret, and ValueError if its data is not base64."""
    data = (await client.get(SECRET, settings.secret_name, settings.namespace)).get("data") or {}
    material = Material(*(_decoded(data, name) for name in ("tls.crt", "tls.key", "ca.crt")))
    distrust = []
    for resource in CONFIGURATIONS:
        try:
            configuration = await client.get(resource, settings.webhook_configurations)
        except NotFound:
            continue
        if material.tls_crt is not None:
            distrust += _distrusting(configuration, material.tls_crt, (settings.namespace, settings.service_name))
    return material, distrust


def _decoded(data: Object, name: str) -> bytes | None:
    try:
        return base64.b64decode(data[name], validate=True) if name in data else None
    except (binascii.Error, TypeError, ValueError):
        raise ValueError(f"{name} of the Secret is not base64") from None


def _distrusting(configuration: Object, tls_crt: bytes, service: tuple[str, str]) -> list[str]:
    bundles = trusted_cas(configuration, service)
    try:
        trusting = sum(any(is_issued_by(tls_crt, ca) for ca in cas) for cas in bundles)
    except ValueError:
        return []  # other checks report this
    if trusting == len(bundles):
        return []
    count = f"{len(bundles) - trusting} of {len(bundles)}"
    return [
        f"{configuration['kind']} {configuration['metadata']['name']}: {count} webhooks don't trust the certificate"
    ]
