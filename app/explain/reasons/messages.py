"""Find messages about pods from KAI, other schedulers, kubelets and controllers."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from operator import itemgetter

from app.base.spelling import alike
from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.reasons.reason import Who, ago, listed, with_age
from app.explain.state.index import Index
from app.facts.identity import Ref
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.pod import RUNS, UNSTARTED, Pod, Stalled
from app.facts.labels import KAI_SCHEDULER

US = "grove-admission"
"""The source of our own events, which repeat reasons."""

_KAI_COMPONENTS = {"kai-scheduler", "binder", "pod-grouper", "podgrouper"}
"""The components of KAI that write events."""
_AUTOSCALERS = {"cluster-autoscaler", "karpenter"}
DEFAULT_SCHEDULER = "default-scheduler"
_MOST_SCHEDULERS = 20
"""The maximum number of scheduler names that are listed and compared with an unknown one."""
_SOON = 60.0
"""The seconds after which KAI's silence about a pod is unusual."""

Advice = tuple[tuple[tuple[str, ...], str, Who], ...]
"""A table of advice on messages: (texts, remedy, who can act).

A row applies to each message that contains one of its texts.
"""


def advice_for(message: str, table: Advice) -> Iterator[tuple[str, Who]]:
    """Yield (remedy, who can act) for each row of `table` that applies to a message."""
    for texts, remedy, who in table:
        if any(text in message for text in texts):
            yield remedy, who


def silence(gangs: Sequence[Gang], asked: float | None) -> str:
    """Return a text about pending gangs on which KAI has no message.

    `asked` is when their workload was created, in seconds since 1970, or None. It is used only if
    no pending pod has a known age.
    """
    waiting = [gang for gang in gangs if gang.waits]
    schedulers = {pod.scheduler for gang in waiting for pod in gang.waiting}
    if schedulers and KAI_SCHEDULER not in schedulers:
        return f"the pods use {listed(sorted(schedulers))}, not KAI"

    age = _age(waiting, asked)
    serves = _serves_pools(waiting)
    if age < _SOON:
        if_served = f", if its scheduler {serves}" if serves else ""
        return f"KAI has not reported anything yet: it should decide within seconds{if_served}"

    and_serves = f" and {serves}" if serves else ""
    asks = "ask the platform team whether its scheduler runs"
    return f"KAI has been silent for {ago(age)}: {asks}{and_serves}"


def _serves_pools(waiting: Sequence[Gang]) -> str:
    pools = sorted({gang.pool for gang in waiting if gang.pool and gang.is_of_kai})
    noun = "node pool" if len(pools) == 1 else "node pools"
    return f"serves {noun} {listed(pools)}" if pools else ""


def _age(waiting: Sequence[Gang], asked: float | None) -> float:
    """Return the age of the oldest pending pod in seconds.

    If no pending pod has a known age, return the seconds since `asked`, or 0 if that is not known.
    """
    now = waiting[0].facts.now if waiting else 0.0
    times = [pod.created for gang in waiting for pod in gang.waiting]
    since = min((time for time in times if time is not None), default=asked)
    return now - since if since is not None and now else 0.0


def said_of(gangs: Sequence[Gang]) -> tuple[str, ...]:
    """Return KAI's messages about pending gangs, each on one line and with its age if known."""
    words: dict[str, None] = {}
    for gang in gangs:
        if gang.waits:
            for said, time in _words_about(gang):
                words[with_age(" ".join(said.split()), time, gang.facts.now)] = None
    return tuple(words)


def words_of_kai(gang: Gang) -> str:
    """Return KAI's first message about a gang, or "" if there is none."""
    return next((said for said, _ in _words_about(gang)), "")


def latest_of_kai(gang: Gang) -> tuple[str, float | None] | None:
    """Return KAI's newest message about a gang with its time, or None if there is none."""
    return max(_words_about(gang), key=lambda said: said[1] or 0.0, default=None)


