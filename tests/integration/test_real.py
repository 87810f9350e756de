"""Whether there is a real API server, on which all these tests run a second time."""

import pytest

from tests.servers import KINDS, without_real


async def test_there_is_a_real_api_server_to_run_on() -> None:
    """Its skip stands for one of each test with an API server, here and in other folders."""
    missing = without_real()
    if missing:
        pytest.skip(missing)
    assert KINDS == ["sandbox", "real"]
