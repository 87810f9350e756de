"""Answer an admission request: turn the bytes of its body into the bytes of the answer.

`connection` and `asgi` read requests and call `Exchange`, so that both give the same answers.
"""

import functools
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping

from app.admission.decide import Route, decide
from app.admission.review import BadReview, Request, encode, salvage_uid
from app.admission.verdict import Verdict, bad_request, unavailable
from app.base.json import to_json
from app.base.sample import Sample, counter, gauge
from app.base.trace import IS_STRANGE, TRACEPARENT
from app.base.turns import FairTurns
from app.objects.time import duration
from app.objects.tokens import split_token

MAX_BODY = 7 * 1024 * 1024
"""The maximum size of a body, in bytes.

The limit of an API server is 3 MiB for an object, and a review of an UPDATE contains two.
"""

MAX_VALUES = 500_000
"""The maximum number of values in one review. Values are maps, lists and their members.

Two objects of 1.5 MiB, the most that etcd stores, have about 300,000 values if they consist only of
short fields. A value may take 100 bytes of memory.
"""

FEW_BYTES = 256 * 1024
"""The size, in bytes, up to which a body can't have too many values, so they are not counted."""

SALVAGED = 4096
"""The number of bytes at the start of an oversized body that are searched for the uid."""

MOST_WAITING = MAX_VALUES
"""The maximum number of values in all reviews of unknown callers that wait for the API server.

A review stays in memory while it waits.
"""

DEFAULT_TIMEOUT = 10.0
"""The deadline, in seconds, of a request without a valid one. API servers use it by default."""
JSON = b"application/json"

Headers = Mapping[bytes, bytes]
"""The values of a request's headers by lowercase name."""

Answer = tuple[int, bytes]
"""The HTTP status and the body of an answer. The body is JSON, except for some probes."""

_MARGIN = 0.9
"""The share of the deadline that the verdict may take. The rest is for the transfer."""


Observer = Callable[[str, str, Request | None, Verdict, float], None]
"""A function that is called once for every verdict.

The arguments are the path, the uid (or ""), the request (None if it could not be read), the
verdict, and the seconds from the start of decoding to the encoded answer. The time in the queue of
reviews does not count.
"""

Trace = Callable[[str, str, Request, Verdict, float], None]
"""A function that is called for each verdict on a request with a `traceparent`.

The arguments are the traceparent, the path, the request, the verdict, and the seconds that it took.
"""


