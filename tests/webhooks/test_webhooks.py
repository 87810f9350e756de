"""What the adapters add to the rules: facts that are missing, and what is never refused."""

import copy
import sys
from typing import Any

import pytest
from jsonpatch import apply_patch

from app.config.schema import Configuration, PodBinding
from app.facts.grove.podcliqueset import MOST_PARTS
from app.facts.kinds import POD_CLIQUE_SET, POD_GANG_MAP
from app.facts.rows import (
    DOMAINS,
    KAI_TOPOLOGIES,
    NODES,
    QUEUE_NAMES,
    SETS,
    TOPOLOGIES,
    Row,
)
from app.stores.stores import fill
from tests.cluster.offline import OfflineCluster
from tests.reviews import LEVELS, NODE, Caller, cluster, load, operator_cluster, patch_of, path_of
from tests.webhooks.test_podgang_adoption import owners


@pytest.mark.parametrize("case", ["podclique.replica-scope-0-worker", "podgang.update"])
@pytest.mark.parametrize("namespace", [None, "", "..", "a/b", "a" * 64])
async def test_a_request_without_a_namespace_is_a_bad_request(case: str, namespace: Any) -> None:
    caller = Caller()
    review = load(case)
    review["request"]["namespace"] = namespace
    response = await caller.ask(path_of(case), review)
    kind = review["request"]["kind"]["kind"]
    message = f"request.namespace must be the name of a namespace, because {kind} is namespaced"
    assert (response["status"]["code"], response["status"]["message"]) == (400, message)
    assert caller.cluster.client.writes() == []


async def test_a_second_clique_of_a_replica_is_judged_like_the_first_if_its_set_is_not_known() -> (
    None
):
    caller = Caller(OfflineCluster([NODE], levels=LEVELS))
    cases = ("podclique.replica-scope-0-worker", "podclique.replica-scope-0-parameter-server")
    first, second = [await caller.ask(path_of(case), load(case)) for case in cases]
    assert (first["allowed"], second) == (True, {**second, "allowed": True})
    assert len(patch_of(first)) == len(patch_of(second)) > 0


@pytest.mark.parametrize("name", ["..", "a/../b", "A", "a" * 300])
@pytest.mark.parametrize("case", ["podclique.replica-scope-0-worker", "podgang.replica-0"])
async def test_a_set_that_can_not_exist_is_not_read(case: str, name: str) -> None:
    offline = OfflineCluster([NODE], levels=LEVELS)
    review = load(case)
    metadata = review["request"]["object"]["metadata"]
    metadata["labels"]["grove.io/pcs-name"] = name
    metadata.pop("annotations", None)
    await Caller(offline).ask(path_of(case), review)
    assert [call for call in offline.client.calls if call.verb == "get"] == []


@pytest.mark.parametrize("exists", [True, False])
async def test_a_set_that_is_not_cached_is_read_once(exists: bool) -> None:
    offline = OfflineCluster([NODE], levels=LEVELS)
    if exists:
        offline.client.load([load("podcliqueset.topology-three-levels")["request"]["object"]])
    gang = load("podgang.replica-0")
    gang["request"]["object"]["metadata"]["labels"] |= {"grove.io/pcs-name": "tas-deep"}
    response = await Caller(offline).ask("/mutate/podgang", gang)
    spec = apply_patch(gang["request"]["object"], patch_of(response))["spec"]
    preferred = {"preferred": "kubernetes.io/hostname"}
    required = {"required": "topology.kubernetes.io/zone"}
    whole = {"packConstraint": {**required, **preferred}} if exists else None
    assert spec.get("topologyConstraint") == whole
    packs = [podgroup["topologyConstraint"]["packConstraint"] for podgroup in spec["podgroups"]]
    assert packs == [preferred] * 2
    assert [call.resource for call in offline.client.calls] == [POD_CLIQUE_SET]
    assert ("warnings" in response) is not exists


