"""Whatever the order in which objects come and go: no Pod is ever without its mark, no PodGroup
goes before its Pods. And the API server asks us only about Pods that are to be marked.
"""

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncIterator

import httpx
import pytest

from app.facts.kinds import K8S_POD_GROUP, POD_GROUP, WORKLOAD
from app.kube.api import ObjectRef, Selection
from app.objects.resource import POD
from app.server.serve import Running
from scripts.apiserver.admission_server import ApiServer
from tests.integration.system import eventually, is_gone
from tests.integration.workload.conftest import Play

pytestmark = [pytest.mark.untraced, pytest.mark.usefixtures("served")]

SKIP = "kai.scheduler/skip-podgrouper"
IGNORE = "kai.scheduler/ignore-workload-api"
CONFIGURATION = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/grove-admission"
)


@contextlib.asynccontextmanager
async def states(play: Play) -> AsyncIterator[list[tuple[str, str | None, str | None]]]:
    """Every state of every Pod of the namespace that is stored while the block runs: its name, its
    PodGroup and its mark.
    """
    version = (await play.client.list(Selection(POD, play.namespace), limit=1)).resource_version
    seen: list[tuple[str, str | None, str | None]] = []

    async def follow() -> None:
        async for event in play.client.watch(
            Selection(POD, play.namespace), resource_version=version
        ):
            if event.type in ("ADDED", "MODIFIED"):
                metadata = event.object["metadata"]
                annotations = metadata.get("annotations", {})
                seen.append(
                    (metadata["name"], annotations.get("pod-group-name"), annotations.get(SKIP))
                )

    following = asyncio.create_task(follow())
    try:
        yield seen
    finally:
        following.cancel()


async def make_workload(play: Play, name: str) -> None:
    await play.workload(name, {"g": 2})
    await play.instance(name, "g", 2)


@pytest.mark.statement("W.27")
async def test_pods_created_before_with_and_after_their_workload_are_never_without_their_mark(
    play: Play,
) -> None:
    async with states(play) as seen:
        await play.pod("before", "first", "g")
        assert await eventually(play.reasons, lambda reasons: "WorkloadNotFound" in reasons)
        await make_workload(play, "first")
        await asyncio.gather(
            make_workload(play, "second"), *(play.pod(f"with-{n}", "second", "g") for n in range(5))
        )
        await make_workload(play, "third")
        await play.pod("after", "third", "g")
        workloads = {"before": "first", "after": "third"} | {
            f"with-{number}": "second" for number in range(5)
        }
        for name, workload in workloads.items():
            await play.until_told(name, f"{workload}-g")
        told = {(name, f"{workload}-g", "true") for name, workload in workloads.items()}
        assert await eventually(lambda: _copy(seen), lambda now: told <= set(now))
    assert {mark for _, _, mark in seen} == {"true"}
    assert set(seen) == told | {(name, None, "true") for name in workloads}


async def _copy(
    seen: list[tuple[str, str | None, str | None]],
) -> list[tuple[str, str | None, str | None]]:
    return list(seen)


async def test_a_pod_that_was_created_without_the_webhook_is_marked_by_the_reconciler(
    play: Play, api: ApiServer
) -> None:
    async with without_webhook(play, api):
        await play.pod("p", "late", "g")
        assert await eventually(lambda: play.told("p"), lambda told: told == (None, "true")) == (
            None,
            "true",
        )
        await make_workload(play, "late")
        await play.until_told("p", "late-g")


@contextlib.asynccontextmanager
async def without_webhook(play: Play, api: ApiServer) -> AsyncIterator[None]:
    stored = await play.users.call("GET", CONFIGURATION)
    stored = {**stored, "metadata": {"name": stored["metadata"]["name"]}}
    others = [webhook for webhook in stored["webhooks"] if not webhook["name"].startswith("pod.")]
    assert len(others) == len(stored["webhooks"]) - 1
    await play.users.answer("admin", "DELETE", CONFIGURATION)
    await api.apply([{**stored, "webhooks": others}])
    try:
        yield
    finally:
        await play.users.answer("admin", "DELETE", CONFIGURATION)
        await api.apply([stored])


