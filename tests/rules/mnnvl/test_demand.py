"""What stored PodCliques ask for, and what may be taken away.

Tests `app/rules/mnnvl/claim_holders.py`.
"""

from typing import Any

import pytest
from jsonpatch import apply_patch

from app.facts.grove.podcliqueset import (
    NO_ANNOTATIONS,
    MnnvlAnnotations,
    PodCliqueSet,
    ScalingGroup,
)
from app.facts.grove.unit_member import Carrier, read_carrier
from app.facts.kinds import COMPUTE_DOMAIN, RESOURCE_CLAIM
from app.facts.nvidia.computedomain import (
    base_of,
    claim_names,
    claims_used_by,
    is_made_by_us,
    is_reserved,
)
from app.rules.mnnvl.claim import inherited_by
from app.rules.mnnvl.claim_holders import ClaimedMember, claimed, plan_for
from tests import builders
from tests.builders import injection_into

GROUPED = builders.labels("train", 0, "train-0-pool-1", "pool", 2, grove=True)


def clique(
    name: str = "train-0-worker", labels: Any = None, scope: str = "replica", **metadata: Any
) -> dict[str, Any]:
    obj = builders.pod_clique(name, labels or builders.labels("train", 0, "train-0"), scope=scope)
    return {**obj, "metadata": {**obj["metadata"], "namespace": "ns", **metadata}}


def stored(obj: dict[str, Any], mode: Any = "shared") -> dict[str, Any]:
    """`obj` after admission, without its annotations."""
    injection = injection_into(obj, "ns", mode)
    assert injection.plan is not None
    patched = apply_patch(obj, list(injection.patch))
    return {
        **patched,
        "metadata": {
            key: value for key, value in patched["metadata"].items() if key != "annotations"
        },
    }


def demand(obj: dict[str, Any], mode: Any = "shared") -> ClaimedMember:
    read = claimed(carrier(stored(obj, mode)))
    assert read is not None
    return read


def carrier(obj: dict[str, Any]) -> Carrier:
    return read_carrier(obj, "ns")


def pcs(uid: str = "u", deleting: bool = False, **fields: Any) -> PodCliqueSet:
    return PodCliqueSet(
        "ns",
        "train",
        uid,
        1,
        deleting,
        groups=(ScalingGroup("pool", (), mnnvl=ABOVE),),
        **fields,
    )


ABOVE = MnnvlAnnotations("true", "scalingGroupReplica")


@pytest.mark.parametrize("mode", ["shared", "template"])
@pytest.mark.parametrize(
    ("obj", "scope", "base"),
    [
        pytest.param(clique(), "replica", "train-0", id="replica scope"),
        pytest.param(clique(scope="clique"), "clique", "train-0-worker", id="clique scope"),
        pytest.param(
            clique("train-0-pool-2-leader", GROUPED, "scalingGroupReplica"),
            "scalingGroupReplica",
            "train-0-pool-2",
            id="scaling group scope",
        ),
    ],
)
def test_the_claim_says_what_is_asked_for_and_the_plan_is_that_of_admission(
    obj: dict[str, Any], scope: str, base: str, mode: Any
) -> None:
    read = demand(obj, mode)
    assert (read.scope, read.base_name, read.mode, read.deleting) == (scope, base, mode, False)
    admitted = injection_into(obj, "ns", mode).plan
    assert admitted is not None
    planned = plan_for([read], pcs())
    assert planned is not None
    assert (planned.base_name, planned.labels) == (admitted.base_name, admitted.labels)
    assert (planned.owner_name, planned.owner_uid) == ("train", "u")
    assert planned.device_class == "compute-domain.nvidia.com"
    new, old = carrier(obj), carrier(stored(obj, mode))
    assert inherited_by(new, old, None) == MnnvlAnnotations("true", scope, None)


