"""What an audit finds in a cluster, what it leaves in peace, and what it says where it can't look.

Tests `app/audit/auditor.py`.
"""

import copy
import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from jsonpatch import apply_patch

from app.audit.auditor import MOST_PROBLEM, Auditor
from app.audit.finding import OLD_API, AuditCounts
from app.audit.progress import Progress
from app.commands.audit import audit
from app.config.read import read_configuration
from app.config.schema import Configuration, Enforcement
from app.facts import kinds
from app.facts.kinds import POD_GROUP
from app.kube.api import Object, Rejected
from app.objects.resource import Resource
from tests import builders
from tests.kube.memory.client import EVERYTHING, MemoryClient
from tests.reviews import load, operator_cluster

TEXT = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology:
  enabled: {enabled}
  levels: {levels}
authorization: {{authorizedUsers: []}}
"""
CONFIGURED = read_configuration(
    TEXT.format(enabled="true", levels="[{domain: rack, key: k/rack}]"), "test"
)
DISABLED = read_configuration(TEXT.format(enabled="false", levels="[]"), "test")
UNKNOWN = Configuration().model_copy(
    update={
        "cluster_topology": Configuration().cluster_topology.model_copy(update={"enabled": True})
    }
)
TOPOLOGY = builders.cluster_topology("grove-topology", rack="k/rack")
NO_LEVEL = 'spec.template.topologyConstraint.packDomain: Invalid value: "block": topology level not found in ClusterTopology "grove-topology", which has: rack'
BAD_NAME = (
    "invalid subgroup name \"Workers\": must consist of lowercase alphanumeric characters or '-'"
)


def changed(obj: Object, **metadata: Any) -> Object:
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def train(**metadata: Any) -> Object:
    return changed(
        builders.pod_clique_set("train"), namespace="default", uid="uid-train", **metadata
    )


def clique(*owners: Object, name: str = "train-0-worker", **spec: Any) -> Object:
    made = builders.pod_clique(name, builders.labels("train", 0, "train-0"), **spec)
    return changed(made, ownerReferences=[reference(owner) for owner in owners])


def admitted(obj: Object) -> Object:
    """A PodClique with its claim."""
    patched: Object = apply_patch(obj, list(builders.injection_into(obj).patch))
    return patched


def reference(owner: Object) -> Object:
    uid = owner["metadata"]["uid"]
    name = owner["metadata"]["name"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name,
        "uid": uid,
        "controller": True,
    }


def gang() -> Object:
    return changed(
        builders.pod_gang("train-0", builders.labels("train", 0, "train-0")), uid="uid-gang"
    )


def domain(
    *owners: Object, age: timedelta = timedelta(hours=1), podgang: str = "train-0"
) -> Object:
    created = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {**builders.labels("train", 0, podgang), "grove.io/mnnvl-managed": "true"}
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {
            "name": "train-0-cd",
            "creationTimestamp": created,
            "labels": {key: value for key, value in labels.items() if value},
            "ownerReferences": [reference(owner) for owner in owners],
        },
    }


def auditing(client: MemoryClient, configuration: Configuration) -> Auditor:
    return Auditor(client, configuration, Progress(StringIO()).show, datetime.now(UTC))


async def findings(
    *objects: Object, configuration: Configuration = CONFIGURED
) -> list[tuple[str, str, int, tuple[str, ...]]]:
    client = MemoryClient(objects)
    results = [finding async for finding in auditing(client, configuration).findings(None)]
    assert client.writes() == []
    return [
        (finding.kind, f"{finding.namespace}/{finding.name}", finding.code, finding.problems)
        for finding in results
    ]


async def test_podgroups_that_kai_ignores_or_never_places_are_listed_with_their_warnings() -> None:
    pod_group = builders.pod_group("mixed", {"name": "workers"})
    pod_group["spec"]["topologyConstraint"] = {"requiredTopologyLevel": "k/rack"}
    text = 'spec.topologyConstraint.requiredTopologyLevel "k/rack" is ignored by KAI, because no topology is named for it'
    assert await findings(TOPOLOGY, pod_group) == [("PodGroup", "default/mixed", 0, (text,))]


async def test_a_set_whose_podgangs_get_too_long_names_with_a_later_grove_is_listed() -> None:
    name = "s" * 45
    text = f'with a later release of Grove (with PodGangMaps): the name of PodGang "{name}-0-<epoch>-pool-1" would be 74 characters long, 11 more than a label holds: Grove never creates its PodCliques. Use shorter names for the PodCliqueSet or its scaling groups'
    listed = await findings(
        TOPOLOGY, builders.pod_clique_set(name), builders.pod_clique_set("fine")
    )
    assert listed == [("PodCliqueSet", f"default/{name}", 0, (text,))]


async def test_in_a_trial_period_an_audit_lists_what_is_refused_later() -> None:
    trial = CONFIGURED.model_copy(update={"enforcement": Enforcement(mode="warn")})
    worst = builders.pod_group("mixed", {"name": "Workers"})
    ((_, name, code, _),) = await findings(TOPOLOGY, worst, configuration=trial)
    assert (name, code) == ("default/mixed", 422)


async def test_each_kind_is_judged_by_its_rule_and_all_its_causes_are_told() -> None:
    worst = builders.pod_group("mixed", {"name": "Workers"}, {"name": "a", "parent": "b"})
    listed = await findings(
        TOPOLOGY,
        builders.cluster_topology("other", sector="k/s"),
        builders.pod_clique_set("lost", domain="block"),
        builders.pod_clique_set("fine", domain="rack"),
        worst,
        builders.pod_group("fine", {"name": "workers"}),
        train(),
        clique(train(), scope="galaxy"),
        admitted(clique(train(), name="train-0-fine")),
        gang(),
    )
    assert [(kind, where, code) for kind, where, code, _ in listed] == [
        ("ClusterTopology", "/other", 422),
        ("PodCliqueSet", "default/lost", 422),
        ("PodGroup", "default/mixed", 422),
        ("PodClique", "default/train-0-worker", 422),
    ]
    assert listed[1][3] == (NO_LEVEL,)
    assert len(listed[2][3]) == 2
    assert BAD_NAME in listed[2][3][0]


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([TOPOLOGY], id="the managed ClusterTopology, whoever wrote it"),
        pytest.param(
            [
                TOPOLOGY,
                changed(
                    builders.pod_group("going", {"name": "Workers"}),
                    deletionTimestamp="2026-01-01T00:00:00Z",
                    finalizers=["x/y"],
                ),
            ],
            id="what is being deleted",
        ),
        pytest.param(
            [
                TOPOLOGY,
                *(
                    changed(builders.pod_group("exempt", {"name": "Workers"}), namespace=namespace)
                    for namespace in ("kube-system", "grove-system")
                ),
            ],
            id="namespaces that no webhook is asked about",
        ),
        pytest.param([TOPOLOGY, clique(train())], id="a PodClique whose set is gone"),
        pytest.param(
            [TOPOLOGY, train(), clique(changed(train(), uid="former"))],
            id="a PodClique of a former set of that name",
        ),
        pytest.param(
            [TOPOLOGY, train(), gang(), admitted(clique(train())), domain(gang())],
            id="a PodClique whose ComputeDomain is ours",
        ),
        pytest.param(
            [TOPOLOGY, train(), gang(), domain(train(), age=-timedelta(hours=1))],
            id="what is about to be adopted",
        ),
        pytest.param(
            [TOPOLOGY, train(), domain(train(), age=-timedelta(hours=1))],
            id="what waits for its PodGang",
        ),
        pytest.param(
            [TOPOLOGY, train(), gang(), domain(gang(), podgang="")],
            id="what only its labels lead to",
        ),
    ],
)
async def test_left_in_peace(objects: list[Object]) -> None:
    assert await findings(*objects) == []


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        pytest.param(
            [train(), gang(), domain(train())],
            'not adopted: the reconciler has not made PodGang "train-0" its owner yet',
            id="not adopted for long",
        ),
        pytest.param(
            [train(), domain(train())],
            "orphaned: the PodGang of its PodCliques does not exist",
            id="without its PodGang for long",
        ),
        pytest.param(
            [domain(age=timedelta(0))],
            'orphaned: the PodGang of its PodCliques does not exist, and neither does PodCliqueSet "train"',
            id="without anything",
        ),
        pytest.param(
            [train(), gang(), domain(changed(builders.pod_gang("other", {}), uid="other"))],
            'has an owner that is neither PodGang "train-0" nor its PodCliqueSet',
            id="somebody else's",
        ),
    ],
)
async def test_resources_that_nobody_owns_as_they_should(
    objects: list[Object], problem: str
) -> None:
    assert await findings(TOPOLOGY, *objects) == [
        ("ComputeDomain", "default/train-0-cd", 0, (problem,))
    ]


async def test_a_foreign_compute_domain_is_what_refuses_the_podclique() -> None:
    foreign = domain()
    foreign["metadata"]["labels"] = {}
    (refusal,) = await findings(TOPOLOGY, train(), clique(train()), foreign)
    assert refusal[:3] == ("PodClique", "default/train-0-worker", 403)
    assert (
        'ComputeDomain "train-0-cd" exists in namespace default, but was not created for'
        in refusal[3][0]
    )


async def test_constraints_where_topology_support_is_off() -> None:
    (refusal,) = await findings(
        builders.pod_clique_set("lost", domain="rack"), configuration=DISABLED
    )
    assert refusal[3] == (
        "spec.template.topologyConstraint.packDomain: Forbidden: topology support is not enabled in the operator",
    )


async def test_before_the_first_installation_the_levels_of_the_configuration_count() -> None:
    client = MemoryClient(
        [
            builders.pod_clique_set("lost", domain="block"),
            builders.pod_clique_set("ok", domain="rack"),
        ]
    )
    auditor = auditing(client, CONFIGURED)
    assert [finding.name async for finding in auditor.findings(None)] == ["lost"]
    note = (
        "the managed ClusterTopology does not exist, so the levels of the configuration were used"
    )
    assert (auditor.tally.notes, auditor.tally.exit_code) == ([note], 1)


async def test_without_any_levels_constraints_are_not_judged_but_the_rest_is() -> None:
    client = MemoryClient(
        [
            builders.pod_clique_set("x", domain="rack"),
            builders.pod_group("bad", {"name": "Workers"}),
        ]
    )
    auditor = auditing(client, UNKNOWN)
    assert [finding.name async for finding in auditor.findings(None)] == ["bad"]
    assert set(auditor.tally.unread) == {"podcliquesets.grove.io", "podgangs.scheduler.grove.io"}
    assert (
        'ClusterTopology "grove-topology" does not exist yet'
        in auditor.tally.unread["podcliquesets.grove.io"]
    )
    assert auditor.tally.exit_code == 2


@pytest.mark.parametrize(
    ("forbidden", "unread"),
    [
        pytest.param(kinds.POD_GROUP, {"podgroups.scheduling.run.ai"}, id="PodGroups"),
        pytest.param(
            kinds.COMPUTE_DOMAIN,
            {
                "computedomains.resource.nvidia.com",
                "podcliques.grove.io",
                "podgangs.scheduler.grove.io",
                "pods",
            },
            id="ComputeDomains, and what is judged by them",
        ),
        pytest.param(
            kinds.POD_GANG,
            {
                "podgangs.scheduler.grove.io",
                "podcliques.grove.io",
                "computedomains.resource.nvidia.com",
                "resourceclaims.resource.k8s.io",
            },
            id="PodGangs, and what belongs to them",
        ),
    ],
)
async def test_what_may_not_be_read_is_said_and_the_rest_is_audited(
    forbidden: Resource, unread: set[str]
) -> None:
    client = MemoryClient(
        [
            TOPOLOGY,
            builders.pod_clique_set("lost", domain="block"),
            train(),
            admitted(clique(train())),
            gang(),
        ]
    )
    no = Rejected(f"cannot list {forbidden}", code=403, reason="Forbidden")
    client.fail_next("list", forbidden, no, times=10)
    auditor = auditing(client, CONFIGURED)
    assert [finding.name async for finding in auditor.findings(None)] == ["lost"]
    assert set(auditor.tally.unread) == unread
    assert forbidden.kind not in auditor.tally.counts
    assert all(f"cannot list {forbidden}" in why for why in auditor.tally.unread.values())
    assert auditor.tally.exit_code == 2


async def test_what_is_not_installed_is_said_and_no_error() -> None:
    client = MemoryClient(
        [builders.pod_group("fine", {"name": "workers"})], served={POD_GROUP: "v2alpha2"}
    )
    auditor = auditing(client, CONFIGURED)
    assert [finding async for finding in auditor.findings(None)] == []
    assert auditor.tally.absent == [
        "clustertopologies.grove.io",
        "podcliquesets.grove.io",
        "podcliques.grove.io",
        "podgangs.scheduler.grove.io",
        "pods",
        "queues.scheduling.run.ai",
        "computedomains.resource.nvidia.com",
        "resourceclaims.resource.k8s.io",
    ]
    assert (auditor.tally.counts["PodGroup"], auditor.tally.exit_code) == (
        AuditCounts(1, 0, 0, 0),
        0,
    )


async def test_only_one_namespace() -> None:
    bad = builders.pod_group("bad", {"name": "Workers"})
    client = MemoryClient([TOPOLOGY, bad, changed(bad, namespace="other")])
    namespaces = [
        finding.namespace async for finding in auditing(client, CONFIGURED).findings("other")
    ]
    assert namespaces == ["other"]
    assert {call.namespace for call in client.calls if call.resource.namespaced} == {"other"}


async def test_what_cannot_be_decided_is_no_finding_but_is_told() -> None:
    client = MemoryClient([TOPOLOGY, train(), clique(train())])
    client.fail_next("get", kinds.COMPUTE_DOMAIN, Rejected("not you", code=403))
    auditor = auditing(client, CONFIGURED)
    (undecided,) = [finding async for finding in auditor.findings(None)]
    assert (undecided.code, undecided.remedy) == (
        500,
        "Correct the problem that the message names, and run the audit again.",
    )
    assert (auditor.tally.counts["PodClique"], auditor.tally.exit_code) == (
        AuditCounts(1, 0, 0, 1),
        2,
    )


def todays(*objects: Any) -> MemoryClient:
    """A cluster that serves both topology APIs, with what the real operator was recorded with."""
    recorded = operator_cluster("grove-fcc3b3bb")
    recorded_objects = [
        obj for resource in recorded.client.served for obj in recorded.client.objects(resource)
    ]
    return MemoryClient(
        [*recorded_objects, *objects],
        served={**EVERYTHING, kinds.CLUSTER_TOPOLOGY_BINDING: "v1alpha1"},
    )


async def found_in(client: MemoryClient, capsys: Any) -> dict[str, list[str]]:
    """The problems by kind and name, of those that this test is about."""
    assert await audit(client, Configuration(), None, "json") in (1, 3)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {f"{line['kind']} {line['name']}": line["problems"] for line in lines if "kind" in line}


async def test_mistakes_beside_todays_grove(capsys: Any) -> None:
    name = "grove-fcc3b3bb/podgang.create-base"
    edited = copy.deepcopy(load(name)["request"]["object"])
    edited["spec"]["topologyConstraint"]["packConstraint"]["required"] = "edited/by-hand"
    first = load("grove-fcc3b3bb/clustertopologybinding.host-first")["request"]["object"]
    legacy = load("grove-fcc3b3bb/podcliqueset.legacy-scale")["request"]["object"]
    former = builders.cluster_topology("grove-topology", rack="topology.kubernetes.io/rack")
    problems = await found_in(todays(edited, first, legacy, former), capsys)
    assert problems.keys() == {
        "ClusterTopology grove-topology",
        f"ClusterTopologyBinding {first['metadata']['name']}",
        "PodCliqueSet infer",
        "PodCliqueSet legacy",
        "PodCliqueSet nvl",
        "PodGang infer-0",
    }
    assert problems["PodCliqueSet infer"] == [
        'the constraint "zone" of the PodCliqueSet applies per PodGang. Replicas of scaling group "prefill" above minAvailable form their own PodGangs and may be placed in another zone. Set minAvailable = replicas at creation to keep all pods together',
        "cannot check capacity: no node reports GPUs (checked: label nvidia.com/gpu.count, status.allocatable, ResourceSlices)",
        'a replica of scaling group "prefill" has pods with 8 and 1 GPUs under one topology constraint: for the pods that must be scheduled together, KAI looks for 3 x 8 = 24 free GPUs instead of 17',
    ]
    assert problems["PodGang infer-0"] == [
        "spec.topologyConstraint: is {required: edited/by-hand, preferred: topology.kubernetes.io/block}, but Grove would write {required: topology.kubernetes.io/zone, preferred: topology.kubernetes.io/block}"
    ]
    assert problems["ClusterTopology grove-topology"] == [
        "belongs to an old topology API of Grove that no component reads any more"
    ]
    assert len(problems["PodCliqueSet legacy"]) == 8


async def test_podgangs_as_grove_writes_them_have_no_findings(capsys: Any) -> None:
    gangs = [
        load(f"grove-fcc3b3bb/podgang.create-{name}")["request"]["object"]
        for name in ("base", "scaled")
    ]
    problems = await found_in(todays(*gangs), capsys)
    assert [name for name in problems if name.startswith("PodGang")] == []


async def test_resources_that_a_podgang_owns_where_grove_replaces_podgangs(capsys: Any) -> None:
    owned = changed(domain(gang()), namespace="ml", creationTimestamp="2026-01-01T00:00:00Z")
    pcs = changed(train(), namespace="ml")
    problems = await found_in(todays(pcs, owned), capsys)
    assert problems["ComputeDomain train-0-cd"] == [
        'owned by PodGang "train-0": PodCliqueSet "train" should own it, because Grove replaces PodGangs while pods run'
    ]


async def test_claims_that_can_never_be_allocated(capsys: Any) -> None:
    """Their PodCliqueSet owns them, and NVIDIA's own DeviceClasses are the only ones."""
    labels = {**builders.labels("train", 0, "train-0"), "grove.io/mnnvl-managed": "true"}
    owner = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "name": "train",
        "controller": True,
    }
    pcs = builders.pod_clique_set("train")
    pcs["metadata"] |= {"namespace": "ml", "uid": "g"}
    requests = [{"name": "mnnvl", "exactly": {"deviceClassName": "compute-domain.nvidia.com"}}]
    waiting = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "train-0-mnnvl-claim", "namespace": "ml", "labels": labels},
        "spec": {"devices": {"requests": requests}},
    }
    waiting["metadata"]["ownerReferences"] = [{**owner, "uid": "g"}]  # type: ignore[index]
    allocated = {**copy.deepcopy(waiting), "status": {"allocation": {"devices": {}}}}
    allocated["metadata"]["name"] = "train-1-mnnvl-claim"  # type: ignore[index]
    driver = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    driver |= {"metadata": {"name": "compute-domain-default-channel.nvidia.com"}}  # type: ignore[dict-item]
    problems = await found_in(todays(pcs, waiting, allocated, driver), capsys)
    assert problems["ResourceClaim train-0-mnnvl-claim"] == [
        'can never be allocated: DeviceClass "compute-domain.nvidia.com" does not exist'
    ]
    assert "ResourceClaim train-1-mnnvl-claim" not in problems


async def test_how_much_was_looked_at_is_shown_for_each_page_of_a_kind() -> None:
    shown: list[tuple[str, int, int | None]] = []
    groups = [builders.pod_group(name, {"name": "workers"}) for name in ("a", "b")]
    auditor = Auditor(
        MemoryClient(groups), CONFIGURED, lambda *page: shown.append(page), datetime.now(UTC)
    )
    assert [finding async for finding in auditor.findings(None)] == []
    assert [page for page in shown if page[0] == POD_GROUP.kind] == [("PodGroup", 2, None)]


@pytest.mark.parametrize("level", [OLD_API, "x" * 100_000])
async def test_a_level_that_a_tenant_made_up_chooses_no_remedy_and_is_truncated(
    level: str, capsys: Any
) -> None:
    group = changed(builders.pod_group("g"), namespace="t")
    group["spec"]["topologyConstraint"] = {"requiredTopologyLevel": level}
    assert await audit(MemoryClient([group]), Configuration(), None, "json") == 3
    found = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (found["remedy"], len(found["problems"])) == (
        "Name a KAI Topology in the topologyConstraint that the message names, or in the workload from which a controller copies the constraint.",
        1,
    )
    assert len(found["problems"][0]) <= MOST_PROBLEM + 1
