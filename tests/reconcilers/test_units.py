"""ComputeDomains of Pods that are in no PodClique: made again, kept, and taken away."""

from typing import Any

import pytest
from jsonpatch import apply_patch

from app.facts.grove.unit_member import read_carrier_of_pod
from app.facts.kinds import COMPUTE_DOMAIN, JOB_SET, LEADER_WORKER_SET, WORKLOAD
from app.facts.rows import DOMAINS
from app.kube.api import NotServed, Object, ObjectRef, Unavailable, WatchEvent
from app.objects.resource import EVENT, POD
from app.reconcilers.mnnvl_resources import IN_USE_SECONDS, SETTLE_SECONDS, subscribe
from app.rules.mnnvl.claim import CliqueFacts, inject
from app.rules.mnnvl.plan import desired_resource
from tests import pods
from tests.pods import UNITS, owner, pod
from tests.reconcilers.test_mnnvl_resources import AFTER, Added, World, changed

KNOWN = [name for name, unit in UNITS.items() if unit]
LWS = ("ns", "lws-a-2")
WORKER = "lws-worker"


def stored(name: str, labels: Any = None, **metadata: Any) -> Object:
    """Return a recorded Pod as it is stored after admission."""
    obj = pod(name, labels)
    injection = inject(read_carrier_of_pod(obj, "ns"), None, CliqueFacts(), "template")
    assert injection.plan is not None
    patched: Object = apply_patch(obj, list(injection.patch))
    patched["metadata"]["labels"]["grove.io/mnnvl-unit"] = injection.plan.base_name
    patched["metadata"] |= {"uid": f"uid-{name}", **metadata}
    return patched


def domain(name: str = WORKER, uid: str = "leaderworkerset-a") -> Object:
    """Return the ComputeDomain of the unit of a recorded Pod, as admission made it."""
    plan = inject(read_carrier_of_pod(pod(name), "ns"), None, CliqueFacts(), "template").plan
    assert plan is not None
    made = plan.owned_by(uid, JOB_SET if name.startswith("jobset") else LEADER_WORKER_SET)
    return desired_resource(made, COMPUTE_DOMAIN, "v1beta1")


def owned(**specs: Any) -> list[Object]:
    """Return the owners of the recorded Pods, with other specs by kind in lower case."""
    return [{**obj, "spec": specs.get(obj["kind"].lower(), obj["spec"])} for obj in pods.owners()]


@pytest.mark.parametrize("name", KNOWN)
async def test_what_a_stored_pod_needs_is_made_again(name: str) -> None:
    world = World(*owned(), stored(name))
    assert await world.look(key=("ns", UNITS[name])) is None
    (made,) = world.client.objects(COMPUTE_DOMAIN)
    assert made["metadata"]["name"] == f"{UNITS[name]}-cd"
    (reference,) = made["metadata"]["ownerReferences"]
    assert reference["uid"] in {obj["metadata"]["uid"] for obj in pods.owners()}
    assert await world.happened() == ["MnnvlResourcesRestored"]
    (event,) = world.client.objects(EVENT)
    assert (event["regarding"]["kind"], event["regarding"]["uid"]) == (
        reference["kind"],
        reference["uid"],
    )
    start = f"created missing resources that Pods use: ComputeDomain {UNITS[name]}-cd"
    assert event["note"].startswith(start)
    assert world.reconciler.all_keys() == {("ns", UNITS[name])}


async def test_what_was_made_again_is_what_admission_makes() -> None:
    world = World(*owned(), stored(WORKER))
    await world.look(key=LWS)
    (made,) = world.client.objects(COMPUTE_DOMAIN)
    expected = domain()
    metadata = {key: made["metadata"][key] for key in expected["metadata"]}
    assert {**made, "metadata": metadata} == expected


@pytest.mark.parametrize(
    ("obj", "objects"),
    [
        pytest.param(stored(WORKER), [], id="its owner is gone"),
        pytest.param(
            stored(WORKER, {"leaderworkerset.sigs.k8s.io/name": "b"}),
            owned(),
            id="its owner is another one",
        ),
        pytest.param(stored(WORKER, ownerReferences=[]), owned(), id="nobody owns it"),
        pytest.param(stored(WORKER, deletionTimestamp="t"), owned(), id="it is being deleted"),
        pytest.param(
            {**stored(WORKER), "status": {"phase": "Succeeded"}}, owned(), id="it has ended"
        ),
        pytest.param(
            {**stored(WORKER), "spec": pod(WORKER)["spec"]}, owned(), id="it has no claim"
        ),
    ],
)
async def test_a_pod_that_needs_nothing(obj: Object, objects: list[Object]) -> None:
    world = World(*objects, obj)
    for key in (LWS, ("ns", "lws-b-2")):
        assert await world.look(key=key) is None
    assert world.writes() == []


async def test_an_owner_that_goes_at_this_moment_gets_nothing() -> None:
    world = World(*owned(), stored(WORKER))
    world.client.fail_next("get", LEADER_WORKER_SET, Unavailable("down", code=503))
    with pytest.raises(Unavailable, match="down"):
        await world.look(key=LWS)
    await world.look(key=LWS)
    (made,) = world.client.objects(COMPUTE_DOMAIN)
    await world.client.delete(ObjectRef(COMPUTE_DOMAIN, "lws-a-2-cd", "ns"))
    world.stores[DOMAINS].forget()
    world.stores[DOMAINS].apply(WatchEvent("DELETED", changed(made, resourceVersion="1000")))
    await world.client.delete(ObjectRef(LEADER_WORKER_SET, "a", "ns"))
    with pytest.raises(
        Unavailable, match='LeaderWorkerSet "a", which would own the MNNVL resources, is gone'
    ):
        await world.look(key=LWS)


