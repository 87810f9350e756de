"""Names and messages of others, with what rewrites a terminal in them, in everything that prints."""

import json
import logging
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from app.admission.review import encode
from app.admission.verdict import ALLOWED, judged, not_allowed
from app.audit.finding import Finding, Tally
from app.base.logs import ReadableFormatter
from app.cli import main
from app.commands.trial import Counts, Report, ReportedMessage
from app.doctor.report import Check, lines
from app.objects.fields import FieldError
from tests.console.objects import UNSEEN, hostile
from tests.explain import fleet
from tests.explain.objects import objects_of
from tests.explain.table.row import without
from tests.rendered import text_of

CODES = r"\u202egnp.exe\x1b[2J\x9b1m\x0d\x0a\u2028\u200b"
"""How UNSEEN is shown."""

NAME = f"llm-serve{UNSEEN}"
NAMESPACE = f"inference{UNSEEN}"


def assert_safe(printed: str) -> None:
    """Every line is seen as it is, and the hostile text is there by its codes."""
    assert [line for line in printed.split("\n") if not line.isprintable()] == []
    assert CODES in printed


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    objects = [obj for objects in hostile(UNSEEN).values() for obj in objects]
    path.write_text(text_of(objects))
    return str(path)


@pytest.mark.untraced
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["explain", f"pcs/{NAME}", "-n", NAMESPACE, "--offline"], id="explain"),
        pytest.param(["explain", f"pcs/{NAME}", "-n", NAMESPACE, "--all", "--offline"], id="all"),
        pytest.param(["explain", "-A", "--all", "--offline"], id="what waits"),
        pytest.param(["topology", "--offline"], id="topology"),
        pytest.param(["topology", "--all", "--room", "3x8", "--offline"], id="room"),
        pytest.param(["check"], id="check"),
    ],
)
def test_commands_print_codes(
    arguments: list[str], cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*arguments, cluster])
    assert_safe(capsys.readouterr().out)


@pytest.mark.untraced
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["explain", f"pcs/{NAME}", "-n", NAMESPACE, "--offline"], id="explain"),
        pytest.param(["topology", "--offline"], id="topology"),
        pytest.param(["check"], id="check"),
    ],
)
def test_json_is_exact_and_safe(
    arguments: list[str], cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*arguments, cluster, "--output", "json"])
    printed = capsys.readouterr().out
    assert [line for line in printed.split("\n") if not line.isprintable()] == []
    assert [text for text in _texts(json.loads(printed)) if UNSEEN in text]


def test_errors_print_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(f'a: "\u202e\n{CODES}: x: y')
    main(["check", str(path)])
    main(["explain", f"pcs/{NAME}", "--offline", str(path)])
    printed = capsys.readouterr().err
    assert printed.count("broken.yaml") == 2
    assert [line for line in printed.split("\n") if not line.isprintable()] == []


def test_audits_print_codes() -> None:
    finding = Finding("PodGroup", NAMESPACE, NAME, 422, (f"queue {UNSEEN}",), "remedy")
    tally = Tally(unread={"pods": f"denied {UNSEEN}"}, notes=[UNSEEN])
    assert_safe(finding.text())
    assert len(finding.text().split("\n")) == 3
    assert_safe(tally.summary())


def test_the_doctor_prints_codes() -> None:
    printed = list(lines({"topology": [Check("problem", f"level {UNSEEN}", f"correct {UNSEEN}")]}))
    assert_safe("\n".join(printed))
    assert len(printed) == 4


def test_reports_of_trials_print_codes() -> None:
    report = Report(events=1)
    report.places[UNSEEN, NAMESPACE] = Counts(judged=1)
    finding = ReportedMessage("PodCliqueSet", f"no {UNSEEN}")
    report.findings[finding] += 1
    report.examples[finding] = f"CREATE {NAME}"
    report.not_judged[UNSEEN] += 1
    printed = list(report.lines())
    assert_safe("\n".join(printed))
    assert not [line for line in printed if "\n" in line]


def test_logs_for_people_print_codes() -> None:
    try:
        raise ValueError(UNSEEN)
    except ValueError:
        record = logging.LogRecord("n", logging.ERROR, "f", 1, UNSEEN, (), sys.exc_info())
    printed = ReadableFormatter().format(record)
    assert_safe(printed)
    assert [line[:2] for line in printed.split("\n")[1:]] == ["  "] * printed.count("\n")


def test_refusals_and_warnings_reach_terminals_as_codes() -> None:
    cause = FieldError("spec.queue", "FieldValueInvalid", UNSEEN)
    for verdict in (judged([cause]), not_allowed(UNSEEN), ALLOWED.with_warnings([UNSEEN])):
        response = msgspec.json.decode(encode("uid", verdict))["response"]
        assert_safe("\n".join(_texts([response.get("status"), response.get("warnings")])))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def test_names_in_commands_are_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "gpu-13; touch stolen"
    nodes = tuple(
        replace(node, name=name) if node.name == "gpu-13" else node
        for node in without(fleet.RACK, "gpu-13")
    )
    path = tmp_path / "cluster.yaml"
    path.write_text(text_of(objects_of(fleet.facts(nodes=nodes))))
    main(["topology", "--offline", str(path)])
    commands = [line for line in capsys.readouterr().out.split("\n") if "kubectl" in line]
    assert [shlex.split(command)[3] for command in commands] == [name]
