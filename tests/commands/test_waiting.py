"""`explain` without a name: what waits, as people and programs get it."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from app.cli import main
from app.explain.answers.answer import explain
from app.explain.answers.pending import WorkloadRow, rows, workloads
from app.explain.answers.queues import queue_rows
from app.explain.output.queues_text import queues_text
from app.explain.output.rights import VIEWER
from app.explain.output.text import text
from app.explain.output.waiting_text import exit_code, list_document, list_text
from app.explain.reasons.reason import short
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.grove.podcliqueset import SetWithStatus
from app.facts.identity import Place, Ref
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.shard import Shard
from app.facts.kubernetes.pod import Pod
from tests.commands.test_explain import FULL, written
from tests.explain import fleet
from tests.explain.fleet import NOW, facts
from tests.explain.table.row import without

pytestmark = pytest.mark.untraced

REASON = "No rack has room for 3 pods of 8 GPUs; zone-b/rack-b1 has room for 2 (and 1 more)"


def listed(snapshot: Snapshot, *namespaces: str) -> list[WorkloadRow]:
    index = Index(snapshot)
    return rows(index, workloads(index, namespaces))


def lines(snapshot: Snapshot, width: int = 0, namespace: str = "") -> list[str]:
    return list_text(
        listed(snapshot), snapshot, namespace, width=width, everything=False
    ).splitlines()


def pending(name: str, namespace: str = "research", age: float = 60.0) -> tuple[KaiPodGroup, Pod]:
    """A PodGroup of KAI that no PodGang owns, with one pod that waits for a missing queue."""
    group = KaiPodGroup(namespace, name, uid=f"uid-{name}", queue="absent", created=NOW - age)
    pod = Pod(
        namespace,
        f"{name}-0",
        uid=f"uid-{name}-0",
        place=Place(),
        scheduler="kai-scheduler",
        shape=fleet.shape(1),
        group=name,
        created=NOW - age,
    )
    return group, pod


def several() -> Snapshot:
    """One set that waits, one that is placed, and two jobs that wait, one of them for longer."""
    old, old_pod = pending("old", age=7200.0)
    new, new_pod = pending("new")
    full = facts(**FULL)
    return replace(
        full,
        pod_groups=(*full.pod_groups, new, old),
        pods=(*full.pods, new_pod, old_pod),
    )


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            140,
            [
                "1 of 1 workload in all namespaces is pending",
                "NAMESPACE  OBJECT   SINCE  PLACED  STATE    NEXT   WHO   FIRST REASON",
                f"inference  pcs/llm  14m    0/4     pending  waits  wait  {REASON}",
            ],
        ),
        (
            102,
            [
                "1 of 1 workload in all namespaces is pending",
                "NAMESPACE  OBJECT   SINCE  PLACED  STATE    NEXT   WHO   FIRST REASON",
                "inference  pcs/llm  14m    0/4     pending  waits  wait  No rack has room for 3 pods of 8 GPUs;",
                "                                                         zone-b/rack-b1 has room for 2 (and 1 more)",
            ],
        ),
        (
            80,
            [
                "1 of 1 workload in all namespaces is pending",
                "NAMESPACE  OBJECT   SINCE  PLACED  STATE    NEXT   WHO",
                "inference  pcs/llm  14m    0/4     pending  waits  wait",
                "  No rack has room for 3 pods of 8 GPUs; zone-b/rack-b1 has room for 2 (and 1",
                "  more)",
            ],
        ),
        (
            60,
            [
                "1 of 1 workload in all namespaces is pending",
                "NAMESPACE  OBJECT   SINCE  PLACED  STATE    NEXT   WHO",
                "inference  pcs/llm  14m    0/4     pending  waits  wait",
                "  No rack has room for 3 pods of 8 GPUs; zone-b/rack-b1 has",
                "  room for 2 (and 1 more)",
            ],
        ),
    ],
)
def test_the_table_fits_the_terminal(width: int, expected: list[str]) -> None:
    assert lines(facts(**FULL), width) == expected


def equals(*, placed: int) -> Snapshot:
    """Three equal gangs of one pod that fill a node each, and so many nodes."""
    groups = [pending(f"job-{number}", age=100.0 - number) for number in range(3)]
    nodes = tuple(node for node in facts().nodes[:placed])
    return replace(
        facts(nodes=nodes, pods=(), sets=(), gangs=(), cliques=()),
        pod_groups=tuple(replace(group, queue="research") for group, _ in groups),
        pods=tuple(replace(pod, shape=fleet.shape(8)) for _, pod in groups),
    )


def test_what_waits_is_in_the_order_of_the_line_and_says_what_is_next() -> None:
    found = [(row.ref.name, row.turn and row.turn.next, row.id) for row in listed(equals(placed=1))]
    assert found == [
        ("job-0", "next", "KaiSilent"),
        ("job-1", "after", "AfterOthers"),
        ("job-2", "after", "AfterOthers"),
    ]


def test_a_reason_that_several_have_is_told_once() -> None:
    *_, first, second = lines(equals(placed=1))
    assert first.endswith(
        "The gang would fit by itself, but not after the gangs ahead of it: job-0 takes"
        " zone-a/rack-a1 (the same for 1 other workload)"
    )
    assert second.split()[-5:] == ["wait", "same", "reason", "as", "job-1"]


def test_what_is_alike_in_another_namespace_is_named_with_it() -> None:
    (group, pod), (other, its) = pending("llm", age=90), pending("llm", "test")
    *_, last = lines(Snapshot(pod_groups=(group, other), pods=(pod, its), now=NOW))
    assert last.endswith("as research/llm")


def test_the_document_has_the_place_in_the_line() -> None:
    snapshot = equals(placed=2)
    rows = list_document(listed(snapshot), snapshot)["workloads"]
    assert [row["line"]["next"] for row in rows] == ["next", "next", "after"]
    assert rows[1]["line"] == {
        "object": {"kind": "PodGroup", "namespace": "research", "name": "job-1"},
        "queue": "research",
        "number": 2,
        "count": 3,
        "order": 2,
        "next": "next",
        "where": ("zone-a/rack-a1",),
        "first": True,
        "mayDiffer": (),
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {},
            "position 1 of 3 in queue research; by KAI's order, it is next in zone-a/rack-a1",
        ),
        (
            {"pods": fleet.fill("rack-a1")},
            "position 1 of 3 in queue research; KAI can't place it right now",
        ),
    ],
)
def test_explain_says_the_place_in_the_line(changes: dict[str, Any], expected: str) -> None:
    snapshot = equals(placed=1)
    snapshot = replace(snapshot, pods=(*snapshot.pods, *changes.get("pods", ())))
    answer = explain(Index(snapshot), Ref("PodGroup", "research", "job-0"))
    assert answer is not None
    assert f"  P{expected[1:]}" in text(answer).splitlines()


@pytest.mark.parametrize(
    ("shard", "words"),
    [
        (Shard("default", sets=("plugins (fifo)",)), "SchedulingShard default with plugins (fifo)"),
        (
            Shard("default", sets=("plugins (fifo)", "minRuntime (preemptMinRuntime)")),
            "SchedulingShard default with plugins (fifo) and minRuntime (preemptMinRuntime)",
        ),
        (Shard("default"), ""),
        (Shard("other", pool="b", sets=("plugins (fifo)",)), ""),
    ],
)
def test_a_shard_with_settings_of_its_own_is_named_beside_its_line(
    shard: Shard, words: str
) -> None:
    index = Index(replace(equals(placed=1), shards=(shard,)))
    answer = explain(index, Ref("PodGroup", "research", "job-0"))
    assert answer is not None
    unless = f", unless {words} changes that" if words else ""
    place = (
        f"position 1 of 3 in queue research; by KAI's order, it is next in zone-a/rack-a1{unless}"
    )
    assert f"  P{place[1:]}" in text(answer).splitlines()

    shown = queues_text(queue_rows(index), index.facts)
    assert ("KAI may order these gangs differently: " in shown) is bool(words)
    assert words in shown


def test_no_order_places_what_is_larger_than_the_cluster() -> None:
    snapshot = equals(placed=1)
    large = tuple(replace(pod, shape=fleet.shape(16)) for pod in snapshot.pods)
    shard = Shard("default", sets=("plugins (fifo)",))
    index = Index(replace(snapshot, pods=large, shards=(shard,)))
    answer = explain(index, Ref("PodGroup", "research", "job-1"))
    assert answer is not None
    (own,) = answer.line
    assert (own.next, "unless" in own.words) == ("never", False)


def test_what_is_larger_than_the_cluster_is_never_placed() -> None:
    snapshot = equals(placed=1)
    large = tuple(replace(pod, shape=fleet.shape(16)) for pod in snapshot.pods)
    found = listed(replace(snapshot, pods=large))
    assert [row.turn and row.turn.next for row in found] == ["never"] * 3


def test_without_a_terminal_no_reason_is_cut() -> None:
    assert lines(facts(**FULL))[-1].endswith(REASON)


def test_the_line_is_first_and_then_what_waits_longest() -> None:
    snapshot = several()
    assert [(row.ref.name, row.state, row.id, row.who) for row in listed(snapshot)] == [
        ("llm", "waits", "NoDomainFits", "wait"),
        ("old", "waits", "QueueMissing", "you"),
        ("new", "waits", "QueueMissing", "you"),
    ]
    assert [row.ref.name for row in listed(snapshot, fleet.NAMESPACE)] == ["llm"]


def test_a_pod_group_of_a_gang_or_of_pods_that_ended_is_no_workload_of_its_own() -> None:
    group, pod = pending("done")
    ended = replace(pod, phase="Succeeded")
    snapshot = replace(
        facts(), pod_groups=(*facts().pod_groups, group), pods=(*facts().pods, ended)
    )
    assert [row.ref.name for row in listed(snapshot)] == ["llm"]


def test_what_is_placed_is_only_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, facts(pods=fleet.placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")))
    assert main(["explain", "--offline", path]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "no workload is pending in any namespace: 1 workload placed",
        "1 more workload is placed as requested (use --all to list everything)",
    ]
    assert main(["explain", "--all", "--offline", path]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == [
        "inference", "pcs/llm", "0s", "4/4", "placed", "-", "-",
    ]  # fmt: skip


def test_json_is_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, facts(**FULL))
    assert main(["explain", "-o", "json", "--offline", path]) == 1
    document = json.loads(capsys.readouterr().out)
    (row,) = document["workloads"]
    assert row.pop("ageSeconds") >= 0
    assert row["reason"].pop("remedy").startswith("Wait until PodGroup research/")
    assert row == {
        "object": {"kind": "PodCliqueSet", "namespace": "inference", "name": "llm"},
        "state": "waits",
        "placed": 0,
        "total": 4,
        "reason": {
            "id": "NoDomainFits",
            "text": REASON.removesuffix(" (and 1 more)"),
            "who": "wait",
            "commands": [],
        },
        "more": 1,
        "line": None,
    }
    assert document["totals"] == {
        "workloads": 1,
        "states": {"waits": 1},
        "reasons": {"NoDomainFits": 1},
        "otherPendingPods": 0,
    }


def test_an_empty_list_says_where_it_looked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, facts())
    assert main(["explain", "-n", "other", "--offline", path]) == 0
    looked = "there are no workloads in namespace other. Use -A to list all namespaces\n"
    assert capsys.readouterr().out == looked


def test_files_without_workloads_are_not_a_cluster_without_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, replace(Snapshot(), nodes=facts().nodes))
    assert main(["explain", "--offline", path]) == 2
    assert main(["explain", "llm", "--offline", path]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == (
        "there are no PodCliqueSets and no pods in these files\n",
        "there is no PodCliqueSet in these files\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--offline", "FILE", "llm"],
            "llm: there is no such file; the name of an object must precede --offline",
        ),
        (
            ["llm", "--offline", "nowhere.json"],
            "nowhere.json: can't be read: No such file or directory",
        ),
    ],
)
def test_the_name_of_an_object_is_not_taken_for_a_file(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, facts())
    with_path = [path if word == "FILE" else word for word in arguments]
    assert main(["explain", *with_path]) == 2
    assert capsys.readouterr().err == f"{message}\n"


def test_a_note_is_not_why_something_waits() -> None:
    """A node lacks a label, and the gang has a place without it: nothing is known that keeps it."""
    new = fleet.pods(created=fleet.NOW - 30)
    snapshot = facts(nodes=without(fleet.RACK, "gpu-13"), pods=new)
    answer = explain(Index(snapshot), fleet.SET_REF)
    assert answer is not None
    (row,) = listed(snapshot)
    assert [(reason.id, reason.severity) for reason in answer.reasons] == [
        ("LevelLabelMissing", "note")
    ]
    assert (answer.state, row.reason, row.who, row.more) == (
        "waits",
        "nothing blocks it now: KAI should place it next",
        "",
        0,
    )
    assert "  Nothing blocks it now; KAI should place it in its next cycle" in text(answer)


def test_what_was_not_examined_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without nodes, no reason is found for what waits, and the exit code is not that of reasons."""
    snapshot = replace(facts(), nodes=(), queues=(), kai_topologies=())
    assert main(["explain", "--offline", written(tmp_path, snapshot)]) == 2
    assert capsys.readouterr().out.splitlines()[-1].endswith("room was not examined")


