"""ValidatingAdmissionPolicies: which of them apply to a request, and what they say of it.

https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/. Audit
annotations are not supported.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.sandbox.admission.attributes import Attributes, is_selected, matched_version
from app.sandbox.admission.authorization import Access, Authorizer
from app.sandbox.objects import errors
from app.sandbox.objects.cel import CelError
from app.sandbox.objects.objects import Object
from app.sandbox.objects.resources import Registry
from app.sandbox.objects.scope import MayDo, Scope
from app.sandbox.objects.selectors import object_selector
from app.sandbox.storage import Storage

_GROUP = "admissionregistration.k8s.io"
POLICIES = (_GROUP, "validatingadmissionpolicies")
BINDINGS = (_GROUP, "validatingadmissionpolicybindings")

_VARIABLE = re.compile(r"\bvariables\.(\w+)")
_LONGEST_MESSAGE = 5 * 1024
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


@dataclass(frozen=True, slots=True)
class Violation:
    """What a policy with one of its bindings says of a request that it does not allow."""

    policy: str
    binding: str
    message: str
    reason: str
    actions: tuple[str, ...]

    def refusal(self, group: str, plural: str, name: str) -> errors.ApiError:
        """Return the error of a request that is denied."""
        why = (
            f"ValidatingAdmissionPolicy '{self.policy}' with binding '{self.binding}' denied"
            f" request: {self.message}"
        )
        message = f'{errors.qualified(group, plural)} "{name}" is forbidden: {why}'
        details = errors.about(group, plural, name)
        return errors.ApiError(_CODES[self.reason], self.reason, message, details)

    @property
    def warning(self) -> str:
        return (
            f"Validation failed for ValidatingAdmissionPolicy '{self.policy}' with binding"
            f" '{self.binding}': {self.message}"
        )


@dataclass(frozen=True, slots=True)
class StoredPolicies:
    """The policies and bindings that are stored."""

    storage: Storage
    registry: Registry
    authorizer: Authorizer

    def check(self, attributes: Attributes) -> None:
        """Raise the first refusal, after warnings were added to those of the caller."""
        if attributes.served.group == _GROUP:
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
            served = attributes.served
            raise refusals[0].refusal(served.group, served.plural, attributes.name)

    def _findings(self, policy: Object, binding: Object, attributes: Attributes) -> list[Violation]:
        constraints = policy["spec"]["matchConstraints"]
        matched = matched_version(
            constraints["resourceRules"],
            attributes,
            self.registry,
            equivalent=constraints.get("matchPolicy", "Equivalent") == "Equivalent",
        )
        namespaces = object_selector(constraints.get("namespaceSelector"))
        objects = object_selector(constraints.get("objectSelector"))
        if matched is None or not is_selected(namespaces, objects, attributes, self.storage):
            return []

        request = attributes.request(matched)
        parameters = self._parameters(policy, binding)
        user = attributes.caller.user

        def may_do(access: dict[str, str]) -> bool:
            return self.authorizer.may(user, Access(**access))

        return list(findings_of(policy, binding, request, parameters, may_do))

    def _parameters(self, policy: Object, binding: Object) -> list[Object | None]:
        """Return the parameters, [None] for a policy without any.

        None of them may exist, and their kind may not be served: this API server then lets the
        request pass, as if failurePolicy were Ignore and parameterNotFoundAction Allow.
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
    """Yield what `policy` says of `request`, the request of an AdmissionReview, for each parameter.

    [None] are the parameters of a policy without any.
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
        scope = Scope({**variables, "params": parameter}, may_do)
        yield from _Evaluation(policy, binding, scope).findings()


class _Evaluation:
    """One policy and binding, for one request and one parameter.

    A variable is evaluated before the first expression that uses it. If that fails, so does an
    expression that needs its value.
    """

    def __init__(self, policy: Object, binding: Object, scope: Scope) -> None:
        self._policy = policy
        self._binding = binding
        self._scope = scope
        spec = policy["spec"]
        self._expressions: Mapping[str, str] = {
            item["name"]: item["expression"] for item in spec.get("variables") or ()
        }
        self._values: dict[str, Any] = {}
        self._tried: set[str] = set()

    def findings(self) -> Iterator[Violation]:
        spec = self._policy["spec"]
        conditions = spec.get("matchConditions") or ()
        try:
            applies = all(self._value(item["expression"]) for item in conditions)
        except CelError as error:
            yield from self._failed(error)
            return

        for validation in spec["validations"] if applies else ():
            try:
                holds = self._value(validation["expression"])
            except CelError as error:
                yield from self._failed(error)
                continue
            if not holds:
                reason = validation.get("reason", "Invalid")
                yield self._finding(self._message(validation), reason)

    def _failed(self, error: CelError) -> Iterator[Violation]:
        if self._policy["spec"].get("failurePolicy", "Fail") == "Fail":
            yield self._finding(f"expression resulted in error: {error}", "Invalid")

    def _message(self, validation: Object) -> str:
        """Return the message of a validation. One that can't be shown gives way to the other."""
        short = str(validation.get("message") or f"failed expression: {validation['expression']}")
        try:
            message = self._value(validation.get("messageExpression") or "''")
        except CelError:
            return short
        is_shown = isinstance(message, str) and message.strip() and "\n" not in message
        if not is_shown or len(message.encode()) > _LONGEST_MESSAGE:
            return short
        return str(message)

    def _finding(self, message: str, reason: str) -> Violation:
        return Violation(
            self._policy["metadata"]["name"],
            self._binding["metadata"]["name"],
            message,
            reason,
            tuple(self._binding["spec"]["validationActions"]),
        )

    def _value(self, expression: str) -> Any:
        """Return the value of an expression. Its variables are the only ones it sees."""
        names = _VARIABLE.findall(expression)
        for name in names:
            if name not in self._tried:
                self._tried.add(name)
                with contextlib.suppress(CelError):
                    self._values[name] = self._value(self._expressions[name])

        if names:
            used = {name: self._values[name] for name in names if name in self._values}
            self._scope.add("variables", used)
        return self._scope.value(expression)
