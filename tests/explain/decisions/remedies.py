"""Carries out what explain says that helps, literally, on the objects of a recording."""

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

from app.explain.reasons.reason import Reason
from tests.explain.decisions.recording import Recording

Object = dict[str, Any]
POOL = "kai.scheduler/node-pool"
LEVELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/block",
    "topology.kubernetes.io/rack",
    "net/spine",
    "net/leaf",
    "kubernetes.io/hostname",
)
_FIELDS = {"required": "requiredTopologyLevel", "preferred": "preferredTopologyLevel"}


class Cluster:
    """The objects of a recording, to be changed."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.items: list[Object] = copy.deepcopy(recording.items)
        self._own = {pod.uid for pod in _gang_pods(recording)}

    def of(self, kind: str) -> list[Object]:
        """The objects of one kind."""
        return [item for item in self.items if item["kind"] == kind]

    def is_own(self, pod: Object) -> bool:
        """Whether a pod belongs to what was asked about."""
        return pod["metadata"].get("uid") in self._own

    def delete_pods(self, chosen: Callable[[Object], bool]) -> None:
        """Delete pods of others."""
        self.items = [
            item
            for item in self.items
            if item["kind"] != "Pod" or self.is_own(item) or not chosen(item)
        ]

    def constraints(self, parts: tuple[str, ...]) -> Iterator[Object]:
        """The constraints of some parts, as KAI is told them; without parts, those of all."""
        for group in self.of("PodGroup"):
            if group["metadata"]["name"] in self.groups():
                yield from _named(group["spec"], group["metadata"]["name"], parts, "subGroups")
        for gang in self.of("PodGang"):
            spec = gang["spec"]
            whole = {"topologyConstraint": spec.get("topologyConstraint")}
            yield from _packs(whole, gang["metadata"]["name"], parts)
            for part in (*spec["podgroups"], *spec.get("topologyConstraintGroupConfigs", ())):
                yield from _packs(part, part["name"], parts)

    def groups(self) -> set[str]:
        """The names of the PodGroups of what was asked about."""
        return {
            pod["metadata"].get("annotations", {}).get("pod-group-name", "")
            for pod in self.of("Pod")
            if self.is_own(pod)
        }


def _gang_pods(recording: Recording) -> list[Any]:
    answer = recording.answer(recording.items)
    names = {branch.ref.name for branch in _branches(answer.tree) if branch.ref.kind == "Pod"}
    pods = [item for item in recording.items if item["kind"] == "Pod"]
    return [
        _Pod(pod["metadata"].get("uid"))
        for pod in pods
        if pod["metadata"]["name"] in names
        and pod["metadata"].get("namespace") == recording.document["namespace"]
    ]


class _Pod:
    def __init__(self, uid: str) -> None:
        self.uid = uid


def _branches(branch: Any) -> Iterator[Any]:
    yield branch
    for child in branch.children:
        yield from _branches(child)


def _named(spec: Object, name: str, parts: tuple[str, ...], below: str) -> Iterator[Object]:
    for part, holder in ((name, spec), *((sub["name"], sub) for sub in spec.get(below, ()))):
        if (not parts or part in parts) and holder.get("topologyConstraint"):
            yield holder["topologyConstraint"]


def _packs(holder: Object, name: str, parts: tuple[str, ...]) -> Iterator[Object]:
    pack = (holder.get("topologyConstraint") or {}).get("packConstraint")
    if pack and (not parts or name in parts):
        yield pack


def alternatives(reason: Reason) -> list[str]:
    """Return what a remedy offers, each by itself."""
    return re.split(
        r"(?:, or|\. Or) (?=wait|ask the owner|require|restart|leave|use node pool)", reason.remedy
    )


def carry_out(cluster: Cluster, reason: Reason, words: str) -> bool:
    """Do what one alternative says. False if it leaves open what exactly to do."""
    known = False
    for step in re.split(r", and |\. (?=Then|The gang then)", words):
        known = _carry_out_step(cluster, reason, step) or known
    return known


def _carry_out_step(cluster: Cluster, reason: Reason, words: str) -> bool:
    for pattern, act in ACTIONS:
        match = re.search(pattern, words, re.IGNORECASE)
        if match is not None:
            act(cluster, reason, match)
            return True
    return False


def _others_end(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    path = (match["domain"] or "").split("/") if match["domain"] else []
    inside = {
        node["metadata"]["name"] for node in cluster.of("Node") if set(path) <= set(_path_of(node))
    }
    cluster.delete_pods(lambda pod: pod["spec"].get("nodeName") in inside)


def _path_of(node: Object) -> list[str]:
    labels = node["metadata"].get("labels", {})
    return [labels[key] for key in LEVELS if key in labels]


def _evict(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    groups = set(re.findall(r"pods? of (\S+?)(?:,| and |$)", match["who"]))
    cluster.delete_pods(
        lambda pod: pod["metadata"].get("annotations", {}).get("pod-group-name") in groups
    )


def _open_nodes(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    names = {ref.name for ref in reason.objects}
    for node in cluster.of("Node"):
        if node["metadata"]["name"] in names:
            node.get("spec", {}).pop("unschedulable", None)
            node.get("spec", {}).pop("taints", None)
            node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]


def _key(level: str) -> str:
    return next((key for key in LEVELS if key.endswith(f"/{level}")), LEVELS[-1])


def _wider(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    for constraint in cluster.constraints(reason.parts):
        for name in ("required", _FIELDS["required"]):
            if constraint.get(name) in (_key(match["narrow"]), match["narrow"]):
                constraint[name] = _key(match["wide"])


def _drop(constraint: Object, which: str) -> None:
    constraint.pop(which, None)
    constraint.pop(_FIELDS[which], None)
    if not {"required", "preferred", *_FIELDS.values()} & constraint.keys():
        constraint.clear()


def _drop_preferred(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    for constraint in cluster.constraints(reason.parts):
        _drop(constraint, "preferred")


def _drop_all(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    parts = () if match["all"] else reason.parts
    for constraint in cluster.constraints(parts):
        constraint.clear()


def _prefer(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    for constraint in cluster.constraints(() if match["each"] else reason.parts):
        name = "preferred" if "required" in constraint else _FIELDS["preferred"]
        constraint.setdefault(name, _key(match["level"]))


def _restart(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    for pod in cluster.of("Pod"):
        if cluster.is_own(pod):
            pod["spec"].pop("nodeName", None)
            pod["status"] = {"phase": "Pending"}


def _others_gone_without_domain(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    cluster.delete_pods(lambda pod: bool(pod["spec"].get("nodeName")))


def _gone_and_restarted(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    _others_gone_without_domain(cluster, reason, match)
    _restart(cluster, reason, match)


def _smaller(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    for pod in cluster.of("Pod"):
        if cluster.is_own(pod):
            pod["spec"].pop("resourceClaims", None)
            for container in _containers(pod):
                container["resources"] = {"requests": {"cpu": "1m", "memory": "1Mi"}}


def _containers(pod: Object) -> list[Object]:
    return [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]


def _more_pods(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    for node in cluster.of("Node"):
        node["status"]["allocatable"]["pods"] = "110"


def _label_claim(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    for claim in cluster.of("ResourceClaim"):
        if claim["metadata"]["name"] in {ref.name for ref in reason.objects}:
            claim["metadata"]["labels"] = {"kai.scheduler/queue": match["queue"]}


def _new_claim(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    for claim in cluster.of("ResourceClaim"):
        if claim["metadata"]["name"] in {ref.name for ref in reason.objects}:
            claim.pop("status", None)


def _open_all(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    for node in cluster.of("Node"):
        node.get("spec", {}).pop("unschedulable", None)
        node.get("spec", {}).pop("taints", None)
        node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]


def _ask_less(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    for pod in cluster.of("Pod"):
        if cluster.is_own(pod):
            for container in pod["spec"]["containers"]:
                container["resources"]["requests"][match["what"].lower()] = "1m"


def _queue_empties(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    """End all that uses what a queue may have."""
    cluster.delete_pods(lambda pod: True)


def _raise_limit(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    for queue in cluster.of("Queue"):
        queue["spec"]["resources"]["gpu"]["limit"] = -1


def _preemptible(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    for group in cluster.of("PodGroup"):
        group["spec"]["preemptibility"] = "preemptible"


def _select(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    key, value = match["label"].split("=", 1)
    for pod in cluster.of("Pod"):
        if cluster.is_own(pod) and pod["spec"].get("nodeSelector"):
            pod["spec"]["nodeSelector"][key] = value


def _label_alike(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    """Give all nodes the labels that are selected, and room."""
    selectors = [
        pod["spec"].get("nodeSelector", {}) for pod in cluster.of("Pod") if cluster.is_own(pod)
    ]
    cluster.delete_pods(lambda pod: True)
    for node in cluster.of("Node"):
        for labels in selectors:
            node["metadata"]["labels"] |= labels
        node["status"]["allocatable"] |= {"nvidia.com/gpu": "64", "cpu": "1k"}
    _open_all(cluster, reason, match)


def _select_all(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    for pod in cluster.of("Pod"):
        if cluster.is_own(pod):
            pod["spec"].pop("nodeSelector", None)


def _into_pool(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    for group in cluster.of("PodGroup"):
        if group["metadata"]["name"] in cluster.groups():
            group["metadata"].setdefault("labels", {})["kai.scheduler/node-pool"] = match["pool"]
    for queue in cluster.of("Queue"):
        queue["metadata"].setdefault("labels", {})["kai.scheduler/node-pool"] = match["pool"]


def _out_of_pool(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    for group in cluster.of("PodGroup"):
        if group["metadata"]["name"] in cluster.groups():
            group["metadata"].get("labels", {}).pop(POOL, None)


def _nodes_in_pool(cluster: Cluster, reason: Reason, match: re.Match[str]) -> None:
    """Put all nodes into the pool of the workload, or into none."""
    groups = [g for g in cluster.of("PodGroup") if g["metadata"]["name"] in cluster.groups()]
    pool = next((g["metadata"].get("labels", {}).get(POOL, "") for g in groups), "")
    for node in cluster.of("Node"):
        labels = node["metadata"].setdefault("labels", {})
        labels.pop(POOL, None)
        if pool:
            labels[POOL] = pool


ACTIONS: tuple[tuple[str, Callable[[Cluster, Reason, re.Match[str]], None]], ...] = (
    (r"KAI may preempt (?P<who>.+)", _evict),
    (
        r"^[Ww]ait until (?:.+ and )?room for \d+ more pods? is free(?: in (?P<domain>[^\s;:]+?))?"
        r"(?:;|: |\. If |$)",
        _others_end,
    ),
    (
        r"^[Aa]sk the owners? of .+ to scale down: the pods(?: in (?P<domain>\S+))? do not end",
        _others_end,
    ),
    (r"^Use fewer replicas of .+ holds? the room", _others_gone_without_domain),
    (r"still has to (?:become free there|wait for room)$", _others_gone_without_domain),
    (r'[Rr]equire "(?P<wide>\w+)" instead of "(?P<narrow>\w+)"', _wider),
    (
        r"remove the preferred level|prefer no level",
        _drop_preferred,
    ),
    (r"remove (?:the constraint of|(?P<all>all constraints))", _drop_all),
    (
        r"add (?P<level>\w+) as the preferred level(?P<each> wherever a level is required)?",
        _prefer,
    ),
    (
        r"(?i)uncordon [a-z0-9]|repair (?!the nodes)[a-z0-9]|add the tolerations? .+ to the pod template",
        _open_nodes,
    ),
    (r"uncordon, untaint or repair the nodes", _open_all),
    (r"^Request less (?P<what>\w+) per pod", _ask_less),
    (r"^Restart the gang .*once another domain has room", _gone_and_restarted),
    (r"[Rr]estart the gang", _restart),
    (r"raise maxPods in the kubelet configuration", _more_pods),
    (
        r"^Request (?:MIG devices of )?at most|^Use smaller|use smaller or fewer pods|^Use pods of one size",
        _smaller,
    ),
    (r"label the claim with queue (?P<queue>\S+), if", _label_claim),
    (r"delete .*the claim: grove-admission creates a new one", _new_claim),
    (r"delete (?:the claim and create it|.+: the claim can then be)", _new_claim),
    (r"ask for a higher limit on queue", _raise_limit),
    (r"^request at most", _smaller),
    (r"^wait until \S+/\S+ (?:, \S+/\S+ )*.*ends?$", _queue_empties),
    (r"have the limit raised", _raise_limit),
    (r"make the workload preemptible", _preemptible),
    (r"^Correct the nodeSelector or the node affinity, or ask", _label_alike),
    (r"correct the selector$", _select_all),
    (r"^Remove the selector .+ if the pods may run elsewhere", _select_all),
    (r"[Cc]orrect the selector \(nodes have (?P<label>\S+?)\)", _select),
    (r"^Remove the label kai.scheduler/node-pool from .+, and use a queue", _out_of_pool),
    (r"^Label the workload and its PodGroup kai.scheduler/node-pool=(?P<pool>[^,]+)", _into_pool),
    (r"^Ask the platform team for nodes", _nodes_in_pool),
    (r'[Uu]se node pool "(?P<pool>.+)" and a queue in it', _into_pool),
)