_REFUSALS = {"Unschedulable", "FailedBinding", "BindingError", "NotReady", "PodGrouperWarning"}
"""The reasons of KAI events that report a failure."""


def refusal_of_kai(gang: Gang) -> tuple[str, float | None] | None:
    """Return (KAI's newest message that it can't place a gang, its time), or None.

    Without a message in the PodGroup, return None if KAI's newest event about the PodGroup or about
    a pending pod does not report a failure: older messages no longer apply.
    """
    uids = {pod.uid for pod in gang.waiting}
    if gang.pod_group:
        uids.add(gang.pod_group.uid)
    for uid in uids:
        last = next(filter(is_of_kai, gang.index.events_about(gang.namespace, uid)), None)
        if last and last.reason not in _REFUSALS and not (gang.pod_group and gang.pod_group.said):
            return None
    return latest_of_kai(gang)


def waiting_for(gang: Gang) -> float:
    """Return the age of a gang's oldest pending pod in seconds, or 0 if it is unknown.

    If no pending pod has a known age, return the age of the PodGang.
    """
    return _age([gang], gang.pod_gang.created if gang.pod_gang else None)


def _words_about(gang: Gang) -> list[tuple[str, float | None]]:
    """Return KAI's messages about a gang with their times.

    They are from the PodGroup's status, or else from conditions of pending pods, or else from
    events: the newest one about the PodGroup and about each pending pod.
    """
    group = gang.pod_group
    if group and group.said:
        return [(said.message or said.reason, said.time) for said in group.said]

    pods = [pod for pod in gang.waiting if pod.scheduler == KAI_SCHEDULER]
    of_pods: list[tuple[str, float | None]]
    of_pods = [(pod.unscheduled, pod.said_at) for pod in pods if pod.unscheduled]
    return of_pods or _events_about(gang, pods)


def _events_about(gang: Gang, pods: Sequence[Pod]) -> list[tuple[str, float | None]]:
    uids = [pod.uid for pod in pods]
    if gang.pod_group:
        uids.insert(0, gang.pod_group.uid)

    latest = (
        next(filter(is_of_kai, gang.index.events_about(gang.namespace, uid)), None) for uid in uids
    )
    return [(event.message, event.time) for event in latest if event]


def is_of_kai(event: Event) -> bool:
    """Return whether KAI wrote an event."""
    return event.source in _KAI_COMPONENTS


class Words(Value):
    """A message that a component wrote about an object."""

    source: str
    """The name of the component."""
    text: str
    """The message, on one line."""
    time: float | None = None
    """When it was written, in seconds since 1970, or None if that is not known."""
    reason: str = ""
    """The reason of the event, or "" for a condition."""

    def quoted(self, now: float) -> str:
        """Return a text such as `kubelet says: no such driver (2 minutes ago)`."""
        return with_age(f"{self.source} says: {self.text}", self.time, now)


def words_of(event: Event, source: str = "") -> Words:
    """Return the message of an event. `source` is the component if the event does not name one."""
    said_by = event.source or source or "an event"
    return Words(said_by, one_line(event.message), event.time, event.reason)


def one_line(text: str) -> str:
    """Return a text on one line, without the periods at its end."""
    return " ".join(text.split()).rstrip(".")


def scheduler_words(index: Index, pod: Pod) -> Words | None:
    """Return the newest message of a pod's scheduler about the pod, or None.

    It is from the condition PodScheduled or from a warning event.
    """
    found = []
    if pod.unscheduled:
        found.append(Words(pod.scheduler, one_line(pod.unscheduled), pod.said_at))
    for event in index.events_about(pod.namespace, pod.uid):
        if event.source == pod.scheduler and event.warns:
            found.append(words_of(event))
            break
    return max(found, key=lambda words: words.time or 0.0, default=None)


