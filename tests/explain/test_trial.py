"""Nodes that are filled one after the other on one trial, as on a new one each time."""

from random import Random

import pytest

from app.explain.known.domains import Domains
from app.explain.placing.demand import Demand, Ground
from app.explain.placing.packer import AS_KAI, Packer
from app.facts.kubernetes.node import Node
from tests.explain.fleet import shape

NAMES = ("cpu", "nvidia.com/gpu")
SHAPES = tuple(shape(gpus, cpu=cpu) for gpus, cpu in ((0, 1), (1, 2), (2, 1), (4, 0)))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_known_of_nodes_follows_what_is_placed_and_taken_away(seed: int) -> None:
    random = Random(seed)
    nodes = [Node(f"n{number}", {}, {"nvidia.com/gpu": 8000}) for number in range(12)]
    free = [(random.randrange(9) * 1000, random.randrange(9) * 1000) for _ in nodes]
    fit = {each: [random.random() < 0.8 for _ in nodes] for each in SHAPES}
    domains = Domains(nodes, ())
    kept = Packer(Ground(domains, NAMES, free, fit), AS_KAI)

    for _ in range(40):
        demand = Demand("", "", ((random.choice(SHAPES), random.randrange(1, 4)),))
        anew = Packer(Ground(domains, NAMES, kept.free, fit), AS_KAI)
        mark = kept.mark
        assert kept.places(demand) == anew.places(demand)
        if random.random() < 0.4:
            kept.undo(mark)
        else:
            assert kept.used(mark) == anew.used()
            assert kept.free == anew.free