async def test_a_gang_gets_the_constraints_of_its_set_and_not_of_a_former_one() -> None:
    """The set was deleted and created again, and the cache still has the former one."""
    pcs = load("podcliqueset.topology-three-levels")["request"]["object"]
    pcs["metadata"]["uid"] = "new"
    former = {**pcs, "metadata": {**pcs["metadata"], "uid": "former"}}
    former["spec"] = load("podcliqueset.no-topology")["request"]["object"]["spec"]
    offline = OfflineCluster([NODE, pcs], levels=LEVELS)
    fill(offline.stores[SETS], [former])
    gang = load("podgang.replica-0")
    metadata = gang["request"]["object"]["metadata"]
    metadata["labels"] |= {"grove.io/pcs-name": "tas-deep"}
    metadata["ownerReferences"] = [POD_CLIQUE_SET.owner_reference("tas-deep", "new")]
    response = await Caller(offline).ask("/mutate/podgang", gang)
    spec = apply_patch(gang["request"]["object"], patch_of(response))["spec"]
    constraint = spec["topologyConstraint"]["packConstraint"]
    assert constraint["required"] == "topology.kubernetes.io/zone"
    assert [call.resource for call in offline.client.calls] == [POD_CLIQUE_SET]


async def test_a_gang_of_a_set_with_too_many_parts_keeps_its_constraints() -> None:
    pcs = load("podcliqueset.topology-three-levels")["request"]["object"]
    first = pcs["spec"]["template"]["cliques"][0]
    pcs["spec"]["template"]["cliques"] = [
        {**first, "name": f"c{number}"} for number in range(MOST_PARTS + 1)
    ]
    gang = load("podgang.replica-0")
    metadata = gang["request"]["object"]["metadata"]
    metadata["labels"] |= {"grove.io/pcs-name": "tas-deep"}
    response = await Caller(OfflineCluster([NODE, pcs], levels=LEVELS)).ask("/mutate/podgang", gang)
    assert response["warnings"] == [
        f'PodCliqueSet "tas-deep" has more than {MOST_PARTS} cliques and scaling groups,'
        f" or more than {MOST_PARTS} cliqueNames, and is not read: the topology constraints"
        f" of PodGang {metadata['name']} are left unchanged"
    ]
    assert (
        apply_patch(gang["request"]["object"], patch_of(response))["spec"]
        == (gang["request"]["object"]["spec"])
    )


async def test_a_gang_without_labels_is_warned_about() -> None:
    gang = load("podgang.replica-0")
    gang["request"]["object"]["metadata"]["labels"] = None
    response = await Caller().ask("/mutate/podgang", gang)
    name = gang["request"]["object"]["metadata"]["name"]
    assert response["warnings"][0] == (
        f"PodGang {name} has no label app.kubernetes.io/part-of that names its PodCliqueSet, so it"
        " gets only preferred topology constraints"
    )


async def test_without_topology_support_constraints_are_removed_without_a_warning() -> None:
    gang = load("podgang.replica-0")
    gang["request"]["object"]["metadata"]["labels"] = None
    pack = {"packConstraint": {"required": "k/rack"}}
    gang["request"]["object"]["spec"]["topologyConstraint"] = pack
    response = await Caller(OfflineCluster([NODE], topology_enabled=False)).ask(
        "/mutate/podgang", gang
    )
    assert patch_of(response) == [{"op": "remove", "path": "/spec/topologyConstraint"}]
    assert "warnings" not in response


@pytest.mark.parametrize("name", ["podcliqueset.topology-equal", "podgang.replica-0"])
async def test_without_the_topology_a_later_try_is_asked_for(name: str) -> None:
    response = await Caller(OfflineCluster([NODE])).ask(path_of(name), load(name))
    assert response["status"]["code"] == 503
    assert 'ClusterTopology "grove-topology" does not exist yet' in response["status"]["message"]


async def test_without_the_topology_sets_whose_constraints_stay_can_be_scaled() -> None:
    caller = Caller(OfflineCluster([NODE]))
    scaled = load("podcliqueset.topology-update-scale-only")
    response = await caller.ask("/validate/podcliqueset", scaled)
    assert response["allowed"] is True
    assert response["warnings"][0].startswith(
        "stored topology constraint, not checked: topology support is"
    )
    scaled["request"]["object"]["spec"]["template"]["topologyConstraint"] = {"packDomain": "host"}
    assert (await caller.ask("/validate/podcliqueset", scaled))["status"]["code"] == 503


@pytest.mark.statement("1.99")
async def test_topology_switched_off() -> None:
    caller = Caller(cluster(enabled=False))
    refused = await caller.ask("/validate/podcliqueset", load("podcliqueset.topology-equal"))
    assert "topology support is not enabled in the operator" in refused["status"]["message"]
    assert (await caller.ask("/validate/podcliqueset", load("podcliqueset.no-topology")))["allowed"]
    kept = await caller.ask(
        "/validate/podcliqueset", load("podcliqueset.topology-update-scale-only")
    )
    assert kept["allowed"] is True
    assert len(kept["warnings"]) > 0
    assert (await caller.ask("/mutate/podgang", load("podgang.replica-0"))).get("patch") is None


