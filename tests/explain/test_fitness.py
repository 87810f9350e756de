"""Which nodes may take a pod.

Tests `app/explain/placing/fitness.py` and `app/facts/kubernetes/selectors.py`.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from app.explain.placing import fitness
from app.explain.placing.fitness import BY, matches_any, unfit_because
from app.facts.kubernetes.gpu_sharing import MEMORY_LABEL, GpuPart
from app.facts.kubernetes.node import RESOURCE_MANAGEMENT, Node
from app.facts.kubernetes.pod import Shape
from app.facts.kubernetes.selectors import Requirement, Taint, Term, Toleration
from app.facts.labels import KAI_CORDONS, MIG_ENABLED, MIG_STRATEGY
from tests.effort import tries

NODE = Node("n1", {"gpu": "h100", "generation": "9", "serial": "1_000"}, {"pods": 110_000})
DRAIN = Taint("drain", "now", "NoSchedule")


@pytest.mark.parametrize(
    ("term", "holds"),
    [
        ((Requirement("gpu", "In", ("a100", "h100")),), True),
        ((Requirement("gpu", "In", ("a100",)),), False),
        ((Requirement("gpu", "NotIn", ("a100",)),), True),
        ((Requirement("gpu", "NotIn", ("h100",)),), False),
        ((Requirement("gpu", "Exists"),), True),
        ((Requirement("zone", "Exists"),), False),
        ((Requirement("zone", "DoesNotExist"),), True),
        ((Requirement("gpu", "DoesNotExist"),), False),
        ((Requirement("generation", "Gt", ("8",)),), True),
        ((Requirement("generation", "Gt", ("9",)),), False),
        ((Requirement("generation", "Lt", ("10",)),), True),
        ((Requirement("generation", "Lt", ("9",)),), False),
        ((Requirement("gpu", "Gt", ("8",)),), False),
        ((Requirement("generation", "Gt"),), False),
        ((Requirement("serial", "Gt", ("8",)),), False),
        ((Requirement("generation", "Lt", ("1_0",)),), False),
        ((Requirement("gpu", "Like", ("h",)),), False),
        ((Requirement("metadata.name", "In", ("n1",)),), True),
        ((Requirement("gpu", "Exists"), Requirement("zone", "Exists")), False),
        ((), False),
    ],
)
def test_a_term_of_a_selector(term: Term, holds: bool) -> None:
    assert matches_any((term,), NODE) is holds


@pytest.mark.parametrize(
    ("node", "shape", "why"),
    [
        (NODE, Shape(), ""),
        (replace(NODE, ready=False), Shape(), "not ready"),
        (replace(NODE, unschedulable=True), Shape(), "cordoned"),
        (replace(NODE, taints=(DRAIN,)), Shape(), "tainted drain"),
        (
            replace(NODE, taints=(DRAIN,)),
            Shape(tolerations=(Toleration("drain", "Exists", "", ""),)),
            "",
        ),
        (
            replace(NODE, taints=(DRAIN,)),
            Shape(tolerations=(Toleration("", "Exists", "", ""),)),
            "",
        ),
        (
            replace(NODE, taints=(DRAIN,)),
            Shape(tolerations=(Toleration("drain", "Equal", "now", "NoSchedule"),)),
            "",
        ),
        (
            replace(NODE, taints=(DRAIN,)),
            Shape(tolerations=(Toleration("drain", "Equal", "later", ""),)),
            "tainted drain",
        ),
        (
            replace(NODE, taints=(DRAIN,)),
            Shape(tolerations=(Toleration("drain", "Exists", "", "NoExecute"),)),
            "tainted drain",
        ),
        (NODE, Shape(selector=(Requirement("gpu", "In", ("a100",)),)), "not selected by the pods"),
        (
            NODE,
            Shape(
                affinity=((Requirement("gpu", "In", ("a100",)),), (Requirement("gpu", "Exists"),))
            ),
            "",
        ),
    ],
)
def test_why_a_node_takes_no_pods(node: Node, shape: Shape, why: str) -> None:
    assert unfit_because(shape, node) == why


MIG = "nvidia.com/mig-1g.10gb"
WHOLE = Shape((("nvidia.com/gpu", 1000),))
DEVICE = Shape(((MIG, 1000),))
PART = Shape((("nvidia.com/gpu", 500),), part=GpuPart(0.5))
OF_MEMORY = Shape(part=GpuPart(0.0, 4096))
MIXED = replace(NODE, labels={MIG_STRATEGY: "mixed", MIG_ENABLED: "true"})
SINGLE = replace(NODE, labels={MIG_STRATEGY: "single"}, allocatable={MIG: 7000})
FOR_MIG = "only for MIG devices (MIG strategy mixed)"
FOR_WHOLE = "only for whole GPUs (MIG strategy single)"
CORDON = "node.kubernetes.io/unschedulable"


@pytest.mark.parametrize(
    ("node", "shape", "why"),
    [
        (MIXED, WHOLE, FOR_MIG),
        (MIXED, PART, FOR_MIG),
        (MIXED, DEVICE, ""),
        (MIXED, Shape(), ""),
        (replace(MIXED, labels={**MIXED.labels, MIG_ENABLED: "false"}), WHOLE, ""),
        (replace(MIXED, labels={MIG_STRATEGY: "mixed"}), WHOLE, ""),
        (replace(MIXED, labels={MIG_STRATEGY: "mixed"}, allocatable={MIG: 0}), WHOLE, ""),
        (replace(MIXED, labels={MIG_STRATEGY: "mixed"}, allocatable={MIG: 1000}), WHOLE, FOR_MIG),
        (SINGLE, DEVICE, FOR_WHOLE),
        (SINGLE, PART, FOR_WHOLE),
        (SINGLE, WHOLE, ""),
        (replace(SINGLE, labels={**SINGLE.labels, MIG_ENABLED: "false"}), DEVICE, ""),
        (
            replace(NODE, allocatable={"gpu.nvidia.com/gpu": 8000}),
            PART,
            "whose GPUs DRA allocates, so that pods can't share them",
        ),
        (replace(NODE, allocatable={"gpu.nvidia.com/gpu": 8000}), WHOLE, ""),
        (NODE, OF_MEMORY, f"without the label {MEMORY_LABEL}"),
        (replace(NODE, labels={MEMORY_LABEL: "81920"}), OF_MEMORY, ""),
        (NODE, PART, ""),
        (replace(NODE, pressure="DiskPressure"), Shape(), "with DiskPressure"),
        (
            replace(NODE, unschedulable=True, labels={KAI_CORDONS[1]: ""}),
            Shape(),
            f"{BY}{RESOURCE_MANAGEMENT}",
        ),
        (
            replace(NODE, unschedulable=True),
            Shape(tolerations=(Toleration(CORDON, "Exists", "", "NoSchedule"),)),
            "",
        ),
        (NODE, Shape(volumes=(((Requirement("gpu", "Exists"),),),)), ""),
        (
            NODE,
            Shape(volumes=(((Requirement("gpu", "Exists"),),), ((Requirement("x", "Exists"),),))),
            "not selected by the pods",
        ),
        (
            NODE,
            Shape(
                selector=(Requirement("gpu", "Exists"),), affinity=((Requirement("x", "Exists"),),)
            ),
            "not selected by the pods",
        ),
    ],
)
def test_why_the_gpus_or_the_state_of_a_node_keep_pods_away(
    node: Node, shape: Shape, why: str
) -> None:
    assert unfit_because(shape, node) == why


WORDS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
KEYS = ("gpu", "generation", "zone", "metadata.name", "missing")
VALUES = ("h100", "9", "n1", "1")
REQUIREMENTS = st.builds(
    Requirement, st.sampled_from(KEYS), st.sampled_from(WORDS), st.tuples(st.sampled_from(VALUES))
)
TERMS = st.lists(st.lists(REQUIREMENTS, max_size=3).map(tuple), min_size=5, max_size=8).map(tuple)
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


@given(TERMS, LABELS, st.sampled_from(("n1", "n2")))
@settings(max_examples=tries(100, 2000), deadline=None)
def test_many_terms_match_the_nodes_that_one_of_them_matches(
    terms: tuple[Term, ...], labels: dict[str, str], name: str
) -> None:
    node = Node(name, labels)
    assert matches_any(terms, node) is any(matches_any((term,), node) for term in terms)


def test_the_work_does_not_grow_with_the_terms_for_each_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tenants decide on the number of terms, and each pod is compared with each node."""
    evaluated = []

    def counted(requirement: Requirement, value: str | None) -> bool:
        evaluated.append(requirement)
        return requirement.operator == "In" and value in requirement.values

    monkeypatch.setattr(fitness, "_holds", counted)
    terms = tuple(
        (Requirement("rack", "In", (f"r{number}",)), Requirement("zone", "In", ("z",)))
        for number in range(50, 100)
    )
    nodes = [Node(f"n{number}", {"rack": f"r{number % 10}"}) for number in range(1000)]
    for _ in range(5):
        assert not any(matches_any(terms, node) for node in nodes)
    assert len(evaluated) == 51 + 10 * 50  # without labels, and once for each rack
