"""Fights are seen."""

from app.facts.kinds import CLUSTER_TOPOLOGY, POD_GANG
from app.kube.api import ObjectRef
from app.kube.competing_writers import MAX_KEYS, Rewrites, remedy_for_writers, write_key

KEY = ("ns", "gang")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def counted(clock: Clock, times: list[float]) -> Rewrites:
    rewrites = Rewrites(tolerated=3, window=60, clock=clock)
    for time in times:
        clock.now = time
        rewrites.count(KEY)
    return rewrites


def test_a_few_writes_are_no_fight() -> None:
    rewrites = counted(Clock(), [0, 1])
    assert (rewrites.pause(KEY), rewrites.fights) == (None, 0)


def test_as_many_as_tolerated_within_the_window_pause_until_the_first_has_left_it() -> None:
    clock = Clock()
    rewrites = counted(clock, [0, 10, 20])
    assert (rewrites.pause(KEY), rewrites.fights) == (40, 1)
    clock.now = 60
    assert (rewrites.pause(KEY), rewrites.fights) == (None, 1)


def test_slow_writes_never_pause() -> None:
    assert counted(Clock(), [0, 50, 100, 150, 200]).pause(KEY) is None


def test_other_keys_are_not_held_up() -> None:
    rewrites = counted(Clock(), [0, 0, 0])
    assert rewrites.pause(("ns", "other")) is None


def test_what_may_be_written_is_counted_until_it_is_a_fight() -> None:
    rewrites = Rewrites(tolerated=2, window=60, clock=Clock())
    assert [rewrites.may_write(KEY) for _ in range(3)] == [True, True, False]
    assert rewrites.fights == 1


def test_the_same_written_again_has_the_same_key() -> None:
    patch = {"spec": {"a": 1, "b": [2, 1]}}
    assert write_key("gang", patch) == write_key("gang", {"spec": {"b": [2, 1], "a": 1}})
    others = [
        write_key("other", patch),
        write_key("gang", {"spec": {"a": 1, "b": [1, 2]}}),
        write_key("gang", [patch]),
    ]
    assert write_key("gang", patch) not in others
    assert len(set(others)) == 3


def test_the_writers_of_an_object_are_found_with_one_command() -> None:
    managers = "-o jsonpath='{.metadata.managedFields[*].manager}'"
    assert remedy_for_writers(ObjectRef(POD_GANG, "train-0", "ml")) == (
        f"Find and stop that writer: kubectl -n ml get podgangs.scheduler.grove.io train-0 {managers}"
    )
    assert remedy_for_writers(ObjectRef(CLUSTER_TOPOLOGY, "grove-topology")) == (
        f"Find and stop that writer: kubectl get clustertopologies.grove.io grove-topology {managers}"
    )


def test_memory_is_bounded_the_oldest_is_forgotten() -> None:
    rewrites = counted(Clock(), [0, 0, 0])
    for number in range(MAX_KEYS):
        rewrites.count(("ns", str(number)))
    assert rewrites.pause(KEY) is None
