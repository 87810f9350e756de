"""The list of seven: path -> resource, operations, policies and handler. Webhook configurations are printed from it,
and the server routes by it."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Literal, Protocol, Self

from app.admission.decide import Handler, Route
from app.admission.review import Request
from app.admission.verdict import Verdict, hindered, unavailable
from app.cluster.readers import (
    ApiReader,
    DeviceClassReader,
    MnnvlResources,
    NodeReader,
    PodCliqueSetReader,
    TopologyReader,
)
from app.config.schema import Configuration
from app.kube.api import ClusterError, Forbidden
from app.objects.resource import POD, Resource
from app.rules.kinds import (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
)
from app.rules.labels import MNNVL_ENABLED
from app.rules.mnnvl.allocation import ConfiguredMode
from app.rules.workload.groups import IGNORE
from app.rules.workload.kai_podgroup import KAI_SCHEDULER
from app.rules.workload.pods import SKIP_PODGROUPER
from app.webhooks.clustertopology import ClusterTopologyWebhook
from app.webhooks.pod import PodWebhook
from app.webhooks.pod_binding import PodBindingWebhook
from app.webhooks.podclique import PodCliqueWebhook
from app.webhooks.podcliqueset import PodCliqueSetWebhook
from app.webhooks.podgang import PodGangWebhook
from app.webhooks.podgroup import pod_group_webhook


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """A CEL expression that the API server evaluates before it asks us."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Webhook:
    """One row of the webhook table. `also` are further resources of the same group, version and scope as `resource`,
    which may or may not be served. `timeout_seconds`, `failure_policy`, `side_effects` and `reinvocation` are what the
    webhook configuration says to the API server."""

    path: str
    resource: Resource
    operations: tuple[str, ...]
    failure_policy: Literal["Fail", "Ignore"]
    timeout_seconds: int
    side_effects: Literal["None", "NoneOnDryRun"]
    mutating: bool = False
    subresource: str = ""
    kind: str = ""
    match_conditions: tuple[MatchCondition, ...] = ()
    also: tuple[Resource, ...] = ()

    @property
    def name(self) -> str:
        """The fully qualified name that a refused user is shown."""
        verb, _, what = self.path.strip("/").partition("/")
        return f"{what}.{verb}.grove-admission.grove.io"

    def route(self, handler: Handler) -> Route:
        return Route(
            path=self.path,
            group=self.resource.group,
            kind=self.kind or self.resource.kind,
            resource=self.resource.plural,
            subresource=self.subresource,
            operations=frozenset(self.operations),
            handler=_Answering(handler),
            also=tuple((resource.kind, resource.plural) for resource in self.also),
        )


_WRITES = ("CREATE", "UPDATE")
_ANNOTATED = (
    f"has(object.metadata.annotations) && '{MNNVL_ENABLED}' in object.metadata.annotations && "
    f"object.metadata.annotations['{MNNVL_ENABLED}'] == 'true'"
)


def _some_container_has_gpus(listed: str) -> str:
    """CEL: a container of a list of the pod spec has a GPU among its limits or requests."""
    amounts = (
        f"has(c.resources.{name}) && c.resources.{name}.exists(r, r == 'nvidia.com/gpu' || "
        f"r.startsWith('nvidia.com/mig-'))"
        for name in ("limits", "requests")
    )
    one = " || ".join(f"({amount})" for amount in amounts)
    return f"has(object.spec.podSpec.{listed}) && object.spec.podSpec.{listed}.exists(c, has(c.resources) && ({one}))"


_MAY_WANT_MNNVL = MatchCondition(
    "annotated-or-requests-gpus",
    f"({_ANNOTATED}) || (has(object.spec) && has(object.spec.podSpec) && "
    f"(({_some_container_has_gpus('containers')}) || ({_some_container_has_gpus('initContainers')})))",
)
"""The annotations of the scaling group and of the PodCliqueSet count too, and they are not on the PodClique."""

_NOT_BEING_DELETED = MatchCondition(
    "not-being-deleted", "request.operation != 'UPDATE' || !has(object.metadata.deletionTimestamp)"
)
"""For those that fail closed: finalizers can be removed, and namespaces emptied, while nobody answers. Being asked, we
would let such an update pass."""


def _lacks(annotation: str) -> str:
    """CEL: the object does not have `annotation` with the value "true"."""
    return (
        f"!(has(object.metadata.annotations) && '{annotation}' in object.metadata.annotations && "
        f"object.metadata.annotations['{annotation}'] == 'true')"
    )


_NEW_IN_A_GROUP = (
    MatchCondition(
        "our-scheduler", f"has(object.spec.schedulerName) && object.spec.schedulerName == '{KAI_SCHEDULER}'"
    ),
    MatchCondition("in-a-workload-group", "has(object.spec.workloadRef) || has(object.spec.schedulingGroup)"),
    MatchCondition("not-marked-yet", _lacks(SKIP_PODGROUPER)),
    MatchCondition("not-opted-out", _lacks(IGNORE)),
)
"""Pods are created often: the API server sends none to which nothing would be added."""

