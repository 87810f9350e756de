"""Check the admission policies.

The checks report how our stored policies differ from this version's policies, and which requests
policies still reject while webhooks are down. If the queue guard is installed (the policies about
KAI's queues), its policies and the list of queues that they read are checked too.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from app.base.groups import by_key
from app.base.value import Value
from app.config.schema import Configuration
from app.doctor.report import Check, Checks, apply_again, logs_of, ok, warning
from app.facts.kai.queue import read_queue_names
from app.facts.kinds import POD_GROUP, QUEUE, QUEUE_NAMES
from app.facts.labels import KAI_SCHEDULER
from app.kube.api import Client, NotFound, NotServed, ObjectRef, Rejected, Selection, every
from app.objects.fields import listed
from app.objects.resource import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    MUTATING_POLICIES,
    MUTATING_POLICY_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_POLICY_BINDINGS,
    Resource,
)
from app.objects.shape import JsonMap, map_at, maps_at, text_at, texts_at
from app.reconcilers.queue_names import listable
from app.stores.offline import resource_of
from app.webhooks.configurations import APP_LABEL, NAME
from app.webhooks.policies import (
    COMPONENT_LABEL,
    QUEUES,
    RULES,
    SUFFIX,
    Mode,
    admission_policies,
    exempt_namespaces,
    marking_policies,
    queue_policies,
)

_INSTALL = (
    "Print the policies with the configuration of the server (grove-admission policies --config"
    " FILE), and apply them with --prune, as in manifests/guide/rules.md."
)
_INSTALL_MARKING = (
    "Print the policy with the configuration of the server (grove-admission policies --mutating"
    " --config FILE), and apply it. Delete each of our mutating policies that this command does not"
    " print: kubectl delete mutatingadmissionpolicy,mutatingadmissionpolicybinding NAME"
)
_BOUNDS = (
    "finalizers",
    "metadata",
    "names",
    "objects",
    "podcliques",
    "podgangs",
    "pods",
    "status",
    "webhooks",
)
_BOUND_ACCOUNT = apply_again("manifests/base/account.yaml")
_NONE = (
    "no policy has the rules of the webhooks: while the server is down, requests are not checked if"
    " their webhook has failurePolicy Ignore"
)
_DEFAULTS: JsonMap = {
    "matchPolicy": "Equivalent",
    "objectSelector": {},
    "matchConditions": [],
    "variables": [],
}


class Policies(Value):
    """Stored admission policies and their bindings."""

    policies: Mapping[str, JsonMap]
    """The policies by name."""
    bindings: Mapping[str, Sequence[JsonMap]]
    """The bindings by the name of their policy."""

    def refusing(self, webhook: JsonMap) -> list[str]:
        """Return the names of the policies that may reject requests for which `webhook` is called.

        Such a policy has a binding with the action Deny, and a resource and an operation in common
        with the webhook.
        """
        return [
            name
            for name, policy in self.policies.items()
            if any(denies(binding) for binding in self.bindings.get(name, ()))
            and _overlap(policy, webhook)
        ]


NO_POLICIES = Policies({}, {})


def selector_of(component: str) -> str:
    """Return the label selector of our policies that belong to `component`."""
    return f"{APP_LABEL}={NAME},{COMPONENT_LABEL}={component}"


_VALIDATING = (VALIDATING_POLICIES, VALIDATING_POLICY_BINDINGS)
_MUTATING = (MUTATING_POLICIES, MUTATING_POLICY_BINDINGS)


async def read_policies(
    client: Client, labels: str = "", resources: tuple[Resource, Resource] = _VALIDATING
) -> Policies:
    """Return the policies and bindings that the selector `labels` selects.

    Return NO_POLICIES if the cluster does not serve their API. Raise ClusterError if a request
    fails for another reason.
    """
    policies, bound = (Selection(resource, labels=labels) for resource in resources)
    try:
        listed = await every(client, policies)
        bindings = await every(client, bound)
    except NotServed:
        return NO_POLICIES

    named = ((text_at(map_at(binding, "spec"), "policyName"), binding) for binding in bindings)
    return Policies({policy["metadata"]["name"]: policy for policy in listed}, by_key(named))


async def check_policies(client: Client, configuration: Configuration) -> Checks:
    """Return checks of our installed policies: their effects, and differences from this version.

    If no validating policy is installed, a check `ok` says so. Raise ClusterError if the policies
    can't be read.
    """
    stored = await read_policies(client, selector_of(RULES))
    if stored.policies or stored.bindings:
        desired = admission_policies(configuration)
        silent = await _without_parameters(client, stored)
        checks = [
            *_effects(stored, [obj for obj in desired if obj["metadata"]["name"] not in silent]),
            *(_silent(name, stored.policies[name], served) for name, served in silent.items()),
            *differences(stored, desired, _INSTALL),
        ]
    else:
        checks = [ok(_NONE)]

    marking = await read_policies(client, selector_of(RULES), _MUTATING)
    if marking.policies or marking.bindings:
        desired = marking_policies(configuration)
        checks += differences(marking, desired, _INSTALL_MARKING)
    return checks


async def check_account(client: Client) -> Checks:
    """Check that each policy that limits our account's writes has a binding that denies.

    Raise ClusterError if a request fails.
    """
    stored = await read_policies(client, selector_of("account"))
    in_force = {
        name
        for name in stored.policies
        if any(denies(binding) for binding in stored.bindings.get(name, ()))
    }
    names = [f"account-{name}{SUFFIX}" for name in _BOUNDS]
    missing = [name for name in names if name not in in_force]
    if not missing:
        return [ok("all policies that limit the writes of the server's account are in force")]
    these = "these ValidatingAdmissionPolicies are"
    if len(missing) == 1:
        these = "this ValidatingAdmissionPolicy is"
    message = (
        f"{these} missing or not enforced, so a stolen server token could write more:"
        f" {', '.join(missing)}"
    )
    return [warning(message, _BOUND_ACCOUNT)]


async def _without_parameters(client: Client, stored: Policies) -> dict[str, str]:
    """Return the policies whose paramKind is served, but not in the apiVersion that they name.

    The result maps the name of the policy to an apiVersion in which the cluster serves that kind.
    """
    found = {}
    for name, policy in stored.policies.items():
        named = map_at(policy, "spec", "paramKind")
        resource = resource_of(dict(named))
        served = client.served_version(resource) if resource else None
        if not resource or not served:
            continue
        version = text_at(named, "apiVersion").rpartition("/")[2]
        try:
            await client.get(ObjectRef(resource, name), version=version, metadata_only=True)
        except NotFound as error:
            if error.no_resource:
                found[name] = resource.api_version(served)
        except Rejected:
            pass  # without permission to read parameters, it is unknown whether they are served

    return found


def _silent(name: str, policy: JsonMap, served: str) -> Check:
    """Return the warning about a policy whose parameters have a version that is not served.

    `served` is the apiVersion in which the cluster serves them.
    """
    version = text_at(map_at(policy, "spec", "paramKind"), "apiVersion")
    message = (
        f"policy {name} has no effect: the cluster does not serve {version}, the apiVersion of its"
        " parameters"
    )
    patch = json.dumps({"spec": {"paramKind": {"apiVersion": served}}})
    remedy = (
        f"Run: kubectl patch validatingadmissionpolicy {name} --type=merge -p '{patch}'. Make the"
        " same change in the file that you apply (manifests/policies)."
    )
    return warning(message, remedy)


def _effects(stored: Policies, desired: Sequence[JsonMap]) -> Iterator[Check]:
    """Yield the effect of each policy in `desired` that is stored and has a binding.

    In `desired`, each policy is followed by its binding.
    """
    for policy in desired[::2]:
        name = policy["metadata"]["name"]
        bindings = stored.bindings.get(name, ())
        if name in stored.policies and bindings:
            yield ok(_effect(stored.policies[name], bindings))


def differences(stored: Policies, desired: Sequence[JsonMap], remedy: str) -> Iterator[Check]:
    """Yield a warning with `remedy` for each kind of difference between `stored` and `desired`.

    In `desired`, each policy is followed by its binding.
    """
    for text, names in by_key(_differences(stored, desired)).items():
        yield warning(f"{text}: {', '.join(names)}", remedy)


def _differences(stored: Policies, desired: Sequence[JsonMap]) -> Iterator[tuple[str, str]]:
    """Yield (difference, name) for each policy that is not as desired."""
    names = [obj["metadata"]["name"] for obj in desired[::2]]
    for policy, binding in zip(desired[::2], desired[1::2], strict=True):
        name = policy["metadata"]["name"]
        stored_policy = stored.policies.get(name)
        bindings = stored.bindings.get(name, ())
        if stored_policy is None or not bindings:
            yield "policies that are not installed or have no binding", name
            continue

        if _differs(_in_any_version(stored_policy["spec"]), _in_any_version(policy["spec"])):
            yield "policies that differ from those of this version and configuration", name
        if not any(not _differs(item["spec"], binding["spec"]) for item in bindings):
            yield "policies whose binding differs from that of this version and configuration", name

    for name in sorted({*stored.policies, *stored.bindings} - set(names)):
        yield "policies that are left over from another version or configuration", name


def _in_any_version(spec: JsonMap) -> JsonMap:
    """Return the spec of a policy without the version in its paramKind.

    This version depends on the release of Grove.
    """
    named = map_at(spec, "paramKind")
    if not named:
        return spec
    group = text_at(named, "apiVersion").rpartition("/")[0]
    return {**spec, "paramKind": {**named, "apiVersion": group}}


def _effect(policy: JsonMap, bindings: Sequence[JsonMap]) -> str:
    """Return the effect of a policy while every webhook is down, as a message."""
    name = policy["metadata"]["name"]
    requests = " and ".join(
        f"{', '.join(texts_at(rule, 'operations'))} {', '.join(_resources(rule))}"
        for rule in _rules(policy)
    )
    fate = "only cause warnings"
    if any(denies(binding) for binding in bindings):
        fate = "are still rejected"
    return (
        f"while every webhook is down, requests to {requests} that break the rules of {name} {fate}"
    )


def _rules(policy: JsonMap) -> list[dict[str, Any]]:
    constraints = map_at(policy, "spec", "matchConstraints")
    return maps_at(constraints, "resourceRules")


def _resources(rule: JsonMap) -> list[str]:
    group = next(iter(texts_at(rule, "apiGroups")), "")
    return [f"{plural}.{group}" if group else plural for plural in texts_at(rule, "resources")]


def denies(binding: JsonMap) -> bool:
    """Return whether a binding rejects requests that break the rules of its policy."""
    return "Deny" in texts_at(map_at(binding, "spec"), "validationActions")


def _overlap(policy: JsonMap, webhook: JsonMap) -> bool:
    """Return whether a policy and a webhook have a resource and an operation in common."""
    return any(
        all(
            overlap(texts_at(mine, key), texts_at(other, key))
            for key in ("operations", "apiGroups", "resources")
        )
        for mine in _rules(policy)
        for other in maps_at(webhook, "rules")
    )


def _differs(stored: Any, desired: Any) -> bool:
    """Return whether a stored value differs from the desired one.

    A missing field in an object equals the default that the API server writes.
    """
    if isinstance(stored, dict) and isinstance(desired, dict):
        return any(
            _differs(stored.get(key, _DEFAULTS.get(key)), desired.get(key, _DEFAULTS.get(key)))
            for key in {*stored, *desired}
        )
    if isinstance(stored, list) and isinstance(desired, list):
        return len(stored) != len(desired) or any(map(_differs, stored, desired))
    return bool(stored != desired)


def overlap(patterns: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether two lists of patterns have a match in common.

    The lists are groups, resources or operations in the rules of webhooks or policies. "*" matches
    all groups or operations. As a resource, `*` matches all resources without their subresources,
    `pods/*` Pods with all their subresources, and `*/*` everything; see
    https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#matching-requests-rules.
    """
    listed = list(others)
    return any(_have_common(pattern, other) for pattern in patterns for other in listed)


