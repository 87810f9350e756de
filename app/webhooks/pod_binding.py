"""pods/binding: the Pod gets its node's topology labels. Never refuses: scheduling must go on without us."""

from collections.abc import Sequence

from app.admission.review import Request
from app.admission.verdict import ALLOWED, Verdict, patched
from app.cluster.readers import NodeReader, TopologyReader
from app.objects.edits import operations
from app.rules.topology.node_labels import binding_changes


class PodBindingWebhook:
    """`allowed` are configured node label keys beside those of the levels in use."""

    def __init__(self, nodes: NodeReader, topology: TopologyReader, allowed: Sequence[str]) -> None:
        self._nodes = nodes
        self._topology = topology
        self._allowed = tuple(allowed)

    def __call__(self, request: Request) -> Verdict:
        target = request.object.get("target")
        held = target if isinstance(target, dict) else {}
        name = held.get("name")
        if held.get("kind") not in (None, "", "Node") or not isinstance(name, str) or not name:
            return ALLOWED.with_warnings(["the Binding has no node as its target: no topology labels added"])
        labels = self._nodes.node_labels(name)
        if labels is None:
            return ALLOWED.with_warnings([f'node "{name}" is not known: no topology labels added to the Pod'])
        return patched(operations(request.object, binding_changes(request.object, labels, self._keys())))

    def _keys(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._topology.level_keys(), *self._allowed)))
