"""The command lines of topology, on files."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.base.record import record_of
from app.cli import main
from app.commands.records import KIND
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.selectors import Taint
from tests.commands.test_explain import FULL, written
from tests.explain import fleet
from tests.explain.fleet import RACK, ZONE, facts
from tests.explain.table.devices import WITHOUT_PLUGIN, gpus, taken
from tests.explain.table.row import without


@pytest.mark.untraced
def test_topology_shows_levels_and_room(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, facts(**FULL))
    assert main(["topology", "--room", "3x8", "--in", "rack", "--offline", path]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "room for 3 pods of 8 GPUs in one rack: none; zone-b/rack-b1 2, zone-a/rack-a1 0, zone-a/rack-a2 0",
        "no domain of a wider level has room for all of these pods either",
        "ClusterTopology grove-topology: 16 nodes in 2 zones and 4 racks",
        "level  label                        nodes     domains",
        "zone   topology.kubernetes.io/zone  16 of 16  2",
        "rack   example.com/rack             15 of 16  4        1 finding",
        "host   kubernetes.io/hostname       16 of 16  15",
        "  1  Node gpu-13 (8 GPUs) lacks the label example.com/rack, so KAI ignores it for every gang with a constraint.  LevelLabelMissing",
        "     fix: Label the node (platform team)",
        "          kubectl label node gpu-13 example.com/rack=rack-b2",
        "zone-a  2 racks  8 nodes  0 of 64 GPUs free",
        "zone-b  2 racks  7 nodes  16 of 56 GPUs free  rack-b1 16",
    ]


def test_topology_shows_one_domain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, facts(**FULL))
    assert main(["topology", "rack=rack-b1", "--offline", path]) == 1
    assert capsys.readouterr().out.splitlines()[-5:] == [
        "zone-b/rack-b1  4 hosts  16 of 32 GPUs free  gpu-08 8, gpu-09 8",
        "gpu-08  8 of 8 GPUs free",
        "gpu-09  8 of 8 GPUs free",
        "gpu-10  0 of 8 GPUs free    research/batch-eval",
        "gpu-11  0 of 8 GPUs free    research/batch-eval",
    ]


def test_topology_finds_room(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, facts())
    assert main(["topology", "--room", "4x8", "--offline", path]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    names = "zone-a/rack-a1, zone-a/rack-a2, zone-b/rack-b1 and zone-b/rack-b2"
    assert first == f"room for 4 pods of 8 GPUs in one rack: 4 of 4 racks; {names}"


@pytest.mark.untraced
def test_topology_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, facts(**FULL))
    assert (
        main(["topology", "--room", "3x8", "--in", "rack", "--output", "json", "--offline", path])
        == 1
    )
    document = json.loads(capsys.readouterr().out)
    assert document["outside"] == ["gpu-13"]
    assert document["domains"][1] == {
        "path": ["zone-b"], "nodes": 7, "closed": 0, "gpus": 56, "free": 16, "soon": 0
    }  # fmt: skip
    assert document["room"]["domains"][0] == {
        "path": ["zone-b", "rack-b1"],
        "pods": 2,
        "withLabels": 2,
    }


LEVELS = """
apiVersion: grove.io/v1alpha1
kind: ClusterTopology
metadata: {name: grove-topology}
spec: {levels: [{domain: zone, key: topology.kubernetes.io/zone}, {domain: host, key: kubernetes.io/hostname}]}
"""
CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology: {enabled: true, levels: [{domain: zone, key: example.com/zone}, {domain: rack, key: example.com/rack}]}
"""


def test_one_domain_in_json_has_the_workloads_that_use_its_gpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, facts(**FULL))
    assert main(["topology", "rack=rack-a1", "-o", "json", "--offline", path]) == 1
    (user,) = json.loads(capsys.readouterr().out)["users"]
    assert (user["workload"]["name"], user["gpus"], user["nodes"]) == ("batch-eval", 32, 4)
    main(["topology", "-o", "json", "--offline", path])
    assert "users" not in json.loads(capsys.readouterr().out)


