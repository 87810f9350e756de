"""Find the workloads that hold the room a gang needs, and say how the room becomes free."""

from collections.abc import Iterable, Sequence

from app.base.groups import by_key
from app.base.sentences import lower_first, upper_first
from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.reasons.reason import (
    Who,
    ago,
    counted,
    listed,
    removal_of,
)
from app.explain.state.amounts import PREFIX
from app.explain.state.index import Index
from app.facts.identity import Ref
from app.facts.kinds import LEADER_WORKER_SET, RAY_SERVICE
from app.facts.kubernetes.claim import Consumer, ResourceClaim
from app.facts.kubernetes.pod import Pod

_OF_KUBEFLOW = {"MPIJob", "PyTorchJob", "TFJob", "JAXJob", "PaddleJob", "XGBoostJob"}
_ENDING = {
    *_OF_KUBEFLOW,
    "Job",
    "CronJob",
    "JobSet",
    "RayJob",
    "TrainJob",
    "Workflow",
    "SparkApplication",
}
"""The kinds of workloads whose pods end when their work is done."""
_LASTING = {
    "Deployment",
    "DynamoGraphDeployment",
    "ReplicaSet",
    "StatefulSet",
    "LeaderWorkerSet",
    "PodClique",
    "PodCliqueSet",
    "RayCluster",
    "Notebook",
    "ReplicationController",
}
"""The kinds of workloads and controllers that replace pods that end."""
OF_NODES = {"DaemonSet", "Node"}
"""The kinds of controllers whose pods belong to a node. The Node controls its static pods."""
_STUCK = 300.0
"""The seconds after which a pod that has a node and has not started counts as stuck."""
_LONG = 60.0
"""The minimum age in seconds that is shown."""
MOST = 2
"""The maximum number of workloads, or of terminating pods, that a remedy names."""


class Holder(Value):
    """A workload whose pods hold room that a gang needs."""

    ref: Ref
    """The workload, or else the PodGroup or the pod."""
    pods: tuple[Pod, ...]
    """The pods that hold the room."""

    def words(self, gang: Gang) -> str:
        """Return a text such as `Job research/sweep (4 pods, there for 3 hours)`.

        The namespace is omitted if it is also the gang's, and the age if it is below a minute.
        """
        name = f"{self.ref.namespace}/{self.ref.name}"
        if self.ref.namespace == gang.namespace:
            name = self.ref.name
        times = [pod.created for pod in self.pods if pod.created is not None]
        now = gang.facts.now
        age = now - min(times) if times and now else 0.0
        since = f", there for {ago(age)}" if age >= _LONG else ""
        return f"{self.ref.kind} {name} ({counted(self.pods, 'pod')}{since})"

    @property
    def lasts(self) -> bool:
        """Is its controller known to replace pods that end?"""
        return self.ref.kind in _LASTING

    @property
    def ends(self) -> bool:
        """Are its pods known to end when their work is done?"""
        return self.ref.kind in _ENDING


def holders_of(gang: Gang, pods: Iterable[Pod]) -> list[Holder]:
    """Return the workloads of pods that hold room, most pods first."""
    groups = by_key((workload_of(pod), pod) for pod in pods)
    found = [Holder(ref, tuple(own)) for ref, own in groups.items()]
    return sorted(found, key=lambda holder: (-len(holder.pods), holder.ref))


def workload_of(pod: Pod) -> Ref:
    """Return the PodCliqueSet of a pod, or else its controller, its PodGroup, or the pod itself.

    Instead of a ReplicaSet or a LeaderWorkerSet's StatefulSet, return the workload that people
    scale, such as the Deployment.
    """
    if pod.place.pcs:
        return Ref("PodCliqueSet", pod.namespace, pod.place.pcs)
    if pod.controller and pod.controller.kind == "ReplicaSet" and pod.made_for:
        return pod.made_for[0]
    if pod.controller and pod.controller.kind == "StatefulSet" and pod.made_for:
        return pod.leader_worker_set or pod.controller
    if pod.controller:
        return pod.controller
    return Ref("PodGroup", pod.namespace, pod.group) if pod.group else pod.ref


