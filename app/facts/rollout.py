"""Read updates of a workload's template that have not ended: some pods have an older template."""

from collections.abc import Iterator

from app.base.value import Value
from app.facts.kinds import LEADER_WORKER_SET, POD_CLIQUE_SET
from app.objects.resource import DEPLOYMENT, STATEFUL_SET
from app.objects.shape import JsonMap, int_of, map_at, maps_at, text_at
from app.objects.time import seconds_since_1970

_TOO_LATE = "ProgressDeadlineExceeded"


class Rollout(Value):
    """An update of the template of a workload that has not ended."""

    old: int
    """The number of pods, groups or replicas with an older template, or that do not exist yet."""
    total: int
    """The number of all pods, groups or replicas."""
    since: float | None = None
    """When it began, or last made progress, in seconds since 1970, or None if not known."""
    is_late: bool = False
    """Whether its controller says that it takes too long."""
    held_by: str = ""
    """The setting that keeps pods on the older template, such as `spec.paused: true`, or ""."""


def read_rollout(kind: str, spec: JsonMap, status: JsonMap) -> Rollout | None:
    """Return the update of a workload of this kind that has not ended, or None."""
    total = int_of(spec.get("replicas"), 1)
    existing = int_of(status.get("replicas"))
    updated = int_of(status.get("updatedReplicas"))
    if kind == DEPLOYMENT.kind and updated < existing:
        progress = next(_conditions(status, "Progressing"), {})
        since = progress.get("lastUpdateTime") or progress.get("lastTransitionTime")
        return Rollout(
            existing - updated,
            existing,
            seconds_since_1970(since),
            text_at(progress, "reason") == _TOO_LATE,
            "spec.paused: true" if spec.get("paused") is True else "",
        )

    if kind == STATEFUL_SET.kind and updated < existing:
        if text_at(status, "updateRevision") == text_at(status, "currentRevision"):
            return None
        strategy = map_at(spec, "updateStrategy")
        held_by = "spec.updateStrategy.type: OnDelete"
        if text_at(strategy, "type") != "OnDelete":
            path = "spec.updateStrategy.rollingUpdate"
            held_by = _partition(path, map_at(strategy, "rollingUpdate"), updated, total)
        return Rollout(existing - updated, existing, held_by=held_by)

    if kind == LEADER_WORKER_SET.kind and updated < total:
        path = "spec.rolloutStrategy.rollingUpdateConfiguration"
        settings = map_at(spec, "rolloutStrategy", "rollingUpdateConfiguration")
        held_by = _partition(path, settings, updated, total)
        going = next(_conditions(status, "UpdateInProgress"), {})
        if going.get("status") == "True" or (held_by and updated):
            since = seconds_since_1970(going.get("lastTransitionTime"))
            return Rollout(total - updated, total, since, held_by=held_by)

    if kind == POD_CLIQUE_SET.kind:
        # rollingUpdateProgress: Grove before 0.1.0-alpha.7
        progress = map_at(status, "updateProgress") or map_at(status, "rollingUpdateProgress")
        is_manual = text_at(map_at(spec, "updateStrategy"), "type") == "OnDelete"
        ended = "updateEndedAt" in progress and not (is_manual and updated < total)
        if progress and not ended:
            since = seconds_since_1970(progress.get("updateStartedAt"))
            held_by = "spec.updateStrategy.type: OnDelete" if is_manual else ""
            return Rollout(max(0, total - updated), total, since, held_by=held_by)
    return None


def _conditions(status: JsonMap, type: str) -> Iterator[JsonMap]:
    return (item for item in maps_at(status, "conditions") if text_at(item, "type") == type)


def _partition(path: str, settings: JsonMap, updated: int, total: int) -> str:
    """Return the partition in `settings` if all pods that it allows are updated, otherwise ""."""
    partition = int_of(settings.get("partition"))
    return f"{path}.partition: {partition}" if partition and updated + partition >= total else ""
