"""An odd value at every place of an object: a verdict on it, never a crash, and a patch that is
whole at once.
"""

import copy
import functools
from collections.abc import Iterator
from typing import Any

import pytest
from jsonpatch import apply_patch

from tests.cluster.offline import OfflineCluster
from tests.effort import tries
from tests.reviews import LEVELS, NODE, Caller, load, patch_of, path_of, recorded_sets

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1.5,
    2**63,
    "",
    "a\n",
    "A b",
    [],
    {},
    [None],
    [[]],
    [{}],
    {"name": []},
    {"": {}},
)
PART = tries(3, 1)
"""One in how many odd values a place gets: others than the place before it."""

RECORDINGS = (
    "clustertopology.own-create-by-user",
    "podcliqueset.topology-three-levels",
    "podgroup.hierarchy",
    "podclique.scaling-group-scope-1",
    "podgang.scaling-group-0",
    "podgang.update",
    "pod-binding.gpu-node-1",
)
OWNERS = ("metadata", "ownerReferences")
"""Garbage in an owner reference names an owner that doesn't exist: what is made for it can't be
relied on.
"""


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    steps = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, inner in steps:
        yield (*above, step)
        yield from places(inner, (*above, step))


def with_odd(value: Any, place: tuple[Any, ...], odd: Any) -> Any:
    """A copy of `value` with `odd` at `place`. What is beside the place is not copied."""
    if not place:
        return odd
    changed = copy.copy(value)
    changed[place[0]] = with_odd(value[place[0]], place[1:], odd)
    return changed


@functools.cache
def constrained() -> list[dict[str, Any]]:
    """The objects of a cluster whose last set has constraints."""
    *others, group = recorded_sets()
    template = group["spec"]["template"]
    template["topologyConstraint"] = {"packDomain": "zone"}
    template["podCliqueScalingGroups"][0]["topologyConstraint"] = {"packDomain": "rack"}
    return [*others, group, NODE]


def new_caller() -> Caller:
    """One to whose cluster nothing was written yet."""
    return Caller(OfflineCluster(constrained(), levels=LEVELS))


@pytest.mark.untraced
@pytest.mark.parametrize("name", RECORDINGS)
async def test_an_odd_value_gets_a_verdict(name: str) -> None:
    review = load(name)
    obj = review["request"]["object"]
    complete = {
        "topologyConstraint": {"packConstraint": {"required": "x"}},
        "topologyConstraintGroupConfigs": [{}],
    }
    if name.startswith("podgang."):
        obj["spec"] |= complete
    caller = new_caller()
    for number, place in enumerate(places(obj)):
        for odd in ODD[number % PART :: PART]:
            review["request"]["object"] = with_odd(obj, place, odd)
            if caller.cluster.client.writes():
                caller = new_caller()
            response = await caller.ask(path_of(name), review)
            assert response.get("status", {}).get("code") in (None, 400, 403, 422, 503), (
                place,
                odd,
                response,
            )
            if "patch" in response and place[:2] != OWNERS:
                review["request"]["object"] = apply_patch(
                    review["request"]["object"], patch_of(response)
                )
                again = await caller.ask(path_of(name), review)
                assert (again["allowed"], patch_of(again)) == (True, []), (place, odd, again)
