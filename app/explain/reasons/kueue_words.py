"""Find the remedy for a message of Kueue in a table of texts that its messages contain.

The messages were read in kubernetes-sigs/kueue at commit ff69552
(https://github.com/kubernetes-sigs/kueue/tree/ff69552), in the files that the comments name. A
message about several flavors may match several rows: the first one counts.
"""

import re
import shlex
from collections.abc import Mapping

from app.base.value import Value
from app.explain.reasons.reason import Who, listed
from app.explain.state.index import Index
from app.facts.kubernetes.kueue import ClusterQueue, KueueWorkload
from app.objects.names import is_subdomain


class Help(Value):
    """The remedy for a message of Kueue."""

    remedy: str
    """The remedy, as an instruction to a person."""
    who: Who
    """The party that can act."""
    commands: tuple[str, ...] = ()
    """Shell commands that help."""
    of_quota: bool = False
    """Is a lack of quota the cause?"""


class _Row(Value):
    """A row of the table: a text that a message may contain, and its remedy."""

    says: str
    """The text. It may have the placeholders of `remedy`, except the groups of `values`."""
    remedy: str
    """The remedy, with these placeholders in braces:

    `queue` and `namespace` of the Workload, `cluster` (the name of its ClusterQueue), `behind` (its
    ClusterQueue in words), `others` (other LocalQueues of the namespace, in words), and the groups
    of `values`.
    """
    who: Who
    """The party that can act."""
    of_quota: bool = False
    """Is a lack of quota the cause?"""
    values: re.Pattern[str] | None = None
    """The pattern whose groups are values from the message, or None if `remedy` needs none.

    Names of flavors in it must be safe in a shell, because people copy commands.
    """


_SAME_SCHEDULER = " Don't change schedulerName."
_START_QUEUE = "Ask the platform team to start LocalQueue {queue} again (spec.stopPolicy: None)."
_START_CLUSTER_QUEUE = (
    "Ask the platform team to make {behind} active again: its condition Active gives the cause."
)
_NAME_A_QUEUE = (
    "Name an existing LocalQueue of namespace {namespace} in the label kueue.x-k8s.io/queue-name"
    "{others}."
)
_MAKE_CLUSTER_QUEUE = (
    "Ask the platform team to create {behind}, or name another LocalQueue in the label"
    " kueue.x-k8s.io/queue-name{others}."
)
_TURN_ON_DRA = (
    "Ask the platform team to enable KueueDRAIntegration in Kueue, or request no ResourceClaims."
)
_STOPS_OTHERS = (
    "Wait until Kueue has stopped other workloads to make room. If that takes long, ask the"
    " platform team to read the log of Kueue's controller."
)
_OTHERS_FIRST = "Wait until workloads that Kueue has admitted end, or request less."
_NEXT_CYCLE = "Wait a minute: Kueue evaluates the Workload in its next cycle."
_AGAIN = "Wait until Kueue admits the Workload again."

