"""Rehearse an outage of every webhook in a cluster, including those of other products.

The checks report which requests fail if a webhook is down, and whether the webhook prevents its own
recovery. They also find resources whose webhooks may together take too long, and caBundles that do
not verify the certificates of their servers.

Selectors and failure policies are evaluated as in Kubernetes:
https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from app.doctor.certificate import Bundle, Shake, Shown, bundles_of, check_bundle
from app.doctor.report import Check, Checks, ok, unknown, warning
from app.doctor.service import Endpoint
from app.doctor.webhook_configurations import (
    Installed,
    StoredWebhook,
    Surroundings,
    read_installed,
    read_services,
)
from app.doctor.webhook_services import check_targets, endpoints_of, fault_of
from app.doctor.webhooks import while_down
from app.facts.kinds import CLAIM_TEMPLATE, NEIGHBOURS
from app.facts.workload_of_pod import WORKLOAD_KINDS
from app.kube.api import Client, Selection, every
from app.objects.resource import MUTATING_WEBHOOKS, POD, VALIDATING_WEBHOOKS
from app.objects.selector import selects
from app.objects.shape import map_at, maps_at
from app.webhooks.configurations import NAMESPACE_LABEL

_SYSTEM = "kube-system"
_LIMIT_SECONDS = 60
"""The default time after which an API server gives up on a request."""

_SLOW_SECONDS = 45
"""The time that a request may take, with all webhooks slow, before there is a warning.

With the default timeouts of our webhooks and those of Grove, KAI and Kueue, requests take less.
"""

_COMPARED = 2
"""The maximum number of endpoints per Service whose certificates are verified.

Each connection may take seconds.
"""

_PODS = ("", "pods")
_VITAL = {
    _PODS: "new system Pods of the cluster do not start",
    ("", "endpoints"): "Services do not follow their Pods",
    ("discovery.k8s.io", "endpointslices"): "Services do not follow their Pods",
    (
        "coordination.k8s.io",
        "leases",
    ): "kube-scheduler and kube-controller-manager lose their leader Leases",
}
"""The consequence if a resource (group, plural) in kube-system cannot be written."""

_NODE_LEASES = "kube-node-lease"
"""The namespace of nodes' Leases, which kubelets renew every ten seconds as heartbeats."""

_HEARTBEATS = {("coordination.k8s.io", "leases"): "all nodes become NotReady"}
"""The consequence if a resource (group, plural) in kube-node-lease cannot be written."""

_CLUSTER_WIDE = {
    ("", "nodes"): "nodes cannot join",
    ("certificates.k8s.io", "certificatesigningrequests"): "nodes cannot join",
    ("authentication.k8s.io", "tokenreviews"): "kubelets cannot authenticate callers with tokens",
    (
        "authorization.k8s.io",
        "subjectaccessreviews",
    ): "kubelets cannot authorize kubectl logs and exec",
}
"""The consequence if a cluster-scoped resource (group, plural) cannot be written.

API servers also call webhooks for TokenReviews and SubjectAccessReviews.
"""

_WRITER = (
    "Find out why this caBundle was not updated: read the log of its writer, such as cert-manager's"
    " cainjector or a controller of the product."
)


async def check_all(client: Client, shake: Shake, now: datetime) -> Checks:
    """Rehearse an outage of each webhook of the cluster, and check all caBundles.

    Raise ClusterError if something cannot be read.
    """
    installed = await read_installed(client)
    return rehearse(installed) + await check_certificates(installed, shake, now)


_NEEDED = {
    (resource.group, resource.plural)
    for resource in (*NEIGHBOURS, *WORKLOAD_KINDS, POD, CLAIM_TEMPLATE)
}
"""The resources, as (group, plural), of the objects that must be created to run GPU workloads."""


async def check_outages(client: Client, ours: str) -> Checks:
    """Return the problems of other products' webhooks that are down and block workloads.

    A webhook blocks workloads if objects of any resource in _NEEDED cannot be created during its
    outage, or if kubelets cannot renew the Leases of their nodes. `ours` is the name of our webhook
    configurations. Raise ClusterError if something cannot be read.
    """
    fatal = [
        StoredWebhook(f"{resource.kind} {item['metadata']['name']}", is_mutating, content)
        for resource, is_mutating in ((MUTATING_WEBHOOKS, True), (VALIDATING_WEBHOOKS, False))
        for item in await every(client, Selection(resource))
        if item["metadata"]["name"] != ours
        for content in maps_at(item, "webhooks")
    ]
    fatal = [
        webhook
        for webhook in fatal
        if webhook.is_fatal
        and (any(webhook.sees(needed, "CREATE") for needed in _NEEDED) or _sees_heartbeats(webhook))
    ]
    called = {webhook.target.service for webhook in fatal if webhook.target.service is not None}
    surroundings = await read_services(client, called)
    faults = check_targets(fatal, surroundings)
    return [check for check in faults if check.status == "problem"]


