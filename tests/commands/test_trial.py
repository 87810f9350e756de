"""The report on the log of a server in a trial period."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from app.config.schema import Configuration, Enforcement
from app.server.verdict_log import VerdictLog, record_of
from tests.reviews import Caller, load, path_of

WARNING = Configuration(enforcement=Enforcement(mode="warn"))
BAD_NAME = 'invalid subgroup name "DecodeWorkers"'


async def logged(
    *names: str, user: str = "alice", dry_run: bool = False, is_trusted: bool = True
) -> bytes:
    """The log of a server in a trial period that was asked about these recorded requests."""
    stream = io.BytesIO()
    log = VerdictLog(stream)
    caller = Caller(configuration=WARNING, is_trusted=is_trusted)
    for name in names:
        review = load(name)
        review["request"]["userInfo"]["username"] = user
        review["request"]["dryRun"] = dry_run
        await caller.ask(path_of(name), review)
    log.write(
        [
            record_of(path, "uid", request, verdict, 0.001)
            for path, request, verdict in caller.seen.requests
        ]
    )
    log.close()
    return stream.getvalue()


def report(*arguments: str) -> int:
    return main(["trial", *arguments])


async def test_what_would_have_been_refused_by_user_and_namespace(
    tmp_path: Path, capsys: Any
) -> None:
    first = tmp_path / "a.log"
    first.write_bytes(
        await logged("podgroup.mixed-case-name", "podgroup.mixed-case-name", "podgroup.valid")
    )
    second = tmp_path / "b.log"
    second.write_bytes(await logged("podclique.invalid-scope", user="bob"))
    assert report(str(first), str(second), "--output", "json") == 1
    printed = json.loads(capsys.readouterr().out)
    assert [
        (row["user"], row["namespace"], row["judged"], row["rejected"]) for row in printed["users"]
    ] == [("alice", "default", 3, 2), ("bob", "default", 1, 1)]
    assert [(row["kind"], row["count"]) for row in printed["findings"]] == [
        ("podgroup", 2),
        ("podclique", 1),
    ]
    assert BAD_NAME in printed["findings"][0]["message"]
    assert printed["findings"][0]["example"].startswith("CREATE default/")

    assert report(str(first), str(second)) == 1
    text = capsys.readouterr().out
    assert "alice" in text
    header = ["user", "namespace", "judged", "rejected", "changed"]
    assert header in map(str.split, text.splitlines())
    assert f"2  podgroup: {BAD_NAME}" in text


async def test_reviews_that_anybody_may_have_sent_are_told_apart(
    tmp_path: Path, capsys: Any
) -> None:
    log = tmp_path / "a.log"
    forged = await logged("podgroup.mixed-case-name", user="victim", is_trusted=False)
    log.write_bytes(await logged("podgroup.valid") + forged)
    assert report(str(log), "--output", "json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert [row["user"] for row in printed["users"]] == ["alice"]
    assert (printed["judged"], printed["unknownCallers"], printed["findings"]) == (1, 1, [])
    assert report(str(log)) == 0
    out = capsys.readouterr().out
    assert "1 review in the logs, 1 of them with a verdict" in out
    assert "1 more review is omitted: without a token" in out

    log.write_bytes(forged)  # where no review has a token, all count
    assert report(str(log), "--output", "json") == 1
    assert json.loads(capsys.readouterr().out)["users"][0]["user"] == "victim"


async def test_other_lines_and_dry_runs_do_not_count(tmp_path: Path, capsys: Any) -> None:
    log = tmp_path / "a.log"
    dry = await logged("podgroup.mixed-case-name", dry_run=True)
    others = b'I1122 not json\n{"logger": "app", "verdict": "warned"}\n[3]\n{broken\n'
    line = b"[pod/grove-admission-0/server] " + await logged("podgroup.valid")
    log.write_bytes(dry + others + line)
    assert report(str(log)) == 0
    assert "1 of them with a verdict" in capsys.readouterr().out

    log.write_bytes(dry + others)
    assert report(str(log)) == 2


async def test_a_failure_is_not_judged(tmp_path: Path, capsys: Any) -> None:
    entry = {"logger": "verdict", "verdict": "failed", "message": "no verdict within 2 s"}
    log = tmp_path / "a.log"
    log.write_text(json.dumps(entry) + "\n")
    assert report(str(log)) == 2
    assert "no verdict within 2 s" in capsys.readouterr().out


@pytest.mark.parametrize("damaged", [True, False])
def test_a_log_that_can_not_be_read_is_named(tmp_path: Path, capsys: Any, damaged: bool) -> None:
    log = tmp_path / "a.log"
    if damaged:
        log.write_bytes(b"{}\n\xff\n")
    assert report(str(log)) == 2
    assert f"{log}: can't be read" in capsys.readouterr().err