def schedulers(index: Index) -> Mapping[str, int]:
    """Return the number of pods that each scheduler has placed or rejected, by scheduler name.

    The schedulers of Kubernetes and KAI are always included.
    """

    def look() -> Counter[str]:
        acting = (pod.scheduler for pod in index.facts.pods if pod.node or pod.unscheduled)
        numbers = Counter(acting)
        numbers.update({KAI_SCHEDULER: 0, DEFAULT_SCHEDULER: 0})
        return numbers

    return index.remembered("schedulers", look, ["pods"])


def usual_schedulers(index: Index) -> list[str]:
    """Return the names of the schedulers with the most pods, and of Kubernetes' and KAI's, sorted.

    Tenants can create pods that have a node and name any scheduler, so there may be as many names
    as pods.
    """

    def look() -> list[str]:
        usual = nlargest(_MOST_SCHEDULERS, schedulers(index).items(), key=itemgetter(1))
        return sorted({KAI_SCHEDULER, DEFAULT_SCHEDULER, *(name for name, _ in usual)})

    return index.remembered("usual schedulers", look, ["pods"])


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a text such as `. Did you mean kai-scheduler?`, or "" if no known name is similar.

    Also return "" if `name` itself is known.
    """
    known = sorted(known)
    found = [] if name in known else alike(name, known)
    return f". Did you mean {found[0]}?" if found else ""


def kubelet_words(index: Index, pod: Pod) -> Words | None:
    """Return the newest warning about a pod since it was bound to its node.

    Warnings of schedulers and autoscalers do not count. A warning that only repeats the state of a
    container counts only if no container is stalled. If no warning counts, return the message of
    the first stalled container that has one and is not in CrashLoopBackOff, or else None.
    """
    repeated: Words | None = None
    for event in index.events_about(pod.namespace, pod.uid):
        if not event.warns or is_of_kai(event) or is_of_autoscaler(event):
            continue
        if event.reason == "FailedScheduling" or event.source == pod.scheduler:
            continue
        if pod.bound is not None and event.time is not None and event.time < pod.bound:
            continue
        words = words_of(event, "kubelet")
        if not _repeats_state(words.text):
            return words
        repeated = repeated or words

    for container in pod.stalled:
        if container.message and container.reason != CRASHES:
            text = f"container {container.name}, {container.reason}: {one_line(container.message)}"
            return Words("kubelet", text, None, container.reason)
    return None if pod.stalled else repeated


def _repeats_state(text: str) -> bool:
    """Return whether a message only repeats a state, such as `Error: ImagePullBackOff`."""
    is_error = text.startswith("Error: ") and text.count(" ") == 1
    return is_error or text.startswith("Back-off restarting failed container")


CRASHES = "CrashLoopBackOff"


def stalled_words(container: Stalled, now: float) -> str:
    """Return a text such as `Container main is in CrashLoopBackOff (3 restarts)`.

    The container does not run, or it is a running init container.
    """
    kind = "Init container" if container.init else "Container"
    if container.reason in (RUNS, UNSTARTED):
        since = container.since
        running = f" for {ago(now - since)}" if since is not None and now else ""
        without = " without starting up" if container.reason == UNSTARTED else ""
        return f"{kind} {container.name} has been running{running}{without}"
    details = []
    if container.restarts:
        details.append("1 restart" if container.restarts == 1 else f"{container.restarts} restarts")
    details += [container.ended] if container.ended else []
    if container.message and container.reason != CRASHES:
        details.append(one_line(container.message))
    more = f" ({', '.join(details)})" if details else ""
    return f"{kind} {container.name} is in {container.reason}{more}"


def state_words(index: Index, pod: Pod) -> str:
    """Return why a component's pod does not run, or "" if that is not known.

    The text is a message of the pod's scheduler or kubelet, or else the state of its containers.
    """
    now = index.facts.now
    if not pod.node:
        words = scheduler_words(index, pod)
        return words.quoted(now) if words else ""
    if pod.failure:
        return f"the kubelet ended it: {one_line(pod.failure)}"
    words = kubelet_words(index, pod)
    if words:
        return words.quoted(now)
    return listed(stalled_words(container, now) for container in pod.stalled)


def not_running_words(index: Index, pod: Pod, name: str) -> str:
    """Return a text that says that a component's pod, called `name`, does not run, and why."""
    said = state_words(index, pod)
    return f"{name} does not run{f': {said}' if said else ''}"


