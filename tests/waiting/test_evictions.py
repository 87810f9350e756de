"""Gangs that KAI evicts, told once each and with KAI's action, also by one leader after another."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.state.index import Index
from app.facts.identity import Ref
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kubernetes.event import Event, read_event
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.workload import Workload
from app.kube.api import Object, Unavailable
from app.kube.events import Recorder
from app.objects.resource import EVENT
from app.stores.stores import Stores
from app.waiting.evictions import CAUSES, MOST_AT_ONCE, Evictions
from app.waiting.watcher import ROWS
from tests.explain.fleet import NAMESPACE, NOW, SET, facts, pod_group, pods
from tests.kube.memory.client import MemoryClient

SAYS = {
    "preempt": "Pod {} was preempted by higher priority workload research/big",
    "reclaim": "Pod {} was preempted by workload research/big.\nteam-llm uses <8 GPUs>",
    "consolidation": (
        "Pod {} was preempted and rescheduled due to bin packing (resource consolidation) procedure"
    ),
    "stalegangeviction": (
        "Workload doesn't meet the minimum required number of pods (4), evicting remaining pod: {}"
    ),
}
"""KAI's words, as in its source."""
PLACED = tuple(replace(pod, node="gpu-00", created=NOW - 840) for pod in pods())
GONE = pods(created=NOW)
GROUP = pod_group().name


def said(action: str, time: float = NOW - 5, of: str = "uid-group", pod: str = "p") -> Event:
    return Event(of, "Evict", SAYS[action].format(f"inference/{pod}"), time, "kai-scheduler")


STORED: list[Object] = [
    {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"namespace": namespace, "name": name, "uid": uid},
    }
    for api, kind, namespace, name, uid in (
        ("grove.io/v1alpha1", "PodCliqueSet", NAMESPACE, SET, "uid-set"),
        ("scheduling.run.ai/v2alpha2", "PodGroup", NAMESPACE, GROUP, "uid-group"),
        ("scheduling.k8s.io/v1beta1", "Workload", NAMESPACE, "job", "uid-job"),
    )
]


class Leader:
    """What tells losses, and the API server that it tells them."""

    def __init__(self, client: MemoryClient | None = None) -> None:
        self.client = client or MemoryClient(STORED)
        self.losses = Evictions(self.client, Recorder(self.client, "test"))

    async def tell(
        self, *said: Event, now: float = NOW, gang: Sequence[Pod] = GONE, **more: Any
    ) -> bool:
        events = (*said, *told(self.client))
        seen = facts(**{"events": events, "pods": tuple(gang), "now": now, **more})
        return await self.losses.tell(Index(seen))

    @property
    def counts(self) -> dict[str, int]:
        return {cause: count for cause, count in self.losses.counts.items() if count}

    @property
    def told(self) -> list[tuple[str, str]]:
        """The uids that events are about, and their notes."""
        return [(obj["regarding"]["uid"], obj["note"]) for obj in self.client.objects(EVENT)]


def told(client: MemoryClient) -> list[Event]:
    return [read_event(obj) for obj in client.objects(EVENT)]


@pytest.mark.parametrize("cause", SAYS)
async def test_an_eviction_is_told_once_on_the_set_with_its_cause(cause: str) -> None:
    leader = Leader()
    for after in range(30):
        assert await leader.tell(said(cause), now=NOW + after)
    words = SAYS[cause].format("inference/p")
    assert leader.told == [("uid-set", f"{NAMESPACE}/{GROUP} lost its place: {words}")]
    assert leader.counts == {cause: 1}
    assert [event.time for event in told(leader.client)] == [NOW - 5]


def test_all_causes_of_the_metric_are_there_from_the_start() -> None:
    assert list(Leader().losses.counts) == list(CAUSES) == [*SAYS, "other"]


SURPLUS = (*PLACED, replace(PLACED[1], name=f"{SET}-more", uid="more"))
KEPT: dict[str, tuple[Event, Sequence[Pod]]] = {
    "pods that it does not need": (said("reclaim"), PLACED),
    "pods that are not deleted yet": (said("reclaim", NOW - 1), SURPLUS),
    "long ago": (said("reclaim", NOW - 121), GONE),
    "another object": (said("reclaim", of="uid-else"), GONE),
    "a workload that is deleted": (said("reclaim"), ()),
    "words of somebody else": (replace(said("reclaim"), source="anybody"), GONE),
}


