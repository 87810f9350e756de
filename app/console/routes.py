"""Answer the browser's requests for pages, explanations as text and JSON, events and static files.

Some pages have forms, whose POST requests are answered too.
"""

import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from msgspec import field
from starlette.types import ASGIApp

from app.base.safe_text import visible_json
from app.base.value import Value
from app.console import findings, playground, queues, stored, topology, what_if, workloads
from app.console.events import Streams
from app.console.guard import Guard
from app.console.listing import WaitingList
from app.console.page import ConsolePage, Query, Values, ignored
from app.console.rendering import environment
from app.explain.answers.answer import Answer
from app.explain.live import Live
from app.explain.output.json import document
from app.explain.output.text import text
from app.explain.state.index import Index
from app.kube.api import Reader

_STATIC = Path(__file__).parent / "static"


class Console(Value):
    """The parts of a console that answer requests."""

    live: Live
    """The current facts of the cluster."""
    listing: WaitingList
    """The list of workloads."""
    streams: Streams
    """The streams of events to open tabs."""
    findings: findings.Examination
    """The last examination by audit and doctor."""
    judge: playground.Judge
    """The function that gives the verdicts of the playground."""
    client: Reader
    """The client that reads the object of the page Object."""
    context: str
    """The name of the kubeconfig's context, which the header shows."""
    version: str
    """The version of this program."""