def test_an_edit_of_levels_is_previewed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, facts())
    (tmp_path / "levels.yaml").write_text(LEVELS)
    assert main(["topology", "--levels", str(tmp_path / "levels.yaml"), "--offline", path]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        "with the levels zone and host: 1 PodCliqueSet affected",
        "! inference/llm  loses required rack of scaling group pool, because that level is removed  (spec.template.podCliqueScalingGroups[0].topologyConstraint.packDomain)",
    ]
    (tmp_path / "levels.yaml").write_text(CONFIGURATION)
    levels = str(tmp_path / "levels.yaml")
    assert main(["topology", "--levels", levels, "--output", "json", "--offline", path]) == 1
    (effect,) = json.loads(capsys.readouterr().out)["preview"]["effects"]
    assert (
        effect["text"]
        == "required zone means example.com/zone instead of topology.kubernetes.io/zone; running gangs are not moved"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--room", "10"], "--room takes NxG"),
        (["--in", "rack"], "--in needs --room"),
        (
            ["--room", "3x8", "--in", "block"],
            "--in block: no such level; the levels are zone, rack and host",
        ),
        (["block=b1"], "'block=b1': block is not a level; the levels are zone, rack and host"),
        (
            ["rack"],
            "'rack' is not LEVEL=VALUE, such as zone=zone-a; the levels are zone, rack and host",
        ),
        (
            ["rack-b1"],
            "'rack-b1' is not LEVEL=VALUE, such as zone=zone-a; did you mean rack=rack-b1?",
        ),
        (
            ["=a1"],
            "'=a1' is not LEVEL=VALUE, such as zone=zone-a; the levels are zone, rack and host",
        ),
        (
            ["--name", "other"],
            "--name other: no such topology; existing topologies: grove-topology",
        ),
        (["rack=rack-z9"], "'rack=rack-z9': no node has example.com/rack=rack-z9"),
    ],
)
def test_unusable_input_is_2(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topology", *options, "--offline", written(tmp_path, facts())]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_a_file_without_levels_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, facts(topologies=()))
    assert main(["topology", "--levels", path, "--offline", path]) == 2
    assert (
        "no ClusterTopology, ClusterTopologyBinding or OperatorConfiguration with levels"
        in capsys.readouterr().err
    )


BINDING = (
    "kind: ClusterTopologyBinding\nmetadata: {name: b}\nspec: {levels: [{domain: Rack, key: r}]}\n"
)


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            LEVELS.replace("domain: zone", "domain: shelf"),
            'spec.levels[0].domain: Unsupported value: "shelf"',
        ),
        (
            CONFIGURATION.replace("key: example.com/rack", "keys: 1"),
            "clusterTopology.levels[1].key: Required value",
        ),
        (
            CONFIGURATION.replace("enabled: true, levels: [", "of: ["),
            "clusterTopology.levels: Required value",
        ),
        (BINDING, "spec.levels[0].domain: Invalid value"),
    ],
)
def test_levels_that_would_be_rejected_are_2(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "levels.yaml").write_text(text)
    levels = str(tmp_path / "levels.yaml")
    assert main(["topology", "--levels", levels, "--offline", written(tmp_path, facts())]) == 2
    assert capsys.readouterr().err.startswith(f"{tmp_path}/levels.yaml: {message}")


def test_room_is_not_known_without_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, facts(pods=()))
    assert main(["topology", "--room", "3x8", "--offline", path]) == 2
    printed = capsys.readouterr()
    assert printed.err == "Cannot tell whether there is room: pods are missing from the files.\n"
    assert printed.out == ""
    assert main(["topology", "--offline", path]) == 0
    assert "64 GPUs, free: not known" in capsys.readouterr().out


