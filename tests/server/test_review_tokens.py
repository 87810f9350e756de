"""Tokens in the paths of webhooks: several replicas, versions without tokens, and other writers."""

import asyncio
import contextlib
import copy
import io
import json
import logging
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import pytest

from app.admission.decide import Route
from app.admission.exchange import MAX_BODY, Exchange
from app.config.schema import Certificates, Configuration
from app.kube.api import Object, ObjectRef, Unavailable
from app.objects.resource import MUTATING_WEBHOOKS, POD, VALIDATING_WEBHOOKS
from app.objects.tokens import LIFE_SECONDS, new_token, split_token
from app.server.endpoints import Reports, build_app
from app.server.metrics import Metrics
from app.server.review_tokens import (
    BARE_SECONDS,
    FRESH_SECONDS,
    LEAK_SECONDS,
    REPLACED_SECONDS,
    ReviewTokens,
)
from app.server.verdict_log import VerdictLog
from app.webhooks.configurations import ServiceTarget, webhook_configurations
from app.webhooks.paths import (
    PATHS,
    PATHS_ARE_OURS,
    TAKES_TOKENS,
    TOKEN_AFTER,
    path_of,
    with_token,
)
from app.webhooks.registry import routes_over
from tests.cluster.offline import OfflineCluster
from tests.kube import virtual
from tests.kube.memory.client import MemoryClient
from tests.reviews import Seen, load

START = 1_800_000_000.0
NAME = "grove-admission"


def pod(name: str, *, knows: str = "all", phase: str = "Running") -> Object:
    annotations = {TAKES_TOKENS: knows} if knows else {}
    labels = {"app.kubernetes.io/name": NAME}
    metadata = {"name": name, "namespace": "grove-system", "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "annotations": annotations},
        "spec": {},
        "status": {"phase": phase},
    }


class World:
    """A cluster with our configuration and Pods, and replicas that write tokens."""

    def __init__(self, *pods: Object, managed: bool = True, token: str = "") -> None:
        configurations = webhook_configurations(ServiceTarget())
        for configuration in configurations:
            if token:
                configuration["webhooks"] = with_token(configuration, token)
            if not managed:
                del configuration["metadata"]["annotations"][PATHS_ARE_OURS]
        self.client = MemoryClient([*configurations, *pods])
        self.replicas: list[tuple[ReviewTokens, Exchange]] = []
        self.offline = OfflineCluster([])
        self.ahead = 0.0
        """Seconds by which the wall clock differs."""

    @contextlib.asynccontextmanager
    async def running(self, count: int = 1) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._start().run()) for _ in range(count)]
            await asyncio.sleep(1)
            yield
            for task in running:
                task.cancel()

    def _start(self) -> ReviewTokens:
        exchange = Exchange(routes_over(Configuration(), self.offline), Seen())
        tokens = ReviewTokens(
            self.client,
            Certificates(),
            exchange,
            lambda name, result, seconds: None,
            now=lambda: START + self.ahead + virtual.now(),
            clock=virtual.now,
        )
        self.replicas.append((tokens, exchange))
        return tokens

    def configuration(self) -> Object:
        (stored,) = self.client.objects(MUTATING_WEBHOOKS)
        return stored

    def paths(self) -> dict[str, str]:
        """The paths of both configurations."""
        (judging,) = self.client.objects(VALIDATING_WEBHOOKS)
        return {
            webhook["name"]: path_of(webhook["clientConfig"])
            for stored in (self.configuration(), judging)
            for webhook in stored["webhooks"]
        }

    def token(self) -> str:
        """The one token in all paths, "" if they are without one."""
        parts = {name: split_token(path) for name, path in self.paths().items()}
        assert {name: bare for name, (_, bare) in parts.items()} == PATHS
        (token,) = {token for token, _ in parts.values()}
        return token

    def trusts(self, token: str) -> list[bool]:
        """Whether each replica trusts reviews over the paths with `token`."""
        return [
            bool(route and route.trusted)
            for _, exchange in self.replicas
            for route in [exchange.route(f"/{token}/mutate/podclique")]
        ]

    async def change(self, edit: Callable[[Object], Any]) -> None:
        """Change the configuration as an administrator does."""
        configuration = copy.deepcopy(self.configuration())
        edit(configuration)
        patch = {
            "metadata": {"annotations": configuration["metadata"].get("annotations")},
            "webhooks": configuration["webhooks"],
        }
        await self.client.patch(ObjectRef(MUTATING_WEBHOOKS, NAME), patch)
        await asyncio.sleep(1)