def is_kin(gang: Gang, pod: Pod) -> bool:
    """Return whether a pod belongs to the same workload as a gang.

    Pods of one LeaderWorkerSet are also recognized by the names of its StatefulSets, such as `vllm`
    for the leaders and `vllm-0` for the workers of a group. The RayClusters of a RayService are one
    workload.
    """
    if pod.namespace != gang.namespace:
        return False
    if gang.pcs:
        return pod.place.pcs == gang.pcs.name
    owners = {own.owner for own in gang.pods if own.owner}
    if pod.owner in owners or workload_of(pod) in {workload_of(own) for own in gang.pods}:
        return True
    if _services(gang.pods).intersection(pod.made_for):
        return True
    sets = {
        own.controller.name
        for own in gang.pods
        if own.controller and own.controller.kind in ("StatefulSet", "LeaderWorkerSet")
    }
    if not sets or not pod.controller:
        return False
    if pod.controller.kind not in ("StatefulSet", "LeaderWorkerSet"):
        return False
    stems = {_stem(name) for name in sets}
    return pod.name in sets or _stem(pod.controller.name) in stems


def _services(pods: Iterable[Pod]) -> set[Ref]:
    """Return the RayServices for which pods were created."""
    return {ref for pod in pods for ref in pod.made_for if ref.kind == RAY_SERVICE.kind}


def _stem(name: str) -> str:
    """Return a name without the numbers at its end: `vllm` for `vllm-0-1`."""
    while name and name[-1].isdecimal():
        before = name.rstrip("0123456789")
        if not before.endswith("-"):
            break
        name = before[:-1]
    return name


def is_abandoned(index: Index, claim: ResourceClaim) -> bool:
    """Return whether all pods for which a claim is reserved are gone."""
    users = [pod_of_consumer(index, claim, user) for user in claim.consumers]
    return bool(users) and not any(users)


def pod_of_consumer(index: Index, claim: ResourceClaim, user: Consumer) -> Pod | None:
    """Return the pod that `claim` is reserved for, or None if it is gone.

    A pod with its name and another uid is a later one.
    """
    pod = index.pods.get((claim.namespace, user.name))
    is_later = pod is not None and user.uid and pod.uid and pod.uid != user.uid
    return None if is_later else pod


_OF_MANAGER = "ask the platform team to read the log of kube-controller-manager"
WAIT_FOR_RELEASE = (
    "Wait a minute: Kubernetes removes the reservation of a pod that is gone. If the reservation"
    f" stays, {_OF_MANAGER}"
)
_MOST_RELEASING = 300.0
"""The seconds after which a deleted claim should no longer be reserved for pods that are gone."""


def release_of(claims: Iterable[ResourceClaim], now: float) -> str:
    """Return the remedy for claims whose pods are gone."""
    deleted = [claim.deleting for claim in claims if claim.deleting is not None]
    were = "the claim was" if len(deleted) == 1 else "the claims were"
    longest = now - min(deleted, default=now)
    if longest < _MOST_RELEASING:
        return WAIT_FOR_RELEASE
    return (
        f"{upper_first(_OF_MANAGER)}: it should remove the reservations of pods that are gone, and"
        f" has not done so since {were} deleted {ago(longest)} ago"
    )


def _claims_remedy(gang: Gang) -> str:
    """Return the remedy if claims hold the devices, and none of their pods is known."""
    abandoned = [
        claim
        for claim in gang.index.facts.claims
        if any(device.driver.startswith(PREFIX) for device in claim.devices)
        if is_abandoned(gang.index, claim)
    ]
    if not abandoned:
        return (
            "Ask the platform team for more nodes, or find out which ResourceClaims hold the"
            " devices: kubectl get resourceclaims -A"
        )
    names = listed((f"{claim.namespace}/{claim.name}" for claim in abandoned), MOST)
    hold = f"ResourceClaim {names} holds" if len(abandoned) == 1 else f"ResourceClaims {names} hold"
    return f"{release_of(abandoned, gang.facts.now)}. {hold} devices for pods that are gone"


