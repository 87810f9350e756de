"""Choose the pods that KAI evicts for a gang, among all pods that it may evict.

KAI adds pods one after the other until the gang fits, and then leaves those running that the gang
does not need. See `pkg/scheduler/actions/common/solvers` of KAI.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence

from app.base.groups import by_key
from app.explain.gangs.core import surplus_of
from app.explain.state.index import Index
from app.explain.state.min_runtimes import spared_from_preemption
from app.explain.state.queues import priority_of
from app.facts.kubernetes.pod import Pod

_MOST_SPARED = 16
"""The maximum number of steps of KAI that are examined for pods that the gang does not need."""


def fewest(
    index: Index, pods: Sequence[Pod], is_enough: Callable[[Sequence[Pod]], bool]
) -> Sequence[Pod]:
    """Return the pods that KAI should evict, or () if even all of `pods` are not enough.

    `is_enough` says whether the gang can be placed without some pods.
    """
    if not is_enough(pods):
        return ()
    steps = list(_steps(index, pods))

    def taken(count: int) -> list[Pod]:
        return [pod for step in steps[:count] for pod in step]

    count = bisect_left(range(len(steps)), True, key=lambda at: is_enough(taken(at)))
    chosen = taken(count)
    for step in steps[:count][-_MOST_SPARED - 1 : -1]:
        spared = [pod for pod in chosen if pod not in step]
        if is_enough(spared):
            chosen = spared
    return chosen


def _steps(index: Index, pods: Collection[Pod]) -> Iterator[Sequence[Pod]]:
    """Yield the pods that KAI evicts in one step, in its order.

    The lowest priority comes first. Of equal priority, pods beyond the minimum of their gang come
    first, one by one, then whole gangs, the newest first. Gangs that a minimum runtime still spares
    come last.
    """
    steps = []
    for name, own in by_key(((pod.namespace, pod.group), pod) for pod in pods).items():
        group = index.pod_groups[name]
        priority = priority_of(index, group.priority_class)
        newest = -(group.created or 0.0)
        beyond = {pod.key for pod in surplus_of(index, group)}
        for pod in own:
            if pod.key in beyond:
                age = -(pod.created or 0.0)
                steps.append((False, priority, False, newest, age, pod.key, [pod]))
        core = [pod for pod in own if pod.key not in beyond]
        if core:
            is_spared = spared_from_preemption(index, group) > 0
            steps.append((is_spared, priority, True, newest, 0.0, name, core))
    for *_, step in sorted(steps, key=lambda each: each[:-1]):
        yield step
