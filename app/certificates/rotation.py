"""Decide which step of a rotation of certificates is due, and return its result.

No clock is read: times are arguments, and have a time zone.

A CA is replaced in two steps, so that clients trust it before they get a certificate that it
signed:

1. The new CA becomes the first one in the bundle. The serving certificate is still signed by the
   previous CA.
2. Once the new CA is `settled`, which means that it has been in every caBundle for long enough, it
   signs a new serving certificate.

The previous CA remains in the bundle until it expires.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal

from msgspec.structs import replace

from app.base.value import Value
from app.certificates.certificate import Pair, inspect, make_ca, make_leaf, renewal_time
from app.certificates.secret import Holdings

Reason = Literal["issue", "ca", "leaf", "names", "prune"]
"""The steps of a rotation.

- issue: create a new CA and a new serving certificate
- ca: create a new CA (step 1)
- leaf: create a new serving certificate (also step 2)
- names: create a new serving certificate for more names
- prune: remove expired CAs from the bundle
"""

CA_NAME = "grove-admission CA"
_MOST_SKEW = timedelta(minutes=5)


class Terms(Value):
    """The validity periods of certificates.

    A certificate is replaced after two thirds of its period. The period of a CA must be at least
    three times the period of a serving certificate. Otherwise, a serving certificate could be valid
    for a shorter period, because it expires with its CA at the latest.
    """

    ca_life: timedelta = timedelta(days=365)
    """The validity period of a CA."""
    leaf_life: timedelta = timedelta(days=90)
    """The validity period of a serving certificate."""

    @property
    def skew(self) -> timedelta:
        """The tolerated difference between the clocks of machines.

        Certificates become valid this much before their creation, and CAs stay in the bundle this
        much longer than they are valid.
        """
        return min(_MOST_SKEW, self.leaf_life / 10)


def due(
    holdings: Holdings,
    names: Collection[str],
    now: datetime,
    terms: Terms,
    *,
    settled: bool = False,
) -> Reason | None:
    """Return the step of the rotation that is due at `now`, or None.

    `names` are the names that the serving certificate must have. `settled` is whether clients trust
    the signing CA, so that it can sign a new serving certificate.
    """
    if now >= inspect(holdings.ca.cert_pem).not_after:
        return "issue"
    if now >= inspect(holdings.leaf.cert_pem).not_after:
        return "leaf"  # no client accepts the expired one, so don't wait until the CA is settled
    if holdings.issuer() == holdings.ca.cert_pem:
        reason = _due_under_one_ca(holdings, names, now)
        if reason is not None:
            return reason
    elif settled:
        return "leaf"

    return (
        "prune"
        if len(still_trusted(holdings.retired, now, terms)) < len(holdings.retired)
        else None
    )


def early(holdings: Holdings, now: datetime) -> Reason | None:
    """Return the step that replaces a certificate that is not valid yet, or None.

    Such a certificate was probably created by a replica whose clock was ahead. Clients reject it
    like an expired one.
    """
    if now < inspect(holdings.ca.cert_pem).not_before:
        return "issue"
    return "leaf" if now < inspect(holdings.leaf.cert_pem).not_before else None


def _due_under_one_ca(holdings: Holdings, names: Collection[str], now: datetime) -> Reason | None:
    """Return the step that is due if the signing CA signed the serving certificate, or None.

    The serving certificate is replaced before the CA, because no CA can sign one until a new CA is
    settled.
    """
    leaf = inspect(holdings.leaf.cert_pem)
    if set(names) - set(leaf.names):
        return "names"
    if now >= renewal_time(leaf):
        return "leaf"
    if now >= renewal_time(inspect(holdings.ca.cert_pem)):
        return "ca"
    return None


def next_due(holdings: Holdings, now: datetime, terms: Terms) -> datetime | None:
    """Return the next time at which another step may be due, or None if there is none."""
    ca = inspect(holdings.ca.cert_pem)
    leaf = inspect(holdings.leaf.cert_pem)
    times = [renewal_time(ca), ca.not_after, renewal_time(leaf), leaf.not_after]
    times += [inspect(pem).not_after + terms.skew for pem in holdings.retired]
    return min((time for time in times if time > now), default=None)


def new_holdings(
    names: Sequence[str], now: datetime, terms: Terms, previous: Iterable[bytes] = ()
) -> Holdings:
    """Return new content of the Secret, with a new CA and a new serving certificate for `names`.

    The bundle also has the CAs in `previous` (PEM) that `still_trusted` returns. Raise ValueError
    if there is no name, or if a name is not allowed in a certificate.
    """
    ca = _new_ca(now, terms)
    return Holdings(ca, new_leaf(ca, names, now, terms), still_trusted(previous, now, terms))


def rotated(
    reason: Reason, holdings: Holdings, names: Sequence[str], now: datetime, terms: Terms
) -> Holdings:
    """Return the content of the Secret after the step `reason`.

    Raise ValueError if a serving certificate can't be created.
    """
    if reason == "issue":
        return new_holdings(names, now, terms, holdings.bundle)

    retired = still_trusted(holdings.retired, now, terms)
    if reason == "ca":
        return Holdings(_new_ca(now, terms), holdings.leaf, (holdings.ca.cert_pem, *retired))
    if reason == "prune":
        return replace(holdings, retired=retired)

    if reason == "names":
        # During an upgrade, two versions may want different names. Without the previous names, they
        # would replace the certificate in turns. The next renewal drops needless names.
        names = list(dict.fromkeys((*names, *inspect(holdings.leaf.cert_pem).names)))
    return Holdings(holdings.ca, new_leaf(holdings.ca, names, now, terms), retired)


def still_trusted(cas: Iterable[bytes], now: datetime, terms: Terms) -> tuple[bytes, ...]:
    """Return the CAs in `cas` (PEM) without duplicates and expired CAs.

    CAs that expired less than `terms.skew` ago are included.
    """
    return tuple(ca for ca in dict.fromkeys(cas) if now < inspect(ca).not_after + terms.skew)


def is_own_ca(ca: bytes) -> bool:
    """Return whether `ca` (PEM) has the name of a CA that we created."""
    return inspect(ca).subject.startswith(f"CN={CA_NAME}")


def _new_ca(now: datetime, terms: Terms) -> Pair:
    """Return a new CA with a unique name."""
    name = f"{CA_NAME} {now:%Y-%m-%d %H:%M:%S}"
    return make_ca(name, now - terms.skew, now + terms.ca_life)


def new_leaf(ca: Pair, names: Sequence[str], now: datetime, terms: Terms) -> Pair:
    """Return a new serving certificate for `names`, signed by `ca`.

    The certificate expires after `terms.leaf_life`, or together with `ca` if that is earlier. Raise
    ValueError if there is no name, or if a name is not allowed in a certificate.
    """
    end = min(now + terms.leaf_life, inspect(ca.cert_pem).not_after)
    return make_leaf(ca, names, now - terms.skew, end)
