"""Messages with the same beginning, and states that only look alike: each gets its own remedy."""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.reasons.messages import advice_for
from app.explain.reasons.placed_pods import _BINDER_LOG, _BINDING
from app.explain.reasons.pod_starts import _STARTS
from app.explain.reasons.reason import Reason
from app.explain.reasons.uncreated_pods import known_advice
from app.facts.kubernetes.pod import Stalled
from app.facts.kubernetes.selectors import Requirement
from app.facts.labels import NODE_POOL
from tests.explain.fleet import NOW, answer, facts, nodes, pcs, placed, pods
from tests.explain.table.scaling import said as said_by_autoscaler

DENIED = 'pods "x" is forbidden: User "system:serviceaccount:a:b" cannot get resource "pods"'


def reasons_of(**changes: Any) -> dict[str, Reason]:
    return {reason.id: reason for reason in answer(facts(**changes)).reasons}


def test_a_sandbox_without_its_image_is_no_fault_of_the_pod_template() -> None:
    words = "failed to create pod sandbox: failed to pull image pause:3.9"
    [remedy, *_] = [text for text, _ in advice_for(words, _STARTS)]
    assert "container runtime" in remedy


RUNC = "failed to create containerd task: unable to start container process: "


@pytest.mark.parametrize(
    ("words", "begin"),
    [
        ("container has runAsNonRoot and image will run as root", "Use an image that does not"),
        ("couldn't find key TOKEN in Secret a/hf-token", "Add the key that the kubelet names"),
        (f'{RUNC}exec: "pyton": executable file not found in $PATH', "Correct the command in"),
        (f'{RUNC}exec: "/run.sh": permission denied', "Correct the command in the pod template"),
        (
            f"{RUNC}nvidia-container-cli: mount error: file creation failed",
            "Ask the platform team to check the NVIDIA driver",
        ),
        (
            f"{RUNC}nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.9",
            "Use an image with an earlier CUDA version",
        ),
        (
            'Failed to create pod sandbox: no runtime for "nvidia" is configured',
            "Ask the platform team to configure the container runtime",
        ),
        (
            "PostStartHookError: Exec lifecycle hook for Container c failed",
            "Correct lifecycle.postStart",
        ),
        (
            "failed to pull image: write /var/lib/containerd/x: no space left on device",
            "Ask the platform team to free disk space",
        ),
        ("failed to pull image: 429 Too Many Requests: toomanyrequests", "Wait until the registry"),
        (
            'failed to pull image: failed to do request: Head "https://nvcr.io/v2": no such host',
            "Correct the name of the registry",
        ),
        ('image "x:1" is not present with pull policy of Never', "Set imagePullPolicy in"),
        (
            "failed to pull image: no match for platform in manifest: not found",
            "Use an image for the CPU architecture",
        ),
        (
            "failed to create pod sandbox: plugin multus failed (add): networkattachmentdefinition"
            ' "rdma" not found',
            "Create the NetworkAttachmentDefinition that",
        ),
        (
            "MountVolume.MountDevice failed for volume v: driver name x.csi.example.com not found in"
            " the list of registered CSI drivers",
            "Ask the platform team to check the pod of the CSI driver on",
        ),
        ("failed to pull image: not found", "Correct the image, or the pull secret"),
        (
            'MountVolume.SetUp failed for volume "sa-token-secret-vol": secret "a-ic-sat" not found',
            "Ask the platform team to read the log of Grove's operator",
        ),
        (
            "Failed to prepare dynamic resources: allocation failed: channel 0 already allocated by"
            " claim 7d3bba1e (according to checkpoint)",
            "Wait until the pods of the claim with the uid in the message have ended",
        ),
        (
            "Failed to prepare dynamic resources: host nvidia-imex daemon readiness check failed",
            "Ask the platform team to start the service nvidia-imex on",
        ),
        (
            "Failed to prepare dynamic resources: error validating GPU config: unknown strategy",
            "Correct the config of NVIDIA's driver in the ResourceClaim",
        ),
    ],
)
def test_not_each_message_that_names_an_image_or_mount_is_about_it(words: str, begin: str) -> None:
    remedy, _ = next(advice_for(words.lower(), _STARTS))
    assert remedy.startswith(begin)


@pytest.mark.parametrize("words", [DENIED, DENIED.replace("get", "create")])
def test_a_missing_permission_is_no_missing_service_account(words: str) -> None:
    advice = known_advice(words, "a")
    assert advice
    assert "permission" in advice[0]


def test_a_pod_name_that_is_too_long_is_no_field_of_the_template() -> None:
    invalid = 'Pod "s-0" is invalid: metadata.labels: Invalid value: "s-7d9f": must be'
    long = known_advice(f"{invalid} no more than 63 characters", "a")
    assert long
    assert "give the workload a shorter name" in long[0]
    other = known_advice(f"{invalid} a lowercase RFC 1123 label", "a")
    assert other
    assert other[0].startswith("Correct the field")