@pytest.mark.parametrize("name", KEPT)
async def test_it_is_no_loss(name: str) -> None:
    leader = Leader()
    event, gang = KEPT[name]
    assert await leader.tell(event, gang=gang)
    assert leader.told == []


async def test_pods_are_deleted_after_the_event() -> None:
    leader = Leader()
    await leader.tell(said("preempt", NOW), now=NOW, gang=PLACED)
    await leader.tell(said("preempt", NOW), now=NOW + 3)
    assert leader.counts == {"preempt": 1}


async def test_what_has_survived_an_eviction_ends_for_another_cause() -> None:
    leader = Leader()
    await leader.tell(said("reclaim", NOW - 11), gang=PLACED)
    await leader.tell(said("reclaim", NOW - 11), now=NOW + 5)
    assert leader.told == []


async def test_the_last_of_several_evictions_is_the_cause() -> None:
    """The first one took pods that the gang did not need."""
    leader = Leader()
    await leader.tell(said("reclaim", NOW - 9), said("preempt", NOW - 6))
    await leader.tell(said("reclaim", NOW - 9), said("preempt", NOW - 6), now=NOW + 9)
    assert leader.counts == {"preempt": 1}


async def test_a_gang_that_has_another_place_at_once_lost_the_first() -> None:
    leader = Leader()
    again = [replace(pod, created=NOW - 4) for pod in PLACED]
    await leader.tell(said("consolidation"), gang=again)
    assert leader.counts == {"consolidation": 1}


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "a Workload": ({"workloads": (Workload(NAMESPACE, "job"),)}, "uid-job"),
    "nothing": ({}, "uid-group"),
}


@pytest.mark.parametrize("of", OTHERS)
async def test_without_a_set_it_is_told_on_what_the_gang_belongs_to(of: str) -> None:
    leader = Leader()
    more, uid = OTHERS[of]
    gang = [replace(pod, workload="job") for pod in GONE]
    await leader.tell(said("preempt"), gang=gang, sets=(), **more)
    assert [about for about, _ in leader.told] == [uid]


async def test_a_gang_has_the_name_of_its_podgang() -> None:
    """The name of KAI's PodGroup has uids in it."""
    leader = Leader()
    gang = [replace(pod, place=replace(pod.place, podgang="llm-0-decode")) for pod in GONE]
    for after in range(3):
        await leader.tell(said("preempt"), gang=gang, now=NOW + after)
    ((_, note),) = leader.told
    assert note.startswith(f"{NAMESPACE}/llm-0-decode lost its place: ")


async def test_other_words_of_kai_are_told_and_counted_as_others() -> None:
    leader = Leader()
    await leader.tell(replace(said("preempt"), message="moved"))
    assert [note for _, note in leader.told] == [f"{NAMESPACE}/{GROUP} lost its place: moved"]
    assert leader.counts == {"other": 1}


async def test_evictions_of_background_pods_are_not_told() -> None:
    leader = Leader()
    message = "Evicted to make room for a workload on this node"
    assert await leader.tell(replace(said("preempt"), message=message))
    assert (leader.told, leader.counts) == ([], {})


async def test_what_the_api_server_refuses_is_told_later_and_counted_once() -> None:
    leader = Leader()
    leader.client.fail_next("create", EVENT, Unavailable("down", code=503))
    assert not await leader.tell(said("preempt"))
    assert await leader.tell(said("preempt"), now=NOW + 5)
    assert (len(leader.told), leader.counts) == (1, {"preempt": 1})


async def test_two_leaders_that_see_the_same_at_once_tell_it_once() -> None:
    """One of them does not know yet that it leads no more."""
    leader = Leader()
    other = Leader(leader.client)
    seen = Index(facts(events=(said("preempt"),), pods=GONE))
    assert await leader.losses.tell(seen)
    assert await other.losses.tell(seen)
    assert (len(leader.told), leader.counts, other.counts) == (1, {"preempt": 1}, {})


async def test_what_is_deleted_meanwhile_is_told_nobody() -> None:
    leader = Leader(MemoryClient())
    assert await leader.tell(said("preempt"))
    assert leader.told == []