def _sees_heartbeats(webhook: StoredWebhook) -> bool:
    """Return whether API servers call `webhook` when a kubelet renews the Lease of its node.

    Namespaces are not read: the namespace counts as having no label except its name.
    """
    is_selected = _is_selected(webhook, _NODE_LEASES, Surroundings({}, {}, {}))
    return is_selected and bool(_stopped(webhook, _HEARTBEATS, "Namespaced"))


def rehearse(installed: Installed) -> Checks:
    """Return the problems of all webhooks, and the effect of an outage of those without one."""
    checks: Checks = []
    for webhook in installed.webhooks:
        problems = [
            *_recovery(webhook, installed.surroundings),
            *_vital(webhook, installed.surroundings),
        ]
        checks += problems
        if not problems and fault_of(webhook, installed.surroundings) is None:
            checks.append(_effect(webhook, installed))

    checks += check_targets(installed.webhooks, installed.surroundings)
    return checks + list(_timeouts(installed.webhooks))


def _effect(webhook: StoredWebhook, installed: Installed) -> Check:
    """Return a check, always `ok`, that says what happens to requests while `webhook` is down."""
    text = f"{webhook.configuration}, {webhook.name}: {while_down(webhook.content)}"
    refusing = installed.policies.refusing(webhook.content)
    if refusing:
        text += f"; policies that API servers still enforce: {', '.join(refusing)}"
    return ok(text)


def _recovery(webhook: StoredWebhook, surroundings: Surroundings) -> Iterator[Check]:
    """Yield a problem if the webhook's own Pods cannot be created while it is down.

    Yield only a warning if the webhook has matchConditions, which may exclude these Pods.
    """
    called = webhook.target.service
    if not webhook.is_fatal or called is None or not webhook.sees(_PODS, "CREATE"):
        return
    namespace = called[0]
    if not _is_selected(webhook, namespace, surroundings):
        return
    service = surroundings.services.get(called, {})
    pods = map_at(service, "spec", "selector")
    if not selects(webhook.content.get("objectSelector"), pods):
        return

    message = (
        f"{webhook.configuration}, {webhook.name}: while this webhook is down, its own Pods in"
        f" {namespace} cannot be created, so it does not recover by itself"
    )
    if webhook.has_conditions:
        message += ", unless its matchConditions exclude them"
    remedy = (
        f"Exclude {namespace} in the webhook's namespaceSelector: {NAMESPACE_LABEL} NotIn"
        f" [{namespace}]."
    )
    yield Check("warning" if webhook.has_conditions else "problem", message, remedy)


def _is_selected(webhook: StoredWebhook, namespace: str, surroundings: Surroundings) -> bool:
    labels = {NAMESPACE_LABEL: namespace, **surroundings.namespaces.get(namespace, {})}
    return selects(webhook.content.get("namespaceSelector"), labels)


def _vital(webhook: StoredWebhook, surroundings: Surroundings) -> Iterator[Check]:
    """Yield warnings if the cluster cannot write its own objects while a webhook is down.

    A namespaceSelector cannot exclude the resources in _CLUSTER_WIDE. Webhooks with an
    objectSelector are skipped.
    """
    if not webhook.is_fatal or webhook.content.get("objectSelector"):
        return
    for namespace, needed in ((_SYSTEM, _VITAL), (_NODE_LEASES, _HEARTBEATS)):
        stopped = _stopped(webhook, needed, "Namespaced")
        if stopped and _is_selected(webhook, namespace, surroundings):
            yield _stops(webhook, stopped, namespace)

    stopped = _stopped(webhook, _CLUSTER_WIDE, "Cluster")
    if stopped:
        yield _stops(webhook, stopped)


def _stopped(
    webhook: StoredWebhook, needed: Mapping[tuple[str, str], str], scope: str
) -> dict[str, str]:
    """Return the consequence of an outage of `webhook` for each resource of `needed`.

    The keys are names such as `leases.coordination.k8s.io`. A resource is left out if the webhook
    is not called when it is created or updated.
    """
    return {
        _full_name(*resource): harm
        for resource, harm in needed.items()
        if webhook.sees(resource, "CREATE", scope) or webhook.sees(resource, "UPDATE", scope)
    }


