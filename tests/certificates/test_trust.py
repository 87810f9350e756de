"""Since when every client trusts a CA.

Tests `app/certificates/ca_bundles.py`.
"""

import math

from app.certificates.ca_bundles import Trust

OLD = b"old"
NEW = b"new"


def test_trust_begins_when_the_last_bundle_has_it() -> None:
    trust = Trust()
    trust.see([{OLD}, {OLD}], 0)
    trust.see([{OLD, NEW}, {OLD}], 5)
    assert (trust.seconds(OLD, 5), trust.seconds(NEW, 5)) == (5, None)
    trust.see([{OLD, NEW}, {NEW, OLD}], 6)
    trust.see([{OLD, NEW}, {NEW, OLD}], 9)
    assert (trust.seconds(OLD, 10), trust.seconds(NEW, 10)) == (10, 4)


def test_trust_that_was_broken_begins_anew() -> None:
    trust = Trust()
    for at, bundle in enumerate([{NEW}, {OLD}, {NEW}]):
        trust.see([bundle], at)
    assert trust.seconds(NEW, 10) == 8


def test_nobody_knows_anything_before_the_first_look_and_without_clients_nobody_has_to() -> None:
    trust = Trust()
    assert trust.seconds(OLD, 1) is None
    trust.see([], 2)
    assert trust.seconds(OLD, 2) == math.inf


def test_a_client_that_comes_later_trusts_nothing_before() -> None:
    trust = Trust()
    trust.see([], 0)
    trust.see([set()], 5)
    assert trust.seconds(OLD, 6) is None
