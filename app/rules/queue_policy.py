"""Who may use which queue of KAI, and which don't exist, in CEL.

Whoever names a queue in an object needs the verb `use` on that queue: no webhook has this rule.
Where several places are compared one by one, each has an expression of its own.

Places where objects name queues: KAI's podgrouper reads labels of the topmost owner of a Pod, of
its Job if that is a CronJob, of its PodGang if that is of Grove, and of the Pod:
https://github.com/kai-scheduler/KAI-Scheduler/blob/d5bc503a/pkg/podgrouper/podgrouper/plugins/defaultgrouper/default_grouper.go,
Grove reads labels and annotations of a PodCliqueSet and its cliques:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/scheduler/kai/backend.go
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from app.base.value import Value
from app.facts.kinds import (
    K8S_POD_GROUP,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GROUP,
    QUEUE,
    QUEUE_NAMES,
    WORKLOAD,
)
from app.facts.labels import POD_GROUP_NAME
from app.objects.owners import COPIES
from app.objects.resource import POD, Resource, built_in
from app.rules.policy import WRITES, Policy, PolicyDemand, sentence, text, texts

# Where an object names a queue.


ROOT = "ROOT"
"""Stands for the object in expressions: `object` or `oldObject`."""

_TEMPLATE = (
    "(has(ROOT.data) ?"
    " (has(ROOT.data.spec) && has(ROOT.data.spec.template) ? [ROOT.data.spec.template] : []) :"
    " has(ROOT.spec.jobTemplate) ? [ROOT.spec.jobTemplate.spec.template] :"
    " has(ROOT.spec.template) ? [ROOT.spec.template] : [ROOT])"
)
"""The expression of the Pod or its template, in a list.

