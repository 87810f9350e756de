"""How a reconciler writes."""

from collections.abc import Iterable
from functools import cached_property

from msgspec import field

from app.base.value import Value
from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.kinds import POD_CLIQUE_SET
from app.kube.api import Client, Object
from app.kube.events import Notices, Recorder, Regarding
from app.kube.rewrites import Rewrites


class Writing(Value, dict=True):
    """The client that writes, the events about it, and the counts that show another writer."""

    client: Client
    events: Recorder
    rewrites: Rewrites = field(default_factory=Rewrites)

    @cached_property
    def notices(self) -> Notices:
        """What was said about each object, so that it is said once."""
        return Notices(self.events)


def soonest(*seconds: float | None) -> float | None:
    """Return the least of some times until a next step, or None if none is needed."""
    return min((pause for pause in seconds if pause is not None), default=None)


def named(objects: Iterable[Object]) -> str:
    """Return the kinds and names of `objects` for a note."""
    return ", ".join(f"{obj['kind']} {obj['metadata']['name']}" for obj in objects)


def regarding_set(pcs: PodCliqueSet) -> Regarding:
    """Return what an Event about a PodCliqueSet regards."""
    return Regarding.to(POD_CLIQUE_SET, pcs.name, pcs.namespace, pcs.uid)
