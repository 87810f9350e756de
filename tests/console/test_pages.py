"""What the pages show, for any state of a cluster and any rights.

Tests `app/console/findings.py`, `app/console/queues.py`, `app/console/routes.py`,
`app/console/stored.py`, `app/console/topology.py`, `app/console/what_if.py` and
`app/console/workloads.py`.
"""

import asyncio
import shlex
from collections.abc import Sequence
from itertools import count
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
import yaml

from app.audit.finding import warning
from app.console.findings import _of_audit
from app.console.listing import NOT_EXAMINED
from app.console.stored import read_stored
from app.console.what_if import WhatIf
from app.explain.answers.answer import explain
from app.explain.answers.queues import queue_rows
from app.explain.answers.whatif.edits import Cordon, Drain, Supposition
from app.explain.answers.whatif.effects import effects
from app.explain.live import Trouble
from app.explain.output.queues_text import queue_cells
from app.explain.output.text import text
from app.explain.output.whatif_text import effects_text
from app.explain.reasons.reason import counted
from app.explain.state.index import Index
from app.explain.state.read import read_list
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kinds import RESOURCE_CLAIM
from app.kube.api import Object, Page, Rejected, Selection
from scripts.apiserver.command import default_configuration
from scripts.fleet import Workload, fleet
from tests.console.fake import HOST, NOW, Lists, console
from tests.console.objects import HOSTILE, by_plural, objects
from tests.console.objects import hostile as hostile_objects
from tests.console.parsed import Parsed

PAGES = ("workloads", "topology", "queues", "findings", "playground")
STUCK = "PodCliqueSet/inference/llm-serve"
LINE = "position 1 of 1 in queue team-llm"
LABEL = (
    "Node gpu-c-15 (8 GPUs) lacks the label topology.kubernetes.io/rack, so KAI ignores it for every"
    " gang with a constraint. Once it is labelled, this gang fits"
)


async def page(client: httpx.AsyncClient, path: str) -> Parsed:
    answer = await client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    return Parsed(answer.text)


async def shown(path: str, lists: Lists | None = None, namespaces: Sequence[str] = ()) -> Parsed:
    async with console(lists or Lists(objects()), namespaces) as (client, _):
        return await page(client, path)


# Workloads.


@pytest.mark.untraced
async def test_the_sets_that_wait_come_first_and_the_first_is_explained() -> None:
    parsed = await shown("workloads")
    links = [
        link.text
        for link in parsed.all("a")
        if link.attributes.get("href", "").startswith("workloads?object") and "pcs/" in link.text
    ]
    assert links == [
        f"inference pcs/llm-serve ? 0/5 ◐ pending waits platform {LINE} {LABEL} (and 2 more)",
        "inference pcs/chat-70b ? 3/3 ● placed - -",
        "pcs/embed inference",
    ]
    assert "2 more placed" in parsed.texts("summary")
    assert parsed.heading == "llm-serve is pending: 0 of 5 pods placed"
    assert parsed.texts("code", cls="id") == ["LevelLabelMissing", "NoDomainFits", "WithinQuota"]
    assert "kubectl label node gpu-c-15 topology.kubernetes.io/rack=rack-c4" in parsed.texts("code")


async def test_the_list_is_narrowed_by_who_can_act_and_by_cause() -> None:
    """Twelve trainings wait because no node has 16 GPUs; of the fleet, one set needs its user."""
    async with console(with_trainings(12)) as (client, _):
        while NOT_EXAMINED in (await client.get("workloads")).text:
            pass
        everything = await page(client, "workloads")
        index_of = {link.text: link.attributes["href"] for link in everything.all("a")}
        mine = await page(client, index_of["What I can do 13"])
        never = await page(client, index_of["NeverFits 12"])
        both = await page(client, "workloads?who=you&cause=LevelLabelMissing&namespace=inference")
        unknown = await page(client, "workloads?who=me&cause=Nothing")
    assert [rows_in(parsed) for parsed in (mine, never, both)] == [13, 12, 1]
    back = [link.attributes["href"] for link in never.all("a", aria_current="true")]
    assert "workloads?" in back
    hidden = {field.attributes["name"] for field in both.all("input", type="hidden")}
    assert hidden == {"who", "cause"}
    links = [link.attributes["href"] for link in both.all("a") if "object=" in str(link.attributes)]
    assert "who=you" in str(links)
    assert unknown.texts("div", cls="note")[0].endswith("who=me , cause=Nothing .")


def rows_in(parsed: Parsed) -> int:
    """How many workloads the list has, by its last line."""
    (foot,) = [text for text in parsed.texts("p", cls="foot") if "pending first" in text]
    return int(foot.split()[0])


def with_trainings(count: int) -> Lists:
    """The fleet, with equal workloads that wait: no node has 16 GPUs. The last was made first."""
    made = [*fleet()]
    for number in range(count):
        for obj in Workload("research", f"train-{number}", "rack", {"w": (2, 16)}).objects():
            obj["metadata"]["creationTimestamp"] = f"2027-01-15T07:{50 - number}:00Z"
            made.append(obj)
    return Lists(by_plural(made))


