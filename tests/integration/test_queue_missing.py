"""Queues that don't exist, as a user sees it: a warning at the write, until the Queue is there."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
import pytest_asyncio

from app.config.schema import Configuration
from app.facts.kai.queue import read_queue_names
from app.facts.kinds import POD_GROUP, QUEUE, QUEUE_NAMES
from app.kube.api import ObjectRef, Selection
from app.objects.resource import POD, VALIDATING_POLICIES
from app.objects.resource import VALIDATING_POLICY_BINDINGS as BINDINGS
from app.server.serve import Running
from scripts.apiserver.admission_server import ApiServer, admission_server
from tests.integration.system import Users, eventually, raw_client
from tests.policies.ways import QUEUE as LABEL
from tests.policies.ways import Way, pod, ways
from tests.rendered import rendered

pytestmark = pytest.mark.untraced

Object = dict[str, Any]
Warned = Callable[[Way], Awaitable[list[str]]]

NAMESPACE = "missing"
KINDS = (
    "a label of a Job",
    "a template of a Deployment",
    "a label of a Workload",
    "a label of a Pod",
    "a CronJob",
    "any owner of Pods",
    "a label of a PodCliqueSet",
    "the spec of a PodGroup",
)


def in_queue(name: str) -> Way:
    return Way(POD, pod({LABEL: name}))


def queue(name: str) -> Object:
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installed(api: ApiServer, clients: Users) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await api.apply([namespace, queue("a"), *rendered("overlays/queue-guard-warn")])
    await eventually(lambda: _is_served(clients))


async def _is_served(clients: Users) -> bool:
    await clients.admin.discovery.refresh()
    return clients.admin.served_version(QUEUE_NAMES) is not None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def leading(
    api: ApiServer, configuration: Configuration, installed: None, tmp_path_factory: Any
) -> AsyncIterator[Running]:
    """Our server, after the policies."""
    async with admission_server(
        api, configuration, tmp_path_factory.mktemp("served"), readable=False
    ) as served:
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def warned(api: ApiServer, clients: Users, kind: str) -> AsyncIterator[Warned]:
    """What is said of queues when an administrator creates an object in a dry run."""
    async with raw_client(api) as client:

        async def create(way: Way) -> list[str]:
            version = clients.admin.discovery.served_version(way.resource)
            if version is None and kind == "sandbox":
                pytest.skip(f"the sandbox serves no {way.resource}")
            body = {
                "apiVersion": way.resource.api_version(version),
                "kind": way.resource.kind,
                **way.obj,
            }
            prefix = "apis" if way.resource.group else "api"
            path = f"/{prefix}/{body['apiVersion']}/namespaces/{NAMESPACE}/{way.resource.plural}"
            return _said(await client.post(path, json=body, params={"dryRun": "All"}))

        yield create


def _said(answer: httpx.Response) -> list[str]:
    assert answer.is_success, answer.text
    warnings = answer.headers.get_list("warning")
    return [text for text in warnings if "does not exist" in text]


async def _names(clients: Users) -> list[str]:
    page = await clients.admin.list(Selection(QUEUE_NAMES))
    return sorted(name for obj in page.items for name in read_queue_names(obj))


@pytest.mark.parametrize("case", KINDS)
async def test_who_names_a_missing_queue_is_warned_once_and_refused_by_nobody(
    leading: Running, warned: Warned, case: str
) -> None:
    (text,) = await eventually(lambda: warned(ways("gone")[case]))
    assert 'queue \\"gone\\" does not exist' in text
    assert await warned(ways("a")[case]) == []


async def test_a_new_queue_is_known_soon_and_a_former_one_no_more(
    leading: Running, warned: Warned, clients: Users
) -> None:
    await eventually(lambda: warned(in_queue("new")))
    await clients.admin.create(QUEUE, queue("new"))
    await eventually(lambda: warned(in_queue("new")), lambda said: not said)
    await clients.admin.delete(ObjectRef(QUEUE, "new"))
    await eventually(lambda: warned(in_queue("new")))


async def test_a_quiet_cluster_gets_no_write(leading: Running, clients: Users) -> None:
    async def version() -> str:
        (stored,) = (await clients.admin.list(Selection(QUEUE_NAMES))).items
        return str(stored["metadata"]["resourceVersion"])

    await eventually(lambda: _names(clients), lambda names: names == ["a"])
    before = await version()
    assert leading.leader is not None
    for loop in leading.leader.loops:
        loop.add_all()
    group = ways("a")["the spec of a PodGroup"].obj
    await clients.admin.create(POD_GROUP, {**group}, NAMESPACE)
    await eventually(lambda: _depth(leading), lambda depth: depth == 0)
    assert await version() == before
    await clients.admin.delete(ObjectRef(POD_GROUP, group["metadata"]["name"], NAMESPACE))


async def _depth(served: Running) -> int:
    assert served.leader is not None
    return sum(loop.depth for loop in served.leader.loops if loop.reconciler.name == "queue-names")


async def test_what_somebody_deletes_or_changes_is_written_again(
    leading: Running, clients: Users
) -> None:
    reference = ObjectRef(QUEUE_NAMES, "grove-admission")
    await clients.admin.patch(reference, {"spec": {"names": {"a": None, "x": ""}}})
    await eventually(lambda: _names(clients), lambda names: names == ["a"])
    await clients.admin.delete(reference)
    await eventually(lambda: _names(clients), lambda names: names == ["a"])


async def test_policies_that_are_installed_again_read_the_names_of_today(
    api: ApiServer, leading: Running, warned: Warned, clients: Users
) -> None:
    """An API server would not read ConfigMaps again."""
    policies = [obj for obj in rendered("overlays/queue-guard-warn") if _reads_names(obj)]
    kinds = {resource.kind: resource for resource in (VALIDATING_POLICIES, BINDINGS)}
    await eventually(lambda: warned(in_queue("later")))
    for obj in policies:
        await clients.admin.delete(ObjectRef(kinds[obj["kind"]], obj["metadata"]["name"]))
    await eventually(lambda: warned(in_queue("later")), lambda said: not said)

    await clients.admin.create(QUEUE, queue("later"))
    await eventually(lambda: _names(clients), lambda names: names == ["a", "later"])
    await api.apply(policies)
    await eventually(lambda: warned(in_queue("gone")))
    assert await warned(in_queue("later")) == []
    await clients.admin.delete(ObjectRef(QUEUE, "later"))


def _reads_names(obj: Object) -> bool:
    return str(obj["metadata"]["name"]).startswith("queue-missing-")
