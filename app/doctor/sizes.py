"""Check for objects that are too large for the caches of the server."""

from app.doctor.report import Checks, ok, warning
from app.facts.grove.podcliqueset import MOST_PARTS
from app.facts.rows import TOO_LARGE
from app.kube.api import Client, Selection, each
from app.objects.fields import listed
from app.objects.names import is_label, is_subdomain
from app.objects.resource import EVENT
from app.objects.shape import JsonMap, map_at, text_at

_SHOWN = 10


async def check_sizes(client: Client) -> Checks:
    """Check for events in which the leader reports objects that are too large for its caches.

    The leader repeats such events every half hour, and API servers keep events for an hour by
    default. Raise ClusterError if a request fails.
    """
    events = each(client, Selection(EVENT, fields=f"reason={TOO_LARGE}"))
    names = sorted(
        {
            name
            async for event in events
            if event.get("reason") == TOO_LARGE and (name := _name(map_at(event, "regarding")))
        }
    )
    if not names:
        return [ok("no object is reported as too large to be cached")]
    message = (
        "events report objects that are too large for the caches and count as unknown:"
        f" {listed(names, _SHOWN)}"
    )
    remedy = (
        "Shorten the lists, labels and annotations of these objects, or delete other objects of"
        f" their kind in the namespace. Split PodCliqueSets with more than {MOST_PARTS} cliques and"
        " scaling groups."
    )
    return [warning(message, remedy)]


def _name(reference: JsonMap) -> str:
    """Return the kind, namespace and name in an event's reference, or "" if one is not valid.

    Anybody can write such an event in their own namespace, with any text.
    """
    kind, name = text_at(reference, "kind"), text_at(reference, "name")
    namespace = text_at(reference, "namespace")
    if not is_label(kind.lower()) or not all(map(is_subdomain, filter(None, (namespace, name)))):
        return ""
    return f"{kind} {'/'.join(filter(None, (namespace, name)))}"