async def test_a_gang_is_told_of_each_eviction_although_its_words_are_the_same() -> None:
    leader = Leader()
    for time in (NOW, NOW + 60):
        await leader.tell(said("preempt", time), now=time + 5, gang=pods(created=time))
    assert leader.counts == {"preempt": 2}
    assert len(leader.told) == 2


@pytest.mark.parametrize("first", SAYS)
async def test_evictions_are_told_once_though_leaders_are_killed(first: str) -> None:
    """A gang is evicted, and placed again, every 40 s: by each action, under a leader that lives,
    and under one that is killed two seconds after the eviction, before it sees it or after it has
    told it. The next one is there 18 s later.
    """
    client = MemoryClient(STORED)
    evictions = list(itertools.product(SAYS, ("nobody", "before", "after")))
    start = 3 * list(SAYS).index(first)
    evictions = evictions[start:] + evictions[:start]
    leader, seen = Leader(client), list[Event]()

    for number, (cause, killed) in enumerate(evictions):
        time = NOW + 40 * number
        seen += [said(cause, time + second, pod=f"{number}-{second}") for second in range(2)]
        if killed == "after":
            await leader.tell(*seen[:-1], now=time + 1, gang=pods(created=time))
        if killed != "nobody":
            leader = Leader(client)
        for after in range(2 if killed == "nobody" else 20, 40, 4):
            made = pods(created=time + 1, node="gpu-01" if after > 10 else "")
            await leader.tell(*seen, now=time + after, gang=made)

    events = sorted(told(client), key=lambda event: event.time or 0.0)
    assert len(events) == len(evictions)
    for number, ((cause, _), event) in enumerate(zip(evictions, events, strict=True)):
        words = [SAYS[cause].format(f"inference/{number}-{pod}") for pod in range(2)]
        assert event.message.partition(" lost its place: ")[2] in words
    assert all(not obj.get("series") for obj in client.objects(EVENT))


FORGED = "inference/{} lost its place: it never did"


@pytest.mark.parametrize(
    ("namespace", "time"),
    [("tenant", NOW), ("tenant", NOW + 1e9), (NAMESPACE, NOW + 1e9)],
    ids=["of another namespace", "later, of another namespace", "of a time to come"],
)
async def test_an_event_that_anybody_wrote_hides_no_eviction(namespace: str, time: float) -> None:
    leader = Leader()
    about = Ref("Pod", namespace, "any")
    forged = Event("uid", "PlacementLost", FORGED.format(GROUP), time, "grove-admission", about)
    assert await leader.tell(said("reclaim"), forged)
    assert leader.counts == {"reclaim": 1}


@pytest.mark.parametrize(("length", "kept"), [(1_000, 1), (30_000, 0)])
def test_little_is_kept_of_an_event_that_anybody_wrote(length: int, kept: int) -> None:
    stores = Stores(row for row in ROWS if row.resource == EVENT)
    for _, store in stores:
        store.begin_list()
        store.take_listed(
            [
                {
                    "metadata": {"namespace": NAMESPACE, "name": "e", "uid": "u"},
                    "note": "x" * length,
                    "reason": "Evict",
                }
            ]
        )
        store.end_list("1")
        assert len([*store.values()]) == kept


async def test_namespaces_take_turns_however_many_evictions_anybody_writes() -> None:
    many = [KaiPodGroup("a-tenant", f"g{number}", f"uid-{number}") for number in range(120)]
    own = [Pod("a-tenant", f"p-{group.name}", group=group.name, created=NOW) for group in many]
    version = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
    leader = Leader(
        MemoryClient(
            [
                *STORED,
                *(
                    {**version, "metadata": {"namespace": "a-tenant", "name": n.name, "uid": n.uid}}
                    for n in many
                ),
            ]
        )
    )
    evicted = [*(said("reclaim", of=group.uid) for group in many), said("reclaim")]
    more: dict[str, Any] = {"gang": (*own, *GONE), "pod_groups": (*many, pod_group())}
    results = []
    for calls in range(1, 4):
        results.append(await leader.tell(*evicted, **more))
        assert len(leader.told) == min(calls * MOST_AT_ONCE, 121)
        assert "uid-set" in [uid for uid, _ in leader.told]
    assert results == [False, False, True]
