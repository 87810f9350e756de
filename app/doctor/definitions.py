"""CRDs that are stored but not established: the API server does not serve what they define."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from app.doctor.report import Check
from app.kube.api import Object
from app.rules.kinds import CLUSTER_TOPOLOGY

SUBJECT = "APIs"


def check_definitions(crds: Iterable[Object], groups: Collection[str]) -> dict[str, Check]:
    """A problem for each CRD of `groups` that is not established, by the name of the CRD, and a warning for each one
    that is established with fewer names than its spec has."""
    in_groups = [crd for crd in crds if crd["spec"]["group"] in groups]
    checks = {crd["metadata"]["name"]: _check(crd, in_groups) for crd in in_groups}
    return {name: check for name, check in checks.items() if check is not None}


def _check(crd: Object, others: Iterable[Object]) -> Check | None:
    name, conditions = crd["metadata"]["name"], _conditions(crd)
    if not conditions:
        return None
    served = (conditions.get("Established") or {}).get("status") == "True"
    accepted = conditions.get("NamesAccepted") or {}
    if accepted.get("status") == "False":
        taken_by = _conflicts(crd, others)
        by = f" by {', '.join(taken_by)}" if taken_by else ""
        state = "is served without all of its names" if served else "is not established, and its API is not served"
        message = f"CRD {name} {state}: {accepted.get('message')}{by} ({accepted.get('reason')})"
        return Check(SUBJECT, "warning" if served else "problem", message, _remedy(name, taken_by, accepted))
    if served:
        return None
    reasons = "; ".join(f"{kind}={item.get('status')}: {item.get('message')}" for kind, item in conditions.items())
    remedy = f"See kubectl describe crd {name}. If it is being deleted, its objects wait for their finalizers."
    return Check(SUBJECT, "problem", f"CRD {name} is not established, and its API is not served: {reasons}", remedy)


def _conditions(crd: Object) -> dict[str, Object]:
    return {condition["type"]: condition for condition in (crd.get("status") or {}).get("conditions") or ()}


def _conflicts(crd: Object, others: Iterable[Object]) -> list[str]:
    """The CRDs of the same group that have a name of the spec of `crd`."""
    requested = set(_names(crd["spec"]["names"]))
    return [
        other["metadata"]["name"]
        for other in others
        if other["spec"]["group"] == crd["spec"]["group"]
        and other["metadata"]["name"] != crd["metadata"]["name"]
        and requested & set(_names((other.get("status") or {}).get("acceptedNames") or {}))
    ]


def _names(names: Mapping[str, Any]) -> Iterator[str]:
    yield from (str(names[field]) for field in ("plural", "singular", "kind", "listKind") if names.get(field))
    yield from names.get("shortNames") or ()


def _remedy(name: str, taken_by: Sequence[str], accepted: Object) -> str:
    """How to correct a CRD. If another CRD gives up a name, the API server examines a CRD whose spec has names that
    were not accepted. If the CRD itself gives up the name, it is not examined again, and has to be created anew."""
    if accepted.get("reason") != "ShortNamesConflict":
        return f"Delete the CRD that is not used: kubectl delete crd {name}, or {' or '.join(taken_by) or 'the other'}."
    anew = f"kubectl delete crd {name} (it was never served, and so has no objects)"
    if name == str(CLUSTER_TOPOLOGY):
        return f"Create it anew without short names: {anew}; kubectl apply -k manifests/prerequisites."
    if not taken_by:
        return f"Create it anew: {anew}; then apply it again."
    patch = '[{"op": "remove", "path": "/spec/names/shortNames"}]'
    return f"Remove the short names of the other one: kubectl patch crd {taken_by[0]} --type=json -p '{patch}'"
