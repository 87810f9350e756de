"""An audit of a cluster in which any value may be anything: it ends, and says what it found."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from io import StringIO

from app.audit.auditor import Auditor
from app.audit.progress import Progress
from app.base.safe_text import visible_json
from app.facts.kinds import ALL
from app.kube.api import Object
from tests.audit.test_audit import CONFIGURED, clique, domain, gang, train
from tests.fuzz.clusters import clusters, loaded, mutation_of, objects_in, read_cluster
from tests.fuzz.explain import check_text
from tests.fuzz.mutation import dump
from tests.fuzz.target import Target
from tests.fuzz.verdicts import FACTS, run_coroutine
from tests.kube.memory.client import MemoryClient

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def run(data: bytes) -> None:
    run_coroutine(_audit(loaded(MemoryClient, objects_in(read_cluster(data)))))


async def _audit(client: MemoryClient) -> None:
    auditor = Auditor(client, CONFIGURED, Progress(StringIO()).show, NOW)
    async for finding in auditor.findings(None):
        check_text(finding.text())
        assert json.loads(visible_json(finding.json()))["problems"], finding
        assert finding.code in (0, 400, 403, 422, 503), finding
    check_text(auditor.tally.summary())
    assert auditor.tally.exit_code in (0, 1, 2, 3)
    assert client.writes() == []


@cache
def corpus() -> Sequence[bytes]:
    made: list[list[Object]] = [[train(), gang(), clique(train()), domain(gang()), domain(train())]]
    for build in FACTS.values():
        client = build().client
        made.append([obj for resource in ALL for obj in client.objects(resource)])
    return [
        *(dump({"objects": objects}) for objects in made if objects),
        *map(dump, clusters()[::4]),
    ]


AUDIT = Target("audit", run, corpus, mutation_of(corpus), most=256 * 1024)