A ControllerRevision has the former template of a StatefulSet, or other data.
"""

_HAS_JOB = "has(ROOT.spec) && has(ROOT.spec.jobTemplate)"
_JOB = f"({_HAS_JOB} ? [ROOT.spec.jobTemplate] : [ROOT])"
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


def projects_of_set(keys: QueueKeys) -> str:
    """Return the expression of the projects of cliques, whoever schedules their Pods."""
    return f"{_CLIQUES}.filter(c, {_has_project(keys)}).map(c, c.labels[{text(keys.project)}])"


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


def projects_of_templates(keys: QueueKeys) -> str:
    """Return the expression of the projects of what is made of an object, whoever schedules it.

    Kubernetes copies the labels of a template to a ReplicaSet and to Pods, and those of a CronJob
    to Jobs. Each of them can be made the owner of a Pod of KAI.
    """
    jobs = f"({_HAS_JOB} ? [ROOT.spec.jobTemplate] : [])"
    return f"({jobs} + {_TEMPLATE}).map(t, {project_beside_no_queue(keys, 't')})"


def project_beside_no_queue(keys: QueueKeys, holder: str) -> str:
    """Return the expression of the label `project` of `holder`.

    It is '' if there is none, or beside a label of a queue, which KAI takes even if it is empty.
    """
    labels = f"{holder}.metadata.labels"
    is_beside = f"has({holder}.metadata) && has({labels}) && {text(keys.queue)} in {labels}"
    return f"({is_beside} ? '' : {entry(holder, 'labels', keys.project)})"


def _project_of(keys: QueueKeys, holder: str, pod: str) -> str:
    """Return the expression of the queue that the project of `holder` is for a Pod, or ''."""
    project = project_beside_no_queue(keys, holder)
    pool = entry(pod, "labels", keys.node_pool)
    return f"({project} == '' ? '' : {project} + ({pool} == '' ? '' : '-' + {pool}))"


def _is_of_kai(spec: str, keys: QueueKeys) -> str:
    """Return the expression whether KAI schedules Pods of this spec."""
    scheduler = f"{spec}.schedulerName"
    return f"(has({spec}) && has({scheduler}) && {scheduler} == {text(keys.scheduler)})"


# What is demanded of the name of a queue: it exists, and the user may use it.


_USER = "request.userInfo.username"


def _of(which: str, names: str) -> str:
    """Return the expression `names` for `object` or `oldObject`."""
    return f"({names.replace(ROOT, which)})"


def _of_former(names: str) -> str:
    """Return the expression `names` for the object before an update, [] if there is none."""
    return f"(request.operation != 'UPDATE' ? [] : {_of('oldObject', names)})"


def _check(resource: Resource, name: str) -> str:
    """Return the expression whether the user may use the object of the cluster named `name`."""
    of_kind = f"authorizer.group('{resource.group}').resource('{resource.plural}')"
    return f"{of_kind}.name({name}).check('use').allowed()"


def variables_of_queues(places: Sequence[str]) -> dict[str, str]:
    """Return the variables of DEMANDS_OF_QUEUES; each expression of `places` lists queues of ROOT.

    A former name counts only in its own place. Nobody may have looked at another one when it was
    written there, such as an annotation of a ConfigMap before it got the label.

    The last place may have many names. To search every name among all former ones would cost more
    than an API server spends on a PodCliqueSet of 1,000 cliques. So the two that were named first
    are compared one by one.
    """
    *few, many = places
    newly = [
        f"{_of('object', names)}.filter(q, q != '' && !(q in {_of_former(names)}))" for names in few
    ]
    newly.append(
        f"{_of('object', many)}.filter(q, q != '' && q != variables.oneFormer"
        " && q != variables.otherFormer && !(q in variables.lastFormer))"
    )
    return {
        "former": f"{_of_former(many)}.filter(q, q != '')",
        "oneFormer": "variables.former.size() == 0 ? '' : variables.former[0]",
        "laterFormer": "variables.former.filter(q, q != variables.oneFormer)",
        "otherFormer": "variables.laterFormer.size() == 0 ? '' : variables.laterFormer[0]",
        "lastFormer": "variables.laterFormer.filter(q, q != variables.otherFormer)",
        "added": " + ".join(newly),
        "first": "variables.added.filter(q, q == variables.added[0])",
        "others": "variables.added.filter(q, q != variables.added[0])",
        "second": "variables.others.filter(q, q == variables.others[0])",
        "third": "variables.others.filter(q, q != variables.others[0])",
    }


def _may_use(which: str) -> PolicyDemand:
    """Return the demand that the user may use the queue of the variable `first` or `second`.

    An API server can afford two checks in an expression, so that each has its own. A message can't
    use variables that need the authorizer.
    """
    queue = f"variables.{which}[0]"
    return PolicyDemand(
        f"{which}Refused",
        f"variables.{which}.size() == 0 || {_check(QUEUE, queue)} ? [] : [{queue}]",
        sentence(
            'queue "{queue}": user "{user}" may not use it, and needs the verb use on'
            f" {QUEUE.plural}.{QUEUE.group}/{{queue}}",
            queue=queue,
            user=_USER,
        ),
        "the user may not use this queue",
        reason="Forbidden",
    )


DEMANDS_OF_QUEUES = (
    PolicyDemand(
        "manyQueues",
        "variables.third",
        sentence(
            "names more than two queues ({names}): name one",
            names="variables.added.join(', ')",
        ),
        "names more than two queues",
        reason="Forbidden",
    ),
    _may_use("first"),
    _may_use("second"),
)


def demand_of_existence(places: Sequence[str]) -> PolicyDemand:
    """Return the demand that the queues exist that the expressions `places` list for ROOT.

    The parameter has the names of all Queues as keys: API servers find one of 20,000 at once.
    """
    return PolicyDemand(
        "missing",
        f"{_of('object', ' + '.join(places))}.filter(q, q != '' && !(q in params.spec.names))",
        sentence(
            'queue "{queue}" does not exist, unless it was made just now: KAI schedules nothing in'
            " it until it does",
            queue="variables.missing[0]",
        ),
        "names a queue that does not exist",
    )


_GROUP = "variables.addedGroups[0]"

DEMANDS_OF_GROUPS = (
    PolicyDemand(
        "manyGroups",
        f"variables.addedGroups.filter(g, g != {_GROUP})",
        sentence(
            'annotation "pod-group-name": names more than one PodGroup ({names}): name one',
            names="variables.addedGroups.join(', ')",
        ),
        "names more than one PodGroup",
        reason="Forbidden",
    ),
    PolicyDemand(
        "groupRefused",
        f"variables.addedGroups.size() == 0 || {_check(POD_GROUP, _GROUP)} ? [] : [{_GROUP}]",
        sentence(
            'annotation "pod-group-name": KAI may take PodGroup "{group}" of any namespace, with'
            ' its queue. User "{user}" needs the verb use on'
            f" {POD_GROUP.plural}.{POD_GROUP.group}/{{group}} in the whole cluster",
            group=_GROUP,
            user=_USER,
        ),
        "the user may not use this PodGroup",
        reason="Forbidden",
    ),
)
"""KAI without its pull request 2095 knows a PodGroup by its name, without the namespace.

