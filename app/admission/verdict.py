"""The answer of a webhook, before it becomes bytes.

There are three kinds of negative answers: the object is invalid (422), the operation is not allowed
(403), and this program or the cluster has failed (500, 503).
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from app.base.value import Value
from app.objects.fields import REASON_TOO_MANY, FieldError
from app.objects.jsonpatch import Operation
from app.objects.shape import Object

Action = Literal["create", "adopt"]


class Effect(Value):
    """A change in the cluster that belongs to a verdict, or, on a dry run, would be made.

    `object` is the whole object.
    """

    action: Action
    object: Object


class Verdict(Value):
    """A verdict.

    `code` and `reason` are those of a Kubernetes Status, and `causes` the findings of a 422. A
    refusal that is `final` stays one in a trial period.
    """

    allowed: bool
    code: int = 200
    reason: str = ""
    message: str = ""
    causes: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Operation, ...] = ()
    effects: tuple[Effect, ...] = ()
    final: bool = False

    def with_warnings(self, warnings: Iterable[str]) -> "Verdict":
        return replace(self, warnings=(*self.warnings, *warnings))

    @property
    def outcome(self) -> str:
        """The outcome for metrics and logs.

        It is `allowed`, `patched`, `refused`, `failed`, or `warned` in place of `refused` in a
        trial period.
        """
        if self.allowed and self.code != ALLOWED.code:
            return "warned"
        if self.allowed:
            return "patched" if self.patch else "allowed"
        return "failed" if self.code >= 500 else "refused"


ALLOWED = Verdict(allowed=True)


class Later(Value):
    """A verdict that needs calls of the API server.

    `make` makes it, or another one that has to be awaited. Only `decide` calls it.
    """

    make: Callable[[], Awaitable["Verdict | Later"]]


MOST_FINDINGS = 100
"""The most findings in an answer.

Without a limit, the answer to a body of 1 MiB can have 60 MiB.
"""


def judged(
    findings: Sequence[FieldError], warnings: Sequence[str] = (), patch: Sequence[Operation] = ()
) -> Verdict:
    """Return a 422 with the first MOST_FINDINGS findings and the number of further ones.

    Without findings, the request is allowed, with `patch`.
    """
    if findings:
        causes = tuple(_first(findings))
        # on one line, as an API server prints them
        message = ", ".join(map(str, causes))
        if len(causes) > 1:
            message = f"[{message}]"
        return Verdict(False, 422, "Invalid", message, causes=causes, warnings=tuple(warnings))
    return patched(patch, warnings=warnings)


def _first(findings: Sequence[FieldError]) -> Iterator[FieldError]:
    yield from findings[:MOST_FINDINGS]
    more = len(findings) - MOST_FINDINGS
    if more > 0:
        message = f"Too many: {more:,} more findings, from this one on, are not listed"
        yield FieldError(findings[MOST_FINDINGS].field, REASON_TOO_MANY, message)


def patched(
    patch: Sequence[Operation], *, warnings: Sequence[str] = (), effects: Sequence[Effect] = ()
) -> Verdict:
    if not patch and not warnings and not effects:
        return ALLOWED
    return Verdict(True, patch=tuple(patch), warnings=tuple(warnings), effects=tuple(effects))


def not_allowed(message: str, *, final: bool = False) -> Verdict:
    return Verdict(False, 403, "Forbidden", message, final=final)


_REFUSALS = (403, 422)
"""The codes of rules. Those of bad requests, and of our own failures, stay in a trial period."""


def on_trial(verdict: Verdict) -> Verdict:
    """Return a verdict that allows what `verdict` refuses, with the same words as warnings.

    Code, reason and message are still those of the refusal, for metrics and logs.
    """
    if verdict.allowed or verdict.final or verdict.code not in _REFUSALS:
        return verdict

    refusals = [str(cause) for cause in verdict.causes] or [verdict.message]
    warnings = (*(f"would be refused: {text}" for text in refusals), *verdict.warnings)
    return replace(verdict, allowed=True, causes=(), warnings=warnings)


def unavailable(message: str) -> Verdict:
    """Return the verdict if the same request may succeed later."""
    return Verdict(False, 503, "ServiceUnavailable", message)


FAILED = Verdict(
    False,
    500,
    "InternalError",
    "grove-admission failed to judge this request; its log says why under this uid",
)
"""The verdict after an exception. The log has the traceback with the uid of the request."""


def hindered(message: str) -> Verdict:
    """Return the verdict if the cluster rejects a call that is needed.

    It holds until an administrator corrects something.
    """
    return Verdict(False, 500, "InternalError", message)


def inapplicable() -> Verdict:
    """Return the verdict if our patch doesn't apply to the object.

    If such a patch were sent, an API server would fail the request even with failurePolicy Ignore.
    """
    return Verdict(
        False,
        500,
        "PatchDoesNotApply",
        "grove-admission made a patch that does not fit the object: a bug",
    )


def bad_request(message: str, code: int = 400) -> Verdict:
    reason = {400: "BadRequest", 413: "RequestEntityTooLarge", 415: "UnsupportedMediaType"}[code]
    return Verdict(False, code, reason, message)