@pytest.mark.parametrize(("equal", "folds"), [(2, 0), (3, 1), (30, 1)])
async def test_equal_workloads_are_one_row_in_the_order_of_kai(equal: int, folds: int) -> None:
    async with console(with_trainings(equal)) as (client, _):
        while NOT_EXAMINED in (await client.get("workloads")).text:
            pass
        parsed = await page(client, "workloads")
        first = await page(
            client, "workloads?object=PodCliqueSet/research/train-0&namespace=research"
        )
    places = parsed.texts("small", cls="turn")
    # team-llm uses less of its quota
    assert places[0] == "position 1 of 1 in queue team-llm"
    assert places[1] == f"position 1 of {equal} in queue research"
    assert parsed.texts("summary") == [
        *[f"{equal - 1} more with the same reason"] * folds,
        "2 more placed",
    ]
    inside = [text for text in parsed.texts("li") if text.startswith("pcs/train")]
    assert len(inside) == folds * min(equal - 1, 19)
    assert (
        inside[:1]
        == [f"pcs/train-{equal - 2} research, position 2 of {equal} in queue research"] * folds
    )
    left = "10 more. Use the filter to see them" in parsed.texts("p", cls="foot")
    assert left == (equal == 30)

    chosen = [link.attributes["href"] for link in first.all("a", aria_current="true")]
    assert "workloads?object=PodCliqueSet/research/train-0&namespace=research" in chosen
    assert ["open" in fold.attributes for fold in first.all("details")] == [True] * folds


async def test_the_page_shows_what_the_command_prints() -> None:
    ref = Ref("PodCliqueSet", "inference", "llm-serve")
    facts = await read_list(Lists(objects()), ref.namespace, room=True, now=NOW, asked=ref)
    answer = explain(Index(facts), ref)
    assert answer is not None
    async with console(Lists(objects())) as (client, _):
        printed = (await client.get("workloads.txt", params={"object": STUCK})).text
        document = (await client.get("workloads.json", params={"object": STUCK})).json()
        parsed = await page(client, f"workloads?object={STUCK}")
    assert printed == text(answer) + "\n"
    assert parsed.heading == answer.headline
    assert answer.headline == document["headline"]
    body = parsed.texts("main")[0]
    for reason in answer.reasons:
        assert f"{reason.text}." in body
        assert f"{reason.remedy}" in body
        assert reason.id in parsed.texts("code", cls="id")
        assert [command for command in reason.commands if command not in body] == []


async def test_the_tree_has_levels_and_folds_equal_pods() -> None:
    parsed = await shown(f"workloads?object={STUCK}")
    rows = [
        (row.attributes["aria-level"], row.text)
        for row in parsed.all("tr")
        if "aria-level" in row.attributes
    ]
    assert [(level, text.split(" ◐")[0].split(" ●")[0]) for level, text in rows][:7] == [
        ("1", "PodCliqueSet llm-serve rack required 0 of 5"),
        ("2", "PodGang llm-serve-0 rack required 4 of 5 in zone-a/block-a2/rack-a3 0 of 5"),
        ("3", "PodClique llm-serve-0-router 0 of 1"),
        ("4", "Pod llm-serve-0-router-0"),
        ("3", "PodClique llm-serve-0-worker 0 of 4"),
        ("4", "Pod llm-serve-0-worker-0"),
        ("4", "3 more like the one above"),
    ]
    assert rows[1][1].endswith("◐ pending, all or none reason 2 YAML")


@pytest.mark.parametrize(
    ("lists", "heading"),
    [
        (Lists({}), "No PodCliqueSet in the namespaces that you may see"),
        (
            Lists({}, unserved=("podcliquesets", "podcliques", "podgangs")),
            "Grove is not installed in this cluster",
        ),
        (Lists({}, denied=("podcliquesets",)), "You have no permission to list PodCliqueSets"),
    ],
    ids=["empty", "not installed", "no right"],
)
async def test_a_page_without_workloads_says_why(lists: Lists, heading: str) -> None:
    assert (await shown("workloads", lists)).heading == heading


async def test_filters_and_objects_that_are_gone() -> None:
    async with console(Lists(objects())) as (client, _):
        none = await page(client, "workloads?q=nothing-like-it")
        gone = await page(client, "workloads?object=PodCliqueSet/inference/gone")
        strange = await page(client, "workloads?object=Secret/default/token")
        embed = await page(client, "workloads?q=EMB")
        absent = await client.get("workloads.txt?object=Secret/default/token")
    assert none.heading == "No workload matches the filter"
    assert gone.heading == "PodCliqueSet gone was not found"
    assert strange.heading == "Secret/default/token was not found"
    assert embed.heading.startswith("embed is placed as requested")
    assert absent.status_code == 404


async def test_what_may_not_be_read_is_not_shown_as_zero() -> None:
    lists = Lists(objects(), denied=("pods", "pods/inference", "pods/research", "nodes", "queues"))
    async with console(lists) as (client, _):
        parsed = await page(client, f"workloads?object={STUCK}")
        map_page = await page(client, "topology?pods=1")
    assert parsed.heading == "It is not known whether llm-serve is placed"
    assert "0 of 5" not in parsed.texts("main")[0]
    notes = " ".join(parsed.texts("div", cls="note"))
    assert "pods (no permission to list in inference and research)" in notes
    assert "NoDomainFits" in notes
    assert map_page.heading == "You have no permission to list nodes"
    levels = [row for row in map_page.texts("tr") if row.startswith("rack")]
    assert levels == ["rack topology.kubernetes.io/rack ? ? ? not known"]


