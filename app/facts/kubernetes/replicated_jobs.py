"""Read the replicatedJobs of a JobSet: which Jobs wait for others, and how many have started.

Source: `dependencyReachedStatus` and `allReplicasStarted` in
https://github.com/kubernetes-sigs/jobset/tree/main/pkg/controllers
"""

from collections.abc import Mapping

from app.base.value import Value
from app.objects.shape import JsonMap, int_of, map_at, maps_at, text_at

COMPLETE = "Complete"
IN_ORDER = "InOrder"
"""The startupPolicyOrder with which each replicatedJob waits for the previous ones."""
_READY = "Ready"


class JobDependency(Value):
    """A replicatedJob that another one waits for, and the status that it must reach."""

    name: str
    status: str
    """The status: Ready or Complete."""


class ReplicatedJob(Value):
    """The Jobs of one replicatedJob of a JobSet."""

    name: str
    jobs: int
    """The number of Jobs."""
    pods: int
    """The number of pods of all its Jobs."""
    waits_for: tuple[JobDependency, ...] = ()
    """The replicatedJobs that must reach a status before JobSet creates or resumes the Jobs."""
    ready: int = 0
    """The number of unfinished Jobs whose pods are all ready or have succeeded."""
    active: int = 0
    """The number of Jobs with pods that run or are pending."""
    succeeded: int = 0
    failed: int = 0
    suspended: int = 0

    @property
    def has_started(self) -> bool:
        """Do some of its Jobs have pods, or have they ended?"""
        return self.active + self.ready + self.succeeded + self.failed > 0

    def reached(self, status: str) -> int:
        """Return the number of Jobs that count for a dependency on `status`."""
        if status == COMPLETE:
            return self.succeeded
        return self.ready + self.succeeded + self.failed


def unmet(job: ReplicatedJob, jobs: Mapping[str, ReplicatedJob]) -> list[tuple[ReplicatedJob, str]]:
    """Return the dependencies of a replicatedJob that have not reached their status.

    Each has the status. `jobs` has the replicatedJobs of the JobSet by name.
    """
    needed = [(jobs[each.name], each.status) for each in job.waits_for if each.name in jobs]
    return [(other, status) for other, status in needed if other.reached(status) < other.jobs]


def read_replicated_jobs(spec: JsonMap, status: JsonMap) -> tuple[ReplicatedJob, ...]:
    """Return the replicatedJobs of a JobSet, or () if its controller has not written a status."""
    counts = {text_at(item, "name"): item for item in maps_at(status, "replicatedJobsStatus")}
    if not counts:
        return ()
    in_order = text_at(map_at(spec, "startupPolicy"), "startupPolicyOrder") == IN_ORDER
    found: list[ReplicatedJob] = []
    for item in maps_at(spec, "replicatedJobs"):
        waits_for = tuple(
            JobDependency(text_at(other, "name"), text_at(other, "status"))
            for other in maps_at(item, "dependsOn")
        )
        if in_order:
            waits_for = tuple(JobDependency(other.name, _READY) for other in found[-1:])
        jobs = int_of(item.get("replicas"), 1)
        of_job = map_at(item, "template", "spec")
        parallelism = int_of(of_job.get("parallelism"), 1)
        known = counts.get(text_at(item, "name"), {})
        each = {
            name: int_of(known.get(name))
            for name in ("ready", "active", "succeeded", "failed", "suspended")
        }
        pods = jobs * min(parallelism, int_of(of_job.get("completions"), parallelism))
        found.append(ReplicatedJob(text_at(item, "name"), jobs, pods, waits_for, **each))
    return tuple(found)