_OF_EVICTIONS = (
    # pkg/workload/evict/evict.go, with the reasons of apis/kueue/v1beta2/workload_types.go
    _Row(
        "Evicted PodsReadyTimeout",
        "Find out why the pods were not ready in time. Kueue tries again. If the pods only need"
        " longer, ask the platform team to raise waitForPodsReady.timeout in Kueue's"
        " configuration.",
        "you",
    ),
    _Row(
        "Evicted AdmissionCheck",
        "Wait until Kueue tries again, or ask the platform team what the AdmissionCheck lacks.",
        "wait",
    ),
    _Row(
        "Evicted Preempted InClusterQueue",
        "Wait until Kueue admits the Workload again, or ask the platform team for a higher priority"
        " (label kueue.x-k8s.io/priority-class): {behind} gave its quota to a workload with a"
        " higher priority, or to an older one with the same priority.",
        "wait",
    ),
    _Row(
        "Evicted Preempted InCohort",
        "Wait until Kueue admits the Workload again, or keep the workloads of {behind} together"
        " within its nominalQuota: {behind} had borrowed quota, which Kueue gave to another"
        " ClusterQueue of the cohort.",
        "wait",
    ),
    _Row("Evicted LocalQueueStopped", _START_QUEUE, "platform"),
    _Row("Evicted ClusterQueueStopped", _START_CLUSTER_QUEUE, "platform"),
    _Row("Evicted ", _AGAIN, "wait"),
)
_OF_QUOTA = (
    # pkg/scheduler/scheduler.go
    _Row("Pending the preemption of", _STOPS_OTHERS, "wait", True),
    _Row("Pending the migration of", _STOPS_OTHERS, "wait", True),
    _Row("overlapping preemption targets", _STOPS_OTHERS, "wait", True),
    _Row(
        "failed, will retry",
        "Wait until Kueue tries again to stop other workloads.",
        "wait",
        True,
    ),
    _Row("no longer fits after processing another workload", _OTHERS_FIRST, "wait", True),
    _Row(
        "waiting for all admitted workloads to be in PodsReady condition",
        "Wait until all workloads that Kueue has admitted are ready: Kueue admits one after the"
        " other (waitForPodsReady.blockAdmission).",
        "wait",
        True,
    ),
    # pkg/scheduler/flavorassigner/flavorassigner.go; earlier releases named the cohort
    _Row(
        "insufficient unused quota",
        "Wait for {more} more unused {resource} in flavor {flavor} of {behind} or its cohort,"
        " request less, or ask the platform team for more quota." + _SAME_SCHEDULER,
        "wait",
        True,
        re.compile(
            r"unused quota (?:in cohort )?for (?P<resource>\S+) in flavor"
            r" (?P<flavor>[a-z0-9][a-z0-9.-]*),"
            r" (?P<more>\S+) more needed"
        ),
    ),
    _Row(
        "insufficient quota for",
        "Request at most {most} of {resource} in total, or ask the platform team for more quota of"
        " it in flavor {flavor} of {behind} (nominalQuota, borrowingLimit)." + _SAME_SCHEDULER,
        "you",
        True,
        re.compile(
            r"insufficient quota for (?P<resource>\S+) in flavor"
            r" (?P<flavor>[a-z0-9][a-z0-9.-]*)"
            r"(?:, previously considered podsets requests \(\S*\) \+ current podset request"
            r" \(\S*\) > maximum capacity \((?P<most>[^()\s]+)\))?"
        ),
    ),
    _Row(
        "borrowing limit for",
        "Request less of {resource}, or ask the platform team for a higher borrowingLimit in flavor"
        " {flavor} of {behind}." + _SAME_SCHEDULER,
        "you",
        True,
        re.compile(
            r"borrowing limit for (?P<resource>\S+) in flavor (?P<flavor>[a-z0-9][a-z0-9.-]*)"
        ),
    ),
)
_OF_FLAVORS = (
    # pkg/scheduler/flavorassigner/flavorassigner.go
    _Row(
        "untolerated taint",
        "Add a toleration for the taint of flavor {flavor} to the pod templates if the workload may"
        " use this flavor: `kubectl get resourceflavor {flavor} -o yaml` shows the taint.",
        "you",
        values=re.compile(r"taint \{[^{}]*\} in flavor (?P<flavor>[a-z0-9][a-z0-9.-]*)"),
    ),
    _Row(
        "doesn't match node affinity",
        "Correct nodeSelector or node affinity in the pod templates: the labels of flavor {flavor}"
        " are in spec.nodeLabels of `kubectl get resourceflavor {flavor} -o yaml`.",
        "you",
        values=re.compile(r"flavor (?P<flavor>[a-z0-9][a-z0-9.-]*) doesn't match node affinity"),
    ),
    _Row(
        "unavailable in ClusterQueue",
        "Ask the platform team to add {resource} to spec.resourceGroups of {behind}, or don't"
        " request it.",
        "platform",
        values=re.compile(r"resource (?P<resource>\S+) unavailable in ClusterQueue"),
    ),
    # pkg/cache/scheduler/tas_flavor_snapshot.go
    _Row(
        "requested topology level",
        "Name a level of Kueue's Topology instead of {level}: `kubectl get"
        " topologies.kueue.x-k8s.io -o yaml` shows the levels.",
        "you",
        values=re.compile(r"requested topology level(?: for slices)?: (?P<level>\S+)"),
    ),
    _Row(
        "no topology domains at level",
        "Ask the platform team to check the nodes of the flavor: none that is ready and not"
        " cordoned has the labels of all levels of Kueue's Topology, down to {level}.",
        "platform",
        values=re.compile(r"no topology domains at level: (?P<level>[^\s,;]+)"),
    ),
    _Row(
        "doesn't allow to fit any",
        "Wait until a domain of Kueue's Topology {topology} has room for one {unit}, request less"
        " per pod, or ask the platform team about the nodes that Kueue excludes according to the"
        " message.",
        "wait",
        values=re.compile(
            r'topology "(?P<topology>[^"]+)" doesn.t allow to fit any of \d+ (?P<unit>\w+)'
        ),
    ),
    _Row(
        'topology "',
        "Wait until Kueue's Topology {topology} has room for all pods. If the annotation"
        " kueue.x-k8s.io/podset-required-topology names a level, all pods must be in one domain of"
        " it: name a broader level if they may be farther apart.",
        "you",
        values=re.compile(r'topology "(?P<topology>[^"]+)"'),
    ),
    # pkg/scheduler/flavorassigner/tas_flavorassigner.go
    _Row(
        "does not contain the requested level",
        "Name a level that the Topology of flavor {flavor} has: `kubectl get"
        " topologies.kueue.x-k8s.io -o yaml` shows the levels.",
        "you",
        values=re.compile(r'Flavor "(?P<flavor>[a-z0-9][a-z0-9.-]*)" does not contain'),
    ),
    _Row(
        "does not support TopologyAwareScheduling",
        "Remove the annotations kueue.x-k8s.io/podset-*-topology, or ask the platform team to set"
        " spec.topologyName of flavor {flavor}.",
        "you",
        values=re.compile(r'Flavor "(?P<flavor>[a-z0-9][a-z0-9.-]*)" does not support'),
    ),
)
_OF_QUEUES = (
    # pkg/controller/core/workload_controller.go and pkg/scheduler/scheduler.go
    _Row("LocalQueue {queue} doesn't exist", _NAME_A_QUEUE, "you"),
    _Row("LocalQueue {queue} is terminating or missing", _NAME_A_QUEUE, "you"),
    _Row("LocalQueue {queue} is stopped", _START_QUEUE, "platform"),
    _Row("LocalQueue {queue} is inactive", _START_QUEUE, "platform"),
    _Row("ClusterQueue {cluster} doesn't exist", _MAKE_CLUSTER_QUEUE, "platform"),
    _Row("ClusterQueue {cluster} not found", _MAKE_CLUSTER_QUEUE, "platform"),
    _Row("ClusterQueue {cluster} is terminating or missing", _MAKE_CLUSTER_QUEUE, "platform"),
    _Row("ClusterQueue {cluster} is stopped", _START_CLUSTER_QUEUE, "platform"),
    _Row("ClusterQueue {cluster} is inactive", _START_CLUSTER_QUEUE, "platform"),
    # pkg/workload/resources.go
    _Row(
        "namespace doesn't match ClusterQueue selector",
        "Ask the platform team to let namespace {namespace} into {behind}"
        " (spec.namespaceSelector), or name another LocalQueue in the label"
        " kueue.x-k8s.io/queue-name{others}.",
        "platform",
    ),
    _Row(
        "resources validation failed",
        "Correct the requests and limits in the pod templates, as the message says.",
        "you",
    ),
    _Row(
        "LimitRange constraints",
        "Keep the requests in the pod templates within the LimitRange: `kubectl describe limitrange"
        " -n {namespace}`.",
        "you",
    ),
    # pkg/controller/core/workload_controller.go
    _Row(
        "Admission is gated by",
        "Ask the owner of {gate} to remove it from the Workload's annotation"
        " kueue.x-k8s.io/admission-gated-by.",
        "you",
        values=re.compile(r"gated by: (?P<gate>.+)"),
    ),
    _Row("DRA resource", _TURN_ON_DRA, "platform"),
    _Row("pending evaluation", _NEXT_CYCLE, "wait"),
    _Row("waiting for quota reservation", _NEXT_CYCLE, "wait"),
    _Row("The workload has failed admission checks", _NEXT_CYCLE, "wait"),
    _Row("Job is on hold", "Scale up the workload, which has no replicas.", "you"),
)
_OF_REASONS = (
    # Reasons of the condition QuotaReserved since 0.19: apis/kueue/v1beta2/workload_types.go
    _Row("(WaitingForQuota)", _OTHERS_FIRST, "wait", True),
    _Row("(WaitingForPreemptedWorkloads)", _STOPS_OTHERS, "wait", True),
    _Row(
        "(NoMatchingFlavor)",
        "Correct the nodeSelector, node affinity, tolerations or topology annotations of the pod"
        " templates so that they match a flavor of {behind}: `kubectl get resourceflavors -o yaml`"
        " shows the flavors.",
        "you",
    ),
    _Row(
        "(TopologyPlacementFailed)",
        "Wait until Kueue's Topology has room for all pods. If the annotation"
        " kueue.x-k8s.io/podset-required-topology names a level, name a broader one if the pods may"
        " be farther apart.",
        "you",
    ),
    _Row(
        "(Misconfigured)",
        "Ask the platform team to fix the problem that Kueue reports.",
        "platform",
    ),
    _Row("(Suspended)", "Ask the platform team to start the Workload's queue again.", "platform"),
    _Row("(PendingEvaluation)", _NEXT_CYCLE, "wait"),
)
_ROWS = (*_OF_EVICTIONS, *_OF_QUOTA, *_OF_FLAVORS, *_OF_QUEUES, *_OF_REASONS)

