"""The verdict of one route on one request: kind and shape are checked, and every failure becomes a
verdict.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.admission.review import Request, shape_findings
from app.admission.verdict import (
    ALLOWED,
    FAILED,
    Verdict,
    bad_request,
    inapplicable,
    judged,
    on_trial,
    unavailable,
)
from app.objects.fields import quote
from app.objects.jsonpatch import applies

Handler = Callable[[Request], Verdict | Awaitable[Verdict]]
"""A webhook. It returns a verdict if all facts are cached, else an awaitable."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Route:
    """The route of one path: `operations` on `resource` of `group`, whose objects are of `kind`.

    `also` are further pairs of kind and resource of the same group. If the route is `on_trial`, it
    warns in place of refusing. Only API servers know the path of a `trusted` route. `others` are
    further routes of the same path, for other kinds.
    """

    path: str
    group: str
    kind: str
    resource: str
    subresource: str
    operations: frozenset[str]
    handler: Handler
    also: tuple[tuple[str, str], ...] = ()
    on_trial: bool = False
    trusted: bool = False
    others: tuple["Route", ...] = ()

    @property
    def plurals(self) -> tuple[str, ...]:
        """The plurals of all its resources."""
        return (self.resource, *(plural for _, plural in self.also))

    def for_request(self, request: Request) -> "Route":
        """Return the route of this path for the kind of `request`, or this one."""
        for route in self.others:
            if route.group == request.group and route.takes(request.kind, request.resource):
                return route
        return self

    def takes(self, kind: str, resource: str) -> bool:
        """Whether objects of `kind` are judged.

        `resource` is the plural, or "" if it is not known.
        """
        if kind == self.kind and resource in (self.resource, ""):
            return True
        return any(kind == also and resource in (plural, "") for also, plural in self.also)


def decide(route: Route, request: Request, seconds: float) -> Verdict | Awaitable[Verdict]:
    """Return the verdict of `route` on `request` if all facts are cached, else an awaitable that
    returns it within `seconds`. Neither raises any error except CancelledError.
    """
    try:
        verdict = _judge_envelope(route, request)
        if verdict is None:
            answer = route.handler(request)
            if not isinstance(answer, Verdict):
                return _awaited(route, request, answer, seconds)
            verdict = answer
        return _checked(route, request, verdict)
    except Exception:
        return _crashed(route, request)


async def decided(route: Route, request: Request, seconds: float) -> Verdict:
    """Returns the verdict of `decide`, and awaits it if necessary."""
    answer = decide(route, request, seconds)
    return answer if isinstance(answer, Verdict) else await answer


async def _awaited(
    route: Route, request: Request, answer: Awaitable[Verdict], seconds: float
) -> Verdict:
    try:
        async with asyncio.timeout(seconds):
            return _checked(route, request, await answer)
    except TimeoutError:
        return unavailable(
            f"no verdict within {seconds:g} s: the cluster was too slow to answer; try again"
        )
    except Exception:
        return _crashed(route, request)


def _judge_envelope(route: Route, request: Request) -> Verdict | None:
    """Return a verdict if the request needs no rule of the webhook, else None."""
    if (
        request.group != route.group
        or not route.takes(request.kind, request.resource)
        or request.subresource != route.subresource
    ):
        return bad_request(_misplaced(route, request))

    if request.operation not in route.operations:
        operations = ", ".join(sorted(route.operations))
        return bad_request(f"{route.path} judges {operations}, not {request.operation}")
    if request.operation == "UPDATE" and request.is_deleting:
        return ALLOWED
    if request.operation != "DELETE":
        findings = shape_findings(request)
        if findings:
            return judged(findings)

    return None


def _checked(route: Route, request: Request, verdict: Verdict) -> Verdict:
    """Return `verdict`, or another one if it refuses in a trial period or its patch is wrong."""
    if not verdict.allowed:
        return on_trial(verdict) if route.on_trial else verdict
    if not verdict.patch or applies(request.object, verdict.patch):
        return verdict
    log.error("patch does not apply", extra={"path": route.path, "uid": request.uid})
    return inapplicable()


def _crashed(route: Route, request: Request) -> Verdict:
    log.exception("verdict failed", extra={"path": route.path, "uid": request.uid})
    return FAILED


def _misplaced(route: Route, request: Request) -> str:
    resource = "/".join(filter(None, (request.resource, request.subresource)))
    actual = f"{quote(request.group)} {quote(request.kind)} ({resource or 'no resource'})"
    judged = "/".join(filter(None, (route.resource, route.subresource)))
    return f'{route.path} judges "{route.group}" "{route.kind}" ({judged}), not {actual}'