VALIDATE_CLUSTER_TOPOLOGY = Webhook(
    "/validate/clustertopology",
    CLUSTER_TOPOLOGY,
    (*_WRITES, "DELETE"),
    "Fail",
    5,
    "None",
    match_conditions=(_NOT_BEING_DELETED,),
    also=(CLUSTER_TOPOLOGY_BINDING,),
)
VALIDATE_POD_CLIQUE_SET = Webhook(
    "/validate/podcliqueset", POD_CLIQUE_SET, _WRITES, "Fail", 5, "None", match_conditions=(_NOT_BEING_DELETED,)
)
VALIDATE_POD_GROUP = Webhook(
    "/validate/podgroup", POD_GROUP, _WRITES, "Fail", 5, "None", match_conditions=(_NOT_BEING_DELETED,)
)
MUTATE_POD_CLIQUE = Webhook(
    "/mutate/podclique",
    POD_CLIQUE,
    _WRITES,
    "Fail",
    10,
    "NoneOnDryRun",
    mutating=True,
    match_conditions=(_MAY_WANT_MNNVL, _NOT_BEING_DELETED),
)
MUTATE_POD_GANG = Webhook(
    "/mutate/podgang",
    POD_GANG,
    _WRITES,
    "Fail",
    5,
    "NoneOnDryRun",
    mutating=True,
    match_conditions=(_NOT_BEING_DELETED,),
)
MUTATE_POD_BINDING = Webhook(
    "/mutate/pod-binding",
    POD,
    ("CREATE",),
    "Ignore",
    2,
    "None",
    mutating=True,
    subresource="binding",
    kind="Binding",
)
MUTATE_POD = Webhook(
    "/mutate/pod", POD, ("CREATE",), "Ignore", 2, "None", mutating=True, match_conditions=_NEW_IN_A_GROUP
)

WEBHOOKS: tuple[Webhook, ...] = (
    VALIDATE_CLUSTER_TOPOLOGY,
    VALIDATE_POD_CLIQUE_SET,
    VALIDATE_POD_GROUP,
    MUTATE_POD_CLIQUE,
    MUTATE_POD_GANG,
    MUTATE_POD_BINDING,
    MUTATE_POD,
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the webhooks take from the configuration."""

    topology_name: str
    guarded: frozenset[str]
    """The kinds of which the object `topology_name` is guarded."""
    authorized_users: tuple[str, ...]
    claim_mode: ConfiguredMode
    node_labels: tuple[str, ...]
    workloads_of: str | None
    """The scheduler whose Pods get the PodGroup of their Workload group; None if no Pods do."""

    @classmethod
    def of(cls, configuration: Configuration, authorized: tuple[str, ...] | None = None) -> Self:
        """The settings that `configuration` asks for. If `authorized` is given, these users may write the managed
        ClusterTopology, in place of the configured ones."""
        return cls(
            topology_name=configuration.cluster_topology.name,
            guarded=guarded_kinds(configuration.cluster_topology.enabled),
            authorized_users=configuration.authorization.authorized_users if authorized is None else authorized,
            claim_mode=configuration.mnnvl.claim_mode,
            node_labels=configuration.node_labels,
            workloads_of=configuration.workloads.scheduler_name if configuration.workloads.enabled else None,
        )


def guarded_kinds(enabled: bool) -> frozenset[str]:
    """A binding of the managed name is ours only if topology is enabled. Otherwise it is an administrator's."""
    return frozenset({CLUSTER_TOPOLOGY.kind, *([CLUSTER_TOPOLOGY_BINDING.kind] if enabled else [])})


class Readers(TopologyReader, PodCliqueSetReader, NodeReader, ApiReader, DeviceClassReader, Protocol):
    """The facts of one cluster."""


class Cluster(Protocol):
    """A cluster as webhooks see it."""

    @property
    def facts(self) -> Readers: ...

    @property
    def resources(self) -> MnnvlResources: ...


@dataclass(frozen=True, slots=True)
class Facts:
    """What the webhooks see of the cluster."""

    topology: TopologyReader
    sets: PodCliqueSetReader
    nodes: NodeReader
    apis: ApiReader
    classes: DeviceClassReader
    resources: MnnvlResources

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        facts = cluster.facts
        return cls(facts, facts, facts, facts, facts, cluster.resources)


def routes(settings: Settings, facts: Facts) -> dict[str, Route]:
    """Path -> route, for the server and the dry run."""
    handlers: dict[Webhook, Handler] = {
        VALIDATE_CLUSTER_TOPOLOGY: ClusterTopologyWebhook(
            settings.topology_name, settings.guarded, settings.authorized_users, facts.topology
        ),
        VALIDATE_POD_CLIQUE_SET: PodCliqueSetWebhook(facts.topology, facts.sets, facts.apis),
        VALIDATE_POD_GROUP: pod_group_webhook,
        MUTATE_POD_CLIQUE: PodCliqueWebhook(facts.sets, facts.classes, facts.resources, settings.claim_mode),
        MUTATE_POD_GANG: PodGangWebhook(facts.topology, facts.sets, facts.resources),
        MUTATE_POD_BINDING: PodBindingWebhook(facts.nodes, facts.topology, settings.node_labels),
        MUTATE_POD: PodWebhook(settings.workloads_of),
    }
    return {webhook.path: webhook.route(handler) for webhook, handler in handlers.items()}


def routes_over(configuration: Configuration, cluster: Cluster) -> dict[str, Route]:
    """The routes that `configuration` asks for, over the facts of `cluster`."""
    return routes(Settings.of(configuration), Facts.of(cluster))


class _Answering:
    """Turns what the cluster couldn't do into a verdict, once for all webhooks."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def __call__(self, request: Request) -> Verdict | Awaitable[Verdict]:
        try:
            answer = self._handler(request)
        except ClusterError as problem:
            return _answer_to(problem)
        return answer if isinstance(answer, Verdict) else _awaited(answer)


async def _awaited(answer: Awaitable[Verdict]) -> Verdict:
    try:
        return await answer
    except ClusterError as problem:
        return _answer_to(problem)


def _answer_to(problem: ClusterError) -> Verdict:
    if isinstance(problem, Forbidden):
        return hindered(f"the API server refused what grove-admission has to do (see its RBAC): {problem.message}")
    return unavailable(problem.message)
