"""ClusterTopologyBindings that PodCliqueSets may name."""

import contextlib

import httpx

from app.facts.kinds import CLUSTER_TOPOLOGY_BINDING
from tests.integration.grove import mistakes
from tests.integration.system import Users, eventually

SETS = "/apis/grove.io/v1alpha1/namespaces/{namespace}/podcliquesets"


async def bind(clients: Users, name: str, *levels: tuple[str, str]) -> None:
    """Create a binding, and return as soon as Grove's webhook knows it, which has a cache."""
    await clients.user.create(CLUSTER_TOPOLOGY_BINDING, mistakes.binding(name, *levels))
    pack = {"required": levels[0][0]}
    probe = mistakes.pcs("probe", mistakes.clique("w"), pack=pack, binding=name)
    path = f"{SETS.format(namespace='default')}?dryRun=All"

    async def is_known() -> bool:
        with contextlib.suppress(httpx.HTTPStatusError):
            return (await clients.answer("user", "POST", path, probe)).is_success
        return False

    await eventually(is_known)
