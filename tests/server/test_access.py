"""Who may use the endpoints for people."""

from typing import Any

import httpx
import pytest

from app.admission.asgi import KNOWN_CALLER, App
from app.admission.exchange import Exchange
from app.config.schema import Configuration, Server
from app.server.access import PATHS, protected_paths
from app.server.endpoints import Reports, build_app
from app.server.metrics import Metrics
from app.webhooks.registry import routes_over
from tests.reviews import Seen, cluster

OPEN = ("/healthz", "/readyz", "/version")
GET = [*OPEN, "/metrics", "/docs", "/docs/page.js", "/docs/page.css", "/openapi.json"]


def app_with(*names: str) -> Any:
    exchange = Exchange(routes_over(Configuration(), cluster()), Seen(), only_known=True)
    server = Server.model_validate({"clientCaFile": "ca.crt", "clientCertificateFor": names})
    return build_app(exchange, Reports(Metrics(), None, dict), protected_paths(server))


def known(app: App) -> App:
    """The app, asked by a caller that has shown a certificate."""

    async def asked(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "state": {KNOWN_CALLER: True}}, receive, send)

    return asked


async def status(app: App, method: str, path: str) -> int:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="https://server") as client:
        return (await client.request(method, path, content=b"")).status_code


ALLOWED = {
    (): set(GET),
    ("dry-run", "docs"): {*OPEN, "/metrics"},
    ("metrics",): {*GET} - {"/metrics"},
    ("dry-run", "docs", "metrics"): {*OPEN},
}


@pytest.mark.parametrize("names", ALLOWED)
async def test_what_is_named_is_for_callers_with_a_certificate(names: tuple[str, ...]) -> None:
    app = app_with(*names)
    for path in GET:
        expected = 200 if path in ALLOWED[names] else 401
        assert await status(app, "GET", path) == expected, path
        assert await status(app, "HEAD", path) == expected, path
        assert await status(known(app), "GET", path) == 200, path
    dry_run = 401 if "dry-run" in names else 400
    assert await status(app, "POST", "/dry-run") == dry_run
    assert await status(app, "POST", "/dry%2Drun") == dry_run
    assert await status(known(app), "POST", "/dry-run") == 400
    assert await status(app, "GET", "/unknown") == 404
    assert await status(app, "POST", "/validate/podgroup") == 401
    assert await status(known(app), "POST", "/validate/podgroup") == 415


async def test_a_review_of_an_unknown_caller_is_counted() -> None:
    exchange = Exchange(routes_over(Configuration(), cluster()), Seen(), only_known=True)
    app = build_app(exchange, Reports(Metrics(), None, dict))
    assert await status(app, "POST", "/validate/podgroup") == 401
    assert await status(known(app), "POST", "/validate/podgroup") == 415
    assert exchange.refused == 1


def test_by_default_dry_runs_and_docs_need_a_certificate() -> None:
    assert Server().client_certificate_for == ("dry-run", "docs")
    assert protected_paths(Server()) == frozenset()
    with_certificates = Server.model_validate({"clientCaFile": "ca.crt"})
    assert protected_paths(with_certificates) == {*PATHS["dry-run"], *PATHS["docs"]}
