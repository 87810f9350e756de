"""The command lines of explain, on files."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.base.unusable import UnusableInput
from app.cli import main
from app.cluster.command_clients import how_to_renew
from app.commands.explain import reference, summary
from app.explain.output.text import text
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kubernetes.event import Event
from app.kube.api import Rejected
from tests.explain import fleet
from tests.explain.fleet import answer, facts, fill, pods
from tests.explain.objects import objects_of
from tests.explain.table.row import without
from tests.rendered import text_of

FULL: dict[str, Any] = {
    "pods": (
        *pods(),
        *fill("rack-a1", "rack-a2", "rack-b2"),
        *fill("rack-b1", but=("gpu-08", "gpu-09")),
    ),
    "nodes": without(fleet.RACK, "gpu-13"),
}


def written(folder: Path, snapshot: Snapshot, name: str = "cluster.yaml") -> str:
    path = folder / name
    path.write_text(text_of(objects_of(snapshot)))
    return str(path)


NO_OBJECTS = {
    "a.json": '{"apiVersion": "v1", "items": [], "kind": "List"}',
    "z.yaml": "apiVersion: v1\nitems: []\nkind: List\n",
    "zz.yaml": "# nothing\n",
}
"""What kubectl prints if there is none of a kind, and a comment."""


@pytest.mark.parametrize("name", NO_OBJECTS)
def test_a_kind_of_which_there_is_none_is_passed_over(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / name
    empty.write_text(NO_OBJECTS[name])
    missing = f"{empty}: no document found\n"
    assert main(["explain", "llm", "--offline", str(empty)]) == 2
    assert capsys.readouterr().err == missing
    assert main(["check", str(empty)]) == 2
    assert capsys.readouterr().err == missing

    written(tmp_path, facts(**FULL))
    assert main(["explain", "llm", "--offline", str(tmp_path)]) == 1
    assert main(["check", str(tmp_path)]) == 0
    empty.write_text("")
    assert main(["explain", "llm", "--offline", str(tmp_path)]) == 2
    assert main(["check", str(tmp_path)]) == 2


@pytest.mark.untraced
def test_reasons_are_1_and_have_numbers_and_remedies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "llm", "--offline", written(tmp_path, facts(**FULL))]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("llm is pending: 0 of 4 pods placed")
    assert printed[1:6] == [
        "  1  No rack has room for 3 pods of 8 GPUs; zone-b/rack-b1 has room for 2.                NoDomainFits",
        "     fix: Wait until PodGroup research/batch-eval (2 pods) ends and room for 1 more pod is free in zone-b/rack-b1. If it runs indefinitely, ask its owner to stop it",
        "  2  Node gpu-13 (8 GPUs) lacks the label example.com/rack, so KAI ignores it for every gang with a constraint.  LevelLabelMissing",
        "     fix: Label the node (platform team)",
        "          kubectl label node gpu-13 example.com/rack=rack-b2",
    ]
    assert printed[6:] == [
        "PodCliqueSet llm              zone required   -                                       0/4  pending",
        "└─ PodGang llm-0              zone required   -                                       0/4  pending, all or none",
        "   ├─ PodClique …-router      -               -                                       0/1  pending with its gang",
        "   ├─ replica llm-0-pool-0    rack required   2 of 3 in zone-b/rack-b1                0/3  reason 1",
        "   │  └─ PodClique …-workers  rack (replica)  -                                       0/3  3 x 8 GPUs",
        "   └─ PodGroup llm-0          zone required   needs 4 pods",
        "      └─ Queue team-llm       24 GPUs         root/team-llm: unlimited quota, used 0       has room",
        "not checked: PodsNotCreated, NodesComing, LowerPriority, QueueQuota, QueueStatusStale, AfterOthers, FairShare, WithinQuota,"
        " NoNodeGroupHelps, KubeletRefuses, BindingFailed, GangEvicted and PlacementLost",
        "missing from the files: events and PriorityClasses, which some reasons need. Add these objects, or use a file written with --record",
    ]


def test_a_placed_gang_is_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = facts(pods=fleet.placed("gpu-00", "gpu-00", "gpu-01", "gpu-02"))
    assert (
        main(["explain", "podgang/llm-0", "--all", "--offline", written(tmp_path, snapshot)]) == 0
    )
    printed = capsys.readouterr().out
    assert printed.startswith("llm-0 is placed as requested: 4 of 4 pods placed\n")
    assert "PodGang llm-0 *" in printed
    assert "Pod …-0" in printed


@pytest.mark.untraced
def test_json_is_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, facts(**FULL))
    assert (
        main(["explain", "pcs/llm", "-n", fleet.NAMESPACE, "--output", "json", "--offline", path])
        == 1
    )
    document = json.loads(capsys.readouterr().out)
    assert (document["state"], document["placed"], document["total"]) == ("waits", 0, 4)
    assert [reason["id"] for reason in document["reasons"]] == ["NoDomainFits", "LevelLabelMissing"]
    assert document["reasons"][0]["parts"] == ["llm-0-pool-0"]
    assert document["room"][0] == {"domain": ["zone-b", "rack-b1"], "pods": 2}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("pod/none", "Pod none not found in namespace default\n"),
        (
            "daemonset/web",
            "'daemonset/web' can't be explained: name one of its Pods, or omit the name to list all pending workloads. KIND is one of ComputeDomain, Deployment, DisaggregatedSet, DynamoGraphDeployment, JAXJob, Job, ",
        ),
        (
            "queue/team-a",
            "'queue/team-a' can't be explained: name a workload in the queue, or use grove-admission queues. KIND is one of ",
        ),
        (
            "pods/",
            "'pods/' has no name: give KIND/NAME, KIND NAME, or the name of a PodCliqueSet; KIND is one of ComputeDomain",
        ),
    ],
)
def test_what_is_not_there_is_2(
    asked: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", asked, "--offline", written(tmp_path, facts())]) == 2
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.parametrize(
    ("message", "source", "said"),
    [
        (
            "Pod team-x/notebook was preempted by workload team-y/pg-b. team-x uses <GPU: 8>.",
            "kai-scheduler",
            "KAI evicted it: Pod team-x/notebook was preempted by workload team-y/pg-b",
        ),
        (
            "Workload doesn't meet the minimum required number of pods (2), evicting remaining pod:"
            " team-x/notebook",
            "kai-scheduler",
            "KAI evicted it: Workload doesn't meet the minimum required number of pods (2)",
        ),
        ("Pod team-x/notebook-2 was preempted by workload a/b.", "kai-scheduler", ""),
        ("Pod team-x/notebook was preempted by workload a/b.", "somebody", ""),
    ],
    ids=["for another workload", "with its gang", "another pod", "somebody says so"],
)
def test_an_evicted_pod_is_gone(
    message: str, source: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing creates a bare pod again, and its PodGroup is gone with it."""
    event = Event("uid-gone", "Evict", message, fleet.NOW - 600, source, namespace="team-x")
    path = written(tmp_path, facts(events=(event,)))
    assert main(["explain", "pod/notebook", "-n", "team-x", "--offline", path]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("Pod notebook not found in namespace team-x\n" + said)
    assert ("KAI evicted it" in printed) is bool(said)


def test_kinds_have_kubectls_names() -> None:
    assert (
        reference("po/a", "n")
        == reference("pods/a", "n")
        == reference("Pod/a", "n")
        == Ref("Pod", "n", "a")
    )
    assert reference("podgangs.scheduler.grove.io/g", "n") == Ref("PodGang", "n", "g")
    assert reference("llm", "n") == reference("pcs/llm", "n") == Ref("PodCliqueSet", "n", "llm")
    for version in ("v1alpha1", "v1beta1", "v9"):
        named = f"podcliquesets.{version}.grove.io/llm"
        assert reference(named, "n") == reference("pcs/llm", "n")
    with pytest.raises(UnusableInput):
        reference("node/a", "n")
    assert reference("lws/vllm", "n") == Ref("LeaderWorkerSet", "n", "vllm")
    assert reference("leaderworkersets.leaderworkerset.x-k8s.io/vllm", "n").name == "vllm"
    assert reference("jobs/a", "n") == reference("job/a", "n") == Ref("Job", "n", "a")
    assert reference("deploy/a", "n") == Ref("Deployment", "n", "a")


def test_a_cluster_that_does_not_answer_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "none")
    assert main(["explain", "llm", "--kubeconfig", missing]) == 2
    assert "can't explain: no credentials" in capsys.readouterr().err
    assert main(["topology", "--kubeconfig", missing]) == 2
    assert "can't read the topology: no credentials" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["explain", "topology", "audit", "doctor"])
