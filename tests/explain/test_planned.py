"""The gangs of a PodCliqueSet that does not exist yet, by the scheme of Grove's release.

Tests `app/explain/gangs/planned.py`.
"""

from typing import Any

import pytest

from app.explain.gangs.planned import PLACEMENT, planned
from app.explain.reasons.table import RULES
from app.explain.state.index import Index
from app.facts.constraint import SchedulerConstraint
from app.facts.grove.podgang import PodGangMap
from tests.explain.fleet import NAMESPACE, RACK, ZONE, facts

CONTAINER = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
SET = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "metadata": {"name": "new", "namespace": NAMESPACE},
    "spec": {
        "replicas": 1,
        "template": {
            "topologyConstraint": {"packDomain": "zone"},
            "cliques": [
                {"name": "w", "spec": {"replicas": 2, "podSpec": {"containers": [CONTAINER]}}}
            ],
            "podCliqueScalingGroups": [
                {
                    "name": "pool",
                    "cliqueNames": ["w"],
                    "replicas": 2,
                    "minAvailable": 1,
                    "topologyConstraint": {"packDomain": "rack"},
                }
            ],
        },
    },
}


@pytest.mark.parametrize(
    ("maps", "told"),
    [
        ((), {"new-0-pool-1": [SchedulerConstraint(RACK)]}),
        (
            (PodGangMap(NAMESPACE, "llm-0"),),
            {"new-0-pool-1": [SchedulerConstraint(ZONE), SchedulerConstraint(RACK)]},
        ),
    ],
    ids=["without epochs", "with epochs"],
)
def test_a_tail_is_told_what_its_release_of_grove_tells_it(
    maps: tuple[Any, ...], told: dict[str, list[SchedulerConstraint]]
) -> None:
    gangs = planned(Index(facts(gang_maps=maps)), SET)
    constraints = {
        gang.ref.name: [part.told for part in gang.whole.parts() if part.told] for gang in gangs
    }
    assert constraints == {"new-0": [SchedulerConstraint(ZONE), SchedulerConstraint(RACK)], **told}


def test_the_reasons_of_a_set_that_does_not_exist_are_reasons() -> None:
    assert set(PLACEMENT) <= {rule.id for rule in RULES}
