"""Check the serving certificate: whether it has expired, and whether the caBundles verify it."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Literal

from app.base.groups import by_key
from app.base.value import Value
from app.certificates.certificate import check_certificate, inspect, split_bundle
from app.config.schema import CertificateMode
from app.doctor.report import Check, Checks, logs_of, ok, problem, unknown, warning
from app.doctor.service import Endpoint, Target, target_of
from app.doctor.webhooks import webhooks_in
from app.kube.api import Client, ClusterError, NotFound, ObjectRef
from app.kube.authorities import trusting
from app.objects.resource import SECRET
from app.objects.shape import JsonMap, map_at, text_at

KEEPER = (
    "Read the log of the writer of the caBundle: with self-managed certificates, the logs of all"
    " replicas of deployment/grove-admission; with cert-manager, that of its cainjector. If nothing"
    " writes it, write the CA into caBundle of the webhook configurations."
)
_STORED: Mapping[CertificateMode, str] = {
    "self-managed": ("Find out why the replicas do not create or renew the certificate: {logs}."),
    "files": (
        "Renew the certificate where it was issued. With cert-manager, find out why it was not"
        " renewed: kubectl -n {namespace} describe certificate. If another Secret is mounted, set"
        " certificates.secretName to its name."
    ),
}

_UNREACHED = (
    "Run doctor again. If it cannot reach an endpoint again, read the log of this endpoint's Pod."
)


class Handshake(Value):
    """The result of a TLS handshake."""

    outcome: Literal["trusted", "refused", "unreachable"]
    """`trusted`, `refused` (failed verification of the certificate) or `unreachable` (other)."""
    reason: str = ""
    """The reason why the handshake failed, or "" if the certificate is trusted."""


Shake = Callable[[str, int, str, bytes], Awaitable[Handshake]]
"""A function that connects to a server and verifies its certificate.