def freeing_remedies(
    gang: Gang, pods: Sequence[Pod], missing: int, where: str = ""
) -> tuple[list[str], Who]:
    """Return the remedies that free the room held by `pods`, and who can act.

    `missing` is the number of pods of the gang without room. `where` is the domain in which room is
    needed, such as ` in rack-a1`, or "".
    """
    own = {pod.key for pod in gang.pods}
    pods = [pod for pod in pods if pod.key not in own] or pods
    # KAI's helper pods don't count: the pods that share a GPU hold it, and scaling pods end soon.
    pods = [pod for pod in pods if not pod.is_helper] or pods
    # Pods of DaemonSets and static pods belong to their node, so they can't be scaled down.
    scalable = [pod for pod in pods if not pod.controller or pod.controller.kind not in OF_NODES]
    if pods and not scalable:
        daemons = holders_of(gang, pods)
        names = listed((str(holder.ref) for holder in daemons), MOST)
        return [
            "Request less per pod, or ask the platform team for larger nodes:"
            f" {names} {'holds' if len(daemons) == 1 else 'hold'} the room"
        ], "you"
    pods = scalable
    holders = holders_of(gang, pods)
    if not holders:
        # No known pod holds the room, so claims of unknown pods may hold the devices.
        return [_claims_remedy(gang)], "platform"

    kin = [pod for pod in pods if is_kin(gang, pod)]
    if kin and len(kin) == len(pods):
        return [_kin_remedy(gang, kin)], "you"
    if kin and not gang.pcs:
        deadlocked = [holder for holder in holders if _is_incomplete(gang, holder)]
        if deadlocked and len(deadlocked) == len(holders):
            return [_mutual_wait_remedy(gang, deadlocked)], "you"
        pods = [pod for pod in pods if pod not in kin]
        holders = holders_of(gang, pods)

    stuck = [pod for pod in pods if _is_stuck(gang, pod)]
    if stuck and len(stuck) * 2 > len(pods):
        return [_stuck_remedy(gang, stuck)], "you"

    room = f"room for {missing} more pod{'s' if missing > 1 else ''} is free{where}"
    ending = [pod for pod in pods if pod.deleting is not None]
    if ending and len(ending) == len(pods):
        return _ending_remedy(gang, ending, room)
    lasting = [holder for holder in holders if holder.lasts]
    others = [holder for holder in holders if not holder.lasts]
    helps: list[str] = []
    if others:
        names = listed((holder.words(gang) for holder in others), MOST)
        is_one = len(others) == 1
        wait = f"Wait until {names} ends and {room}"
        if not is_one:  # Not all of them have to end.
            wait = f"Wait until {room}: {names} hold it"
        if not all(holder.ends for holder in others):
            wait += (
                ". If it runs indefinitely, ask its owner to stop it"
                if is_one
                else ". If they run indefinitely, ask their owners to stop them"
            )
        helps.append(wait)
    if lasting:
        names = listed((holder.words(gang) for holder in lasting), MOST)
        owners = "owner" if len(lasting) == 1 else "owners"
        helps.append(
            f"Ask the {owners} of {names} to scale down: the pods{where} do not end by themselves"
        )
    return helps, "wait" if others else "you"


NEEDS_ALL = {*_OF_KUBEFLOW, "LeaderWorkerSet"}
"""The kinds of workloads that start their work only once all of their pods run."""


def _is_incomplete(gang: Gang, holder: Holder) -> bool:
    """Return whether a workload needs all of its pods, and some of them are pending."""
    if holder.ref.kind not in NEEDS_ALL:
        return False
    pending = gang.index.remembered("pending workloads", lambda: _pending(gang), ["pods"])
    return holder.ref in pending


def _pending(gang: Gang) -> set[Ref]:
    return {workload_of(pod) for pod in gang.facts.pods if pod.is_alive and not pod.node}


def _mutual_wait_remedy(gang: Gang, holders: Sequence[Holder]) -> str:
    """Return the remedy for workloads that each wait for room which the others hold."""
    names = listed((str(holder.ref) for holder in holders), MOST)
    return (
        f"Delete or suspend one of {names}: each has some of its pods on these nodes and waits for"
        " room that the others hold, so none of them ends. Let the pods of each workload start as"
        " one gang"
    )


