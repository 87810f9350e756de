"""Answer /dry-run: return verdicts on YAML or JSON documents, and write nothing."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from app.admission.decide import Route
from app.base.json import to_json
from app.base.unusable import UnusableInput
from app.dry_run.budget import MIB, OF_REQUEST, Budget
from app.dry_run.documents import read_documents
from app.dry_run.judge import Asker, Judgement, describe, judge
from app.kube.api import Object
from app.server.parameters import Parameters

MAX_DRY_RUN = 2 * 1024 * 1024
"""The maximum size of the body of a dry run, in bytes."""
WAITING_DRY_RUNS = 16
"""The maximum number of dry runs in progress, including those that wait for their turn.

One dry run is judged at a time, because its documents may take 50 MiB.
"""
MAX_ANSWER = 8 * 1024 * 1024
"""The maximum size of an answer, in bytes."""
MAX_INDENTED = 64 * 1024
"""The maximum size of JSON that is indented, in bytes.

With 240,000 zeros below 180 lists, a body of 480 KB would have an indented answer of 90 MB.
"""
JUDGING_SECONDS = 100.0
"""The time limit of a dry run, in seconds. It is less than the time limit of a connection."""


_SEND_LESS = "send fewer or smaller documents"


class BodyTooLarge(UnusableInput):
    """The body of a dry run is larger than MAX_DRY_RUN."""


class DryRuns:
    """The endpoint for dry runs with the verdicts of `routes`. It judges one dry run at a time."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = routes
        self._turn = asyncio.Lock()
        self._waiting = 0
        """The number of dry runs in progress, including those that wait for their turn."""

    async def answer(self, request: Request, parameters: Parameters) -> Response:
        """Return the verdicts on the documents in the body.

        If there are no verdicts, return an error as JSON: 400 for unusable documents or parameters,
        or an answer that would be too large, 413 for a body that is too large, and 503 for too many
        or too slow dry runs. If the client has disconnected, return 499.
        """
        unknown = sorted(set(request.query_params) - set(Parameters.model_fields))
        if unknown:
            known = ", ".join(sorted(Parameters.model_fields))
            names = ", ".join(unknown)
            return _error(400, f"unknown query parameters: {names}. The known ones are {known}")
        if self._waiting >= WAITING_DRY_RUNS:
            busy = _error(503, "too many dry runs are in progress: try again in a second")
            busy.headers["Retry-After"] = "1"
            return busy

        self._waiting += 1
        try:
            async with asyncio.timeout(JUDGING_SECONDS):
                text = await _body(request)
                async with self._turn:
                    documents, replaced = await asyncio.to_thread(_read, text, parameters.old)
                    asker = Asker(parameters.user, parameters.operation, tuple(replaced))
                    return await self._judged(documents, asker, parameters.output)
        except TimeoutError:
            text = (
                f"no verdicts within {JUDGING_SECONDS:g} s, including the wait for other dry runs"
            )
            return _error(503, f"{text}: try again, or {_SEND_LESS}")
        except ClientDisconnect:
            return Response(status_code=499)
        except BodyTooLarge as problem:
            return _error(413, str(problem))
        except UnusableInput as problem:
            return _error(400, str(problem))
        finally:
            self._waiting -= 1

    async def _judged(self, documents: Sequence[Object], asker: Asker, output: str) -> Response:
        """Return the verdicts on `documents`. Other requests are answered between documents.

        Raise UnusableInput if the answer would be larger than MAX_ANSWER.
        """
        shown = []
        size = 0
        is_allowed = True
        for document in documents:
            judgement = await judge(self._routes, document, asker)
            is_allowed &= judgement.verdict is None or judgement.verdict.allowed
            shown.append(await asyncio.to_thread(_shown, judgement, output))
            size += len(shown[-1])
            if size > MAX_ANSWER:
                raise UnusableInput(
                    f"the answer is larger than {MAX_ANSWER // MIB} MiB: {_SEND_LESS}"
                )
        if output == "text":
            return Response(b"".join(shown), media_type="text/plain")
        return await asyncio.to_thread(_report, shown, is_allowed=is_allowed)


def _error(code: int, problem: str) -> Response:
    return JSONResponse({"error": problem}, status_code=code)


def _read(text: str, old: str) -> tuple[list[Object], list[Object]]:
    """Return the documents in `text` and in `old`, which share one limit of values and time."""
    budget = Budget(OF_REQUEST)
    documents = read_documents(text, budget)
    replaced = read_documents(old, budget) if old else []
    return documents, replaced


async def _body(request: Request) -> str:
    """Return the body of a request.

    Raise UnusableInput if it is too large or not UTF-8, and ClientDisconnect if it is incomplete.
    """
    chunks = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_DRY_RUN:
            raise BodyTooLarge(
                f"the body is larger than the limit of {MAX_DRY_RUN // 1024} KiB: {_SEND_LESS}"
            )
        chunks.append(chunk)
    try:
        return b"".join(chunks).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UnusableInput(f"the body is not UTF-8 text: {problem}") from None


def _shown(judgement: Judgement, output: str) -> bytes:
    """Return a verdict in the format `output`: text or JSON."""
    if output == "text":
        return "\n".join([*describe(judgement), ""]).encode()
    return to_json(judgement.report())


def _report(results: Sequence[bytes], *, is_allowed: bool) -> Response:
    """Return all verdicts, each already in JSON, as one JSON document."""
    content = b'{"allowed":%b,"results":[%b]}' % (to_json(is_allowed), b",".join(results))
    if len(content) <= MAX_INDENTED:
        content = msgspec.json.format(content, indent=2)
    return Response(content + b"\n", media_type="application/json")
