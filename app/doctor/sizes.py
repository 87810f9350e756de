"""Check for objects that are too large for the caches of the server."""

from app.doctor.report import Checks, ok, warning
from app.facts.grove.podcliqueset import MOST_PARTS
from app.facts.rows import TOO_LARGE
from app.kube.api import Client, Selection, every
from app.objects.fields import listed
from app.objects.resource import EVENT
from app.objects.shape import map_at, text_at

_SHOWN = 10


async def check_sizes(client: Client) -> Checks:
    """Check for events in which the leader reports objects that are too large for its caches.

    It reports them every half hour, and API servers keep events for an hour. Raise ClusterError if
    a request fails.
    """
    events = await every(client, Selection(EVENT, fields=f"reason={TOO_LARGE}"))
    regarding = [map_at(event, "regarding") for event in events if event.get("reason") == TOO_LARGE]
    names = sorted(
        {
            " ".join(
                (
                    text_at(obj, "kind"),
                    "/".join(filter(None, (text_at(obj, "namespace"), text_at(obj, "name")))),
                )
            )
            for obj in regarding
        }
    )
    if not names:
        return [ok("no object is reported as too large to be cached")]
    message = f"too large for the caches, and treated as unknown: {listed(names, _SHOWN)}"
    remedy = (
        "Shorten their lists, labels and annotations. Split PodCliqueSets of more than"
        f" {MOST_PARTS} cliques and scaling groups."
    )
    return [warning(message, remedy)]
