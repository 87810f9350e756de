"""What a PodClique needs for MNNVL."""

import copy
from typing import Any

import pytest
from jsonpatch import apply_patch
from msgspec.structs import replace

from app.facts.grove.podcliqueset import (
    NO_ANNOTATIONS,
    Clique,
    MnnvlAnnotations,
    PodCliqueSet,
    ScalingGroup,
)
from app.facts.grove.template import read_template
from app.facts.kinds import COMPUTE_DOMAIN
from app.rules.mnnvl.claim import Injection
from app.rules.mnnvl.plan import Plan, desired_resource
from tests.builders import injection_into
from tests.said import Said

DESIGN = {
    "grove.io/pcs-name": "pcs",
    "grove.io/pcs-replica-index": "0",
    "grove.io/podgang": "pcs-0",
}
GROVE = {
    "app.kubernetes.io/part-of": "pcs",
    "grove.io/podcliqueset-replica-index": "0",
    "grove.io/podcliquescalinggroup": "pcs-0-pool",
    "grove.io/podcliquescalinggroup-replica-index": "2",
    "grove.io/podgang": "pcs-0-pool-1",
}
OWNER = {"kind": "PodCliqueSet", "name": "pcs", "uid": "u"}


def container(name: str = "c", **resources: Any) -> dict[str, Any]:
    return {"name": name, "resources": resources} if resources else {"name": name}


GPU = container("gpu", limits={"nvidia.com/gpu": 8})
CPU = container("cpu", limits={"cpu": 1})


def clique(
    name: str = "pcs-0-worker",
    scope: Any = "replica",
    labels: Any = None,
    containers: Any = None,
    enabled: Any = "true",
    device_class: Any = None,
    **pod_spec: Any,
) -> dict[str, Any]:
    annotations = {"grove.io/mnnvl-enabled": enabled, "grove.io/mnnvl-scope": scope}
    if device_class is not None:
        annotations["grove.io/mnnvl-device-class"] = device_class
    return {
        "metadata": {
            "name": name,
            "labels": copy.deepcopy(DESIGN if labels is None else labels),
            "annotations": {key: value for key, value in annotations.items() if value is not None},
            "ownerReferences": [OWNER],
        },
        "spec": {
            "replicas": 4,
            "podSpec": {"containers": [GPU] if containers is None else containers, **pod_spec},
        },
    }


def planned(obj: dict[str, Any], mode: Any = "shared") -> Plan:
    injection = injection_into(obj, "ns", mode)
    assert injection.findings == []
    assert injection.plan is not None
    return injection.plan


def patched(obj: dict[str, Any], mode: Any = "shared") -> dict[str, Any]:
    patched: dict[str, Any] = apply_patch(obj, list(injection_into(obj, "ns", mode).patch))
    return patched


@pytest.mark.parametrize("enabled", ["false", "True", "1", "", True, None, ["true"]])
@pytest.mark.statement("2.1", "2.5", "2.57", "2.104")
def test_only_exactly_true_enables(enabled: Any) -> None:
    injection = injection_into(clique(enabled=enabled), "ns", "shared")
    assert (injection.plan, injection.findings, injection.warnings) == (None, [], [])


def test_a_clique_on_its_way_out_needs_nothing() -> None:
    obj = clique()
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert injection_into(obj, "ns", "shared").plan is None


