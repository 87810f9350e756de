"""How a reconciler writes."""

from dataclasses import dataclass, field

from app.kube.api import Client
from app.kube.events import Recorder
from app.kube.rewrites import Rewrites


@dataclass(frozen=True, slots=True)
class Writing:
    """The client that writes, the events about it, and the counts that show another writer."""

    client: Client
    events: Recorder
    rewrites: Rewrites = field(default_factory=Rewrites)
