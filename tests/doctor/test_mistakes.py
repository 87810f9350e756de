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
    renamed,
    rolling_out,
    unready_pods,
    unschedulable,
    with_authorizer,
    with_ca_bundle,
    with_field,
    with_grove,
    without,
    without_tokens,
)

LOGS = "kubectl -n grove-system logs deployment/grove-admission"
INSTALL = "Apply the manifests or the chart of this version again, or the output of grove-admission webhooks if you installed that."
RULES = "Apply your overlay again, which includes manifests/base/rbac.yaml: kubectl apply -k OVERLAY. If you installed the chart, run instead: helm upgrade RELEASE manifests/chart -n NAMESPACE --reset-then-reuse-values"
KEEPER = "Read the log of the writer of the caBundle: with self-managed certificates, that of deployment/grove-admission; with cert-manager, that of its cainjector. If there is no writer, write the CA into caBundle of the webhook configurations."
STORED_CERTIFICATE = f"Find out why the replicas do not create or renew the certificate: {LOGS}."
UNREADY = "Find out why its Pods are not ready: kubectl -n grove-system logs deployment/grove-admission. If a Pod runs, run: kubectl -n grove-system port-forward deployment/grove-admission 8444, and then: curl -k 'https://localhost:8444/readyz?verbose'"
PODS = f"Run: kubectl -n grove-system describe pods, and {LOGS}."

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
                INSTALL,
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
                PODS,
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
                PODS,
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
                PODS,
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
                PODS,
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
