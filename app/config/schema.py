"""The schema of OperatorConfiguration: every key with its default.

Grove has the section `clusterTopology` too (see the sources in `rules/README.md`); the other
sections are ours. `manifests/examples/configuration.yaml` has every key.
"""

from collections.abc import Callable
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from app.facts.grove.topology import Level, broadest_first
from app.facts.labels import KAI_SCHEDULER
from app.objects.fields import FieldPath
from app.objects.names import is_subdomain, label_key_problem
from app.rules.topology.levels import NVLINK_DOMAIN, validate_levels
from app.rules.workload.kai_podgroup import Conventions

API_VERSION = "config.grove.io/v1alpha1"
KIND = "OperatorConfiguration"

Seconds = Annotated[float, Field(gt=0, le=86400)]

_KAI = Conventions()


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, strict=True)


def _subdomain(example: str) -> Callable[[str], str]:
    def check(name: str) -> str:
        if not is_subdomain(name):
            raise ValueError(f"must be a lowercase DNS subdomain, such as {example}")
        return name

    return check


def _label_key(key: str) -> str:
    problem = label_key_problem(key)
    if problem is not None:
        raise ValueError(f"{key!r} {problem}")
    return key


TopologyName = Annotated[str, AfterValidator(_subdomain("grove-topology"))]
Name = Annotated[str, AfterValidator(_subdomain("grove-admission"))]
LabelKey = Annotated[str, AfterValidator(_label_key)]


class TopologyLevel(_Section):
    domain: str
    key: str


class ClusterTopology(_Section):
    """The managed ClusterTopology, which the leader creates, updates and deletes.

    If it cannot be created in time, the process ends.
    """

    enabled: bool = False
    name: TopologyName = "grove-topology"
    levels: tuple[TopologyLevel, ...] = Field(default=(), strict=False)
    creation_timeout_seconds: Seconds = 60

    @field_validator("name", mode="before")
    @classmethod
    def _named(cls, name: object, info: ValidationInfo) -> object:
        """Take an empty name for the default while the topology is disabled, as Grove does."""
        is_enabled = info.data.get("enabled", True)
        return name if name != "" or is_enabled else cls.model_fields["name"].default

    @model_validator(mode="after")
    def _levels(self) -> "ClusterTopology":
        levels = [level.model_dump() for level in self.levels]
        findings = validate_levels(levels, FieldPath("levels"))
        if self.enabled and findings:
            raise ValueError("; ".join(map(str, findings)))
        return self


ACCOUNT = "grove-admission"
"""Our own service account."""


def own_account(namespace: str) -> str:
    """Return the user name of our own service account."""
    return f"system:serviceaccount:{namespace}:{ACCOUNT}"


class Authorization(_Section):
    """The guard of the managed ClusterTopology.

    Only `authorizedUsers` can write it: our own account, which creates it, and Grove's operator.
    """

    authorized_users: tuple[str, ...] = Field(
        default=(own_account("grove-system"), "system:serviceaccount:grove-system:grove-operator"),
        strict=False,
    )


Mode = Literal["refuse", "warn"]
ModeOrNone = Mode | Literal[""]


class WebhookModes(_Section):
    """The modes of single webhooks; "" is that of all."""

    cluster_topology: ModeOrNone = ""
    pod_clique_set: ModeOrNone = ""
    pod_group: ModeOrNone = ""
    pod_clique: ModeOrNone = ""
    pod_gang: ModeOrNone = ""


class Enforcement(_Section):
    """Whether webhooks refuse, or only warn of what they would refuse.

    The managed ClusterTopology is guarded in both modes, and failures stay failures.
    """

    mode: Mode = "refuse"
    webhooks: WebhookModes = WebhookModes()


