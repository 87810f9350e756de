"""Rules in CEL as objects of the API server, and which of them it gets.

They are admission policies with their bindings. Settings of a configuration decide which. A policy
of the dialect that is not in force says nothing: its parameters are missing, or nobody writes its
kinds. So those of both dialects are installed. Source:
https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/,
https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from app.base.groups import by_key
from app.base.value import Value
from app.config.schema import Configuration
from app.objects.resource import POD, Resource
from app.objects.shape import Object
from app.rules.dialects.bindings import policies as bindings
from app.rules.dialects.design import policies as design
from app.rules.policy import Levels, Policy, PolicyDemand, Uncovered, text, texts
from app.rules.protection_policy import protection
from app.rules.queue_policy import QueueKeys, by_others, missing_queues, queue_guards
from app.rules.subgroups_policy import SUBGROUPS
from app.rules.subgroups_policy import UNCOVERED as OF_SUBGROUPS
from app.rules.topology.levels_policy import guard
from app.rules.workload.pod_policy import MARK, conditions_of_mark
from app.webhooks.configurations import (
    API_VERSION,
    APP_LABEL,
    EXEMPT_NAMESPACE,
    NAME,
    expressions,
    outside,
)
from app.webhooks.registry import guarded_kinds, warning_paths

# Objects of the API server.


SUFFIX = f".{NAME}.grove.io"
STATIC_SUFFIX = f".{NAME}.static.k8s.io"
"""API servers want this end of names in static manifests."""

COMPONENT_LABEL = "app.kubernetes.io/component"
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
        labels = {APP_LABEL: NAME, COMPONENT_LABEL: self.component}
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


# Which of them an API server gets.


Mode = Literal["refuse", "warn"]

DENY = ("Deny",)
WARN = ("Warn", "Audit")

UNCOVERED: tuple[Uncovered, ...] = (
    *design.UNCOVERED,
    *bindings.UNCOVERED,
    Uncovered(
        "/validate/podcliqueset",
        "MNNVL annotations",
        "they depend on other PodCliqueSets and on what the cluster serves",
        "mnnvl-",
    ),
    *OF_SUBGROUPS,
    Uncovered("/validate/podgang", "what a PodGang owns is given back", "a policy writes nothing"),
    Uncovered("/mutate/podclique", "claims", "they are made of objects that a policy can't read"),
    Uncovered("/mutate/pod-mnnvl", "claims of units", "it asks the API server who owns the Pod"),
    Uncovered(
        "/validate/pod-mnnvl",
        "Pods without their claim",
        "while no server answers, the API server refuses these Pods anyway",
    ),
    Uncovered("/mutate/podgang", "constraints", "they depend on the PodCliqueSet"),
    Uncovered(
        "/mutate/pod-binding",
        "labels of the node",
        "a policy can't read the node that a Binding names: its parameters are chosen before the"
        " request is known",
    ),
)
"""What only the webhooks do. Warnings are theirs too."""


def policies_of(configuration: Configuration, *, is_static: bool = False) -> list[Policy]:
    """Return the policies about objects of Grove and KAI.

    The levels are parameters, objects of the cluster. Static policies can have none: their levels
    are those of `configuration`, and one more protects what we have stored.
    """
    topology = configuration.cluster_topology
    authorized = configuration.authorization.authorized_users
    policies = [
        guard(guarded_kinds(topology), topology.name, authorized),
        design.CLUSTER_TOPOLOGIES,
        bindings.CLUSTER_TOPOLOGY_BINDINGS,
        SUBGROUPS,
    ]
    if not is_static:
        of_sets = design.pod_clique_sets(parameter_name=topology.name)
        return [*policies, of_sets, bindings.pod_clique_sets()]

    policies.append(protection(NAME, authorized))
    if topology.enabled:
        domains = [level.domain for level in configuration.levels]
        levels = Levels(texts(domains), text(topology.name))
        policies += [design.pod_clique_sets(levels), bindings.pod_clique_sets(levels)]
    return policies


def admission_policies(configuration: Configuration, *, is_static: bool = False) -> list[Object]:
    """Return ValidatingAdmissionPolicies and bindings.

    They are for `kubectl apply`, or static, for a folder of the API server.
    """
    form = _form(configuration, is_static)
    only_warning = warning_paths(configuration.enforcement)
    objects: list[Object] = []
    for policy in policies_of(configuration, is_static=is_static):
        is_guard = all(demand.reason == "Forbidden" for demand in policy.demands)
        # The managed topology is guarded in a trial period too.
        warns = policy.path in only_warning and not is_guard
        objects += objects_of(policy, form, WARN if warns else DENY)
    return objects


def marking_policies(configuration: Configuration, *, is_static: bool = False) -> list[Object]:
    """Return the MutatingAdmissionPolicy that marks Pods of Workloads, and its binding.

    [] if Workloads are disabled.
    """
    if not configuration.workloads.enabled:
        return []

    form = _form(configuration, is_static)
    name = "pod-mark"
    conditions = conditions_of_mark(configuration.workloads.scheduler_name)
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": MARK}}
    spec = {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": form.constraints(list(_rules((POD,), ("CREATE",)))),
        "matchConditions": expressions(conditions.items()),
        "mutations": [mutation],
    }
    bound = {"policyName": name + form.suffix}
    return [
        form.named("MutatingAdmissionPolicy", name, spec),
        form.named("MutatingAdmissionPolicyBinding", name, bound),
    ]


def queue_policies(configuration: Configuration, mode: Mode, kai_namespace: str) -> list[Object]:
    """Return the policies about who may use which queue, and which of them don't exist.

    KAI runs in `kai_namespace`. The service accounts of its namespace, of ours and of Kubernetes
    only copy names of queues, and so does Grove's operator, one of `authorizedUsers`.
    """
    keys = configuration.workloads.labels
    names = QueueKeys(
        keys.queue,
        keys.project,
        keys.node_pool,
        configuration.workloads.scheduler_name,
    )
    exempt = exempt_namespaces(configuration)
    users = sorted(configuration.authorization.authorized_users)
    others = by_others(sorted({*exempt, kai_namespace}), users)
    form = Form(QUEUES, SUFFIX, exempt)
    actions = DENY if mode == "refuse" else WARN
    objects: list[Object] = []
    for policy in queue_guards(names, others):
        is_closed = mode == "refuse" and policy.fails_closed
        objects += objects_of(replace(policy, fails_closed=is_closed), form, actions)
    for policy in missing_queues(names, others, NAME):
        objects += objects_of(policy, form, WARN)
    return objects


def exempt_namespaces(configuration: Configuration) -> list[str]:
    """Return the namespaces that webhooks and policies leave out."""
    return sorted({EXEMPT_NAMESPACE, configuration.certificates.namespace})


def _form(configuration: Configuration, is_static: bool) -> Form:
    suffix = STATIC_SUFFIX if is_static else SUFFIX
    return Form(RULES, suffix, exempt_namespaces(configuration))
