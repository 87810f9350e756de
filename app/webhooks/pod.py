"""pods and pods/binding.

A new Pod that names a Workload group is annotated, so that it is never scheduled alone. A Pod that
is bound gets the topology labels of its node. Neither webhook ever rejects anything, so that
scheduling goes on.
"""

from collections.abc import Sequence

from app.admission.review import Request
from app.admission.verdict import ALLOWED, Verdict, patched
from app.base.value import Value
from app.cluster.view import ClusterView
from app.objects.edits import operations
from app.objects.shape import map_of
from app.rules.topology.node_labels import binding_changes
from app.rules.workload.groups import admission_changes


class PodWebhook(Value):
    """`scheduler_name` is the scheduler whose Pods get a PodGroup.

    If it is None, no Pod is changed.
    """

    scheduler_name: str | None

    def __call__(self, request: Request) -> Verdict:
        if self.scheduler_name is None:
            return ALLOWED
        return patched(
            operations(request.object, admission_changes(request.object, self.scheduler_name))
        )


class PodBindingWebhook(Value):
    """A copier of labels of nodes: the standard ones, those of levels, and those in `allowed`.

    The latter are configured. If it is not `enabled`, it changes nothing.
    """

    facts: ClusterView
    allowed: Sequence[str]
    enabled: bool = True

    def __call__(self, request: Request) -> Verdict:
        if not self.enabled:
            return ALLOWED

        target = map_of(request.object.get("target"))
        name = target.get("name")
        if target.get("kind") not in (None, "", "Node") or not isinstance(name, str) or not name:
            return ALLOWED.with_warnings(
                ["the Binding has no node as its target: no topology labels added"]
            )

        labels = self.facts.node_labels(name)
        if labels is None:
            return ALLOWED.with_warnings(
                [f'node "{name}" is not known: no topology labels added to the Pod']
            )

        keys = tuple(dict.fromkeys((*self.facts.level_keys(), *self.allowed)))
        return patched(operations(request.object, binding_changes(request.object, labels, keys)))
