"""PodCliques that want MNNVL: which annotations count, and what is no reason to refuse one.

Tests `app/webhooks/mnnvl.py`.
"""

import asyncio
import copy
import json
from typing import Any

import pytest
from jsonpatch import apply_patch
from msgspec.structs import replace

from app.admission.review import parse
from app.admission.verdict import Later
from app.config.schema import Configuration, Mnnvl
from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE_SET
from app.facts.rows import SETS
from app.kube.api import ClusterError, ObjectRef, Rejected, Unavailable
from app.stores.stores import fill
from app.webhooks.mnnvl import verdict_without_resources
from tests import builders
from tests.kube import virtual
from tests.reviews import Caller, cluster, load, patch_of

WORKER = "podclique.replica-scope-0-worker"
CLAIM = {"name": "mnnvl", "resourceClaimName": "distributed-training-0-mnnvl-claim"}


def claims_of(review: dict[str, Any], response: dict[str, Any]) -> Any:
    return apply_patch(review["request"]["object"], patch_of(response))["spec"]["podSpec"].get(
        "resourceClaims"
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(Unavailable("down", code=503), "down", id="the API server is in trouble"),
        pytest.param(
            Unavailable("slow down", code=429, retry_after=9.0), "slow down", id="too many requests"
        ),
        pytest.param(Rejected("Unauthorized", code=401), "Unauthorized", id="an expired token"),
        pytest.param(
            Rejected(
                "no: unable to create new content in namespace a because it is being terminated",
                code=403,
            ),
            "because it is being terminated",
            id="a namespace on its way out",
        ),
        pytest.param(
            Rejected(
                "no: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for x",
                code=403,
            ),
            "cannot find RESTMapping",
            id="a CRD that the plugin OwnerReferencesPermissionEnforcement has not seen",
        ),
    ],
)
@pytest.mark.statement("2.73")
async def test_what_passes_is_a_warning_and_the_claim_is_injected(
    error: ClusterError, reason: str
) -> None:
    caller = Caller()
    review = load(WORKER)
    caller.cluster.client.fail_next("create", COMPUTE_DOMAIN, error)
    response = await caller.ask("/mutate/podclique", review)
    assert claims_of(review, response) == [CLAIM]
    (warning,) = response["warnings"]
    assert warning.startswith(
        'the MNNVL resources of "distributed-training-0" are not complete yet ('
    )
    assert reason in warning


async def test_what_a_person_must_fix_is_refused() -> None:
    caller = Caller()
    caller.cluster.client.fail_next("create", COMPUTE_DOMAIN, Rejected("not you", code=403))
    status = (await caller.ask("/mutate/podclique", load(WORKER)))["status"]
    assert (status["code"], status["message"]) == (
        500,
        "the API server rejected a request of grove-admission: not you",
    )


@pytest.mark.statement("2.71")
async def test_init_containers_and_the_number_of_pods_are_read_of_a_request() -> None:
    review = load(WORKER)
    spec = review["request"]["object"]["spec"]
    spec["replicas"] = 300
    (container,) = spec["podSpec"]["containers"]
    gpus = container.pop("resources")
    spec["podSpec"]["initContainers"] = [{**container, "name": "check", "resources": gpus}]

    response = await Caller().ask("/mutate/podclique", review)

    patched = apply_patch(review["request"]["object"], patch_of(response))["spec"]["podSpec"]
    assert patched["resourceClaims"] == [CLAIM]
    assert patched["initContainers"][0]["resources"]["claims"] == [{"name": "mnnvl"}]
    assert "would be reserved by 300 pods" in response["warnings"][0]


@pytest.mark.parametrize("verb", ["create", "get"])
def test_an_api_server_that_does_not_answer_is_not_waited_for(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*arguments: Any, **options: Any) -> Any:
        await asyncio.Event().wait()

    async def ask() -> None:
        caller = Caller()
        review = load(WORKER)
        monkeypatch.setattr(caller.cluster.client, verb, never)
        if verb == "get":
            forget_sets(caller)
            bare(review)
        response = await caller.ask("/mutate/podclique", review)
        assert response["allowed"]
        (warning,) = response["warnings"]
        assert "the API server has not answered in time" in warning
        assert claims_of(review, response) == ([CLAIM] if verb == "create" else None)
        assert virtual.now() < 5.0

    virtual.run(ask())


