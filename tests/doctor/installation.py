"""An installation that is well, and what can be wrong with one."""

import base64
import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import yaml

from app import __version__
from app.certificates.certificate import make_ca, make_leaf
from app.config.read import read_configuration
from app.config.schema import Configuration
from app.doctor.certificate import Handshake
from app.doctor.examination import Patient, examine
from app.facts.kinds import CLUSTER_TOPOLOGY
from app.objects.tokens import new_token
from app.webhooks.configurations import ServiceTarget, webhook_configurations
from app.webhooks.paths import with_token
from tests import builders
from tests.doctor.answering import AnsweringClient
from tests.kube.memory.client import EVERYTHING
from tests.rendered import MANIFESTS, documents

Object = dict[str, Any]
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
BEGIN = NOW - timedelta(days=30)
END = NOW + timedelta(days=60)
CA = make_ca("ca", BEGIN, END)
OTHER_CA = make_ca("another", BEGIN, END)
SERVED_NAME = "grove-admission.grove-system.svc"
LEAF = make_leaf(CA, [SERVED_NAME], BEGIN, END)
EXPIRED = make_leaf(CA, [SERVED_NAME], BEGIN, NOW - timedelta(hours=1))
ACCOUNT = "system:serviceaccount:grove-system:grove-admission"
LEVELS = {"rack": "k/rack", "host": "kubernetes.io/hostname"}
CONFIGURATION = {
    "apiVersion": "config.grove.io/v1alpha1",
    "kind": "OperatorConfiguration",
    "clusterTopology": {
        "enabled": True,
        "levels": [{"domain": key, "key": value} for key, value in LEVELS.items()],
    },
    "certificates": {"mode": "self-managed"},
}
GROVE: Object = {
    "apiVersion": "operator.config.grove.io/v1alpha1",
    "kind": "OperatorConfiguration",
    "topologyAwareScheduling": {
        "enabled": True,
        "levels": CONFIGURATION["clusterTopology"]["levels"],  # type: ignore[index]
    },
}

TOKEN = new_token(0)
POLICIES = documents((MANIFESTS / "base" / "account.yaml").read_text())


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


class Finding(NamedTuple):
    """A check that is not ok."""

    subject: str
    status: str
    message: str
    remedy: str = ""


class Installation:
    """What is stored in the cluster, by kind; the configuration of the server, and what RBAC denies
    it.
    """

    def __init__(self) -> None:
        self.configuration: Object = copy.deepcopy(CONFIGURATION)
        self.served = dict(EVERYTHING)
        self.denied: Callable[[Object], bool] = lambda asked: False
        self.version: Object = {"major": "1", "minor": "36", "gitVersion": "v1.36.2"}
        mutating, validating = webhook_configurations(ServiceTarget())
        mutating["webhooks"] = with_token(mutating, TOKEN)
        validating["webhooks"] = with_token(validating, TOKEN)
        for webhook in (*mutating["webhooks"], *validating["webhooks"]):
            webhook["clientConfig"]["caBundle"] = encoded(CA.cert_pem)
        self.objects: dict[str, Object] = {
            "mutating": mutating,
            "validating": validating,
            "topology": ready(builders.cluster_topology("grove-topology", **LEVELS)),
            **{obj["kind"]: obj for obj in yaml.safe_load_all(STORED.format(version=__version__))},
            "Grove": config_map(GROVE),
            "Grove's webhooks": groves_webhooks("grove-system"),
            **{f"{obj['kind']} {obj['metadata']['name']}": obj for obj in POLICIES},
        }
        secret = {"data": {"tls.crt": encoded(LEAF.cert_pem)}}
        self.objects["Secret"] |= secret

    def webhooks(self) -> list[Object]:
        return [*self.objects["mutating"]["webhooks"], *self.objects["validating"]["webhooks"]]

    async def findings(self) -> list[Finding]:
        """All checks that are not ok."""
        patient = Patient(self.client(), self._read, shake, self.configured(), False, NOW)
        return [
            Finding(subject, check.status, check.message, check.remedy)
            for subject, checks in (await examine(patient)).items()
            for check in checks
            if check.status != "ok"
        ]

    def client(self) -> AnsweringClient:
        """The cluster."""
        client = AnsweringClient(self.objects.values(), served=self.served)
        (topology,) = client.objects(CLUSTER_TOPOLOGY)
        client.load([kai(topology["metadata"]["uid"])])
        client.allows = lambda spec: not self.denied(spec["resourceAttributes"])
        return client

    def configured(self) -> Configuration:
        """The configuration of the server."""
        return read_configuration(yaml.safe_dump(self.configuration), "test")

    async def _read(self, path: str) -> Object:
        assert path == "/version"
        return self.version


