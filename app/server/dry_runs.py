"""The endpoint for dry runs: verdicts on the documents of a request. Nothing is written."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fastapi import Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect

from app.admission.decide import Route
from app.base.json import pretty_json
from app.dry_run.budget import OF_REQUEST, Budget, UnusableInput
from app.dry_run.documents import read_documents
from app.dry_run.judge import Asker, Judgement, describe, judge
from app.kube.api import Object

MAX_DRY_RUN = 2 * 1024 * 1024
WAITING_DRY_RUNS = 16
JUDGED_DRY_RUNS = 3
"""The most dry runs whose documents are in memory.

Those of one may take 50 MiB, for as long as their verdicts wait for the API server.
"""
JUDGING_SECONDS = 100.0
"""A little less than the time after which the connection of a dry run is closed."""
DRY_RUN_USER = "dry-run"


class BodyTooLarge(UnusableInput):
    """The body of a dry run is larger than the limit."""


class Parameters(BaseModel):
    """The query of a dry run."""

    operation: Literal["CREATE", "UPDATE", "DELETE"] = Field(
        "CREATE", description="what is asked for"
    )
    user: str = Field(DRY_RUN_USER, description="who asks")
    old: str = Field("", description="the document that an UPDATE replaces, as YAML or JSON")
    output: Literal["json", "text"] = Field("json", description="for programs or for people")

    def asker(self, replaced: Sequence[Object]) -> Asker:
        return Asker(self.user, self.operation, tuple(replaced))


class DryRuns:
    """Dry runs with the verdicts of `routes`.

    They read their documents one after the other, because this takes processor time and memory that
    verdicts need.
    """

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = routes
        self._turn = asyncio.Lock()
        self._judging = asyncio.Semaphore(JUDGED_DRY_RUNS)
        self._waiting = 0
        """The number of dry runs that are not judged yet."""

    async def answer(self, request: Request, parameters: Parameters) -> Response:
        unknown = sorted(set(request.query_params) - set(Parameters.model_fields))
        if unknown:
            known = ", ".join(sorted(Parameters.model_fields))
            return _error(400, f"there is no parameter {', '.join(unknown)}; there are {known}")
        try:
            text = await _body(request)
            if self._waiting >= WAITING_DRY_RUNS:
                busy = _error(503, "too many dry runs at once: try again in a moment")
                busy.headers["Retry-After"] = "1"
                return busy
            judged = await self._in_turn(text, parameters)
        except TimeoutError:
            return _error(503, f"no verdicts within {JUDGING_SECONDS:g} s: give fewer documents")
        except ClientDisconnect:
            return Response(status_code=499)
        except BodyTooLarge as problem:
            return _error(413, str(problem))
        except UnusableInput as problem:
            return _error(400, str(problem))

        return await asyncio.to_thread(_judged_response, judged, parameters.output)

    async def _in_turn(self, text: str, parameters: Parameters) -> list[Judgement]:
        """Read the documents in `text`, and judge them, while few others are judged."""
        self._waiting += 1
        try:
            async with self._judging, asyncio.timeout(JUDGING_SECONDS):
                async with self._turn:
                    documents, replaced = await asyncio.to_thread(_read, text, parameters.old)
                return await self._judged(documents, parameters.asker(replaced))
        finally:
            self._waiting -= 1

    async def _judged(self, documents: Sequence[Object], asker: Asker) -> list[Judgement]:
        """Return the judgements of some documents. Other requests are answered between two."""
        judged = []
        for document in documents:
            judged.append(await judge(self._routes, document, asker))
            await asyncio.sleep(0)
        return judged


def _error(code: int, problem: str) -> Response:
    return JSONResponse({"error": problem}, status_code=code)


def _read(text: str, old: str) -> tuple[list[Object], list[Object]]:
    """Return the documents of both texts, which share a budget."""
    budget = Budget(OF_REQUEST)
    documents = read_documents(text, budget)
    replaced = read_documents(old, budget) if old else []
    return documents, replaced


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
    return Response(pretty_json(report) + b"\n", media_type="application/json")