def installed() -> Object:
    return webhook_configurations(ServiceTarget())[0]


def applied(configuration: Object) -> None:
    """As after `kubectl apply` of manifests that have no paths."""
    for webhook in configuration["webhooks"]:
        if webhook["name"] in PATHS:
            webhook["clientConfig"]["service"].pop("path", None)


def test_replicas_agree_on_one_token_and_trust_only_reviews_with_it() -> None:
    async def story() -> None:
        world = World(pod("a"), pod("b"))
        async with world.running(3):
            token = world.token()
            assert world.trusts(token) == [True, True, True]
            assert world.trusts(new_token(START)) == [False, False, False]
            for tokens, exchange in world.replicas:
                bare = exchange.route("/mutate/podclique")
                assert bare is not None
                assert not bare.trusted
                assert tokens.notes() == {"callers": "reviews of API servers have a token"}
                assert [sample.value for sample in tokens.samples()] == [1.0]
                assert tokens.checks() == {}
            writes = len(world.client.writes())
            await asyncio.sleep(LIFE_SECONDS / 2)
            assert len(world.client.writes()) == writes

    virtual.run(story())


def test_only_the_paths_of_webhooks_that_write_are_changed() -> None:
    async def story() -> None:
        world = World(pod("a"))
        before = installed()
        async with world.running():
            assert world.token()
        after = copy.deepcopy(world.configuration())
        applied(after)
        assert after["webhooks"] == before["webhooks"]

    virtual.run(story())


def test_a_token_is_replaced_after_its_life_and_the_former_one_is_trusted_for_a_moment() -> None:
    async def story() -> None:
        world = World(pod("a"), pod("b"))
        async with world.running(2):
            former = world.token()
            await asyncio.sleep(LIFE_SECONDS + 1)
            token = world.token()
            assert token != former
            assert world.trusts(token) == world.trusts(former) == [True, True]
            await asyncio.sleep(3 * REPLACED_SECONDS)
            assert world.token() == token
            assert (world.trusts(token), world.trusts(former)) == ([True, True], [False, False])

    virtual.run(story())


@pytest.mark.parametrize("age", [2 * LIFE_SECONDS, -LIFE_SECONDS])
def test_a_token_that_is_too_old_or_of_the_future_is_replaced(age: float) -> None:
    async def story() -> None:
        former = new_token(START - age)
        world = World(pod("a"), token=former)
        async with world.running():
            assert world.token() not in ("", former)

    virtual.run(story())


def test_what_kubectl_apply_removes_is_written_again_with_the_same_token_or_another_one() -> None:
    async def story() -> None:
        world = World(pod("a"))
        async with world.running():
            former = world.token()
            await world.change(applied)
            assert world.trusts(world.token()) == [True]
            assert world.trusts(former) == [True]

    virtual.run(story())


@pytest.mark.parametrize(
    ("knows", "phase"), [("", "Pending"), ("", "Running"), ("true", "Running")]
)
def test_while_a_pod_of_a_version_without_tokens_is_there_the_paths_are_bare(
    knows: str, phase: str
) -> None:
    async def story() -> None:
        world = World(pod("new"))
        async with world.running():
            assert world.token()
            await world.client.create(POD, pod("old", knows=knows, phase=phase), "grove-system")
            await asyncio.sleep(1)
            assert world.paths() == PATHS
            assert "version without tokens" in world.replicas[0][0].notes()["callers"]
            await world.client.delete(ObjectRef(POD, "old", "grove-system"))
            await asyncio.sleep(1)
            assert world.trusts(world.token()) == [True]

    virtual.run(story())


def test_a_pod_that_has_ended_does_not_count() -> None:
    async def story() -> None:
        world = World(pod("new"), pod("evicted", knows="", phase="Failed"))
        async with world.running():
            assert world.token()

    virtual.run(story())


def test_a_configuration_without_the_annotation_is_left_alone() -> None:
    async def story() -> None:
        world = World(pod("a"), managed=False)
        async with world.running():
            assert world.client.writes() == []
            assert (
                "all writes but those for deletions of PodGangs"
                in world.replicas[0][0].notes()["callers"]
            )
            assert [sample.value for sample in world.replicas[0][0].samples()] == [0.0]

    virtual.run(story())