def forget_sets(caller: Caller) -> None:
    """The cache lacks what the cluster has."""
    caller.cluster.stores[SETS].forget()
    fill(caller.cluster.stores[SETS], [])


def bare(review: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """`review` of a PodClique that has only these MNNVL annotations."""
    prefixed = {
        f"grove.io/mnnvl-{key.replace('_', '-')}": value for key, value in annotations.items()
    }
    review["request"]["object"]["metadata"]["annotations"] = prefixed
    return review


def annotated_set(**annotations: str) -> dict[str, Any]:
    pcs: dict[str, Any] = copy.deepcopy(
        load("podcliqueset.mnnvl-replica-scope")["request"]["object"]
    )
    pcs["metadata"]["annotations"] = {
        f"grove.io/mnnvl-{key}": value for key, value in annotations.items()
    }
    return pcs


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.statement("2.96")
async def test_annotations_of_the_set_count_cached_or_read_once(cached: bool) -> None:
    caller = Caller(cluster(annotated_set(enabled="true")))
    review = bare(load(WORKER))
    if not cached:
        forget_sets(caller)
    response = await caller.ask("/mutate/podclique", review)
    assert claims_of(review, response) == [CLAIM]
    reads = [call for call in caller.cluster.client.calls if call.resource == POD_CLIQUE_SET]
    assert len(reads) == (1 if cached else 2), "the second one is before a write"


@pytest.mark.parametrize("cached", [True, False])
def test_only_a_set_that_the_cache_lacks_lets_a_review_wait(cached: bool) -> None:
    """A PodClique that asks for nothing: most reviews are of that kind."""
    caller = Caller(cluster(annotated_set()))
    if not cached:
        forget_sets(caller)
    asked = parse(json.dumps(bare(load(WORKER))).encode())
    answer = caller.app.exchange.routes["/mutate/podclique"].handler(asked)
    assert isinstance(answer, Later) is not cached


async def test_annotations_of_a_former_set_do_not_count() -> None:
    """The set was deleted and created again, and the cache still has the former one."""
    caller = Caller(cluster(annotated_set()))
    former = annotated_set(enabled="true")
    former["metadata"] |= {"uid": "former", "resourceVersion": "1"}
    fill(caller.cluster.stores[SETS], [former])
    review = bare(load(WORKER))
    response = await caller.ask("/mutate/podclique", review)
    assert claims_of(review, response) is None


@pytest.mark.parametrize(
    ("own", "reads"),
    [
        ({"enabled": "true"}, 2),
        ({"enabled": "true", "device_class": "a"}, 2),
        ({"enabled": "true", "scope": "clique", "device_class": "a"}, 1),
    ],
)
async def test_a_scope_of_the_set_counts_if_the_cache_lacks_the_set(
    own: dict[str, str], reads: int
) -> None:
    caller = Caller(cluster(annotated_set(scope="clique")))
    review = bare(load(WORKER), **own)
    forget_sets(caller)
    response = await caller.ask("/mutate/podclique", review)
    claim = {"name": "mnnvl", "resourceClaimName": "distributed-training-0-worker-mnnvl-claim"}
    assert claims_of(review, response) == [claim]
    assert (
        len([call for call in caller.cluster.client.calls if call.resource == POD_CLIQUE_SET])
        == reads
    )


async def test_a_clique_that_opts_out_is_left_alone() -> None:
    caller = Caller(cluster(annotated_set(enabled="true")))
    response = await caller.ask("/mutate/podclique", bare(load(WORKER), enabled="false"))
    assert "patch" not in response
    assert caller.cluster.client.calls == []


@pytest.mark.parametrize("fails", [True, False])
async def test_a_stored_claim_stays_while_the_set_is_unknown(fails: bool) -> None:
    caller = Caller()
    review = load(WORKER)
    stored = apply_patch(
        review["request"]["object"], patch_of(await caller.ask("/mutate/podclique", review))
    )
    review["request"] |= {"operation": "UPDATE", "oldObject": stored}
    forget_sets(caller)
    if fails:
        caller.cluster.client.fail_next("get", POD_CLIQUE_SET, Unavailable("down", code=503))
    else:
        await caller.cluster.client.delete(
            ObjectRef(POD_CLIQUE_SET, "distributed-training", "default")
        )
    response = await caller.ask("/mutate/podclique", bare(review))
    assert claims_of(review, response) == [CLAIM]
    assert (
        'PodCliqueSet "distributed-training" could not be read (down)'
        in str(response.get("warnings"))
    ) is fails


async def test_a_podgang_is_admitted_while_the_api_server_is_in_trouble() -> None:
    caller = Caller()
    review = load("podgang.replica-0")
    forget_sets(caller)
    caller.cluster.client.fail_next("get", POD_CLIQUE_SET, Unavailable("down", code=503))
    response = await caller.ask("/mutate/podgang", review)
    assert response["allowed"]
    assert "gets only preferred topology constraints" in response["warnings"][0]


async def test_a_shared_claim_that_cannot_be_allocated_is_a_warning() -> None:
    driver = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "compute-domain-default-channel.nvidia.com"},
    }
    shared = Configuration(mnnvl=Mnnvl.model_validate({"claimMode": "shared"}))
    response = await Caller(cluster(driver), shared).ask("/mutate/podclique", load(WORKER))
    assert "cannot be allocated: DeviceClass" in response["warnings"][0]
    review = load(WORKER)
    automatic = await Caller(cluster(driver)).ask("/mutate/podclique", review)
    template = {
        "name": "mnnvl",
        "resourceClaimTemplateName": "distributed-training-0-mnnvl-template",
    }
    assert (claims_of(review, automatic), "warnings" in automatic) == ([template], False)


