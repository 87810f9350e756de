"""One mistake at a time in what we install: the doctor names it, with its remedy, and nothing else."""

from collections.abc import Mapping

import pytest

from app import __version__
from app.webhooks.paths import PATHS
from tests.doctor.installation import (
    ACCOUNT,
    EXPIRED,
    OTHER_CA,
    SERVED_NAME,
    Change,
    Finding,
    Installation,
    both,
    configured,
    denying,
    encoded,
    in_namespace,
    nodes,
    not_created,
    renamed,
    replica,
    rolling_out,
    running,
    unready_pods,
    unschedulable,
    with_authorizer,
    with_ca_bundle,
    with_field,
    with_grove,
    with_pods,
    without,
    without_tokens,
)

LOGS = "kubectl -n grove-system logs --selector app.kubernetes.io/name=grove-admission --tail=-1 --prefix"
INSTALL = "Apply the manifests or the chart of this version again, or the output of grove-admission webhooks if you installed that."
UNINTENDED = f"If nobody chose this value (in the chart: webhooks.failurePolicy and webhooks.namespaceSelector), a{INSTALL[1:]}"
OFF = "If writes cannot wait, or grove-admission was removed, delete its webhook configurations: kubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations grove-admission"
RULES = "Apply your overlay again, which includes manifests/base/rbac.yaml: kubectl apply -k OVERLAY. If you installed the chart, run instead: helm upgrade RELEASE manifests/chart -n NAMESPACE --reset-then-reuse-values"
KEEPER = "Read the log of the writer of the caBundle: with self-managed certificates, the logs of all replicas of deployment/grove-admission; with cert-manager, that of its cainjector. If nothing writes it, write the CA into caBundle of the webhook configurations."
STORED_CERTIFICATE = f"Find out why the replicas do not create or renew the certificate: {LOGS}."
UNREADY = f"Find out why its Pods are not ready: {LOGS}. If a Pod runs, run: kubectl -n grove-system port-forward deployment/grove-admission 8444, and then: curl -k 'https://localhost:8444/readyz?verbose'. {OFF}"
POD = "Run: kubectl -n grove-system describe pod grove-admission-b, and kubectl -n grove-system logs grove-admission-b."

QUOTA = "insufficient quota to match these scopes: [{PriorityClass In [system-node-critical system-cluster-critical]}]"


def rolling_out_status(installation: Installation) -> None:
    """The controller has seen the new Pod template, and no Pod has it."""
    installation.objects["Deployment"]["status"] |= {"observedGeneration": 2}
    del installation.objects["Pod"]


