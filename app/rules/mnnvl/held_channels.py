"""Find NVLink channels that a claim holds unnecessarily.

A node has one channel. A claim for it keeps every other pod with such a claim off the node, even if
the pods of the claim do not use the channel.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from app.base.groups import by_key as by_group
from app.base.value import Value
from app.facts.identity import Ref
from app.facts.kubernetes.claim import ResourceClaim
from app.facts.kubernetes.gpus import is_gpu
from app.facts.kubernetes.pod import Pod
from app.facts.nvidia.computedomain import ComputeDomain
from app.rules.mnnvl.claim import CHANNEL_CLASS


class HeldChannel(Value):
    """A claim that holds the channel of a node and does not need it."""

    claim: Ref
    node: str
    """The node of the channel, or "" if that is not known."""
    reason: str
    """The reason why the claim does not need the channel."""
    remedy: str
    """The remedy that frees the channel, for people."""

    @property
    def text(self) -> str:
        """The reason and the node, for people."""
        return f"holds the NVLink channel of {self.node or 'a node'}, although {self.reason}"


class HeldChannels(Value):
    """The channels that are held unnecessarily, and the number of pods that wait for a channel."""

    held: Sequence[HeldChannel]
    """The claims that hold a channel unnecessarily, sorted by node."""
    waiting: int
    """The number of pending pods with a claim for a channel."""


def held_channels(
    claims: Sequence[ResourceClaim],
    pods: Iterable[Pod],
    domains: Iterable[ComputeDomain],
    gpus_of_nodes: Mapping[str, int],
) -> HeldChannels:
    """Return the channels that are held unnecessarily, with the number of pods that wait for one.

    `gpus_of_nodes` are the GPUs of each node, in thousandths.
    """
    living = [pod for pod in pods if not pod.finished]
    by_key = {pod.key: pod for pod in living}
    naming = by_group(
        ((pod.namespace, entry.claim), pod) for pod in living for entry in pod.claims if entry.claim
    )
    by_uid = {domain.uid: domain for domain in domains if domain.uid}
    users = Counter(
        (pod.namespace, template)
        for pod in living
        for template in {entry.template for entry in pod.claims}
    )
    channels = {claim.key for claim in claims if CHANNEL_CLASS in claim.classes}
    held: list[HeldChannel] = []
    for claim in claims:
        if claim.allocated and CHANNEL_CLASS in claim.classes:
            own = [by_key.get((claim.namespace, consumer.name)) for consumer in claim.consumers]
            # a pending pod uses a claim that it names, although it does not reserve the claim yet
            waits = (pod for pod in naming.get(claim.key, ()) if not pod.node)
            found = list({pod.key: pod for pod in (*own, *waits) if pod is not None}.values())
            domain = by_uid.get(claim.domain)
            gpus = gpus_of_nodes
            if any(_asks_by_claims(pod, channels) for pod in found):
                gpus = {}
            held += _of_claim(
                claim=claim, pods=found, domain=domain, users=users, gpus_of_nodes=gpus
            )

    templates = {(domain.namespace, domain.template) for domain in by_uid.values()}
    waiting = sum(
        1
        for pod in living
        if not pod.node
        and pod.deleting is None
        and any(
            (pod.namespace, entry.template) in templates or (pod.namespace, entry.claim) in channels
            for entry in pod.claims
        )
    )
    return HeldChannels(sorted(held, key=lambda each: (each.node, each.claim)), waiting)


def _asks_by_claims(pod: Pod, channels: Container[tuple[str, str]]) -> bool:
    """Return whether a pod has claims other than channel claims, which may request GPUs."""
    names = ((pod.namespace, entry.claim) for entry in pod.claims if entry.claim)
    return any(name not in channels for name in names)


def _of_claim(
    claim: ResourceClaim,
    pods: Sequence[Pod],
    domain: ComputeDomain | None,
    users: Mapping[tuple[str, str], int],
    gpus_of_nodes: Mapping[str, int],
) -> Iterator[HeldChannel]:
    """Yield the first reason why a claim does not need its channel, if there is one."""
    # NVIDIA's driver has a pool of devices for each node, with the name of the node
    pools = (device.pool for device in claim.devices)
    node = next((pod.node for pod in pods if pod.node), next(pools, ""))

    def held(reason: str, remedy: str) -> HeldChannel:
        return HeldChannel(claim.ref, node, reason, remedy)

    if not pods and claim.deleting is not None:
        yield held(
            "no pod uses it any more and it is being deleted",
            "Ask the platform team what blocks the deletion: kubectl get resourceclaim"
            f" {claim.name} -n {claim.namespace} -o jsonpath='{{.metadata.finalizers}}'",
        )
        return

    if not pods:
        yield held(
            "no pod uses it any more",
            f"Delete it: kubectl delete resourceclaim {claim.name} -n {claim.namespace}",
        )
        return

    names = ", ".join(pod.name for pod in pods)
    if domain is not None and domain.held_by:
        pod, uses = ("pod", "uses") if len(pods) == 1 else ("pods", "use")
        yield held(
            f"its ComputeDomain {domain.name}, which {pod} {names} still {uses}, is being deleted",
            f"Delete the {pod}: kubectl delete pod"
            f" {' '.join(pod.name for pod in pods)} -n {claim.namespace}",
        )
        return

    asked = sum(ask for pod in pods for name, ask in pod.shape.requests if is_gpu(name))
    has = gpus_of_nodes.get(node, 0)
    if asked <= 1000 < has:
        amount = "1" if asked else "none"
        one = len(pods) == 1
        yield held(
            f"{'pod' if one else 'pods'} {names} {'requests' if one else 'request'} {amount} of the"
            f" {has // 1000} GPUs of {'its' if one else 'their'} node",
            "Remove the claim from the pod template, or request all GPUs of a node in one pod.",
        )
    elif domain is not None and _is_only_pod(pods, domain, users):
        yield held(
            f"pod {names} is the only pod of ComputeDomain {domain.name}, so it talks to no"
            " other node",
            "Remove the claim from the pod template, unless more pods will join this"
            " ComputeDomain.",
        )


def _is_only_pod(
    pods: Sequence[Pod], domain: ComputeDomain, users: Mapping[tuple[str, str], int]
) -> bool:
    """Return whether `pods` are one pod, and no other pod gets a claim from the domain's template.

    `users` are the numbers of pods by namespace and template.
    """
    if len(pods) != 1 or users.get((domain.namespace, domain.template), 0) != 1:
        return False
    return any(entry.template == domain.template for entry in pods[0].claims)
