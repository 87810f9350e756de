"""The units of Pods that are in no PodClique: names, labels, claims, and what is wrong with them.

Tests `app/rules/mnnvl/unit.py`.
"""

from typing import Any

import pytest
from jsonpatch import apply_patch

from app.facts.grove.unit_member import read_carrier_of_pod
from app.facts.kinds import COMPUTE_DOMAIN, LEADER_WORKER_SET
from app.facts.nvidia.computedomain import is_made_by_us, read_mnnvl_resource
from app.objects.owners import OwnerRef
from app.objects.resource import Resource
from app.rules.mnnvl.claim import CliqueFacts, Injection, inject
from app.rules.mnnvl.claim_holders import claimed
from app.rules.mnnvl.plan import Plan, desired_resource
from tests.pods import UNITS, pod
from tests.said import Said


def injected(obj: dict[str, Any]) -> Injection:
    return inject(read_carrier_of_pod(obj, "ns"), None, CliqueFacts(), "template")


def planned(obj: dict[str, Any]) -> Plan:
    plan = injected(obj).plan
    assert plan is not None
    return plan


def findings(obj: dict[str, Any]) -> list[str]:
    return [f"{finding.field}: {finding.message}" for finding in injected(obj).findings]


KNOWN = [name for name, unit in UNITS.items() if unit]


@pytest.mark.parametrize("name", KNOWN)
def test_each_recorded_pod_gets_the_claim_of_its_unit(name: str) -> None:
    obj = pod(name)
    patched = apply_patch(obj, list(injected(obj).patch))
    entry = {"name": "mnnvl", "resourceClaimTemplateName": f"{UNITS[name]}-mnnvl-template"}
    assert patched["spec"]["resourceClaims"] == [entry]
    assert patched["spec"]["containers"][0]["resources"]["claims"] == [{"name": "mnnvl"}]
    assert injected(patched).patch == []
    stored = claimed(read_carrier_of_pod(patched, "ns"))
    assert stored is not None
    assert stored.base_name == UNITS[name]


def test_no_two_units_have_the_same_name() -> None:
    units = [UNITS[name] for name in KNOWN if name not in ("lws-labelled-leader",)]
    assert len(set(units)) == len(units)


def test_the_compute_domain_says_who_owns_it() -> None:
    plan = planned(pod("lws-worker")).owned_by("u")
    owner = Resource(
        "leaderworkerset.x-k8s.io", "leaderworkersets", "LeaderWorkerSet", True, ("v2",)
    )
    domain = desired_resource(plan.owned_by("u", owner), COMPUTE_DOMAIN, "v1beta1")
    assert domain["metadata"] == {
        "name": "lws-a-2-cd",
        "namespace": "ns",
        "labels": {
            "leaderworkerset.sigs.k8s.io/name": "a",
            "leaderworkerset.sigs.k8s.io/group-index": "2",
            "grove.io/mnnvl-unit": "lws-a-2",
            "grove.io/mnnvl-managed": "true",
            "app.kubernetes.io/managed-by": "grove-admission",
        },
        "ownerReferences": [
            {
                "apiVersion": "leaderworkerset.x-k8s.io/v2",
                "kind": "LeaderWorkerSet",
                "name": "a",
                "uid": "u",
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    }
    assert is_made_by_us(domain)
    assert plan.owned_by("v", LEADER_WORKER_SET).owned_by("w").member.owner is LEADER_WORKER_SET
    stored = read_mnnvl_resource(domain)
    assert plan.is_at(stored.place, stored.owners)
    assert plan.is_at(stored.place)
    assert not plan.is_at(stored.place, [OwnerRef("LeaderWorkerSet", "a-2", "other")])
    assert not planned(pod("jobset")).is_at(stored.place)


def test_a_long_name_ends_with_a_hash() -> None:
    names = [f"{'a' * 55}{end}" for end in ("bcdef", "bcdeg")]
    plans = [planned(pod("job", {"batch.kubernetes.io/job-name": name})) for name in names]
    first, second = (plan.compute_domain for plan in plans)
    assert len(first) == len(second) == 63
    assert first[:50] == second[:50]
    assert first != second


REPLICA = 'metadata.annotations[grove.io/mnnvl-scope]: Unsupported value: "replica"'


@pytest.mark.parametrize(
    ("obj", "problem"),
    [
        pytest.param(
            pod("lws-leader"),
            "metadata.labels[leaderworkerset.sigs.k8s.io/group-index]: Required value",
            id="a leader before its webhook",
        ),
        pytest.param(
            pod("lws-worker", scope="subgroup"),
            "metadata.labels[leaderworkerset.sigs.k8s.io/subgroup-index]: Required value",
            id="a scope that needs another label",
        ),
        pytest.param(pod("lws-worker", scope="replica"), REPLICA, id="a scope of another kind"),
        pytest.param(
            pod("disagg-slice", scope="replica"), REPLICA, id="the scopes of two kinds are named"
        ),
        pytest.param(
            pod("job", {"batch.kubernetes.io/job-name": None}),
            "metadata.labels: Required value: the Pod names no workload",
            id="no owner",
        ),
        pytest.param(
            pod("job", {"batch.kubernetes.io/job-name": None}, scope="group"),
            "metadata.labels: Required value: the Pod names no workload",
            id="a scope without an owner",
        ),
        pytest.param(
            pod("lws-worker", {"ray.io/cluster": "b"}),
            "metadata.labels[leaderworkerset.sigs.k8s.io/name]: Forbidden: the Pod has labels of",
            id="two owners",
        ),
        pytest.param(
            pod("job", {"batch.kubernetes.io/job-name": "A_b"}),
            'metadata.labels[batch.kubernetes.io/job-name]: Invalid value: "A_b": the name of its',
            id="a name that no object has",
        ),
    ],
)
def test_what_is_wrong_with_a_pod(obj: dict[str, Any], problem: str, said: Said) -> None:
    (finding,) = findings(obj)
    assert finding.startswith(problem)
    said([finding])


def test_a_different_claim_with_the_name_of_ours(said: Said) -> None:
    obj = pod("job")
    obj["spec"]["resourceClaims"] = [{"name": "mnnvl", "resourceClaimTemplateName": "mine"}]
    (finding,) = findings(obj)
    assert "another claim already has the name" in finding
    said([finding])


def test_a_pod_without_gpus_gets_a_warning(said: Said) -> None:
    obj = pod("job")
    obj["spec"]["containers"][0]["resources"] = {}
    (warning,) = injected(obj).warnings
    assert warning.startswith('Pod "job" has the annotation grove.io/mnnvl-enabled: "true", but no')
    said([warning])
    del obj["metadata"]["name"]
    (warning,) = injected(obj).warnings
    assert warning.startswith("the Pod has the annotation")