def _have_common(pattern: str, other: str) -> bool:
    pairs = zip(_parts(pattern), _parts(other), strict=True)
    return all(part == another or "*" in (part, another) for part, another in pairs)


def _parts(pattern: str) -> tuple[str, str]:
    resource, _, subresource = pattern.partition("/")
    return resource, subresource


# The queue guard.


_MOST_SHOWN = 5
_ACCOUNTS = re.compile(r'"system:serviceaccounts:([^"]+)"')


async def check_queue_guard(client: Client, configuration: Configuration) -> Checks:
    """Return the effect of the queue guard, its differences from this version, and its problems.

    If only the guard's CRD is installed, return one warning. If neither the guard nor the CRD is
    installed, return []. Raise ClusterError if a request fails.
    """
    stored = await read_policies(client, selector_of(QUEUES))
    is_defined = client.served_version(QUEUE_NAMES) is not None
    if not stored.policies and not stored.bindings:
        return [_LEFT_BEHIND] if is_defined else []

    mode: Mode = "warn"
    effect = "warns about"
    if any(denies(binding) for bindings in stored.bindings.values() for binding in bindings):
        mode = "refuse"
        effect = "rejects"

    namespaces = _kai_namespaces(stored, configuration)
    desired = queue_policies(configuration, mode, *namespaces)
    remedy = _print_again(mode, namespaces)
    message = f"the queue guard {effect} writes that name a queue which the writer may not use"
    silent = await _without_parameters(client, stored)
    checks = [
        ok(message),
        *(_silent(name, stored.policies[name], served) for name, served in silent.items()),
        *differences(stored, desired, remedy),
        *await _writers(client, configuration, mode, namespaces),
    ]
    if not is_defined:
        return [*checks, _NO_NAMES]
    return [*checks, *await _check_names(client, configuration.certificates.namespace)]


