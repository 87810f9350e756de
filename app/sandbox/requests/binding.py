"""The subresource pods/binding: assigns a pod to a node, and adds the labels and annotations of the Binding."""

from dataclasses import replace

from app.sandbox.admission.chain import Admission, Attributes
from app.sandbox.objects import errors, lifecycle
from app.sandbox.objects.objects import (
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
from app.sandbox.objects.resources import Served
from app.sandbox.storage.storage import Storage

_POD_KIND = {"group": "", "version": "v1", "kind": "Binding"}
_TOPOLOGY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


class Binder:
    """Binds pods, with admission of their Bindings."""

    def __init__(self, storage: Storage, admission: Admission) -> None:
        self._storage, self._admission = storage, admission

    async def bind(self, pods: Served, key: Key, binding: Object, caller: Caller) -> None:
        """Sets spec.nodeName of the pod `key`, and copies the labels and annotations of the Binding after mutating
        webhooks. Raises 400 or 500 for an invalid Binding, 404 if there is no such pod, and 409 if the pod is bound,
        being deleted or gated, or does not have the uid or resourceVersion of the Binding."""
        binding = self._with_topology(_completed(binding, key))
        attributes = Attributes(pods, "CREATE", *key, caller, binding, None, "binding", _POD_KIND)
        binding = await self._admission.mutate(attributes, lambda obj: None) or binding
        await self._admission.validate(replace(attributes, obj=binding))
        pod = self._bindable(pods, key, metadata(binding))
        if not caller.options.dry_run:
            self._storage.replace(pods.table, _bound(copy(pod), binding), resource_version(pod))

    def _with_topology(self, binding: Object) -> Object:
        """Adds the region and zone of the node to the labels, as the admission plugin PodTopologyLabels does:
        https://github.com/kubernetes/kubernetes/blob/v1.34.0/plugin/pkg/admission/podtopologylabels/admission.go. The
        plugin ignores a target without a kind."""
        if binding["target"].get("kind") != "Node":
            return binding
        node = self._storage.get(("", "nodes"), ("", binding["target"]["name"])) or {}
        topology = {name: labels(node)[name] for name in _TOPOLOGY_LABELS if name in labels(node)}
        if topology:
            binding["metadata"]["labels"] = {**labels(binding), **topology}
        return binding

    def _bindable(self, pods: Served, key: Key, preconditions: Object) -> Object:
        pod = self._storage.get(pods.table, key)
        if pod is None:
            raise errors.not_found("", "pods", key[1])
        if why := lifecycle.failed_precondition(pod, preconditions):
            raise errors.conflict("", "pods", key[1], why)
        if why := _hindrance(pod):
            raise errors.conflict("", "pods/binding", key[1], f"pod {key[1]} {why}")
        return pod


def _hindrance(pod: Object) -> str:
    if is_deleting(pod):
        return "is being deleted, cannot be assigned to a host"
    if node := at(pod, "spec", "nodeName"):
        return f'is already assigned to node "{node}"'
    return "has non-empty .spec.schedulingGates" if at(pod, "spec", "schedulingGates") else ""


def _completed(binding: Object, key: Key) -> Object:
    """The Binding with its optional fields. Raises 400 if it is not a Binding for the pod `key`, and 500 for an invalid
    target, as kube-apiserver does."""
    version, kind = binding.get("apiVersion") or "v1", binding.get("kind") or "Binding"
    if (version, kind) != ("v1", "Binding"):
        raise errors.bad_request(f'{kind} in version "{version}" cannot be handled as a Binding')
    meta = {"namespace": key[0], **metadata(binding)}
    if meta["namespace"] != key[0]:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if meta.get("name") != key[1]:
        raise errors.bad_request("name in URL does not match name in Binding object")
    if not at(binding, "target", "name"):
        raise errors.ApiError(500, "", "target.name: Required value")
    return copy({**binding, "kind": "Binding", "apiVersion": "v1", "metadata": meta})


def _bound(pod: Object, binding: Object) -> Object:
    meta = pod["metadata"]
    for part in ("labels", "annotations"):
        if metadata(binding).get(part):
            meta[part] = {**(meta.get(part) or {}), **metadata(binding)[part]}
    pod["spec"] = {**(pod.get("spec") or {}), "nodeName": binding["target"]["name"]}
    status = pod.setdefault("status", {})
    conditions = [item for item in status.get("conditions") or () if item.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": timestamp()}
    status["conditions"] = [*conditions, scheduled]
    return pod
