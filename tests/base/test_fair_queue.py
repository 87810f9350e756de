"""Queues in which owners take turns."""

import pytest

from app.base.fair_queue import FairQueue, TimedQueue


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


def handled(queue: TimedQueue[str], number: int, seconds: dict[str, float]) -> str:
    """The next items, each of which takes the seconds of its owner."""
    items = ""
    for _ in range(number):
        owner, item = queue.take()
        queue.spend(owner, seconds[owner])
        items += item
    return items


def test_the_owner_that_has_taken_the_least_time_is_next() -> None:
    queue = TimedQueue[str]()
    for item in "ABCDE":
        queue.put("slow", item)
    for item in "abcdef":
        queue.put("fast", item)
    seconds = {"slow": 3.0, "fast": 1.0}
    assert handled(queue, 9, seconds) == "AabcBdefC"
    assert handled(queue, 2, seconds) == "DE"
    assert not queue
    with pytest.raises(LookupError):
        queue.take()


def test_an_owner_that_joins_later_counts_like_the_next_one() -> None:
    queue = TimedQueue[str]()
    for item in "ABCD":
        queue.put("old", item)
    seconds = {"old": 1.0, "new": 1.0}
    assert handled(queue, 2, seconds) == "AB"
    for item in "ab":
        queue.put("new", item)
    assert handled(queue, 4, seconds) == "aCbD"


def test_an_item_that_is_removed_is_not_taken() -> None:
    queue = TimedQueue[str]()
    for owner, item in (("a", "1"), ("a", "2"), ("b", "3")):
        queue.put(owner, item)
    owner = queue.remove("2")
    queue.spend(owner, 0.0)
    assert (owner, [queue.take()[1] for _ in range(2)]) == ("a", ["3", "1"])


def test_removed_items_leave_the_order_of_the_others() -> None:
    queue = TimedQueue[str]()
    for owner, item in (("a", "1"), ("b", "2"), ("c", "3"), ("a", "4")):
        queue.put(owner, item)
    for item in ("2", "1"):
        queue.spend(queue.remove(item), 5.0)
    queue.put("b", "5")
    assert handled(queue, 3, {"a": 1.0, "b": 1.0, "c": 1.0}) == "354"
    assert not queue
