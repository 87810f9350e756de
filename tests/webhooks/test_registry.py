"""The list of webhooks: what each row becomes, and that what the cluster couldn't do is a verdict."""

from typing import Any

import pytest

from app.admission.decide import decided
from app.admission.review import Request
from app.admission.verdict import ALLOWED, Later, Verdict, unavailable
from app.kube.api import (
    ClusterError,
    Conflict,
    Gone,
    NotFound,
    NotServed,
    Rejected,
    Unavailable,
)
from app.webhooks.registry import (
    MUTATE_POD,
    MUTATE_POD_BINDING,
    MUTATE_POD_CLIQUE,
    MUTATE_POD_MNNVL,
    VALIDATE_POD_GANG,
    VALIDATE_POD_GROUP,
    VALIDATE_POD_MNNVL,
    WEBHOOKS,
    Webhook,
)
from scripts.apiserver.objects.cel import holds
from tests.reviews import PATHS, cluster, default_routes

REQUEST = Request(
    "u",
    "scheduling.run.ai",
    "PodGroup",
    "podgroups",
    "",
    "CREATE",
    "a",
    "ns",
    "me",
    {},
    None,
    False,
)
ERRORS = [
    pytest.param(error, id=error.__name__)
    for error in (ClusterError, Conflict, Rejected, Gone, NotFound, NotServed, Unavailable)
]


def test_each_row_has_its_route() -> None:
    routes = default_routes(cluster())
    assert list(routes) == [webhook.path for webhook in WEBHOOKS]
    assert set(routes) == set(PATHS.values())
    for webhook in WEBHOOKS:
        route = routes[webhook.path]
        assert (route.group, route.resource, route.subresource, route.operations) == (
            webhook.resource.group,
            webhook.resource.plural,
            webhook.subresource,
            frozenset(webhook.operations),
        )


def test_a_row_is_named_after_what_it_judges() -> None:
    assert [webhook.name for webhook in WEBHOOKS] == [
        "clustertopology.validate.grove-admission.grove.io",
        "podcliqueset.validate.grove-admission.grove.io",
        "podgroup.validate.grove-admission.grove.io",
        "podgang.validate.grove-admission.grove.io",
        "pod-mnnvl.validate.grove-admission.grove.io",
        "podclique.mutate.grove-admission.grove.io",
        "podgang.mutate.grove-admission.grove.io",
        "pod-binding.mutate.grove-admission.grove.io",
        "pod.mutate.grove-admission.grove.io",
        "pod-mnnvl.mutate.grove-admission.grove.io",
    ]


@pytest.mark.statement("5.40")
def test_a_binding_is_a_kind_of_its_own_under_pods() -> None:
    route = MUTATE_POD_BINDING.route(lambda _: ALLOWED)
    assert (route.group, route.kind, route.resource, route.subresource) == (
        "",
        "Binding",
        "pods",
        "binding",
    )


ENABLED = {"grove.io/mnnvl-enabled": "true"}


def pod_clique(annotations: Any = None, **pod_spec: Any) -> dict[str, Any]:
    metadata = {"name": "c"} if annotations is None else {"name": "c", "annotations": annotations}
    return {"metadata": metadata, "spec": {"podSpec": pod_spec}}


def containers(**amounts: Any) -> list[Any]:
    return [{"name": "sidecar"}, {"name": "main", "resources": amounts}]


@pytest.mark.parametrize(
    ("obj", "asked"),
    [
        pytest.param(pod_clique(ENABLED), True, id="annotated"),
        pytest.param(
            pod_clique({"grove.io/mnnvl-enabled": "false"}), False, id="annotated otherwise"
        ),
        pytest.param(
            pod_clique({"a": "b"}, containers=containers(limits={"cpu": 1})), False, id="no GPUs"
        ),
        pytest.param(
            pod_clique(containers=containers(limits={"nvidia.com/gpu": 8})), True, id="a limit"
        ),
        pytest.param(
            pod_clique(containers=containers(requests={"nvidia.com/mig-1g.5gb": 1})),
            True,
            id="a request",
        ),
        pytest.param(
            pod_clique(initContainers=containers(limits={"nvidia.com/gpu": 8})),
            True,
            id="an init container",
        ),
        pytest.param(
            pod_clique(containers=containers(limits={"nvidia.com/gpu.shared": 8})),
            False,
            id="another name",
        ),
        pytest.param({"metadata": {"name": "c"}}, False, id="no spec"),
        pytest.param({"metadata": {"name": "c"}, "spec": {}}, False, id="no pod spec"),
    ],
)
def test_only_cliques_that_are_annotated_or_have_gpus_are_asked_about(
    obj: Any, asked: bool
) -> None:
    expression, _ = MUTATE_POD_CLIQUE.match_conditions.values()
    assert holds(expression, {"object": obj}) is asked


@pytest.mark.parametrize(
    ("metadata", "asked"),
    [
        pytest.param({"annotations": ENABLED}, True, id="annotated"),
        pytest.param({"annotations": ENABLED, "labels": {"a": "b"}}, True, id="with labels"),
        pytest.param(
            {"annotations": ENABLED, "labels": {"grove.io/podclique": "c"}},
            False,
            id="of a PodClique",
        ),
        pytest.param({"annotations": {"grove.io/mnnvl-enabled": "false"}}, False, id="refused"),
        pytest.param({"labels": {"leaderworkerset.sigs.k8s.io/name": "a"}}, False, id="nothing"),
        pytest.param({}, False, id="no metadata"),
    ],
)
@pytest.mark.parametrize("row", [MUTATE_POD_MNNVL, VALIDATE_POD_MNNVL], ids=["first", "last"])
def test_only_pods_that_ask_for_mnnvl_themselves_wait_for_a_server(
    row: Webhook, metadata: Any, asked: bool
) -> None:
    conditions = row.match_conditions.values()
    assert all(holds(text, {"object": {"metadata": metadata}}) for text in conditions) is asked


