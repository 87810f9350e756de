"""Every target on its corpus and on some changed inputs, without coverage, so that targets stay in
order.

`./scripts/fuzz` goes on from there. What it has found is tested where the code is tested that was
wrong.
"""

from random import Random

import pytest

from tests.fuzz.targets import TARGETS

pytestmark = [pytest.mark.slow, pytest.mark.untraced]


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_and_changes_of_it_are_handled(name: str) -> None:
    target = TARGETS[name]
    random = Random(0)
    corpus = list(target.corpus())
    for data in corpus:
        target.run(data)
    for _ in range(target.replayed):
        data = target.mutate(random.choice(corpus), random)
        if len(data) <= target.most:
            target.run(data)


@pytest.mark.parametrize("name", TARGETS)
def test_a_change_is_made_of_its_seed(name: str) -> None:
    target = TARGETS[name]
    data = target.corpus()[0]
    changed = [[target.mutate(data, Random(seed)) for seed in range(30)] for _ in range(2)]
    assert changed[0] == changed[1]
    assert len(set(changed[0])) > 10