async def test_a_user_of_one_namespace_sees_it_without_room() -> None:
    plurals = (
        "pods",
        "podcliquesets",
        "podcliques",
        "podgangs",
        "podgroups",
        "nodes",
        "namespaces",
    )
    lists = Lists(objects(), denied=plurals)
    async with console(lists, ["inference"]) as (client, _):
        parsed = await page(client, f"workloads?object={STUCK}")
    assert parsed.heading == "llm-serve is pending: 0 of 5 pods placed"
    assert "pods of all namespaces (no permission to list pods of all namespaces)" in " ".join(
        parsed.texts("div", cls="note")
    )
    assert parsed.all("section", aria_label="Room") == []


async def test_claims_of_one_namespace_are_not_taken_for_those_of_all() -> None:
    lists = Lists(objects(), denied=["resourceclaims"])
    async with console(lists, ["inference"]) as (_, parts):
        unseen = parts.live.snapshot().unseen
    assert unseen == {"channels": "no permission to list resourceclaims of all namespaces"}


@pytest.mark.untraced
async def test_one_list_of_each_kind_serves_every_tab_and_page() -> None:
    lists = Lists(objects())
    async with console(lists) as (client, _):
        for path in ("workloads", "topology", "workloads", f"workloads?object={STUCK}"):
            await page(client, path)
    counts = {call: lists.calls.count(call) for call in lists.calls}
    assert set(counts.values()) == {1}
    assert not {"secrets", "configmaps"} & {resource for _, resource in lists.calls}


# Live.


@pytest.mark.untraced
async def test_a_change_in_the_cluster_is_in_the_next_answer_and_no_change_is_304() -> None:
    lists = Lists(objects())
    async with console(lists) as (client, made):
        first = await client.get(f"workloads?object={STUCK}")
        same = await client.get(
            f"workloads?object={STUCK}", headers={"if-none-match": first.headers["etag"]}
        )
        assert (same.status_code, same.content) == (304, b"")
        node = next(obj for obj in lists.objects["nodes"] if obj["metadata"]["name"] == "gpu-c-15")
        labels = {**node["metadata"]["labels"], "topology.kubernetes.io/rack": "rack-c4"}
        stream = made.streams.messages()
        before = await anext(stream)
        lists.change(
            "nodes",
            {**node, "metadata": {**node["metadata"], "labels": labels, "resourceVersion": "2"}},
        )
        after = await anext(stream)
        await stream.aclose()
        assert before != after
        changed = await client.get(
            f"workloads?object={STUCK}", headers={"if-none-match": first.headers["etag"]}
        )
    assert changed.status_code == 200
    assert "NoDomainFits" in first.text
    assert "NoDomainFits" not in changed.text


@pytest.mark.untraced
async def test_a_page_names_its_revision_and_its_tag_so_that_a_tab_does_not_fetch_it_again() -> (
    None
):
    async with console(Lists(objects())) as (client, made):
        await page(client, "workloads")  # by then, nothing changes any more
        parsed = await page(client, f"workloads?object={STUCK}")
        stream = made.streams.messages()
        message = await anext(stream)
        await stream.aclose()
        part = await client.get(f"workloads?object={STUCK}")
    assert message == f"data: {parsed.all('body')[0].attributes['data-revision']}\n\n".encode()
    assert part.headers["etag"] == parsed.all("main")[0].attributes["data-tag"]


async def test_facts_are_the_same_until_one_changes() -> None:
    """What was made of them is used again while a list of many workloads is completed."""
    lists = Lists(objects())
    async with console(lists) as (_, made):
        before = made.live.snapshot()
        made.live.touch()
        assert made.live.snapshot() is before
        node = lists.objects["nodes"][0]
        metadata = {**node["metadata"], "resourceVersion": "2"}
        lists.change("nodes", {**node, "metadata": metadata})
        await made.live.changes(made.live.revision)
        assert made.live.snapshot() is not before


async def test_while_the_lists_come_in_the_page_counts() -> None:
    async with console(Lists(objects(), broken=True)) as (client, made):
        parsed = await page(client, "workloads")
        assert parsed.heading == "The cluster is being read"
        made.live.trouble = Trouble("Connection refused", NOW, expired=False)
        assert (
            "Reading from the cluster has been failing since"
            in (await page(client, "workloads")).texts("main")[0]
        )
        made.live.trouble = Trouble("Unauthorized", NOW, expired=True)
        assert (
            "names no command that renews them" in (await page(client, "topology")).texts("main")[0]
        )
        made.live.trouble = Trouble("Unauthorized", NOW, True, "aws sso login")
        renewed = await page(client, "topology")
        assert "since 08:00:00." in " ".join(renewed.texts("main"))
        assert "aws sso login" in renewed.texts("code")