class Exchange:
    """The exchange of admission requests for their answers, on the paths of `routes`.

    With `only_known`, callers must have presented a certificate of a configured client CA.
    """

    __slots__ = (
        "_observe",
        "_trace",
        "_turns",
        "_waiting_values",
        "needs_token",
        "on_leak",
        "only_known",
        "refused",
        "routes",
        "waiting",
    )

    def __init__(
        self,
        routes: Mapping[str, Route],
        observe: Observer,
        *,
        only_known: bool = False,
        trace: Trace | None = None,
    ) -> None:
        self.routes = dict(routes)
        """The routes by path.

        Paths with a token are added and removed while the server runs.
        """
        self.only_known = only_known
        self.needs_token: Callable[[], bool] = lambda: False
        """The function that returns whether API servers use only paths with a token.

        If it returns True, other paths get 401.
        """
        self.on_leak: Callable[[], None] = lambda: None
        """The function that is called if a caller that is not an API server knows a token."""
        self.refused = 0
        """The number of reviews that were refused because their caller is unknown."""
        self.waiting = 0
        """The number of requests that wait for calls to the API server."""
        self._waiting_values = 0
        """The number of values in the waiting requests of unknown callers."""
        self._observe = observe
        self._trace = trace
        self._turns = FairTurns()

    def answer(
        self, route: Route, query: bytes, headers: Headers, body: bytes
    ) -> Answer | Awaitable[Answer]:
        """Return the answer to the review in `body`.

        If its verdict needs calls to the API server, return an awaitable of the answer, which ends
        before the deadline in `query`. If too many such reviews are waiting, the answer is a 503.
        """
        begin = time.perf_counter()
        content_type = headers.get(b"content-type", b"")
        try:
            if content_type != JSON:
                check_content_type(content_type, body)
            if len(body) > FEW_BYTES:
                check_values(body)
            request = route.parse(body)
        except BadReview as bad:
            return self._refused(route, bad, begin)

        if route.others:
            route = route.for_request(request)

        request.trusted = self.only_known or route.trusted
        verdict = decide(route, request, deadline(query), self._turns)
        if isinstance(verdict, Verdict):
            if verdict.code == 400 and route.trusted and not route.takes(request):
                self.on_leak()
            return self._answered(route, request, verdict, begin, headers)

        values = 0 if request.trusted else values_in(body)
        if self._waiting_values + values > MOST_WAITING:
            verdict.close()
            return self._answered(route, request, unavailable(TOO_MANY), begin, headers)

        self._waiting_values += values
        return self._awaited(route, request, self._counted(verdict, values), begin, headers)

    def refusal(self, route: Route, *, has_certificate: bool) -> Answer | None:
        """Return the answer to a caller that must not get a verdict from `route`, otherwise None.

        The answer depends only on the head of a request, so that the body of an unknown caller is
        not read.
        """
        if self.only_known:
            refusal = None if has_certificate else UNKNOWN_CALLER
        else:
            refusal = None if route.trusted or not self.needs_token() else NO_TOKEN
        if refusal is not None:
            self.refused += 1
        return refusal

    def route(self, path: str) -> Route | None:
        """Return the route of `path`, or None if there is none.

        A path with an invalid token has the same route as the path without a token. If a valid
        token precedes an unknown path, call `on_leak`.
        """
        route = self.routes.get(path)
        if route is None:
            token, bare = split_token(path)
            route = self.routes.get(bare)
            if (
                token
                and route is None
                and any(known.startswith(f"/{token}/") for known in self.routes)
            ):
                self.on_leak()
        return route

    def too_large(self, route: Route, content_type: bytes, beginning: bytes) -> Answer:
        """Return the answer to a body of more than MAX_BODY bytes that begins with `beginning`."""
        return self.refuse(route, too_large(content_type, beginning))

    def refuse(self, route: Route, bad: BadReview) -> Answer:
        """Return the answer to a request whose body can't be read because of `bad`."""
        return self._refused(route, bad, time.perf_counter())

    def samples(self) -> Iterator[Sample]:
        """Yield the numbers of waiting requests and of refused reviews."""
        text = "Requests that wait for calls to the API server."
        yield gauge("in_flight_requests", text, self.waiting)
        text = "Reviews refused because their caller is unknown."
        yield counter("unknown_callers_total", text, self.refused)

    async def _counted(self, verdict: Awaitable[Verdict], values: int) -> Verdict:
        """Return the awaited verdict, and subtract the review's `values` from the count."""
        try:
            return await verdict
        finally:
            self._waiting_values -= values

    async def _awaited(
        self,
        route: Route,
        request: Request,
        verdict: Awaitable[Verdict],
        begin: float,
        headers: Headers,
    ) -> Answer:
        """Return the answer with a verdict that has to be awaited."""
        if self._trace is not None:
            TRACEPARENT.set(_traceparent(headers))
        IS_STRANGE.set(not request.trusted)
        self.waiting += 1
        try:
            return self._answered(route, request, await verdict, begin, headers)
        finally:
            self.waiting -= 1

    def _answered(
        self, route: Route, request: Request, verdict: Verdict, begin: float, headers: Headers
    ) -> Answer:
        """Return the answer with a verdict, and report the verdict to `observe` and `trace`."""
        try:
            body = encode(request.uid, verdict, request)
        except RecursionError:
            # the patch has a part of the object that can be parsed, but is too deep to encode
            verdict = bad_request("the object is nested too deeply")
            body = encode(request.uid, verdict, request)

        seconds = time.perf_counter() - begin
        self._observe(route.path, request.uid, request, verdict, seconds)
        if self._trace is not None and (traceparent := _traceparent(headers)):
            self._trace(traceparent, route.path, request, verdict, seconds)

        return 200, body

    def _refused(self, route: Route, bad: BadReview, begin: float) -> Answer:
        """Return the answer to a bad review: a review if the uid is known, otherwise a Status."""
        verdict = bad_request(bad.message, bad.code)
        answer = (
            (200, encode(bad.uid, verdict)) if bad.uid else status(verdict.code, verdict.message)
        )
        self._observe(route.path, bad.uid, None, verdict, time.perf_counter() - begin)
        return answer


