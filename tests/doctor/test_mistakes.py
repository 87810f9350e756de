"""One mistake at a time in an installation that is well: the doctor names it, with its remedy, and nothing else."""

import base64
import copy
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from app import __version__
from app.certificates.issue import make_ca, make_leaf
from app.certificates.probe import Handshake
from app.config.read import read_configuration
from app.doctor.examination import Patient, examine
from app.doctor.permissions import Account
from app.doctor.report import Check
from app.rules.kinds import CLUSTER_TOPOLOGY
from app.webhooks.configurations import ServiceTarget, webhook_configurations
from tests import builders
from tests.doctor.answering import AnsweringClient

Object = dict[str, Any]
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
BEGIN, END = NOW - timedelta(days=30), NOW + timedelta(days=60)
CA, OTHER_CA = make_ca("ca", BEGIN, END), make_ca("another", BEGIN, END)
SERVED_NAME = "grove-admission.grove-system.svc"
LEAF = make_leaf(CA, [SERVED_NAME], [], BEGIN, END)
EXPIRED = make_leaf(CA, [SERVED_NAME], [], BEGIN, NOW - timedelta(hours=1))
ACCOUNT = "system:serviceaccount:grove-system:grove-admission"
LEVELS = {"rack": "k/rack", "host": "kubernetes.io/hostname"}
CONFIGURATION = {
    "apiVersion": "config.grove.io/v1alpha1",
    "kind": "OperatorConfiguration",
    "clusterTopology": {"enabled": True, "levels": [{"domain": key, "key": value} for key, value in LEVELS.items()]},
    "certificates": {"mode": "self-managed"},
}
GROVE: Object = {
    "apiVersion": "operator.config.grove.io/v1alpha1",
    "kind": "OperatorConfiguration",
    "topologyAwareScheduling": {"enabled": True, "levels": CONFIGURATION["clusterTopology"]["levels"]},  # type: ignore[index]
}


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


class Installation:
    """What is stored in the cluster, by kind; the configuration of the server, and what RBAC denies it."""

    def __init__(self) -> None:
        self.configuration: Object = copy.deepcopy(CONFIGURATION)
        self.denied: Callable[[Object], bool] = lambda asked: False
        self.version: Object = {"major": "1", "minor": "36", "gitVersion": "v1.36.2"}
        mutating, validating = webhook_configurations(ServiceTarget())
        for webhook in (*mutating["webhooks"], *validating["webhooks"]):
            webhook["clientConfig"]["caBundle"] = encoded(CA.cert_pem)
        self.objects: dict[str, Object] = {
            "mutating": mutating,
            "validating": validating,
            "topology": ready(builders.cluster_topology("grove-topology", **LEVELS)),
            **{obj["kind"]: obj for obj in yaml.safe_load_all(STORED.format(version=__version__))},
            "Grove": config_map(GROVE),
        }
        secret = {"data": {"tls.crt": encoded(LEAF.cert_pem)}}
        self.objects["Secret"] |= secret

    def webhooks(self) -> list[Object]:
        return [*self.objects["mutating"]["webhooks"], *self.objects["validating"]["webhooks"]]

    async def findings(self) -> list[Check]:
        """All checks that are not ok."""
        client = AnsweringClient(self.objects.values())
        (topology,) = client.objects(CLUSTER_TOPOLOGY)
        client.load([kai(topology["metadata"]["uid"])])
        client.allows = lambda spec: not self.denied(spec["resourceAttributes"])
        configuration = read_configuration(yaml.safe_dump(self.configuration), "test")
        account = Account("grove-system", "grove-admission")
        patient = Patient(client, self._read, shake, configuration, account, NOW)
        return [check for check in await examine(patient) if check.status != "ok"]

    async def _read(self, path: str) -> Object:
        assert path == "/version"
        return self.version


async def shake(address: str, port: int, name: str, ca_bundle: bytes) -> Handshake:
    assert (port, name) == (8443, SERVED_NAME)
    return Handshake("trusted") if ca_bundle == CA.cert_pem else Handshake("refused", "unable to get issuer")


