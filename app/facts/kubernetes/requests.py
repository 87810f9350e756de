"""Count the resources that a pod requests, as schedulers do.

Source:
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
"""

from collections.abc import Mapping

from app.base.value import shared
from app.facts.quantity import amounts
from app.objects.shape import JsonMap, maps_of

Requests = tuple[tuple[str, int], ...]
"""The names of resources, sorted, with their amounts in thousandths."""


def pod_requests(spec: JsonMap) -> dict[str, int]:
    """Return the requests of a pod with this `spec` in thousandths, and 1 of the resource `pods`.

    Each request is the sum over containers and sidecars, or the largest sum while an init container
    runs, whichever is larger. Requests of the pod itself (`spec.resources`) replace these sums, and
    the overhead is added. Limits are used for requests that are not set. Amounts of 0 are left out.
    """
    total: dict[str, int] = {}
    for container in maps_of(spec.get("containers")):
        _add(total, _requests(container))

    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in maps_of(spec.get("initContainers")):
        requests = _requests(container)
        # only the resources that this container requests: with all, it would take quadratic time
        _raise(peak, {name: sidecars.get(name, 0) + amount for name, amount in requests.items()})
        if container.get("restartPolicy") == "Always":
            _add(sidecars, requests)

    _add(total, sidecars)
    _raise(total, peak)
    total |= _requests(spec)
    _add(total, amounts(spec.get("overhead")))
    return {**{name: amount for name, amount in total.items() if amount}, "pods": 1000}


def read_requests(spec: JsonMap) -> Requests:
    """Return `pod_requests` with one item `claim <name>` for each claim or claim template.

    Equal results are one object, because many PodCliqueSets have equal requests.
    """
    total = pod_requests(spec)
    for claim in maps_of(spec.get("resourceClaims")):
        name = claim.get("resourceClaimTemplateName") or claim.get("resourceClaimName")
        _add(total, {f"claim {name}": 1000})

    requests: Requests = shared(tuple(sorted(total.items())))
    return requests


def _requests(obj: JsonMap) -> dict[str, int]:
    resources = obj.get("resources")
    if not isinstance(resources, dict):
        return {}

    return amounts(resources.get("limits")) | amounts(resources.get("requests"))


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: dict[str, int], least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)
