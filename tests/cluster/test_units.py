"""Who owns the units of Pods, as the API server says, and what stands against a claim of ours."""

from typing import Any

import pytest

from app.cluster.units import MOST_CLAIMS, UnitOwners, not_owned
from app.cluster.view import Known, NotGiven
from app.facts.grove.unit_member import read_carrier_of_pod
from app.facts.kinds import COMPUTE_DOMAIN, JOB_SET, LEADER_WORKER_SET
from app.kube.api import Object
from app.rules.mnnvl.claim import CliqueFacts, inject
from app.rules.mnnvl.plan import Plan, desired_resource
from tests import pods
from tests.kube.memory.client import MemoryClient
from tests.pods import UNITS, pod

KNOWN = [name for name, unit in UNITS.items() if unit]
OWNERS = {
    "lws": "leaderworkerset-a",
    "disagg": "disaggregatedset-d",
    "jobset": "jobset-train",
    "training-bert": "pytorchjob-bert",
    "training-nccl": "mpijob-nccl",
    "ray": "raycluster-serve",
    "job-": "job-nccl-test",
    "group": "podgroup-prefill-0",
    "workload": "workload-w",
}
"""The uid of the owner of a unit, by the beginning of its name."""


def plan_of(obj: Object) -> Plan:
    plan = inject(read_carrier_of_pod(obj, "ns"), None, CliqueFacts(), "template").plan
    assert plan is not None
    return plan


def owners(*more: Object, without: str = "") -> UnitOwners:
    kept = [obj for obj in pods.owners() if obj["metadata"]["uid"] != without]
    return UnitOwners(MemoryClient([*kept, *more]))


@pytest.mark.parametrize("name", KNOWN)
async def test_the_owner_of_a_unit_is_found_on_the_way_up(name: str) -> None:
    owned, _ = await owners().owned(plan_of(pod(name)))
    assert owned is not None
    (expected,) = {uid for start, uid in OWNERS.items() if UNITS[name].startswith(start)}
    assert owned.owner_uid == expected
    assert owned.owner.kind.lower() == expected.split("-")[0]


@pytest.mark.parametrize("name", KNOWN)
async def test_without_its_owner_a_unit_belongs_to_nobody(name: str) -> None:
    (uid,) = {uid for start, uid in OWNERS.items() if UNITS[name].startswith(start)}
    owned, _ = await owners(without=uid).owned(plan_of(pod(name)))
    assert owned is None


async def test_documents_that_lack_an_owner_give_no_verdict_on_its_pods() -> None:
    kept = [obj for obj in pods.owners() if obj["kind"] != "LeaderWorkerSet"]
    for known in (Known(is_whole=False), Known()):
        units = UnitOwners(MemoryClient(kept), known)
        ask = units.owned(plan_of(pod("lws-worker")))
        if known.is_whole:
            assert (await ask)[0] is None
        else:
            with pytest.raises(NotGiven, match='add LeaderWorkerSet "a" to the documents'):
                await ask


async def test_documents_need_no_controller_that_owns_no_units() -> None:
    named = pod("lws-worker")
    owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "t"}
    named["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    units = UnitOwners(MemoryClient([]), Known(is_whole=False))
    assert await units.owned(plan_of(named)) == (None, [])


async def test_documents_that_lack_a_group_give_no_verdict_on_its_pods() -> None:
    units = UnitOwners(MemoryClient([]), Known(is_whole=False))
    (name,) = (name for name, unit in UNITS.items() if unit.startswith("group-"))
    with pytest.raises(NotGiven, match='add PodGroup "prefill-0" to the documents'):
        await units.owned(plan_of(pod(name)))


async def test_a_pod_that_only_names_an_owner_is_not_owned_by_it() -> None:
    named = pod("lws-worker")
    named["metadata"]["ownerReferences"] = []
    plan = plan_of(named)
    assert await owners().owned(plan) == (None, [])
    assert str(not_owned(plan)).startswith(
        "metadata.labels[leaderworkerset.sigs.k8s.io/name]: Invalid value:"
    )


async def test_the_controllers_on_the_way_up_come_with_the_owner() -> None:
    owned, chain = await owners().owned(plan_of(pod("lws-worker")))
    assert owned is not None
    assert owned.owner_reference["apiVersion"] == "leaderworkerset.x-k8s.io/v1"
    assert [obj["kind"] for obj in chain] == [
        "StatefulSet",
        "Pod",
        "StatefulSet",
        "LeaderWorkerSet",
    ]


def claim(classes: str = "compute-domain-default-channel.nvidia.com", **more: Any) -> Object:
    request = {"name": "r", "exactly": {"deviceClassName": classes}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "theirs", "namespace": "ns"},
        "spec": {"devices": {"requests": [request]}},
        **more,
    }


def template() -> Object:
    spec = claim()["spec"]
    return {**claim(), "kind": "ResourceClaimTemplate", "spec": {"spec": spec}}


