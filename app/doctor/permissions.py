"""Check that the server has the permissions that it needs.

The tables have the same permissions as the manifests, mostly `manifests/base/rbac.yaml`. A test
compares them.
"""

from collections.abc import Mapping, Sequence

from app.base.groups import by_key
from app.base.value import Value
from app.cluster.units import CONTROLLERS
from app.config.schema import ACCOUNT, Configuration
from app.doctor.report import Check, Checks, Status, apply_again, ok
from app.facts.kinds import (
    CLAIM_TEMPLATE,
    CLUSTER_QUEUE,
    KUEUE_QUEUE,
    KUEUE_WORKLOAD,
    SCHEDULING_SHARD,
)
from app.kube.api import Client, Object
from app.objects.fields import listed
from app.objects.resource import ACCESS_REVIEW, SELF_ACCESS_REVIEW

_REMEDY = apply_again("manifests/base/rbac.yaml")
_WHY = "reporting why gangs are pending"
_REMEDY_OF_WAITING = (
    "Add the component manifests/components/waiting to your overlay."
    f" {apply_again('manifests/components/waiting/rbac.yaml')}"
)
_NAMED = (
    'The stored rule must have resourceNames: ["{name}"], which a tool such as Kustomize may have'
    " changed."
)
_MOST_SHOWN = 10
"""The maximum number of missing permissions that one check lists."""
_WATCH = ("list", "watch")
_READ = ("get", *_WATCH)


class Need(Value):
    """A permission that the server needs."""

    group: str
    """The API group of the resource, or "" for the core group."""
    resource: str
    """The resource, as `plural` or `plural/subresource`."""
    verbs: tuple[str, ...]
    """The verbs that the server needs."""
    purpose: str
    """The purpose of the permission, as a noun phrase for messages."""
    namespace: str = ""
    """The namespace of the objects, or "" for all namespaces and for cluster-scoped resources."""
    name: str = ""
    """The name of the only object that the server needs, or "" for all objects."""
    optional: bool = False
    """Whether the server works without the permission, with less information."""

    def __str__(self) -> str:
        return ".".join(filter(None, (self.resource, self.group))) + (
            f' "{self.name}"' if self.name else ""
        )


_ALWAYS = (
    Need("apiextensions.k8s.io", "customresourcedefinitions", _WATCH, "detecting installed APIs"),
    Need("", "nodes", _WATCH, "labels at binding"),
    Need("grove.io", "podcliquesets", _READ, "verdicts"),
    Need("grove.io", "podcliques", _WATCH, "restoring and collecting MNNVL resources"),
    Need("grove.io", "podcliques", ("patch",), "restoring MNNVL claims"),
    Need("", "pods", _WATCH, "Pods that use MNNVL claims, or run without one, and our own Pods"),
    Need("resource.k8s.io", "deviceclasses", _WATCH, "the form of MNNVL claims"),
    Need(
        "grove.io",
        "clustertopologies",
        (*_READ, "create", "patch", "delete"),
        "the managed ClusterTopology",
    ),
    Need("grove.io", "clustertopologies/status", ("patch",), "the condition Ready"),
    Need(
        "grove.io",
        "clustertopologybindings",
        (*_READ, "create", "patch"),
        "the managed ClusterTopologyBinding",
    ),
    Need("grove.io", "clustertopologybindings/status", ("patch",), "the condition LevelsCovered"),
    Need("grove.io", "clustertopologies/finalizers", ("update",), "owning the KAI Topology"),
    Need(
        "grove.io",
        "podcliquesets/status",
        ("patch",),
        "the condition TopologyConstraintSatisfied",
    ),
    Need(
        "grove.io",
        "podcliquesets/finalizers",
        ("update",),
        "MNNVL resources that a PodCliqueSet owns",
    ),
    Need("kai.scheduler", "topologies", (*_READ, "create", "delete"), "the KAI Topology"),
    Need(
        "scheduling.run.ai",
        "queues",
        _WATCH,
        "warnings about queues that don't exist",
        optional=True,
    ),
    Need(
        "resource.k8s.io",
        "resourceslices",
        _WATCH,
        "warnings about the room of nodes whose GPUs are allocated by DRA",
        optional=True,
    ),
    Need(
        "grove-admission.grove.io",
        "queuenames",
        (*_WATCH, "create", "patch"),
        "warnings about queues that don't exist",
        optional=True,
    ),
    Need("scheduler.grove.io", "podgangs", (*_READ, "patch"), "constraints for the scheduler"),
    Need(
        "scheduler.grove.io",
        "podgangs/finalizers",
        ("update",),
        "MNNVL resources that a PodGang owns",
    ),
    Need("resource.nvidia.com", "computedomains", (*_READ, "create", "patch", "delete"), "MNNVL"),
    Need("resource.k8s.io", "resourceclaims", (*_READ, "create", "patch", "delete"), "MNNVL"),
    Need("events.k8s.io", "events", ("create", "patch"), "events"),
)