async def shake(address: str, port: int, name: str, ca_bundle: bytes) -> Handshake:
    assert (port, name) == (8443, SERVED_NAME)
    return (
        Handshake("trusted")
        if ca_bundle == CA.cert_pem
        else Handshake("refused", "unable to get issuer")
    )


def ready(topology: Object) -> Object:
    return {**topology, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def config_map(settings: Object, name: str = "grove-operator-cm-1") -> Object:
    labels = {
        "app.kubernetes.io/component": "operator-configmap",
        "app.kubernetes.io/part-of": "grove",
    }
    metadata = {"name": name, "namespace": "grove-system", "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"config.yaml": yaml.dump(settings)},
    }


def groves_webhooks(namespace: str) -> Object:
    """A webhook configuration of Grove, whose operator is in `namespace`."""
    service = {"name": "grove-operator", "namespace": namespace, "path": "/x"}
    webhook = {"name": "pcs.validating.webhooks.grove.io", "clientConfig": {"service": service}}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "podcliqueset-validating-webhook"},
        "webhooks": [webhook],
    }


def kai(uid: str) -> Object:
    owner = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "name": "grove-topology",
        "uid": uid,
    }
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "grove-topology", "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"levels": [{"nodeLabel": key} for key in LEVELS.values()]},
    }


STORED = """
apiVersion: v1
kind: Service
metadata: {{name: grove-admission, namespace: grove-system}}
spec: {{ports: [{{name: https, port: 443}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: grove-admission-x
  namespace: grove-system
  labels: {{kubernetes.io/service-name: grove-admission}}
ports: [{{name: https, port: 8443}}]
endpoints: [{{addresses: [10.0.0.1]}}, {{addresses: [10.0.0.2]}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: grove-admission, namespace: grove-system}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: grove-admission}}}}
  template: {{spec: {{containers: [{{name: grove-admission, image: "registry.example/grove-admission:{version}"}}]}}}}
status: {{readyReplicas: 2}}
---
apiVersion: v1
kind: Secret
metadata: {{name: grove-admission-certificates, namespace: grove-system}}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {{name: grove-admission, namespace: grove-system}}
spec: {{holderIdentity: pod-a_1, leaseDurationSeconds: 15, renewTime: "2026-06-01T11:59:58.000000Z"}}
"""

Change = Callable[[Installation], None]
"""Makes one mistake."""


def without(name: str) -> Change:
    def change(installation: Installation) -> None:
        del installation.objects[name]

    return change


def with_field(name: str, *path: str | int, value: Any) -> Change:
    """The object `name` with another value at `path`."""

    def change(installation: Installation) -> None:
        holder: Any = installation.objects[name]
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = value

    return change


def with_ca_bundle(bundle: str) -> Change:
    def change(installation: Installation) -> None:
        for webhook in installation.webhooks():
            webhook["clientConfig"]["caBundle"] = bundle

    return change


def denying(**fields: str) -> Change:
    def change(installation: Installation) -> None:
        installation.denied = lambda asked: all(
            asked.get(key) == value for key, value in fields.items()
        )

    return change


def with_grove(**sections: Any) -> Change:
    def change(installation: Installation) -> None:
        installation.objects["Grove"] = config_map({**GROVE, **sections})

    return change


def with_authorizer(*exempt: str, settings: bool = True) -> Change:
    """Grove's authorizer is on, with `exempt` in its configuration if the configuration can be
    found.
    """

    def change(installation: Installation) -> None:
        rules = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
        }
        webhook = {"name": "authorizer.webhooks.grove.io", "clientConfig": {}}
        installation.objects["authorizer"] = {
            **rules,
            "metadata": {"name": "authorizer-webhook"},
            "webhooks": [webhook],
        }
        if settings:
            with_grove(authorizer={"enabled": True, "exemptServiceAccountUserNames": list(exempt)})(
                installation
            )
        else:
            del installation.objects["Grove"]

    return change


def configured(section: str, **values: Any) -> Change:
    def change(installation: Installation) -> None:
        installation.configuration.setdefault(section, {}).update(values)

    return change


def both(*changes: Change) -> Change:
    def change(installation: Installation) -> None:
        for step in changes:
            step(installation)

    return change


def old_kubernetes(installation: Installation) -> None:
    installation.version = {"major": "1", "minor": "27", "gitVersion": "v1.27.9"}


