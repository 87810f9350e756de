"""Rules in CEL as objects of the API server: admission policies with their bindings.

Source: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/,
https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/
"""

from collections.abc import Iterator, Sequence

from app.base.groups import by_key
from app.base.value import Value
from app.objects.resource import POD, Resource
from app.objects.shape import Object
from app.rules.policy import Policy, PolicyDemand
from app.rules.workload.pod_policy import MARK, conditions_of_mark
from app.webhooks.configurations import API_VERSION, NAME, expressions, outside

SUFFIX = f".{NAME}.grove.io"
STATIC_SUFFIX = f".{NAME}.static.k8s.io"
"""API servers want this end of names in static manifests."""

RULES = "policies"
QUEUES = "queue-guard"


class Form(Value):
    """What the objects of several policies have in common.

    `component` is their label, by which former ones are pruned, `suffix` the end of their names,
    and `exempt` the namespaces that they leave out.
    """

    component: str
    suffix: str
    exempt: Sequence[str]

    def named(self, kind: str, name: str, spec: Object) -> Object:
        """Return an object of `kind`."""
        labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": self.component}
        return {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {"name": name + self.suffix, "labels": labels},
            "spec": spec,
        }

    def constraints(self, rules: list[Object]) -> Object:
        """Return the requests that match `rules`, outside of the exempt namespaces."""
        return {
            "matchPolicy": "Equivalent",
            "namespaceSelector": outside(self.exempt),
            "resourceRules": rules,
        }


def objects_of(policy: Policy, form: Form, actions: Sequence[str]) -> list[Object]:
    """Return the ValidatingAdmissionPolicy of `policy` and its binding."""
    return [
        form.named("ValidatingAdmissionPolicy", policy.name, _validating(policy, form)),
        form.named(
            "ValidatingAdmissionPolicyBinding", policy.name, _binding(policy, form, actions)
        ),
    ]


def marking(scheduler_name: str, form: Form) -> list[Object]:
    """Return the MutatingAdmissionPolicy that marks Pods of Workloads, and its binding."""
    name = "pod-mark"
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": MARK}}
    spec = {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": form.constraints(list(_rules((POD,), ("CREATE",)))),
        "matchConditions": expressions(conditions_of_mark(scheduler_name).items()),
        "mutations": [mutation],
    }
    bound = {"policyName": name + form.suffix}
    return [
        form.named("MutatingAdmissionPolicy", name, spec),
        form.named("MutatingAdmissionPolicyBinding", name, bound),
    ]


def _validating(policy: Policy, form: Form) -> Object:
    """Return the spec of a policy.

    If an expression can't be evaluated, the request passes, unless no webhook has the rule.
    """
    spec: Object = {"failurePolicy": "Fail" if policy.fails_closed else "Ignore"}
    if policy.parameter is not None:
        parameter = policy.parameter
        spec["paramKind"] = {"apiVersion": parameter.api_version(), "kind": parameter.kind}
    rules = list(_rules(policy.resources, policy.operations))
    if policy.with_status:
        rules = [{**rule, "resources": _with_status(rule["resources"])} for rule in rules]
    constraints = form.constraints(rules)
    if policy.label:
        selected = {"matchExpressions": [{"key": policy.label, "operator": "Exists"}]}
        constraints["objectSelector"] = selected
    spec["matchConstraints"] = constraints
    spec["matchConditions"] = expressions(policy.conditions.items())
    spec["variables"] = expressions(_variables(policy))
    spec["validations"] = [_validation(demand) for demand in policy.demands]

    return spec


def _binding(policy: Policy, form: Form, actions: Sequence[str]) -> Object:
    """Return the spec of a binding.

    If the parameter is missing, the policy says nothing.
    """
    spec: Object = {"policyName": policy.name + form.suffix}
    if policy.parameter is not None:
        which: Object = {"selector": {}}
        if policy.parameter_name:
            which = {"name": policy.parameter_name}
        spec["paramRef"] = {**which, "parameterNotFoundAction": "Allow"}
    spec["validationActions"] = list(actions)
    return spec


def _variables(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield the name and the expression of each variable, after those that it uses."""
    yield from policy.variables.items()
    for demand in policy.demands:
        yield demand.name, demand.offenders
        yield from demand.details.items()


def _rules(resources: Sequence[Resource], operations: Sequence[str]) -> Iterator[Object]:
    """Yield a rule for each group of resources with the same versions and scope."""
    plurals = by_key(
        ((resource.group, resource.versions, resource.namespaced), resource.plural)
        for resource in resources
    )
    for (group, versions, is_namespaced), names in plurals.items():
        scope = "Namespaced" if is_namespaced else "Cluster"
        yield {
            "apiGroups": [group],
            "apiVersions": list(versions),
            "operations": list(operations),
            "resources": names,
            "scope": scope,
        }


def _with_status(plurals: Sequence[str]) -> list[str]:
    """Return resources with their subresource `status`. A subresource has none."""
    return [*plurals, *(f"{plural}/status" for plural in plurals if "/" not in plural)]


def _validation(demand: PolicyDemand) -> Object:
    holds = f"variables.{demand.name}.size() == 0"
    if demand.unless:
        holds += f" || variables.{demand.unless}"
    return {
        "expression": holds,
        "message": demand.short,
        "messageExpression": demand.message,
        "reason": demand.reason,
    }
