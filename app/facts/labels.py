"""Define the keys and values of labels and annotations that several files use.

Other keys are defined in the file about their subject, and imported from there.

Grove's designs and Grove's operator (`GROVE_*`) use different keys for the same facts. We read
both, and write those of the designs. Sources: `rules/README.md`,
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/api/common/labels.go
"""

PCS_NAME = "grove.io/pcs-name"
PCS_REPLICA = "grove.io/pcs-replica-index"
PCSG_NAME = "grove.io/pcsg-name"
PCSG_REPLICA = "grove.io/pcsg-replica-index"
CLIQUE_NAME = "grove.io/clique-name"
PODGANG = "grove.io/podgang"
BASE_PODGANG = "grove.io/base-podgang"
POD_GANG_ROLE = "grove.io/podgang-role"
"""The label with the role of a PodGang, in releases of Grove that name PodGangs after epochs."""

POD_TEMPLATE_HASH = "grove.io/pod-template-hash"
"""Grove's label of PodCliques and pods with the hash of their template."""

POD_GANG_EPOCH = "grove.io/epoch"

ANCHOR = "Anchor"
"""The role of the base PodGang of a replica, in releases of Grove with epochs."""

GROVE_PCS_NAME = "app.kubernetes.io/part-of"
GROVE_PCS_REPLICA = "grove.io/podcliqueset-replica-index"
GROVE_CLIQUE_NAME = "grove.io/podclique"
GROVE_PCSG_NAME = "grove.io/podcliquescalinggroup"
GROVE_PCSG_REPLICA = "grove.io/podcliquescalinggroup-replica-index"

SET_SELECTORS = (f"{GROVE_PCS_NAME}={{}}", f"{PCS_NAME}={{}}")
"""The selectors of a PodCliqueSet's objects, by the operator's label and by the designs' label."""

KAI_SCHEDULER = "kai-scheduler"
"""The default schedulerName of pods that KAI places."""

KUEUE = "kueue"
"""The schedulerName of cliques that Grove leaves to Kueue, and the name of that backend."""

KAI_TOPOLOGY_NAME = "kai.scheduler/topology"
NODE_POOL = "kai.scheduler/node-pool"
KAI_QUEUE = "kai.scheduler/queue"
"""The default label that names the queue of a workload."""

KAI_PREEMPTIBILITY = "kai.scheduler/preemptibility"
SUBGROUP = "kai.scheduler/subgroup-name"
KAI_RESERVATION = "kai-resource-reservation"
"""The value of the label `app` on KAI's pods that reserve a shared GPU."""

SHARING_POD = "shared-gpu-pod-name"
"""The label of KAI's scaling pods with the name of the pod for which an autoscaler adds a node."""

SHARING_NAMESPACE = "shared-gpu-pod-namespace"
"""The label of KAI's scaling pods with the namespace of that pod."""

MIG_STRATEGY = "nvidia.com/mig.strategy"
"""The node label from which KAI takes the MIG strategy."""

MIG_ENABLED = "node-role.kubernetes.io/mig-enabled"
"""The node label from which KAI takes whether MIG is enabled."""

GPU_COUNT = "nvidia.com/gpu.count"
"""The label of a node with the number of its GPUs, which NVIDIA's GPU feature discovery writes."""

PLUGIN_DEPLOYED = "nvidia.com/gpu.deploy.device-plugin"
"""The label of a node that decides whether the GPU Operator runs its device plugin there."""

KAI_BACKGROUND = "kai.scheduler/background"
"""The label of pods that KAI evicts for any other pod, since 0.18."""

KAI_PROJECT = "kai/project"
"""The label of namespaces with the name of their project in KAI Resource Management."""

KAI_CORDONS = ("kai.scheduler/unschedulable", "kai.scheduler/to-exclude")
"""The labels by which KAI Resource Management cordons a node before it changes the node's pool.

The second label means that KAI does not manage the nodes of the new pool.
"""

DRIVER_UPGRADES = ("nvidia.com/gpu-driver-upgrade-state", "nvidia.com/vgpu-driver-upgrade-state")
"""The labels of a node with the state of a driver upgrade by NVIDIA's GPU Operator."""

NVSENTINEL_CORDON = "k8saas.nvidia.com/cordon-by"
"""The label of a node that NVSentinel has cordoned because of a fault of its hardware."""

POD_GROUP_NAME = "pod-group-name"
"""The annotation of a Pod with the name of its KAI PodGroup."""

SKIP_PODGROUPER = "kai.scheduler/skip-podgrouper"
"""The annotation that makes KAI's own pod-grouper skip a Pod.

Source: https://github.com/kai-scheduler/KAI-Scheduler/blob/d5bc503a/docs/developer/pod-grouper.md
"""

IGNORE_WORKLOADS = "kai.scheduler/ignore-workload-api"
"""The annotation of a Pod or its top owner that opts the Pod out of its Workload or PodGroup.

Its value must be "true".
"""

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "grove-admission"
MNNVL_MANAGED = "grove.io/mnnvl-managed"

MNNVL_ENABLED = "grove.io/mnnvl-enabled"
MNNVL_SCOPE = "grove.io/mnnvl-scope"
MNNVL_DEVICE_CLASS = "grove.io/mnnvl-device-class"
MNNVL_GROUP = "grove.io/mnnvl-group"
MNNVL_UNIT = "grove.io/mnnvl-unit"
"""The label that names the NVLink unit of a Pod outside of PodCliques, and of its ComputeDomain."""

MNNVL_ADOPTED = "grove.io/mnnvl-resources-adopted"
TOPOLOGY_NAME = "grove.io/topology-name"

POD_SECURITY = "pod-security.kubernetes.io/enforce"
"""The label of a namespace with the Pod Security level that its Pods must meet."""

NVLINK_DOMAIN = "nvidia.com/gpu.clique"
"""The node label that names the NVLink domain and clique of a node."""