MISTAKES: Mapping[str, tuple[Change, list[Finding]]] = {
    "an RBAC rule is missing": (
        denying(verb="patch", resource="podgangs"),
        [
            Finding(
                "permissions",
                "problem",
                "service account grove-system/grove-admission may not patch podgangs.scheduler.grove.io (constraints for the scheduler)",
                RULES,
            )
        ],
    ),
    "resourceNames of the Lease's rule name something else": (
        denying(resource="leases", name="grove-admission"),
        [
            Finding(
                "permissions",
                "problem",
                'service account grove-system/grove-admission may not get, patch leases.coordination.k8s.io "grove-admission" (leader election)',
                f'The stored rule must have resourceNames: ["grove-admission"], which a tool such as Kustomize may have changed. {RULES}',
            )
        ],
    ),
    "a webhook configuration has another name": (
        renamed,
        [
            Finding(
                "webhooks",
                "problem",
                "MutatingWebhookConfiguration grove-admission is not installed: its webhooks are in prod-grove-admission, to which the server writes no caBundle",
                "Set certificates.webhookConfigurations: prod-grove-admission in the configuration of the server, or install the webhooks under the name grove-admission.",
            )
        ],
    ),
    "no webhook configuration is installed": (
        both(without("mutating"), without("validating")),
        [
            Finding(
                "webhooks",
                "problem",
                "MutatingWebhookConfiguration grove-admission is not installed, so its webhooks are not called; ValidatingWebhookConfiguration grove-admission is not installed, so its webhooks are not called",
                INSTALL,
            )
        ],
    ),
    "a webhook calls another path": (
        with_field(
            "validating", "webhooks", 0, "clientConfig", "service", "path", value="/validate"
        ),
        [
            Finding(
                "webhooks",
                "problem",
                'clustertopology.validate.grove-admission.grove.io: clientConfig.service has path "/validate"; this version installs path "/validate/clustertopology"',
                INSTALL,
            )
        ],
    ),
    "a failurePolicy was changed": (
        with_field("validating", "webhooks", 0, "failurePolicy", value="Ignore"),
        [
            Finding(
                "webhooks",
                "warning",
                'clustertopology.validate.grove-admission.grove.io: failurePolicy is "Ignore"; this version installs "Fail"',
                UNINTENDED,
            )
        ],
    ),
    "the webhooks call the Service of another namespace": (
        in_namespace("gpu-policy"),
        [
            Finding(
                "webhooks",
                "problem",
                f'clientConfig.service has namespace "gpu-policy"; this version installs namespace "grove-system" (10 webhooks: {", ".join(sorted(PATHS, key=lambda name: ".validate." in name))})',
                f"If the server runs in namespace gpu-policy, run: POD_NAMESPACE=gpu-policy grove-admission doctor --config FILE. Otherwise, {INSTALL[0].lower()}{INSTALL[1:]}",
            )
        ],
    ),
    "the caBundles are empty": (
        with_ca_bundle(""),
        [
            Finding(
                "certificate",
                "problem",
                f"the caBundle of {len(Installation().webhooks())} webhooks is empty: API servers cannot verify the server",
                KEEPER,
            )
        ],
    ),
    "the caBundles are those of another CA": (
        with_ca_bundle(encoded(OTHER_CA.cert_pem)),
        [
            Finding(
                "certificate",
                "problem",
                f"the caBundle of {len(Installation().webhooks())} webhooks does not verify the certificate at 10.0.0.1:8443, 10.0.0.2:8443 for {SERVED_NAME}: unable to get issuer",
                KEEPER,
            )
        ],
    ),
    "the Secret of the certificate is missing": (
        without("Secret"),
        [
            Finding(
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
            Finding(
                "certificate",
                "problem",
                "the certificate of Secret grove-system/grove-admission-certificates expired at 2026-06-01T11:00:00+00:00",
                STORED_CERTIFICATE,
            )
        ],
    ),
    "the Secret has no certificate": (
        with_field("Secret", "data", value={"tls.crt": encoded(b"nothing")}),
        [
            Finding(
                "certificate",
                "problem",
                "tls.crt of Secret grove-system/grove-admission-certificates is not a PEM certificate",
                STORED_CERTIFICATE,
            )
        ],
    ),
    "the Service has no endpoints": (
        with_field("EndpointSlice", "endpoints", value=[]),
        [
            Finding(
                "service",
                "problem",
                "Service grove-system/grove-admission has no ready endpoint",
                UNREADY,
            )
        ],
    ),
    "one replica is not ready": (
        unready_pods,
        [
            Finding(
                "replicas",
                "warning",
                "Deployment grove-system/grove-admission has 1 of 2 replicas ready: ImagePullBackOff",
                POD,
            )
        ],
    ),
    "a quota allows no Pod of the priority class": (
        not_created(QUOTA),
        [
            Finding(
                "replicas",
                "problem",
                f"Deployment grove-system/grove-admission has 0 of 2 replicas ready, because Pods can't be created: {QUOTA}",
                "Allow the priority class in the namespace with a ResourceQuota, or set another priorityClassName, as in manifests/guide/networks.md.",
            )
        ],
    ),
    "a policy rejects the Pods of an upgrade": (
        both(rolling_out(), not_created("denied by Kyverno", ready=2), rolling_out_status),
        [
            Finding(
                "replicas",
                "warning",
                "Deployment grove-system/grove-admission has 0 of 2 replicas with its current Pod template, because Pods can't be created: denied by Kyverno",
                "Correct what the message names. The Deployment then creates its Pods without further action.",
            )
        ],
    ),
    "no Pod exists, and nobody says why": (
        with_pods(ready=0),
        [
            Finding(
                "replicas",
                "problem",
                "Deployment grove-system/grove-admission has 0 of 2 replicas ready",
                "Run: kubectl -n grove-system describe deployments,replicasets,pods --selector app.kubernetes.io/name=grove-admission",
            )
        ],
    ),
    "a replica runs and is not ready": (
        with_pods(replica("a", running()), replica("b", running(is_ready=False)), ready=1),
        [
            Finding(
                "replicas",
                "warning",
                "Deployment grove-system/grove-admission has 1 of 2 replicas ready",
                "Run: kubectl -n grove-system describe pod b, and kubectl -n grove-system logs b. Or run: kubectl -n grove-system port-forward b 8444, and then: curl -k 'https://localhost:8444/readyz?verbose'.",
            )
        ],
    ),
    "a replica is killed again and again, and is ready in between": (
        with_pods(
            replica("a", running(killed="OOMKilled", restarts=7)),
            replica("b", running(killed="Error", restarts=1), "n2"),
            ready=2,
        ),
        [
            Finding(
                "replicas",
                "warning",
                "these Pods exceeded their memory limit and were killed (OOMKilled): a (7 restarts)",
                "Raise resources.limits.memory of the Deployment, in your overlay or in the values of the chart. app/server/README.md says how much memory the server needs.",
            )
        ],
    ),
    "both replicas are on one node of several": (
        both(
            with_pods(replica("a", running()), replica("b", running()), ready=2), nodes("n1", "n2")
        ),
        [
            Finding(
                "replicas",
                "warning",
                "all ready replicas are on node n1: no webhook answers if this node fails",
                "Run: kubectl -n grove-system delete pod a. If the new Pod is on the same node again, find out why it fits on no other node.",
            )
        ],
    ),
    "a Pod may be killed before it has drained": (
        both(
            configured("server", drainSeconds=60),
            with_field(
                "Deployment", "spec", "template", "spec", "terminationGracePeriodSeconds", value=45
            ),
        ),
        [
            Finding(
                "replicas",
                "warning",
                "terminationGracePeriodSeconds is 45, but server.drainSeconds is 60: a terminating Pod may be killed while it answers requests",
                "Set terminationGracePeriodSeconds of the Deployment to at least 90, with a patch in your overlay. The chart sets it.",
            )
        ],
    ),
    "a rollout is paused": (
        rolling_out(updated=1, paused=True),
        [
            Finding(
                "replicas",
                "warning",
                "Deployment grove-system/grove-admission has 1 of 2 replicas with its current Pod template, because its rollout is paused",
                "Run: kubectl -n grove-system rollout resume deployment/grove-admission",
            )
        ],
    ),
    "an upgrade gets stuck while the old replicas are ready": (
        rolling_out(),
        [
            Finding(
                "replicas",
                "warning",
                "Deployment grove-system/grove-admission has 0 of 2 replicas with its current Pod template: ImagePullBackOff",
                POD,
            )
        ],
    ),
    "the controller has not seen the last change of the Deployment": (
        rolling_out(observed=1),
        [],
    ),
    "all replicas have the current template": (rolling_out(updated=2), []),
    "no replica is scheduled": (
        unschedulable,
        [
            Finding(
                "replicas",
                "problem",
                "Deployment grove-system/grove-admission has 0 of 2 replicas ready: Unschedulable: 0/3 nodes are available",
                POD,
            )
        ],
    ),
    "the Deployment is scaled to 0": (
        with_field("Deployment", "spec", "replicas", value=0),
        [
            Finding(
                "replicas",
                "problem",
                "Deployment grove-system/grove-admission is scaled to 0 replicas: no webhook answers",
                "Run: kubectl -n grove-system scale deployment grove-admission --replicas=2",
            )
        ],
    ),
    "no replica is scheduled, so that the Service has no endpoints": (
        both(unschedulable, with_field("EndpointSlice", "endpoints", value=[])),
        [
            Finding(
                "replicas",
                "problem",
                "Deployment grove-system/grove-admission has 0 of 2 replicas ready: Unschedulable: 0/3 nodes are available",
                POD,
            ),
            Finding(
                "service",
                "problem",
                "Service grove-system/grove-admission has no ready endpoint",
                UNREADY,
            ),
        ],
    ),
    "the replicas are older than the webhooks": (
        with_field(
            "Deployment",
            "spec",
            "template",
            "spec",
            "containers",
            value=[
                {"name": "grove-admission", "image": "registry.example:5000/grove-admission:0.1.0"}
            ],
        ),
        [
            Finding(
                "replicas",
                "problem",
                f"the replicas run registry.example:5000/grove-admission:0.1.0, but the webhooks of {__version__} may call paths that an older server does not serve",
                f"Upgrade the replicas: kubectl -n grove-system set image deployment/grove-admission grove-admission=registry.example:5000/grove-admission:{__version__}. Or run doctor with the grove-admission of the replicas.",
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


async def test_an_installation_that_is_well_has_no_finding() -> None:
    assert await Installation().findings() == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            both(configured("leaderElection", enabled=False), without("Lease")),
            id="no leader election",
        ),
        pytest.param(without("Deployment"), id="no Deployment of this name"),
        pytest.param(
            both(
                configured("server", drainSeconds=15),
                with_field(
                    "Deployment",
                    "spec",
                    "template",
                    "spec",
                    "terminationGracePeriodSeconds",
                    value=45,
                ),
            ),
            id="a Pod with enough time to drain",
        ),
        pytest.param(
            both(with_pods(replica("a", running()), replica("b", running()), ready=2), nodes("n1")),
            id="two replicas on the only node",
        ),
        pytest.param(
            both(
                with_pods(replica("a", running()), replica("b", running(), "n2"), ready=2),
                nodes("n1", "n2"),
            ),
            id="two replicas on two nodes",
        ),
        pytest.param(
            both(configured("server", clientCaFile="ca.crt"), without_tokens),
            id="client certificates instead of tokens",
        ),
        pytest.param(with_authorizer(ACCOUNT), id="an exemption from Grove's authorizer"),
        pytest.param(
            with_grove(topologyAwareScheduling={"enabled": True}),
            id="a Grove whose levels are objects",
        ),
        pytest.param(
            with_field(
                "Deployment",
                "spec",
                "template",
                "spec",
                "containers",
                value=[
                    {
                        "name": "grove-admission",
                        "image": "registry.example/grove-admission@sha256:1",
                    }
                ],
            ),
            id="an image without a version",
        ),
    ],
)
async def test_what_is_no_mistake_is_not_reported(change: Change) -> None:
    installation = Installation()
    change(installation)
    assert await installation.findings() == []
