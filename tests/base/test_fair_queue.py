"""A queue in which owners take turns."""

import pytest

from app.base.fair_queue import FairQueue


def test_owners_take_turns_with_their_items_in_order() -> None:
    queue = FairQueue[str]()
    for owner, item in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1")):
        assert queue.put(owner, item)
    assert len(queue) == 5
    first = [queue.take() for _ in range(3)]
    queue.put("b", "b2")
    assert [*first, *(queue.take() for _ in range(3))] == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert not queue
    with pytest.raises(LookupError):
        queue.take()


def test_one_owner_takes_no_place_of_another() -> None:
    queue = FairQueue[int](2)
    assert [queue.put("a", number) for number in range(4)] == [True, True, False, False]
    assert queue.put("b", 9)
    assert [queue.take() for _ in range(len(queue))] == [0, 9, 1]
