"""Every way to name a queue, as objects that an API server takes."""

import copy
from collections.abc import Mapping
from typing import Any

from app.base.value import Value
from app.facts.kinds import K8S_POD_GROUP, POD_CLIQUE, POD_CLIQUE_SET, POD_GANG, POD_GROUP, WORKLOAD
from app.objects.resource import POD, Resource

Object = dict[str, Any]

QUEUE = "kai.scheduler/queue"
GROUP = "pod-group-name"
KAI = "kai-scheduler"
OTHER_SCHEDULER = "default-scheduler"

CONFIG_MAP = Resource("", "configmaps", "ConfigMap", True, ("v1",))
CRON_JOB = Resource("batch", "cronjobs", "CronJob", True, ("v1",))
TEMPLATED = (
    Resource("batch", "jobs", "Job", True, ("v1",)),
    Resource("apps", "deployments", "Deployment", True, ("v1",)),
    Resource("apps", "replicasets", "ReplicaSet", True, ("v1",)),
    Resource("apps", "statefulsets", "StatefulSet", True, ("v1",)),
    Resource("apps", "daemonsets", "DaemonSet", True, ("v1",)),
    Resource("", "replicationcontrollers", "ReplicationController", True, ("v1",)),
)
"""What has a template of a Pod in `spec.template`."""

REVISION = Resource("apps", "controllerrevisions", "ControllerRevision", True, ("v1",))

_APP = {"app": "x"}


class Way(Value):
    """An object that names a queue, and its kind."""

    resource: Resource
    obj: Object


def metadata(
    labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None
) -> Object:
    return {"name": "x", "labels": dict(labels or {}), "annotations": dict(annotations or {})}


def pod(labels: Mapping[str, str] | None = None, scheduler: str = KAI, **more: Any) -> Object:
    containers = [{"name": "c", "image": "registry.example/c:1"}]
    spec = {"schedulerName": scheduler, "restartPolicy": "Always", "containers": containers}
    return {"metadata": metadata(labels, **more), "spec": spec}


def controlled(
    resource: Resource, labels: Mapping[str, str] | None = None, template: Object | None = None
) -> Object:
    """An object of one of TEMPLATED."""
    template = template or pod()
    template["metadata"]["labels"].update(_APP)
    spec: Object = {"template": template}
    if resource.kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    elif resource.kind == "ReplicationController":
        spec["selector"] = _APP
    else:
        spec["selector"] = {"matchLabels": _APP}
    if resource.kind == "StatefulSet":
        spec["serviceName"] = "x"
    return {"metadata": metadata(labels), "spec": spec}


def revision(template: Object) -> Object:
    """A ControllerRevision of a StatefulSet, which makes Pods of it."""
    data = {"spec": {"template": {"$patch": "replace", **template}}}
    return {"metadata": metadata(), "data": data, "revision": 1}


def cron_job(template: Object, job: Object | None = None) -> Object:
    """A CronJob with the template of a Pod, and the metadata of its Jobs."""
    template["spec"]["restartPolicy"] = "Never"
    jobs = {"metadata": job or {}, "spec": {"template": template}}
    return {"metadata": metadata(), "spec": {"schedule": "0 0 1 1 *", "jobTemplate": jobs}}


def cliques(*entries: Object, scheduler: str = KAI) -> Object:
    """A PodCliqueSet with cliques; each of `entries` has metadata of one."""
    listed = [
        {"name": f"w{number}", "spec": {**_clique(scheduler), "roleName": f"w{number}"}, **entry}
        for number, entry in enumerate(entries or ({},))
    ]
    return {"metadata": metadata(), "spec": {"replicas": 1, "template": {"cliques": listed}}}


def _clique(scheduler: str = KAI) -> Object:
    containers = pod()["spec"]["containers"]
    spec = {"containers": containers, "schedulerName": scheduler}
    return {"roleName": "w", "replicas": 1, "podSpec": spec}


def _workload(**entries: Any) -> Object:
    group = {"name": "g", "schedulingPolicy": {"gang": {"minCount": 1}}}
    return {"metadata": metadata(**entries), "spec": {"podGroupTemplates": [group]}}


def _group(**entries: Any) -> Object:
    return {
        "metadata": metadata(**entries),
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
    }