def broken_plugin(index: Index, part: str, nodes: Container[str] = ()) -> Pod | None:
    """Return a pod of a DaemonSet that does not run, the first by name, or None.

    Its name contains `part`. If there are `nodes`, it is on one of them.
    """
    broken = [
        pod
        for pod in index.facts.pods
        if part in pod.name and pod.controller and pod.controller.kind == "DaemonSet"
        if pod.is_alive and (pod.phase != "Running" or pod.stalled)
        if not nodes or pod.node in nodes
    ]
    return min(broken, key=lambda pod: pod.key, default=None)


_OF_KAI = "kai-scheduler"
"""The namespace in which KAI's chart installs its components."""


def not_running(index: Index, *names: str) -> str:
    """Return a text about the pods of a component of KAI if none of them runs, or "".

    `names` are the beginnings of the names of its pods. Only pods in KAI's own namespace count.
    """

    def look() -> str:
        pods = (pod for pod in index.facts.pods if pod.namespace == _OF_KAI)
        own = [pod for pod in pods if pod.name.startswith(names)]
        if any(pod.phase == "Running" and not pod.waiting for pod in own):
            return ""
        return "".join(f". {not_running_words(index, pod, str(pod.ref))}" for pod in own)

    return index.remembered(("not running", names), look)


def is_about_a_domain(words: Words) -> bool:
    """Return whether a message says that a ComputeDomain is not ready yet."""
    text = words.text.lower().replace(" ", "")
    return "computedomain" in text and ("notready" in text or "notyetready" in text)


def maker_words(index: Index, namespace: str, uids: Iterable[str]) -> Iterator[tuple[Ref, Words]]:
    """Yield (object, newest warning about it) for objects that create pods, newest warning first.

    `uids` are the uids of these objects in `namespace`. Warnings of grove-admission do not count.
    """
    events: list[Event] = []
    for uid in dict.fromkeys(uids):
        of_object = index.events_about(namespace, uid)
        warning = next((event for event in of_object if event.warns and event.source != US), None)
        if warning:
            events.append(warning)
    for event in sorted(events, key=lambda event: -(event.time or 0.0)):
        yield event.about, words_of(event, "its controller")


def makers_of(gang: Gang, pods: Sequence[Pod]) -> list[str]:
    """Return the uids of the objects that may create a gang's pods, without duplicates."""
    uids = [pod.owner for pod in pods if pod.owner]
    uids += [clique.uid for member in gang.members if (clique := member.clique)]
    if gang.pod_group:
        uids += gang.pod_group.owners
    if gang.pcs:
        uids.append(gang.pcs.uid)
    return list(filter(None, dict.fromkeys(uids)))


def words_about(index: Index, ref: Ref) -> Words | None:
    """Return the newest warning about an object of which only the name is known, or None.

    Events with a reason in `_REFUSALS` count even if they are not warnings. Warnings of
    grove-admission do not count.
    """

    def look() -> dict[Ref, Event]:
        newest: dict[Ref, Event] = {}
        for event in index.facts.events:
            if (event.warns and event.source != US) or event.reason in _REFUSALS:
                known = newest.get(event.about)
                if known is None or (known.time or 0.0) < (event.time or 0.0):
                    newest[event.about] = event
        return newest

    event = index.remembered("newest warnings", look, ["events"]).get(ref)
    return words_of(event) if event else None


def is_of_autoscaler(event: Event) -> bool:
    """Return whether an autoscaler wrote an event. Nominations of existing nodes do not count."""
    exists = event.reason == "Nominated" and "node/" in event.message
    return event.source in _AUTOSCALERS and not exists
