"""List the fields that verdicts read: of PodCliqueSets, of PodCliques, and of Pods with MNNVL.

The other fields, such as the environment of containers, make up most of the bytes. A field that a
rule reads must be here, or the rule never sees it. A field of the type Any is decoded whole.
"""

from typing import Any, TypedDict


class _Metadata(TypedDict, total=False):
    name: Any
    labels: Any
    annotations: Any
    deletionTimestamp: Any
    ownerReferences: Any


class _Container(TypedDict, total=False):
    resources: Any


class _PodSpec(TypedDict, total=False):
    initContainers: list[_Container] | None
    containers: list[_Container] | None
    resourceClaims: Any
    schedulingGroup: Any
    workloadRef: Any


class _Spec(TypedDict, total=False):
    replicas: Any
    podSpec: _PodSpec | None


class PodCliqueFields(TypedDict, total=False):
    """The fields of a PodClique that verdicts read."""

    metadata: _Metadata | None
    spec: _Spec | None


class _PodSpecOfUnit(_PodSpec, total=False):
    nodeSelector: Any
    affinity: Any


class PodFields(TypedDict, total=False):
    """The fields of a Pod that verdicts read."""

    metadata: _Metadata | None
    spec: _PodSpecOfUnit | None


class _PodSpecInSet(_PodSpec, total=False):
    schedulerName: Any


class _SpecInSet(TypedDict, total=False):
    replicas: Any
    minAvailable: Any
    podSpec: _PodSpecInSet | None


class _Clique(TypedDict, total=False):
    name: Any
    labels: Any
    annotations: Any
    topologyConstraint: Any
    spec: _SpecInSet | None


class _SetTemplate(TypedDict, total=False):
    topologyConstraint: Any
    podCliqueScalingGroups: Any
    cliques: list[_Clique] | None


class _SetSpec(TypedDict, total=False):
    replicas: Any
    template: _SetTemplate | None


class PodCliqueSetFields(TypedDict, total=False):
    """The fields of a PodCliqueSet that verdicts read."""

    metadata: _Metadata | None
    spec: _SetSpec | None