def entry(**fields: str) -> Object:
    return {"name": "theirs", **fields}


@pytest.mark.parametrize(
    ("entries", "stored", "position"),
    [
        pytest.param([entry(resourceClaimName="theirs")], [claim()], 0, id="a claim"),
        pytest.param([entry(resourceClaimTemplateName="theirs")], [template()], 0, id="a template"),
        pytest.param(
            [entry(resourceClaimName="none"), entry(resourceClaimName="theirs")],
            [claim()],
            1,
            id="the second one",
        ),
        pytest.param(
            [entry(resourceClaimName="theirs")], [claim("gpu.nvidia.com")], None, id="GPUs"
        ),
        pytest.param([entry(resourceClaimName="Not a name")], [claim()], None, id="no name"),
        pytest.param([entry(resourceClaimName="theirs")], [], None, id="it does not exist"),
        pytest.param(
            [entry(resourceClaimName="none")] * MOST_CLAIMS + [entry(resourceClaimName="theirs")],
            [claim()],
            None,
            id="after the most that are looked at",
        ),
        pytest.param(
            [{"name": "mnnvl", "resourceClaimName": "theirs"}], [claim()], None, id="our entry"
        ),
    ],
)
async def test_another_claim_for_the_channel_is_a_rival(
    entries: list[Object], stored: list[Object], position: int | None
) -> None:
    obj = pod("lws-worker")
    obj["spec"]["resourceClaims"] = entries
    rival = await owners(*stored).find_rival(read_carrier_of_pod(obj, "ns"))
    field = None if rival is None else rival.field
    assert field == (None if position is None else f"spec.resourceClaims[{position}]")


def set_of(**claims: str) -> Object:
    """A PodCliqueSet whose cliques have these claims of their own."""
    cliques = [
        {"name": name, "spec": {"podSpec": {"resourceClaims": [entry(resourceClaimName=of)]}}}
        for name, of in claims.items()
    ]
    return {"spec": {"template": {"cliques": cliques}}}


@pytest.mark.parametrize(
    ("pcs", "names", "positions"),
    [
        pytest.param(set_of(a="theirs"), ["a"], [0], id="the only clique"),
        pytest.param(set_of(a="none", b="theirs"), ["a", "b"], [1], id="the second clique"),
        pytest.param(set_of(a="theirs", b="theirs"), ["b"], [1], id="one that asks for MNNVL"),
        pytest.param(set_of(a="theirs", b="theirs"), ["a", "b"], [0, 1], id="both"),
        pytest.param(set_of(a="theirs"), [], [], id="none asks for MNNVL"),
        pytest.param({"spec": {}}, ["a"], [], id="no cliques"),
    ],
)
async def test_claims_for_the_channel_in_cliques_that_ask_for_mnnvl(
    pcs: Object, names: list[str], positions: list[int]
) -> None:
    found = await owners(claim()).find_rival_of_set(pcs, "ns", names)
    cliques = "spec.template.cliques"
    assert [each.field for each in found] == [
        f"{cliques}[{at}].spec.podSpec.resourceClaims[0]" for at in positions
    ]


def domain(name: str, uid: str, **metadata: Any) -> Object:
    plan = plan_of(pod(name))
    resource = JOB_SET if name.startswith("jobset") else LEADER_WORKER_SET
    made = desired_resource(plan.owned_by(uid, resource), COMPUTE_DOMAIN, "v1beta1")
    return {**made, "metadata": {**made["metadata"], **metadata}}


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param(domain("lws-worker", "leaderworkerset-a"), True, id="as it was made"),
        pytest.param(domain("lws-worker", "former"), False, id="the owner was made again"),
        pytest.param(
            domain("lws-worker", "leaderworkerset-a", ownerReferences=[]), False, id="no owner"
        ),
        pytest.param(
            domain(
                "lws-worker",
                "leaderworkerset-a",
                labels={"leaderworkerset.sigs.k8s.io/group-index": "3"},
            ),
            False,
            id="a group beyond its replicas",
        ),
    ],
)
async def test_a_unit_is_one_that_the_spec_of_its_owner_has(stored: Object, expected: bool) -> None:
    for reference in stored["metadata"]["ownerReferences"]:
        reference["controller"] = True
    assert await owners().has_unit(stored) is expected


async def test_the_podgroup_that_a_pod_names_is_read() -> None:
    obj = pod("lws-worker")
    obj["metadata"]["annotations"]["pod-group-name"] = "pg"
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "pg", "namespace": "ns"},
        "spec": {"minMember": 2},
    }
    units = owners(group)
    found = await units.own_group(obj, "ns")
    missing = await units.own_group(obj, "other")
    assert found is not None
    assert missing is not None
    assert (found.name, missing.name) == ("pg", "pg")
    assert found != missing
    del obj["metadata"]["annotations"]["pod-group-name"]
    assert await units.own_group(obj, "ns") is None
