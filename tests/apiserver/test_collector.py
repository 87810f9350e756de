"""The collector: what goes when its owner, its namespace or its definition goes, and what stays."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from scripts.apiserver.admission.authorization import Authorizer
from scripts.apiserver.admission.chain import Admission
from scripts.apiserver.admission.webhook import Hook, Services, WebhookAnswer, WebhookTransport
from scripts.apiserver.objects.objects import (
    ADMIN,
    COLLECTOR,
    Caller,
    Object,
    User,
    is_deleting,
    metadata,
)
from scripts.apiserver.objects.patching import MERGE
from scripts.apiserver.objects.resources import Registry
from scripts.apiserver.requests.builtins import builtins
from scripts.apiserver.requests.collector import Collector
from scripts.apiserver.requests.writes import Writer
from scripts.apiserver.storage import Storage, StoredChange, Watcher
from tests.apiserver.api import configmap, definition, namespace, widget

HOME = "home"


class Recorder(WebhookTransport):
    """Allows everything, but for the first `refusals` deletions; remembers who asked for them."""

    def __init__(self) -> None:
        super().__init__(Services(Storage()).address)
        self.refusals = 0
        self.deleters: list[str] = []

    async def call(self, hook: Hook, request: Object) -> WebhookAnswer:
        self.deleters.append(request["userInfo"]["username"])
        self.refusals -= 1
        return WebhookAnswer(allowed=self.refusals < 0, status={"message": "not yet"})


class Cluster:
    """A storage with the definition of widgets, a namespace, and a collector."""

    def __init__(self) -> None:
        self.storage = Storage()
        self.registry = Registry(builtins())
        self.transport = Recorder()
        admission = Admission(self.storage, self.registry, self.transport, Authorizer(self.storage))
        self.writer = Writer(self.storage, self.registry, admission)
        self.collector = Collector(self.storage, self.registry, self.writer, retry_seconds=0.01)
        self.changed = asyncio.Event()
        self.storage.listeners.append(self._noticed)

    def _noticed(self, change: StoredChange) -> None:
        self.changed.set()

    async def create(self, obj: Object, within: str = HOME, user: User = ADMIN) -> Object:
        served = self.registry.for_kind(obj["apiVersion"], obj["kind"])
        assert served is not None
        return await self.writer.create(
            served, obj, Caller(user), within if served.namespaced else ""
        )

    async def delete(self, obj: Object, **options: Any) -> None:
        served = self.registry.for_kind(obj["apiVersion"], obj["kind"])
        assert served is not None
        key = (metadata(obj).get("namespace") or "", metadata(obj)["name"])
        await self.writer.delete(served, key, Caller(ADMIN, **options))

    async def release(self, name: str) -> None:
        """Takes the finalizers of a ConfigMap."""
        served = self.registry.versions(("", "configmaps"))[0]
        await self.writer.patch(
            served, (HOME, name), {"metadata": {"finalizers": None}}, MERGE, Caller(ADMIN)
        )

    def stored(self, name: str, plural: str = "configmaps") -> Object | None:
        return self.storage.get(("", plural), ("" if plural == "namespaces" else HOME, name))

    def names(self) -> list[str]:
        return [metadata(obj)["name"] for obj in self.storage.table(("", "configmaps")).items()]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Lets the collector work until something holds."""
        working = asyncio.create_task(self.collector.run())
        try:
            async with asyncio.timeout(240):
                while not holds():
                    self.changed.clear()
                    await self.changed.wait()
        finally:
            working.cancel()

    async def settled(self) -> list[str]:
        """The ConfigMaps that are left where a last one, which has no owner that lives, has been
        collected: the queue is worked off in order.
        """
        await self.create(owned("last", {**CONFIGMAP, "metadata": {"name": "gone", "uid": "0"}}))
        await self.until(lambda: "last" not in self.names())
        return self.names()


CONFIGMAP = {"apiVersion": "v1", "kind": "ConfigMap"}


def reference(owner: Object) -> Object:
    names = {key: metadata(owner)[key] for key in ("name", "uid")}
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **names}


def owned(name: str, *owners: Object, said: Object | None = None) -> Object:
    """A ConfigMap of `owners`; what is `said` stands in each reference instead of what is so."""
    references = [{**reference(owner), **(said or {})} for owner in owners]
    return {**configmap(name), "metadata": {"name": name, "ownerReferences": references}}


async def cluster() -> Cluster:
    made = Cluster()
    await made.create(namespace(HOME))
    await made.create(definition())
    return made


# Owners.


