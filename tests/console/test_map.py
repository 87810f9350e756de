"""The map of Topology: who uses the GPUs, colours, and names.

Tests `app/console/colours.py` and `app/explain/answers/gpu_users.py`.
"""

from collections import Counter
from typing import Any

import pytest

from app.console.colours import Colours
from app.console.map import _short
from app.explain.answers.gpu_users import gpu_users
from app.explain.answers.queues import queue_rows
from app.explain.state.index import Index
from app.kube.api import Object
from tests.console.fake import Lists, console
from tests.console.large import large
from tests.console.objects import objects
from tests.console.parsed import Parsed

GPU = "nvidia.com/gpu"


async def opened(path: str, lists: Lists | None = None) -> tuple[Parsed, Index]:
    async with console(lists or Lists(objects())) as (client, made):
        answer = await client.get(path)
        return Parsed(answer.text), Index(made.live.snapshot())


def gpus(pod: Object) -> int:
    (container,) = pod["spec"]["containers"]
    return int(container["resources"]["requests"].get(GPU, 0))


def used_by_set(lists: Lists) -> Counter[str]:
    used: Counter[str] = Counter()
    for pod in lists.objects["pods"]:
        if pod["spec"].get("nodeName"):
            metadata = pod["metadata"]
            group = metadata["annotations"]["pod-group-name"].removesuffix("-0")
            used[f"{metadata['namespace']}/{group}"] += gpus(pod)
    return used


@pytest.mark.parametrize("of", [objects, large])
async def test_who_uses_gpus_is_what_the_pods_on_nodes_request(of: Any) -> None:
    lists = Lists(of())
    parsed, index = await opened("topology", lists)
    wanted = used_by_set(lists)
    users = gpu_users(index)
    assert {f"{u.workload.namespace}/{u.workload.name}": u.gpus // 1000 for u in users} == wanted
    (card,) = parsed.all("div", id="users")
    rows = [row for row in parsed.texts("tr") if row.endswith("show on the map")]
    assert len(rows) == min(10, len(users))
    for row in rows:
        name, _, _, number, *_ = row.split()
        assert int(number) == wanted[name]
    left = sum(user.gpus for user in users[10:]) // 1000
    more = f"{len(users) - 10:,} more workloads use {left:,} GPUs"
    assert (more in card.text) == (len(users) > 10)


@pytest.mark.parametrize("of", [objects, large])
async def test_colours_have_the_numbers_of_the_queues(of: Any) -> None:
    parsed, index = await opened("topology", Lists(of()))
    used = {row.name: row.used for row in queue_rows(index) if row.depth > 1 and row.used}
    (legend,) = parsed.all("p", cls="legend")
    for queue, amount in used.items():
        assert f"{queue}: {amount // 1000:,}".replace(",", "") in legend.text.replace(",", "")
    everywhere = Colours(index).used_in(range(len(index.nodes)))
    assert {queue: amount for queue, amount in everywhere.items() if queue} == used


async def test_every_bar_is_whole_and_has_the_free_and_closed_gpus() -> None:
    nodes = {"gpu-a-01": {"q2": 100}, "gpu-d-03": {"shut": 100}, "gpu-a-04": {"free": 100}}
    nodes["gpu-a-05"] = {"free": 100}
    nodes["gpu-a-06"] = {"q1": 100}
    _, index = await opened("topology")
    colours = Colours(index)
    places = {node.name: number for number, node in enumerate(index.nodes)}
    found = {
        name: {part: width for part, _, width in colours.bar([places[name]])} for name in nodes
    }
    assert found == nodes
    two = colours.bar([places["gpu-a-01"], places["gpu-a-04"]])
    assert two == (("q2", 0, 50), ("free", 50, 50))


async def test_a_shared_node_is_divided_by_queue() -> None:
    lists = Lists(objects())
    pod = next(pod for pod in lists.objects["pods"] if pod["spec"].get("nodeName") == "gpu-b-01")
    pod["spec"]["containers"][0]["resources"] = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    parsed, index = await opened("topology", lists)
    place = next(n for n, node in enumerate(index.nodes) if node.name == "gpu-b-01")
    assert Colours(index).bar([place]) == (("q2", 0, 62), ("free", 62, 38))
    titles = [cell.attributes.get("title", "") for cell in parsed.all("i", cls="tile")]
    assert "gpu-b-01: 3 of 8 GPUs free, used by team-llm 5" in titles


async def test_the_page_of_queues_names_the_workloads_that_use_most() -> None:
    parsed, _ = await opened("queues")
    (row,) = [row for row in parsed.texts("tr") if row.startswith("team-llm")]
    assert "most GPUs: inference/chat-70b 24 GPUs, inference/embed 16 GPUs" in row
    links = [link.attributes["href"] for link in parsed.all("a")]
    assert "workloads?object=PodCliqueSet/inference/chat-70b" in links


async def test_without_all_pods_nothing_is_said_about_users() -> None:
    lists = Lists(objects())
    lists.denied = {"pods"}
    parsed, _ = await opened("topology", lists)
    assert parsed.all("div", id="users") == []
    assert "in no queue" not in parsed.texts("main")[0]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("gpu-1", "gpu-2"), ("gpu-1", "gpu-2")),
        (
            ("ip-10-0-1-7.eu-central-1.compute.internal", "ip-10-0-2-7.eu-central-1.compute.internal"),
            ("…1-7…", "…2-7…"),
        ),
        (("gke-train-a3-mega-0f3c9d2a-x7k2", "gke-train-a3-mega-0f3c9d2a-9qpl"), ("…x7k2", "…9qpl")),
        (("one-name-of-a-node-only",), ("one-name-of-a-node-only",)),
        (("pool-of-gpus-a-b", "pool-of-gpus-a-b-b"), ("…b", "…b-b")),
        (("averyveryverylongname1", "averyveryverylongname2"), ("averyveryverylongname1", "averyveryverylongname2")),
    ],
)  # fmt: skip
def test_long_names_lose_what_they_share(names: tuple[str, ...], shown: tuple[str, ...]) -> None:
    assert tuple(map(_short(names).__getitem__, names)) == shown
