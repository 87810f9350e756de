"""OperatorConfiguration: one YAML file, read strictly, with all findings at once.

`clusterTopology` is the design's (`designs/topology-aware-scheduling.md`, Operator Configuration); the other sections
are ours. `manifests/examples/configuration.yaml` shows every key with its default.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from app.objects.fields import FieldPath
from app.objects.names import is_subdomain, label_key_problem
from app.rules.topology.levels import Level, broadest_first, validate_levels
from app.rules.workload.kai_podgroup import Conventions

API_VERSION = "config.grove.io/v1alpha1"
KIND = "OperatorConfiguration"

Seconds = Annotated[float, Field(gt=0, le=86400)]

_KAI = Conventions()
_MODE = "GROVE_ADMISSION_CERTIFICATES_MODE"
_SERVICE_LINK = "tcp://"
"""How GROVE_ADMISSION_PORT begins where the kubelet made it, of the Service called grove-admission: no setting."""


class ConfigurationError(ValueError):
    """The configuration can't be used; `findings` has every reason, each with its path."""

    def __init__(self, source: str, findings: Sequence[str]) -> None:
        super().__init__("\n".join(f"{source}: {finding}" for finding in findings))
        self.findings = tuple(findings)


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
    """The managed ClusterTopology: made, kept and deleted by the operator. Where it can't be made in time, the
    process ends."""

    enabled: bool = False
    name: TopologyName = "grove-topology"
    levels: tuple[TopologyLevel, ...] = Field(default=(), strict=False)
    creation_timeout_seconds: Seconds = 60

    @model_validator(mode="after")
    def _levels(self) -> "ClusterTopology":
        if self.levels or self.enabled:
            findings = validate_levels([level.model_dump() for level in self.levels], FieldPath("levels"))
            if findings:
                raise ValueError("; ".join(map(str, findings)))
        return self


def own_account(namespace: str) -> str:
    """The user name of our own service account."""
    return f"system:serviceaccount:{namespace}:grove-admission"


class Authorization(_Section):
    """`authorizedUsers` may write the managed ClusterTopology, beside nobody else: our own account, which makes it, and
    Grove's operator."""

    authorized_users: tuple[str, ...] = Field(
        default=(own_account("grove-system"), "system:serviceaccount:grove-system:grove-operator"), strict=False
    )


class Mnnvl(_Section):
    claim_mode: Literal["shared", "template"] = "shared"


