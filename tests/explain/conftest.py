"""Remedies for the messages of other programs, in full."""

from collections.abc import Iterator

import pytest

from tests.said import Said


@pytest.fixture
def said(request: pytest.FixtureRequest) -> Iterator[Said]:
    """Compares messages with the recorded ones when the test ends."""
    told = Said(request.node)
    yield told
    told.check()
