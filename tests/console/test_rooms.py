"""The numbers of Room, next to `topology --room` and to the pods themselves."""

import json
from collections import Counter
from pathlib import Path

import pytest

from app.cli import main
from app.kube.api import Object
from tests.console.fake import Lists, console
from tests.console.large import GPUS_OF_NODE, large
from tests.console.objects import LEVELS, objects
from tests.console.parsed import Parsed

GPU = "nvidia.com/gpu"


def free_nodes(lists: Lists) -> Counter[str]:
    """Return how many nodes of each rack take pods and have none with GPUs."""
    used = {
        pod["spec"]["nodeName"]
        for pod in lists.objects["pods"]
        if pod["spec"].get("nodeName")
        and pod["spec"]["containers"][0]["resources"]["requests"].get(GPU)
    }
    names = list(LEVELS.values())[:3]
    racks: Counter[str] = Counter()
    for node in lists.objects["nodes"]:
        labels = node["metadata"]["labels"]
        if all(name in labels for name in names):
            is_free = node["metadata"]["name"] not in used and not node["spec"].get("unschedulable")
            racks["/".join(labels[name] for name in names)] += is_free
    return racks


def printed(folder: Path, lists: Lists, capsys: pytest.CaptureFixture[str], room: str) -> Object:
    """Return what `topology --room` prints about the same objects."""
    file = folder / "cluster.json"
    items = [obj for listed in lists.objects.values() for obj in listed]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    main(["topology", "--room", room, "--in", "rack", "-o", "json", "--offline", str(file)])
    answered: Object = json.loads(capsys.readouterr().out)["room"]
    return answered


async def shown(lists: Lists, ref: str) -> dict[str, int]:
    """Return the number in each cell of Room, by the path of its rack."""
    async with console(lists) as (client, _):
        answer = await client.get(f"workloads?object={ref}")
    cells = [cell.attributes["title"] for cell in Parsed(answer.text).all("i", role="img")]
    rooms = (title.partition(": room for ") for title in cells)
    return {rack: int(words.split()[0]) for rack, _, words in rooms}


async def test_a_gang_of_equal_pods_has_the_numbers_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each pod of whole-rack takes a node."""
    lists = Lists(large())
    rooms = await shown(lists, "PodCliqueSet/inference/whole-rack-000")
    answered = printed(tmp_path, lists, capsys, f"18x{GPUS_OF_NODE}")
    expected = {"/".join(domain["path"]): domain["pods"] for domain in answered["domains"]}
    assert rooms == expected
    assert rooms == {rack: min(18, count) for rack, count in free_nodes(lists).items()}
    assert len(rooms) == 64


async def test_a_gang_with_a_router_counts_it_once_in_each_rack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = Lists(objects())
    rooms = await shown(lists, "PodCliqueSet/inference/llm-serve")
    answered = printed(tmp_path, lists, capsys, "4x8")
    workers = {"/".join(domain["path"]): domain["pods"] for domain in answered["domains"]}
    assert rooms == {rack: pods + 1 for rack, pods in workers.items()}
    assert workers == dict(free_nodes(lists))