def test_a_wall_clock_that_is_set_back_keeps_no_token_alive() -> None:
    async def story() -> None:
        world = World(pod("a"))
        async with world.running():
            for _ in range(6):
                former = world.token()
                await asyncio.sleep(LIFE_SECONDS)
            newest = world.token()
            assert world.trusts(former) == [True]

            world.ahead = -24 * LIFE_SECONDS
            await asyncio.sleep(3 * REPLACED_SECONDS)
            assert world.token() not in (former, newest)
            assert world.trusts(former) == world.trusts(newest) == [False]
            ((tokens, _),) = world.replicas
            assert tokens.notes()["callers"].startswith("reviews of API servers have a token")

    virtual.run(story())


def test_nothing_is_written_before_our_pods_are_known() -> None:
    async def story() -> None:
        world = World(pod("old", knows=""))
        for _ in range(3):
            world.client.fail_next("watch", POD, Unavailable("not now", code=503))
        async with world.running():
            assert world.client.writes() == []
            assert world.replicas[0][0].notes() == {"callers": "our Pods have not been listed yet"}
            await asyncio.sleep(120)
            assert world.paths() == PATHS

    virtual.run(story())


def test_another_writer_of_the_paths_is_not_fought_for_ever() -> None:
    async def story() -> None:
        world = World(pod("a"))
        async with world.running():
            for _ in range(20):
                await world.change(applied)
            assert len(world.client.writes()) < 40
            assert "another writer keeps changing" in world.replicas[0][0].notes()["callers"]

    virtual.run(story())


def test_nothing_that_the_server_says_has_the_token(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        caplog.set_level(logging.DEBUG)
        world = World(pod("a"))
        async with world.running():
            token = world.token()
            _, exchange = world.replicas[0]
            log = io.BytesIO()
            said = await all_that_is_said(exchange.routes, token, log)
            said += str(world.replicas[0][0].notes())
        logged = [line.getMessage() for line in caplog.records if line.name.startswith("app.")]
        assert "/mutate/podclique" in said
        assert "writing the paths" in logged[0]
        assert token not in said + str(logged)

    virtual.run(story())


async def all_that_is_said(routes: dict[str, Route], token: str, stream: io.BytesIO) -> str:
    """The answers to requests of every kind over paths with `token`, the metrics and the log."""
    metrics = Metrics()
    log = VerdictLog(stream)
    reports = Reports(metrics, log, dict)
    plain = {path: routes[path] for path in PATHS.values()}
    exchange = Exchange(plain, reports.record)
    app = build_app(exchange, reports)
    exchange.routes.update(routes)
    review = json.dumps(load("podclique.replica-scope-0-worker")).encode()
    as_json = {"content-type": "application/json"}
    requests: list[tuple[str, bytes, dict[str, str]]] = [
        ("POST", review, as_json),
        ("POST", b"{", as_json),
        ("POST", review, {"content-type": "text/plain"}),
        ("POST", b"x" * (MAX_BODY + 1), as_json),
        ("GET", b"", {}),
        ("HEAD", b"", {}),
    ]
    said = ""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="https://server") as client:
        for path in (*PATHS.values(), "/mutate/unknown", "/", "", "/dry-run"):
            for method, body, headers in requests:
                url = f"/{token}{path}"
                answer = await client.request(method, url, content=body, headers=headers)
                said += f"{answer.text}{dict(answer.headers)}\n"
    reports.close()
    return said + metrics.exposition().decode() + stream.getvalue().decode()


def verdict_without_a_token(world: World, replica: int = 0) -> bool:
    """Whether a review without a token gets a verdict."""
    _, exchange = world.replicas[replica]
    route = exchange.route("/validate/podgroup")
    assert route is not None
    return exchange.refusal(route, has_certificate=False) is None


def test_reviews_without_a_token_are_refused_once_api_servers_have_had_time_to_use_it() -> None:
    async def story() -> None:
        world = World(pod("a"))
        async with world.running(2):
            assert verdict_without_a_token(world)
            await asyncio.sleep(REPLACED_SECONDS - 2)
            assert verdict_without_a_token(world)
            await asyncio.sleep(2)
            for number, (tokens, _) in enumerate(world.replicas):
                assert not verdict_without_a_token(world, number)
                assert tokens.notes()["callers"].endswith("; other reviews are refused")
            assert world.trusts(world.token()) == [True, True]

    virtual.run(story())


@pytest.mark.parametrize(
    "managed", [pytest.param(False, id="paths of others"), pytest.param(None, id="one is missing")]
)
def test_reviews_without_a_token_get_a_verdict_where_api_servers_may_send_them(
    managed: bool | None,
) -> None:
    async def story() -> None:
        world = World(pod("a"), managed=managed is not False)
        if managed is None:
            await world.client.delete(ObjectRef(VALIDATING_WEBHOOKS, NAME))
        async with world.running():
            await asyncio.sleep(REPLACED_SECONDS * 2)
            assert verdict_without_a_token(world)

    virtual.run(story())