The arguments are the address, the port, the name that the certificate must have, and the CA bundle
(PEM).
"""


class Bundle(Value):
    """A caBundle, and the webhooks that have this caBundle and the same target."""

    ca_bundle: str
    """The base64 text, as it is stored, or "" if there is none."""
    target: Target
    """The Service or host that the webhooks call."""
    webhooks: tuple[str, ...]
    """The names of the webhooks."""

    @property
    def title(self) -> str:
        """The name of the caBundle in messages."""
        count = len(self.webhooks)
        return f"the caBundle of {self.webhooks[0] if count == 1 else f'{count} webhooks'}"


class Shown(Value):
    """The serving certificate in the Secret, or the reason why it is not known."""

    tls_crt: bytes | None
    """The certificate (PEM), or None if it is not known."""
    reason: str = ""
    """The reason why the certificate is not known, or ""."""
    is_readable: bool = True
    """Whether the Secret was read, or does not exist."""


def bundles_of(configurations: Iterable[JsonMap]) -> list[Bundle]:
    """Return a Bundle for each pair of caBundle and target in the configurations, in order."""
    alike = by_key(
        (
            (text_at(map_at(webhook, "clientConfig"), "caBundle"), target_of(webhook)),
            text_at(webhook, "name"),
        )
        for webhook in webhooks_in(configurations)
    )
    return [Bundle(*client, tuple(names)) for client, names in alike.items()]


async def read_shown(client: Client, namespace: str, name: str) -> Shown:
    """Return `tls.crt` of a Secret, or the reason why there is none or it cannot be read."""
    secret = f"Secret {namespace}/{name}"
    try:
        data = map_at(await client.get(ObjectRef(SECRET, name, namespace)), "data")
        return Shown(base64.b64decode(data["tls.crt"], validate=True))
    except NotFound:
        return Shown(None, f"{secret} does not exist")
    except ClusterError as error:
        return Shown(None, f"{secret} can't be read: {error.message}", is_readable=False)
    except (KeyError, TypeError, ValueError):
        return Shown(None, f"{secret} has no readable tls.crt")


def check_stored(shown: Shown, secret: str, mode: CertificateMode, now: datetime) -> Checks:
    """Check that the Secret `secret` (namespace/name) has a certificate that has not expired.

    Return [] if this process could not read the Secret.
    """
    namespace = secret.partition("/")[0]
    keeper = _STORED[mode].format(namespace=namespace, logs=logs_of(namespace))
    if shown.tls_crt is None:
        if not shown.is_readable:
            return []  # check_bundle reports it if it needs the certificate
        return [Check("problem" if mode == "self-managed" else "warning", shown.reason, keeper)]

    try:
        end = inspect(split_bundle(shown.tls_crt)[0]).not_after
    except (ValueError, IndexError):
        return [problem(f"tls.crt of Secret {secret} is not a PEM certificate", keeper)]

    if end <= now:
        message = f"the certificate of Secret {secret} expired at {end.isoformat()}"
        return [problem(message, keeper)]

    return [ok(f"the certificate of Secret {secret} is valid until {end.isoformat()}")]


async def check_bundle(
    bundle: Bundle, endpoints: Iterable[Endpoint], shown: Shown, shake: Shake, now: datetime
) -> Checks:
    """Check that a caBundle is valid, and that it verifies the certificates of its target.

    Connect to the Service's `endpoints`, or to the host of a URL. If none of them can be reached
    from here, the bundle must verify the certificate in the Secret.
    """
    cas = _readable(bundle)
    if isinstance(cas, str):
        refusing = f"{bundle.title} {cas}: API servers cannot verify the server"
        return [problem(refusing, KEEPER)]
    validity = _validity(bundle, cas, now)
    if validity.status == "problem":
        return [validity]

    target = bundle.target
    places = [Endpoint(target.name, target.port)] if target.service is None else endpoints
    pem = b"".join(cas)
    answers: list[tuple[Handshake, Endpoint]] = []
    unreached: dict[Endpoint, str] = {}
    for place in places:
        result = await shake(place.address, place.port, target.name, pem)
        if result.outcome == "unreachable":
            unreached[place] = result.reason
        else:
            answers.append((result, place))

    if not answers:
        why = "; ".join(f"{place}: {reason}" for place, reason in unreached.items())
        why = why or "there is no endpoint"
        return [validity, _compare(bundle, pem, shown, now, why)]

    checks = [validity, *(_judge(bundle, *answer) for answer in by_key(answers).items())]
    reached = {place.pod for _, place in answers if place.pod}
    skipped = [place for place in unreached if place.pod not in reached]
    if skipped:
        names = ", ".join(map(str, skipped))
        message = f"unreachable endpoints, whose certificates were not checked: {names}"
        checks.append(warning(message, _UNREACHED))
    return checks


def _readable(bundle: Bundle) -> tuple[bytes, ...] | str:
    """Return the CAs (PEM) in a caBundle, or a text that says what is wrong with it."""
    if not bundle.ca_bundle:
        return "is empty"
    try:
        return split_bundle(base64.b64decode(bundle.ca_bundle, validate=True))
    except ValueError:
        return "is not a base64-encoded PEM bundle"


def _validity(bundle: Bundle, cas: tuple[bytes, ...], now: datetime) -> Check:
    """Check that at least one CA of a caBundle is valid now."""
    ends = [
        info.not_after for info in map(inspect, cas) if info.not_before <= now <= info.not_after
    ]
    if not ends:
        return problem(f"{bundle.title} has no currently valid CA", KEEPER)
    message = (
        f"valid CAs in {bundle.title}: {len(ends)} of {len(cas)}, the last one until"
        f" {max(ends).isoformat()}"
    )
    return ok(message)


def _judge(bundle: Bundle, result: Handshake, places: Iterable[Endpoint]) -> Check:
    """Return the check of the certificates that endpoints presented, all with the same result."""
    certificate = f"the certificate at {', '.join(map(str, places))} for {bundle.target.name}"
    if result.outcome == "trusted":
        return ok(f"{bundle.title} verifies {certificate}")
    return problem(f"{bundle.title} does not verify {certificate}: {result.reason}", KEEPER)


def _compare(bundle: Bundle, pem: bytes, shown: Shown, now: datetime, unreached: str) -> Check:
    """Check that a caBundle verifies the certificate in the Secret.

    `unreached` says why no server could be reached for its certificate.
    """
    if shown.tls_crt is None:
        message = (
            f"{bundle.title} was not compared with a certificate: no server could be reached"
            f" ({unreached}), and {shown.reason}"
        )
        return unknown(
            message,
            "Run doctor inside the cluster, or as a user who may read the Secret.",
        )

    findings = check_certificate(shown.tls_crt, pem, [bundle.target.name], now)
    if findings:
        message = f"{bundle.title} does not verify tls.crt of the Secret: {'; '.join(findings)}"
        return problem(message, KEEPER)

    message = (
        f"{bundle.title} verifies tls.crt of the Secret for {bundle.target.name} (no server could"
        f" be reached: {unreached})"
    )

    return ok(message)


async def handshake(host: str, port: int, name: str, ca_bundle: bytes, seconds: float) -> Handshake:
    """Connect to `host`, and verify its certificate for `name`. Give up after `seconds`.

    The certificate must chain to one of the CAs in `ca_bundle` (PEM).
    """
    context = trusting(cadata=ca_bundle.decode("ascii"))
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
    except ssl.SSLCertVerificationError as error:
        return Handshake("refused", error.verify_message)
    except TimeoutError:
        return Handshake("unreachable", f"no answer within {seconds:g} s")
    except OSError as error:
        return Handshake("unreachable", error.strerror or str(error))

    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()

    return Handshake("trusted")
