"""List the objects that explanations read: a row for each kind.

A server loads this table only to report pending gangs. A kind whose row begins with `WIDE` also has
a row for verdicts (`facts/rows`), with fewer fields.
"""

from app.facts import kinds
from app.facts.grove.podcliqueset import read_set_with_status
from app.facts.grove.podgang import read_pod_gang, read_pod_gang_map
from app.facts.kai.podgroup import read_kai_pod_group
from app.facts.kai.queue import read_queue
from app.facts.kai.shard import read_shard
from app.facts.kubernetes.claim import (
    read_claim_template,
    read_device_class,
    read_resource_claim,
    read_resource_slice,
    read_rest_of_claim,
)
from app.facts.kubernetes.event import read_event
from app.facts.kubernetes.kueue import (
    read_cluster_queue,
    read_kueue_queue,
    read_kueue_workload,
)
from app.facts.kubernetes.node import NodeForm, read_node
from app.facts.kubernetes.pod import read_pod, read_rest_of_pod
from app.facts.kubernetes.pod_fields import PodForm
from app.facts.kubernetes.volume import read_storage_class, read_volume, read_volume_claim
from app.facts.kubernetes.workload import read_priority_class, read_workload, read_workload_group
from app.facts.nvidia.computedomain import read_compute_domain, read_domain_clique
from app.facts.rows import MOST_OF_POD, Row
from app.objects.resource import EVENT, NODE, POD

MOST_OF_LARGE_GANGS = 2**18
"""The maximum JSON size of the facts about a PodGang or a KAI PodGroup, in bytes.

The facts about large gangs list thousands of pods.
"""


MOST_OF_MANY = 16 * 2**20
"""The maximum JSON size, in bytes, of the facts about Pods, PodGangs or PodGroups of a namespace.

It applies only to the leader, like MANY_IN_NAMESPACE. The first KiB of each object does not
count. Reports about a larger namespace lack the objects beyond the limit, except the resources that
a Pod uses on its node.
"""

MANY_IN_NAMESPACE = 100_000
"""The maximum number of Pods, PodGangs or PodGroups of a namespace whose facts are kept."""

MOST_OF_CLAIM = 2**17
"""The maximum JSON size of the facts about a ResourceClaim, in bytes. A claim may list 256 pods."""

WIDE_NODES = Row(NODE, read_node, name="nodes", title="nodes", form=NodeForm)


PODS = Row(
    POD,
    read_pod,
    name="pods",
    title="pods",
    form=PodForm,
    most_decoded=MOST_OF_POD,
    most_of_namespace=MOST_OF_MANY,
    most_objects=MANY_IN_NAMESPACE,
    rest=read_rest_of_pod,
)


WIDE_SETS = Row(kinds.POD_CLIQUE_SET, read_set_with_status, name="sets", title="PodCliqueSets")


WIDE_GANGS = Row(
    kinds.POD_GANG,
    read_pod_gang,
    name="gangs",
    title="PodGangs",
    most=MOST_OF_LARGE_GANGS,
    most_of_namespace=MOST_OF_MANY,
    most_objects=MANY_IN_NAMESPACE,
)


GANG_MAPS = Row(kinds.POD_GANG_MAP, read_pod_gang_map, name="gang_maps", title="PodGangMaps")


KAI_POD_GROUPS = Row(
    kinds.POD_GROUP,
    read_kai_pod_group,
    name="pod_groups",
    title="KAI's PodGroups",
    most=MOST_OF_LARGE_GANGS,
    most_of_namespace=MOST_OF_MANY,
    most_objects=MANY_IN_NAMESPACE,
)


QUEUES = Row(kinds.QUEUE, read_queue, name="queues", title="queues")


SHARDS = Row(kinds.SCHEDULING_SHARD, read_shard, name="shards", title="SchedulingShards")


PRIORITIES = Row(
    kinds.PRIORITY_CLASS, read_priority_class, name="priorities", title="PriorityClasses"
)


WIDE_CLAIMS = Row(
    kinds.RESOURCE_CLAIM,
    read_resource_claim,
    name="claims",
    title="ResourceClaims",
    most=MOST_OF_CLAIM,
    rest=read_rest_of_claim,
)


CLAIM_TEMPLATES = Row(
    kinds.CLAIM_TEMPLATE,
    read_claim_template,
    name="claim_templates",
    title="ResourceClaimTemplates",
)


SLICES = Row(kinds.RESOURCE_SLICE, read_resource_slice, name="slices", title="ResourceSlices")


WIDE_DEVICE_CLASSES = Row(
    kinds.DEVICE_CLASS, read_device_class, name="device_classes", title="DeviceClasses"
)


WIDE_DOMAINS = Row(
    kinds.COMPUTE_DOMAIN, read_compute_domain, name="compute_domains", title="ComputeDomains"
)


DOMAIN_CLIQUES = Row(
    kinds.DOMAIN_CLIQUE, read_domain_clique, name="domain_cliques", title="ComputeDomainCliques"
)


WORKLOAD_NAMES = Row(kinds.WORKLOAD, read_workload, name="workloads", title="Workloads")


WORKLOAD_GROUPS = Row(
    kinds.K8S_POD_GROUP, read_workload_group, name="workload_groups", title="PodGroups of Workloads"
)


KUEUE_WORKLOADS = Row(
    kinds.KUEUE_WORKLOAD, read_kueue_workload, name="kueue_workloads", title="Kueue's Workloads"
)


KUEUE_QUEUES = Row(
    kinds.KUEUE_QUEUE, read_kueue_queue, name="kueue_queues", title="Kueue's LocalQueues"
)


CLUSTER_QUEUES = Row(
    kinds.CLUSTER_QUEUE, read_cluster_queue, name="cluster_queues", title="Kueue's ClusterQueues"
)


VOLUME_CLAIMS = Row(
    kinds.VOLUME_CLAIM, read_volume_claim, name="volume_claims", title="PersistentVolumeClaims"
)


VOLUMES = Row(kinds.VOLUME, read_volume, name="volumes", title="PersistentVolumes")


STORAGE_CLASSES = Row(
    kinds.STORAGE_CLASS, read_storage_class, name="storage_classes", title="StorageClasses"
)


EVENTS = Row(EVENT, read_event, name="events", title="events")
