"""Find the workloads that a Pod was created for, which users know by name."""

import re

from app.facts.kinds import (
    DISAGGREGATED_SET,
    DYNAMO_GRAPH,
    JOB_SET,
    LEADER_WORKER_SET,
    RAY_CLUSTER,
    RAY_JOB,
    RAY_SERVICE,
    TRAIN_JOB,
    TRAINING_JOBS,
)
from app.facts.labels import GROVE_CLIQUE_NAME
from app.facts.unit_owners import LABELLED, TRAINING_JOB
from app.objects.resource import DEPLOYMENT, JOB, STATEFUL_SET
from app.objects.shape import JsonMap, text_at

_RAY_MAKER = "ray.io/originated-from-cr-name"
_RAY_MAKER_KIND = "ray.io/originated-from-crd"
_OF_DYNAMO = "nvidia.com/dynamo-graph-deployment-name"
"""The label with which Dynamo's operator names a DynamoGraphDeployment on its pods.

For pods of Grove, the PodCliqueSet names it as its owner.
"""
_OF_MPI_JOB = ("training.kubeflow.org/operator-name", "mpi-operator")
"""The label of the pods of an MPIJob. Its launcher, which a Job owns, has it too."""
_HASH = "pod-template-hash"
_LIKE_HASH = re.compile(r"-[bcdfghjklmnpqrstvwxz]*[2456789][bcdfghjklmnpqrstvwxz2456789]*\Z")
"""A pattern for the hash at the end of the name of a Deployment's ReplicaSet.

It is used for Pods without the label `pod-template-hash`, such as in a file. See `SafeEncodeString`
in Kubernetes. A hash without a digit does not match, because it may be a word.
"""

_KIND_OF_LABEL = {
    kind.key: resource.kind
    for kind in LABELLED
    for resource in kind.resources
    if kind.resources[1:] == ()
}
"""The kinds of workloads that Pods name in a label, by label.

Training jobs are missing, because their common label does not tell the kind.
"""

WORKLOAD_KINDS = (
    DYNAMO_GRAPH,
    DISAGGREGATED_SET,
    LEADER_WORKER_SET,
    TRAIN_JOB,
    JOB_SET,
    RAY_CLUSTER,
    RAY_JOB,
    RAY_SERVICE,
    *TRAINING_JOBS,
    JOB,
    STATEFUL_SET,
    DEPLOYMENT,
)
"""The kinds of workloads, besides Grove's, that explanations show by their own names."""

_WITH_NAMES = {resource.kind for resource in WORKLOAD_KINDS}


def names_of_workloads(labels: JsonMap, controller: tuple[str, str]) -> list[tuple[str, str]]:
    """Return the kind and name of each workload that a Pod was created for, outermost first.

    `labels` are the labels of the Pod. `controller` is the kind and name of its controller, or
    ("", "") if it has none. For a ReplicaSet, the result has the Deployment that the name implies.
    Its existence is not checked.
    """
    made: list[tuple[str, str]] = []
    if _OF_DYNAMO in labels and GROVE_CLIQUE_NAME not in labels:
        made.append((DYNAMO_GRAPH.kind, text_at(labels, _OF_DYNAMO)))
    if _RAY_MAKER in labels:
        made.append((text_at(labels, _RAY_MAKER_KIND), text_at(labels, _RAY_MAKER)))
    label, operator = _OF_MPI_JOB
    if labels.get(label) == operator:
        made.append(("MPIJob", text_at(labels, TRAINING_JOB)))
    if not _KIND_OF_LABEL.keys().isdisjoint(labels):
        for key, kind in _KIND_OF_LABEL.items():
            if key in labels:
                made.append((kind, text_at(labels, key)))
    kind, name = controller
    if kind == "ReplicaSet":
        of_template = text_at(labels, _HASH)
        name = name.removesuffix(f"-{of_template}") if of_template else without_hash(name)
        kind = DEPLOYMENT.kind
    made.append((kind, name))
    return list(dict.fromkeys([pair for pair in made if pair[0] in _WITH_NAMES and pair[1]]))


def without_hash(name: str) -> str:
    """Return a ReplicaSet's name without the hash that a Deployment adds.

    Return the name itself if it does not end with something like a hash.
    """
    return _LIKE_HASH.sub("", name)