async def test_a_lost_connection_keeps_the_last_picture() -> None:
    async with console(Lists(objects())) as (client, made):
        made.live.trouble = Trouble("<b>refused</b>", NOW, expired=False)
        parsed = await page(client, "workloads")
    assert parsed.heading.startswith("llm-serve is pending")
    assert len(parsed.all("div", cls="grey")) == 1
    assert "<b>refused</b>" in parsed.texts("div", cls="lost")[0]


# Topology.


async def test_the_topology_has_levels_coverage_and_a_map_of_nodes() -> None:
    parsed = await shown("topology")
    assert parsed.heading == "64 nodes in 4 zones, 8 blocks and 16 racks; 1 finding"
    assert [row.split(" ●")[0].split(" ▲")[0] for row in parsed.texts("tr")[1:5]] == [
        "zone topology.kubernetes.io/zone 64 of 64 4",
        "block topology.kubernetes.io/block 64 of 64 8",
        "rack topology.kubernetes.io/rack 63 of 64 16",
        "host kubernetes.io/hostname 64 of 64 63",
    ]
    cells = [
        element
        for element in parsed.all("i")
        if element.attributes.get("title", "").startswith("gpu-")
    ]
    assert len(cells) == 63
    titles = {cell.attributes["title"]: cell.attributes["class"] for cell in cells}
    assert titles["gpu-a-01: 0 of 8 GPUs free, used by team-llm 8"] == "tile f0"
    assert titles["gpu-b-05: 0 of 8 GPUs free, used by team-llm 8"] == "tile f0"
    assert titles["gpu-d-03: 0 of 8 GPUs free, 1 closed node"] == "tile f0 odd"
    words = [cell.text for cell in cells]
    assert "gpu-a-01 0 of 8" in words
    assert "gpu-d-03 0 of 8 closed" in words
    assert titles["gpu-c-16: 8 of 8 GPUs free"] == "tile f16"
    totals = [heading.text for heading in parsed.all("h2") if "GPUs free" in heading.text]
    assert totals[0] == "zone-a 4 racks, 16 nodes, 72 of 128 GPUs free"


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("pods=4&gpus=8&level=rack", "■ room for 4 pods of 8 GPUs in one rack: none; "),
        ("pods=3&gpus=8&level=rack", "● room for 3 pods of 8 GPUs in one rack: 10 of 16 racks; "),
    ],
)
async def test_room_is_found(query: str, answer: str) -> None:
    parsed = await shown(f"topology?{query}")
    assert parsed.texts("output")[0].startswith(answer.split(": ")[0])
    groups = {
        group.text: group.attributes["class"].split() for group in parsed.all("div", cls="group")
    }
    enough = [name for name, classes in groups.items() if "ask" in classes]
    roomiest = [name for name, classes in groups.items() if "best" in classes]
    assert len(enough) == (9 if answer.startswith("●") else 0)
    assert [name.partition(" gpu-")[0] for name in roomiest] == (
        [] if enough else ["block-a2/rack-a3 room for 3"]
    )
    able = counted([name for name in enough if name.startswith("block-a")], "rack")
    (zone,) = [text for text in parsed.texts("h2") if text.startswith("zone-a")]
    assert zone == f"zone-a 4 racks, 16 nodes, 72 of 128 GPUs free, {able} with room for all pods"


@pytest.mark.parametrize(
    ("query", "first", "last", "other"),
    [
        (
            "sort=worst",
            ["rack-d1 zone-d/block-d1 16 of 32 1 closed", "rack-a1 zone-a/block-a1 8 of 32"],
            "rack-d4 zone-d/block-d2 24 of 32",
            "topology?",
        ),
        (
            "pods=3&gpus=8&level=rack&sort=worst",
            ["rack-d1 zone-d/block-d1 2 1 closed", "rack-a1 zone-a/block-a1 1"],
            "rack-d4 zone-d/block-d2 3",
            "topology?gpus=8&level=rack&pods=3",
        ),
        (
            "at=zone-d/block-d1&sort=worst",
            ["rack-d1 16 of 32 1 closed", "rack-d2 16 of 32"],
            "rack-d2 16 of 32",
            "topology?at=zone-d%2Fblock-d1",
        ),
    ],
)
async def test_racks_are_shown_the_worst_first(
    query: str, first: list[str], last: str, other: str
) -> None:
    parsed = await shown(f"topology?{query}")
    racks = parsed.texts("a", cls="tile")
    assert [*racks[:2], racks[-1]] == [*first, last]
    assert [link.attributes["href"] for link in parsed.all("a") if link.text == "By place"] == [
        other
    ]


async def test_the_order_of_racks_can_be_asked_for_beside_room() -> None:
    parsed = await shown("topology?pods=3&level=rack")
    links = [link.attributes["href"] for link in parsed.all("a") if link.text == "Worst first"]
    assert links == ["topology?level=rack&pods=3&sort=worst"]


async def test_where_a_set_is_shown_and_domains_are_opened() -> None:
    async with console(Lists(objects())) as (client, _):
        of_set = await page(client, "topology?gang=PodCliqueSet/inference/chat-70b")
        rack = await page(client, "topology?at=zone-a/block-a1/rack-a1")
        unknown = await page(client, "topology?at=zone-a/nowhere&pods=x&gpus=-1&level=none")
    asked = {cell.attributes.get("title", "") for cell in of_set.all("i", cls="here")} - {""}
    assert {title.partition(":")[0] for title in asked} == {"gpu-a-01", "gpu-a-02", "gpu-a-03"}
    assert rack.heading == "zone-a/block-a1/rack-a1: 4 nodes, 8 of 32 GPUs free"
    assert "gpu-a-01 0 of 8 ● takes pods inference/chat-70b-0 8 GPUs" in rack.texts("tr")
    assert unknown.heading.startswith("64 nodes")


