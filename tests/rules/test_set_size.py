"""How many parts a PodCliqueSet may have, and what a stored one that has more may become."""

from typing import Any

import pytest

from app.rules.set_size import size_findings
from tests.said import Said

CLIQUES = "spec.template.cliques"
NAMES = "spec.template.podCliqueScalingGroups"


def pcs(cliques: int, groups: int = 0, names: int = 0) -> dict[str, Any]:
    """A set of so many cliques and scaling groups, the first of which has all cliqueNames."""
    scaling: list[dict[str, Any]] = [{"name": f"g{number}"} for number in range(groups)]
    if scaling:
        scaling[0]["cliqueNames"] = [f"c{number}" for number in range(names)]
    template = {
        "cliques": [{"name": f"c{number}"} for number in range(cliques)],
        "podCliqueScalingGroups": scaling,
    }
    return {"spec": {"template": template}}


@pytest.mark.parametrize(
    ("obj", "old", "fields"),
    [
        pytest.param(pcs(128), None, [], id="128 cliques"),
        pytest.param(pcs(129), None, [CLIQUES], id="129 cliques"),
        pytest.param(pcs(120, 8), None, [], id="128 cliques and groups"),
        pytest.param(pcs(120, 9), None, [CLIQUES], id="129 cliques and groups"),
        pytest.param(pcs(1, 1, 128), None, [], id="128 cliqueNames"),
        pytest.param(pcs(1, 1, 129), None, [NAMES], id="129 cliqueNames"),
        pytest.param(pcs(129, 1, 129), None, [CLIQUES, NAMES], id="too many of both"),
        pytest.param(pcs(200), pcs(200), [], id="a stored set stays as it is"),
        pytest.param(pcs(150), pcs(200), [], id="a stored set gets smaller"),
        pytest.param(pcs(201), pcs(200), [CLIQUES], id="a stored set gets larger"),
        pytest.param(pcs(129), pcs(10), [CLIQUES], id="a small set gets too large"),
        pytest.param(pcs(1, 1, 150), pcs(1, 1, 150), [], id="its cliqueNames stay"),
        pytest.param(pcs(1, 1, 151), pcs(1, 1, 150), [NAMES], id="it gets more cliqueNames"),
        pytest.param({"spec": 7}, None, [], id="no set at all"),
    ],
)
def test_a_set_has_at_most_128_parts(
    obj: dict[str, Any], old: dict[str, Any] | None, fields: list[str], said: Said
) -> None:
    assert [finding.field for finding in size_findings(obj, old)] == fields
    said(size_findings(obj, old))
