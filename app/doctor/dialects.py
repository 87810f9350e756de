"""The dialect of Grove's topology API, objects of a former dialect, and the conditions of the current objects."""

from app.cluster.dialects import dialect_of
from app.doctor.reading import list_all
from app.doctor.report import Check
from app.kube.api import Client, Object
from app.objects.fields import listed
from app.rules.kinds import CLUSTER_TOPOLOGY, COMPUTE_DOMAIN
from app.rules.mnnvl.set_annotations import GROVE_FINALIZER
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
    names = [topology["metadata"]["name"] for topology in await list_all(client, CLUSTER_TOPOLOGY)]
    if not names:
        return []
    message = f"ClusterTopologies are left over from a former release of Grove: {listed(sorted(names), _SHOWN)}"
    remedy = (
        "Delete the CRD clustertopologies.grove.io: their KAI Topologies go with them. Until then, a binding of the "
        "same name is rejected."
    )
    return [Check(SUBJECT, "warning", message, remedy)]


async def _coverage(client: Client, dialect: Dialect) -> list[Check]:
    checks: list[Check] = []
    for obj in await list_all(client, dialect.resource):
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
        for obj in await list_all(client, COMPUTE_DOMAIN)
        if obj["metadata"].get("deletionTimestamp") and GROVE_FINALIZER in (obj["metadata"].get("finalizers") or ())
    ]
    if not stuck:
        return []
    names = listed(sorted(stuck), _SHOWN)
    message = f"ComputeDomains were deleted, but Grove's finalizer holds them and Grove makes no others: {names}"
    remedy = (
        f"Remove the finalizer {GROVE_FINALIZER}, then change the spec of the PodCliqueSet, such as its replicas: "
        f"Grove then makes the ComputeDomain again."
    )
    return [Check(SUBJECT, "problem", message, remedy)]
