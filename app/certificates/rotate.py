"""When certificates are due, and what then takes their place. No clock: times are passed in, with their zone.

A CA is replaced in two steps, so that nobody meets a certificate before the CA that signed it is trusted:

1. the new CA goes to the front of the bundle; the pair stays, signed by the CA before it;
2. once the new CA is `settled` (has been in every caBundle for long enough), it signs a new pair.

The CA before it stays in the bundle until it has expired, and with it everything that it ever signed.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from app.certificates.holdings import Holdings
from app.certificates.inspect import Pair, inspect, renewal_time
from app.certificates.issue import make_ca, make_leaf, split_names

Reason = Literal["issue", "ca", "leaf", "names", "prune"]
"""issue: everything anew; ca: step 1; leaf: a new pair, or step 2; names: a new pair, for more names; prune: expired
CAs leave the bundle."""

CA_NAME = "grove-admission CA"
_MOST_SKEW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Terms:
    """How long a new CA and a new leaf are valid. Both are replaced after two thirds of their life; a CA of three
    times the life of a leaf, or more, never cuts a leaf short."""

    ca_life: timedelta = timedelta(days=365)
    leaf_life: timedelta = timedelta(days=90)

    @property
    def skew(self) -> timedelta:
        """How far clocks may be apart: certificates begin this much earlier, CAs are trusted this much longer."""
        return min(_MOST_SKEW, self.leaf_life / 10)


def due(
    holdings: Holdings | None, names: Collection[str], now: datetime, terms: Terms, *, settled: bool = False
) -> Reason | None:
    """What is to be done with `held` at `now`; None if nothing is. `names` are those to serve; `settled` says
    whether the signing CA may sign what is shown."""
    if holdings is None or now >= inspect(holdings.ca.cert_pem).not_after:
        return "issue"
    if now >= inspect(holdings.leaf.cert_pem).not_after:
        return "leaf"  # nobody accepts the old one, so there is nothing to wait for
    if holdings.issuer() == holdings.ca.cert_pem:
        reason = _due_under_one_ca(holdings, names, now)
        if reason is not None:
            return reason
    elif settled:
        return "leaf"
    return "prune" if len(still_trusted(holdings.retired, now, terms)) < len(holdings.retired) else None


def _due_under_one_ca(holdings: Holdings, names: Collection[str], now: datetime) -> Reason | None:
    """The pair first: until the new CA has settled, nothing can sign another."""
    leaf = inspect(holdings.leaf.cert_pem)
    if set(names) - set(leaf.names):
        return "names"
    if now >= renewal_time(leaf):
        return "leaf"
    if now >= renewal_time(inspect(holdings.ca.cert_pem)):
        return "ca"
    return None


def next_due(holdings: Holdings, now: datetime, terms: Terms) -> datetime | None:
    """When to ask `due` again; None where time alone changes nothing any more."""
    ca, leaf = inspect(holdings.ca.cert_pem), inspect(holdings.leaf.cert_pem)
    times = [renewal_time(ca), ca.not_after, renewal_time(leaf), leaf.not_after]
    times += [inspect(pem).not_after + terms.skew for pem in holdings.retired]
    return min((time for time in times if time > now), default=None)


def rotated(
    reason: Reason,
    holdings: Holdings | None,
    names: Sequence[str],
    now: datetime,
    terms: Terms,
    carried: Iterable[bytes] = (),
) -> Holdings:
    """`held` after the step that `due` named. `carried` are CAs (PEM) that a bundle issued anew goes on trusting."""
    if holdings is None or reason == "issue":
        ca = _new_ca(now, terms)
        known = (*(holdings.bundle if holdings else ()), *carried)
        return Holdings(ca, _new_leaf(ca, names, now, terms), still_trusted(known, now, terms))
    retired = still_trusted(holdings.retired, now, terms)
    if reason == "ca":
        return Holdings(_new_ca(now, terms), holdings.leaf, (holdings.ca.cert_pem, *retired))
    if reason == "leaf":
        return Holdings(holdings.ca, _new_leaf(holdings.ca, names, now, terms), retired)
    if reason == "names":
        return Holdings(holdings.ca, _new_leaf(holdings.ca, _with_former(names, holdings.leaf), now, terms), retired)
    return replace(holdings, retired=retired)


def still_trusted(cas: Iterable[bytes], now: datetime, terms: Terms) -> tuple[bytes, ...]:
    """Those of `cas` that may have signed what is still shown; each once."""
    return tuple(ca for ca in dict.fromkeys(cas) if now < inspect(ca).not_after + terms.skew)


def is_own_ca(ca: bytes) -> bool:
    """Whether the CA bears the name that ours do."""
    return inspect(ca).subject.startswith(f"CN={CA_NAME}")


def _with_former(names: Sequence[str], leaf: Pair) -> list[str]:
    """During an update two versions that want different names would else take turns. The next renewal drops names that
    nobody asks for."""
    return list(dict.fromkeys((*names, *inspect(leaf.cert_pem).names)))


def _new_ca(now: datetime, terms: Terms) -> Pair:
    """Each with a name of its own, so that people can tell them apart."""
    name = f"{CA_NAME} {now:%Y-%m-%d %H:%M:%S}"
    return make_ca(name, now - terms.skew, now + terms.ca_life)


def _new_leaf(ca: Pair, names: Sequence[str], now: datetime, terms: Terms) -> Pair:
    end = min(now + terms.leaf_life, inspect(ca.cert_pem).not_after)
    return make_leaf(ca, *split_names(names), now - terms.skew, end)
