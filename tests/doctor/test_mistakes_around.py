"""One mistake at a time in the cluster, its leader, or Grove's settings: the doctor names it, and
nothing else.
"""

from collections.abc import Mapping

import pytest

from tests.doctor.installation import (
    ACCOUNT,
    Change,
    Finding,
    Installation,
    both,
    configured,
    definition,
    definitions,
    old_kubernetes,
    with_authorizer,
    with_field,
    with_grove,
    without,
)

OURS = ("clustertopologies", "ClusterTopology")
BINDINGS = ("clustertopologybindings", "ClusterTopologyBinding")
LOGS = "kubectl -n grove-system logs --selector app.kubernetes.io/name=grove-admission --tail=-1 --prefix"
LEADER = f"Find out why no replica leads: {LOGS}. The Role of the server must allow it to create Leases, and to get and patch the Lease grove-admission."
SHORT_NAMES = 'Remove the short names of the other CRD: kubectl patch crd clustertopologies.grove.io --type=json -p \'[{"op": "remove", "path": "/spec/names/shortNames"}]\''
EXEMPT = f"Add {ACCOUNT} to config.authorizer.exemptServiceAccountUserNames in the values of Grove's chart, and upgrade the release."
DENIES = "it denies our leader's writes to PodGangs and PodCliques"
USERS = "Add this account to authorization.authorizedUsers in the configuration of grove-admission, and restart the replicas."

KAI_BINDER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "kai-binder"},
    "subjects": [
        {"kind": "ServiceAccount", "name": "binder", "namespace": "kai-scheduler"},
        {"kind": "User", "name": "somebody"},
    ],
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "kai-binder",
    },
}


