"""The schemas of what commands print as JSON: they say what is printed, and readers can rely on them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from app.audit.finding import Finding, Tally
from app.cli import main
from app.commands.schema import SCHEMAS, schema_of
from app.doctor.report import document as doctor_document
from app.doctor.report import ok, problem
from app.explain.answers.answer import explain
from app.explain.answers.pending import rows, workloads
from app.explain.answers.queues import queue_rows
from app.explain.answers.topology import domain_reports, survey
from app.explain.output.json import document, survey_document
from app.explain.output.queues_text import queues_document
from app.explain.output.waiting_text import list_document
from app.explain.state.index import Index
from app.explain.state.levels import topology_of
from tests.commands.test_explain import written
from tests.commands.test_trial import logged, report
from tests.explain.fleet import SET_REF, facts, fill, nodes, placed, pods
from tests.explain.table.row import Row
from tests.explain.test_grove_states import STATES, index_of
from tests.explain.test_reasons import CASES, start
from tests.rendered import text_of

FORMER = Path(__file__).parents[1] / "testdata" / "schemas"
EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"


def strict(schema: Any) -> Any:
    """The schema, which allows no field that it does not name."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return {**closed, **{key: strict(value) for key, value in schema.items()}}


VALIDATORS = {name: Draft202012Validator(strict(schema_of(name))) for name in SCHEMAS}


def problems(name: str, printed: Any) -> list[str]:
    """What a schema doesn't allow in what was printed, as JSON has it."""
    as_read = json.loads(json.dumps(printed))
    return [
        f"{error.json_path}: {error.message}" for error in VALIDATORS[name].iter_errors(as_read)
    ]


def of_index(index: Index) -> Iterator[tuple[str, Any]]:
    """Everything that explain and topology print of one state of a cluster."""
    refs = workloads(index)
    answers = (explain(index, ref) for ref in [*refs, SET_REF])
    yield from (("explain", document(answer)) for answer in answers if answer)
    yield "explain-list", list_document(rows(index, refs), index.facts)
    yield "queues", queues_document(queue_rows(index), index.facts)
    reports = domain_reports(topology_of(index), 1)
    yield "topology", survey_document(survey(index), index.facts, reports)


@pytest.mark.untraced
@pytest.mark.parametrize(("row", "dialect"), CASES)
def test_answers_about_each_reason_are_as_described(row: Row, dialect: str) -> None:
    index = Index(facts(**{**start(dialect), **row.hit}))
    found = [problem for name, printed in of_index(index) for problem in problems(name, printed)]
    assert found == []


@pytest.mark.parametrize("state", STATES)
def test_answers_about_each_recorded_state_are_as_described(state: str) -> None:
    printed = list(of_index(index_of(state)))
    assert [problem for name, each in printed for problem in problems(name, each)] == []


def printed_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    main([*arguments, "-o", "json"])
    return json.loads(capsys.readouterr().out)


def test_commands_print_what_is_described(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, facts(pods=(*pods(), *fill("rack-a1", "rack-b2"))))
    room = ("topology", "--room", "30x8", "--in", "rack", "--offline", path)
    assert problems("topology", printed_by(capsys, *room)) == []

    levels = tmp_path / "levels.yaml"
    spec = {"levels": [{"domain": "zone", "key": "topology.kubernetes.io/zone"}]}
    topology = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "grove-topology"},
        "spec": spec,
    }
    levels.write_text(text_of([topology]))
    preview = printed_by(capsys, "topology", "--levels", str(levels), "--offline", path)
    assert preview["preview"]["effects"]
    assert problems("topology", preview) == []

    running = facts(pods=placed("gpu-00", "gpu-00", "gpu-01", "gpu-02"), nodes=nodes()[:4])
    drained = printed_by(
        capsys, "topology", "--if", "drain gpu-00", "--offline", written(tmp_path, running)
    )
    assert drained["moves"]
    assert problems("topology-if", drained) == []

    refused = printed_by(capsys, "check", str(EXAMPLES / "podgroup-refused.yaml"))
    assert refused["results"][0]["causes"]
    assert problems("check", refused) == []

    job = tmp_path / "job.yaml"
    job.write_text(text_of([{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}]))
    unjudged = printed_by(capsys, "check", str(job))
    assert unjudged["results"][0]["note"]
    assert problems("check", unjudged) == []


async def test_reports_are_what_is_described(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = Finding("PodGroup", "ns", "a", 422, ("spec.subGroups: wrong",), "rename it")
    tally = Tally(unread={"nodes": "no right"}, absent=["podgroups"], notes=["a note"])
    tally.add(finding)
    examined = {"webhooks": [ok("well"), problem("no CA", "run certs")]}
    assert problems("audit", finding.json()) == []
    assert problems("audit-summary", {"summary": tally.json()}) == []
    assert problems("doctor", doctor_document(examined)) == []

    log = tmp_path / "a.log"
    log.write_bytes(await logged("podgroup.mixed-case-name", "podgroup.valid"))
    assert report(str(log), "--output", "json") == 1
    trial = json.loads(capsys.readouterr().out)
    assert trial["findings"]
    assert problems("trial", trial) == []


def test_fields_that_are_not_described_are_found() -> None:
    printed = {**Finding("PodGroup", "ns", "a", 422, (), "").json(), "more": 1}
    assert problems("audit", printed) == [
        "$: Additional properties are not allowed ('more' was unexpected)"
    ]


def lost(former: Any, now: Any, where: str = "$") -> Iterator[str]:
    """What readers of a former schema may miss in the present one."""
    if not isinstance(former, dict):
        if former != now:
            yield where
        return

    for key, value in former.items():
        at = f"{where}.{key}"
        if key in ("enum", "required") and isinstance(now.get(key), list):
            yield from (f"{at}: {item}" for item in value if item not in now[key])
        elif not isinstance(now, dict) or key not in now:
            yield at
        else:
            yield from lost(value, now[key], at)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_change_that_breaks_readers_has_a_new_version(name: str) -> None:
    former = json.loads((FORMER / f"{name}.json").read_text())
    now = json.loads(json.dumps(schema_of(name)))
    if former["version"] == now["version"]:
        assert list(lost(former, now)) == []
    else:
        assert now["version"] == former["version"] + 1
        assert list(lost({**former, "version": now["version"]}, now)) != []


def test_a_field_that_goes_is_a_loss_and_one_that_comes_is_not() -> None:
    schema = json.loads(json.dumps(schema_of("audit")))
    more = json.loads(json.dumps(schema))
    more["$defs"]["AuditedObject"]["properties"]["more"] = {"type": "string"}
    assert list(lost(schema, more)) == []
    assert list(lost(more, schema)) == ["$.$defs.AuditedObject.properties.more"]