_CLUSTER_QUEUE = re.compile(r"ClusterQueue (\S+) (?:doesn't|not|is) ")
_UNNAMED: Mapping[str, str] = {
    "resource": "the resource",
    "flavor": "NAME",
    "more": "some",
    "most": "the allowed amount",
    "topology": "NAME",
    "level": "this one",
    "gate": "the gate",
    "unit": "pod",
}
"""The words in a remedy for a value that the message lacks."""
_OTHERWISE = (
    "Request less, or ask the platform team for more quota in {behind}: `kubectl describe"
    " localqueue {queue} -n {namespace}`." + _SAME_SCHEDULER
)


def help_for(index: Index, workload: KueueWorkload, message: str) -> Help:
    """Return the remedy for a Workload about which Kueue says `message`.

    `message` ends with the reason of its condition in parentheses, or it is `Evicted` and the
    reason of an eviction.
    """
    queue = index.kueue_queues.get((workload.namespace, workload.queue))
    named = _CLUSTER_QUEUE.search(message)
    cluster = (named and named[1]) or workload.cluster_queue or (queue and queue.cluster_queue)
    values = {
        "queue": workload.queue if is_subdomain(workload.queue) else "QUEUE",
        "namespace": workload.namespace,
        "cluster": cluster or "NAME",
        "behind": f"ClusterQueue {cluster}" if cluster else "its ClusterQueue",
        "others": _others(index, workload),
    }
    for row in _ROWS:
        if row.says.format_map(values) in message:
            found = row.values.search(message) if row.values else None
            said = found.groupdict() if found else {}
            told = {name: text for name, text in said.items() if text}
            remedy = row.remedy.format_map({**_UNNAMED, **values, **told})
            return Help(remedy, row.who, (), row.of_quota)
    return Help(_OTHERWISE.format_map(values), "you", (), True)


