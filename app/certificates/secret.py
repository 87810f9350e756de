"""Decode and encode the content of the certificate Secret.

- `ca.crt`: the bundle of trusted CAs, which is the signing CA followed by the retired CAs
- `ca.key`: the key of the signing CA
- `tls.crt`: the serving certificate
- `tls.key`: the key of the serving certificate

The serving certificate may be signed by a retired CA, because clients must trust a new CA before
they get a certificate that it signed.
"""

import base64

from app.base.value import Value
from app.certificates.certificate import (
    Pair,
    check_ca,
    check_pair,
    inspect,
    is_issued_by,
    plainly,
    split_bundle,
)
from app.objects.shape import JsonMap


class BrokenHoldingsError(ValueError):
    """The content of the certificate Secret can't be used, for the reasons in the message."""


class Holdings(Value):
    """The decoded content of the certificate Secret."""

    ca: Pair
    """The CA that signs the next serving certificate."""
    leaf: Pair
    """The serving certificate."""
    retired: tuple[bytes, ...] = ()
    """The other CAs that clients must trust, as PEM, such as the previous CA."""

    @property
    def bundle(self) -> tuple[bytes, ...]:
        """The CAs that clients must trust, as PEM."""
        return (self.ca.cert_pem, *self.retired)

    @property
    def bundle_pem(self) -> bytes:
        """The CAs in `bundle`, as one PEM text."""
        return b"".join(self.bundle)

    def issuer(self) -> bytes:
        """Return the CA in the bundle, as PEM, that signed the serving certificate.

        Raise BrokenHoldingsError if no CA in the bundle signed it.
        """
        for ca in self.bundle:
            if is_issued_by(self.leaf.cert_pem, ca):
                return ca
        raise BrokenHoldingsError("tls.crt is not signed by a CA in ca.crt")


def read_holdings(data: JsonMap) -> Holdings:
    """Return the decoded `data` (base64) of a Secret. Its certificates may have expired.

    Raise BrokenHoldingsError if a value is missing or unusable.
    """
    content = {name: _decoded(data, name) for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")}
    try:
        bundle = split_bundle(content["ca.crt"])
    except ValueError as error:
        raise BrokenHoldingsError(f"ca.crt can't be read: {plainly(error)}") from None

    ca = Pair(bundle[0], content["ca.key"])
    leaf = Pair(content["tls.crt"], content["tls.key"])
    findings = [*check_ca(ca), *_check_leaf(leaf)]
    if findings:
        raise BrokenHoldingsError("; ".join(findings))

    holdings = Holdings(ca, leaf, bundle[1:])
    holdings.issuer()

    return holdings


def written_holdings(holdings: Holdings) -> dict[str, str]:
    """Return `holdings` as the `data` of a Secret, the inverse of `read_holdings`."""
    content = {
        "ca.crt": holdings.bundle_pem,
        "ca.key": holdings.ca.key_pem,
        "tls.crt": holdings.leaf.cert_pem,
        "tls.key": holdings.leaf.key_pem,
    }
    return {name: base64.b64encode(value).decode("ascii") for name, value in content.items()}


def _decoded(data: JsonMap, name: str) -> bytes:
    try:
        return base64.b64decode(data[name], validate=True)
    except KeyError:
        raise BrokenHoldingsError(f"{name} is missing") from None
    except (TypeError, ValueError) as error:
        raise BrokenHoldingsError(f"{name} is not base64: {error}") from None


def _check_leaf(leaf: Pair) -> list[str]:
    try:
        begin = inspect(leaf.cert_pem).not_before
    except ValueError as error:
        return [f"tls.crt can't be read: {plainly(error)}"]
    return check_pair(leaf, None, (), begin)
