"""Whether KAI asks for more room under a topology constraint than the pods under it need.

Under any constraint, KAI looks for a domain with room for the number of pods times the largest of
them, resource by resource. Only if some of them ask for a device that others don't ask for, it adds
up what they ask for.

Source: `useRepresentorPodsAccounting` in
https://github.com/kai-scheduler/KAI-Scheduler/blob/d5bc503a/pkg/scheduler/plugins/topology/job_filtering.go
"""

from collections.abc import Iterable

from app.facts.kubernetes.requests import Requests

_NO_DEVICES = ("cpu", "memory", "pods")


def are_counted_exactly(requests: Iterable[Requests]) -> bool:
    """Return whether KAI asks for no more room than pods with `requests` need.

    It must also hold for any part of the pods, because KAI counts only those that it places: all
    pods with the same devices must ask for the same.
    """
    distinct = set(requests)
    devices = {_devices(asked) for asked in distinct}
    return len(distinct) == len(devices)


def _devices(requests: Requests) -> frozenset[str]:
    return frozenset(name for name, _ in requests if name not in _NO_DEVICES)
