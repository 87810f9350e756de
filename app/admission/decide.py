"""Call the webhook of a route for one request.

The kind and shape of the request are checked first, and every exception becomes a verdict.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from app.admission.review import Parse, Request, parse, shape_findings
from app.admission.verdict import (
    ALLOWED,
    FAILED,
    Later,
    Outcome,
    Verdict,
    bad_request,
    inapplicable,
    judged,
    on_trial,
    unavailable,
)
from app.base.turns import FairTurns
from app.base.value import Value
from app.objects.fields import quote
from app.objects.jsonpatch import applies
from app.objects.names import is_label

Handler = Callable[[Request], Verdict | Later]
"""The function of a webhook. It returns a Verdict if all facts are cached, otherwise a Later."""

Failure = Callable[[Exception], Verdict | None]
"""A function that returns the verdict for a webhook's exception, or None if a bug caused it."""

log = logging.getLogger(__name__)


def _no_verdict(_: Exception) -> None:
    """Return None: every exception of the webhook is a bug."""


class Route(Value):
    """A path of the server, and the requests that its webhook judges."""

    path: str
    """The path of the URL without a token, such as `/validate/podgroup`."""
    group: str
    """The API group of the objects."""
    kind: str
    """The kind of the objects."""
    resource: str
    """The plural of the kind."""
    subresource: str
    """The subresource, or ""."""
    operations: frozenset[str]
    """The operations that are judged."""
    handler: Handler
    """The function of the webhook."""
    also: tuple[tuple[str, str], ...] = ()
    """Further kinds of the same group that are judged, as (kind, plural)."""
    on_trial: bool = False
    """Whether the webhook warns instead of rejecting, in a trial period."""
    trusted: bool = False
    """Whether only API servers know the path, because it has a token."""
    others: tuple["Route", ...] = ()
    """Further routes of the same path, for other kinds."""
    needs_namespace: bool = False
    """Whether requests without a valid namespace are rejected."""
    guards_spec: bool = False
    """Whether updates of objects that are being deleted are judged if they change the spec."""
    failure: Failure = _no_verdict
    """The function that returns the verdict for an exception of `handler`."""
    parse: Parse = parse
    """The function that decodes reviews on this path."""

    @property
    def plurals(self) -> tuple[str, ...]:
        """The plurals of all kinds that are judged."""
        return (self.resource, *(plural for _, plural in self.also))

    def for_request(self, request: Request) -> "Route":
        """Return the route in `others` that judges the kind of `request`, or this route.

        If several routes do, prefer the route that also judges the operation of `request`.
        """
        taking = [route for route in self.others if route.takes(request)]
        for route in taking:
            if request.operation in route.operations:
                return route
        return next(iter(taking), self)

    def takes(self, request: Request) -> bool:
        """Return whether this route judges the group, kind and resource of `request`.

        A request without a resource matches by its kind alone.
        """
        if request.group != self.group:
            return False
        if request.kind == self.kind and request.resource in (self.resource, ""):
            return True
        return any(
            request.kind == kind and request.resource in (plural, "") for kind, plural in self.also
        )


def decide(
    route: Route, request: Request, seconds: float, turns: FairTurns | None = None
) -> Verdict | Coroutine[Any, Any, Verdict]:
    """Return the verdict of `route` on `request` if all facts are cached.

    Otherwise, return a coroutine that returns the verdict within `seconds`, and judges in `turns`.
    The coroutine raises only CancelledError.
    """
    try:
        answer = _judge_envelope(route, request) or route.handler(request)
        if isinstance(answer, Later):
            return _awaited(route, request, answer, seconds, turns or FairTurns())
        return _checked(route, request, answer)
    except Exception as problem:
        return _failed(route, request, problem)


async def decided(route: Route, request: Request, seconds: float) -> Verdict:
    """Return the verdict of `decide`, after awaiting the coroutine if it returns one."""
    answer = decide(route, request, seconds)
    return answer if isinstance(answer, Verdict) else await answer


async def _awaited(
    route: Route, request: Request, later: Later, seconds: float, turns: FairTurns
) -> Verdict:
    """Return the verdict after its calls to the API server, or a 503 after `seconds`."""
    answer: Outcome = later
    try:
        async with asyncio.timeout(seconds):
            while not isinstance(answer, Verdict):
                if isinstance(answer, Later):
                    answer = await answer.make()
                else:
                    async with turns.take(request.namespace):
                        answer = answer.judge()
        return _checked(route, request, answer)
    except TimeoutError:
        return unavailable(
            f"no verdict within {seconds:g} s, because calls to the API server took too long: try"
            " again"
        )
    except Exception as problem:
        return _failed(route, request, problem)


def _judge_envelope(route: Route, request: Request) -> Verdict | None:
    """Return a verdict that needs none of the webhook's rules, or None if the rules decide."""
    if not route.takes(request) or request.subresource != route.subresource:
        return bad_request(_misplaced(route, request))

    if request.operation not in route.operations:
        operations = ", ".join(sorted(route.operations))
        return bad_request(f"{route.path} judges {operations}, not {request.operation}")
    if request.operation == "UPDATE" and request.is_deleting:
        old_spec = request.old.get("spec") if request.old else None
        if not route.guards_spec or request.object.get("spec") == old_spec:
            return ALLOWED
    if request.operation != "DELETE":
        findings = shape_findings(request)
        if findings:
            return judged(findings)
    if route.needs_namespace and not is_label(request.namespace):
        return bad_request(
            f"request.namespace must be the name of a namespace, because {route.kind} is namespaced"
        )

    return None


def _checked(route: Route, request: Request, verdict: Verdict) -> Verdict:
    """Return `verdict`, adapted to a trial period, or a 500 if its patch can't be applied."""
    if not verdict.allowed:
        return on_trial(verdict) if route.on_trial else verdict
    if not verdict.patch or applies(request.object, verdict.patch):
        return verdict
    log.error("patch does not apply", extra={"path": route.path, "uid": request.uid})
    return inapplicable()


def _failed(route: Route, request: Request, problem: Exception) -> Verdict:
    """Return the verdict for an exception, which is logged if it is a bug."""
    verdict = route.failure(problem)
    if verdict is None:
        log.exception("verdict failed", extra={"path": route.path, "uid": request.uid})
        return FAILED
    return verdict


def _misplaced(route: Route, request: Request) -> str:
    """Return the message for a request of a kind or subresource that the route does not judge."""
    resource = "/".join(filter(None, (request.resource, request.subresource)))
    actual = f"{quote(request.group)} {quote(request.kind)} ({resource or 'no resource'})"
    judged = "/".join(filter(None, (route.resource, route.subresource)))
    return f'{route.path} judges "{route.group}" "{route.kind}" ({judged}), not {actual}'
