"""Who may use which queue of KAI, and which don't exist, in CEL.

Whoever names a queue in an object needs the verb `use` on that queue: no webhook has this rule.
`queue_names` has the places where objects name queues, and `queue_demands` what is asked.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from app.facts.kinds import (
    K8S_POD_GROUP,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GROUP,
    QUEUE,
    QUEUE_NAMES,
    WORKLOAD,
)
from app.objects.resource import POD, Resource, built_in
from app.rules.policy import WRITES, Policy, PolicyDemand, sentence, texts
from app.rules.queue_demands import (
    DEMANDS_OF_GROUPS,
    DEMANDS_OF_QUEUES,
    demand_of_existence,
    demand_of_projects,
    variables_of_groups,
    variables_of_projects,
    variables_of_queues,
)
from app.rules.queue_names import (
    ROOT,
    Places,
    QueueKeys,
    groups_of_metadata,
    groups_of_pods,
    groups_of_set,
    of_clique,
    of_metadata,
    of_pod_group,
    of_pods,
    of_projects_of_set,
    of_set,
    project_beside_no_queue,
    projects_of_set,
    projects_of_templates,
)

PATH = ""
"""These policies have no webhook."""

_BATCH = "batch"
_APPS = "apps"
_TEMPLATED = (
    built_in("", "replicationcontrollers", "ReplicationController"),
    built_in(_BATCH, "jobs", "Job"),
    built_in(_BATCH, "cronjobs", "CronJob"),
    built_in(_APPS, "deployments", "Deployment"),
    built_in(_APPS, "replicasets", "ReplicaSet"),
    built_in(_APPS, "statefulsets", "StatefulSet"),
    built_in(_APPS, "daemonsets", "DaemonSet"),
)
"""What Kubernetes itself makes Pods of."""

_POD_BINDING = built_in("", "pods/binding", "Binding")
_BINDINGS = (_POD_BINDING, built_in("", "bindings", "Binding"))
"""API servers copy the labels and annotations of a Binding to its Pod."""

_ANY = Resource("*", "*", "", True, ("*",))


def queue_guards(keys: QueueKeys, trusted: Sequence[str]) -> list[Policy]:
    """Return the policies for all kinds that name a queue.

    `trusted` are namespaces whose service accounts only copy the name from another object.
    """
    guards = [
        _guard(name, resources, queues, trusted)
        for name, (resources, queues) in _kinds_with_queues(keys).items()
    ]
    of_owner = f"[{project_beside_no_queue(keys, ROOT)}]"
    any_owner = _of_projects("projects", (_ANY, _POD_BINDING), of_owner, keys, trusted)
    return [
        *guards,
        _of_other_kinds(_guard("owners", (_ANY,), of_metadata(keys), trusted), keys),
        replace(any_owner, label=keys.project, with_status=True),
        _of_projects("template-projects", _TEMPLATED, projects_of_templates(keys), keys, trusted),
        _of_projects("clique-projects", (POD_CLIQUE_SET,), projects_of_set(keys), keys, trusted),
        _of_shared_owners(),
    ]


def missing_queues(keys: QueueKeys, trusted: Sequence[str], parameter: str) -> list[Policy]:
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
            conditions={"queues-are-known": known, **_not_copied(trusted)},
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


_GROUPS = {
    "podcliquesets": groups_of_set(),
    "podcliques": groups_of_metadata(),
    "pods": groups_of_pods(),
    "bindings": groups_of_metadata(),
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
    name: str,
    resources: tuple[Resource, ...],
    queues: Places,
    trusted: Sequence[str],
) -> Policy:
    """Return the policy for the queues that expressions list for ROOT, and the PodGroups."""
    demands: tuple[PolicyDemand, ...] = DEMANDS_OF_QUEUES
    variables = variables_of_queues(queues)
    if name in _GROUPS:
        demands += DEMANDS_OF_GROUPS
        variables |= variables_of_groups(_GROUPS[name])

    return Policy(
        f"queue-guard-{name}",
        PATH,
        resources,
        WRITES,
        demands,
        variables=variables,
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


def _of_projects(
    name: str,
    resources: tuple[Resource, ...],
    projects: str,
    keys: QueueKeys,
    trusted: Sequence[str],
) -> Policy:
    """Return a policy for labels `project`, which the expression `projects` lists for ROOT.

    If neither the topmost owner of a Pod nor the Pod names a queue, KAI takes that of this label.
    As other programs have labels of this name too, each Queue is a parameter: a project that leads
    to no Queue is nobody's business. The only condition is evaluated for each Queue.
    """
    has_project = f"({projects.replace(ROOT, 'object')}).exists(p, p != '')"
    (not_copied,) = _not_copied(trusted).values()
    return Policy(
        f"queue-guard-{name}",
        PATH,
        resources,
        WRITES,
        (demand_of_projects(keys),),
        variables=variables_of_projects(projects),
        conditions={"of-a-user-with-a-project": f"{has_project} && {not_copied}"},
        parameter=QUEUE,
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
