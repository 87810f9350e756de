"""Who may use which queue of KAI, in CEL. No webhook has this rule.

Whoever names a queue in an object needs the verb `use` on that queue. `queue_names` has the places
where objects name queues.
"""

from collections.abc import Sequence
from dataclasses import replace

from app.facts.kinds import K8S_POD_GROUP, POD_CLIQUE, POD_CLIQUE_SET, POD_GROUP, QUEUE, WORKLOAD
from app.objects.resource import POD, Resource
from app.rules.policy import Policy, PolicyDemand, sentence, texts
from app.rules.queue_names import (
    ROOT,
    QueueKeys,
    of_clique,
    of_metadata,
    of_pod_group,
    of_pods,
    of_set,
    project_beside_no_queue,
)

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


def queue_guards(keys: QueueKeys, trusted: Sequence[str]) -> list[Policy]:
    """Return the policies for all kinds that name a queue.

    `trusted` are namespaces whose service accounts only copy the name from another object.
    """
    kinds: dict[str, tuple[tuple[Resource, ...], str]] = {
        "podgroups": ((POD_GROUP,), of_pod_group(keys)),
        "podcliquesets": ((POD_CLIQUE_SET,), of_set(keys)),
        "podcliques": ((POD_CLIQUE,), of_clique(keys)),
        "workloads": ((WORKLOAD, K8S_POD_GROUP), of_metadata(keys)),
        "pods": (_CONTROLLED, of_pods(keys)),
    }
    policies = [
        _guard(f"queue-guard-{name}", resources, names, trusted)
        for name, (resources, names) in kinds.items()
    ]
    return [
        *policies,
        _of_any_owner(keys, trusted, policies),
        _of_projects(keys, trusted),
        _of_shared_owners(),
    ]


def _of_any_owner(keys: QueueKeys, trusted: Sequence[str], others: Sequence[Policy]) -> Policy:
    """Return the policy for the label of every kind that no policy of `others` has.

    KAI reads the label of the topmost owner of a Pod before that of the Pod. An owner may be of any
    kind, a ConfigMap too, because whoever makes the Pod names it.
    """
    guarded = [
        f"{resource.plural}.{resource.group}" for policy in others for resource in policy.resources
    ]
    kind = "request.resource.resource + '.' + request.resource.group"
    policy = _guard("queue-guard-owners", (_ANY,), of_metadata(keys), trusted)
    conditions = {"of-no-other-policy": f"!({kind} in {texts(guarded)})"}
    return replace(policy, label=keys.queue, conditions={**conditions, **policy.conditions})