async def test_of_a_closed_node_the_map_and_the_table_say_the_same() -> None:
    """gpu-d-03 is cordoned and empty: nothing of it is free for new pods."""
    parsed = await shown("topology?at=zone-d/block-d1/rack-d1")
    cells = [cell.text for cell in parsed.all("i", role="img")]
    assert "gpu-d-03 0 of 8 closed" in cells
    assert "gpu-d-03 0 of 8 ▲ cordoned" in parsed.texts("tr")


async def test_taints_are_named_unless_pods_with_gpus_tolerate_them() -> None:
    lists = Lists(objects())
    nodes = {node["metadata"]["name"]: node for node in lists.objects["nodes"]}
    gpu = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    team = {"key": "example.com/team", "value": "a", "effect": "NoSchedule"}
    nodes["gpu-d-02"]["spec"] = {"taints": [gpu]}
    nodes["gpu-d-04"]["spec"] = {"taints": [gpu, team]}
    rows = (await shown("topology?at=zone-d/block-d1/rack-d1", lists)).texts("tr")
    assert any(row.startswith("gpu-d-02 ") and "● takes pods" in row for row in rows)
    assert any(row.startswith("gpu-d-04 ") and "▲ tainted example.com/team" in row for row in rows)


async def test_unread_topologies_are_not_said_to_be_missing() -> None:
    denied = ("clustertopologies", "topologies")
    parsed = await shown("topology?pods=1&gpus=1", Lists(objects(), denied=denied))
    assert parsed.heading == "64 nodes; topology unknown"
    none = Lists({**objects(), "clustertopologies": [], "topologies": []})
    assert (await shown("topology", none)).heading == "64 nodes; no topology is defined"


async def test_the_end_of_the_page_says_why_room_is_not_known() -> None:
    denied = Lists(objects(), denied=("resourceslices",))
    parsed = await shown("topology?pods=1&gpus=1", denied)
    assert any("room is not known" in output for output in parsed.texts("output"))
    assert "ResourceSlices (no permission to list)" in parsed.texts("div", cls="note")[-1]


async def test_findings_name_what_keeps_the_topology_from_being_checked() -> None:
    parsed = await shown("findings", Lists(objects(), denied=("nodes",)))
    assert "topology: nodes (no permission to list)" in parsed.texts("div", cls="note")[-1]


async def test_a_node_leads_to_the_gangs_that_are_on_it_and_to_itself() -> None:
    async with console(Lists(objects())) as (client, _):
        rack = await page(client, "topology?at=zone-a/block-a1/rack-a1")
        everything = await page(client, "topology")
        gang = rack.all("a", href="workloads?object=PodGang/inference/chat-70b-0")[0]
        shown = await page(client, gang.attributes["href"])
    assert gang.text == "inference/chat-70b-0"
    assert shown.heading == "chat-70b-0 is placed as requested: 3 of 3 pods placed"
    outside = everything.all("a", href="object?object=Node//gpu-c-15")
    assert [link.text for link in outside] == ["gpu-c-15"]


