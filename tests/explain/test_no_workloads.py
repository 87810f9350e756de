"""What a list of workloads says if it is empty.

Tests `app/explain/output/waiting_text.py`.
"""

from typing import Any

import pytest

from app.explain.output.waiting_text import exit_code, headline
from tests.explain.fleet import facts, occupant, pod

NOTHING: dict[str, Any] = {"sets": (), "pods": ()}
DENIED = {"unseen": {"sets": "no permission to list"}}


@pytest.mark.parametrize(
    ("changes", "namespace", "expected", "code"),
    [
        pytest.param(
            {**NOTHING, **DENIED},
            "",
            "PodCliqueSets in all namespaces could not be read. Use -n NAMESPACE for a namespace that you may view",
            2,
            id="no right in any namespace",
        ),
        pytest.param(
            {**NOTHING, **DENIED},
            "ml",
            "PodCliqueSets in namespace ml could not be read",
            2,
            id="no right in one",
        ),
        pytest.param(
            {**NOTHING, "skipped": frozenset({"sets"})},
            "",
            "there are no PodCliqueSets in these files",
            2,
            id="files without sets",
        ),
        pytest.param(
            NOTHING,
            "ml",
            "there are no workloads in namespace ml. Use -A to list all namespaces",
            0,
            id="an empty namespace",
        ),
        pytest.param(NOTHING, "", "there are no workloads in any namespace", 0, id="nothing"),
        pytest.param(
            {**NOTHING, "pods": (pod("b", 1), pod("a", 0))},
            "",
            "no workload with GPUs is pending in all namespaces, but 2 other pods are:"
            " grove-admission explain pod/a-0 -n inference",
            0,
            id="other pods",
        ),
        pytest.param(
            {**NOTHING, "pods": (pod("a", 0),)},
            "ml",
            "there are no workloads in namespace ml. Use -A to list all namespaces",
            0,
            id="pods of another namespace",
        ),
        pytest.param(
            {**NOTHING, "pods": (occupant("gpu-00"),)},
            "",
            "there are no workloads in any namespace",
            0,
            id="pods that are placed",
        ),
    ],
)
def test_without_rows(changes: dict[str, Any], namespace: str, expected: str, code: int) -> None:
    snapshot = facts(**changes)
    assert headline((), snapshot, namespace) == expected
    assert exit_code((), snapshot) == code
