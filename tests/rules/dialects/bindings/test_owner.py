"""What is given to the PodCliqueSet in the dialects in which it owns MNNVL resources."""

import pytest
from msgspec.structs import replace

from app.facts.grove.podgang import SlimPodGang
from app.facts.identity import Place
from app.facts.nvidia.computedomain import MnnvlResource
from app.objects.owners import OwnerRef
from app.rules.dialects.bindings.owner import POD_CLIQUE_SET_OWNS
from app.rules.dialects.dialect import OwnershipProblem

BY_SET = OwnerRef("PodCliqueSet", "train", "uid-set", True)
BY_GANG = OwnerRef("PodGang", "train-0", "uid-gang", True)
BY_TAIL = OwnerRef("PodGang", "train-0-1700000000000000001-pool-2", "uid-tail", False)
OF_OTHERS = OwnerRef("Job", "theirs", "uid-job", False)
GANG = SlimPodGang("ns", "train-0", "uid-gang", Place("train"))


def domain(*owners: OwnerRef) -> MnnvlResource:
    return MnnvlResource(
        "ComputeDomain", "ns", "train-0-cd", "u", "1", True, False, Place("train", "0"), owners
    )


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        pytest.param(domain(BY_SET), False, id="its PodCliqueSet owns it"),
        pytest.param(domain(BY_GANG), True, id="a PodGang owns it"),
        pytest.param(domain(BY_TAIL), True, id="a PodGang owns it that doesn't control it"),
        pytest.param(domain(BY_SET, BY_TAIL), True, id="a PodGang owns it too"),
        pytest.param(domain(), True, id="nobody owns it, after a deletion with --cascade=orphan"),
        pytest.param(domain(OF_OTHERS), False, id="somebody else owns it"),
        pytest.param(domain(BY_GANG, OF_OTHERS), False, id="somebody else owns it too"),
        pytest.param(
            domain(replace(BY_SET, name="other"), BY_GANG), False, id="another set owns it too"
        ),
        pytest.param(replace(domain(BY_GANG), deleting=True), False, id="it is being deleted"),
        pytest.param(replace(domain(BY_GANG), managed=False), False, id="it is not ours"),
        pytest.param(
            replace(domain(), name="foreign-train-0-cd"),
            False,
            id="it is somebody else's, with our labels",
        ),
        pytest.param(
            replace(domain(BY_GANG), name="train-0-worker-cd"), True, id="it is that of a clique"
        ),
        pytest.param(
            replace(domain(), place=Place("train"), name="train--cd"),
            False,
            id="it is of no replica",
        ),
        pytest.param(
            domain(OwnerRef("Pod", "p", "uid-pod", True), BY_GANG), False, id="it is a Pod's"
        ),
    ],
)
def test_what_is_given_back(resource: MnnvlResource, expected: bool) -> None:
    assert POD_CLIQUE_SET_OWNS.is_given_back(resource) is expected


@pytest.mark.parametrize(
    ("resource", "gang", "is_of"),
    [
        pytest.param(domain(BY_GANG), GANG, True, id="it owns the resource still"),
        pytest.param(domain(BY_SET), GANG, False, id="it owns nothing"),
        pytest.param(domain(BY_GANG), replace(GANG, uid="new"), False, id="a former PodGang does"),
        pytest.param(
            domain(replace(BY_GANG, uid="")), replace(GANG, uid=""), False, id="it is being created"
        ),
    ],
)
def test_the_resources_of_a_podgang_are_those_that_it_owns_still(
    resource: MnnvlResource, gang: SlimPodGang, is_of: bool
) -> None:
    assert (POD_CLIQUE_SET_OWNS.state(resource, gang) is not None) is is_of


def test_the_annotation_lasts_as_long_as_the_podgang_owns_something() -> None:
    rule = POD_CLIQUE_SET_OWNS
    going = replace(domain(BY_GANG), deleting=True)
    assert rule.state(going, GANG) == "going"
    assert rule.state(domain(BY_GANG), GANG) == "owned"
    assert rule.adopted([]) is None
    assert rule.adopted(["going"]) is None
    assert rule.adopted(["going", "owned"]) == "true"
    assert list(rule.base_names(GANG)) == []


LEADER = "Check that a replica of grove-admission leads (/readyz?verbose), and read the log of that replica."


@pytest.mark.parametrize(
    ("resource", "set_exists", "problem"),
    [
        pytest.param(domain(BY_SET), True, None, id="its PodCliqueSet owns it"),
        pytest.param(replace(domain(BY_GANG), managed=False), False, None, id="not ours"),
        pytest.param(
            domain(BY_GANG),
            True,
            OwnershipProblem(
                'owned by PodGang "train-0": PodCliqueSet "train" should own it, because Grove replaces PodGangs while pods run',
                LEADER,
                settling=True,
            ),
            id="a PodGang owns it",
        ),
        pytest.param(
            domain(),
            True,
            OwnershipProblem(
                'has no owner: PodCliqueSet "train" should own it, so that both are deleted together',
                LEADER,
                settling=True,
            ),
            id="nobody owns it",
        ),
        pytest.param(
            domain(OF_OTHERS),
            True,
            OwnershipProblem(
                'has an owner that is neither a PodGang nor PodCliqueSet "train"',
                "Remove the ownerReferences that do not name its PodCliqueSet: kubectl -n ns edit computedomain train-0-cd",
            ),
            id="somebody else owns it",
        ),
        pytest.param(
            domain(BY_SET),
            False,
            OwnershipProblem(
                'orphaned: PodCliqueSet "train" does not exist',
                "If the garbage collector does not delete it, run: kubectl -n ns delete computedomain train-0-cd",
            ),
            id="its PodCliqueSet is gone",
        ),
    ],
)
def test_what_is_wrong(
    resource: MnnvlResource, set_exists: bool, problem: OwnershipProblem | None
) -> None:
    assert POD_CLIQUE_SET_OWNS.problem(resource, None, set_exists=set_exists) == problem
