"""Who may write the managed ClusterTopology."""

import pytest

from app.rules.topology.levels import refusal_to_write


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE", "CONNECT"])
@pytest.mark.parametrize(("user", "refused"), [("admin", True), ("operator", False), ("", True)])
@pytest.mark.statement("1.18", "1.48")
def test_only_the_authorized_write_the_managed_topology(
    operation: str, user: str, refused: bool
) -> None:
    refusal = refusal_to_write("ClusterTopology", "managed", operation, user, ["operator"])
    assert (refusal is not None) is refused
    assert (
        refusal is None
        or f'user "{user}" may not {operation.lower()} it. Allowed users: operator' in refusal
    )


def test_nobody_may_where_nobody_is_configured() -> None:
    refusal = refusal_to_write("ClusterTopology", "m", "CREATE", "x", [])
    assert refusal is not None
    assert "none (authorizedUsers is empty)" in refusal