@pytest.mark.parametrize(("gpus", "usual"), [("4", "4"), ("0", "8")])
async def test_room_is_asked_for_with_the_gpus_of_most_nodes(gpus: str, usual: str) -> None:
    lists = Lists(objects())
    nodes = lists.objects["nodes"]
    for node in nodes if gpus == "0" else nodes[: len(nodes) // 2 + 1]:
        node["status"]["allocatable"]["nvidia.com/gpu"] = gpus
    parsed = await shown("topology", lists)
    (field,) = parsed.all("input", name="gpus")
    assert field.attributes["value"] == usual


async def test_cells_are_named_for_readers_of_the_screen() -> None:
    async with console(Lists(objects())) as (client, _):
        waiting = await page(client, f"workloads?object={STUCK}")
        topology = await page(client, "topology")
    rooms = [cell.attributes for cell in waiting.all("i", role="img")]
    assert {"rack-a3: room for 4 pods"} < {room["aria-label"].split("/")[-1] for room in rooms}
    assert [room for room in rooms if room["aria-label"] != room["title"]] == []
    cells = [cell.attributes for cell in topology.all("i", role="img")]
    assert "gpu-d-03: 0 of 8 GPUs free, 1 closed node" in {cell["aria-label"] for cell in cells}


# Queues.


async def test_queues_have_their_numbers_and_the_gangs_in_front() -> None:
    async with console(Lists(objects())) as (client, made):
        await page(client, "workloads")
        parsed = await page(client, "queues")
        index = Index(made.live.snapshot())
    assert parsed.heading == "3 queues; 1 pending gang"
    rows = {row.name: row for row in queue_rows(index)}
    cells = parsed.texts("td", cls="n")
    assert cells == [number for row in rows.values() for number in queue_cells(row)[1:]]
    gpus = [
        int(pod["spec"]["containers"][0]["resources"]["requests"].get("nvidia.com/gpu", 0))
        for pod in objects()["pods"]
        if pod["spec"].get("nodeName") and pod["metadata"]["namespace"] == "inference"
    ]
    assert rows["team-llm"].used == 1000 * sum(gpus)
    assert "1 of 1: inference/llm-serve-0 KAI can't place it right now" in parsed.texts("p")
    links = [link.attributes.get("href") for link in parsed.all("a")]
    assert "workloads?object=PodGang/inference/llm-serve-0" in links


@pytest.mark.parametrize(
    ("denied", "words"),
    [
        ("queues", "Could not read queues: no permission to list"),
        ("pods", "3 queues; pending gangs are not known"),
    ],
)
async def test_queues_that_are_not_known_are_not_zero(denied: str, words: str) -> None:
    parsed = await shown("queues", Lists(objects(), denied=(denied,)))
    assert parsed.heading == words
    assert "0" not in parsed.texts("td", cls="n")


# What if.


def supposed(*edits: str) -> str:
    return f"what-if?{urlencode({'if': chr(10).join(edits)})}"


async def test_edits_are_answered_as_by_the_command() -> None:
    async with console(Lists(objects())) as (client, made):
        parsed = await page(client, supposed("drain rack=rack-a1", "cordon gpu-b-05"))
        before = made.live.snapshot()
        after = await page(client, "topology")
    index = Index(before)
    edits: list[Supposition] = [Drain(("rack=rack-a1",)), Cordon(("gpu-b-05",))]
    expected = effects_text(effects(index, edits), everything=False)
    assert parsed.texts("pre") == [" ".join(expected.split())]
    assert parsed.heading == "Nothing breaks; 1 gang must move; 1 gang stays pending"
    command = "grove-admission topology --if 'drain rack=rack-a1' --if 'cordon gpu-b-05'"
    assert command in parsed.texts("code")
    # the pages go on with the cluster as it is
    assert after.heading.startswith("64 nodes in 4 zones")
    assert "gpu-a-01 0 of 8" in [cell.text for cell in after.all("i")]


@pytest.mark.parametrize(
    ("edits", "problem"),
    [
        (["drain rack=nowhere"], "no node has topology.kubernetes.io/rack=nowhere"),
        (["explode n1"], "is not an edit. Valid edits: drain NODE"),
        (["secret.yaml"], "is a file, which only the command accepts"),
        (["cordon n1"] * 11, "there are 11 edits, but at most 10 are accepted"),
        ([HOSTILE], "is not an edit. Valid edits: drain NODE"),
    ],
)
async def test_edits_that_mean_nothing_are_named(edits: list[str], problem: str) -> None:
    parsed = await shown(supposed(*edits))
    assert parsed.heading == "This edit can't be previewed"
    assert problem in parsed.texts("p", cls="sub")[0]
    assert parsed.all("pre") == []


async def test_without_edits_there_is_a_form_and_without_rights_no_answer() -> None:
    empty = await shown("what-if")
    denied = await shown(supposed("cordon gpu-a-01"), Lists(objects(), denied=("pods",)))
    assert empty.heading == "What if the cluster changed?"
    assert denied.heading == "The effects are not known"
    words = "Free capacity is not known. Could not be read: pods of all namespaces."
    assert words in denied.texts("p", cls="sub")[0]


async def test_an_answer_that_takes_too_long_is_not_known() -> None:
    """Half a minute passes between two looks at the clock."""
    facts = Index(await snapshot_of(objects())).facts
    seconds = count()
    shown = await WhatIf(lambda: float(next(seconds) * 31))(facts, {"if": "cordon gpu-a-01"})
    assert shown["headline"] == "The preview takes too long"
    assert "answer" not in shown


async def snapshot_of(made: dict[str, list[Any]]) -> Snapshot:
    async with console(Lists(made)) as (_, parts):
        return parts.live.snapshot()


# Findings.


async def test_findings_are_examined_on_demand() -> None:
    lists = Lists(objects())
    lists.objects["podgroups"].append(
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "Upper", "namespace": "research", "resourceVersion": "1"},
            "spec": {
                "minMember": 1,
                "queue": "research",
                "subGroups": [{"name": "Upper", "minMember": 1}],
            },
        }
    )
    async with console(lists, configuration=default_configuration()) as (client, made):
        before = await page(client, "findings")
        calls = len(lists.calls)
        answer = await client.post("findings", headers={"origin": f"http://{HOST}"})
        assert (answer.status_code, answer.headers["location"]) == (303, "findings")
        await made.findings.finish()
        parsed = await page(client, "findings")
        refused = await page(client, "findings?show=refused")
        none = await page(client, "findings?q=nothing-like-it")
    assert before.heading == "1 topology finding; audit and doctor have not run yet"
    assert len(lists.calls) > calls
    assert not {"secrets", "configmaps"} & {resource for _, resource in lists.calls}
    assert {verb for verb, _ in lists.calls} <= {"get", "list", "read", "create"}
    created = {resource for verb, resource in lists.calls if verb == "create"}
    assert {name.partition(".")[0] for name in created} <= {
        "subjectaccessreviews",
        "selfsubjectaccessreviews",
    }
    assert "PodGroup research/Upper" in " ".join(parsed.texts("b"))
    texts = parsed.texts("tr")
    assert [text for text in texts if "leak" in text] == []
    assert len([text for text in texts if "only 63 of 64 nodes have the label" in text]) == 1
    assert [row.split()[0:3] for row in refused.texts("tr")[1:]] == [["■", "refused", "today"]]
    assert "Nothing matches the filter." in none.texts("p")
    assert "Secrets and ConfigMaps (never read here)" in " ".join(parsed.texts("div", cls="note"))


