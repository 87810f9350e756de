"""SchedulingShards whose line differs from the one that explain knows.

Tests `app/doctor/kai.py` and `app/facts/kai/shard.py`.
"""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.doctor.kai import check_order
from app.doctor.record import Heard
from app.facts.kai.shard import read_shard
from app.facts.kinds import SCHEDULING_SHARD
from app.kube.transport import ApiRequest
from tests.doctor.test_staleness import shard
from tests.kube.memory.client import EVERYTHING, MemoryClient


def note(what: str) -> list[Any]:
    text = f"SchedulingShard default sets {what}: the order of its gangs may differ from the output of explain and queues, which assume KAI's defaults"
    return [("ok", text, "")]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"plugins": {}, "args": {"default-staleness-grace-period": "-1s"}}, []),
        ({"plugins": {"fifo": {}, "elastic": {"enabled": False}}}, note("plugins (elastic, fifo)")),
        (
            {"actions": {"preempt": {"enabled": False}}, "usageDBConfig": {"clientType": "x"}},
            note("actions (preempt), usageDBConfig (clientType)"),
        ),
        ({"queueDepthPerAction": {"allocate": 1}}, note("queueDepthPerAction (allocate)")),
        ({"minRuntime": {"preemptMinRuntime": "1h"}}, note("minRuntime (preemptMinRuntime)")),
        (
            {"plugins": {f"p{number}": {} for number in range(7)}},
            note("plugins (p0, p1, p2, p3, p4 and 2 more)"),
        ),
        (
            {"placementStrategy": {"gpu": "spread", "cpu": "binpack"}},
            note("placementStrategy (gpu: spread)"),
        ),
        ({"plugins": [1], "actions": "x", "usageDBConfig": None, "placementStrategy": []}, []),
        # as KAI has them without this
        (
            {
                "plugins": {"elastic": {"enabled": True, "priority": 1300, "arguments": {}}},
                "actions": {"preempt": {"priority": 200}},
            },
            [],
        ),
        ({"plugins": {"fifo": {"enabled": False}}}, []),
        ({"plugins": {"reflectjoborder": {}, "snapshot": {"enabled": False}}}, []),
        ({"plugins": {"elastic": {"priority": 1}}}, note("plugins (elastic)")),
        ({"plugins": {"proportion": {"arguments": {"kValue": "2"}}}}, note("plugins (proportion)")),
    ],
)
async def test_a_shard_that_changes_the_line_is_named(spec: Any, expected: list[Any]) -> None:
    checks = await check_order(MemoryClient([shard(**spec)]))
    assert [(check.status, check.message, check.remedy) for check in checks] == expected


@pytest.mark.parametrize(
    "spec",
    [
        {"plugins": {"elastic": {"enabled": False}, "ray": {"priority": 1}}},
        {"plugins": {"proportion": {"arguments": {"kValue": "secret"}}}},
        {"plugins": {"backgroundpods": {"arguments": {"labelSelector": "mine=true"}}}},
        {
            "actions": {"preempt": {"enabled": False}},
            "usageDBConfig": {"connectionString": "secret"},
        },
        {"queueDepthPerAction": {"allocate": 1}, "minRuntime": {"preemptMinRuntime": "1h"}},
        {"placementStrategy": {"gpu": "spread", "cpu": "binpack"}},
        {"plugins": [1], "actions": {"preempt": 1}, "placementStrategy": []},
    ],
)
async def test_a_record_keeps_the_settings_that_change_the_line(spec: Any) -> None:
    async def call(request: ApiRequest) -> Any:
        return shard(**spec)

    heard = Heard(datetime(2026, 11, 26, tzinfo=UTC), False, False, True, "{}")
    path = "/apis/kai.scheduler/v1/schedulingshards/default"
    kept = await heard.keeping(call)(ApiRequest("get", str(SCHEDULING_SHARD), "GET", path))
    assert read_shard(kept).sets == read_shard(shard(**spec)).sets
    assert "secret" not in str(kept)


async def test_without_shards_nothing_is_said() -> None:
    served = {resource: v for resource, v in EVERYTHING.items() if resource != SCHEDULING_SHARD}
    assert await check_order(MemoryClient([], served=served)) == []
