"""Claims that are put back, over a cluster in memory with a webhook that can be switched off."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from jsonpatch import apply_patch

from app.cluster.cluster import Cluster
from app.cluster.filled import fill_from
from app.cluster.leader_rows import CLIQUES
from app.facts.grove.podcliqueset import MnnvlAnnotations
from app.facts.kinds import POD_CLIQUE
from app.facts.rows import SETS
from app.kube.api import Object, ObjectRef, Patch, Rejected, Unavailable
from app.kube.competing_writers import Rewrites
from app.kube.events import Recorder
from app.kube.loop import Loop
from app.objects.resource import EVENT, POD
from app.reconcilers.mnnvl_claims import (
    OFF_SECONDS,
    REFUSED_SECONDS,
    SETTLE_SECONDS,
    TRIES_PER_SECOND,
    WAIT_SECONDS,
    MnnvlClaimsReconciler,
    PodsWithoutClaim,
    subscribe,
)
from app.reconcilers.writing import Writing
from app.stores.stores import Stores, fill
from tests import builders
from tests.builders import injection_into
from tests.cluster.offline import configured
from tests.kube import virtual
from tests.kube.memory.client import MemoryClient

KEY = ("ns", "train")
NAMES = [f"train-0-w{number}" for number in range(3)]
ENABLED = MnnvlAnnotations("true")


def pcs(name: str = "train", **metadata: Any) -> Object:
    obj = builders.pod_clique_set(name)
    defaults = {"namespace": "ns", "uid": "u", "annotations": {"grove.io/mnnvl-enabled": "true"}}
    return {**obj, "metadata": {**obj["metadata"], **defaults, **metadata}}


def clique(name: str, pcs: str = "train") -> Object:
    """A PodClique as Grove's operator has written it while no webhook answered."""
    obj = builders.pod_clique(name, builders.labels(pcs, 0, f"{pcs}-0", grove=True))
    return {
        **obj,
        "metadata": {"name": name, "namespace": "ns", "labels": obj["metadata"]["labels"]},
    }


def admitted(obj: Object) -> Object:
    """What the webhook makes of a PodClique."""
    patched: Object = apply_patch(obj, list(injection_into(obj, "ns", inherited=ENABLED).patch))
    return patched


def pod(name: str, owner: str, claims: Any = ()) -> Object:
    metadata = {
        "name": name,
        "namespace": "ns",
        "labels": {"grove.io/podgang": "train-0"},
        "ownerReferences": [{"kind": "PodClique", "name": owner, "uid": "x", "apiVersion": "v1"}],
    }
    spec = {**builders.pod_spec(), "resourceClaims": list(claims)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Running"},
    }


class Admitting(MemoryClient):
    """A cluster in which our webhook is called for PodCliques while it is `on`."""

    on = True

    def __init__(self, objects: Iterable[Object]) -> None:
        self.touched: list[str] = []
        super().__init__(objects)

    async def patch(self, ref: ObjectRef, patch: Patch, **options: Any) -> Object:
        obj = await super().patch(ref, patch, **options)
        self.touched += [ref.name] if ref.resource is POD_CLIQUE and patch == {} else []
        if ref.resource is not POD_CLIQUE or not self.on:
            return obj
        operations = list(injection_into(obj, "ns", inherited=ENABLED).patch)
        return await super().patch(ref, operations)


class World:
    """A cluster, caches filled from it, and a reconciler: one life of a leader."""

    def __init__(self, *objects: Object, on: bool = True) -> None:
        self.client = Admitting(objects)
        self.client.on = on
        self.cluster = Cluster(self.client, configured("grove-topology", False))
        fill_from(self.cluster, self.client.objects)
        self.cliques = Stores((CLIQUES,))[CLIQUES]
        self.look_again()
        self.events = Recorder(self.client, "test")
        self.rewrites = Rewrites(tolerated=2, window=300, clock=virtual.now)
        writing = Writing(self.client, self.events, self.rewrites)
        self.reconciler = MnnvlClaimsReconciler(
            writing, self.cliques, self.cluster.facts, PodsWithoutClaim(writing)
        )

    def look_again(self) -> None:
        fill(self.cliques, self.client.objects(POD_CLIQUE))

    async def step(self, key: tuple[str, str] = KEY) -> float | None:
        return await self.reconciler.reconcile(key)

    def lists_of_pods(self) -> int:
        return sum(call.resource is POD for call in self.client.calls)

    def claimed(self) -> list[str]:
        stored = self.client.objects(POD_CLIQUE)
        return [obj["metadata"]["name"] for obj in stored if obj == admitted(obj)]

    async def happened(self) -> list[tuple[str, str]]:
        running = asyncio.create_task(self.events.run())
        await self.events.written()
        running.cancel()
        return sorted((event["reason"], event["note"]) for event in self.client.objects(EVENT))

    async def times_said(self, reason: str) -> int:
        await self.happened()
        events = [event for event in self.client.objects(EVENT) if event["reason"] == reason]
        return sum(event.get("series", {}).get("count", 1) for event in events)

    async def reasons(self) -> list[str]:
        return [reason for reason, _ in await self.happened()]