def _guard(
    name: str, resources: tuple[Resource, ...], names: str, trusted: Sequence[str]
) -> Policy:
    """Return the policy for queues that the expression `names` lists for the object ROOT.

    To search every name among all former ones would cost more than an API server spends on a
    PodCliqueSet of 1,000 cliques. So the two that were named first are compared one by one.
    """
    demands = (
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
    return Policy(
        name,
        PATH,
        resources,
        ("CREATE", "UPDATE"),
        demands,
        variables={
            "named": f"({names.replace(ROOT, 'object')}).filter(q, q != '')",
            "former": (
                f"request.operation != 'UPDATE' ? [] : ({names.replace(ROOT, 'oldObject')})"
                ".filter(q, q != '')"
            ),
            "oneFormer": "variables.former.size() == 0 ? '' : variables.former[0]",
            "laterFormer": "variables.former.filter(q, q != variables.oneFormer)",
            "otherFormer": "variables.laterFormer.size() == 0 ? '' : variables.laterFormer[0]",
            "lastFormer": "variables.laterFormer.filter(q, q != variables.otherFormer)",
            "added": (
                "variables.named.filter(q, q != variables.oneFormer && q != variables.otherFormer"
                " && !(q in variables.lastFormer))"
            ),
            "first": "variables.added.filter(q, q == variables.added[0])",
            "others": "variables.added.filter(q, q != variables.added[0])",
            "second": "variables.others.filter(q, q == variables.others[0])",
            "third": "variables.others.filter(q, q != variables.others[0])",
        },
        conditions=_not_copied(trusted),
        fails_closed=True,
        with_status=True,
    )


def _not_copied(trusted: Sequence[str]) -> dict[str, str]:
    """Return the condition that no controller of `trusted` and no kubelet writes."""
    groups = [f"system:serviceaccounts:{namespace}" for namespace in trusted]
    is_member = "has(request.userInfo.groups) && g in request.userInfo.groups"
    return {
        "not-copied-by-a-controller": (
            f"!({texts([*groups, 'system:nodes'])}.exists(g, {is_member})) &&"
            " request.userInfo.username != 'system:kube-controller-manager'"
        ),
    }


def _of_projects(keys: QueueKeys, trusted: Sequence[str]) -> Policy:
    """Return the policy for the label `project` of every kind.

    If neither the topmost owner of a Pod nor the Pod names a queue, KAI takes that of this name, or
    of `<project>-<pool of nodes>`. As other programs have labels of this name too, each Queue is a
    parameter: a project that leads to no Queue is nobody's business.
    """
    project = project_beside_no_queue(keys, "object")
    former = project_beside_no_queue(keys, "oldObject")
    queue = "params.metadata.name"
    leads = f"{queue} == variables.project || {queue}.startsWith(variables.project + '-')"
    demand = PolicyDemand(
        "projectRefused",
        "variables.project == '' || variables.project == variables.formerProject ||"
        f" !({leads}) || {_check(queue)} ? [] : [{queue}]",
        sentence(
            f'label "{keys.project}": KAI takes it for queue "{{queue}}", and user "{{user}}" may'
            f" not use that: name a queue beside it, in the label {keys.queue}",
            queue=queue,
            user="request.userInfo.username",
        ),
        "the label leads to a queue that the user may not use",
        reason="Forbidden",
    )
    return Policy(
        "queue-guard-projects",
        PATH,
        (_ANY,),
        ("CREATE", "UPDATE"),
        (demand,),
        variables={
            "project": project,
            "formerProject": f"request.operation != 'UPDATE' ? '' : {former}",
        },
        conditions=_not_copied(trusted),
        parameter=QUEUE,
        label=keys.project,
        with_status=True,
    )


def _of_shared_owners() -> Policy:
    """Return the policy that no PodGroup of KAI belongs to an object of the whole cluster.

    KAI's podgrouper may read Namespaces and PriorityClasses, and would take the queue from their
    labels if a Pod, or an owner of it, names one as its owner. It makes the PodGroup for the same
    owner, so that it is stopped here.
    """
    owners = "object.metadata.ownerReferences"
    shared = "o.kind in ['Namespace', 'PriorityClass']"
    demand = PolicyDemand(
        "sharedOwners",
        f"has({owners}) ? {owners}.filter(o, {shared}).map(o, o.kind + ' ' + o.name) : []",
        sentence(
            "owner {owner}: its labels would choose the queue of all who name it. Remove it from"
            " the owners of the Pod",
            owner="variables.sharedOwners[0]",
        ),
        "an owner is shared by the whole cluster",
        reason="Forbidden",
    )
    return Policy(
        "queue-guard-shared-owners", PATH, (POD_GROUP,), ("CREATE",), (demand,), fails_closed=True
    )


def _may_use(which: str) -> PolicyDemand:
    """Return the demand that the user may use the queue of the variable `first` or `second`.

    An API server can afford two checks in an expression, so that each has its own. A message can't
    use variables that need the authorizer.
    """
    queue = f"variables.{which}[0]"
    return PolicyDemand(
        f"{which}Refused",
        f"variables.{which}.size() == 0 || {_check(queue)} ? [] : [{queue}]",
        sentence(
            'queue "{queue}": user "{user}" may not use it, and needs the verb use on'
            f" {QUEUE.plural}.{QUEUE.group}/{{queue}}",
            queue=queue,
            user="request.userInfo.username",
        ),
        "the user may not use this queue",
        reason="Forbidden",
    )


def _check(queue: str) -> str:
    """Return the expression whether the user may use the queue that the expression names."""
    resource = f"authorizer.group('{QUEUE.group}').resource('{QUEUE.plural}')"
    return f"{resource}.name({queue}).check('use').allowed()"
