"""What an API server answers for a cluster in memory, and records of what the doctor hears."""

from app.base.record import record_of
from app.cluster.command_clients import looking_client
from app.config.schema import Configuration
from app.doctor.certificate import Shake
from app.doctor.examination import Patient, examine
from app.doctor.record import KIND, Heard
from app.facts.kinds import ALL
from app.kube.api import NotFound, Object, ObjectRef, Selection
from app.kube.transport import ApiRequest, Call
from app.objects.resource import Resource
from tests.doctor.answering import AnsweringClient
from tests.doctor.installation import NOW


async def record(
    client: AnsweringClient, version: Object, configuration: Configuration, shake: Shake
) -> bytes:
    """The record of an examination, with the rehearsal of all webhooks."""
    heard = Heard(NOW, False, True, True, configuration.model_dump_json(by_alias=True))
    async with looking_client(ALL, None, None, answering(client, version)) as http:
        http.call = heard.keeping(http.call)
        await http.discovery.refresh()
        shaking = heard.shaking(shake)
        patient = Patient(
            http, http.read, shaking, configuration, False, NOW, True, http.try_create
        )
        await examine(patient)
    return record_of(KIND, heard)


def answering(client: AnsweringClient, version: Object) -> Call:
    """Answers requests as an API server that has what `client` has."""

    async def call(request: ApiRequest) -> Object:
        if request.path == "/version":
            return version
        if request.path == "/apis":
            return {"kind": "APIGroupList", "groups": groups(client)}

        api, *parts = request.path.strip("/").split("/")
        group = parts.pop(0) if api == "apis" else ""
        named = [each for each in groups(client) if each["name"] == group]
        if not parts and named:
            return named[0]
        resources = {each.plural: each for each in client.served if each.group == group}
        if len(parts) == 1:
            return {"kind": "APIResourceList", "resources": listed(client, group, parts[0])}
        del parts[:1]  # the version
        namespace = None
        if parts[0] == "namespaces" and len(parts) > 1:
            _, namespace, *parts = parts
        if not parts or parts[0] not in resources:
            raise NotFound("the server could not find the requested resource", code=404)
        return await object_of(client, request, resources[parts[0]], namespace, *parts[1:])

    return call


async def object_of(
    client: AnsweringClient,
    request: ApiRequest,
    resource: Resource,
    namespace: str | None,
    name: str = "",
) -> Object:
    """An object, or a list of objects."""
    if "dryRun" in request.params:
        return request.body  # type: ignore[no-any-return]
    if request.method == "POST":
        return await client.create(resource, request.body, namespace)
    if name:
        return await client.get(ObjectRef(resource, name, namespace))
    selector = request.params.get("labelSelector", "")
    is_metadata = "PartialObjectMetadata" in request.accept
    selection = Selection(resource, namespace, selector, metadata_only=is_metadata)
    page = await client.list(
        selection,
        limit=int(request.params.get("limit", "0")),
        continue_token=request.params.get("continue", ""),
    )
    metadata = {"resourceVersion": page.resource_version, "continue": page.continue_token}
    return {
        "apiVersion": resource.api_version(client.served[resource]),
        "kind": f"{resource.kind}List",
        "metadata": metadata,
        "items": page.items,
    }


def groups(client: AnsweringClient) -> list[Object]:
    """The groups of APIs, with their versions."""
    versions: dict[str, dict[str, None]] = {}
    for resource, version in client.served.items():
        if resource.group:
            versions.setdefault(resource.group, {})[version] = None
    return [
        {
            "name": group,
            "versions": [{"groupVersion": f"{group}/{each}", "version": each} for each in known],
        }
        for group, known in versions.items()
    ]


def listed(client: AnsweringClient, group: str, version: str) -> list[Object]:
    """The resources of a version of a group, with the fields and in the order of API servers."""
    return [
        {
            "name": resource.plural,
            "singularName": resource.kind.lower(),
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": ["create", "get", "list"],
            "shortNames": [resource.plural[:2]],
        }
        for resource, served in client.served.items()
        if (resource.group, served) == (group, version)
    ]