def test_claims_are_put_back_by_a_write_that_changes_nothing() -> None:
    async def main() -> None:
        world = World(pcs(), *map(clique, NAMES))
        assert await world.step() == WAIT_SECONDS
        assert world.claimed() == world.client.touched == NAMES
        for obj in world.client.objects(POD_CLIQUE):
            assert obj["spec"] == admitted(clique(obj["metadata"]["name"]))["spec"]
        assert world.reconciler.missing == 0
        assert await world.step() == WAIT_SECONDS
        await asyncio.sleep(WAIT_SECONDS)
        assert [await world.step(), await world.step()] == [None, None]
        assert world.client.touched == NAMES
        text = "restored the MNNVL claim of PodCliques train-0-w0, train-0-w1, train-0-w2"
        assert await world.happened() == [("MnnvlClaimsRestored", text)]

    virtual.run(main())


def test_pods_that_started_without_the_claim_are_named() -> None:
    async def main() -> None:
        claim = {"name": "mnnvl", "resourceClaimName": "train-0-mnnvl-claim"}
        world = World(
            pcs(),
            pcs("other"),
            clique(NAMES[0]),
            admitted(clique(NAMES[1])),
            clique("other-0-w", "other"),
            pod("b", NAMES[0]),
            pod("a", NAMES[0]),
            pod("with", NAMES[0], [claim]),
            pod("of-another-clique", NAMES[1]),
            pod("c", "other-0-w"),
        )
        other = ("ns", "other")
        assert [await world.step(), await world.step(other)] == [WAIT_SECONDS, WAIT_SECONDS]
        await asyncio.sleep(WAIT_SECONDS)
        assert [await world.step(), await world.step(other)] == [None, None]
        assert world.lists_of_pods() == 1
        text = "Pods without an MNNVL claim, because they were created before the claim of their PodClique was restored: {}. Delete each of them, so that its replacement gets the claim: kubectl -n ns delete pod NAME"
        assert (await world.happened())[:2] == [
            ("MnnvlClaimsRestored", "restored the MNNVL claim of PodClique other-0-w"),
            ("MnnvlClaimsRestored", "restored the MNNVL claim of PodClique train-0-w0"),
        ]
        assert (await world.happened())[2:] == [
            ("MnnvlPodsWithoutClaim", text.format("a, b")),
            ("MnnvlPodsWithoutClaim", text.format("c")),
        ]

        world.client.load([clique(NAMES[0])])
        world.look_again()
        assert await world.step() == WAIT_SECONDS
        world.reconciler.begin()
        await asyncio.sleep(WAIT_SECONDS)
        assert await world.step() is None
        assert world.lists_of_pods() == 1

    virtual.run(main())


def test_pods_are_listed_again_for_a_later_repair() -> None:
    async def main() -> None:
        world = World(pcs(), pcs("other"), clique(NAMES[0]), clique("other-0-w", "other"))
        assert await world.step(("ns", "other")) == WAIT_SECONDS
        assert await world.step() == WAIT_SECONDS
        await asyncio.sleep(WAIT_SECONDS)
        assert await world.step() is None
        await asyncio.sleep(1)
        world.client.load([clique(NAMES[0])])
        world.look_again()
        assert await world.step() == WAIT_SECONDS
        await asyncio.sleep(WAIT_SECONDS)
        assert await world.step() is None
        assert world.lists_of_pods() == 2

    virtual.run(main())


