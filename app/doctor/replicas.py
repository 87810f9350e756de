"""Check our Deployment: its ready replicas, their version, and the leader."""

import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta

from app.config.schema import LeaderElection
from app.doctor.report import Check, Checks, ok, problem, warning
from app.kube.api import Client, ClusterError, Object, ObjectRef, Selection, every, find
from app.objects.edits import value_at
from app.objects.resource import DEPLOYMENT, LEASE, POD
from app.objects.shape import JsonMap, int_of, map_at, maps_at, text_at

NAME = "grove-admission"
_VERSION = re.compile(r":v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})$")


async def check_replicas(client: Client, namespace: str, version: str) -> Checks:
    """Check the Deployment `grove-admission` in `namespace`. Return [] if it does not exist.

    Its image must not be older than `version`, the version of this program. Raise ClusterError if
    the Deployment cannot be read.
    """
    deployment = await find(client, ObjectRef(DEPLOYMENT, NAME, namespace))
    if deployment is None:
        return []
    checks = [await _readiness(client, namespace, deployment)]
    for image in _images(deployment):
        checks += _age(image, version, namespace)
    return checks


async def _readiness(client: Client, namespace: str, deployment: Object) -> Check:
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

    reasons = sorted({reason async for reason in _reasons(client, namespace, deployment)})
    message += f"{': ' if reasons else ''}{'; '.join(reasons)}"
    remedy = (
        f"Run: kubectl -n {namespace} describe pods, and kubectl -n {namespace} logs"
        f" deployment/{NAME}."
    )

    return Check("warning" if ready else "problem", message, remedy)


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


async def _reasons(client: Client, namespace: str, deployment: Object) -> AsyncIterator[str]:
    """Yield reasons why Pods of the Deployment are not ready, or nothing if they can't be read."""
    labels = map_at(deployment, "spec", "selector", "matchLabels")
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    with contextlib.suppress(ClusterError):
        for pod in await every(client, Selection(POD, namespace, labels=selector)):
            for reason in _pod_reasons(map_at(pod, "status")):
                yield reason


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


def _numbers(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(number) for number in match.groups())


# The leader, the only replica that reconciles.


_SLACK = timedelta(seconds=60)
"""The assumed maximum difference between this machine's clock and the replicas' clocks."""

_LONGEST = 86_400
"""The maximum lease duration, in seconds. A greater leaseDurationSeconds counts as this value."""

_LOGS = (
    "Find out why no replica leads: kubectl -n {namespace} logs deployment/grove-admission. The"
    " Role of the server must allow it to create Leases, and to get and patch the Lease {name}."
)


async def check_leader(client: Client, settings: LeaderElection, now: datetime) -> Checks:
    """Check that a replica holds the Lease and has renewed it in time.

    `now` is in UTC. Raise ClusterError if the Lease cannot be read.
    """
    if not settings.enabled:
        return [ok("leader election is off: every replica reconciles")]

    title = f"Lease {settings.namespace}/{settings.name}"
    remedy = _LOGS.format(namespace=settings.namespace, name=settings.name)
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
            f"{title} of {holder} was last renewed at {renewed}: nothing has been reconciled since"
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