@pytest.mark.parametrize(
    ("device_class", "inherited"),
    [
        pytest.param("gpu.example.com", "gpu.example.com", id="a name"),
        pytest.param("Not a name", None, id="no name"),
    ],
)
def test_without_its_set_a_clique_inherits_what_the_stored_one_had(
    device_class: str, inherited: str | None
) -> None:
    obj = clique()
    before = stored(obj)
    annotations = {"grove.io/mnnvl-device-class": device_class}
    before = {**before, "metadata": {**before["metadata"], "annotations": annotations}}

    assert inherited_by(carrier(obj), carrier(before), None) == MnnvlAnnotations(
        "true", "replica", inherited
    )

    other = {**clique(), "metadata": {**before["metadata"], "labels": {}}}
    assert inherited_by(carrier(obj), carrier(other), None) == NO_ANNOTATIONS


OTHERS = {"name": "mnnvl", "resourceClaimName": "somebody-s"}


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param({}, id="nothing at all"),
        pytest.param(clique(), id="no claim"),
        pytest.param(
            {**clique(), "spec": {"podSpec": {"resourceClaims": [OTHERS]}}},
            id="a claim of somebody else",
        ),
        pytest.param({**stored(clique()), "metadata": {"name": "train-0-worker"}}, id="no labels"),
        pytest.param(
            {**clique(), "spec": {"podSpec": {"resourceClaims": ["mnnvl"]}}}, id="nonsense"
        ),
    ],
)
def test_no_demand(obj: dict[str, Any]) -> None:
    assert claimed(carrier(obj)) is None


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def owned(name: str, uid: str, **metadata: Any) -> ClaimedMember:
    reference = {"kind": "PodCliqueSet", "name": "train", "uid": uid}
    obj = stored(clique(name))
    metadata = {**obj["metadata"], "ownerReferences": [reference], **metadata}
    read = claimed(carrier({**obj, "metadata": metadata}))
    assert read is not None
    return read


@pytest.mark.parametrize(
    ("known", "names"),
    [
        pytest.param(
            pcs(), ["train-0-d", "train-0-a"], id="those that stay, of the set as it is now"
        ),
        pytest.param(pcs("new"), ["train-0-d", "train-0-c"], id="the set was recreated"),
        pytest.param(pcs(deleting=True), [], id="the set is being deleted"),
    ],
)
def test_whose_resources_are_made_again(known: PodCliqueSet, names: list[str]) -> None:
    demands = [
        owned("train-0-d", ""),
        owned("train-0-c", "new"),
        owned("train-0-b", "u", **DELETED),
        owned("train-0-a", "u"),
    ]
    assert [read.name for read in demands if read.is_of(known)] == names
    planned = plan_for(demands, known)
    assert (planned.member.name if planned else None) == min(names, default=None)


@pytest.mark.parametrize(
    ("modes", "mode"),
    [(["template", "shared"], "shared"), (["template", "template"], "template")],
)
def test_the_claim_is_made_again_if_one_demand_shares_it(modes: list[Any], mode: str) -> None:
    demands = [
        demand(clique(f"train-0-{name}"), each) for name, each in zip("ab", modes, strict=True)
    ]
    planned = plan_for(demands, pcs())
    assert planned is not None
    assert planned.mode == mode


@pytest.mark.parametrize(
    ("own", "inherited", "device_class"),
    [
        pytest.param("mine", "theirs", "mine", id="its own"),
        pytest.param(None, "theirs", "theirs", id="that of its set"),
        pytest.param(None, "no name", "compute-domain.nvidia.com", id="no valid one"),
        pytest.param("no name", None, "compute-domain.nvidia.com", id="no valid one of its own"),
    ],
)
def test_the_device_class_of_what_is_made_again(
    own: Any, inherited: Any, device_class: str
) -> None:
    obj = stored(clique())
    annotations = {"grove.io/mnnvl-device-class": own} if own else {}
    first = demand(clique())
    read = claimed(carrier({**obj, "metadata": {**obj["metadata"], "annotations": annotations}}))
    assert read is not None
    known = pcs(mnnvl=MnnvlAnnotations(device_class=inherited))
    planned = plan_for([first, read], known)
    assert planned is not None
    assert planned.device_class == device_class


