"""Check our Deployment: its ready replicas, their version, and the leader."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from app.config.schema import LeaderElection
from app.doctor.report import Check, Checks, Status, logs_of, ok, problem, warning
from app.kube.api import Client, ClusterError, Object, ObjectRef, Selection, every, find
from app.objects.conditions import condition_of
from app.objects.edits import value_at
from app.objects.fields import listed
from app.objects.resource import DEPLOYMENT, LEASE, NODE, POD
from app.objects.shape import JsonMap, int_of, map_at, maps_at, text_at
from app.webhooks.configurations import APP_LABEL

NAME = "grove-admission"
_VERSION = re.compile(r":v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})$")
_CLOSING_SECONDS = 30
"""The seconds that a terminating Pod needs after `server.drainSeconds`."""

_MOST_SHOWN = 3
"""The maximum number of Pods that a message names."""

_NOT_CREATED = (
    "Correct what the message names. The Deployment then creates its Pods without further action."
)
_PRIORITY = (
    "Allow the priority class in the namespace with a ResourceQuota, or set another"
    " priorityClassName, as in manifests/guide/networks.md."
)
_MEMORY = (
    "Raise resources.limits.memory of the Deployment, in your overlay or in the values of the"
    " chart. app/server/README.md says how much memory the server needs."
)


async def check_replicas(
    client: Client, namespace: str, version: str, drain_seconds: float
) -> Checks:
    """Check the Deployment `grove-admission` in `namespace`. Return [] if it does not exist.

    Its image must not be older than `version`, the version of this program, and a terminating Pod
    must have the time to drain. Raise ClusterError if the Deployment cannot be read.
    """
    deployment = await find(client, ObjectRef(DEPLOYMENT, NAME, namespace))
    if deployment is None:
        return []
    labels = map_at(deployment, "spec", "selector", "matchLabels")
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    pods: list[Object] = []
    with contextlib.suppress(ClusterError):
        pods = await every(client, Selection(POD, namespace, labels=selector))
        pods = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    checks = [_readiness(namespace, deployment, pods), *_killed(pods)]
    with contextlib.suppress(ClusterError):
        checks += await _nodes(client, namespace, pods)
    for image in _images(deployment):
        checks += _age(image, version, namespace)
    return [*checks, *_grace(deployment, drain_seconds)]


def _readiness(namespace: str, deployment: Object, pods: Sequence[Object]) -> Check:
    """Check that all replicas are ready. If they are not, the message has the known reasons."""
    title = f"Deployment {namespace}/{NAME}"
    desired = int_of(value_at(deployment, ("spec", "replicas")), 1)
    ready = int_of(value_at(deployment, ("status", "readyReplicas")))
    if desired == 0:
        remedy = f"Run: kubectl -n {namespace} scale deployment {NAME} --replicas=2"
        return problem(f"{title} is scaled to 0 replicas: no webhook answers", remedy)
    updated = _updated(deployment, desired)
    if ready >= desired and updated >= desired:
        # during a rollout, there may be more replicas than desired
        return ok(f"{title} has {desired} of {desired} replicas ready")

    message = f"{title} has {ready} of {desired} replicas ready"
    if ready >= desired:
        message = f"{title} has {updated} of {desired} replicas with its current Pod template"
        if map_at(deployment, "spec").get("paused") is True:
            remedy = f"Run: kubectl -n {namespace} rollout resume deployment/{NAME}"
            return warning(f"{message}, because its rollout is paused", remedy)

    status: Status = "warning" if ready else "problem"
    failure = condition_of(deployment, "ReplicaFailure")
    if failure.get("status") == "True":
        reason = text_at(failure, "message")
        remedy = _PRIORITY if "PriorityClass" in reason else _NOT_CREATED
        return Check(status, f"{message}, because Pods can't be created: {reason}", remedy)

    unready = [pod for pod in pods if condition_of(pod, "Ready").get("status") != "True"]
    reasons = sorted({reason for pod in unready for reason in _pod_reasons(map_at(pod, "status"))})
    message += f"{': ' if reasons else ''}{'; '.join(reasons)}"
    return Check(status, message, _examine(namespace, unready))


def _examine(namespace: str, unready: Sequence[Object]) -> str:
    """Return the remedy that shows why Pods are not ready. It names the first of `unready`."""
    if not unready:
        return (
            f"Run: kubectl -n {namespace} describe deployments,replicasets,pods --selector"
            f" {APP_LABEL}={NAME}"
        )
    pod = unready[0]["metadata"]["name"]
    remedy = (
        f"Run: kubectl -n {namespace} describe pod {pod}, and kubectl -n {namespace} logs {pod}."
    )
    containers = maps_at(unready[0], "status", "containerStatuses")
    if containers and all("running" in map_at(each, "state") for each in containers):
        remedy += (
            f" Or run: kubectl -n {namespace} port-forward {pod} 8444, and then: curl -k"
            " 'https://localhost:8444/readyz?verbose'."
        )
    return remedy


def _updated(deployment: Object, desired: int) -> int:
    """Return the number of replicas that have the current Pod template.

    Return `desired` if the status is older than the spec, or lacks its generation, as in records
    of older versions.
    """
    status = map_at(deployment, "status")
    generation = int_of(value_at(deployment, ("metadata", "generation")))
    if "observedGeneration" not in status or int_of(status["observedGeneration"]) < generation:
        return desired
    return int_of(status.get("updatedReplicas"))


def _pod_reasons(status: JsonMap) -> Iterator[str]:
    """Yield the reasons in a Pod's status: why it is not scheduled, and why containers wait."""
    for condition in maps_at(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield f"{condition.get('reason')}: {condition.get('message')}"
    for container in maps_at(status, "containerStatuses"):
        waiting = map_at(container, "state", "waiting")
        if waiting:
            words = (text_at(waiting, "reason"), text_at(waiting, "message"))
            yield ": ".join(filter(None, words))


def _killed(pods: Sequence[Object]) -> Checks:
    """Return a warning if containers were killed because they exceeded their memory limit."""
    killed = [
        f"{pod['metadata']['name']} ({int_of(container.get('restartCount'))} restarts)"
        for pod in pods
        for container in maps_at(pod, "status", "containerStatuses")
        if "OOMKilled"
        in {
            text_at(map_at(container, state, "terminated"), "reason")
            for state in ("state", "lastState")
        }
    ]
    if not killed:
        return []
    message = (
        "these Pods exceeded their memory limit and were killed (OOMKilled):"
        f" {listed(killed, _MOST_SHOWN)}"
    )
    return [warning(message, _MEMORY)]


async def _nodes(client: Client, namespace: str, pods: Sequence[Object]) -> Checks:
    """Return a warning if all ready Pods are on one node, and the cluster has another node.

    Raise ClusterError if nodes cannot be read.
    """
    ready = [pod for pod in pods if condition_of(pod, "Ready").get("status") == "True"]
    nodes = {text_at(map_at(pod, "spec"), "nodeName") for pod in ready}
    if len(ready) < 2 or len(nodes) > 1:
        return []
    page = await client.list(Selection(NODE, metadata_only=True), limit=2)
    if len(list(page.items)) < 2:
        return []
    node = nodes.pop()
    message = f"all ready replicas are on node {node}: no webhook answers if this node fails"
    pod = ready[0]["metadata"]["name"]
    remedy = (
        f"Run: kubectl -n {namespace} delete pod {pod}. If the new Pod is on the same node again,"
        " find out why it fits on no other node."
    )
    return [warning(message, remedy)]


def _images(deployment: Object) -> list[str]:
    containers = maps_at(deployment, "spec", "template", "spec", "containers")
    return [text_at(item, "image") for item in containers if item.get("name") == NAME]


def _age(image: str, version: str, namespace: str) -> Checks:
    """Return a problem if the tag of `image` is a version older than `version`, otherwise [].

    A tag that is not a version is ignored.
    """
    tagged = _VERSION.search(image)
    ours = _VERSION.search(f":{version}")
    if tagged is None or ours is None or _numbers(tagged) >= _numbers(ours):
        return []

    message = (
        f"the replicas run {image}, but the webhooks of {version} may call paths that an older"
        " server does not serve"
    )
    remedy = (
        f"Upgrade the replicas: kubectl -n {namespace} set image deployment/{NAME}"
        f" {NAME}={image[: tagged.start()]}:{version}. Or run doctor with the grove-admission of"
        " the replicas."
    )

    return [problem(message, remedy)]


def _grace(deployment: Object, drain_seconds: float) -> Checks:
    """Return a warning if a kubelet kills a terminating Pod before it has ended its connections."""
    grace = map_at(deployment, "spec", "template", "spec").get("terminationGracePeriodSeconds")
    needed = drain_seconds + _CLOSING_SECONDS
    if grace is None or int_of(grace) >= needed:
        return []
    message = (
        f"terminationGracePeriodSeconds is {int_of(grace)}, but server.drainSeconds is"
        f" {drain_seconds:g}: a terminating Pod may be killed while it answers requests"
    )
    remedy = (
        f"Set terminationGracePeriodSeconds of the Deployment to at least {needed:g}, with a patch"
        " in your overlay. The chart sets it."
    )
    return [warning(message, remedy)]


def _numbers(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(number) for number in match.groups())


# The leader, the only replica that reconciles.


_SLACK = timedelta(seconds=60)
"""The assumed maximum difference between this machine's clock and the replicas' clocks."""

_LONGEST = 86_400
"""The maximum lease duration, in seconds. A greater leaseDurationSeconds counts as this value."""

_LOGS = (
    "Find out why no replica leads: {logs}. The Role of the server must allow it to create Leases,"
    " and to get and patch the Lease {name}."
)


async def check_leader(client: Client, settings: LeaderElection, now: datetime) -> Checks:
    """Check that a replica holds the Lease and has renewed it in time.

    `now` is in UTC. Raise ClusterError if the Lease cannot be read.
    """
    if not settings.enabled:
        return [ok("leader election is off: every replica reconciles")]

    title = f"Lease {settings.namespace}/{settings.name}"
    remedy = _LOGS.format(logs=logs_of(settings.namespace), name=settings.name)
    lease = await find(client, ObjectRef(LEASE, settings.name, settings.namespace))
    if lease is None:
        message = f"{title} does not exist: no replica has led, and nothing is reconciled"
        return [problem(message, remedy)]

    spec = map_at(lease, "spec")
    holder = text_at(spec, "holderIdentity")
    renewed = text_at(spec, "renewTime")
    if not holder:
        return [problem(f"{title} has no holder: nothing is reconciled", remedy)]

    seconds = max(0, min(int_of(spec.get("leaseDurationSeconds")), _LONGEST))
    if _time_since(renewed, now) > timedelta(seconds=seconds) + _SLACK:
        message = (
            f"{title} of {holder} was last renewed at {renewed}, and this machine's clock shows"
            f" {now.isoformat()}: nothing has been reconciled in between"
            if renewed
            else f"{title} of {holder} has no renewTime: nothing is reconciled"
        )
        return [problem(message, remedy)]

    return [ok(f"{holder} leads")]


def _time_since(time: str, now: datetime) -> timedelta:
    """Return the time since `time` (RFC 3339), or timedelta.max if it is not valid."""
    try:
        return now - datetime.fromisoformat(time)
    except (ValueError, TypeError, OverflowError):  # TypeError: it has no time zone
        return timedelta.max
