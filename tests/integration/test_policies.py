"""Policies and webhooks on one API server give the same verdicts: while our server answers, and while
nobody does.

The requests are the recorded ones and changes of them, as dry runs. On a real API server there are
5,000 changed ones.
"""

import asyncio
import copy
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml

from app.base.value import Value
from app.config.schema import Configuration
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING
from app.kube.api import NotFound, ObjectRef
from app.objects.resource import CRD
from app.server.serve import Running
from app.webhooks.configurations import UrlTarget, webhook_configurations
from app.webhooks.policies import admission_policies
from scripts.apiserver.admission_server import ApiServer, configurations_of
from scripts.apiserver.manifests import BUILT_IN
from scripts.apiserver.processes import free_port
from scripts.apiserver.sandbox import Sandbox
from tests.integration.conftest import own_crd
from tests.integration.system import Users, eventually, is_gone, raw_client
from tests.policies.judge import TOPOLOGY, disagreement, other_binding
from tests.policies.mutations import mutated, recorded
from tests.reviews import PATHS, load

pytestmark = pytest.mark.untraced

Object = dict[str, Any]

CHANGED = {"sandbox": 60, "real": 2500}
"""The changed requests of each dialect."""

AT_ONCE = 16
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
NAMESPACE = "recorded"
OF_SYSTEM = ("uid", "resourceVersion", "managedFields", "ownerReferences", "finalizers")


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    server = {"host": "127.0.0.1", "port": free_port(), "toolsPort": 0, "drainSeconds": 0}
    client = {"queriesPerSecond": 10000, "burst": 10000}
    levels = TOPOLOGY["levels"][:4]
    topology = {"enabled": True, "levels": levels}
    return Configuration.model_validate(
        {"clusterTopology": topology, "server": server, "client": client}
    )


class Verdict(Value):
    """An answer of the API server: whether it let the write pass, and what it said if not.

    `by_schema` is true if no admission was asked, because the object is not valid.
    """

    allowed: bool
    texts: tuple[str, ...] = ()
    by_schema: bool = False