_NO_NAMES = warning(
    f"CRD {QUEUE_NAMES} is not installed: no policy warns about missing queues",
    "Run: kubectl apply -f manifests/overlays/queue-guard/queuenames.yaml",
)
_LEFT_BEHIND = warning(
    f"CRD {QUEUE_NAMES} is left over: no policy that reads its objects is installed",
    f"Run: kubectl delete crd {QUEUE_NAMES}",
)


async def _check_names(client: Client, namespace: str) -> Checks:
    """Check that the QueueNames object has the names of all Queues.

    Policies read this object to warn about missing queues. Return [] if the cluster does not serve
    Queues.
    """
    if client.served_version(QUEUE) is None:
        return []
    queues = await every(client, Selection(QUEUE, metadata_only=True))
    names = frozenset(queue["metadata"]["name"] for queue in queues)
    objects = await every(client, Selection(QUEUE_NAMES))
    stored = {obj["metadata"]["name"]: read_queue_names(obj) for obj in objects}
    known = stored.get(NAME, frozenset())
    if known == listable(names):
        complete = f"the policies know all Queues ({len(names)}) and warn about other names"
        too_many = (
            f"{len(names)} Queues are too many for one object: no policy warns about missing queues"
        )
        return [ok(complete if known == names else too_many)]

    differing = sorted(names ^ known)
    number = "1 Queue" if len(differing) == 1 else f"{len(differing)} Queues"
    message = (
        f"{QUEUE_NAMES.kind} {NAME}, which policies use to warn about missing queues, is wrong"
        f" about {number}: {listed(differing, _MOST_SHOWN)}"
    )
    remedy = (
        f"Find out why the leader has not updated {QUEUE_NAMES.kind} {NAME} within seconds:"
        f" {logs_of(namespace)}"
    )
    return [warning(message, remedy)]


