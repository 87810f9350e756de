"""The ASGI app: admission, and FastAPI for all other requests (health, metrics, dry run, docs).

Without `server.clientCaFile`, nothing here needs credentials, as the webhooks themselves. A
NetworkPolicy limits who can reach the port. The README of this folder has a table.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from app import __version__
from app.admission.asgi import AdmissionApp
from app.admission.decide import Route
from app.admission.exchange import Exchange, Trace
from app.admission.review import Request as AdmissionRequest
from app.admission.verdict import Verdict
from app.base.value import Value
from app.objects.tokens import split_token
from app.server.access import for_known_callers
from app.server.dry_runs import DryRuns, Parameters
from app.server.metrics import Metrics
from app.server.reference import add_reference
from app.server.verdict_log import VerdictLog

_ENDPOINTS = (
    "POST /dry-run, GET /healthz, /readyz, /metrics, /version and /docs, and POST of"
    " AdmissionReviews"
)

_TEXT = {"text/plain": {"schema": {"type": "string"}}}
_ERROR: dict[str, Any] = {
    "description": "What is wrong with the request",
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
_NOT_READY: dict[str, Any] = {"description": "A check fails, and which", "content": _TEXT}
_BUSY: dict[str, Any] = {**_ERROR, "description": "Too many dry runs wait already"}

Checks = Callable[[], Mapping[str, str | None]]
"""Returns the problem of each check by its name; None if there is none."""

Notes = Callable[[], Mapping[str, str]]
"""Returns information by name, which is not a problem."""


class Reports(Value):
    """What the endpoints tell of the server, and where its verdicts are recorded.

    `ready` is called for each request to `/readyz`, and `notes` for `/readyz?verbose`. Without a
    `log`, verdicts are only counted. `trace` is called for verdicts of traced requests.
    """

    metrics: Metrics
    log: VerdictLog | None
    ready: Checks
    notes: Notes = dict
    trace: Trace | None = None

    def record(
        self,
        path: str,
        uid: str,
        request: AdmissionRequest | None,
        verdict: Verdict,
        seconds: float,
    ) -> None:
        self.metrics.record(path, request, verdict, seconds)
        if self.log:
            self.log.record(path, uid, request, verdict, seconds)


def build_app(
    routes: Mapping[str, Route],
    reports: Reports,
    *,
    only_known: bool = False,
    protected: frozenset[str] = frozenset(),
) -> AdmissionApp:
    """Return the ASGI app.

    With `only_known`, AdmissionReviews are accepted only from callers with a certificate, and so
    are requests to the paths of `protected`.
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
    _add_dry_run(api, routes)
    _add_version(api, reports.notes)
    _add_metrics(api, reports.metrics)
    _add_errors(api)
    add_reference(api, routes)

    exchange = Exchange(routes, reports.record, only_known=only_known, trace=reports.trace)
    reports.metrics.add(exchange.samples)
    return AdmissionApp(exchange, for_known_callers(api, protected))


def _add_version(api: FastAPI, notes: Notes) -> None:
    @api.head("/version", include_in_schema=False)
    @api.get("/version", summary="The version of this server")
    async def version() -> dict[str, str]:
        named = {"name": "grove-admission", "version": __version__}
        dialect = notes().get("dialect")
        return named | {"dialect": dialect} if dialect else named


def _add_metrics(api: FastAPI, metrics: Metrics) -> None:
    @api.head("/metrics", include_in_schema=False)
    @api.get("/metrics", summary="Prometheus metrics", response_class=PlainTextResponse)
    async def exposition() -> Response:
        return Response(metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_health(api: FastAPI, reports: Reports) -> None:
    failing: dict[int | str, dict[str, Any]] = {503: _NOT_READY}
    summary = "Is the process alive?"

    @api.head("/healthz", include_in_schema=False)
    @api.get("/healthz", summary=summary, response_class=PlainTextResponse, responses=failing)
    async def healthz(verbose: str | None = None) -> Response:
        return _health({"process": None}, {}, verbose)

    summary = "Can it give verdicts? ?verbose lists every check"

    @api.head("/readyz", include_in_schema=False)
    @api.get("/readyz", summary=summary, response_class=PlainTextResponse, responses=failing)
    async def readyz(verbose: str | None = None) -> Response:
        return _health(reports.ready(), reports.notes(), verbose)


def _health(
    checks: Mapping[str, str | None], notes: Mapping[str, str], verbose: str | None
) -> Response:
    """Return the checks and notes, one in each line; without `verbose` only if a check fails."""
    is_failing = any(problem is not None for problem in checks.values())
    lines = []
    if is_failing or verbose is not None:
        lines += [
            f"[{'-' if problem else '+'}] {name} {problem or 'ok'}"
            for name, problem in checks.items()
        ]
        lines += [f"[.] {name} {note}" for name, note in notes.items()]

    lines.append("not ready" if is_failing else "ok")
    return PlainTextResponse("\n".join(lines) + "\n", status_code=503 if is_failing else 200)


def _add_dry_run(api: FastAPI, routes: Mapping[str, Route]) -> None:
    dry_runs = DryRuns(routes)

    @api.post(
        "/dry-run",
        summary="The verdict on YAML or JSON documents; nothing is written",
        openapi_extra={
            "requestBody": {"content": {"application/yaml": {"schema": {"type": "object"}}}}
        },
        responses={200: {"content": _TEXT}, 503: _BUSY},
    )
    async def dry_run(request: Request, parameters: Annotated[Parameters, Query()]) -> Response:
        return await dry_runs.answer(request, parameters)


def _add_errors(api: FastAPI) -> None:
    """Add the handlers of errors: all have the same form, and list the endpoints."""

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
        hint = f"{error.detail}: {request.method} {path}. There are {_ENDPOINTS}"
        return JSONResponse({"error": hint}, status_code=error.status_code, headers=error.headers)
