"""Check that an API server can call our webhooks.

The other checks cannot see the network between API servers and replicas: doctor runs elsewhere. So
an API server is asked for a dry run, for which it must call a webhook. It stores nothing.
"""

from collections.abc import Awaitable, Callable, Iterable

from app.doctor.certificate import KEEPER
from app.doctor.report import Checks, ok, problem, switch_off, unknown
from app.doctor.webhooks import webhooks_in
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING
from app.kube.api import ClusterError, Lists, Object
from app.objects.resource import Resource
from app.objects.shape import text_at
from app.webhooks.registry import VALIDATE_CLUSTER_TOPOLOGY

Attempt = Callable[[Resource, Object], Awaitable[None]]
"""A function that sends a dry run of creating a cluster-scoped object.

It raises ClusterError if the object would not be created.
"""

_WEBHOOK = VALIDATE_CLUSTER_TOPOLOGY.name
_TRIED: Object = {
    "metadata": {"name": "grove-admission-doctor"},
    "spec": {"levels": [{"domain": "zone", "key": "topology.kubernetes.io/zone"}]},
}
"""The topology in the dry run. It is valid in every dialect."""

_OF_SERVICE = ("no endpoints available", "no service port", '" not found')
"""Texts of errors whose cause the checks of the Service report."""

_REMEDIES = {
    "x509": KEEPER,
    "provide credentials": (
        "If server.clientCaFile is set, let the API servers present a client certificate"
        " (app/server/README.md). Otherwise, read callers in /readyz?verbose."
    ),
    'Post "': (
        "Let the API servers connect to port 8443 of the Pods: look for firewalls, NetworkPolicies,"
        " a service mesh, and a Pod network that the control plane cannot reach"
        " (manifests/guide/networks.md)."
    ),
}
"""The remedy for each text in the error of a call. The first text that occurs counts."""

_ANSWERED = (
    "Find out what answers instead of the server, such as a proxy or another Pod behind the"
    " Service."
)
_FORBIDDEN = "Run doctor as a user who may create {resource}. Nothing is stored."
_OTHER = "Find out what rejects this request. Until then, doctor cannot test calls of webhooks."


async def check_calls(
    client: Lists, attempt: Attempt, configurations: Iterable[Object], name: str
) -> Checks:
    """Check that an API server can call the webhook for topologies, whose Service all webhooks use.

    `configurations` are our stored webhook configurations, which have the name `name`. Return [] if
    a dry run shows nothing: if there is no such webhook, if its failed calls are ignored, or if the
    cluster serves no topologies.
    """
    stored = [each for each in webhooks_in(configurations) if text_at(each, "name") == _WEBHOOK]
    served = [
        resource
        for resource in (CLUSTER_TOPOLOGY_BINDING, CLUSTER_TOPOLOGY)
        if client.served_version(resource) is not None
    ]
    if not stored or not served or stored[0].get("failurePolicy") == "Ignore":
        return []

    resource = served[0]
    called = ok(f"the API server can call the webhooks: a dry run of a {resource.kind} was judged")
    try:
        await attempt(resource, _TRIED)
    except ClusterError as error:
        message = error.message
        if f'admission webhook "{_WEBHOOK}" denied' in message or error.reason == "AlreadyExists":
            return [called]
        if f'failed calling webhook "{_WEBHOOK}"' in message:
            if any(text in message for text in _OF_SERVICE):
                return []
            remedies = (_REMEDIES[text] for text in _REMEDIES if text in message)
            remedy = f"{next(remedies, _ANSWERED)} {switch_off(name)}"
            return [problem(f"the API server cannot call the webhooks: {message}", remedy)]
        is_forbidden = 'is forbidden: User "' in message
        remedy = _FORBIDDEN.format(resource=resource) if is_forbidden else _OTHER
        text = f"it is not known whether the API server can call the webhooks: {message}"
        return [unknown(text, remedy)]
    return [called]
