"""Report running pods that are not ready, and updates that do not replace old pods.

Sources: `pkg/kubelet/prober` of Kubernetes, and `pkg/controller/statefulset/
stateful_set_control.go`: with the policy OrderedReady, the controller stops at the first pod that
is not ready, so it does not replace pods of an old revision
(https://github.com/kubernetes/kubernetes/issues/67250).
"""

import shlex
from collections.abc import Mapping, Sequence
from operator import attrgetter

from app.base.groups import by_key
from app.base.sentences import lower_first
from app.explain.gangs.gang import Gang
from app.explain.reasons.gates import refs
from app.explain.reasons.messages import Words, one_line, words_of
from app.explain.reasons.pod_starts import MOST_STARTING
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    Who,
    about,
    ago,
    commands_to_describe,
    counted,
    listed,
    to_describe_pod,
    to_read_log,
)
from app.explain.reasons.restarts import deletion_of
from app.facts.identity import Ref
from app.facts.kinds import (
    DYNAMO_GRAPH,
    LEADER_WORKER_SET,
    POD_CLIQUE_SET,
    RAY_JOB,
    RAY_SERVICE,
)
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.workload_status import NO_JOB_ID
from app.facts.labels import POD_TEMPLATE_HASH
from app.facts.rollout import Rollout
from app.objects.resource import DEPLOYMENT, STATEFUL_SET

_LONG = 600.0
"""The seconds after which a container that is not ready is reported.

Loading a large model takes several minutes. A container that a kubelet restarts is reported before.
"""
_FAILS = " probe failed"
_MOST_DELETED = 10
"""The maximum number of pods that a command deletes at once."""


def pods_not_ready(gang: Gang) -> Reasons:
    """Report that containers run and are not ready, for example because a probe fails."""
    now = gang.facts.now
    found = [
        ((pod.unready, _probe(words) in _KILLS), (pod, words))
        for pod in gang.placed
        if pod.unready and pod.is_alive and not pod.stalled
        if pod.unready_since is not None
        for words in (_failed_probe(gang, pod),)
        if _probe(words) in _KILLS or now - pod.unready_since > _LONG
    ]
    for (container, is_killed), each in by_key(found).items():
        pods = sorted((pod for pod, _ in each), key=attrgetter("name"))
        first = pods[0]
        since = max(now - (pod.unready_since or now) for pod in pods)
        said = max(
            filter(None, (words for _, words in each)),
            key=lambda words: words.time or 0.0,
            default=None,
        )
        text = (
            f"Container {container} runs in {counted(pods, 'pod')} and has not been ready for"
            f" {'' if len(pods) == 1 else 'up to '}{ago(since)}"
        )
        text += f". {said.quoted(now)}" if said else ""
        log = to_read_log(first.ref)
        log += f" -c {shlex.quote(container)}"
        remedy = (
            f"Read the log of container {container}. If it is still starting, for example loading a"
            " model, wait"
        )
        if is_killed:
            log += " --previous"
            remedy = (
                f"Give container {container} more time to start: add a startupProbe, or raise"
                f" failureThreshold of its {_probe(said).lower()}Probe, because of which the"
                " kubelet restarts it. If it hangs, read the log of its last run"
            )
        yield about(
            Evidence(first.ref, "status.conditions[Ready]", "False"),
            "PodsNotReady",
            text,
            remedy,
            "you",
            objects=refs(pods),
            commands=(log,),
            severity="warning",
        )


_KILLS = ("Liveness", "Startup")
"""The probes because of which kubelets restart containers."""


def _probe(words: Words | None) -> str:
    """Return the probe that a kubelet's message is about, such as `Liveness`, or ""."""
    return words.text.partition(_FAILS)[0] if words else ""


def _failed_probe(gang: Gang, pod: Pod) -> Words | None:
    """Return the kubelet's newest message about a failed probe since a pod is not ready, or None.

    A message about a liveness or startup probe, for which the kubelet restarts containers, comes
    before one about a readiness probe.
    """
    since = pod.unready_since or 0.0
    failed = [
        words_of(event, "kubelet")
        for event in gang.index.events_about(pod.namespace, pod.uid)
        if event.reason == "Unhealthy" and _FAILS in event.message
        if event.time is None or event.time >= since
    ]
    restarts = (words for words in failed if _probe(words) in _KILLS)
    return next(restarts, None) or next(iter(failed), None)


