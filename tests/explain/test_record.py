"""Records of what was read: the same answer from a file, without what nobody should see."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from app import __version__
from app.base.record import record_of, recorded_facts
from app.cli import main
from app.commands.records import HAS_NAMES, KIND
from app.explain.answers.pending import rows, workloads
from app.explain.output.waiting_text import list_document
from app.explain.state.index import Index
from app.explain.state.read import facts_of
from app.explain.state.snapshot import Snapshot
from tests.explain.fleet import facts
from tests.explain.objects import objects_of
from tests.explain.table.row import Row
from tests.explain.test_grove_states import FOLDER, STATES
from tests.explain.test_reasons import CASES, start

OURS = f'{{"kind":"ExplainRecord","version":"{__version__}"'
NO_ROOM: dict[str, Any] = {
    "unseen": {"pods": "no permission to list"},
    "skipped": frozenset({"nodes"}),
}


def of_state(state: str) -> Snapshot:
    document = json.loads((FOLDER / f"{state}.json").read_text())
    return facts_of(document["items"], 1_800_000_000.0)


def listed(snapshot: Snapshot) -> dict[str, Any]:
    """The list of what waits, as the command prints it."""
    index = Index(snapshot)
    return list_document(rows(index, workloads(index, "")), snapshot)


@pytest.mark.parametrize(("row", "dialect"), CASES)
def test_the_facts_of_each_reason_are_read_back(row: Row, dialect: str) -> None:
    snapshot = facts(**{**start(dialect), **row.hit, **NO_ROOM})
    assert recorded_facts(Snapshot, record_of(KIND, snapshot)) == snapshot


@pytest.mark.parametrize("state", STATES)
def test_a_recorded_state_has_the_same_list(state: str) -> None:
    snapshot = of_state(state)
    assert listed(recorded_facts(Snapshot, record_of(KIND, snapshot))) == listed(snapshot)


def test_the_command_that_reads_a_record_is_printed_with_what_the_record_contains(
    tmp_path: Path, capsys: Any
) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "items": objects_of(facts())}))
    record = tmp_path / "a record"
    code = main(["explain", "llm", "--offline", str(cluster), "--record", str(record)])
    printed, said = capsys.readouterr()
    command, contains = said.splitlines()
    assert contains == HAS_NAMES

    assert main(shlex.split(command.removeprefix("repeat this answer: grove-admission "))) == code
    assert capsys.readouterr().out == printed


def test_a_record_gives_the_same_answer_to_the_byte(tmp_path: Path, capsys: Any) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "items": objects_of(facts())}))
    record = str(tmp_path / "record")
    for ask in (["llm"], []):
        main(["explain", *ask, "--all", "--offline", str(cluster), "--record", record])
        printed = capsys.readouterr().out
        main(["explain", *ask, "--all", "--offline", record])
        assert capsys.readouterr().out == printed

    main(["topology", "--offline", str(cluster)])
    printed = capsys.readouterr().out
    assert main(["topology", "--offline", record]) in (0, 1)
    assert capsys.readouterr().out == printed


SECRET = "do-not-tell"


def test_what_nobody_should_see_is_not_recorded() -> None:
    container = {
        "name": "c",
        "image": f"registry.example/{SECRET}",
        "command": [SECRET],
        "args": [f"--password={SECRET}"],
        "env": [
            {"name": "PASSWORD", "value": SECRET},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": SECRET, "key": SECRET}}},
        ],
        "envFrom": [{"secretRef": {"name": SECRET}}],
    }
    spec = {
        "containers": [container],
        "initContainers": [container],
        "imagePullSecrets": [{"name": SECRET}],
        "volumes": [{"name": "v", "secret": {"secretName": SECRET}}],
    }
    metadata = {
        "name": "a",
        "namespace": "b",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": SECRET, "x": SECRET},
        "labels": {"token": SECRET},
    }
    template = {"cliques": [{"name": "w", "spec": {"replicas": 1, "podSpec": spec}}]}
    documents = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"a": SECRET}},
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": metadata,
            "spec": {"replicas": 1, "template": template},
        },
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodClique",
            "metadata": metadata,
            "spec": {"podSpec": spec},
        },
    ]
    snapshot = facts_of(documents, 0.0)
    assert len(snapshot.pods) == len(snapshot.sets) == len(snapshot.cliques) == 1
    assert SECRET.encode() not in record_of(KIND, snapshot)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (OURS + "}", "missing required field"),
        ('{"kind":"ExplainRecord","version":"0.1.0"}', "grove-admission 0.1.0 wrote the record"),
        ('{"kind":"ExplainRecord","facts":{}}', "missing required field `version`\n"),
        (OURS + ',"facts":{"nodes":3}}', "nodes"),
        ('{"kind":"ExplainRecord","version":', "truncated"),
    ],
    ids=["nothing in it", "of another version", "of no version", "of another form", "damaged"],
)
def test_a_record_that_can_not_be_read_is_named(
    content: str, said: str, tmp_path: Path, capsys: Any
) -> None:
    record = tmp_path / "record"
    record.write_text(content)
    assert main(["explain", "llm", "--offline", str(record)]) == 2
    printed = capsys.readouterr().err
    assert f"{record}: this ExplainRecord can't be read" in printed
    assert said in printed


def test_options_of_records_that_can_not_be_followed(tmp_path: Path, capsys: Any) -> None:
    record = tmp_path / "record"
    record.write_bytes(record_of(KIND, facts()))
    assert main(["explain", "llm", "--offline", str(record), str(record)]) == 2
    assert "must be the only file" in capsys.readouterr().err
    missing = tmp_path / "missing" / "record"
    assert main(["explain", "llm", "--offline", str(record), "--record", str(missing)]) == 2
    assert "No such file or directory" in capsys.readouterr().err