@pytest.mark.statement("2.15", "2.97")
def test_a_scaling_group_comes_before_its_set() -> None:
    known = pcs(mnnvl=MnnvlAnnotations("false", "clique", "c"))
    place = demand(clique()).place
    grouped = demand(clique("train-0-pool-2-leader", GROUPED)).place
    assert known.mnnvl_at(place) == MnnvlAnnotations("false", "clique", "c")
    assert known.mnnvl_at(grouped) == MnnvlAnnotations("true", "scalingGroupReplica", "c")


@pytest.mark.parametrize(
    ("kind", "name", "base"),
    [
        ("ComputeDomain", "train-0-cd", "train-0"),
        ("ComputeDomain", "train-0-mnnvl-claim", ""),
        ("ResourceClaim", "train-0-mnnvl-claim", "train-0"),
        ("ResourceClaim", "train-0-cd", ""),
    ],
)
def test_the_base_name_of_a_resource(kind: str, name: str, base: str) -> None:
    assert base_of(kind, name) == base


LABELS = {
    **builders.labels("train", 0, "train-0"),
    "grove.io/mnnvl-managed": "true",
    "app.kubernetes.io/managed-by": "grove-admission",
}


def domain(name: str = "train-0-cd", labels: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "ComputeDomain",
        "metadata": {"name": name, "labels": LABELS if labels is None else labels, **metadata},
    }


@pytest.mark.parametrize(
    ("obj", "ours"),
    [
        pytest.param(domain(), True, id="a replica's"),
        pytest.param(domain("train-0-worker-cd"), True, id="a clique's"),
        pytest.param(domain("train-01-cd"), False, id="another name"),
        pytest.param(domain("train-0-mnnvl-claim"), False, id="another kind's name"),
        pytest.param(domain(labels={}), False, id="no labels"),
        pytest.param(
            domain(labels={**LABELS, "grove.io/mnnvl-managed": "false"}), False, id="not managed"
        ),
        pytest.param(
            domain(labels={**LABELS, "app.kubernetes.io/managed-by": "x"}),
            False,
            id="managed by another",
        ),
        pytest.param(
            domain(labels={key: value for key, value in LABELS.items() if "pcs" not in key}),
            False,
            id="no place",
        ),
        pytest.param(domain(ownerReferences=[{"kind": "PodGang"}]), True, id="of a PodGang"),
        pytest.param(domain(ownerReferences=[{"kind": "Pod"}]), False, id="made for one pod"),
    ],
)
def test_what_is_made_by_us(obj: dict[str, Any], ours: bool) -> None:
    assert is_made_by_us(obj) is ours


def pod(phase: str = "Running", **claim: str) -> dict[str, Any]:
    return {"spec": {"resourceClaims": [{"name": "x", **claim}]}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("user", "used"),
    [
        pytest.param(pod(resourceClaimName="train-0-mnnvl-claim"), True, id="the claim"),
        pytest.param(
            pod("Pending", resourceClaimTemplateName="train-0-mnnvl-template"),
            True,
            id="the template",
        ),
        pytest.param(
            pod("Succeeded", resourceClaimName="train-0-mnnvl-claim"),
            False,
            id="a pod that has succeeded",
        ),
        pytest.param(
            pod("Failed", resourceClaimName="train-0-mnnvl-claim"),
            False,
            id="a pod that has failed",
        ),
        pytest.param(pod(resourceClaimName="train-1-mnnvl-claim"), False, id="another claim"),
        pytest.param({}, False, id="no claims"),
    ],
)
def test_which_pods_use_a_claim(user: dict[str, Any], used: bool) -> None:
    names = claim_names([COMPUTE_DOMAIN, RESOURCE_CLAIM], "train-0")
    assert bool(claims_used_by(user) & names) is used


def test_a_claim_is_not_used_through_the_template_of_its_compute_domain() -> None:
    user = pod(resourceClaimTemplateName="train-0-mnnvl-template")
    assert not claims_used_by(user) & claim_names([RESOURCE_CLAIM], "train-0")


def test_a_claim_is_reserved_by_pods() -> None:
    assert is_reserved({"status": {"reservedFor": [{"name": "pod"}]}})
    assert not is_reserved({"status": {"reservedFor": []}})
    assert not is_reserved({})