@pytest.mark.parametrize(
    ("obj", "base", "labels"),
    [
        pytest.param(clique(), "pcs-0", {}, id="replica scope"),
        pytest.param(clique(scope=None), "pcs-0", {}, id="replica scope is the default"),
        pytest.param(
            clique(scope="clique"),
            "pcs-0-worker",
            {"grove.io/clique-name": "worker"},
            id="clique scope",
        ),
        pytest.param(
            clique("pcs-0-pool-2-worker", "scalingGroupReplica", GROVE),
            "pcs-0-pool-2",
            {
                "grove.io/pcsg-name": "pool",
                "grove.io/pcsg-replica-index": "2",
            },
            id="scaling group scope, in Grove's labels",
        ),
        pytest.param(
            clique("pcs-0-pool-2-worker", "clique", GROVE),
            "pcs-0-pool-2-worker",
            {
                "grove.io/pcsg-name": "pool",
                "grove.io/pcsg-replica-index": "2",
                "grove.io/clique-name": "worker",
            },
            id="clique scope keeps the replicas of a scaling group apart",
        ),
        pytest.param(
            clique("pcs-0-pool-2-worker", "replica", {**GROVE, "grove.io/base-podgang": "pcs-0"}),
            "pcs-0",
            {},
            id="replica scope names no group, also when a scaled clique comes first",
        ),
        pytest.param(
            clique(f"pcs-0-{'w' * 64}", "clique"),
            f"pcs-0-{'w' * 64}",
            {"grove.io/clique-name": None},
            id="a clique name too long for a label is omitted",
        ),
    ],
)
@pytest.mark.statement("2.58", "2.59", "2.60", "2.61", "2.62", "2.76", "2.107")
def test_names_and_labels(obj: dict[str, Any], base: str, labels: dict[str, Any]) -> None:
    plan = planned(obj)
    expected = {
        "grove.io/pcs-name": "pcs",
        "grove.io/pcs-replica-index": "0",
        "grove.io/mnnvl-managed": "true",
        "app.kubernetes.io/managed-by": "grove-admission",
        **labels,
    }
    assert (plan.compute_domain, plan.claim) == (f"{base}-cd", f"{base}-mnnvl-claim")
    assert plan.labels == {key: value for key, value in expected.items() if value is not None}
    assert plan.owner_uid == "u"


@pytest.mark.parametrize(
    ("obj", "findings"),
    [
        pytest.param(
            clique(scope="galaxy", labels={}, device_class="a b"),
            [
                "metadata.annotations[grove.io/mnnvl-scope]",
                "metadata.labels[grove.io/pcs-name]",
                "metadata.labels[grove.io/pcs-replica-index]",
                "metadata.annotations[grove.io/mnnvl-device-class]",
            ],
            id="everything at once",
        ),
        pytest.param(
            clique(scope="scalingGroupReplica"),
            ["metadata.labels[grove.io/pcsg-name]", "metadata.labels[grove.io/pcsg-replica-index]"],
            id="no scaling group",
        ),
        pytest.param(clique("other-0-worker"), ["metadata.name"], id="a name of another set"),
        pytest.param(clique("pcs-1-worker"), ["metadata.name"], id="a name of another replica"),
        pytest.param(clique(""), ["metadata.name"], id="no name"),
        pytest.param(
            clique(f"pcs-0-{'w' * 240}", "clique"),
            ["metadata.name"],
            id="a name too long to build on",
        ),
        pytest.param(
            clique(labels={**DESIGN, "grove.io/pcs-replica-index": "0\n"}),
            ["metadata.labels[grove.io/pcs-replica-index]"],
            id="a trailing newline in an index",
        ),
        pytest.param(
            clique(device_class="class\n"),
            ["metadata.annotations[grove.io/mnnvl-device-class]"],
            id="device class",
        ),
        pytest.param(clique(containers={}), ["spec.podSpec.containers"], id="containers is a map"),
        pytest.param(
            clique(containers=[1]), ["spec.podSpec.containers[0]"], id="a container is a number"
        ),
        pytest.param(
            clique(containers=[{"resources": []}]),
            ["spec.podSpec.containers[0].resources"],
            id="resources a list",
        ),
        pytest.param(
            clique(containers=[container(limits=["nvidia.com/gpu"])]),
            ["spec.podSpec.containers[0].resources.limits"],
            id="limits is a list",
        ),
        pytest.param(
            clique(containers=[{"resources": {"limits": {"nvidia.com/gpu": 1}, "claims": {}}}]),
            ["spec.podSpec.containers[0].resources.claims"],
            id="claims of a container are a map",
        ),
        pytest.param(
            clique(resourceClaims="mnnvl"),
            ["spec.podSpec.resourceClaims"],
            id="resourceClaims is text",
        ),
        pytest.param(
            clique(
                resourceClaims=[{"name": "other"}, {"name": "mnnvl", "resourceClaimName": "mine"}]
            ),
            ["spec.podSpec.resourceClaims[1]"],
            id="another claim called mnnvl",
        ),
    ],
)
@pytest.mark.statement("2.6", "2.79")
def test_refusals(obj: dict[str, Any], findings: list[str], said: Said) -> None:
    injection = injection_into(obj, "ns", "shared")
    assert [finding.field for finding in injection.findings] == findings
    assert injection.plan is None
    said(injection.findings)


def test_the_claim_that_a_user_may_make_to_share_ours_is_shown_as_json() -> None:
    (finding,) = injection_into(clique(resourceClaims=[{"name": "mnnvl"}]), "ns", "shared").findings
    assert (
        'set it to {"name": "mnnvl", "resourceClaimName": "pcs-0-mnnvl-claim"} to share'
        in finding.message
    )