EMPTY: list[Any] = [
    pytest.param("podcliqueset.topology-equal", TOPOLOGIES, "ClusterTopologies", id="PodCliqueSet"),
    pytest.param("podclique.replica-scope-0-worker", DOMAINS, "computedomains", id="PodClique"),
    pytest.param("podgang.replica-0", SETS, "PodCliqueSets", id="PodGang"),
    pytest.param("pod-binding.gpu-node-1", NODES, "Nodes", id="Binding"),
]


@pytest.mark.parametrize(("name", "fact", "what"), EMPTY)
async def test_a_cache_that_is_not_filled_is_a_503_by_name(
    name: str, fact: Row[Any], what: str
) -> None:
    offline = cluster()
    offline.stores[fact].forget()
    response = await Caller(offline).ask(path_of(name), load(name))
    assert response["status"]["code"] == 503
    assert f"the cache of {what}" in response["status"]["message"]


@pytest.mark.parametrize("field", ["object", "oldObject"])
async def test_what_is_on_its_way_out_is_never_refused(field: str) -> None:
    """A client may leave the timestamp out of the new object: an API server restores it after
    mutating webhooks.
    """
    for name in (
        "podcliqueset.topology-update-to-invalid",
        "podgroup.update-to-invalid",
        "podclique.update-scale",
    ):
        review = load(name)
        review["request"][field]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        caller = Caller()
        assert await caller.ask(path_of(name), review) == {
            "uid": review["request"]["uid"],
            "allowed": True,
        }
        assert caller.cluster.client.calls == []


@pytest.mark.parametrize(
    ("name", "user", "levels", "code"),
    [
        pytest.param("grove-topology", "alice", None, None, id="a finalizer of the managed one"),
        pytest.param("grove-topology", "alice", ["host"], 403, id="its levels, by a user"),
        pytest.param("grove-topology", "ours", ["host"], None, id="its levels, by the operator"),
        pytest.param("grove-topology", "ours", ["galaxy"], 422, id="invalid, by the operator"),
        pytest.param("of-a-user", "alice", ["galaxy"], None, id="one of a user"),
    ],
)
@pytest.mark.statement("1.53")
async def test_the_spec_of_a_managed_topology_that_is_being_deleted_stays_guarded(
    name: str, user: str, levels: list[str] | None, code: int | None
) -> None:
    review = load("clustertopology.managed-update-by-operator")
    request = review["request"]
    request["name"] = name
    request["object"] = copy.deepcopy(request["oldObject"])
    for side in (request["object"], request["oldObject"]):
        side["metadata"] |= {"name": name, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    request["object"]["metadata"]["finalizers"] = []
    if levels:
        listed = [{"domain": domain, "key": "kubernetes.io/hostname"} for domain in levels]
        request["object"]["spec"]["levels"] = listed
    if user != "ours":
        request["userInfo"]["username"] = user
    response = await Caller().ask("/validate/clustertopology", review)
    assert response.get("status", {}).get("code") == code
    assert response["allowed"] is (code is None)


@pytest.mark.parametrize("label", ["somebody", None])
@pytest.mark.statement("2.78")
async def test_a_resource_in_the_way_is_refused_by_name(label: str | None) -> None:
    metadata = {
        "name": "distributed-training-0-cd",
        "namespace": "default",
        "labels": {"owner": label},
    }
    domain = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": metadata,
    }
    response = await Caller(cluster(domain)).ask(
        "/mutate/podclique", load("podclique.replica-scope-0-worker")
    )
    assert response["status"]["code"] == 403
    assert (
        'ComputeDomain "distributed-training-0-cd" exists in namespace default'
        in response["status"]["message"]
    )


TARGETS: list[Any] = [
    pytest.param(
        {"kind": "Node", "name": "gpu-node-2"},
        'node "gpu-node-2" is not known',
        id="an unknown node",
    ),
    pytest.param({"kind": "Thing", "name": "gpu-node-1"}, "is not a node", id="another kind"),
    pytest.param({"kind": "Node"}, "is not a node", id="no name"),
    pytest.param({"name": ["gpu-node-1"]}, "is not a node", id="a list for a name"),
    pytest.param(None, "is not a node", id="no target"),
    pytest.param("gpu-node-1", "is not a node", id="text"),
]


