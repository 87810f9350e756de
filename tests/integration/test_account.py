"""A thief of the token of our account, on an API server with our RBAC and the policies about it."""

import copy
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from app.config.schema import Configuration
from app.facts.kinds import (
    COMPUTE_DOMAIN,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    RESOURCE_CLAIM,
)
from app.objects.resource import (
    LEASE,
    MUTATING_WEBHOOKS,
    POD,
    SECRET,
    VALIDATING_WEBHOOKS,
    Resource,
)
from scripts.apiserver.admission_server import ApiServer
from tests.integration.system import Users, eventually, raw_client
from tests.policies.test_account import ALLOWED, REFUSED, at_url
from tests.policies.ways import pod, ways

pytestmark = pytest.mark.untraced

Object = dict[str, Any]

NAMESPACE = "grove-system"
OURS = {"app.kubernetes.io/managed-by": "grove-admission"}
BASES: dict[Resource, Object] = {
    POD: {**pod(), "metadata": {"name": "x", "annotations": {"a": "b"}, "labels": {"a": "b"}}},
    POD_CLIQUE: ways("a")["a PodClique"].obj,
    POD_GANG: ways("a")["a PodGang"].obj,
}
"""What is stored, where the table has objects that no API server takes."""


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration()


class Thief:
    """Writes with the token of our account, of objects that an administrator has made."""

    def __init__(self, admin: httpx.AsyncClient, client: httpx.AsyncClient, clients: Users) -> None:
        self._admin = admin
        self._client = client
        self._clients = clients

    def path(self, resource: Resource) -> str:
        version = self._clients.admin.discovery.served_version(resource)
        prefix = "apis" if resource.group else "api"
        where = f"namespaces/{NAMESPACE}/" if resource.namespaced else ""
        return f"/{prefix}/{resource.api_version(version)}/{where}{resource.plural}"

    def body(self, resource: Resource, obj: Object) -> Object:
        version = self._clients.admin.discovery.served_version(resource)
        return {"apiVersion": resource.api_version(version), "kind": resource.kind, **obj}

    async def store(self, resource: Resource, obj: Object) -> Object:
        body = self.body(resource, copy.deepcopy(obj))
        answer = await self._admin.post(self.path(resource), json=body)
        answer.raise_for_status()
        stored: Object = answer.json()
        return stored

    async def remove(self, resource: Resource, name: str) -> None:
        answer = await self._admin.delete(
            f"{self.path(resource)}/{name}", params={"gracePeriodSeconds": "0"}
        )
        answer.raise_for_status()

    async def patch(
        self, resource: Resource, stored: Object, change: Callable[[Object], Any]
    ) -> httpx.Response:
        changed = copy.deepcopy(stored)
        change(changed)
        return await self._client.patch(
            f"{self.path(resource)}/{stored['metadata']['name']}",
            json=list(operations(stored, changed)),
            headers={"Content-Type": "application/json-patch+json"},
        )

    async def try_change(self, case: str) -> httpx.Response:
        """Store an object, change it as a case of REFUSED says, and remove it."""
        resource, old, change = REFUSED[case]
        assert old is not None
        stored = await self.store(resource, BASES.get(resource, old))
        answer = await self.patch(resource, stored, change)
        await self.remove(resource, stored["metadata"]["name"])
        return answer

    async def set_status(
        self, resource: Resource, stored: Object, status: Object
    ) -> httpx.Response:
        return await self._client.patch(
            f"{self.path(resource)}/{stored['metadata']['name']}/status",
            json={"status": status},
            headers={"Content-Type": "application/merge-patch+json"},
        )

    async def create(self, resource: Resource, obj: Object) -> httpx.Response:
        return await self._client.post(
            self.path(resource), json=self.body(resource, obj), params={"dryRun": "All"}
        )

    async def delete(self, resource: Resource, name: str) -> httpx.Response:
        return await self._client.delete(f"{self.path(resource)}/{name}")