async def test_what_has_no_other_owner_goes_with_its_owner() -> None:
    here = await cluster()
    first, second = [await here.create(configmap(name)) for name in ("one", "two")]
    await here.create(owned("single", first))
    await here.create(owned("shared", first, second))
    await here.create(configmap("free"))
    await here.delete(first)
    assert await here.settled() == ["free", "shared", "two"]
    shared = here.stored("shared")
    assert shared is not None
    assert metadata(shared)["ownerReferences"] == [reference(second)]


async def test_what_is_owned_by_what_is_owned_goes_too() -> None:
    here = await cluster()
    top = await here.create(configmap("top"))
    middle = await here.create(owned("middle", top))
    await here.create(owned("bottom", middle))
    await here.delete(top)
    await here.until(lambda: here.names() == [])


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"uid": "0"}, id="another uid"),
        pytest.param({"uid": "0", "name": "other"}, id="another uid and name"),
        pytest.param({"uid": "0", "kind": "Secret"}, id="another uid and kind"),
    ],
)
async def test_an_owner_that_is_not_there_keeps_nothing(said: Object) -> None:
    here = await cluster()
    owner = await here.create(configmap("owner"))
    await here.create(owned("owned", owner, said=said))
    assert await here.settled() == ["owner"]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        pytest.param({}, True, id="the owner"),
        pytest.param({"name": "other"}, False, id="another name"),
        pytest.param({"kind": "Secret"}, False, id="another kind"),
        pytest.param(
            {"apiVersion": "example.com/v1", "kind": "Gadget"}, True, id="a kind that isn't served"
        ),
    ],
)
async def test_an_owner_must_be_the_one_that_is_meant(said: Object, kept: bool) -> None:
    here = await cluster()
    owner = await here.create(configmap("owner"))
    gone = {**CONFIGMAP, "metadata": {"name": "gone", "uid": "0"}}
    obj = owned("owned", owner, said=said)
    # One owner that isn't there makes the collector look at the others too.
    obj["metadata"]["ownerReferences"].append(reference(gone))
    await here.create(obj)
    assert ("owned" in await here.settled()) is kept


async def test_finalizers_hold_what_is_collected() -> None:
    here = await cluster()
    owner = await here.create(configmap("owner"))
    dependent = owned("held", owner)
    await here.create(
        {**dependent, "metadata": {**dependent["metadata"], "finalizers": ["example.com/hold"]}}
    )
    await here.delete(owner)
    assert await here.settled() == ["held"]
    assert is_deleting(here.stored("held") or {})
    await here.release("held")
    assert here.names() == []


# Namespaces.


async def test_a_namespace_goes_after_what_is_in_it() -> None:
    here = await cluster()
    for name in ("a", "b"):
        await here.create(configmap(name))
    await here.delete(namespace(HOME))
    assert is_deleting(here.stored(HOME, "namespaces") or {})
    await here.until(lambda: here.stored(HOME, "namespaces") is None)
    assert here.names() == []


async def test_an_empty_namespace_goes_at_once() -> None:
    here = await cluster()
    await here.delete(namespace(HOME))
    assert here.stored(HOME, "namespaces") is None


async def test_a_namespace_waits_for_what_is_held_in_it() -> None:
    here = await cluster()
    waited_for = configmap("held")
    await here.create(
        {**waited_for, "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    )
    await here.delete(namespace(HOME))
    await here.until(lambda: is_deleting(here.stored("held") or {}))
    assert is_deleting(here.stored(HOME, "namespaces") or {})
    await here.release("held")
    assert here.stored(HOME, "namespaces") is None


# Definitions.


async def test_the_objects_of_a_definition_go_with_it_and_their_watches_end() -> None:
    here = await cluster()
    await here.create(widget("one"))
    table = ("example.com", "widgets")
    watcher = Watcher()
    here.storage.table(table).watchers.add(watcher)
    await here.delete(definition())
    assert (here.storage.table(table).items(), watcher.closed) == ([], True)
    assert here.registry.find("example.com", "v1", "widgets") is None


async def test_what_the_objects_of_a_definition_own_goes_with_it() -> None:
    here = await cluster()
    owner = await here.create(widget("one"))
    await here.create(owned("single", owner))
    await here.create(configmap("free"))
    await here.delete(definition())
    assert await here.settled() == ["free"]


# Admission.


async def test_deletions_pass_admission_as_the_collectors_and_are_tried_again() -> None:
    here = await cluster()
    owner = await here.create(configmap("owner"))
    await here.create(owned("owned", owner))
    await here.delete(owner)
    rule = {
        "operations": ["DELETE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
    }
    here.transport.refusals = 1
    await here.create(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "hooks"},
            "webhooks": [{"name": "w.example.com", "clientConfig": {}, "rules": [rule]}],
        }
    )
    await here.until(lambda: here.names() == [])
    assert here.transport.deleters == [COLLECTOR.name, COLLECTOR.name]