OWNERS: Mapping[str, tuple[str, ...]] = {
    "apps": ("daemonsets", "deployments", "replicasets", "statefulsets"),
    "batch": ("cronjobs", "jobs"),
    "grove.io": ("podcliques", "podcliquescalinggroups"),
    "jobset.x-k8s.io": ("jobsets",),
    "kubeflow.org": (
        "jaxjobs",
        "mpijobs",
        "notebooks",
        "paddlejobs",
        "pytorchjobs",
        "tfjobs",
        "xgboostjobs",
    ),
    "leaderworkerset.x-k8s.io": ("leaderworkersets",),
    "nvidia.com": ("dynamographdeployments",),
    "ray.io": ("rayclusters", "rayjobs", "rayservices"),
    "serving.knative.dev": ("configurations", "revisions", "services"),
    "trainer.kubeflow.org": ("trainjobs",),
}
"""The resources, by API group, that may own the Pods of a Workload."""

_WORKLOADS = (
    Need("scheduling.k8s.io", "workloads", _WATCH, "Workloads"),
    Need("scheduling.k8s.io", "podgroups", _WATCH, "Workloads"),
    Need("scheduling.k8s.io", "priorityclasses", _WATCH, "Workloads"),
    Need("scheduling.run.ai", "podgroups", (*_READ, "create", "patch", "delete"), "Workloads"),
    Need("", "pods", (*_WATCH, "patch"), "Workloads"),
    *(
        Need(group, plural, ("get",), "finding the owners of a Workload's Pods", optional=True)
        for group, plurals in OWNERS.items()
        for plural in plurals
    ),
)

_OWNING = "finding the owners of the Pods' units"
_UNITS = tuple(
    Need(resource.group, resource.plural, ("get",), _OWNING)
    for resource in (*CONTROLLERS, CLAIM_TEMPLATE)
)

_WAITING = (
    Need("grove.io", "podgangmaps", _WATCH, _WHY),
    Need("scheduling.run.ai", "queues", _WATCH, _WHY),
    Need("scheduling.run.ai", "podgroups", _READ, _WHY),
    *(
        Need(resource.group, resource.plural, _WATCH, _WHY, optional=True)
        for resource in (SCHEDULING_SHARD, KUEUE_WORKLOAD, KUEUE_QUEUE, CLUSTER_QUEUE)
    ),
    Need("resource.k8s.io", "resourceclaimtemplates", _WATCH, _WHY),
    Need("resource.k8s.io", "resourceslices", _WATCH, _WHY),
    Need("resource.nvidia.com", "computedomaincliques", _WATCH, _WHY),
    Need("scheduling.k8s.io", "podgroups", _WATCH, _WHY),
    Need("scheduling.k8s.io", "priorityclasses", _WATCH, _WHY),
    Need("scheduling.k8s.io", "workloads", _READ, _WHY),
    Need("", "pods", _WATCH, _WHY),
    Need("events.k8s.io", "events", _WATCH, _WHY),
    Need("", "persistentvolumeclaims", _WATCH, _WHY),
    Need("", "persistentvolumes", _WATCH, _WHY),
    Need("storage.k8s.io", "storageclasses", _WATCH, _WHY),
)


