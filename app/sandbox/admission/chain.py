"""The admission chain.

It decides which webhooks are called for a request, in which order, and how their responses apply.
"""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

from app.sandbox.admission.authorization import Access, Authorizer
from app.sandbox.admission.webhook import Answer, CallFailedError, Hook, Transport, hooks_of
from app.sandbox.objects import cel, errors, patching
from app.sandbox.objects.objects import Caller, Object
from app.sandbox.objects.resources import Registry, Served
from app.sandbox.storage import Storage

_GROUP = "admissionregistration.k8s.io"
MUTATING = (_GROUP, "mutatingwebhookconfigurations")
VALIDATING = (_GROUP, "validatingwebhookconfigurations")


@dataclass(frozen=True, slots=True)
class Attributes:
    """A request to be admitted. `obj` and `old` are in the version of `served`."""

    served: Served
    operation: str
    namespace: str
    name: str
    caller: Caller
    obj: Object | None = None
    old: Object | None = None
    subresource: str = ""

    def request(self, matched: Served) -> Object:
        """Return the `request` of an AdmissionReview.

        `matched` is the version that a rule of the webhook names.
        """
        present = {
            "subResource": self.subresource,
            "requestSubResource": self.subresource,
            "name": self.name,
            "namespace": self.namespace,
        }
        return {
            "uid": str(uuid.uuid4()),
            "kind": matched.group_version_kind(),
            "resource": matched.group_version_resource(),
            "requestKind": self.served.group_version_kind(),
            "requestResource": self.served.group_version_resource(),
            **{key: value for key, value in present.items() if value},
            "operation": self.operation,
            "userInfo": self.caller.user.info(),
            "object": self.converted(self.obj, matched),
            "oldObject": self.converted(self.old, matched),
            "dryRun": self.caller.options.dry_run,
            "options": self.caller.options.review(f"{self.operation.title()}Options"),
        }

    def converted(self, obj: Object | None, matched: Served) -> Object | None:
        """`obj` in the version `matched`."""
        return None if obj is None else matched.read(self.served.write(obj))


class Admission:
    """Calls the webhooks whose configurations are stored.

    Before validating webhooks it checks owner references.
    """

    def __init__(
        self, storage: Storage, registry: Registry, transport: Transport, authorizer: Authorizer
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._transport = transport
        self._authorizer = authorizer

    async def mutate(
        self, attributes: Attributes, settle: Callable[[Object], object]
    ) -> Object | None:
        """Return the object after all mutating webhooks.

        `settle` (pruning and defaults) is called after each patch. A webhook with
        reinvocationPolicy IfNeeded is called once more if a later webhook has changed the object.
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
                if hook.reinvoke:
                    invoked.add(hook)

        return attributes.obj

    async def validate(self, attributes: Attributes) -> None:
        """Call all validating webhooks concurrently.

        Raises the first rejection, in the order of the webhooks.
        """
        self._check_owners(attributes)
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
        self._authorizer.check_owners(
            attributes.caller.user, access, attributes.obj, attributes.old, self._registry
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

    async def _call(self, hook: Hook, matched: Served, attributes: Attributes) -> Answer | None:
        """Return the answer of a webhook that allows the request.

        None if the call failed and failures are ignored. Raise the rejection of a webhook that does
        not allow it.
        """
        if not self._conditions_hold(hook, attributes, matched):
            return None
        if attributes.caller.options.dry_run and not hook.dry_runs:
            raise errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')

        try:
            answer = await self._transport.call(hook, attributes.request(matched))
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

        If one is false, errors of the others do not matter.
        """
        if not hook.conditions:
            return True

        request = attributes.request(matched)
        variables = {
            "object": request["object"],
            "oldObject": request["oldObject"],
            "request": request,
        }
        problem: cel.CelError | None = None
        for condition in hook.conditions:
            try:
                if not cel.holds(condition["expression"], variables):
                    return False
            except cel.CelError as error:
                problem = problem or error

        if problem is not None and hook.fails_closed:
            why = f"a matchCondition resulted in error: {problem}"
            raise errors.forbidden(
                attributes.served.group, attributes.served.plural, attributes.name, why
            )

        return problem is None

    def _matching(
        self, table: tuple[str, str], attributes: Attributes
    ) -> list[tuple[Hook, Served]]:
        if attributes.served.table in (MUTATING, VALIDATING):
            return []
        configured = (
            hook for item in self._storage.table(table).items() for hook in hooks_of(item)
        )
        hooks = ((hook, self._rule(hook, attributes)) for hook in configured)
        return [
            (hook, matched)
            for hook, matched in hooks
            if matched and self._selected(hook, attributes)
        ]

    def _rule(self, hook: Hook, attributes: Attributes) -> Served | None:
        """Return the version of the request for the hook, or None if none of its rules matches."""
        versions = [attributes.served]
        if hook.equivalent:
            versions += self._registry.versions(attributes.served.table)
        for served in versions:
            if any(_rule_matches(rule, served, attributes) for rule in hook.rules):
                return served
        return None

    def _selected(self, hook: Hook, attributes: Attributes) -> bool:
        if not any(
            hook.objects(obj) for obj in (attributes.obj, attributes.old) if obj is not None
        ):
            return False
        if attributes.served.table == ("", "namespaces"):
            return hook.namespaces(attributes.obj or attributes.old or {})
        if not attributes.served.namespaced:
            return True
        return hook.namespaces(
            self._storage.get(("", "namespaces"), ("", attributes.namespace)) or {}
        )


def _rule_matches(rule: Object, served: Served, attributes: Attributes) -> bool:
    scope = {"Namespaced": (True,), "Cluster": (False,)}.get(
        rule.get("scope") or "*", (True, False)
    )
    namespaced = served.namespaced and served.table != ("", "namespaces")
    return (
        _named(rule, "operations", attributes.operation)
        and _named(rule, "apiGroups", served.group)
        and _named(rule, "apiVersions", served.version)
        and namespaced in scope
        and any(
            _resource_matches(item, served.plural, attributes.subresource)
            for item in rule.get("resources") or ()
        )
    )


def _named(rule: Object, key: str, value: str) -> bool:
    return not {"*", value}.isdisjoint(rule.get(key) or ())


def _resource_matches(pattern: str, plural: str, subresource: str) -> bool:
    """`pods`, `pods/binding`, `pods/*`, `*/status`, `*` (no subresources), `*/*`."""
    resource, _, sub = pattern.partition("/")
    return resource in ("*", plural) and (sub == subresource or (sub == "*"))


def refusal(name: str, status: Object) -> errors.ApiError:
    """Return the error for a request that the webhook `name` denied.

    It has the message, code and details of the Status of the webhook.
    """
    denied = f'admission webhook "{name}" denied the request'
    explanation = status.get("message") or status.get("reason")
    message = f"{denied}: {explanation}" if explanation else f"{denied} without explanation"
    code = status.get("code") or 0
    return errors.ApiError(
        code if code >= 400 else 400, status.get("reason") or "", message, status.get("details")
    )