@pytest.mark.parametrize(
    ("candidate", "asks"),
    [
        pytest.param(container(limits={"nvidia.com/gpu": 1}), True, id="a limit"),
        pytest.param(container(requests={"nvidia.com/gpu": "1"}), True, id="a request"),
        pytest.param(container(limits={"nvidia.com/mig-1g.5gb": 1}), True, id="a MIG slice"),
        pytest.param(
            container(limits={"nvidia.com/gpu": "1k"}), True, id="a quantity with a suffix"
        ),
        pytest.param(container(limits={"nvidia.com/gpu": 0}), False, id="zero"),
        pytest.param(
            container(limits={"nvidia.com/gpu": 0, "nvidia.com/mig-1g.5gb": 1}),
            True,
            id="zero, and a MIG slice",
        ),
        pytest.param(
            container(limits={"nvidia.com/gpu": "0"}, requests={"nvidia.com/gpu": "0.0"}),
            False,
            id="zeros",
        ),
        pytest.param(container(limits={"cpu": 8}), False, id="only CPU"),
        pytest.param(container(limits={"amd.com/gpu": 8}), False, id="another vendor"),
        pytest.param(container(limits=None, requests={}), False, id="nulls"),
        pytest.param(container(), False, id="no resources"),
    ],
)
@pytest.mark.statement("2.70", "2.71")
def test_which_containers_ask_for_a_gpu(candidate: dict[str, Any], asks: bool) -> None:
    for listed in ("containers", "initContainers"):
        obj = clique(containers=[CPU])
        obj["spec"]["podSpec"][listed] = [candidate]
        injection = injection_into(obj, "ns", "shared")
        assert (injection.plan is not None) is asks
        assert (injection.warnings != []) is not asks


@pytest.mark.parametrize(
    ("amount", "gpus"),
    [
        (8, 8),
        (" 8 ", 8),
        ("1e1", 10),
        (0, 0),
        ("0.0", 0),
        ("-1", 0),
        ("0.5", 1),
        ("1k", 1000),
        ("0k", 0),
        ("0Mi", 0),
        ("00m", 0),
        ("-1k", 0),
        ("many", 1),
        ("NaN", 1),
        ("1e5000", 2**63 - 1),
        ("Infinity", 2**63 - 1),
    ],
)
@pytest.mark.statement("2.70")
def test_a_clique_asks_for_gpus_if_its_pod_clique_does(amount: Any, gpus: int) -> None:
    obj = clique(containers=[container(limits={"nvidia.com/gpu": amount})])
    template = {"cliques": [{"name": "worker", "spec": obj["spec"]}]}
    assert read_template({"spec": {"template": template}}).cliques[0].gpus == gpus
    assert (injection_into(obj, "ns", "shared").plan is not None) is (gpus > 0)


@pytest.mark.statement("2.72")
def test_no_gpu_is_a_warning_that_says_what_did_not_happen(said: Said) -> None:
    (warning,) = injection_into(clique(containers=[CPU]), "ns", "shared").warnings
    assert '"pcs-0-worker"' in warning
    assert "no claim was injected and no ComputeDomain was created" in warning
    said([warning])


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(
            clique(containers=[CPU], scope="galaxy", device_class="a b"), id="invalid annotations"
        ),
        pytest.param(
            clique(containers=[CPU], scope="scalingGroupReplica"), id="in no scaling group"
        ),
        pytest.param(clique("other-0-worker", containers=[CPU]), id="a name of another set"),
    ],
)
def test_without_gpus_nothing_has_to_be_valid(obj: dict[str, Any]) -> None:
    """The set is allowed too: an annotation that is inherited is made for cliques with GPUs."""
    injection = injection_into(obj, "ns", "shared")
    assert (injection.plan, injection.findings, len(injection.warnings)) == (None, [], 1)


@pytest.mark.statement("2.69")
def test_every_gpu_container_uses_the_claim_and_no_other() -> None:
    after = patched(clique(containers=[GPU, CPU, GPU], initContainers=[CPU, GPU]))["spec"][
        "podSpec"
    ]
    assert after["resourceClaims"] == [{"name": "mnnvl", "resourceClaimName": "pcs-0-mnnvl-claim"}]
    using = {**GPU, "resources": {**GPU["resources"], "claims": [{"name": "mnnvl"}]}}
    assert after["containers"] == [using, CPU, using]
    assert after["initContainers"] == [CPU, using]


