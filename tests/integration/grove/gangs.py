"""The PodGangs of a PodCliqueSet, in each of Grove's ways to name them."""

from app.facts.kinds import POD_GANG
from app.kube.api import Object, Selection
from tests.integration.system import Users, eventually


async def base_gangs(clients: Users, namespace: str, replica: str) -> list[Object]:
    """Return the base PodGangs of a replica, such as `train-0`.

    A PodGang with a role has an epoch in its name, and the base is the one with the role Anchor.
    """
    gangs = (await clients.admin.list(Selection(POD_GANG, namespace), limit=0)).items
    return [gang for gang in gangs if _is_base(gang["metadata"], replica)]


async def base_gang(clients: Users, namespace: str, replica: str) -> str:
    """Return the name of the base PodGang of a replica, as soon as there is one."""
    (gang,) = await eventually(lambda: base_gangs(clients, namespace, replica))
    return str(gang["metadata"]["name"])


def _is_base(metadata: Object, replica: str) -> bool:
    role = metadata["labels"].get("grove.io/podgang-role")
    name = str(metadata["name"])
    if role is None:
        return name == replica
    return role == "Anchor" and name.rpartition("-")[0] == replica
