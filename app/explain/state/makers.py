"""Find workloads without pods, and the events and Kueue Workloads that say why.

Workloads such as Jobs are not listed from the API server. They are found through their pods, their
events and Kueue's Workloads.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from app.base.groups import by_key
from app.explain.state.index import Index
from app.facts.identity import Key, Ref
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.kueue import KueueWorkload
from app.facts.workload_of_pod import WORKLOAD_KINDS, without_hash
from app.objects.names import MAX_SUBDOMAIN

REPEATED_WITHIN = 1200.0
"""The seconds after which an event no longer shows that a controller cannot create pods.

Controllers that still can't create pods write the next event earlier. They back off for at most
1,000 seconds (ReplicaSet) or 10 minutes (Job).
"""
_KINDS = {resource.kind for resource in WORKLOAD_KINDS}


def _ends_like_job_of_set(added: str) -> bool:
    return added.startswith("-") and added.count("-") > 1 and added.rpartition("-")[2].isdecimal()


_NAMES: Mapping[tuple[str, str], Callable[[str], bool]] = {
    ("Deployment", "ReplicaSet"): lambda added: added.startswith("-") and added.count("-") == 1,
    ("LeaderWorkerSet", "StatefulSet"): lambda added: not added or added[1:].isdecimal(),
    ("DisaggregatedSet", "LeaderWorkerSet"): lambda added: added.startswith("-"),
    ("DisaggregatedSet", "StatefulSet"): lambda added: added.startswith("-"),
    ("TrainJob", "JobSet"): lambda added: not added,
    ("TrainJob", "Job"): _ends_like_job_of_set,
    ("JobSet", "Job"): _ends_like_job_of_set,
    ("MPIJob", "Job"): lambda added: added == "-launcher",
    ("RayJob", "RayCluster"): lambda added: added.startswith("-"),
    ("RayJob", "Job"): lambda added: not added,
    ("RayService", "RayCluster"): lambda added: added.startswith("-"),
}
"""Functions by (kind of a workload, kind of an object that it creates).

The name of such an object begins with the name of the workload. The function returns whether a text
can be the rest of the name.
"""


def is_made_by(ref: Ref, workload: Ref) -> bool:
    """Return whether `ref` is `workload`, or is named like an object that `workload` creates."""
    if ref == workload:
        return True
    fits = _NAMES.get((workload.kind, ref.kind))
    if fits is None or ref.namespace != workload.namespace:
        return False
    return ref.name.startswith(workload.name) and fits(ref.name[len(workload.name) :])


def can_be_made_by(ref: Ref) -> Iterator[Ref]:
    """Yield the workloads that may have created `ref` for their pods, judging by its name."""
    name = ref.name
    if len(name) > MAX_SUBDOMAIN:  # an event can name an object that cannot exist
        return
    ends = [*(place for place, letter in enumerate(name) if letter == "-"), len(name)]
    for (kind, made), fits in _NAMES.items():
        if made == ref.kind:
            yield from (Ref(kind, ref.namespace, name[:end]) for end in ends if fits(name[end:]))


class EventsByName:
    """Events, sorted by the namespace and name of their object.

    Searching all events for each workload would take minutes, because anybody can write thousands.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._events = sorted(events, key=_name)

    def about(self, workload: Ref) -> list[Event]:
        """Return the events about a workload or an object it creates for pods, newest first."""
        found = []
        for place in range(bisect_left(self._events, workload.key, key=_name), len(self._events)):
            event = self._events[place]
            namespace, name = _name(event)
            if namespace != workload.namespace or not name.startswith(workload.name):
                break
            if is_made_by(event.about, workload):
                found.append(event)
        return sorted(found, key=lambda event: -(event.time or 0.0))


def _name(event: Event) -> Key:
    return event.about.key


def refusals_about(index: Index, workload: Ref) -> list[Event]:
    """Return the `refusals` about a workload or an object it creates for pods, newest first."""

    def look() -> EventsByName:
        return EventsByName(refusals(index))

    return index.remembered("refusals by name", look).about(workload)


def refusals_of_uid(index: Index, uid: str) -> Sequence[Event]:
    """Return the `refusals` about the object with a uid, newest first."""

    def look() -> Mapping[str, Sequence[Event]]:
        return by_key((event.uid, event) for event in refusals(index))

    return index.remembered("refusals by uid", look).get(uid, ())


def refusals(index: Index) -> Sequence[Event]:
    """Return the newest warning about each object whose controller can't create objects for it.

    The newest warning comes first. Warnings without a time are left out, and so are warnings older
    than REPEATED_WITHIN if the time of the facts is known.
    """

    def look() -> list[Event]:
        newest: dict[Ref, Event] = {}
        for event in index.facts.events:
            if not event.warns or event.time is None or not is_refusal(event.reason):
                continue
            known = newest.get(event.about)
            if known is None or (known.time or 0.0) < event.time:
                newest[event.about] = event
        return sorted(newest.values(), key=lambda event: -(event.time or 0.0))

    now = index.facts.now
    found = index.remembered("refusals to create pods", look, ["events"])
    return [event for event in found if not now or now - (event.time or 0.0) < REPEATED_WITHIN]


def is_refusal(reason: str) -> bool:
    """Return whether an event's reason, such as FailedCreate, means a failure to create objects."""
    return "Fail" in reason and "Creat" in reason


def warnings_about(index: Index, workload: Ref) -> list[Event]:
    """Return the warnings about a workload or an object it creates for pods, newest first."""

    def look() -> EventsByName:
        return EventsByName(event for event in index.facts.events if event.warns)

    return index.remembered("warnings by name", look, ["events"]).about(workload)


def said_about(index: Index, workload: Ref) -> Iterator[Event | KueueWorkload]:
    """Yield the `refusals` and the Kueue Workloads that may say why a workload has no pods."""
    yield from refusals_about(index, workload)
    yield from index.kueue_of_controller.get(workload, ())


def without_pods(index: Index) -> Iterator[Ref]:
    """Yield the workloads without pods that Kueue holds, or whose controllers can't create pods.

    Only workloads of WORKLOAD_KINDS are found. Objects that a workload with pods may have created
    are left out.
    """
    have_pods = {ref for pod in index.facts.pods for ref in pod.made_for}
    named = [_workload_of(event.about) for event in refusals(index)]
    named += [
        workload.controller
        for workload in index.facts.kueue_workloads
        if workload.controller and workload.is_pending
    ]
    for ref in dict.fromkeys(named):
        if ref.kind in _KINDS and have_pods.isdisjoint((ref, *can_be_made_by(ref))):
            yield ref


def named_workloads(index: Index) -> Iterator[Ref]:
    """Yield the workloads that a warning is about, or for which Kueue has a Workload."""
    named = [_workload_of(event.about) for event in index.facts.events if event.warns]
    named += [known.controller for known in index.facts.kueue_workloads if known.controller]
    yield from (ref for ref in dict.fromkeys(named) if ref.kind in _KINDS)


def _workload_of(ref: Ref) -> Ref:
    """Return the Deployment that a ReplicaSet's name (NAME-HASH) implies, or else `ref` itself.

    Whether the Deployment exists is not checked.
    """
    if ref.kind == "ReplicaSet":
        name = without_hash(ref.name)
        return ref if name in ("", ref.name) else Ref("Deployment", ref.namespace, name)
    return ref


def is_known(index: Index, workload: Ref) -> bool:
    """Return whether Kueue has a Workload for `workload`, or a warning is about it.

    Warnings about the objects that the workload creates for pods count too.
    """
    return workload in index.kueue_of_controller or bool(warnings_about(index, workload))
