"""List the fields of a Pod that are decoded. The other fields make up most of its bytes.

Lists and watches of the Pods of workloads use them, for example for explanations (`pod`) and for
the leader (`cluster/leader_rows`). Reviews have their own list, `grove/review_fields`.
`kube/decoders` says why not all fields are decoded.
"""

from typing import Any, TypedDict


class MetadataForm(TypedDict, total=False):
    """The fields of the metadata of a Pod or a PodClique that are decoded."""

    namespace: Any
    name: Any
    uid: Any
    resourceVersion: Any
    labels: Any
    annotations: Any
    ownerReferences: Any
    finalizers: Any
    creationTimestamp: Any
    deletionTimestamp: Any
    deletionGracePeriodSeconds: Any


class _Port(TypedDict, total=False):
    hostPort: Any


class _Container(TypedDict, total=False):
    name: Any
    resources: Any
    restartPolicy: Any
    ports: list[_Port] | None


class _Volume(TypedDict, total=False):
    name: Any
    persistentVolumeClaim: Any
    ephemeral: Any


class PodSpecForm(TypedDict, total=False):
    """The fields of a pod spec that are decoded."""

    nodeName: Any
    schedulerName: Any
    schedulingGates: Any
    schedulingGroup: Any
    workloadRef: Any
    priority: Any
    priorityClassName: Any
    nodeSelector: Any
    affinity: Any
    tolerations: Any
    containers: list[_Container] | None
    initContainers: list[_Container] | None
    resources: Any
    overhead: Any
    resourceClaims: Any
    volumes: list[_Volume] | None


class _ContainerStatus(TypedDict, total=False):
    name: Any
    state: Any
    lastState: Any
    restartCount: Any
    ready: Any


class _Status(TypedDict, total=False):
    phase: Any
    conditions: Any
    reason: Any
    message: Any
    initContainerStatuses: list[_ContainerStatus] | None
    containerStatuses: list[_ContainerStatus] | None
    resourceClaimStatuses: Any


class PodForm(TypedDict, total=False):
    """The fields of a Pod that are decoded."""

    apiVersion: Any
    kind: Any
    metadata: MetadataForm | None
    spec: PodSpecForm | None
    status: _Status | None