def _kin_remedy(gang: Gang, kin: Sequence[Pod]) -> str:
    """Return the remedy for room that only pods of the gang's own workload hold."""
    holder = holders_of(gang, kin)[0]
    names = listed(sorted(pod.name for pod in kin), 4)
    holds, does, ends, they = "hold", "do", "end", "they"
    if len(kin) == 1:
        holds, does, ends, they = "holds", "does", "ends", "it"
    is_deployment = holder.ref.kind == "Deployment"
    if is_deployment and not {pod.owner for pod in gang.waiting} & {pod.owner for pod in kin}:
        return (
            f"Set spec.strategy.type: Recreate, or maxSurge: 0, in {holder.ref}: {names} of its"
            f" previous revision {holds} the room until new pods are ready"
        )
    services = _services(kin)
    if services and holder.ref not in {workload_of(pod) for pod in gang.waiting}:
        service = min(services)
        return (
            "Ask the platform team for more nodes, or delete"
            f" {service} and create it again if it may be down meanwhile: {holder.ref} holds the"
            " room until the RayCluster of the upgrade is ready"
        )
    smaller = " or smaller groups" if holder.ref.kind == LEADER_WORKER_SET.kind else ""
    less = f"Use fewer replicas{smaller} of {holder.ref}"
    if holder.ref.kind == "Job":
        less = f"Lower spec.parallelism of {holder.ref}"
    less += ", or ask the platform team for more nodes"
    if holder.ends and holder.ref.kind not in NEEDS_ALL:
        remedy = (
            f"Wait until {names} of the same workload {ends}, if {they} can end without the pending"
            f" pods. If not, {lower_first(less)}"
        )
    else:
        lasts = f" and {does} not end" if holder.lasts else ""
        remedy = f"{less}: {names} of the same workload {holds} the room{lasts}"
    if is_deployment:
        return remedy
    return (
        f"{remedy}. If the pods need each other, have them scheduled as one gang, so that none"
        " starts alone"
    )


_ENDS_WITHIN = 120.0
"""The seconds after its grace period within which a terminating pod is usually gone."""


def is_late(pod: Pod, now: float) -> bool:
    """Return whether a pod is terminating and should be gone by now."""
    return pod.deleting is not None and now - pod.deleting > _ENDS_WITHIN


def finalizers_that_keep(pods: Iterable[Pod], now: float) -> list[str]:
    """Return the finalizers of terminating pods that should be gone by now.

    Before that, finalizers are normal: the pods of a Job have one until they have ended.
    """
    return sorted({name for pod in pods if is_late(pod, now) for name in pod.finalizers})


def _ending_remedy(gang: Gang, ending: Sequence[Pod], room: str) -> tuple[list[str], Who]:
    """Return the remedies for room that only terminating pods hold, and who can act."""
    now = gang.facts.now
    names = listed(sorted(f"{pod.namespace}/{pod.name}" for pod in ending), MOST)
    first = min(pod.deleted or 0.0 for pod in ending)
    since = ago(now - first) if now > first else "a moment"
    finalizers = finalizers_that_keep(ending, now)
    if finalizers:
        remove = removal_of(finalizers)
        return [f"{remove} from {names}, terminating for {since}"], "platform"
    if any(is_late(pod, now) for pod in ending):
        does = "does" if len(ending) == 1 else "do"
        return [
            f"Ask the platform team why {names}, terminating for {since}, {does} not end:"
            f" kubectl describe pod -n {ending[0].namespace} {ending[0].name}"
        ], "platform"
    is_gone = "is gone" if len(ending) == 1 else "are gone"
    return [f"Wait until {names}, terminating for {since}, {is_gone} and {room}"], "wait"


def _is_stuck(gang: Gang, pod: Pod) -> bool:
    """Return whether a pod has had a node for more than `_STUCK` and has not started."""
    return pod.bound is not None and gang.facts.now - pod.bound > _STUCK


def _stuck_remedy(gang: Gang, stuck: Sequence[Pod]) -> str:
    """Return the remedy for room that pods hold which have a node but do not start."""
    first = min(stuck, key=lambda pod: pod.bound or 0.0)
    since = ago(gang.facts.now - (first.bound or 0.0))
    return (
        f"Ask the owner of pod {first.namespace}/{first.name} why the pod, which has had a node for"
        f" {since}, does not start: grove-admission explain pod/{first.name} -n {first.namespace}"
    )


def together(*helps: str) -> str:
    """Return alternative remedies as one text, such as `Do this. Or do that`."""
    first, *others = helps or ("",)
    return ". Or ".join([first, *map(lower_first, others)])
