"""Whether KAI's binder may allocate the ResourceClaims of the Pods that it binds.

From Kubernetes 1.36 on, to write the allocation of a claim needs a right on the synthetic
subresource `resourceclaims/binding` beside that on `resourceclaims/status`.

Source: https://github.com/kubernetes/kubernetes/issues/138149, and
https://github.com/kai-scheduler/KAI-Scheduler/pull/1372, which gives it to the binder; KAI's
scheduler itself only reads claims. Of KAI's tags, 0.12.19 and 0.14.1 are the first with it.
"""

from app.doctor.apis import Read, version_number
from app.doctor.permissions import Need, is_allowed
from app.doctor.report import Check, Checks, ok, problem
from app.kube.api import Client, NotFound, ObjectRef, find
from app.objects.resource import CLUSTER_ROLE_BINDING
from app.objects.shape import maps_at, text_at

_ROLE = "kai-binder"
_SINCE = (1, 36)
_NEED = Need("resource.k8s.io", "resourceclaims/binding", ("update", "patch"), "binding")
_REMEDY = (
    "Upgrade KAI to 0.12.19, 0.14.1, or 0.15 or later (0.13 has no release with it), or add to"
    f" ClusterRole {_ROLE}: apiGroups [resource.k8s.io], resources [resourceclaims/binding], verbs"
    " [update, patch]."
)


async def check_binder(client: Client, read: Read) -> Checks:
    """Return a check of each account of KAI's binder. Raise ClusterError."""
    binding = await find(client, ObjectRef(CLUSTER_ROLE_BINDING, _ROLE))
    if binding is None:
        return [ok(f"there is no ClusterRoleBinding {_ROLE}: the rights of KAI are not known")]
    try:
        version = await read("/version")
    except NotFound:
        return []
    if version_number(version) < _SINCE:
        return []

    return [
        await _check(client, text_at(subject, "namespace"), text_at(subject, "name"))
        for subject in maps_at(binding, "subjects")
        if subject.get("kind") == "ServiceAccount"
    ]


async def _check(client: Client, namespace: str, account: str) -> Check:
    refused = [
        verb
        for verb in _NEED.verbs
        if not await is_allowed(client, _NEED, verb, namespace, account)
    ]
    if not refused:
        return ok(f"service account {namespace}/{account} may bind ResourceClaims")
    message = (
        f"service account {namespace}/{account} may not {', '.join(refused)} {_NEED}: from"
        " Kubernetes 1.36 on, KAI can't bind a Pod whose ResourceClaim is not allocated yet"
    )
    return problem(message, _REMEDY)
