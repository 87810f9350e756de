"""Every answer for small random clusters is that of an oracle that tries everything."""

import random
from collections import Counter

import pytest

from app.explain.answers.whatif.edited_snapshot import apply_edits
from app.explain.answers.whatif.edits import Addition
from app.explain.answers.whatif.effects import Effects, Fate, effects
from app.explain.state.index import Index
from tests.effort import tries
from tests.explain.whatif import brute
from tests.explain.whatif.clusters import cluster, edits

pytestmark = [pytest.mark.slow, pytest.mark.untraced]

CLUSTERS = tries(200, 500)
GROWN = tries(60, 200)
_RANKS = ("fits", "restarts", "shrinks", "breaks", "placed", "waits")


def fates(result: Effects) -> list[tuple[str, str]]:
    return [(fate.gang.name, outcome(fate)) for fate in (*result.moves, *result.waits)]


def outcome(fate: Fate) -> str:
    """A gang that is held for another reason has its place."""
    return "placed" if fate.how in ("starts", "held") else fate.how


def test_each_fate_is_that_of_brute_force() -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for seed in range(CLUSTERS):
        source = random.Random(seed)
        facts = cluster(source)
        chosen = edits(source, facts)
        result = effects(Index(facts), chosen)
        edited = apply_edits(Index(facts), chosen)
        expected = brute.fates(edited.facts, edited.moved)
        certain = all(fate.certain for fate in (*result.moves, *result.waits))
        if fates(result) != expected or not certain:
            wrong.append((seed, chosen, fates(result), expected, certain))
        counts.update(how for _, how in expected)
    print(f"\n{dict(counts)}")
    assert wrong == []
    assert min(counts[how] for how in _RANKS) >= 5, counts


def test_more_nodes_never_mean_less_room() -> None:
    """The first gang that fares otherwise fares better; those after it may then get less."""
    better = 0
    for seed in range(CLUSTERS, CLUSTERS + GROWN):
        source = random.Random(seed)
        facts = cluster(source)
        chosen = edits(source, facts)
        more = [*chosen, Addition(1, source.choice(facts.nodes).name)]
        before = ranks(effects(Index(facts), chosen))
        after = ranks(effects(Index(facts), more))
        assert after <= before, (seed, before, after)
        better += after < before
    assert better >= 5


def ranks(result: Effects) -> list[int]:
    return [_RANKS.index(outcome(fate)) for fate in (*result.moves, *result.waits)]