def test_other_claims_stay() -> None:
    gpu = container("gpu", limits={"nvidia.com/gpu": 1}, claims=[{"name": "other"}])
    after = patched(clique(containers=[gpu], resourceClaims=[{"name": "other"}]))["spec"]["podSpec"]
    assert [claim["name"] for claim in after["resourceClaims"]] == ["other", "mnnvl"]
    assert after["containers"][0]["resources"]["claims"] == [{"name": "other"}, {"name": "mnnvl"}]


def test_nulls_are_filled() -> None:
    gpu = container("gpu", limits={"nvidia.com/gpu": 1}, claims=None)
    after = patched(clique(containers=[gpu], initContainers=None, resourceClaims=None))["spec"][
        "podSpec"
    ]
    assert after["containers"][0]["resources"]["claims"] == [{"name": "mnnvl"}]
    assert len(after["resourceClaims"]) == 1


@pytest.mark.statement("2.68")
def test_the_other_mode_names_the_template() -> None:
    after = patched(clique(), "template")
    assert after["spec"]["podSpec"]["resourceClaims"] == [
        {"name": "mnnvl", "resourceClaimTemplateName": "pcs-0-mnnvl-template"}
    ]
    domain = desired_resource(planned(clique(), "template"), COMPUTE_DOMAIN, "v1beta1")
    assert domain["spec"]["channel"]["resourceClaimTemplate"]["name"] == "pcs-0-mnnvl-template"


@pytest.mark.parametrize("first", ["shared", "template"])
@pytest.mark.parametrize("then", ["shared", "template"])
def test_a_claim_that_is_there_stays_whatever_the_mode(first: str, then: str) -> None:
    after = patched(clique(), first)
    injection = injection_into(after, "ns", then)  # type: ignore[arg-type]
    assert injection.plan is not None
    assert injection.plan.mode == first
    assert list(injection.patch) == []


@pytest.mark.parametrize("first", ["shared", "template"])
@pytest.mark.parametrize("then", ["shared", "template"])
def test_a_claim_that_was_stored_stays_when_the_spec_is_reset_from_its_template(
    first: str, then: str
) -> None:
    """As Grove's operator does at each reconcile: a changed mode restarts no pods."""
    stored = patched(clique(), first)
    injection = injection_into(clique(), "ns", then, stored)  # type: ignore[arg-type]
    assert apply_patch(clique(), list(injection.patch)) == stored


@pytest.mark.parametrize("mode", ["shared", "template"])
@pytest.mark.statement("2.111")
def test_a_changed_scope_keeps_the_claim_until_the_spec_is_reset(mode: Any) -> None:
    stored = patched(clique(), mode)
    annotated = {**stored, "metadata": clique(scope="clique")["metadata"]}
    kept = injection_into(annotated, "ns", "shared", stored)
    assert kept.plan is not None
    assert (kept.plan.scope, kept.plan.base_name, kept.plan.mode, kept.patch) == (
        "replica",
        "pcs-0",
        mode,
        [],
    )
    reset = injection_into(clique(scope="clique"), "ns", "shared", stored)
    assert reset.plan is not None
    assert (reset.plan.base_name, reset.plan.mode) == ("pcs-0-worker", mode)
    (finding,) = injection_into(annotated, "ns", "shared").findings
    assert finding.field == "spec.podSpec.resourceClaims[0]"


@pytest.mark.parametrize("mode", ["shared", "template"])
@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize(
    ("invalid", "problem"),
    [
        ({"scope": "node"}, "metadata.annotations[grove.io/mnnvl-scope]: Unsupported value"),
        ({"scope": "scalingGroupReplica"}, "metadata.labels[grove.io/pcsg-name]: Required value"),
        (
            {"device_class": "No Class"},
            "metadata.annotations[grove.io/mnnvl-device-class]: Invalid value",
        ),
    ],
)
@pytest.mark.statement("2.111")
def test_annotations_that_became_invalid_keep_the_stored_claim(
    invalid: dict[str, str], problem: str, reset: bool, mode: Any, said: Said
) -> None:
    stored = patched(clique(), mode)
    annotated = clique(**invalid)
    updated = annotated if reset else {**stored, "metadata": annotated["metadata"]}
    kept = injection_into(updated, "ns", "shared", stored)
    assert kept.plan is not None
    assert (kept.findings, kept.plan.base_name, kept.plan.mode) == ([], "pcs-0", mode)
    assert kept.plan.device_class == "compute-domain.nvidia.com"
    assert apply_patch(updated, list(kept.patch))["spec"] == stored["spec"]
    assert kept.warnings[0].startswith(f"the PodClique keeps its stored claim: {problem}")
    assert injection_into(annotated, "ns", "shared").findings != []
    said(kept.warnings)


