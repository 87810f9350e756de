"""The rules in CEL as ValidatingAdmissionPolicies with their bindings.

Source: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from app.config.schema import Configuration
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING
from app.objects.resource import Resource
from app.rules.dialects.bindings import policies as bindings
from app.rules.dialects.design import policies as design
from app.rules.policy import Demand, Policy, Uncovered
from app.rules.subgroups_policy import SUBGROUPS
from app.rules.subgroups_policy import UNCOVERED as OF_SUBGROUPS
from app.rules.topology.levels_policy import guard
from app.webhooks.configurations import API_VERSION, EXEMPT_NAMESPACE, NAME
from app.webhooks.registry import warning_paths

COMPONENT = "policies"
LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": COMPONENT}
SUFFIX = ".grove-admission.grove.io"

Object = dict[str, Any]

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
    Uncovered("/mutate/podgang", "constraints", "they depend on the PodCliqueSet"),
    Uncovered(
        "/mutate/pod-binding",
        "labels of the node",
        "a policy can't read the node that a Binding names: its parameters are chosen before the"
        " request is known",
    ),
)
"""What only the webhooks do. Warnings are theirs too."""


def policies_of(configuration: Configuration) -> list[Policy]:
    """Return the policies with the settings of `configuration`, for both dialects.

    Those of the dialect that is not in force say nothing: their parameters are missing, or nobody
    writes their kinds.
    """
    topology = configuration.cluster_topology
    kinds = [CLUSTER_TOPOLOGY.kind]
    if topology.enabled:
        kinds.append(CLUSTER_TOPOLOGY_BINDING.kind)

    return [
        guard(kinds, topology.name, configuration.authorization.authorized_users),
        design.CLUSTER_TOPOLOGIES,
        bindings.CLUSTER_TOPOLOGY_BINDINGS,
        design.pod_clique_sets(parameter_name=topology.name),
        bindings.pod_clique_sets(),
        SUBGROUPS,
    ]


def admission_policies(configuration: Configuration) -> list[Object]:
    """Return the policies and bindings for `kubectl apply`."""
    only_warning = warning_paths(configuration.enforcement)
    exempt = sorted({EXEMPT_NAMESPACE, configuration.certificates.namespace})
    objects: list[Object] = []
    for policy in policies_of(configuration):
        actions = ["Deny"]
        if policy.path in only_warning and not _always_denies(policy):
            actions = ["Warn", "Audit"]
        objects += [validating(policy, exempt), binding(policy, actions)]
    return objects


def _always_denies(policy: Policy) -> bool:
    """Whether a policy is enforced in a trial period too: the guard of the managed topology."""
    return all(demand.reason == "Forbidden" for demand in policy.demands)


def validating(policy: Policy, exempt: Sequence[str]) -> Object:
    """Return the ValidatingAdmissionPolicy of `policy`, for all namespaces but `exempt`.

    If an expression can't be evaluated, the request passes: the webhook judges it.
    """
    spec: Object = {"failurePolicy": "Ignore"}
    if policy.parameter is not None:
        version = f"{policy.parameter.group}/{policy.parameter.versions[0]}"
        spec["paramKind"] = {"apiVersion": version, "kind": policy.parameter.kind}
    spec["matchConstraints"] = {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchExpressions": [_others_than(exempt)]},
        "resourceRules": [_rule(policy)],
    }
    spec["matchConditions"] = [
        {"name": name, "expression": expression} for name, expression in policy.conditions.items()
    ]
    spec["variables"] = [
        {"name": name, "expression": expression} for name, expression in variables_of(policy)
    ]
    spec["validations"] = [_validation(demand) for demand in policy.demands]

    return _object("ValidatingAdmissionPolicy", policy, spec)


def binding(policy: Policy, actions: Sequence[str]) -> Object:
    """Return the ValidatingAdmissionPolicyBinding of `policy`.

    A parameter is an object of the cluster itself, so that nothing has to be kept in step with it.
    If it is missing, the policy says nothing.
    """
    spec: Object = {"policyName": name_of(policy)}
    if policy.parameter is not None:
        which: Object = {"selector": {}}
        if policy.parameter_name:
            which = {"name": policy.parameter_name}
        spec["paramRef"] = {**which, "parameterNotFoundAction": "Allow"}
    spec["validationActions"] = list(actions)
    return _object("ValidatingAdmissionPolicyBinding", policy, spec)


def name_of(policy: Policy) -> str:
    return policy.name + SUFFIX


def variables_of(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield the name and the expression of each variable, after those that it uses."""
    yield from policy.variables.items()
    for demand in policy.demands:
        yield demand.name, demand.offenders
        yield from demand.details.items()


def _object(kind: str, policy: Policy, spec: Object) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name_of(policy), "labels": dict(LABELS)},
        "spec": spec,
    }


def _others_than(namespaces: Iterable[str]) -> Object:
    return {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": list(namespaces),
    }


def _rule(policy: Policy) -> Object:
    first = policy.resources[0]
    return {
        "apiGroups": [first.group],
        "apiVersions": [first.versions[0]],
        "operations": list(policy.operations),
        "resources": [resource.plural for resource in policy.resources],
        "scope": _scope(first),
    }


def _scope(resource: Resource) -> str:
    if resource.namespaced:
        return "Namespaced"
    return "Cluster"


def _validation(demand: Demand) -> Object:
    holds = f"variables.{demand.name}.size() == 0"
    if demand.unless:
        holds += f" || variables.{demand.unless}"
    return {
        "expression": holds,
        "message": demand.short,
        "messageExpression": demand.message,
        "reason": demand.reason,
    }
