"""Warn about pod specs in documents with which API servers create no pods.

Grove and other controllers store such a template, but can't create its pods. Only mistakes with
resources, names and volumes are found. Source: `ValidatePodSpec` in
https://github.com/kubernetes/kubernetes/blob/v1.35.0/pkg/apis/core/validation/validation.go
"""

from collections.abc import Collection, Iterator

from app.facts.kubernetes.gpu_sharing import GPU_FRACTION
from app.facts.kubernetes.gpus import GPU
from app.facts.quantity import is_quantity, thousandths
from app.objects.fields import FieldPath, quote
from app.objects.names import is_label
from app.objects.shape import JsonMap, map_at, maps_at, text_at

Mistake = tuple[FieldPath, str]
"""A path in the document, and what is wrong there."""


def pod_warnings(path: FieldPath, spec: JsonMap, claimed: Collection[str] = ()) -> list[str]:
    """Return warnings about the pod spec at `path`.

    `claimed` are the names of volumes that a controller adds, as for volumeClaimTemplates.
    """
    mistakes = [*_mistakes_of_containers(path, spec), *_mistakes_of_mounts(path, spec, claimed)]
    return [f"{at}: API servers reject such pods: {text}" for at, text in mistakes]


def _containers(path: FieldPath, spec: JsonMap) -> Iterator[tuple[FieldPath, JsonMap]]:
    for field in ("initContainers", "containers"):
        for position, container in enumerate(maps_at(spec, field)):
            yield path.child(field).index(position), container


def _mistakes_of_containers(path: FieldPath, spec: JsonMap) -> Iterator[Mistake]:
    if not maps_at(spec, "containers"):
        yield path.child("containers"), "a pod needs a container"
    names: set[str] = set()
    for at, container in _containers(path, spec):
        name = text_at(container, "name")
        if not is_label(name):
            text = f"{quote(name)} is not a name of lowercase letters, digits and '-'"
            yield at.child("name"), text
        elif name in names:
            yield at.child("name"), f"another container is called {name} too"
        names.add(name)
        yield from _mistakes_of_resources(at.child("resources"), map_at(container, "resources"))


def _mistakes_of_resources(at: FieldPath, resources: JsonMap) -> Iterator[Mistake]:
    limits, requests = map_at(resources, "limits"), map_at(resources, "requests")
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            text = _mistake_of_amount(name, str(amount))
            if text:
                yield at.child(field).key(name), text

    for name, amount in requests.items():
        limit = limits.get(name)
        if not is_quantity(str(amount)) or not is_quantity(str(limit or 0)):
            continue
        asked, most = thousandths(str(amount)), thousandths(str(limit or 0))
        whole = _is_extended(name) or name.startswith("hugepages-")
        if whole and limit is None:
            yield at.child("limits").key(name), f"set it to {amount} too, or only the limit"
        elif whole and asked != most:
            yield at.child("requests").key(name), f"{amount} differs from the limit {limit}"
        elif limit is not None and asked > most:
            yield at.child("requests").key(name), f"{amount} is more than the limit {limit}"


def _mistake_of_amount(name: str, amount: str) -> str:
    if not is_quantity(amount):
        return f"{quote(amount)} is not a quantity, such as 8 or 64Gi"
    if _is_extended(name) and thousandths(amount) % 1000:
        part = f". For a part of a GPU, use KAI's annotation {GPU_FRACTION}" if name == GPU else ""
        return f"{amount} is not a whole number{part}"
    return ""


def _is_extended(name: str) -> bool:
    """Return whether a resource is one of a device plugin, such as nvidia.com/gpu."""
    return "/" in name and "kubernetes.io/" not in name


def _mistakes_of_mounts(
    path: FieldPath, spec: JsonMap, claimed: Collection[str]
) -> Iterator[Mistake]:
    volumes = {text_at(volume, "name") for volume in maps_at(spec, "volumes")}.union(claimed)
    for at, container in _containers(path, spec):
        for position, mount in enumerate(maps_at(container, "volumeMounts")):
            name = text_at(mount, "name")
            if name not in volumes:
                text = f"the pod has no volume {quote(name)}"
                yield at.child("volumeMounts").index(position).child("name"), text
