"""The mistakes that nobody else catches, beside Grove's real operator and with our webhooks: each
is rejected, or there is a warning; what is no admission request is reported by a command. Our
server has the rights of the rendered account.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from app.doctor.topology import STUCK_DOMAINS
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
from app.server.serve import Running
from scripts.apiserver.admission_server import ApiServer
from tests.integration.grove import mistakes
from tests.integration.grove.bindings import SETS, bind
from tests.integration.grove.gangs import base_gang
from tests.integration.grove.operator import GroveOperator
from tests.integration.system import Users, eventually, is_gone, names

ROOT = Path(__file__).parents[3]

BINDINGS = "/apis/grove.io/v1alpha1/clustertopologybindings"


@pytest.fixture(autouse=True)
def _of_today(today: bool, operator: GroveOperator, served: Running) -> None:
    if not today:
        pytest.skip("these are the mistakes beside a Grove that has ClusterTopologyBindings")
    assert operator.is_running


@pytest_asyncio.fixture(loop_scope="module")
async def used(clients: Users, served: Running) -> AsyncIterator[str]:
    """The name of a binding with zone, rack and host. Afterwards it is deleted on purpose."""
    levels = (("zone", mistakes.ZONE), ("rack", mistakes.RACK), ("host", mistakes.HOST))
    await bind(clients, "used", *levels)

    async def is_known() -> bool:
        return "used" in served.cluster.facts.bindings()

    await eventually(is_known)
    yield "used"
    allowed = {"metadata": {"annotations": {"grove.io/allow-topology-in-use": "true"}}}
    await clients.answer("user", "PATCH", f"{BINDINGS}/used", allowed)
    await clients.user.delete(ObjectRef(CLUSTER_TOPOLOGY_BINDING, "used"))


async def warnings(clients: Users, path: str, obj: Object) -> str:
    """Creates an object; the warnings, without the one that Grove gives about every set."""
    answer = await clients.answer("user", "POST", path, obj)
    return "; ".join(
        text for text in answer.headers.get_list("warning") if "restartPolicy" not in text
    )


async def printed(api: ApiServer, *arguments: str) -> str:
    """What a command of ours prints to an administrator."""
    command = [
        sys.executable,
        "-m",
        "app",
        *arguments,
        "--kubeconfig",
        str(api.kubeconfig),
        "--context",
        "admin",
    ]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return out.decode()


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("host first", "KAI allows this key only in the last level"),
        ("17 levels", "KAI allows at most 16 levels"),
        (
            "the name of a KAI Topology that it does not own",
            'KAI Topology "taken" already exists and has no controller',
        ),
    ],
)
async def test_what_keeps_the_operator_from_starting_is_rejected(
    clients: Users, served: Running, mistake: str, message: str
) -> None:
    if "KAI Topology" in mistake:
        await clients.admin.create(KAI_TOPOLOGY, mistakes.kai_topology("taken"))

        async def is_known() -> bool:
            return served.cluster.facts.kai_topology("taken") is not None

        await eventually(is_known)
    with pytest.raises(ClusterError, match=message):
        await clients.user.create(CLUSTER_TOPOLOGY_BINDING, mistakes.UNSTARTABLE[mistake])


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            "rack before zone",
            'according to the node labels each rack is in one zone: list "zone" above "rack"',
        ),
        ("a key on no node", "no node has the label example.com/zone"),
    ],
)
async def test_a_binding_that_the_nodes_do_not_bear_out(
    clients: Users, mistake: str, message: str
) -> None:
    """There is a warning, and then a condition."""
    binding = mistakes.UNORDERED[mistake]
    name = binding["metadata"]["name"]
    assert message in (await warnings(clients, BINDINGS, binding)).replace('\\"', '"')

    async def covered() -> Object | None:
        stored = await clients.admin.get(ObjectRef(CLUSTER_TOPOLOGY_BINDING, name))
        conditions = stored.get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == "LevelsCovered"), None)

    condition = await eventually(covered)
    assert condition is not None
    assert (condition["status"], message in condition["message"]) == ("False", True)
    await clients.user.delete(ObjectRef(CLUSTER_TOPOLOGY_BINDING, name))


async def test_a_level_or_a_binding_in_use_stays(
    clients: Users, served: Running, namespace: str, used: str
) -> None:
    pcs = mistakes.pcs("train", mistakes.clique("w"), pack={"required": "rack"})
    assert await warnings(clients, SETS.format(namespace=namespace), pcs) == ""

    async def users() -> int:
        return len(served.cluster.facts.users_of(used))

    await eventually(users)
    message = f"from the PodGangs of these PodCliqueSets: {namespace}/train"
    with pytest.raises(ClusterError, match=message):
        await clients.user.delete(ObjectRef(CLUSTER_TOPOLOGY_BINDING, used))
    levels = mistakes.binding(used, ("zone", mistakes.ZONE))["spec"]
    with pytest.raises(httpx.HTTPStatusError) as rejected:
        await clients.answer("user", "PATCH", f"{BINDINGS}/{used}", {"spec": levels})
    assert message in rejected.value.response.json()["message"]


async def test_a_group_with_too_long_a_name_is_rejected(clients: Users, namespace: str) -> None:
    with pytest.raises(
        ClusterError, match="Create the PodCliqueSet with a group name of at most 56 characters"
    ):
        await clients.user.create(POD_CLIQUE_SET, mistakes.LONG, namespace)


async def test_a_computedomain_of_one_name_is_rejected(
    clients: Users, served: Running, namespace: str
) -> None:
    await clients.user.create(POD_CLIQUE_SET, mistakes.FIRST, namespace)

    async def is_known() -> bool:
        return any(
            template.name == "y-0" for template in served.cluster.facts.sets_with_groups(namespace)
        )

    await eventually(is_known)
    with pytest.raises(
        ClusterError, match='group "x" of PodCliqueSet "y-0" uses the same ComputeDomain "y-0-1-x"'
    ):
        await clients.user.create(POD_CLIQUE_SET, mistakes.SECOND, namespace)


@pytest.mark.parametrize(
    ("pcs", "texts"),
    [
        (mistakes.WITHOUT_GPUS, ['is ignored: no container of clique "w" requests nvidia.com/gpu']),
        (mistakes.UNREAD, ["has no effect in this cluster", "which counts as"]),
    ],
    ids=["no GPUs", "nobody reads them"],
)
async def test_there_is_a_warning_about_annotations_without_effect(
    clients: Users, namespace: str, pcs: Object, texts: list[str]
) -> None:
    warned = await warnings(clients, SETS.format(namespace=namespace), pcs)
    assert [text for text in texts if text not in warned] == []


async def test_a_claim_of_groves_name_is_rejected(clients: Users, namespace: str) -> None:
    with pytest.raises(ClusterError, match="Rename the claim"):
        await clients.user.create(POD_CLIQUE_SET, mistakes.CLAIMED, namespace)


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (
            "a child that prefers what is broader than required above",
            "has no effect: the PodCliqueSet already requires",
        ),
        (
            "a child that requires what is broader than preferred above",
            "is broader than the preferred domain",
        ),
    ],
)
async def test_there_is_a_warning_about_contradicting_constraints(
    clients: Users, namespace: str, used: str, mistake: str, text: str
) -> None:
    assert text in await warnings(
        clients, SETS.format(namespace=namespace), mistakes.CONTRADICTING[mistake]
    )


async def test_there_is_a_warning_about_more_replicas_than_a_domain_holds(
    clients: Users, namespace: str, used: str
) -> None:
    warned = await warnings(clients, SETS.format(namespace=namespace), mistakes.TOO_LARGE)
    assert "has GPUs for more than 2 of them" in warned


async def test_audit_reports_an_edited_constraint(
    api: ApiServer, clients: Users, namespace: str, used: str
) -> None:
    pcs = mistakes.pcs("train", mistakes.clique("w"), pack={"required": "zone"})
    await clients.user.create(POD_CLIQUE_SET, pcs, namespace)

    async def available() -> int:
        status = (await clients.admin.get(ObjectRef(POD_CLIQUE_SET, "train", namespace))).get(
            "status", {}
        )
        return int(status.get("availableReplicas", 0))

    await eventually(available)
    gang = await base_gang(clients, namespace, "train-0")
    path = f"/apis/scheduler.grove.io/v1alpha1/namespaces/{namespace}/podgangs/{gang}"
    edit = {"spec": {"topologyConstraint": {"packConstraint": {"required": mistakes.RACK}}}}
    await clients.answer("user", "PATCH", path, edit)

    async def in_kai() -> bool:
        group = await clients.admin.get(ObjectRef(POD_GROUP, gang, namespace))
        return bool(
            group["spec"].get("topologyConstraint", {}).get("requiredTopologyLevel")
            == mistakes.RACK
        )

    await eventually(in_kai)
    stored = await clients.admin.get(ObjectRef(POD_GANG, gang, namespace))
    assert stored["spec"]["topologyConstraint"]["packConstraint"] == {"required": mistakes.RACK}
    text = await printed(api, "audit", "--namespace", namespace)
    assert f"PodGang {namespace}/{gang}" in text
    assert (
        f"is {{required: {mistakes.RACK}}}, but Grove would write {{required: {mistakes.ZONE}}}"
        in text
    )


async def test_doctor_and_explain_report_a_deleted_computedomain(
    api: ApiServer, clients: Users, namespace: str
) -> None:
    """And their remedy helps."""
    pcs = mistakes.pcs("train", mistakes.clique("w", gpus=1), mnnvl_group="fast")
    await clients.user.create(POD_CLIQUE_SET, pcs, namespace)
    await eventually(lambda: names(clients.admin, POD_CLIQUE, namespace))
    await clients.user.delete(ObjectRef(COMPUTE_DOMAIN, "train-0-fast", namespace))
    said = " ".join((await printed(api, "doctor")).split())
    assert f"{STUCK_DOMAINS} {namespace}/train-0-fast" in said
    text = await printed(api, "explain", "podcliqueset/train", "--namespace", namespace)
    assert "ComputeDomain train-0-fast is being deleted, but Grove's finalizer keeps it" in text
    path = f"/apis/resource.nvidia.com/v1beta1/namespaces/{namespace}/computedomains/train-0-fast"
    await clients.answer("user", "PATCH", path, {"metadata": {"finalizers": None}})
    assert await eventually(
        lambda: is_gone(clients.admin, COMPUTE_DOMAIN, "train-0-fast", namespace)
    )
    await clients.answer(
        "user", "PATCH", f"{SETS.format(namespace=namespace)}/train", {"spec": {"replicas": 2}}
    )
    expected = ["train-0-fast", "train-1-fast"]
    domains = await eventually(
        lambda: names(clients.admin, COMPUTE_DOMAIN, namespace), lambda domains: domains == expected
    )
    assert domains == expected
