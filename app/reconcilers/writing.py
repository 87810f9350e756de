"""How a reconciler writes."""

from dataclasses import field

from app.frozen import frozen
from app.kube.api import Client
from app.kube.events import Recorder
from app.kube.rewrites import Rewrites


@frozen
class Writing:
    """The client that writes, the events about it, and the counts that show another writer."""

    client: Client
    events: Recorder
    rewrites: Rewrites = field(default_factory=Rewrites)
