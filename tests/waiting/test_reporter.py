"""What is written about workloads that wait, and how often."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from app.config.schema import Configuration
from app.facts.grove.status import StatusCondition
from app.facts.identity import Ref
from app.facts.kinds import POD_CLIQUE_SET
from app.kube.api import Conflict, NotFound, Object, ObjectRef, Rejected, Unavailable
from app.kube.events import Recorder
from app.waiting.overdue import NOT_KNOWN, Blocked
from app.waiting.reporter import PLACEMENT_BLOCKED, Pacing, Reporter
from app.waiting.watcher import WaitingDuty
from tests.kube.memory.client import MemoryClient

SET = Ref("PodCliqueSet", "t", "llm")
TIME = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
GROVES = {
    "type": "TopologyLevelsUnavailable",
    "status": "False",
    "reason": "AllClear",
    "message": "",
    "lastTransitionTime": "2026-11-22T10:00:00Z",
}


def stored(ref: Ref = SET, conditions: Sequence[Object] = ()) -> Object:
    version = {"PodCliqueSet": "grove.io/v1alpha1", "Workload": "scheduling.k8s.io/v1beta1"}
    return {
        "apiVersion": version[ref.kind],
        "kind": ref.kind,
        "metadata": {"namespace": ref.namespace, "name": ref.name, "generation": 3},
        "status": {"conditions": list(conditions)},
    }


def blocked(reason: str = "NoDomainFits", message: str = "No room", ref: Ref = SET) -> Blocked:
    return Blocked(ref, 0.0, reason, message, "you", "")


class World:
    """A teller over objects in memory, with a clock that is set by hand."""

    def __init__(self, *objects: Object, most: int = 30) -> None:
        self.client = MemoryClient(objects or [stored(conditions=[GROVES])])
        self.time = 0.0
        self.recorder = Recorder(self.client, "test", now=lambda: TIME)
        self.teller = Reporter(
            self.client,
            self.recorder,
            Pacing(most=most),
            clock=lambda: self.time,
            now=lambda: TIME,
        )

    async def tell(self, *workloads: Blocked, seen: bool = True) -> bool:
        """Tell, 20 s after the last time; with `seen`, the conditions have arrived in the cache."""
        self.time += 20
        cached = self.cached() if seen else {}
        return await self.teller.tell(workloads, cached)

    def cached(self) -> dict[Ref, StatusCondition]:
        conditions = {}
        for obj in self.client.objects(POD_CLIQUE_SET):
            for item in (obj.get("status") or {}).get("conditions") or ():
                if item["type"] == PLACEMENT_BLOCKED:
                    ref = Ref("PodCliqueSet", "t", obj["metadata"]["name"])
                    values = (item[field] for field in ("type", "status", "reason", "message"))
                    conditions[ref] = StatusCondition(*values)
        return conditions

    def stored(self, name: str = "llm") -> Object:
        objects = self.client.objects(POD_CLIQUE_SET)
        (obj,) = [obj for obj in objects if obj["metadata"]["name"] == name]
        return obj

    def conditions(self, name: str = "llm") -> list[Any]:
        return list(self.stored(name)["status"].get("conditions") or ())

    def events(self) -> list[tuple[str, str]]:
        """The reasons and notes of the events that are to be written."""
        queue = self.recorder._waiting
        waiting = [event for events in queue._items.values() for event in events]
        return [(event["reason"], event["note"]) for event in waiting]


async def test_a_reason_is_written_once_beside_groves_conditions() -> None:
    world = World()
    assert await world.tell(blocked())
    expected = {
        "type": "PlacementBlocked",
        "status": "True",
        "observedGeneration": 3,
        "lastTransitionTime": "2026-11-22T12:00:00Z",
        "reason": "NoDomainFits",
        "message": "No room",
    }
    assert world.conditions() == [GROVES, expected]
    for _ in range(50):
        assert await world.tell(blocked())
    assert world.teller.writes == 1
    assert world.events() == [("PlacementBlocked", "NoDomainFits: No room")]


async def test_each_change_of_the_reason_is_one_write_and_one_event() -> None:
    world = World()
    for reason in ("NoDomainFits", "QueueLimit", "NoDomainFits"):
        await world.tell(blocked(reason))
    await world.tell()
    assert world.conditions() == [GROVES]
    assert [reason for reason, _ in world.events()] == [
        *["PlacementBlocked"] * 3,
        "PlacementUnblocked",
    ]
    assert world.teller.writes == 4


async def test_other_words_are_written_after_five_minutes_without_an_event() -> None:
    world = World()
    await world.tell(blocked())
    for _ in range(14):
        await world.tell(blocked(message="Less room"))
    assert (world.teller.writes, world.conditions()[1]["message"]) == (1, "No room")
    await world.tell(blocked(message="Less room"))
    assert (world.teller.writes, world.conditions()[1]["message"]) == (2, "Less room")
    assert len(world.events()) == 1


async def test_a_new_leader_corrects_and_removes_what_the_former_one_wrote() -> None:
    former = World()
    await former.tell(blocked())
    objects = [former.stored()]

    same = World(*objects)
    await same.tell(blocked())
    assert same.teller.writes == 0

    other = World(*objects)
    await other.tell(blocked("QueueLimit"))
    assert other.conditions()[1]["reason"] == "QueueLimit"

    nothing = World(*objects)
    await nothing.tell()
    assert nothing.conditions() == [GROVES]


async def test_the_limit_of_a_minute_holds_back_what_waits_less_long() -> None:
    names = [f"set-{number}" for number in range(5)]
    refs = [Ref("PodCliqueSet", "t", name) for name in names]
    world = World(*map(stored, refs), most=2)
    workloads = [blocked(ref=ref) for ref in refs]
    assert not await world.tell(*workloads)
    assert [name for name in names if world.conditions(name)] == names[:2]
    assert not await world.tell(*workloads)
    assert (world.teller.writes, world.teller.held_back) == (2, 6)
    world.time += 30
    assert not await world.tell(*workloads)
    assert [name for name in names if world.conditions(name)] == names[:4]


async def test_a_reason_comes_before_words() -> None:
    refs = [Ref("PodCliqueSet", "t", name) for name in ("old", "new")]
    world = World(*map(stored, refs), most=1)
    await world.tell(blocked(ref=refs[0]))
    world.time += 300
    await world.tell(blocked(ref=refs[0], message="Other"), blocked(ref=refs[1]))
    assert world.conditions("old")[0]["message"] == "No room"
    assert world.conditions("new")


async def test_one_workload_is_not_told_twice_at_once() -> None:
    world = World()
    await world.tell(blocked())
    assert not await world.teller.tell([blocked("QueueLimit")], world.cached())
    assert world.conditions()[1]["reason"] == "NoDomainFits"
    assert await world.tell(blocked("QueueLimit"))
    assert world.conditions()[1]["reason"] == "QueueLimit"


async def test_a_condition_that_somebody_takes_away_comes_back_slowly() -> None:
    world = World()
    await world.tell(blocked())
    await world.client.patch(
        ObjectRef(POD_CLIQUE_SET, "llm", "t"),
        {"status": {"conditions": [GROVES]}},
        subresource="status",
    )
    for _ in range(14):
        await world.tell(blocked())
    assert world.conditions() == [GROVES]
    await world.tell(blocked())
    assert len(world.conditions()) == 2


async def test_a_cache_that_lags_causes_no_second_write() -> None:
    world = World()
    await world.tell(blocked())
    for _ in range(10):
        await world.tell(blocked(), seen=False)
    assert world.teller.writes == 1


async def test_a_workload_gets_events_only() -> None:
    ref = Ref("Workload", "t", "train")
    world = World(stored(ref))
    for _ in range(3):
        await world.tell(blocked(ref=ref))
    await world.tell()
    await world.tell()
    assert [reason for reason, _ in world.events()] == ["PlacementBlocked", "PlacementUnblocked"]
    assert world.client.writes() == []


async def end_of_term(world: World) -> None:
    """The duty with this teller ends at its start, because the cluster can't be reached."""

    class Client:
        def sibling(self, *arguments: object) -> object:
            raise Unavailable("down")

    client: Any = Client()
    duty = WaitingDuty(client, world.recorder, Configuration())
    duty._reporter = world.teller
    with pytest.raises(Unavailable):
        await duty.run()