def operations(former: Object, obj: Object) -> Iterator[Object]:
    """Yield a JSON Patch from one object to another, by the fields of metadata and the others."""
    for holder, path in (("metadata", "/metadata"), ("", "")):
        before, after = (each[holder] if holder else each for each in (former, obj))
        for key in {*before, *after} - {"metadata"}:
            if key not in after:
                yield {"op": "remove", "path": f"{path}/{key}"}
            elif before.get(key) != after[key]:
                yield {"op": "add", "path": f"{path}/{key}", "value": after[key]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def thief(api: ApiServer, clients: Users) -> AsyncIterator[Thief]:
    async with raw_client(api) as admin, raw_client(api, "operator") as client:
        thief = Thief(admin, client, clients)
        # an API server takes one policy after the other, and a kind may have several
        for case in of(REFUSED, *CHANGED):

            async def is_refused(case: str = case) -> bool:
                return refuses(await thief.try_change(case), case)

            await eventually(is_refused)
        yield thief


WEBHOOKS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
CHANGED = (*WEBHOOKS, POD, POD_GANG)
UNKNOWN = ("a field that is not known yet",)
"""What an API server removes."""

INVALID = 422
"""Some changes are refused before any policy is asked."""


def of(table: dict[str, Any], *resources: Resource) -> list[str]:
    return [case for case, row in table.items() if row[0] in resources and case not in UNKNOWN]


def refuses(answer: httpx.Response, case: str) -> bool:
    if answer.status_code == INVALID:
        return True
    said = answer.json().get("message", "")
    is_ours = "denied request: the account of grove-admission" in said or "owner" in case
    return is_ours and answer.status_code == 403


@pytest.mark.parametrize("case", of(REFUSED, *CHANGED))
async def test_nothing_else_is_changed(thief: Thief, case: str) -> None:
    answer = await thief.try_change(case)
    assert refuses(answer, case), answer.text


@pytest.mark.parametrize("case", of(ALLOWED, *WEBHOOKS, POD))
async def test_what_the_server_writes_is_written(thief: Thief, case: str) -> None:
    resource, old, change = ALLOWED[case]
    assert old is not None
    stored = await thief.store(resource, old)

    def changed(obj: Object) -> None:
        kept = copy.deepcopy(obj["metadata"])
        change(obj)
        obj["metadata"] |= {
            key: kept[key] for key in ("resourceVersion", "generation") if key in kept
        }

    answer = await thief.patch(resource, stored, changed)
    await thief.remove(resource, stored["metadata"]["name"])
    assert answer.status_code == 200, answer.text


async def test_the_host_of_a_url_stays(thief: Thief) -> None:
    stored = await thief.store(MUTATING_WEBHOOKS, at_url())
    client = stored["webhooks"][0]["clientConfig"]
    path = await thief.patch(
        MUTATING_WEBHOOKS,
        stored,
        lambda obj: obj["webhooks"][0]["clientConfig"].update(url=client["url"] + "/x"),
    )
    await thief.remove(MUTATING_WEBHOOKS, "grove-admission")
    assert path.status_code == 200, path.text


@pytest.mark.parametrize("case", of(REFUSED, SECRET, LEASE))
async def test_no_other_secret_and_lease_is_created(thief: Thief, case: str, kind: str) -> None:
    resource, old, change = REFUSED[case]
    obj = old or {}
    change(obj)
    if "type" not in obj and resource == SECRET and kind == "real":
        pytest.skip("an API server makes it Opaque")
    if resource == SECRET and obj.get("type") == "kubernetes.io/service-account-token":
        annotations = {"kubernetes.io/service-account.name": "default"}
        obj = {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}
    answer = await thief.create(resource, obj)
    assert answer.status_code == 403, answer.text


async def test_our_own_secret_and_lease_are_created(thief: Thief) -> None:
    data = {"tls.crt": "", "tls.key": ""}
    secret = {
        "metadata": {"name": "grove-admission-certificates"},
        "type": "kubernetes.io/tls",
        "data": data,
    }
    lease = {"metadata": {"name": "grove-admission"}, "spec": {"holderIdentity": "x"}}
    answers = [await thief.create(SECRET, secret), await thief.create(LEASE, lease)]
    assert [answer.status_code for answer in answers] == [201, 201]


async def test_of_a_podclique_only_the_claims_are_changed(thief: Thief) -> None:
    stored = await thief.store(POD_CLIQUE, BASES[POD_CLIQUE])

    def with_claim(obj: Object) -> None:
        pod_spec = obj["spec"]["podSpec"]
        pod_spec["resourceClaims"] = [{"name": "mnnvl", "resourceClaimName": "x"}]
        pod_spec["containers"][0]["resources"] = {"claims": [{"name": "mnnvl"}]}

    def with_image(obj: Object) -> None:
        obj["spec"]["podSpec"]["containers"][0]["image"] = "registry.example/thief:1"

    refused = await thief.patch(POD_CLIQUE, stored, with_image)
    nothing = await thief.patch(POD_CLIQUE, stored, lambda obj: None)
    claimed = await thief.patch(POD_CLIQUE, stored, with_claim)
    await thief.remove(POD_CLIQUE, stored["metadata"]["name"])
    answers = (refused, nothing, claimed)
    assert [answer.status_code for answer in answers] == [403, 200, 200], refused.text


REQUEST = {"name": "r", "exactly": {"deviceClassName": "c"}}
SPECS: dict[Resource, Object] = {
    POD_GROUP: {"minMember": 1, "queue": "a"},
    RESOURCE_CLAIM: {"devices": {"requests": [REQUEST]}},
    COMPUTE_DOMAIN: {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "t"}}},
}