OTHERS = [pcs(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x/y"])]
ALONE: list[Object] = []
REFUSING = [pcs(annotations={"grove.io/mnnvl-enabled": "false"})]


@pytest.mark.parametrize("sets", [OTHERS, ALONE, REFUSING])
def test_what_asks_for_nothing_is_left_alone(sets: list[Object]) -> None:
    async def main() -> None:
        world = World(*sets, clique(NAMES[0]))
        assert await world.step() is None
        assert (world.client.calls, world.reconciler.missing) == ([], 0)

    virtual.run(main())


def test_while_the_webhook_is_off_one_write_in_a_namespace_shows_it() -> None:
    async def main() -> None:
        world = World(pcs(), pcs("other"), *map(clique, NAMES), on=False)
        world.client.load([clique("other-0-w", "other")])
        world.look_again()
        assert await world.step() == OFF_SECONDS
        assert await world.step(("ns", "other")) == OFF_SECONDS
        assert world.client.touched == NAMES[:1]
        assert world.reconciler.missing == 4
        assert [obj["metadata"]["name"] for obj in world.client.objects(POD_CLIQUE)] == [
            "other-0-w",
            *NAMES,
        ]
        happened = await world.happened()
        assert happened[1] == (
            "MnnvlClaimsMissing",
            "at least one PodClique of this PodCliqueSet requests MNNVL but has no claim, because the webhook that injects the claim is not called in this namespace, or another webhook removes the claim. Pods without the claim can't use multi-node NVLink. Ask the platform team to run grove-admission doctor, which checks the webhook configuration",
        )
        assert [reason for reason, _ in happened] == ["MnnvlClaimsMissing"] * 2

    virtual.run(main())


def test_if_it_is_off_in_many_namespaces_each_waits_longer() -> None:
    async def main() -> None:
        count = int(2 * OFF_SECONDS * TRIES_PER_SECOND)
        namespaces = [f"n{number}" for number in range(count)]
        objects = [
            {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
            for namespace in namespaces
            for obj in (pcs(), clique(NAMES[0]))
        ]
        world = World(*objects, on=False)
        for namespace in namespaces:
            assert await world.step((namespace, "train")) == OFF_SECONDS
        pauses = [await world.step((namespace, "train")) for namespace in namespaces]
        assert (pauses[0], pauses[-1]) == (OFF_SECONDS, (count - 1) / TRIES_PER_SECOND)
        assert len(world.client.touched) == count
        await asyncio.sleep(2 * OFF_SECONDS)
        for _ in range(2):
            assert await world.step((namespaces[0], "train")) == OFF_SECONDS

    virtual.run(main())


def test_once_the_webhook_is_on_all_claims_come_back() -> None:
    async def main() -> None:
        world = World(pcs(), *map(clique, NAMES), on=False)
        assert await world.step() == OFF_SECONDS
        await asyncio.sleep(OFF_SECONDS)
        world.client.touched.clear()
        world.client.on = True
        assert await world.step() == WAIT_SECONDS
        assert world.claimed() == world.client.touched == NAMES
        assert world.reconciler.missing == 0
        assert await world.reasons() == ["MnnvlClaimsMissing", "MnnvlClaimsRestored"]

    virtual.run(main())


def test_claims_that_are_missing_once_more_are_said_once_more() -> None:
    async def main() -> None:
        world = World(pcs(), clique(NAMES[0]), on=False)
        for written in (clique(NAMES[0]), admitted(clique(NAMES[0])), clique(NAMES[0])):
            world.client.load([written])
            world.look_again()
            await world.step()
            await asyncio.sleep(OFF_SECONDS)
        assert await world.times_said("MnnvlClaimsMissing") == 2

    virtual.run(main())


def test_a_claim_that_is_removed_again_and_again_is_not_put_back_for_a_while() -> None:
    async def main() -> None:
        world = World(pcs(), clique(NAMES[0]), clique(NAMES[1]))
        for _ in range(2):
            assert await world.step() == WAIT_SECONDS
            world.client.load([clique(NAMES[0])])
            world.look_again()
        assert await world.step() == OFF_SECONDS
        assert world.client.touched == [NAMES[0], NAMES[1], NAMES[0]]
        assert (world.reconciler.missing, world.rewrites.fights) == (1, 1)
        await asyncio.sleep(300)
        assert await world.step() == WAIT_SECONDS
        assert world.claimed() == NAMES[:2]
        assert await world.reasons() == ["MnnvlClaimsContested", *["MnnvlClaimsRestored"] * 2]

    virtual.run(main())


def test_a_rejection_is_reported_and_the_others_get_their_claims() -> None:
    async def main() -> None:
        world = World(pcs(), *map(clique, NAMES))
        refusal = Rejected('ComputeDomain "train-0-cd" was not created for this', code=403)
        world.client.fail_next("patch", POD_CLIQUE, refusal)
        assert await world.step() == REFUSED_SECONDS
        assert world.claimed() == NAMES[1:]
        assert world.reconciler.missing == 1
        assert (
            dict(await world.happened())["MnnvlClaimsMissing"]
            == 'at least one PodClique of this PodCliqueSet requests MNNVL but has no claim. The claim can\'t be injected: ComputeDomain "train-0-cd" was not created for this'
        )

    virtual.run(main())


def test_a_step_ends_after_many_rejections_and_the_next_one_tries_others() -> None:
    async def main() -> None:
        names = [f"train-0-w{number:03}" for number in range(200)]
        world = World(pcs(), *map(clique, names))
        world.client.fail_next("patch", POD_CLIQUE, Rejected("no", code=403), times=1000)
        assert await world.step() == REFUSED_SECONDS
        assert len([call for call in world.client.calls if call.verb == "patch"]) == 65
        assert world.reconciler.missing == 200
        world.client._faults.clear()
        assert await world.step() == WAIT_SECONDS
        assert world.client.touched == [*names[65:], *names[:65]]

    virtual.run(main())


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("failed calling webhook: no endpoints available", code=500),
        Rejected("the namespace cannot find RESTMapping", code=403),
    ],
)
def test_while_no_server_answers_it_waits_and_says_so(error: Any) -> None:
    async def main() -> None:
        world = World(pcs(), *map(clique, NAMES))
        world.client.fail_next("patch", POD_CLIQUE, error)
        with pytest.raises(type(error)):
            await world.step()
        assert await world.step() == OFF_SECONDS
        assert (world.client.touched, world.reconciler.missing) == ([], 3)
        assert await world.reasons() == ["MnnvlClaimsMissing"]
        await asyncio.sleep(OFF_SECONDS)
        assert await world.step() == WAIT_SECONDS
        assert await world.reasons() == ["MnnvlClaimsMissing", "MnnvlClaimsRestored"]

    virtual.run(main())


def test_a_podclique_that_has_gone_meanwhile_is_forgotten() -> None:
    async def main() -> None:
        world = World(pcs(), clique(NAMES[0]))
        await world.client.delete(ObjectRef(POD_CLIQUE, NAMES[0], "ns"))
        assert await world.step() == WAIT_SECONDS
        assert await world.reasons() == []
        assert world.reconciler.all_keys() == {KEY}
        world.cliques.mark_not_served()
        assert await world.step() is None
        assert (world.reconciler.missing, world.reconciler.all_keys()) == (0, set())

    virtual.run(main())


def test_pods_of_a_set_that_is_deleted_after_a_repair_are_forgotten() -> None:
    """Lists of Pods would otherwise be kept for the rest of the term."""

    async def main() -> None:
        world = World(pcs(), clique(NAMES[0]), pcs("other"), clique("other-0-w", "other"))
        assert await world.step() == WAIT_SECONDS
        assert await world.step(("ns", "other")) == WAIT_SECONDS
        world.cluster.stores[SETS].mark_not_served()
        await asyncio.sleep(WAIT_SECONDS)
        assert await world.step() is None
        fill(world.cluster.stores[SETS], [pcs(), pcs("other")])
        assert await world.step() is None
        assert world.lists_of_pods() == 0
        assert await world.step(("ns", "other")) is None
        assert world.lists_of_pods() == 1

    virtual.run(main())


def test_a_podclique_that_asks_no_more_is_not_counted_as_a_write_in_vain() -> None:
    async def main() -> None:
        world = World(pcs(), clique(NAMES[0]), on=False)
        deleting = clique(NAMES[0])
        deleting["metadata"] |= {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["grove.io/podclique"],
        }
        world.client.load([deleting])
        assert await world.step() == WAIT_SECONDS
        assert (world.client.touched, await world.reasons()) == (NAMES[:1], [])

    virtual.run(main())


def test_changes_of_podcliques_and_sets_lead_to_a_step() -> None:
    async def main() -> None:
        world = World(pcs())
        loop = Loop(world.reconciler, begin=world.reconciler.begin)
        subscribe(loop, world.cliques, world.cluster.stores)
        running = asyncio.create_task(loop.run())
        await asyncio.sleep(1)
        world.client.load([clique(NAMES[0])])
        world.look_again()
        await asyncio.sleep(2 * SETTLE_SECONDS)
        assert world.claimed() == NAMES[:1]
        world.client.load([clique(NAMES[1])])
        world.look_again()
        fill(world.cluster.stores[SETS], [pcs(uid="new")])
        await asyncio.sleep(2 * SETTLE_SECONDS)
        assert world.claimed() == NAMES[:2]
        running.cancel()

    virtual.run(main())


def test_a_new_term_begins_with_nothing_known() -> None:
    async def main() -> None:
        world = World(pcs(), clique(NAMES[0]), on=False)
        assert await world.step() == OFF_SECONDS
        world.client.on = True
        world.reconciler.begin()
        assert world.reconciler.missing == 0
        assert await world.step() == WAIT_SECONDS
        assert world.claimed() == NAMES[:1]

    virtual.run(main())
