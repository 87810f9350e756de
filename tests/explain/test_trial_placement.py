"""One trial of a placement: domains are tried in the order of what they have left now.

Tests `app/explain/placing/trial_placement.py`.
"""

from app.explain.placing.demand import MOST_ONE_BY_ONE, Demand, Ground
from app.explain.placing.trial_placement import Trial
from app.explain.state.index import Index
from app.facts.kubernetes.gpu_sharing import GpuPart
from app.facts.kubernetes.pod import Shape
from tests.explain import fleet
from tests.explain.fleet import GPU, facts, shape

EIGHT = shape(8)
ASKED = (8000,)
"""The GPUs of one pod of this shape, in thousandths."""


def trial() -> tuple[Trial, list[int], list[int]]:
    """An empty fleet, and the nodes of its two zones."""
    index = Index(facts())
    domains = index.domains(fleet.KEYS)
    names = (GPU,)
    fit = {EIGHT: [True] * len(index.nodes)}
    first, second = (list(domain.nodes) for domain in domains.at(1))
    return Trial(Ground(domains, names, index.free(names), fit)), first, second


def test_the_domain_with_less_left_is_tried_first_from_then_on() -> None:
    tried, first, second = trial()
    tree = tried.tree(Demand("", ""))
    a, b = tree.order(ASKED, ())

    assert tried.fill(EIGHT, 2, second, None)
    assert tree.order(ASKED, ()) == [b, a]

    assert tried.fill(EIGHT, 3, first, None)
    assert tree.order(ASKED, ()) == [a, b]


def test_what_is_undone_counts_again() -> None:
    tried, _, second = trial()
    tree = tried.tree(Demand("", ""))
    before = list(tree.order(ASKED, ()))
    mark = tried.mark

    assert tried.fill(EIGHT, 2, second, None)
    assert tree.order(ASKED, ()) == before[::-1]

    tried.undo(mark)
    assert tree.order(ASKED, ()) == before
    assert tree.tightness(ASKED)(before[0]) == tree.tightness(ASKED)(before[1])


def test_a_tally_counts_pods_for_which_each_domain_has_room_now() -> None:
    tried, first, second = trial()
    tree = tried.tree(Demand("", ""))
    tally = tree.tally(ASKED)
    a, b = (child.path for child in tree.domains.children(()))
    assert (tally.of(a), tally.of(b)) == ((len(first),), (len(second),))

    assert tried.fill(EIGHT, 3, second, None)
    assert (tally.of(a), tally.of(b)) == ((len(first),), (len(second) - 3,))


def test_very_many_pods_with_a_part_of_a_gpu_have_no_place() -> None:
    """KAI places them one by one, and a minimum may be any number."""
    index = Index(facts())
    domains = index.domains(fleet.KEYS)
    part = Shape(((GPU, 10),), (), (), (), GpuPart(0.01))
    ground = Ground(domains, (GPU,), index.free((GPU,)), {part: [True] * len(index.nodes)})
    nodes = domains.everywhere.nodes
    assert Trial(ground).fill(part, MOST_ONE_BY_ONE, nodes, None)
    assert not Trial(ground).fill(part, MOST_ONE_BY_ONE + 1, nodes, None)