def test_a_server_that_does_not_answer_is_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    assert main([command, "--kubeconfig", str(tmp_path / "config")]) == 2
    (failure,) = capsys.readouterr().err.splitlines()
    assert failure.endswith(": https://127.0.0.1:1: Connection refused")


def test_the_line_of_watch_has_what_does_not_change_by_itself() -> None:
    assert (
        summary(answer(facts(**FULL)))
        == "llm: waits, 0 of 4 placed: NoDomainFits, LevelLabelMissing"
    )


@pytest.mark.untraced
def test_colours_are_for_terminals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answered = answer(facts(**FULL))
    plain = text(answered).splitlines()
    coloured = text(answered, colour=True).splitlines()
    assert coloured[0] == f"\x1b[33m{plain[0]}\x1b[0m"
    assert [re.sub("\x1b\\[\\d+m", "", line) for line in coloured] == plain
    assert coloured[7].endswith("0/4  \x1b[33mpending\x1b[0m")
    main(["explain", "llm", "--offline", written(tmp_path, facts(**FULL))])
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("command", [["explain", "llm"], ["topology"]])
def test_credentials_that_fail_name_the_command_that_renews_them(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config"
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "false",
            "args": ["login"],
        }
    }
    document = {
        "current-context": "a",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    assert main([*command, "--kubeconfig", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "renew your credentials: false login"


def test_only_rejected_credentials_are_to_be_renewed(tmp_path: Path) -> None:
    path = tmp_path / "config"
    user = {"name": "u", "user": {"exec": {"command": "tsh", "args": ["kube", "credentials"]}}}
    context = {"name": "a", "context": {"user": "u"}}
    path.write_text(
        yaml.safe_dump({"current-context": "a", "contexts": [context], "users": [user]})
    )
    assert how_to_renew(Rejected("not accepted", code=401), path, None) == "tsh login"
    assert how_to_renew(Rejected("no right", code=403), path, None) == ""
