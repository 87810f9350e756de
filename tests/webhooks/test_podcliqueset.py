"""New PodCliqueSets whose cliques have claims of their own, which the API server is asked about."""

import asyncio
import copy
import json
from typing import Any

import pytest

from app.admission.review import parse
from app.admission.verdict import Later, Verdict
from app.cluster.filled import cluster_of
from app.config.schema import Configuration
from app.facts.kinds import RESOURCE_CLAIM
from app.kube.api import Object, Unavailable
from app.webhooks.podcliqueset import PodCliqueSetWebhook
from tests.kube import virtual
from tests.reviews import Caller, cluster, load

THEIRS: Object = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "theirs", "namespace": "default"},
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "channel",
                    "exactly": {"deviceClassName": "compute-domain-default-channel.nvidia.com"},
                }
            ]
        }
    },
}
FIELD = "spec.template.cliques[0].spec.podSpec.resourceClaims[0]"


def review(old: bool = False) -> dict[str, Any]:
    """A set that asks for MNNVL, and whose first clique has a claim; or a change of it."""
    made = load("podcliqueset.mnnvl-replica-scope")
    request = made["request"]
    clique = request["object"]["spec"]["template"]["cliques"][0]
    entry = {"name": "theirs", "resourceClaimName": "theirs"}
    clique["spec"]["podSpec"]["resourceClaims"] = [entry]
    if old:
        request |= {"operation": "UPDATE", "oldObject": request["object"]}
    return made


async def test_a_new_set_whose_pods_would_ask_for_two_channels_is_refused() -> None:
    response = await Caller(cluster(THEIRS)).ask("/validate/podcliqueset", review())
    assert response["status"]["message"].startswith(
        f"{FIELD}: Forbidden: this claim also requests the only NVLink"
    )


async def test_a_stored_set_can_be_changed_although_its_pods_ask_for_two_channels() -> None:
    caller = Caller(cluster(THEIRS))
    assert (await caller.ask("/validate/podcliqueset", review(old=True)))["allowed"]
    assert caller.cluster.client.calls == []


@pytest.mark.parametrize("has_claim", [True, False])
def test_only_a_set_with_claims_of_its_own_lets_a_review_wait(has_claim: bool) -> None:
    asked = review()
    if not has_claim:
        clique = asked["request"]["object"]["spec"]["template"]["cliques"][0]
        del clique["spec"]["podSpec"]["resourceClaims"]
    caller = Caller(cluster(THEIRS))
    handler = caller.app.exchange.routes["/validate/podcliqueset"].handler
    assert isinstance(handler(parse(json.dumps(asked).encode())), Later) is has_claim


async def test_a_claim_for_something_else_is_allowed() -> None:
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.x"}}]}}
    caller = Caller(cluster({**THEIRS, "spec": spec}))
    assert (await caller.ask("/validate/podcliqueset", review()))["allowed"]


async def test_a_set_is_not_refused_because_its_claims_cannot_be_read() -> None:
    caller = Caller(cluster(THEIRS))
    caller.cluster.client.fail_next("get", RESOURCE_CLAIM, Unavailable("down", code=503))
    assert (await caller.ask("/validate/podcliqueset", review()))["allowed"]


def test_a_set_does_not_wait_for_an_api_server_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(*arguments: Any, **options: Any) -> Any:
        await asyncio.Event().wait()

    async def ask() -> None:
        caller = Caller(cluster(THEIRS))
        monkeypatch.setattr(caller.cluster.client, "get", never)
        assert (await caller.ask("/validate/podcliqueset", review()))["allowed"]
        assert virtual.now() < 5.0

    virtual.run(ask())


@pytest.mark.parametrize(
    "is_whole", [True, False], ids=["a cluster of the designs", "documents of an unknown release"]
)
def test_a_group_of_grove_is_judged_unless_grove_is_known_not_to_read_it(is_whole: bool) -> None:
    asked = load("podcliqueset.mnnvl-replica-scope")
    metadata = asked["request"]["object"]["metadata"]
    metadata["annotations"] = {"grove.io/mnnvl-group": "No Name"}
    facts = cluster_of(Configuration(), [], is_whole=is_whole).facts
    verdict = PodCliqueSetWebhook(facts)(parse(json.dumps(asked).encode()))
    assert isinstance(verdict, Verdict)
    assert verdict.allowed is is_whole


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_a_minimum_that_was_stored_is_only_warned_of(operation: str) -> None:
    """Grove's own webhook rejects it, and a stored set must stay scalable."""
    made = load("podcliqueset.no-topology")
    request = made["request"]
    for clique in request["object"]["spec"]["template"]["cliques"]:
        clique["spec"] |= {"replicas": 1, "minAvailable": 3}
    if operation == "UPDATE":
        request |= {"operation": operation, "oldObject": copy.deepcopy(request["object"])}
    response = await Caller().ask("/validate/podcliqueset", made)
    # Grove does not allow a change of minAvailable in a stored set
    remedy = "Raise replicas" if operation == "UPDATE" else "Lower minAvailable or raise replicas"
    told = [
        f"spec.template.cliques[{number}].spec.minAvailable: Invalid value: 3: must not be greater"
        f" than replicas (1), because fewer than minAvailable replicas are never scheduled. {remedy}"
        for number in (0, 1)
    ]
    assert response["allowed"] is (operation == "UPDATE")
    if operation == "UPDATE":
        assert response["warnings"] == told
    else:
        assert all(text in response["status"]["message"] for text in told)
