"""Creates that an API server only tries (`dryRun=All`), which the product's client never sends."""

from app.kube.api import Object
from app.kube.client import HttpClient
from app.kube.transport import ApiRequest
from app.objects.resource import Resource


async def tried(client: HttpClient, resource: Resource, obj: Object, namespace: str) -> Object:
    """The object as it would be stored. A ClusterError if it would be refused."""
    body = {"apiVersion": resource.api_version(), "kind": resource.kind, **obj}
    path = client._path(resource, namespace)
    request = ApiRequest("create", str(resource), "POST", path, {"dryRun": "All"}, body=body)
    return await client._transport.call(request)
