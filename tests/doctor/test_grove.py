"""What is said of Grove's settings if they can't be read, are spread over several ConfigMaps, or
are odd.
"""

from typing import Any

import pytest
import yaml

from app.config.schema import Authorization, ClusterTopology, Configuration, TopologyLevel
from app.doctor.grove import check_grove
from app.doctor.report import Check
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING
from app.kube.api import Rejected
from app.objects.resource import CONFIG_MAP, VALIDATING_WEBHOOKS, Resource
from tests.doctor.installation import groves_webhooks
from tests.kube.memory.client import EVERYTHING, MemoryClient

Object = dict[str, Any]
ACCOUNT = "system:serviceaccount:grove-system:grove-admission"
WITH_BINDINGS = {**EVERYTHING, CLUSTER_TOPOLOGY_BINDING: "v1alpha1"}
TOPOLOGY = ClusterTopology(enabled=True, levels=(TopologyLevel(domain="rack", key="k/rack"),))
CONFIGURATION = Configuration().model_copy(update={"cluster_topology": TOPOLOGY})
CHECKS = f"its topologyAwareScheduling.enabled must be true, and if its authorizer.enabled is true, its authorizer.exemptServiceAccountUserNames must contain {ACCOUNT}"
LOOK = f"Run doctor as a user who may list ValidatingWebhookConfigurations and ConfigMaps. If Grove's operator runs, {CHECKS}."


HOOKS = groves_webhooks("grove-system")


@pytest.mark.parametrize(
    ("resource", "checks"),
    [
        pytest.param(
            VALIDATING_WEBHOOKS,
            [Check("unknown", "Grove's webhooks could not be read: not yours", LOOK)],
            id="the webhooks",
        ),
        pytest.param(
            CONFIG_MAP,
            [
                Check("unknown", "Grove's configuration could not be read: not yours", LOOK),
                Check("ok", "Grove's authorizer is off"),
            ],
            id="the ConfigMaps",
        ),
    ],
)
async def test_what_may_not_be_read_says_what_to_look_for(
    resource: Resource, checks: list[Check]
) -> None:
    client = MemoryClient([HOOKS])
    client.fail_next("list", resource, Rejected("not yours", code=403))
    assert await check_grove(client, CONFIGURATION) == checks


async def test_without_grove_it_is_said_what_to_look_for() -> None:
    message = f"no configuration of Grove's operator was found. If the operator runs, {CHECKS}"
    assert await check_grove(MemoryClient(), CONFIGURATION) == [Check("ok", message)]


async def test_with_topology_off_here_groves_feature_need_not_be_off() -> None:
    exempt = CHECKS.partition(", and ")[2]
    message = f"no configuration of Grove's operator was found. If the operator runs, {exempt}"
    assert await check_grove(MemoryClient(), Configuration()) == [Check("ok", message)]


def config_map(name: str, created: str, text: Any, namespace: str = "grove-system") -> Object:
    labels = {
        "app.kubernetes.io/component": "operator-configmap",
        "app.kubernetes.io/part-of": "grove",
    }
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": labels,
        "creationTimestamp": created,
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"config.yaml": text},
    }


def settings(**sections: Any) -> str:
    return yaml.safe_dump({"kind": "OperatorConfiguration", **sections})


ON = {"topologyAwareScheduling": {"enabled": True}}


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v9"])
async def test_groves_configuration_is_read_in_any_version(version: str) -> None:
    text = settings(
        apiVersion=f"operator.config.grove.io/{version}", topologyAwareScheduling={"enabled": False}
    )
    client = MemoryClient([HOOKS, config_map("a", "2026-01-01T00:00:00Z", text)])
    problems = [check for check in await check_grove(client, CONFIGURATION) if check.remedy]
    assert "Grove's topology feature is off" in problems[0].message


async def test_the_newest_configuration_that_can_be_read_counts() -> None:
    client = MemoryClient(
        [
            groves_webhooks("other"),
            config_map(
                "a",
                "2026-01-01T00:00:00Z",
                settings(topologyAwareScheduling={"enabled": False}),
                namespace="other",
            ),
            config_map("b", "2026-02-01T00:00:00Z", settings(**ON), namespace="other"),
            config_map("c", "2026-03-01T00:00:00Z", "kind: Other", namespace="other"),
            config_map("d", "2026-03-02T00:00:00Z", "[not: closed", namespace="other"),
            config_map("e", "2026-03-03T00:00:00Z", None, namespace="other"),
        ]
    )
    operator = "system:serviceaccount:other:grove-operator"
    configuration = CONFIGURATION.model_copy(
        update={"authorization": Authorization.model_validate({"authorizedUsers": [operator]})}
    )
    assert await check_grove(client, configuration) == [
        Check("ok", "Grove's authorizer is off"),
        Check("ok", "Grove's topology feature is on"),
        Check("ok", f"{operator} may write the managed ClusterTopology"),
    ]


async def test_the_account_of_the_operators_deployment_is_the_one_that_is_looked_for() -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "grove-operator", "namespace": "grove-system"},
        "spec": {"template": {"spec": {"serviceAccountName": "another"}}},
    }
    text = settings(**ON)
    client = MemoryClient([HOOKS, config_map("a", "2026-01-01T00:00:00Z", text), deployment])
    (*_, check) = await check_grove(client, CONFIGURATION)
    account = "system:serviceaccount:grove-system:another"
    assert (check.status, check.message) == (
        "problem",
        f"authorization.authorizedUsers lacks {account}: Grove's operator exits if it may not write the managed ClusterTopology at start",
    )


