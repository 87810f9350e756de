"""What nobody else catches beside today's Grove: a test for each mistake, on requests of the real
operator.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from app.objects.resource import NODE
from tests.cluster.offline import OfflineCluster
from tests.reviews import Caller, load, operator_cluster, path_of
from tests.webhooks.test_recorded import judged

OPERATOR = "grove-fcc3b3bb"


def recorded(name: str) -> dict[str, Any]:
    return load(f"{OPERATOR}/{name}")


def spec_of(name: str) -> dict[str, Any]:
    obj: dict[str, Any] = recorded(name)["request"]["object"]
    return obj


async def answer(
    name: str, change: Callable[[dict[str, Any]], object] = bool, *others: dict[str, Any]
) -> Any:
    """(code, text of the rejection, or the warnings) of the recorded request `name`, whose object
    is changed. `others` are in the cluster too.
    """
    review = recorded(name)
    change(
        review["request"]["object"]
        if review["request"]["object"]
        else review["request"]["oldObject"]
    )
    cluster = operator_cluster(OPERATOR)
    if others:
        kept = [obj for kind in cluster.client.served for obj in cluster.client.objects(kind)]
        cluster = OfflineCluster([*kept, *others], topology_enabled=False)
    response = await Caller(cluster).ask(path_of(name), review)
    if response["allowed"]:
        return 200, "; ".join(response.get("warnings", []))
    return response["status"]["code"], response["status"]["message"]


def annotated(obj: dict[str, Any], **annotations: str) -> None:
    all_annotations = obj["metadata"].setdefault("annotations", {})
    all_annotations |= {
        f"grove.io/{key.replace('_', '-')}": value for key, value in annotations.items()
    }


def with_gpus(obj: dict[str, Any], replicas: int = 1, gpus: str = "8") -> None:
    clique = obj["spec"]["template"]["cliques"][0]
    clique["spec"]["replicas"] = replicas
    clique["spec"]["podSpec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": gpus}}


# Bindings.


async def test_a_binding_with_host_first() -> None:
    code, text = await answer("clustertopologybinding.host-first")
    assert code == 422
    assert text.startswith(
        'spec.levels[0].key: Invalid value: "kubernetes.io/hostname": KAI allows this key only in'
    )


async def test_a_binding_with_more_than_16_levels() -> None:
    def many(obj: dict[str, Any]) -> None:
        obj["spec"]["levels"] = [
            {"domain": f"l{number}", "key": f"k/l{number}"} for number in range(17)
        ]

    code, text = await answer("clustertopologybinding.create-by-user", many)
    assert (code, text.partition(":")[2].partition(" Grove")[0]) == (
        422,
        " Invalid value: 17: KAI allows at most 16 levels:",
    )


async def test_a_binding_with_the_name_of_a_kai_topology_that_it_does_not_own() -> None:
    kai = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "grove-topology"},
        "spec": {"levels": [{"nodeLabel": "k/rack"}]},
    }
    code, text = await answer("clustertopologybinding.create-by-user", bool, kai)
    assert code == 422
    assert 'KAI Topology "grove-topology" already exists and has no controller' in text

    def external(obj: dict[str, Any]) -> None:
        reference = {"schedulerName": "kai-scheduler", "topologyReference": "grove-topology"}
        obj["spec"]["schedulerTopologyBindings"] = [reference]

    assert await answer("clustertopologybinding.create-by-user", external, kai) == (200, "")


async def test_a_binding_with_levels_that_are_not_broadest_first() -> None:
    code, text = await answer("clustertopologybinding.rack-before-zone")
    assert (code, text) == (
        200,
        'level "rack" is listed above "zone", but according to the node labels each rack is in one zone: list "zone" above "rack": [{domain: zone, key: topology.kubernetes.io/zone}, {domain: rack, key: topology.kubernetes.io/rack}]',
    )


async def test_a_binding_with_a_key_on_no_node() -> None:
    code, text = await answer("clustertopologybinding.key-missing-on-nodes")
    assert (code, text.partition(",")[0]) == (
        200,
        'level "zone": no node has the label nowhere.example/zone',
    )


async def test_a_level_is_removed_while_pod_clique_sets_use_it() -> None:
    code, text = await answer("clustertopologybinding.level-removed-in-use")
    assert code == 422
    assert (
        'Grove would remove the constraints on "rack" from the PodGangs of these PodCliqueSets: t/infer'
        in text
    )


async def test_a_binding_is_deleted_while_pod_clique_sets_use_it() -> None:
    code, text = await answer("clustertopologybinding.delete-in-use")
    assert code == 403
    assert "from the PodGangs of these PodCliqueSets: t/infer" in text


@pytest.mark.parametrize("name", ["level-removed-in-use", "delete-in-use"])
async def test_a_level_in_use_is_removed_on_purpose(name: str) -> None:
    def allowed(obj: dict[str, Any]) -> None:
        annotated(obj, allow_topology_in_use="true")

    code, text = await answer(f"clustertopologybinding.{name}", allowed)
    assert code == 200
    assert "from the PodGangs of these PodCliqueSets: t/infer" in text


# PodCliqueSets.


async def test_a_group_whose_compute_domain_has_too_long_a_name() -> None:
    code, text = await answer("podcliqueset.mnnvl-group-too-long")
    assert code == 422
    assert "Create the PodCliqueSet with a group name of at most 58 characters" in text


async def test_two_pod_clique_sets_whose_compute_domains_have_one_name() -> None:
    other = spec_of("podcliqueset.mnnvl-groups")
    other["metadata"] = {
        "name": "y4-0",
        "namespace": "t",
        "annotations": {"grove.io/mnnvl-group": "x"},
    }
    other["spec"]["replicas"] = 2

    def colliding(obj: dict[str, Any]) -> None:
        obj["spec"]["template"]["cliques"][0]["annotations"]["grove.io/mnnvl-group"] = "1-x"
        with_gpus(obj)

    code, text = await answer("podcliqueset.mnnvl-group-no-gpus", colliding, other)
    assert code == 422
    assert 'group "x" of PodCliqueSet "y4-0" uses the same ComputeDomain "y4-0-1-x"' in text


async def test_a_group_on_a_clique_without_gpus() -> None:
    assert await answer("podcliqueset.mnnvl-group-no-gpus") == (
        200,
        'spec.template.cliques[0].annotations[grove.io/mnnvl-group] "train" is ignored: no container of clique "w" requests nvidia.com/gpu',
    )


@pytest.mark.parametrize(
    ("annotations", "warning"),
    [
        ({"auto_mnnvl": "enabled"}, "has no effect in this cluster"),
        (
            {"mnnvl_scope": "clique"},
            'has no effect: it applies to no clique for which grove.io/mnnvl-enabled is "true"',
        ),
        ({"mnnvl_enabled": "yes"}, 'is "yes", which counts as "false"'),
    ],
)
async def test_annotations_that_no_component_reads(
    annotations: dict[str, str], warning: str
) -> None:
    code, text = await answer(
        "podcliqueset.three-levels", lambda obj: annotated(obj, **annotations)
    )
    assert code == 200
    assert warning in text


async def test_mnnvl_annotations_where_no_driver_is_installed() -> None:
    review = recorded("podcliqueset.mnnvl-groups")
    cluster = operator_cluster(OPERATOR)
    for resource in [
        resource for resource in cluster.client.served if resource.group == "resource.nvidia.com"
    ]:
        del cluster.client.served[resource]
    response = await Caller(cluster).ask("/validate/podcliqueset", review)
    assert "NVIDIA's ComputeDomain API is not installed in this cluster" in "; ".join(
        response["warnings"]
    )


async def test_a_claim_of_the_user_that_has_groves_name() -> None:
    def claiming(obj: dict[str, Any]) -> None:
        with_gpus(obj)
        claim = {"name": "mnnvl-claim", "resourceClaimName": "mine"}
        obj["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["resourceClaims"] = [claim]

    code, text = await answer("podcliqueset.mnnvl-group-no-gpus", claiming)
    assert code == 422
    assert "spec.template.cliques[0].spec.podSpec.resourceClaims[0].name" in text
    assert "the pods would not join its ComputeDomain" in text


async def test_required_beside_a_preferred_that_contradicts_it() -> None:
    code, text = await answer("podcliqueset.clique-preferred-broader-than-set-required")
    assert code == 200
    assert '"zone" has no effect: the PodCliqueSet already requires the narrower "rack"' in text

    def broader(obj: dict[str, Any]) -> None:
        obj["spec"]["template"]["topologyConstraint"]["pack"] = {"preferred": "rack"}
        obj["spec"]["template"]["cliques"][0]["topologyConstraint"]["pack"] = {"required": "zone"}

    code, text = await answer("podcliqueset.clique-preferred-broader-than-set-required", broader)
    assert code == 200
    assert 'is broader than the preferred domain "rack" of the PodCliqueSet' in text


async def test_more_replicas_than_a_required_domain_can_ever_hold() -> None:
    node = copy.deepcopy(operator_cluster(OPERATOR).client.objects(NODE)[0])
    node["metadata"] = {
        "name": "large",
        "labels": {
            **node["metadata"]["labels"],
            "nvidia.com/gpu.count": "8",
            "topology.kubernetes.io/rack": "k9",
        },
    }

    def many(obj: dict[str, Any]) -> None:
        obj["spec"]["template"]["topologyConstraint"]["pack"] = {"required": "rack"}
        del obj["spec"]["template"]["cliques"][0]["topologyConstraint"]
        with_gpus(obj, replicas=3)

    code, text = await answer("podcliqueset.clique-broader-than-set", many, node)
    assert code == 200
    assert (
        'has 3 pods with 8 GPUs each, and no "rack" has GPUs for more than 1 of them: some' in text
    )


# Both vocabularies.


@pytest.mark.parametrize(
    ("of_set", "of_clique", "path"),
    [
        ({"mnnvl_enabled": "true", "mnnvl_group": "train"}, {}, "metadata.annotations"),
        (
            {"mnnvl_enabled": "true"},
            {"grove.io/mnnvl-group": "train"},
            "spec.template.cliques[0].annotations",
        ),
        (
            {"mnnvl_group": "train"},
            {"grove.io/mnnvl-enabled": "true"},
            "spec.template.cliques[0].annotations",
        ),
    ],
    ids=[
        "on the set",
        "ours on the set, Grove's on a clique",
        "Grove's on the set, ours on a clique",
    ],
)
async def test_both_vocabularies_on_one_clique(
    of_set: dict[str, str], of_clique: dict[str, str], path: str
) -> None:
    def both(obj: dict[str, Any]) -> None:
        with_gpus(obj)
        annotated(obj, **of_set)
        obj["spec"]["template"]["cliques"][0]["annotations"] = of_clique

    code, text = await answer("podcliqueset.mnnvl-group-no-gpus", both)
    assert (code, text.partition(":")[0]) == (422, path)
    assert "Keep grove.io/mnnvl-group if Grove manages MNNVL in this cluster" in text


async def test_a_clique_that_opts_out_of_groves_group_may_have_ours() -> None:
    def opted_out(obj: dict[str, Any]) -> None:
        with_gpus(obj)
        annotated(obj, mnnvl_group="train")
        clique = obj["spec"]["template"]["cliques"][0]
        clique["annotations"] = {"grove.io/mnnvl-group": "none", "grove.io/mnnvl-enabled": "true"}

    assert (await answer("podcliqueset.mnnvl-group-no-gpus", opted_out))[0] == 200


async def test_what_was_stored_before_is_only_warned_about() -> None:
    name = f"{OPERATOR}/podcliqueset.mnnvl-group-too-long"
    review = load(name)
    review["request"] |= {
        "operation": "UPDATE",
        "oldObject": copy.deepcopy(review["request"]["object"]),
    }
    response = await Caller(operator_cluster(OPERATOR)).ask(path_of(name), review)
    assert response["allowed"]
    assert response["warnings"][0].startswith(
        "already stored, so still allowed: metadata.annotations"
    )


@pytest.mark.parametrize("name", ["podclique.mnnvl-group-own", "podclique.mnnvl-group-of-set"])
async def test_a_pod_clique_with_both(name: str) -> None:
    """It is rejected at creation, and if an update makes it so. One that is stored stays as it is,
    and gets no claim of ours.
    """
    code, text = await answer(name, lambda obj: annotated(obj, mnnvl_enabled="true"))
    assert (code, text.partition(":")[0]) == (422, "metadata.annotations")
    review = recorded(name)
    annotated(review["request"]["object"], mnnvl_enabled="true")
    review["request"] |= {
        "operation": "UPDATE",
        "oldObject": copy.deepcopy(review["request"]["object"]),
    }
    response = await Caller(operator_cluster(OPERATOR)).ask("/mutate/podclique", review)
    assert (response["allowed"], "patch" in response) == (True, False)
    assert response["warnings"][0].startswith(
        "no claim was injected: metadata.annotations: Forbidden"
    )
    review["request"]["oldObject"] = recorded(name)["request"]["object"]
    response = await Caller(operator_cluster(OPERATOR)).ask("/mutate/podclique", review)
    assert (response["allowed"], response["status"]["code"]) == (False, 422)


async def test_the_claim_of_grove_is_never_changed() -> None:
    for name in (
        "podclique.claim-restored-by-operator",
        "podclique.mnnvl-group-own",
        "podclique.mnnvl-group-of-set",
    ):
        assert await judged(f"{OPERATOR}/{name}", Caller(operator_cluster(OPERATOR))) == {
            "allowed": True
        }


async def test_a_minimum_above_the_replicas_of_a_clique() -> None:
    def raised(obj: dict[str, Any]) -> None:
        obj["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 3

    code, text = await answer("podcliqueset.three-levels", raised)
    assert code == 422
    assert text.startswith(
        "spec.template.cliques[0].spec.minAvailable: Invalid value: 3: must not be greater than replicas (2)"
    )


async def test_a_scheduler_that_does_not_exist() -> None:
    def misspelt(obj: dict[str, Any]) -> None:
        obj["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["schedulerName"] = "kai-schedular"

    code, text = await answer("podcliqueset.three-levels", misspelt)
    assert code == 200
    assert 'unknown scheduler "kai-schedular"' in text
    assert "Did you mean kai-scheduler?" in text


@pytest.mark.parametrize(("namespace", "code"), [("t", 422), ("default", 200)])
async def test_a_clique_with_a_claim_of_its_own_for_the_channel(namespace: str, code: int) -> None:
    """Only a claim template in the namespace of the set counts."""
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "channel", "namespace": namespace},
        "spec": {
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": "channel",
                            "exactly": {
                                "deviceClassName": "compute-domain-default-channel.nvidia.com"
                            },
                        }
                    ]
                }
            }
        },
    }

    def with_claim(obj: dict[str, Any]) -> None:
        with_gpus(obj, 2)
        clique = obj["spec"]["template"]["cliques"][0]
        clique["annotations"] = {"grove.io/mnnvl-enabled": "true"}
        own = {"name": "mine", "resourceClaimTemplateName": "channel"}
        clique["spec"]["podSpec"]["resourceClaims"] = [own]

    found, text = await answer("podcliqueset.three-levels", with_claim, template)
    assert found == code, text
    assert ("spec.podSpec.resourceClaims[0]" in text) is (code == 422)
