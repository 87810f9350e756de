"""Define the webhook table: the resource, operations, policies and handler of each path.

The webhook configurations and the routes of the server are built from it.
"""

from collections.abc import Collection, Mapping
from typing import Literal

from msgspec import field
from msgspec.structs import replace

from app.admission.decide import Handler, Route
from app.admission.review import Parse, parse, parser
from app.admission.verdict import Verdict, hindered, unavailable
from app.base.value import Value
from app.cluster.cluster import Cluster
from app.config.schema import ClusterTopology, Configuration, Enforcement
from app.facts.grove.review_fields import PodCliqueFields, PodCliqueSetFields, PodFields
from app.facts.kinds import (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
)
from app.facts.labels import (
    GROVE_CLIQUE_NAME,
    IGNORE_WORKLOADS,
    KAI_SCHEDULER,
    MNNVL_ADOPTED,
    MNNVL_ENABLED,
    SKIP_PODGROUPER,
)
from app.kube.api import ClusterError, Rejected
from app.objects.resource import POD, Resource
from app.webhooks.clustertopology import ClusterTopologyWebhook
from app.webhooks.mnnvl import PodCliqueWebhook, PodMnnvlCheck, PodMnnvlWebhook
from app.webhooks.pod import PodBindingWebhook, PodWebhook
from app.webhooks.podcliqueset import PodCliqueSetWebhook
from app.webhooks.podgang import PodGangDeletionWebhook, PodGangWebhook
from app.webhooks.podgroup import PodGroupWebhook

WRITES = ("CREATE", "UPDATE")
"""The operations that can make an object invalid."""

NOT_BEING_DELETED = {
    "not-being-deleted": "request.operation != 'UPDATE' || !has(object.metadata.deletionTimestamp)"
}
"""The matchCondition that skips updates of objects that are being deleted.

Their finalizers can therefore be removed while no server answers.
"""

SPEC_MAY_CHANGE = {
    "not-being-deleted-or-spec-changes": (
        "request.operation != 'UPDATE' || !has(object.metadata.deletionTimestamp)"
        " || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"
    )
}
"""The matchCondition that skips updates of objects that are being deleted.

Updates that change the spec are not skipped.
"""


class Webhook(Value, eq=False, kw_only=True):
    """One row of the webhook table.

    Fields without a description have the meaning of the webhook configuration's fields.
    """

    path: str
    """The path of the webhook, without a token."""
    resource: Resource
    """The resource whose requests the webhook judges."""
    operations: tuple[str, ...]
    failure_policy: Literal["Fail", "Ignore"]
    timeout_seconds: int
    side_effects: Literal["None", "NoneOnDryRun"]
    match_conditions: Mapping[str, str] = field(default_factory=dict)
    """CEL expressions by name. The API server sends a request only if all of them are true."""
    subresource: str = ""
    """The subresource, or "" for the resource itself."""
    kind: str = ""
    """The kind of the objects, or "" for the kind of `resource`."""
    also: tuple[Resource, ...] = ()
    """Further resources of the same group, version and scope as `resource`."""
    needs_namespace: bool = False
    """Whether a request without a namespace is rejected."""
    guards_spec: bool = False
    """Whether the webhook also judges changes to the spec of an object that is being deleted."""
    parse: Parse = parse
    """The function that decodes reviews for this webhook."""

    @property
    def mutating(self) -> bool:
        """Whether the webhook is in the MutatingWebhookConfiguration."""
        return self.path.startswith("/mutate/")

    @property
    def name(self) -> str:
        """The fully qualified name, as in the messages and audit logs of API servers."""
        verb, _, subject = self.path.strip("/").partition("/")
        return f"{subject}.{verb}.grove-admission.grove.io"

    def route(self, handler: Handler) -> Route:
        """Return the route of this webhook. A ClusterError of `handler` becomes a verdict."""
        return Route(
            path=self.path,
            group=self.resource.group,
            kind=self.kind or self.resource.kind,
            resource=self.resource.plural,
            subresource=self.subresource,
            operations=frozenset(self.operations),
            handler=handler,
            also=tuple((resource.kind, resource.plural) for resource in self.also),
            needs_namespace=self.needs_namespace,
            guards_spec=self.guards_spec,
            failure=_verdict_on,
            parse=self.parse,
        )


def _has(annotation: str) -> str:
    """Return a CEL expression that is true if the object has `annotation` with the value "true"."""
    return (
        f"has(object.metadata.annotations) && '{annotation}' in object.metadata.annotations && "
        f"object.metadata.annotations['{annotation}'] == 'true'"
    )


def _some_container_has_gpus(field: str) -> str:
    """Return a CEL expression that is true if a container in `field` of the pod spec names GPUs.

    Its limits or requests then contain nvidia.com/gpu or a MIG device, in any amount.
    """
    amounts = (
        f"has(c.resources.{name}) && c.resources.{name}.exists(r, r == 'nvidia.com/gpu' || "
        "r.startsWith('nvidia.com/mig-'))"
        for name in ("limits", "requests")
    )
    gpus = " || ".join(f"({amount})" for amount in amounts)
    return (
        f"has(object.spec.podSpec.{field}) && object.spec.podSpec.{field}.exists(c,"
        f" has(c.resources) && ({gpus}))"
    )