@pytest.mark.parametrize(("target", "warning"), TARGETS)
@pytest.mark.statement("5.38")
async def test_a_binding_is_never_refused(target: Any, warning: str) -> None:
    review = load("pod-binding.gpu-node-1")
    review["request"]["object"]["target"] = target
    response = await Caller().ask("/mutate/pod-binding", review)
    assert response["allowed"] is True
    assert "patch" not in response
    assert warning in response["warnings"][0]


KAI = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "fabric"},
    "spec": {"levels": [{"nodeLabel": "k/rack"}, {"nodeLabel": "k/host"}]},
}


@pytest.mark.parametrize(
    ("objects", "synced", "warnings"),
    [
        pytest.param(
            [KAI],
            True,
            [
                'spec.topologyConstraint.preferredTopologyLevel "k/rack" is broader than the required level "k/host": KAI never places these pods. Remove the preferred level, or use a narrower one'
            ],
            id="the order of levels is known",
        ),
        pytest.param([], True, None, id="there is no such Topology"),
        pytest.param([KAI], False, None, id="the cache is not filled yet"),
    ],
)
async def test_a_podgroup_that_kai_never_places_is_warned_about_and_stored(
    objects: list[Any], synced: bool, warnings: list[str] | None
) -> None:
    offline = OfflineCluster(objects)
    if not synced:
        offline.stores[KAI_TOPOLOGIES].forget()
    review = load("podgroup.valid")
    review["request"]["object"]["spec"]["topologyConstraint"] = {
        "topology": "fabric",
        "requiredTopologyLevel": "k/host",
        "preferredTopologyLevel": "k/rack",
    }
    response = await Caller(offline).ask("/validate/podgroup", review)
    assert (response["allowed"], response.get("warnings")) == (True, warnings)


QUEUED = {"kai.scheduler/queue": "gone"}


@pytest.mark.parametrize("known", [True, False])
async def test_a_queue_that_does_not_exist_is_warned_about(known: bool) -> None:
    offline = cluster()
    if known:
        fill(offline.hints[QUEUE_NAMES], [{"metadata": {"name": "team"}}])
    caller = Caller(offline)
    of_set = load("podcliqueset.topology-equal")
    of_set["request"]["object"]["metadata"]["labels"] = QUEUED
    of_group = load("podgroup.valid")
    of_group["request"]["object"]["spec"]["queue"] = "gone"

    answers = [
        await caller.ask("/validate/podcliqueset", of_set),
        await caller.ask("/validate/podgroup", of_group),
    ]
    warned = [
        [text for text in answer.get("warnings", []) if "queue" in text] for answer in answers
    ]

    rest = 'queue "gone" does not exist, and KAI schedules none of these pods until it does. Existing queues: team'
    paths = ("metadata.labels[kai.scheduler/queue]", "spec.queue")
    assert [answer["allowed"] for answer in answers] == [True, True]
    assert warned == [[f"{path}: {rest}"] if known else [] for path in paths]


@pytest.mark.parametrize("synced", [True, False])
async def test_a_podgang_of_todays_grove_that_kai_never_places_is_warned_about(
    synced: bool,
) -> None:
    offline = operator_cluster("grove-fcc3b3bb")
    keys = [f"topology.kubernetes.io/{domain}" for domain in ("zone", "block", "rack")]
    levels = [{"nodeLabel": key} for key in (*keys, "kubernetes.io/hostname")]
    fill(
        offline.stores[KAI_TOPOLOGIES],
        [{**KAI, "metadata": {"name": "grove-topology"}, "spec": {"levels": levels}}],
    )
    if not synced:
        offline.stores[KAI_TOPOLOGIES].forget()
    review = load("grove-fcc3b3bb/podgang.create-base")
    pack = review["request"]["object"]["spec"]["topologyConstraint"]["packConstraint"]
    pack["required"] = "topology.kubernetes.io/rack"
    response = await Caller(offline).ask("/mutate/podgang", review)
    assert response["allowed"] is True
    assert len(response.get("warnings", [])) == int(synced)


@pytest.mark.parametrize("epochs", [True, False])
async def test_who_creates_a_set_is_warned_of_names_that_grove_makes_too_long(epochs: bool) -> None:
    podgangmap = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": POD_GANG_MAP.kind,
        "metadata": {"name": "a-0", "namespace": "t"},
    }
    bound = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "b"},
        "spec": {"levels": []},
    }
    review = load("podcliqueset.no-topology")
    review["request"]["object"]["metadata"]["name"] = "s" * 45
    offline = OfflineCluster([bound, *([podgangmap] if epochs else [])])
    response = await Caller(offline).ask("/validate/podcliqueset", review)
    too_long = [
        warning for warning in response.get("warnings", []) if "than a label holds" in warning
    ]
    assert (response["allowed"], len(too_long)) == (True, int(epochs))