def _others(index: Index, workload: KueueWorkload) -> str:
    names = sorted(
        name
        for namespace, name in index.kueue_queues
        if namespace == workload.namespace and name != workload.queue
    )
    return f", such as {listed(names)}" if names else ""


# The reasons are from apis/kueue/v1beta2/clusterqueue_types.go. Kueue writes them in
# pkg/cache/scheduler/clusterqueue.go.

_INACTIVE: Mapping[str, tuple[str, str]] = {
    "Stopped": (
        "start it again (spec.stopPolicy: None)",
        """kubectl patch clusterqueue {} --type merge -p '{{"spec":{{"stopPolicy":"None"}}}}'""",
    ),
    "FlavorNotFound": (
        "create the ResourceFlavors that it names, or remove them from it",
        "kubectl get resourceflavors",
    ),
    "AdmissionCheckNotFound": (
        "create the AdmissionChecks that it names, or remove them from it",
        "kubectl get admissionchecks.kueue.x-k8s.io",
    ),
    "AdmissionCheckInactive": (
        "find out why its AdmissionChecks are not active",
        "kubectl describe admissionchecks.kueue.x-k8s.io",
    ),
    "TopologyNotFound": (
        "create the Topology of Kueue that its flavor names",
        "kubectl get topologies.kueue.x-k8s.io",
    ),
    "Terminating": (
        "wait until it is deleted, then create it again",
        "kubectl describe clusterqueue {}",
    ),
}
"""(The remedy, a command) for an inactive ClusterQueue, by the reason of its condition Active."""
_OTHER_CAUSE = ("fix the cause that its condition Active gives", "kubectl describe clusterqueue {}")


def inactive_help(queue: ClusterQueue) -> Help:
    """Return the remedy for an inactive ClusterQueue."""
    reason = queue.inactive.reason if queue.inactive else ""
    what, command = _INACTIVE.get(reason, _OTHER_CAUSE)
    return Help(
        f"Ask the platform team to repair ClusterQueue {queue.name}: {what}.",
        "platform",
        (command.format(shlex.quote(queue.name)),),
    )
