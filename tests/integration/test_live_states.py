"""Live states of API servers, as a record has them and as an assistant sees them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from scripts.apiserver.admission_server import ApiServer
from tests.explain.fleet import NAMESPACE, SET, facts
from tests.explain.table.row import Row
from tests.explain.test_reasons import ROWS, start
from tests.integration.mcp_client import mcp_client
from tests.integration.stage import Stage, skip_if_impossible, staged
from tests.integration.system import command

ROOT = Path(__file__).parents[2]

STATES = (
    *("NotATree", "LevelLabelMissing", "RequiredViolated", "NodeGone", "NodeNotReady"),
    *("GateForeign", "GateOpens", "NotGrouped", "QueueMissing", "QueueLimit", "QueueQuota"),
    *("NeverFits", "NoDomainFits", "OtherResource", "NoNodeMatches", "NodesUnfit"),
    *("ClaimMissing", "DeviceClassMissing", "DomainNotReady", "VolumeUnbound", "ChannelTaken"),
)
BY_ID = {row.id: row for row in reversed(ROWS) if row.id in STATES and "design" in row.dialects}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[ApiServer, Stage]]:
    async with staged(tmp_path_factory.mktemp("live"), "design", [], kind) as made:
        yield made


async def shown(row: Row, server: ApiServer, store: Stage) -> tuple[str, ...]:
    """Show a state. Return the options of a command that reads it."""
    skip_if_impossible(row, "design", server)
    await store.show(facts(**{**start("design"), **row.hit}))
    return "--kubeconfig", str(server.kubeconfig), "--context", "admin"


@pytest.mark.untraced
@pytest.mark.parametrize("id", STATES)
async def test_the_record_of_a_live_state_gives_the_same_answer(
    id: str, stage: tuple[ApiServer, Stage], tmp_path: Path
) -> None:
    cluster = await shown(BY_ID[id], *stage)
    record = str(tmp_path / "record.json")
    for asked in ((SET, "-n", NAMESPACE, "--all"), ("-A", "-o", "json")):
        code, out, _ = await command("explain", *asked, *cluster, "--record", record)
        assert code == 1
        assert id in out or "-A" in asked
        assert await command("explain", *asked, "--offline", record) == (code, out, "")


@pytest.mark.untraced
async def test_an_assistant_calls_every_tool(stage: tuple[ApiServer, Stage]) -> None:
    cluster = await shown(BY_ID["NoDomainFits"], *stage)
    example = ROOT / "manifests" / "examples" / "podcliqueset-refused.yaml"
    questions: dict[str, dict[str, Any]] = {
        "waiting": {"namespace": NAMESPACE},
        "why": {"workload": SET, "namespace": NAMESPACE},
        "topology": {},
        "room": {"pods": 1, "gpus": 8, "level": "rack"},
        "what_if": {"edits": ["drain rack=rack-a1"]},
        "queues": {},
        "check": {"documents": example.read_text()},
        "audit": {"namespace": NAMESPACE},
        "doctor": {},
    }
    async with mcp_client(*cluster) as (client, call):
        assert {tool.name for tool in (await client.list_tools()).tools} == questions.keys()
        found = {tool: await call(tool, **given) for tool, given in questions.items()}

    assert [tool for tool, said in found.items() if said["isError"]] == []
    assert found["waiting"]["workloads"][0]["reason"]["id"] == "NoDomainFits"
    assert "NoDomainFits" in [reason["id"] for reason in found["why"]["reasons"]]
    assert [level["domain"] for level in found["topology"]["levels"]] == ["zone", "rack", "host"]
    assert found["room"]["room"]["level"] == "rack"
    assert found["what_if"]["edits"] == ["drain rack=rack-a1: 4 nodes, 4 pods must leave"]
    assert found["queues"]["headline"].endswith("1 pending gang")
    assert found["doctor"]["checks"]
    assert "findings" in found["audit"]
    assert found["check"]["allowed"] is False
