"""NVLink channels that a claim holds without need.

A node has one channel. A claim for it keeps every other pod with such a claim off the node, even if
the pods that hold it do not use it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

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
    """The node, "" if no pod of the claim is on one."""
    reason: str
    """Why the claim does not need the channel."""
    remedy: str

    @property
    def text(self) -> str:
        return f"{self.reason}, but it holds the NVLink channel of {self.node or 'a node'}"


class HeldChannels(Value):
    """The channels that are held without need, and the pods that wait for one."""

    held: Sequence[HeldChannel]
    waiting: int
    """The number of pending pods with a claim for a channel."""


def held_channels(
    claims: Sequence[ResourceClaim],
    pods: Iterable[Pod],
    domains: Iterable[ComputeDomain],
    gpus_of_nodes: Mapping[str, int],
) -> HeldChannels:
    """Return the channels that are held without need.

    `gpus_of_nodes` are the GPUs of each node, in thousandths.
    """
    living = [pod for pod in pods if not pod.finished]
    by_key = {pod.key: pod for pod in living}
    by_uid = {domain.uid: domain for domain in domains if domain.uid}
    users = Counter(
        (pod.namespace, template)
        for pod in living
        for template in {entry.template for entry in pod.claims}
    )
    held: list[HeldChannel] = []
    for claim in claims:
        if claim.allocated and CHANNEL_CLASS in claim.classes:
            own = [by_key.get((claim.namespace, consumer.name)) for consumer in claim.consumers]
            found = [pod for pod in own if pod is not None]
            domain = by_uid.get(claim.domain)
            held += _of_claim(claim, found, domain, users, gpus_of_nodes)

    templates = {(domain.namespace, domain.template) for domain in by_uid.values()}
    channels = {claim.key for claim in claims if CHANNEL_CLASS in claim.classes}
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


def _of_claim(
    claim: ResourceClaim,
    pods: Sequence[Pod],
    domain: ComputeDomain | None,
    users: Mapping[tuple[str, str], int],
    gpus_of_nodes: Mapping[str, int],
) -> Iterator[HeldChannel]:
    """Yield the first reason why a claim does not need its channel, if there is one."""
    node = next((pod.node for pod in pods if pod.node), "")

    def held(reason: str, remedy: str) -> HeldChannel:
        return HeldChannel(claim.ref, node, reason, remedy)

    if not pods:
        yield held(
            "no pod uses it any more",
            f"Delete it: kubectl delete resourceclaim {claim.name} -n {claim.namespace}",
        )
        return

    names = ", ".join(pod.name for pod in pods)
    if domain is not None and domain.held_by:
        yield held(
            f"its ComputeDomain {domain.name} is being deleted, but pod {names} still uses it",
            f"Delete the pod: kubectl delete pod {names} -n {claim.namespace}",
        )
        return

    asked = max(sum(ask for name, ask in pod.shape.requests if is_gpu(name)) for pod in pods)
    has = gpus_of_nodes.get(node, 0)
    if asked <= 1000 < has:
        amount = "no GPU" if not asked else "1 GPU"
        yield held(
            f"pod {names} requests {amount} of the {has // 1000} GPUs of its node",
            "Remove the claim from the pod template, or request all GPUs of a node in one pod.",
        )
    elif domain is not None and users.get((domain.namespace, domain.template), 0) == 1:
        yield held(
            f"pod {names} is the only pod of ComputeDomain {domain.name}, so it talks to no"
            " other node",
            "Remove the claim from the pod template, unless more pods will join this domain.",
        )