def ways(queue: str) -> dict[str, Way]:
    """Each way to name `queue`."""
    label = {QUEUE: queue}
    project = {"project": queue}
    group = {"metadata": metadata(), "spec": {"minMember": 1, "queue": queue}}
    other = {"metadata": metadata(label), "spec": {"minMember": 1}}
    listed: dict[str, Way] = {
        "the spec of a PodGroup": Way(POD_GROUP, group),
        "a label of a PodGroup": Way(POD_GROUP, other),
        "a label of a PodCliqueSet": Way(
            POD_CLIQUE_SET, {**cliques(), "metadata": metadata(label)}
        ),
        "an annotation of a PodCliqueSet": Way(
            POD_CLIQUE_SET, {**cliques(), "metadata": metadata({}, label)}
        ),
        "a label of a clique": Way(POD_CLIQUE_SET, cliques({"labels": label})),
        "an annotation of a clique": Way(POD_CLIQUE_SET, cliques({"annotations": label})),
        "a PodClique": Way(POD_CLIQUE, {"metadata": metadata(label), "spec": _clique()}),
        "a PodGang": Way(POD_GANG, {"metadata": metadata(label), "spec": {"podgroups": []}}),
        "a label of a Workload": Way(WORKLOAD, _workload(labels=label)),
        "an annotation of a Workload": Way(WORKLOAD, _workload(annotations=label)),
        "a label of a PodGroup of Kubernetes": Way(K8S_POD_GROUP, _group(labels=label)),
        "a label of a Pod": Way(POD, pod(label)),
        "an annotation of a Pod": Way(POD, pod(annotations=label)),
        "a project of a Pod": Way(POD, pod(project)),
        "a CronJob": Way(CRON_JOB, cron_job(pod(label))),
        "the Jobs of a CronJob": Way(CRON_JOB, cron_job(pod(), {"labels": label})),
        "an annotation of the Jobs of a CronJob": Way(
            CRON_JOB, cron_job(pod(), {"annotations": label})
        ),
        "a project of the Jobs of a CronJob": Way(CRON_JOB, cron_job(pod(), {"labels": project})),
        "any owner of Pods": Way(CONFIG_MAP, {"metadata": metadata(label)}),
        "a template of a ControllerRevision": Way(REVISION, revision(pod(label))),
        "a project of the Pods of a ControllerRevision": Way(REVISION, revision(pod(project))),
        "a project of a clique": Way(POD_CLIQUE_SET, cliques({"labels": project})),
        "a project of a PodClique": Way(
            POD_CLIQUE, {"metadata": metadata(project), "spec": _clique()}
        ),
    }
    for resource in TEMPLATED:
        kind = resource.kind
        listed[f"a label of a {kind}"] = Way(resource, controlled(resource, label))
        listed[f"a template of a {kind}"] = Way(resource, controlled(resource, {}, pod(label)))
        listed[f"a project of a {kind}"] = Way(resource, controlled(resource, project))
        listed[f"a project of the Pods of a {kind}"] = Way(
            resource, controlled(resource, {}, pod(project))
        )
    return listed


def projects(queue: str) -> dict[str, Way]:
    """Each kind whose label `project` leads to `queue` if it owns a Pod, whoever schedules it.

    A controller copies the label of a template to an object, which a tenant makes such an owner.
    """
    project = {"project": queue}
    labels = metadata(project)
    elsewhere = pod(scheduler=OTHER_SCHEDULER)
    job = controlled(TEMPLATED[0], {}, elsewhere)
    listed = {
        "a ConfigMap": Way(CONFIG_MAP, {"metadata": labels}),
        "a PodGang": Way(POD_GANG, {"metadata": labels, "spec": {"podgroups": []}}),
        "a Workload": Way(WORKLOAD, {**_workload(), "metadata": labels}),
        "a PodGroup of Kubernetes": Way(K8S_POD_GROUP, {**_group(), "metadata": labels}),
        "a PodCliqueSet": Way(POD_CLIQUE_SET, {**cliques(), "metadata": labels}),
        "a CronJob": Way(CRON_JOB, {**cron_job(pod()), "metadata": labels}),
        "a Job without KAI": Way(TEMPLATED[0], {**job, "metadata": labels}),
        "a Pod without KAI": Way(POD, {**elsewhere, "metadata": labels}),
        "the Jobs of a CronJob without KAI": Way(
            CRON_JOB, cron_job(pod(scheduler=OTHER_SCHEDULER), {"labels": project})
        ),
        "the Pods of a CronJob without KAI": Way(CRON_JOB, cron_job(pod(project, OTHER_SCHEDULER))),
        "the Pods of a ControllerRevision without KAI": Way(
            REVISION, revision(pod(project, OTHER_SCHEDULER))
        ),
        "a clique without KAI": Way(
            POD_CLIQUE_SET, cliques({"labels": project}, scheduler=OTHER_SCHEDULER)
        ),
    }
    for resource in TEMPLATED:
        made = controlled(resource, {}, pod(project, OTHER_SCHEDULER))
        listed[f"the Pods of a {resource.kind} without KAI"] = Way(resource, made)
    return listed