@pytest.mark.parametrize(
    ("said", "begin", "who"),
    [
        (
            'failed calling webhook "podclique.mutate.grove-admission.grove.io": failed to call'
            " webhook: Post: x509: certificate has expired",
            "Ask the platform team to run grove-admission doctor",
            "platform",
        ),
        (
            'failed calling webhook "binder.run.ai": failed to call webhook: connection refused',
            "Ask the platform team to check the webhook in the message",
            "platform",
        ),
        (
            'admission webhook "podclique.mutate.grove-admission.grove.io" denied the request: no',
            "Change the pod template",
            "you",
        ),
        (
            'Service "a.b-0" is invalid: metadata.name: Invalid value: "a.b-0": a DNS-1035 label'
            " must consist of lower case alphanumeric characters",
            "Create the workload with another name",
            "you",
        ),
        (
            'Pod "a.b-0-w-x" is invalid: spec.hostname: Invalid value: "a.b-0-w-0": a lowercase'
            " RFC 1123 label must consist of",
            "Create the workload with another name",
            "you",
        ),
        (
            "failed to get external ResourceClaimTemplate b/pool: ResourceClaimTemplate.resource"
            '.k8s.io "pool" not found',
            "Create the ResourceClaimTemplate that the message names",
            "you",
        ),
        (
            "failed to get external ResourceClaimTemplate b/pool: resourceclaimtemplates.resource"
            '.k8s.io "pool" is forbidden: User "system:serviceaccount:g:o" cannot get resource',
            "Ask the platform team to grant",
            "platform",
        ),
        (
            'RC "a-all-pool": no matches for kind "ResourceClaim" in version "resource.k8s.io/v1"',
            "Ask the platform team to update Kubernetes to 1.34",
            "platform",
        ),
        (
            'no matches for kind "ComputeDomain" in version "resource.nvidia.com/v1beta1"',
            "Ask the platform team to install the API",
            "platform",
        ),
        (
            'pods "a-0-w-" is forbidden: pod rejected: RuntimeClass "nvidia" not found',
            "Correct runtimeClassName in the pod template",
            "you",
        ),
        (
            'pods "a-0-w-" is forbidden: violates PodSecurity "restricted:latest":'
            ' allowPrivilegeEscalation != false (containers "main", "grove-initc" must set',
            "Ask the platform team to exempt container grove-initc",
            "platform",
        ),
        (
            'Pod "a-0-w-x" is invalid: spec.containers[0].name: Invalid value: "My_c": a lowercase'
            " RFC 1123 label must consist of",
            "Correct the field",
            "you",
        ),
    ],
)
def test_what_grove_cannot_create_has_a_remedy(said: str, begin: str, who: str) -> None:
    advice = known_advice(said, "a")
    assert advice
    assert advice[0].startswith(begin)
    assert advice[1] == who


def test_openshift_refuses_pods_in_words_of_its_own() -> None:
    words = 'pods "x" is forbidden: unable to validate against any security context constraint: []'
    advice = known_advice(words, "a")
    assert advice
    assert "SecurityContextConstraints" in advice[0]


def test_not_all_that_is_forbidden_lacks_a_permission() -> None:
    limits = 'pods "x" is forbidden: maximum memory usage per Container is 1Gi'
    assert next(advice_for(limits, _BINDING), _BINDER_LOG) == _BINDER_LOG
    assert "permission" in next(advice_for(DENIED, _BINDING))[0]


def test_a_container_that_never_ran_has_no_log() -> None:
    stalled = (Stalled("main", "ImagePullBackOff"),)
    [first, *others] = placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")
    held = replace(first, stalled=stalled, waiting=("ImagePullBackOff",))
    crashes = reasons_of(pods=(held, *others))["ContainerCrashes"]
    assert crashes.remedy.startswith("Read the events of the pod")
    assert crashes.commands[0].startswith("kubectl describe pod")


@pytest.mark.parametrize("kept", [{}, {"cliques": ()}], ids=["PodCliques", "nothing"])
def test_a_set_that_is_being_deleted_has_lost_its_objects(kept: dict[str, Any]) -> None:
    changes = {"sets": (pcs(deleted_at=NOW - 300),), "gangs": (), "pods": (), **kept}
    found = answer(facts(**changes))
    assert {"NothingMade", "PodGangMissing"}.isdisjoint(reason.id for reason in found.reasons)
    assert "SetBeingDeleted" in {reason.id for reason in found.reasons}
    gone = "llm is being deleted: none of its objects exist any more"
    assert (found.headline == gone) == bool(kept)
    assert (found.tree.words == "being deleted") == bool(kept)


def test_a_selector_counts_only_nodes_of_the_pool() -> None:
    """The scheduler of a pool does not see the other nodes."""
    [first, *others] = nodes()
    elsewhere = (replace(first, labels={**first.labels, NODE_POOL: "gold"}), *others)
    selecting = tuple(
        replace(pod, shape=replace(pod.shape, selector=(Requirement("a", "In", ("b",)),)))
        for pod in pods()
    )
    found = reasons_of(pods=selecting, nodes=elsewhere)["NoNodeMatches"]
    assert (
        found.text
        == "No node matches a=b, which pods of llm-0-pool-0-workers select (0 of 15 nodes without a node pool)"
    )
    assert reasons_of(pods=selecting)["NoNodeMatches"].text.startswith("No node matches a=b")


def test_a_failed_scale_up_is_no_lack_of_a_node_group() -> None:
    failed = reasons_of(**said_by_autoscaler(("FailedScaleUp", "out of quota", 1)))[
        "NoNodeGroupHelps"
    ]
    other = reasons_of(**said_by_autoscaler(("NotTriggerScaleUp", "no group", 1)))[
        "NoNodeGroupHelps"
    ]
    assert "no nodes could be created" in failed.remedy
    assert other.remedy.startswith("Request resources")