@pytest.mark.statement("5.20")
async def test_configured_labels_hold_without_a_topology() -> None:
    binding = PodBinding.model_validate({"nodeLabels": ("topology.kubernetes.io/rack",)})
    configuration = Configuration().model_copy(update={"pod_binding": binding})
    caller = Caller(
        OfflineCluster([NODE], node_labels=("topology.kubernetes.io/rack",)), configuration
    )
    review = load("pod-binding.gpu-node-1")
    review["request"]["object"]["metadata"]["labels"] = {
        "topology.kubernetes.io/rack": "fake",
        "mine": "kept",
    }
    after = apply_patch(
        review["request"]["object"], patch_of(await caller.ask("/mutate/pod-binding", review))
    )
    assert after["metadata"]["labels"] == {
        "topology.kubernetes.io/rack": "r12",
        "topology.kubernetes.io/region": "us-east-1",
        "topology.kubernetes.io/zone": "us-east-1a",
        "kubernetes.io/hostname": "gpu-node-1",
        "mine": "kept",
    }


@pytest.mark.statement("5.19")
async def test_the_labels_of_bindings_can_be_switched_off_alone() -> None:
    binding = PodBinding.model_validate({"enabled": False})
    configuration = Configuration().model_copy(update={"pod_binding": binding})
    response = await Caller(configuration=configuration).ask(
        "/mutate/pod-binding", load("pod-binding.gpu-node-1")
    )
    assert (response["allowed"], "patch" in response) == (True, False)


async def test_a_bulk_delete_takes_its_name_from_the_old_object() -> None:
    review = load("clustertopology.managed-bulk-delete-by-user")
    assert "name" not in review["request"]
    response = await Caller().ask("/validate/clustertopology", review)
    assert response["status"]["code"] == 403


def constrained(configs: Any) -> tuple[Caller, dict[str, Any]]:
    """A PodGang with `configs`, whose only PodGroup is in a scaling group that has a constraint."""
    pcs = load("podcliqueset.mnnvl-scaling-group-scope")["request"]["object"]
    pcs["spec"]["template"]["podCliqueScalingGroups"][0]["topologyConstraint"] = {
        "packDomain": "rack"
    }
    gang = load("podgang.scaling-group-0")
    gang["request"]["object"]["spec"]["topologyConstraintGroupConfigs"] = configs
    return Caller(OfflineCluster([pcs, NODE], levels=LEVELS)), gang


@pytest.mark.parametrize("name", [[], {}, ["a"], {"a": 1}, 7, None])
async def test_a_group_config_whose_name_is_no_text_is_replaced(name: Any) -> None:
    caller, gang = constrained([{"name": name}])
    after = apply_patch(
        gang["request"]["object"], patch_of(await caller.ask("/mutate/podgang", gang))
    )
    (config,) = after["spec"]["topologyConstraintGroupConfigs"]
    assert config == {
        "name": "scalable-inference-0-inference-pool-0",
        "podGroupNames": ["scalable-inference-0-inference-pool-0-gpu-worker"],
        "topologyConstraint": {
            "packConstraint": {
                "required": "topology.kubernetes.io/rack",
                "preferred": "kubernetes.io/hostname",
            }
        },
    }


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="since Python 3.12, 1,000 levels can be written back"
)
async def test_labels_that_can_not_be_stored_make_nothing() -> None:
    long = "p" * 64
    review = load("podclique.replica-scope-0-worker")
    metadata = review["request"]["object"]["metadata"]
    metadata |= {
        "name": f"{long}-0-worker",
        "labels": {**metadata["labels"], "grove.io/pcs-name": long},
    }
    caller = Caller()
    for _ in range(2):
        status = (await caller.ask("/mutate/podclique", review))["status"]
        message = f'metadata.labels[grove.io/pcs-name]: Invalid value: "{long}": must be no more than 63 characters'
        assert (status["code"], status["message"]) == (422, message)
    assert caller.cluster.client.writes() == []


async def test_an_owner_without_a_uid_is_looked_up() -> None:
    review = load("podclique.replica-scope-0-worker")
    (owner,) = review["request"]["object"]["metadata"]["ownerReferences"]
    uid, owner["uid"] = owner["uid"], None
    caller = Caller()
    await caller.ask("/mutate/podclique", review)
    assert owners(caller) == [[("PodCliqueSet", uid)], [("PodCliqueSet", uid)]]
