"""Lines of the log that are no verdicts."""

import io
import json
import logging
import sys

import pytest

from app.base.logs import JsonFormatter, ReadableFormatter, is_readable, set_up, timestamp


def test_other_lines_are_json_with_their_trace() -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        record = logging.LogRecord(
            "name", logging.ERROR, "file", 1, "it %s", ("failed",), sys.exc_info()
        )
    record.uid = "u"
    text = JsonFormatter().format(record)
    assert '"level":"error"' in text  # the guide searches for that, as in lines about verdicts
    line = json.loads(text)
    assert (line["level"], line["logger"], line["message"], line["uid"]) == (
        "error",
        "name",
        "it failed",
        "u",
    )
    assert "ValueError: broken" in line["trace"]
    assert timestamp(0.5) == "1970-01-01T00:00:00.500Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_767_225_599.9996, "2025-12-31T23:59:59.999Z"),
        (1_767_225_600.25, "2026-01-01T00:00:00.250Z"),
    ],
)
def test_timestamps_are_utc_with_milliseconds(seconds: float, text: str) -> None:
    assert timestamp(seconds) == text


def test_set_up_sends_everything_to_stderr_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers = root.handlers[:]
    level = root.level
    try:
        set_up("warning")
        logging.getLogger("a.b").info("not this")
        logging.getLogger("a.b").warning(
            "but %s", "this", extra={"uid": "u", "path": "/p", "other": object()}
        )
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    printed = capsys.readouterr()
    line = json.loads(printed.err)
    assert str(line.pop("time")).endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "a.b",
        "message": "but this",
        "uid": "u",
        "path": "/p",
    }
    assert printed.out == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("log_format", "stream", "readable"),
    [
        ("", Terminal(), True),
        ("", io.StringIO(), False),
        ("json", Terminal(), False),
        ("text", io.StringIO(), True),
    ],
)
def test_lines_are_for_people_on_a_terminal_only(
    log_format: str, stream: io.StringIO, readable: bool
) -> None:
    assert is_readable(log_format, stream) is readable


def test_readable_lines_are_short_and_name_the_level_from_warnings_on() -> None:
    def line(level: int, message: str) -> str:
        record = logging.LogRecord("name", level, "file", 1, message, (), None)
        return ReadableFormatter().format(record)[8:]

    assert line(logging.INFO, "serving") == "  serving"
    assert line(logging.WARNING, "slow\n\x1b[31m") == "  warning  slow\\x0a\\x1b[31m"
    assert len(line(logging.INFO, "x" * 1000)) == 162
    assert len(line(logging.ERROR, "x" * 1000)) > 1000
    try:
        raise ValueError("broken")
    except ValueError:
        failed = logging.LogRecord("name", logging.ERROR, "file", 1, "failed", (), sys.exc_info())
    assert ReadableFormatter().format(failed).endswith("ValueError: broken")