def test_those_that_fail_closed_are_not_asked_about_objects_that_are_being_deleted() -> None:
    going = "request.operation != 'UPDATE' || !has(object.metadata.deletionTimestamp)"
    unless_spec_changes = (
        f"{going} || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"
    )
    for webhook in WEBHOOKS:
        said = [
            condition
            for name, condition in webhook.match_conditions.items()
            if name.startswith("not-being-deleted")
        ]
        may_be_going = webhook.failure_policy == "Fail" and "UPDATE" in webhook.operations
        condition = unless_spec_changes if webhook.guards_spec else going
        assert said == ([condition] if may_be_going else []), webhook.path
    assert [webhook.path for webhook in WEBHOOKS if webhook.guards_spec] == [
        "/validate/clustertopology"
    ]


@pytest.mark.statement("5.38")
def test_only_pods_their_bindings_and_deletions_go_on_without_us() -> None:
    assert [webhook for webhook in WEBHOOKS if webhook.failure_policy == "Ignore"] == [
        VALIDATE_POD_GANG,
        MUTATE_POD_BINDING,
        MUTATE_POD,
    ]


@pytest.mark.parametrize("late", [False, True], ids=["at once", "awaited"])
@pytest.mark.parametrize("error", ERRORS)
async def test_what_the_cluster_could_not_do_is_tried_again(
    error: type[ClusterError], late: bool
) -> None:
    async def give() -> Verdict:
        raise error("the cluster says no")

    def handler(_: Request) -> Verdict | Later:
        if late:
            return Later(give)
        raise error("the cluster says no")

    verdict = await decided(VALIDATE_POD_GROUP.route(handler), REQUEST, 1)
    if error is Rejected:
        assert (verdict.code, verdict.allowed) == (500, False)
        assert verdict.message.endswith("grove-admission: the cluster says no")
    else:
        assert verdict == unavailable("the cluster says no")


async def test_only_a_missing_permission_leads_to_rbac() -> None:
    def handler(_: Request) -> Verdict:
        raise Rejected('claims is forbidden: User "a" cannot create resource "claims"', code=403)

    verdict = await decided(VALIDATE_POD_GROUP.route(handler), REQUEST, 1)
    assert "(check its RBAC): claims is forbidden" in verdict.message


@pytest.mark.parametrize("late", [False, True], ids=["at once", "awaited"])
async def test_our_own_mistakes_are_not_the_clusters(late: bool, caplog: Any) -> None:
    async def give() -> Verdict:
        raise KeyError("ours")

    def handler(_: Request) -> Verdict | Later:
        if late:
            return Later(give)
        raise KeyError("ours")

    verdict = await decided(VALIDATE_POD_GROUP.route(handler), REQUEST, 1)
    assert (verdict.code, verdict.reason) == (500, "InternalError")
    assert "KeyError: 'ours'" in caplog.text


@pytest.mark.statement("2.56", "2.81", "2.105", "3.52")
def test_the_table() -> None:
    rows = [
        (
            webhook.path,
            str(webhook.resource),
            webhook.operations,
            webhook.failure_policy,
            webhook.timeout_seconds,
            webhook.side_effects,
        )
        for webhook in WEBHOOKS
    ]
    assert rows == [
        (
            "/validate/clustertopology",
            "clustertopologies.grove.io",
            ("CREATE", "UPDATE", "DELETE"),
            "Fail",
            5,
            "None",
        ),
        (
            "/validate/podcliqueset",
            "podcliquesets.grove.io",
            ("CREATE", "UPDATE"),
            "Fail",
            5,
            "None",
        ),
        (
            "/validate/podgroup",
            "podgroups.scheduling.run.ai",
            ("CREATE", "UPDATE"),
            "Fail",
            5,
            "None",
        ),
        (
            "/validate/podgang",
            "podgangs.scheduler.grove.io",
            ("DELETE",),
            "Ignore",
            5,
            "NoneOnDryRun",
        ),
        ("/validate/pod-mnnvl", "pods", ("CREATE",), "Fail", 5, "None"),
        (
            "/mutate/podclique",
            "podcliques.grove.io",
            ("CREATE", "UPDATE"),
            "Fail",
            10,
            "NoneOnDryRun",
        ),
        (
            "/mutate/podgang",
            "podgangs.scheduler.grove.io",
            ("CREATE", "UPDATE"),
            "Fail",
            5,
            "NoneOnDryRun",
        ),
        ("/mutate/pod-binding", "pods", ("CREATE",), "Ignore", 2, "None"),
        ("/mutate/pod", "pods", ("CREATE",), "Ignore", 2, "None"),
        ("/mutate/pod-mnnvl", "pods", ("CREATE",), "Fail", 10, "NoneOnDryRun"),
    ]
    mutating = [webhook.name.split(".")[0] for webhook in WEBHOOKS if webhook.mutating]
    assert mutating == ["podclique", "podgang", "pod-binding", "pod", "pod-mnnvl"]