class Replay:
    """Sends requests again, as dry runs in the name of their users."""

    def __init__(self, api: ApiServer, client: httpx.AsyncClient) -> None:
        self._api = api
        self._client = client
        self._limit = asyncio.Semaphore(AT_ONCE)

    async def prepare(self, requests: Sequence[Object]) -> list[Object]:
        """Store what updates replace. Returns the requests for which that was possible."""
        kept = await asyncio.gather(*map(self._stored, requests))
        return [request for request, is_kept in zip(requests, kept, strict=True) if is_kept]

    async def _stored(self, request: Object) -> bool:
        old = request.get("oldObject")
        if old is None or _is_managed(request):
            return True
        async with self._limit:
            answer = await self._client.post(_path(request), json=_cleaned(old))
        return answer.status_code in (201, 409)

    async def ask(self, requests: Sequence[Object]) -> list[Verdict]:
        return list(await asyncio.gather(*map(self._asked, requests)))

    async def _asked(self, request: Object) -> Verdict:
        user = request["userInfo"]["username"]
        headers = {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
        async with self._limit:
            answer = await self._send(request, headers)
        return _verdict(answer)

    async def _send(self, request: Object, headers: dict[str, str]) -> httpx.Response:
        path = _path(request)
        dry: dict[str, Any] = {"params": {"dryRun": "All"}, "headers": headers}
        if request["operation"] == "CREATE":
            return await self._client.post(path, json=_cleaned(request["object"]), **dry)

        name = (request["object"] or request["oldObject"])["metadata"]["name"]
        if request["operation"] == "DELETE":
            return await self._client.delete(f"{path}/{name}", **dry)
        patch = [{"op": "replace", "path": "/spec", "value": request["object"]["spec"]}]
        dry["headers"]["Content-Type"] = "application/json-patch+json"
        return await self._client.patch(f"{path}/{name}", content=json.dumps(patch), **dry)


def _path(request: Object) -> str:
    resource = request["resource"]
    base = f"/apis/{resource['group']}/{resource['version']}"
    if resource["resource"].startswith("clustertopolog"):
        return f"{base}/{resource['resource']}"
    return f"{base}/namespaces/{NAMESPACE}/{resource['resource']}"


def _cleaned(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in OF_SYSTEM}
    return {**obj, "metadata": metadata}


def _is_managed(request: Object) -> bool:
    """Whether the object exists anyway, under a name that counts."""
    obj = request["object"] or request["oldObject"]
    return obj["metadata"]["name"] in ("grove-topology", "other")


def _verdict(answer: httpx.Response) -> Verdict:
    """Return the verdict of an answer.

    A name that exists already, or an object that doesn't exist, is found after admission.
    """
    if answer.status_code < 300 or answer.status_code in (404, 409):
        return Verdict(True)
    status = answer.json()
    message = status["message"]
    if "admission" not in message.lower():
        return Verdict(False, by_schema=True)
    if "ValidatingAdmissionPolicy" in message:
        return Verdict(False, (message.partition("denied request: ")[2],))
    causes = (status.get("details") or {}).get("causes") or [{"message": message}]
    texts = (f"{cause.get('field', '')}: {cause['message']}" for cause in causes)
    return Verdict(False, tuple(texts))


def numbered(requests: Sequence[Object]) -> list[Object]:
    """The requests with names and namespaces of their own."""
    own_requests: list[Object] = []
    for number, request in enumerate(requests):
        request = copy.deepcopy(request)
        for obj in (request["object"], request.get("oldObject")):
            if obj is not None and not _is_managed({"object": obj}):
                obj["metadata"]["name"] = f"r{number}"
            if obj is not None and "namespace" in obj["metadata"]:
                obj["metadata"]["namespace"] = NAMESPACE
        own_requests.append(request)
    return own_requests


def requests_of(operators: Sequence[str], kind: str) -> list[Object]:
    names = [name for operator in operators for name in recorded(operator)]
    again = [load(name)["request"] for name in names if "deleting" not in name]
    return numbered([*again, *mutated(names, CHANGED[kind], seed=11)])


@pytest_asyncio.fixture(loop_scope="module")
async def replay(api: ApiServer, clients: Users) -> AsyncIterator[Replay]:
    async with raw_client(api) as client:
        yield Replay(api, client)


class Installation:
    """What of ours is registered with the API server."""

    def __init__(self, api: ApiServer, served: Running, clients: Users) -> None:
        self._api = api
        self._served = served
        self._clients = clients

    async def webhooks(self) -> None:
        bundle = self._served.certificate.ca_bundle() or b""
        await self._api.apply(configurations_of(self._served, bundle))

    async def in_effect(self) -> None:
        """Wait until what is stored counts: a real API server reads it from caches."""
        if not isinstance(self._api, Sandbox):
            await asyncio.sleep(1)

    async def no_webhooks(self) -> None:
        """Webhooks that nothing answers, and that are ignored then."""
        dead = webhook_configurations(UrlTarget("https://127.0.0.1:1", b""))
        for configuration in dead:
            for webhook in configuration["webhooks"]:
                webhook["failurePolicy"] = "Ignore"
        await self._delete_webhooks()
        await self._api.apply(dead)

    async def _delete_webhooks(self) -> None:
        for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            await self._clients.answer(
                "admin", "DELETE", f"{REGISTRATION}/{plural}/grove-admission"
            )

    async def policies(self, configuration: Configuration) -> None:
        await self._api.apply(admission_policies(configuration))

    async def no_policies(self, configuration: Configuration) -> None:
        for obj in admission_policies(configuration):
            plural = "validatingadmissionpolicybindings"
            if obj["kind"] == "ValidatingAdmissionPolicy":
                plural = "validatingadmissionpolicies"
            path = f"{REGISTRATION}/{plural}/{obj['metadata']['name']}"
            await self._clients.answer("admin", "DELETE", path)


def load_bad() -> Object:
    """A PodGroup that a policy and a webhook refuse."""
    return numbered([load("podgroup.mixed-case-name")["request"]])[0]


def _is_refused(verdicts: list[Verdict]) -> bool:
    return not verdicts[0].allowed


async def compare(
    replay: Replay,
    installation: Installation,
    configuration: Configuration,
    requests: Sequence[Object],
) -> Counter[str]:
    """Ask webhooks, both, and policies alone. Return how often who refused."""
    await installation.no_webhooks()
    await installation.in_effect()
    kept = await replay.prepare(requests)
    await installation.webhooks()
    await eventually(lambda: replay.ask([load_bad()]), _is_refused)
    of_webhooks = await replay.ask(kept)
    await installation.policies(configuration)
    await installation.in_effect()
    of_both = await replay.ask(kept)
    await installation.no_webhooks()
    await eventually(lambda: replay.ask([load_bad()]), _is_refused)
    await installation.in_effect()
    of_policies = await replay.ask(kept)
    await installation.no_policies(configuration)
    await installation.webhooks()

    counts: Counter[str] = Counter()
    problems: list[Any] = []
    for request, webhook, both, policy in zip(kept, of_webhooks, of_both, of_policies, strict=True):
        resource = request["resource"]["resource"]
        path = PATHS["clustertopology" if "topolog" in resource else resource.removesuffix("s")]
        problem = disagreement(path, policy.texts, webhook.texts)
        if (
            problem
            or both.allowed is not webhook.allowed
            or policy.by_schema is not webhook.by_schema
        ):
            problems.append((problem, webhook, both, policy, request))
        counts[f"{resource} {_named(webhook, policy)}"] += 1
    assert problems == [], f"{len(problems)} of {len(kept)}: {problems[0]}"
    assert len(kept) > 0.6 * len(requests)
    return counts


def _named(webhook: Verdict, policy: Verdict) -> str:
    if webhook.by_schema:
        return "schema"
    if webhook.allowed:
        return "allowed"
    if policy.allowed:
        return "webhook only"
    return "both"


async def test_the_dialect_of_the_designs(
    api: ApiServer,
    clients: Users,
    served: Running,
    configuration: Configuration,
    replay: Replay,
    kind: str,
) -> None:
    await api.apply([_namespace(), *former_crds()])
    installation = Installation(api, served, clients)
    requests = requests_of(["", "grove-a5b8e0dc"], kind)
    await installation.in_effect()

    counts = await compare(replay, installation, configuration, requests)

    print(kind, "design", dict(counts))
    assert counts["podcliquesets both"] > 5
    assert counts["podgroups both"] > 5
    assert counts["clustertopologies both"] > 5


async def test_todays_dialect(
    api: ApiServer,
    clients: Users,
    served: Running,
    configuration: Configuration,
    replay: Replay,
    kind: str,
) -> None:
    if not api.collects_garbage:
        pytest.skip("needs a garbage collector, which deletes the KAI Topology")
    await clients.admin.delete(ObjectRef(CRD, str(CLUSTER_TOPOLOGY)))
    await eventually(lambda: is_gone(clients.admin, CRD, str(CLUSTER_TOPOLOGY)))
    await api.apply([_namespace(), *todays_crds()])
    await clients.admin.discovery.refresh()
    await eventually(lambda: _has_binding(clients))
    await api.apply([_cleaned(other_binding())])
    installation = Installation(api, served, clients)
    requests = requests_of(["grove-fcc3b3bb", "grove-616762f7"], kind)
    await installation.in_effect()

    counts = await compare(replay, installation, configuration, requests)

    print(kind, "bindings", dict(counts))
    assert counts["podcliquesets both"] > 5
    assert counts["podgroups both"] > 0
    assert counts["clustertopologybindings both"] > 3
    await api.apply([own_crd()])


async def _has_binding(clients: Users) -> bool:
    try:
        await clients.admin.get(ObjectRef(CLUSTER_TOPOLOGY_BINDING, "grove-topology"))
    except NotFound:
        return False
    return True


def _namespace() -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def former_crds() -> list[Object]:
    crds = [crd for crd in yaml.safe_load_all((BUILT_IN / "grove.yaml").read_text()) if crd]
    return [crd for crd in crds if crd["metadata"]["name"] == "podcliquesets.grove.io"]


def todays_crds() -> list[Object]:
    folder = Path(os.environ.get("INTEGRATION_CRDS") or BUILT_IN)
    if not (folder / "grove.io_clustertopologybindings.yaml").exists():
        folder = BUILT_IN / "today"
    files = sorted(folder.glob("grove*.yaml"))
    crds = [crd for file in files for crd in yaml.safe_load_all(file.read_text()) if crd]
    needed = (str(CLUSTER_TOPOLOGY_BINDING), "podcliquesets.grove.io")
    return [crd for crd in crds if crd["metadata"]["name"] in needed]
