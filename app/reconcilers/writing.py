"""Bundle the client, the event recorder and the write counter of a reconciler."""

from collections.abc import Iterable
from functools import cached_property

from msgspec import field

from app.base.value import Value
from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.kinds import POD_CLIQUE_SET
from app.kube.api import Client, Object
from app.kube.competing_writers import Rewrites
from app.kube.events import Notices, Recorder, Regarding


class Writing(Value, dict=True):
    """The client, event recorder and write counter of one reconciler."""

    client: Client
    """Sends the writes."""
    events: Recorder
    """Records events on the objects concerned."""
    rewrites: Rewrites = field(default_factory=Rewrites)
    """Counts the writes of each object, to notice another writer that undoes them."""

    @cached_property
    def notices(self) -> Notices:
        """Records warnings as events, each only once while its problem lasts."""
        return Notices(self.events)


def soonest(*seconds: float | None) -> float | None:
    """Return the smallest of `seconds` that is not None, or None if there is none."""
    return min((pause for pause in seconds if pause is not None), default=None)


def names_of(objects: Iterable[Object]) -> str:
    """Return the kinds and names of `objects`, for the note of an Event."""
    return ", ".join(f"{obj['kind']} {obj['metadata']['name']}" for obj in objects)


def regarding_set(pcs: PodCliqueSet) -> Regarding:
    """Return the reference to `pcs` for an Event about it."""
    return Regarding.to(POD_CLIQUE_SET, pcs.name, pcs.namespace, pcs.uid)
