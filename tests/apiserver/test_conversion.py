"""Served versions of one stored object: what a client of each version reads, and what is stored of
what it writes.
"""

from scripts.apiserver.objects.conversion import conversions, relabel
from tests.apiserver.api import NAMESPACE, Api

V1 = "resource.k8s.io/v1"
BETA = "resource.k8s.io/v1beta1"


def test_an_apiversion_is_changed_and_the_rest_stays() -> None:
    obj = {"apiVersion": "example.com/v1", "spec": {"a": 1}}
    assert relabel("example.com/v2")(obj) == {"apiVersion": "example.com/v2", "spec": {"a": 1}}
    assert relabel("example.com/v1")(obj) is obj


# Events.


CORE_EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod"},
    "message": "m",
    "reason": "r",
    "reportingComponent": "c",
    "reportingInstance": "i",
    "source": {"component": "c"},
    "firstTimestamp": "1",
    "lastTimestamp": "2",
    "count": 3,
    "eventTime": None,
}
NEW_EVENT = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "regarding": {"kind": "Pod"},
    "note": "m",
    "reason": "r",
    "reportingController": "c",
    "reportingInstance": "i",
    "deprecatedSource": {"component": "c"},
    "deprecatedFirstTimestamp": "1",
    "deprecatedLastTimestamp": "2",
    "deprecatedCount": 3,
    "eventTime": None,
}


def test_events_name_their_fields_otherwise() -> None:
    read, write = conversions("events.k8s.io", "v1", "v1")
    assert (read(CORE_EVENT), write(NEW_EVENT)) == (NEW_EVENT, CORE_EVENT)


async def test_an_event_is_one_in_both_groups(api: Api) -> None:
    core, new = (
        f"/{group}/v1/namespaces/{NAMESPACE}/events" for group in ("api", "apis/events.k8s.io")
    )
    regarding = {"kind": "Pod", "name": "p", "namespace": NAMESPACE}
    created = await api.done(
        "POST", new, {"metadata": {"name": "e"}, "note": "m", "regarding": regarding}
    )
    assert (created["apiVersion"], created["note"]) == ("events.k8s.io/v1", "m")
    read = await api.done("GET", f"{core}/e")
    assert (read["apiVersion"], read["message"], read["involvedObject"]) == ("v1", "m", regarding)
    assert await api.names(new, fieldSelector="involvedObject.name=p") == ["e"]
