"""A Kubernetes audit log, plain or gzipped, with anything in its lines: it is read to its end, or
cannot be read.
"""

import gzip
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from app.commands.audit_log import is_audit_log, report_on
from app.config.read import configuration_or_defaults
from app.dry_run.budget import UnusableInput
from tests.fuzz.mutation import Vocabulary, changed_bytes, dump, read
from tests.fuzz.target import Target
from tests.fuzz.verdicts import PATHS, reviews, run_coroutine

CONFIGURATION = configuration_or_defaults(None)
VERBS = {"CREATE": "create", "UPDATE": "update", "DELETE": "delete"}


def run(data: bytes) -> None:
    """Twice, because what comes of a log depends on nothing else."""
    path = _file()
    path.write_bytes(data)
    if not is_audit_log(str(path)):
        return
    try:
        report = run_coroutine(report_on([str(path)], (), CONFIGURATION))
    except UnusableInput:
        return
    again = run_coroutine(report_on([str(path)], (), CONFIGURATION))
    assert dump(report.json()) == dump(again.json())
    assert "failed to judge" not in str(report.not_judged), report.not_judged
    assert all(isinstance(line, str) for line in report.lines())
    assert report.judged + sum(report.not_judged.values()) <= report.events


@cache
def _file() -> Path:
    with tempfile.NamedTemporaryFile(
        prefix="grove-admission-", suffix=".log", delete=False
    ) as file:
        return Path(file.name)


def _event(review: Any) -> dict[str, Any]:
    """The audit event of a recorded request."""
    request = review["request"]
    resource = request["resource"]
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": request["uid"],
        "stage": "ResponseComplete",
        "requestURI": "/apis",
        "verb": VERBS[request["operation"]],
        "user": request["userInfo"],
        "objectRef": {
            "resource": resource["resource"],
            "apiGroup": resource["group"],
            "apiVersion": resource["version"],
            "subresource": request.get("subResource") or "",
            "namespace": request.get("namespace") or "",
            "name": request.get("name") or "",
        },
        "responseStatus": {"code": 201},
        "requestObject": request.get("object"),
        "responseObject": request.get("object"),
        "requestReceivedTimestamp": "2026-11-21T10:00:00.000000Z",
    }


@cache
def corpus() -> Sequence[bytes]:
    logs = []
    for path in PATHS:
        events = [_event(review) for review in reviews(path)]
        updates = [
            {**event, "verb": verb}
            for event in events[:3]
            for verb in ("update", "patch", "delete")
        ]
        logs += [
            b"\n".join(map(dump, some))
            for some in (events[:3], events[3:6], [*events[:3], *updates])
            if some
        ]
    return [
        *logs,
        *(gzip.compress(log, mtime=0) for log in logs[:3]),
        b"\n",
        dump(_event(reviews(PATHS[0])[0])) + b"\n{",
    ]


@cache
def _vocabulary() -> Vocabulary:
    return Vocabulary(read(line) for log in corpus() for line in log.splitlines())


def mutate(data: bytes, random: Random) -> bytes:
    lines = data.splitlines()
    if not lines or data[:2] == b"\x1f\x8b" or random.random() < 0.2:
        return changed_bytes(data, random)
    at = random.randrange(len(lines))
    event = read(lines[at])
    match random.randrange(4):
        case 0:
            lines.insert(
                random.randint(0, len(lines)),
                random.choice(random.choice(corpus()[:-5]).splitlines() or [b""]),
            )
        case 1:
            lines.pop(at)
        case _:
            lines[at] = (
                dump(_vocabulary().changed(event, random))
                if event is not None
                else changed_bytes(lines[at], random)
            )
    return b"\n".join(lines)


AUDIT_LOG = Target("audit-log", run, corpus, mutate)