_MAY_WANT_MNNVL = {
    "annotated-or-requests-gpus": (
        f"({_has(MNNVL_ENABLED)}) || (has(object.spec) && has(object.spec.podSpec) &&"
        f" (({_some_container_has_gpus('containers')}) ||"
        f" ({_some_container_has_gpus('initContainers')})))"
    ),
}
"""The matchCondition that selects PodCliques with the annotation or with GPUs.

A PodClique without the annotation may inherit it from its scaling group or set.
"""

_MAY_OWN_MNNVL_RESOURCES = {
    "may-own-mnnvl-resources": (
        "has(oldObject.metadata.annotations) &&"
        f" '{MNNVL_ADOPTED}' in oldObject.metadata.annotations"
    ),
}
"""The matchCondition that selects PodGangs with the annotation MNNVL_ADOPTED.

If PodCliqueSets should own the resources, a PodGang keeps the annotation only while it owns one.
"""

_NEW_IN_A_GROUP = {
    "our-scheduler": (
        f"has(object.spec.schedulerName) && object.spec.schedulerName == '{KAI_SCHEDULER}'"
    ),
    "in-a-workload-group": "has(object.spec.workloadRef) || has(object.spec.schedulingGroup)",
    "not-marked-yet": f"!({_has(SKIP_PODGROUPER)})",
    "not-opted-out": f"!({_has(IGNORE_WORKLOADS)})",
}
"""The matchConditions that select Pods of Workload groups.

Pods are created often, so the API server sends only Pods that the webhook is likely to change.
"""

_ASKS_FOR_MNNVL_ITSELF = {
    "asks-for-mnnvl": _has(MNNVL_ENABLED),
    "in-no-podclique": (
        f"!(has(object.metadata.labels) && '{GROVE_CLIQUE_NAME}' in object.metadata.labels)"
    ),
}
"""The matchConditions that select Pods that request MNNVL themselves.

Pods of a PodClique get the claims of the PodClique. The API server does not send them to this
webhook, nor Pods without MNNVL, so these Pods can be created while no server answers.
"""

# Every webhook that judges updates and has the failurePolicy Fail has the condition
# NOT_BEING_DELETED or SPEC_MAY_CHANGE, so that finalizers can be removed and namespaces deleted
# while no server answers. An update that a condition skips is allowed if it is sent anyway.

VALIDATE_CLUSTER_TOPOLOGY = Webhook(
    path="/validate/clustertopology",
    resource=CLUSTER_TOPOLOGY,
    operations=(*WRITES, "DELETE"),
    failure_policy="Fail",
    timeout_seconds=5,
    side_effects="None",
    match_conditions=SPEC_MAY_CHANGE,
    also=(CLUSTER_TOPOLOGY_BINDING,),
    guards_spec=True,
)
VALIDATE_POD_CLIQUE_SET = Webhook(
    path="/validate/podcliqueset",
    resource=POD_CLIQUE_SET,
    operations=WRITES,
    failure_policy="Fail",
    timeout_seconds=5,
    side_effects="None",
    match_conditions=NOT_BEING_DELETED,
    parse=parser(PodCliqueSetFields),
)
VALIDATE_POD_GROUP = Webhook(
    path="/validate/podgroup",
    resource=POD_GROUP,
    operations=WRITES,
    failure_policy="Fail",
    timeout_seconds=5,
    side_effects="None",
    match_conditions=NOT_BEING_DELETED,
)
VALIDATE_POD_GANG = Webhook(
    path="/validate/podgang",
    resource=POD_GANG,
    operations=("DELETE",),
    failure_policy="Ignore",
    timeout_seconds=5,
    side_effects="NoneOnDryRun",
    match_conditions=_MAY_OWN_MNNVL_RESOURCES,
    needs_namespace=True,
)
MUTATE_POD_CLIQUE = Webhook(
    path="/mutate/podclique",
    resource=POD_CLIQUE,
    operations=WRITES,
    failure_policy="Fail",
    timeout_seconds=10,
    side_effects="NoneOnDryRun",
    match_conditions={**_MAY_WANT_MNNVL, **NOT_BEING_DELETED},
    needs_namespace=True,
    parse=parser(PodCliqueFields),
)
MUTATE_POD_GANG = Webhook(
    path="/mutate/podgang",
    resource=POD_GANG,
    operations=WRITES,
    failure_policy="Fail",
    timeout_seconds=5,
    side_effects="NoneOnDryRun",
    match_conditions=NOT_BEING_DELETED,
    needs_namespace=True,
)
MUTATE_POD_BINDING = Webhook(
    path="/mutate/pod-binding",
    resource=POD,
    operations=("CREATE",),
    failure_policy="Ignore",
    timeout_seconds=2,
    side_effects="None",
    subresource="binding",
    kind="Binding",
)
MUTATE_POD = Webhook(
    path="/mutate/pod",
    resource=POD,
    operations=("CREATE",),
    failure_policy="Ignore",
    timeout_seconds=2,
    side_effects="None",
    match_conditions=_NEW_IN_A_GROUP,
)
MUTATE_POD_MNNVL = Webhook(
    path="/mutate/pod-mnnvl",
    resource=POD,
    operations=("CREATE",),
    failure_policy="Fail",
    timeout_seconds=10,
    side_effects="NoneOnDryRun",
    match_conditions=_ASKS_FOR_MNNVL_ITSELF,
    needs_namespace=True,
    parse=parser(PodFields),
)
VALIDATE_POD_MNNVL = replace(
    MUTATE_POD_MNNVL, path="/validate/pod-mnnvl", timeout_seconds=5, side_effects="None"
)

