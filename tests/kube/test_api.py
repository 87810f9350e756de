"""What is read of an API server, and which calls may succeed later."""

import pytest

from app.kube.api import (
    NotFound,
    Object,
    ObjectRef,
    Rejected,
    Selection,
    Unavailable,
    find_living,
    list_all,
)
from app.objects.resource import POD
from tests.kube.memory.client import MemoryClient


@pytest.mark.parametrize(
    ("message", "code", "is_temporary"),
    [
        pytest.param("Unauthorized", 401, True, id="an expired token"),
        pytest.param(
            "unable to create new content in namespace a because it is being terminated",
            403,
            True,
            id="a namespace that is being deleted",
        ),
        pytest.param(
            "cannot find RESTMapping for APIVersion grove.io/v1alpha1 Kind PodGang",
            422,
            True,
            id="the kind of a new CRD",
        ),
        pytest.param("pods is forbidden", 403, False, id="a missing right"),
        pytest.param("spec: Required value", 422, False, id="an invalid object"),
        pytest.param("too large", 413, False, id="a large object"),
    ],
)
def test_a_rejected_call_may_succeed_later(message: str, code: int, is_temporary: bool) -> None:
    assert Rejected(message, code=code).is_temporary is is_temporary


A_POD: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "ns", "uid": "u"},
}
ENDING = {**A_POD, "metadata": {**A_POD["metadata"], "deletionTimestamp": "2026-11-28T12:00:00Z"}}


@pytest.mark.parametrize(
    ("stored", "name", "uid", "lives"),
    [
        pytest.param(A_POD, "a", "u", True, id="it lives"),
        pytest.param(A_POD, "b", "u", False, id="gone"),
        pytest.param(A_POD, "a", "other", False, id="another of its name"),
        pytest.param(ENDING, "a", "u", False, id="being deleted"),
    ],
)
async def test_an_object_lives(stored: Object, name: str, uid: str, lives: bool) -> None:
    found = await find_living(MemoryClient([stored]), ObjectRef(POD, name, "ns"), uid)
    assert (found is not None) is lives
    if found is not None:
        assert found["metadata"]["name"] == "a"


async def test_there_is_nothing_of_a_resource_that_is_not_served() -> None:
    client = MemoryClient([A_POD])
    assert [obj["metadata"]["name"] for obj in await list_all(client, Selection(POD))] == ["a"]
    client.fail_next("list", POD, NotFound("no such resource", code=404))
    assert await list_all(client, Selection(POD)) == []
    client.fail_next("list", POD, Unavailable("down", code=503))
    with pytest.raises(Unavailable):
        await list_all(client, Selection(POD))
