"""`grove-admission audit`: what of a live cluster would be refused today, and why. Nothing is written.

Objects are paged through and take the very route that a CREATE takes, as a dry run; findings are printed as they come,
so that memory doesn't grow with the cluster. ComputeDomains and ResourceClaims are looked at for who owns them.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TextIO

import orjson

from app.admission.handler import Route
from app.cluster.api import ClusterError, NotFound, Object
from app.cluster.client import HttpClient
from app.cluster.live import LiveCluster
from app.domain.kinds import (
    CLUSTER_TOPOLOGY,
    COMPUTE_DOMAIN,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    RESOURCE_CLAIM,
    Resource,
)
from app.domain.labels import MNNVL_MANAGED
from app.domain.ownership import belongs_to, ownership_problem, read_resource
from app.webhooks.dry_run import Asker, judge

JUDGED = (CLUSTER_TOPOLOGY, POD_CLIQUE_SET, POD_GROUP, POD_CLIQUE, POD_GANG)
OWNED = (COMPUTE_DOMAIN, RESOURCE_CLAIM)
EXEMPT = ("kube-system", "grove-system")
PAGE = 500
SAY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One object that would be refused, or is in a state it should not be in."""

    kind: str
    namespace: str
    name: str
    code: int
    problems: tuple[str, ...]

    def text(self) -> str:
        place = "/".join(filter(None, (self.namespace, self.name)))
        return "\n".join([f"{self.kind} {place}", *(f"    {problem}" for problem in self.problems)])

    def json(self) -> Object:
        where = {"kind": self.kind, "namespace": self.namespace, "name": self.name}
        return {**where, "code": self.code, "problems": list(self.problems)}


@dataclass(slots=True)
class Tally:
    """What has been looked at so far; `unread` has the resources that could not be, with the reason."""

    looked_at: dict[str, int] = field(default_factory=dict)
    found: int = 0
    unread: dict[str, str] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 nothing found, 1 findings, 2 where not everything could be looked at."""
        return 2 if self.unread else 1 if self.found else 0

    def summary(self) -> str:
        counted = ", ".join(f"{count:,} {kind}" for kind, count in self.looked_at.items()) or "nothing"
        lines = [f"looked at {counted}: {self.found:,} found"]
        lines += [f"not installed in this cluster: {name}" for name in self.absent]
        lines += [f"could not be looked at: {name}: {why}" for name, why in self.unread.items()]
        return "\n".join(lines)


class Progress:
    """How far it is: a line that is written over on a terminal, else a line now and then. On standard error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._terminal, self._said = stream, stream.isatty(), time.monotonic()

    def show(self, kind: str, done: int, left: int | None) -> None:
        total = done + left if left is not None else None
        if self._terminal:
            share = done / total if total else 1.0
            bar = "#" * int(30 * share)
            print(f"\r{kind:<16} [{bar:<30}] {done:,}{f' of {total:,}' if total else ''}  ", end="", file=self._stream)
        elif time.monotonic() - self._said > SAY_SECONDS:
            self._said = time.monotonic()
            print(f"{kind}: {done:,}{f' of {total:,}' if total else ''}", file=self._stream)

    def end(self) -> None:
        if self._terminal:
            print("\r" + " " * 70 + "\r", end="", file=self._stream)


class Auditor:
    """`asker` is somebody who may write the managed ClusterTopology: who did write it is not the question."""

    def __init__(
        self, client: HttpClient, cluster: LiveCluster, routes: Mapping[str, Route], asker: Asker, progress: Progress
    ) -> None:
        self.tally = Tally()
        self._client, self._cluster, self._routes, self._asker = client, cluster, routes, asker
        self._progress = progress

    @contextlib.asynccontextmanager
    async def ready(self) -> AsyncIterator[None]:
        """The caches are full while the block runs."""
        running = asyncio.create_task(self._cluster.run())
        try:
            await self._cluster.until_synced()
            yield
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    async def findings(self, namespace: str | None) -> AsyncIterator[Finding]:
        """All findings, resource by resource; `tally` is complete at the end."""
        for resource in (*JUDGED, *OWNED):
            selector = f"{MNNVL_MANAGED}=true" if resource in OWNED else ""
            try:
                async for obj in self._objects(resource, namespace, selector):
                    finding = self._owned(obj) if resource in OWNED else await self._judged(obj)
                    if finding is not None:
                        self.tally.found += 1
                        yield finding
            except NotFound:
                self.tally.absent.append(str(resource))
            except ClusterError as error:
                self.tally.unread[str(resource)] = error.message
        self._progress.end()

    async def _objects(self, resource: Resource, namespace: str | None, selector: str) -> AsyncIterator[Object]:
        token, counts = "", self.tally.looked_at
        where = namespace if resource.namespaced else None
        counts[resource.kind] = 0
        while True:
            page = await self._client.list(resource, where, label_selector=selector, limit=PAGE, continue_token=token)
            for item in page.items:
                counts[resource.kind] += 1
                yield item
            self._progress.show(resource.kind, counts[resource.kind], page.remaining)
            token = page.continue_token
            if not token:
                return

    async def _judged(self, obj: Object) -> Finding | None:
        """What is being deleted is never refused, and our webhooks are not asked about exempt namespaces."""
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp") or metadata.get("namespace") in EXEMPT:
            return None
        verdict = (await judge(self._routes, obj, self._asker)).verdict
        if verdict is None or verdict.allowed:
            return None
        problems = [f"{cause.field}: {cause.message}" for cause in verdict.causes] or [verdict.message]
        return _finding(obj, verdict.code, problems)

    def _owned(self, obj: Object) -> Finding | None:
        one = read_resource(obj)
        gangs = self._cluster.gangs
        if one.place.podgang:
            gang = gangs.get(one.namespace, one.place.podgang)
        else:
            gang = next((each for each in gangs.values() if belongs_to(one, each)), None)
        set_exists = self._cluster.sets.get(one.namespace, one.place.pcs) is not None
        problem = ownership_problem(one, gang, set_exists)
        return None if problem is None else _finding(obj, 0, [problem])


def _finding(obj: Object, code: int, problems: list[str]) -> Finding:
    metadata = obj["metadata"]
    return Finding(obj["kind"], metadata.get("namespace", ""), metadata["name"], code, tuple(problems))


async def audit(auditor: Auditor, namespace: str | None, output: str) -> int:
    """Prints every finding, as text or as a JSON line; gives the exit code."""
    async with auditor.ready():
        async for finding in auditor.findings(namespace):
            print(orjson.dumps(finding.json()).decode() if output == "json" else finding.text())
    print(auditor.tally.summary(), file=sys.stderr if output == "json" else sys.stdout)
    return auditor.tally.exit_code
