"""Who may use which queue of KAI, in CEL. No webhook has this rule.

Whoever names a queue in an object needs the verb `use` on that queue. Sources, of where KAI and
Grove look for the name:
https://github.com/kai-scheduler/KAI-Scheduler/blob/d5bc503a/pkg/podgrouper/podgrouper/plugins/defaultgrouper/default_grouper.go,
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/scheduler/kai/backend.go
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.facts.kinds import K8S_POD_GROUP, POD_CLIQUE, POD_CLIQUE_SET, POD_GROUP, QUEUE, WORKLOAD
from app.objects.resource import POD, Resource
from app.rules.policy import Demand, Policy, sentence, text, texts

PATH = ""
"""These policies have no webhook."""

_BATCH = "batch"
_APPS = "apps"
_CONTROLLED = (
    POD,
    Resource("", "replicationcontrollers", "ReplicationController", True, ("v1",)),
    Resource(_BATCH, "jobs", "Job", True, ("v1",)),
    Resource(_BATCH, "cronjobs", "CronJob", True, ("v1",)),
    Resource(_APPS, "deployments", "Deployment", True, ("v1",)),
    Resource(_APPS, "replicasets", "ReplicaSet", True, ("v1",)),
    Resource(_APPS, "statefulsets", "StatefulSet", True, ("v1",)),
    Resource(_APPS, "daemonsets", "DaemonSet", True, ("v1",)),
)
"""Pods, and what Kubernetes itself makes Pods of."""

_ANY = Resource("*", "*", "", True, ("*",))


@dataclass(frozen=True, slots=True)
class QueueKeys:
    """The keys of labels that name a queue: its own, or a project and a pool of nodes.

    `scheduler` is the schedulerName of KAI's Pods.
    """

    queue: str
    project: str
    node_pool: str
    scheduler: str


def queue_guards(keys: QueueKeys, trusted: Sequence[str]) -> list[Policy]:
    """Return the policies for all kinds that name a queue.

    `trusted` are namespaces whose service accounts only copy the name from another object.
    """
    kinds: dict[str, tuple[tuple[Resource, ...], str]] = {
        "podgroups": ((POD_GROUP,), _of_pod_group(keys)),
        "podcliquesets": ((POD_CLIQUE_SET,), _of_set(keys)),
        "podcliques": ((POD_CLIQUE,), _of_metadata(keys, "ROOT")),
        "workloads": ((WORKLOAD, K8S_POD_GROUP), _of_metadata(keys, "ROOT")),
        "pods": (_CONTROLLED, _of_pods(keys)),
    }
    policies = [
        _guard(f"queue-guard-{name}", resources, names, trusted)
        for name, (resources, names) in kinds.items()
    ]
    return [*policies, _of_any_owner(keys, trusted, policies)]


def _of_any_owner(keys: QueueKeys, trusted: Sequence[str], others: Sequence[Policy]) -> Policy:
    """Return the policy for the label of every kind that no policy of `others` has.

    KAI reads the label of the topmost owner of a Pod before that of the Pod. An owner may be of any
    kind, a ConfigMap too, because whoever makes the Pod names it.
    """
    guarded = [
        f"{resource.plural}.{resource.group}" for policy in others for resource in policy.resources
    ]
    kind = "request.resource.resource + '.' + request.resource.group"
    policy = _guard("queue-guard-owners", (_ANY,), _of_metadata(keys, "ROOT"), trusted)
    conditions = {"of-no-other-policy": f"!({kind} in {texts(guarded)})"}
    return replace(policy, label=keys.queue, conditions={**conditions, **policy.conditions})


def _guard(
    name: str, resources: tuple[Resource, ...], names: str, trusted: Sequence[str]
) -> Policy:
    """Return the policy for queues that the expression `names` lists for the object ROOT."""
    groups = [f"system:serviceaccounts:{namespace}" for namespace in trusted]
    demands = (
        Demand(
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
    copies = f"{texts(groups)}.exists(g, has(request.userInfo.groups) && g in"
    return Policy(
        name,
        PATH,
        resources,
        ("CREATE", "UPDATE"),
        demands,
        variables={
            "named": f"({names.replace('ROOT', 'object')}).filter(q, q != '')",
            "former": (
                f"request.operation != 'UPDATE' ? [] : ({names.replace('ROOT', 'oldObject')})"
            ),
            "added": "variables.named.filter(q, !(q in variables.former))",
            "first": "variables.added.filter(q, q == variables.added[0])",
            "others": "variables.added.filter(q, q != variables.added[0])",
            "second": "variables.others.filter(q, q == variables.others[0])",
            "third": "variables.others.filter(q, q != variables.others[0])",
        },
        conditions={
            "not-copied-by-a-controller": (
                f"!({copies} request.userInfo.groups)) &&"
                " request.userInfo.username != 'system:kube-controller-manager'"
            ),
        },
        fails_closed=True,
    )


def _may_use(which: str) -> Demand:
    """Return the demand that the user may use the queue of the variable `first` or `second`.

    An API server can afford two checks in an expression, so that each has its own. A message can't
    use variables that need the authorizer.
    """
    queue = f"variables.{which}[0]"
    check = (
        f"authorizer.group('{QUEUE.group}').resource('{QUEUE.plural}').name({queue}).check('use')"
        ".allowed()"
    )
    return Demand(
        f"{which}Refused",
        f"variables.{which}.size() == 0 || {check} ? [] : [{queue}]",
        sentence(
            'queue "{queue}": user "{user}" may not use it, and needs the verb use on'
            f" {QUEUE.plural}.{QUEUE.group}/{{queue}}",
            queue=queue,
            user="request.userInfo.username",
        ),
        "the user may not use this queue",
        reason="Forbidden",
    )


def _entry(holder: str, field: str, key: str) -> str:
    """Return the expression of a label or an annotation of `holder`, '' if it has none."""
    entries = f"{holder}.metadata.{field}"
    return (
        f"(has({holder}.metadata) && has({entries}) && {text(key)} in {entries}"
        f" ? {entries}[{text(key)}] : '')"
    )


def _of_metadata(keys: QueueKeys, holder: str) -> str:
    """Return the expression of the queues that the metadata of `holder` names."""
    fields = ("labels", "annotations")
    return f"[{', '.join(_entry(holder, field, keys.queue) for field in fields)}]"


def _of_pod_group(keys: QueueKeys) -> str:
    spec = "has(ROOT.spec) && has(ROOT.spec.queue) ? ROOT.spec.queue : ''"
    return f"[{spec}] + {_of_metadata(keys, 'ROOT')}"


def _of_set(keys: QueueKeys) -> str:
    """Return the queues of a PodCliqueSet and of its cliques, whose metadata is in the clique."""
    parts = [_of_metadata(keys, "ROOT")]
    key = text(keys.queue)
    for field in ("labels", "annotations"):
        has_queue = f"has(c.{field}) && {key} in c.{field}"
        parts.append(f"ROOT.spec.template.cliques.filter(c, {has_queue}).map(c, c.{field}[{key}])")
    return " + ".join(parts)


_POD = (
    "(has(ROOT.spec.jobTemplate) ? [ROOT.spec.jobTemplate.spec.template] :"
    " has(ROOT.spec.template) ? [ROOT.spec.template] : [ROOT])"
)
"""The expression of the Pod or its template, in a list."""


def _of_pods(keys: QueueKeys) -> str:
    """Return the queues of a Pod or of what makes Pods.

    A project counts only in Pods of KAI, because other programs have labels of this name too.
    """
    of_pods = [f"{_POD}.map(p, {_entry('p', 'labels', keys.queue)})"]
    of_pods.append(f"{_POD}.map(p, {_entry('p', 'annotations', keys.queue)})")
    of_project = _entry("ROOT", "labels", keys.project)
    project = _entry("p", "labels", keys.project)
    pool = _entry("p", "labels", keys.node_pool)
    scheduler = "p.spec.schedulerName"
    is_ours = f"has(p.spec) && has({scheduler}) && {scheduler} == {text(keys.scheduler)}"
    suffix = f"({pool} == '' ? '' : '-' + {pool})"
    ours = f"{_POD}.filter(p, {is_ours})"
    projects = [
        f"{ours}.filter(p, {project} != '').map(p, {project} + {suffix})",
        f"{ours}.filter(p, {of_project} != '').map(p, {of_project} + {suffix})",
    ]
    return " + ".join((_of_metadata(keys, "ROOT"), *of_pods, *projects))
