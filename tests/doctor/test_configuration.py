"""The configuration of the server that doctor finds without --config.

Tests `app/doctor/configuration.py`.
"""

from typing import Any

import pytest

from app.doctor.configuration import Found, find_configuration
from app.kube.api import Rejected
from app.objects.resource import CONFIG_MAP, DEPLOYMENT, Resource
from tests.kube.memory.client import MemoryClient
from tests.rendered import of_kind, rendered

Object = dict[str, Any]
TEXT = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology: {enabled: true, name: mine, levels: [{domain: host, key: kubernetes.io/hostname}]}
"""


def config_map(text: str = TEXT, name: str = "configuration-1", key: str = "config.yaml") -> Object:
    metadata = {"name": name, "namespace": "gpu-policy"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {key: text}}


def deployment(*config_maps: str, env: tuple[Object, ...] = ()) -> Object:
    volumes: list[Object] = [{"name": "certificates", "emptyDir": {}}]
    volumes += [{"name": name, "configMap": {"name": name}} for name in config_maps]
    containers = [
        {"name": "proxy", "env": [{"name": "GROVE_ADMISSION_CERTIFICATES_MODE", "value": "wrong"}]},
        {"name": "grove-admission", "env": [*env]},
    ]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "grove-admission", "namespace": "gpu-policy"},
        "spec": {"template": {"spec": {"containers": containers, "volumes": volumes}}},
    }


MODE = {"name": "GROVE_ADMISSION_CERTIFICATES_MODE", "value": "self-managed"}
FIELD: Object = {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {}}}


async def found(*objects: Object) -> Found | None:
    return await find_configuration(MemoryClient(objects), "gpu-policy")


async def test_it_is_that_of_the_replicas() -> None:
    objects = (
        deployment("cas", "configuration-1", env=(MODE, FIELD)),
        config_map("pem", "cas", "ca.crt"),
        config_map(),
        config_map(TEXT.replace("mine", "old"), "configuration-0"),
    )
    known = await found(*objects)
    assert known
    assert known.source == "ConfigMap gpu-policy/configuration-1"
    assert known.configuration
    assert known.configuration.cluster_topology.name == "mine"
    assert known.configuration.certificates.mode == "self-managed"
    assert known.configuration.certificates.namespace == "gpu-policy"
    assert known.configuration.leader_election.namespace == "gpu-policy"


async def test_it_is_found_in_the_manifests() -> None:
    objects = rendered("overlays/self-managed")
    stored = [of_kind(objects, kind) for kind in ("Deployment", "ConfigMap")]
    known = await find_configuration(MemoryClient(stored), "grove-system")
    assert known
    assert known.configuration
    assert known.configuration.certificates.mode == "self-managed"


async def test_all_its_mistakes_are_told() -> None:
    text = TEXT.replace("name: mine", "nam: mine") + "server: {prot: 1}\n"
    assert await found(deployment("configuration-1"), config_map(text)) == Found(
        "ConfigMap gpu-policy/configuration-1",
        None,
        "ConfigMap gpu-policy/configuration-1: clusterTopology.nam: unknown key. Did you mean name?; server.prot: unknown key. Did you mean port?",
    )


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param((), id="no Deployment"),
        pytest.param((deployment(), config_map()), id="no volume"),
        pytest.param((deployment("other"), config_map()), id="no ConfigMap"),
        pytest.param(
            (deployment("configuration-1"), config_map(key="ca.crt")), id="no configuration"
        ),
    ],
)
async def test_there_may_be_none(objects: tuple[Object, ...]) -> None:
    assert await found(*objects) is None


@pytest.mark.parametrize("resource", [DEPLOYMENT, CONFIG_MAP])
async def test_who_may_not_read_it_finds_none(resource: Resource) -> None:
    client = MemoryClient((deployment("configuration-1"), config_map()))
    client.fail_next("get", resource, Rejected("not you", code=403, reason="Forbidden"))
    assert await find_configuration(client, "gpu-policy") is None
