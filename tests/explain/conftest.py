"""Answers, and remedies for the messages of other programs, in full."""

from collections.abc import Iterator

import pytest

from app.explain.answers.answer import Answer
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from tests.explain.fleet import SET_REF, answer
from tests.explain.table.recorded import Asking, whole
from tests.said import Said


@pytest.fixture
def said(request: pytest.FixtureRequest) -> Iterator[Said]:
    """Compares messages with the recorded ones when the test ends."""
    told = Said(request.node)
    yield told
    told.check()


@pytest.fixture
def answered(said: Said) -> Asking:
    """Explains as `fleet.answer` does, and compares all that is said with what is recorded."""

    def ask(snapshot: Snapshot, ref: Ref = SET_REF) -> Answer:
        found = answer(snapshot, ref)
        said(whole(found))
        return found

    return ask