@pytest.mark.parametrize(
    ("classes", "name", "value"),
    [
        pytest.param(
            ["compute-domain-daemon.nvidia.com", "compute-domain-default-channel.nvidia.com"],
            "resourceClaimTemplateName",
            "distributed-training-0-mnnvl-template",
            id="with only NVIDIA's DeviceClasses, a PodClique gets the template",
        ),
        pytest.param(
            ["compute-domain-default-channel.nvidia.com", "compute-domain.nvidia.com"],
            "resourceClaimName",
            "distributed-training-0-mnnvl-claim",
            id="with the design's class, the shared claim",
        ),
        pytest.param(
            [],
            "resourceClaimName",
            "distributed-training-0-mnnvl-claim",
            id="with neither, the design's form",
        ),
    ],
)
async def test_the_form_of_the_claim_by_the_device_classes(
    classes: list[str], name: str, value: str
) -> None:
    stored = [
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": each}}
        for each in classes
    ]
    review = load(WORKER)
    response = await Caller(cluster(*stored)).ask("/mutate/podclique", review)
    assert claims_of(review, response) == [{"name": "mnnvl", name: value}]
    assert "warnings" not in response


async def test_beside_the_grove_of_the_designs_a_group_of_todays_grove_excludes_nothing() -> None:
    """The PodCliqueSet is allowed with a warning that its group is ignored, and so are its
    PodCliques.
    """
    both = {"grove.io/mnnvl-enabled": "true", "grove.io/mnnvl-group": "train"}
    for path, name in (
        ("/validate/podcliqueset", "podcliqueset.mnnvl-replica-scope"),
        ("/mutate/podclique", WORKER),
    ):
        review = load(name)
        review["request"]["object"]["metadata"]["annotations"] |= both
        response = await Caller().ask(path, review)
        assert response["allowed"], response
        if path == "/mutate/podclique":
            assert claims_of(review, response) == [CLAIM]
        else:
            ignored, *others = response["warnings"]
            assert ignored.startswith(
                "metadata.annotations[grove.io/mnnvl-group] is ignored by this"
            )
            assert not any("mnnvl-group" in warning for warning in others)


def test_a_claim_without_resources_keeps_its_other_warnings() -> None:
    review = load(WORKER)["request"]
    injection = replace(builders.injection_into(review["object"], "ns", "shared"), warnings=["w"])
    assert injection.plan is not None
    verdict = verdict_without_resources(injection.plan, injection, Unavailable("down", code=503))
    assert list(verdict.warnings) == [
        'the MNNVL resources of "distributed-training-0" are not complete yet (down):'
        " grove-admission creates them as soon as it can",
        "w",
    ]
