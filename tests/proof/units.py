"""Workloads whose Pods share ComputeDomains, for one namespace: what is desired, and what their
controllers do about it again and again, whether it succeeds or not.

They have the names of the PodCliqueSets beside them. Pods are made like those of LeaderWorkerSets,
JobSets and Jobs: from controllers in between, which have the owner above them.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from random import Random
from typing import NoReturn

from app.facts.kinds import COMPUTE_DOMAIN, JOB_SET, LEADER_WORKER_SET
from app.kube.api import ClusterError, NotFound, Object, ObjectRef, Selection, every
from app.kube.client import HttpClient
from app.objects.resource import JOB, POD, STATEFUL_SET, Resource
from app.objects.shape import labels_of
from tests.builders import pod_spec

UNIT = "grove.io/mnnvl-unit"
OWNERS = (LEADER_WORKER_SET, JOB_SET, JOB)
PLAYED = "played-by"
"""A label of all that is made here."""

Wish = tuple[Resource, str]
"""An owner: its kind and its name."""


def units_of(wish: Wish, replicas: int) -> set[str]:
    """The units that an owner has."""
    resource, name = wish
    if resource is LEADER_WORKER_SET:
        return {f"lws-{name}-{index}" for index in range(replicas)}
    if not replicas:
        return set()
    return {f"jobset-{name}"} if resource is JOB_SET else {f"job-{name}-job"}


class Controllers:
    """`wishes` are the replicas of each owner, None for one that is to be deleted."""

    def __init__(self, client: HttpClient, namespace: str, random: Random) -> None:
        self.wishes: dict[Wish, int | None] = {}
        self.rounds = 0
        self._client = client
        self._namespace = namespace
        self._random = random

    async def run(self) -> NoReturn:
        while True:
            for wish, replicas in list(self.wishes.items()):
                with suppress(ClusterError):
                    await self._reconcile(wish, replicas)
            self.rounds += 1
            await asyncio.sleep(0.05)

    # What people do.

    async def change(self, names: Iterable[str]) -> None:
        """Scale an owner, or create or delete it."""
        wish = self._wish(names)
        self.wishes[wish] = self._random.choice((None, 0, 1, 2, 3))

    async def recreate(self, names: Iterable[str]) -> None:
        """Delete an owner, which is recreated at once."""
        resource, name = self._wish(names)
        with suppress(NotFound):
            await self._client.delete(ObjectRef(resource, _name(resource, name), self._namespace))

    async def restart(self, names: Iterable[str]) -> None:
        """Delete all Pods of an owner, which are made again under the same labels."""
        resource, name = self._wish(names)
        for pod in await self._pods(resource, name):
            await self._delete(POD, pod["metadata"]["name"])

    def _wish(self, names: Iterable[str]) -> Wish:
        return self._random.choice(OWNERS), self._random.choice(sorted(names))

    # What controllers do.

    async def _reconcile(self, wish: Wish, replicas: int | None) -> None:
        resource, name = wish
        if replicas is None:
            await self._delete(resource, _name(resource, name))
            return

        spec: Object | None = {"replicas": replicas}
        if resource is JOB_SET:
            spec = {"replicatedJobs": [{"name": "workers", "replicas": replicas}]}
        elif resource is JOB:
            spec = None
        owner = await self._put(resource, _name(resource, name), None, {}, spec)
        if resource is LEADER_WORKER_SET:
            await self._put_groups(owner, replicas)
        else:
            await self._put_jobs(resource, owner, name, replicas)
        for pod in await self._pods(resource, name):
            if int(labels_of(pod)["index"]) >= replicas:
                await self._delete(POD, pod["metadata"]["name"])

    async def _put_groups(self, owner: Object, replicas: int) -> None:
        name = owner["metadata"]["name"]
        leaders = await self._put(STATEFUL_SET, name, owner)
        for index in range(replicas):
            labels = {
                "leaderworkerset.sigs.k8s.io/name": name,
                "leaderworkerset.sigs.k8s.io/group-index": str(index),
                **_played(LEADER_WORKER_SET, name, index),
            }
            with suppress(ClusterError):
                leader = await self._put(POD, f"{name}-{index}", leaders, labels)
                workers = await self._put(STATEFUL_SET, f"{name}-{index}", leader)
                await self._put(POD, f"{name}-{index}-1", workers, labels)

    async def _put_jobs(self, resource: Resource, owner: Object, name: str, replicas: int) -> None:
        for index in range(replicas):
            job = owner
            labels = _played(resource, name, index)
            if resource is JOB_SET:
                job = await self._put(JOB, f"{name}-workers-{index}", owner)
                labels |= {
                    "jobset.sigs.k8s.io/jobset-name": name,
                    "jobset.sigs.k8s.io/replicatedjob-name": "workers",
                    "jobset.sigs.k8s.io/job-index": str(index),
                }
            labels["batch.kubernetes.io/job-name"] = job["metadata"]["name"]
            with suppress(ClusterError):
                await self._put(POD, f"{job['metadata']['name']}-{index}-pod", job, labels)

    async def _put(
        self,
        resource: Resource,
        name: str,
        above: Object | None,
        labels: Object | None = None,
        spec: Object | None = None,
    ) -> Object:
        """Return the object, which is created or gets `spec`. NotFound while it is of a former one."""
        ref = ObjectRef(resource, name, self._namespace)
        owners = [] if above is None else [_reference(above)]
        try:
            stored = await self._client.get(ref)
        except NotFound:
            metadata = {"name": name, "labels": labels or {}, "ownerReferences": owners}
            obj = {"metadata": metadata, "spec": spec or _spec(resource, name)}
            if resource is POD:
                metadata["annotations"] = {"grove.io/mnnvl-enabled": "true"}
                obj["spec"] = pod_spec()
            return await self._client.create(resource, obj, self._namespace)

        uids = [owner["uid"] for owner in stored["metadata"].get("ownerReferences", ())]
        if stored["metadata"].get("deletionTimestamp") or uids != [o["uid"] for o in owners]:
            raise NotFound("it is of a former owner")
        if spec is not None and stored["spec"] != spec:
            return await self._client.patch(ref, {"spec": spec})
        return stored

    async def _pods(self, resource: Resource, name: str) -> list[Object]:
        selection = Selection(POD, self._namespace, labels=f"{PLAYED}={resource.kind}-{name}")
        return await every(self._client, selection)

    async def _delete(self, resource: Resource, name: str) -> None:
        with suppress(NotFound):
            await self._client.delete(ObjectRef(resource, name, self._namespace))

    # What holds in the end.

    async def violations(self) -> list[str]:
        """Every invariant that does not hold now, in words."""
        domains: dict[str, Object] = {}
        for domain in (await self._client.list(Selection(COMPUTE_DOMAIN, self._namespace))).items:
            if UNIT in labels_of(domain):
                domains[domain["metadata"]["name"]] = domain

        broken: list[str] = []
        units: dict[str, str] = {}
        for wish, replicas in self.wishes.items():
            resource, name = wish
            pods = await self._pods(resource, name)
            owner = await self._uid(resource, _name(resource, name))
            units |= dict.fromkeys(units_of(wish, replicas or 0), owner)
            if resource is not LEADER_WORKER_SET and replicas is not None:
                # the whole owner is the unit, whether it has Pods or not
                units |= dict.fromkeys(units_of(wish, 1), owner)
            broken += _incomplete(wish, replicas or 0, pods)
            for pod in pods:
                broken += _of_pod(pod, domains, owner)
        return [*broken, *_leaked(domains, units)]

    async def _uid(self, resource: Resource, name: str) -> str:
        try:
            stored = await self._client.get(ObjectRef(resource, name, self._namespace))
        except NotFound:
            return ""
        return str(stored["metadata"]["uid"])


def _spec(resource: Resource, name: str) -> Object:
    """What Kubernetes asks of its own kinds, whose controllers are played here."""
    template: Object = {"metadata": {"labels": {"app": name}}, "spec": pod_spec()}
    if resource is STATEFUL_SET:
        selector = {"matchLabels": {"app": name}}
        return {"serviceName": name, "replicas": 0, "selector": selector, "template": template}
    template["spec"]["restartPolicy"] = "Never"
    return {"suspend": True, "template": template}


def _name(resource: Resource, name: str) -> str:
    """A Job has another name than the Jobs of a JobSet."""
    return f"{name}-job" if resource is JOB else name


def _played(resource: Resource, name: str, index: int) -> dict[str, str]:
    return {PLAYED: f"{resource.kind}-{name}", "index": str(index)}


def _reference(owner: Object) -> Object:
    metadata = owner["metadata"]
    kind = owner["kind"]
    resource = next(r for r in (*OWNERS, STATEFUL_SET, POD) if r.kind == kind)
    return resource.owner_reference(metadata["name"], metadata["uid"])


def _incomplete(wish: Wish, replicas: int, pods: list[Object]) -> Iterator[str]:
    resource, name = wish
    expected = replicas * (2 if resource is LEADER_WORKER_SET else 1)
    if len(pods) != expected:
        yield f"{resource.kind} {name} has {len(pods)} Pods, not {expected}"


def _of_pod(pod: Object, domains: dict[str, Object], owner: str) -> Iterator[str]:
    """It has the claim of its unit and no other, whose one owner is that of the Pod."""
    name = pod["metadata"]["name"]
    labels = labels_of(pod)
    group = labels.get("leaderworkerset.sigs.k8s.io/group-index")
    job_set = labels.get("jobset.sigs.k8s.io/jobset-name")
    if group is not None:
        unit = f"lws-{labels['leaderworkerset.sigs.k8s.io/name']}-{group}"
    elif job_set is not None:
        unit = f"jobset-{job_set}"
    else:
        unit = f"job-{labels['batch.kubernetes.io/job-name']}"

    claims = pod["spec"].get("resourceClaims")
    if claims != [{"name": "mnnvl", "resourceClaimTemplateName": f"{unit}-mnnvl-template"}]:
        yield f"Pod {name} has the claims {claims}"
    domain = domains.get(f"{unit}-cd")
    if domain is None or domain["metadata"].get("deletionTimestamp"):
        yield f"Pod {name} needs {unit}-cd, which is not there"
        return
    uids = [reference["uid"] for reference in domain["metadata"]["ownerReferences"]]
    if uids != [owner]:
        yield f"{unit}-cd belongs to {domain['metadata']['ownerReferences']}"


def _leaked(domains: dict[str, Object], units: dict[str, str]) -> Iterator[str]:
    for name, domain in domains.items():
        unit = labels_of(domain)[UNIT]
        if unit not in units:
            yield f"{name} is of no unit any more"
        elif units[unit] not in [o["uid"] for o in domain["metadata"]["ownerReferences"]]:
            yield f"{name} belongs to a former owner"
