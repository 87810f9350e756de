"""Evaluate ValidatingAdmissionPolicies for a request.

https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/. Audit
annotations are not supported.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from scripts.apiserver.admission.attributes import Attributes, MatchConstraints
from scripts.apiserver.admission.authorization import Access, Authorizer
from scripts.apiserver.objects import errors
from scripts.apiserver.objects.cel import CelError
from scripts.apiserver.objects.objects import Frozen, Object, TableId
from scripts.apiserver.objects.resources import Registry
from scripts.apiserver.objects.scope import MayDo, Scope
from scripts.apiserver.objects.selectors import object_selector
from scripts.apiserver.storage import Storage

_GROUP = "admissionregistration.k8s.io"
POLICIES = (_GROUP, "validatingadmissionpolicies")
BINDINGS = (_GROUP, "validatingadmissionpolicybindings")

_LONGEST_MESSAGE = 5 * 1024
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


class Violation(Frozen):
    """A violation of a policy, as bound by one of its bindings."""

    policy: str
    binding: str
    message: str
    reason: str
    actions: tuple[str, ...]

    def refusal(self, table: TableId, name: str) -> errors.ApiError:
        """Return the error for a request that is denied because of this violation."""
        why = (
            f"ValidatingAdmissionPolicy '{self.policy}' with binding '{self.binding}' denied"
            f" request: {self.message}"
        )
        message = f'{errors.qualified(table)} "{name}" is forbidden: {why}'
        details = errors.about(table, name)
        return errors.ApiError(_CODES[self.reason], self.reason, message, details)

    @property
    def warning(self) -> str:
        return (
            f"Validation failed for ValidatingAdmissionPolicy '{self.policy}' with binding"
            f" '{self.binding}': {self.message}"
        )


class StoredPolicies(Frozen):
    """The stored policies and bindings."""

    storage: Storage
    registry: Registry
    authorizer: Authorizer

    def check(self, attributes: Attributes) -> None:
        """Collect the warnings, then raise the first violation that denies the request.

        The caller gets the warnings.
        """
        if attributes.served.table in (POLICIES, BINDINGS):
            return

        refusals: list[Violation] = []
        for binding in self.storage.table(BINDINGS).items():
            policy = self.storage.get(POLICIES, ("", binding["spec"]["policyName"]))
            for finding in self._findings(policy, binding, attributes) if policy else ():
                if "Warn" in finding.actions:
                    attributes.caller.warnings.append(finding.warning)
                if "Deny" in finding.actions:
                    refusals.append(finding)

        if refusals:
            raise refusals[0].refusal(attributes.served.table, attributes.name)

    def _findings(self, policy: Object, binding: Object, attributes: Attributes) -> list[Violation]:
        spec = policy["spec"]["matchConstraints"]
        constraints = msgspec.convert({**spec, "rules": spec["resourceRules"]}, MatchConstraints)
        matched = constraints.matched(attributes, self.registry, self.storage)
        if matched is None:
            return []

        request = attributes.request(matched)
        parameters = self._parameters(policy, binding)
        user = attributes.caller.user

        def may_do(access: dict[str, str]) -> bool:
            return self.authorizer.may(user, Access(**access))

        return list(findings_of(policy, binding, request, parameters, may_do))

    def _parameters(self, policy: Object, binding: Object) -> list[Object | None]:
        """Return the parameters of a policy, or [None] if it has no paramKind.

        Return [] if no parameter exists, or if their kind is not served. The request then passes
        this policy, as with failurePolicy Ignore and parameterNotFoundAction Allow.
        """
        kind = policy["spec"].get("paramKind")
        if kind is None:
            return [None]
        served = self.registry.for_kind(kind["apiVersion"], kind["kind"])
        if served is None:
            return []

        reference = binding["spec"]["paramRef"]
        stored = self.storage.table(served.table).items()
        if "name" in reference:
            return [item for item in stored if item["metadata"]["name"] == reference["name"]]
        selects = object_selector(reference["selector"])
        return [item for item in stored if selects(item)]


def findings_of(
    policy: Object,
    binding: Object,
    request: Object,
    parameters: Sequence[Object | None],
    may_do: MayDo,
) -> Iterator[Violation]:
    """Yield the violations of `policy` by `request`, the request of an AdmissionReview.

    The policy is evaluated for each of `parameters`, which are [None] if it has no paramKind.
    """
    attributes = {
        key: value for key, value in request.items() if not key.lower().endswith("object")
    }
    variables = {
        "object": request.get("object"),
        "oldObject": request.get("oldObject"),
        "request": attributes,
    }
    for parameter in parameters:
        yield from _violations(policy, binding, Scope({**variables, "params": parameter}, may_do))


def _violations(policy: Object, binding: Object, scope: Scope) -> Iterator[Violation]:
    """Yield the violations by the request and the parameter in `scope`."""
    spec = policy["spec"]
    names = (policy["metadata"]["name"], binding["metadata"]["name"])
    actions = tuple(binding["spec"]["validationActions"])

    def failed(error: CelError) -> Iterator[Violation]:
        if spec.get("failurePolicy", "Fail") == "Fail":
            message = f"expression resulted in error: {error}"
            yield Violation(*names, message, "Invalid", actions)

    try:
        conditions = spec.get("matchConditions") or ()
        if not all(scope.value(item["expression"]) for item in conditions):
            return
    except CelError as error:
        yield from failed(error)
        return

    _add_variables(spec.get("variables") or (), scope)
    for validation in spec["validations"]:
        try:
            if not scope.value(validation["expression"]):
                reason = validation.get("reason", "Invalid")
                yield Violation(*names, _message(validation, scope), reason, actions)
        except CelError as error:
            yield from failed(error)


def _add_variables(variables: Iterable[Object], scope: Scope) -> None:
    """Add the variables in order, so that each can use the previous ones.

    A variable without a value is left out, so expressions that use it fail.
    """
    values: dict[str, Any] = {}
    for item in variables:
        with contextlib.suppress(CelError):
            values[item["name"]] = scope.value(item["expression"])
            scope.add("variables", values)


def _message(validation: Object, scope: Scope) -> str:
    """Return the message of a validation.

    It is the result of messageExpression if that is usable, otherwise `message`, otherwise a text
    with the expression.
    """
    short = str(validation.get("message") or f"failed expression: {validation['expression']}")
    try:
        message = scope.value(validation.get("messageExpression") or "''")
    except CelError:
        return short
    is_shown = isinstance(message, str) and message.strip() and "\n" not in message
    if not is_shown or len(message.encode()) > _LONGEST_MESSAGE:
        return short
    return str(message)