async def test_equal_findings_are_one_row_and_what_nobody_owns_is_a_leak() -> None:
    lists = Lists(objects())
    for name in ("first", "second"):
        lists.objects["podgroups"].append(
            {
                "apiVersion": "scheduling.run.ai/v2alpha2",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": "research", "resourceVersion": "1"},
                "spec": {"minMember": 1, "subGroups": [{"name": "Upper", "minMember": 1}]},
            }
        )
    lists.objects["computedomains"] = [
        {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "ComputeDomain",
            "metadata": {
                "name": "lost",
                "namespace": "research",
                "resourceVersion": "1",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"grove.io/mnnvl-managed": "true"},
            },
        }
    ]
    async with console(lists, configuration=default_configuration()) as (client, made):
        made.findings.start()
        await made.findings.finish()
        refused = await page(client, "findings?show=refused")
        leaks = await page(client, "findings?show=leak")
    assert [row.partition(" spec.")[0] for row in refused.texts("tr")[1:]] == [
        "■ refused today audit PodGroup research/first, research/second 2 objects"
    ]
    assert [row.partition(" orphaned:")[0] for row in leaks.texts("tr")[1:]] == [
        "■ leak audit ComputeDomain research/lost"
    ]


@pytest.mark.parametrize(
    ("problem", "group"),
    [
        ('orphaned: PodCliqueSet "llm" does not exist', "leak"),
        ("can never be allocated: DeviceClass c does not exist", "warning"),
        ('has an owner that is neither a PodGang nor PodCliqueSet "llm"', "warning"),
        ("is being deleted, and 2 Pods use it", "warning"),
    ],
)
def test_only_a_resource_without_its_owner_is_a_leak(problem: str, group: str) -> None:
    finding = warning(RESOURCE_CLAIM.kind, ("research", "llm-0-mnnvl"), problem, "Do it.")
    assert _of_audit(finding).group == group


# Stored objects.


async def test_an_object_is_shown_with_its_events_and_commands() -> None:
    lists = Lists(objects())
    gang = next(o for o in lists.objects["podgangs"] if o["metadata"]["name"] == "llm-serve-0")
    gang["metadata"]["managedFields"] = [{"manager": "somebody"}]
    lists.objects["events"] = [
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"event-{number}", "namespace": "inference"},
            "regarding": {"kind": "PodGang", "name": "llm-serve-0", "uid": uid},
            "reason": reason,
            "note": "0/64 nodes",
            "deprecatedLastTimestamp": "2027-01-15T07:58:00Z",
        }
        for number, (uid, reason) in enumerate(
            [(gang["metadata"]["uid"], "Unschedulable"), ("another", "Other")]
        )
    ]
    async with console(lists) as (client, _):
        parsed = await page(client, "object?object=PodGang/inference/llm-serve-0")
    stored = yaml.safe_load(parsed.all("pre")[0].parts[0])
    assert stored == {
        **gang,
        "metadata": {k: v for k, v in gang["metadata"].items() if k != "managedFields"},
    }
    assert parsed.texts("tr")[1:] == ["2 minutes ago Unschedulable 0/64 nodes"]
    name = "-n inference podgangs.scheduler.grove.io llm-serve-0"
    assert parsed.texts("code")[3:] == [f"kubectl get {name} -o yaml", f"kubectl describe {name}"]


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("named", "words", "calls"),
    [
        ("Secret/default/token", "does not name an object of a kind that the console reads", []),
        (
            "ConfigMap/default/settings",
            "does not name an object of a kind that the console reads",
            [],
        ),
        ("Event/default/event", "does not name an object of a kind that the console reads", []),
        ("Node/default/gpu-a-01", "does not name an object of a kind that the console reads", []),
        ("PodGang/inference/gone", "The object does not exist", ["podgangs.scheduler.grove.io"]),
        (
            "Queue//team-llm",
            "You have no permission to get queues.scheduling.run.ai.",
            ["queues.scheduling.run.ai"],
        ),
    ],
)
async def test_an_object_that_is_not_shown(named: str, words: str, calls: list[str]) -> None:
    lists = Lists(objects(), denied=("queues",))
    async with console(lists) as (client, _):
        parsed = await page(client, f"object?object={named}")
    assert words in parsed.texts("div", cls="note")[-1]
    assert parsed.all("pre") == []
    assert [resource for verb, resource in lists.calls if verb == "get"] == calls


async def test_rejected_credentials_are_not_called_a_missing_permission() -> None:
    class Expired:
        async def get(self, *_: Any, **__: Any) -> Object:
            raise Rejected("Unauthorized", code=401)

    values = await read_stored(Expired(), {"object": "Pod/default/a"})  # type: ignore[arg-type]
    assert values == {"problem": "The object cannot be read: Unauthorized"}