def _traceparent(headers: Headers) -> str:
    """Return the trace context of a request, or "" if it has none."""
    return headers.get(b"traceparent", b"").decode("latin-1")


def too_large(content_type: bytes, beginning: bytes) -> BadReview:
    """Return the error for a body of more than MAX_BODY bytes that begins with `beginning`."""
    try:
        check_content_type(content_type, beginning)
    except BadReview as bad:
        return bad
    return BadReview(TOO_LARGE, salvage_uid(beginning[:SALVAGED]), 413)


def check_content_type(content_type: bytes, body: bytes) -> None:
    """Raise BadReview with code 415 if the content type is not JSON.

    `body` may be the beginning of a body.
    """
    if content_type.split(b";")[0].strip().lower() != JSON:
        shown = content_type.decode("latin-1") or "none"
        raise BadReview(
            f"the content type must be application/json, not {shown[:100]}", salvage_uid(body), 415
        )


def check_values(body: bytes) -> None:
    """Raise BadReview with code 413 if `body` may have more than MAX_VALUES values.

    Parsed values take far more memory than their text.
    """
    if values_in(body) > MAX_VALUES:
        raise BadReview(
            f"the body has more than {MAX_VALUES} of the characters {{, [ and ,: it may have too"
            " many maps, lists and members",
            salvage_uid(body),
            413,
        )


def values_in(body: bytes) -> int:
    """Return an upper bound for the number of maps, lists and members in the JSON of `body`.

    The bound is the number of the characters `{`, `[` and `,`, including those in strings.
    """
    return body.count(b",") + body.count(b"{") + body.count(b"[")


def status(code: int, message: str) -> Answer:
    """Return a Kubernetes Status, which answers a request whose uid is not known."""
    return code, to_json(
        {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "message": message,
            "code": code,
        }
    )


TOO_MANY = "too many large reviews are in progress: try again"
TOO_LARGE = f"the body is larger than the limit of {MAX_BODY // (1024 * 1024)} MiB"

UNKNOWN_CALLER = status(
    401,
    "this request has no valid client certificate (server.clientCaFile): configure the API server"
    " to present one with --admission-control-config-file",
)
"""The answer to a caller without a certificate, if certificates are required."""

NO_TOKEN = status(
    401,
    "this path has no valid token: only API servers get verdicts here, with the paths in the"
    " stored webhook configurations. To try an object, POST it to /dry-run on the tools port"
    " (server.toolsPort)",
)
"""The answer to a review on a path without a valid token, if tokens are required."""


@functools.lru_cache(maxsize=64)
def deadline(query: bytes) -> float:
    """Return the seconds that the verdict may take.

    This is the timeout in `query`, such as `timeout=10s`, minus a margin for the transfer. A
    missing or invalid timeout, or one above 60 s, counts as DEFAULT_TIMEOUT.
    """
    for pair in query.split(b"&"):
        name, _, value = pair.partition(b"=")
        if name == b"timeout":
            seconds = duration(value.decode("latin-1"))
            if 0 < seconds <= 60:
                return seconds * _MARGIN
    return DEFAULT_TIMEOUT * _MARGIN