def old_revision(gang: Gang) -> Reasons:
    """Report that a StatefulSet does not replace pods of an old revision, as they are not ready."""
    for status in gang.facts.workload_statuses:
        if status.ref.kind != STATEFUL_SET.kind or not status.revision:
            continue
        pods = [
            pod
            for pod in gang.pods
            if status.ref in pod.made_for and pod.is_alive and not pod.is_ready
            if pod.revision and pod.revision != status.revision
            if pod.created is not None and gang.facts.now - pod.created > MOST_STARTING
        ]
        if not pods:
            continue
        names = sorted(pod.name for pod in pods)
        one = len(names) == 1
        text = (
            f"{status.ref} has a newer template (revision {status.revision}) than {listed(names)},"
            f" and replaces {'a pod' if one else 'pods'} only in order and once"
            f" {'it is' if one else 'they are'} ready (podManagementPolicy: OrderedReady)"
        )
        yield about(
            Evidence(status.ref, "status.updateRevision", status.revision),
            "OldRevision",
            text,
            f"Delete {listed(names)} if the new template is correct, so that {status.ref} creates"
            f" {'it' if one else 'them'} again from the new template",
            "you",
            objects=refs(pods),
            commands=deletion_of(gang, sorted(pods, key=attrgetter("name"))[:_MOST_DELETED]),
        )


def old_template(gang: Gang) -> Reasons:
    """Report that pods of a PodClique are not ready, and that its template has changed since.

    Grove updates one replica of a set after another or, with the strategy OnDelete, none.
    """
    unready = by_key(
        ((pod.namespace, pod.place.clique), pod)
        for pod in gang.pods
        if pod.revision and pod.is_alive and not pod.is_ready
        if pod.created is not None and gang.facts.now - pod.created > MOST_STARTING
    )
    for key, of_clique in unready.items():
        clique = gang.index.cliques.get(key)
        if clique is None or not clique.revision:
            continue
        pods = [pod for pod in of_clique if pod.revision != clique.revision]
        if not pods:
            continue
        names = sorted(pod.name for pod in pods)
        it = "it" if len(names) == 1 else "them"
        when = "updates one replica of the set after another"
        if gang.pcs and gang.pcs.updates_on_delete:
            when = f"replaces {it} only after a deletion (updateStrategy OnDelete)"
        have = counted(pods, "pod has", "pods have")
        text = f"{have} an old template of {clique.ref}, and Grove {when}"
        # what keeps these pods from being placed may be corrected in the new template
        waiting = {pod.name for pod in gang.waiting}
        of_gang = (gang.ref,) if waiting and waiting <= set(names) else ()
        yield about(
            Evidence(clique.ref, f"metadata.labels[{POD_TEMPLATE_HASH}]", clique.revision),
            "OldRevision",
            text,
            f"Delete {listed(names)} if the new template is correct, so that Grove creates"
            f" {it} again from the new template",
            "you",
            objects=(*refs(pods), *of_gang),
            commands=deletion_of(gang, sorted(pods, key=attrgetter("name"))[:_MOST_DELETED]),
        )


def update_unfinished(gang: Gang) -> Reasons:
    """Report that an update of a workload's template does not end, with all pods placed."""
    for status in filter(None, map(gang.index.workload_statuses.get, gang.made_for)):
        pods = gang.index.pods_made_for.get(status.ref, ())
        if status.rollout and not status.ended and not any(old_revision(gang)):
            yield from _unfinished(gang, status.ref, status.rollout, pods)


def update_of_set_unfinished(gang: Gang) -> Reasons:
    """Report that an update of a PodCliqueSet's template does not end, with all pods placed."""
    pcs = gang.pcs
    if pcs and pcs.rollout and pcs.deleted_at is None and not any(old_template(gang)):
        pods = gang.index.pods_of_set.get(pcs.key, ())
        yield from _unfinished(gang, pcs.ref, pcs.rollout, pods)


_BY_STATUS: Mapping[str, tuple[str, str, Who]] = {
    DYNAMO_GRAPH.kind: (
        "Dynamo's operator",
        "Wait a minute. If the message stays and its numbers do not match the pods, ask the"
        " platform team to read the log of Dynamo's operator",
        "platform",
    ),
    RAY_SERVICE.kind: (
        "KubeRay",
        "Correct the Serve application if the message is about it. Otherwise, read the log of the"
        " head pod",
        "you",
    ),
    RAY_JOB.kind: (
        "KubeRay",
        "Lower the resources that the entrypoint requests, such as entrypointNumGpus, or add"
        " workers that have them: the Ray job starts on the existing pods",
        "you",
    ),
}
"""(Source of the message, remedy, who can act) if a workload is not ready, by kind."""


