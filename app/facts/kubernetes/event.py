"""Read events, of events.k8s.io and of the core group."""

from app.base.value import Value
from app.facts.identity import Ref, interned
from app.objects.shape import JsonMap, map_at, text_at
from app.objects.time import seconds_since_1970


class Event(Value):
    """An event of Kubernetes."""

    uid: str
    """The uid of the object that the event is about."""
    reason: str
    """The reason for programs, one CamelCase word."""
    message: str
    """The message for people."""
    time: float | None = None
    """When the event was last seen, in seconds since 1970, or None if that is not known."""
    source: str = ""
    """The component that wrote the event, or "" if that is not known."""
    about: Ref = Ref("", "", "")
    """The object that the event is about."""
    warns: bool = False
    """Whether the type of the event is Warning."""
    first: float | None = None
    """When the event was first seen, in seconds since 1970, or None if that is not known."""
    namespace: str = ""
    """The namespace of the event itself, or "" in a file that does not name it."""


def read_event(obj: JsonMap) -> Event:
    """Read an event of either API group. A missing field is "" or None."""
    about = map_at(obj, "regarding") or map_at(obj, "involvedObject")
    # if there is a series, the other times are the times of its first event
    last = (
        map_at(obj, "series").get("lastObservedTime"),
        *(obj.get(key) for key in ("deprecatedLastTimestamp", "lastTimestamp", "eventTime")),
    )
    begin = (obj.get(key) for key in ("deprecatedFirstTimestamp", "firstTimestamp", "eventTime"))
    source = map_at(obj, "deprecatedSource") or map_at(obj, "source")
    return Event(
        uid=text_at(about, "uid"),
        reason=text_at(obj, "reason"),
        message=text_at(obj, "note") or text_at(obj, "message"),
        time=next(filter(None, map(seconds_since_1970, last)), None),
        source=text_at(obj, "reportingController")
        or text_at(obj, "reportingComponent")
        or text_at(source, "component"),
        about=Ref(
            interned(about.get("kind")), interned(about.get("namespace")), text_at(about, "name")
        ),
        warns=obj.get("type") == "Warning",
        first=next(filter(None, map(seconds_since_1970, begin)), None),
        namespace=interned(map_at(obj, "metadata").get("namespace")),
    )