class Mnnvl(_Section):
    """`claimMode` is the form of the claims of new PodCliques.

    `owner` is the kind of the owner of MNNVL resources; with `auto`, the release of Grove decides.
    MNNVL resources that no PodClique needs are deleted after `collectAfterSeconds`; with 0 they are
    not deleted.

    `domainNodes` is the number of nodes in an NVLink domain, for clusters whose nodes don't have
    the label of their domain. A workload that leaves fewer than `spareNodes` of them free gets a
    warning.
    """

    claim_mode: Literal["auto", "shared", "template"] = "auto"
    owner: Literal["auto", "PodGang", "PodCliqueSet"] = "auto"
    collect_after_seconds: float = Field(default=300.0, ge=0, le=86_400)
    domain_nodes: int = Field(default=18, ge=1, le=10_000)
    spare_nodes: int = Field(default=0, ge=0, le=1_000)


class PodBinding(_Section):
    """The labels that Pods get at binding. If it is not `enabled`, they get none.

    The standard labels of region, zone and host are always among them. `nodeLabels` are copied from
    a node to its Pods, in addition to the keys of the levels. The default is the NVLink clique of
    the node, which containers cannot get in another way.
    """

    enabled: bool = True
    node_labels: tuple[LabelKey, ...] = Field(default=(NVLINK_DOMAIN,), strict=False)


class Server(_Section):
    """The listening address, and the time for which the server still serves after SIGTERM.

    `port` is for API servers and probes, `toolsPort` for people and monitoring: dry runs, metrics
    and docs.

    `::` is all addresses, of IPv6 and of IPv4; on a machine without IPv6, those of IPv4.

    With `clientCaFile` (PEM), only callers with a certificate of one of its CAs get a verdict, or
    what `clientCertificateFor` names.
    `maxConnections` is the number of connections with a complete handshake.
    """

    host: str = "::"
    port: Annotated[int, Field(ge=0, le=65535)] = 8443
    tools_port: Annotated[int, Field(ge=0, le=65535)] = 8444
    drain_seconds: Annotated[float, Field(ge=0, le=600)] = 10
    max_connections: Annotated[int, Field(ge=100, le=100_000)] = 2000
    client_ca_file: str = ""
    client_certificate_for: tuple[Literal["dry-run", "metrics", "docs"], ...] = Field(
        default=("dry-run", "docs"), strict=False
    )


class Client(_Section):
    """Limits of calls to the API server: requests per second, burst, and seconds for a call."""

    queries_per_second: Annotated[float, Field(gt=0, le=10000)] = 50
    burst: Annotated[int, Field(ge=1, le=10000)] = 100
    timeout_seconds: Seconds = 30


class LeaderElection(_Section):
    """Leader election: one replica runs the reconcilers.

    `leaseSeconds` is the time after which another replica takes over a Lease that is not renewed,
    `renewSeconds` the time after which a leader stops without a renewal, and `retrySeconds` the
    time between attempts.
    """

    enabled: bool = True
    namespace: Name = "grove-system"
    name: Name = "grove-admission"
    lease_seconds: Seconds = 15
    renew_seconds: Seconds = 10
    retry_seconds: Seconds = 2

    @model_validator(mode="after")
    def _order(self) -> "LeaderElection":
        if not self.lease_seconds > self.renew_seconds > self.retry_seconds:
            raise ValueError(
                "leaseSeconds must be more than renewSeconds, and that more than retrySeconds"
            )
        return self


class WorkloadLabels(_Section):
    """The keys of labels, or else annotations, of a Workload, a top owner or a Pod.

    `user` and `nodePool` are labels of Pods, which are copied to their PodGroup.
    """

    queue: LabelKey = _KAI.keys.queue
    priority_class: LabelKey = _KAI.keys.priority_class
    preemptibility: LabelKey = _KAI.keys.preemptibility
    project: LabelKey = _KAI.keys.project
    user: LabelKey = _KAI.keys.user
    node_pool: LabelKey = _KAI.keys.node_pool


