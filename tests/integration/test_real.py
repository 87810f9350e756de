"""Whether there is a real API server, on which all these tests run a second time."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.integration import conftest
from tests.servers import KINDS, without_real


async def test_there_is_a_real_api_server_to_run_on() -> None:
    """Its skip stands for one of each test with an API server, here and in other folders."""
    missing = without_real()
    if missing:
        pytest.skip(missing)
    assert KINDS == ["sandbox", "real"]


async def test_the_tests_of_a_module_do_not_take_turns_on_two_api_servers(
    request: pytest.FixtureRequest,
) -> None:
    here = request.path

    def item(name: str, path: Any = here, **params: str) -> Any:
        callspec = SimpleNamespace(params=params)
        markers: list[object] = []
        return SimpleNamespace(
            path=path,
            name=name,
            callspec=callspec,
            add_marker=lambda marker, append=True: markers.append(marker),
        )

    other = here.with_name("test_other.py")
    items = [
        item("other b", other, kind="sandbox"),
        item("row 1", kind="sandbox", row="1"),
        item("row 1", kind="real", row="1"),
        item("row 2", kind="sandbox", row="2"),
        item("row 2", kind="real", row="2"),
        item("other a", other, kind="sandbox"),
        item("alone"),
    ]
    conftest.pytest_collection_modifyitems(items)
    order = [f"{each.name} {each.callspec.params.get('kind', '')}".strip() for each in items]
    assert order == [
        *("other b sandbox", "other a sandbox"),
        *("alone", "row 1 real", "row 2 real", "row 1 sandbox", "row 2 sandbox"),
    ]
