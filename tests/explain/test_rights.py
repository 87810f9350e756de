"""Who gives the rights that are missing, and with which command.

Tests `app/explain/output/rights.py`.
"""

import pytest

from app.explain.output.rights import how_to_get
from app.explain.state.snapshot import OF_KIND
from app.facts.kinds import POD_GROUP

NO_RIGHT = "no permission to list"
ROLE = "--clusterrole=grove-admission-view --user=USER"


@pytest.mark.parametrize(
    ("unseen", "namespace", "lines"),
    [
        pytest.param({"sets": "not served"}, "ns", [], id="no right is missing"),
        pytest.param(
            {"sets": NO_RIGHT, "pods": NO_RIGHT},
            "ns",
            [
                f"Ask an admin of namespace ns for permission to read them: kubectl -n ns create rolebinding USER-view {ROLE}"
            ],
            id="of one namespace",
        ),
        pytest.param(
            {"sets": NO_RIGHT, "nodes": NO_RIGHT},
            "ns",
            [
                f"Ask an admin of namespace ns for permission to read the objects in ns: kubectl -n ns create rolebinding USER-view {ROLE}",
                f"Ask a cluster admin for permission to read everything: kubectl create clusterrolebinding USER-view {ROLE}",
            ],
            id="of one namespace and of the cluster",
        ),
        pytest.param(
            {"nodes": NO_RIGHT},
            "ns",
            [
                f"Ask a cluster admin for permission to read them: kubectl create clusterrolebinding USER-view {ROLE}"
            ],
            id="of the cluster",
        ),
        pytest.param(
            {"sets": NO_RIGHT},
            "",
            [
                f"Ask a cluster admin for permission to read them: kubectl create clusterrolebinding USER-view {ROLE}"
            ],
            id="of all namespaces",
        ),
    ],
)
def test_who_gives_what_is_missing(
    unseen: dict[str, str], namespace: str, lines: list[str]
) -> None:
    assert list(how_to_get(unseen, namespace)) == lines


def test_of_two_kinds_of_one_name_that_of_the_neighbour_is_meant() -> None:
    assert OF_KIND["PodGroup"] is POD_GROUP