def ready(topology: Object) -> Object:
    return {**topology, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def config_map(settings: Object, name: str = "grove-operator-cm-1") -> Object:
    labels = {"app.kubernetes.io/component": "operator-configmap", "app.kubernetes.io/part-of": "grove"}
    metadata = {"name": name, "namespace": "grove-system", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.yaml": yaml.dump(settings)}}


def kai(uid: str) -> Object:
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopology", "name": "grove-topology", "uid": uid}
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


async def test_an_installation_that_is_well_has_no_finding() -> None:
    assert await Installation().findings() == []


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
        installation.denied = lambda asked: all(asked.get(key) == value for key, value in fields.items())

    return change


def with_grove(**sections: Any) -> Change:
    def change(installation: Installation) -> None:
        installation.objects["Grove"] = config_map({**GROVE, **sections})

    return change


def with_authorizer(*exempt: str, settings: bool = True) -> Change:
    """Grove's authorizer is on, with `exempt` in its configuration if the configuration can be found."""

    def change(installation: Installation) -> None:
        rules = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        webhook = {"name": "authorizer.webhooks.grove.io", "clientConfig": {}}
        installation.objects["authorizer"] = {
            **rules,
            "metadata": {"name": "authorizer-webhook"},
            "webhooks": [webhook],
        }
        if settings:
            with_grove(authorizer={"enabled": True, "exemptServiceAccountUserNames": list(exempt)})(installation)
        else:
            del installation.objects["Grove"]

    return change


def configured(section: str, **values: Any) -> Change:
    def change(installation: Installation) -> None:
        installation.configuration.setdefault(section, {}).update(values)

    return change


def both(*changes: Change) -> Change:
    def change(installation: Installation) -> None:
        for one in changes:
            one(installation)

    return change


def old_kubernetes(installation: Installation) -> None:
    installation.version = {"major": "1", "minor": "27", "gitVersion": "v1.27.9"}


def renamed(installation: Installation) -> None:
    installation.objects["mutating"]["metadata"]["name"] = "prod-grove-admission"


def unready_pods(installation: Installation) -> None:
    installation.objects["Deployment"]["status"] = {"readyReplicas": 1}
    installation.objects["Pod"] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "grove-admission-b", "namespace": "grove-system", "labels": {"app": "grove-admission"}},
        "status": {
            "conditions": [{"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}, {"state": {"running": {}}}],
        },
    }


def unschedulable(installation: Installation) -> None:
    unready_pods(installation)
    installation.objects["Deployment"]["status"] = {}
    reason = {"reason": "Unschedulable", "message": "0/3 nodes are available"}
    conditions = [{"type": "PodScheduled", "status": "False", **reason}]
    installation.objects["Pod"]["status"] = {"conditions": conditions}


def definition(plural: str, kind: str, *short_names: str, taken: bool = False) -> Object:
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    accepted = {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"}
    established = {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "accepted"}
    if taken:
        reason = {"reason": "ShortNamesConflict", "message": f'"{short_names[0]}" is already in use'}
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


OURS, BINDINGS = ("clustertopologies", "ClusterTopology"), ("clustertopologybindings", "ClusterTopologyBinding")
LOGS = "kubectl -n grove-system logs deployment/grove-admission"
INSTALL = "Apply the manifests of this version (or the output of `grove-admission webhooks`)."
RULES = "Apply manifests/base/rbac.yaml."
KEEPER = (
    "Self-managed: a running replica writes it, see its log. cert-manager: see its cainjector. Else: put the CA there."
)
STORED_CERTIFICATE = (
    f"A running replica creates and renews it: see {LOGS}. To have it created anew: kubectl -n grove-system "
    "delete secret "
    "grove-admission-certificates."
)
LEADER = (
    f"See why no replica leads: {LOGS}. Its rules must allow create, get and patch of leases, with resourceNames: "
    '["grove-admission"].'
)
SHORT_NAMES = (
    "Remove the short names of the other one: kubectl patch crd clustertopologies.grove.io --type=json -p "
    '\'[{"op": "remove", "path": "/spec/names/shortNames"}]\''
)
UNREADY = (
    "See why its Pods aren't ready: their log says which check fails, and so does, beside `kubectl port-forward`, "
    "`curl -k 'https://localhost:8443/readyz?verbose'`."
)
PODS = f"See kubectl -n grove-system describe pods, and {LOGS}."
EXEMPT = (
    f"Add {ACCOUNT} to config.authorizer.exemptServiceAccountUserNames in the values of Grove's chart, and upgrade the "
    "release."
)
DENIES = "it denies the constraints and the ownership that our leader writes to PodGangs"
USERS = "Add it to authorization.authorizedUsers of the configuration here, beside our own account, and restart."

MISTAKES: Mapping[str, tuple[Change, list[Check]]] = {
    "an RBAC rule is missing": (
        denying(verb="patch", resource="podgangs"),
        [
            Check(
                "permissions",
                "problem",
                "service account grove-system/grove-admission may not patch podgangs.scheduler.grove.io: "
                "constraints for "
                "the scheduler",
                RULES,
            )
        ],
    ),
    "resourceNames of the Lease's rule name something else": (
        denying(resource="leases", name="grove-admission"),
        [
            Check(
                "permissions",
                "problem",
                'service account grove-system/grove-admission may not get, patch leases.coordination.k8s.io "'
                'grove-admission": leader election',
                f'{RULES} Its rule must have resourceNames: ["grove-admission"], as it is stored: a tool may have '
                "renamed it.",
            )
        ],
    ),
    "a webhook configuration has another name": (
        renamed,
        [
            Check(
                "webhooks",
                "problem",
                "MutatingWebhookConfiguration grove-admission is not installed; its webhooks are in "
                "prod-grove-admission, to which no caBundle is written",
                "Set certificates.webhookConfigurations to prod-grove-admission in the configuration, or rename that "
                "one.",
            )
        ],
    ),
    "a webhook calls another path": (
        with_field("validating", "webhooks", 0, "clientConfig", "service", "path", value="/validate"),
        [
            Check(
                "webhooks",
                "problem",
                "clustertopology.validate.grove-admission.grove.io: clientConfig.service is "
                '{"name": "grove-admission", "namespace": "grove-system", "path": "/validate", "port": 443}; '
                "this version "
                'installs {"name": "grove-admission", "namespace": "grove-system", "path": '
                '"/validate/clustertopology", '
                '"port": 443}',
                INSTALL,
            )
        ],
    ),
    "a failurePolicy was changed": (
        with_field("validating", "webhooks", 0, "failurePolicy", value="Ignore"),
        [
            Check(
                "webhooks",
                "warning",
                'clustertopology.validate.grove-admission.grove.io: failurePolicy is "Ignore"; this version installs '
                '"Fail"',
                INSTALL,
            )
        ],
    ),
    "the caBundles are empty": (
        with_ca_bundle(""),
        [
            Check(
                "certificate",
                "problem",
                f"the caBundle of {len(Installation().webhooks())} webhooks is empty: API servers refuse to call",
                KEEPER,
            )
        ],
    ),
    "the caBundles are those of another CA": (
        with_ca_bundle(encoded(OTHER_CA.cert_pem)),
        [
            Check(
                "certificate",
                "problem",
                f"{address}:8443 shows a certificate that the caBundle of {len(Installation().webhooks())} webhooks "
                f"doesn't verify as {SERVED_NAME}: unable to get issuer",
                KEEPER,
            )
            for address in ("10.0.0.1", "10.0.0.2")
        ],
    ),
    "the Secret of the certificate is missing": (
        without("Secret"),
        [
            Check(
                "certificate",
                "problem",
                "Secret grove-system/grove-admission-certificates does not exist",
                STORED_CERTIFICATE,
            )
        ],
    ),
    "the certificate in the Secret has expired": (
        with_field("Secret", "data", value={"tls.crt": encoded(EXPIRED.cert_pem)}),
        [
            Check(
                "certificate",
                "problem",
                "the certificate of Secret grove-system/grove-admission-certificates expired at "
                "2026-06-01T11:00:00+00:00",
                STORED_CERTIFICATE,
            )
        ],
    ),
    "the Secret has no certificate": (
        with_field("Secret", "data", value={"tls.crt": encoded(b"nothing")}),
        [
            Check(
                "certificate",
                "problem",
                "tls.crt of Secret grove-system/grove-admission-certificates is no PEM certificate",
                STORED_CERTIFICATE,
            )
        ],
    ),
    "the Service has no endpoints": (
        with_field("EndpointSlice", "endpoints", value=[]),
        [Check("service", "problem", "Service grove-system/grove-admission has no ready endpoint", UNREADY)],
    ),
    "one replica is not ready": (
        unready_pods,
        [
            Check(
                "replicas",
                "warning",
                "Deployment grove-system/grove-admission has 1 of 2 replicas ready: ImagePullBackOff",
                PODS,
            )
        ],
    ),
    "no replica is scheduled": (
        unschedulable,
        [
            Check(
                "replicas",
                "problem",
                "Deployment grove-system/grove-admission has 0 of 2 replicas ready: Unschedulable: 0/3 nodes are "
                "available",
                PODS,
            )
        ],
    ),
    "the Deployment is scaled to 0": (
        with_field("Deployment", "spec", "replicas", value=0),
        [
            Check(
                "replicas",
                "problem",
                "Deployment grove-system/grove-admission is scaled to 0 replicas: nobody answers",
                "Switch it on: kubectl -n grove-system scale deployment grove-admission --replicas=2",
            )
        ],
    ),
    "the replicas are older than the webhooks": (
        with_field(
            "Deployment",
            "spec",
            "template",
            "spec",
            "containers",
            value=[{"name": "grove-admission", "image": "registry.example:5000/grove-admission:0.1.0"}],
        ),
        [
            Check(
                "replicas",
                "problem",
                "the replicas run registry.example:5000/grove-admission:0.1.0; the webhooks of "
                f"{__version__} call paths that an older server does not have",
                "Apply the manifests of one version: kubectl -n grove-system set image deployment/grove-admission "
                f"grove-admission=registry.example:5000/grove-admission:{__version__}, or use the "
                "grove-admission of the "
                "replicas for this command.",
            )
        ],
    ),
    "Kubernetes is older than the webhooks need": (
        old_kubernetes,
        [
            Check(
                "APIs",
                "problem",
                "Kubernetes v1.27.9 has no matchConditions, by which the webhooks say what they are called for",
                "Upgrade the cluster to Kubernetes 1.28 or later.",
            )
        ],
    ),
    "the Lease does not exist": (
        without("Lease"),
        [
            Check(
                "leader",
                "problem",
                "Lease grove-system/grove-admission does not exist: no replica has led, and nothing is reconciled",
                LEADER,
            )
        ],
    ),
    "the Lease is held by nobody": (
        with_field("Lease", "spec", value={"holderIdentity": ""}),
        [
            Check(
                "leader",
                "problem",
                "Lease grove-system/grove-admission is held by nobody: nothing is reconciled",
                LEADER,
            )
        ],
    ),
    "the holder of the Lease is gone": (
        with_field("Lease", "spec", "renewTime", value="2026-06-01T11:00:00.000000Z"),
        [
            Check(
                "leader",
                "problem",
                "Lease grove-system/grove-admission was last renewed at 2026-06-01T11:00:00.000000Z by "
                "pod-a_1: nothing "
                "has been reconciled since",
                LEADER,
            )
        ],
    ),
    "Grove's CRD was installed beside ours with the same short name": (
        definitions(definition(*OURS, "ct"), definition(*BINDINGS, "ct", taken=True)),
        [
            Check(
                "APIs",
                "problem",
                "CRD clustertopologybindings.grove.io is not established, and its API is not served: "
                '"ct" is already in use by clustertopologies.grove.io (ShortNamesConflict)',
                SHORT_NAMES,
            )
        ],
    ),
    "our CRD was installed beside Grove's with the same short name": (
        definitions(definition(*BINDINGS, "ct"), definition(*OURS, "ct", taken=True)),
        [
            Check(
                "APIs",
                "problem",
                "CRD clustertopologies.grove.io is not established, and its API is not served: "
                '"ct" is already in use by clustertopologybindings.grove.io (ShortNamesConflict)',
                "Create it anew without short names: kubectl delete crd clustertopologies.grove.io (it was "
                "never served, "
                "and so has no objects); kubectl apply -k manifests/crds.",
            )
        ],
    ),
    "Grove's authorizer is on without the exemption": (
        with_authorizer("system:kube-controller-manager"),
        [
            Check(
                "Grove",
                "problem",
                f"its authorizer (authorizer.webhooks.grove.io) is on without an exemption for {ACCOUNT}: {DENIES}",
                EXEMPT,
            )
        ],
    ),
    "Grove's authorizer is on, with a configuration that is not found": (
        with_authorizer(settings=False),
        [
            Check(
                "Grove",
                "warning",
                "its authorizer (authorizer.webhooks.grove.io) is on, and its configuration is not known: unless "
                f"{ACCOUNT} is exempt, {DENIES}",
                EXEMPT,
            )
        ],
    ),
    "Grove's topology feature is off": (
        with_grove(topologyAwareScheduling={"enabled": False}),
        [
            Check(
                "Grove",
                "problem",
                "its topology feature is off: its operator deletes the managed ClusterTopology at each start, and its "
                "webhook rejects PodCliqueSets with topology constraints",
                "Set config.topologyAwareScheduling.enabled: true in the values of Grove's chart, and upgrade the "
                "release.",
            )
        ],
    ),
    "Grove has other levels": (
        with_grove(topologyAwareScheduling={"enabled": True, "levels": [{"domain": "zone", "key": "k/zone"}]}),
        [
            Check(
                "Grove",
                "problem",
                "its topology levels are zone=k/zone; the configuration here has rack=k/rack, "
                "host=kubernetes.io/hostname",
                "Set the same levels as config.topologyAwareScheduling.levels in the values of Grove's chart, and "
                "upgrade the release, or change ours.",
            )
        ],
    ),
    "Grove's operator is no authorized user": (
        configured("authorization", authorizedUsers=[ACCOUNT]),
        [
            Check(
                "Grove",
                "problem",
                "authorization.authorizedUsers has no system:serviceaccount:grove-system:grove-operator: "
                "Grove's operator "
                "exits if it may not write the managed ClusterTopology at its start",
                USERS,
            )
        ],
    ),
    "Grove's operator is no authorized user, and its configuration is not found": (
        both(configured("authorization", authorizedUsers=[ACCOUNT]), without("Grove")),
        [
            Check(
                "Grove",
                "problem",
                "authorization.authorizedUsers has no system:serviceaccount:NAMESPACE:grove-operator: Grove's operator "
                "exits if it may not write the managed ClusterTopology at its start",
                USERS,
            )
        ],
    ),
    "the configuration has levels that the ClusterTopology does not have": (
        both(
            configured("clusterTopology", levels=[{"domain": "rack", "key": "k/other"}]),
            with_grove(topologyAwareScheduling={"enabled": True}),
        ),
        [
            Check(
                "topology",
                "problem",
                "ClusterTopology grove-topology: rack, host; the configuration has rack=k/other",
                "The configuration is read at start: restart the replicas. Else: See whether a replica leads "
                "(/readyz?verbose) and what its log says.",
            )
        ],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_mistake_is_named_with_its_remedy(mistake: str) -> None:
    change, checks = MISTAKES[mistake]
    installation = Installation()
    change(installation)
    assert await installation.findings() == checks


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(both(configured("leaderElection", enabled=False), without("Lease")), id="no leader election"),
        pytest.param(without("Deployment"), id="no Deployment of this name"),
        pytest.param(with_authorizer(ACCOUNT), id="an exemption from Grove's authorizer"),
        pytest.param(with_grove(topologyAwareScheduling={"enabled": True}), id="a Grove whose levels are objects"),
        pytest.param(
            with_field(
                "Deployment",
                "spec",
                "template",
                "spec",
                "containers",
                value=[{"name": "grove-admission", "image": "registry.example/grove-admission@sha256:1"}],
            ),
            id="an image without a version",
        ),
    ],
)
async def test_what_is_no_mistake_is_not_reported(change: Change) -> None:
    installation = Installation()
    change(installation)
    assert await installation.findings() == []
