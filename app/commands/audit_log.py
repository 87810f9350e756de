"""The audit logs that `check` reads.

It gives the verdicts that this version would have given on past requests.
"""

import contextlib
import gzip
import io
import re
import sys
import zlib
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from app.base.json import from_json
from app.cluster import documents
from app.commands.options import REFUSED, UNUSABLE, show_answer
from app.config.schema import Configuration
from app.dry_run.audit_log import (
    EVENT_VERSION,
    NO_NODE,
    History,
    Write,
    changing_webhooks,
    node_of_binding,
)
from app.dry_run.audit_report import Report
from app.dry_run.budget import UnusableInput
from app.dry_run.judge import judge_request
from app.kube.api import Object
from app.objects.resource import NODE
from app.objects.shape import map_at
from app.webhooks.configurations import EXEMPT_NAMESPACE
from app.webhooks.registry import routes_over

MOST_LINE = 16 * 2**20
"""Bytes of one event."""
_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31
_PEEKED = 4096
_EVENT = (
    re.compile(rb'"apiVersion"\s*:\s*"audit\.k8s\.io/v1"'),
    re.compile(rb'"kind"\s*:\s*"Event"'),
)


def is_audit_log(name: str) -> bool:
    """Return whether a file or standard input (-), gzip or not, begins with an audit event.

    False if it cannot be read. Standard input is not consumed.
    """
    if name == "-":
        return _is_audit_log_piped()
    try:
        with contextlib.closing(lines_of(name)) as lines:
            event = from_json(next(filter(bytes.strip, lines), b""))
    except ValueError:
        return False
    return isinstance(event, dict) and _is_event(event)


def _is_audit_log_piped() -> bool:
    """Return whether the first line begins as an audit event does.

    Only what is buffered is looked at: API servers write apiVersion and kind first.
    """
    peek = getattr(getattr(sys.stdin, "buffer", None), "peek", None)
    begin: bytes = peek(_PEEKED) if peek is not None else b""
    try:
        begin = (
            zlib.decompressobj(wbits=_GZIP_WINDOW).decompress(begin)
            if begin.startswith(_GZIP)
            else begin
        )
    except zlib.error:
        return False
    return all(pattern.search(begin) for pattern in _EVENT) and begin.lstrip().startswith(b"{")


async def report_on(
    names: Sequence[str],
    facts: Sequence[Object],
    configuration: Configuration,
) -> Report:
    """Judge the events of the logs in their order.

    `facts` are what there was before; objects of the logs are added as they are written. Raise
    UnusableInput if a log can't be read to its end.
    """
    replay = Replay(facts, configuration)
    for name in names:
        for event in _events(name, replay.report):
            await replay.take(event)
    return replay.report


def show_report(report: Report, output: str) -> int:
    """Print a report, and return the exit code, which is 2 if nothing could be judged."""
    show_answer(output, report.json, lambda: "\n".join(report.lines()))
    return UNUSABLE if not report.judged else REFUSED if report.rejected else 0


class Replay:
    """A second judgement of events over `facts`, which keep what the events have written.

    `report` is about the events that were taken.
    """

    def __init__(self, facts: Sequence[Object], configuration: Configuration) -> None:
        self.report = Report()
        self._cluster = documents.cluster_of(configuration, facts)
        self._routes = routes_over(configuration, self._cluster)
        targets = {
            (route.group, plural, route.subresource): route.operations
            for route in self._routes.values()
            for plural in route.plurals
        }
        own_namespaces = (EXEMPT_NAMESPACE, configuration.certificates.namespace)
        self._history = History(targets, own_namespaces)
        self._nodes = {str(map_at(fact, "metadata").get("name")) for fact in facts if is_node(fact)}

    async def take(self, event: Object) -> None:
        """Judge one event, if it is a write that a webhook looks at."""
        write = self._history.write_of(event)
        if not write:
            return

        self.report.add_recorded(changing_webhooks(event), write)
        await self._judge(write)
        if write.stored is not None:
            documents.take_in(self._cluster, write.stored)
        elif write.is_deletion:
            documents.take_out(self._cluster, *write.target[:2], write.namespace, write.name)

    async def _judge(self, write: Write) -> None:
        node = node_of_binding(write)
        if write.problem:
            self.report.skip(write.problem)
        elif node and node not in self._nodes:
            self.report.skip(NO_NODE)
        elif write.request:
            judgement = await judge_request(self._routes, write.request, write.request.object)
            if judgement.verdict:
                self.report.add(write, judgement.verdict)


def _events(name: str, report: Report) -> Iterator[Object]:
    for line in lines_of(name):
        event = _event(line)
        if event is not None:
            report.events += 1
            yield event
        elif line.strip():
            report.unreadable += 1


def is_node(fact: Object) -> bool:
    """Return whether an object is a Node."""
    return (fact.get("apiVersion"), fact.get("kind")) == ("v1", NODE.kind)


def _event(line: bytes) -> Object | None:
    try:
        event = from_json(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and _is_event(event) else None


def _is_event(event: Object) -> bool:
    return event.get("apiVersion") == EVENT_VERSION and event.get("kind") == "Event"


def lines_of(name: str) -> Generator[bytes]:
    """Yield the lines of a file or of standard input, gzip or not.

    A line of more than a bounded length comes in pieces, which are no events. Raise UnusableInput
    if it can't be read to its end.
    """
    try:
        with contextlib.ExitStack() as opened:
            raw = sys.stdin.buffer if name == "-" else opened.enter_context(Path(name).open("rb"))
            stream = raw
            if cast(io.BufferedReader, raw).peek(len(_GZIP)).startswith(_GZIP):
                stream = cast(BinaryIO, opened.enter_context(gzip.open(raw, "rb")))
            while line := stream.readline(MOST_LINE):
                yield line
    except (OSError, EOFError, zlib.error) as problem:
        raise UnusableInput(f"{name}: can't be read: {problem}") from None