def test_paths_that_lose_their_token_are_accepted_at_once_and_for_a_while() -> None:
    async def story() -> None:
        world = World(pod("a"))
        async with world.running():
            await asyncio.sleep(REPLACED_SECONDS)
            assert not verdict_without_a_token(world)
            await world.change(applied)
            assert verdict_without_a_token(world)
            await asyncio.sleep(REPLACED_SECONDS)
            assert not verdict_without_a_token(world)

    virtual.run(story())


def test_before_paths_are_written_without_a_token_such_reviews_get_a_verdict() -> None:
    async def story() -> None:
        world = World(pod("a"))
        async with world.running():
            await asyncio.sleep(REPLACED_SECONDS)
            await world.client.create(POD, pod("old", knows=""), "grove-system")
            await asyncio.sleep(BARE_SECONDS / 2)
            assert (verdict_without_a_token(world), world.token() != "") == (True, True)
            await asyncio.sleep(BARE_SECONDS)
            assert (verdict_without_a_token(world), world.token()) == (True, "")

    virtual.run(story())


def test_without_fresh_knowledge_reviews_without_a_token_get_a_verdict() -> None:
    async def story() -> None:
        world = World(pod("a"))
        async with world.running():
            tokens, _ = world.replicas[0]
            await asyncio.sleep(REPLACED_SECONDS)
            assert not verdict_without_a_token(world)
            for store in tokens._configurations.values():
                assert store._last_sign is not None
                store._last_sign -= FRESH_SECONDS
            assert verdict_without_a_token(world)

    virtual.run(story())


async def misuse(exchange: Exchange, path: str) -> None:
    """Send a review of a PodGroup to `path`."""
    route = exchange.route(path)
    if route is not None:
        review = json.dumps(load("podgroup.valid")).encode()
        exchange.answer(route, b"", {b"content-type": b"application/json"}, review)


@pytest.mark.parametrize("path", ["/validate/podcliqueset", "/validate/nothing"])
def test_a_token_that_somebody_else_knows_is_replaced_at_once_but_not_all_the_time(
    path: str,
) -> None:
    async def story() -> None:
        world = World(pod("a"))
        async with world.running(2):
            await asyncio.sleep(LEAK_SECONDS * 2)
            leaked = world.token()
            _, exchange = world.replicas[0]
            await misuse(exchange, f"/{leaked}/validate/podgroup")
            await asyncio.sleep(1)
            assert world.token() == leaked
            await misuse(exchange, f"/{leaked}{path}")
            await asyncio.sleep(1)
            second = world.token()
            assert second != leaked
            await asyncio.sleep(REPLACED_SECONDS * 2)
            assert world.trusts(leaked) == [False, False]
            await misuse(exchange, f"/{second}{path}")
            await asyncio.sleep(1)
            assert world.token() == second
            await asyncio.sleep(LEAK_SECONDS)
            await misuse(exchange, f"/{second}{path}")
            await asyncio.sleep(1)
            assert world.token() != second

    virtual.run(story())


def annotate(annotations: dict[str, str], configuration: Object) -> None:
    configuration["metadata"]["annotations"] |= annotations


def test_a_token_is_replaced_on_demand() -> None:
    async def story() -> None:
        world = World(pod("a"))
        async with world.running(2):
            await asyncio.sleep(10)
            former = world.token()
            at = datetime.fromtimestamp(START + virtual.now(), UTC).isoformat()
            await world.change(partial(annotate, {TOKEN_AFTER: at}))
            current = world.token()
            assert former != current
            await asyncio.sleep(REPLACED_SECONDS)
            assert (world.token(), world.trusts(current)) == (current, [True, True])
            for odd in ("soon", "2999-01-01T00:00:00Z"):
                await world.change(partial(annotate, {TOKEN_AFTER: odd}))
                assert world.token() == current

    virtual.run(story())


def test_a_url_gets_its_token_too() -> None:
    client = {"url": "https://127.0.0.1:8443/mutate/podclique", "caBundle": "UEVN"}
    webhook = {"name": "podclique.mutate.grove-admission.grove.io", "clientConfig": client}
    token = new_token(START)
    assert with_token({"webhooks": [webhook]}, token) == [
        {
            **webhook,
            "clientConfig": {**client, "url": f"https://127.0.0.1:8443/{token}/mutate/podclique"},
        }
    ]