def build_app(console: Console, token: str) -> ASGIApp:
    """Return the ASGI application of the console, which answers only under `/TOKEN/`."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    routes = _Routes(console)
    app.get("/")(routes.entry)
    app.mount("/static", StaticFiles(directory=_STATIC))
    app.get("/events")(routes.events)
    app.get("/workloads.txt")(routes.as_text)
    app.get("/workloads.json")(routes.as_json)
    app.get("/object")(routes.stored)
    app.get("/what-if")(routes.what_if)
    app.post("/findings")(routes.examine)
    app.post("/playground")(routes.judged)
    app.post("/playground.json")(routes.saved)
    for page in routes.pages:
        app.get(f"/{page.path}")(routes.page(page))

    app.add_exception_handler(404, _nothing)
    app.add_exception_handler(405, _nothing)

    return Guard(app, token)


async def _nothing(request: Request, error: Exception) -> Response:
    return Response(status_code=getattr(error, "status_code", 404))


class _Rendered(Value):
    """The parts of a page that depend on the state of the cluster and on the address."""

    main: str
    """The HTML of the main part."""
    ignored: tuple[str, ...] = ()
    """The options in the address that the page ignores, because they are not valid."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """The numbers next to pages in the navigation, by the path of the page."""


class _Routes:
    """The handlers of all paths."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._environment = environment()
        self._listing = console.listing
        self._what_if = what_if.WhatIf()
        self.pages = (
            workloads.page(self._listing),
            topology.PAGE,
            queues.page(self._listing),
            console.findings.page,
            playground.PAGE,
        )
        """The pages, in the order of the navigation and of the keys 1 to 5."""

    async def entry(self) -> Response:
        return self._html("entry.html")

    async def events(self) -> Response:
        if self._console.streams.full:
            return Response(status_code=503)
        return StreamingResponse(self._console.streams.messages(), media_type="text/event-stream")

    def page(self, page: ConsolePage) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler of a page."""

        async def answer(request: Request) -> Response:
            return await self._page(request, page, {})

        return answer

    async def _page(self, request: Request, page: ConsolePage, more: Values) -> Response:
        """Return a page, or 304 if it still has the ETag in `If-None-Match`.

        `more` has further values for the template. They override the values of `page.read`.
        """
        query = dict(reversed(request.query_params.multi_items()))
        live = self._console.live
        facts = live.snapshot()
        revision = live.revision
        if page.watched and not live.ready:
            shown = self._loading()
        else:
            shown, seconds = await live.in_thread(self._timed, page, query, more)
            self._console.streams.slow_down(seconds)
        if not self._listing.complete:
            live.touch()  # so that open tabs soon fetch the page again
        tag = f'"{hashlib.blake2b(repr(shown).encode(), digest_size=12).hexdigest()}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"etag": tag})

        frame = {
            "page": page,
            "pages": self.pages,
            "context": self._console.context,
            "revision": revision,
            "time": facts.now,
        }
        answer = self._html("base.html", **frame, shown=shown, tag=tag)
        answer.headers["etag"] = tag
        return answer

    def _loading(self) -> _Rendered:
        live = self._console.live
        template = self._environment.get_template("loading.html")
        return _Rendered(template.render(trouble=live.trouble, loading=live.progress()))

    def _timed(self, *arguments: Any) -> tuple[_Rendered, float]:
        """Return the rendered page, and the CPU seconds that rendering took."""
        begin = time.thread_time()
        return self._render(*arguments), time.thread_time() - begin

    def _render(self, index: Index, page: ConsolePage, query: Query, more: Values) -> _Rendered:
        """Render the main part of a page."""
        live = self._console.live
        values: Values = {
            "context": self._console.context,
            "trouble": live.trouble,
            "time": index.facts.now,
        }
        counts = self._counts(index, page) if live.ready else {}
        values |= page.read(index, query) | more
        template = self._environment.get_template(f"{page.path}.html")
        not_valid = tuple(ignored(query, values["options"]))
        return _Rendered(template.render(values), not_valid, counts)

    def _counts(self, index: Index, page: ConsolePage) -> dict[str, int]:
        """Return the numbers of pending workloads and of findings, for the navigation."""
        shows_reasons = page.path in (workloads.PATH, queues.PATH)
        self._listing.follow(index, reasons=shows_reasons)
        findings = self._console.findings.count(index)
        return {workloads.PATH: self._listing.waiting, self._console.findings.page.path: findings}

    def _html(self, template: str, **values: Any) -> Response:
        return Response(
            self._environment.get_template(template).render(values), media_type="text/html"
        )

    async def what_if(self, request: Request) -> Response:
        """Return the page What if. It is not updated when the cluster changes."""
        facts = self._console.live.snapshot() if self._console.live.ready else None
        answered = await self._what_if(facts, request.query_params)
        return await self._page(request, what_if.PAGE, answered)

    async def stored(self, request: Request) -> Response:
        """Return the page of an object as it is stored now, with its events."""
        shown = await stored.read_stored(self._console.client, request.query_params)
        of = (shown.get("namespace", ""), shown.get("uid", ""))
        events = await self._console.live.in_thread(stored.events_of, *of)
        return await self._page(request, stored.PAGE, {**shown, "events": events})

    # Explanations in the formats of the command.

    async def as_text(self, request: Request) -> Response:
        return await self._printed(request, lambda answer: PlainTextResponse(f"{text(answer)}\n"))

    async def as_json(self, request: Request) -> Response:
        return await self._printed(request, lambda answer: _json(document(answer)))

    async def _printed(self, request: Request, form: Callable[[Answer], Response]) -> Response:
        """Return the explanation of the object in the query, in the format of `form`, or 404."""
        asked = request.query_params.get("object", "")
        printed = await self._console.live.in_thread(workloads.printed, asked, form)
        return printed or Response(status_code=404)

    # Actions that a form requests.

    async def examine(self) -> Response:
        """Start an examination unless one is running, and redirect to the page Findings."""
        self._console.findings.start()
        return Response(status_code=303, headers={"location": "findings"})

    async def judged(self, request: Request) -> Response:
        """Return the page Playground with verdicts on the documents in the form."""
        judged = await self._console.judge(await _form(request))
        return await self._page(request, playground.PAGE, judged)

    async def saved(self, request: Request) -> Response:
        """Return the documents in the form with their verdicts, as a file to download."""
        judged = await self._console.judge(await _form(request))
        answer = _json(playground.saved(judged, self._console.version))
        file = 'attachment; filename="grove-admission-playground.json"'
        answer.headers["content-disposition"] = file
        return answer


def _json(value: Values) -> Response:
    return Response(visible_json(value, indented=True), media_type="application/json")


async def _form(request: Request) -> dict[str, str]:
    body = (await request.body()).decode("utf-8", "replace")
    return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=20))
