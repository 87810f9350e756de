"""Define the resources that this program reads or writes."""

from app.objects.resource import JOB, OF_KUBERNETES, STATEFUL_SET, Resource, built_in


def _of_grove(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource("grove.io", plural, kind, namespaced, ("v1beta1", "v1alpha1"))


CLUSTER_TOPOLOGY = _of_grove("clustertopologies", "ClusterTopology", namespaced=False)
CLUSTER_TOPOLOGY_BINDING = _of_grove(
    "clustertopologybindings", "ClusterTopologyBinding", namespaced=False
)
POD_CLIQUE_SET = _of_grove("podcliquesets", "PodCliqueSet")
POD_CLIQUE = _of_grove("podcliques", "PodClique")
POD_CLIQUE_SCALING_GROUP = _of_grove("podcliquescalinggroups", "PodCliqueScalingGroup")
POD_GANG_MAP = _of_grove("podgangmaps", "PodGangMap")
POD_GANG = Resource("scheduler.grove.io", "podgangs", "PodGang", True, ("v1alpha1",))

KAI_TOPOLOGY = Resource("kai.scheduler", "topologies", "Topology", False, ("v1alpha1",))
SCHEDULING_SHARD = Resource("kai.scheduler", "schedulingshards", "SchedulingShard", False)
POD_GROUP = Resource("scheduling.run.ai", "podgroups", "PodGroup", True, ("v2alpha2",))
QUEUE = Resource("scheduling.run.ai", "queues", "Queue", False, ("v2",))
QUEUE_NAMES = Resource("grove-admission.grove.io", "queuenames", "QueueNames", False)
"""Our own resource: one object with the names of all Queues, which admission policies read."""

COMPUTE_DOMAIN = Resource(
    "resource.nvidia.com", "computedomains", "ComputeDomain", True, ("v1beta1",)
)
DOMAIN_CLIQUE = Resource(
    "resource.nvidia.com", "computedomaincliques", "ComputeDomainClique", True, ("v1beta1",)
)
_OF_CLAIMS = ("v1", "v1beta2", "v1beta1")
"""The versions of resource.k8s.io."""

RESOURCE_CLAIM = Resource("resource.k8s.io", "resourceclaims", "ResourceClaim", True, _OF_CLAIMS)
CLAIM_TEMPLATE = Resource(
    "resource.k8s.io", "resourceclaimtemplates", "ResourceClaimTemplate", True, _OF_CLAIMS
)
RESOURCE_SLICE = Resource("resource.k8s.io", "resourceslices", "ResourceSlice", False, _OF_CLAIMS)
DEVICE_CLASS = Resource("resource.k8s.io", "deviceclasses", "DeviceClass", False, _OF_CLAIMS)

# v1 comes last, because a cluster without Workloads serves it too, for PriorityClasses.
WORKLOAD = Resource(
    "scheduling.k8s.io",
    "workloads",
    "Workload",
    True,
    ("v1beta1", "v1alpha3", "v1alpha2", "v1alpha1", "v1"),
)
K8S_POD_GROUP = Resource(
    "scheduling.k8s.io", "podgroups", "PodGroup", True, ("v1beta1", "v1alpha3", "v1alpha2", "v1")
)
_OF_KUEUE = ("v1beta2", "v1beta1")
"""The versions of kueue.x-k8s.io."""

KUEUE_WORKLOAD = Resource("kueue.x-k8s.io", "workloads", "Workload", True, _OF_KUEUE)
KUEUE_QUEUE = Resource("kueue.x-k8s.io", "localqueues", "LocalQueue", True, _OF_KUEUE)
CLUSTER_QUEUE = Resource("kueue.x-k8s.io", "clusterqueues", "ClusterQueue", False, _OF_KUEUE)
LEADER_WORKER_SET = Resource(
    "leaderworkerset.x-k8s.io", "leaderworkersets", "LeaderWorkerSet", True
)
DISAGGREGATED_SET = Resource(
    "disaggregatedset.x-k8s.io",
    "disaggregatedsets",
    "DisaggregatedSet",
    True,
    ("v1", "v1alpha1"),
)
JOB_SET = Resource("jobset.x-k8s.io", "jobsets", "JobSet", True, ("v1alpha2",))
RAY_CLUSTER = Resource("ray.io", "rayclusters", "RayCluster", True)
RAY_JOB = Resource("ray.io", "rayjobs", "RayJob", True)
RAY_SERVICE = Resource("ray.io", "rayservices", "RayService", True)
DYNAMO_GRAPH = Resource(
    "nvidia.com",
    "dynamographdeployments",
    "DynamoGraphDeployment",
    True,
    ("v1beta1", "v1alpha1"),
)
TRAIN_JOB = Resource("trainer.kubeflow.org", "trainjobs", "TrainJob", True, ("v1alpha1",))
TRAINING_JOBS = (
    Resource("kubeflow.org", "mpijobs", "MPIJob", True, ("v2beta1", "v1")),
    *(
        Resource("kubeflow.org", f"{kind.lower()}s", kind, True)
        for kind in ("JAXJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")
    ),
)
"""The jobs of Kubeflow's training operator and of its MPI operator."""

PRIORITY_CLASS = built_in("scheduling.k8s.io", "priorityclasses", "PriorityClass", namespaced=False)
VOLUME_CLAIM = built_in("", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUME = built_in("", "persistentvolumes", "PersistentVolume", namespaced=False)
STORAGE_CLASS = built_in("storage.k8s.io", "storageclasses", "StorageClass", namespaced=False)

_GROVE = (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    POD_CLIQUE_SET,
    POD_CLIQUE,
    POD_GANG_MAP,
    POD_GANG,
)

_SCHEDULING = (KAI_TOPOLOGY, POD_GROUP, COMPUTE_DOMAIN, RESOURCE_CLAIM, WORKLOAD, K8S_POD_GROUP)

NEIGHBOURS: tuple[Resource, ...] = (*_GROVE, *_SCHEDULING)
"""The main APIs that a server works with. Each may be missing from a cluster."""

ALL: tuple[Resource, ...] = (
    *OF_KUBERNETES,
    *NEIGHBOURS,
    POD_CLIQUE_SCALING_GROUP,
    DEVICE_CLASS,
    RESOURCE_SLICE,
    CLAIM_TEMPLATE,
    PRIORITY_CLASS,
    QUEUE,
    QUEUE_NAMES,
    SCHEDULING_SHARD,
    STATEFUL_SET,
    JOB,
    LEADER_WORKER_SET,
    DISAGGREGATED_SET,
    JOB_SET,
    RAY_CLUSTER,
    *TRAINING_JOBS,
)
"""The resources that a server works with, and that dry runs accept."""
