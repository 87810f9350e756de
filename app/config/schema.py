"""The schema of OperatorConfiguration: every key with its default.

Grove's own OperatorConfiguration has a section `clusterTopology` too (see the sources in
`rules/README.md`). The other sections are our own. `manifests/examples/configuration.yaml` has
every key, and `README.md` in this folder explains them for users.
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
from app.facts.labels import KAI_SCHEDULER, NVLINK_DOMAIN
from app.objects.fields import FieldPath
from app.objects.names import is_subdomain, label_key_problem
from app.rules.topology.levels import validate_levels
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
    """A level of the managed topology."""

    domain: str
    """The name of the level, such as "rack"."""
    key: str
    """The key of the node label that names a node's domain at this level."""


class ClusterTopology(_Section):
    """The managed ClusterTopology, which the leader creates, updates and deletes.

    If Grove uses ClusterTopologyBindings, the leader creates and updates one instead.
    """

    enabled: bool = False
    """Whether the leader manages a topology.

    Without one, PodCliqueSets can't have topology constraints, except in releases of Grove with
    ClusterTopologyBindings.
    """
    name: TopologyName = "grove-topology"
    """The name of the managed ClusterTopology or ClusterTopologyBinding."""
    levels: tuple[TopologyLevel, ...] = Field(default=(), strict=False)
    """The levels of the managed topology, in any order."""
    creation_timeout_seconds: Seconds = 60
    """The time for a new leader to create or correct the ClusterTopology, in seconds.

    If the leader does not succeed in this time, the server exits.
    """

    @field_validator("name", mode="before")
    @classmethod
    def _named(cls, name: object, info: ValidationInfo) -> object:
        """Replace an empty name with the default if topology support is disabled, as Grove does."""
        is_enabled = info.data.get("enabled", True)
        return name if name != "" or is_enabled else cls.model_fields["name"].default

    @model_validator(mode="after")
    def _levels(self) -> "ClusterTopology":
        levels = [level.model_dump() for level in self.levels]
        findings = validate_levels(levels, FieldPath("levels"))
        if self.enabled and findings:
            raise ValueError("; ".join(map(str, findings)))
        return self


DEFAULT_NAMESPACE = "grove-system"
"""The namespace of our objects, unless POD_NAMESPACE or the file sets another one."""

ACCOUNT = "grove-admission"
"""The name of our own service account."""


def own_account(namespace: str) -> str:
    """Return the user name of our own service account in `namespace`."""
    return f"system:serviceaccount:{namespace}:{ACCOUNT}"


class Authorization(_Section):
    """The users and service accounts that may write the managed topology."""

    authorized_users: tuple[str, ...] = Field(
        default=(
            own_account(DEFAULT_NAMESPACE),
            "system:serviceaccount:grove-system:grove-operator",
        ),
        strict=False,
    )
    """The user names. By default, those of our own service account and of Grove's operator.

    Our own service account is added if it is missing.
    """


Mode = Literal["refuse", "warn"]
ModeOrNone = Mode | Literal[""]


class WebhookModes(_Section):
    """The modes of individual webhooks. "" means the mode of all webhooks, `enforcement.mode`."""

    cluster_topology: ModeOrNone = ""
    pod_clique_set: ModeOrNone = ""
    pod_group: ModeOrNone = ""
    pod_clique: ModeOrNone = ""
    pod_gang: ModeOrNone = ""


class Enforcement(_Section):
    """The choice between rejecting invalid requests and only warning about them.

    In both modes, only `authorization.authorizedUsers` may write the managed topology, and requests
    that the server can't judge get an error.
    """

    mode: Mode = "refuse"
    """`refuse` rejects invalid requests, `warn` allows them with a warning."""
    webhooks: WebhookModes = WebhookModes()
    """The modes of individual webhooks."""


