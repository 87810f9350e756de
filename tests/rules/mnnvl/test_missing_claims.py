"""Which stored PodCliques ask for MNNVL and have no claim, and which pods run without it.

Tests `app/rules/mnnvl/lost_claims.py` and `app/facts/grove/unit_member.py`.
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
from app.facts.grove.unit_member import Unclaimed
from app.rules.mnnvl.claim_holders import ClaimedMember
from app.rules.mnnvl.lost_claims import asks_for_claim, held_in_deletion, reserving_pods
from app.rules.mnnvl.missing_claims import (
    clique_of_pod,
    lacks_claim,
    read_clique,
    runs_without_claim,
)
from tests import builders
from tests.builders import injection_into

Object = dict[str, Any]

LABELS = builders.labels("train", 0, "train-0", grove=True)
GROUPED = builders.labels("train", 0, "train-0", "pool", 1, grove=True)
ENABLED = {"grove.io/mnnvl-enabled": "true"}
ABOVE = MnnvlAnnotations("true")


def clique(
    name: str = "train-0-worker", labels: Any = None, annotations: Any = ENABLED, **metadata: Any
) -> Object:
    obj = builders.pod_clique(name, labels or LABELS)
    metadata = {"annotations": annotations, "namespace": "ns", **metadata}
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def with_pod_spec(**pod_spec: Any) -> Object:
    obj = clique()
    return {**obj, "spec": {"podSpec": {**obj["spec"]["podSpec"], **pod_spec}}}


def claims(*entries: Any) -> Object:
    return with_pod_spec(resourceClaims=list(entries))


CPU = {"name": "main", "resources": {"limits": {"cpu": 1}}}
GPU = {"name": "init", "resources": {"requests": {"nvidia.com/mig-1g.10gb": "1"}}}
OURS = {"name": "mnnvl", "resourceClaimName": "train-0-mnnvl-claim"}
GROVES = {"name": "mnnvl-claim", "resourceClaimTemplateName": "train-0-g"}
GROUP = {"grove.io/mnnvl-group": "g"}


@pytest.mark.parametrize(
    ("obj", "lacks"),
    [
        pytest.param(clique(), True, id="its own annotation"),
        pytest.param(clique(labels=builders.labels("train", 0, "g")), True, id="designs' labels"),
        pytest.param(with_pod_spec(initContainers=[GPU], containers=[CPU]), True, id="MIG"),
        pytest.param(claims({"name": "other"}), True, id="another claim"),
        pytest.param(claims("mnnvl"), True, id="nonsense among the claims"),
        pytest.param(clique(annotations={}), False, id="no annotation anywhere"),
        pytest.param(
            clique(annotations={**ENABLED, "grove.io/mnnvl-scope": "no"}), False, id="bad scope"
        ),
        pytest.param(
            clique(annotations={**ENABLED, "grove.io/mnnvl-scope": "scalingGroupReplica"}),
            False,
            id="no label for the scope",
        ),
        pytest.param(clique(labels={"x": "y"}), False, id="no labels"),
        pytest.param(clique("other-0-worker"), False, id="a name of another set"),
        pytest.param(clique(deletionTimestamp="2026-01-01T00:00:00Z"), False, id="being deleted"),
        pytest.param(clique(annotations=ENABLED | GROUP), False, id="in a group of Grove"),
        pytest.param(claims(GROVES), False, id="with Grove's own claim"),
    ],
)
def test_a_podclique_lacks_a_claim_if_the_webhook_would_inject_one(
    obj: Object, lacks: bool
) -> None:
    read = read_clique(obj)
    assert isinstance(read, Unclaimed)
    known = PodCliqueSet("ns", read.place.pcs, "u")
    assert lacks_claim(read, known, reads_groups=True) is lacks


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param({}, id="nothing at all"),
        pytest.param(with_pod_spec(containers=[CPU]), id="no GPUs"),
        pytest.param(clique(annotations={"grove.io/mnnvl-enabled": "false"}), id="refused"),
        pytest.param(claims({"name": "mnnvl", "resourceClaimName": "x"}), id="the name is taken"),
    ],
)
def test_what_can_never_need_a_claim_is_not_kept(obj: Object) -> None:
    assert read_clique(obj) is None


def test_a_podclique_with_a_claim_is_a_demand_and_one_without_is_not() -> None:
    obj = clique()
    admitted = apply_patch(obj, list(injection_into(obj, "ns").patch))
    assert isinstance(read_clique(admitted), ClaimedMember)
    assert isinstance(read_clique(obj), Unclaimed)
    assert isinstance(read_clique(claims(OURS)), ClaimedMember)


def test_a_group_of_grove_counts_only_if_grove_reads_it() -> None:
    read = read_clique(clique(annotations=ENABLED | GROUP))
    assert isinstance(read, Unclaimed)
    assert lacks_claim(read, pcs(), reads_groups=False)


def pcs(uid: str = "u", deleting: bool = False, mnnvl: Any = NO_ANNOTATIONS) -> PodCliqueSet:
    pool = ScalingGroup("pool", (), mnnvl=ABOVE)
    return PodCliqueSet("ns", "train", uid, 1, deleting, groups=(pool,), mnnvl=mnnvl)


def owned(name: str, uid: str, annotations: Any) -> Object:
    reference = {"kind": "PodCliqueSet", "name": "train", "uid": uid}
    return clique(name, annotations=annotations, ownerReferences=[reference])


STORED = [
    owned("train-0-b", "u", ENABLED),
    owned("train-0-a", "u", {}),
    clique("train-0-pool-1-c", GROUPED, {}),
    owned("train-0-former", "old", ENABLED),
]


@pytest.mark.parametrize(
    ("known", "names"),
    [
        pytest.param(pcs(), ["train-0-b", "train-0-pool-1-c"], id="its own, and of its group"),
        pytest.param(
            pcs(mnnvl=ABOVE),
            ["train-0-b", "train-0-a", "train-0-pool-1-c"],
            id="all, by the annotation of the set",
        ),
        pytest.param(pcs(deleting=True, mnnvl=ABOVE), [], id="the set is being deleted"),
        pytest.param(None, [], id="the set is unknown"),
    ],
)
def test_the_podcliques_of_a_set_that_lack_a_claim(
    known: PodCliqueSet | None, names: list[str]
) -> None:
    rows = [row for row in map(read_clique, STORED) if isinstance(row, Unclaimed)]
    lacking = [row.name for row in rows if lacks_claim(row, known, reads_groups=True)]
    assert lacking == names


def pod(phase: str = "Running", deleting: bool = False, **spec: Any) -> Object:
    owners = [{"kind": "Other", "name": "x"}, {"kind": "PodClique", "name": "train-0-worker"}]
    metadata: Object = {"name": "p", "ownerReferences": owners}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "metadata": metadata,
        "spec": {**builders.pod_spec(), **spec},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("obj", "without"),
    [
        pytest.param(pod(), True, id="running"),
        pytest.param(pod("Pending"), True, id="pending"),
        pytest.param(pod(resourceClaims=[OURS]), False, id="with the claim"),
        pytest.param(pod("Succeeded"), False, id="finished"),
        pytest.param(pod(deleting=True), False, id="being deleted"),
        pytest.param(pod(containers=[CPU]), False, id="without GPUs"),
        pytest.param({}, False, id="nothing at all"),
    ],
)
def test_a_pod_runs_without_the_claim(obj: Object, without: bool) -> None:
    assert runs_without_claim(obj) is without


@pytest.mark.parametrize(
    ("labels", "annotations", "deleting", "asks"),
    [
        pytest.param({}, ENABLED, False, True, id="a Pod of a unit"),
        pytest.param({}, {}, False, False, id="without the annotation"),
        pytest.param({}, {"grove.io/mnnvl-enabled": "false"}, False, False, id="opted out"),
        pytest.param({"grove.io/podclique": "c"}, ENABLED, False, False, id="of a PodClique"),
        pytest.param({}, ENABLED, True, False, id="being deleted"),
    ],
)
def test_a_pod_asks_for_a_claim_of_its_unit(
    labels: Object, annotations: Object, deleting: bool, asks: bool
) -> None:
    obj = pod(deleting=deleting)
    obj["metadata"] |= {"labels": labels, "annotations": annotations}
    assert asks_for_claim(obj) is asks


CONSUMERS = [
    {"resource": "pods", "name": "a"},
    {"resource": "pods", "name": "b"},
    {"resource": "others", "name": "c"},
]


def test_pods_reserve_a_claim_that_is_being_deleted() -> None:
    claim: Object = {"metadata": {"name": "c"}, "status": {"reservedFor": CONSUMERS}}
    assert reserving_pods(claim) == set()
    claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert reserving_pods(claim) == {"a", "b"}
    assert held_in_deletion("ml", ["a", "b"]) == (
        "is being deleted, but Pods a, b still use it: no other Pod can get it",
        "Delete these Pods together: kubectl -n ml delete pod a b. The claim is then deleted, the leader creates it again, and the new Pods start.",
    )


def test_a_pod_belongs_to_the_podclique_that_owns_it() -> None:
    assert (clique_of_pod(pod()), clique_of_pod({})) == ("train-0-worker", "")
