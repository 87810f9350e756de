"""Which known labels nodes have, where none has that of a level."""

import pytest

from app.facts.grove.topology import DOMAINS, Level
from app.rules.topology.coverage import Nodes, coverage_problems
from app.rules.topology.levels import labels_hint, suggested_levels, yaml_of_levels

TIER = "fabric.topograph.run/tier-"
DOMAIN = "accelerator.topograph.run/domain"
CLIQUE = "nvidia.com/gpu.clique"
LEAF = "network.topology.nvidia.com/leaf"
CLOSEST = "(tier-0 is the switch closest to a node)"


@pytest.mark.parametrize(
    ("key", "present", "words"),
    [
        pytest.param(LEAF, [], "", id="no labels"),
        pytest.param(LEAF, ["k/rack"], "", id="no known ones"),
        pytest.param(
            LEAF,
            [f"{TIER}1", f"{TIER}0", DOMAIN],
            f"; nodes have {TIER}0, {TIER}1, {DOMAIN} {CLOSEST}",
            id="the keys of Topograph 1.0, the closest first",
        ),
        pytest.param(f"{TIER}0", [LEAF], f"; nodes have {LEAF}", id="those before"),
        pytest.param(
            DOMAIN,
            [CLIQUE],
            f"; nodes have {CLIQUE}, and Topograph may omit {DOMAIN} on nodes that have {CLIQUE}",
            id="the NVLink clique in place of the domain",
        ),
    ],
)
def test_known_labels(key: str, present: list[str], words: str) -> None:
    assert labels_hint(key, present) == words


def test_the_problem_of_a_level_names_them() -> None:
    nodes = Nodes([({f"{TIER}0": "s1"}, 2), ({}, 1)])
    (problem,) = coverage_problems([Level("rack", LEAF)], lambda keys: nodes)
    assert problem.text == (
        f'level "rack": no node has the label {LEAF}, so pods that require this level stay pending;'
        f" nodes have {TIER}0 {CLOSEST}"
    )


AWS = "topology.k8s.aws/network-node-layer-"
GOOGLE = "cloud.google.com/gce-topology-"
CORE = "backend.coreweave.cloud/"
NEBIUS = "topology.nebius.com/"
ORACLE = "oci.oraclecloud.com/rdma."


@pytest.mark.parametrize(
    ("present", "levels"),
    [
        pytest.param(["k/rack"], "", id="no known ones"),
        pytest.param(
            [f"{AWS}3", f"{AWS}1", f"{AWS}2"],
            f"datacenter={AWS}1 block={AWS}2 rack={AWS}3",
            id="AWS",
        ),
        pytest.param(
            [f"{GOOGLE}subblock", f"{GOOGLE}host", f"{GOOGLE}block"],
            f"block={GOOGLE}block rack={GOOGLE}subblock",
            id="Google Cloud",
        ),
        pytest.param(
            [f"{CORE}leafgroup", f"{CORE}fabric", "ds.coreweave.com/nvlink.domain"],
            f"datacenter={CORE}fabric block={CORE}leafgroup rack=ds.coreweave.com/nvlink.domain",
            id="CoreWeave",
        ),
        pytest.param(
            [f"{ORACLE}local_block_id", f"{ORACLE}network_block_id"],
            f"block={ORACLE}network_block_id rack={ORACLE}local_block_id",
            id="Oracle Cloud without the island",
        ),
        pytest.param(
            ["oci.oraclecloud.com/host.rack_id", "oci.oraclecloud.com/host.network_block_id"],
            "block=oci.oraclecloud.com/host.network_block_id rack=oci.oraclecloud.com/host.rack_id",
            id="Oracle Cloud without RDMA labels",
        ),
        pytest.param(
            [f"{AWS}{layer}" for layer in (4, 3, 2, 1)],
            f"zone={AWS}1 datacenter={AWS}2 block={AWS}3 rack={AWS}4",
            id="AWS with four layers",
        ),
        pytest.param(
            [f"{NEBIUS}tier-0", f"{NEBIUS}tier-1", f"{NEBIUS}tier-2", f"{NEBIUS}gpu-cluster-id"],
            f"zone={NEBIUS}gpu-cluster-id datacenter={NEBIUS}tier-2 block={NEBIUS}tier-1 rack={NEBIUS}tier-0",
            id="Nebius",
        ),
        pytest.param(
            ["crusoe.ai/pod.id", "crusoe.ai/ib.partition.id", "nvidia.com/gpu.clique"],
            "block=crusoe.ai/ib.partition.id rack=crusoe.ai/pod.id",
            id="Crusoe",
        ),
        pytest.param(
            [f"{TIER}0", f"{TIER}1", f"{AWS}1"],
            f"block={TIER}1 rack={TIER}0",
            id="the source with most labels",
        ),
    ],
)
def test_levels_to_paste(present: list[str], levels: str) -> None:
    found = suggested_levels(present)
    assert " ".join(f"{level.domain}={level.key}" for level in found[:-1]) == levels
    assert not found or found[-1] == Level("host", "kubernetes.io/hostname")
    names = [level.domain for level in found]
    assert names == [name for name in DOMAINS if name in names]


def test_levels_can_be_pasted() -> None:
    levels = (Level("rack", "example.com/rack"), Level("host", "kubernetes.io/hostname"))
    assert yaml_of_levels(levels) == (
        "[{domain: rack, key: example.com/rack}, {domain: host, key: kubernetes.io/hostname}]"
    )