@pytest.mark.parametrize("resource", SPECS, ids=str)
async def test_what_others_have_made_is_not_changed_and_not_deleted(
    thief: Thief, resource: Resource
) -> None:
    codes = {}
    for name, labels in {"ours": OURS, "theirs": {}}.items():
        metadata = {"name": name, "labels": labels}
        stored = await thief.store(resource, {"metadata": metadata, "spec": SPECS[resource]})
        taken = await thief.patch(
            resource, stored, lambda obj: obj["metadata"].update(labels={**OURS, "a": "b"})
        )
        gone = await thief.delete(resource, name)
        codes[name] = (taken.status_code, gone.status_code)
    await thief.remove(resource, "theirs")
    assert codes == {"ours": (200, 200), "theirs": (403, 403)}


@pytest.mark.parametrize("resource", SPECS, ids=str)
async def test_no_finalizer_keeps_what_the_account_has_made(
    thief: Thief, resource: Resource
) -> None:
    """It would keep the namespace of a tenant too."""
    finalizers = ["thief.example/x"]
    metadata = {"name": "kept", "labels": OURS}
    obj = {"metadata": metadata, "spec": SPECS[resource]}
    created = await thief.create(
        resource, {**obj, "metadata": {**metadata, "finalizers": finalizers}}
    )
    stored = await thief.store(resource, obj)
    patched = await thief.patch(
        resource, stored, lambda obj: obj["metadata"].update(finalizers=finalizers)
    )
    await thief.remove(resource, "kept")
    assert [answer.status_code for answer in (created, patched)] == [403, 403], patched.text


async def test_of_the_status_of_a_podcliqueset_only_conditions_are_changed(thief: Thief) -> None:
    stored = await thief.store(POD_CLIQUE_SET, ways("a")["a label of a PodCliqueSet"].obj)
    condition = {
        "type": "TopologyConstraintSatisfied",
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    statuses = ({"replicas": 7}, {"conditions": [condition]})
    codes = [
        (await thief.set_status(POD_CLIQUE_SET, stored, status)).status_code for status in statuses
    ]
    await thief.remove(POD_CLIQUE_SET, stored["metadata"]["name"])
    assert codes == [403, 200]
