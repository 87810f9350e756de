"""Lists of objects whose resource may not be served."""

from app.kube.api import Client, NotFound, Object
from app.objects.resource import Resource


async def list_all(client: Client, resource: Resource, selector: str = "") -> list[Object]:
    """Returns all objects of `resource` with the labels of `selector`. Empty if the resource is not served."""
    try:
        return list((await client.list(resource, label_selector=selector, limit=0)).items)
    except NotFound:
        return []
