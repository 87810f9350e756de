"""When certificates are due, and what takes their place."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from app.certificates.certificate import Pair, check_ca, check_pair, inspect, make_ca, make_leaf
from app.certificates.rotation import (
    Reason,
    Terms,
    due,
    is_own_ca,
    new_holdings,
    next_due,
    rotated,
    still_trusted,
)
from app.certificates.secret import Holdings

NAMES = ("grove-admission.grove-system.svc", "127.0.0.1")
TERMS = Terms()
START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


def issued(at: datetime = START) -> Holdings:
    return new_holdings(NAMES, at, TERMS)


FIRST = issued()
LEAF_RENEWAL = START - TERMS.skew + (TERMS.leaf_life + TERMS.skew) * 2 / 3
CA_RENEWAL = START - TERMS.skew + (TERMS.ca_life + TERMS.skew) * 2 / 3
LATE_LEAF = rotated("leaf", FIRST, NAMES, CA_RENEWAL - DAY, TERMS)
ANNOUNCED = rotated("ca", LATE_LEAF, NAMES, CA_RENEWAL, TERMS)
ADOPTED = rotated("leaf", ANNOUNCED, NAMES, CA_RENEWAL + DAY, TERMS)
CA_END = START + TERMS.ca_life
FRESH_AT_CA_END = rotated("leaf", ADOPTED, NAMES, CA_END - 9 * DAY, TERMS)


@pytest.mark.parametrize(
    ("holdings", "now", "expected"),
    [
        pytest.param(FIRST, START, None, id="just issued"),
        pytest.param(
            FIRST, LEAF_RENEWAL - SECOND, None, id="a second before two thirds of the leaf's life"
        ),
        pytest.param(FIRST, LEAF_RENEWAL, "leaf", id="at two thirds of the leaf's life"),
        pytest.param(
            FIRST, START + TERMS.leaf_life - SECOND, "leaf", id="the last second of the leaf"
        ),
        pytest.param(FIRST, START + TERMS.leaf_life, "leaf", id="the leaf has expired"),
        pytest.param(
            LATE_LEAF, CA_RENEWAL - SECOND, None, id="a second before two thirds of the CA's life"
        ),
        pytest.param(LATE_LEAF, CA_RENEWAL, "ca", id="at two thirds of the CA's life"),
        pytest.param(FIRST, CA_RENEWAL, "leaf", id="CA and leaf due at once: the leaf first"),
        pytest.param(FIRST, CA_END, "issue", id="the CA has expired: everything is new"),
        pytest.param(
            ANNOUNCED, CA_RENEWAL + DAY, None, id="a new CA that is not trusted yet signs nothing"
        ),
        pytest.param(
            ANNOUNCED, CA_RENEWAL + 60 * DAY, None, id="not even for a leaf past its renewal"
        ),
        pytest.param(
            ANNOUNCED,
            CA_RENEWAL - DAY + TERMS.leaf_life,
            "leaf",
            id="only for one that has expired",
        ),
        pytest.param(ADOPTED, CA_RENEWAL + 2 * DAY, None, id="a rotation that is through"),
        pytest.param(
            FRESH_AT_CA_END,
            CA_END,
            None,
            id="the retired CA within the skew of clocks after its end",
        ),
        pytest.param(
            FRESH_AT_CA_END,
            CA_END + TERMS.skew,
            "prune",
            id="the retired CA has expired by every clock",
        ),
        pytest.param(FIRST, START - DAY, None, id="a clock a day behind changes nothing"),
    ],
)
def test_due(holdings: Holdings, now: datetime, expected: Reason | None) -> None:
    assert due(holdings, NAMES, now, TERMS) == expected


def test_a_new_ca_signs_once_it_is_trusted() -> None:
    assert due(ANNOUNCED, NAMES, CA_RENEWAL + DAY, TERMS, settled=True) == "leaf"


@pytest.mark.parametrize("settled", [False, True])
def test_trust_matters_only_between_the_two_steps(settled: bool) -> None:
    assert due(FIRST, NAMES, START, TERMS, settled=settled) is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(NAMES, None, id="the same names"),
        pytest.param((*NAMES, "other.svc"), "names", id="one more"),
        pytest.param(NAMES[:1], None, id="one less waits for the renewal"),
    ],
)
def test_names(names: tuple[str, ...], expected: Reason | None) -> None:
    assert due(FIRST, names, START, TERMS) == expected


def test_two_versions_that_want_different_names_agree_after_one_step_each() -> None:
    old = ("old.svc",)
    new = ("new.svc",)
    holdings = new_holdings(old, START, TERMS)
    holdings = rotated("names", holdings, new, START, TERMS)
    assert inspect(holdings.leaf.cert_pem).names == ("new.svc", "old.svc")
    assert [due(holdings, names, START, TERMS) for names in (old, new)] == [None, None]
    assert inspect(rotated("leaf", holdings, new, START, TERMS).leaf.cert_pem).names == new


@pytest.mark.parametrize(
    ("holdings", "now", "expected"),
    [
        pytest.param(FIRST, START, LEAF_RENEWAL, id="the leaf's renewal"),
        pytest.param(FIRST, LEAF_RENEWAL, START + TERMS.leaf_life, id="then its end"),
        pytest.param(LATE_LEAF, CA_RENEWAL - DAY, CA_RENEWAL, id="the CA's renewal"),
        pytest.param(
            FRESH_AT_CA_END, CA_END, CA_END + TERMS.skew, id="the end of trust in a retired CA"
        ),
        pytest.param(FIRST, CA_END, None, id="nothing once all has expired"),
    ],
)
def test_next_due(holdings: Holdings, now: datetime, expected: datetime | None) -> None:
    next_time = next_due(holdings, now, TERMS)
    assert next_time == expected
    if next_time is not None:
        assert due(holdings, NAMES, next_time - SECOND, TERMS) == due(holdings, NAMES, now, TERMS)


def test_an_issue_is_a_ca_and_a_pair_that_serve_at_once_and_for_their_time() -> None:
    ca = inspect(FIRST.ca.cert_pem)
    leaf = inspect(FIRST.leaf.cert_pem)
    assert (check_ca(FIRST.ca), check_pair(FIRST.leaf, FIRST.bundle_pem, NAMES, START)) == ([], [])
    assert (ca.not_before, ca.not_after) == (START - TERMS.skew, START + TERMS.ca_life)
    assert (leaf.not_before, leaf.not_after) == (START - TERMS.skew, START + TERMS.leaf_life)
    assert (leaf.names, FIRST.retired) == (NAMES, ())


def test_a_new_ca_is_put_in_front_and_the_pair_stays_good() -> None:
    assert ANNOUNCED.retired == (LATE_LEAF.ca.cert_pem,)
    assert ANNOUNCED.leaf == LATE_LEAF.leaf
    assert ANNOUNCED.issuer() == LATE_LEAF.ca.cert_pem
    assert check_pair(ANNOUNCED.leaf, ANNOUNCED.bundle_pem, NAMES, CA_RENEWAL) == []


def test_the_new_ca_then_signs_and_the_old_one_stays_trusted() -> None:
    assert ADOPTED.issuer() == ADOPTED.ca.cert_pem == ANNOUNCED.ca.cert_pem
    assert ADOPTED.bundle == ANNOUNCED.bundle
    assert check_pair(ADOPTED.leaf, ADOPTED.ca.cert_pem, NAMES, CA_RENEWAL + DAY) == []


def test_an_expired_ca_leaves_the_bundle() -> None:
    now = CA_END + TERMS.skew
    assert rotated("prune", FRESH_AT_CA_END, NAMES, now, TERMS) == Holdings(
        FRESH_AT_CA_END.ca, FRESH_AT_CA_END.leaf
    )
    assert rotated("leaf", FRESH_AT_CA_END, NAMES, now, TERMS).retired == ()


def test_a_leaf_never_outlives_its_ca() -> None:
    holdings = rotated("leaf", FIRST, NAMES, CA_END - DAY, TERMS)
    assert inspect(holdings.leaf.cert_pem).not_after == CA_END
    assert due(holdings, NAMES, CA_END - DAY, TERMS) == "ca"


def test_what_is_issued_anew_goes_on_trusting_what_is_carried() -> None:
    expired = make_ca("grove-admission CA of old", START - 9 * DAY, START - DAY).cert_pem
    holdings = new_holdings(
        NAMES, START, TERMS, previous=[FIRST.ca.cert_pem, expired, FIRST.ca.cert_pem]
    )
    assert holdings.retired == (FIRST.ca.cert_pem,)


@pytest.mark.untraced
def test_years_of_rotation_never_leave_a_gap() -> None:
    """A client that trusts the bundle of the step before accepts every pair, from its first day to
    its last, and the bundle stays short.
    """
    holdings = issued()
    now = START
    rotations = list[Reason]()
    while now < START + 2000 * DAY:
        # one step a day: each has settled by the next
        reason = due(holdings, NAMES, now, TERMS, settled=True)
        if reason is not None:
            before = holdings
            holdings = rotated(reason, before, NAMES, now, TERMS)
            rotations.append(reason)
            assert check_pair(before.leaf, before.bundle_pem, NAMES, now) == []
            assert check_pair(holdings.leaf, before.bundle_pem, NAMES, now) == []
            assert check_pair(holdings.leaf, holdings.bundle_pem, NAMES, now) == []
            assert len(holdings.bundle) <= 2
        now += DAY
    assert Counter(rotations) == {"leaf": 40, "ca": 8, "prune": 7}


@pytest.mark.parametrize(
    ("terms", "skew"),
    [
        pytest.param(Terms(), timedelta(minutes=5), id="five minutes"),
        pytest.param(
            Terms(leaf_life=timedelta(seconds=20)), timedelta(seconds=2), id="less for short lives"
        ),
    ],
)
def test_the_skew_of_clocks_that_is_allowed_for(terms: Terms, skew: timedelta) -> None:
    assert terms.skew == skew


def test_our_cas_are_known_by_their_name() -> None:
    assert is_own_ca(FIRST.ca.cert_pem)
    assert not is_own_ca(make_ca("someone's CA", START, START + DAY).cert_pem)


def test_trust_keeps_the_order() -> None:
    cas = (ADOPTED.ca.cert_pem, FIRST.ca.cert_pem)
    assert still_trusted(cas, START, TERMS) == cas


def test_a_leaf_of_two_names_of_one_kind_each() -> None:
    pair: Pair = make_leaf(FIRST.ca, ["a.svc", "::1"], START, START + DAY)
    holdings = Holdings(FIRST.ca, pair)
    assert due(holdings, ("a.svc", "::1"), START, TERMS) is None