async def test_a_second_term_as_leader_tells_what_another_leader_has_revoked() -> None:
    """The first term told it, then another leader that it no longer waits; now it waits again."""
    workload = Ref("Workload", "t", "train")
    world = World(stored(workload), stored())
    pending = (blocked(ref=workload), blocked())
    await world.tell(*pending)
    await end_of_term(world)
    patch = {"status": {"conditions": [GROVES]}}
    await world.client.patch(ObjectRef(POD_CLIQUE_SET, "llm", "t"), patch, subresource="status")
    before = len(world.events())
    await world.tell(*pending)
    assert len(world.conditions()) == 2
    assert len(world.events()) == before + 2


@pytest.mark.parametrize(("error", "logged"), [(Conflict("changed"), 0), (Unavailable("down"), 1)])
async def test_a_write_that_fails_comes_again(
    error: Exception, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    world.client.fail_next("patch", POD_CLIQUE_SET, error)  # type: ignore[arg-type]
    assert not await world.tell(blocked())
    assert world.conditions() == [GROVES]
    assert await world.tell(blocked())
    assert len(world.conditions()) == 2
    assert [record.name for record in caplog.records].count("app.waiting.reporter") == logged


async def test_what_was_told_and_is_gone_is_looked_for_once() -> None:
    world = World()
    await world.tell(blocked())
    await world.client.delete(ObjectRef(POD_CLIQUE_SET, "llm", "t"))
    world.client.calls.clear()
    assert [await world.tell() for _ in range(3)] == [True] * 3
    assert [call.verb for call in world.client.calls] == ["get"]


async def test_what_is_refused_is_told_after_the_right_is_granted() -> None:
    world = World()
    refused = Rejected("may not patch", code=403)
    for _ in range(6):
        world.client.fail_next("patch", POD_CLIQUE_SET, refused)
        assert not await world.tell(blocked())
        world.time += 30
    assert await world.tell(blocked())
    assert len(world.conditions()) == 2


async def test_what_is_refused_is_not_tried_at_every_look() -> None:
    world = World()
    world.client.fail_next("get", POD_CLIQUE_SET, Rejected("may not get", code=403), times=10)
    looks = [await world.teller.tell([blocked()], {}) for _ in range(5)]
    assert looks == [False] * 5
    assert [call.verb for call in world.client.calls] == ["get"]


async def test_what_is_gone_or_not_known_is_left_alone() -> None:
    world = World()
    assert await world.tell(blocked(ref=Ref("PodCliqueSet", "t", "gone")), blocked(NOT_KNOWN))
    assert (world.teller.writes, world.conditions()) == (0, [GROVES])
    with pytest.raises(NotFound):
        await world.client.get(ObjectRef(POD_CLIQUE_SET, "gone", "t"))


async def test_namespaces_take_turns_however_many_workloads_of_one_are_pending() -> None:
    many = [Ref("PodCliqueSet", "many", f"s{number:03}") for number in range(200)]
    few = Ref("PodCliqueSet", "few", "llm")
    world = World(*(stored(ref) for ref in (*many, few)), most=4)
    pending = [blocked(ref=ref) for ref in (*many, few)]  # the oldest first
    for _ in range(2):
        await world.teller.tell(pending, {})
    assert few in world.teller._told
    assert (world.teller.writes, len(world.events())) == (4, 4)

    world.time += 61
    await world.teller.tell([blocked(ref=ref) for ref in many], {})
    assert few not in world.teller._told
    assert world.teller.writes == 8


async def test_the_namespace_whose_last_write_is_the_oldest_is_first() -> None:
    refs = [Ref("PodCliqueSet", namespace, f"s{n}") for namespace in "ab" for n in range(3)]
    world = World(*map(stored, refs), most=1)
    told = []
    for _ in range(4):
        world.time += 61
        await world.teller.tell([blocked(ref=ref) for ref in refs], {})
        told = [ref.namespace for ref in world.teller._told]
    assert told == ["a", "b", "a", "b"]
