"""What Grove's real operator does with the mistakes that nobody else catches, if none of our
webhooks is registered.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from app.facts.kinds import (
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    KAI_TOPOLOGY,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
)
from app.kube.api import ClusterError, Object, ObjectRef
from app.objects.resource import POD, Resource
from tests.integration.grove import mistakes
from tests.integration.grove.bindings import SETS, bind
from tests.integration.grove.gangs import base_gang
from tests.integration.grove.operator import GroveOperator
from tests.integration.system import Users, eventually, is_gone, names


@pytest.fixture(autouse=True)
def _of_today(today: bool, operator: GroveOperator) -> None:
    if not today:
        pytest.skip("these are the mistakes beside a Grove that has ClusterTopologyBindings")
    assert operator.is_running


@pytest_asyncio.fixture(loop_scope="module")
async def used(clients: Users, operator: GroveOperator) -> AsyncIterator[str]:
    """The name of a binding with zone, rack and host."""
    levels = (("zone", mistakes.ZONE), ("rack", mistakes.RACK), ("host", mistakes.HOST))
    await bind(clients, "used", *levels)
    yield "used"
    if not await is_gone(clients.user, CLUSTER_TOPOLOGY_BINDING, "used"):
        await clients.user.delete(ObjectRef(CLUSTER_TOPOLOGY_BINDING, "used"))


async def created(clients: Users, pcs: Object, namespace: str) -> list[str]:
    """Creates a PodCliqueSet; the warnings, without the one that Grove gives about every set."""
    answer = await clients.answer("user", "POST", SETS.format(namespace=namespace), pcs)
    return [text for text in answer.headers.get_list("warning") if "restartPolicy" not in text]


async def field(
    clients: Users, resource: Resource, name: str, namespace: str | None, *path: str
) -> Any:
    """A field of an object; None if there is no such object or field."""
    if await is_gone(clients.admin, resource, name, namespace):
        return None
    value: Any = await clients.admin.get(ObjectRef(resource, name, namespace))
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


async def until_gang(clients: Users, name: str, namespace: str) -> Any:
    """The constraint of a PodGang, once it has one."""
    path = ("spec", "topologyConstraint", "packConstraint")
    return await eventually(lambda: field(clients, POD_GANG, name, namespace, *path))


@pytest.mark.parametrize("mistake", list(mistakes.UNSTARTABLE))
async def test_the_operator_ends_at_its_next_start(
    clients: Users, operator: GroveOperator, namespace: str, mistake: str
) -> None:
    binding = mistakes.UNSTARTABLE[mistake]
    name = binding["metadata"]["name"]
    if name == "taken":
        await clients.admin.create(KAI_TOPOLOGY, mistakes.kai_topology(name))
    try:
        await clients.user.create(CLUSTER_TOPOLOGY_BINDING, binding)
        await operator.restart()
        assert await operator.ended() != 0
        with pytest.raises(ClusterError, match="failed calling webhook"):
            await clients.user.create(
                POD_CLIQUE_SET, mistakes.pcs("blocked", mistakes.clique("w")), namespace
            )
    finally:
        await clients.admin.delete(ObjectRef(CLUSTER_TOPOLOGY_BINDING, name))
        if name == "taken":
            await clients.admin.delete(ObjectRef(KAI_TOPOLOGY, name))
        await operator.start()


@pytest.mark.parametrize("mistake", list(mistakes.UNORDERED))
async def test_a_binding_is_reported_as_in_sync(clients: Users, mistake: str) -> None:
    binding = mistakes.UNORDERED[mistake]
    name = binding["metadata"]["name"]
    await clients.user.create(CLUSTER_TOPOLOGY_BINDING, binding)
    path = ("status", "schedulerTopologyStatuses")
    statuses = await eventually(lambda: field(clients, CLUSTER_TOPOLOGY_BINDING, name, None, *path))
    assert [status["inSync"] for status in statuses] == [True]
    await clients.user.delete(ObjectRef(CLUSTER_TOPOLOGY_BINDING, name))


@pytest.mark.parametrize("change", ["the level is removed", "the binding is deleted"])
async def test_constraints_vanish_from_podgangs(
    clients: Users, namespace: str, used: str, change: str
) -> None:
    await created(
        clients, mistakes.pcs("train", mistakes.clique("w"), pack={"required": "rack"}), namespace
    )
    gang = await base_gang(clients, namespace, "train-0")
    assert await until_gang(clients, gang, namespace) == {"required": mistakes.RACK}
    if change == "the binding is deleted":
        await clients.user.delete(ObjectRef(CLUSTER_TOPOLOGY_BINDING, used))
    else:
        levels = [{"domain": "zone", "key": mistakes.ZONE}]
        await clients.answer(
            "user",
            "PATCH",
            f"/apis/grove.io/v1alpha1/clustertopologybindings/{used}",
            {"spec": {"levels": levels}},
        )
    constraint = ("spec", "topologyConstraint")
    await eventually(
        lambda: field(clients, POD_GANG, gang, namespace, *constraint), lambda value: not value
    )


async def test_a_group_with_too_long_a_name_gets_no_podcliques(
    clients: Users, namespace: str
) -> None:
    assert await created(clients, mistakes.LONG, namespace) == []
    errors = await eventually(
        lambda: field(clients, POD_CLIQUE_SET, "long", namespace, "status", "lastErrors")
    )
    assert "must be no more than 63" in str(errors)
    assert await names(clients.admin, POD_CLIQUE, namespace) == []


async def test_the_second_of_two_computedomains_of_one_name(clients: Users, namespace: str) -> None:
    await created(clients, mistakes.FIRST, namespace)
    await eventually(
        lambda: names(clients.admin, POD_CLIQUE, namespace), lambda cliques: len(cliques) == 2
    )
    await created(clients, mistakes.SECOND, namespace)
    await eventually(lambda: field(clients, POD_CLIQUE_SET, "y", namespace, "status", "lastErrors"))
    assert await names(clients.admin, POD_CLIQUE, namespace, "app.kubernetes.io/part-of=y") == []


@pytest.mark.parametrize(
    "pcs", [mistakes.WITHOUT_GPUS, mistakes.UNREAD], ids=["no GPUs", "nobody reads them"]
)
async def test_annotations_are_ignored_silently(
    clients: Users, namespace: str, pcs: Object
) -> None:
    assert await created(clients, pcs, namespace) == []
    pods = await eventually(lambda: names(clients.admin, POD, namespace))
    pod = await clients.admin.get(ObjectRef(POD, pods[0], namespace))
    assert "resourceClaims" not in pod["spec"]
    assert await names(clients.admin, COMPUTE_DOMAIN, namespace) == []


async def test_pods_with_a_claim_of_groves_name_get_none_of_the_group(
    clients: Users, namespace: str
) -> None:
    """They wait for the claim that the user has named, and no container would have a channel of the
    group.
    """
    assert await created(clients, mistakes.CLAIMED, namespace) == []
    pods = await eventually(lambda: names(clients.admin, POD, namespace))
    spec = (await clients.admin.get(ObjectRef(POD, pods[0], namespace)))["spec"]
    assert spec["resourceClaims"] == [{"name": "mnnvl-claim", "resourceClaimName": "mine"}]
    assert [container["resources"].get("claims") for container in spec["containers"]] == [None]
    assert await names(clients.admin, COMPUTE_DOMAIN, namespace) == ["claimed-0-train"]


@pytest.mark.parametrize("mistake", list(mistakes.CONTRADICTING))
async def test_contradicting_constraints_are_allowed(
    clients: Users, namespace: str, used: str, mistake: str
) -> None:
    assert await created(clients, mistakes.CONTRADICTING[mistake], namespace) == []


async def test_more_replicas_than_a_domain_holds_are_allowed(
    clients: Users, namespace: str, used: str
) -> None:
    assert await created(clients, mistakes.TOO_LARGE, namespace) == []


async def test_an_edited_constraint_is_copied_to_kai_and_stays_until_the_set_changes(
    clients: Users, namespace: str, used: str
) -> None:
    await created(
        clients, mistakes.pcs("train", mistakes.clique("w"), pack={"required": "zone"}), namespace
    )
    gang = await base_gang(clients, namespace, "train-0")
    await until_gang(clients, gang, namespace)
    available = ("status", "availableReplicas")
    await eventually(lambda: field(clients, POD_CLIQUE_SET, "train", namespace, *available))
    edit = {"spec": {"topologyConstraint": {"packConstraint": {"required": mistakes.RACK}}}}
    path = f"/apis/scheduler.grove.io/v1alpha1/namespaces/{namespace}/podgangs/{gang}"
    await clients.answer("user", "PATCH", path, edit)
    level = ("spec", "topologyConstraint", "requiredTopologyLevel")
    in_kai = await eventually(
        lambda: field(clients, POD_GROUP, gang, namespace, *level),
        lambda value: value == mistakes.RACK,
    )
    assert in_kai == mistakes.RACK
    await created(
        clients, mistakes.pcs("later", mistakes.clique("w"), pack={"required": "zone"}), namespace
    )
    await until_gang(clients, await base_gang(clients, namespace, "later-0"), namespace)
    assert await until_gang(clients, gang, namespace) == {"required": mistakes.RACK}
    path = f"{SETS.format(namespace=namespace)}/train"
    cliques = [mistakes.clique("w", gpus=1)]
    await clients.answer("user", "PATCH", path, {"spec": {"template": {"cliques": cliques}}})
    constraint = ("spec", "topologyConstraint", "packConstraint", "required")
    await eventually(
        lambda: field(clients, POD_GANG, gang, namespace, *constraint),
        lambda value: value == mistakes.ZONE,
    )


async def test_a_deleted_computedomain_stays_in_deletion(clients: Users, namespace: str) -> None:
    await created(
        clients, mistakes.pcs("train", mistakes.clique("w", gpus=1), mnnvl_group="fast"), namespace
    )
    await eventually(lambda: names(clients.admin, POD, namespace))
    await clients.user.delete(ObjectRef(COMPUTE_DOMAIN, "train-0-fast", namespace))
    scaled = {"spec": {"replicas": 2}}
    await clients.answer("user", "PATCH", f"{SETS.format(namespace=namespace)}/train", scaled)
    await eventually(
        lambda: names(clients.admin, COMPUTE_DOMAIN, namespace), lambda domains: len(domains) == 2
    )
    domain = await clients.admin.get(ObjectRef(COMPUTE_DOMAIN, "train-0-fast", namespace))
    assert "deletionTimestamp" in domain["metadata"]
    assert domain["metadata"]["finalizers"] == ["grove.io/computedomain-finalizer"]