def needs_of(configuration: Configuration) -> list[Need]:
    """Return the permissions that a server with this configuration needs.

    A permission to `create` has no object name, because RBAC cannot limit `create` to a name.
    """
    needs = [*_ALWAYS, *_UNITS, *(_WORKLOADS if configuration.workloads.enabled else ())]
    needs += _WAITING if configuration.waiting.enabled else ()
    lease = configuration.leader_election
    certificates = configuration.certificates
    if lease.enabled:
        needs += [
            Need("coordination.k8s.io", "leases", ("create",), "leader election", lease.namespace),
            Need(
                "coordination.k8s.io",
                "leases",
                ("get", "patch"),
                "leader election",
                lease.namespace,
                lease.name,
            ),
        ]

    group = "admissionregistration.k8s.io"
    name = certificates.webhook_configurations
    needs.append(
        Need(
            group,
            "mutatingwebhookconfigurations",
            (*_WATCH, "patch"),
            "tokens in paths",
            name=name,
            optional=True,
        )
    )
    if certificates.mode == "self-managed":
        verbs = (*_READ, "patch")
        needs += [
            Need(group, "mutatingwebhookconfigurations", verbs, "caBundles", name=name),
            Need(group, "validatingwebhookconfigurations", verbs, "caBundles", name=name),
            Need("", "secrets", ("create",), "certificates", certificates.namespace),
            Need(
                "",
                "secrets",
                verbs,
                "certificates",
                certificates.namespace,
                certificates.secret_name,
            ),
        ]

    return needs


async def check_permissions(client: Client, needs: Sequence[Need], namespace: str | None) -> Checks:
    """Check that our service account in `namespace` has the permissions `needs`.

    Missing permissions with the same status and remedy share a check. If `namespace` is None, check
    this process's own permissions. Raise ClusterError if a request fails, for example because this
    process may not review the access of other accounts.
    """
    subject = "you" if namespace is None else f"service account {namespace}/{ACCOUNT}"
    missing: list[tuple[tuple[Status, str], str]] = []
    for need in needs:
        refused = [
            verb for verb in need.verbs if not await is_allowed(client, need, verb, namespace)
        ]
        if refused:
            status: Status = "warning" if need.optional else "problem"
            lacked = f"{', '.join(refused)} {need} ({need.purpose})"
            missing.append(((status, _remedy(need)), lacked))

    missing.sort(key=lambda item: item[0][0] != "problem")
    if missing:
        return [
            Check(status, f"{subject} may not {listed(lacked, _MOST_SHOWN, '; ')}", remedy)
            for (status, remedy), lacked in by_key(missing).items()
        ]
    count = sum(len(need.verbs) for need in needs)
    has = "have" if namespace is None else "has"
    return [ok(f"{subject} {has} all required permissions ({count} verbs)")]


def _remedy(need: Need) -> str:
    if need.purpose == _WHY:
        return _REMEDY_OF_WAITING
    if need.name:
        return f"{_NAMED.format(name=need.name)} {_REMEDY}"
    return _REMEDY


async def is_allowed(
    client: Client, need: Need, verb: str, namespace: str | None, account: str = ACCOUNT
) -> bool:
    """Return whether a service account may use `verb` on the objects of `need`.

    The account is `account` in `namespace`, or that of this process if `namespace` is None. Raise
    ClusterError if a request fails.
    """
    resource = SELF_ACCESS_REVIEW if namespace is None else ACCESS_REVIEW
    answer = await client.create(resource, access_review(need, verb, namespace, account))
    return (answer.get("status") or {}).get("allowed") is True


def access_review(need: Need, verb: str, namespace: str | None, account: str = ACCOUNT) -> Object:
    """Return a SubjectAccessReview: may `account` in `namespace` use `verb` on `need`'s objects?

    If `namespace` is None, return a SelfSubjectAccessReview, which asks about this process.
    """
    plural, _, subresource = need.resource.partition("/")
    attributes = {
        "group": need.group,
        "resource": plural,
        "subresource": subresource,
        "verb": verb,
        "name": need.name,
        "namespace": need.namespace,
    }
    spec: Object = {
        "resourceAttributes": {key: value for key, value in attributes.items() if value}
    }
    if namespace is not None:  # every service account has these groups
        groups = [
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        ]
        spec |= {"user": f"system:serviceaccount:{namespace}:{account}", "groups": groups}

    return {"spec": spec}
