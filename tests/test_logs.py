"""Verdict lines and everything else."""

import io
import json
import logging
import sys

from app.admission.review import Request, parse
from app.admission.verdict import Verdict, failed, not_allowed
from app.logs import JsonFormatter, VerdictLog, timestamp
from tests.reviews import load


def request() -> Request:
    return parse(json.dumps(load("clustertopology.managed-update-by-user")).encode())


class Kept(io.BytesIO):
    def close(self) -> None:
        return


def lines(*verdicts: Verdict, request: Request | None) -> list[dict[str, object]]:
    stream = Kept()
    log = VerdictLog(stream)
    for verdict in verdicts:
        log.record("/path", "uid-1", request, verdict, 0.0012345)
    log.close()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_verdict_is_one_line_about_who_and_what() -> None:
    (line,) = lines(not_allowed("no"), request=request())
    assert str(line.pop("time")).endswith("Z")
    assert line == {
        "level": "info",
        "logger": "verdict",
        "path": "/path",
        "uid": "uid-1",
        "user": "alice",
        "operation": "UPDATE",
        "namespace": "",
        "name": "grove-topology",
        "dryRun": False,
        "verdict": "refused",
        "code": 403,
        "ms": 1.234,
        "message": "no",
    }


def test_a_request_that_could_not_be_read_is_logged_too() -> None:
    (line,) = lines(failed(), request=None)
    assert (line["level"], line["verdict"], line["code"]) == ("error", "failed", 500)
    assert "user" not in line


def test_long_messages_are_cut_and_order_is_kept() -> None:
    found = lines(*(not_allowed(f"{number} " + "x" * 5000) for number in range(600)), request=request())
    assert [str(line["message"]).split()[0] for line in found] == [str(number) for number in range(600)]
    assert {len(str(line["message"])) for line in found} == {1000}


def test_a_reader_that_went_away_stops_nothing() -> None:
    class Broken(io.BytesIO):
        def write(self, _: object) -> int:
            raise BrokenPipeError

    log = VerdictLog(Broken())
    log.record("/path", "u", None, failed(), 0)
    log.close()
    log.flush()


def test_other_lines_are_json_with_their_trace() -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        record = logging.LogRecord("name", logging.ERROR, "file", 1, "it %s", ("failed",), sys.exc_info())
    record.uid = "u"
    line = json.loads(JsonFormatter().format(record))
    assert (line["level"], line["logger"], line["message"], line["uid"]) == ("error", "name", "it failed", "u")
    assert "ValueError: broken" in line["trace"]
    assert timestamp(0.5) == "1970-01-01T00:00:00.500Z"
