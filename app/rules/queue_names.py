"""Where an object names a queue or a PodGroup of KAI, as lists of names in CEL.

Where several places are compared one by one, each has an expression of its own.

Sources: KAI's podgrouper reads labels of the topmost owner of a Pod, of its Job if that is a
CronJob, of its PodGang if that is of Grove, and of the Pod:
https://github.com/kai-scheduler/KAI-Scheduler/blob/d5bc503a/pkg/podgrouper/podgrouper/plugins/defaultgrouper/default_grouper.go,
Grove reads labels and annotations of a PodCliqueSet and its cliques:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/scheduler/kai/backend.go
"""

from app.base.value import Value
from app.facts.labels import POD_GROUP_NAME
from app.rules.policy import text

ROOT = "ROOT"
"""Stands for the object in expressions: `object` or `oldObject`."""

_TEMPLATE = (
    "(has(ROOT.spec.jobTemplate) ? [ROOT.spec.jobTemplate.spec.template] :"
    " has(ROOT.spec.template) ? [ROOT.spec.template] : [ROOT])"
)
"""The expression of the Pod or its template, in a list."""

_JOB = "(has(ROOT.spec.jobTemplate) ? [ROOT.spec.jobTemplate] : [ROOT])"
"""The expression of the owner of Pods that KAI asks, in a list: the Job of a CronJob."""

_CLIQUES = "ROOT.spec.template.cliques"
_FIELDS = ("labels", "annotations")

Places = tuple[str, ...]
"""An expression of a list of names for each place of an object. The last one may be long."""


class QueueKeys(Value):
    """The keys of labels that name a queue: its own, or a project and a pool of nodes.

    `scheduler` is the schedulerName of KAI's Pods.
    """

    queue: str
    project: str
    node_pool: str
    scheduler: str


def entry(holder: str, field: str, key: str) -> str:
    """Return the expression of a label or an annotation of `holder`, '' if it has none."""
    entries = f"{holder}.metadata.{field}"
    return (
        f"(has({holder}.metadata) && has({entries}) && {text(key)} in {entries}"
        f" ? {entries}[{text(key)}] : '')"
    )


def of_metadata(keys: QueueKeys) -> Places:
    """Return the queues that the metadata of an object names."""
    return tuple(f"[{entry(ROOT, field, keys.queue)}]" for field in _FIELDS)


def of_pod_group(keys: QueueKeys) -> Places:
    """Return the queues that a PodGroup of KAI names."""
    spec = "has(ROOT.spec) && has(ROOT.spec.queue) ? ROOT.spec.queue : ''"
    return (f"[{spec}]", *of_metadata(keys))


def of_set(keys: QueueKeys) -> Places:
    """Return the queues of a PodCliqueSet and of its cliques, whose metadata is in the clique.

    A Pod gets the labels of its clique, and so a project, which KAI's podgrouper reads beside the
    Grove of January 2026. The cliques are one place, because they may be many.
    """
    parts = [_of_cliques(field, keys.queue) for field in _FIELDS]
    return (*of_metadata(keys), " + ".join([*parts, of_projects_of_set(keys)]))


def of_projects_of_set(keys: QueueKeys) -> str:
    """Return the queues to which projects of cliques lead that KAI schedules."""
    is_ours = _is_of_kai("c.spec.podSpec", keys)
    pool = text(keys.node_pool)
    suffix = f"({pool} in c.labels ? '-' + c.labels[{pool}] : '')"
    named = f"c.labels[{text(keys.project)}] + {suffix}"
    return f"{_CLIQUES}.filter(c, {_has_project(keys)} && {is_ours}).map(c, {named})"


def groups_of_set() -> str:
    """Return the expression of the PodGroups that the Pods of a PodCliqueSet name."""
    return _of_cliques("annotations", POD_GROUP_NAME)


def projects_of_set(keys: QueueKeys) -> str:
    """Return the expression of the projects of cliques, whoever schedules their Pods."""
    project = text(keys.project)
    return f"{_CLIQUES}.filter(c, {_has_project(keys)}).map(c, c.labels[{project}])"


