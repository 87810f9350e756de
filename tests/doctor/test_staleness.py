"""When KAI evicts gangs below their minimum: what each setting of a SchedulingShard leads to.

Tests `app/doctor/kai.py`.
"""

from typing import Any

import pytest

from app.doctor.kai import check_staleness
from app.facts.kinds import POD_GANG, SCHEDULING_SHARD
from tests.kube.memory.client import EVERYTHING, MemoryClient

ARGUMENT = "default-staleness-grace-period"
PATCH = f"""Switch eviction off: kubectl patch schedulingshards default --type merge -p '{{"spec":{{"args":{{"{ARGUMENT}":"-1s"}}}}}}'"""


def shard(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kai.scheduler/v1",
        "kind": "SchedulingShard",
        "metadata": {"name": "default"},
        "spec": spec,
    }


def evicts_after(period: str) -> tuple[str, str, str]:
    message = f"SchedulingShard default: KAI evicts all pods of a gang that has been below its minimum for {period}, although Grove replaces the missing pods"
    return "warning", message, PATCH


def stops(period: str) -> tuple[str, str, str]:
    message = f'SchedulingShard default sets {ARGUMENT} to "{period}", which is not a duration with a unit: its scheduler does not start'
    return "problem", message, PATCH


LEAVES = (
    "ok",
    "SchedulingShard default: KAI does not evict gangs that are below their minimum",
    "",
)


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        pytest.param({}, evicts_after("60s"), id="KAI's default"),
        pytest.param({"args": {ARGUMENT: "5m"}}, evicts_after("5m"), id="a longer period"),
        pytest.param({"args": {ARGUMENT: "0"}}, evicts_after("0"), id="at once"),
        pytest.param({"args": {ARGUMENT: "-1s"}}, LEAVES, id="off"),
        pytest.param({"args": {ARGUMENT: "-1"}}, stops("-1"), id="without a unit"),
        pytest.param({"args": {ARGUMENT: ""}}, stops(""), id="empty"),
    ],
)
async def test_what_the_grace_period_of_a_shard_leads_to(
    spec: dict[str, Any], found: tuple[str, str, str]
) -> None:
    client = MemoryClient([shard(**spec)])
    checks = await check_staleness(client)
    assert [(check.status, check.message, check.remedy) for check in checks] == [found]


@pytest.mark.parametrize("absent", [POD_GANG, SCHEDULING_SHARD], ids=["Grove", "KAI's operator"])
async def test_nothing_is_said_without(absent: Any) -> None:
    served = {resource: version for resource, version in EVERYTHING.items() if resource != absent}
    objects = [shard()] if SCHEDULING_SHARD in served else []
    assert await check_staleness(MemoryClient(objects, served=served)) == []
