"""What an audit says of a stored ComputeDomain or claim."""

from dataclasses import replace

import pytest

from app.domain.labels import Place
from app.domain.ownership import Gang, MnnvlResource, OwnerRef, ownership_problem

PLACE = Place("train", "0", podgang="train-0")
GANG = Gang("ns", "train-0", "uid-gang", PLACE)
OWNED = MnnvlResource(
    "ComputeDomain", "ns", "cd", "u", "1", True, False, PLACE, (OwnerRef("PodGang", "train-0", "uid-gang", True),)
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
            'not adopted: PodGang "train-0" should own it, and the reconciler has not made it so yet',
            id="waits",
        ),
        pytest.param(
            replace(OWNED, owners=(OwnerRef("Job", "j", "uid-j", True),)),
            GANG,
            True,
            'controlled by something else than PodGang "train-0", which uses it',
            id="foreign",
        ),
        pytest.param(OWNED, None, True, 'orphaned: PodGang "train-0" does not exist', id="without its PodGang"),
        pytest.param(
            replace(OWNED, place=Place("train", "0")),
            None,
            False,
            'orphaned: the PodGang of its labels does not exist, and neither does PodCliqueSet "train"',
            id="without anything",
        ),
    ],
)
def test_what_is_wrong(resource: MnnvlResource, gang: Gang | None, set_exists: bool, problem: str | None) -> None:
    assert ownership_problem(resource, gang, set_exists) == problem
