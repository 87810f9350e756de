"""The pods/binding subresource: a scheduler's word that a pod goes to a node, and the labels that come with it."""

from dataclasses import replace

from app.sandbox import errors
from app.sandbox.admission import Admission, Attributes
from app.sandbox.objects import (
    Caller,
    Key,
    Object,
    at,
    copy,
    is_deleting,
    labels,
    metadata,
    resource_version,
    timestamp,
)
from app.sandbox.resources import Served
from app.sandbox.storage import Storage

_POD_KIND = {"group": "", "version": "v1", "kind": "Binding"}
_TOPOLOGY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


class Binder:
    """Binds pods, with admission of the Binding."""

    def __init__(self, storage: Storage, admission: Admission) -> None:
        self._storage, self._admission = storage, admission

    async def bind(self, pods: Served, key: Key, binding: Object, caller: Caller) -> None:
        """Sets spec.nodeName of the pod `key` and copies the Binding's labels and annotations, which mutating
        webhooks may have added to. Raises 404 for no such pod, 409 for one that is bound or on its way out."""
        binding = self._with_topology(_completed(binding, key))
        attributes = Attributes(pods, "CREATE", *key, caller, binding, None, "binding", _POD_KIND)
        binding = await self._admission.mutate(attributes, lambda obj: None) or binding
        await self._admission.validate(replace(attributes, obj=binding))
        pod = self._bindable(pods, key)
        if not caller.options.dry_run:
            self._storage.replace(pods.table, _bound(copy(pod), binding), resource_version(pod))

    def _with_topology(self, binding: Object) -> Object:
        """What the built-in PodTopologyLabels plugin does before webhooks run: the node's region and zone win."""
        node = self._storage.get(("", "nodes"), ("", binding["target"]["name"])) or {}
        found = {name: labels(node)[name] for name in _TOPOLOGY_LABELS if name in labels(node)}
        if found:
            binding["metadata"]["labels"] = {**labels(binding), **found}
        return binding

    def _bindable(self, pods: Served, key: Key) -> Object:
        pod = self._storage.get(pods.table, key)
        if pod is None:
            raise errors.not_found("", "pods", key[1])
        if is_deleting(pod):
            raise errors.conflict(
                "", "pods/binding", key[1], f"pod {key[1]} is being deleted, cannot be assigned to a host"
            )
        if node := at(pod, "spec", "nodeName"):
            raise errors.conflict("", "pods/binding", key[1], f'pod {key[1]} is already assigned to node "{node}"')
        return pod


def _completed(binding: Object, key: Key) -> Object:
    if (binding.get("kind") or "Binding") != "Binding" or not at(binding, "target", "name"):
        raise errors.bad_request("the body must be a Binding with target.name")
    meta = {**metadata(binding), "namespace": key[0], "name": key[1]}
    return copy({"kind": "Binding", "apiVersion": "v1", **binding, "metadata": meta})


def _bound(pod: Object, binding: Object) -> Object:
    meta = pod["metadata"]
    for part in ("labels", "annotations"):
        if metadata(binding).get(part):
            meta[part] = {**(meta.get(part) or {}), **metadata(binding)[part]}
    pod["spec"] = {**(pod.get("spec") or {}), "nodeName": binding["target"]["name"]}
    status = pod.setdefault("status", {})
    others = [item for item in status.get("conditions") or () if item.get("type") != "PodScheduled"]
    status["conditions"] = [*others, {"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp()}]
    return pod
