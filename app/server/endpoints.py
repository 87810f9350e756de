"""The ASGI app: admission, and FastAPI for all other requests (health, metrics, dry run, docs).

Without `server.clientCaFile`, nothing here needs credentials, as the webhooks themselves. A
NetworkPolicy limits who can reach the port. The README of this folder has a table.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import orjson
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect

from app import __version__
from app.admission.asgi import AdmissionApp
from app.admission.decide import Route
from app.admission.exchange import Exchange, Trace
from app.admission.review import Request as AdmissionRequest
from app.admission.review import dumps
from app.admission.verdict import Verdict
from app.dry_run.budget import OF_REQUEST, Budget, UnusableInput
from app.dry_run.documents import read_documents
from app.dry_run.judge import Asker, Judgement, describe, judge
from app.kube.api import Object
from app.objects.tokens import split_token
from app.server.access import answering_head, for_known_callers
from app.server.metrics import Metrics
from app.server.verdict_log import VerdictLog

MAX_DRY_RUN = 2 * 1024 * 1024
WAITING_DRY_RUNS = 16
DRY_RUN_USER = "dry-run"
_ENDPOINTS = (
    "POST /dry-run, GET /healthz, /readyz, /metrics, /version and /docs, and POST of"
    " AdmissionReviews"
)
_DRY_RUN_PARAMETERS = {"operation", "user", "groups", "old", "output"}

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


class BodyTooLarge(UnusableInput):
    """The body of a dry run is larger than the limit."""


def build_app(
    routes: Mapping[str, Route],
    metrics: Metrics,
    log: VerdictLog | None,
    ready: Checks,
    notes: Notes = dict,
    *,
    only_known: bool = False,
    protected: frozenset[str] = frozenset(),
    trace: Trace | None = None,
) -> AdmissionApp:
    """The ASGI app.

    `ready` is called for each request to `/readyz`, and `notes` for `/readyz?verbose`. With
    `only_known`, AdmissionReviews are accepted only from callers with a certificate, and so are
    requests to the paths of `protected`. `trace` is called for verdicts of traced requests.
    """
    api = FastAPI(
        title="grove-admission",
        version=__version__,
        description=(
            "Health, metrics and dry runs. The admission webhooks beside it speak"
            " AdmissionReview v1."
        ),
        redoc_url=None,
        responses={"4XX": _ERROR},
    )
    _add_health(api, ready, notes)
    _add_dry_run(api, routes)
    _add_errors(api)

    @api.get("/version", summary="The version of this server")
    async def version() -> dict[str, str]:
        dialect = notes().get("dialect")
        return {
            "name": "grove-admission",
            "version": __version__,
            **({"dialect": dialect} if dialect else {}),
        }

    @api.get("/metrics", summary="Prometheus metrics", response_class=PlainTextResponse)
    async def exposition() -> Response:
        return Response(metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")

    def observe(
        path: str, uid: str, request: AdmissionRequest | None, verdict: Verdict, seconds: float
    ) -> None:
        metrics.record(path, request, verdict, seconds)
        if log is not None:
            log.record(path, uid, request, verdict, seconds)

    exchange = Exchange(routes, observe, only_known=only_known, trace=trace)
    metrics.add(exchange.samples)
    return AdmissionApp(exchange, answering_head(for_known_callers(api, protected)))


def _add_health(api: FastAPI, ready: Checks, notes: Notes) -> None:
    def answer(
        checks: Mapping[str, str | None], notes: Mapping[str, str], verbose: str | None
    ) -> Response:
        failing = {name: problem for name, problem in checks.items() if problem is not None}
        lines = [
            f"[{'-' if problem else '+'}] {name} {problem or 'ok'}"
            for name, problem in checks.items()
        ]
        lines += [f"[.] {name} {note}" for name, note in notes.items()]
        if not failing and verbose is None:
            lines = []
        lines.append("not ready" if failing else "ok")
        return PlainTextResponse("\n".join(lines) + "\n", status_code=503 if failing else 200)

    failing: dict[int | str, dict[str, Any]] = {503: _NOT_READY}

    @api.get(
        "/healthz",
        summary="Is the process alive?",
        response_class=PlainTextResponse,
        responses=failing,
    )
    async def healthz(verbose: str | None = None) -> Response:
        return answer({"process": None}, {}, verbose)

    summary = "Can it give verdicts? ?verbose lists every check"

    @api.get("/readyz", summary=summary, response_class=PlainTextResponse, responses=failing)
    async def readyz(verbose: str | None = None) -> Response:
        return answer(ready(), notes(), verbose)


class Turns:
    """The turns of dry runs.

    They read their documents one after the other, because this takes processor time and memory that
    verdicts need. `waiting` is the number of dry runs that read or wait.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        self.waiting += 1
        try:
            async with self._lock:
                yield
        finally:
            self.waiting -= 1


