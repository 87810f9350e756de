"""Build the FastAPI application with webhooks, health, metrics, dry runs and docs.

Our server serves it on the tools port, and any other ASGI server can serve it (`app/asgi.py`).
Without `server.clientCaFile`, no endpoint needs credentials: a NetworkPolicy limits who can reach
the port. The README of this folder has a table of paths.
"""

import asyncio
import functools
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from msgspec import field
from starlette.exceptions import HTTPException as StarletteHTTPException

from app import __version__
from app.admission.asgi import App, answer_review
from app.admission.decide import Route
from app.admission.exchange import Answer, Exchange
from app.admission.review import Request as AdmissionRequest
from app.admission.verdict import Verdict
from app.base.json import to_json
from app.base.value import Value
from app.objects.tokens import split_token
from app.server.access import for_known_callers
from app.server.metrics import Metrics
from app.server.parameters import Parameters
from app.server.reference import add_reference, webhook
from app.server.verdict_log import VerdictLog, VerdictRecord, record_of

if TYPE_CHECKING:
    from app.server.dry_runs import DryRuns

_ENDPOINTS = (
    "POST /dry-run, GET /healthz, /readyz, /metrics, /version and /docs, and POST of"
    " AdmissionReviews"
)

TEXT = "text/plain; charset=utf-8"
_TEXT = {"text/plain": {"schema": {"type": "string"}}}
_ERROR: dict[str, Any] = {
    "description": "The reason why the request failed",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"error": {"type": "string"}},
                "required": ["error"],
            }
        }
    },
}
_NOT_READY: dict[str, Any] = {"description": "The failing checks", "content": _TEXT}
_BUSY: dict[str, Any] = {
    **_ERROR,
    "description": "Too many dry runs are in progress, or this one took too long",
}

Checks = Callable[[], Mapping[str, str | None]]
"""A function that returns the problem of each check by name, or None for a check that passes."""

Notes = Callable[[], Mapping[str, str]]
"""A function that returns notes by name. A note is information, not a problem."""


_MOST_RECORDS = 256
"""The number of verdicts after which they are counted and logged."""


class Reports(Value):
    """The health endpoints of a server, and the metrics and log of its verdicts."""

    metrics: Metrics
    """The metrics that count verdicts."""
    log: VerdictLog | None
    """The log of verdicts, or None to log none."""
    ready: Checks
    """Returns the checks for `/readyz`."""
    notes: Notes = dict
    """Returns the notes for `/readyz`."""
    records: list[VerdictRecord] = field(default_factory=list)
    """The verdicts that are not counted and logged yet."""

    def record(
        self,
        path: str,
        uid: str,
        request: AdmissionRequest | None,
        verdict: Verdict,
        seconds: float,
    ) -> None:
        """Report a verdict with the next ones, or at once if its code is 500 or more.

        `request` is None if the review could not be read.

        Counting and logging verdicts one by one would take several times the processor time,
        because the code and data would not be in the processor caches (`./scripts/bench verdicts`).
        """
        self.records.append(record_of(path, uid, request, verdict, seconds))
        if len(self.records) >= _MOST_RECORDS or verdict.code >= 500:
            self.flush()

    def flush(self) -> None:
        """Count and log all verdicts so far."""
        if not self.records:
            return
        for record in self.records:
            self.metrics.count(record)
        if self.log:
            self.log.write(self.records)
        self.records.clear()

    def close(self) -> None:
        """Count and log all verdicts, and wait until the log is written."""
        self.flush()
        if self.log:
            self.log.close()

    def health(self, path: str, *, verbose: bool = False) -> tuple[str, Answer] | None:
        """Return the content type and the answer for a probe path, or None for other paths."""
        if path == "/healthz":
            return TEXT, (200, b"ok\n")
        if path == "/readyz":
            return TEXT, _readiness(self.ready(), self.notes, verbose=verbose)
        if path == "/version":
            named = {"name": "grove-admission", "version": __version__}
            if dialect := self.notes().get("dialect"):
                named["dialect"] = dialect
            return "application/json", (200, to_json(named))
        return None


