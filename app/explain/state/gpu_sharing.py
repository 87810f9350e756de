"""Count the GPUs of a node that pods share, as KAI does.

See `pkg/scheduler/api/node_info/gpu_sharing_node_info.go` and `pkg/scheduler/gpu_sharing` of KAI.
Each shared GPU is a group of pods with the same label. A pod that requests parts of several GPUs
needs as many different GPUs. A GPU that no pod shares yet is taken as a whole, and then shared.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from app.base.groups import by_key
from app.base.value import Value
from app.facts.kubernetes.gpu_sharing import WITHOUT_LABEL, GpuPart, memory_of_gpus
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod

_MOST_COUNTED = 1000
"""The maximum number of pods with GPUs that are counted as fitting on a node."""


class Group(NamedTuple):
    """The memory of a shared GPU that pods use, in MiB, or in percent if its size is unknown."""

    used: int
    """The memory of all its pods, including pods that wait for others to terminate."""
    allocated: int
    """The memory of its pods, except pods that wait for others to terminate."""
    releasing: int
    """The memory of terminating pods, minus the memory that is promised to waiting pods."""


class Shares(Value):
    """The shared GPUs of a node, and their memory."""

    memory: int
    """The memory of each GPU of the node, in MiB, or 100 if no label gives it."""
    is_labelled: bool
    """Does the node have a valid label with the memory of its GPUs?"""
    groups: tuple[Group, ...] = ()
    """The use of each shared GPU."""

    @property
    def available(self) -> int:
        """The total free room on shared GPUs, in thousandths of a GPU.

        The memory of terminating pods counts as free (`AvailableSharedGPUFractions`).
        """
        left = (max(0, _left(self, group)) for group in self.groups if group.used > 0)
        return sum(1000 * memory // self.memory for memory in left) if self.memory > 0 else 0

    @property
    def most_left(self) -> float:
        """The largest free fraction of a shared GPU, or 0 if no GPU is shared."""
        left = [_left(self, group) / self.memory for group in self.groups if group.used > 0]
        return max(left, default=0.0)


class Choice(NamedTuple):
    """The GPUs that a pod gets on a node."""

    shares: Shares
    """The shared GPUs of the node afterwards."""
    whole: int
    """The number of whole GPUs that the pod turns into shared ones."""
    waits: bool
    """Whether the pod must wait for other pods to terminate."""


def without_shares(node: Node) -> Shares:
    """Return the state of a node on which no GPU is shared."""
    memory = memory_of_gpus(node.labels)
    return Shares(memory or WITHOUT_LABEL, memory is not None)


def shares_of(node: Node, pods: Iterable[Pod], is_releasing: Callable[[Pod], bool]) -> Shares:
    """Return the shared GPUs of `node`, and how `pods` use them.

    Background pods do not count.
    """
    empty = without_shares(node)
    sharing = (pod for pod in pods if pod.shape.part and not pod.background)
    members = by_key((name, pod) for pod in sharing for name in pod.gpu_groups)
    groups = []
    for _, pods_of_gpu in sorted(members.items()):
        asks = [
            (pod.shape.part.memory_of_each(empty.memory), is_releasing(pod))
            for pod in pods_of_gpu
            if pod.shape.part
        ]
        used = sum(ask for ask, _ in asks)
        groups.append(Group(used, used, sum(ask for ask, ends in asks if ends)))
    return Shares(empty.memory, empty.is_labelled, tuple(groups))


def is_possible(shares: Shares, part: GpuPart) -> bool:
    """Return whether KAI accepts `part` for GPUs of this memory (`isValidGpuPortion`)."""
    if not part.memory:
        return True
    share = part.share_of_each(shares.memory)
    return shares.is_labelled and (share <= 1 or share.is_integer())


def fitting(shares: Shares, part: GpuPart) -> list[int]:
    """Return the positions of the shared GPUs with room for `part`, fullest first (`gpupack`)."""
    ask = part.memory_of_each(shares.memory)
    fits = [
        position
        for position, group in enumerate(shares.groups)
        if group.used
        and _left(shares, group) >= ask
        and group.allocated != group.releasing  # otherwise, the whole GPU becomes free
    ]
    return sorted(fits, key=lambda position: (-shares.groups[position].used, position))


def attracts(shares: Shares) -> bool:
    """Return whether KAI prefers the node for pods that request no GPU (`gpusharingorder`)."""
    return any(
        group.used and _left(shares, group) >= 0 and group.allocated != group.releasing
        for group in shares.groups
    )


def _left(shares: Shares, group: Group) -> int:
    return shares.memory - group.allocated + group.releasing


def choice_of(shares: Shares, part: GpuPart, whole: int, *, is_idle: bool) -> Choice | None:
    """Return the GPUs of a node that a pod with `part` gets, or None if it cannot get them.

    `whole` is the number of whole GPUs that are free or will be. If `is_idle` is false, the pod
    waits in any case, for another resource of the node.
    """
    if not is_possible(shares, part):
        return None
    ask = part.memory_of_each(shares.memory)
    chosen = fitting(shares, part)[: part.devices]
    fresh = part.devices - len(chosen)
    if fresh > whole:
        return None

    groups = list(shares.groups)
    waits = not is_idle or any(
        shares.memory - groups[position].allocated < ask for position in chosen
    )
    for position in chosen:
        used, allocated, releasing = groups[position]
        groups[position] = (
            Group(used + ask, allocated, releasing - ask)
            if waits
            else Group(used + ask, allocated + ask, releasing)
        )
    new = Group(ask, 0, -ask) if waits else Group(ask, ask, 0)
    groups += itertools.repeat(new, fresh)
    return Choice(Shares(shares.memory, shares.is_labelled, tuple(groups)), fresh, waits)


def capacity_for(shares: Shares, part: GpuPart, whole: int, most: int) -> int:
    """Return the number of pods with `part` that fit on the GPUs of a node now, at most `most`.

    If the pods request GPUs, the result is at most _MOST_COUNTED too.
    """
    count = 0
    while count < min(most, _MOST_COUNTED):
        choice = choice_of(shares, part, whole, is_idle=True)
        if not choice or choice.waits:
            break
        shares = choice.shares
        whole -= choice.whole
        count += 1
        if not part.devices:
            return most
    return count


def postponed(before: Shares, after: Shares) -> Shares:
    """Return `after` as if the pods that were placed since `before` waited for room."""
    groups = []
    for position, (used, allocated, releasing) in enumerate(after.groups):
        had = before.groups[position].allocated if position < len(before.groups) else 0
        groups.append(Group(used, had, releasing - (allocated - had)))
    return Shares(after.memory, after.is_labelled, tuple(groups))