def not_ready_by_status(gang: Gang) -> Reasons:
    """Report that the status of a workload says that it is not ready, although its pods are."""
    made_by = [*gang.made_for]
    made_by += filter(None, (gang.pcs.maker if gang.pcs else None,))
    for status in filter(None, map(gang.index.workload_statuses.get, dict.fromkeys(made_by))):
        ref = status.ref
        pods = gang.index.pods_made_for.get(ref, ())
        if gang.pcs:
            pods = gang.index.pods_of_set.get(gang.pcs.key, ())
        if not status.unready or status.has_error:
            continue
        alive = [pod for pod in pods if pod.is_alive]
        if not alive or not all(pod.is_ready for pod in alive):
            continue
        source, remedy, who = _BY_STATUS[ref.kind]
        said = Words(source, one_line(status.unready), status.unready_since).quoted(gang.facts.now)
        text = f"{ref} is not ready, although all of its existing pods are. {said}"
        if status.unready == NO_JOB_ID:
            text = f"{ref} waits for somebody to submit a Ray job (submissionMode: InteractiveMode)"
            remedy = f"Submit a Ray job to its RayCluster, and set spec.jobId of {ref} to the ID"
        elif ref.kind == RAY_JOB.kind:
            text = f"The Ray job of {ref} has not started, although all pods are ready. {said}"
        yield about(
            Evidence(ref, "status", status.unready),
            "PodsNotReady",
            text,
            remedy,
            who,
            commands=commands_to_describe(ref),
            severity="warning",
        )


_NOUNS = {LEADER_WORKER_SET.kind: "group", POD_CLIQUE_SET.kind: "replica"}
"""The things that `updatedReplicas` counts, by kind. For other kinds, it counts pods."""


def _unfinished(gang: Gang, ref: Ref, rollout: Rollout, pods: Sequence[Pod]) -> Reasons:
    """Report an update of `ref` that does not end. `pods` are its old and new pods.

    Yield nothing while it makes progress: its controller has just created a pod, or is said to have
    made progress. Also yield nothing if a pod is pending, because other reasons say why.
    """
    alive = [pod for pod in pods if pod.is_alive]
    times = [pod.created or 0.0 for pod in alive] + [rollout.since or 0.0]
    quiet = gang.facts.now - max(times)
    if not alive or any(not pod.node for pod in alive):
        return
    if not (rollout.held_by or rollout.is_late or quiet > _LONG):
        return
    controller = "its controller" if ref.kind != POD_CLIQUE_SET.kind else "Grove's operator"
    noun = _NOUNS.get(ref.kind, "pod")
    old = f"{rollout.old} of {counted(rollout.total, noun)} {'has' if rollout.old == 1 else 'have'}"
    text = f"The update of {ref} has not ended: {old} an older template"
    if rollout.held_by:
        yield _held_update(ref, rollout, text)
        return
    text += f", and no pod was created for {ago(quiet)}" if quiet > _LONG else ""
    unready = sorted(
        (pod for pod in alive if not pod.is_ready), key=lambda pod: -(pod.created or 0.0)
    )
    if unready:
        first = unready[0]
        commands: tuple[str, ...] = (to_describe_pod(first.ref), to_read_log(first.ref))
        remedy = (
            f"Find out why {first.name} is not ready: usually, more pods are replaced only once the"
            " new ones are ready"
        )
    else:
        commands = commands_to_describe(ref)
        remedy = (
            f"Read the status and the events of {ref}, which may say why it replaces no more pods."
            f" If they don't, ask the platform team whether {controller} runs"
        )
    yield about(
        Evidence(ref, "status.updatedReplicas", str(rollout.total - rollout.old)),
        "OldRevision",
        text,
        remedy,
        "you",
        objects=(ref, *refs(unready)),
        commands=commands,
        severity="warning",
    )


def _held_update(ref: Ref, rollout: Rollout, text: str) -> Reason:
    """Return the reason for an update that a setting keeps from ending, with `text`."""
    setting, _, value = rollout.held_by.partition(": ")
    commands: tuple[str, ...] = ()
    remedy = f"Set {setting} to 0 to update the other pods"
    if value == "OnDelete":
        remedy = "Delete the pods of the older template to update them"
    elif ref.kind == DEPLOYMENT.kind:
        remedy = "Resume the update"
        named = f"{shlex.quote(ref.name)} -n {shlex.quote(ref.namespace)}"
        commands = (f"kubectl rollout resume deployment {named}",)
    return about(
        Evidence(ref, setting, value),
        "OldRevision",
        f"{text}, because of {rollout.held_by}",
        f"Do nothing if this is intended. Otherwise, {lower_first(remedy)}",
        "you",
        commands=commands,
        severity="note",
    )