def _of_cliques(field: str, key: str) -> str:
    """Return the expression of a label or an annotation of all cliques that have it."""
    has_key = f"has(c.{field}) && {text(key)} in c.{field}"
    return f"{_CLIQUES}.filter(c, {has_key}).map(c, c.{field}[{text(key)}])"


def _has_project(keys: QueueKeys) -> str:
    """Return the expression whether the clique `c` has a project, and no queue beside it."""
    labels = "c.labels"
    return f"has({labels}) && {text(keys.project)} in {labels} && !({text(keys.queue)} in {labels})"


def of_clique(keys: QueueKeys) -> Places:
    """Return the queues of a PodClique. Its labels are those of its Pods."""
    is_ours = _is_of_kai("ROOT.spec.podSpec", keys)
    project = f"{is_ours} ? {_project_of(keys, ROOT, ROOT)} : ''"
    return (*of_metadata(keys), f"[{project}]")


def of_pods(keys: QueueKeys) -> Places:
    """Return the queues of a Pod or of what makes Pods.

    A project counts only in Pods of KAI, because other programs have labels of this name too. It
    doesn't count beside a label that names the queue itself: KAI looks for that first.
    """
    metadata = [
        f"{holder}.map(h, {entry('h', field, keys.queue)})"
        for holder in (_JOB, _TEMPLATE)
        for field in _FIELDS
    ]
    ours = f"{_TEMPLATE}.filter(p, {_is_of_kai('p.spec', keys)})"
    without = f"{ours}.filter(p, {entry('p', 'labels', keys.queue)} == '')"
    of_owner = f"{_JOB}.map(j, {_project_of(keys, 'j', 'p')})[0]"
    projects = [f"{ours}.map(p, {_project_of(keys, 'p', 'p')})", f"{without}.map(p, {of_owner})"]
    return (*of_metadata(keys), *metadata, *projects)


def groups_of_metadata() -> str:
    """Return the expression of the PodGroup that a PodClique or a Binding gives to its Pods."""
    return f"[{entry(ROOT, 'annotations', POD_GROUP_NAME)}]"


def groups_of_pods() -> str:
    """Return the expression of the PodGroup that a Pod or its template names."""
    return f"{_TEMPLATE}.map(p, {entry('p', 'annotations', POD_GROUP_NAME)})"


def projects_of_templates(keys: QueueKeys) -> str:
    """Return the expression of the projects of what is made of an object, whoever schedules it.

    Kubernetes copies the labels of a template to a ReplicaSet and to Pods, and those of a CronJob
    to Jobs. Each of them can be made the owner of a Pod of KAI.
    """
    jobs = "(has(ROOT.spec.jobTemplate) ? [ROOT.spec.jobTemplate] : [])"
    return f"({jobs} + {_TEMPLATE}).map(t, {project_beside_no_queue(keys, 't')})"


def project_beside_no_queue(keys: QueueKeys, holder: str) -> str:
    """Return the expression of the label `project` of `holder`.

    It is '' if there is none, or if another label beside it names the queue.
    """
    queue = entry(holder, "labels", keys.queue)
    return f"({queue} == '' ? {entry(holder, 'labels', keys.project)} : '')"


def _project_of(keys: QueueKeys, holder: str, pod: str) -> str:
    """Return the expression of the queue that the project of `holder` is for a Pod, or ''."""
    project = project_beside_no_queue(keys, holder)
    pool = entry(pod, "labels", keys.node_pool)
    return f"({project} == '' ? '' : {project} + ({pool} == '' ? '' : '-' + {pool}))"


def _is_of_kai(spec: str, keys: QueueKeys) -> str:
    """Return the expression whether KAI schedules Pods of this spec."""
    scheduler = f"{spec}.schedulerName"
    return f"(has({spec}) && has({scheduler}) && {scheduler} == {text(keys.scheduler)})"