def _stops(webhook: StoredWebhook, stopped: Mapping[str, str], namespace: str = "") -> Check:
    """Return the warning about resources that cannot be written while a webhook is down.

    `stopped` has the consequence for each resource. `namespace` is "" for cluster-scoped resources.
    """
    harms = "; ".join(dict.fromkeys(stopped.values()))
    where = f" in {namespace} too" if namespace else ""
    message = (
        f"{webhook.configuration}, {webhook.name}: while this webhook is down, writes of"
        f" {', '.join(stopped)} are rejected{where}: {harms}"
    )
    if webhook.has_conditions:
        message += ", unless its matchConditions exclude them"
    remedy = (
        "List only the needed resources in the webhook's rules, exclude these resources with"
        " matchConditions, or set failurePolicy: Ignore."
    )
    if namespace:
        remedy = (
            f"Exclude {namespace} in the webhook's namespaceSelector ({NAMESPACE_LABEL} NotIn"
            f" [{namespace}]), or set failurePolicy: Ignore."
        )
    return warning(message, remedy)


def _full_name(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def _timeouts(webhooks: Sequence[StoredWebhook]) -> Iterator[Check]:
    """Yield a warning for each resource whose webhooks together may take over _SLOW_SECONDS.

    Mutating webhooks are called one after the other, validating ones in parallel.
    """
    slow: dict[tuple[str, int, tuple[str, ...]], list[str]] = {}
    for resource, operation in _requests(webhooks):
        called = [webhook for webhook in webhooks if webhook.sees(resource, operation)]
        total = _longest(called)
        if total > _SLOW_SECONDS:
            names = tuple(webhook.name for webhook in called)
            slow.setdefault((_full_name(*resource), total, names), []).append(operation)

    for (name, total, names), operations in slow.items():
        message = (
            f"{', '.join(operations)} of {name} may take {total} s if all {len(names)} webhooks are"
            f" slow. API servers give up after {_LIMIT_SECONDS} s by default"
        )
        remedy = f"Set a lower timeoutSeconds for {', '.join(dict.fromkeys(names))}."
        yield warning(message, remedy)


def _longest(called: Sequence[StoredWebhook]) -> int:
    """Return the seconds that a request takes if each webhook answers just before its timeout."""
    mutating = [webhook.timeout_seconds for webhook in called if webhook.is_mutating]
    validating = [webhook.timeout_seconds for webhook in called if not webhook.is_mutating]
    return sum(mutating) + max(validating, default=0)


def _requests(webhooks: Sequence[StoredWebhook]) -> list[tuple[tuple[str, str], str]]:
    """Return the resources and operations in the webhooks' rules, without repetitions, in order.

    An item is ((group, plural), operation). Items with a wildcard are left out.
    """
    named: dict[tuple[tuple[str, str], str], None] = {}
    for webhook in webhooks:
        for rule in maps_at(webhook.content, "rules"):
            parts = (rule.get(key) or () for key in ("apiGroups", "resources", "operations"))
            for group, plural, operation in itertools.product(*parts):
                if "*" not in f"{group} {plural} {operation}":
                    named[(group, plural), operation] = None
    return list(named)


async def check_certificates(installed: Installed, shake: Shake, now: datetime) -> Checks:
    """Return the problems of all caBundles, and the number of caBundles that were not compared."""
    checks: Checks = []
    uncompared = 0
    for title, configuration in installed.configurations.items():
        for bundle in bundles_of([configuration]):
            results = await _check_bundle(bundle, installed.surroundings, shake, now)
            uncompared += any(check.status == "unknown" for check in results)
            checks += [
                Check(check.status, f"{title}: {check.message}", _WRITER)
                for check in results
                if check.status == "problem"
            ]

    if uncompared:
        message = f"caBundles not compared with the certificates of their servers: {uncompared}"
        checks.append(unknown(message, "Run doctor inside the cluster."))

    return checks


async def _check_bundle(
    bundle: Bundle, surroundings: Surroundings, shake: Shake, now: datetime
) -> Checks:
    """Return the checks of a caBundle.

    Return [] for a URL without a caBundle: API servers verify such a webhook with their own CAs.
    """
    target = bundle.target
    endpoints: list[Endpoint] = []
    if target.service is not None:
        ready = endpoints_of(target.service, target.port, surroundings)
        endpoints = ready[:_COMPARED]
    elif not bundle.ca_bundle:
        return []
    shown = Shown(None, "Secrets of other products are not read", is_readable=False)
    return await check_bundle(bundle, endpoints, shown, shake, now)