@pytest.mark.statement("2.9", "2.96", "2.97")
def test_annotations_above_count_unless_the_clique_has_its_own() -> None:
    above = MnnvlAnnotations("true", "clique", "theirs")
    bare = {**clique(), "metadata": {**clique()["metadata"], "annotations": {}}}
    inherited = injection_into(bare, "ns", "shared", None, above).plan
    assert inherited is not None
    assert (inherited.base_name, inherited.device_class) == ("pcs-0-worker", "theirs")
    own = injection_into(clique(device_class="mine"), "ns", "shared", None, above).plan
    assert own is not None
    assert (own.base_name, own.device_class) == ("pcs-0", "mine")
    assert injection_into(clique(enabled="false"), "ns", "shared", None, above) == Injection()
    without_gpus = {**bare, "spec": clique(containers=[CPU])["spec"]}
    assert injection_into(without_gpus, "ns", "shared", None, above) == Injection()


def test_what_was_stored_decides_nothing_where_it_is_not_ours() -> None:
    entry = {"name": "mnnvl", "resourceClaimName": "somebody-s"}
    stored = clique(resourceClaims=[entry])
    injection = injection_into(clique(), "ns", "template", stored)
    assert injection.plan is not None
    assert injection.plan is not None
    assert (injection.plan.mode, injection.findings) == ("template", [])


def test_a_container_added_later_gets_the_claim() -> None:
    after = patched(clique())
    after["spec"]["podSpec"]["containers"].append(GPU)
    assert list(injection_into(after, "ns", "shared").patch) == [
        {
            "op": "add",
            "path": "/spec/podSpec/containers/1/resources/claims",
            "value": [{"name": "mnnvl"}],
        }
    ]


@pytest.mark.parametrize(
    ("references", "uid"),
    [
        pytest.param([OWNER], "u", id="the set"),
        pytest.param([{**OWNER, "name": "other"}], "", id="another set"),
        pytest.param(
            [{"kind": "PodCliqueScalingGroup", "name": "pcs-0-pool", "uid": "g"}],
            "",
            id="a scaling group",
        ),
        pytest.param(None, "", id="nobody"),
        pytest.param(["x"], "", id="nonsense"),
    ],
)
@pytest.mark.statement("2.64", "2.67")
def test_the_owner_is_the_set(references: Any, uid: str) -> None:
    obj = clique()
    obj["metadata"]["ownerReferences"] = references
    assert planned(obj).owner_uid == uid


def pcs(replicas: int, group_replicas: int = 1, **annotations: MnnvlAnnotations) -> PodCliqueSet:
    """A set with a scaling group `pool`.

    `annotations` are those of the set (`mnnvl`) and of the group (`pool`).
    """
    cliques = (
        Clique("worker", replicas, requests=GPUS),
        Clique("leader", 1, requests=GPUS),
        Clique("pooled", replicas, requests=GPUS),
    )
    mnnvl, of_group = (annotations.get(name, NO_ANNOTATIONS) for name in ("mnnvl", "pool"))
    pool = ScalingGroup("pool", ("pooled",), mnnvl=of_group, replicas=group_replicas)
    return PodCliqueSet("ns", "pcs", "u", 1, cliques=cliques, groups=(pool,), mnnvl=mnnvl)


def pcs_with(clique: Clique) -> PodCliqueSet:
    """A set without groups that also has this clique."""
    made = pcs(1)
    return replace(made, groups=(), cliques=(*made.cliques[:1], clique))


GPUS = (("nvidia.com/gpu", 8000),)
ENABLED = MnnvlAnnotations("true")
NARROW = MnnvlAnnotations("true", "scalingGroupReplica")