def with_kai(*denied: str, minor: str = "36") -> Change:
    """KAI is installed on Kubernetes 1.`minor`; its binder lacks the verbs `denied`."""

    def change(installation: Installation) -> None:
        installation.objects["KAI"] = KAI_BINDER
        installation.version = {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"}
        installation.denied = lambda asked: (
            asked.get("subresource") == "binding" and asked["verb"] in denied
        )

    return change


MISTAKES: Mapping[str, tuple[Change, list[Finding]]] = {
    "Kubernetes is older than the webhooks need": (
        old_kubernetes,
        [
            Finding(
                "APIs",
                "problem",
                "Kubernetes v1.27.9 is too old: matchConditions of webhooks and ValidatingAdmissionPolicies are not stable there",
                "Upgrade the cluster to Kubernetes 1.30 or later.",
            )
        ],
    ),
    "KAI's binder has the right of Kubernetes 1.36": (with_kai(), []),
    "KAI's binder lacks the right that Kubernetes 1.35 does not ask for": (
        with_kai("update", "patch", minor="35"),
        [],
    ),
    "KAI's binder lacks the right of Kubernetes 1.36": (
        with_kai("update", "patch"),
        [
            Finding(
                "claims",
                "problem",
                "service account kai-scheduler/binder may not update, patch resourceclaims/binding.resource.k8s.io: from Kubernetes 1.36 on, KAI can't bind a Pod whose ResourceClaim is not allocated yet",
                "Upgrade KAI to 0.12.19, 0.14.1, or 0.15 or later (no release of 0.13 has this permission). Or run kubectl edit clusterrole kai-binder, and add this rule: {apiGroups: [resource.k8s.io], resources: [resourceclaims/binding], verbs: [update, patch]}.",
            )
        ],
    ),
    "the Lease does not exist": (
        without("Lease"),
        [
            Finding(
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
            Finding(
                "leader",
                "problem",
                "Lease grove-system/grove-admission has no holder: nothing is reconciled",
                LEADER,
            )
        ],
    ),
    "the holder of the Lease is gone": (
        with_field("Lease", "spec", "renewTime", value="2026-06-01T11:00:00.000000Z"),
        [
            Finding(
                "leader",
                "problem",
                "Lease grove-system/grove-admission of pod-a_1 was last renewed at 2026-06-01T11:00:00.000000Z, and this machine's clock shows 2026-06-01T12:00:00+00:00: nothing has been reconciled in between",
                LEADER,
            )
        ],
    ),
    "Grove's CRD was installed beside ours with the same short name": (
        definitions(definition(*OURS, "ct"), definition(*BINDINGS, "ct", taken=True)),
        [
            Finding(
                "APIs",
                "problem",
                'CRD clustertopologybindings.grove.io is not established, and its API is not served: "ct" is already in use by clustertopologies.grove.io (ShortNamesConflict)',
                SHORT_NAMES,
            )
        ],
    ),
    "our CRD was installed beside Grove's with the same short name": (
        definitions(definition(*BINDINGS, "ct"), definition(*OURS, "ct", taken=True)),
        [
            Finding(
                "APIs",
                "problem",
                'CRD clustertopologies.grove.io is not established, and its API is not served: "ct" is already in use by clustertopologybindings.grove.io (ShortNamesConflict)',
                "Create the CRD again without short names: kubectl delete crd clustertopologies.grove.io (it was never served, so it has no objects); kubectl apply -k manifests/prerequisites.",
            )
        ],
    ),
    "Grove's authorizer is on without the exemption": (
        with_authorizer("system:kube-controller-manager"),
        [
            Finding(
                "Grove",
                "problem",
                f"Grove's authorizer (authorizer.webhooks.grove.io) is on without an exemption for {ACCOUNT}: {DENIES}",
                EXEMPT,
            )
        ],
    ),
    "Grove's authorizer is on, with a configuration that is not found": (
        with_authorizer(settings=False),
        [
            Finding(
                "Grove",
                "warning",
                f"Grove's authorizer (authorizer.webhooks.grove.io) is on, and its configuration is not known. Unless {ACCOUNT} is exempt, {DENIES}",
                EXEMPT,
            )
        ],
    ),
    "Grove's topology feature is off": (
        with_grove(topologyAwareScheduling={"enabled": False}),
        [
            Finding(
                "Grove",
                "problem",
                "Grove's topology feature is off: its operator deletes the managed ClusterTopology at each start, and its webhook rejects PodCliqueSets with topology constraints",
                "Set config.topologyAwareScheduling.enabled: true in the values of Grove's chart, and upgrade the release.",
            )
        ],
    ),
    "Grove has other levels": (
        with_grove(
            topologyAwareScheduling={
                "enabled": True,
                "levels": [{"domain": "zone", "key": "k/zone"}],
            }
        ),
        [
            Finding(
                "Grove",
                "problem",
                "Grove's topology levels are zone=k/zone, but clusterTopology.levels of grove-admission are rack=k/rack, host=kubernetes.io/hostname",
                "Set the same levels as config.topologyAwareScheduling.levels in the values of Grove's chart, and upgrade the release, or change clusterTopology.levels in the configuration of grove-admission.",
            )
        ],
    ),
    "Grove's operator is no authorized user": (
        configured("authorization", authorizedUsers=[ACCOUNT]),
        [
            Finding(
                "Grove",
                "problem",
                "authorization.authorizedUsers lacks system:serviceaccount:grove-system:grove-operator: Grove's operator exits if it may not write the managed ClusterTopology at start",
                USERS,
            )
        ],
    ),
    "Grove's operator is no authorized user, and its configuration is not found": (
        both(configured("authorization", authorizedUsers=[ACCOUNT]), without("Grove")),
        [
            Finding(
                "Grove",
                "problem",
                "authorization.authorizedUsers lacks system:serviceaccount:NAMESPACE:grove-operator: Grove's operator exits if it may not write the managed ClusterTopology at start",
                f"{USERS} For NAMESPACE, write the namespace of Grove's operator.",
            )
        ],
    ),
    "the configuration has levels that the ClusterTopology does not have": (
        both(
            configured("clusterTopology", levels=[{"domain": "rack", "key": "k/other"}]),
            with_grove(topologyAwareScheduling={"enabled": True}),
        ),
        [
            Finding(
                "topology",
                "problem",
                "ClusterTopology grove-topology: rack=k/rack, host=kubernetes.io/hostname; the configuration has rack=k/other",
                "If the replicas use another configuration, pass that one with --config. Otherwise, restart the replicas, which read the configuration only at startup. Read the log of the replica that leads: doctor --all names it under leader.",
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
