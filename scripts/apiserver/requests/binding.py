"""Handle the subresources pods/binding and `scale`.

The first assigns a pod to a node and adds the labels and annotations of the Binding. The second
reads and sets the replicas of an object in the form of autoscaling/v1.
"""

from msgspec.structs import replace

from scripts.apiserver.admission.attributes import Attributes
from scripts.apiserver.admission.chain import Admission
from scripts.apiserver.objects import errors, lifecycle
from scripts.apiserver.objects.objects import (
    Caller,
    Frozen,
    Key,
    Object,
    at,
    copy,
    metadata,
    resource_version,
    timestamp,
)
from scripts.apiserver.objects.patching import STRATEGIC, apply_patch
from scripts.apiserver.objects.resources import Served
from scripts.apiserver.storage import Storage


class Binder(Frozen):
    """A binder of pods. Their Bindings pass admission."""

    storage: Storage
    admission: Admission

    async def bind(self, pods: Served, key: Key, binding: Object, caller: Caller) -> None:
        """Set spec.nodeName of the pod `key`, after mutating webhooks.

        The labels and annotations of the Binding are copied. Raise 400 or 500 for an invalid
        Binding, 404 if there is no such pod, and 409 if it does not have the uid or resourceVersion
        of the Binding.
        """
        bindings = replace(pods, kind="Binding")
        binding = _completed(bindings, binding, key)
        attributes = Attributes(bindings, "CREATE", *key, caller, binding, subresource="binding")
        binding = await self.admission.mutate(attributes, lambda obj: None) or binding
        await self.admission.validate(replace(attributes, obj=binding))
        pod = self.storage.existing(pods.table, key)
        lifecycle.check_preconditions(pods, pod, metadata(binding))
        if not caller.dry_run:
            self.storage.replace(pods.table, _bound(pod, binding), resource_version(pod))


def _completed(bindings: Served, binding: Object, key: Key) -> Object:
    """Return the Binding with its optional fields.

    Like kube-apiserver, raise 400 if it is not a Binding for the pod `key`, and 500 for an invalid
    target.
    """
    binding = copy(binding)
    lifecycle.check_identity(bindings, binding, *key)
    if not at(binding, "target", "name"):
        raise errors.ApiError(500, "", "target.name: Required value")
    return binding


def _bound(pod: Object, binding: Object) -> Object:
    meta = metadata(binding)
    now = timestamp()
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": now,
        "reason": None,
        "message": None,
    }
    patch = {
        "metadata": {part: meta[part] for part in ("labels", "annotations") if meta.get(part)},
        "spec": {"nodeName": binding["target"]["name"]},
        "status": {"conditions": [scheduled]},
    }

    return apply_patch(pod, patch, STRATEGIC)


def scale_of(obj: Object) -> Object:
    """Return the Scale of a stored object."""
    spec = {"replicas": (obj.get("spec") or {}).get("replicas", 1)}
    status = {"replicas": at(obj, "status", "replicas") or 0}
    identity = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    meta = {key: metadata(obj)[key] for key in identity}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": meta,
        "spec": spec,
        "status": status,
    }
