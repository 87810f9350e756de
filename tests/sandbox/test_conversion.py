"""Served versions of one stored object: what a client of each version reads, and what is stored of
what it writes.
"""

from typing import Any

import pytest

from app.sandbox.objects.conversion import conversions, relabel
from tests.sandbox.api import NAMESPACE, Api, Object

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


# Claims.


def claim(version: str, *requests: Any, template: bool = False) -> Object:
    spec: Object = {"devices": {"requests": list(requests)}}
    return {"apiVersion": version, "spec": {"metadata": {}, "spec": spec} if template else spec}


NESTED = {
    "name": "gpu",
    "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2, "allocationMode": "ExactCount"},
}
FLAT = {
    "name": "gpu",
    "deviceClassName": "gpu.nvidia.com",
    "count": 2,
    "allocationMode": "ExactCount",
}
FIRST = {"name": "any", "firstAvailable": [{"name": "a", "deviceClassName": "x"}]}


@pytest.mark.parametrize("template", [False, True], ids=["a claim", "a template"])
def test_requests_of_claims(template: bool) -> None:
    old = claim(BETA, FLAT, FIRST, template=template)
    new = claim(V1, NESTED, FIRST, template=template)
    read, write = conversions("resource.k8s.io", "v1beta1", "v1")
    assert (read(new), write(old)) == (old, new)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="no devices"),
        pytest.param({"devices": {}}, id="no requests"),
        pytest.param({"devices": {"requests": None}}, id="null for requests"),
        pytest.param({"devices": None}, id="null for devices"),
    ],
)
def test_claims_without_requests_change_their_version_only(spec: Object) -> None:
    read, write = conversions("resource.k8s.io", "v1beta1", "v1")
    stored = {"apiVersion": V1, "spec": spec}
    served = {"apiVersion": BETA, "spec": spec}
    assert (read(stored), write(served)) == (served, stored)


async def test_a_claim_is_read_in_each_version(api: Api) -> None:
    paths = {
        version: f"/apis/resource.k8s.io/{version}/namespaces/{NAMESPACE}/resourceclaims"
        for version in ("v1", "v1beta2", "v1beta1")
    }
    await api.done("POST", paths["v1beta1"], {**claim(BETA, FLAT), "metadata": {"name": "c"}})
    read = {version: await api.done("GET", f"{path}/c") for version, path in paths.items()}
    assert {
        version: (obj["apiVersion"], obj["spec"]["devices"]["requests"])
        for version, obj in read.items()
    } == {
        "v1": (V1, [NESTED]),
        "v1beta2": ("resource.k8s.io/v1beta2", [NESTED]),
        "v1beta1": (BETA, [FLAT]),
    }
