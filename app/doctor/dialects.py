"""The dialect of Grove's topology API, objects of a former dialect, and the conditions of the current objects."""

from app.cluster.dialects import dialect_of
from app.doctor.report import Check
from app.kube.api import Client, NotFound, Object
from app.objects.resource import Resource
from app.rules.kinds import CLUSTER_TOPOLOGY, COMPUTE_DOMAIN
from app.rules.mnnvl.grove_groups import GROVE_FINALIZER
from app.rules.topology.coverage import CONDITION
from app.rules.topology.dialect import Dialect

SUBJECT = "dialect"
_SHOWN = 5


async def check_dialects(client: Client) -> list[Check]:
    """The checks of the dialect. Raises ClusterError."""
    dialect = dialect_of(client)
    checks = [Check(SUBJECT, "ok", f'Grove\'s topology API is read in the dialect "{dialect.name}"')]
    if dialect.resource is not CLUSTER_TOPOLOGY:
        checks += await _former(client)
    return [*checks, *await _coverage(client, dialect), *await _stuck(client)]


async def _former(client: Client) -> list[Check]:
    names = [topology["metadata"]["name"] for topology in await _listed(client, CLUSTER_TOPOLOGY)]
    if not names:
        return []
    message = f"ClusterTopologies are left over from a former release of Grove: {_some(names)}"
    remedy = (
        "Delete the CRD clustertopologies.grove.io: their KAI Topologies go with them. Until then, a binding of the "
        "same name is rejected."
    )
    return [Check(SUBJECT, "warning", message, remedy)]


async def _coverage(client: Client, dialect: Dialect) -> list[Check]:
    checks: list[Check] = []
    for obj in await _listed(client, dialect.resource):
        conditions = (obj.get("status") or {}).get("conditions") or []
        covered: Object = next((item for item in conditions if item.get("type") == CONDITION), {})
        if covered.get("status") == "False":
            message = f"{dialect.resource.kind} {obj['metadata']['name']}: {covered.get('message')}"
            checks.append(Check(SUBJECT, "warning", message, "Correct the labels of the nodes, or the levels."))
    return checks


async def _stuck(client: Client) -> list[Check]:
    """ComputeDomains of Grove that were deleted and still have Grove's finalizer. Grove does not create others."""
    stuck = [
        f"{obj['metadata'].get('namespace')}/{obj['metadata']['name']}"
        for obj in await _listed(client, COMPUTE_DOMAIN)
        if obj["metadata"].get("deletionTimestamp") and GROVE_FINALIZER in (obj["metadata"].get("finalizers") or ())
    ]
    if not stuck:
        return []
    message = f"ComputeDomains were deleted, but Grove's finalizer holds them and Grove makes no others: {_some(stuck)}"
    remedy = (
        f"Remove the finalizer {GROVE_FINALIZER}, then change the spec of the PodCliqueSet, such as its replicas: "
        f"Grove then makes the ComputeDomain again."
    )
    return [Check(SUBJECT, "problem", message, remedy)]


async def _listed(client: Client, resource: Resource) -> list[Object]:
    try:
        return list((await client.list(resource, limit=0)).items)
    except NotFound:
        return []


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(sorted(names)[:_SHOWN])}{more}"