def build_app(exchange: Exchange, reports: Reports, protected: frozenset[str] = frozenset()) -> App:
    """Return the ASGI app with all endpoints. `exchange` gives the verdicts of its webhooks.

    On `protected` paths, callers without a client certificate get 401.
    """
    api = FastAPI(
        title="grove-admission",
        version=__version__,
        description="Health, metrics, dry runs, and the admission webhooks.",
        docs_url=None,
        redoc_url=None,
        responses={"4XX": _ERROR},
    )
    _add_health(api, reports)
    _add_dry_run(api, dict(exchange.routes))
    _add_metrics(api, reports)
    for path in list(exchange.routes):
        _add_webhook(api, exchange, path)
    _add_errors(api)
    add_reference(api)
    return for_known_callers(api, protected)


def _add_webhook(api: FastAPI, exchange: Exchange, path: str) -> None:
    """Add the webhook at `path`, with the same verdicts as on the port for API servers.

    A review needs no token here. Without a client certificate, only reviews of deletions of
    PodGangs cause writes.
    """
    described = webhook(exchange.routes[path])

    @api.post(path, **described)
    async def review(request: Request) -> Response:
        route = exchange.routes[path]
        code, body = await answer_review(exchange, route, request.scope, request.receive)
        return Response(body, code, media_type="application/json")


def _add_metrics(api: FastAPI, reports: Reports) -> None:
    @api.head("/metrics", include_in_schema=False)
    @api.get("/metrics", summary="Prometheus metrics", response_class=PlainTextResponse)
    async def exposition() -> Response:
        reports.flush()
        text = reports.metrics.exposition()
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_health(api: FastAPI, reports: Reports) -> None:
    def add(path: str, summary: str, **options: Any) -> None:
        @api.head(path, include_in_schema=False)
        @api.get(path, summary=summary, **options)
        async def health(verbose: str | None = None) -> Response:
            report = reports.health(path, verbose=verbose is not None)
            assert report is not None
            content_type, (code, body) = report
            return Response(body, code, media_type=content_type)

    failing: dict[int | str, dict[str, Any]] = {503: _NOT_READY}
    as_text: dict[str, Any] = {"response_class": PlainTextResponse, "responses": failing}
    add("/healthz", "Is the process alive?", **as_text)
    add("/readyz", "Can the process give verdicts? Add ?verbose to list the checks", **as_text)
    add("/version", "The version of this server")


def _readiness(checks: Mapping[str, str | None], notes: Notes, *, verbose: bool) -> Answer:
    """Return the answer of `/readyz`, with code 200, or 503 if a check fails.

    With `verbose`, or if a check fails, the answer has a line for each check and note.
    """
    is_failing = any(problem is not None for problem in checks.values())
    lines = []
    if is_failing or verbose:
        lines += [
            f"[{'-' if problem else '+'}] {name} {problem or 'ok'}"
            for name, problem in checks.items()
        ]
        lines += [f"[.] {name} {note}" for name, note in notes().items()]

    lines.append("not ready" if is_failing else "ok")
    return 503 if is_failing else 200, ("\n".join(lines) + "\n").encode()


def _add_dry_run(api: FastAPI, routes: Mapping[str, Route]) -> None:
    @functools.cache
    def dry_runs() -> "DryRuns":
        from app.server.dry_runs import DryRuns

        return DryRuns(routes)

    @api.post(
        "/dry-run",
        summary="Return verdicts on YAML or JSON documents, and write nothing",
        openapi_extra={
            "requestBody": {"content": {"application/yaml": {"schema": {"type": "object"}}}}
        },
        responses={200: {"content": _TEXT}, 503: _BUSY},
    )
    async def dry_run(request: Request, parameters: Annotated[Parameters, Query()]) -> Response:
        # Most servers never judge a dry run, so the modules for it are loaded only here. A thread
        # loads them, so that verdicts on reviews continue.
        await asyncio.to_thread(importlib.import_module, "app.server.dry_runs")
        return await dry_runs().answer(request, parameters)


def _add_errors(api: FastAPI) -> None:
    """Add handlers that return errors as JSON with the key `error`.

    The error for a wrong path or method lists the endpoints.
    """

    @api.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        problems = [
            f"{'.'.join(map(str, problem['loc'][1:]))}: {problem['msg']}"
            for problem in error.errors()
        ]
        return JSONResponse({"error": "; ".join(problems)}, status_code=400)

    @api.exception_handler(StarletteHTTPException)
    async def other(request: Request, error: StarletteHTTPException) -> Response:
        path = split_token(request.url.path)[1]
        hint = f"{error.detail}: {request.method} {path}. The endpoints are {_ENDPOINTS}"
        return JSONResponse({"error": hint}, status_code=error.status_code, headers=error.headers)