async def test_a_stored_object_is_text() -> None:
    lists = Lists(hostile_objects(HOSTILE.replace("/", "")))
    pcs = lists.objects["podcliquesets"][0]["metadata"]
    named = f"PodCliqueSet/{pcs['namespace']}/{pcs['name']}"
    async with console(lists) as (client, _):
        answer = await client.get("object", params={"object": named})
    parsed = Parsed(answer.text)
    assert "<script>alert" not in answer.text
    assert [line for line in answer.text.split("\n") if not line.isprintable()] == []
    command = next(text for text in parsed.texts("code") if text.startswith("kubectl get"))
    assert shlex.split(command)[3].startswith("inference<script>alert(1)<script>\"'&")


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("path", "ignored"),
    [
        ("workloads?namespace=inference&q=x", ""),
        ("workloads?namespace=nowhere&colour=red", "colour, namespace=nowhere"),
        ("workloads?object=llm-serve", "object=llm-serve"),
        (
            "topology?at=nowhere&gang=x&gpus=many&level=row&pods=0&name=",
            "at=nowhere, gang=x, gpus=many, level=row, pods=0",
        ),
        (
            "topology?at=zone-a&pods=3&gpus=8&level=rack&gang=PodCliqueSet/inference/embed&sort=worst",
            "",
        ),
        ("topology?sort=best", "sort=best"),
        ("findings?show=everything", "show=everything"),
        ("playground?sample", "sample"),
        ("object?object=Secret/a/b", "object=Secret/a/b"),
    ],
)
async def test_options_that_mean_nothing_are_named(path: str, ignored: str) -> None:
    parsed = await shown(path)
    notes = [
        note.replace(" ,", ",").replace(" .", ".")
        for note in parsed.texts("div", cls="note")
        if "not valid here" in note
    ]
    expected = f"? The address has options that are not valid here: {ignored}."
    assert notes == ([expected] if ignored else [])


class Taking(Lists):
    """Lists that let others have their turn before each of them."""

    async def list(self, selection: Selection, **options: Any) -> Page:
        await asyncio.sleep(0)
        return await super().list(selection, **options)


async def test_an_examination_shows_how_much_it_has_looked_at_while_it_runs() -> None:
    lists = Taking(objects())
    counts = [0]
    async with console(lists) as (_, made), asyncio.timeout(240):
        made.findings.start()
        result = made.findings.result
        while result is not None and result.stage == "the stored objects":
            await made.live.changes(made.live.revision)
            counts.append(result.looked_at)
        await made.findings.finish()
    assert counts == sorted(counts)
    assert counts[-2] > 0


# Hostile values.


@pytest.mark.untraced
@pytest.mark.parametrize("name", PAGES)
async def test_values_of_the_cluster_are_text(name: str) -> None:
    lists = Lists(hostile_objects())
    async with console(lists, context=HOSTILE) as (client, made):
        if name == "findings":
            made.findings.start()
            await made.findings.finish()
        answer = await client.get(name)
        parsed = Parsed(answer.text)
    assert "<script>alert" not in answer.text
    assert [line for line in answer.text.split("\n") if not line.isprintable()] == []
    assert [element.attributes.get("src") for element in parsed.all("script")] == [
        "static/console.js"
    ]
    assert [
        e for e in parsed.elements if any(a.startswith("on") or a == "style" for a in e.attributes)
    ] == []
    for link in parsed.all("a"):
        assert link.attributes["href"].split("?")[0].split(".")[0].strip("#-123456789") in (
            *PAGES,
            "main",
            "object",
            "reason",
            "text",
            "what-if",
        )
    assert "\\u202e" in answer.text


async def test_static_files_are_few_and_small() -> None:
    async with console(Lists({})) as (client, _):
        sizes = {
            name: len((await client.get(f"static/{name}")).content)
            for name in ("console.css", "console.js", "icon.svg")
        }
        missing = [
            (await client.get(f"static/{name}")).status_code
            for name in ("other.css", "..%2fapp.py", "console.py", "")
        ]
        entry = Parsed((await client.get("")).text)
    assert all(0 < size < 14_000 for size in sizes.values())
    assert missing == [404, 404, 404, 404]
    assert entry.all("meta", http_equiv="refresh")[0].attributes["content"] == "0; url=workloads"


async def test_paths_that_do_not_exist_say_nothing() -> None:
    async with console(Lists({})) as (client, _):
        answers = [
            await client.get(path)
            for path in ("nothing", "docs", "openapi.json", "playground.json")
        ]
    assert {(answer.status_code, answer.content) for answer in answers} <= {(404, b""), (405, b"")}


async def test_rights_that_come_later_are_taken_up() -> None:
    lists = Lists(objects(), denied=("nodes",))
    async with console(lists, rights_again=0.0) as (client, made):
        before = await page(client, "topology")
        lists.denied.clear()
        async with asyncio.timeout(240):
            while "nodes" in made.live.snapshot().unseen:
                await made.live.changes(made.live.revision)
        after = await page(client, "topology")
    assert before.heading == "You have no permission to list nodes"
    assert after.heading.startswith("64 nodes in 4 zones")