WEBHOOKS: tuple[Webhook, ...] = (
    VALIDATE_CLUSTER_TOPOLOGY,
    VALIDATE_POD_CLIQUE_SET,
    VALIDATE_POD_GROUP,
    VALIDATE_POD_GANG,
    VALIDATE_POD_MNNVL,
    MUTATE_POD_CLIQUE,
    MUTATE_POD_GANG,
    MUTATE_POD_BINDING,
    MUTATE_POD,
    MUTATE_POD_MNNVL,
)


def served_routes(configuration: Configuration, cluster: Cluster) -> dict[str, Route]:
    """Return the routes of `routes_over`, in warn-only mode where the configuration says so."""
    warning = warning_paths(configuration.enforcement)
    return {
        path: replace(route, on_trial=path in warning)
        for path, route in routes_over(configuration, cluster).items()
    }


def warning_paths(enforcement: Enforcement) -> list[str]:
    """Return the paths of the webhooks that warn instead of rejecting."""
    modes = {
        VALIDATE_CLUSTER_TOPOLOGY: enforcement.webhooks.cluster_topology,
        VALIDATE_POD_CLIQUE_SET: enforcement.webhooks.pod_clique_set,
        VALIDATE_POD_GROUP: enforcement.webhooks.pod_group,
        MUTATE_POD_CLIQUE: enforcement.webhooks.pod_clique,
        MUTATE_POD_GANG: enforcement.webhooks.pod_gang,
    }
    return [
        webhook.path for webhook in WEBHOOKS if (modes.get(webhook) or enforcement.mode) == "warn"
    ]


def guarded_kinds(topology: ClusterTopology) -> list[str]:
    """Return the kinds of the managed topology that only authorized users may write.

    If topology support is disabled, a binding with the managed name belongs to administrators.
    """
    kinds = [CLUSTER_TOPOLOGY.kind]
    if topology.enabled:
        kinds.append(CLUSTER_TOPOLOGY_BINDING.kind)
    return kinds


def routes_over(
    configuration: Configuration, cluster: Cluster, authorized: Collection[str] | None = None
) -> dict[str, Route]:
    """Return the routes of all webhooks by path.

    They use the settings of `configuration` and the facts of `cluster`. If `authorized` is given,
    these users may write the managed topology instead of the configured ones. The routes reject
    invalid objects, even in a trial period.
    """
    topology = configuration.cluster_topology
    workloads = configuration.workloads
    facts = cluster.facts
    resources = cluster.resources
    users = configuration.authorization.authorized_users if authorized is None else authorized
    guarded = guarded_kinds(topology)
    handlers: dict[Webhook, Handler] = {
        VALIDATE_CLUSTER_TOPOLOGY: ClusterTopologyWebhook(topology.name, guarded, users, facts),
        VALIDATE_POD_CLIQUE_SET: PodCliqueSetWebhook(facts, cluster.units),
        VALIDATE_POD_GROUP: PodGroupWebhook(facts),
        VALIDATE_POD_GANG: PodGangDeletionWebhook(cluster.owners),
        VALIDATE_POD_MNNVL: PodMnnvlCheck(facts),
        MUTATE_POD_CLIQUE: PodCliqueWebhook(facts, resources, configuration.mnnvl.claim_mode),
        MUTATE_POD_GANG: PodGangWebhook(facts, cluster.owners),
        MUTATE_POD_BINDING: PodBindingWebhook(
            facts, configuration.node_labels, configuration.pod_binding.enabled
        ),
        MUTATE_POD: PodWebhook(workloads.scheduler_name if workloads.enabled else None),
        MUTATE_POD_MNNVL: PodMnnvlWebhook(facts, resources, cluster.units),
    }

    return {webhook.path: webhook.route(handler) for webhook, handler in handlers.items()}


def _verdict_on(problem: Exception) -> Verdict | None:
    """Return the verdict on a ClusterError, or None for any other exception."""
    if not isinstance(problem, ClusterError):
        return None
    if isinstance(problem, Rejected):
        # quotas and webhooks of other products answer 403 too
        hint = " (check its RBAC)" if 'is forbidden: User "' in problem.message else ""
        return hindered(
            f"the API server rejected a request of grove-admission{hint}: {problem.message}"
        )
    return unavailable(problem.message)
