"""The console over a cluster in which any value may be anything: each page is there."""

from collections.abc import Sequence
from functools import cache
from urllib.parse import quote

import httpx

from app.base.safe_text import visible
from tests.console.fake import Lists, console
from tests.console.objects import plural
from tests.effort import tries
from tests.fuzz.clusters import Object, clusters, mutation_of, objects_in, read_cluster, stored
from tests.fuzz.mutation import dump
from tests.fuzz.target import Target
from tests.fuzz.verdicts import run_coroutine

PAGES = ("workloads", "topology", "topology?pods=3&gpus=8", "findings", "playground")


def run(data: bytes) -> None:
    """Every page, an explanation as text and JSON, and an examination by audit and doctor."""
    cluster = read_cluster(data)
    objects = [stored(obj) for obj in objects_in(cluster)]
    lists: dict[str, list[Object]] = {}
    for obj in objects:
        if isinstance(obj.get("kind"), str):
            lists.setdefault(plural(obj["kind"]), []).append(obj)
    run_coroutine(_look_at(lists, quote(str(cluster.get("ask")))))


async def _look_at(lists: dict[str, list[Object]], asked: str) -> None:
    async with console(Lists(lists)) as (client, made):
        for page in (f"workloads?object={asked}", f"topology?gang={asked}", *PAGES):
            _check(await client.get(page))
        for form in ("txt", "json"):
            answer = await client.get(f"workloads.{form}?object={asked}")
            if answer.status_code != 404:
                _check(answer)
        made.findings.start()
        await made.findings.finish()
        assert made.findings.result is not None
        assert made.findings.result.end, "the examination has not ended"
        _check(await client.get("findings"))


def _check(answer: httpx.Response) -> None:
    assert answer.status_code == 200, (answer.status_code, answer.url)
    assert answer.text == visible(answer.text, kept="\t\n"), answer.url


@cache
def corpus() -> Sequence[bytes]:
    return [dump(cluster) for cluster in clusters()[::8]]


CONSOLE = Target(
    "console", run, corpus, mutation_of(corpus), most=256 * 1024, replayed=tries(10, 20)
)
