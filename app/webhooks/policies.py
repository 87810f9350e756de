"""Which rules in CEL an API server gets, with the settings of a configuration.

A policy of the dialect that is not in force says nothing: its parameters are missing, or nobody
writes its kinds. So those of both dialects are installed.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from app.config.schema import Configuration
from app.objects.shape import Object
from app.rules.dialects.bindings import policies as bindings
from app.rules.dialects.design import policies as design
from app.rules.policy import Levels, Policy, Uncovered, text, texts
from app.rules.protection_policy import protection
from app.rules.queue_names import QueueKeys
from app.rules.queue_policy import missing_queues, queue_guards
from app.rules.subgroups_policy import SUBGROUPS
from app.rules.subgroups_policy import UNCOVERED as OF_SUBGROUPS
from app.rules.topology.levels_policy import guard
from app.webhooks.configurations import EXEMPT_NAMESPACE, NAME
from app.webhooks.policy_objects import (
    QUEUES,
    RULES,
    STATIC_SUFFIX,
    SUFFIX,
    Form,
    marking,
    objects_of,
)
from app.webhooks.registry import guarded_kinds, warning_paths

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


def policies_of(configuration: Configuration) -> list[Policy]:
    """Return the policies whose levels are parameters, objects of the cluster."""
    name = configuration.cluster_topology.name
    return [
        *_without_levels(configuration),
        design.pod_clique_sets(parameter_name=name),
        bindings.pod_clique_sets(),
    ]


def static_policies_of(configuration: Configuration) -> list[Policy]:
    """Return the policies without parameters: the levels are those of `configuration`."""
    policies = _without_levels(configuration)
    policies.append(protection(NAME, configuration.authorization.authorized_users))
    topology = configuration.cluster_topology
    if topology.enabled:
        domains = [level.domain for level in configuration.levels]
        levels = Levels(texts(domains), text(topology.name))
        policies += [design.pod_clique_sets(levels), bindings.pod_clique_sets(levels)]
    return policies


def _without_levels(configuration: Configuration) -> list[Policy]:
    """Return the policies that depend on no levels."""
    topology = configuration.cluster_topology
    return [
        guard(guarded_kinds(topology), topology.name, configuration.authorization.authorized_users),
        design.CLUSTER_TOPOLOGIES,
        bindings.CLUSTER_TOPOLOGY_BINDINGS,
        SUBGROUPS,
    ]


def admission_policies(configuration: Configuration) -> list[Object]:
    """Return ValidatingAdmissionPolicies and bindings, for `kubectl apply`."""
    form = Form(RULES, SUFFIX, exempt_namespaces(configuration))
    return _rendered(policies_of(configuration), configuration, form)


def static_policies(configuration: Configuration) -> list[Object]:
    """Return ValidatingAdmissionPolicies and bindings, for a folder of the API server."""
    form = Form(RULES, STATIC_SUFFIX, exempt_namespaces(configuration))
    return _rendered(static_policies_of(configuration), configuration, form)


def marking_policies(configuration: Configuration, *, is_static: bool = False) -> list[Object]:
    """Return the MutatingAdmissionPolicy for Pods of Workloads, and its binding.

    [] if Workloads are disabled.
    """
    if not configuration.workloads.enabled:
        return []
    suffix = STATIC_SUFFIX if is_static else SUFFIX
    form = Form(RULES, suffix, exempt_namespaces(configuration))
    return marking(configuration.workloads.scheduler_name, form)


def queue_policies(configuration: Configuration, mode: Mode, kai_namespace: str) -> list[Object]:
    """Return the policies about who may use which queue, and which of them don't exist.

    KAI runs in `kai_namespace`. The service accounts of its namespace, of ours and of Kubernetes
    only copy names of queues.
    """
    keys = configuration.workloads.labels
    names = QueueKeys(
        keys.queue,
        keys.project,
        keys.node_pool,
        configuration.workloads.scheduler_name,
    )
    exempt = exempt_namespaces(configuration)
    trusted = sorted({*exempt, kai_namespace})
    form = Form(QUEUES, SUFFIX, exempt)
    actions = DENY if mode == "refuse" else WARN
    objects: list[Object] = []
    for policy in queue_guards(names, trusted):
        is_closed = mode == "refuse" and policy.fails_closed
        objects += objects_of(replace(policy, fails_closed=is_closed), form, actions)
    for policy in missing_queues(names, trusted, NAME):
        objects += objects_of(policy, form, WARN)
    return objects


def exempt_namespaces(configuration: Configuration) -> list[str]:
    """Return the namespaces that webhooks and policies leave out."""
    return sorted({EXEMPT_NAMESPACE, configuration.certificates.namespace})


def _rendered(policies: Sequence[Policy], configuration: Configuration, form: Form) -> list[Object]:
    only_warning = warning_paths(configuration.enforcement)
    objects: list[Object] = []
    for policy in policies:
        is_guard = all(demand.reason == "Forbidden" for demand in policy.demands)
        # The managed topology is guarded in a trial period too.
        warns = policy.path in only_warning and not is_guard
        objects += objects_of(policy, form, WARN if warns else DENY)
    return objects