class Mnnvl(_Section):
    """The settings for multi-node NVLink."""

    claim_mode: Literal["auto", "shared", "template"] = "auto"
    """The form of the claims of new PodCliques.

    - `shared`: one ResourceClaim for all Pods of a ComputeDomain.
    - `template`: the ResourceClaimTemplate of the ComputeDomain, which gives each Pod a claim.
    - `auto`: `template` if the cluster has NVIDIA's DeviceClasses but not the DeviceClass of our
      claims, otherwise `shared`.
    """
    owner: Literal["auto", "PodGang", "PodCliqueSet"] = "auto"
    """The kind that owns MNNVL resources. With `auto`, it depends on the release of Grove."""
    collect_after_seconds: float = Field(default=300.0, ge=0, le=86_400)
    """The seconds after which unneeded MNNVL resources are deleted, or 0 to keep them forever."""
    domain_nodes: int = Field(default=18, ge=1, le=10_000)
    """The number of nodes in an NVLink domain, used if no node has the label of its domain."""
    spare_nodes: int = Field(default=0, ge=0, le=1_000)
    """The number of nodes in each NVLink domain that should stay free.

    A workload gets a warning if its pods that must be scheduled together need one of these nodes.
    """


class PodBinding(_Section):
    """The node labels that Pods get at binding."""

    enabled: bool = True
    node_labels: tuple[LabelKey, ...] = Field(default=(NVLINK_DOMAIN,), strict=False)
    """The keys of node labels that are copied to Pods.

    Pods also get the labels of region, zone, host and the levels. The default is the label of the
    NVLink clique, which containers cannot read otherwise.
    """


class Server(_Section):
    """The server's addresses and limits."""

    host: str = "::"
    """The address to listen on. `::` means all IPv6 and IPv4 addresses.

    On a machine without IPv6, it means all IPv4 addresses.
    """
    port: Annotated[int, Field(ge=0, le=65535)] = 8443
    """The port for API servers and probes."""
    tools_port: Annotated[int, Field(ge=0, le=65535)] = 8444
    """The tools port, for people and monitoring, with dry runs, metrics and docs."""
    drain_seconds: Annotated[float, Field(ge=0, le=600)] = 10
    """The time for which the server continues to serve after SIGTERM, in seconds."""
    max_connections: Annotated[int, Field(ge=100, le=100_000)] = 2000
    """The maximum number of connections with a complete TLS handshake."""
    client_ca_file: str = ""
    """A PEM file with CAs of clients, or "" if clients need no certificate.

    With a file, only callers with a certificate of one of these CAs get verdicts.
    """
    client_certificate_for: tuple[Literal["dry-run", "metrics", "docs"], ...] = Field(
        default=("dry-run", "docs"), strict=False
    )
    """The endpoints of the tools port that need a client certificate if `clientCaFile` is set."""


class Client(_Section):
    """The limits of calls to the API server."""

    queries_per_second: Annotated[float, Field(gt=0, le=10000)] = 50
    """The maximum number of requests per second, on average."""
    burst: Annotated[int, Field(ge=1, le=10000)] = 100
    """The maximum number of requests at once after a pause."""
    timeout_seconds: Seconds = 30
    """The time limit of a call, including waits and retries, in seconds."""


class LeaderElection(_Section):
    """The election of the replica that runs the reconcilers."""

    enabled: bool = True
    """Whether replicas elect a leader. Otherwise, each process runs the reconcilers."""
    namespace: Name = "grove-system"
    """The namespace of the Lease."""
    name: Name = "grove-admission"
    """The name of the Lease."""
    lease_seconds: Seconds = 15
    """The seconds after which another replica can take over a Lease that is not renewed."""
    renew_seconds: Seconds = 10
    """The seconds after which a leader that can't renew the Lease stops leading."""
    retry_seconds: Seconds = 2
    """The minimum time between attempts to get the Lease, and between renewals, in seconds."""

    @model_validator(mode="after")
    def _order(self) -> "LeaderElection":
        if not self.lease_seconds > self.renew_seconds > self.retry_seconds:
            raise ValueError(
                "leaseSeconds must be greater than renewSeconds, and renewSeconds greater than"
                " retrySeconds"
            )
        return self