class Workloads(_Section):
    """KAI PodGroups for Kubernetes Workloads whose Pods have `schedulerName`.

    Without a queue of its own, a Workload is in `defaultQueue`; with "" it has none.
    """

    enabled: bool = True
    scheduler_name: Annotated[str, Field(min_length=1)] = KAI_SCHEDULER
    default_queue: str = _KAI.default_queue
    labels: WorkloadLabels = WorkloadLabels()


class Waiting(_Section):
    """Whether the leader says in the cluster why gangs wait.

    It does for gangs that have waited for `afterSeconds`, and tells at most `maxWritesPerMinute`
    workloads in a minute. It needs more memory and rights: see app/waiting/README.md.
    """

    enabled: bool = False
    after_seconds: Seconds = 300
    max_writes_per_minute: Annotated[int, Field(ge=1, le=1000)] = 30


def _http_url(url: str) -> str:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("must be a URL with http or https, such as http://collector:4318")
    return url


class Tracing(_Section):
    """Spans of verdicts are sent to the OTLP collector at `endpoint`, the URL before /v1/traces.

    "" is no tracing.
    """

    endpoint: Annotated[str, AfterValidator(_http_url)] = ""


CertificateMode = Literal["files", "self-managed"]


class Certificates(_Section):
    """The source of the serving certificate.

    `files`: the directory of `--certs`, such as a mounted Secret of cert-manager, whose cainjector
    also writes the caBundles. `self-managed`: our own CA in the Secret `secretName`; we also write
    the caBundles of the two webhook configurations `webhookConfigurations`. `namespace` is that of
    the Secret and the Service. A new CA is in the caBundles for `settleSeconds` before a
    certificate that it signed is shown. This time must be much shorter than the last third of the
    validity of a certificate.
    """

    mode: CertificateMode = "files"
    namespace: Name = "grove-system"
    secret_name: Name = "grove-admission-certificates"
    service_name: Name = "grove-admission"
    webhook_configurations: Name = "grove-admission"
    validity_hours: Annotated[float, Field(gt=0, le=87600)] = 2160
    ca_validity_hours: Annotated[float, Field(gt=0, le=876000)] = 8760
    settle_seconds: Annotated[float, Field(ge=0, le=3600)] = 30

    @model_validator(mode="after")
    def _lives(self) -> "Certificates":
        if self.ca_validity_hours < 3 * self.validity_hours:
            raise ValueError("caValidityHours must be at least three times validityHours")
        if 6 * self.settle_seconds > 3600 * self.validity_hours:
            raise ValueError("settleSeconds must be at most a sixth of validityHours")
        return self


class Configuration(_Section):
    api_version: Literal["config.grove.io/v1alpha1"] = "config.grove.io/v1alpha1"
    kind: Literal["OperatorConfiguration"] = "OperatorConfiguration"
    cluster_topology: ClusterTopology = ClusterTopology()
    authorization: Authorization = Authorization()
    enforcement: Enforcement = Enforcement()
    mnnvl: Mnnvl = Mnnvl()
    pod_binding: PodBinding = PodBinding()
    server: Server = Server()
    client: Client = Client()
    leader_election: LeaderElection = LeaderElection()
    workloads: Workloads = Workloads()
    waiting: Waiting = Waiting()
    certificates: Certificates = Certificates()
    tracing: Tracing = Tracing()

    @property
    def levels(self) -> tuple[Level, ...]:
        """The configured levels, broadest first; () if topology support is disabled."""
        if not self.cluster_topology.enabled:
            return ()
        return broadest_first(
            Level(level.domain, level.key) for level in self.cluster_topology.levels
        )

    @property
    def node_labels(self) -> tuple[str, ...]:
        """Return the keys of the labels that a Pod gets from its node.

        These are `podBinding.nodeLabels` and those of the configured levels. The latter are
        included before the managed ClusterTopology exists, so that a caller can never set them.
        """
        return (*self.pod_binding.node_labels, *(level.key for level in self.levels))
