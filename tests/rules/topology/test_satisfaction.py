"""What the status of a PodCliqueSet says of its constraints."""

import pytest
from msgspec.structs import replace

from app.facts.grove.constraint import UNCONSTRAINED, StoredConstraint
from app.facts.grove.podcliqueset import Clique, PodCliqueSet, ScalingGroup
from app.facts.grove.topology import ClusterTopology, Level
from app.rules.topology.satisfaction import constraint_condition, removed_levels_warnings
from tests.builders import managed

TOPOLOGY = managed("grove-topology", levels=(Level("zone", "k/zone"), Level("host", "k/host")))
FREE = PodCliqueSet("ns", "train", "u", 5, False, UNCONSTRAINED, (Clique("worker", 1),), ())
IGNORED = "Topology constraint will be ignored. Please remove packDomain or update ClusterTopology."


@pytest.mark.parametrize(
    ("pcs", "topology", "expected"),
    [
        pytest.param(FREE, TOPOLOGY, None, id="a set without constraints gets no condition"),
        pytest.param(
            replace(
                FREE,
                constraint=StoredConstraint("zone"),
                cliques=(Clique("worker", 1, StoredConstraint("host")),),
            ),
            TOPOLOGY,
            (
                "True",
                "TopologyConstraintsValid",
                "All topology constraints name levels of the ClusterTopology",
            ),
            id="all levels are there",
        ),
        pytest.param(
            replace(FREE, constraint=StoredConstraint("block")),
            TOPOLOGY,
            (
                "False",
                "TopologyLevelNotFound",
                f"Topology level 'block' not found in ClusterTopology 'grove-topology'. {IGNORED}",
            ),
            id="the design's message",
        ),
        pytest.param(
            replace(
                FREE,
                constraint=StoredConstraint("block"),
                groups=(ScalingGroup("pool", ("worker",), StoredConstraint("rack")),),
            ),
            TOPOLOGY,
            (
                "False",
                "TopologyLevelNotFound",
                f"Topology levels 'block', 'rack' not found in ClusterTopology 'grove-topology'. {IGNORED}",
            ),
            id="several, broadest first",
        ),
        pytest.param(
            replace(FREE, constraint=StoredConstraint("zone")),
            managed("grove-topology", enabled=False),
            ("False", "TopologyDisabled", "Topology support disabled in operator configuration"),
            id="switched off",
        ),
        pytest.param(
            replace(FREE, constraint=StoredConstraint("zone")),
            None,
            (
                "Unknown",
                "TopologyUnknown",
                "The managed ClusterTopology does not exist or has no levels yet",
            ),
            id="not to be seen",
        ),
    ],
)
@pytest.mark.statement(
    "1.116", "1.117", "1.118", "1.119", "1.120", "1.121", "1.122", "1.123", "1.124", "1.125"
)
def test_the_condition(
    pcs: PodCliqueSet, topology: ClusterTopology | None, expected: tuple[str, str, str] | None
) -> None:
    condition = constraint_condition(pcs, topology)
    assert (condition and (condition.status, condition.reason, condition.message)) == expected
    assert condition is None or condition.generation == 5


USER = replace(
    FREE,
    constraint=StoredConstraint("rack"),
    groups=(ScalingGroup("g", (), constraint=StoredConstraint("block")),),
)


@pytest.mark.parametrize(
    ("count", "warning"),
    [
        pytest.param(0, None, id="nobody names them"),
        pytest.param(
            1,
            "constraints on removed levels ('block', 'rack') will be ignored in 1 PodCliqueSet: ns/s0",
            id="one is one",
        ),
        pytest.param(
            2,
            "constraints on removed levels ('block', 'rack') will be ignored in 2 PodCliqueSets: ns/s0, ns/s1",
            id="a few are all named",
        ),
        pytest.param(
            7,
            "constraints on removed levels ('block', 'rack') will be ignored in 7 PodCliqueSets: ns/s0, ns/s1, ns/s2, ns/s3, ns/s4 and 2 more",
            id="of many the first",
        ),
    ],
)
def test_who_takes_levels_away_is_told_whom_it_hits(count: int, warning: str | None) -> None:
    assert removed_levels_warnings(
        {"rack", "block", "zone"}, [replace(USER, name=f"s{n}") for n in range(count)]
    ) == ([warning] if warning else [])
