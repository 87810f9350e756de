"""Define the verdict of a webhook, before it is encoded.

There are four kinds of negative verdicts: the object is invalid (422), the operation is not allowed
(403), the review cannot be judged (400, 413, 415), and this program or the cluster has failed (500,
503).
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal

from msgspec.structs import replace

from app.base.value import Value
from app.objects.fields import REASON_TOO_MANY, FieldError
from app.objects.jsonpatch import Operation
from app.objects.shape import Object

Action = Literal["create", "adopt"]
"""`create` an object, or `adopt` a stored object: make the judged object its owner."""


class Effect(Value):
    """A write to the cluster that a verdict causes, unless the request is a dry run."""

    action: Action
    """The kind of the write."""
    object: Object
    """The whole object that is written."""


class Verdict(Value):
    """The verdict on a request."""

    allowed: bool
    code: int = 200
    """The code of the Kubernetes Status."""
    reason: str = ""
    """The reason of the Kubernetes Status, or ""."""
    message: str = ""
    """The message of the Kubernetes Status, or ""."""
    causes: tuple[FieldError, ...] = ()
    """The findings about the object, for code 422."""
    warnings: tuple[str, ...] = ()
    """The warnings that the API server shows to the user."""
    patch: tuple[Operation, ...] = ()
    """The changes of the object that is judged."""
    effects: tuple[Effect, ...] = ()
    """The writes to the cluster that belong to the verdict."""
    final: bool = False
    """Whether a rejection also applies in a trial period."""

    def with_warnings(self, warnings: Iterable[str]) -> "Verdict":
        """Return this verdict with further warnings."""
        return replace(self, warnings=(*self.warnings, *warnings))

    @property
    def outcome(self) -> str:
        """The outcome for metrics and logs.

        It is `allowed`, `patched`, `refused` or `failed`, or `warned` if a trial period has turned
        a rejection into warnings.
        """
        if self.allowed and self.code != ALLOWED.code:
            return "warned"
        if self.allowed:
            return "patched" if self.patch else "allowed"
        return "failed" if self.code >= 500 else "refused"


ALLOWED = Verdict(allowed=True)


class Ready(Value):
    """A verdict after calls to the API server, which may take tens of milliseconds to judge.

    The calls of many requests may end at the same time, so each request waits for its turn.
    """

    judge: Callable[[], "Verdict | Later"]
    """The function that returns the verdict."""


class Later(Value):
    """A verdict that needs calls to the API server first."""

    make: Callable[[], Awaitable["Outcome"]]
    """The function that makes the calls."""


Outcome = Verdict | Later | Ready
"""The verdict, or the way to it."""


MOST_FINDINGS = 100
"""The maximum number of findings in an answer.

Without this limit, a body of 1 MiB could cause an answer of 60 MiB.
"""


def judged(
    findings: Sequence[FieldError], warnings: Sequence[str] = (), patch: Sequence[Operation] = ()
) -> Verdict:
    """Return a 422 with the first MOST_FINDINGS findings and the number of further findings.

    Without findings, return a verdict that allows the request with `patch`. Both have `warnings`.
    """
    if findings:
        causes = tuple(findings[:MOST_FINDINGS])
        more = len(findings) - MOST_FINDINGS
        if more > 0:
            message = f"Too many: findings from this one on are not listed ({more:,} more)"
            first = findings[MOST_FINDINGS].field
            causes = (*causes, FieldError(first, REASON_TOO_MANY, message))
        # on one line, in the form in which API servers print several findings
        message = ", ".join(map(str, causes))
        if len(causes) > 1:
            message = f"[{message}]"
        return Verdict(False, 422, "Invalid", message, causes=causes, warnings=tuple(warnings))
    return patched(patch, warnings=warnings)


def patched(
    patch: Sequence[Operation], *, warnings: Sequence[str] = (), effects: Sequence[Effect] = ()
) -> Verdict:
    """Return a verdict that allows the request with these changes, warnings and writes."""
    if not patch and not warnings and not effects:
        return ALLOWED
    return Verdict(True, patch=tuple(patch), warnings=tuple(warnings), effects=tuple(effects))


def not_allowed(message: str, *, final: bool = False) -> Verdict:
    """Return a verdict with code 403. With `final`, the verdict also applies in a trial period."""
    return Verdict(False, 403, "Forbidden", message, final=final)


_REFUSALS = (403, 422)
"""The codes of rule violations. Other rejections also apply in a trial period."""


def on_trial(verdict: Verdict) -> Verdict:
    """Return `verdict` for a trial period: a rejection becomes an allowing verdict with warnings.

    For metrics and logs, it keeps the code, reason and message of the rejection. Final rejections,
    failures and verdicts on reviews that cannot be judged are not changed.
    """
    if verdict.allowed or verdict.final or verdict.code not in _REFUSALS:
        return verdict

    refusals = [str(cause) for cause in verdict.causes] or [verdict.message]
    warnings = (*(f"would be refused: {text}" for text in refusals), *verdict.warnings)
    return replace(verdict, allowed=True, causes=(), warnings=warnings)


def unavailable(message: str) -> Verdict:
    """Return a verdict with code 503, for a request that may succeed later."""
    return Verdict(False, 503, "ServiceUnavailable", message)


FAILED = Verdict(
    False,
    500,
    "InternalError",
    'grove-admission failed to judge this request; this is a bug. Search its log for "verdict'
    ' failed" to find the cause',
)
"""The verdict after an unexpected exception. The log has the traceback and the request's uid."""


def hindered(message: str) -> Verdict:
    """Return a verdict with code 500, because the cluster rejects a call that the verdict needs.

    Requests fail until an administrator fixes the cause.
    """
    return Verdict(False, 500, "InternalError", message)


def inapplicable() -> Verdict:
    """Return a verdict with code 500, because our patch can't be applied to the object.

    If we sent the patch, an API server would fail the request even with failurePolicy Ignore.
    """
    return Verdict(
        False,
        500,
        "PatchDoesNotApply",
        "grove-admission created a patch that can't be applied to the object; this is a bug",
    )


def bad_request(message: str, code: int = 400) -> Verdict:
    """Return a verdict for a review that can't be judged. `code` is 400, 413 or 415."""
    reason = {400: "BadRequest", 413: "RequestEntityTooLarge", 415: "UnsupportedMediaType"}[code]
    return Verdict(False, code, reason, message)
