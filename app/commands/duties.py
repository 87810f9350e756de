"""What the leader of a server does beside reconciling, if the configuration asks for it."""

from collections.abc import Iterable

from app.config.schema import Configuration
from app.facts.kinds import ALL
from app.objects.resource import Resource
from app.server.serve import Duties, no_duties


def further_duties(configuration: Configuration) -> tuple[Iterable[Resource], Duties]:
    """Return the resources that the server uses, and its further duties."""
    if not configuration.waiting.enabled:
        return ALL, no_duties

    # loads explain, which a server without it doesn't need
    from app.waiting.watcher import RESOURCES, WaitingDuty

    resources = dict.fromkeys((*ALL, *RESOURCES))
    return resources, lambda client, events: [WaitingDuty(client, events, configuration)]
