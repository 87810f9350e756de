"""The tests of a module that share servers stay on one worker of a run."""

import pytest

from tests.conftest import ModuleScheduling

GROUP = "an example"


@pytest.mark.xdist_group(GROUP)
def test_a_test_tells_pytest_xdist_its_group(request: pytest.FixtureRequest) -> None:
    """It reads the group from the end of the id. Where none is, nothing says so: each worker that
    gets a test of the module starts its servers.
    """
    if not request.config.getoption("loadgroup", False):
        pytest.skip("only runs with --dist loadgroup have groups")
    assert request.node.nodeid.endswith(f"@{GROUP}")


@pytest.mark.parametrize(
    ("test", "piece"),
    [
        ("tests/kube/test_lease.py::test_a_lease", "tests/kube/test_lease.py"),
        ("tests/kube/test_lease.py::test_a_lease[a@b]", "tests/kube/test_lease.py"),
        ("tests/integration/test_mnnvl.py::test_it[real]@test_mnnvl real", "test_mnnvl real"),
    ],
    ids=["a module", "an address in a parameter", "a group"],
)
def test_a_module_is_one_piece_of_work_unless_its_tests_have_groups(test: str, piece: str) -> None:
    # an instance of its own would need the workers of a run
    scheduling = object.__new__(ModuleScheduling)
    assert scheduling._split_scope(test) == piece
