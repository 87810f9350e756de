"""The subresource `scale` (autoscaling/v1) of objects with replicas."""

from app.sandbox.objects import errors
from app.sandbox.objects.objects import Object, metadata
from app.sandbox.objects.resources import Served

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(obj: Object) -> Object:
    """The Scale of a stored object."""
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: value for key, value in metadata(obj).items() if key in _SHOWN},
        "spec": {"replicas": _replicas(obj, 1)},
        "status": {"replicas": (obj.get("status") or {}).get("replicas", 0)},
    }


def scaled(served: Served, scale: Object) -> Object:
    """The merge patch that sets the replicas of a Scale in its object. Raises 422 for an invalid number."""
    replicas = _replicas(scale, 0)
    if not isinstance(replicas, int) or replicas < 0:
        message = f"Invalid value: {replicas!r}: must be greater than or equal to 0"
        cause = {"reason": "FieldValueInvalid", "message": message, "field": "spec.replicas"}
        raise errors.invalid(served.group, "Scale", metadata(scale).get("name") or "", [cause])
    return {"spec": {"replicas": replicas}}


def _replicas(obj: Object, default: int) -> int:
    replicas: int = (obj.get("spec") or {}).get("replicas", default)
    return replicas