@pytest.mark.parametrize(
    ("unseen", "first", "code"),
    [
        (
            {"sets": "no permission to list"},
            "PodCliqueSets in namespace inference could not be read",
            2,
        ),
        (
            {"pods": "no permission to list"},
            "the state of 1 of 1 workload in namespace inference is not known",
            2,
        ),
    ],
)
def test_what_may_not_be_read_is_not_nothing(unseen: dict[str, str], first: str, code: int) -> None:
    snapshot = replace(facts(), unseen=unseen, pods=())
    snapshot = replace(snapshot, sets=()) if "sets" in unseen else snapshot
    workload_rows = listed(snapshot)
    text = list_text(workload_rows, snapshot, "inference", everything=False, width=0).splitlines()
    assert (text[0], exit_code(workload_rows, snapshot)) == (first, code)
    assert (
        text[-1]
        == f"Ask an admin of namespace inference for permission to read its objects (USER is your user name): kubectl -n inference create rolebinding USER-view --clusterrole={VIEWER} --user=USER"
    )


def test_names_of_others_are_shown_as_they_are_stored() -> None:
    hostile = SetWithStatus("inference", "a\x1b[2Jb", created=NOW)
    snapshot = replace(facts(), sets=(hostile,), gangs=(), cliques=(), pods=())
    text = list_text(listed(snapshot), snapshot, "", everything=True, width=0)
    assert "\x1b" not in text
    assert "pcs/a\\x1b[2Jb" in text


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(-1, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172_800, "2d")],
)
def test_ages_are_short(seconds: float, expected: str) -> None:
    assert short(seconds) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-A", "llm"], "--all-namespaces lists pending workloads and takes no name"),
        (["--watch"], "--watch needs the name of a workload"),
        (
            ["pod", "a", "b"],
            "'pod a b' does not name exactly one object: give KIND/NAME, KIND NAME",
        ),
        (["pod/a", "b"], "'pod/a b' does not name exactly one object: give KIND/NAME, KIND NAME"),
        (["pods"], "'pods' has no name: give KIND/NAME, KIND NAME"),
    ],
)
def test_unusable_input_is_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *arguments]) == 2
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.parametrize("form", [["podcliqueset", "llm"], ["pcs/llm"], ["llm"]])
def test_an_object_is_named_as_for_kubectl(
    form: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *form, "--offline", written(tmp_path, facts(**FULL))]) == 1
    assert capsys.readouterr().out.startswith("llm is pending: 0 of 4 pods placed")


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        (["llm", "-n", "research"], "the name exists in namespace inference: add -n inference"),
        (["lmm", "-n", "inference"], "did you mean llm?"),
        (["lmm", "-n", "research"], "did you mean llm in namespace inference?"),
        (["other", "-n", "inference"], "namespace inference has llm"),
    ],
)
def test_what_was_meant_is_said(
    asked: list[str], hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *asked, "--offline", written(tmp_path, facts())]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        f"PodCliqueSet {asked[0]} not found in namespace {asked[2]}",
        hint,
    ]


def test_usage_errors_print_the_usage_of_their_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    usages: dict[str, Any] = {}
    for command in ("explain", "topology", "audit", "doctor", "check"):
        with pytest.raises(SystemExit) as ended:
            main([command, "--no-such-option", "x"])
        usages[command] = (ended.value.code, capsys.readouterr().err.split()[:3])
    assert usages == {name: (2, ["usage:", "grove-admission", name]) for name in usages}