EVIL = "system:serviceaccount:tenant:evil"


@pytest.mark.parametrize("namespace", ["tenant", "grove-system"])
@pytest.mark.parametrize("hooks", [[], [groves_webhooks("grove-system")]], ids=["off", "on"])
async def test_an_account_that_only_a_config_map_names_is_never_recommended(
    namespace: str, hooks: list[Object]
) -> None:
    own = config_map("a", "2026-01-01T00:00:00Z", settings(**ON))
    text = settings(**ON, authorizer={"reconcilerServiceAccountUserName": EVIL})
    planted = config_map("z", "2026-09-01T00:00:00Z", text, namespace=namespace)
    checks = await check_grove(MemoryClient([*hooks, own, planted]), CONFIGURATION)
    assert not any("tenant" in f"{check.message} {check.remedy}" for check in checks)


async def test_a_config_map_of_a_tenant_changes_nothing() -> None:
    own = config_map("a", "2026-01-01T00:00:00Z", settings(**ON))
    planted = config_map("z", "2026-09-01T00:00:00Z", settings(), namespace="tenant")
    without = await check_grove(MemoryClient([HOOKS, own]), CONFIGURATION)
    assert await check_grove(MemoryClient([HOOKS, own, planted]), CONFIGURATION) == without


@pytest.mark.parametrize("odd", [None, "on", [], {"enabled": "yes"}])
async def test_an_odd_section_counts_as_off(odd: Any) -> None:
    client = MemoryClient(
        [HOOKS, config_map("a", "2026-01-01T00:00:00Z", settings(topologyAwareScheduling=odd))]
    )
    checks = await check_grove(client, CONFIGURATION)
    assert [check.message.partition(":")[0] for check in checks if check.status == "problem"] == [
        "Grove's topology feature is off"
    ]


async def test_with_topology_off_here_groves_feature_is_not_looked_at() -> None:
    client = MemoryClient([HOOKS, config_map("a", "2026-01-01T00:00:00Z", settings())])
    checks = await check_grove(client, Configuration())
    assert [check.status for check in checks] == ["ok", "ok"]


DELETED = Check(
    "problem",
    "Grove's topology feature is on, but clusterTopology.enabled of grove-admission is false: our leader deletes the ClusterTopology grove-topology, and without it Grove's operator creates no PodGangs",
    "Set clusterTopology.enabled: true and Grove's levels in the configuration of grove-admission, or set config.topologyAwareScheduling.enabled: false in the values of Grove's chart, and upgrade the release.",
)
STORED = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopology",
    "metadata": {"name": "grove-topology"},
}


@pytest.mark.parametrize(
    ("ours", "groves", "stored", "problems"),
    [
        pytest.param(ClusterTopology(), True, [], [DELETED], id="Grove lacks it"),
        pytest.param(ClusterTopology(), True, [STORED], [], id="it is there"),
        pytest.param(ClusterTopology(), False, [], [], id="Grove needs none"),
        pytest.param(ClusterTopology(name="other"), True, [], [], id="ours has another name"),
        pytest.param(TOPOLOGY, True, [], [], id="our leader creates it"),
    ],
)
async def test_a_topology_that_our_leader_deletes_is_a_problem_if_grove_needs_it(
    ours: ClusterTopology, groves: bool, stored: list[Object], problems: list[Check]
) -> None:
    text = settings(topologyAwareScheduling={"enabled": groves})
    client = MemoryClient([HOOKS, config_map("a", "2026-01-01T00:00:00Z", text), *stored])
    configuration = Configuration().model_copy(update={"cluster_topology": ours})
    checks = await check_grove(client, configuration)
    assert [check for check in checks if check.status == "problem"] == problems


async def test_a_topology_that_may_not_be_read_is_not_called_deleted() -> None:
    client = MemoryClient([HOOKS, config_map("a", "2026-01-01T00:00:00Z", settings(**ON))])
    client.fail_next("get", CLUSTER_TOPOLOGY, Rejected("not yours", code=403))
    checks = await check_grove(client, Configuration())
    assert [check.status for check in checks] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("enabled", "message"),
    [
        pytest.param(True, "Grove's topology feature is on", id="on"),
        pytest.param(
            False,
            "Grove's topology feature is off: its webhook rejects PodCliqueSets with topology constraints",
            id="off",
        ),
    ],
)
async def test_an_operator_with_bindings_writes_no_topology(enabled: bool, message: str) -> None:
    text = settings(topologyAwareScheduling={"enabled": enabled})
    client = MemoryClient(
        [
            groves_webhooks("other"),
            config_map("a", "2026-01-01T00:00:00Z", text, namespace="other"),
        ],
        served=WITH_BINDINGS,
    )
    checks = await check_grove(client, CONFIGURATION)
    assert [check.message for check in checks] == ["Grove's authorizer is off", message]


async def test_without_an_operator_with_bindings_nobody_has_to_be_authorized() -> None:
    configuration = CONFIGURATION.model_copy(
        update={"authorization": Authorization.model_validate({"authorizedUsers": [ACCOUNT]})}
    )
    checks = await check_grove(MemoryClient(served=WITH_BINDINGS), configuration)
    assert [check.status for check in checks] == ["ok"]