def in_namespace(namespace: str) -> Change:
    """Return a change after which all webhooks call the Service of another namespace."""

    def change(installation: Installation) -> None:
        for kind in ("mutating", "validating"):
            for webhook in installation.objects[kind]["webhooks"]:
                webhook["clientConfig"]["service"]["namespace"] = namespace

    return change


def without_tokens(installation: Installation) -> None:
    for kind in ("mutating", "validating"):
        configuration = installation.objects[kind]
        configuration["webhooks"] = with_token(configuration, "")


def renamed(installation: Installation) -> None:
    installation.objects["mutating"]["metadata"]["name"] = "prod-grove-admission"


def replica(name: str, status: Object, node: str = "n1") -> Object:
    """A Pod of the Deployment."""
    labels = {"app": "grove-admission"}
    metadata = {"name": name, "namespace": "grove-system", "labels": labels}
    spec = {"nodeName": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def unready_pods(installation: Installation) -> None:
    installation.objects["Deployment"]["status"] = {"readyReplicas": 1}
    status = {
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [
            {"state": {"waiting": {"reason": "ImagePullBackOff"}}},
            {"state": {"running": {}}},
        ],
    }
    installation.objects["Pod"] = replica("grove-admission-b", status)


def running(*, is_ready: bool = True, killed: str = "", restarts: int = 0) -> Object:
    """The status of a Pod whose container runs. `killed` is why it ended the last time."""
    conditions = [{"type": "Ready", "status": str(is_ready)}]
    container: Object = {"name": "grove-admission", "state": {"running": {"startedAt": "now"}}}
    if killed:
        container |= {"restartCount": restarts, "lastState": {"terminated": {"reason": killed}}}
    return {"conditions": conditions, "containerStatuses": [container]}


def with_pods(*pods: Object, ready: int) -> Change:
    """Return a change after which the Deployment has `pods`, of which `ready` are ready."""

    def change(installation: Installation) -> None:
        installation.objects["Deployment"]["status"] = {"readyReplicas": ready}
        installation.objects |= {f"Pod {pod['metadata']['name']}": pod for pod in pods}

    return change


def not_created(message: str, ready: int = 0) -> Change:
    """Return a change after which the ReplicaSet cannot create Pods."""

    def change(installation: Installation) -> None:
        reason = {"reason": "FailedCreate", "message": message}
        conditions = [{"type": "ReplicaFailure", "status": "True", **reason}]
        status = {"readyReplicas": ready, "conditions": conditions}
        installation.objects["Deployment"]["status"] = status

    return change


def nodes(*names: str) -> Change:
    def change(installation: Installation) -> None:
        for name in names:
            metadata = {"name": name}
            installation.objects[name] = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}

    return change


def rolling_out(updated: int = 0, observed: int = 2, *, paused: bool = False) -> Change:
    """Return a change to a rollout in which both old replicas are still ready."""

    def change(installation: Installation) -> None:
        unready_pods(installation)
        deployment = installation.objects["Deployment"]
        deployment["metadata"]["generation"] = 2
        deployment["spec"] |= {"paused": True} if paused else {}
        status = {"observedGeneration": observed, "readyReplicas": 2}
        deployment["status"] = status | ({"updatedReplicas": updated} if updated else {})

    return change


def unschedulable(installation: Installation) -> None:
    unready_pods(installation)
    installation.objects["Deployment"]["status"] = {}
    reason = {"reason": "Unschedulable", "message": "0/3 nodes are available"}
    conditions = [{"type": "PodScheduled", "status": "False", **reason}]
    installation.objects["Pod"]["status"] = {"conditions": conditions}


def definition(plural: str, kind: str, *short_names: str, taken: bool = False) -> Object:
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    accepted = {
        "type": "NamesAccepted",
        "status": "True",
        "reason": "NoConflicts",
        "message": "no conflicts found",
    }
    established = {
        "type": "Established",
        "status": "True",
        "reason": "InitialNamesAccepted",
        "message": "accepted",
    }
    if taken:
        reason = {
            "reason": "ShortNamesConflict",
            "message": f'"{short_names[0]}" is already in use',
        }
        accepted = {**accepted, "status": "False", **reason}
        established = {
            **established,
            "status": "False",
            "reason": "NotAccepted",
            "message": "not all names are accepted",
        }
    names_status = names if taken else {**names, "shortNames": list(short_names)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.grove.io"},
        "spec": {"group": "grove.io", "names": {**names, "shortNames": list(short_names)}},
        "status": {"conditions": [accepted, established], "acceptedNames": names_status},
    }


def definitions(*crds: Object) -> Change:
    def change(installation: Installation) -> None:
        installation.objects |= {f"CRD {number}": crd for number, crd in enumerate(crds)}

    return change
