"""The subresource `scale` (autoscaling/v1) of objects with replicas."""

from app.sandbox.objects.objects import Object, at, metadata


def scale_of(obj: Object) -> Object:
    """The Scale of a stored object."""
    spec = {"replicas": (obj.get("spec") or {}).get("replicas", 1)}
    status = {"replicas": at(obj, "status", "replicas") or 0}
    identity = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    meta = {key: metadata(obj)[key] for key in identity}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta, "spec": spec, "status": status}


def scaled(scale: Object) -> Object:
    """The merge patch for an object that sets the replicas of a Scale, or those of a merge patch of a Scale."""
    return {"spec": {"replicas": at(scale, "spec", "replicas")}}