@pytest.mark.statement("W.43")
async def test_the_podgroup_goes_with_the_last_pod_in_every_order_of_deletions(play: Play) -> None:
    parts = (
        ("workload", "p", "q") if play.dialect == "v1alpha1" else ("workload", "instance", "p", "q")
    )
    orders = enumerate(itertools.permutations(parts))
    await asyncio.gather(*(delete_in_order(play, f"w{number}", order) for number, order in orders))
    assert await eventually(play.stored_pod_groups, lambda left: left == {}) == {}


async def delete_in_order(play: Play, workload: str, order: tuple[str, ...]) -> None:
    await make_workload(play, workload)
    for name in ("p", "q"):
        await play.pod(f"{workload}-{name}", workload, "g")
    for name in ("p", "q"):
        await play.until_told(f"{workload}-{name}", f"{workload}-g")
    uid = (await play.pod_group(f"{workload}-g"))["metadata"]["uid"]
    left = {"p", "q"}
    for part in order:
        if part == "workload":
            await play.client.delete(ObjectRef(WORKLOAD, workload, play.namespace))
        elif part == "instance":
            await play.client.delete(ObjectRef(K8S_POD_GROUP, f"{workload}-g", play.namespace))
        else:
            await play.delete_pod(f"{workload}-{part}")
            left.discard(part)
        # long enough for a look at what is left, too short for a PodGroup to count as empty
        await asyncio.sleep(0.3)
        if left:
            assert (await play.pod_group(f"{workload}-g"))["metadata"]["uid"] == uid, (part, order)
    assert await eventually(
        lambda: is_gone(play.client, POD_GROUP, f"{workload}-g", play.namespace)
    ), order


async def test_a_podgroup_that_is_deleted_under_running_pods_is_made_again_and_not_once_they_are_gone(
    play: Play,
) -> None:
    await play.ready_pod("again")
    uid = (await play.pod_group("again-g"))["metadata"]["uid"]
    await play.client.delete(ObjectRef(POD_GROUP, "again-g", play.namespace))

    async def uid_now() -> str:
        return str(
            (await play.stored_pod_groups()).get("again-g", {"metadata": {"uid": uid}})["metadata"][
                "uid"
            ]
        )

    assert await eventually(uid_now, lambda now: now != uid) != uid
    await play.delete_pod("again")
    assert await eventually(lambda: is_gone(play.client, POD_GROUP, "again-g", play.namespace))


async def calls(served: Running) -> int:
    """How often `/mutate/pod` was called so far, as our own metrics count it."""
    async with httpx.AsyncClient(verify=False) as client:
        text = (await client.get(f"https://127.0.0.1:{served.tools.port}/metrics")).text
    counts = re.findall(
        r'^grove_admission_requests_total\{[^}]*path="/mutate/pod"[^}]*\} (\S+)$',
        text,
        re.MULTILINE,
    )
    return int(sum(map(float, counts)))


async def test_the_api_server_asks_only_about_pods_that_are_to_be_marked(
    play: Play, served: Running
) -> None:
    before = await calls(served)
    await play.other_pod("no-group", "kai-scheduler")
    await play.other_pod("another-scheduler", "default-scheduler")
    await play.pod("marked", "w", "g", annotations={SKIP: "true"})
    await play.pod("opted-out", "w", "g", annotations={IGNORE: "true"})
    await play.pod("of-another", "w", "g", scheduler="default-scheduler")
    for name in ("no-group", "another-scheduler"):
        await play.client.patch(
            ObjectRef(POD, name, play.namespace), {"metadata": {"labels": {"changed": "1"}}}
        )
    assert await calls(served) == before
    await play.pod("in-a-group", "w", "g")
    assert await calls(served) == before + 1
    assert (await play.told("in-a-group"))[1] == "true"
    assert [await play.told(name) for name in ("no-group", "another-scheduler", "opted-out")] == [
        (None, None)
    ] * 3