def groups(name: str) -> dict[str, Way]:
    """Each way to put Pods into the PodGroup `name`, which may be of another namespace."""
    group = {GROUP: name}
    listed = {
        "a Pod": Way(POD, pod(annotations=group)),
        "a Pod without KAI": Way(POD, pod(scheduler=OTHER_SCHEDULER, annotations=group)),
        "a CronJob": Way(CRON_JOB, cron_job(pod(annotations=group))),
        "a ControllerRevision": Way(REVISION, revision(pod(annotations=group))),
        "a clique": Way(POD_CLIQUE_SET, cliques({"annotations": group})),
        "a PodClique": Way(
            POD_CLIQUE, {"metadata": metadata(annotations=group), "spec": _clique()}
        ),
    }
    for resource in TEMPLATED:
        made = controlled(resource, {}, pod(annotations=group))
        listed[f"a template of a {resource.kind}"] = Way(resource, made)
    return listed


class Steps(Value):
    """What an object is, write after write. The last write names a queue that counts.

    If `is_copied`, a controller that is trusted makes the first object.
    """

    resource: Resource
    objects: tuple[Object, ...]
    is_copied: bool = False


def _steps(resource: Resource, *entries: Mapping[str, Any], is_copied: bool = False) -> Steps:
    """Writes of the metadata of an object of a kind; each entry has labels and annotations."""
    obj = {} if resource == CONFIG_MAP else controlled(resource, {}, pod())
    objects = tuple({**copy.deepcopy(obj), "metadata": metadata(**entry)} for entry in entries)
    return Steps(resource, objects, is_copied)


def steps(queue: str, own: str) -> dict[str, Steps]:
    """Ways of several writes to `queue`, of which each but the last is allowed.

    The tenant may use the queue `own`.
    """
    theirs = {QUEUE: queue}
    mine = {QUEUE: own}
    job = TEMPLATED[0]
    project = {"project": queue}
    copied = {"annotations": theirs}
    return {
        "an annotation becomes a label": _steps(
            CONFIG_MAP, {"annotations": theirs}, {"labels": theirs}
        ),
        "an annotation stays beside a label": _steps(
            CONFIG_MAP, {"annotations": theirs}, {"annotations": theirs, "labels": theirs}
        ),
        "an annotation, an empty label, then the label": _steps(
            CONFIG_MAP,
            {"annotations": theirs},
            {"annotations": theirs, "labels": {QUEUE: ""}},
            {"annotations": theirs, "labels": theirs},
        ),
        "an annotation, the own label, then the label": _steps(
            CONFIG_MAP,
            {"annotations": theirs},
            {"annotations": theirs, "labels": mine},
            {"annotations": theirs, "labels": theirs},
        ),
        "a project beside the own queue, then alone": _steps(
            CONFIG_MAP, {"labels": {**mine, **project}}, {"labels": project}
        ),
        "a project beside the own queue, beside an empty one, then alone": _steps(
            CONFIG_MAP,
            {"labels": {**mine, **project}},
            {"labels": {**project, QUEUE: ""}},
            {"labels": project},
        ),
        "a project beside an empty queue that a controller copied, then alone": _steps(
            CONFIG_MAP, {"labels": {**project, QUEUE: ""}}, {"labels": project}, is_copied=True
        ),
        "an annotation of a Job that a controller copied": _steps(
            job, copied, {"labels": theirs}, is_copied=True
        ),
        "an annotation of a Job, the own label, then the label": _steps(
            job,
            copied,
            {**copied, "labels": mine},
            {**copied, "labels": theirs},
            is_copied=True,
        ),
    }


def binding(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Object:
    """A Binding, whose labels and annotations its Pod gets."""
    target = {"apiVersion": "v1", "kind": "Node", "name": "n"}
    return {"metadata": metadata(labels, annotations), "target": target}