@pytest.mark.parametrize(
    ("objects", "pause", "collected"),
    [
        pytest.param(owned(), AFTER, False, id="the unit has no Pods for a while"),
        pytest.param(owned(leaderworkerset={"replicas": 2}), None, True, id="scaled in"),
        pytest.param([], None, True, id="the owner is gone"),
        pytest.param(
            [owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "a", "new")],
            None,
            True,
            id="the owner was recreated",
        ),
        pytest.param(
            [
                *owned(leaderworkerset={"replicas": 2}),
                changed(stored(WORKER), deletionTimestamp="t", finalizers=["x/y"]),
            ],
            IN_USE_SECONDS,
            False,
            id="scaled in, and the last Pod is still there",
        ),
        pytest.param(
            [*owned(leaderworkerset={"replicas": 2}), stored(WORKER)],
            None,
            False,
            id="scaled in, and the Pod not yet",
        ),
    ],
)
async def test_what_is_taken_away(
    objects: list[Object], pause: float | None, collected: bool
) -> None:
    world = World(*objects, domain())
    assert await world.look(key=LWS) == (None if pause is None and not collected else AFTER)
    assert await world.look(AFTER, key=LWS) == pause
    assert [obj["metadata"]["name"] for obj in world.client.objects(COMPUTE_DOMAIN)] == (
        [] if collected else ["lws-a-2-cd"]
    )
    assert await world.happened() == (["MnnvlResourcesCollected"] if collected else [])


async def test_an_owner_without_its_crd_has_no_units() -> None:
    world = World(domain())
    del world.client.served[LEADER_WORKER_SET]
    await world.look(key=LWS)
    world.client.fail_next("get", LEADER_WORKER_SET, NotServed("no", code=404))
    assert await world.look(AFTER, key=LWS) is None
    assert world.client.objects(COMPUTE_DOMAIN) == []


STATEFUL_SET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "name": "a",
    "uid": "sts-a",
    "controller": True,
}


@pytest.mark.parametrize("references", [[], [STATEFUL_SET]], ids=["nobody", "no owner of units"])
async def test_what_no_unit_needs_and_nobody_owns_is_taken_away(references: list[Object]) -> None:
    world = World(*owned(), changed(domain(), ownerReferences=references))
    await world.look(key=LWS)
    assert await world.look(AFTER, key=LWS) is None
    assert world.client.objects(COMPUTE_DOMAIN) == []


async def test_without_grove_units_are_taken_away_too() -> None:
    world = World(domain())
    world.cliques.mark_not_served()
    await world.look(key=LWS)
    assert await world.look(AFTER, key=LWS) is None
    assert world.client.objects(COMPUTE_DOMAIN) == []


async def test_pods_of_a_restart_find_the_domain_that_was_there() -> None:
    world = World(*owned(), stored(WORKER), domain())
    await world.client.delete(ObjectRef(POD, WORKER, "ns"))
    world.pods_changed()
    assert await world.look(key=LWS) == AFTER
    world.client.load([stored(WORKER)])
    world.pods_changed()
    assert await world.look(AFTER, key=LWS) is None
    assert world.writes() == [("delete", "Pod")]


async def test_the_domain_of_a_former_owner_is_made_again_for_the_new_one() -> None:
    obj = stored("job")
    obj["metadata"]["ownerReferences"][0]["uid"] = "new"
    world = World(owner("batch/v1", "Job", "nccl-test", "new"), obj)
    await world.look(key=("ns", "job-nccl-test"))
    (made,) = world.client.objects(COMPUTE_DOMAIN)
    assert made["metadata"]["ownerReferences"][0]["uid"] == "new"


async def test_a_change_of_a_pod_leads_to_a_look() -> None:
    world = World(*owned())
    loop = Added(world)
    subscribe(loop, world.cliques, world.pods, world.stores, world.owners)
    world.pods.apply(WatchEvent("ADDED", changed(stored(WORKER), resourceVersion="100")))
    assert loop.keys == {LWS: SETTLE_SECONDS}


async def test_nothing_is_done_before_the_pods_are_known() -> None:
    world = World(*owned(), domain())
    world.pods.forget()
    assert await world.look(key=LWS) == SETTLE_SECONDS


async def test_a_stored_domain_costs_no_look_at_the_owner() -> None:
    world = World(*owned(), stored(WORKER), domain())
    await world.look(key=LWS)
    assert [call for call in world.client.calls if call.verb == "get"] == []


async def test_an_owner_that_many_pods_name_is_read_once() -> None:
    many = [stored("workload-ref") for _ in range(50)]
    for number, obj in enumerate(many):
        obj["metadata"] |= {"name": f"p{number}", "uid": f"p{number}"}
    world = World(*many)
    assert await world.look(key=("ns", UNITS["workload-ref"])) is None
    assert [call.resource for call in world.client.calls if call.verb == "get"] == [WORKLOAD]