def _add_dry_run(api: FastAPI, routes: Mapping[str, Route]) -> None:
    turns = Turns()

    @api.post(
        "/dry-run",
        summary="The verdict on YAML or JSON documents; nothing is written",
        openapi_extra={
            "requestBody": {"content": {"application/yaml": {"schema": {"type": "object"}}}}
        },
        responses={200: {"content": _TEXT}, 503: _BUSY},
    )
    async def dry_run(
        request: Request,
        operation: Annotated[
            Literal["CREATE", "UPDATE", "DELETE"], Query(description="what is asked for")
        ] = "CREATE",
        user: Annotated[str, Query(description="who asks")] = DRY_RUN_USER,
        groups: Annotated[
            str, Query(description="the groups of the user, separated by commas")
        ] = "",
        old: Annotated[
            str, Query(description="the document that an UPDATE replaces, as YAML or JSON")
        ] = "",
        output: Annotated[
            Literal["json", "text"], Query(description="for programs or for people")
        ] = "json",
    ) -> Response:
        unknown = sorted(set(request.query_params) - _DRY_RUN_PARAMETERS)
        if unknown:
            known = ", ".join(sorted(_DRY_RUN_PARAMETERS))
            return JSONResponse(
                {"error": f"there is no parameter {', '.join(unknown)}; there are {known}"}, 400
            )

        if turns.waiting >= WAITING_DRY_RUNS:
            busy = "too many dry runs at once: try again in a moment"
            return JSONResponse({"error": busy}, status_code=503, headers={"Retry-After": "1"})

        try:
            documents, replaced = await _documents(request, old, turns)
        except ClientDisconnect:
            return Response(status_code=499)
        except BodyTooLarge as problem:
            return JSONResponse({"error": str(problem)}, status_code=413)
        except UnusableInput as problem:
            return JSONResponse({"error": str(problem)}, status_code=400)

        asker = Asker(user, tuple(filter(None, groups.split(","))), operation, replaced)
        judged = await _judged(routes, documents, asker)

        return await asyncio.to_thread(_judged_response, judged, output)


async def _documents(
    request: Request, old: str, turns: Turns
) -> tuple[list[Object], tuple[Object, ...]]:
    """The documents in the body, and those in `old`."""
    text = await _body(request)
    async with turns.taken():
        return await asyncio.to_thread(_read, text, old)


def _read(text: str, old: str) -> tuple[list[Object], tuple[Object, ...]]:
    """Return the documents of both texts, which share a budget."""
    budget = Budget(OF_REQUEST)
    documents = read_documents(text, budget)
    replaced = read_documents(old, budget) if old else []
    return documents, tuple(replaced)


async def _judged(
    routes: Mapping[str, Route], documents: Sequence[Object], asker: Asker
) -> list[Judgement]:
    """Return the judgements of some documents. Other requests are answered between two of them."""
    judged = []
    for document in documents:
        judged.append(await judge(routes, document, asker))
        await asyncio.sleep(0)
    return judged


def _judged_response(judged: Sequence[Judgement], output: str) -> Response:
    if output == "text":
        return PlainTextResponse(
            "\n".join(line for judgement in judged for line in describe(judgement)) + "\n"
        )
    report: dict[str, Any] = {
        "allowed": all(
            judgement.verdict is None or judgement.verdict.allowed for judgement in judged
        ),
        "results": [judgement.report() for judgement in judged],
    }
    return Response(pretty(report), media_type="application/json")


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


async def _body(request: Request) -> str:
    chunks = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_DRY_RUN:
            raise BodyTooLarge(f"the body is larger than the limit of {MAX_DRY_RUN // 1024} KiB")
        chunks.append(chunk)
    try:
        return b"".join(chunks).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UnusableInput(f"the body is not UTF-8 text: {problem}") from None


def pretty(report: dict[str, Any]) -> bytes:
    """Return a report of a dry run as indented JSON.

    It is in one line if it has texts that are not valid Unicode.
    """
    try:
        return orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return dumps(report) + b"\n"
