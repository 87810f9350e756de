"""Who is closed if there are too many connections, or if they hold too many bytes."""

import pytest

from app.admission.connections import Connections

STAYS: list[str] = []


class Guest:
    """A connection that has been idle since a time, or is busy (None)."""

    def __init__(self, name: str, log: list[str], since: float | None = 0.0) -> None:
        self.is_caller = False
        self.name = name
        self._log = log
        self._since = since

    def finish(self) -> None:
        raise NotImplementedError

    def retire(self) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        self._log.append(self.name)

    def idle_since(self) -> float | None:
        return self._since


NUMBERS = {
    "all have room": ("a b c", STAYS),
    "the oldest stranger goes": ("a b c d", ["a"]),
    "one after the other goes": ("a b c d e", ["a", "b"]),
    "a caller stays, however old it is": ("a* b c d e", ["b", "c"]),
    "if all others are callers, the one that has been idle for longest goes": (
        "a*7 b*5 c*9 d",
        ["b"],
    ),
    "of callers that are equal, the oldest goes": ("a*5 b*5 c*5 d", ["a"]),
    "a busy caller stays": ("a*busy b*5 c*busy d", ["b"]),
    "if all others are busy callers, the newest goes": ("a*busy b*busy c*busy d", ["d"]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_of_too_many_connections_the_least_useful_one_is_closed(name: str) -> None:
    names, closed = NUMBERS[name]
    log: list[str] = []
    connections = Connections(3, 100)
    for described in names.split():
        since = described[2:]
        guest = Guest(described[0], log, None if since == "busy" else float(since or 0))
        connections.add(guest)
        if described[1:]:
            guest.is_caller = True
    assert (log, connections.closed_early, len(connections)) == (
        closed,
        len(closed),
        len(names.split()) - len(closed),
    )


def test_a_connection_that_goes_leaves_room() -> None:
    log: list[str] = []
    connections = Connections(2, 100)
    guests = [Guest(str(number), log) for number in range(4)]
    for guest in guests[:3]:
        connections.add(guest)
        guest.is_caller = True
    assert log == ["0"]
    connections.remove(guests[0])
    connections.remove(guests[1])
    connections.add(guests[3])
    assert (log, list(connections)) == (["0"], [guests[2], guests[3]])


HELD = {
    "as many as are allowed": ([("a", 40), ("b", 60)], STAYS),
    "the one that holds most goes": ([("a", 40), ("b", 59), ("c", 2)], ["b"]),
    "the last bytes of all are not the ones that count": ([("a", 90), ("b", 20)], ["a"]),
    "who has given bytes back is not counted": ([("a", 90), ("a", 0), ("b", 90)], STAYS),
    "as many go as have to": ([("a", 33), ("b", 33), ("c", 33), ("d", 98)], ["d"]),
    "more than all may hold": ([("a", 10), ("b", 101)], ["b"]),
    "one that has gone counts no more": ([("a", 101), ("a", 50), ("b", 100)], ["a"]),
}


@pytest.mark.parametrize("is_caller", [True, False])
@pytest.mark.parametrize("name", HELD)
def test_of_those_that_hold_too_many_bytes_the_one_that_holds_most_is_closed(
    name: str, is_caller: bool
) -> None:
    steps, closed = HELD[name]
    assert closed_of(steps, 100, dict.fromkeys("abcd", is_caller)) == closed


OF_BOTH = {
    "strangers go before a caller that holds more": ([("d", 60), ("b", 25), ("c", 20)], ["b"]),
    "strangers may hold what callers don't": ([("b", 100)], STAYS),
    "strangers that hold nothing stay": ([("d", 101)], ["d"]),
    "a caller goes if nobody else holds anything": ([("a", 40), ("d", 101)], ["a", "d"]),
}


@pytest.mark.parametrize("name", OF_BOTH)
def test_strangers_are_closed_first(name: str) -> None:
    steps, closed = OF_BOTH[name]
    callers = {"a": False, "b": False, "c": False, "d": True}
    assert closed_of(steps, 100, callers) == closed


def closed_of(steps: list[tuple[str, int]], most: int, callers: dict[str, bool]) -> list[str]:
    """Who is closed if connections hold these bytes, one after the other."""
    log: list[str] = []
    connections = Connections(10, most)
    guests = {name: Guest(name, log) for name in callers}
    for name, guest in guests.items():
        connections.add(guest)
        if callers[name]:
            guest.is_caller = True
    for name, size in steps:
        connections.hold(guests[name], size)
    return log
