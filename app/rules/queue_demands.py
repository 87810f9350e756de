"""What policies demand of names of queues, in CEL: the queue exists, and the user may use it."""

from collections.abc import Sequence

from app.facts.kinds import POD_GROUP, QUEUE
from app.objects.resource import Resource
from app.rules.policy import PolicyDemand, sentence
from app.rules.queue_names import ROOT, QueueKeys

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


def variables_of_groups(names: str) -> dict[str, str]:
    """Return the variables of DEMANDS_OF_GROUPS; the expression `names` lists PodGroups of ROOT."""
    former = f"{_of_former(names)}.filter(g, g != '')"
    return {
        "formerGroups": former,
        "formerGroup": "variables.formerGroups.size() == 0 ? '' : variables.formerGroups[0]",
        "addedGroups": (f"{_of('object', names)}.filter(g, g != '' && g != variables.formerGroup)"),
    }


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


def variables_of_projects(projects: str) -> dict[str, str]:
    """Return the variables of `demand_of_projects`; the expression lists projects of ROOT."""
    return {"projects": _of("object", projects), "formerProjects": _of_former(projects)}


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
