"""Run the admission chain: call webhooks in order, and apply their responses."""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from scripts.apiserver.admission.attributes import Attributes
from scripts.apiserver.admission.authorization import Access, Authorizer
from scripts.apiserver.admission.policies import StoredPolicies
from scripts.apiserver.admission.webhook import (
    CallFailedError,
    Hook,
    WebhookAnswer,
    WebhookTransport,
    hooks_of,
)
from scripts.apiserver.objects import cel, errors, patching
from scripts.apiserver.objects.objects import Frozen, Object
from scripts.apiserver.objects.resources import Registry, Served
from scripts.apiserver.storage import Storage

_GROUP = "admissionregistration.k8s.io"
MUTATING = (_GROUP, "mutatingwebhookconfigurations")
VALIDATING = (_GROUP, "validatingwebhookconfigurations")


class Admission(Frozen):
    """The admission of requests by owner references, and by the stored policies and webhooks."""

    storage: Storage
    registry: Registry
    transport: WebhookTransport
    authorizer: Authorizer

    async def mutate(
        self, attributes: Attributes, settle: Callable[[Object], object]
    ) -> Object | None:
        """Return the object after all mutating webhooks.

        `settle` (pruning and defaults) is called after each patch. A webhook with
        reinvocationPolicy IfNeeded is called a second time if a later webhook has changed the
        object.
        """
        hooks = self._matching(MUTATING, attributes)
        invoked: set[Hook] = set()
        again: set[Hook] = set()
        for reinvoking in (False, True):
            for hook, matched in hooks:
                if reinvoking and hook not in again:
                    continue
                changed = await self._mutated(hook, matched, attributes, settle)
                if changed is not None:
                    attributes = replace(attributes, obj=changed)
                    again = again | invoked
                    invoked = set()
                if hook.reinvocation_policy == "IfNeeded":
                    invoked.add(hook)

        return attributes.obj

    async def validate(self, attributes: Attributes) -> None:
        """Check owner references and all policies, then call all validating webhooks concurrently.

        Raise the first rejection, in this order.
        """
        self._check_owners(attributes)
        StoredPolicies(self.storage, self.registry, self.authorizer).check(attributes)
        hooks = self._matching(VALIDATING, attributes)
        if not hooks:
            return
        calls = [self._call(hook, matched, attributes) for hook, matched in hooks]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    def _check_owners(self, attributes: Attributes) -> None:
        if attributes.obj is None or attributes.subresource:
            return
        verb = attributes.operation.lower()
        served = attributes.served
        access = Access(verb, served.group, served.plural, attributes.namespace, attributes.name)
        self.authorizer.check_owners(
            attributes.caller.user, access, attributes.obj, attributes.old, self.registry
        )

    async def _mutated(
        self,
        hook: Hook,
        matched: Served,
        attributes: Attributes,
        settle: Callable[[Object], object],
    ) -> Object | None:
        answer = await self._call(hook, matched, attributes)
        if answer is None or not answer.patch or attributes.obj is None:
            return None

        sent = attributes.converted(attributes.obj, matched) or {}
        try:
            patched = patching.apply_json(sent, answer.patch)
        except errors.ApiError as error:
            causes = (error.details or {}).get("causes") or [{"message": error.message}]
            raise errors.internal(causes[0]["message"]) from error

        patched = attributes.served.read(matched.write(patched))
        settle(patched)

        return None if patched == attributes.obj else patched

    async def _call(
        self, hook: Hook, matched: Served, attributes: Attributes
    ) -> WebhookAnswer | None:
        """Return the answer of a webhook that allows the request.

        Return None if the webhook is not called because of its matchConditions, or if the call
        failed and failures are ignored. Raise the webhook's rejection.
        """
        if not self._conditions_hold(hook, attributes, matched):
            return None
        may_write = hook.side_effects not in ("None", "NoneOnDryRun")
        if attributes.caller.dry_run and may_write:
            raise errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')

        try:
            answer = await self.transport.call(hook, attributes.request(matched))
        except CallFailedError as error:
            if hook.fails_closed:
                raise errors.internal(f'failed calling webhook "{hook.name}": {error}') from error
            return None

        attributes.caller.warnings.extend(answer.warnings or ())
        if not answer.allowed:
            raise refusal(hook.name, answer.status or {})

        return answer

    def _conditions_hold(self, hook: Hook, attributes: Attributes, matched: Served) -> bool:
        """Return whether all matchConditions are true.

        If any is false, errors of others are ignored.
        """
        if not hook.match_conditions:
            return True

        request = attributes.request(matched)
        variables = {
            "object": request["object"],
            "oldObject": request["oldObject"],
            "request": request,
        }
        problem: cel.CelError | None = None
        for condition in hook.match_conditions:
            try:
                if not cel.holds(condition["expression"], variables):
                    return False
            except cel.CelError as error:
                problem = problem or error

        if problem is not None and hook.fails_closed:
            why = f"a matchCondition resulted in error: {problem}"
            raise errors.forbidden(attributes.served.table, attributes.name, why)

        return problem is None

    def _matching(
        self, table: tuple[str, str], attributes: Attributes
    ) -> list[tuple[Hook, Served]]:
        if attributes.served.table in (MUTATING, VALIDATING):
            return []
        hooks = (hook for item in self.storage.table(table).items() for hook in hooks_of(item))
        return [
            (hook, matched)
            for hook in hooks
            if (matched := hook.matched(attributes, self.registry, self.storage))
        ]


def refusal(name: str, status: Object) -> errors.ApiError:
    """Return the error for a request that the webhook `name` denied with `status`."""
    denied = f'admission webhook "{name}" denied the request'
    explanation = status.get("message") or status.get("reason")
    message = f"{denied}: {explanation}" if explanation else f"{denied} without explanation"
    code = status.get("code") or 0
    return errors.ApiError(
        code if code >= 400 else 400, status.get("reason") or "", message, status.get("details")
    )