def test_room_counts_gpus_of_device_plugins_and_of_dra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_dra = {n.name for n in fleet.nodes()[:2]}
    mixed = tuple(
        plain if plain.name in by_dra else full
        for plain, full in zip(WITHOUT_PLUGIN, fleet.nodes(), strict=True)
    )
    snapshot = facts(
        nodes=mixed, slices=tuple(gpus(name) for name in sorted(by_dra)), claims=taken("gpu-00")
    )
    assert (
        main(["topology", "--room", "4x8", "--offline", written(tmp_path, snapshot, "a.yaml")]) == 0
    )
    printed = capsys.readouterr().out
    assert "zone-a  2 racks  8 nodes  63 of 64 GPUs free" in printed
    assert printed.splitlines()[0] == (
        "room for 4 pods of 8 GPUs in one rack: 3 of 4 racks; zone-a/rack-a2, zone-b/rack-b1 and zone-b/rack-b2"
    )


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("room", "level", "lines", "code"),
    [
        (
            "6x8",
            "rack",
            [
                "room for 6 pods of 8 GPUs in one rack: none; zone-a/rack-a1 4, zone-a/rack-a2 4, zone-b/rack-b1 4",
                "room for 6 pods of 8 GPUs in one zone: 2 of 2 zones; zone-a and zone-b",
            ],
            1,
        ),
        (
            "9x8",
            "zone",
            [
                "room for 9 pods of 8 GPUs in one zone: none; zone-a 8, zone-b 8",
                "no domain of a wider level has room for all of these pods either",
            ],
            1,
        ),
        ("1x16", "rack", ["no node has 16 GPUs: the largest has 8 GPUs"], 1),
        ("1x8", "host", ["room for 1 pod of 8 GPUs in one host: 16 of 16 hosts; "], 0),
    ],
)
def test_the_answer_about_room_is_first(
    room: str,
    level: str,
    lines: list[str],
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its exit code is that of the answer, whatever there is to look at in the topology."""
    snapshot = facts()
    path = written(tmp_path, snapshot)
    assert main(["topology", "--room", room, "--in", level, "--offline", path]) == code
    printed = capsys.readouterr().out.splitlines()
    assert [line[: len(text)] for line, text in zip(printed, lines, strict=False)] == lines
    assert printed[len(lines)].startswith("ClusterTopology grove-topology: ")


def test_room_in_json_has_the_next_wider_level(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, facts())
    assert main(["topology", "--room", "6x8", "--in", "rack", "-o", "json", "--offline", path]) == 1
    room = json.loads(capsys.readouterr().out)["room"]
    assert (room["level"], room["wider"]["level"], room["largestNode"]) == ("rack", "zone", 8)


@pytest.mark.untraced
@pytest.mark.parametrize(("key", "racks"), [("nvidia.com/gpu", "4 of 4 racks"), ("own", "none")])
def test_a_taint_that_is_named_after_gpus_closes_no_node_for_them(
    key: str, racks: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [replace(each, taints=(Taint(key, "", "NoSchedule"),)) for each in fleet.nodes()]
    path = written(tmp_path, facts(nodes=tuple(nodes), pods=(fleet.occupant("gpu-00", gpus=1),)))
    main(["topology", "--room", "3x8", "--in", "rack", "--offline", path])
    printed = capsys.readouterr().out
    assert printed.startswith(f"room for 3 pods of 8 GPUs in one rack: {racks};")
    assert ("closed" in printed) == (key == "own")


def test_room_says_that_the_nodes_of_all_node_pools_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        replace(node, labels={**node.labels, "kai.scheduler/node-pool": "gold"})
        for node in fleet.nodes()[:8]
    ]
    path = written(tmp_path, facts(nodes=(*nodes, *fleet.nodes()[8:])))
    arguments = ["topology", "--room", "8x8", "--in", "zone", "--offline", path]
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "room for 8 pods of 8 GPUs in one zone: 2 of 2 zones; zone-a and zone-b",
        "the nodes of all node pools are counted (no pool and gold), but a gang uses only one pool",
    ]
    assert main([*arguments, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["room"]["nodePools"] == ["", "gold"]


def test_a_key_on_no_node_is_said_loudly_and_gets_no_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, facts())
    levels = tmp_path / "levels.yaml"
    levels.write_text(LEVELS.replace("topology.kubernetes.io/zone", "example.com/zoen"))
    assert main(["topology", "--levels", str(levels), "--offline", path]) == 1
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] == (
        "! No node has the label example.com/zoen, so no gang with a constraint would be placed"
    )
    assert "kubectl label" not in printed
    assert main(["topology", "--levels", str(levels), "-o", "json", "--offline", path]) == 1
    assert json.loads(capsys.readouterr().out)["preview"]["keysOnNoNode"] == ["example.com/zoen"]


def test_a_level_in_force_whose_key_is_on_no_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, facts(nodes=without(fleet.RACK, *(n.name for n in fleet.nodes()))))
    assert main(["topology", "--offline", path]) == 1
    printed = capsys.readouterr().out
    assert (
        "No node has the label example.com/rack (level rack), so KAI ignores all 16 nodes"
        in printed
    )
    assert "; nodes have" not in printed
    assert "kubectl label" not in printed


def test_nodes_have_the_keys_of_another_release_of_topograph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tier = "fabric.topograph.run/tier-0"
    named = without(fleet.RACK, *(node.name for node in fleet.nodes()))
    nodes = tuple(replace(node, labels={**node.labels, tier: "s1"}) for node in named)
    assert main(["topology", "--offline", written(tmp_path, facts(nodes=nodes))]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "for every gang with a constraint;"
        f" nodes have {tier} (tier-0 is the switch closest to a node)"
    ) in printed


@pytest.mark.parametrize("options", [[], ["--if", "cordon gpu-00"]])
def test_the_topology_of_kai_is_shown_without_its_name_if_grove_has_none(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kais = (KaiTopology("net", (RACK,)), KaiTopology("other", (ZONE,)))
    path = written(tmp_path, facts(topologies=(), kai_topologies=kais))
    main(["topology", "rack=rack-a1", "--offline", path, *options])
    out = capsys.readouterr().out
    assert "rack-a1  " in out
    if not options:
        assert out.startswith("KAI Topology net: 16 nodes in 4 racks\n")


def test_the_only_level_is_named_in_the_singular(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(
        tmp_path, facts(kai_topologies=(KaiTopology("network", (RACK,)),), topologies=())
    )
    assert main(["topology", "zone=a", "--offline", path]) == 2
    assert "zone is not a level; the level is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("unseen", "words"),
    [
        (("room",), "pods of all namespaces could not be read"),
        (("slices",), "ResourceSlices could not be read"),
        (("nodes", "slices"), "nodes and ResourceSlices could not be read"),
    ],
)
def test_without_room_it_says_what_could_not_be_read(
    unseen: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(record_of(KIND, facts(unseen=dict.fromkeys(unseen, "not available"))))
    assert main(["topology", "--offline", str(path), "--room", "1x1"]) == 2
    assert capsys.readouterr().err == f"Cannot tell whether there is room: {words}.\n"
