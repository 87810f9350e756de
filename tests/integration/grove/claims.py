"""Which claims Pods have, and who owns the MNNVL resources."""

from app.facts.kinds import COMPUTE_DOMAIN, RESOURCE_CLAIM
from app.kube.api import Object, Selection
from app.objects.resource import POD
from tests.integration.system import Users


async def claims_of_pods(clients: Users, namespace: str) -> tuple[int, dict[str, str]]:
    """How many Pods there are, and for each PodClique the base name of the claim that all of its
    Pods have, in their specs and in their containers.
    """
    pods = (await clients.admin.list(Selection(POD, namespace), limit=0)).items
    claims: dict[str, str] = {}
    for pod in pods:
        references = {
            claim["name"]: claim["resourceClaimName"]
            for claim in pod["spec"].get("resourceClaims", [])
        }
        used = [
            claim["name"]
            for each in pod["spec"]["containers"]
            for claim in each["resources"].get("claims", [])
        ]
        name = (
            references["mnnvl"].removesuffix("-mnnvl-claim")
            if used == ["mnnvl"]
            else f"{references or ''}"
        )
        clique = pod["metadata"]["labels"]["grove.io/podclique"]
        claims[clique] = name if claims.get(clique, name) == name else "different claims"
    return len(pods), claims


async def owners(clients: Users, namespace: str) -> dict[str, str]:
    """The owner of both the ComputeDomain and the claim of a base name: the name of a PodGang, or
    the kind of another object; "nobody" if they differ.
    """
    pairs = []
    for resource, suffix in ((COMPUTE_DOMAIN, "-cd"), (RESOURCE_CLAIM, "-mnnvl-claim")):
        items = (await clients.admin.list(Selection(resource, namespace), limit=0)).items
        pairs.append({obj["metadata"]["name"].removesuffix(suffix): _owner(obj) for obj in items})
    domains, claims = pairs
    return {
        name: domains[name] if domains.get(name) == claims.get(name) else "nobody"
        for name in sorted(domains.keys() | claims.keys())
    }


def _owner(obj: Object) -> str:
    (owner,) = obj["metadata"]["ownerReferences"]
    return str(owner["name"]) if owner["kind"] == "PodGang" else str(owner["kind"])
