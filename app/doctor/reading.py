"""Objects that may be missing. The functions raise ClusterError if they cannot be read."""

from app.kube.api import Client, NotFound, Object
from app.objects.resource import Resource


async def read(client: Client, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
    """Returns the object, or None if it does not exist."""
    try:
        return await client.get(resource, name, namespace)
    except NotFound:
        return None


async def list_all(client: Client, resource: Resource, selector: str = "") -> list[Object]:
    """Returns all objects of `resource` with the labels of `selector`. Empty if the resource is not served."""
    try:
        return list((await client.list(resource, label_selector=selector, limit=0)).items)
    except NotFound:
        return []
