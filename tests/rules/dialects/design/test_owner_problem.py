"""What an audit says of a stored ComputeDomain or claim."""

import pytest
from msgspec.structs import replace

from app.facts.grove.podgang import SlimPodGang
from app.facts.identity import Place
from app.facts.nvidia.computedomain import MnnvlResource
from app.objects.owners import OwnerRef
from app.rules.dialects.design.owner import POD_GANG_OWNS
from app.rules.dialects.dialect import OwnershipProblem

PLACE = Place("train", "0", podgang="train-0")
GANG = SlimPodGang("ns", "train-0", "uid-gang", PLACE)
OWNED = MnnvlResource(
    "ComputeDomain",
    "ns",
    "cd",
    "u",
    "1",
    True,
    False,
    PLACE,
    (OwnerRef("PodGang", "train-0", "uid-gang", True),),
)
FOREIGN = OwnershipProblem(
    'has an owner that is neither PodGang "train-0" nor its PodCliqueSet',
    "Remove the ownerReferences that name neither its PodGang nor its PodCliqueSet: kubectl -n ns edit computedomain cd",
)
BY_SET = (OwnerRef("PodCliqueSet", "train", "uid-set", True),)


@pytest.mark.parametrize(
    ("resource", "gang", "set_exists", "problem"),
    [
        pytest.param(OWNED, GANG, True, None, id="owned"),
        pytest.param(replace(OWNED, managed=False), None, False, None, id="not ours"),
        pytest.param(replace(OWNED, deleting=True), None, False, None, id="going"),
        pytest.param(
            replace(OWNED, owners=BY_SET),
            GANG,
            True,
            OwnershipProblem(
                'not adopted: the reconciler has not made PodGang "train-0" its owner yet',
                "Check that a replica of grove-admission leads (/readyz?verbose), and read the log of that replica.",
                settling=True,
            ),
            id="waits",
        ),
        pytest.param(
            replace(OWNED, owners=(OwnerRef("Job", "j", "uid-j", True),)),
            GANG,
            True,
            FOREIGN,
            id="foreign",
        ),
        pytest.param(
            replace(OWNED, owners=(OwnerRef("Job", "j", "uid-j"),)),
            GANG,
            True,
            FOREIGN,
            id="foreign, and not its controller",
        ),
        pytest.param(
            OWNED,
            None,
            True,
            OwnershipProblem(
                "orphaned: the PodGang of its PodCliques does not exist",
                "If no Pod uses it, run: kubectl -n ns delete computedomain cd. Otherwise, do nothing, because it is deleted with its PodCliqueSet.",
                settling=True,
            ),
            id="without its PodGang",
        ),
        pytest.param(
            replace(OWNED, place=Place("train", "0")),
            None,
            False,
            OwnershipProblem(
                'orphaned: the PodGang of its PodCliques does not exist, and neither does PodCliqueSet "train"',
                "If the garbage collector does not delete it, run: kubectl -n ns delete computedomain cd",
            ),
            id="without anything",
        ),
    ],
)
def test_what_is_wrong(
    resource: MnnvlResource,
    gang: SlimPodGang | None,
    set_exists: bool,
    problem: OwnershipProblem | None,
) -> None:
    assert POD_GANG_OWNS.problem(resource, gang, set_exists=set_exists) == problem
