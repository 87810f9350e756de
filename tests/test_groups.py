"""The tests of a module that share servers stay on one worker of a run."""

import pytest

GROUP = "an example"


@pytest.mark.xdist_group(GROUP)
def test_a_test_tells_pytest_xdist_its_group(request: pytest.FixtureRequest) -> None:
    """It reads the group from the end of the id. Where none is, nothing says so: each worker that
    gets a test of the module starts its servers.
    """
    if not request.config.getoption("loadgroup", False):
        pytest.skip("only runs with --dist loadgroup have groups")
    assert request.node.nodeid.endswith(f"@{GROUP}")
