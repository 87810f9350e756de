"""Read all webhook configurations of a cluster, and the objects that they depend on."""

from collections.abc import Iterable, Mapping, Sequence

from app.base.groups import by_key
from app.base.value import Value
from app.doctor.policies import Policies, overlap, read_policies
from app.doctor.service import SERVICE_LABEL, ServiceKey, Target, target_of
from app.kube.api import Client, ObjectRef, Selection, every, find
from app.objects.resource import (
    ENDPOINT_SLICE,
    MUTATING_WEBHOOKS,
    NAMESPACE,
    SERVICE,
    VALIDATING_WEBHOOKS,
)
from app.objects.shape import JsonMap, key_of, labels_of, maps_at, texts_at

_DEFAULT_TIMEOUT_SECONDS = 10


class StoredWebhook(Value):
    """A webhook of a stored webhook configuration."""

    configuration: str
    """The kind and name of the configuration."""
    is_mutating: bool
    """Whether the configuration is a MutatingWebhookConfiguration."""
    content: JsonMap
    """The webhook as it is stored."""

    @property
    def name(self) -> str:
        """The fully qualified name of the webhook."""
        return str(self.content.get("name", ""))

    @property
    def is_fatal(self) -> bool:
        """Whether requests are rejected while the webhook is down."""
        return self.content.get("failurePolicy") != "Ignore"

    @property
    def has_conditions(self) -> bool:
        """Whether the webhook has matchConditions, which doctor does not evaluate."""
        return bool(self.content.get("matchConditions"))

    @property
    def target(self) -> Target:
        """The Service or host that API servers call for the webhook."""
        return target_of(self.content)

    @property
    def timeout_seconds(self) -> int:
        """The time for which an API server waits for an answer of the webhook."""
        return int(self.content.get("timeoutSeconds", _DEFAULT_TIMEOUT_SECONDS))

    def sees(self, resource: tuple[str, str], operation: str, scope: str = "*") -> bool:
        """Return whether a rule of the webhook matches a resource and an operation.

        `resource` is (group, plural). `scope` is the scope of the resource, "Cluster" or
        "Namespaced", or "*" if that is not known.
        """
        return any(
            overlap(texts_at(rule, "apiGroups"), [resource[0]])
            and overlap(texts_at(rule, "resources"), [resource[1]])
            and overlap(texts_at(rule, "operations"), [operation])
            and (scope == "*" or rule.get("scope", "*") in ("*", scope))
            for rule in maps_at(self.content, "rules")
        )


class Surroundings(Value):
    """The objects that webhooks depend on."""

    services: Mapping[ServiceKey, JsonMap]
    """The Services that exist."""
    slices: Mapping[ServiceKey, Sequence[JsonMap]]
    """The EndpointSlices of each Service."""
    namespaces: Mapping[str, Mapping[str, str]]
    """The labels of each namespace, or {} if namespaces were not read."""


class Installed(Value):
    """All webhooks of a cluster, with the objects that they depend on."""

    configurations: Mapping[str, JsonMap]
    """The configurations by kind and name."""
    webhooks: Sequence[StoredWebhook]
    """The webhooks of all configurations."""
    surroundings: Surroundings
    """The objects that the webhooks depend on."""
    policies: Policies
    """The ValidatingAdmissionPolicies of the cluster."""


async def read_installed(client: Client) -> Installed:
    """Return all webhooks and policies of a cluster, with the objects that webhooks depend on.

    Raise ClusterError if something cannot be read.
    """
    configurations: dict[str, JsonMap] = {}
    webhooks: list[StoredWebhook] = []
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        is_mutating = resource is MUTATING_WEBHOOKS
        for item in await every(client, Selection(resource)):
            title = f"{resource.kind} {item['metadata']['name']}"
            configurations[title] = item
            contents = maps_at(item, "webhooks")
            webhooks += [StoredWebhook(title, is_mutating, content) for content in contents]
    surroundings = await _read_surroundings(client)
    return Installed(configurations, webhooks, surroundings, await read_policies(client))


async def _read_surroundings(client: Client) -> Surroundings:
    slices = await every(client, Selection(ENDPOINT_SLICE))
    services = await every(client, Selection(SERVICE))
    namespaces = await every(client, Selection(NAMESPACE))
    return Surroundings(
        {key_of(item): item for item in services},
        by_key(
            ((key_of(item)[0], labels_of(item).get(SERVICE_LABEL, "")), item) for item in slices
        ),
        {item["metadata"]["name"]: labels_of(item) for item in namespaces},
    )


async def read_services(client: Client, keys: Iterable[ServiceKey]) -> Surroundings:
    """Return the Services `keys` that exist, with their EndpointSlices. Namespaces are not read.

    Raise ClusterError if a request fails.
    """
    services: dict[ServiceKey, JsonMap] = {}
    slices: dict[ServiceKey, Sequence[JsonMap]] = {}
    for key in sorted(keys):
        namespace, name = key
        stored = await find(client, ObjectRef(SERVICE, name, namespace))
        if stored is not None:
            selector = f"{SERVICE_LABEL}={name}"
            services[key] = stored
            slices[key] = await every(client, Selection(ENDPOINT_SLICE, namespace, labels=selector))
    return Surroundings(services, slices, {})