@pytest.mark.parametrize(
    ("obj", "known", "mode", "pods"),
    [
        pytest.param(clique(), pcs(255), "shared", None, id="256 pods are fine"),
        pytest.param(clique(), pcs(256), "shared", 257, id="257 pods of a replica are too many"),
        pytest.param(
            clique(),
            replace(pcs(256), groups=pcs(256).groups * 2),
            "shared",
            257,
            id="a clique in two groups is omitted once",
        ),
        pytest.param(
            clique(), pcs(256), "template", None, id="templates have a claim for each pod"
        ),
        pytest.param(
            clique(scope="clique"), pcs(999), "shared", None, id="clique scope counts its own"
        ),
        pytest.param(
            clique("pcs-0-pool-2-pooled", "scalingGroupReplica", GROVE),
            pcs(300),
            "shared",
            300,
            id="the group's cliques",
        ),
        pytest.param(
            clique(
                "pcs-0-x-2-pooled",
                "scalingGroupReplica",
                {**GROVE, "grove.io/podcliquescalinggroup": "pcs-0-x"},
            ),
            pcs(300),
            "shared",
            None,
            id="a group that the set doesn't have",
        ),
        pytest.param(
            clique("pcs-0-pool-2-pooled", "replica", GROVE),
            pcs(60, 4),
            "shared",
            301,
            id="all replicas of its group",
        ),
        pytest.param(
            clique(), pcs(60, 4, mnnvl=ENABLED), "shared", 301, id="groups that inherit the scope"
        ),
        pytest.param(
            clique(), pcs(60, 4, pool=ENABLED), "shared", 301, id="groups that are annotated"
        ),
        pytest.param(
            clique(),
            pcs(60, 4, mnnvl=ENABLED, pool=NARROW),
            "shared",
            None,
            id="groups of another scope",
        ),
        pytest.param(clique(), pcs(60, 4), "shared", None, id="groups without MNNVL"),
        pytest.param(
            clique("pcs-0-pool-2-pooled", "scalingGroupReplica", GROVE),
            pcs(100, 4),
            "shared",
            None,
            id="one replica of its group",
        ),
        pytest.param(
            clique(), replace(pcs(150), groups=()), "shared", 301, id="a set without groups"
        ),
        pytest.param(
            clique("pcs-0-pool-2-pooled", "scalingGroupReplica", GROVE),
            replace(pcs(300), groups=()),
            "shared",
            None,
            id="a group of a set without groups",
        ),
        pytest.param(
            clique(), pcs_with(Clique("frontend", 300)), "shared", None, id="a clique without GPUs"
        ),
        pytest.param(
            clique(),
            pcs_with(Clique("other", 300, requests=GPUS, mnnvl=MnnvlAnnotations("false"))),
            "shared",
            None,
            id="a clique that opts out",
        ),
        pytest.param(
            clique(),
            pcs_with(Clique("other", 300, requests=GPUS, mnnvl=MnnvlAnnotations(scope="clique"))),
            "shared",
            None,
            id="a clique of another scope",
        ),
        pytest.param(clique(), None, "shared", None, id="an unknown set counts this clique alone"),
    ],
)
@pytest.mark.statement("2.112")
def test_a_claim_can_be_reserved_by_256_pods(
    obj: Any, known: Any, mode: Any, pods: int | None, said: Said
) -> None:
    warnings = injection_into(obj, "ns", mode, pcs=known).warnings
    assert len(warnings) == (pods is not None)
    assert not warnings or f"by {pods} pods" in warnings[0]
    said(warnings)


def test_no_scope_is_narrower_than_that_of_a_clique() -> None:
    obj = clique(scope="clique")
    obj["spec"]["replicas"] = 300
    (warning,) = injection_into(obj, "ns", "shared", pcs=pcs(1)).warnings
    assert "pending. Ask the platform team to set mnnvl.claimMode: template. Then delete" in warning


def test_replicas_that_are_no_number_count_as_one() -> None:
    obj = clique()
    obj["spec"]["replicas"] = "many"
    injection = injection_into(obj, "ns", "shared")
    assert injection.plan is not None
    assert injection.warnings == []


def test_a_label_that_is_a_number_is_called_so() -> None:
    obj = clique()
    obj["metadata"]["labels"]["grove.io/pcs-replica-index"] = 0
    assert list(map(str, injection_into(obj, "ns", "shared").findings)) == [
        "metadata.labels[grove.io/pcs-replica-index]: Invalid value: 0: must be a string"
    ]


def test_a_label_that_is_null_counts_as_absent() -> None:
    obj = clique()
    obj["metadata"]["labels"]["grove.io/pcsg-name"] = None
    injection = injection_into(obj, "ns", "shared")
    assert injection.plan is not None
    assert injection.findings == []
