"""Annotate new Pods of Workload groups, and copy node labels to Pods when they are bound.

The annotation keeps KAI from scheduling a Pod without its group. Neither webhook rejects an object,
so that scheduling continues. While the nodes are not cached yet, the answer to a Binding is a 503,
which API servers ignore (failurePolicy Ignore).
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
    """The handler that annotates Pods of Workload groups."""

    scheduler_name: str | None
    """The scheduler whose Pods get a PodGroup, or None if no Pod is changed."""

    def __call__(self, request: Request) -> Verdict:
        if self.scheduler_name is None:
            return ALLOWED
        return patched(
            operations(request.object, admission_changes(request.object, self.scheduler_name))
        )


class PodBindingWebhook(Value):
    """The handler that copies labels of the node to a Binding, and so to its Pod."""

    facts: ClusterView
    allowed: Sequence[str]
    """The configured labels, in addition to the standard labels and the labels of levels."""
    enabled: bool = True
    """Whether labels are copied at all."""

    def __call__(self, request: Request) -> Verdict:
        if not self.enabled:
            return ALLOWED

        target = map_of(request.object.get("target"))
        name = target.get("name")
        if target.get("kind") not in (None, "", "Node") or not isinstance(name, str) or not name:
            return ALLOWED.with_warnings(
                ["the target of the Binding is not a node: no topology labels were added"]
            )

        labels = self.facts.node_labels(name)
        if labels is None:
            return ALLOWED.with_warnings(
                [f'node "{name}" is not known: no topology labels were added to the Pod']
            )

        keys = tuple(dict.fromkeys((*self.facts.level_keys(), *self.allowed)))
        return patched(operations(request.object, binding_changes(request.object, labels, keys)))