class WorkloadLabels(_Section):
    """The keys of the labels and annotations from which fields of a PodGroup are set.

    `app/reconcilers/WORKLOADS.md` says from which objects they are read.
    """

    queue: LabelKey = _KAI.keys.queue
    priority_class: LabelKey = _KAI.keys.priority_class
    preemptibility: LabelKey = _KAI.keys.preemptibility
    project: LabelKey = _KAI.keys.project
    user: LabelKey = _KAI.keys.user
    node_pool: LabelKey = _KAI.keys.node_pool


class Workloads(_Section):
    """The mapping of Kubernetes Workloads to KAI PodGroups."""

    enabled: bool = True
    """Whether KAI PodGroups are created for Workloads."""
    scheduler_name: Annotated[str, Field(min_length=1)] = KAI_SCHEDULER
    """The scheduler name of the Pods that get a PodGroup."""
    default_queue: str = _KAI.default_queue
    """The queue of Workloads that do not name one, or "" for no queue."""
    labels: WorkloadLabels = WorkloadLabels()


class Waiting(_Section):
    """The conditions and events with which the leader reports why gangs are pending.

    To write them, the leader needs more memory and permissions: see app/waiting/README.md.
    """

    enabled: bool = False
    """Whether the leader reports why gangs are pending."""
    after_seconds: Seconds = 300
    """The seconds after which a pending gang is reported."""
    max_writes_per_minute: Annotated[int, Field(ge=1, le=1000)] = 30
    """The maximum number of reports that are written per minute."""


def _http_url(url: str) -> str:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("must be an http or https URL, such as http://collector:4318")
    return url


class Tracing(_Section):
    """The tracing of verdicts."""

    endpoint: Annotated[str, AfterValidator(_http_url)] = ""
    """The URL of an OTLP collector without /v1/traces, or "" to disable tracing."""


CertificateMode = Literal["files", "self-managed"]


class Certificates(_Section):
    """The source of the serving certificate, and the settings of self-managed certificates."""

    mode: CertificateMode = "files"
    """The source of the serving certificate.

    - `files`: the directory of `--certs`, such as a mounted Secret of cert-manager, whose
      cainjector also writes the caBundles.
    - `self-managed`: a Secret with our own CA. We also write the caBundles.
    """
    namespace: Name = "grove-system"
    """The namespace of the Secret and the Service."""
    secret_name: Name = "grove-admission-certificates"
    """The name of the Secret."""
    service_name: Name = "grove-admission"
    """The name of the Service, for which the certificate is valid."""
    webhook_configurations: Name = "grove-admission"
    """The name of both webhook configurations.

    We write tokens into their paths and, in mode `self-managed`, their caBundles.
    """
    validity_hours: Annotated[float, Field(gt=0, le=87600)] = 2160
    """The validity period of a serving certificate, in hours."""
    ca_validity_hours: Annotated[float, Field(gt=0, le=876000)] = 8760
    """The validity period of a CA, in hours."""
    settle_seconds: Annotated[float, Field(ge=0, le=3600)] = 30
    """The seconds between writing a new CA to the caBundles and using its first certificate.

    It must be at most a sixth of the validity period of a serving certificate, because certificates
    are renewed in the last third of their validity period.
    """

    @model_validator(mode="after")
    def _lives(self) -> "Certificates":
        if self.ca_validity_hours < 3 * self.validity_hours:
            least = 3 * self.validity_hours
            raise ValueError(f"caValidityHours must be at least {least:g}, 3 times validityHours")
        if 6 * self.settle_seconds > 3600 * self.validity_hours:
            most = 600 * self.validity_hours
            raise ValueError(f"settleSeconds must be at most {most:g}, a sixth of validityHours")
        return self


class Configuration(_Section):
    """The content of a configuration file, an OperatorConfiguration."""

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
        """The configured levels, broadest first, or () if topology support is disabled."""
        if not self.cluster_topology.enabled:
            return ()
        return broadest_first(
            Level(level.domain, level.key) for level in self.cluster_topology.levels
        )

    @property
    def node_labels(self) -> tuple[str, ...]:
        """The configured keys of the labels that Pods get from their node.

        These are `podBinding.nodeLabels` and the keys of the configured levels. The levels are
        included even before the managed ClusterTopology exists, so that callers can't set these
        labels.
        """
        return (*self.pod_binding.node_labels, *(level.key for level in self.levels))