Source: https://github.com/kai-scheduler/KAI-Scheduler/pull/2095, of August 2026, merged into the
branches v0.9, v0.12, v0.14, v0.16 and v0.17 in September. No CRD tells whether KAI has it.
"""


def demand_of_projects(keys: QueueKeys) -> PolicyDemand:
    """Return the demand that no project newly leads to a Queue that the user may not use.

    The Queue is the parameter. The queue of a project is that of its name, or
    `<project>-<pool of nodes>`.
    """
    queue = "params.metadata.name"
    leads = f"p != '' && ({queue} == p || {queue}.startsWith(p + '-'))"
    return PolicyDemand(
        "projectRefused",
        f"!variables.projects.exists(p, {leads}) || variables.formerProjects.exists(p, {leads}) ||"
        f" {_check(QUEUE, queue)} ? [] : [{queue}]",
        sentence(
            f'label "{keys.project}": KAI takes it for queue "{{queue}}", and user "{{user}}" may'
            f" not use that: name a queue beside it, in the label {keys.queue}",
            queue=queue,
            user=_USER,
        ),
        "the label leads to a queue that the user may not use",
        reason="Forbidden",
    )


# The policies.


PATH = ""
"""These policies have no webhook."""

_BATCH = "batch"
_APPS = "apps"
_REVISION = built_in(_APPS, "controllerrevisions", "ControllerRevision")
_TEMPLATED = (
    built_in("", "replicationcontrollers", "ReplicationController"),
    built_in(_BATCH, "jobs", "Job"),
    built_in(_BATCH, "cronjobs", "CronJob"),
    built_in(_APPS, "deployments", "Deployment"),
    built_in(_APPS, "replicasets", "ReplicaSet"),
    built_in(_APPS, "statefulsets", "StatefulSet"),
    built_in(_APPS, "daemonsets", "DaemonSet"),
    _REVISION,
)
"""What Kubernetes itself makes Pods of. A StatefulSet makes some of a ControllerRevision."""

_POD_BINDING = built_in("", "pods/binding", "Binding")
_BINDINGS = (_POD_BINDING, built_in("", "bindings", "Binding"))
"""API servers copy the labels and annotations of a Binding to its Pod."""

Conditions = Mapping[str, str]
"""Expressions by name, all of which must be true."""

_ANY = Resource("*", "*", "", True, ("*",))


def by_others(namespaces: Sequence[str], users: Sequence[str]) -> Conditions:
    """Return the condition that somebody asks who does not only copy names of queues.

    Service accounts of `namespaces`, `users`, kubelets and Kubernetes' controllers only do that.
    """
    groups = [*(f"system:serviceaccounts:{namespace}" for namespace in namespaces), "system:nodes"]
    is_member = "has(request.userInfo.groups) && g in request.userInfo.groups"
    return {
        "not-copied-by-a-controller": (
            f"!({texts(groups)}.exists(g, {is_member})) &&"
            f" !(request.userInfo.username in {texts(users)}) &&"
            " request.userInfo.username != 'system:kube-controller-manager'"
        ),
    }


def queue_guards(keys: QueueKeys, others: Conditions) -> list[Policy]:
    """Return the policies for all kinds that name a queue, for requests by `others`."""
    guards = [
        _guard(name, resources, queues, others)
        for name, (resources, queues) in _kinds_with_queues(keys).items()
    ]
    of_owner = f"[{project_beside_no_queue(keys, ROOT)}]"
    any_owner = _of_projects("projects", (_ANY, _POD_BINDING), of_owner, keys, others)
    return [
        *guards,
        _of_other_kinds(_guard("owners", (_ANY,), of_metadata(keys), others), keys),
        replace(any_owner, label=keys.project, with_status=True),
        _of_projects("template-projects", _TEMPLATED, projects_of_templates(keys), keys, others),
        _of_projects("clique-projects", (POD_CLIQUE_SET,), projects_of_set(keys), keys, others),
        _of_shared_owners(),
        _of_revisions(others),
    ]


def missing_queues(keys: QueueKeys, others: Conditions, parameter: str) -> list[Policy]:
    """Return the policies that no object names a queue that doesn't exist.

    `parameter` is the QueueNames with all that exist; before the first one is known, they say
    nothing. What the webhooks of PodCliqueSets and of KAI's PodGroups warn of is left to them,
    because they say which queues there are.
    """
    kinds = _kinds_with_queues(keys)
    del kinds["podgroups"]
    kinds["podcliquesets"] = (POD_CLIQUE_SET,), (of_projects_of_set(keys),)
    kinds["owners"] = (_ANY,), of_metadata(keys)

    names = "params.spec.names"
    known = f"has(params.spec) && has({names}) && {names}.size() > 0"
    *policies, of_owners = (
        Policy(
            f"queue-missing-{name}",
            PATH,
            resources,
            WRITES,
            (demand_of_existence(queues),),
            conditions={"queues-are-known": known, **others},
            parameter=QUEUE_NAMES,
            parameter_name=parameter,
        )
        for name, (resources, queues) in kinds.items()
    )
    return [*policies, _of_other_kinds(of_owners, keys)]


def _kinds_with_queues(keys: QueueKeys) -> dict[str, tuple[tuple[Resource, ...], Places]]:
    """Return the kinds that name queues, each with the expressions that list these for ROOT."""
    return {
        "podgroups": ((POD_GROUP,), of_pod_group(keys)),
        "podcliquesets": ((POD_CLIQUE_SET,), of_set(keys)),
        "podcliques": ((POD_CLIQUE,), of_clique(keys)),
        "workloads": ((WORKLOAD, K8S_POD_GROUP), of_metadata(keys)),
        "pods": ((POD, *_TEMPLATED), of_pods(keys)),
        "bindings": (_BINDINGS, of_metadata(keys)),
    }


_GROUP_OF_METADATA = f"[{entry(ROOT, 'annotations', POD_GROUP_NAME)}]"
_GROUPS = {
    "podcliquesets": _of_cliques("annotations", POD_GROUP_NAME),
    "podcliques": _GROUP_OF_METADATA,
    "pods": f"{_TEMPLATE}.map(p, {entry('p', 'annotations', POD_GROUP_NAME)})",
    "bindings": _GROUP_OF_METADATA,
}
"""The expressions that list PodGroups for ROOT, by the name of the policy of the kind."""


def _of_other_kinds(policy: Policy, keys: QueueKeys) -> Policy:
    """Return `policy` for the label of every kind that has no policy of its own.

    KAI reads the label of the topmost owner of a Pod before that of the Pod. An owner may be of any
    kind, a ConfigMap too, because whoever makes the Pod names it.
    """
    guarded = [
        f"{resource.plural}.{resource.group}"
        for resources, _ in _kinds_with_queues(keys).values()
        for resource in resources
    ]
    kind = "request.resource.resource + '.' + request.resource.group"
    conditions = {"of-no-other-policy": f"!({kind} in {texts(guarded)})"}
    return replace(policy, label=keys.queue, conditions={**conditions, **policy.conditions})


def _guard(
    name: str, resources: tuple[Resource, ...], queues: Places, others: Conditions
) -> Policy:
    """Return the policy for the queues that expressions list for ROOT, and the PodGroups."""
    demands: tuple[PolicyDemand, ...] = DEMANDS_OF_QUEUES
    variables = variables_of_queues(queues)
    if name in _GROUPS:
        groups = _GROUPS[name]
        demands += DEMANDS_OF_GROUPS
        variables |= {
            "formerGroups": f"{_of_former(groups)}.filter(g, g != '')",
            "formerGroup": "variables.formerGroups.size() == 0 ? '' : variables.formerGroups[0]",
            "addedGroups": (
                f"{_of('object', groups)}.filter(g, g != '' && g != variables.formerGroup)"
            ),
        }

    return Policy(
        f"queue-guard-{name}",
        PATH,
        resources,
        WRITES,
        demands,
        variables=variables,
        conditions=others,
        fails_closed=True,
        with_status=True,
    )


def _of_projects(
    name: str,
    resources: tuple[Resource, ...],
    projects: str,
    keys: QueueKeys,
    others: Conditions,
) -> Policy:
    """Return a policy for labels `project`, which the expression `projects` lists for ROOT.

    If neither the topmost owner of a Pod nor the Pod names a queue, KAI takes that of this label.
    As other programs have labels of this name too, each Queue is a parameter: a project that leads
    to no Queue is nobody's business. The only condition is evaluated for each Queue.
    """
    has_project = f"({projects.replace(ROOT, 'object')}).exists(p, p != '')"
    (is_other,) = others.values()
    return Policy(
        f"queue-guard-{name}",
        PATH,
        resources,
        WRITES,
        (demand_of_projects(keys),),
        variables={"projects": _of("object", projects), "formerProjects": _of_former(projects)},
        conditions={"of-a-user-with-a-project": f"{has_project} && {is_other}"},
        parameter=QUEUE,
    )


def _of_revisions(others: Conditions) -> Policy:
    """Return the policy that no ControllerRevision takes labels away from a template.

    A StatefulSet merges it with its own template, in which a project may stand beside a queue. This
    directive of a merge removes the queue, and names neither.
    """
    takes_away = "has(t.metadata) && has(t.metadata.labels) && '$retainKeys' in t.metadata.labels"
    demand = PolicyDemand(
        "incomplete",
        f"{_of('object', _TEMPLATE)}.filter(t, {takes_away})",
        text(
            "data.spec.template.metadata.labels: $retainKeys would remove labels: name all labels"
        ),
        "a template removes labels",
        reason="Forbidden",
    )
    return Policy(
        "queue-guard-revisions",
        PATH,
        (_REVISION,),
        WRITES,
        (demand,),
        conditions=others,
        fails_closed=True,
    )


def _of_shared_owners() -> Policy:
    """Return the policy that no PodGroup of KAI belongs to what nobody is asked about.

    KAI's podgrouper may read Namespaces and PriorityClasses, and would take the queue from their
    labels if a Pod, or an owner of it, names one as its owner. The same is true of COPIES, where it
    may read them. It makes the PodGroup for the same owner, so that it is stopped here.
    """
    owners = "object.metadata.ownerReferences"
    shared = f"o.kind in {texts(('Namespace', 'PriorityClass', *COPIES))}"
    demand = PolicyDemand(
        "sharedOwners",
        f"has({owners}) ? {owners}.filter(o, {shared}).map(o, o.kind + ' ' + o.name) : []",
        sentence(
            "owner {owner}: nobody was asked about its labels, which would choose the queue. Remove"
            " it from the owners of the Pod",
            owner="variables.sharedOwners[0]",
        ),
        "nobody was asked about the labels of an owner",
        reason="Forbidden",
    )
    return Policy(
        "queue-guard-shared-owners", PATH, (POD_GROUP,), ("CREATE",), (demand,), fails_closed=True
    )