def _kai_namespaces(stored: Policies, configuration: Configuration) -> list[str]:
    """Return the namespaces that the stored queue guard exempts in addition to its fixed ones.

    These are the namespaces of KAI and of programs that assign queues, as they were passed to
    `--kai-namespace`. Return KAI's default namespace if there are none.
    """
    exempt = exempt_namespaces(configuration)
    return sorted(set(_trusted(stored)).difference(exempt)) or [KAI_SCHEDULER]


def _print_again(mode: Mode, namespaces: Iterable[str]) -> str:
    """Return the remedy: print and apply the guard in `mode`, with exemptions for `namespaces`."""
    options = "".join(f" --kai-namespace {namespace}" for namespace in namespaces)
    return (
        "Print the queue guard with the configuration of the server (grove-admission policies"
        f" --queues {mode}{options} --config FILE), and apply it with --prune, as in"
        " manifests/guide/queue-guard.md."
    )


async def _writers(
    client: Client, configuration: Configuration, mode: Mode, namespaces: list[str]
) -> Checks:
    """Return a warning about service accounts that may write PodGroups and are not exempt.

    Such an account may belong to a program that assigns queues, such as KAI Resource Management,
    which runs in its own namespace. Return [] if there are none, or if this process may not read
    ClusterRoles and ClusterRoleBindings.
    """
    try:
        roles = await every(client, Selection(CLUSTER_ROLE))
        bindings = await every(client, Selection(CLUSTER_ROLE_BINDING))
    except (NotFound, Rejected):
        return []
    writing = {role["metadata"]["name"] for role in roles if _writes_pod_groups(role)}
    exempt = {*namespaces, *exempt_namespaces(configuration)}
    authorized = set(configuration.authorization.authorized_users)
    accounts = {
        (text_at(subject, "namespace"), text_at(subject, "name"))
        for binding in bindings
        if text_at(map_at(binding, "roleRef"), "name") in writing
        for subject in maps_at(binding, "subjects")
        if subject.get("kind") == "ServiceAccount"
        if text_at(subject, "namespace") not in exempt
    }
    asked = sorted(
        each for each in accounts if f"system:serviceaccount:{each[0]}:{each[1]}" not in authorized
    )
    if not asked:
        return []
    shown = listed([f"{namespace}/{name}" for namespace, name in asked], _MOST_SHOWN)
    more = dict.fromkeys([*namespaces, *(namespace for namespace, _ in asked)])
    effect = "rejects" if mode == "refuse" else "warns about"
    message = (
        f"these service accounts may write PodGroups of KAI: {shown}. They are not exempt from the"
        f" queue guard, which {effect} their writes to queues that they may not use"
    )
    remedy = (
        "If an account only copies queue names, like that of KAI Resource Management, exempt its"
        f" namespace. {_print_again(mode, more)}"
    )
    return [warning(message, remedy)]


def _writes_pod_groups(role: JsonMap) -> bool:
    """Return whether a rule of a ClusterRole names KAI's PodGroups and allows changing them.

    Rules for all groups or all resources ("*") don't count.
    """
    return any(
        POD_GROUP.group in texts_at(rule, "apiGroups")
        and POD_GROUP.plural in texts_at(rule, "resources")
        and not {"update", "patch", "*"}.isdisjoint(texts_at(rule, "verbs"))
        for rule in maps_at(role, "rules")
    )


def _trusted(stored: Policies) -> Iterator[str]:
    """Yield the namespaces whose service accounts the stored policies exempt."""
    for policy in stored.policies.values():
        for condition in maps_at(policy, "spec", "matchConditions"):
            yield from _ACCOUNTS.findall(text_at(condition, "expression"))
