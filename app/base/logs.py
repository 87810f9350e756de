"""Write logs as lines of JSON or as readable lines.

`server/verdict_log` writes the log of verdicts.
"""

import json
import logging
import sys
import time
import traceback
from typing import TextIO

from app.base.safe_text import visible

_SHOWN = 160
"""The maximum length, in characters, of readable messages below the level warning."""


class JsonFormatter(logging.Formatter):
    """A formatter that writes a record as one line of JSON.

    The line has `path` and `uid` if the `extra` of the record has them.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {
            name: value
            for name in ("path", "uid")
            if (value := getattr(record, name, None)) is not None
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["trace"] = "".join(traceback.format_exception(*record.exc_info))

        # without spaces, as in lines of the verdict log, so that one search finds both
        return json.dumps(line, default=str, separators=(",", ":"))


class ReadableFormatter(logging.Formatter):
    """A formatter that writes a record as a short line, such as `12:00:01  warning  message`.

    Below warning, the word for the level is omitted and a long message is cut. A traceback follows
    on indented lines, so that the text of an exception can't look like a record.
    """

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower()}  " if record.levelno >= logging.WARNING else ""
        message = visible(record.getMessage())
        if record.levelno < logging.WARNING and len(message) > _SHOWN:
            message = f"{message[: _SHOWN - 1]}…"
        line = f"{time_of_day(record.created)}  {level}{message}"
        if record.exc_info and record.exc_info[0] is not None:
            trace = "".join(traceback.format_exception(*record.exc_info)).rstrip()
            line += "\n" + "\n".join(f"  {visible(part)}" for part in trace.split("\n"))
        return line


def is_readable(log_format: str, stream: TextIO) -> bool:
    """Return whether the log to `stream` is readable text instead of JSON.

    `log_format` is `text`, `json`, or "" for text on a terminal and JSON elsewhere.
    """
    return log_format == "text" or (not log_format and stream.isatty())


def time_of_day(seconds: float) -> str:
    """Return a time (seconds since the epoch) as HH:MM:SS in the local time zone."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def timestamp(seconds: float) -> str:
    """Return a time (seconds since the epoch) as RFC 3339 in UTC with milliseconds."""
    whole = int(seconds)
    milliseconds = int((seconds - whole) * 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{milliseconds:03d}Z"


def set_up(level: str, log_format: str = "") -> None:
    """Write log records from `level` upwards to stderr.

    httpx logs only from `warning` upwards, and uvicorn only from `error` upwards. `log_format` is
    `text`, `json`, or "" for text on a terminal and JSON elsewhere.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        ReadableFormatter() if is_readable(log_format, sys.stderr) else JsonFormatter()
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("httpx").setLevel(logging.WARNING)
    # any client can cause uvicorn's warnings, by sending invalid requests
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
