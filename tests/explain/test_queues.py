"""The rows of queues: what they may have, have and are due, and what waits in them.

Tests `app/explain/answers/queues.py`, `app/explain/answers/positions.py` and
`app/explain/output/queues_text.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.answers.gpu_users import gpu_users
from app.explain.answers.positions import InLine
from app.explain.answers.queues import MOST_IN_FRONT, MOST_USERS, QueueRow, queue_rows
from app.explain.output.queues_text import (
    queues_document,
    queues_exit_code,
    queues_headline,
    queues_text,
)
from app.explain.queue_order.cycle import line_of
from app.explain.state.index import Index
from app.facts.identity import Ref
from app.facts.kai.queue import Queue, Share
from app.facts.kubernetes.gpu_sharing import GpuPart
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.pod import PodClaim, Shape
from app.facts.labels import NODE_POOL
from app.facts.rows import ROOM
from tests.explain.queue_order.test_cycle import QUEUES, Gangs, node


def rows_of(gangs: Gangs, *nodes: str, **more: Any) -> dict[str, QueueRow]:
    index = gangs.index(*map(node, nodes), **more)
    return {row.name: row for row in queue_rows(index)}


def busy() -> Gangs:
    """One gang runs in `b`, and three wait: for more than there is, for their turn, for room."""
    gangs = Gangs()
    gangs.add("runs", 2, queue="b", nodes=("n1",))
    gangs.add("kept", 1, queue="b", nodes=("n1",), priority_class="fixed")
    gangs.add("large", 8)
    gangs.add("small", 4)
    gangs.add("tiny", 1, queue="b")
    return gangs


def test_a_queue_has_what_its_pods_and_those_below_it_have() -> None:
    found = rows_of(busy(), "n1")
    assert [(name, row.depth) for name, row in found.items()] == [("root", 1), ("a", 2), ("b", 2)]
    assert (found["root"].used, found["root"].fixed) == (3000, 1000)
    assert (found["a"].used, found["b"].used, found["b"].fixed) == (0, 3000, 1000)
    assert (found["a"].quota, found["a"].limit) == (None, None)


def test_the_fair_share_is_that_of_the_line() -> None:
    """Both ask for more than their quotas: the 8 GPUs of the node are divided between them."""
    gangs = Gangs()
    gangs.add("one", 8)
    gangs.add("two", 8, queue="b")
    queues = (Queue("root"), Queue("a", "root", quota=0), Queue("b", "root", quota=0))
    found = rows_of(gangs, "n1", queues=queues)
    assert (found["a"].fair, found["b"].fair) == (4000, 4000)
    queues = (Queue("root"), Queue("a", "root", quota=6000), Queue("b", "root", quota=0))
    found = rows_of(gangs, "n1", queues=queues)
    assert (found["a"].fair, found["b"].fair) == (7000, 1000)
    # there is no more than the nodes have
    assert found["root"].fair == 8000


def test_the_gangs_in_front_are_those_of_the_line() -> None:
    index = busy().index(node("n1"))
    found = {row.name: row for row in queue_rows(index)}
    names = [(gang.ref.name, gang.number, gang.count, gang.next) for gang in found["a"].front]
    assert names == [("large", 1, 2, "waits"), ("small", 2, 2, "next")]
    assert [gang.where for gang in found["a"].front] == [(), ("n1",)]
    assert (found["root"].waiting, found["a"].waiting, found["b"].waiting) == (3, 2, 1)
    assert found["root"].front == ()
    for turn in line_of(index).values():
        answer = explain(index, turn.gang)
        assert answer is not None
        (own,) = answer.line
        place = next(gang for gang in found[own.queue].front if gang.ref == own.ref)
        assert (place.number, place.count, place.next) == (own.number, own.count, own.next)


def test_the_workloads_that_use_most_gpus_are_named() -> None:
    index = busy().index(node("n1"))
    rows = queue_rows(index)
    found = {row.name: row for row in rows}
    of_b = found["b"].users or ()
    users = [(user.workload.name, user.gpus, user.pods, user.nodes) for user in of_b]
    assert users == [("runs", 2000, 1, 1), ("kept", 1000, 1, 1)]
    assert sum(user.gpus for user in of_b) == found["b"].used
    assert (found["a"].users, found["root"].users) == ((), ())
    lines = queues_text(rows, index.facts).splitlines()
    first = lines.index("most GPUs in use:")
    assert lines[first + 1 : first + 3] == [
        "b  ns/runs  2 GPUs  1 pod on 1 node",
        "b  ns/kept  1 GPU   1 pod on 1 node",
    ]
    document = queues_document(rows, index.facts)["queues"]
    assert [[user["gpus"] for user in row["users"]] for row in document] == [[], [], [2, 1]]


def test_without_the_pods_nobody_is_named_as_a_user() -> None:
    found = rows_of(busy(), "n1", unseen={"pods": "no permission to list"})
    assert {row.users for row in found.values()} == {None}


def test_only_the_first_gangs_are_named_and_all_are_counted() -> None:
    gangs = Gangs()
    for number in range(MOST_IN_FRONT + 2):
        gangs.add(f"g{number}", 8)
    row = rows_of(gangs, "n1")["a"]
    assert [gang.ref.name for gang in row.front] == ["g0", "g1", "g2"]
    assert (row.waiting, row.in_line) == (MOST_IN_FRONT + 2, MOST_IN_FRONT + 2)


def test_only_the_largest_users_of_a_queue_are_named() -> None:
    gangs = Gangs()
    for number in range(MOST_USERS + 2):
        gangs.add(f"g{number:02}", *[1] * (number + 1), nodes=["n1"] * (number + 1))
    users = rows_of(gangs, "n1")["a"].users or ()
    assert [user.workload.name for user in users] == [f"g{11 - n:02}" for n in range(10)]


def test_gangs_that_were_not_examined_have_no_next() -> None:
    index = busy().index(node("n1"))
    large = Ref("PodGroup", "ns", "large")
    known = {large: InLine(large, "a", 1, 2, 1, "never")}
    found = {row.name: row for row in queue_rows(index, known)}
    assert [gang.next for gang in found["a"].front] == ["never", None]
    assert "ns/small  not examined yet" in queues_text(list(found.values()), index.facts)


def test_queues_that_kai_does_not_use_say_why_and_still_count() -> None:
    gangs = Gangs()
    gangs.add("lost", 2, queue="nowhere")
    gangs.add("inner", 2, queue="root")
    gangs.add("cut-off", 2, queue="orphan")
    own = Queue("own", "own")
    found = rows_of(gangs, "n1", queues=(*QUEUES, Queue("orphan", "gone"), own))
    assert {name: row.unusable for name, row in found.items() if row.unusable} == {
        "nowhere": "does not exist",
        "root": "has child queues, and KAI places workloads only in queues without children",
        "orphan": "is below gone, which does not exist, so KAI does not use orphan",
        "own": "is below itself: KAI hangs, and places nothing at all",
    }
    counts = {name: (row.waiting, row.in_line) for name, row in found.items() if row.unusable}
    assert counts == {"nowhere": (1, 0), "root": (1, 0), "orphan": (1, 0), "own": (0, 0)}
    assert not found["nowhere"].exists


def test_a_queue_above_others_is_usable_if_no_gang_is_in_it() -> None:
    assert rows_of(busy(), "n1")["root"].unusable == ""


def test_queues_that_are_below_themselves_are_there_once() -> None:
    found = queue_rows(Gangs().index(node("n1"), queues=(Queue("a", "b"), Queue("b", "a"))))
    assert [(row.name, bool(row.unusable)) for row in found] == [("a", True), ("b", True)]


def test_each_node_pool_has_its_own_queues_and_nodes() -> None:
    gangs = Gangs()
    gangs.add("one", 8, queue="p1", pool="p")
    gangs.add("two", 8)
    pooled = node("n2", labels={NODE_POOL: "p"})
    found = queue_rows(gangs.index(node("n1"), pooled, queues=(*QUEUES, Queue("p1", pool="p"))))
    assert [(row.pool, row.name, row.fair) for row in found] == [
        ("", "root", 8000),
        ("", "a", 8000),
        ("", "b", 0),
        ("p", "p1", 8000),
    ]


def test_bounds_that_are_not_set_are_0_and_named() -> None:
    cpu = Share(quota=None, limit=0, unset=("limit",))
    empty = Queue("a", "root", quota=0, limit=0, unset=("quota", "limit"), cpu=cpu)
    index = Gangs().index(node("n1"), queues=(Queue("root"), empty))
    found = queue_rows(index)
    assert found[1].unset == ("quota of GPUs", "limit of GPUs", "limit of CPUs")
    text = queues_text(found, index.facts)
    assert "! queue a has no quota of GPUs and no limit of GPUs and no limit of CPUs, which" in text
    assert queues_exit_code(found, index) == 1


@pytest.mark.parametrize("kind", ["pods", "nodes", "pod_groups", ROOM])
def test_what_may_not_be_read_is_not_known_and_never_zero(kind: str) -> None:
    index = busy().index(
        node("n1"), unseen={kind: "no permission to list"}, **{kind: ()} if kind != ROOM else {}
    )
    found = queue_rows(index)
    assert {amount for row in found for amount in row.amounts} == {None}
    assert {row.in_line for row in found} == {None}
    assert (found[0].waiting is None) == (kind != "nodes")
    assert queues_exit_code(found, index) == 2
    document = queues_document(found, index.facts)
    assert {queue["used"] for queue in document["queues"]} == {None}
    text = queues_text(found, index.facts)
    assert "unlimited  unlimited  ?     ?      ?" in text
    assert "could not read: " in text


def test_what_kai_evicts_for_nobody_is_not_known_without_priorities() -> None:
    unseen = {"priorities": "no permission to list"}
    found = rows_of(busy(), "n1", priorities=(), unseen=unseen)
    assert (found["root"].used, found["root"].fixed) == (3000, None)


def test_gpus_of_claims_that_may_not_be_read_are_not_known() -> None:
    gangs = Gangs()
    claimed = {"claims": (PodClaim("gpu", claim="mine"),)}
    gangs.add("claims", 0, nodes=("n1",), pod=claimed)
    assert rows_of(gangs, "n1")["a"].used == 0
    assert rows_of(gangs, "n1", unseen={"claims": "no permission to list"})["a"].used is None


@pytest.mark.parametrize(
    ("more", "headline", "code"),
    [
        (
            {"unseen": {"queues": "no permission to list"}},
            "could not read queues: no permission to list",
            2,
        ),
        (
            {"skipped": frozenset({"queues"})},
            "there are no Queues in these files",
            2,
        ),
        ({"absent": frozenset({"queues"})}, "KAI is not installed", 0),
        ({}, "KAI has no queues", 0),
        ({"queues": QUEUES}, "3 queues; 0 pending gangs", 0),
    ],
)
def test_the_headline_tells_nothing_from_not_known(
    more: dict[str, Any], headline: str, code: int
) -> None:
    index = Gangs().index(node("n1"), **{"queues": (), **more})
    found = queue_rows(index)
    assert queues_headline(found, index.facts) == headline
    assert queues_exit_code(found, index) == code


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_keeps_to_the_width(width: int) -> None:
    index = busy().index(node("n1"), queues=(*QUEUES, Queue("gpu", quota=8000, limit=16000)))
    lines = queues_text(queue_rows(index), index.facts, width).splitlines()
    assert [line for line in lines[1:-1] if len(line) > width] == []
    assert lines[0] == "4 queues; 3 pending gangs"


def test_a_workload_with_two_podgroups_on_a_node_is_one_user_of_it() -> None:
    gangs = Gangs()
    gangs.add("one", 2, nodes=("n1",))
    gangs.add("two", 3, nodes=("n1",))
    index = gangs.index(node("n1"))
    owner = Ref("Job", "ns", "sweep")
    pods = tuple(replace(pod, controller=owner) for pod in index.facts.pods)
    (user,) = gpu_users(Index(replace(index.facts, pods=pods)))
    assert (user.workload, user.gpus, user.pods, user.nodes) == (owner, 5000, 2, 1)


def test_users_with_claims_and_parts_of_gpus_follow_a_change() -> None:
    """Only what depends on the pods of a node alone is kept."""
    gangs = Gangs()
    gangs.add("whole", 2, nodes=("n1",))
    index = gangs.index(node("n1"))
    assert [user.gpus for user in gpu_users(index)] == [2000]
    (pod,) = index.facts.pods
    index.follow(replace(index.facts, pods=(replace(pod, phase="Succeeded"),)))
    assert gpu_users(index) == []
    index.follow(replace(index.facts, pods=(replace(pod, background=True),)))
    assert gpu_users(index) == []


def test_a_pod_that_any_pod_may_evict_uses_no_part_of_a_gpu() -> None:
    gangs = Gangs()
    gangs.add("half", 1, nodes=("n1",))
    index = gangs.index(node("n1"))
    (pod,) = (
        replace(pod, shape=Shape(((GPU, 500),), part=GpuPart(500))) for pod in index.facts.pods
    )
    assert [user.gpus for user in gpu_users(Index(replace(index.facts, pods=(pod,))))] == [500]
    evicted = replace(pod, background=True)
    assert gpu_users(Index(replace(index.facts, pods=(evicted,)))) == []
