"""What the designs say of things that no other test looks at: the CRD, the account, the pages."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from app.facts.grove.podcliqueset import read_pod_clique_set
from app.facts.grove.topology import DOMAINS, Level
from app.facts.kinds import COMPUTE_DOMAIN
from app.rules.dialects.design.podgangs import constraint_changes
from tests.builders import managed
from tests.rendered import rendered
from tests.reviews import Caller, load, path_of

ROOT = Path(__file__).parents[1]
CRD: dict[str, Any] = yaml.safe_load(
    (ROOT / "manifests" / "crds" / "grove.io_clustertopologies.yaml").read_text()
)
SCHEMA: dict[str, Any] = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


@pytest.mark.statement(
    "1.6", "1.20", "1.21", "1.22", "1.23", "1.24", "1.25", "1.26", "1.28", "1.29", "1.30"
)
def test_the_crd_of_clustertopologies() -> None:
    assert CRD["spec"]["scope"] == "Cluster"
    levels = SCHEMA["spec"]["properties"]["levels"]
    assert (levels["minItems"], levels["maxItems"]) == (1, 7)
    assert [rule["message"] for rule in levels["x-kubernetes-validations"]] == [
        "domain must be unique across all levels",
        "key must be unique across all levels",
    ]
    assert levels["items"]["required"] == ["domain", "key"]
    domain, key = (levels["items"]["properties"][field] for field in ("domain", "key"))
    assert domain["enum"] == [*DOMAINS]
    assert (key["minLength"], key["maxLength"]) == (1, 63)
    assert key["pattern"] == (
        "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
    )
    status = SCHEMA["status"]["properties"]
    assert {*status} == {"conditions", "observedGeneration", "lastErrors"}
    assert {*status["lastErrors"]["items"]["required"]} == {"code", "description", "observedAt"}


@pytest.mark.statement("1.12")
def test_levels_are_mutable() -> None:
    assert "oldSelf" not in str(CRD)
    assert "Levels can be changed" in (ROOT / "app" / "webhooks" / "REJECTIONS.md").read_text()


@pytest.mark.statement("1.144", "1.146")
def test_the_annotation_has_the_configured_name() -> None:
    pcs = read_pod_clique_set({"metadata": {"name": "s", "namespace": "ns"}, "spec": {}})
    topology = managed("another", levels=(Level("host", "kubernetes.io/hostname"),))
    gang = {"metadata": {"name": "s-0"}, "spec": {"podgroups": []}}
    annotation, *_ = constraint_changes(gang, pcs, topology)
    assert annotation.path == ("metadata", "annotations", "grove.io/topology-name")
    assert annotation.value == "another"


@pytest.mark.statement("1.158", "1.159", "1.160", "2.99", "2.100", "2.101", "2.102", "2.103")
def test_the_rights_that_the_designs_list() -> None:
    (role,) = (
        obj
        for obj in rendered("overlays/self-managed")
        if (obj["kind"], obj["metadata"]["name"]) == ("ClusterRole", "grove-admission")
    )
    verbs: dict[str, set[str]] = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                verbs.setdefault(f"{resource}.{group}", set()).update(rule["verbs"])
    reads = {"get", "list", "watch"}
    designed = {
        "clustertopologies.grove.io": {*reads, "create", "patch", "delete"},
        "clustertopologies/status.grove.io": {"patch"},
        "topologies.kai.scheduler": {*reads, "create", "delete"},
        "computedomains.resource.nvidia.com": {*reads, "create", "patch", "delete"},
        "resourceclaims.resource.k8s.io": {*reads, "create", "patch", "delete"},
        "podcliquesets.grove.io": reads,
        "podgangs.scheduler.grove.io": {*reads, "patch"},
    }
    assert {name: verbs[name] for name in designed} == designed


@pytest.mark.statement("3.24", "3.26", "3.28")
async def test_a_rejection_says_which_webhook_it_comes_from() -> None:
    """The API server puts the name of the webhook before the key, in its audit log."""
    name = "podgroup.mixed-case-name"
    refused = await Caller().ask(path_of(name), load(name))
    assert refused["auditAnnotations"] == {"verdict": "refused"}
    allowed = await Caller().ask(path_of("podgroup.valid"), load("podgroup.valid"))
    assert "auditAnnotations" not in allowed


@pytest.mark.statement("3.4", "3.54", "3.55")
def test_the_release_notes_have_the_rule_for_subgroups() -> None:
    changes = (ROOT / "README.md").read_text().partition("## Changes")[2]
    assert "SubGroup names must be lowercase" in changes
    page = (ROOT / "manifests" / "guide" / "grove-and-kai.md").read_text()
    assert "SubGroup names must be lowercase" in page
    assert "grove-admission audit" in page


@pytest.mark.statement("2.108")
async def test_a_clique_that_asks_for_mnnvl_is_refused_without_the_computedomain_api() -> None:
    name = "podclique.replica-scope-0-worker"
    caller = Caller()
    del caller.cluster.client.served[COMPUTE_DOMAIN]
    status = (await caller.ask(path_of(name), load(name)))["status"]
    assert status["code"] == 403
    assert "ComputeDomain is not an API of this cluster" in status["message"]
