"""Lines of verdicts."""

import io
import json
import threading

import pytest
from msgspec.structs import replace

from app.admission.review import Request, parse
from app.admission.verdict import FAILED, Verdict, not_allowed, patched
from app.server.verdict_log import STRANGE_BYTES, STRANGE_RATE, VerdictLog, record_of
from tests.reviews import load


def request() -> Request:
    return parse(json.dumps(load("clustertopology.managed-update-by-user")).encode())


class Kept(io.BytesIO):
    def close(self) -> None:
        return


def lines(*verdicts: Verdict, request: Request | None) -> list[dict[str, object]]:
    stream = Kept()
    log = VerdictLog(stream)
    log.write([record_of("/path", "uid-1", request, verdict, 0.0012345) for verdict in verdicts])
    log.close()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_verdict_is_one_line_about_who_and_what() -> None:
    (line,) = lines(not_allowed("no"), request=request())
    assert str(line.pop("time")).endswith("Z")
    assert line == {
        "level": "info",
        "logger": "verdict",
        "path": "/path",
        "caller": "unknown",
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
    (line,) = lines(FAILED, request=None)
    assert (line["level"], line["verdict"], line["code"]) == ("error", "failed", 500)
    assert "user" not in line


def test_long_messages_are_cut_and_order_is_kept() -> None:
    logged = lines(
        *(not_allowed(f"{number} " + "x" * 5000) for number in range(600)), request=request()
    )
    assert [str(line["message"]).split()[0] for line in logged] == [
        str(number) for number in range(600)
    ]
    assert {len(str(line["message"])) for line in logged} == {1000}


def test_no_text_of_a_review_makes_a_long_line() -> None:
    long = "x" * 1_000_000
    stream = Kept()
    for readable in (False, True):
        log = VerdictLog(stream, readable=readable)
        asked = replace(request(), uid=long, username=long, namespace=long, name=long)
        log.write([record_of("/path", asked.uid, asked, not_allowed(long), 0.001)])
        log.close()
    assert [len(line) < 6_000 for line in stream.getvalue().splitlines()] == [True, True]


def test_a_reader_that_went_away_stops_nothing() -> None:
    class Broken(io.BytesIO):
        def write(self, _: object) -> int:
            raise BrokenPipeError

    log = VerdictLog(Broken())
    log.write([record_of("/path", "u", None, FAILED, 0)])
    log.close()


def test_a_line_never_holds_the_object_or_the_patch() -> None:
    asked = parse(json.dumps(load("podclique.replica-scope-0-worker")).encode())
    verdict = patched(
        [{"op": "add", "path": "/secret", "value": "s3cret"}], warnings=["mind s3cret"]
    )
    (line,) = lines(verdict, request=asked)
    assert (line["verdict"], line["name"], line["namespace"]) == (
        "patched",
        "distributed-training-0-worker",
        "default",
    )
    assert set(line) == {
        *(
            "time",
            "level",
            "logger",
            "path",
            "caller",
            "uid",
            "user",
            "operation",
            "namespace",
            "name",
            "dryRun",
        ),
        *("verdict", "code", "ms"),
    }


@pytest.mark.parametrize(
    "text", ["a\nb", '{"level":"error"}\n', "\x00\x1b[31m", "\u2028", "\ud800"]
)
def test_what_a_user_wrote_stays_on_one_line(text: str) -> None:
    review = load("clustertopology.managed-update-by-user")
    asked = replace(parse(json.dumps(review).encode()), username=text)
    (line,) = lines(not_allowed(text), request=asked)
    assert (line["message"], line["user"], line["level"]) == (text, text, "info")


@pytest.mark.untraced
def test_a_reader_that_is_too_slow_costs_lines_and_not_memory() -> None:
    blocked = threading.Event()

    class Slow(Kept):
        def write(self, _: object) -> int:
            blocked.wait(30)
            return 0

    log = VerdictLog(Slow())
    trusted = request()
    trusted.trusted = True
    records = [record_of("/path", "u", trusted, not_allowed("no"), 0)] * 256
    for _ in range(300):
        log.write(records)
    assert log.lost >= 50 * 256
    blocked.set()
    log.close()


def test_lines_about_reviews_of_strangers_leave_room_for_others() -> None:
    stream = Kept()
    now = 0.0
    log = VerdictLog(stream, clock=lambda: now)
    trusted = request()
    trusted.trusted = True
    records = [
        record_of("/path", "u" * 1000, None, not_allowed("no"), 0),
        record_of("/path", "known", trusted, not_allowed("no"), 0),
    ]
    for _ in range(2):
        log.write(records * 2000)
        now += 1
    log.close()
    written = stream.getvalue().splitlines()
    strange = [line for line in written if b'"uid":"known"' not in line]
    assert (len(written) - len(strange), log.lost) == (4000, 4000 - len(strange))
    assert 0 < sum(map(len, strange)) - STRANGE_BYTES - STRANGE_RATE < 2 * len(strange[0])


def test_a_stream_that_is_closed_stops_nothing() -> None:
    stream = io.BytesIO()
    log = VerdictLog(stream)
    stream.close()
    log.write([record_of("/path", "u", None, FAILED, 0)])
    log.close()


def test_a_readable_verdict_says_who_what_and_why_on_one_line() -> None:
    stream = Kept()
    log = VerdictLog(stream, readable=True)
    path = "/validate/clustertopology"
    log.write([record_of(path, "u", request(), not_allowed("no\nway"), 0.001)])
    log.write([record_of(path, "u", None, FAILED, 0.001)])
    log.close()
    first, second = stream.getvalue().decode().splitlines()
    assert first[8:] == "  refused  UPDATE clustertopology grove-topology by alice: no\\x0away"
    assert second[8:].startswith(
        "  failed   a request clustertopology  by unknown user: grove-admission failed"
    )