class PodBinding(_Section):
    """`nodeLabels` are copied from node to Pod at binding, beside the keys of the ClusterTopology's levels."""

    node_labels: tuple[str, ...] = Field(default=(), strict=False)

    @field_validator("node_labels")
    @classmethod
    def _keys(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        problems = [f"{key!r} {problem}" for key in keys if (problem := label_key_problem(key)) is not None]
        if problems:
            raise ValueError("; ".join(problems))
        return keys


class Server(_Section):
    """Where to listen, and for how long after SIGTERM. With `clientCaFile` (PEM) a verdict is for those who show a
    certificate of one of its CAs."""

    host: str = "0.0.0.0"  # noqa: S104 - a Service has to reach it
    port: Annotated[int, Field(ge=0, le=65535)] = 8443
    drain_seconds: Annotated[float, Field(ge=0, le=600)] = 10
    client_ca_file: str = ""


class Client(_Section):
    """How the API server is called: requests per second and burst, and seconds for one call."""

    queries_per_second: Annotated[float, Field(gt=0, le=10000)] = 50
    burst: Annotated[int, Field(ge=1, le=10000)] = 100
    timeout_seconds: Seconds = 30


class LeaderElection(_Section):
    """Of all replicas one does the reconcilers' work. Seconds are those of a Lease: how long others wait for a silent
    leader, after how long without renewal a leader stops, and the time between tries."""

    enabled: bool = True
    namespace: Name = "grove-system"
    name: Name = "grove-admission"
    lease_seconds: Seconds = 15
    renew_seconds: Seconds = 10
    retry_seconds: Seconds = 2

    @model_validator(mode="after")
    def _order(self) -> "LeaderElection":
        if not self.lease_seconds > self.renew_seconds > self.retry_seconds:
            raise ValueError("leaseSeconds must be more than renewSeconds, and that more than retrySeconds")
        return self


class WorkloadLabels(_Section):
    """Labels (else annotations) that say it, on a Workload, a top owner or a Pod; `user` and `nodePool` are labels of
    Pods that their PodGroup gets too."""

    queue: LabelKey = _KAI.keys.queue
    priority_class: LabelKey = _KAI.keys.priority_class
    preemptibility: LabelKey = _KAI.keys.preemptibility
    project: LabelKey = _KAI.keys.project
    user: LabelKey = _KAI.keys.user
    node_pool: LabelKey = _KAI.keys.node_pool


class Workloads(_Section):
    """Kubernetes Workloads become KAI PodGroups, for the Pods of `schedulerName`. Those who name no queue are in
    `defaultQueue`, "" for none."""

    enabled: bool = True
    scheduler_name: Annotated[str, Field(min_length=1)] = "kai-scheduler"
    default_queue: str = _KAI.default_queue
    labels: WorkloadLabels = WorkloadLabels()


CertificateMode = Literal["files", "self-managed"]


class Certificates(_Section):
    """Where the serving certificate comes from.

    `files`: from the directory of `--certs`, such as a mounted Secret that cert-manager or somebody else keeps; the
    caBundles are theirs too (cert-manager's cainjector). `self-managed`: an own CA in the Secret `secretName`, and the
    caBundles of both webhook configurations, which are called `webhookConfigurations`, written by us. `namespace` is
    that of Secret and Service. A new CA is in the caBundles for `settleSeconds` before anything signed by it is shown;
    that has to fit in the last third of a certificate's life, with room.
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
    mnnvl: Mnnvl = Mnnvl()
    pod_binding: PodBinding = PodBinding()
    server: Server = Server()
    client: Client = Client()
    leader_election: LeaderElection = LeaderElection()
    workloads: Workloads = Workloads()
    certificates: Certificates = Certificates()

    @property
    def levels(self) -> tuple[Level, ...]:
        """The configured levels, broadest first."""
        return broadest_first(Level(level.domain, level.key) for level in self.cluster_topology.levels)


def read_configuration(text: str, source: str) -> Configuration:
    """Reads the one document of `text`; `source` names it in findings. ConfigurationError with all of them."""
    try:
        data = yaml.load(text, Loader=_UniqueKeys)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as problem:
        raise ConfigurationError(source, [f"not YAML that can be read: {problem}"]) from None
    except RecursionError:
        raise ConfigurationError(source, ["not YAML that can be read: it is nested too deeply"]) from None
    if not isinstance(data, dict):
        raise ConfigurationError(source, [f"must be a map with apiVersion {API_VERSION} and kind {KIND}"])
    if data.get("kind") == "ConfigMap":
        raise ConfigurationError(
            source, ["is a ConfigMap: give what its data has as config.yaml, as a file of its own"]
        )
    findings = [
        f"{name}: must be {wanted}, not {data.get(name)!r}"
        for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND))
        if data.get(name) != wanted
    ]
    try:
        configuration = Configuration.model_validate({**data, "apiVersion": API_VERSION, "kind": KIND})
    except ValidationError as problem:
        findings += [_finding(error) for error in problem.errors()]
        configuration = Configuration()
    if findings:
        raise ConfigurationError(source, findings)
    return configuration


def load_configuration(path: Path) -> Configuration:
    """ConfigurationError where the file can't be read or used."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(str(path), [f"can't be read: {problem}"]) from None
    return read_configuration(text, str(path))


def configuration_or_defaults(path: Path | None) -> Configuration:
    """The configuration of `path`; without one, the defaults with topology support on."""
    if path is not None:
        return load_configuration(path)
    defaults = Configuration()
    topology = defaults.cluster_topology.model_copy(update={"enabled": True})
    return defaults.model_copy(update={"cluster_topology": topology})


def with_overrides(
    configuration: Configuration, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> Configuration:
    """`configuration` with `server.host`/`server.port` from GROVE_ADMISSION_HOST/PORT, and, above these, from flags;
    with `certificates.mode` from GROVE_ADMISSION_CERTIFICATES_MODE, so that an overlay can set that alone.
    With POD_NAMESPACE, the namespaces of Secret, Service, Lease and our own account that aren't given are it."""
    server: dict[str, Any] = {}
    if "GROVE_ADMISSION_HOST" in environment:
        server["host"] = environment["GROVE_ADMISSION_HOST"]
    port = environment.get("GROVE_ADMISSION_PORT", _SERVICE_LINK)
    if not port.startswith(_SERVICE_LINK):
        if not port.isdecimal() or int(port) > 65535:
            raise ConfigurationError("GROVE_ADMISSION_PORT", [f"must be a port number, not {port!r}"])
        server["port"] = int(port)
    server |= {name: value for name, value in flags.items() if value is not None}
    updates: dict[str, Any] = {"server": configuration.server.model_copy(update=server)}
    if _MODE in environment:
        updates["certificates"] = _with_mode(configuration.certificates, environment[_MODE])
    configuration = configuration.model_copy(update=updates)
    return _moved(configuration, environment["POD_NAMESPACE"]) if "POD_NAMESPACE" in environment else configuration


def _with_mode(certificates: Certificates, mode: str) -> Certificates:
    if mode not in get_args(CertificateMode):
        allowed = " or ".join(get_args(CertificateMode))
        raise ConfigurationError(_MODE, [f"must be {allowed}, not {mode!r}"])
    return certificates.model_copy(update={"mode": mode})


def _moved(configuration: Configuration, namespace: str) -> Configuration:
    """With the defaults that are meant for `grove-system` as they are for a Pod in another namespace."""
    moved: dict[str, Any] = {}
    for name in ("certificates", "leader_election"):
        section = getattr(configuration, name)
        if "namespace" not in section.model_fields_set:
            moved[name] = section.model_copy(update={"namespace": namespace})
    authorization = configuration.authorization
    if "authorized_users" not in authorization.model_fields_set:
        users = (own_account(namespace), *authorization.authorized_users[1:])
        moved["authorization"] = authorization.model_copy(update={"authorized_users": users})
    return configuration.model_copy(update=moved)


def _finding(error: Any) -> str:
    where = FieldPath("")
    for step in error["loc"]:
        where = where.index(step) if isinstance(step, int) else where.child(str(step))
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown key"
    return f"{where}: {error['msg'].removeprefix('Value error, ')}"


class _UniqueKeys(yaml.SafeLoader):
    """YAML where a key given twice is an error, not the last one's victory."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (dict, list)):
                raise yaml.constructor.ConstructorError(None, None, "a key must be text", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)
