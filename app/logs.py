"""Structured logs: JSON, one object a line. Verdicts have their own fast lane, because there are thousands a second:
lines are gathered in memory and written by a thread, so that a slow reader of the log never stalls an answer."""

import json
import logging
import sys
import time
import traceback


class JsonFormatter(logging.Formatter):
    """One JSON object a record; `extra` fields `path` and `uid` are carried over."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name in ("path", "uid") if (value := getattr(record, name, None)) is not None}
        if record.exc_info and record.exc_info[0] is not None:
            line["trace"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line, default=str)


def timestamp(seconds: float) -> str:
    """RFC 3339 in UTC with milliseconds."""
    whole = int(seconds)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{int((seconds - whole) * 1000):03d}Z"


def set_up(level: str) -> None:
    """Sends all loggers to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # its warnings are about what strangers send
